#![expect(clippy::disallowed_methods, reason = "the tests lay out real files")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Mutex;

use proptest::prelude::*;
use rustix::fs::CWD;
use rustix::fs::lstat;

use super::*;
use crate::commit::step::{Step, Trace};
use sinew_fs::journal_files::named_temporaries;

/// The warnings. Tests of one process share it, so each looks for its own words.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn tell(text: &str) {
    TOLD.lock().unwrap().push(text.to_owned());
}

fn was_told(words: &str) -> bool {
    TOLD.lock().unwrap().iter().any(|text| text.contains(words))
}

const TEMPORARY: &str = ".sinew-0123456789abcdef01234567.tmp";

/// A directory `d` with the file `a` about to be replaced, and a journal that says so.
struct Scene {
    _held: tempfile::TempDir,
    top: PathBuf,
    settings: JournalSettings,
}

impl Scene {
    fn new() -> Self {
        let held = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(held.path()).unwrap();
        for dir in ["d", "state", "state/journals"] {
            fs::create_dir(top.join(dir)).unwrap();
            fs::set_permissions(top.join(dir), fs::Permissions::from_mode(0o700)).unwrap();
        }
        fs::write(top.join("d/a"), "old").unwrap();
        fs::write(top.join("d").join(TEMPORARY), "new").unwrap();
        let settings = JournalSettings { state: top.join("state"), warn: tell };
        Self { _held: held, top, settings }
    }

    fn record(&self) -> Record {
        let trace = |name: &str| Trace::of(&lstat(self.top.join("d").join(name)).unwrap());
        let step = Step {
            dir: 0,
            name: CString::new("a").unwrap(),
            temporary: CString::new(TEMPORARY).unwrap(),
            old: Some(trace("a")),
            new: Some(trace(TEMPORARY)),
        };
        let meta = fs::metadata(self.top.join("d")).unwrap();
        let path = self.top.join("d").as_os_str().as_bytes().to_vec();
        let dirs = vec![DirRecord { path, device: meta.dev(), inode: meta.ino() }];
        let mut maker = ProcessIdentity::own();
        // A process that is dead.
        maker.started += 1;
        let at_ms = SystemClock.wall_ms() as i64;
        Record { maker, at_ms, dirs, steps: vec![step] }
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.top.join("state/journals").join(name), bytes).unwrap();
    }

    /// Returns the content of the file, the names beside it, and the names of journals.
    fn found(&self) -> (String, Vec<String>, Vec<String>) {
        let names = |dir: &str| {
            let mut names: Vec<_> = fs::read_dir(self.top.join(dir))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let text = fs::read_to_string(self.top.join("d/a")).unwrap_or_default();
        (text, names("d"), names("state/journals"))
    }
}

fn found(text: &str, beside: &[&str], journals: &[&str]) -> (String, Vec<String>, Vec<String>) {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    (text.to_owned(), owned(beside), owned(journals))
}

#[test]
fn a_dead_journal_is_followed_in_its_direction() {
    for (name, text) in [("1-1-0.journal", "new"), ("1-1-0.undo", "old")] {
        let scene = Scene::new();
        scene.write(name, &scene.record().to_bytes().unwrap());
        recover(&scene.settings, DirLocking::Auto);
        assert_eq!(scene.found(), found(text, &["a"], &[]));
    }
    assert!(was_told("finished a change of 1 files that was cut off"));
    assert!(was_told("took back a change of 1 files that was cut off"));
}

#[test]
fn what_is_not_a_dead_process_s_journal_is_left_alone() {
    type Change = fn(&mut Record);
    let alive: Change = |record| record.maker.started -= 1;
    let elsewhere: Change = |record| {
        record.maker.machine = String::from("other");
        record.maker.boot = String::from("other");
    };
    let unknown: Change = |record| record.maker.namespace += 1;
    for change in [alive, elsewhere, unknown] {
        let scene = Scene::new();
        let mut record = scene.record();
        change(&mut record);
        scene.write("1-1-0.journal", &record.to_bytes().unwrap());
        recover(&scene.settings, DirLocking::Auto);
        assert_eq!(scene.found(), found("old", &[TEMPORARY, "a"], &["1-1-0.journal"]));
        assert!(named_temporaries(&scene.settings.state).unwrap().contains(TEMPORARY.as_bytes()));
    }
    // One that another process follows just now is its own.
    let scene = Scene::new();
    scene.write("1-1-0.journal", &scene.record().to_bytes().unwrap());
    let file = File::open(scene.top.join("state/journals/1-1-0.journal")).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found().0, "old");
    drop(file);
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found(), found("new", &["a"], &[]));
}

#[test]
fn a_journal_that_was_being_written_goes_with_its_process() {
    let scene = Scene::new();
    let own = ProcessIdentity::own();
    let living = format!("{}-{}-0.new", own.pid, own.started);
    for name in ["1-1-0.new", "nonsense.new", &living] {
        scene.write(name, b"sinew jour");
    }
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found(), found("old", &[TEMPORARY, "a"], &[&living]));
}

#[test]
fn a_directory_that_is_another_one_is_not_touched() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 3] = [
        ("the directory is not there", |top| {
            fs::rename(top.join("d"), top.join("away")).unwrap();
        }),
        ("another directory has its place", |top| {
            fs::rename(top.join("d"), top.join("away")).unwrap();
            fs::create_dir(top.join("d")).unwrap();
        }),
        ("symbolic link", |top| {
            fs::rename(top.join("d"), top.join("away")).unwrap();
            std::os::unix::fs::symlink("away", top.join("d")).unwrap();
        }),
    ];
    for (words, harm) in harms {
        let scene = Scene::new();
        scene.write("1-1-0.journal", &scene.record().to_bytes().unwrap());
        harm(&scene.top);
        recover(&scene.settings, DirLocking::Auto);
        let away = scene.top.join("away");
        assert_eq!(fs::read_to_string(away.join("a")).unwrap(), "old");
        assert!(was_told(words), "{words}: {:?}", TOLD.lock().unwrap());
        // It is finished once the directory is back.
        let _ =
            fs::remove_dir(scene.top.join("d")).or_else(|_| fs::remove_file(scene.top.join("d")));
        fs::rename(&away, scene.top.join("d")).unwrap();
        recover(&scene.settings, DirLocking::Auto);
        assert_eq!(scene.found(), found("new", &["a"], &[]));
    }
}

#[test]
fn changes_that_cannot_be_settled_are_given_up_after_long() {
    let scene = Scene::new();
    let mut record = scene.record();
    record.at_ms -= GONE_MS + 1_000;
    record.dirs[0].inode += 1;
    scene.write("1-1-0.journal", &record.to_bytes().unwrap());
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found(), found("old", &[TEMPORARY, "a"], &["1-1-0.journal.aside"]));
    assert!(was_told("1 changes that were cut off are given up"));
}

#[test]
fn what_somebody_changed_since_stays_and_is_told_once() {
    let scene = Scene::new();
    scene.write("1-1-0.journal", &scene.record().to_bytes().unwrap());
    fs::write(scene.top.join("d/a"), "theirs").unwrap();
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found(), found("theirs", &["a"], &[]));
    let words = format!("a change of {} was cut off", scene.top.join("d/a").display());
    assert!(was_told(&words));
}

impl Scene {
    /// Returns the record with two more changes: `new` is created, and `gone` removed.
    fn longer_record(&self) -> Record {
        let mut record = self.record();
        let trace = |name: &str| Trace::of(&lstat(self.top.join("d").join(name)).unwrap());
        fs::write(self.top.join("d").join(CREATED), "made").unwrap();
        fs::write(self.top.join("d/gone"), "kept").unwrap();
        let step = |name: &str, temporary: &str, old, new| {
            let (name, temporary) = (CString::new(name).unwrap(), CString::new(temporary).unwrap());
            Step { dir: 0, name, temporary, old, new }
        };
        record.steps.push(step("made", CREATED, None, Some(trace(CREATED))));
        record.steps.push(step("gone", REMOVED, Some(trace("gone")), None));
        record
    }

    /// Returns whether the whole directory is as it was before the change.
    fn is_as_before(&self) -> bool {
        let gone = fs::read_to_string(self.top.join("d/gone")).unwrap_or_default();
        gone == "kept" && self.found() == found("old", &["a", "gone"], &[])
    }
}

const CREATED: &str = ".sinew-1123456789abcdef01234567.tmp";
const REMOVED: &str = ".sinew-2123456789abcdef01234567.tmp";

/// A file that was to be created had counted as created, and what it came from was removed.
#[test]
fn a_set_whose_new_content_is_gone_is_taken_back() {
    for n_made in 0..3 {
        for harmed in [TEMPORARY, CREATED] {
            let scene = Scene::new();
            let record = scene.longer_record();
            // The one that is harmed is not made yet.
            let made =
                record.steps.iter().filter(|step| step.temporary.to_bytes() != harmed.as_bytes());
            let dir = open_recorded(&record.dirs[0], true).unwrap();
            for step in made.take(n_made) {
                assert_eq!(step.forward(&dir, WAYS), Ok(Stand::Done));
            }
            fs::remove_file(scene.top.join("d").join(harmed)).unwrap();
            scene.write("1-1-0.journal", &record.to_bytes().unwrap());
            recover(&scene.settings, DirLocking::Auto);
            assert!(scene.is_as_before(), "{n_made} {harmed}: {:?}", scene.found());
        }
    }
    assert!(was_told("took back a change of 3 files"));
    assert!(was_told("is not there any more, such as of"));
}

#[test]
fn a_set_that_can_go_nowhere_is_put_aside_with_its_names() {
    let scene = Scene::new();
    let record = scene.longer_record();
    // One was made and its old content is lost, and another one was not and its new content is.
    fs::rename(scene.top.join("d").join(TEMPORARY), scene.top.join("d/a")).unwrap();
    fs::remove_file(scene.top.join("d").join(CREATED)).unwrap();
    scene.write("1-1-0.journal", &record.to_bytes().unwrap());
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found(), found("new", &["a", "gone"], &["1-1-0.journal.aside"]));
    let names = [scene.top.join("d/a"), scene.top.join("d/made")].map(|p| p.display().to_string());
    assert!(was_told(&names.join(", ")), "{:?}", TOLD.lock().unwrap());
}

#[test]
fn old_content_stays_where_others_changed_what_is_taken_back() {
    let scene = Scene::new();
    let record = scene.longer_record();
    let dir = open_recorded(&record.dirs[0], true).unwrap();
    record.steps.iter().for_each(|step| assert_eq!(step.forward(&dir, WAYS), Ok(Stand::Done)));
    fs::write(scene.top.join("d/a"), "theirs").unwrap();
    scene.write("1-1-0.undo", &record.to_bytes().unwrap());
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found(), found("theirs", &[TEMPORARY, "a", "gone"], &["1-1-0.undo.aside"]));
    assert!(named_temporaries(&scene.settings.state).unwrap().contains(TEMPORARY.as_bytes()));
}

/// A set that was given up because of others, and then cut off, leaves no file.
#[test]
fn what_others_changed_before_it_was_made_stays() {
    let scene = Scene::new();
    let record = scene.longer_record();
    fs::write(scene.top.join("d/theirs"), "theirs").unwrap();
    fs::rename(scene.top.join("d/theirs"), scene.top.join("d/a")).unwrap();
    scene.write("1-1-0.undo", &record.to_bytes().unwrap());
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found(), found("theirs", &["a", "gone"], &[]));
}

#[test]
fn of_changes_that_were_made_nothing_but_the_old_things_goes() {
    let scene = Scene::new();
    let record = scene.longer_record();
    let dir = open_recorded(&record.dirs[0], true).unwrap();
    record.steps.iter().for_each(|step| assert_eq!(step.forward(&dir, WAYS), Ok(Stand::Done)));
    // Others went on with the files, and one old thing is gone.
    record.steps[0].clean(&dir).unwrap();
    fs::remove_file(scene.top.join("d/made")).unwrap();
    fs::write(scene.top.join("d/a"), "theirs").unwrap();
    scene.write("1-1-0.done", &record.to_bytes().unwrap());
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found(), found("theirs", &["a"], &[]));
}

#[test]
fn a_directory_that_others_are_changing_waits_for_the_next_start() {
    let scene = Scene::new();
    scene.write("1-1-0.journal", &scene.record().to_bytes().unwrap());
    let dir = File::open(scene.top.join("d")).unwrap();
    flock(&dir, FlockOperation::LockExclusive).unwrap();
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found(), found("old", &[TEMPORARY, "a"], &["1-1-0.journal"]));
    assert!(was_told("another process is changing the directory"));
    drop(dir);
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found(), found("new", &["a"], &[]));
}

#[test]
fn a_directory_of_journals_that_others_can_write_is_not_looked_into() {
    let scene = Scene::new();
    scene.write("1-1-0.journal", &scene.record().to_bytes().unwrap());
    let dir = scene.top.join("state/journals");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o770)).unwrap();
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found().0, "old");
    assert!(was_told("can be written by other users"));
    assert!(named_temporaries(&scene.settings.state).is_err());
    // A link in its place is not followed.
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    fs::rename(&dir, scene.top.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(scene.top.join("elsewhere"), &dir).unwrap();
    recover(&scene.settings, DirLocking::Auto);
    assert_eq!(scene.found().0, "old");
}

#[test]
fn names_that_no_journal_has_are_refused() {
    let scene = Scene::new();
    let good = scene.record();
    assert_eq!(Record::parse(&good.to_bytes().unwrap()), Some(good.clone()));
    type Change = fn(&mut Record);
    let changes: [(&str, Change); 9] = [
        ("a path as name", |record| record.steps[0].name = CString::new("../x").unwrap()),
        ("the directory above", |record| record.steps[0].name = CString::new("..").unwrap()),
        ("no name", |record| record.steps[0].name = CString::default()),
        ("a name as temporary", |record| record.steps[0].temporary = CString::new("b").unwrap()),
        ("a temporary as name", |record| record.steps[0].name = CString::new(TEMPORARY).unwrap()),
        ("no such directory", |record| record.steps[0].dir = 1),
        ("a relative path", |record| record.dirs[0].path = b"d".to_vec()),
        ("a NUL", |record| record.dirs[0].path.push(0)),
        ("nothing", |record| (record.steps[0].old, record.steps[0].new) = (None, None)),
    ];
    for (what, change) in changes {
        let mut record = good.clone();
        change(&mut record);
        assert_eq!(Record::parse(&record.to_bytes().unwrap()), None, "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A damaged journal is put aside, and what it spoke of stays where it is.
    #[test]
    fn damaged_journals_are_never_followed(
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 0..4),
        added in prop::collection::vec(any::<u8>(), 0..8),
        is_cut: bool,
    ) {
        let scene = Scene::new();
        let whole = scene.record().to_bytes().unwrap();
        let mut bytes = whole.clone();
        for (at, bits) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.extend_from_slice(&added);
        prop_assume!(bytes != whole);
        scene.write("1-1-0.journal", &bytes);
        recover(&scene.settings, DirLocking::Auto);
        prop_assert_eq!(scene.found(), found("old", &[TEMPORARY, "a"], &["1-1-0.journal.aside"]));
    }

    /// Whatever the bytes are, reading them comes to an end, and so does looking for names in them.
    #[test]
    fn any_bytes_can_be_read(body in prop::collection::vec(any::<u8>(), 0..300), sealed: bool) {
        let mut bytes = body.clone();
        if sealed {
            let hash = blake3::hash(&body);
            bytes = [b"sinew journal 1\n".as_slice(), hash.as_bytes(), &body].concat();
        }
        prop_assert_eq!(Record::parse(&bytes).map(|record| record.steps.len()).unwrap_or(0), 0);
    }
}

#[test]
fn nothing_is_made_where_no_journal_ever_was() {
    let held = tempfile::tempdir().unwrap();
    let state = held.path().join("state");
    recover(&JournalSettings { state: state.clone(), warn: tell }, DirLocking::Auto);
    assert!(named_temporaries(&state).unwrap().is_empty());
    assert!(rustix::fs::statat(CWD, &state, AtFlags::empty()).is_err());
}
