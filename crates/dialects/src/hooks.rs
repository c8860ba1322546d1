//! Hook protocols of other runtimes: event names, payload keys, variables and answers.
//!
//! Each form is a table with no more power than sinew's own; an answer that sinew does not support fails the
//! hook. Events of absent features, such as chat messages, are known by name, to distinguish them from typos.

mod claude_code;

use serde_json::{Map, Value, json};
use sinew_tool::hook::{object, reason};
use sinew_tool::{FormEvent, HookAnswer, HookEnd, HookEvent, HookForm, SINEW_HOOKS};

/// All forms; a name in several of them means the first.
pub const HOOK_FORMS: &[HookForm] =
    &[SINEW_HOOKS, MOLF, MOLTIS, AGENTOS, AIONRS, claude_code::CLAUDE_CODE];

/// Returns the form with a configuration name.
pub fn hook_form(name: &str) -> Option<&'static HookForm> {
    HOOK_FORMS.iter().find(|form| form.name == name)
}

/// The source of a key's value.
#[derive(Clone, Copy)]
enum Take {
    /// The payload at a JSON pointer.
    At(&'static str),
    /// A constant text.
    Text(&'static str),
    /// The length of a list, or of a text in bytes.
    Size(&'static str),
    /// The result object of a reply, else its text.
    Result,
    /// A reply in molf's format.
    Envelope,
    /// A model answer in molf's format.
    Response,
    /// Token counts in molf's format.
    Usage,
    /// The text of the last message of a user.
    LastPrompt,
    False,
}

type Keys = &'static [(&'static str, &'static [(&'static str, Take)])];

use Take::{At, Envelope, Response, Size, Text, Usage};

const MOLF: HookForm = HookForm {
    name: "molf",
    events: &[
        some("before_tool_call", HookEvent::BeforeToolExecute),
        some("after_tool_call", HookEvent::AfterToolExecute),
        some("before_tool_execute", HookEvent::BeforeToolExecute),
        some("after_tool_execute", HookEvent::AfterToolExecute),
        some("session_create", HookEvent::SessionStart),
        some("session_delete", HookEvent::SessionEnd),
        some("turn_start", HookEvent::TurnStart),
        some("turn_end", HookEvent::TurnEnd),
        some("before_prompt", HookEvent::BeforePrompt),
        some("after_prompt", HookEvent::AfterModelCall),
        some("before_compaction", HookEvent::BeforeCompaction),
        some("after_compaction", HookEvent::AfterCompaction),
        absent("session_save"),
        absent("worker_connect"),
        absent("worker_disconnect"),
        absent("worker_start"),
        absent("worker_stop"),
        absent("server_start"),
        absent("server_stop"),
    ],
    priority: 0,
    starts_in_root: false,
    root_variable: None,
    payload: |_, name, payload| made(MOLF_KEYS, name, ("event", name), payload),
    env: |_, _| Vec::new(),
    answer: molf_answer,
};

const MOLF_CALL: &[(&str, Take)] = &[
    ("sessionId", At("/session")),
    ("toolCallId", At("/call_id")),
    ("toolName", At("/tool")),
    ("args", At("/arguments")),
    ("workerId", Text("sinew")),
];

const MOLF_KEYS: Keys = &[
    ("before_tool_call", MOLF_CALL),
    (
        "after_tool_call",
        &[
            ("sessionId", At("/session")),
            ("toolCallId", At("/call_id")),
            ("toolName", At("/tool")),
            ("args", At("/arguments")),
            ("workerId", Text("sinew")),
            ("result", Envelope),
            ("duration", At("/duration_ms")),
        ],
    ),
    (
        "before_tool_execute",
        &[("toolName", At("/tool")), ("args", At("/arguments")), ("workdir", At("/cwd"))],
    ),
    (
        "after_tool_execute",
        &[
            ("toolName", At("/tool")),
            ("args", At("/arguments")),
            ("result", Envelope),
            ("duration", At("/duration_ms")),
        ],
    ),
    ("session_create", &[("sessionId", At("/session"))]),
    ("session_delete", &[("sessionId", At("/session"))]),
    (
        "turn_start",
        &[("sessionId", At("/session")), ("prompt", At("/prompt")), ("model", At("/model"))],
    ),
    (
        "turn_end",
        &[
            ("sessionId", At("/session")),
            ("message", At("/message")),
            ("toolCallCount", At("/n_tool_calls")),
            ("stepCount", At("/n_steps")),
            ("duration", At("/duration_ms")),
        ],
    ),
    (
        "before_prompt",
        &[
            ("sessionId", At("/session")),
            ("systemPrompt", At("/system_prompt")),
            ("messages", At("/messages")),
            ("model", At("/model")),
            ("tools", At("/tools")),
        ],
    ),
    (
        "after_prompt",
        &[
            ("sessionId", At("/session")),
            ("response", Response),
            ("usage", Usage),
            ("duration", At("/duration_ms")),
        ],
    ),
    (
        "before_compaction",
        &[("sessionId", At("/session")), ("messages", At("/messages")), ("reason", At("/reason"))],
    ),
    (
        "after_compaction",
        &[
            ("sessionId", At("/session")),
            ("originalCount", At("/n_before")),
            ("compactedCount", At("/n_after")),
            ("summary", At("/summary")),
        ],
    ),
];

/// The keys that a molf hook changes, with their names in sinew.
const MOLF_CHANGES: &[(&str, &str)] = &[
    ("args", "arguments"),
    ("systemPrompt", "system_prompt"),
    ("messages", "messages"),
    ("tools", "tools"),
];

/// `{"block": reason}`, or the keys of the payload that change.
fn molf_answer(event: HookEvent, end: &HookEnd<'_>) -> Result<HookAnswer, String> {
    let mut said = match answered(end)? {
        Answered::Blocks(why) => return Ok(HookAnswer::Block(why)),
        Answered::Nothing => return Ok(HookAnswer::Continue),
        Answered::Object(said) => said,
    };
    if let Some(why) = said.shift_remove("block") {
        return Ok(HookAnswer::Block(reason(why.as_str().unwrap_or_default())));
    }
    let mut changes = Map::new();
    for (key, value) in said {
        match MOLF_CHANGES.iter().find(|(theirs, _)| *theirs == key) {
            Some((_, ours)) => drop(changes.insert((*ours).to_owned(), value)),
            None if key == "result" => {
                let output = value.get("output").and_then(Value::as_str);
                let output = output.ok_or("its `result` has no `output`")?;
                changes.insert(String::from("reply"), json!({ "content": output }));
            }
            None => {
                return Err(format!("it answers with the key `{key}`, which cannot be changed"));
            }
        }
    }
    changing(event, changes)
}

const MOLTIS: HookForm = HookForm {
    name: "moltis",
    events: &[
        some("BeforeToolCall", HookEvent::BeforeToolExecute),
        some("AfterToolCall", HookEvent::AfterToolExecute),
        some("ToolResultPersist", HookEvent::Persist),
        some("SessionStart", HookEvent::SessionStart),
        some("SessionEnd", HookEvent::SessionEnd),
        some("BeforeAgentStart", HookEvent::AgentStart),
        some("AgentEnd", HookEvent::AgentEnd),
        some("BeforeLLMCall", HookEvent::BeforeModelCall),
        some("AfterLLMCall", HookEvent::AfterModelCall),
        some("BeforeCompaction", HookEvent::BeforeCompaction),
        some("AfterCompaction", HookEvent::AfterCompaction),
        some("MessageReceived", HookEvent::MessageReceived),
        some("MessageSending", HookEvent::MessageSending),
        some("MessageSent", HookEvent::MessageSent),
        absent("GatewayStart"),
        absent("GatewayStop"),
        absent("Command"),
    ],
    priority: 0,
    starts_in_root: false,
    root_variable: None,
    payload: |_, name, payload| made(MOLTIS_KEYS, name, ("event", name), payload),
    env: |_, _| Vec::new(),
    answer: moltis_answer,
};

const MOLTIS_KEYS: Keys = &[
    (
        "BeforeToolCall",
        &[
            ("session_key", At("/session")),
            ("tool_call_id", At("/call_id")),
            ("tool_name", At("/tool")),
            ("arguments", At("/arguments")),
        ],
    ),
    (
        "AfterToolCall",
        &[
            ("session_key", At("/session")),
            ("tool_call_id", At("/call_id")),
            ("tool_name", At("/tool")),
            ("success", At("/reply/ok")),
            ("result", Take::Result),
        ],
    ),
    (
        "ToolResultPersist",
        &[
            ("session_key", At("/session")),
            ("tool_call_id", At("/call_id")),
            ("tool_name", At("/tool")),
            ("result", Take::Result),
        ],
    ),
    ("SessionStart", &[("session_key", At("/session"))]),
    ("SessionEnd", &[("session_key", At("/session"))]),
    ("BeforeAgentStart", &[("session_key", At("/session")), ("model", At("/model"))]),
    (
        "AgentEnd",
        &[
            ("session_key", At("/session")),
            ("text", At("/text")),
            ("iterations", At("/n_iterations")),
            ("tool_calls", At("/n_tool_calls")),
        ],
    ),
    (
        "BeforeLLMCall",
        &[
            ("session_key", At("/session")),
            ("provider", At("/provider")),
            ("model", At("/model")),
            ("messages", At("/messages")),
            ("tool_count", At("/n_tools")),
            ("iteration", At("/iteration")),
        ],
    ),
    (
        "AfterLLMCall",
        &[
            ("session_key", At("/session")),
            ("provider", At("/provider")),
            ("model", At("/model")),
            ("text", At("/text")),
            ("tool_calls", At("/tool_calls")),
            ("input_tokens", At("/input_tokens")),
            ("output_tokens", At("/output_tokens")),
            ("iteration", At("/iteration")),
        ],
    ),
    ("BeforeCompaction", &[("session_key", At("/session")), ("message_count", Size("/messages"))]),
    ("AfterCompaction", &[("session_key", At("/session")), ("summary_len", Size("/summary"))]),
    ("MessageReceived", MOLTIS_MESSAGE),
    ("MessageSending", MOLTIS_MESSAGE),
    ("MessageSent", MOLTIS_MESSAGE),
];

const MOLTIS_MESSAGE: &[(&str, Take)] =
    &[("session_key", At("/session")), ("content", At("/content")), ("channel", At("/channel"))];

/// `{"action": "modify", "data": …}`, and exit code 1 to block.
fn moltis_answer(event: HookEvent, end: &HookEnd<'_>) -> Result<HookAnswer, String> {
    if end.code == 1 {
        return Ok(HookAnswer::Block(reason(end.stderr)));
    }
    if end.code != 0 {
        return Err(format!("it ended with exit code {}", end.code));
    }
    if end.stdout.trim().is_empty() {
        return Ok(HookAnswer::Continue);
    }
    let said = object(end.stdout)?;
    let data = match said.get("action").and_then(Value::as_str) {
        Some("continue") => return Ok(HookAnswer::Continue),
        Some("block") => {
            let why = said.get("reason").and_then(Value::as_str).unwrap_or_default();
            return Ok(HookAnswer::Block(reason(why)));
        }
        Some("modify") => said.get("data").cloned().ok_or("it modifies and gives no `data`")?,
        _ => return Err(String::from("its `action` is neither `modify`, `continue` nor `block`")),
    };
    let mut changes = Map::new();
    match event {
        HookEvent::BeforeToolExecute => drop(changes.insert(String::from("arguments"), data)),
        HookEvent::Persist => {
            let reply = match data {
                Value::String(text) => json!({ "content": text }),
                data => json!({ "content": data.to_string(), "structured": data }),
            };
            changes.insert(String::from("reply"), reply);
        }
        HookEvent::BeforeModelCall => drop(changes.insert(String::from("messages"), data)),
        HookEvent::MessageSending | HookEvent::MessageReceived if data.is_string() => {
            drop(changes.insert(String::from("content"), data));
        }
        HookEvent::AfterModelCall | HookEvent::MessageSending | HookEvent::MessageReceived => {
            match data {
                Value::Object(data) => changes = data,
                _ => return Err(String::from("its `data` is not an object")),
            }
        }
        _ => return Err(format!("nothing can be changed at {event}")),
    }
    changing(event, changes)
}

const AGENTOS: HookForm = HookForm {
    name: "agentos",
    events: &[
        some("BeforeToolCall", HookEvent::BeforeToolExecute),
        some("AfterToolCall", HookEvent::AfterToolExecute),
        some("BeforePromptBuild", HookEvent::BeforePrompt),
        some("AgentLoopEnd", HookEvent::AgentEnd),
    ],
    priority: 100,
    starts_in_root: false,
    root_variable: None,
    payload: |_, name, payload| made(AGENTOS_KEYS, name, ("type", name), payload),
    env: |_, _| Vec::new(),
    answer: agentos_answer,
};

const AGENTOS_KEYS: Keys = &[
    (
        "BeforeToolCall",
        &[
            ("agentId", At("/agent")),
            ("sessionId", At("/session")),
            ("toolId", At("/tool")),
            ("arguments", At("/arguments")),
        ],
    ),
    (
        "AfterToolCall",
        &[
            ("agentId", At("/agent")),
            ("sessionId", At("/session")),
            ("toolId", At("/tool")),
            ("arguments", At("/arguments")),
            ("result", Take::Result),
        ],
    ),
    (
        "BeforePromptBuild",
        &[
            ("sessionId", At("/session")),
            ("systemPrompt", At("/system_prompt")),
            ("messages", At("/messages")),
        ],
    ),
    (
        "AgentLoopEnd",
        &[
            ("agentId", At("/agent")),
            ("sessionId", At("/session")),
            ("response", At("/text")),
            ("iterations", At("/n_iterations")),
        ],
    ),
];

/// `{"block": true, "reason": …}`, or the keys of the payload that change.
fn agentos_answer(event: HookEvent, end: &HookEnd<'_>) -> Result<HookAnswer, String> {
    let mut said = match answered(end)? {
        Answered::Blocks(why) => return Ok(HookAnswer::Block(why)),
        Answered::Nothing => return Ok(HookAnswer::Continue),
        Answered::Object(said) => said,
    };
    let why = said.shift_remove("reason");
    match said.shift_remove("block") {
        Some(Value::Bool(true)) => {
            let why = why.as_ref().and_then(Value::as_str).unwrap_or_default();
            return Ok(HookAnswer::Block(reason(why)));
        }
        None | Some(Value::Bool(false)) => {}
        Some(_) => return Err(String::from("its `block` is neither true nor false")),
    }
    let mut changes = Map::new();
    for (key, value) in said {
        match key.as_str() {
            "arguments" | "messages" => drop(changes.insert(key, value)),
            "systemPrompt" => drop(changes.insert(String::from("system_prompt"), value)),
            _ => return Err(format!("it answers with the key `{key}`, which cannot be changed")),
        }
    }
    changing(event, changes)
}

const AIONRS: HookForm = HookForm {
    name: "aionrs",
    events: &[
        some("pre_tool_use", HookEvent::BeforeToolExecute),
        some("post_tool_use", HookEvent::AfterToolExecute),
        some("stop", HookEvent::AgentEnd),
    ],
    priority: 0,
    starts_in_root: true,
    root_variable: None,
    payload: |_, _, payload| payload.clone(),
    env: aionrs_env,
    answer: |event, end| match (event, end.code) {
        (_, 0) => Ok(HookAnswer::Continue),
        (HookEvent::BeforeToolExecute, _) => {
            let said = if end.stderr.trim().is_empty() { end.stdout } else { end.stderr };
            Ok(HookAnswer::Block(reason(said)))
        }
        (_, code) => Err(format!("it ended with exit code {code}")),
    },
};

/// The most output bytes in a variable: the kernel limits variables.
const MAX_OUTPUT: usize = 100_000;

/// Values that aionrs inserts into the command text; here they are variables only.
fn aionrs_env(event: HookEvent, payload: &Value) -> Vec<(&'static str, String)> {
    let of = |key: &str| {
        let value = payload.pointer(&format!("/arguments/{key}"));
        value.and_then(Value::as_str).map(str::to_owned)
    };
    let mut env = Vec::new();
    if let Some(tool) = payload.get("tool").and_then(Value::as_str) {
        env.push(("TOOL_NAME", tool.to_owned()));
    }
    env.extend(payload.get("arguments").map(|arguments| ("TOOL_INPUT", arguments.to_string())));
    env.extend(of("file_path").or_else(|| of("path")).map(|path| ("TOOL_INPUT_FILE_PATH", path)));
    env.extend(of("command").map(|command| ("TOOL_INPUT_COMMAND", command)));
    env.extend(of("pattern").map(|pattern| ("TOOL_INPUT_PATTERN", pattern)));
    if event == HookEvent::AfterToolExecute {
        let mut output = text(payload);
        output.truncate(output.floor_char_boundary(MAX_OUTPUT));
        env.push(("TOOL_OUTPUT", output));
    }
    env
}

const fn some(name: &'static str, event: HookEvent) -> FormEvent {
    FormEvent { name, event: Some(event) }
}

const fn absent(name: &'static str) -> FormEvent {
    FormEvent { name, event: None }
}

/// The answer of a program for a runtime whose own hooks are not programs.
enum Answered {
    Nothing,
    Blocks(String),
    Object(Map<String, Value>),
}

fn answered(end: &HookEnd<'_>) -> Result<Answered, String> {
    match end.code {
        0 if end.stdout.trim().is_empty() => Ok(Answered::Nothing),
        0 => object(end.stdout).map(Answered::Object),
        2 => Ok(Answered::Blocks(reason(end.stderr))),
        code => Err(format!("it ended with exit code {code}")),
    }
}

/// Returns changes that replace whole values.
fn changing(event: HookEvent, changes: Map<String, Value>) -> Result<HookAnswer, String> {
    if let Some(key) = changes.keys().find(|key| !event.changes().contains(&key.as_str())) {
        return Err(format!("`{key}` cannot be changed at {event}"));
    }
    Ok(match changes.is_empty() {
        true => HookAnswer::Continue,
        false => HookAnswer::Replace(changes),
    })
}

/// Builds the program's input: the event tag and the keys of a table.
fn made(keys: Keys, name: &str, tag: (&str, &str), payload: &Value) -> Value {
    let mut all = Map::new();
    all.insert(tag.0.to_owned(), Value::from(tag.1));
    let of = keys.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, keys)| *keys);
    for (key, take) in of {
        all.insert((*key).to_owned(), taken(*take, payload));
    }
    Value::Object(all)
}

fn taken(take: Take, payload: &Value) -> Value {
    let at = |pointer: &str| payload.pointer(pointer).cloned().unwrap_or_default();
    match take {
        At(pointer) => at(pointer),
        Text(text) => Value::from(text),
        Size(pointer) => match payload.pointer(pointer) {
            Some(Value::Array(list)) => Value::from(list.len()),
            Some(Value::String(text)) => Value::from(text.len()),
            _ => Value::from(0),
        },
        Take::Result => match at("/reply/structured") {
            Value::Null => Value::from(text(payload)),
            structured => structured,
        },
        Envelope => {
            let (output, meta) = (text(payload), at("/reply/meta"));
            match at("/reply/error/message") {
                Value::Null => json!({ "output": output, "meta": meta }),
                message => json!({ "output": output, "error": message, "meta": meta }),
            }
        }
        Response => json!({ "content": at("/text"), "toolCalls": at("/tool_calls") }),
        Usage => json!({
            "inputTokens": at("/input_tokens"),
            "outputTokens": at("/output_tokens"),
        }),
        Take::LastPrompt => Value::from(last_prompt(payload)),
        Take::False => Value::Bool(false),
    }
}

/// Returns the text of the last message of a user, whose content is a text or a list of blocks.
fn last_prompt(payload: &Value) -> String {
    let messages = payload.get("messages").and_then(Value::as_array);
    let is_of_user = |message: &&Value| message.get("role").is_some_and(|role| role == "user");
    let last = messages.into_iter().flatten().rev().find(is_of_user);
    match last.and_then(|message| message.get("content")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn text(payload: &Value) -> String {
    let blocks = payload.pointer("/reply/content").and_then(Value::as_array);
    let texts = blocks.into_iter().flatten().filter_map(|block| block.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sinew_tool::hook::example;

    use super::*;

    #[test]
    fn every_name_of_an_event_has_keys_and_every_key_a_value() {
        for (form, keys) in [
            (MOLF, MOLF_KEYS),
            (MOLTIS, MOLTIS_KEYS),
            (AGENTOS, AGENTOS_KEYS),
            (claude_code::CLAUDE_CODE, claude_code::KEYS),
        ] {
            let known: BTreeSet<&str> =
                form.events.iter().filter(|e| e.event.is_some()).map(|e| e.name).collect();
            let with_keys: BTreeSet<&str> = keys.iter().map(|(name, _)| *name).collect();
            assert_eq!(known, with_keys, "{}", form.name);
            for FormEvent { name, event } in form.events {
                let Some(event) = *event else { continue };
                let payload = example(event);
                let told = (form.payload)(event, name, &payload);
                for (key, value) in told.as_object().expect("keys") {
                    // The example call has no agent.
                    let may_be_null = key == "agentId";
                    assert!(!value.is_null() || may_be_null, "{} {name}: {key}", form.name);
                }
            }
        }
    }

    #[track_caller]
    fn check(
        form: &str,
        event: HookEvent,
        (code, stdout, stderr): (i32, &str, &str),
        expected: Result<HookAnswer, &str>,
    ) {
        let form = hook_form(form).expect("a form");
        let end = HookEnd { code, stdout, stderr };
        match ((form.answer)(event, &end), expected) {
            (Ok(answer), Ok(expected)) => assert_eq!(answer, expected, "{end:?}"),
            (Err(why), Err(words)) => assert!(why.contains(words), "{end:?}: {why}"),
            (answer, expected) => panic!("{end:?}: {answer:?}, not {expected:?}"),
        }
    }

    #[test]
    fn answers_mean_what_they_mean_in_their_runtime() {
        let before = HookEvent::BeforeToolExecute;
        let block = |reason: &str| Ok(HookAnswer::Block(String::from(reason)));
        let replace =
            |value: Value| Ok(HookAnswer::Replace(value.as_object().cloned().expect("keys")));
        let go_on = || Ok(HookAnswer::Continue);
        check("molf", before, (0, "", ""), go_on());
        check("molf", before, (0, "{}", ""), go_on());
        check("molf", before, (0, r#"{"block":"no"}"#, ""), block("no"));
        check("molf", before, (2, "", "no"), block("no"));
        check(
            "molf",
            before,
            (0, r#"{"args":{"a":1}}"#, ""),
            replace(json!({"arguments":{"a":1}})),
        );
        check("molf", before, (0, r#"{"workdir":"/"}"#, ""), Err("`workdir`"));
        check("molf", before, (0, r#"{"result":{"output":"x"}}"#, ""), Err("`reply`"));
        check(
            "molf",
            HookEvent::AfterToolExecute,
            (0, r#"{"result":{"output":"x"}}"#, ""),
            replace(json!({"reply":{"content":"x"}})),
        );
        check("molf", HookEvent::AfterToolExecute, (0, r#"{"result":1}"#, ""), Err("no `output`"));
        check("molf", before, (1, "", ""), Err("exit code 1"));
        check("moltis", before, (0, "", ""), go_on());
        check("moltis", before, (1, "", "no"), block("no"));
        check("moltis", before, (2, "", "no"), Err("exit code 2"));
        check("moltis", before, (0, "text", ""), Err("not a JSON object"));
        check(
            "moltis",
            before,
            (0, r#"{"action":"modify","data":{"a":1}}"#, ""),
            replace(json!({"arguments":{"a":1}})),
        );
        check("moltis", before, (0, r#"{"action":"modify"}"#, ""), Err("no `data`"));
        check("moltis", before, (0, r#"{"action":"run"}"#, ""), Err("neither"));
        check("moltis", before, (0, r#"{"action":"block","reason":"no"}"#, ""), block("no"));
        check(
            "moltis",
            HookEvent::Persist,
            (0, r#"{"action":"modify","data":"x"}"#, ""),
            replace(json!({"reply":{"content":"x"}})),
        );
        check(
            "moltis",
            HookEvent::Persist,
            (0, r#"{"action":"modify","data":{"a":1}}"#, ""),
            replace(json!({"reply":{"content":"{\"a\":1}","structured":{"a":1}}})),
        );
        check(
            "moltis",
            HookEvent::AfterToolExecute,
            (0, r#"{"action":"modify","data":"x"}"#, ""),
            Err("nothing can be changed"),
        );
        check("agentos", before, (0, r#"{"block":true,"reason":"no"}"#, ""), block("no"));
        check("agentos", before, (0, r#"{"block":false}"#, ""), go_on());
        check("agentos", before, (0, r#"{"block":"no"}"#, ""), Err("neither true nor false"));
        check(
            "agentos",
            before,
            (0, r#"{"arguments":{"a":1}}"#, ""),
            replace(json!({"arguments":{"a":1}})),
        );
        check("aionrs", before, (0, "formatted", ""), go_on());
        check("aionrs", before, (1, "out", ""), block("out"));
        check("aionrs", before, (7, "out", "err"), block("err"));
        check("aionrs", HookEvent::AfterToolExecute, (1, "", ""), Err("exit code 1"));
    }

    #[test]
    fn variables_hold_what_the_call_names() {
        let mut payload = example(HookEvent::AfterToolExecute);
        payload["arguments"] = json!({ "path": "a", "command": "b", "pattern": "c" });
        payload["reply"]["content"][0]["text"] = Value::from("é".repeat(100_000));
        let env = aionrs_env(HookEvent::AfterToolExecute, &payload);
        let of = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str());
        assert_eq!(of("TOOL_NAME"), Some("Write"));
        assert_eq!(of("TOOL_INPUT"), Some(r#"{"path":"a","command":"b","pattern":"c"}"#));
        assert_eq!(of("TOOL_INPUT_FILE_PATH"), Some("a"));
        assert_eq!(of("TOOL_INPUT_COMMAND"), Some("b"));
        assert_eq!(of("TOOL_INPUT_PATTERN"), Some("c"));
        assert_eq!(of("TOOL_OUTPUT").map(str::len), Some(100_000));
        let before =
            aionrs_env(HookEvent::BeforeToolExecute, &example(HookEvent::BeforeToolExecute));
        assert!(before.iter().all(|(name, _)| *name != "TOOL_OUTPUT"));
    }
}
