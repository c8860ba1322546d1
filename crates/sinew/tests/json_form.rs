//! The form of `--json`: every command prints objects, one a line, with keys of one vocabulary.

use std::collections::BTreeSet;
use std::fs;

use clap::CommandFactory as _;
use serde_json::Value;
use sinew::cli::Cli;

use crate::served::{Place, command};

/// The keys that commands print, as docs/command-line.md lists the shared ones.
const KEYS: &[&str] = &[
    // The call or other thing that a line is about.
    "agent",
    "call_id",
    "check",
    "checkpoint",
    "client",
    "command",
    "dialect",
    "hook",
    "id",
    "key",
    "rule",
    "seq",
    "server",
    "session",
    "skill",
    "template",
    "tool",
    "turn",
    "type",
    // Its place and time.
    "at",
    "at_ms",
    "created_at",
    "cwd",
    "duration_ms",
    "origin",
    "parent",
    "path",
    "place",
    "root",
    "source",
    "updated_at",
    "waited_ms",
    // How it ended.
    "content",
    "error",
    "hint",
    "kind",
    "message",
    "meta",
    "notes",
    "ok",
    "outcome",
    "problem",
    "problems",
    "structured",
    "text",
    "findings",
    // What it changed.
    "added",
    "change",
    "changed",
    "changes",
    "commands",
    "diff",
    "dry_run",
    "finished",
    "redo",
    "removed",
    "restores",
    "uncounted",
    "undone",
    "undo",
    // Counts.
    "n_beyond_head",
    "n_calls",
    "n_deferred",
    "n_entries",
    "n_examples",
    "n_images",
    "n_listed",
    "n_messages_left",
    "n_more_findings",
    "n_records",
    "n_rules",
    "n_without_example",
    "tokens",
    // Words about a tool, skill, template, hook or server.
    "allowed_tools",
    "annotations",
    "deferred",
    "description",
    "destructive",
    "event",
    "events",
    "example",
    "files",
    "for_model",
    "for_user",
    "hash",
    "help",
    "idempotent",
    "input_schema",
    "internal_only",
    "max_steps",
    "missing",
    "model",
    "name",
    "default",
    "needed",
    "new",
    "of_agent",
    "on_error",
    "open_world",
    "output_schema",
    "paths",
    "payload",
    "pinned",
    "priority",
    "read_only",
    "timeout_ms",
    "title",
    "tools",
    "variables",
    "visibility",
    "waiting",
    "approved",
    // A setup and its client.
    "action",
    "configured",
    "installed",
    "rehearsal",
    "step",
    "would",
    // Configuration and trust.
    "arguments",
    "hooks",
    "loader",
    "loosens",
    "servers",
    "trusted",
    "unclear",
    "value",
    // A ruling.
    "address",
    "argv",
    "display",
    "expected",
    "failed",
    "runs",
    "script",
    "segments",
    "ruling",
    "why",
    "words",
    // A record of the audit log.
    "after_hash",
    "answer",
    "approver",
    "background",
    "before_hash",
    "boot",
    "bytes",
    "dead",
    "effects",
    "first",
    "head",
    "intent",
    "machine",
    "os_user",
    "phase",
    "pid",
    "pid_namespace",
    "pid_started",
    "previous",
    "reply_bytes",
    "sandbox_level",
    "surface",
    "unfinished",
    "verdict",
    // The events of an agent, which docs/agent.md documents.
    "after",
    "after_ms",
    "before",
    "cached",
    "context",
    "cost",
    "differences",
    "input",
    "now",
    "output",
    "provider",
    "recorded",
    "stop",
    "usage",
];

/// Keys whose values have a format of their own: schemas, results of tools, arguments, configuration.
const FREE: &[&str] =
    &["arguments", "content", "input_schema", "meta", "output_schema", "structured", "value"];

/// How many objects a command prints.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Printed {
    /// One, which is no error.
    One,
    /// One, which is an error of this kind.
    Error(&'static str),
    /// So many or more.
    Lines(usize),
}
use Printed::{Error, Lines, One};

/// The command, its words, its exit code and what it prints. Each runs after those before it.
type Row = (&'static str, &'static [&'static str], i32, Printed);

const ROWS: &[Row] = &[
    ("trust", &[], 0, One),
    ("trust", &["--yes"], 0, One),
    ("trust list", &[], 0, Lines(1)),
    ("call", &["Write", "file_path=a.txt", "content=one"], 0, One),
    ("call", &["Bash", "command=sort a.txt >b.txt", "--approvals", "allow"], 0, One),
    ("call", &["Read", "file_path=none"], 1, Error("file_not_found")),
    ("call", &["Read", "nonsense"], 2, Error("invalid_args")),
    ("call", &["Read", "--nope"], 2, Error("usage")),
    ("call", &["Read", "--set", "files.nope=1"], 2, Error("config")),
    ("call", &["--batch"], 2, Lines(2)),
    ("tools", &[], 0, Lines(10)),
    ("tools", &["--cost"], 0, One),
    ("tools", &["--root", "none"], 2, Error("failed")),
    ("help", &["call"], 0, One),
    ("help", &["Read"], 0, One),
    ("help", &["Nothing"], 2, Error("failed")),
    ("run", &["do it"], 2, Error("failed")),
    ("replay", &["demo"], 0, Lines(10)),
    ("replay", &["none"], 2, Error("failed")),
    ("skills list", &[], 0, Lines(2)),
    ("agents list", &[], 0, Lines(1)),
    ("sessions list", &[], 0, Lines(0)),
    ("log", &["-p"], 0, Lines(2)),
    ("undo", &[], 3, Error("approval_denied")),
    ("undo", &["--dry-run"], 0, One),
    ("undo", &["c9", "--yes"], 2, Error("not_found")),
    ("checkpoint list", &[], 0, Lines(2)),
    ("checkpoint diff", &["c1"], 0, One),
    ("checkpoint restore", &["c1"], 3, Error("approval_denied")),
    ("checkpoint restore", &["c1", "--yes"], 0, One),
    ("audit list", &[], 0, Lines(5)),
    ("audit show", &["3"], 0, Lines(1)),
    ("audit show", &["none"], 2, Error("failed")),
    ("audit verify", &[], 0, One),
    ("audit verify", &["--head", "1:ff"], 2, Error("failed")),
    ("policy explain", &["git log | head"], 0, One),
    ("policy explain", &["--tool", "Write", r#"{"file_path": "a", "content": ""}"#], 0, One),
    ("policy test", &[], 1, One),
    ("hook list", &[], 0, Lines(1)),
    ("mcp-servers list", &[], 0, Lines(1)),
    ("mcp-servers test", &["none"], 1, Error("file_not_found")),
    ("mcp-servers approve", &["none"], 2, Error("file_not_found")),
    ("config show", &[], 0, Lines(50)),
    ("doctor", &[], 0, One),
    ("setup", &[], 0, Lines(5)),
    ("setup", &["cursor", "--dry-run"], 0, One),
    ("setup", &["cursor"], 1, Error("not_installed")),
];

/// A batch whose second line is no call: the third must not run.
const BATCH: &str = "{\"id\":7,\"name\":\"List\"}\n[]\n{\"name\":\"Write\",\"arguments\":{\"file_path\":\"third\",\"content\":\"\"}}\n";

const CONFIG: &str = r#"
[[rules]]
verdict = "allow"
command = "true *"
match = ["false"]

[[hooks.hooks]]
name = "looks"
events = ["before_tool_execute"]
command = ["true"]

[tools.mcp_servers.none]
command = "/nonexistent"
"#;

fn place() -> Place {
    let place = Place::new();
    for (path, text) in [
        (place.home.join("config/sinew/config.toml"), CONFIG),
        (place.root.join(".sinew/config.toml"), "approvals = \"trust-client\"\n"),
        (
            place.root.join(".sinew/skills/good/SKILL.md"),
            "---\nname: good\ndescription: Good.\n---\nDo.\n",
        ),
        (place.root.join(".sinew/skills/bad/SKILL.md"), "nothing\n"),
    ] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    place
}

/// Returns what is wrong with the keys of an object.
fn wrong_keys(value: &Value, wrong: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if !KEYS.contains(&key.as_str()) {
                    wrong.insert(key.clone());
                }
                if !FREE.contains(&key.as_str()) {
                    wrong_keys(value, wrong);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|one| wrong_keys(one, wrong)),
        _ => {}
    }
}

#[test]
fn json_of_every_command_has_one_form() {
    let place = place();
    let mut problems = Vec::new();
    for (name, words, code, printed) in ROWS {
        let mut sinew = command(&place.home);
        sinew.current_dir(&place.root).args(name.split(' ')).args(*words).arg("--json");
        let input = place.home.join("input");
        fs::write(&input, BATCH).unwrap();
        let done = sinew.stdin(fs::File::open(input).unwrap()).output().unwrap();
        let (out, err) =
            (String::from_utf8(done.stdout).unwrap(), String::from_utf8_lossy(&done.stderr));
        let mut say =
            |problem: &str| problems.push(format!("{name} {words:?}: {problem}\n{out}{err}"));
        if done.status.code() != Some(*code) {
            say(&format!("exit code {:?}", done.status.code()));
        }
        let lines: Vec<Value> =
            out.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect();
        if !lines.iter().all(Value::is_object) {
            say("a line is no object");
        }
        let mut wrong = BTreeSet::new();
        lines.iter().for_each(|line| wrong_keys(line, &mut wrong));
        if !wrong.is_empty() {
            say(&format!(
                "unknown keys {wrong:?}: use one of {KEYS:?}, or add it there and to the documents"
            ));
        }
        let kinds: Vec<Option<&str>> =
            lines.iter().map(|line| line["error"]["kind"].as_str()).collect();
        let is_right = match printed {
            One => kinds == [None],
            Error(kind) => {
                let message = lines.first().and_then(|line| line["error"]["message"].as_str());
                kinds == [Some(*kind)]
                    && lines[0]["ok"] == false
                    && message.is_some_and(|message| !err.contains(message))
            }
            Lines(n) => *n <= lines.len(),
        };
        if !is_right {
            say(&format!("not {printed:?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(!place.root.join("third").exists(), "a batch ends at a line that is no call");
}

#[test]
fn every_command_with_json_has_a_row() {
    fn collect(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
        if command.get_arguments().any(|arg| arg.get_id() == "json") {
            found.insert(path.to_owned());
        }
        for sub in command.get_subcommands() {
            collect(sub, format!("{path} {}", sub.get_name()).trim_start(), found);
        }
    }
    let mut found = BTreeSet::new();
    collect(&Cli::command(), "", &mut found);
    let rows: BTreeSet<String> = ROWS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(rows, found);
    let snake = |key: &&&str| key.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase());
    assert_eq!(KEYS.iter().find(|key| !snake(key)), None);
    assert_eq!(KEYS.iter().collect::<BTreeSet<_>>().len(), KEYS.len(), "a key is there twice");
}
