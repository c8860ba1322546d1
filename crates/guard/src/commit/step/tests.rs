#![expect(clippy::disallowed_methods, reason = "the tests lay out real files")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use proptest::prelude::*;
use rustix::fs::CWD;

use super::*;
use sinew_fs::roots::DIRECTORY_PATH;

/// A directory with one file to replace, one to remove, a link to turn and a name to create.
struct Scene {
    held: tempfile::TempDir,
    dir: Dir,
    steps: Vec<Step>,
}

const OLD: &[(&str, &str)] = &[("gone", "g"), ("link", "-> a"), ("swapped", "s")];
const NEW: &[(&str, &str)] = &[("link", "-> b"), ("made", "m"), ("swapped", "S")];

fn names() -> impl Iterator<Item = (usize, &'static str)> {
    ["gone", "link", "made", "swapped"].into_iter().enumerate()
}

fn lay(path: &Path, what: &str) {
    match what.strip_prefix("-> ") {
        Some(target) => std::os::unix::fs::symlink(target, path).unwrap(),
        None => fs::write(path, what).unwrap(),
    }
}

fn find<'a>(side: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    side.iter().find(|(known, _)| *known == name).map(|(_, what)| *what)
}

impl Scene {
    fn new() -> Self {
        let held = tempfile::tempdir().unwrap();
        let dir = Dir::new(
            rustix::fs::openat(CWD, held.path(), DIRECTORY_PATH, rustix::fs::Mode::empty())
                .unwrap(),
        );
        let mut steps = Vec::new();
        for (at, name) in names() {
            let temporary = format!(".sinew-{at:024x}.tmp");
            let laid = |name: &str, what: Option<&str>| {
                what.map(|what| {
                    lay(&held.path().join(name), what);
                    look(&dir, &CString::new(name).unwrap()).unwrap().unwrap()
                })
            };
            let (old, new) = (laid(name, find(OLD, name)), laid(&temporary, find(NEW, name)));
            let (name, temporary) = (CString::new(name).unwrap(), CString::new(temporary).unwrap());
            steps.push(Step { dir: 0, name, temporary, old, new });
        }
        Self { held, dir, steps }
    }

    /// Returns everything in the directory.
    fn found(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.held.path()).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            let what = match fs::read_link(&path) {
                Ok(target) => format!("-> {}", target.display()),
                Err(_) => fs::read_to_string(&path).unwrap(),
            };
            (path.file_name().unwrap().to_str().unwrap().to_owned(), what)
        });
        entries.collect()
    }

    /// Makes every change.
    fn forward(&self) {
        for step in &self.steps {
            assert_eq!(step.forward(&self.dir, WAYS), Ok(Stand::Done), "{step:?}");
        }
    }

    fn path(&self, name: &CStr) -> std::path::PathBuf {
        self.held.path().join(std::ffi::OsStr::from_bytes(name.to_bytes()))
    }
}

fn side(side: &[(&str, &str)]) -> BTreeMap<String, String> {
    side.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned())).collect()
}

/// The ways that a file system may know.
const KNOWN: [&[Way]; 3] = [WAYS, &[Way::Link, Way::Move], &[Way::Move]];

#[test]
fn steps_go_forward_and_back_in_every_way() {
    for ways in KNOWN {
        for is_back in [false, true] {
            let scene = Scene::new();
            // Twice: a recovery does not know which steps were done.
            for _ in 0..2 {
                for step in &scene.steps {
                    assert_eq!(step.forward(&scene.dir, ways), Ok(Stand::Done), "{step:?}");
                }
            }
            for step in scene.steps.iter().filter(|_| is_back) {
                assert_eq!(step.back(&scene.dir), Ok(Stand::Done), "{step:?}");
            }
            scene.steps.iter().for_each(|step| step.clean(&scene.dir).unwrap());
            assert_eq!(scene.found(), side(if is_back { OLD } else { NEW }), "{ways:?}");
            // A journal may outlive its last change.
            for step in &scene.steps {
                let _ =
                    if is_back { step.back(&scene.dir) } else { step.forward(&scene.dir, ways) };
                step.clean(&scene.dir).unwrap();
            }
            assert_eq!(scene.found(), side(if is_back { OLD } else { NEW }), "{ways:?}");
        }
    }
}

/// What a death between two system calls leaves, for the ways that need more than one.
#[test]
fn steps_that_stopped_half_way_go_on_and_back() {
    type Half = fn(&Scene, &Step);
    let halves: [(&str, Half); 4] = [
        ("swapped", |scene, step| {
            let spare = step.spare().unwrap();
            fs::hard_link(scene.path(&step.name), scene.path(&spare)).unwrap();
        }),
        ("swapped", |scene, step| {
            let spare = step.spare().unwrap();
            fs::rename(scene.path(&step.name), scene.path(&spare)).unwrap();
        }),
        ("made", |scene, step| {
            fs::hard_link(scene.path(&step.temporary), scene.path(&step.name)).unwrap();
        }),
        ("gone", |scene, step| {
            fs::hard_link(scene.path(&step.name), scene.path(&step.temporary)).unwrap();
        }),
    ];
    for ways in KNOWN {
        for (name, half) in halves {
            for is_back in [false, true] {
                let scene = Scene::new();
                let step = scene.steps.iter().find(|step| step.name.to_bytes() == name.as_bytes());
                half(&scene, step.unwrap());
                for step in &scene.steps {
                    let stand = if is_back {
                        step.back(&scene.dir)
                    } else {
                        step.forward(&scene.dir, ways)
                    };
                    assert_eq!(stand, Ok(Stand::Done), "{step:?} {ways:?} {is_back}");
                    step.clean(&scene.dir).unwrap();
                }
                assert_eq!(scene.found(), side(if is_back { OLD } else { NEW }), "{name} {ways:?}");
            }
        }
    }
}

#[test]
fn what_others_have_put_there_stays() {
    for is_back in [false, true] {
        for (_, name) in names() {
            let scene = Scene::new();
            if is_back {
                scene.forward();
            }
            let path = scene.held.path().join(name);
            let _ = fs::remove_file(&path);
            fs::write(&path, "theirs").unwrap();
            for step in &scene.steps {
                let stand =
                    if is_back { step.back(&scene.dir) } else { step.forward(&scene.dir, WAYS) };
                let expected = if step.name.to_bytes() == name.as_bytes() {
                    Stand::Changed
                } else {
                    Stand::Done
                };
                assert_eq!(stand, Ok(expected), "{step:?} {is_back}");
                step.clean(&scene.dir).unwrap();
            }
            let mut expected = side(if is_back { OLD } else { NEW });
            expected.insert(name.to_owned(), String::from("theirs"));
            assert_eq!(scene.found(), expected, "{is_back}");
        }
    }
}

/// One change alone had gone through a moment in which nothing had its name, with no journal to help.
#[test]
fn a_change_alone_never_leaves_its_name_free() {
    assert!(!ALONE.contains(&Way::Move));
    let scene = Scene::new();
    for step in &scene.steps {
        assert_eq!(step.forward(&scene.dir, &[Way::Over]), Ok(Stand::Done), "{step:?}");
        step.clean(&scene.dir).unwrap();
    }
    assert_eq!(scene.found(), side(NEW));
}

/// Another process took the name just before the exchange, and again before it was taken back.
#[test]
fn what_an_exchange_displaces_is_seen() {
    for (there, aside, expected) in
        [("the new thing", "theirs", Stand::Changed), ("theirs again", "theirs", Stand::Displaced)]
    {
        let scene = Scene::new();
        let step = scene.steps.iter().find(|step| step.name.to_bytes() == b"swapped").unwrap();
        let (name, temporary) = (scene.path(&step.name), scene.path(&step.temporary));
        // Nothing is removed, since another file could get its inode.
        fs::rename(&name, scene.held.path().join("old")).unwrap();
        fs::rename(&temporary, &name).unwrap();
        if expected == Stand::Displaced {
            fs::rename(&name, scene.held.path().join("kept")).unwrap();
            fs::write(&name, there).unwrap();
        }
        fs::write(&temporary, aside).unwrap();
        assert_eq!(step.exchange_again(&scene.dir, step.new.unwrap()), Ok(expected));
        assert_eq!(fs::read_to_string(&name).unwrap(), aside);
        step.clean(&scene.dir).unwrap();
        assert_eq!(temporary.exists(), expected == Stand::Displaced);
    }
}

#[test]
fn what_a_step_lacks_closes_its_ways() {
    let outlook = |forward, back| Outlook { forward, back };
    type Harm = fn(&Scene, &Step);
    let nothing: Harm = |_, _| {};
    let no_temporary: Harm = |scene, step| fs::remove_file(scene.path(&step.temporary)).unwrap();
    let no_name: Harm = |scene, step| fs::remove_file(scene.path(&step.name)).unwrap();
    let theirs: Harm = |scene, step| {
        let _ = fs::remove_file(scene.path(&step.name));
        fs::write(scene.path(&step.name), "theirs, and longer").unwrap();
    };
    for (name, is_made, harm, expected) in [
        ("swapped", false, nothing, outlook(true, true)),
        ("swapped", true, nothing, outlook(true, true)),
        ("swapped", false, no_temporary, outlook(false, true)),
        ("swapped", true, no_temporary, outlook(true, false)),
        ("swapped", false, no_name, outlook(true, false)),
        ("swapped", true, no_name, outlook(true, true)),
        ("swapped", true, theirs, outlook(true, true)),
        ("made", false, nothing, outlook(true, true)),
        ("made", false, no_temporary, outlook(false, true)),
        ("made", true, nothing, outlook(true, true)),
        ("made", false, theirs, outlook(true, true)),
        ("gone", false, nothing, outlook(true, true)),
        ("gone", false, no_name, outlook(true, false)),
        ("gone", true, nothing, outlook(true, true)),
        ("gone", true, no_temporary, outlook(true, false)),
    ] {
        let scene = Scene::new();
        let step = scene.steps.iter().find(|step| step.name.to_bytes() == name.as_bytes()).unwrap();
        if is_made {
            step.forward(&scene.dir, WAYS).unwrap();
        }
        harm(&scene, step);
        assert_eq!(step.outlook(&scene.dir), Ok(expected), "{name} {is_made}");
    }
}

#[test]
fn what_was_written_since_into_a_new_file_is_not_taken_back() {
    let scene = Scene::new();
    scene.forward();
    fs::write(scene.held.path().join("swapped"), "longer").unwrap();
    let step = scene.steps.iter().find(|step| step.name.to_bytes() == b"swapped").unwrap();
    assert_eq!(step.back(&scene.dir), Ok(Stand::Changed));
    assert_eq!(scene.found()["swapped"], "longer");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However many steps were made, taken back and cleaned, going on in one direction ends whole.
    #[test]
    fn any_beginning_ends_whole(
        n_made in 0_usize..5,
        n_taken_back in 0_usize..5,
        is_back: bool,
        way in 0_usize..3,
    ) {
        let scene = Scene::new();
        let ways = KNOWN[way];
        for step in scene.steps.iter().take(n_made) {
            step.forward(&scene.dir, ways).unwrap();
        }
        if is_back {
            for step in scene.steps.iter().take(n_taken_back) {
                step.back(&scene.dir).unwrap();
                step.clean(&scene.dir).unwrap();
            }
        }
        for step in &scene.steps {
            let _ = if is_back { step.back(&scene.dir) } else { step.forward(&scene.dir, ways) };
            step.clean(&scene.dir).unwrap();
        }
        prop_assert_eq!(scene.found(), side(if is_back { OLD } else { NEW }));
    }
}
