//! Replies word by word, as golden texts in `calls/`: the same deeds in every dialect.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sinew_testkit::{
    MemoryAgents, MemorySkills, MemoryWorld, Pages, ROOT, Scripted, Spawned, call, finished, golden,
};
use sinew_tool::{
    AgentReport, Block, Dialect, Exit, Kind, LoadedSkill, SearchResult, SkillInfo, SpawnLimit,
    Tool, ToolError, WebResponse,
};

/// The tree that every call starts from.
fn world(dialect: &Dialect) -> MemoryWorld {
    let mut settings = (dialect.settings)();
    settings.max_read_bytes = settings.max_read_bytes.map(|_| 2_000);
    settings.max_memory_bytes = 300;
    let mut world = MemoryWorld::with_settings(settings);
    world.pages = fetched().with_endpoint();
    world.skills = Arc::new(greet());
    world.mailbox.receive("peer", Ok("the tests are green\n\u{1b}[2J"));
    world.mailbox.receive("other\nline", Err("blocked by the hook `scan`: an instruction"));
    world.mailbox.receive("peer", Ok("third"));
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
    if world.settings.must_read_before_write {
        read_some(dialect, &world);
    }
    world
}

/// Lays out the memory that a deed of the memory tools starts from.
fn remembered(what: &str, world: &MemoryWorld) {
    let memory = ".sinew/MEMORY.md";
    let many = || (0..25).map(|n| format!("note {n}")).collect::<Vec<_>>().join("\n\n");
    match what {
        "no memory yet" | "no memory to search yet" => world,
        "a memory above the limit" => world.file(memory, "x".repeat(301)),
        "a memory that is no text" => world.file(memory, b"caf\xe9"),
        "a memory behind a link" => world.link(memory, "../a.rs"),
        "more paragraphs than are shown" => world.file(memory, many()),
        _ => world.file(memory, "# Build\n\nIt needs protoc.\n\nTests need a database.\n"),
    };
}

/// Deeds of the memory tools, under both of their names.
fn memories() -> Vec<FileOp> {
    let read = |what: &'static str, args: Value| {
        [(what, "MemoryRead", args.clone()), (what, "memory_read", args)]
    };
    let write = |what: &'static str, args: Value| {
        [(what, "MemoryWrite", args.clone()), (what, "memory_write", args)]
    };
    let mut all: Vec<FileOp> = [
        read("all of it", json!({})),
        read("the best paragraphs first", json!({ "query": "needs PROTOC" })),
        read("no such word", json!({ "query": "cargo" })),
        read("more paragraphs than are shown", json!({ "query": "note" })),
        read("no memory yet", json!({})),
        read("no memory to search yet", json!({ "query": "protoc" })),
        read("a memory above the limit", json!({})),
        read("a memory that is no text", json!({})),
        read("a memory behind a link", json!({})),
        read("more words than are searched", json!({ "query": "w ".repeat(33).trim_end() })),
        write("behind what is there", json!({ "content": "New." })),
        write("in place of it", json!({ "content": "New.\n", "mode": "overwrite" })),
        write("no memory yet", json!({ "content": "New." })),
        write("nothing to note", json!({ "content": "" })),
        write("another mode", json!({ "content": "New.", "mode": "prepend" })),
        write("more than a memory holds", json!({ "content": "x".repeat(301) })),
        write("a memory that would be too large", json!({ "content": "x".repeat(290) })),
        write("a memory that is no text", json!({ "content": "New.", "mode": "overwrite" })),
        write("a memory behind a link", json!({ "content": "New." })),
    ]
    .concat();
    all.push(("that of the user", "MemoryRead", json!({ "scope": "user" })));
    all.push(("that of the user", "MemoryWrite", json!({ "content": "New.", "scope": "user" })));
    all
}

/// Reads what later deeds change, where they may change nothing else; one file is left unread.
fn read_some(dialect: &Dialect, world: &MemoryWorld) {
    for read in (dialect.tools)().iter().filter(|tool| tool.name() == "Read") {
        for path in ["a.rs", "b/dos.txt", "b/twice.txt"] {
            let reply = call(world, read, absolute(json!({ "file_path": path })));
            assert!(reply.ok, "{path}");
        }
    }
}

/// The name of the case, the tool, and its arguments with paths beneath the root.
type FileOp = (&'static str, &'static str, Value);

fn deeds() -> Vec<FileOp> {
    let all = [
        native(),
        patches(),
        searches(),
        on_files(),
        on_directories(),
        on_files_of_mcp(),
        on_directories_of_mcp(),
        commands(),
        pages(),
        searches_of_the_web(),
        skills(),
        searches_of_tools(),
        memories(),
        messages(),
        spawns(),
        todos(),
    ];
    all.concat()
}

/// Skills, in native words and in those of molf.
fn skills() -> Vec<FileOp> {
    vec![
        ("all of them", "Skill", json!({})),
        ("instructions with tools", "Skill", json!({ "skill": "greet", "args": "Ada" })),
        ("another file", "Skill", json!({ "skill": "greet", "file": "words.md" })),
        ("a file that is not there", "Skill", json!({ "skill": "greet", "file": "../x" })),
        ("an unknown skill", "Skill", json!({ "skill": "nope" })),
        ("a file of no skill", "Skill", json!({ "file": "words.md" })),
        ("a skill and its release", "Skill", json!({ "skill": "greet", "release": true })),
        ("a release without a skill", "Skill", json!({ "release": true })),
        ("instructions with tools", "skill", json!({ "name": "greet" })),
        ("an unknown skill", "skill", json!({ "name": "nope" })),
        ("no name", "skill", json!({})),
    ]
}

/// Searches of tools, where none is deferred.
fn searches_of_tools() -> Vec<FileOp> {
    vec![
        ("words", "ToolSearch", json!({ "query": "send a message" })),
        ("a name that no tool has", "ToolSearch", json!({ "query": "select:Nope" })),
        ("no words", "ToolSearch", json!({ "query": " " })),
        ("no tools", "ToolSearch", json!({ "query": "send", "max_results": 0 })),
    ]
}

/// The skill of every world.
fn greet() -> MemorySkills {
    let name = String::from("greet");
    let info = SkillInfo { name: name.clone(), description: String::from("Greets people.") };
    let loaded = LoadedSkill {
        name,
        text: String::from("Greet $ARGUMENTS politely."),
        files: vec![String::from("words.md")],
        allowed_tools: Some(vec![String::from("Read"), String::from("mail__*")]),
    };
    MemorySkills::new(vec![(info, loaded)])
}

/// Deeds in native words, which several vocabularies have.
fn native() -> Vec<FileOp> {
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
        ("a file that nobody read", "Write", json!({ "file_path": "b/empty", "content": "x" })),
        ("a name of two lines", "Write", json!({ "file_path": "b/1\n2", "content": "x" })),
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
        ("no text", "Edit", edit("a.rs", "", "one")),
        ("binary", "Edit", edit("b/bytes.bin", "a", "b")),
        ("a directory", "Edit", edit("b", "a", "b")),
        ("beneath a file", "Edit", edit("a.rs/b", "a", "b")),
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
    ]
}

/// Patches in native words.
fn patches() -> Vec<FileOp> {
    vec![
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
    ]
}

/// Searches in native words, which several vocabularies have.
fn searches() -> Vec<FileOp> {
    vec![
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
    ]
}

/// Deeds on files, in words that are not native.
fn on_files() -> Vec<FileOp> {
    vec![
        ("case", "Grep", json!({ "pattern": "SAME", "path": ".", "case_insensitive": true })),
        ("nothing found", "Grep", json!({ "pattern": "zzz", "path": "." })),
        ("some files", "Grep", json!({ "pattern": "one", "path": ".", "glob": "*.rs" })),
        ("a text", "read_file", json!({ "path": "a.rs" })),
        ("some lines", "read_file", json!({ "path": "a.rs", "startLine": 2, "endLine": 2 })),
        ("from a line", "read_file", json!({ "path": "a.rs", "startLine": 3 })),
        ("past the end", "read_file", json!({ "path": "a.rs", "startLine": 9 })),
        (
            "the wrong way round",
            "read_file",
            json!({ "path": "a.rs", "startLine": 3, "endLine": 2 }),
        ),
        ("CRLF", "read_file", json!({ "path": "b/dos.txt" })),
        ("an empty file", "read_file", json!({ "path": "b/empty" })),
        ("binary", "read_file", json!({ "path": "b/bytes.bin" })),
        ("a picture", "read_file", json!({ "path": "b/picture.png" })),
        ("nothing there", "read_file", json!({ "path": "nope" })),
        ("a directory", "read_file", json!({ "path": "b" })),
        ("a pipe", "read_file", json!({ "path": "pipe" })),
        ("a new file", "write_file", json!({ "path": "b/new.txt", "content": "new\n" })),
        ("a name of two lines", "write_file", json!({ "path": "b/1\n2", "content": "x" })),
        ("a missing parent", "write_file", json!({ "path": "no/where.txt", "content": "x" })),
        (
            "a missing parent that is wanted",
            "write_file",
            json!({ "path": "no/where.txt", "content": "x", "createDirectories": true }),
        ),
        ("through a link", "write_file", json!({ "path": "link.rs", "content": "x" })),
        ("beneath a file", "write_file", json!({ "path": "a.rs/x", "content": "x" })),
        (
            "one place",
            "edit_file",
            json!({ "path": "a.rs", "oldString": "one", "newString": "$&" }),
        ),
        (
            "no such text",
            "edit_file",
            json!({ "path": "a.rs", "oldString": "onx", "newString": "" }),
        ),
        (
            "two places",
            "edit_file",
            json!({ "path": "b/twice.txt", "oldString": "same", "newString": "x" }),
        ),
        (
            "every place",
            "edit_file",
            json!({ "path": "b/twice.txt", "oldString": "same", "newString": "x",
                "replaceAll": true }),
        ),
        ("no text", "edit_file", json!({ "path": "a.rs", "oldString": "", "newString": "x" })),
        ("the same", "edit_file", json!({ "path": "a.rs", "oldString": "a", "newString": "a" })),
        (
            "a missing file",
            "edit_file",
            json!({ "path": "no", "oldString": "a", "newString": "b" }),
        ),
        ("one place", "edit_file", json!({ "path": "a.rs", "old_text": "one", "new_text": "two" })),
        ("no such text", "edit_file", json!({ "path": "a.rs", "old_text": "onx", "new_text": "" })),
        (
            "two places",
            "edit_file",
            json!({ "path": "b/twice.txt", "old_text": "same", "new_text": "x" }),
        ),
        ("no text", "edit_file", json!({ "path": "a.rs", "old_text": "", "new_text": "x" })),
        ("a missing file", "edit_file", json!({ "path": "no", "old_text": "a", "new_text": "b" })),
    ]
}

/// Deeds on directories, in words that are not native.
fn on_directories() -> Vec<FileOp> {
    vec![
        ("newest first", "glob", json!({ "pattern": "**/*", "path": "." })),
        ("nothing found", "glob", json!({ "pattern": "*.zig", "path": "." })),
        ("no directory", "glob", json!({ "pattern": "*", "path": "a.rs" })),
        ("a missing directory", "glob", json!({ "pattern": "*", "path": "nope" })),
        ("an empty directory name", "glob", json!({ "pattern": "*.rs", "path": "" })),
        ("lines", "grep", json!({ "pattern": "one", "path": "." })),
        ("empty names", "grep", json!({ "pattern": "one", "path": "", "include": "" })),
        ("some files", "grep", json!({ "pattern": "one", "path": ".", "include": "*.txt" })),
        ("nothing found", "grep", json!({ "pattern": "zzz" , "path": "." })),
        ("a missing directory", "grep", json!({ "pattern": "a", "path": "nope" })),
        ("a pattern that is none", "grep", json!({ "pattern": "a(b", "path": "." })),
        ("a directory", "list_directory", json!({ "path": "." })),
        ("no directory", "list_directory", json!({ "path": "a.rs" })),
        ("a missing directory", "list_directory", json!({ "path": "nope" })),
        ("a text", "tool::file_read", json!({ "path": "a.rs" })),
        ("some bytes", "tool::file_read", json!({ "path": "a.rs", "maxBytes": 4 })),
        ("binary", "tool::file_read", json!({ "path": "b/bytes.bin" })),
        ("nothing there", "tool::file_read", json!({ "path": "nope" })),
        ("outside", "tool::file_read", json!({ "path": "../../etc/passwd" })),
        (
            "hunks without names",
            "tool::apply_patch",
            json!({ "path": "a.rs", "patch": "@@ -1,3 +1,3 @@\n-fn a() {\n+fn b() {\n" }),
        ),
        (
            "other names in the headers",
            "tool::apply_patch",
            json!({ "path": "link.rs", "patch": "--- a/x\n+++ b/x\n@@ -2 +2 @@\n-    one();\n\
                +    two();\n" }),
        ),
        (
            "nothing in the headers",
            "tool::apply_patch",
            json!({ "path": "a.rs", "patch": "--- a/a.rs\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-fn a() {\n\
                -    one();\n-}\n" }),
        ),
        (
            "no hunks",
            "tool::apply_patch",
            json!({ "path": "a.rs", "patch": "*** Begin Patch\n*** Delete File: a.rs\n\
                *** End Patch\n" }),
        ),
        (
            "a second file",
            "tool::apply_patch",
            json!({ "path": "a.rs", "patch": "--- a/x\n+++ b/x\n@@ -2 +2 @@\n-    one();\n\
                +    two();\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n" }),
        ),
        (
            "what does not fit",
            "tool::apply_patch",
            json!({ "path": "a.rs", "patch": "@@ -2 +2 @@\n-    onx();\n+    two();\n" }),
        ),
        (
            "nothing there",
            "tool::apply_patch",
            json!({ "path": "nope", "patch": "@@ -2 +2 @@\n-    onx();\n+    two();\n" }),
        ),
        (
            "every deed",
            "apply_patch",
            json!({ "input": "*** Begin Patch\n*** Delete File: b/empty\n*** Update File: a.rs\n\
                *** Move to: b/a.rs\n@@\n-    one();\n+    two();\n*** Add File: new.rs\n\
                +fn new() {}\n*** Update File: b/dos.txt\n@@\n-two\n+2\n*** End Patch\n" }),
        ),
        (
            "what does not fit",
            "apply_patch",
            json!({ "input": "*** Begin Patch\n*** Update File: a.rs\n@@\n-    onx();\n\
                +    two();\n*** End Patch\n" }),
        ),
        (
            "blanks around its markers",
            "apply_patch",
            json!({ "input": " *** Begin Patch \n  *** Update File: a.rs \n @@ fn a() { \n-    one();\n\
                +    two();\n *** Delete File: b/empty\n *** End Patch \n" }),
        ),
        ("no name", "apply_patch", json!({ "input": "@@\n-one\n+two\n" })),
        ("no patch", "apply_patch", json!({ "input": "one();" })),
        ("a file", "tool::file_write", json!({ "path": "b/new.txt", "content": "é" })),
        ("a missing parent", "tool::file_write", json!({ "path": "no/x", "content": "x" })),
        ("a directory", "tool::file_list", json!({ "path": "b" })),
        ("beneath it too", "tool::file_list", json!({ "path": ".", "recursive": true })),
        ("nothing there", "tool::file_list", json!({ "path": "nope" })),
    ]
}

/// Deeds on files in the words of the filesystem server.
fn on_files_of_mcp() -> Vec<FileOp> {
    vec![
        ("a text", "read_text_file", json!({ "path": "a.rs" })),
        ("its head", "read_text_file", json!({ "path": "a.rs", "head": 2 })),
        ("more than its head", "read_text_file", json!({ "path": "a.rs", "head": 9 })),
        ("its tail", "read_text_file", json!({ "path": "b/dos.txt", "tail": 2 })),
        ("more than its tail", "read_text_file", json!({ "path": "a.rs", "tail": 9 })),
        ("head and tail", "read_text_file", json!({ "path": "a.rs", "head": 1, "tail": 1 })),
        ("a picture", "read_media_file", json!({ "path": "b/picture.png" })),
        ("another file", "read_media_file", json!({ "path": "b/bytes.bin" })),
        ("a directory", "read_media_file", json!({ "path": "b" })),
        (
            "several",
            "read_multiple_files",
            json!({ "paths": ["a.rs", "nope", "b", "b/twice.txt"] }),
        ),
        ("none", "read_multiple_files", json!({ "paths": [] })),
        (
            "in order",
            "edit_file",
            json!({ "path": "a.rs", "edits": [
                { "oldText": "one", "newText": "two" },
                { "oldText": "two();", "newText": "three();" } ] }),
        ),
        (
            "other blanks, only shown",
            "edit_file",
            json!({ "path": "a.rs", "dryRun": true, "edits": [
                { "oldText": "one();\n  }", "newText": "two();\n  }" } ] }),
        ),
        (
            "no text",
            "edit_file",
            json!({ "path": "a.rs", "edits": [{ "oldText": "", "newText": "x" }] }),
        ),
        (
            "no such text",
            "edit_file",
            json!({ "path": "a.rs", "edits": [{ "oldText": "nothing\nlike it", "newText": "" }] }),
        ),
        (
            "two places",
            "edit_file",
            json!({ "path": "b/twice.txt", "edits": [{ "oldText": "same", "newText": "x" }] }),
        ),
    ]
}

/// Deeds on directories in the words of the filesystem server.
fn on_directories_of_mcp() -> Vec<FileOp> {
    vec![
        ("a new one", "create_directory", json!({ "path": "x/y" })),
        ("one that is there", "create_directory", json!({ "path": "b" })),
        ("a file that is there", "create_directory", json!({ "path": "a.rs" })),
        ("a directory", "list_directory_with_sizes", json!({ "path": "b" })),
        ("by size", "list_directory_with_sizes", json!({ "path": "b", "sortBy": "size" })),
        (
            "all but some",
            "directory_tree",
            json!({ "path": ".", "excludePatterns": ["b", "*.rs", ".git"] }),
        ),
        ("a file", "directory_tree", json!({ "path": "a.rs" })),
        ("a file", "move_file", json!({ "source": "a.rs", "destination": "b/a.rs" })),
        ("over a file", "move_file", json!({ "source": "a.rs", "destination": "b/dos.txt" })),
        ("nothing", "move_file", json!({ "source": "nope", "destination": "x" })),
        ("nowhere", "move_file", json!({ "source": "a.rs", "destination": "no/a.rs" })),
        ("into itself", "move_file", json!({ "source": "b", "destination": "b/b" })),
        ("outside", "move_file", json!({ "source": "a.rs", "destination": "../a.rs" })),
        ("by a glob", "search_files", json!({ "path": ".", "pattern": "**/*.rs" })),
        (
            "without some",
            "search_files",
            json!({ "path": ".", "pattern": "**/*.rs", "excludePatterns": ["ignored"] }),
        ),
        ("nothing", "search_files", json!({ "path": ".", "pattern": "*.zig" })),
        ("a file", "get_file_info", json!({ "path": "a.rs" })),
        ("a directory", "get_file_info", json!({ "path": "b" })),
        ("nothing there", "get_file_info", json!({ "path": "nope" })),
        ("the root", "list_allowed_directories", json!({})),
    ]
}

/// Commands.
fn commands() -> Vec<FileOp> {
    vec![
        ("a command", "Bash", json!({ "command": "make" })),
        ("a command", "shell_exec", json!({ "command": "make", "cwd": "b" })),
        ("an empty directory name", "shell_exec", json!({ "command": "make", "cwd": "" })),
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

/// Pages that calls fetch.
fn fetched() -> Pages {
    let of = Pages::answer;
    [
        ("page", of("text/html; charset=utf-8", b"<title>T</title><p>one\ntwo")),
        ("text", of("text/plain", b"text \"quoted\"\n")),
        ("gone", WebResponse { status: 404, ..of("text/plain", b"gone") }),
        ("empty", WebResponse { status: 204, ..of("", b"") }),
        ("picture", of("image/png", b"\x89PNG")),
        ("zip", of("application/zip", b"PK\0")),
        ("long", of("text/plain", &b"0123456789".repeat(15_000))),
        ("huge", of("text/plain", &b"x".repeat(10 * 1024 * 1024 + 1))),
    ]
    .into_iter()
    .fold(Pages::default(), |pages, (path, answer)| {
        pages.with(&format!("http://x.test/{path}"), answer)
    })
    .finding("two", vec![found("One", "first\nline"), found("", "")], TWO)
    .finding("none", Vec::new(), b"[]")
}

/// What an endpoint answers to the query `two`.
const TWO: &[u8] = br#"{"items": [{"link": "http://x.test/", "x": "hid\u200bden"}], "count": 2}"#;

fn found(title: &str, content: &str) -> SearchResult {
    let url = String::from("http://x.test/");
    SearchResult { title: title.to_owned(), url, content: content.to_owned() }
}

fn searches_of_the_web() -> Vec<FileOp> {
    let mut deeds = Vec::new();
    for tool in ["WebSearch", "tool::web_search", "web_search"] {
        deeds.extend([
            ("two results", tool, json!({ "query": "two" })),
            ("nothing found", tool, json!({ "query": "none" })),
            ("a provider that takes no more", tool, json!({ "query": "more" })),
            ("no query", tool, json!({})),
            ("an empty query", tool, json!({ "query": " " })),
            ("a long query", tool, json!({ "query": "x".repeat(401) })),
        ]);
    }
    deeds.extend([
        ("one result", "WebSearch", json!({ "query": "two", "max_results": 1 })),
        ("a provider", "WebSearch", json!({ "query": "two", "provider": "brave" })),
        ("an unknown provider", "WebSearch", json!({ "query": "two", "provider": "google" })),
        ("no results", "WebSearch", json!({ "query": "two", "max_results": 0 })),
        ("one result", "tool::web_search", json!({ "query": "two", "maxResults": 1 })),
        ("a provider", "tool::web_search", json!({ "query": "two", "provider": "tavily" })),
        ("one result", "web_search", json!({ "query": "two", "num_results": 1 })),
    ]);
    deeds
}

/// What sub-agents of a deed report.
fn reports(what: &str) -> Spawned {
    let report = |at: u32, problem: Option<&str>| AgentReport {
        agent: format!("test/general-{at}"),
        depth: 1,
        response: format!("found {at}"),
        problem: problem.map(str::to_owned),
        n_iterations: 2,
        n_calls: 1,
        tokens_read: 900,
        tokens_written: 40,
    };
    let limit = |error: SpawnLimit| Err(ToolError::new(Kind::LimitReached, error.to_string()));
    match what {
        "two tasks" => Ok(vec![report(1, None), report(2, None)]),
        "two tasks, of which one fails" => {
            Ok(vec![report(1, None), report(2, Some("its time of 600 s ran out"))])
        }
        "a task that fails" => Ok(vec![report(1, Some("the model did not answer"))]),
        "too deep" => limit(SpawnLimit::TooDeep(5)),
        "too many" => {
            let retry_after = Some(Duration::from_secs(90));
            limit(SpawnLimit::TooMany { max: 20, retry_after })
        }
        "too many at once" => limit(SpawnLimit::TooManyRunning { max: 5, running: 4 }),
        "an unknown template" => {
            Err(ToolError::new(Kind::NotFound, "no template of this name: pilot"))
        }
        _ => Ok(vec![report(1, None)]),
    }
}

/// Deeds of the tools that spawn sub-agents, under all of their names.
fn spawns() -> Vec<FileOp> {
    let one = json!([{ "name": "find", "prompt": "find it" }]);
    let two = json!([{ "name": "find", "prompt": "find it" }, { "name": "count", "prompt": "count them" }]);
    let mut deeds = Vec::new();
    for (shown, tasks) in [
        ("one task", &one),
        ("two tasks", &two),
        ("two tasks, of which one fails", &two),
        ("a task that fails", &one),
        ("too deep", &one),
        ("too many", &one),
        ("too many at once", &two),
        ("no task", &json!([])),
        ("an empty task", &json!([{ "name": "find", "prompt": " " }])),
    ] {
        deeds.push((shown, "Spawn", json!({ "tasks": tasks })));
    }
    let message =
        |template: &str, message: &str| json!({ "template": template, "message": message });
    for (shown, args) in [
        ("one task", message("general", "find it")),
        (
            "in its own name",
            json!({ "template": "general", "message": "find it", "parentId": "test" }),
        ),
        (
            "in another name",
            json!({ "template": "general", "message": "find it", "parentId": "peer" }),
        ),
        ("a task that fails", message("general", "find it")),
        ("too deep", message("general", "find it")),
        ("too many", message("general", "find it")),
        ("too many at once", message("general", "find it")),
        ("an unknown template", message("pilot", "find it")),
        ("no template name", message("../x", "find it")),
        ("an empty task", message("general", "")),
        ("no task", json!({ "template": "general" })),
    ] {
        deeds.push((shown, "tool::agent_spawn", args));
    }
    deeds
}

fn todos() -> Vec<FileOp> {
    let item = |content: &str, status: &str| json!({ "content": content, "status": status });
    let doing =
        json!({ "content": "mend it", "status": "in_progress", "activeForm": "mending it" });
    vec![
        (
            "a list",
            "TodoWrite",
            json!({ "todos": [item("look", "completed"), doing, item("test", "pending")] }),
        ),
        ("another status", "TodoWrite", json!({ "todos": [item("look", "later")] })),
        ("an empty item", "TodoWrite", json!({ "todos": [item(" ", "pending")] })),
        (
            "more than a list holds",
            "TodoWrite",
            json!({ "todos": vec![item("x", "pending"); 201] }),
        ),
        ("a long item", "TodoWrite", json!({ "todos": [item(&"x".repeat(1_001), "pending")] })),
    ]
}

fn messages() -> Vec<FileOp> {
    let mut deeds = Vec::new();
    let to = |id: &str, message: &str| [id.to_owned(), message.to_owned()];
    let long = "é".repeat(51_201);
    for (shown, [target, message]) in [
        ("to a session", to("peer", "done\nnext")),
        ("to itself", to("test", "done")),
        ("to an unknown session", to("nobody", "done")),
        ("to a full inbox", to("full", "done")),
        ("too often", to("often", "done")),
        ("no content", to("peer", " ")),
        ("too long", to("peer", &long)),
    ] {
        deeds.push((shown, "AgentSend", json!({ "target": target, "message": message })));
        let args = json!({ "agentId": "test", "targetAgentId": target, "message": message });
        deeds.push((shown, "tool::agent_send", args));
    }
    deeds.extend([
        (
            "in another name",
            "tool::agent_send",
            json!({ "agentId": "peer", "targetAgentId": "peer", "message": "done" }),
        ),
        ("nobody", "tool::agent_send", json!({ "agentId": "test", "message": "done" })),
        ("nobody", "AgentSend", json!({ "message": "done" })),
        ("all that waits", "AgentInbox", json!({})),
        ("the oldest", "AgentInbox", json!({ "limit": 1 })),
        ("none", "AgentInbox", json!({ "limit": 0 })),
    ]);
    for tool in ["Message", "message"] {
        let of = |channel: &str, chat: &str, content: &str| json!({ "channel": channel, "chat_id": chat, "content": content });
        deeds.extend([
            ("to a chat", tool, of("telegram", "42", "the build is grün")),
            ("to the console", tool, of("console", "me", "done")),
            ("to an unknown channel", tool, of("slack", "#x", "done")),
            ("too long", tool, of("telegram", "42", &"x".repeat(4_097))),
            ("a limit of the service", tool, of("telegram", "429", "done")),
            ("a wrong token", tool, of("telegram", "401", "done")),
            ("an unknown chat", tool, of("telegram", "404", "done")),
            ("no answer", tool, of("telegram", "408", "done")),
            ("sent before", tool, of("telegram", "409", "done")),
            ("an earlier one in doubt", tool, of("telegram", "410", "done")),
            ("no chat", tool, json!({ "channel": "telegram", "content": "done" })),
        ]);
    }
    deeds
}

fn pages() -> Vec<FileOp> {
    let of = |path: &str| json!({ "url": format!("http://x.test/{path}") });
    let mut deeds = Vec::new();
    for tool in ["WebFetch", "tool::web_fetch", "web_fetch"] {
        deeds.extend([
            ("a page", tool, of("page")),
            ("a text", tool, of("text")),
            ("nothing there", tool, of("gone")),
            ("no body", tool, of("empty")),
            ("a picture", tool, of("picture")),
            ("no text", tool, of("zip")),
            ("a host that cannot be reached", tool, of("missing")),
            ("no address", tool, json!({})),
        ]);
    }
    deeds.extend([
        ("the main text", "WebFetch", json!({ "url": "http://x.test/page", "format": "article" })),
        ("less than there is", "WebFetch", json!({ "url": "http://x.test/text", "max_bytes": 4 })),
        ("no such format", "WebFetch", json!({ "url": "http://x.test/text", "format": "pdf" })),
        (
            "less than there is",
            "tool::web_fetch",
            json!({ "url": "http://x.test/text", "maxSize": 4 }),
        ),
        ("another unit", "tool::web_fetch", json!({ "url": "http://x.test/text", "max_size": 4 })),
        (
            "a method",
            "web_fetch",
            json!({ "url": "http://x.test/text", "method": "post", "headers": { "a": "b" } }),
        ),
        ("no method", "web_fetch", json!({ "url": "http://x.test/text", "method": "no method" })),
        (
            "no text in a header",
            "web_fetch",
            json!({ "url": "http://x.test/text", "headers": { "a": 1 } }),
        ),
    ]);
    deeds
}

/// Makes the paths of a call absolute.
fn absolute(mut args: Value) -> Value {
    let make = |path: &mut Value| {
        if let Value::String(path) = path
            && !path.is_empty()
        {
            *path = if path == "." { ROOT.to_owned() } else { format!("{ROOT}/{path}") };
        }
    };
    for name in ["file_path", "path", "source", "destination"] {
        args.get_mut(name).into_iter().for_each(make);
    }
    args.get_mut("paths").and_then(Value::as_array_mut).into_iter().flatten().for_each(make);
    args
}

/// Returns the deeds that a vocabulary has words for.
fn deeds_of(tools: &[Arc<dyn Tool>]) -> Vec<(&'static str, &Arc<dyn Tool>, Value)> {
    let known = |(what, name, args): FileOp| {
        let tool = tools.iter().find(|tool| tool.name() == name)?;
        // Several vocabularies have these names, each with arguments of its own.
        let known = tool.parameters()["properties"].clone();
        let fits = args.as_object().is_some_and(|args| args.keys().all(|k| known.get(k).is_some()));
        (fits || !name.ends_with("_file")).then(|| (what, tool, absolute(args)))
    };
    deeds().into_iter().filter_map(known).collect()
}

/// The hint of an empty text to find had named Write, which not every vocabulary has.
#[test]
fn hints_name_no_foreign_tool() {
    let native = (sinew_dialects::dialect("native").expect("the dialect").tools)();
    for dialect in sinew_dialects::ALL {
        let tools = (dialect.tools)();
        let is_foreign = |word: &&str| {
            let is = |tool: &Arc<dyn Tool>| tool.name() == *word;
            native.iter().any(is) && !tools.iter().any(is)
        };
        for (what, tool, args) in deeds_of(&tools) {
            let reply = call(&world(dialect), tool, args);
            let is_refused = reply.error.is_some() || reply.outcome.is_some();
            let mut told: Vec<&str> = Vec::new();
            told.extend(reply.error.as_ref().and_then(|error| error.hint.as_deref()));
            for block in reply.content.iter().filter(|_| is_refused) {
                if let Block::Text { text } = block {
                    told.push(text);
                }
            }
            for told in told {
                let foreign = told.split(|c: char| !c.is_alphanumeric()).find(is_foreign);
                assert_eq!(foreign, None, "{}, {}, {what}: {told}", dialect.name, tool.name());
            }
        }
    }
}

#[test]
fn replies_are_as_they_were() {
    for dialect in sinew_dialects::ALL {
        let tools = (dialect.tools)();
        let mut page = format!("Replies of the dialect {}.\n", dialect.name);
        for (what, tool, args) in deeds_of(&tools) {
            let name = tool.name();
            let mut world = world(dialect);
            if tool.operation() == "Spawn" {
                world.agents = Arc::new(MemoryAgents::new(reports(what)));
            }
            if tool.operation().starts_with("Memory") {
                remembered(what, &world);
            }
            let reply = call(&world, tool, args.clone());
            let _ = writeln!(page, "\n== {name}: {what}\n{args}");
            let end = match (&reply.error, reply.outcome) {
                (Some(error), _) => format!("refused: {}", error.kind),
                (None, Some(outcome)) => format!("ok, recorded as {outcome}"),
                (None, None) => format!("ok: {}", reply.ok),
            };
            let _ = writeln!(page, "-- {end}");
            for block in &reply.content {
                if let Some((base64, mime_type)) = block.media() {
                    let _ = writeln!(page, "[{mime_type}] {base64}");
                }
                if let Block::Text { text } = block {
                    // Nothing in a golden text may depend on an editor that strips blanks.
                    let shown: Vec<String> =
                        text.lines().map(|line| line.replace('\r', "\\r")).collect();
                    let _ = writeln!(page, "{}", shown.join("\n"));
                }
            }
            if let Some(envelope) = dialect.conventions.envelope {
                let _ = writeln!(page, "-- {}", envelope(&reply, args["path"].as_str()));
            }
        }
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/calls/{}.txt", dialect.name));
        golden(&file, &page);
    }
}
