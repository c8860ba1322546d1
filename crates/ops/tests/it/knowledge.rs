//! What a caller knows of a file decides what it may change, and in which words it is refused.
#![expect(clippy::panic, reason = "a test fails loudly")]

use std::sync::Arc;

use serde_json::{Value, json};
use sinew_ops::{apply_patch, edit, multi_edit, read, write};
use sinew_testkit::{MemoryWorld, call};
use sinew_tool::{FileSettings, Kind, Tool};

/// One step: a call, or a deed of another writer.
enum Step {
    /// A call that does its deed.
    Done(&'static str, Value),
    /// A call that is refused.
    Refused(&'static str, Value, Kind, &'static str),
    /// Another program writes a file.
    Other(&'static str, &'static str),
    /// Another program touches a file.
    Touched(&'static str),
    /// Another program removes a file.
    Gone(&'static str),
}
use Step::{Done, Gone, Other, Refused, Touched};

fn tool(name: &str) -> Arc<dyn Tool> {
    match name {
        "Read" => read::NATIVE.tool(),
        "Write" => write::NATIVE.tool(),
        "Edit" => edit::NATIVE.tool(),
        "ApplyPatch" => apply_patch::NATIVE.tool(),
        _ => multi_edit::NATIVE.tool(),
    }
}

/// Takes the steps on a world with a file `a` that holds `one\n`.
fn check(settings: &FileSettings, steps: &[Step]) {
    let world = MemoryWorld::with_settings(settings.clone());
    world.file("a", "one\n");
    for (at, step) in steps.iter().enumerate() {
        match step {
            Done(name, args) => {
                let reply = call(&world, &tool(name), args.clone());
                assert!(reply.ok, "step {at}: {reply:?}");
            }
            Refused(name, args, kind, words) => {
                let reply = call(&world, &tool(name), args.clone());
                let error = reply.error.unwrap_or_else(|| panic!("step {at} was done"));
                let said = format!("{} / {}", error.message, error.hint.unwrap_or_default());
                assert_eq!(error.kind, *kind, "step {at}: {said}");
                assert!(said.contains(words), "step {at}: {said}");
            }
            Other(path, content) => drop(world.file(path, content)),
            Touched(path) => drop(world.modified(path, 5)),
            Gone(path) => drop(world.remove(path)),
        }
    }
}

fn tracking(must_read_before_write: bool) -> FileSettings {
    FileSettings { track_reads: true, must_read_before_write, ..FileSettings::default() }
}

fn edit(old: &str, new: &str) -> Value {
    json!({ "file_path": "a", "old_string": old, "new_string": new })
}

fn write(content: &str) -> Value {
    json!({ "file_path": "a", "content": content })
}

fn read() -> Value {
    json!({ "file_path": "a" })
}

const PATCH: &str = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n";

const STALE: &str =
    "a changed since you last saw it: another program or a command changed it / read it again";

#[test]
fn a_change_of_what_was_read_is_refused_once_somebody_else_changed_it() {
    for (name, args) in [
        ("Edit", edit("one", "two")),
        (
            "MultiEdit",
            json!({ "file_path": "a", "edits": [
            { "old_string": "one", "new_string": "two" } ] }),
        ),
        ("Write", write("two\n")),
        ("ApplyPatch", json!({ "patch": PATCH })),
        // An error of the file comes before an error of the call.
        ("Edit", edit("not there", "two")),
        (
            "Edit",
            json!({ "file_path": "a", "old_string": "one", "new_string": "2", "dry_run": true }),
        ),
    ] {
        let refused = || Refused(name, args.clone(), Kind::Stale, STALE);
        let steps = [Done("Read", read()), Other("a", "one\nmore\n"), refused(), refused()];
        check(&tracking(false), &steps);
        check(&tracking(true), &steps);
    }
    let blind = [Done("Read", read()), Other("a", "one\nmore\n"), Done("Edit", edit("one", "two"))];
    check(&FileSettings::default(), &blind);
}

#[test]
fn the_content_decides_and_not_its_times() {
    let edited = || Done("Edit", edit("one", "two"));
    check(&tracking(true), &[Done("Read", read()), Touched("a"), edited()]);
    check(&tracking(true), &[Done("Read", read()), Other("a", "one\n"), edited()]);
    let same_size = [Done("Read", read()), Other("a", "One\n"), Touched("a")];
    let refused = Refused("Edit", edit("One", "two"), Kind::Stale, STALE);
    check(&tracking(true), &same_size.into_iter().chain([refused]).collect::<Vec<_>>());
    let other_bytes = [
        Done("Read", read()),
        Other("a", "\u{feff}one\n"),
        Refused("Edit", edit("one", "two"), Kind::Stale, STALE),
        Done("Read", read()),
        edited(),
    ];
    check(&tracking(true), &other_bytes);
}

#[test]
fn own_changes_are_known() {
    check(
        &tracking(true),
        &[
            Done("Read", read()),
            Done("Edit", edit("one", "two")),
            Done("Edit", edit("two", "three")),
            Done("Write", write("four\n")),
            Done("Edit", edit("four", "five")),
            Other("a", "six\n"),
            Refused("Write", write("seven\n"), Kind::Stale, STALE),
            Done("Read", json!({ "file_path": "a", "limit": 1 })),
            Done("Write", write("seven\n")),
        ],
    );
}

#[test]
fn what_must_be_read_first_says_so() {
    const UNREAD: &str = "not read yet, so it is not changed: a / read the file first";
    let unread = |name, args| Refused(name, args, Kind::MustReadFirst, UNREAD);
    check(
        &tracking(true),
        &[
            unread("Edit", edit("one", "two")),
            unread("Write", write("two\n")),
            unread("Edit", edit("not there", "two")),
            unread("ApplyPatch", json!({ "patch": PATCH })),
            Done("Write", json!({ "file_path": "new", "content": "x" })),
            Done("Write", json!({ "file_path": "new", "content": "y" })),
            Gone("a"),
            Done("Write", write("two\n")),
        ],
    );
    check(&tracking(false), &[Done("Edit", edit("one", "two")), Done("Write", write("x"))]);
}

#[test]
fn what_is_gone_may_be_written_anew() {
    let missing = Refused("Edit", edit("one", "two"), Kind::FileNotFound, "no such file");
    check(&tracking(true), &[Done("Read", read()), Gone("a"), missing, Done("Write", write("x"))]);
}

#[test]
fn an_expected_hash_binds_the_change() {
    // SHA-256 of `one\n`.
    const ONE: &str = "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806";
    let with = |mut args: Value, hash: &str| {
        args["expected_sha256"] = json!(hash);
        args
    };
    let wrong = ONE.replace('2', "3");
    let words =
        "the content of a has the SHA-256 2c8b08da5ce6…, and expected_sha256 is 3c8b08da5ce6…";
    for (name, args) in [
        ("Edit", edit("one", "two")),
        ("Write", write("two\n")),
        (
            "MultiEdit",
            json!({ "file_path": "a", "edits": [
            { "old_string": "one", "new_string": "two" } ] }),
        ),
    ] {
        for settings in [tracking(false), FileSettings::default()] {
            check(
                &settings,
                &[
                    Refused(name, with(args.clone(), &wrong), Kind::Stale, words),
                    Refused(name, with(args.clone(), "2c8b"), Kind::InvalidArgs, "64 hexadecimal"),
                    Done(name, with(args.clone(), &ONE.to_uppercase())),
                    Refused(name, with(args.clone(), ONE), Kind::Stale, "and expected_sha256 is"),
                ],
            );
        }
    }
    let new = with(json!({ "file_path": "new", "content": "x" }), ONE);
    check(&tracking(false), &[Refused("Write", new, Kind::FileNotFound, "no such file: new")]);
}

#[test]
fn a_third_identical_read_in_a_row_is_told() {
    let world = MemoryWorld::with_settings(tracking(false));
    world.file("a", "one\n").file("b", "two\n").file("large", "x\n".repeat(1 << 20));
    let mut n_reads = 0;
    let mut reads = |path: &str, limit: u64, told: bool| {
        n_reads += 1;
        let args = json!({ "file_path": path, "limit": limit });
        let reply = call(&world, &tool("Read"), args);
        let text = format!("{:?}", reply.content);
        assert_eq!(text.contains("times in a row"), told, "read {n_reads} of {path}: {text}");
    };
    for (path, limit, told) in [
        ("a", 9, false),
        ("a", 9, false),
        ("a", 9, true),
        ("a", 9, true),
        ("a", 8, false),
        ("a", 9, false),
        ("a", 9, false),
        ("b", 9, false),
        ("a", 9, false),
        ("large", 1, false),
        ("large", 1, false),
        ("large", 1, true),
    ] {
        reads(path, limit, told);
    }
    world.file("large", "y\n".repeat(1 << 20));
    reads("large", 1, false);
    reads("large", 1, false);
    call(&world, &tool("Edit"), edit("one", "two"));
    reads("large", 1, false);
    let world = MemoryWorld::new();
    world.file("a", "one\n");
    for _ in 0..4 {
        let reply = call(&world, &tool("Read"), read());
        assert!(!format!("{:?}", reply.content).contains("in a row"), "reads are not remembered");
    }
}

/// A part of a large file is known by its state, a small one by its content however it is read.
#[test]
fn parts_of_files_are_known_too() {
    let part = |offset: u64| json!({ "file_path": "a", "offset": offset, "limit": 1 });
    let lines = |n: usize| (0..n).map(|n| format!("line {n}\n")).collect::<String>();
    for (n_lines, offset) in [(3, 2), (30_000, 29_000), (200_000, 3), (200_000, 190_000)] {
        let world = MemoryWorld::with_settings(tracking(true));
        let content = lines(n_lines);
        let edit = || call(&world, &tool("Edit"), edit("line 1\n", "line one\n"));
        world.file("a", &content);
        assert_eq!(edit().error.map(|error| error.kind), Some(Kind::MustReadFirst), "{n_lines}");
        assert!(call(&world, &tool("Read"), part(offset)).ok);
        world.file("a", format!("{content}more\n"));
        assert_eq!(edit().error.map(|error| error.kind), Some(Kind::Stale), "{n_lines}");
        assert!(call(&world, &tool("Read"), part(offset)).ok);
        // The second read goes straight to its part, and the first is not forgotten.
        assert!(call(&world, &tool("Read"), part(offset)).ok);
        let is_small = content.len() < 1 << 20;
        if is_small {
            world.modified("a", 7);
        }
        assert_eq!(edit().error.map(|error| error.kind), None, "{n_lines} {offset}");
    }
}

#[test]
fn content_that_is_left_out_is_refused() {
    let text = "fn a() {\n    // ... existing code ...\n}\n";
    let words = "stands for content that it leaves out in line 2: `// ... existing code ...`";
    let refused = |name, args| Refused(name, args, Kind::InvalidArgs, words);
    check(
        &FileSettings::default(),
        &[
            refused("Write", write(text)),
            refused("Write", json!({ "file_path": "new.rs", "content": text })),
            refused("Edit", edit("one", text)),
            refused(
                "MultiEdit",
                json!({ "file_path": "a", "edits": [
                { "old_string": "one", "new_string": text } ] }),
            ),
            Other("a", text),
            Done("Write", write(&format!("{text}\nmore\n"))),
            Done("Edit", edit(text, &text.replace('a', "b"))),
        ],
    );
}
