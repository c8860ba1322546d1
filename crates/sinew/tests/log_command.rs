//! `sinew log`, over calls of the built program.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::served::Place;
use crate::undo::project;

const SESSION: [&str; 2] = ["--session", "s"];

impl Place {
    fn makes(&self, tool: &str, arguments: &Value) {
        self.makes_with(&["--approvals", "allow"], tool, arguments);
    }

    fn makes_with(&self, options: &[&str], tool: &str, arguments: &Value) {
        let arguments = arguments.to_string();
        self.run(&[&SESSION, options, &["call", tool, &arguments]].concat());
    }

    fn puts(&self, path: &str, content: &str) {
        self.makes("Write", &json!({ "file_path": path, "content": content }));
    }

    /// Returns the exit code, standard output and standard error.
    fn logged(&self, args: &[&str]) -> (i32, String, String) {
        let ran = self.command(args).stdout(Stdio::piped()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
    }

    /// Checks the lines of a log, without times and with one blank between columns.
    #[track_caller]
    fn check(&self, args: &[&str], expected: &[&str]) {
        let (code, out, err) = self.logged(args);
        assert_eq!(code, 0, "{args:?}: {out} {err}");
        let lines: Vec<String> = out.lines().map(line).collect();
        assert_eq!(lines, expected, "{args:?}: {out} {err}");
    }
}

/// Returns a line with its columns separated by one blank, without the time.
fn line(text: &str) -> String {
    let columns: Vec<&str> =
        text.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
    let is_time = |column: &&str| *column == "just now" || column.ends_with(" ago");
    columns.into_iter().filter(|column| !is_time(column)).collect::<Vec<_>>().join(" ")
}

/// A project with calls of each kind, all of one session and with one call ID.
fn worked() -> Place {
    let place = project();
    place.makes("Read", &json!({ "file_path": "a.txt" }));
    place.puts("a.txt", "one\ntwo\n");
    place.puts("new/b.txt", "b\n");
    place.makes("Bash", &json!({ "command": "echo first\necho second" }));
    place.makes_with(&["--approvals", "deny"], "Bash", &json!({ "command": "touch c" }));
    place.makes(
        "Edit",
        &json!({ "file_path": "a.txt", "old_string": "nowhere", "new_string": "x" }),
    );
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+2\n*** Delete File: new/b.txt\n*** End Patch\n";
    place.makes("ApplyPatch", &json!({ "patch": patch }));
    place
}

const WORKED: [&str; 8] = [
    "c3 ApplyPatch 2 paths",
    "a.txt (+1 -1)",
    "new/b.txt (deleted, +0 -1)",
    "- Edit a.txt failed: no_match",
    "- Bash touch c denied: approval_denied",
    "- Bash echo first …",
    "c2 Write new/b.txt (new, +1 -0)",
    "c1 Write a.txt (+1 -0)",
];

#[test]
fn log_shows_changes_and_commands() {
    let place = worked();
    place.check(&["log"], &WORKED);
    let all = [&WORKED[..], &["- Read a.txt"]].concat();
    place.check(&["log", "--all"], &all);
    place.check(&["log", "-n", "1"], &WORKED[..3]);
    place.check(&["log", "--limit", "3"], &WORKED[..5]);
    place.check(&["log", "-n", "0"], &[]);
    place.check(&["log", "--session", "s"], &WORKED);
    place.check(&["log", "--session", "other"], &[]);
    let (_, _, err) = place.logged(&["log", "--session", "other"]);
    assert!(err.contains("no call of session other changed files"), "{err}");
}

#[test]
fn log_is_of_sessions_in_the_directory() {
    let place = worked();
    let elsewhere = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(elsewhere.path()).unwrap();
    let root = root.to_str().unwrap();
    let (code, out, err) = place.logged(&["--root", root, "log"]);
    assert!(code == 0 && out.is_empty() && err.contains("in this directory"), "{out}{err}");
    let bash = ["--approvals", "allow", "call", "Bash", "{\"command\": \"true\"}"];
    place.run(&[&["--root", root][..], &bash].concat());
    place.check(&["--root", root, "log"], &["- Bash true"]);
    place.check(
        &["--root", root, "log", "--session", "s"],
        &[
            "c3 ApplyPatch 2 paths",
            &format!("{}/a.txt (+1 -1)", place.root.display()),
            &format!("{}/new/b.txt (deleted, +0 -1)", place.root.display()),
            &format!("- Edit {}/a.txt failed: no_match", place.root.display()),
            WORKED[4],
            WORKED[5],
            &format!("c2 Write {}/new/b.txt (new, +1 -0)", place.root.display()),
            &format!("c1 Write {}/a.txt (+1 -0)", place.root.display()),
        ],
    );
}

#[test]
fn undone_call_is_marked() {
    let place = worked();
    let undo = [
        "c4 CheckpointRestore restores the state before c3",
        "a.txt (+1 -1)",
        "new/b.txt (new, +1 -0)",
    ];
    place.says(&["undo", "--yes"], 0, &["restored c3"]);
    place.check(
        &["log", "-n", "2"],
        &[&undo[..], &["c3 ApplyPatch 2 paths undone"], &WORKED[1..3]].concat(),
    );
    place.check(
        &["log", "-n", "2", "--session", "s"],
        &[&undo[..], &["c3 ApplyPatch 2 paths undone"], &WORKED[1..3]].concat(),
    );
    place.says(&["undo", "--redo", "--yes"], 0, &["restored c4"]);
    let redo = ["c5 CheckpointRestore restores the state before undo c4", WORKED[1], WORKED[2]];
    let taken_back = ["c4 CheckpointRestore restores the state before c3 taken back"];
    place.check(&["log", "-n", "3"], &[&redo[..], &taken_back, &undo[1..], &WORKED[..3]].concat());
}

#[test]
fn patch_shows_each_change() {
    let place = worked();
    place.check(
        &["log", "-p", "-n", "1"],
        &[
            WORKED[0],
            WORKED[1],
            WORKED[2],
            "--- a.txt",
            "+++ a.txt",
            "@@ -1,2 +1,2 @@",
            "one",
            "-two",
            "+2",
            "--- new/b.txt",
            "+++ /dev/null",
            "@@ -1 +0,0 @@",
            "-b",
            "",
        ],
    );
    // The state after the first change is kept by the one that followed.
    let (_, out, _) = place.logged(&["log", "--patch"]);
    assert!(out.contains("--- a.txt\n+++ a.txt\n@@ -1 +1,2 @@\n one\n+two\n"), "{out}");
    // It is what the checkpoint says.
    let (_, diff) = place.run(&["checkpoint", "diff", "c3"]);
    assert!(out.contains(diff.trim_end()), "{diff} is not in {out}");
    // A state that a person replaced is not known any more.
    fs::write(place.root.join("a.txt"), "mine\n").unwrap();
    place.check(&["log", "-n", "1"], &[WORKED[0], "a.txt (not kept)", WORKED[2]]);
}

#[test]
fn json_has_stable_keys() {
    let place = worked();
    place.says(&["undo", "--yes"], 0, &[]);
    let (code, out, _) = place.logged(&["log", "--json", "--all", "-p"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The undo had a dry run.
    assert_eq!((code, lines.len()), (0, 9), "{out}");
    for line in &lines {
        let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "checkpoint",
                "at",
                "seq",
                "session",
                "agent",
                "call_id",
                "dialect",
                "tool",
                "path",
                "command",
                "outcome",
                "duration_ms",
                "changes",
                "undone",
                "restores",
                "redo",
                "diff",
            ]
        );
    }
    let path = |name: &str| json!(place.root.join(name).to_str().unwrap());
    let change = |name, change, added, removed| json!({ "path": path(name), "change": change, "added": added, "removed": removed, "uncounted": null });
    let undo = &lines[0];
    assert_eq!(
        (&undo["checkpoint"], &undo["restores"], &undo["redo"]),
        (&json!("c4"), &json!("c3"), &json!(false))
    );
    assert_eq!(
        undo["changes"],
        json!([change("a.txt", "changed", 1, 1), change("new/b.txt", "new", 1, 0)])
    );
    let patch = &lines[2];
    assert_eq!(
        (&patch["undone"], &patch["outcome"], &patch["restores"]),
        (&json!(true), &json!("ok"), &Value::Null)
    );
    assert_eq!(
        (&patch["session"], &patch["call_id"], &patch["dialect"]),
        (&json!("s"), &json!("s-1"), &json!("native"))
    );
    let denied = &lines[4];
    assert_eq!(
        (&denied["command"], &denied["outcome"]),
        (&json!("touch c"), &json!("approval_denied"))
    );
    assert_eq!(
        (&denied["checkpoint"], &denied["changes"], &denied["diff"]),
        (&Value::Null, &json!([]), &json!(""))
    );
    let (_, out, _) = place.logged(&["log", "--json", "-n", "1"]);
    assert!(!out.contains("\"diff\""), "{out}");
}

#[test]
fn untrusted_text_moves_no_cursor() {
    let place = project();
    place.puts("\u{1b}[2Jx\n.txt", "\u{1b}[31mred\u{202e}\n");
    place.makes("Bash", &json!({ "command": "echo \u{1b}[2J" }));
    for args in [&["log", "-p"][..], &["log", "--json", "-p"]] {
        let (code, out, _) = place.logged(args);
        assert_eq!(code, 0, "{out}");
        assert!(out.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{out:?}");
    }
    let escaped = "\\u{1b}[2Jx\\n.txt";
    place.check(&["log"], &["- Bash echo \\u{1b}[2J", &format!("c1 Write {escaped} (new, +1 -0)")]);
}

#[test]
fn content_without_lines_says_why() {
    let place = project();
    fs::write(place.root.join("binary"), b"a\0b").unwrap();
    fs::write(place.root.join("large"), "x\n".repeat(1 << 20)).unwrap();
    let patch = "*** Begin Patch\n*** Delete File: binary\n*** Delete File: large\n*** End Patch\n";
    place.makes("ApplyPatch", &json!({ "patch": patch }));
    place.check(
        &["log"],
        &["c1 ApplyPatch 2 paths", "binary (deleted, binary)", "large (deleted, too large)"],
    );
    place.check(
        &["log", "-p"],
        &[
            "c1 ApplyPatch 2 paths",
            "binary (deleted, binary)",
            "large (deleted, too large)",
            "binary: a file of 3 bytes, mode 644 becomes nothing",
            "large: a file of 2097152 bytes, mode 644 becomes nothing",
            "",
        ],
    );
}

#[test]
fn long_list_of_paths_is_cut() {
    let place = project();
    let files: String = (0..12).map(|n| format!("*** Add File: f{n:02}\n+x\n")).collect();
    let patch = format!("*** Begin Patch\n{files}*** End Patch\n");
    place.makes("ApplyPatch", &json!({ "patch": patch }));
    let (_, out, _) = place.logged(&["log"]);
    let lines: Vec<String> = out.lines().map(line).collect();
    assert_eq!((lines.len(), lines[11].as_str()), (12, "and 2 more"), "{out}");
}

#[test]
fn log_needs_neither_ledger_nor_checkpoints() {
    let off = "ledger.mode=off";
    let place = project();
    let (code, out, err) = place.logged(&["log"]);
    assert!(code == 0 && out.is_empty() && err.contains("nothing is recorded yet"), "{out}{err}");
    assert!(!place.home.join("state/sinew").exists(), "a look made a state directory");
    // Without records a checkpoint says what changed.
    place.makes_with(
        &["--set", off, "--approvals", "allow"],
        "Write",
        &json!({ "file_path": "n", "content": "n" }),
    );
    place.check(&["log"], &["c1 Write n (new, +1 -0)"]);
    let (_, _, err) = place.logged(&["log"]);
    assert!(err.contains("only changes with a checkpoint are shown"), "{err}");
    let (_, _, err) = place.logged(&["--set", off, "log"]);
    assert!(
        err.contains("the audit log is off") && err.contains("ledger.mode = \"sqlite\""),
        "{err}"
    );
    // Both come in the order of their times.
    place.puts("a.txt", "two\n");
    place.makes_with(
        &["--set", off, "--approvals", "allow"],
        "Write",
        &json!({ "file_path": "o", "content": "o" }),
    );
    place.check(
        &["log"],
        &["c3 Write o (new, +1 -0)", "c2 Write a.txt (+1 -1)", "c1 Write n (new, +1 -0)"],
    );
    place.check(&["log", "-n", "2"], &["c3 Write o (new, +1 -0)", "c2 Write a.txt (+1 -1)"]);
    // Without checkpoints the record names the files.
    let kept = "tools.fs.checkpoint_before_mutation=false";
    place.makes_with(
        &["--set", kept, "--approvals", "allow"],
        "Write",
        &json!({ "file_path": "p", "content": "p" }),
    );
    place.check(&["log", "-n", "1"], &["- Write p (new, not kept)"]);
    place.check(
        &["log", "-p", "-n", "1"],
        &["- Write p (new, not kept)", "p: there is no diff: not kept", ""],
    );
    let (_, _, err) = place.logged(&["--set", kept, "log", "-n", "1"]);
    assert!(err.contains("checkpoints are off"), "{err}");
}

#[test]
fn damaged_source_leaves_the_other() {
    let place = worked();
    let state = place.home.join("state/sinew");
    let check = |broken: &str, first: &str, why: &str| {
        let path = state.join(broken);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [0x5a_u8; 4_096]).unwrap();
        let (code, out, err) = place.logged(&["log"]);
        assert_eq!((code, out.lines().next().map(line).as_deref()), (1, Some(first)), "{out}{err}");
        assert!(err.contains(why), "{err}");
        fs::write(&path, whole).unwrap();
    };
    check("sinew.db", WORKED[0], "the database of the audit log is damaged");
    check("checkpoints.db", "- ApplyPatch 2 paths", "the checkpoints cannot be read");
    place.check(&["log"], &WORKED);
}

/// A log that made a call would be in the next one.
#[test]
fn log_records_nothing() {
    let place = worked();
    let n_records = || place.logged(&["audit", "export"]).1.lines().count();
    let before = n_records();
    place.check(&["log", "-p", "-n", "0"], &[]);
    place.check(&["log", "--all", "-n", "1"], &WORKED[..3]);
    assert_eq!(n_records(), before);
}
