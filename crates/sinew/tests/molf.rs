//! Results of molf: their envelope, and what becomes of the output that a reply has no room for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::served::{Place, command};

/// The id of the one call of a run.
const ID: &str = "s1-1";

/// Calls a tool of molf with changes allowed; returns the result object.
fn call(place: &Place, more: &[&str], tool: &str, args: &Value) -> Value {
    let mut command = command(&place.home);
    command.env("PATH", "/usr/bin:/bin").arg("--root").arg(&place.root);
    command.args(["--dialect", "molf", "--approvals", "allow", "--set", "session=\"s1\""]);
    let args = args.to_string();
    let done = command.args(more).args(["call", "--json", tool, &args]).output().unwrap();
    serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{tool} {args}: {done:?}"))
}

fn outputs(place: &Place) -> PathBuf {
    place.root.join(".molf/tool-output")
}

/// Returns the lines from 1 to a number.
fn lines(n: usize) -> String {
    (1..=n).map(|n| format!("{n}\n")).collect()
}

const GO_ON: &str = "Use read_file with startLine and endLine to view a section of it, or grep to \
                     search it.";

/// Checks the envelope of calls, and that the text is what a model reads of it.
#[track_caller]
fn check(place: &Place, rows: &[(&str, Value, Value)]) {
    for (tool, args, expected) in rows {
        let result = call(place, &[], tool, args);
        assert_eq!(&result["structured"], expected, "{tool} {args}");
        let (text, object) =
            (result["content"][0]["text"].as_str().unwrap(), &result["structured"]);
        let (output, error) = (object["output"].as_str().unwrap(), object["error"].as_str());
        let both = match (output, error) {
            (output, None) => output.to_owned(),
            ("", Some(error)) => error.to_owned(),
            (output, Some(error)) => format!("{output}\n\n{error}"),
        };
        assert_eq!(text, both, "{tool} {args}");
    }
}

#[test]
fn result_is_the_envelope_of_the_page() {
    let place = Place::new();
    let root = place.root.display();
    fs::write(place.root.join("a.txt"), "one\n").unwrap();
    fs::write(place.root.join("p.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
    let rows = [
        (
            "read_file",
            json!({ "path": "a.txt" }),
            json!({ "output": format!("Content of {root}/a.txt (2 lines):\none\n") }),
        ),
        (
            "read_file",
            json!({ "path": "none" }),
            json!({ "output": "", "error": format!("File not found: {root}/none") }),
        ),
        (
            "read_file",
            json!({ "path": "p.png" }),
            json!({
                "output": format!("[Binary file: {root}/p.png, image/png, 16 bytes]"),
                "attachments": [{
                    "mimeType": "image/png",
                    "data": "iVBORw0KGgoAAAANSUhEUg==",
                    "path": format!("{root}/p.png"),
                    "size": 16,
                }],
            }),
        ),
        ("glob", json!({ "pattern": "*.zig" }), json!({ "output": "No files found" })),
        (
            "read_fil",
            json!({}),
            json!({ "output": "", "error": "no tool of this name: read_fil\n\ndid you mean: read_file, write_file" }),
        ),
    ];
    check(&place, &rows);
}

#[test]
fn command_result_is_the_envelope_of_the_page() {
    let place = Place::new();
    let id = format!(".molf/tool-output/{ID}.txt");
    let rows = [
        (
            "shell_exec",
            json!({ "command": "echo one; echo two >&2; exit 3" }),
            json!({
                "output": "one\ntwo\n\n\nexit code: 3",
                "meta": { "truncated": false, "exitCode": 3 },
            }),
        ),
        (
            "shell_exec",
            json!({ "command": "printf begun; sleep 600", "timeout": 300 }),
            json!({
                "output": "begun",
                "error": "Command execution failed: Command timed out after 300ms",
            }),
        ),
        (
            "shell_exec",
            json!({ "command": "seq 1 2002" }),
            json!({
                "output": format!(
                    "{}\n...2 lines truncated...\n\nOutput was truncated. Full output saved to: \
                     {id}\n{GO_ON}\n\nexit code: 0",
                    lines(2_000)
                ),
                "meta": {
                    "truncated": true,
                    "outputId": ID,
                    "exitCode": 0,
                    "outputPath": id,
                },
            }),
        ),
    ];
    check(&place, &rows);
}

/// The file itself had been named, and nothing was kept.
#[test]
fn cut_file_keeps_a_copy() {
    let place = Place::new();
    let root = place.root.display();
    fs::write(place.root.join("lines"), lines(3_000)).unwrap();
    fs::write(place.root.join("wide"), format!("{}\nend\n", "y".repeat(60_000))).unwrap();
    for (name, whole, kept, n_left_out) in [
        ("lines", format!("Content of {root}/lines (3001 lines):\n{}", lines(3_000)), None, 1_001),
        (
            "wide",
            format!("Content of {root}/wide (3 lines):\n{}\nend\n", "y".repeat(60_000)),
            Some(50 * 1024),
            2,
        ),
    ] {
        let result = call(&place, &[], "read_file", &json!({ "path": name }));
        let copy = format!(".molf/tool-output/{ID}.txt");
        assert!(fs::read_to_string(place.root.join(&copy)).unwrap() == whole, "{name}");
        let head = match kept {
            Some(n_bytes) => whole[..n_bytes].to_owned(),
            None => whole.lines().take(2_000).collect::<Vec<_>>().join("\n"),
        };
        let text = result["content"][0]["text"].as_str().unwrap();
        let expected = format!(
            "{head}\n\n...{n_left_out} lines truncated...\n\nOutput was truncated. Full output saved \
             to: {copy}\n{GO_ON}"
        );
        assert!(text == expected, "{name}: {}", &text[text.len() - 300..]);
        assert_eq!(
            result["structured"]["meta"],
            json!({ "truncated": true, "outputId": ID, "outputPath": copy })
        );
        fs::remove_file(place.root.join(copy)).unwrap();
    }
    assert_eq!(fs::read_to_string(outputs(&place).join(".gitignore")).unwrap(), "*\n");
    // A part of it that fits is no reason for a copy.
    let part = json!({ "path": "lines", "startLine": 2_900 });
    assert_eq!(call(&place, &[], "read_file", &part)["structured"]["meta"], Value::Null);
    assert!(!outputs(&place).join(format!("{ID}.txt")).exists());
}

#[test]
fn stored_output_replaces_no_file() {
    let place = Place::new();
    fs::create_dir_all(outputs(&place)).unwrap();
    let mine = outputs(&place).join(format!("{ID}.txt"));
    fs::write(&mine, "mine").unwrap();
    let planted = outputs(&place).join(format!("{ID}-2.txt"));
    symlink(place.home.join("planted"), &planted).unwrap();
    let result = call(&place, &[], "shell_exec", &json!({ "command": "seq 1 3000" }));
    assert_eq!(result["structured"]["meta"]["outputId"], format!("{ID}-3"));
    assert_eq!(fs::read_to_string(mine).unwrap(), "mine");
    assert!(!place.home.join("planted").exists());
}

#[test]
fn output_that_cannot_be_kept_is_said() {
    for (tool, args) in [
        ("read_file", json!({ "path": "lines" })),
        ("shell_exec", json!({ "command": "cat lines" })),
    ] {
        for (case, more, why) in [
            (
                "a link out",
                &[][..],
                [".molf/tool-output/ may not be written here", "cannot be written, or is full"],
            ),
            ("a file", &[], ["it is not a directory", "cannot be written, or is full"]),
            ("full", &[], ["at most 1000 entries", "cannot be written, or is full"]),
            (
                "denied",
                &["--set", "tools.fs.deny_paths=[\"**/.molf/**\"]"],
                [".molf/tool-output/ may not be written here", "cannot be written, or is full"],
            ),
            (
                "ruled out",
                &["--set", "rules=[{verdict=\"deny\",paths=[\".molf/**\"]}]"],
                [".molf/tool-output/ may not be written here", "cannot be written, or is full"],
            ),
            (
                "read only",
                &["--read-only"],
                [".molf/tool-output/ may not be written here", "cannot be written, or is full"],
            ),
        ] {
            let place = Place::new();
            fs::write(place.root.join("lines"), lines(3_000)).unwrap();
            let out = place.home.join("out");
            fs::create_dir(&out).unwrap();
            match case {
                "a link out" => symlink(&out, place.root.join(".molf")).unwrap(),
                "a file" => fs::write(place.root.join(".molf"), "").unwrap(),
                "full" => {
                    fs::create_dir_all(outputs(&place)).unwrap();
                    for n in 0..1_000 {
                        fs::write(outputs(&place).join(format!("{n}")), "").unwrap();
                    }
                }
                _ => {}
            }
            let result = call(&place, more, tool, &args);
            if case == "read only" && tool == "shell_exec" {
                assert_eq!(result["ok"], false, "{result}");
                continue;
            }
            assert_eq!(result["ok"], true, "{case} {tool}: {result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            let why = why[usize::from(tool == "shell_exec")];
            let (head, tail) = text.split_once("\n\n...").unwrap();
            assert!(head.contains("\n1999"), "{case} {tool}");
            assert!(tail.contains("The full output is not saved: "), "{case} {tool}: {tail}");
            assert!(tail.contains(why), "{case} {tool}: {tail}");
            let meta = &result["structured"]["meta"];
            assert_eq!((&meta["truncated"], &meta["outputPath"]), (&json!(true), &Value::Null));
            assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{case} {tool}");
        }
    }
}

/// What a hook takes out of a reply must not stay in the copy of it.
#[test]
fn copy_has_what_hooks_left() {
    let place = Place::new();
    let program = place.home.join("hook");
    // The payload is one line.
    let script = r#"#!/bin/sh
        sed -e 's/SECRET/REDACTED/g' \
            -e 's/.*"content":\(.*\),"structured".*/{"reply":{"content":\1}}/'
    "#;
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let config = place.home.join("config/sinew/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let program = program.display();
    fs::write(
        &config,
        format!("[[hooks]]\nname = \"h\"\nevent = \"persist\"\ncommand = [\"{program}\"]\n"),
    )
    .unwrap();
    fs::write(place.root.join("lines"), format!("{}SECRET\n", lines(3_000))).unwrap();
    let result = call(&place, &[], "read_file", &json!({ "path": "lines" }));
    let path = result["structured"]["meta"]["outputPath"].as_str().unwrap();
    let copy = fs::read_to_string(place.root.join(path)).unwrap();
    assert!(copy.ends_with("3000\nREDACTED\n"), "{result}");
    let bash = json!({ "command": "echo SECRET; cat lines" });
    let result = call(&place, &[], "shell_exec", &bash);
    assert!(result["structured"]["output"].as_str().unwrap().starts_with("REDACTED\n1\n"));
    for entry in fs::read_dir(outputs(&place)).unwrap() {
        let path = entry.unwrap().path();
        assert!(!fs::read_to_string(&path).unwrap().contains("SECRET"), "{path:?}");
    }
}
