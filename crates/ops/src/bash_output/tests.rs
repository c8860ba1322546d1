use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, Scripted, call, finished};
use sinew_tool::{Block, Exit, Kind, Processes};

use super::*;

fn one(id: &str, exit: Option<Exit>) -> Background {
    Background {
        id: id.to_owned(),
        command: String::from("serve\n--all"),
        is_terminal: false,
        duration: Duration::from_secs(3),
        stored: Some(String::from(".sinew/tool-output/c.txt")),
        n_stored: 4,
        n_written: 4,
        n_unread: 4,
        findings: sinew_tool::SandboxFindings::default(),
        exit,
    }
}

fn look(all: Vec<Background>, written: &str, args: Value) -> Reply {
    let mut world = MemoryWorld::new();
    let scripted = Scripted::writing(finished(Exit::Code(0), "", ""), all, written.as_bytes());
    world.processes = scripted as Arc<dyn Processes>;
    call(&world, &NATIVE.tool(), args)
}

#[track_caller]
fn check(all: Vec<Background>, written: &str, args: Value, expected: &str) {
    let reply = look(all, written, args);
    let [Block::Text { text }] = reply.content.as_slice() else { panic!("{reply:?}") };
    assert_eq!((text.as_str(), reply.ok), (expected, true));
}

#[test]
fn what_is_new_is_shown_with_how_the_command_is() {
    let runs = || vec![one("b1", None)];
    let id = |more: Value| {
        let mut args = json!({ "bash_id": "b1" });
        let fields = args.as_object_mut().into_iter().zip(more.as_object());
        fields.for_each(|(args, more)| args.extend(more.clone()));
        args
    };
    check(runs(), "one\ntwo", id(json!({})), "one\ntwo\n[b1: running for 3.0 s]");
    check(runs(), "", id(json!({})), "[b1: running for 3.0 s]");
    check(
        vec![one("b1", Some(Exit::Code(2)))],
        "\u{1b}[1mbold\u{1b}[0m\n",
        id(json!({})),
        "bold\n[b1: exit code 2 after 3.0 s]",
    );
    check(
        runs(),
        "ok 1\nbad 2\nok 3\nok",
        id(json!({ "filter": "^ok" })),
        "ok 1\nok 3\n[2 of 3 new lines fit the filter]\n[b1: running for 3.0 s]",
    );
    check(
        runs(),
        "ready on 80\n",
        id(json!({ "until": "ready on \\d+$" })),
        "ready on 80\n[b1: running for 3.0 s]",
    );
    check(
        runs(),
        "starting\n",
        id(json!({ "until": "ready", "timeout": 10 })),
        "starting\n[b1: running for 3.0 s]\n[timed out: no output matched `ready`]",
    );
    check(
        runs(),
        "",
        id(json!({ "timeout": 10 })),
        "[b1: running for 3.0 s]\n[still going when the time to wait was over]",
    );
}

#[test]
fn without_a_name_all_are_listed() {
    check(Vec::new(), "", json!({}), "[no command runs in the background]");
    check(
        vec![one("b1", None), one("b2", Some(Exit::Signal(9)))],
        "",
        json!({}),
        "b1: running for 3.0 s: serve --all\nb2: ended by signal 9 (SIGKILL) after 3.0 s: serve --all",
    );
}

#[test]
fn what_cannot_be_looked_at_is_refused() {
    for (args, named) in [
        (json!({ "filter": "x" }), "`bash_id`"),
        (json!({ "timeout": 5 }), "`bash_id`"),
        (json!({ "bash_id": "b1", "filter": "(" }), "`filter`"),
        (json!({ "bash_id": "b1", "until": "(" }), "`until`"),
        (json!({ "bash_id": "b1", "idle": 0 }), "`idle`"),
    ] {
        let reply = look(vec![one("b1", None)], "", args.clone());
        let error = reply.error.expect("an error");
        assert_eq!(error.kind, Kind::InvalidArgs, "{args}");
        assert!(error.message.contains(named), "{args}: {}", error.message);
    }
}
