//! A process that dies in the middle of a change leaves the old file or the new one, and at most
//! the temporary file that its intent names, which the next opener of the ledger removes. One that
//! dies in the middle of several changes leaves a journal, and the next start finishes them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sinew_guard::{Guard, GuardSettings, JournalSettings, Recorded, SqliteLedger, StateDir};
use sinew_tool::{
    Access, Becomes, Claim, Closing, CommitError, Effects, Expect, FileError, FileMode, FileOp,
    Ledger, Links, Opening, Slot, Written,
};

use crate::tree::{Tree, WRITE, allow, contain, rounds};

const CHILD: &str = "SINEW_GUARD_TEST_KILLED";
const KILLS: usize = 100;
const SIZE: usize = 200_000;
const SET_KILLS: usize = 40;
const SET: usize = 40;

#[test]
fn a_killed_change_leaves_one_of_the_two_versions() {
    if let Some(root) = std::env::var_os(CHILD) {
        change_for_ever(root.into());
    }
    let tree = Tree::new();
    tree.write("a.txt", &"a".repeat(SIZE));
    let mut n_left = 0;
    for n in 0..rounds(KILLS) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kill::a_killed_change_leaves_one_of_the_two_versions",
                "--nocapture",
            ])
            .env(CHILD, &tree.root)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut lines = String::new();
        while !lines.contains("changing ") {
            assert_ne!(said.read_line(&mut lines).unwrap(), 0, "the child ended: {lines}");
        }
        std::thread::sleep(Duration::from_micros(n as u64 % 100 * 37));
        child.kill().unwrap();
        child.wait().unwrap();
        said.read_to_string(&mut lines).unwrap();

        let text = tree.read("a.txt");
        let first = text.chars().next().unwrap();
        assert!(
            text.len() == SIZE && text.chars().all(|c| c == first),
            "a mixture after {n} kills"
        );
        let left = fs::read_dir(&tree.root).unwrap().count();
        n_left += left - 1;
        ledger(&tree.root).probe().unwrap();
        assert_eq!(fs::read_dir(&tree.root).unwrap().count(), 1, "something is left after {n}");
    }
    println!("{n_left} temporary files were left and removed");
}

/// What lies in the tree when every file of the set has the same letter.
fn set(letter: &str) -> Vec<(String, String)> {
    let files = (0..SET).map(|n| (format!("d{}/{n}", n % 4), letter.repeat(1 + n * 100)));
    // A few names come and go, and a link turns.
    let named = (0..5).map(|n| (format!("d{}/{letter}-{n}", n % 4), String::from(letter)));
    let mut all: Vec<_> =
        files.chain(named).chain([(String::from("link"), format!("-> {letter}"))]).collect();
    all.sort();
    all
}

/// Returns everything in the tree.
fn found(tree: &Tree) -> Vec<(String, String)> {
    let entries = tree.everything().into_iter().filter_map(|(path, content)| {
        let name = path.strip_prefix(&tree.root).ok()?.to_str()?.to_owned();
        match fs::read_link(&path) {
            Ok(target) => Some((name, format!("-> {}", target.display()))),
            Err(_) if path.is_dir() => None,
            Err(_) => Some((name, String::from_utf8(content).unwrap())),
        }
    });
    let mut all: Vec<_> = entries.collect();
    all.sort();
    all
}

/// Makes the tree of one letter that of another, all at once.
fn change_set(
    root: &Path,
    ledger: &SqliteLedger,
    guard: &std::sync::Arc<Guard>,
    turn: [&str; 2],
) -> Result<Vec<Written>, CommitError> {
    let [from, to] = turn;
    let (old, new) = (set(from), set(to));
    let put = Access::Write { parents: true, links: Links::Itself };
    let kept = new.iter().map(|(path, content)| (path, Some(content), put));
    let gone = old.iter().filter(|(path, _)| new.iter().all(|(other, _)| other != path));
    let all: Vec<_> = kept.chain(gone.map(|(path, _)| (path, None, Access::Remove))).collect();
    let claim = |path: &str, access| Claim::new("p", Some(path.to_owned()), access);
    let claims: Vec<_> = all.iter().map(|(path, _, access)| claim(path, *access)).collect();
    let cleared = allow(guard.contain(&claims, Some(root), None).unwrap());
    let pieces: Vec<[&[u8]; 1]> = all
        .iter()
        .map(|(_, content, _)| [content.map_or(&b""[..], |text| text.as_bytes())])
        .collect();
    let deeds: Vec<FileOp<'_>> = all
        .iter()
        .zip(&pieces)
        .enumerate()
        .map(|(at, ((_, content, _), pieces))| {
            let becomes = match content.map(|content| content.strip_prefix("-> ")) {
                None => Becomes::Nothing,
                Some(Some(target)) => Becomes::Link(target.as_bytes()),
                Some(None) => Becomes::File { pieces, mode: FileMode::Kept, like: None },
            };
            FileOp { slot: Slot(at), expect: Expect::Any, becomes }
        })
        .collect();
    intend(ledger, &cleared.temporaries);
    println!("\nchanging");
    cleared.world.files.commit(&deeds)
}

fn journaling(root: &Path) -> GuardSettings {
    let warn = |text: &str| eprintln!("{text}");
    GuardSettings {
        journals: Some(JournalSettings { state: root.with_file_name("state"), warn }),
        ..GuardSettings::new(vec![root.to_owned()])
    }
}

/// How a set is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// Together.
    Together,
    /// Together, while another process is at one of the files, so that most attempts are given up once
    /// everything is prepared.
    Disturbed,
    /// One file after the other.
    Singly,
}

/// Changes the set again and again.
fn change_sets_for_ever(root: &Path, how: How) -> ! {
    let ledger = ledger(root);
    let guard = Guard::open(journaling(root)).unwrap();
    let is_first = fs::read_link(root.join("link")).unwrap() == Path::new("b");
    let dir_locking = [["b", "c"], ["c", "b"]];
    if how == How::Disturbed {
        let path = root.join("d0/0");
        // The content and the times of it stay, and so it belongs to the set as before.
        std::thread::spawn(move || {
            loop {
                let mode = fs::metadata(&path).unwrap().permissions();
                fs::set_permissions(&path, mode).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
    }
    for turn in dir_locking.iter().cycle().skip(usize::from(!is_first)) {
        if how != How::Singly {
            while let Err(error) = change_set(root, &ledger, &guard, *turn) {
                assert!(how == How::Disturbed, "{error:?}");
                assert!(matches!(error.error, FileError::Busy), "{error:?}");
            }
            continue;
        }
        println!("\nchanging");
        let [from, to] = *turn;
        let (old, new) = (set(from), set(to));
        for (path, _) in old.iter().filter(|(path, _)| new.iter().all(|(other, _)| other != path)) {
            fs::remove_file(root.join(path)).unwrap();
        }
        for (path, content) in new {
            lay(root, &path, &content);
        }
    }
    std::process::exit(1)
}

fn lay(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    match content.strip_prefix("-> ") {
        None => fs::write(path, content).unwrap(),
        Some(target) => {
            let _ = fs::remove_file(&path);
            std::os::unix::fs::symlink(target, path).unwrap();
        }
    }
}

/// Kills a process in the middle of its changes again and again. Returns how often the next start
/// found a mixture, and how often a journal.
fn kill_sets(test: &str, how: How, n_kills: usize) -> (usize, usize) {
    let tree = Tree::new();
    for (path, content) in set("b") {
        fs::create_dir_all(tree.root.join(&path).parent().unwrap()).unwrap();
        lay(&tree.root, &path, &content);
    }
    let (mut n_mixed, mut n_journals) = (0, 0);
    for n in 0..n_kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, &tree.root)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut lines = String::new();
        while !lines.contains("changing") {
            assert_ne!(said.read_line(&mut lines).unwrap(), 0, "the child ended: {lines}");
        }
        let journals = tree.top.join("state/journals");
        let count = |path: &Path| fs::read_dir(path).map_or(0, |entries| entries.count());
        // At any moment, or at any moment of the shorter time in which names change.
        if how != How::Singly && n % 4 != 0 {
            while count(&journals) == 0 {}
            let most = if how == How::Disturbed { 700 } else { 2_000 };
            std::thread::sleep(Duration::from_micros(n as u64 * 37 % most));
        } else {
            std::thread::sleep(Duration::from_micros(n as u64 * 7_919 % 60_000));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        n_journals += usize::from(0 < count(&journals));
        // In either order: the ledger must leave what the journal needs.
        if n % 2 == 0 {
            ledger(&tree.root).probe().unwrap();
        }
        drop(Guard::open(journaling(&tree.root)).unwrap());
        ledger(&tree.root).probe().unwrap();
        assert_eq!(count(&journals), 0, "a journal is left after {n} kills");
        let found = found(&tree);
        let is_whole = ["b", "c"].iter().any(|letter| found == set(letter));
        let strays: Vec<_> = found.iter().filter(|(path, _)| path.ends_with(".tmp")).collect();
        assert!(strays.is_empty(), "after {n} kills: {strays:?}");
        if !is_whole {
            n_mixed += 1;
            for (path, _) in found {
                fs::remove_file(tree.root.join(path)).unwrap();
            }
            set("b").iter().for_each(|(path, content)| lay(&tree.root, path, content));
        }
    }
    (n_mixed, n_journals)
}

#[test]
fn a_killed_set_is_all_old_or_all_new_after_the_next_start() {
    if let Some(root) = std::env::var_os(CHILD) {
        change_sets_for_ever(Path::new(&root), How::Together);
    }
    let test = "kill::a_killed_set_is_all_old_or_all_new_after_the_next_start";
    let (n_mixed, n_journals) = kill_sets(test, How::Together, rounds(SET_KILLS));
    assert_eq!(n_mixed, 0);
    println!("{n_journals} of {} deaths left a journal", rounds(SET_KILLS));
    assert!(0 < n_journals, "no death was in the middle of the changes");
}

/// The staged files were once removed before the journal that names them, and the next start then carried out
/// the removals alone.
#[test]
fn a_killed_set_that_was_given_up_is_whole_after_the_next_start() {
    if let Some(root) = std::env::var_os(CHILD) {
        change_sets_for_ever(Path::new(&root), How::Disturbed);
    }
    let test = "kill::a_killed_set_that_was_given_up_is_whole_after_the_next_start";
    let (n_mixed, n_journals) = kill_sets(test, How::Disturbed, rounds(SET_KILLS));
    assert_eq!(n_mixed, 0);
    assert!(0 < n_journals, "no death was in the middle of the changes");
}

/// The same harness finds mixtures where files are written one after the other.
#[test]
fn a_killed_series_of_writes_is_mixed() {
    if let Some(root) = std::env::var_os(CHILD) {
        change_sets_for_ever(Path::new(&root), How::Singly);
    }
    let (n_mixed, _) = kill_sets("kill::a_killed_series_of_writes_is_mixed", How::Singly, 20);
    assert!(0 < n_mixed, "the harness does not see mixtures");
}

/// Opens the ledger of a root.
fn ledger(root: &Path) -> SqliteLedger {
    let state = StateDir::open(&root.with_file_name("state")).unwrap();
    SqliteLedger::new(&state, Recorded::by("test"))
}

/// Records the intent of a change.
fn intend(ledger: &SqliteLedger, temporaries: &[PathBuf]) {
    let so_far = Closing {
        effects: Some(Effects::CHANGE),
        ..Closing::new(Opening::new("c", "s", "native", "Write"), 0)
    };
    let mut intent = ledger.intend(&so_far, &[], temporaries);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(intent.as_mut().poll(&mut cx), std::task::Poll::Ready(Ok(_))));
}

fn change_for_ever(root: PathBuf) -> ! {
    let ledger = ledger(&root);
    let guard = Guard::open(GuardSettings::new(vec![root])).unwrap();
    let out = std::io::stdout();
    loop {
        for letter in ["b", "c"] {
            let content = letter.repeat(SIZE);
            let cleared = allow(contain(&guard, "a.txt", WRITE).unwrap());
            intend(&ledger, &cleared.temporaries);
            writeln!(out.lock(), "\nchanging {}", cleared.temporaries[0].display()).unwrap();
            out.lock().flush().unwrap();
            cleared.world.files.replace(Slot(0), &[content.as_bytes()], Expect::Any).unwrap();
        }
    }
}
