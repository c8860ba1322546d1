//! Hooks written for other runtimes: each name of an event that they have reaches a real program, whose
//! input and variables are compared with a golden file, and what it answers means what it means there.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use sinew::dialects::HOOK_FORMS;
use sinew::hook::{HookAnswer, HookEnd, HookEvent};

use super::{Place, has, said};

/// What a program of each form got at each of its events.
#[test]
fn programs_get_what_their_runtime_tells_them() {
    let mut golden = Map::new();
    for form in HOOK_FORMS {
        let mut of_form = Map::new();
        for event in form.events.iter().filter(|event| event.event.is_some()) {
            let place = Place::new();
            let script = "cat >{home}/stdin; env | grep -E '^(TOOL_|SINEW_)' | sort >{home}/env";
            let more = format!("payload = \"{}\"", form.name);
            place.hook(event.name, script, &more);
            let ran = place.run(&["--session", "s1", "hook", "test", event.name], "");
            assert_eq!(ran.code, 0, "{} {}: {ran:?}", form.name, event.name);
            let root = place.place.root.to_str().unwrap();
            let plain = |text: String| text.replace(root, "/home/ada/project");
            let stdin: Value = serde_json::from_str(&plain(place.noted("stdin").unwrap())).unwrap();
            let env = plain(place.noted("env").unwrap());
            let env: Map<String, Value> = env
                .lines()
                .filter_map(|line| line.split_once('='))
                .map(|(name, value)| (name.to_owned(), Value::from(value)))
                .collect();
            of_form.insert(event.name.to_owned(), json!({ "stdin": stdin, "env": env }));
        }
        golden.insert(form.name.to_owned(), Value::Object(of_form));
    }
    let text = serde_json::to_string_pretty(&golden).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hooks/payloads.json");
    sinew_testkit::golden(&path, &text);
}

/// The front matter of a hook, how it answers, and what becomes of a call.
struct Row {
    event: &'static str,
    form: &'static str,
    script: &'static str,
    code: i32,
    content: Option<&'static str>,
    words: &'static str,
}

const fn row(
    (event, form): (&'static str, &'static str),
    script: &'static str,
    (code, content): (i32, Option<&'static str>),
    words: &'static str,
) -> Row {
    Row { event, form, script, code, content, words }
}

const BEFORE_MOLF: (&str, &str) = ("before_tool_call", "molf");
const BEFORE_MOLTIS: (&str, &str) = ("BeforeToolCall", "moltis");
const BEFORE_AGENTOS: (&str, &str) = ("BeforeToolCall", "agentos");
const BEFORE_AIONRS: (&str, &str) = ("pre_tool_use", "aionrs");
const PRE_CLAUDE: (&str, &str) = ("PreToolUse", "claude-code");
const ONE: (i32, Option<&str>) = (0, Some("one"));

#[test]
fn answers_of_other_runtimes_take_effect() {
    for Row { event, form, script, code, content, words } in [
        row(BEFORE_MOLF, r#"echo '{"block":"molf says no"}'"#, (3, None), "molf says no"),
        row(
            BEFORE_MOLF,
            r#"echo '{"args":{"file_path":"a.txt","content":"two"}}'"#,
            (0, Some("two")),
            " a.txt: ",
        ),
        row(("after_tool_execute", "molf"), r#"echo '{"result":{"output":"molf"}}'"#, ONE, "molf"),
        row(BEFORE_MOLTIS, "echo moltis says no >&2; exit 1", (3, None), "moltis says no"),
        row(
            BEFORE_MOLTIS,
            r#"echo '{"action":"modify","data":{"file_path":"a.txt","content":"two"}}'"#,
            (0, Some("two")),
            " a.txt: ",
        ),
        // What fails there goes on there, and does not here.
        row(BEFORE_MOLTIS, "exit 3", (3, None), "failed, so the call does not run"),
        row(
            ("ToolResultPersist", "moltis"),
            r#"echo '{"action":"modify","data":"masked"}'"#,
            ONE,
            "masked",
        ),
        row(
            ("ToolResultPersist", "moltis"),
            "exit 1",
            (3, Some("one")),
            "hook `h` withheld its reply: it gave no reason",
        ),
        row(("AfterToolCall", "moltis"), "exit 1", ONE, " a.txt: "),
        row(
            BEFORE_AGENTOS,
            r#"echo '{"block":true,"reason":"agentos says no"}'"#,
            (3, None),
            "agentos says no",
        ),
        row(
            BEFORE_AGENTOS,
            r#"echo '{"arguments":{"file_path":"a.txt","content":"two"}}'"#,
            (0, Some("two")),
            " a.txt: ",
        ),
        row(PRE_CLAUDE, "echo claude says no >&2; exit 2", (3, None), "claude says no"),
        row(
            PRE_CLAUDE,
            r#"echo '{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"not here"}}'"#,
            (3, None),
            "not here",
        ),
        // No person can be asked here, though a checkpoint keeps the change.
        row(
            PRE_CLAUDE,
            r#"echo '{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"sure?"}}'"#,
            (3, None),
            "the hook `h` asks: sure?",
        ),
        row(
            PRE_CLAUDE,
            r#"echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'"#,
            ONE,
            " a.txt: ",
        ),
        row(PRE_CLAUDE, r#"echo '{"continue":false,"stopReason":"enough"}'"#, (3, None), "enough"),
        row(("PostToolUse", "claude-code"), "echo lint >&2; exit 2", ONE, " a.txt: "),
        row(
            ("before_tool_execute", "sinew"),
            r#"echo '{"decision":"ask"}'"#,
            (3, None),
            "`h` asks",
        ),
        row(BEFORE_AIONRS, "echo aionrs says no; exit 9", (3, None), "aionrs says no"),
        row(BEFORE_AIONRS, "exit 0", ONE, " a.txt: "),
        row(("post_tool_use", "aionrs"), "exit 9", ONE, " a.txt: "),
    ] {
        let place = Place::new();
        place.hook(event, script, &format!("payload = \"{form}\""));
        let (ended, result) = place.write("one");
        assert_eq!(ended, code, "{form} {event} {script}: {result}");
        assert_eq!(place.content("a.txt").as_deref(), content, "{form} {event} {script}");
        has(&said(&result), words);
    }
}

/// A guard that was written for Claude Code fires after its settings were imported, and the model reads what
/// another one says after the tool.
#[test]
fn imported_hooks_of_claude_code_fire() {
    let place = Place::new();
    let guard = place.program(
        "guard",
        "cat >{home}/stdin; pwd >{home}/cwd; echo \"$CLAUDE_PROJECT_DIR\" >>{home}/cwd\n\
         grep -q '\"file_path\":\"a.txt\"' {home}/stdin || exit 0; echo guarded >&2; exit 2",
    );
    let lint = place.program("lint", "echo '{\"decision\":\"block\",\"reason\":\"lint it\"}'");
    let of = |matcher: &str, program: &str| json!([{"matcher": matcher, "hooks": [{"type": "command", "command": format!("{program} -x")}]}]);
    let settings = json!({ "hooks": {
        "PreToolUse": of("Edit|Write", &guard), "PostToolUse": of("*", &lint),
    }});
    let file = place.at("settings.json");
    std::fs::write(&file, settings.to_string()).unwrap();
    let imported = place.run(&["import", "claude-code", file.to_str().unwrap()], "");
    assert_eq!(imported.code, 0, "{imported:?}");
    place.config(&imported.out);
    let (code, result) = place.write("one");
    assert_eq!(code, 3, "{result}");
    has(&said(&result), "guarded");
    let told: Value = serde_json::from_str(&place.noted("stdin").unwrap()).unwrap();
    let keys = ["hook_event_name", "tool_name", "transcript_path", "cwd"].map(|key| &told[key]);
    let root = place.place.root.to_str().unwrap();
    assert_eq!(keys, [&json!("PreToolUse"), &json!("Write"), &json!(""), &json!(root)]);
    assert_eq!(told["tool_input"], json!({ "file_path": "a.txt", "content": "one" }));
    assert_eq!(place.noted("cwd").unwrap(), format!("{root}\n{root}\n"));
    let arguments = json!({ "file_path": "b.txt", "content": "one" }).to_string();
    let ran = place.run(&["call", "Write", &arguments], "");
    assert_eq!(ran.code, 0, "{ran:?}");
    has(&ran.out, "lint it");
}

/// In aionrs the value is put into the text of the command, which then runs it.
#[test]
fn a_value_never_becomes_a_part_of_a_command() {
    let place = Place::new();
    place.config(
        "[[hooks.pre_tool_use]]\nname = \"n\"\ntool_match = [\"Write\"]\nfile_match = [\"*.txt\"]\n\
         command = \"echo \\\"got ${TOOL_INPUT_FILE_PATH}\\\" >{home}/out\"\n",
    );
    let evil = "a$(touch ran)`touch ran`\"; touch ran; \".txt";
    let arguments = json!({ "file_path": evil, "content": "x" }).to_string();
    let ran = place.run(&["call", "Write", &arguments], "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(place.noted("out").unwrap(), format!("got {evil}\n"));
    assert_eq!(place.content("ran"), None);
}

/// A value that no variable can hold is not cut: a hook could miss a text after the cut.
#[test]
fn a_value_that_is_too_long_for_a_variable_fails_the_hook() {
    let place = Place::new();
    place.config("[[hooks.pre_tool_use]]\nname = \"n\"\ncommand = \"true\"\n");
    let line = json!({ "name": "Write", "arguments":
        { "file_path": "a.txt", "content": "x".repeat(200_000) } });
    let ran = place.run(&["call", "--batch"], &format!("{line}\n"));
    has(&ran.out, "the hook `n` failed");
    has(&ran.err, "more than a variable can hold");
    assert_eq!(place.content("a.txt"), None);
}

/// The tables of Moltis, and rules of the person's that its hooks cannot reach past.
#[test]
fn a_hook_of_another_runtime_is_judged_like_any_other() {
    let place = Place::new();
    let data = r#"{\"file_path\":\"secret.txt\",\"content\":\"x\"}"#;
    place.config(&format!(
        "[tools.fs]\ndeny_paths = [\"**/secret.txt\"]\n[[hooks.hooks]]\nname = \"n\"\n\
         events = [\"BeforeToolCall\"]\ntimeout = 5\n\
         command = \"\"\"echo '{{\"action\":\"modify\",\"data\":{}}}'\"\"\"\n",
        data.replace("\\\"", "\"")
    ));
    let (code, result) = place.write("one");
    assert_eq!(code, 3, "{result}");
    has(&said(&result), "deny_paths");
    assert_eq!((place.content("a.txt"), place.content("secret.txt")), (None, None));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("decision"),
        Just("reason"),
        Just("arguments"),
        Just("reply"),
        Just("content"),
        Just("action"),
        Just("data"),
        Just("block"),
        Just("args"),
        Just("result"),
        Just("output"),
        Just("messages"),
        Just("systemPrompt"),
        Just("text"),
        Just("session"),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..4).prop_map(|members| {
                members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_answer_changes_what_it_may_not(
        stdout in prop_oneof![any_json().prop_map(|json| json.to_string()), any::<String>()],
        stderr in any::<String>(),
        code in -1_i32..4,
    ) {
        for form in HOOK_FORMS {
            for event in HookEvent::ALL {
                let end = HookEnd { code, stdout: &stdout, stderr: &stderr };
                let answer = (form.answer)(event, &end);
                if let Ok(HookAnswer::Change(changes) | HookAnswer::Replace(changes)) = answer {
                    prop_assert!(code == 0 && changes.keys().all(|key| {
                        event.changes().contains(&key.as_str())
                    }), "{} {event}: {changes:?}", form.name);
                }
            }
        }
    }
}
