//! Several changes happen together or not at all, whatever stands in the way of one of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{
    CWD, FlockOperation, Mode, OFlags, XattrFlags, flock, lgetxattr, lsetxattr, openat,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sinew_guard::{Cleared, DirLocking, Guard, GuardSettings, JournalSettings};
use sinew_tool::{
    Access, Becomes, Claim, CommitError, Expect, FileError, FileMode, FileOp, FileSettings,
    HardLinks, Identity, Links, Seen, Slot, Sync, World, Written,
};

use crate::disk::is_child_under;
use crate::tree::{RESOLVERS, Tree, allow, approve, skipped};

const PUT: Access = Access::Write { parents: true, links: Links::Itself };

/// The change that a test asks of one name.
#[derive(Clone, Copy)]
enum Ask {
    Text(&'static str),
    Program(&'static str),
    Link(&'static str),
    Nothing,
}
use Ask::{Link, Nothing, Program, Text};

impl Ask {
    fn access(self) -> Access {
        if matches!(self, Nothing) { Access::Remove } else { PUT }
    }
}

fn contain(guard: &Arc<Guard>, asks: &[(&str, Ask)]) -> sinew_guard::Contained {
    let claims: Vec<Claim> = asks
        .iter()
        .map(|(path, ask)| Claim::new("patch", Some((*path).to_owned()), ask.access()))
        .collect();
    guard.contain(&claims, None, None).unwrap()
}

/// Makes the changes on a World that was cleared for them.
fn commit(world: &World, asks: &[(&str, Ask)]) -> Result<Vec<Written>, CommitError> {
    let texts: Vec<[&[u8]; 1]> = asks
        .iter()
        .map(|(_, ask)| match ask {
            Text(text) | Program(text) | Link(text) => [text.as_bytes()],
            Nothing => [b"".as_slice()],
        })
        .collect();
    let deeds: Vec<FileOp<'_>> = asks
        .iter()
        .zip(&texts)
        .enumerate()
        .map(|(at, ((_, ask), pieces))| {
            let becomes = match ask {
                Text(_) => Becomes::File { pieces, mode: FileMode::Kept, like: None },
                Program(_) => {
                    Becomes::File { pieces, mode: FileMode::Executable(true), like: None }
                }
                Link(_) => Becomes::Link(pieces[0]),
                Nothing => Becomes::Nothing,
            };
            FileOp { slot: Slot(at), expect: Expect::Any, becomes }
        })
        .collect();
    world.files.commit(&deeds)
}

fn all(guard: &Arc<Guard>, asks: &[(&str, Ask)]) -> Result<Vec<Written>, CommitError> {
    commit(&allow(contain(guard, asks)).world, asks)
}

/// Opens a guard that keeps journals.
fn guard(tree: &Tree, change: impl FnOnce(&mut GuardSettings)) -> Arc<Guard> {
    let warn = |text: &str| assert!(text.is_empty(), "{text}");
    let mut settings = GuardSettings {
        journals: Some(JournalSettings { state: tree.top.join("state"), warn }),
        ..GuardSettings::new(vec![tree.root.clone()])
    };
    change(&mut settings);
    Guard::open(settings).unwrap()
}

fn with_files(files: FileSettings) -> impl FnOnce(&mut GuardSettings) {
    move |settings| settings.files = Arc::new(files)
}

fn names(dir: PathBuf) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .map(|dir| dir.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
        .unwrap_or_default();
    names.sort();
    names
}

fn layout() -> Tree {
    let tree = Tree::new().with(&[("a.txt", "a"), ("b/b.txt", "b"), ("b/c.txt", "c")]);
    tree.link("link", "a.txt");
    tree
}

const ASKS: &[(&str, Ask)] = &[
    ("a.txt", Text("A, longer")),
    ("b/b.txt", Nothing),
    ("b/c.txt", Program("C")),
    ("link", Link("b/c.txt")),
    ("n/e/w.txt", Text("new")),
    ("n/e/link", Link("../..")),
    ("n/run", Program("#!")),
];

#[test]
fn everything_asked_for_happens_and_is_told() {
    for resolver in RESOLVERS {
        for sync in [Sync::Off, Sync::Data, Sync::Full] {
            let tree = layout();
            let guard = guard(&tree, |settings| {
                settings.resolver = resolver;
                with_files(FileSettings { sync, ..FileSettings::default() })(settings);
            });
            let cleared = allow(contain(&guard, ASKS));
            let written = commit(&cleared.world, ASKS).unwrap();
            let told: Vec<_> = written.iter().map(|one| (one.bytes, one.created)).collect();
            assert_eq!(
                told,
                [(9, false), (0, false), (1, false), (7, false), (3, true), (5, true), (2, true)]
            );
            assert_eq!(tree.read("a.txt"), "A, longer");
            assert_eq!(tree.read("n/e/w.txt"), "new");
            let link = |path: &str| fs::read_link(tree.root.join(path)).unwrap();
            assert_eq!((link("link"), link("n/e/link")), ("b/c.txt".into(), "../..".into()));
            let mode =
                |path: &str| fs::metadata(tree.root.join(path)).unwrap().permissions().mode();
            assert_eq!((mode("b/c.txt") & 0o111, mode("n/run") & 0o100), (0o111, 0o100));
            assert_eq!(names(tree.root.clone()), ["a.txt", "b", "link", "n"]);
            assert_eq!(names(tree.root.join("b")), ["c.txt"]);
            assert_eq!(names(tree.root.join("n/e")), ["link", "w.txt"]);
            assert_eq!(names(tree.top.join("state/journals")), [""; 0]);

            let hash = |text: &str| Some(sinew_guard::content_hash(text.as_bytes()));
            let changes = cleared.world.files.changes();
            let told: Vec<_> = changes.into_iter().map(|one| (one.before, one.after)).collect();
            assert_eq!(
                told,
                [
                    (hash("a"), hash("A, longer")),
                    (hash("b"), None),
                    (hash("c"), hash("C")),
                    (hash("a.txt"), hash("b/c.txt")),
                    (None, hash("new")),
                    (None, hash("../..")),
                    (None, hash("#!")),
                ]
            );
        }
    }
}

/// Makes changes of which one is refused; nothing may differ afterwards.
fn refused(tree: &Tree, cleared: &Cleared, asks: &[(&str, Ask)]) -> CommitError {
    let before = tree.everything();
    let error = commit(&cleared.world, asks).unwrap_err();
    let journals = tree.top.join("state");
    let after = tree.everything();
    let visible = |all: &[(PathBuf, Vec<u8>)]| -> Vec<(PathBuf, Vec<u8>)> {
        all.iter().filter(|(path, _)| !path.starts_with(&journals)).cloned().collect()
    };
    assert_eq!(visible(&before), visible(&after), "after {error:?}");
    assert_eq!(names(tree.top.join("state/journals")), [""; 0]);
    assert!(cleared.world.files.changes().is_empty());
    error
}

#[test]
fn one_that_cannot_be_made_stops_all() {
    type Harm = fn(&Tree);
    let harms: [(&str, Harm, usize, &str); 8] = [
        ("a.txt", |tree| remake(tree, "a.txt"), 0, "NotRegular(Directory)"),
        ("a.txt", |tree| tree.link("a.txt.new", "x"), 9, ""),
        ("b/b.txt", |tree| fs::remove_file(tree.root.join("b/b.txt")).unwrap(), 1, "Missing"),
        ("b/c.txt", |tree| remake(tree, "b/c.txt"), 2, "NotRegular(Directory)"),
        (
            "b/c.txt",
            |tree| {
                fs::hard_link(tree.root.join("b/c.txt"), tree.outside.join("other")).unwrap();
            },
            2,
            "ManyLinks(2)",
        ),
        ("n", |tree| tree.write("n", "a file"), 4, "NotDirectory"),
        ("n", |tree| tree.link("n", &tree.outside), 4, "NotDirectory"),
        ("n/run", |tree| fs::create_dir_all(tree.root.join("n/run")).unwrap(), 6, "NotRegular"),
    ];
    for resolver in RESOLVERS {
        for (what, harm, slot, expected) in harms {
            let tree = layout();
            let guard = guard(&tree, |settings| settings.resolver = resolver);
            let cleared = allow(contain(&guard, ASKS));
            harm(&tree);
            if slot == 9 {
                commit(&cleared.world, ASKS).unwrap();
                continue;
            }
            let error = refused(&tree, &cleared, ASKS);
            assert_eq!(error.slot, Slot(slot), "{what}: {error:?}");
            assert!(format!("{:?}", error.error).starts_with(expected), "{what}: {error:?}");
        }
    }
}

/// Puts a directory in the place of a file.
fn remake(tree: &Tree, path: &str) {
    fs::remove_file(tree.root.join(path)).unwrap();
    fs::create_dir(tree.root.join(path)).unwrap();
}

#[test]
fn what_was_read_must_still_be_there() {
    for resolver in RESOLVERS {
        let tree = layout();
        let guard = guard(&tree, |settings| settings.resolver = resolver);
        let asks = [("a.txt", Text("")), ("b/b.txt", Nothing), ("link", Nothing)];
        let cleared = allow(contain(&guard, &asks));
        let files = &cleared.world.files;
        assert_eq!(files.link(Slot(2)).unwrap(), b"a.txt");
        let known = || [0, 1, 2].map(|at| files.meta(Slot(at)).unwrap().identity);
        let commit = |known: [Identity; 3]| {
            let contents = [b"a".as_slice(), b"b", b"a.txt"];
            let deed = |at: usize, becomes| FileOp {
                slot: Slot(at),
                expect: Expect::Same(Seen::new(known[at], contents[at])),
                becomes,
            };
            let file = Becomes::File { pieces: &[b"new"], mode: FileMode::Kept, like: None };
            files.commit(&[deed(2, Becomes::Nothing), deed(0, file), deed(1, Becomes::Nothing)])
        };
        for (at, path, before, after) in
            [(0, "a.txt", "a", "x"), (1, "b/b.txt", "b", "x"), (2, "link", "a.txt", "b.txt")]
        {
            let put = |content: &str| match at {
                2 => {
                    fs::remove_file(tree.root.join(path)).unwrap();
                    tree.link(path, content);
                }
                _ => fs::write(tree.root.join(path), content).unwrap(),
            };
            let known = known();
            put(after);
            let error = commit(known).unwrap_err();
            assert_eq!(error.slot, Slot(at));
            assert!(matches!(error.error, FileError::Changed), "{error:?}");
            assert_eq!(names(tree.root.clone()), ["a.txt", "b", "link"]);
            put(before);
        }
        // In the order in which it was asked.
        let written = commit(known()).unwrap();
        assert_eq!(written.iter().map(|one| one.bytes).collect::<Vec<_>>(), [0, 3, 0]);
        assert_eq!(names(tree.root.clone()), ["a.txt", "b"]);
    }
}

#[test]
fn nothing_may_be_there_where_nothing_is_expected() {
    let tree = layout();
    let guard = guard(&tree, |_| {});
    for path in ["a.txt", "link"] {
        let cleared = allow(contain(&guard, &[(path, Text("")), ("new", Text(""))]));
        let becomes = Becomes::File { pieces: &[b"x"], mode: FileMode::Kept, like: None };
        let deeds = [1, 0].map(|at| FileOp { slot: Slot(at), expect: Expect::Nothing, becomes });
        let error = cleared.world.files.commit(&deeds).unwrap_err();
        assert!(matches!(error.error, FileError::Changed) && error.slot == Slot(0), "{error:?}");
        assert!(!tree.root.join("new").exists());
    }
}

#[test]
fn an_approval_holds_for_every_file_as_it_was() {
    for (path, harmed) in [("b/b.txt", "b/b.txt"), ("link", "link"), ("n/run", "n/run")] {
        let tree = layout();
        let guard = guard(&tree, |_| {});
        let cleared = approve(contain(&guard, ASKS));
        let path = tree.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        let error = refused(&tree, &cleared, ASKS);
        assert!(matches!(error.error, FileError::Changed), "{harmed}: {error:?}");
        assert_eq!(ASKS[error.slot.0].0, harmed);
    }
    // The call's own changes are not held against it.
    let tree = layout();
    let asks = [("a.txt", Text("1")), ("new", Text("2"))];
    let cleared = approve(contain(&guard(&tree, |_| {}), &asks));
    for _ in 0..2 {
        commit(&cleared.world, &asks).unwrap();
    }
}

#[test]
fn a_name_is_changed_once_at_a_time() {
    let tree = layout();
    let guard = guard(&tree, |_| {});
    for asks in [
        [("a.txt", Text("1")), ("b/../a.txt", Text("2"))],
        [("a.txt", Text("1")), ("./a.txt", Nothing)],
        [("n/x", Text("1")), ("n//x", Text("2"))],
    ] {
        let error = refused(&tree, &allow(contain(&guard, &asks)), &asks);
        assert!(matches!(error.error, FileError::Invalid("is changed twice at once")), "{error:?}");
    }
    let cleared = allow(contain(&guard, &[("a.txt", Text("1"))]));
    let becomes = Becomes::File { pieces: &[b"x"], mode: FileMode::Kept, like: None };
    let deed = FileOp { slot: Slot(0), expect: Expect::Any, becomes };
    assert!(cleared.world.files.commit(&[deed, deed]).is_err());
    assert_eq!(tree.read("a.txt"), "a");
}

#[test]
fn a_claim_covers_what_it_says() {
    let tree = layout();
    let guard = guard(&tree, |_| {});
    let claim = |path: &str, access| Claim::new("p", Some(path.into()), access);
    for (access, may_put, may_remove) in [
        (PUT, true, false),
        (Access::Edit { links: Links::Itself }, true, false),
        (Access::Remove, false, true),
        (Access::Read, false, false),
        (Access::Inspect, false, false),
    ] {
        for (becomes, may) in [
            (Becomes::File { pieces: &[b"x"], mode: FileMode::Kept, like: None }, may_put),
            (Becomes::Link(b"x"), may_put),
            (Becomes::Nothing, may_remove),
        ] {
            tree.write("b/c.txt", "c");
            let contained = guard.contain(&[claim("b/c.txt", access)], None, None).unwrap();
            let deed = FileOp { slot: Slot(0), expect: Expect::Any, becomes };
            let done = allow(contained).world.files.commit(&[deed]);
            assert_eq!(done.is_ok(), may, "{access:?} {becomes:?}: {done:?}");
            assert!(may || matches!(done, Err(CommitError { error: FileError::Denied(_), .. })));
            let _ = fs::remove_file(tree.root.join("b/c.txt"));
        }
    }
}

/// What becomes of a file of two names, and the error where it stays.
const HARD_LINKS: [(HardLinks, Option<&str>); 3] = [
    (HardLinks::Refuse, Some("ManyLinks(2)")),
    (HardLinks::InPlace, Some("LinksInPlace(2)")),
    (HardLinks::Break, None),
];

/// Returns a tree in which `a.txt` has another name outside, which comes last.
fn linked(hard_links: HardLinks) -> (Tree, Arc<Guard>, PathBuf) {
    let tree = layout();
    let other = tree.outside.join("other");
    fs::hard_link(tree.root.join("a.txt"), &other).unwrap();
    let files = FileSettings { hard_links, ..FileSettings::default() };
    let guard = guard(&tree, with_files(files));
    (tree, guard, other)
}

#[test]
fn hard_links_are_parted_only_where_that_is_set() {
    for (hard_links, expected) in HARD_LINKS {
        let (tree, guard, other) = linked(hard_links);
        match expected {
            Some(words) => {
                let error = refused(&tree, &allow(contain(&guard, ASKS)), ASKS).error;
                assert_eq!(format!("{error:?}"), words);
            }
            None => drop(all(&guard, ASKS).unwrap()),
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "a");
        // Removing one name leaves the others as they are.
        all(&guard, &[("a.txt", Nothing), ("new", Text(""))]).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "a");
    }
}

/// The old name had gone and the new one was another file, whatever was set.
#[test]
fn a_file_of_several_names_moves_only_where_that_is_set() {
    for (hard_links, expected) in HARD_LINKS {
        let (tree, guard, _) = linked(hard_links);
        let asks = [("a.txt", Nothing), ("moved", Text("a"))];
        let world = allow(contain(&guard, &asks)).world;
        let becomes = |like| Becomes::File { pieces: &[b"a"], mode: FileMode::Kept, like };
        let deed = |slot, becomes| FileOp { slot: Slot(slot), expect: Expect::Any, becomes };
        let moving = [deed(0, Becomes::Nothing), deed(1, becomes(Some(Slot(0))))];
        let moved = world.files.commit(&moving);
        match expected {
            Some(words) => {
                let error = moved.unwrap_err();
                assert_eq!((error.slot, format!("{:?}", error.error)), (Slot(0), words.to_owned()));
                assert_eq!(names(tree.root.clone()), ["a.txt", "b", "link"]);
            }
            None => {
                moved.unwrap();
                assert_eq!(names(tree.root.clone()), ["b", "link", "moved"]);
            }
        }
        // A copy parts nothing.
        let asks = [("link", Nothing), ("copied", Text("a")), ("a.txt", Text(""))];
        if expected.is_some() {
            let world = allow(contain(&guard, &asks)).world;
            let copying = [deed(0, Becomes::Nothing), deed(1, becomes(Some(Slot(2))))];
            world.files.commit(&copying).unwrap();
        }
    }
}

#[test]
fn what_a_file_had_is_kept() {
    let tree = layout();
    let path = tree.root.join("a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6640)).unwrap();
    if lsetxattr(&path, "user.note", b"kept", XattrFlags::empty()).is_err() {
        return skipped("no extended attributes here");
    }
    let guard = guard(&tree, |_| {});
    let check = |ask: Ask, mode: u32| {
        all(&guard, &[("a.txt", ask), ("b/b.txt", Text("x"))]).unwrap();
        let mut value = Vec::with_capacity(64);
        lgetxattr(&path, "user.note", rustix::buffer::spare_capacity(&mut value)).unwrap();
        assert_eq!(value, b"kept");
        let found = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{found:o}");
    };
    check(Text("one"), 0o640);
    check(Program("two"), 0o750);
    check(Text("three"), 0o750);
}

#[test]
fn a_lock_that_stays_is_busy_and_nothing_is_changed() {
    let tree = layout();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat(CWD, tree.root.join("b"), flags, Mode::empty()).unwrap();
    flock(&dir, FlockOperation::LockExclusive).unwrap();
    let opened = guard(&tree, |_| {});
    let error = refused(&tree, &allow(contain(&opened, ASKS)), ASKS);
    assert!(matches!(error.error, FileError::Busy), "{error:?}");
    assert_eq!(ASKS[error.slot.0].0, "b/b.txt");
    all(&guard(&tree, |settings| settings.dir_locking = DirLocking::None), ASKS).unwrap();
}

#[test]
fn a_journal_that_cannot_be_written_refuses_the_changes() {
    type Harm = fn(&Tree);
    let harms: [Harm; 4] = [
        |tree| tree.link("../state", "nowhere/at/all"),
        |tree| fs::write(tree.top.join("state"), "a file").unwrap(),
        |tree| {
            fs::create_dir(tree.top.join("state")).unwrap();
            let open = fs::Permissions::from_mode(0o777);
            fs::set_permissions(tree.top.join("state"), open).unwrap();
        },
        |tree| {
            fs::create_dir(tree.top.join("state")).unwrap();
            fs::set_permissions(tree.top.join("state"), fs::Permissions::from_mode(0o700)).unwrap();
            fs::write(tree.top.join("state/journals"), "a file").unwrap();
        },
    ];
    for harm in harms {
        let tree = layout();
        let guard = guard(&tree, |_| {});
        harm(&tree);
        let error = refused(&tree, &allow(contain(&guard, ASKS)), ASKS).error;
        assert!(matches!(error, FileError::Journal(_)), "{error:?}");
        let error = error.about("a.txt");
        assert_eq!(error.kind, sinew_tool::Kind::Unavailable);
        // One change needs none.
        all(&guard, &[("a.txt", Text("alone"))]).unwrap();
        assert_eq!(tree.read("a.txt"), "alone");
    }
}

/// Half-way through the set the system refuses to go on: the changes made so far are taken back.
#[test]
fn a_failure_in_the_middle_is_taken_back() {
    for resolver in RESOLVERS {
        let tree = layout();
        tree.without_root(|| {
            let guard = guard(&tree, |settings| settings.resolver = resolver);
            // The first change can be made, the others lie in a directory that cannot be changed.
            let cleared = allow(contain(&guard, &[("a.txt", Text("A")), ("b/b.txt", Nothing)]));
            let asks = [("a.txt", Text("A")), ("b/b.txt", Nothing)];
            fs::set_permissions(tree.root.join("b"), fs::Permissions::from_mode(0o500)).unwrap();
            let error = refused(&tree, &cleared, &asks);
            assert!(matches!(error.error, FileError::Permission), "{error:?}");
            assert_eq!(error.slot, Slot(1));
            fs::set_permissions(tree.root.join("b"), fs::Permissions::from_mode(0o700)).unwrap();
            commit(&cleared.world, &asks).unwrap();
        });
        fs::remove_dir_all(tree.top.join("state")).unwrap();
    }
}

#[test]
fn a_limit_of_file_size_leaves_every_file() {
    let name = "commit::a_limit_of_file_size_leaves_every_file";
    if is_child_under("trap '' XFSZ; ulimit -f 8;", name) {
        let tree = layout();
        let guard = guard(&tree, |_| {});
        let big: &'static str = Box::leak("x".repeat(64 * 1024).into_boxed_str());
        let asks = [("a.txt", Text("A")), ("b/c.txt", Text(big)), ("n/e/w.txt", Text("new"))];
        let error = refused(&tree, &allow(contain(&guard, &asks)), &asks);
        assert!(matches!(error.error, FileError::Full(_)), "{error:?}");
        assert_eq!(error.slot, Slot(1));
        // The journal itself is too large.
        let many: Vec<(String, Ask)> = (0..100).map(|n| (format!("m/{n}"), Text("x"))).collect();
        let many: Vec<(&str, Ask)> = many.iter().map(|(path, ask)| (path.as_str(), *ask)).collect();
        let error = refused(&tree, &allow(contain(&guard, &many)), &many);
        assert!(matches!(error.error, FileError::Journal(_)), "{error:?}");
    }
}

#[test]
fn a_full_disk_leaves_every_file() {
    let tree = Tree::new();
    let mount = |args: &[&str]| {
        let status = Command::new("mount").args(args).arg(&tree.root).status();
        status.is_ok_and(|status| status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"]) {
        return skipped("mounting is not permitted here, so no disk is full");
    }
    let result = std::panic::catch_unwind(|| {
        tree.write("a.txt", "a");
        tree.write("b/c.txt", "c");
        let guard = guard(&tree, |_| {});
        let big: &'static str = Box::leak("x".repeat(256 * 1024).into_boxed_str());
        let asks = [("a.txt", Text("A")), ("b/c.txt", Text(big)), ("n/e/w.txt", Text("new"))];
        let error = refused(&tree, &allow(contain(&guard, &asks)), &asks);
        assert!(matches!(error.error, FileError::Full(_)), "{error:?}");
        assert!(mount(&["-o", "remount,ro"]));
        let error = refused(&tree, &allow(contain(&guard, &asks)), &asks);
        assert!(matches!(error.error, FileError::ReadOnly), "{error:?}");
    });
    let status = Command::new("umount").arg(&tree.root).status().unwrap();
    assert!(status.success());
    result.unwrap();
}

/// A patch may name more files than a process may open.
#[test]
fn more_files_than_descriptors_are_changed_together() {
    let name = "commit::more_files_than_descriptors_are_changed_together";
    if is_child_under("ulimit -n 64;", name) {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
        let tree = Tree::new();
        let paths: Vec<String> = (0..2_000).map(|n| format!("d{}/new/{n}.txt", n % 5)).collect();
        let guard = guard(&tree, |_| {});
        for ask in [Text("one"), Text("two"), Nothing] {
            let asks: Vec<(&str, Ask)> = paths.iter().map(|path| (path.as_str(), ask)).collect();
            assert_eq!(all(&guard, &asks).unwrap().len(), 2_000);
        }
        assert_eq!(names(tree.root.join("d0/new")), [""; 0]);
    }
}

/// Each directory has a handle and a turn.
#[test]
fn more_directories_than_descriptors_are_refused_with_the_limit() {
    let name = "commit::more_directories_than_descriptors_are_refused_with_the_limit";
    if is_child_under("ulimit -n 64;", name) {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
        let tree = Tree::new();
        let paths: Vec<String> = (0..40).map(|n| format!("d{n}/a.txt")).collect();
        let asks: Vec<(&str, Ask)> = paths.iter().map(|path| (path.as_str(), Text("a"))).collect();
        let guard = guard(&tree, |_| {});
        let error = all(&guard, &asks).unwrap_err().error;
        assert!(matches!(error, FileError::OpenFiles(64)), "{error:?}");
        assert_eq!(error.about("d/a.txt").kind, sinew_tool::Kind::LimitReached);
        assert_eq!(names(tree.root.clone()), [""; 0]);
        all(&guard, &asks[..20]).unwrap();
    }
}

#[test]
fn sets_of_many_threads_are_whole() {
    let tree = Tree::new().with(&[("a", "0"), ("b/b", "0"), ("b/c", "0")]);
    let guard = guard(&tree, |_| {});
    std::thread::scope(|scope| {
        for texts in [["1", "2", "3"], ["4", "5", "6"], ["7", "8", "9"]] {
            let guard = &guard;
            scope.spawn(move || {
                for text in texts.iter().cycle().take(30) {
                    // Each goes through the names in an order of its own.
                    let mut asks = [("a", Text(text)), ("b/b", Text(text)), ("b/c", Text(text))];
                    asks.rotate_left(text.parse::<usize>().unwrap() % 3);
                    while let Err(error) = all(guard, &asks) {
                        assert!(matches!(error.error, FileError::Busy), "{error:?}");
                    }
                }
            });
        }
    });
    assert_eq!((tree.read("a"), tree.read("b/b")), (tree.read("b/b"), tree.read("b/c")));
    assert_eq!((names(tree.root.clone()).len(), names(tree.root.join("b")).len()), (2, 2));
    assert_eq!(names(tree.top.join("state/journals")), [""; 0]);
}
