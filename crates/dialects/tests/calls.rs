//! Replies word by word, as golden texts in `calls/`: the same deeds in every dialect.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, ROOT, Scripted, call, finished, golden};
use sinew_tool::{Block, Dialect, Exit};

/// The tree that every call starts from.
fn world(dialect: &Dialect) -> MemoryWorld {
    let mut settings = (dialect.settings)();
    settings.max_read_bytes = settings.max_read_bytes.map(|_| 2_000);
    let mut world = MemoryWorld::with_settings(settings);
    world.processes = Scripted::new(finished(Exit::Code(2), "out\n", "err\n"), Vec::new());
    world
        .file("a.rs", "fn a() {\n    one();\n}\n")
        .file("b/dos.txt", "one\r\ntwo\r\n")
        .file("b/twice.txt", "same\nsame\n")
        .file("b/bytes.bin", b"a\0b")
        .file("b/empty", "")
        .file("b/picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
        .file("b/long.txt", format!("{}\nend\n", "x".repeat(2_100)))
        .file("b/big.txt", "0123456789\n".repeat(300))
        .file("ignored/c.rs", "fn ignored() {}\n")
        .file(".gitignore", "ignored/\n")
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .link("link.rs", "a.rs")
        .special("pipe")
        .directory("empty");
    for (seconds, path) in [
        "a.rs",
        "b/dos.txt",
        "b/twice.txt",
        "b/bytes.bin",
        "b/empty",
        "b/long.txt",
        "b/big.txt",
        "ignored/c.rs",
        ".gitignore",
        ".git/HEAD",
    ]
    .into_iter()
    .enumerate()
    {
        world.modified(path, 1_000 + seconds as i64);
    }
    world
}

/// The deeds: what is shown, and the call with paths beneath the root.
fn deeds() -> Vec<(&'static str, &'static str, Value)> {
    let read = |path: &str| json!({ "file_path": path });
    let edit = |path: &str, old: &str, new: &str| json!({ "file_path": path, "old_string": old, "new_string": new });
    vec![
        ("a text", "Read", read("a.rs")),
        ("a window", "Read", json!({ "file_path": "a.rs", "offset": 2, "limit": 1 })),
        ("past the end", "Read", json!({ "file_path": "a.rs", "offset": 9 })),
        ("CRLF is shown without CR", "Read", read("b/dos.txt")),
        ("an empty file", "Read", read("b/empty")),
        ("binary", "Read", read("b/bytes.bin")),
        ("a picture", "Read", read("b/picture.png")),
        ("nothing there", "Read", read("nope")),
        ("a directory", "Read", read("b")),
        ("a pipe", "Read", read("pipe")),
        ("larger than the limit", "Read", json!({ "file_path": "b/big.txt", "limit": 2 })),
        ("pages", "Read", json!({ "file_path": "a.rs", "pages": "1-2" })),
        ("a missing argument", "Read", json!({})),
        ("a new file", "Write", json!({ "file_path": "b/new.txt", "content": "new\n" })),
        ("a file that was there", "Write", json!({ "file_path": "a.rs", "content": "" })),
        ("a missing parent", "Write", json!({ "file_path": "no/where.txt", "content": "x" })),
        ("through a link", "Write", json!({ "file_path": "link.rs", "content": "x" })),
        ("one place", "Edit", edit("a.rs", "one", "two")),
        ("no such text", "Edit", edit("a.rs", "    onx();", "")),
        ("two places", "Edit", edit("b/twice.txt", "same", "other")),
        (
            "every place",
            "Edit",
            json!({ "file_path": "b/twice.txt", "old_string": "same", "new_string": "$&",
                "replace_all": true }),
        ),
        ("other line endings", "Edit", edit("b/dos.txt", "one\ntwo", "1\n2")),
        ("the same text", "Edit", edit("a.rs", "one", "one")),
        ("a missing file", "Edit", edit("nope", "a", "b")),
        (
            "in order",
            "MultiEdit",
            json!({ "file_path": "a.rs", "edits": [
                { "old_string": "one", "new_string": "two" },
                { "old_string": "two", "new_string": "three" } ] }),
        ),
        (
            "all or none",
            "MultiEdit",
            json!({ "file_path": "a.rs", "edits": [
                { "old_string": "one", "new_string": "two" },
                { "old_string": "gone", "new_string": "x" } ] }),
        ),
        (
            "a diff of two files",
            "ApplyPatch",
            json!({ "patch": "--- a/a.rs\n+++ b/a.rs\n@@ -1,3 +1,3 @@\n fn a() {\n-    one();\n\
                +    two();\n }\n--- a/b/dos.txt\n+++ b/b/dos.txt\n@@ -1,2 +1,2 @@\n one\n-two\n\
                +2\n" }),
        ),
        (
            "an envelope",
            "ApplyPatch",
            json!({ "patch": "*** Begin Patch\n*** Add File: new.rs\n+fn new() {}\n\
                *** Update File: a.rs\n*** Move to: b/a.rs\n@@\n-    one();\n+    two();\n\
                *** Delete File: b/empty\n*** End Patch\n" }),
        ),
        (
            "only shown",
            "ApplyPatch",
            json!({ "patch": "@@ -2 +2 @@\n-    one();\n+    two();\n", "path": "a.rs",
                "dry_run": true }),
        ),
        (
            "all files or none",
            "ApplyPatch",
            json!({ "patch": "--- a/a.rs\n+++ b/a.rs\n@@ -2 +2 @@\n-    one();\n+    two();\n\
                --- a/b/twice.txt\n+++ b/b/twice.txt\n@@ @@\n-same\n+other\n" }),
        ),
        (
            "a name that leads out",
            "ApplyPatch",
            json!({ "patch": "--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n" }),
        ),
        ("no patch", "ApplyPatch", json!({ "patch": "one(); becomes two();" })),
        ("newest first", "Glob", json!({ "pattern": "**/*", "path": "." })),
        ("nothing found", "Glob", json!({ "pattern": "*.zig", "path": "." })),
        ("a pattern that is none", "Glob", json!({ "pattern": "[", "path": "." })),
        ("a pattern that leads out", "Glob", json!({ "pattern": "../*", "path": "." })),
        ("a missing directory", "Glob", json!({ "pattern": "*", "path": "nope" })),
        ("files", "Grep", json!({ "pattern": "e", "path": "." })),
        (
            "lines",
            "Grep",
            json!({ "pattern": "one", "path": ".", "output_mode": "content", "-n": true, "-C": 1 }),
        ),
        ("counts", "Grep", json!({ "pattern": "same", "path": ".", "output_mode": "count" })),
        ("a limit", "Grep", json!({ "pattern": "e", "path": ".", "head_limit": 1 })),
        ("one file", "Grep", json!({ "pattern": "TWO", "path": "b/dos.txt", "-i": true })),
        ("a pattern that is none", "Grep", json!({ "pattern": "a(b", "path": "." })),
        ("an unknown type", "Grep", json!({ "pattern": "a", "path": ".", "type": "rusty" })),
        ("a directory", "List", json!({ "path": "." })),
        ("beneath it too", "List", json!({ "path": ".", "recursive": true })),
        ("a missing directory", "List", json!({ "path": "nope" })),
        ("a command", "Bash", json!({ "command": "make" })),
        ("a command", "shell_exec", json!({ "command": "make", "cwd": "b" })),
        ("a program", "tool::shell_exec", json!({ "argv": ["make", "all"], "cwd": "b" })),
        ("a command", "exec_shell", json!({ "command": "make" })),
        ("a program", "spawn", json!({ "command": "make", "args": ["all"], "description": "All" })),
        ("a command", "exec", json!({ "command": "make" })),
        ("no command", "Bash", json!({})),
        ("no command", "shell_exec", json!({ "timeout": 5 })),
        ("no list", "tool::shell_exec", json!({ "argv": "make all" })),
        ("no time", "exec_shell", json!({ "command": "make", "timeout": 0 })),
        ("no list", "spawn", json!({ "command": "make", "args": "all" })),
        ("another unit", "exec", json!({ "command": "make", "timeout_ms": 5 })),
    ]
}

/// Makes the paths of a call absolute.
fn absolute(mut args: Value) -> Value {
    for name in ["file_path", "path"] {
        if let Some(Value::String(path)) = args.get_mut(name) {
            *path = if path == "." { ROOT.to_owned() } else { format!("{ROOT}/{path}") };
        }
    }
    args
}

#[test]
fn replies_are_as_they_were() {
    for dialect in sinew_dialects::ALL {
        let tools = (dialect.tools)();
        let mut page = format!("Replies of the dialect {}.\n", dialect.name);
        for (what, name, args) in deeds() {
            let Some(tool) = tools.iter().find(|tool| tool.name() == name) else { continue };
            let args = absolute(args);
            let reply = call(&world(dialect), tool, args.clone());
            let _ = writeln!(page, "\n== {name}: {what}\n{args}");
            let end = match (&reply.error, reply.outcome) {
                (Some(error), _) => format!("refused: {}", error.kind),
                (None, Some(outcome)) => format!("ok, recorded as {outcome}"),
                (None, None) => format!("ok: {}", reply.ok),
            };
            let _ = writeln!(page, "-- {end}");
            for block in &reply.content {
                if let Block::Text { text } = block {
                    // Nothing in a golden text may depend on an editor that strips blanks.
                    let shown: Vec<String> =
                        text.lines().map(|line| line.replace('\r', "\\r")).collect();
                    let _ = writeln!(page, "{}", shown.join("\n"));
                }
            }
        }
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/calls/{}.txt", dialect.name));
        golden(&file, &page);
    }
}
