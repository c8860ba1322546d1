//! The tool Undo: what the last changes of the calling session were, and the way of a restore.

use std::fs;

use serde_json::{Value, json};

use crate::served::Place;
use crate::undo::project;

/// Calls Undo in a session and checks the exit code, words of what it says, and the file afterwards.
#[track_caller]
fn check(place: &Place, session: &str, args: &Value, (code, words): (i32, &[&str]), after: &str) {
    let args = args.to_string();
    let call = ["--session", session, "--approvals", "allow", "call", "Undo", &args];
    place.says(&call, code, words);
    let content = fs::read_to_string(place.root.join("a.txt")).unwrap();
    assert_eq!(content, after, "{session}: {args}");
}

fn write(place: &Place, session: &str, content: &str) {
    let read = r#"{"file_path": "a.txt"}"#;
    place.says(&["--session", session, "call", "Read", read], 0, &[]);
    let write = json!({ "file_path": "a.txt", "content": content }).to_string();
    let call = ["--session", session, "--approvals", "allow", "call", "Write", &write];
    place.says(&call, 0, &["wrote"]);
}

#[test]
fn model_undoes_and_redoes_its_changes() {
    let place = project();
    let none = "no file changes of this session are left to take back";
    check(&place, "s", &json!({}), (1, &[none, "changes of other sessions and the user"]), "one\n");
    ["1\n", "2\n", "3\n"].iter().for_each(|content| write(&place, "s", content));
    check(&place, "t", &json!({}), (1, &[none]), "3\n");
    let dry = json!({ "dry_run": true });
    check(&place, "s", &dry, (0, &["restoring c3 would change 1", "-3\n+2\n"]), "3\n");
    let done = ["restored c3: 1 changed", "restore  a.txt", "Undo with `redo` takes this back"];
    check(&place, "s", &json!({}), (0, &done), "2\n");
    check(&place, "s", &json!({ "n": 2 }), (0, &["restored c1", "undone: c1, c2"]), "one\n");
    check(&place, "s", &json!({}), (1, &[none]), "one\n");
    let redo = json!({ "redo": true });
    check(&place, "s", &redo, (0, &["restored c5", "Undo takes this back"]), "2\n");
    check(&place, "s", &redo, (0, &["restored c4"]), "3\n");
    let last = "no undos of this session are left to take back";
    check(&place, "s", &redo, (1, &[last, "makes the undo final"]), "3\n");
    let many = "file changes of this session left to take back: 3, not 4";
    check(&place, "s", &json!({ "n": 4 }), (2, &[many]), "3\n");
    check(&place, "s", &json!({ "n": 0 }), (2, &["n"]), "3\n");
    check(&place, "s", &json!({ "id": "c1" }), (2, &["id"]), "3\n");
    // Two undos are taken back at once, and the command agrees with the tool.
    check(&place, "s", &json!({}), (0, &["restored c3"]), "2\n");
    place.says(&["undo", "--yes", "--session", "s"], 0, &["restored c2"]);
    check(&place, "s", &json!({ "redo": true, "n": 2 }), (0, &["restored c8"]), "3\n");
    place.says(&["log", "-n", "1"], 0, &["Undo restores the state before undo c8"]);
}

#[test]
fn change_by_others_is_refused_unless_forced() {
    let place = project();
    write(&place, "s", "1\n");
    write(&place, "s", "2\n");
    fs::write(place.root.join("a.txt"), "mine\n").unwrap();
    let refused = ["the restore of c2 is refused", "changed it after c2", "`force` restores it"];
    check(&place, "s", &json!({}), (1, &refused), "mine\n");
    check(&place, "s", &json!({ "force": true }), (0, &["restored c2"]), "1\n");
    // What a person took back by hand is passed over.
    fs::write(place.root.join("a.txt"), "one\n").unwrap();
    check(&place, "s", &json!({}), (0, &["everything is as it was before c1"]), "one\n");
    write(&place, "s", "2\n");
    write(&place, "s", "3\n");
    fs::write(place.root.join("a.txt"), "2\n").unwrap();
    let refused = ["the restore of c4 is refused", "changed it after c5"];
    check(&place, "s", &json!({}), (1, &refused), "2\n");
    check(&place, "s", &json!({ "force": true }), (0, &["restored c4"]), "one\n");
}

#[test]
fn undo_is_judged_as_a_restore() {
    let place = project();
    write(&place, "s", "1\n");
    let config = place.home.join("config/sinew/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    for rule in [
        "verdict = \"deny\"\ntools = [\"Write\"]\npaths = [\"a.txt\"]\n",
        "verdict = \"deny\"\ntools = [\"Read\"]\npaths = [\"a.txt\"]\n",
        "verdict = \"deny\"\ntools = [\"Undo\"]\n",
    ] {
        fs::write(&config, format!("[[rules]]\n{rule}")).unwrap();
        let call = ["--session", "s", "--approvals", "allow", "call", "Undo", "{}"];
        let (code, said) = place.run(&call);
        assert!(code == 3 || said.contains("no tool"), "{rule}: {code}: {said}");
        assert_eq!(fs::read_to_string(place.root.join("a.txt")).unwrap(), "1\n", "{rule}");
    }
    fs::write(&config, "").unwrap();
    // Without an answer a change that can be undone runs, and a read-only session changes nothing.
    place.says(&["--session", "s", "--read-only", "call", "Undo", "{}"], 3, &["read-only"]);
    place.says(&["--session", "s", "call", "Undo", "{}"], 0, &["restored c1"]);
    // Another root has no part in it.
    let elsewhere = tempfile::tempdir().unwrap();
    let root = elsewhere.path().to_str().unwrap();
    let redo = r#"{"redo": true}"#;
    let call = ["--root", root, "--session", "s", "--approvals", "allow", "call", "Undo", redo];
    place.says(&call, 2, &["no such checkpoint"]);
}
