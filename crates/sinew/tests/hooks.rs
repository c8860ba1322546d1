//! Hooks that are programs, around the calls of the command and of the library: what they see, what
//! they change, what becomes of those that misbehave, and that nothing of them is left.

mod alias;
mod commands;
mod files;
mod hazard;
mod keys;
mod library;
mod paths;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::served;

/// A home with programs that are hooks, and a root, which vanish with their test.
struct Place {
    place: served::Place,
}

impl Place {
    fn new() -> Self {
        let place = served::Place::new();
        fs::create_dir(place.home.join("bin")).unwrap();
        Self { place }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.home.join(name)
    }

    /// Writes a program for the shell; `{home}` and `{root}` stand for the directories.
    fn program(&self, name: &str, script: &str) -> String {
        let path = self.at("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{}\n", self.filled(script))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn filled(&self, text: &str) -> String {
        let text = text.replace("{home}", self.place.home.to_str().unwrap());
        text.replace("{root}", self.place.root.to_str().unwrap())
    }

    /// Writes the person's configuration.
    fn config(&self, toml: &str) {
        let path = self.at("config/sinew/config.toml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.filled(toml)).unwrap();
    }

    /// Makes one hook of a script: `more` are further keys.
    fn hook(&self, event: &str, script: &str, more: &str) {
        let program = self.program("hook", script);
        self.config(&format!(
            "[[hooks]]\nname = \"h\"\nevent = \"{event}\"\ncommand = [\"{program}\"]\n{more}\n"
        ));
    }

    fn run(&self, args: &[&str], input: &str) -> Ran {
        let mut command = served::command(&self.place.home);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir(&self.place.root);
        let streams = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = streams.stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // One that does not read ends before.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Writes a file with a tool; returns the result as JSON.
    fn write(&self, content: &str) -> (i32, Value) {
        let arguments = json!({ "file_path": "a.txt", "content": content }).to_string();
        let ran = self.run(&["call", "--json", "Write", &arguments], "");
        let result = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
        (ran.code, result)
    }

    fn content(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.place.root.join(name)).ok()
    }

    /// Returns what a hook wrote to a file of the home.
    fn noted(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.at(name)).ok()
    }
}

/// What a run left.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

#[track_caller]
fn has(text: &str, words: &str) {
    assert!(text.contains(words), "no {words:?} in {text}");
}

fn said(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn programs_change_block_and_see_calls() {
    let rows: &[(&str, &str, i32, Option<&str>, &str)] = &[
        ("before_tool_execute", "cat >/dev/null", 0, Some("one"), "created a.txt"),
        (
            "before_tool_execute",
            r#"echo '{"arguments":{"content":"two"}}'"#,
            0,
            Some("two"),
            "created a.txt",
        ),
        (
            "before_tool_execute",
            r#"echo '{"decision":"block","reason":"not this"}'"#,
            3,
            None,
            "blocked by the hook `h`: not this",
        ),
        (
            "before_tool_execute",
            "echo because >&2; exit 2",
            3,
            None,
            "blocked by the hook `h`: because",
        ),
        // What a hook changes is judged like anything else.
        (
            "before_tool_execute",
            r#"echo '{"arguments":{"file_path":"/etc/x"}}'"#,
            3,
            None,
            "path denied: /etc/x",
        ),
        (
            "before_tool_execute",
            r#"echo '{"arguments":{"file_path":".git/hooks/pre-commit"}}'"#,
            3,
            None,
            "needs approval",
        ),
        (
            "before_tool_execute",
            r#"echo '{"arguments":{"surprise":1}}'"#,
            2,
            None,
            "argument `surprise` is unknown",
        ),
        (
            "after_tool_execute",
            r#"echo '{"reply":{"content":"formatted"}}'"#,
            0,
            Some("one"),
            "formatted",
        ),
        (
            "persist",
            r#"echo '{"reply":{"content":[{"type":"text","text":"masked"}]}}'"#,
            0,
            Some("one"),
            "masked",
        ),
    ];
    for (event, script, code, content, words) in rows {
        let place = Place::new();
        place.hook(event, script, "");
        let (ended, result) = place.write("one");
        assert_eq!(ended, *code, "{script}: {result}");
        assert_eq!(place.content("a.txt").as_deref(), *content, "{script}");
        has(&said(&result), words);
    }
}

#[test]
fn programs_run_in_order_of_priority_and_see_what_others_changed() {
    let place = Place::new();
    let add = place.program(
        "add",
        r#"sed 's/.*"content":"\([a-z -]*\)".*/{"arguments":{"content":"\1-'"$1"'"}}/'"#,
    );
    place.config(&format!(
        "[[hooks]]\nevent = \"before_tool_execute\"\ncommand = [\"{add}\", \"low\"]\npriority = -1\n\
         [[hooks]]\nevent = \"before_tool_execute\"\ncommand = [\"{add}\", \"first\"]\npriority = 9\n\
         [[hooks]]\nevent = \"before_tool_execute\"\ncommand = [\"{add}\", \"second\"]\npriority = 9\n"
    ));
    let (code, result) = place.write("x");
    assert_eq!(
        (code, place.content("a.txt").as_deref()),
        (0, Some("x-first-second-low")),
        "{result}"
    );
    let notes = result["meta"]["hooks"].as_array().expect("notes");
    assert_eq!(notes.len(), 3);
    assert_eq!(notes[0]["did"], "changed arguments");
}

/// The record of a call said that a hook had stopped it, but neither which nor what it was about.
#[test]
fn the_record_of_what_a_hook_stopped_names_the_hook_and_what_it_was_about() {
    let place = Place::new();
    place.hook("before_tool_execute", "echo no >&2; exit 2", "");
    for (tool, arguments, name, expected) in [
        (
            "Bash",
            json!({ "command": "rm PASSWORD=hunter22" }),
            "command",
            "rm PASSWORD=[redacted: secret]",
        ),
        ("Read", json!({ "file_path": "a.txt" }), "path", "a.txt"),
        ("Read", json!({ "surprise": 1 }), "path", ""),
    ] {
        assert_eq!(place.run(&["call", tool, &arguments.to_string()], "").code, 3, "{tool}");
        let ran = place.run(&["audit", "list", "--json", "--limit", "1"], "");
        let record: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&record["tool"], &record["rule"]), (&json!(tool), &json!("hook")), "{record}");
        assert_eq!(record[name].as_str().unwrap_or_default(), expected, "{record}");
        let origin = record["origin"].as_str().unwrap();
        assert!(origin.starts_with("h (") && origin.contains("config.toml:1"), "{origin}");
    }
}

/// Each hook writes its name down as it runs.
#[test]
fn every_event_reaches_a_program() {
    let place = Place::new();
    let note = place.program("note", "echo \"$SINEW_HOOK_EVENT $SINEW_SESSION\" >>{home}/events");
    let hooks =
        ["session_start", "before_tool_execute", "after_tool_execute", "persist", "session_end"];
    place.config(&format!(
        "session = \"mine\"\n[[hooks]]\nevents = {hooks:?}\ncommand = [\"{note}\"]\n"
    ));
    let expected: String = hooks.iter().map(|event| format!("{event} mine\n")).collect();
    assert_eq!(place.write("x").0, 0);
    assert_eq!(place.noted("events").unwrap(), expected);
    // Of two calls there are two of all but the session.
    fs::remove_file(place.at("events")).unwrap();
    let batch = "{\"name\":\"List\"}\n{\"name\":\"List\"}\n";
    assert_eq!(place.run(&["call", "--batch"], batch).code, 0);
    let events = place.noted("events").unwrap();
    let n = |event: &str| events.lines().filter(|line| line.starts_with(event)).count();
    let counts = hooks.map(n);
    assert_eq!(counts, [1, 2, 2, 2, 1], "{events}");
    // A pipe ends its session too.
    fs::remove_file(place.at("events")).unwrap();
    let call = "{\"type\":\"call\",\"id\":1,\"name\":\"List\"}\n";
    assert_eq!(place.run(&["pipe"], call).code, 0);
    assert_eq!(place.noted("events").unwrap(), expected);
    // No call, no session.
    fs::remove_file(place.at("events")).unwrap();
    assert_eq!(place.run(&["call", "--batch"], "").code, 0);
    assert_eq!(place.noted("events"), None);
}

#[test]
fn over_mcp_hooks_hold_and_sessions_end() {
    for by_signal in [false, true] {
        let place = Place::new();
        let script = "echo $SINEW_HOOK_EVENT >>{home}/events\n\
                      if [ \"$SINEW_TOOL_NAME\" = Glob ]; then echo 'no globs' >&2; exit 2; fi";
        let program = place.program("hook", script);
        place.config(&format!(
            "[[hooks]]\nevents = [\"before_tool_execute\", \"session_end\"]\ncommand = [\"{program}\"]\n"
        ));
        let mut command = served::command(&place.place.home);
        command.env("PATH", "/usr/bin:/bin").current_dir(&place.place.root).arg("mcp");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut ask = |message: Value, answers: bool| {
            writeln!(input, "{message}").unwrap();
            let mut line = String::new();
            if answers {
                std::io::BufRead::read_line(&mut output, &mut line).unwrap();
            }
            serde_json::from_str::<Value>(&line).unwrap_or_default()
        };
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}}});
        ask(hello, true);
        ask(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), false);
        let call = |id: u64, name: &str, arguments: Value| {
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": {"name": name, "arguments": arguments}})
        };
        let blocked = ask(call(2, "Glob", json!({"pattern": "*"})), true);
        assert_eq!(blocked["result"]["isError"], true, "{blocked}");
        has(
            &blocked["result"]["content"][0]["text"].to_string(),
            "blocked by the hook `hook`: no globs",
        );
        let passed = ask(call(3, "Grep", json!({"pattern": "x"})), true);
        assert_ne!(passed["result"]["isError"], true, "{passed}");
        if by_signal {
            let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        }
        drop(input);
        child.wait().unwrap();
        let events = place.noted("events").unwrap();
        assert_eq!(
            events, "before_tool_execute\nbefore_tool_execute\nsession_end\n",
            "{by_signal}"
        );
    }
}

/// Where nothing is configured, nothing of hooks is there.
#[test]
fn without_hooks_nothing_is_started_and_nothing_is_told() {
    let place = Place::new();
    let (code, result) = place.write("x");
    assert_eq!((code, &result["meta"]["hooks"]), (0, &Value::Null));
    assert!(!place.at("state/sinew/sessions").exists());
}

const MASK: &str = r#"echo '{"reply":{"content":"REDACTED","structured":null}}'"#;

/// The content was changed, and the hint of the error beside it had the text of the file.
#[test]
fn what_a_hook_takes_out_of_a_refusal_leaves_nowhere() {
    let place = Place::new();
    fs::write(place.place.root.join("a.txt"), "key = \"SECRET-1\"\nnext line\n").unwrap();
    let near = json!({ "file_path": "a.txt", "old_string": "kez = \"SECRET-2\"\nnext line\n",
        "new_string": "x" });
    let call = |place: &Place| place.run(&["call", "--json", "Edit", &near.to_string()], "");
    has(&call(&place).out, "SECRET-1");
    place.hook("persist", MASK, "");
    let ran = call(&place);
    assert!(!ran.out.contains("SECRET"), "{}", ran.out);
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&result["error"]["message"], &result["error"]["hint"]),
        (&json!("REDACTED"), &Value::Null)
    );
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "Edit", "arguments": near}}),
    ];
    let input: String = messages.iter().map(|message| format!("{message}\n")).collect();
    let ran = place.run(&["mcp"], &input);
    has(&ran.out, "REDACTED");
    assert!(!ran.out.contains("SECRET"), "{}", ran.out);
}

/// What a hook changed or kept back lay whole in the file that the reply named.
#[test]
fn the_full_output_goes_with_what_a_hook_takes_out() {
    let bash = json!({ "command": "seq 1 60000; echo TOKEN=secret" }).to_string();
    for (event, script, is_kept) in [
        ("persist", "exit 0", true),
        ("persist", MASK, false),
        ("after_tool_execute", MASK, false),
        ("persist", "exit 2", false),
        ("persist", "exit 7", false),
    ] {
        let place = Place::new();
        place.hook(event, script, "");
        let ran = place.run(&["--approvals", "allow", "call", "--json", "Bash", &bash], "");
        let result: Value = serde_json::from_str(&ran.out).unwrap();
        let path = result["meta"]["output_path"].as_str();
        assert_eq!(path.is_some(), is_kept, "{script}: {}", result["meta"]);
        let dir = fs::read_dir(place.place.root.join(".sinew/tool-output"));
        let n = dir.map_or(0, |dir| dir.count());
        assert_eq!(n, usize::from(is_kept), "{script}");
    }
}
