use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, USER_MEMORY, call};
use sinew_tool::{Block, FileSettings, Kind};

use super::*;

const FILE: &str = ".sinew/MEMORY.md";

fn world() -> MemoryWorld {
    MemoryWorld::with_settings(FileSettings {
        max_memory_bytes: 20,
        track_reads: true,
        ..FileSettings::default()
    })
}

/// Writes to a memory with this content; compares the first line of the reply or the kind of the error, and the
/// content afterwards.
#[track_caller]
fn check(before: Option<&[u8]>, args: Value, expected: Result<&str, Kind>, after: Option<&[u8]>) {
    let world = world();
    let path = if args["scope"] == "user" { USER_MEMORY } else { FILE };
    before.into_iter().for_each(|content| {
        world.file(path, content);
    });
    let reply = call(&world, &NATIVE.tool(), args.clone());
    let found = match (&reply.error, reply.content.first()) {
        (Some(error), _) => Err(error.kind),
        (None, Some(Block::Text { text })) => Ok(text.as_str()),
        (None, other) => panic!("{other:?}"),
    };
    assert_eq!(found, expected, "{args}");
    assert_eq!(world.content(path).as_deref(), after, "{args}");
}

#[test]
fn appends_keep_what_is_there() {
    let append = |before: &[u8], after: &[u8]| {
        let reply = format!("appended to {FILE}: {} bytes", after.len());
        check(Some(before), json!({ "content": "b" }), Ok(&reply), Some(after));
    };
    append(b"a", b"a\n\nb");
    append(b"a\n", b"a\n\nb");
    append(b"a\n\n", b"a\n\nb");
    append(b"a \r\n", b"a \r\n\nb");
    append(b"a\r\n\r\n", b"a\r\n\r\nb");
    append(b"\xef\xbb\xbfa", b"\xef\xbb\xbfa\n\nb");
    append(b"", b"b");
    let created = format!("created {FILE}: 1 bytes");
    check(None, json!({ "content": "b" }), Ok(&created), Some(b"b"));
    check(None, json!({ "content": " \n" }), Err(Kind::InvalidArgs), None);
}

#[test]
fn overwrites_replace_what_is_there() {
    let write = |content: &str| json!({ "content": content, "mode": "overwrite" });
    let reply = |n: usize| format!("overwrote {FILE}: {n} bytes");
    check(Some(b"a"), write("b\n"), Ok(&reply(2)), Some(b"b\n"));
    check(Some(b"a"), write(""), Ok(&reply(0)), Some(b""));
    // A memory above the limit is made smaller.
    check(Some(&[b'x'; 99]), write("b"), Ok(&reply(1)), Some(b"b"));
    check(Some(b"caf\xe9"), write("b"), Err(Kind::Binary), Some(b"caf\xe9"));
    check(
        Some(b"a"),
        json!({ "content": "b", "mode": "prepend" }),
        Err(Kind::InvalidArgs),
        Some(b"a"),
    );
}

#[test]
fn the_user_has_a_memory_too() {
    let args = json!({ "content": "b", "scope": "user" });
    check(Some(b"a"), args, Ok("appended to the user's MEMORY.md: 4 bytes"), Some(b"a\n\nb"));
}

#[test]
fn limits_hold_for_entry_and_memory() {
    let write = |n: usize, mode: &str| json!({ "content": "x".repeat(n), "mode": mode });
    let created = format!("created {FILE}: 20 bytes");
    check(None, write(20, "append"), Ok(&created), Some(&[b'x'; 20]));
    check(None, write(21, "append"), Err(Kind::TooLarge), None);
    check(None, write(21, "overwrite"), Err(Kind::TooLarge), None);
    // The blank line counts.
    let appended = format!("appended to {FILE}: 20 bytes");
    check(Some(b"a"), write(17, "append"), Ok(&appended), Some(b"a\n\nxxxxxxxxxxxxxxxxx"));
    check(Some(b"a"), write(18, "append"), Err(Kind::TooLarge), Some(b"a"));
    check(Some(&[b'a'; 21]), write(1, "append"), Err(Kind::TooLarge), Some(&[b'a'; 21]));
    let world = world();
    world.file(FILE, [b'a'; 20]);
    let error = call(&world, &NATIVE.tool(), write(1, "append")).error.expect("an error");
    assert_eq!(error.message, "a memory holds 20 bytes, and not 23: .sinew/MEMORY.md");
    let hint = error.hint.expect("a hint");
    assert!(hint.contains("`overwrite`") && hint.contains("tools.memory.max_bytes"), "{hint}");
}

#[test]
fn links_and_other_files_are_refused() {
    for lay_out in [
        |world: &MemoryWorld| {
            world.file("a", "a").link(FILE, "../a");
        },
        |world: &MemoryWorld| {
            world.file("a/MEMORY.md", "a").link(".sinew", "a");
        },
        |world: &MemoryWorld| {
            world.special(FILE);
        },
        |world: &MemoryWorld| {
            world.directory(FILE);
        },
    ] {
        let world = world();
        lay_out(&world);
        let error = call(&world, &NATIVE.tool(), json!({ "content": "b" })).error;
        let kind = error.map(|error| error.kind);
        assert!(matches!(kind, Some(Kind::PathDenied | Kind::NotRegularFile)), "{kind:?}");
        for path in ["a", "a/MEMORY.md"] {
            assert!(world.content(path).is_none_or(|content| content == b"a"), "{path}");
        }
    }
}

/// What the caller knows of the memory does not keep it from appending, but from an overwrite.
#[test]
fn unread_entries_are_told_and_kept() {
    let world = world();
    let tell = |args: Value| {
        let reply = call(&world, &NATIVE.tool(), args);
        let text = match reply.content.first() {
            Some(Block::Text { text }) => text.clone(),
            other => panic!("{other:?}"),
        };
        (reply.error.map(|error| error.kind), text)
    };
    world.file(FILE, "a");
    assert!(call(&world, &crate::memory_read::NATIVE.tool(), json!({})).ok);
    world.file(FILE, "a2");
    let (error, _) = tell(json!({ "content": "b", "mode": "overwrite" }));
    assert_eq!(error, Some(Kind::Stale));
    let (error, text) = tell(json!({ "content": "b" }));
    assert_eq!((error, text.lines().count()), (None, 2), "{text}");
    assert!(text.contains("entries of others"), "{text}");
    assert_eq!(world.content(FILE).as_deref(), Some(&b"a2\n\nb"[..]));
    let (error, text) = tell(json!({ "content": "c" }));
    assert_eq!((error, text.lines().count()), (None, 1), "{text}");
}

#[test]
fn question_shows_the_change() {
    let world = world();
    world.file(FILE, "a\n");
    for (args, expected) in [
        (
            json!({ "content": "b" }),
            "--- .sinew/MEMORY.md\n+++ .sinew/MEMORY.md\n@@ -1 +1,3 @@\n a\n+\n+b\n",
        ),
        (
            json!({ "content": "b\n", "mode": "overwrite" }),
            "--- .sinew/MEMORY.md\n+++ .sinew/MEMORY.md\n@@ -1 +1 @@\n-a\n+b\n",
        ),
    ] {
        let preview = world.preview(&NATIVE.tool(), &args).expect("a preview");
        let Preview::Diff(diff) = preview else { panic!("{preview:?}") };
        assert!(diff.starts_with(expected), "{diff}");
    }
    let args = json!({ "content": "x".repeat(21) });
    assert_eq!(world.preview(&NATIVE.tool(), &args).expect("a preview"), Preview::Nothing);
}
