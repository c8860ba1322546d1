//! Hooks of Claude Code: names of events, payload and answers as its page about hooks has them.
//!
//! Differences: no hook allows a call, so `permissionDecision` `allow` means no objection. An exit code other
//! than 0 and 2 is a failure, which stops a call. `suppressOutput` and `systemMessage` have no effect.

use serde_json::{Map, Value, json};
use sinew_tool::hook::reason;
use sinew_tool::{HookAnswer, HookEnd, HookEvent, HookForm};

use super::Take::{At, LastPrompt, Text};
use super::{Keys, Take, absent, made, some};

pub(super) const CLAUDE_CODE: HookForm = HookForm {
    name: "claude-code",
    events: &[
        some("PreToolUse", HookEvent::BeforeToolExecute),
        some("PostToolUse", HookEvent::AfterToolExecute),
        some("UserPromptSubmit", HookEvent::BeforePrompt),
        some("SessionStart", HookEvent::SessionStart),
        some("SessionEnd", HookEvent::SessionEnd),
        some("Stop", HookEvent::TurnEnd),
        some("SubagentStop", HookEvent::AgentEnd),
        some("PreCompact", HookEvent::BeforeCompaction),
        absent("Notification"),
        absent("PermissionRequest"),
    ],
    priority: 0,
    starts_in_root: true,
    root_variable: Some("CLAUDE_PROJECT_DIR"),
    payload: |_, name, payload| made(KEYS, name, ("hook_event_name", name), payload),
    env: |_, _| Vec::new(),
    answer,
};

/// The keys that every event begins with.
const SESSION: (&str, Take) = ("session_id", At("/session"));
/// No file holds the conversation.
const TRANSCRIPT: (&str, Take) = ("transcript_path", Text(""));

pub(super) const KEYS: Keys = &[
    (
        "PreToolUse",
        &[
            SESSION,
            TRANSCRIPT,
            ("cwd", At("/cwd")),
            ("permission_mode", Text("default")),
            ("tool_name", At("/tool")),
            ("tool_input", At("/arguments")),
            ("tool_use_id", At("/call_id")),
        ],
    ),
    (
        "PostToolUse",
        &[
            SESSION,
            TRANSCRIPT,
            ("cwd", At("/cwd")),
            ("permission_mode", Text("default")),
            ("tool_name", At("/tool")),
            ("tool_input", At("/arguments")),
            ("tool_response", Take::Result),
            ("tool_use_id", At("/call_id")),
        ],
    ),
    ("UserPromptSubmit", &[SESSION, TRANSCRIPT, ("prompt", LastPrompt)]),
    ("SessionStart", &[SESSION, TRANSCRIPT, ("cwd", At("/roots/0")), ("source", Text("startup"))]),
    ("SessionEnd", &[SESSION, TRANSCRIPT, ("reason", Text("other"))]),
    ("Stop", &[SESSION, TRANSCRIPT, ("stop_hook_active", Take::False)]),
    ("SubagentStop", &[SESSION, TRANSCRIPT, ("stop_hook_active", Take::False)]),
    (
        "PreCompact",
        &[SESSION, TRANSCRIPT, ("trigger", Text("auto")), ("custom_instructions", Text(""))],
    ),
];

/// Exit code 2 with the reason on standard error, or an object with `hookSpecificOutput`, `decision` and
/// `continue`. Other text on standard output is for people.
fn answer(event: HookEvent, end: &HookEnd<'_>) -> Result<HookAnswer, String> {
    match end.code {
        0 => {}
        2 => return refusing(event, end.stderr),
        code => return Err(format!("it ended with exit code {code}")),
    }
    if !end.stdout.trim_start().starts_with('{') {
        return Ok(HookAnswer::Continue);
    }
    let said = sinew_tool::hook::object(end.stdout)?;
    let text = |said: &Map<String, Value>, key: &str| {
        said.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    if said.get("continue") == Some(&Value::Bool(false)) {
        return refusing(event, &text(&said, "stopReason"));
    }
    let empty = Map::new();
    let specific = said.get("hookSpecificOutput").and_then(Value::as_object).unwrap_or(&empty);
    let input = specific.get("updatedInput").filter(|input| !input.is_null());
    match specific.get("permissionDecision").map(|word| word.as_str().unwrap_or_default()) {
        Some("deny") => return refusing(event, &text(specific, "permissionDecisionReason")),
        Some("ask") if input.is_some() => {
            return Err(String::from("it asks and changes the arguments at once"));
        }
        Some("ask") if event == HookEvent::BeforeToolExecute => {
            return Ok(HookAnswer::Ask(reason(&text(specific, "permissionDecisionReason"))));
        }
        None | Some("allow") => {}
        Some(word) => {
            return Err(format!("its `permissionDecision` `{word}` is not known at {event}"));
        }
    }
    match said.get("decision").map(|word| word.as_str().unwrap_or_default()) {
        Some("block") => return refusing(event, &text(&said, "reason")),
        None | Some("approve" | "") => {}
        Some(word) => return Err(format!("its `decision` `{word}` is not known")),
    }
    if let Some(input) = input {
        if event != HookEvent::BeforeToolExecute {
            return Err(format!("nothing can be changed at {event}"));
        }
        let changes = json!({ "arguments": input });
        return Ok(HookAnswer::Replace(changes.as_object().cloned().unwrap_or_default()));
    }
    match specific.get("additionalContext").and_then(Value::as_str) {
        Some(context) if event == HookEvent::AfterToolExecute => {
            Ok(HookAnswer::Add(context.to_owned()))
        }
        _ => Ok(HookAnswer::Continue),
    }
}

/// Returns the answer that stops an event. A tool that ran cannot be stopped: the model is given the reason.
fn refusing(event: HookEvent, why: &str) -> Result<HookAnswer, String> {
    match event {
        HookEvent::AfterToolExecute => Ok(HookAnswer::Add(reason(why))),
        event if event.can_block() => Ok(HookAnswer::Block(reason(why))),
        event => Err(format!("nothing can be stopped at {event}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        event: HookEvent,
        (code, stdout, stderr): (i32, &str, &str),
        expected: Result<HookAnswer, &str>,
    ) {
        let end = HookEnd { code, stdout, stderr };
        match (answer(event, &end), expected) {
            (Ok(answer), Ok(expected)) => assert_eq!(answer, expected, "{end:?}"),
            (Err(why), Err(words)) => assert!(why.contains(words), "{end:?}: {why}"),
            (answer, expected) => panic!("{end:?}: {answer:?}, not {expected:?}"),
        }
    }

    #[test]
    fn answers_mean_what_they_mean_there() {
        let before = HookEvent::BeforeToolExecute;
        let block = |reason: &str| Ok(HookAnswer::Block(String::from(reason)));
        let replace =
            |value: Value| Ok(HookAnswer::Replace(value.as_object().cloned().expect("keys")));
        let go_on = || Ok(HookAnswer::Continue);
        let after = HookEvent::AfterToolExecute;
        let add = |text: &str| Ok(HookAnswer::Add(String::from(text)));
        check(before, (0, "", ""), go_on());
        check(before, (0, "checked 3 files", ""), go_on());
        check(before, (0, r#"{"suppressOutput":true}"#, ""), go_on());
        check(before, (2, "", "no\n"), block("no"));
        check(before, (1, "", "broken"), Err("exit code 1"));
        check(before, (0, r#"{"continue":false,"stopReason":"enough"}"#, ""), block("enough"));
        check(before, (0, r#"{"decision":"block","reason":"no"}"#, ""), block("no"));
        check(before, (0, r#"{"decision":"approve"}"#, ""), go_on());
        let decides = |decision: &str, more: &str| {
            format!(r#"{{"hookSpecificOutput":{{"permissionDecision":"{decision}"{more}}}}}"#)
        };
        let why = r#","permissionDecisionReason":"why""#;
        check(before, (0, &decides("deny", why), ""), block("why"));
        check(before, (0, &decides("allow", why), ""), go_on());
        check(before, (0, &decides("ask", why), ""), Ok(HookAnswer::Ask(String::from("why"))));
        check(before, (0, &decides("maybe", ""), ""), Err("`maybe`"));
        check(before, (0, &decides("ask", r#","updatedInput":{}"#), ""), Err("at once"));
        check(
            before,
            (0, &decides("allow", r#","updatedInput":{"a":1}"#), ""),
            replace(json!({"arguments":{"a":1}})),
        );
        check(after, (2, "", "lint"), add("lint"));
        check(after, (0, r#"{"decision":"block","reason":"lint"}"#, ""), add("lint"));
        check(
            after,
            (0, r#"{"hookSpecificOutput":{"additionalContext":"more"}}"#, ""),
            add("more"),
        );
        check(after, (0, &decides("ask", ""), ""), Err("`ask`"));
        check(HookEvent::BeforePrompt, (2, "", "no"), block("no"));
        check(HookEvent::TurnEnd, (2, "", "go on"), Err("nothing can be stopped"));
        check(before, (0, "{", ""), Err("not a JSON object"));
    }

    #[test]
    fn prompt_is_the_last_message_of_the_user() {
        for (messages, expected) in [
            (json!([]), ""),
            (json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]), "a"),
            (json!([{"role": "user", "content": [{"type": "text", "text": "c"}]}]), "c"),
        ] {
            let payload = json!({ "session": "s", "messages": messages });
            let told = made(KEYS, "UserPromptSubmit", ("hook_event_name", "x"), &payload);
            assert_eq!(told["prompt"], expected, "{payload}");
        }
    }
}
