//! What a caller is told, in the words of each vocabulary, of a file that it does not know as it is.
#![expect(clippy::expect_used, reason = "a test that cannot go on says so by failing")]

use std::sync::Arc;

use serde_json::{Value, json};
use sinew_dialects::{MOLTIS, NATIVE};
use sinew_testkit::{MemoryWorld, ROOT, call};
use sinew_tool::{Dialect, Kind, Reply, Tool};

fn world(dialect: &Dialect) -> MemoryWorld {
    let mut settings = (dialect.settings)();
    settings.track_reads = true;
    settings.must_read_before_write = true;
    let world = MemoryWorld::with_settings(settings);
    world.file("a", "one\n");
    world
}

fn tool(dialect: &Dialect, name: &str) -> Arc<dyn Tool> {
    (dialect.tools)().into_iter().find(|tool| tool.name() == name).expect("the tool")
}

/// Calls a tool for the file `a`, with more arguments.
fn run(world: &MemoryWorld, dialect: &Dialect, name: &str, more: &Value) -> Reply {
    let mut args = json!({ "file_path": format!("{ROOT}/a") });
    for (key, value) in more.as_object().expect("an object") {
        args[key] = value.clone();
    }
    call(world, &tool(dialect, name), args)
}

/// The changes that each vocabulary has.
fn changes() -> [(&'static str, Value); 3] {
    let edit = json!({ "old_string": "one", "new_string": "two" });
    [
        ("Write", json!({ "content": "two\n" })),
        ("MultiEdit", json!({ "edits": [edit] })),
        ("Edit", edit),
    ]
}

#[test]
fn moltis_answers_with_payloads_of_its_own() {
    for (name, change) in changes() {
        let world = world(&MOLTIS);
        let check = |kind: &str, outcome: Kind, words: &str| {
            let reply = run(&world, &MOLTIS, name, &change);
            assert!(reply.ok, "{reply:?}");
            let payload = reply.structured.expect("a payload");
            assert_eq!((&payload["kind"], reply.outcome), (&json!(kind), Some(outcome)), "{name}");
            assert_eq!(payload["file_path"], format!("{ROOT}/a"));
            assert!(payload["error"].as_str().is_some_and(|e| e.contains(words)), "{payload}");
        };
        check("must_read_before_write", Kind::MustReadFirst, "not read yet");
        run(&world, &MOLTIS, "Read", &json!({}));
        world.file("a", "one more\n");
        check("file_modified_since_read", Kind::Stale, "another program or a command changed it");
        run(&world, &MOLTIS, "Read", &json!({}));
        let reply = run(&world, &MOLTIS, name, &change);
        assert_eq!(reply.outcome, None, "{name}: {reply:?}");
        assert_ne!(world.content("a").as_deref(), Some(&b"one more\n"[..]), "{name}");
    }
}

#[test]
fn a_third_identical_read_is_told_in_both_vocabularies() {
    for dialect in [&MOLTIS, &NATIVE] {
        let world = world(dialect);
        let told: Vec<bool> = (0..4)
            .map(|_| {
                let reply = run(&world, dialect, "Read", &json!({}));
                match &reply.structured {
                    Some(payload) => payload["loop_warning"].is_string(),
                    None => format!("{:?}", reply.content).contains("times in a row"),
                }
            })
            .collect();
        assert_eq!(told, [false, false, true, true], "{}", dialect.name);
    }
    let world = MemoryWorld::with_settings((MOLTIS.settings)());
    world.file("a", "one\n");
    for _ in 0..4 {
        let payload = run(&world, &MOLTIS, "Read", &json!({})).structured.expect("a payload");
        assert_eq!(payload.get("loop_warning"), None, "reads are not remembered there by default");
    }
}

#[test]
fn native_says_what_to_do_next() {
    for (name, change) in changes() {
        let world = world(&NATIVE);
        let refused = |kind: Kind, hint: &str| {
            let error = run(&world, &NATIVE, name, &change).error.expect("an error");
            assert_eq!(error.kind, kind, "{name}");
            assert!(error.hint.is_some_and(|said| said.contains(hint)), "{name}");
        };
        refused(Kind::MustReadFirst, "read the file first");
        run(&world, &NATIVE, "Read", &json!({}));
        world.file("a", "one more\n");
        refused(Kind::Stale, "read it again");
    }
}
