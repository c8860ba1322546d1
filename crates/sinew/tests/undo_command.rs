//! `sinew undo` and `sinew undo --redo`.

use std::fs;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::served::Place;
use crate::undo::project;

impl Place {
    fn writes(&self, session: &str, content: &str) {
        // A file that others changed is read before it is written.
        self.says(&["--session", session, "call", "Read", r#"{"file_path": "a.txt"}"#], 0, &[]);
        let arguments = json!({ "file_path": "a.txt", "content": content }).to_string();
        self.says(&["--session", session, "call", "Write", &arguments], 0, &["wrote"]);
    }

    fn content(&self) -> String {
        fs::read_to_string(self.root.join("a.txt")).unwrap()
    }

    #[track_caller]
    fn undoes(&self, args: &[&str], content: &str) {
        let args = [&["undo", "--yes"], args].concat();
        self.says(&args, 0, &["restored c"]);
        assert_eq!(self.content(), content, "{args:?}");
    }
}

#[test]
fn last_changes_are_undone_and_redone() {
    let place = project();
    place.says(&["undo", "--yes"], 2, &["no change is left to undo"]);
    for content in ["1\n", "2\n", "3\n"] {
        place.writes("s", content);
    }
    place.says(&["undo"], 3, &["`--yes` undoes unasked"]);
    place.says(&["undo", "--dry-run"], 0, &["-3\n+2\n", "would change 1"]);
    assert_eq!(place.content(), "3\n");
    place.undoes(&[], "2\n");
    place.undoes(&[], "1\n");
    place.undoes(&["--redo"], "2\n");
    place.undoes(&["--redo"], "3\n");
    place.says(&["undo", "--redo", "--yes"], 2, &["no undo is left to take back"]);
    place.undoes(&["3"], "one\n");
    place.says(&["undo", "--yes"], 2, &["no change is left to undo"]);
    place.undoes(&["--redo"], "3\n");
    place.undoes(&["c2"], "1\n");
    place.undoes(&["--redo"], "3\n");
    place.says(&["undo", "4", "--yes"], 2, &["changes of session s left to undo: 3, not 4"]);
    for bad in ["0", "x", "c0", "-1"] {
        let (code, said) = place.run(&["undo", "--yes", "--", bad]);
        assert!(code == 2 && said.contains("give a number from 1"), "{bad}: {said}");
    }
    place.says(&["undo", "c99", "--yes"], 2, &["c99"]);
    place.says(&["undo", "2", "--redo"], 2, &["cannot be used with"]);
    let (code, said) = place.run(&["undo", "--yes", "--json"]);
    let said: Value = serde_json::from_str(&said).expect(&said);
    assert_eq!((code, &said["structured"]["id"]), (0, &json!("c3")), "{said}");
}

#[test]
fn undo_takes_the_session_that_changed_last() {
    let place = project();
    place.writes("s", "1\n");
    let arguments = r#"{"file_path": "b.txt", "content": "b\n"}"#;
    place.says(&["--session", "t", "call", "Write", arguments], 0, &["b.txt"]);
    place.says(&["undo", "--yes"], 0, &["b.txt"]);
    assert!(!place.root.join("b.txt").exists());
    assert_eq!(place.content(), "1\n");
    place.undoes(&[], "one\n");
    place.undoes(&["--redo", "--session", "s"], "1\n");
    place.says(&["undo", "--yes", "--session", "other"], 2, &["no change is left to undo"]);
    // Of another root nothing is undone.
    let elsewhere = tempfile::tempdir().unwrap();
    let root = elsewhere.path().to_str().unwrap();
    place.says(&["--root", root, "undo", "--yes"], 2, &["no change is left to undo"]);
}

#[test]
fn what_a_person_changed_since_is_told_and_kept() {
    let place = project();
    place.writes("s", "1\n");
    place.writes("s", "2\n");
    fs::write(place.root.join("a.txt"), "mine\n").unwrap();
    place.says(&["undo", "--yes"], 1, &["is refused", "changed it after c2"]);
    assert_eq!(place.content(), "mine\n");
    place.undoes(&["--force"], "1\n");
    place.undoes(&["--redo"], "mine\n");
    // A change that was taken back by hand is passed over.
    fs::write(place.root.join("a.txt"), "1\n").unwrap();
    place.undoes(&["--force"], "one\n");
}

#[test]
fn changes_taken_back_by_hand_are_passed_over_one_at_a_time() {
    let place = project();
    for content in ["1\n", "2\n", "1\n"] {
        place.writes("s", content);
    }
    // Two changes that cancel out are undone as two.
    place.says(&["undo", "2", "--yes"], 0, &["everything is as it was before c2"]);
    assert_eq!(place.content(), "1\n");
    // The last change of another session was taken back by hand.
    let arguments = r#"{"file_path": "b.txt", "content": "b\n"}"#;
    place.says(&["--session", "t", "call", "Write", arguments], 0, &["b.txt"]);
    fs::remove_file(place.root.join("b.txt")).unwrap();
    place.undoes(&[], "2\n");
}

#[test]
fn undo_of_a_session_of_several_roots_is_whole() {
    let place = project();
    let beside = tempfile::tempdir().unwrap();
    let beside = fs::canonicalize(beside.path()).unwrap();
    fs::create_dir_all(&beside).unwrap();
    let other = beside.to_str().unwrap();
    place.writes("s", "1\n");
    let arguments = json!({ "file_path": beside.join("x"), "content": "x\n" }).to_string();
    let root = place.root.to_str().unwrap().to_owned();
    let both = ["--root", &root, "--root", other, "--session", "s"];
    place.says(&[&both[..], &["call", "Write", &arguments]].concat(), 0, &[]);
    // The last change of the session is elsewhere, and the one here is not torn out of it.
    place.says(&["undo", "--yes"], 2, &["no change is left to undo in this directory"]);
    place.says(&[&both[..], &["undo", "2", "--yes"]].concat(), 0, &["2 changed"]);
    assert_eq!((place.content(), beside.join("x").exists()), (String::from("one\n"), false));
}

#[derive(Debug, Clone)]
enum Step {
    Write,
    Undo(usize),
    Redo,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]

    /// The command agrees with an editor's undo and redo.
    #[test]
    fn undo_and_redo_are_those_of_an_editor(
        steps in vec(prop_oneof![
            3 => Just(Step::Write),
            3 => (1_usize..4).prop_map(Step::Undo),
            2 => Just(Step::Redo),
        ], 1..14),
    ) {
        let place = project();
        let (mut past, mut now, mut undone) = (Vec::new(), String::from("one\n"), Vec::new());
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Write => {
                    past.push(std::mem::replace(&mut now, format!("{at}\n")));
                    undone.clear();
                    place.writes("s", &now);
                }
                Step::Undo(n) => {
                    let n_text = n.to_string();
                    let code = place.run(&["undo", "--yes", &n_text]).0;
                    prop_assert_eq!(code == 0, *n <= past.len(), "{:?} at {}", steps, at);
                    if code == 0 {
                        undone.push((past.clone(), now));
                        now = past.split_off(past.len() - n).swap_remove(0);
                    }
                }
                Step::Redo => {
                    let code = place.run(&["undo", "--redo", "--yes"]).0;
                    prop_assert_eq!(code == 0, !undone.is_empty(), "{:?} at {}", steps, at);
                    if let Some((before, state)) = undone.pop() {
                        (past, now) = (before, state);
                    }
                }
            }
            prop_assert_eq!(place.content(), now.as_str(), "{:?} at {}", steps, at);
        }
    }
}
