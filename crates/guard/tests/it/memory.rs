//! The World in memory and the World of the guard give the same answers on the same small trees.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use sinew_testkit::{MemoryWorld, ROOT};
use sinew_tool::{
    Access, Becomes, Claim, CommitError, Expect, FileError, FileKind, FileMode, FileOp, FileState,
    Links, Seen, Slot, Targets, ToolError, WalkOptions, World,
};

use crate::tree::{Names, RESOLVERS, Tree, allow};

/// One thing in a tree.
#[derive(Debug, Clone)]
enum Thing {
    File(&'static str, &'static str),
    Directory(&'static str),
    Link(&'static str, &'static str),
}

const PATHS: &[&str] = &["a", "b", "d", "d/a", "d/e", "d/e/b", "l", "d/l", ".git", ".hidden/x"];
const TARGETS: &[&str] =
    &["a", "d", "nothing", "..", ".", "../a", "e", "l", "d/e", "../nothing", "ROOT/d", "d/../a"];
const CONTENTS: &[&str] = &["", "one\n", "two"];
const ASKED: &[&str] = &[
    "a",
    "b",
    "d",
    "d/a",
    "d/e/b",
    "l",
    "l/a",
    "l/e",
    "d/l",
    "d/l/a",
    ".",
    "./a",
    "d/..",
    "d/../a",
    "l/..",
    "l/../a",
    "nothing",
    "nothing/x",
    "d/",
    "a/",
    "l/",
    "a/x",
    "../a",
    "..",
    "ROOT/a",
    "ROOT/l/a",
    "ROOT",
    "nothing/../a",
    "",
    "/etc/passwd",
    "d//e/b",
    "new/dir/file",
    "l/new",
];

fn things() -> impl Strategy<Value = Vec<Thing>> {
    let path = || prop::sample::select(PATHS);
    let thing = prop_oneof![
        (path(), prop::sample::select(CONTENTS)).prop_map(|(path, text)| Thing::File(path, text)),
        path().prop_map(Thing::Directory),
        (path(), prop::sample::select(TARGETS)).prop_map(|(path, to)| Thing::Link(path, to)),
    ];
    prop::collection::vec(thing, 0..10)
}

/// Lays out the same tree twice. What does not fit into the real one is left out of both.
fn lay_out(things: &[Thing]) -> (Tree, MemoryWorld) {
    let (tree, memory) = (Tree::new(), MemoryWorld::new());
    let real_root = tree.root.display().to_string();
    for thing in things {
        let (Thing::File(path, _) | Thing::Directory(path) | Thing::Link(path, _)) = thing;
        let real = tree.root.join(path);
        if !is_plain(&tree, path) || fs::symlink_metadata(&real).is_ok() {
            continue;
        }
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        match thing {
            Thing::File(path, text) => {
                fs::write(&real, text).unwrap();
                memory.file(path, text);
            }
            Thing::Directory(path) => {
                fs::create_dir(&real).unwrap();
                memory.directory(path);
            }
            Thing::Link(path, target) => {
                symlink(target.replace("ROOT", &real_root), &real).unwrap();
                memory.link(path, &target.replace("ROOT", ROOT));
            }
        }
    }
    (tree, memory)
}

/// Returns whether no link or file is on the way to a path.
fn is_plain(tree: &Tree, path: &str) -> bool {
    let path = tree.root.join(path);
    let above = path.ancestors().skip(1).take_while(|above| *above != tree.root);
    above.into_iter().all(|above| fs::symlink_metadata(above).map_or(true, |meta| meta.is_dir()))
}

/// What one World answers to one claim, in words that both can say.
fn answers(
    contained: Result<(Targets, World), ToolError>,
    root: &str,
    access: Access,
) -> Vec<String> {
    let (targets, world) = match contained {
        Ok(contained) => contained,
        Err(error) => return vec![format!("refused {}", error.kind)],
    };
    let target = &targets.files[0];
    let word = |error: FileError| error.about("it").kind.to_string();
    let mut said = vec![match &target.state {
        FileState::Missing => String::from("missing"),
        FileState::Found(meta) => {
            format!("{} at {}", meta.kind.as_str(), target.path.display()).replace(root, "ROOT")
        }
    }];
    said.push(match world.files.meta(Slot(0)) {
        Ok(meta) => meta.kind.as_str().to_owned(),
        Err(error) => word(error),
    });
    said.push(match world.files.open(Slot(0)) {
        Ok(opened) => std::io::read_to_string(opened.file).unwrap(),
        Err(error) => word(error),
    });
    match access {
        Access::Read | Access::Search | Access::Lend { .. } => look_beneath(&world, &mut said),
        Access::Inspect => said.push(match world.files.link(Slot(0)) {
            Ok(target) => String::from_utf8_lossy(&target).replace(root, "ROOT"),
            Err(error) => word(error),
        }),
        Access::Make => {
            said.push(match world.files.make_directory(Slot(0)) {
                Ok(made) => format!("made {made}"),
                Err(error) => word(error),
            });
            let changes = world.files.changes().into_iter();
            said.extend(changes.map(|change| format!("{change:?}").replace(root, "ROOT")));
        }
        // There is no name to move to.
        Access::Move => said.push(match world.files.rename(Slot(0)) {
            Ok(()) => String::from("moved"),
            Err(error) => word(error),
        }),
        Access::Remove => {
            let deed = FileOp { slot: Slot(0), expect: Expect::Any, becomes: Becomes::Nothing };
            said.push(match world.files.commit(&[deed]) {
                Ok(written) => format!("{written:?}"),
                Err(error) => word(error.error),
            });
            said.push(world.files.meta(Slot(0)).err().map_or("there".into(), word));
        }
        Access::Write { .. } | Access::Edit { .. } => {
            said.push(match world.files.replace(Slot(0), &[b"new ", b"text"], Expect::Any) {
                Ok(written) => format!("{written:?}"),
                Err(error) => word(error),
            });
            said.push(match world.files.open(Slot(0)) {
                Ok(opened) => std::io::read_to_string(opened.file).unwrap(),
                Err(error) => word(error),
            });
            let changes = world.files.changes().into_iter();
            said.extend(changes.map(|change| format!("{change:?}").replace(root, "ROOT")));
        }
    }
    said
}

fn look_beneath(world: &World, said: &mut Vec<String>) {
    let word = |error: FileError| error.about("it").kind.to_string();
    said.push(match world.files.list(Slot(0), 3) {
        Ok(listing) => {
            let rows: Vec<_> = listing.rows.iter().map(|row| (&row.path, row.kind)).collect();
            format!("{rows:?} of {}", listing.total)
        }
        Err(error) => word(error),
    });
    for (directories, enter_state, max_depth) in
        [(false, false, None), (true, true, None), (true, false, Some(1))]
    {
        let options = WalkOptions { heed_ignore: true, enter_state, max_depth, directories };
        let names = Names(Mutex::default());
        let report = world.files.walk(Slot(0), &options, &names, &AtomicBool::new(false));
        let mut names = names.0.into_inner().unwrap();
        names.sort();
        said.push(match report {
            Ok(report) => format!("{names:?} {report:?}"),
            Err(error) => word(error),
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_worlds_answer_the_same(
        things in things(),
        asked in prop::collection::vec(prop::sample::select(ASKED), 4),
        access in prop::sample::select(vec![
            Access::Read,
            Access::Search,
            Access::Edit { links: Links::Follow },
            Access::Edit { links: Links::Refuse },
            Access::Write { parents: true, links: Links::Follow },
            Access::Write { parents: true, links: Links::Refuse },
            Access::Write { parents: false, links: Links::Follow },
            Access::Write { parents: true, links: Links::Itself },
            Access::Edit { links: Links::Itself },
            Access::Inspect,
            Access::Remove,
            Access::Make,
            Access::Move,
        ]),
    ) {
        for resolver in RESOLVERS {
            let (tree, memory) = lay_out(&things);
            let guard = tree.guard(resolver);
            let real_root = tree.root.display().to_string();
            for path in &asked {
                let claim = |root: &str| Claim::new("path", Some(path.replace("ROOT", root)), access);
                let real = guard.contain(&[claim(&real_root)], None, None).map(|contained| {
                    let targets = (**contained.targets()).clone();
                    (targets, allow(contained).world)
                });
                let imagined = memory
                    .context(vec![claim(ROOT)], access.changes())
                    .map(|cx| ((*cx.targets).clone(), cx.world));
                prop_assert_eq!(
                    answers(real, &real_root, access),
                    answers(imagined, ROOT, access),
                    "{} {:?} {:?}", path, access, resolver
                );
            }
        }
    }

    #[test]
    fn both_worlds_make_the_same_sets_of_changes(
        things in things(),
        asked in prop::collection::vec((prop::sample::select(ASKED), 0_usize..8, 0_usize..3), 1..5),
    ) {
        // What dots mean changes with the directories that are made on the way.
        let has_dots = asked.iter().any(|(path, ..)| path.ends_with('.') || path.contains(".."));
        let of_file = |(path, what, how)| (path, if has_dots { what % 6 } else { what }, how);
        let asked: Vec<(&str, usize, usize)> = asked.into_iter().map(of_file).collect();
        for resolver in RESOLVERS {
            let (tree, memory) = lay_out(&things);
            let guard = tree.guard(resolver);
            let real_root = tree.root.display().to_string();
            let claims = |root: &str| -> Vec<Claim> {
                let claim = |(path, what, _): &(&str, usize, usize)| Claim::new("patch", Some(path.replace("ROOT", root)), asked_access(*what));
                asked.iter().map(claim).collect()
            };
            let real = guard.contain(&claims(&real_root), None, None).map(|contained| {
                allow(contained).world
            });
            let imagined = memory.context(claims(ROOT), true).map(|cx| cx.world);
            let (real, imagined) = match (real, imagined) {
                (Ok(real), Ok(imagined)) => (real, imagined),
                (Err(real), Err(imagined)) => {
                    prop_assert_eq!(real.kind, imagined.kind);
                    continue;
                }
                (real, imagined) => {
                    return Err(TestCaseError::fail(format!(
                        "{:?} and {:?}", real.err(), imagined.err()
                    )));
                }
            };
            let (real, imagined) = (set(&real, &asked), set(&imagined, &asked));
            let (real, imagined) = (told(real, &real_root, &things), told(imagined, ROOT, &things));
            prop_assert_eq!(real, imagined, "{:?}", resolver);
            for path in PATHS.iter().filter(|path| is_plain(&tree, path)) {
                let real = fs::symlink_metadata(tree.root.join(path)).ok();
                let imagined = memory.meta(path);
                prop_assert_eq!(
                    real.as_ref().map(|meta| (meta.is_file(), meta.is_dir(), meta.is_symlink())),
                    imagined.as_ref().map(|meta| (
                        meta.kind == FileKind::File,
                        meta.kind == FileKind::Directory,
                        meta.kind == FileKind::Symlink,
                    )),
                    "{}", path
                );
                if real.is_some_and(|meta| meta.is_file()) {
                    let content = fs::read(tree.root.join(path)).ok();
                    prop_assert_eq!(content, memory.content(path), "{}", path);
                }
            }
        }
    }

    #[test]
    fn both_worlds_move_the_same(
        things in things(),
        from in prop::sample::select(ASKED),
        to in prop::sample::select(ASKED),
    ) {
        check_move(&things, from, to)?;
    }
}

/// Moves the same path in both Worlds, and compares their reports and their trees afterwards.
fn check_move(things: &[Thing], from: &str, to: &str) -> Result<(), TestCaseError> {
    for resolver in RESOLVERS {
        let (tree, memory) = lay_out(things);
        let guard = tree.guard(resolver);
        let real_root = tree.root.display().to_string();
        let claims = |root: &str| -> Vec<Claim> {
            let write = Access::Write { parents: false, links: Links::Itself };
            [(from, Access::Move), (to, write)]
                .map(|(path, access)| {
                    // A slash at the end says nothing of a name; who moves leaves it out.
                    let path = path.trim_end_matches('/').replace("ROOT", root);
                    Claim::new("path", Some(path), access)
                })
                .to_vec()
        };
        let real =
            guard.contain(&claims(&real_root), None, None).map(|contained| allow(contained).world);
        let imagined = memory.context(claims(ROOT), true).map(|cx| cx.world);
        let moved = |world: Result<World, ToolError>| {
            let Ok(world) = world else { return String::from("refused") };
            match world.files.rename(Slot(0)) {
                Ok(()) => format!("{:?}", world.files.changes()),
                // Callers may not rely on which of several faults is reported.
                Err(_) => String::from("refused"),
            }
        };
        let real = told(moved(real), &real_root, things);
        prop_assert_eq!(real, told(moved(imagined), ROOT, things), "{:?}", resolver);
        let is_name = |path: &&&str| {
            let parts = || path.split('/');
            !path.contains("ROOT") && parts().all(|part| !matches!(part, "" | "." | ".."))
        };
        for path in PATHS.iter().chain(ASKED).filter(is_name) {
            if is_plain(&tree, path) {
                let real = fs::symlink_metadata(tree.root.join(path)).is_ok();
                prop_assert_eq!(real, memory.meta(path).is_some(), "{}", path);
            }
        }
    }
    Ok(())
}

/// The length of an absolute link was compared, and the two roots have names of different lengths.
#[test]
fn absolute_link_moves_the_same() {
    check_move(&[Thing::Link("a", "ROOT/d")], "a", "b").unwrap();
}

/// Returns what a World said, with nothing in it of where its root is.
fn told(said: String, root: &str, things: &[Thing]) -> String {
    let said = said.replace(root, "ROOT");
    // The content of a link is its target; of an absolute one, hash and length say where it is.
    things.iter().fold(said, |said, thing| match thing {
        Thing::Link(_, target) => {
            let real = target.replace("ROOT", root);
            let hash = blake3::hash(real.as_bytes()).to_hex();
            let told = format!("hash of {target}");
            let length = format!("{told}), bytes: {} ", real.len());
            said.replace(hash.as_str(), &told).replace(&length, &format!("{told}) "))
        }
        _ => said,
    })
}

fn asked_access(what: usize) -> Access {
    match what {
        0 => Access::Write { parents: true, links: Links::Itself },
        1 => Access::Write { parents: true, links: Links::Follow },
        2 => Access::Edit { links: Links::Follow },
        3 => Access::Write { parents: false, links: Links::Itself },
        4 => Access::Read,
        6 => Access::Write { parents: true, links: Links::Itself },
        _ => Access::Remove,
    }
}

/// Makes all changes that are asked for; what it says is the same for both Worlds.
fn set(world: &World, asked: &[(&str, usize, usize)]) -> String {
    let known: Vec<_> = (0..asked.len())
        .map(|at| {
            let mut content = Vec::new();
            let meta = world.files.meta(Slot(at)).ok();
            match world.files.open(Slot(at)) {
                Ok(mut opened) => drop(opened.file.read_to_end(&mut content)),
                Err(_) => content = world.files.link(Slot(at)).unwrap_or_default(),
            }
            (meta.map(|meta| meta.identity), content)
        })
        .collect();
    let deeds: Vec<FileOp<'_>> = asked
        .iter()
        .zip(&known)
        .enumerate()
        .map(|(at, ((_, what, how), (identity, content)))| FileOp {
            slot: Slot(at),
            expect: match (how, identity) {
                (0, _) => Expect::Any,
                (1, _) => Expect::Nothing,
                (_, Some(identity)) => Expect::Same(Seen::new(*identity, content)),
                (_, None) => Expect::Nothing,
            },
            becomes: match (what, how) {
                (5, _) => Becomes::Nothing,
                (6, _) => Becomes::Directory { mode: None },
                (7, _) => Becomes::NoDirectory,
                (0, 2) => Becomes::Link(b"a"),
                _ => {
                    let mode = FileMode::Executable(*how == 1);
                    Becomes::File { pieces: &[b"new ", b"text"], mode, like: None }
                }
            },
        })
        .collect();
    match world.files.commit(&deeds) {
        Ok(written) => format!("{written:?} {:?}", world.files.changes()),
        // Callers may not rely on which of several faults is reported.
        Err(_) if 1 < asked.len() => String::from("refused"),
        Err(CommitError { slot, error }) => format!("{slot:?} {}", error.about("it").kind),
    }
}
