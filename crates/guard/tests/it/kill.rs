//! A process that dies in the middle of a change leaves the old file or the new one, and at most
//! the temporary file that its intent names, which the next opener of the ledger removes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sinew_guard::{Guard, GuardSettings, LedgerSync, Recorded, SqliteLedger, StateDir};
use sinew_tool::{Effects, Expect, Ledger, Opening, Slot};

use crate::tree::{Tree, WRITE, allow, contain, rounds};

const CHILD: &str = "SINEW_GUARD_TEST_KILLED";
const KILLS: usize = 100;
const SIZE: usize = 200_000;

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

/// Opens the ledger of a root.
fn ledger(root: &Path) -> SqliteLedger {
    let state = StateDir::open(&root.with_file_name("state")).unwrap();
    SqliteLedger::new(&state, Recorded { surface: "test", sync: LedgerSync::Normal })
}

/// Records the intent of a change.
fn intend(ledger: &SqliteLedger, temporaries: &[PathBuf]) {
    let opening = Opening {
        call_id: String::from("c"),
        session: String::from("s"),
        agent: None,
        parent: None,
        dialect: "native".into(),
        tool: String::from("Write"),
        arguments: [7; 32],
    };
    let mut intent = ledger.intend(&opening, Effects::CHANGE, &[], temporaries);
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
