//! `sinew hook`: the list, the trial and the schemas.

use serde_json::{Value, json};
use sinew::hook::HookEvent;
use sinew::hook::{example, schemas};

use super::{Place, has};

#[test]
fn the_list_says_what_runs_when_and_what_never_does() {
    let place = Place::new();
    assert_eq!(place.run(&["hook", "list"], "").out, "no hooks are configured\n");
    place.config(
        "[[hooks]]\nname = \"later\"\nevents = [\"turn_start\", \"persist\"]\ncommand = [\"no-such-program\"]\n\
         [[hooks]]\nname = \"first\"\nevent = \"session_start\"\ncommand = [\"true\"]\npriority = 1\n",
    );
    let ran = place.run(&["hook", "list"], "");
    for words in [
        "at turn_start (an event of agents, such as that of `sinew run`)",
        "at persist, a failure means block",
        "it will fail: there is no program `no-such-program` in PATH",
    ] {
        has(&ran.out, words);
    }
    assert!(ran.out.starts_with("first\n"), "{}", ran.out);
    let listed = place.run(&["hook", "list", "--json"], "").out;
    let listed: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        listed[1]["events"][0],
        json!({
            "event": "turn_start", "name": "turn_start", "of_agent": true, "on_error": "continue",
        })
    );
    assert_eq!((&listed[0]["hook"], &listed[0]["problem"]), (&json!("first"), &Value::Null));
}

#[test]
fn a_trial_shows_each_decision_and_the_outcome() {
    let place = Place::new();
    let change =
        place.program("change", r#"echo seen >&2; echo '{"arguments":{"content":"two"}}'"#);
    let look = place.program("look", r#"grep -q '"content":"two"' || exit 7"#);
    let block = place.program("block", "echo no more >&2; exit 2");
    let hook = |name: &str, program: &str, more: &str| {
        format!(
            "[[hooks]]\nname = \"{name}\"\nevent = \"before_tool_execute\"\ncommand = [\"{program}\"]\n{more}\n"
        )
    };
    place.config(&(hook("c", &change, "priority = 2") + &hook("l", &look, "")));
    let ran = place.run(&["hook", "test", "before_tool_execute"], "");
    assert_eq!(ran.code, 0, "{ran:?}");
    for words in [
        "c: change {\"arguments\":{\"content\":\"two\"}}\n  exit code 0, ",
        "  stderr: seen\n",
        "l: continue\n",
        "outcome: it goes on\n",
        "arguments: {\"file_path\":\"notes.md\",\"content\":\"two\"}",
    ] {
        has(&ran.out, words);
    }
    // One alone gets the given arguments.
    let alone = ["hook", "test", "BeforeToolCall", "--hook", "l", "--tool", "Write", "--arguments"];
    let ran = place.run(&[&alone[..], &["{\"content\":\"two\"}"]].concat(), "");
    assert_eq!((ran.code, ran.out.starts_with("l: continue")), (0, true), "{ran:?}");
    let ran = place.run(&[&alone[..], &["{}"]].concat(), "");
    assert_eq!(ran.code, 1, "{ran:?}");
    has(&ran.out, "l: failed, which blocks: it ended with exit code 7");
    has(&ran.out, "outcome: the failure of `l` blocks it");

    place.config(&(hook("b", &block, "tools = [\"Write\"]") + &hook("l", &look, "priority = -1")));
    let ran = place.run(&["hook", "test", "pre_tool_use", "--tool", "Write"], "");
    assert_eq!(ran.code, 0, "to block is no failure: {ran:?}");
    has(&ran.out, "outcome: `b` blocks it: no more");
    assert!(!ran.out.contains("l: "), "{}", ran.out);
    let ran = place.run(&["hook", "test", "before_tool_execute", "--tool", "Grep"], "");
    assert!(!ran.out.contains("b: "), "it is for another tool: {}", ran.out);
    let ran = place.run(&["hook", "test", "session_end"], "");
    assert_eq!((ran.code, ran.out.as_str()), (0, "no hook runs at session_end for this\n"));
}

#[test]
fn what_cannot_be_tried_is_said() {
    let place = Place::new();
    place.hook("before_tool_execute", "exit 0", "");
    for (args, words) in [
        (
            &["hook", "test", "never"][..],
            "no event has the name `never`; known: before_tool_execute",
        ),
        (&["hook", "test", "GatewayStart"], "there is no `GatewayStart` here"),
        (&["hook", "test", "persist", "--hook", "x"], "there is no hook `x`; known: h"),
        (&["hook", "test", "session_end", "--tool", "Read"], "session_end is about no tool"),
        (&["hook", "test", "persist", "--tool", "Nope"], "no tool of this name in native: Nope"),
        (&["hook", "test", "persist", "--arguments", "7"], "must be one JSON object"),
        (&["hook", "schema", "never"], "no event has the name `never`"),
    ] {
        let ran = place.run(args, "");
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        has(&ran.err, words);
    }
}

#[test]
fn schemas_are_printed_and_checked_in() {
    let place = Place::new();
    let ran = place.run(&["hook", "schema"], "");
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hooks.schema.json");
    sinew_testkit::golden(&path, &ran.out);
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), schemas());
    let ran = place.run(&["hook", "schema", "BeforeToolCall"], "");
    let one: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(one, schemas()["$defs"]["before_tool_execute"]);
}

/// A trial showed what the runtime would not do.
#[test]
fn a_trial_goes_as_a_call_goes() {
    let hook = |name: &str, event: &str, program: &str, more: &str| {
        format!(
            "[[hooks]]\nname = \"{name}\"\nevent = \"{event}\"\ncommand = [\"{program}\"]\n{more}\n"
        )
    };
    let place = Place::new();
    let text = place.program("text", r#"echo '{"reply":{"content":"new"}}'"#);
    let see = place.program("see", r#"grep -q '"content":\[{"type":"text","text":"new"}\]'"#);
    let move_it = place.program("move", r#"echo '{"arguments":{"file_path":"b.md"}}'"#);
    let bad = place.program("bad", r#"echo '{"messages":5}'"#);
    let fail = place.program("fail", "exit 7");
    let both = |event: &str, first: &str, second: &str, more: &str| {
        hook("a", event, first, "priority = 1") + &hook("z", event, second, more)
    };
    for (event, config, code, words) in [
        ("persist", both("persist", &text, &see, ""), 0, "z: continue"),
        (
            "before_tool_execute",
            both("before_tool_execute", &move_it, &fail, "paths = [\"b.md\"]"),
            1,
            "z: failed",
        ),
        (
            "before_tool_execute",
            both("before_tool_execute", &move_it, &fail, "paths = [\"notes.md\"]"),
            0,
            "outcome: it goes on",
        ),
        ("before_prompt", hook("a", "before_prompt", &bad, ""), 1, "its answer does not fit"),
        (
            "session_start",
            hook("a", "session_start", &fail, "on_error = \"block\""),
            1,
            "outcome: it goes on",
        ),
    ] {
        place.config(&config);
        let ran = place.run(&["hook", "test", event], "");
        assert_eq!(ran.code, code, "{event}: {ran:?}");
        has(&ran.out, words);
    }
    place.config(&hook("a", "session_start", &fail, "on_error = \"block\""));
    has(
        &place.run(&["hook", "list"], "").err,
        "`on_error` of a hook says nothing at `session_start`",
    );
}

/// The examples of the page are what the schemas mean.
#[test]
fn the_page_shows_every_event_with_an_example_that_fits() {
    let page = include_str!("../../../../docs/hooks.md");
    for event in HookEvent::ALL {
        let heading = format!("### `{event}`\n");
        let part = page.split(&heading).nth(1).unwrap_or_else(|| panic!("no {event} on the page"));
        let part = part.split("\n### ").next().unwrap();
        let json = part.split("```json\n").nth(1).and_then(|json| json.split("```").next());
        let shown: Value = serde_json::from_str(json.unwrap_or_default())
            .unwrap_or_else(|error| panic!("{event}: {error}"));
        assert_eq!(shown, example(event), "{event}");
        let schema = sinew::hook::schema(event);
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(&shown), "{event}");
    }
}
