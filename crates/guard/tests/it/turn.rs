//! Processes that change one file take turns: what a change answered stays in the file.
//!
//! Each process reads the file, adds a line and replaces what it read. The same harness without
//! turns first shows that lines get lost: a race without a loser proves nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use sinew_guard::{DirLocking, Guard, GuardSettings};
use sinew_tool::{Expect, FileError, FileSettings, HardLinks, Seen, Slot};

use crate::tree::{EDIT, RESOLVERS, Tree, WRITE, replace, rounds, world};

const CHILD: &str = "SINEW_GUARD_TEST_TURN";
const N_PROCESSES: usize = 4;
const N_CHANGES: usize = 150;
/// How long the control may try to lose the race.
const PATIENCE: Duration = Duration::from_secs(60);

fn guard(root: &Path, dir_locking: DirLocking) -> Arc<Guard> {
    let files = FileSettings { hard_links: HardLinks::InPlace, ..FileSettings::default() };
    let settings = GuardSettings {
        dir_locking,
        files: Arc::new(files),
        ..GuardSettings::new(vec![root.to_owned()])
    };
    Guard::open(settings).unwrap()
}

/// Adds lines to a file, and prints each one that was answered with success.
fn add_lines(root: &Path, dir_locking: DirLocking, path: &str) {
    let guard = guard(root, dir_locking);
    let mut out = std::io::stdout().lock();
    let id = std::process::id();
    for n in 0..N_CHANGES {
        loop {
            let world = world(&guard, path, EDIT).unwrap();
            let opened = world.files.open(Slot(0)).unwrap();
            let identity = opened.meta.identity;
            let text = std::io::read_to_string(opened.file).unwrap();
            let line = format!("{id} {n}\n");
            let expect = Expect::Same(Seen::new(identity, text.as_bytes()));
            let done = world.files.replace(Slot(0), &[text.as_bytes(), line.as_bytes()], expect);
            if matches!(done, Err(FileError::Changed | FileError::Busy)) {
                continue;
            }
            done.unwrap();
            write!(out, "\nadded {line}").unwrap();
            break;
        }
    }
}

/// Runs the processes and returns how many lines were answered and are not in the file.
fn n_lost(test: &str, tree: &Tree, dir_locking: DirLocking, paths: [&str; 2]) -> usize {
    let children: Vec<_> = (0..N_PROCESSES)
        .map(|n| {
            let told = format!(
                "{}\n{}\n{}",
                tree.root.display(),
                dir_locking == DirLocking::Auto,
                paths[n % 2]
            );
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test, "--nocapture"])
                .env(CHILD, told)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut answered = BTreeSet::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}");
        answered
            .extend(said.lines().filter_map(|line| line.strip_prefix("added ")).map(str::to_owned));
    }
    assert_eq!(answered.len(), N_PROCESSES * N_CHANGES);
    let text = tree.read(paths[0]);
    let kept: BTreeSet<_> = text.lines().map(str::to_owned).collect();
    answered.difference(&kept).count()
}

/// Runs the processes with turns, and without until something is lost.
fn check(test: &str, layout: impl Fn() -> Tree, paths: [&str; 2]) {
    if let Some(told) = std::env::var_os(CHILD) {
        let told = told.into_string().unwrap();
        let told: Vec<_> = told.split('\n').collect();
        let dir_locking = if told[1] == "true" { DirLocking::Auto } else { DirLocking::None };
        return add_lines(Path::new(told[0]), dir_locking, told[2]);
    }
    let end = Instant::now() + PATIENCE;
    let mut n_tries = 0;
    loop {
        n_tries += 1;
        let lost = n_lost(test, &layout(), DirLocking::None, paths);
        if 0 < lost {
            println!("without dir_locking {lost} changes got lost in try {n_tries}");
            break;
        }
        assert!(Instant::now() < end, "the harness does not race");
    }
    for _ in 0..rounds(2) {
        assert_eq!(n_lost(test, &layout(), DirLocking::Auto, paths), 0);
    }
}

#[test]
fn no_change_of_a_file_gets_lost_between_processes() {
    let layout = || Tree::new().with(&[("a.txt", "")]);
    check("turn::no_change_of_a_file_gets_lost_between_processes", layout, ["a.txt", "a.txt"]);
}

#[test]
fn no_change_in_place_gets_lost_between_names_of_one_file() {
    let layout = || {
        let tree = Tree::new().with(&[("one/a.txt", ""), ("two/b.txt", "")]);
        fs::remove_file(tree.root.join("two/b.txt")).unwrap();
        fs::hard_link(tree.root.join("one/a.txt"), tree.root.join("two/b.txt")).unwrap();
        tree
    };
    check(
        "turn::no_change_in_place_gets_lost_between_names_of_one_file",
        layout,
        ["one/a.txt", "two/b.txt"],
    );
}

#[test]
fn a_lock_that_stays_is_not_waited_for_and_nothing_is_changed() {
    for resolver in RESOLVERS {
        let tree = Tree::new().with(&[("a.txt", "old"), ("b/c.txt", "old")]);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, &tree.root, flags, Mode::empty()).unwrap();
        flock(&dir, FlockOperation::LockExclusive).unwrap();
        let guard = tree.guard(resolver);
        let began = Instant::now();
        let error = replace(&guard, "a.txt", EDIT, "new").unwrap_err();
        // The wait was two seconds long, on the thread that reads what other calls come.
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(error.kind, sinew_tool::Kind::Timeout);
        assert!(error.hint.unwrap().starts_with("repeat the call"), "{}", error.message);
        assert_eq!(tree.read("a.txt"), "old");
        assert_eq!(fs::read_dir(&tree.root).unwrap().count(), 2);

        // Other directories, new files and file systems without locks do not wait.
        replace(&guard, "b/c.txt", EDIT, "new").unwrap();
        assert!(replace(&guard, "new.txt", WRITE, "new").unwrap().created);
        let settings = GuardSettings {
            dir_locking: DirLocking::None,
            ..GuardSettings::new(vec![tree.root.clone()])
        };
        replace(&Guard::open(settings).unwrap(), "a.txt", EDIT, "new").unwrap();
        // A process that another test starts just now may hold the directory too.
        flock(&dir, FlockOperation::Unlock).unwrap();
        replace(&guard, "a.txt", EDIT, "newer").unwrap();
        assert_eq!(tree.read("a.txt"), "newer");
    }
}

#[test]
fn a_directory_that_may_not_be_read_has_no_turns() {
    let tree = Tree::new().with(&[("a.txt", "old")]);
    tree.without_root(|| {
        fs::set_permissions(&tree.root, fs::Permissions::from_mode(0o300)).unwrap();
        assert!(fs::read_dir(&tree.root).is_err());
        replace(&tree.guard(RESOLVERS[0]), "a.txt", EDIT, "new").unwrap();
        assert_eq!(tree.read("a.txt"), "new");
    });
}
