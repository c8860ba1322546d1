use std::sync::Arc;

use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, Scripted, call, finished};
use sinew_tool::{Block, Exit, Key, Kind, Processes};

use super::*;

fn terminal(exit: Option<Exit>) -> Background {
    Background {
        id: String::from("t1"),
        command: String::from("python3"),
        is_terminal: true,
        duration: Duration::from_secs(3),
        stored: None,
        n_stored: 0,
        n_written: 0,
        n_unread: 0,
        findings: sinew_tool::SandboxFindings::default(),
        exit,
    }
}

fn ask(exit: Option<Exit>, screen: &str, args: Value) -> (Reply, Vec<Typed>) {
    let mut world = MemoryWorld::new();
    let all = vec![terminal(exit)];
    let scripted = Scripted::writing(finished(Exit::Code(0), "", ""), all, screen.as_bytes());
    world.processes = Arc::clone(&scripted) as Arc<dyn Processes>;
    (call(&world, &NATIVE.tool(), args), scripted.typed())
}

#[track_caller]
fn check(exit: Option<Exit>, screen: &str, args: Value, expected: &str) {
    let (reply, _) = ask(exit, screen, args);
    let [Block::Text { text }] = reply.content.as_slice() else { panic!("{reply:?}") };
    assert_eq!((text.as_str(), reply.ok), (expected, true));
}

#[test]
fn the_screen_is_shown_with_the_cursor() {
    let cursor = "[t1: running for 3.0 s; cursor in line 2 of 24, column 1 of 80]";
    let args = json!({ "id": "t1" });
    check(None, "one\n>>>", args.clone(), &format!("one\n>>>\n{cursor}"));
    check(None, "one\n", json!({ "command": "python3" }), &format!("one\n{cursor}"));
    check(Some(Exit::Code(0)), "bye\n", args.clone(), "bye\n[t1: exit code 0 after 3.0 s]");
    check(
        None,
        "old\nnew 1\nold\nnew 2",
        json!({ "id": "t1", "changes": true }),
        "2: new 1\n4: new 2\n[t1: running for 3.0 s; cursor in line 4 of 24, column 1 of 80]",
    );
    check(
        None,
        "\nPassword: ",
        args,
        &format!(
            "\nPassword: \n{cursor}\n[it asks for something that it does not show, such as a password: \
             only a person types that]"
        ),
    );
    check(
        None,
        "one\n",
        json!({ "id": "t1", "cols": 500 }),
        "one\n[t1: running for 3.0 s; cursor in line 2 of 24, column 1 of 250]",
    );
    check(None, "one\n", json!({}), "t1: running for 3.0 s: python3");
    check(
        None,
        "one\n",
        json!({ "id": "t1", "until": "two", "timeout": 5 }),
        &format!("one\n{cursor}\n[timed out: no output matched `two`]"),
    );
}

#[test]
fn text_is_typed_before_keys() {
    let args = json!({ "id": "t1", "text": "1 + 1", "keys": ["Enter", "C-d"] });
    let (_, typed) = ask(None, "", args);
    let keys = [Typed::Key(Key::Enter), Typed::Key(Key::Control('d'))];
    assert_eq!(
        typed,
        [Typed::Text(String::from("1 + 1"))].into_iter().chain(keys).collect::<Vec<_>>()
    );
}

#[test]
fn what_cannot_be_done_is_refused() {
    for (args, named) in [
        (json!({ "text": "x" }), "`id`"),
        (json!({ "until": "x" }), "`id`"),
        (json!({ "command": "a", "id": "t1" }), "`id`"),
        (json!({ "command": "a", "text": "x" }), "`text`"),
        (json!({ "id": "t1", "cwd": "." }), "`cwd`"),
        (json!({ "id": "t1", "keys": ["Entr"] }), "`keys`"),
        (json!({ "id": "t1", "until": "(" }), "`until`"),
        (json!({ "id": "t9" }), "`id`"),
    ] {
        let (reply, typed) = ask(None, "", args.clone());
        let error = reply.error.expect("an error");
        assert_eq!(error.kind, Kind::InvalidArgs, "{args}");
        assert!(error.message.contains(named), "{args}: {}", error.message);
        assert_eq!(typed, [], "{args}");
    }
}
