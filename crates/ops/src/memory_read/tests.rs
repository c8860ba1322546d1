use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, USER_MEMORY, call};
use sinew_tool::{Block, FileSettings, Kind};

use super::*;

const NOTES: &str = "# Notes\n\nThe build needs\nprotoc.\n \t\nTests of the Build are slow.\r\n\r\nThe needs of \
                     PROTOC: none.";

/// Reads the memory of a world that `lay_out` filled; compares the text, or the kind of the error.
#[track_caller]
fn check(lay_out: impl Fn(&MemoryWorld), args: Value, expected: Result<&str, Kind>) {
    let world = MemoryWorld::with_settings(FileSettings {
        max_memory_bytes: 200,
        track_reads: true,
        ..FileSettings::default()
    });
    lay_out(&world);
    let reply = call(&world, &NATIVE.tool(), args.clone());
    let found = match (&reply.error, reply.content.first()) {
        (Some(error), _) => Err(error.kind),
        (None, Some(Block::Text { text })) => Ok(text.as_str()),
        (None, other) => panic!("{other:?}"),
    };
    assert_eq!(found, expected, "{args}");
}

fn project(content: impl AsRef<[u8]>) -> impl Fn(&MemoryWorld) {
    move |world| {
        world.file(".sinew/MEMORY.md", content.as_ref());
    }
}

#[test]
fn memory_is_read_whole_or_searched() {
    let read =
        |query: &str, expected| check(project(NOTES), json!({ "query": query }), Ok(expected));
    check(project(NOTES), json!({}), Ok(NOTES));
    read("  ", NOTES);
    read("# NOTES", "# Notes");
    // The phrase, across a line end; then two words; then one.
    read(
        "build NEEDS",
        "The build needs\nprotoc.\n\nTests of the Build are slow.\n\nThe needs of PROTOC: none.",
    );
    read("none protoc", "The needs of PROTOC: none.\n\nThe build needs\nprotoc.");
    read("slow slow", "Tests of the Build are slow.");
    read(
        "cargo",
        "no paragraph of .sinew/MEMORY.md has a word of the query; try other words, or none to read all",
    );
}

#[test]
fn scopes_have_files_of_their_own() {
    let both = |world: &MemoryWorld| {
        world.file(".sinew/MEMORY.md", "a").file(USER_MEMORY, "b");
    };
    check(both, json!({ "scope": "project" }), Ok("a"));
    check(both, json!({ "scope": "user" }), Ok("b"));
    check(|_| (), json!({ "scope": "user" }), Ok("nothing is noted yet in the user's MEMORY.md"));
    check(both, json!({ "scope": "session" }), Err(Kind::InvalidArgs));
}

#[test]
fn files_that_are_no_memory_are_refused() {
    check(|_| (), json!({}), Ok("nothing is noted yet in .sinew/MEMORY.md"));
    check(project("\n"), json!({}), Ok("empty: .sinew/MEMORY.md"));
    check(project(b"caf\xe9"), json!({}), Err(Kind::Binary));
    check(project("é".repeat(100)), json!({}), Ok(&"é".repeat(100)));
    check(project("x".repeat(201)), json!({}), Err(Kind::TooLarge));
    // The character at the limit is cut, and still one.
    check(project(format!("{}é", "x".repeat(200))), json!({}), Err(Kind::TooLarge));
    let linked = |world: &MemoryWorld| {
        world.file("a", "a").link(".sinew/MEMORY.md", "../a");
    };
    check(linked, json!({}), Err(Kind::PathDenied));
    let above = |world: &MemoryWorld| {
        world.file("a/MEMORY.md", "a").link(".sinew", "a");
    };
    check(above, json!({}), Err(Kind::PathDenied));
    check(
        |world| {
            world.special(".sinew/MEMORY.md");
        },
        json!({}),
        Err(Kind::NotRegularFile),
    );
    check(
        |world| {
            world.directory(".sinew/MEMORY.md");
        },
        json!({}),
        Err(Kind::NotRegularFile),
    );
}

#[test]
fn searches_say_what_they_leave_out() {
    let notes = (0..30).map(|n| format!("a{n}")).collect::<Vec<_>>().join("\n\n");
    let shown = (0..20).map(|n| format!("a{n}\n\n")).collect::<String>();
    let expected = format!(
        "{shown}[20 of 30 matching paragraphs are shown, the best first; use other words to see more]"
    );
    check(project(&notes), json!({ "query": "a" }), Ok(&expected));
    let words = |n_words| json!({ "query": "w ".repeat(n_words) });
    check(project("w"), words(MAX_WORDS), Ok("w"));
    check(project("w"), words(MAX_WORDS + 1), Err(Kind::InvalidArgs));
}
