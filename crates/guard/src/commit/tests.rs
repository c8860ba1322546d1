#![expect(clippy::disallowed_methods, reason = "the tests lay out real files")]

use std::ffi::CString;
use std::fs;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, lstat, openat};

use super::*;
use sinew_fs::roots::DIRECTORY_PATH;

/// Two files, `a` and `b`, to be replaced, and the journal that says so.
struct Scene {
    _held: tempfile::TempDir,
    top: PathBuf,
    dir: Dir,
    steps: Vec<Step>,
}

fn temporary(at: usize) -> String {
    format!(".sinew-{at:024x}.tmp")
}

impl Scene {
    fn new() -> (Self, Journal) {
        let held = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(held.path()).unwrap();
        let dir = Dir::new(openat(CWD, &top, DIRECTORY_PATH, Mode::empty()).unwrap());
        let steps: Vec<_> = ["a", "b"]
            .into_iter()
            .enumerate()
            .map(|(at, name)| {
                let laid = |name: &str, text: &str| {
                    fs::write(top.join(name), text).unwrap();
                    Some(Trace::of(&lstat(top.join(name)).unwrap()))
                };
                let (old, new) = (laid(name, "old"), laid(&temporary(at), "new"));
                let temporary = CString::new(temporary(at)).unwrap();
                Step { dir: 0, name: CString::new(name).unwrap(), temporary, old, new }
            })
            .collect();
        let settings = JournalSettings { state: top.join("state"), warn: |_| {} };
        let journal = Journal::write(&settings, Vec::new(), steps.clone(), Sync::Off).unwrap();
        (Self { _held: held, top, dir, steps }, journal)
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.top.join(name)).ok()
    }

    fn journals(&self) -> Vec<String> {
        let entries = fs::read_dir(self.top.join("state/journals")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// Makes the first change, lets something happen, and takes everything back. Returns why the set
/// failed.
fn check(harm: impl FnOnce(&Scene), expected: [Option<&str>; 4], journals: &[&str]) -> String {
    let (scene, journal) = Scene::new();
    assert_eq!(scene.steps[0].forward(&scene.dir, WAYS), Ok(Stand::Done));
    harm(&scene);
    let steps: Vec<_> = scene.steps.iter().map(|step| (step, &scene.dir)).collect();
    let (why, is_half) = take_back(&steps, 1, Some(journal), FileError::Busy.into());
    assert_eq!(is_half, expected != AS_BEFORE && scene.read("a").as_deref() != Some("old"));
    let names = ["a".to_owned(), "b".to_owned(), temporary(0), temporary(1)];
    let found: Vec<_> = names.iter().map(|name| scene.read(name)).collect();
    assert_eq!(found, expected.map(|text| text.map(str::to_owned)));
    let endings: Vec<_> =
        scene.journals().iter().map(|name| name.split_once('.').unwrap().1.to_owned()).collect();
    assert_eq!(endings, journals);
    format!("{why:?}")
}

const AS_BEFORE: [Option<&str>; 4] = [Some("old"), Some("old"), None, None];

#[test]
fn what_was_made_is_taken_back() {
    assert_eq!(check(|_| {}, AS_BEFORE, &[]), "Error(Busy)");
}

#[test]
fn what_was_not_made_is_nothing_to_take_back() {
    let theirs = |scene: &Scene| fs::write(scene.top.join("b"), "theirs").unwrap();
    let expected = [Some("old"), Some("theirs"), None, None];
    assert_eq!(check(theirs, expected, &[]), "Error(Busy)");
}

/// A change by others had counted as taken back, and the old content went.
#[test]
fn what_others_changed_since_is_named_and_its_old_content_stays() {
    let theirs = |scene: &Scene| fs::write(scene.top.join("a"), "theirs").unwrap();
    let expected = [Some("theirs"), Some("old"), Some("old"), None];
    let why = check(theirs, expected, &["undo"]);
    assert!(why.contains("`a` was changed by others meanwhile"), "{why}");
    assert!(why.contains(&temporary(0)), "{why}");
}

#[test]
fn a_journal_that_cannot_be_turned_goes_first() {
    // A directory under the other name keeps a file from getting it.
    let blocked = |scene: &Scene| {
        let name = scene.journals().remove(0).replace(".journal", ".undo");
        fs::create_dir(scene.top.join("state/journals").join(name)).unwrap();
    };
    assert_eq!(check(blocked, AS_BEFORE, &["undo"]), "Error(Busy)");
}
