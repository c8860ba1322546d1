//! Hook forms: the protocols of hook programs, from payload to answer.
//!
//! A form is a table of names and three pure functions over the payload of [`mod@super::payload`], so that
//! programs for other runtimes work. This file has sinew's own form.

use serde_json::{Map, Value};

use super::HookEvent;

/// The protocol of a hook program.
#[derive(Debug, Clone, Copy)]
pub struct HookForm {
    /// The word in the configuration.
    pub name: &'static str,
    /// Its names of events; an event may have several.
    pub events: &'static [FormEvent],
    /// The default priority of a hook.
    pub priority: i32,
    /// Whether a hook starts in the first root by default, since its paths are relative to it.
    pub starts_in_root: bool,
    /// The variable that holds the first root.
    pub root_variable: Option<&'static str>,
    /// Builds the program's input from the payload and its name of the event.
    pub payload: fn(HookEvent, &str, &Value) -> Value,
    /// Returns the variables beside those of every hook.
    pub env: fn(HookEvent, &Value) -> Vec<(&'static str, String)>,
    /// Interprets the answer of a program that exited, or returns why it is invalid.
    pub answer: fn(HookEvent, &HookEnd<'_>) -> Result<HookAnswer, String>,
}

/// A name of an event in a form.
#[derive(Debug, Clone, Copy)]
pub struct FormEvent {
    /// The name.
    pub name: &'static str,
    /// The event; `None` if sinew lacks its feature.
    pub event: Option<HookEvent>,
}

impl HookForm {
    /// Returns the meaning of an event name.
    pub fn event(&self, name: &str) -> Option<Option<HookEvent>> {
        self.events.iter().find(|known| known.name == name).map(|known| known.event)
    }

    /// Returns the form's first name of an event.
    pub fn name_of(&self, event: HookEvent) -> Option<&'static str> {
        self.events.iter().find(|known| known.event == Some(event)).map(|known| known.name)
    }
}

/// The exit of a hook program.
#[derive(Debug, Clone, Copy)]
pub struct HookEnd<'a> {
    /// The exit code.
    pub code: i32,
    /// The standard output.
    pub stdout: &'a str,
    /// The standard error.
    pub stderr: &'a str,
}

/// The meaning of a program's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum HookAnswer {
    /// No change.
    Continue,
    /// Blocks the event, for this reason.
    Block(String),
    /// Changes payload keys: merges members of objects, replaces other values.
    Change(Map<String, Value>),
    /// Changes payload keys and replaces objects whole.
    Replace(Map<String, Value>),
    /// Asks whether the call may run, with this reason. Only before a tool.
    Ask(String),
    /// Adds a text to the reply. Only after a tool, or where the reply is kept.
    Add(String),
}

/// sinew's own form.
pub const SINEW_HOOKS: HookForm = HookForm {
    name: "sinew",
    events: &OWN_EVENTS,
    priority: 0,
    starts_in_root: false,
    root_variable: None,
    payload: |_, _, payload| payload.clone(),
    env: |_, _| Vec::new(),
    answer: own_answer,
};

const OWN_EVENTS: [FormEvent; HookEvent::ALL.len()] = [
    own(HookEvent::BeforeToolExecute),
    own(HookEvent::AfterToolExecute),
    own(HookEvent::Persist),
    own(HookEvent::Approval),
    own(HookEvent::MessageSending),
    own(HookEvent::MessageSent),
    own(HookEvent::MessageReceived),
    own(HookEvent::SessionStart),
    own(HookEvent::SessionEnd),
    own(HookEvent::BeforePrompt),
    own(HookEvent::BeforeModelCall),
    own(HookEvent::AfterModelCall),
    own(HookEvent::BeforeCompaction),
    own(HookEvent::AfterCompaction),
    own(HookEvent::TurnStart),
    own(HookEvent::TurnEnd),
    own(HookEvent::AgentStart),
    own(HookEvent::AgentEnd),
];

const fn own(event: HookEvent) -> FormEvent {
    FormEvent { name: event.as_str(), event: Some(event) }
}

const BLOCKS: i32 = 2;

fn own_answer(event: HookEvent, end: &HookEnd<'_>) -> Result<HookAnswer, String> {
    match end.code {
        0 if end.stdout.trim().is_empty() => Ok(HookAnswer::Continue),
        0 => said(event, object(end.stdout)?),
        BLOCKS => Ok(HookAnswer::Block(reason(end.stderr))),
        code => Err(format!("it ended with exit code {code}")),
    }
}

/// Parses the only JSON object of a program's output.
pub fn object(stdout: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(stdout) {
        Ok(Value::Object(said)) => Ok(said),
        Ok(_) => Err(String::from("its output is not a JSON object")),
        Err(error) => Err(format!("its output is not a JSON object: {error}")),
    }
}

/// The longest reason, in bytes.
const MAX_REASON: usize = 4_096;

/// Returns the trimmed and shortened reason of a program's output.
pub fn reason(written: &str) -> String {
    let written = written.trim();
    match written.get(..written.floor_char_boundary(MAX_REASON)).unwrap_or_default() {
        "" => String::from("it gave no reason"),
        reason => reason.to_owned(),
    }
}

fn said(event: HookEvent, mut said: Map<String, Value>) -> Result<HookAnswer, String> {
    let decision = said.shift_remove("decision");
    let because = said.shift_remove("reason");
    if let Some(key) = said.keys().find(|key| !event.changes().contains(&key.as_str())) {
        return Err(format!(
            "it answers with the key `{key}`, which {event} does not take; known: decision, reason{}",
            event.changes().iter().map(|key| format!(", {key}")).collect::<String>()
        ));
    }
    let because = match because {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(_) => return Err(String::from("its `reason` is not a text")),
    };
    match decision.as_ref().map(|word| word.as_str().unwrap_or_default()) {
        Some("block") if said.is_empty() => Ok(HookAnswer::Block(reason(&because))),
        Some("block") => Err(String::from("it blocks and changes something at once")),
        Some("ask") if event != HookEvent::BeforeToolExecute => {
            Err(format!("nothing can be asked at {event}"))
        }
        Some("ask") if said.is_empty() => Ok(HookAnswer::Ask(reason(&because))),
        Some("ask") => Err(String::from("it asks and changes something at once")),
        None | Some("continue") if said.is_empty() => Ok(HookAnswer::Continue),
        None | Some("continue") => Ok(HookAnswer::Change(said)),
        Some(_) => Err(String::from("its `decision` is neither `block`, `ask` nor `continue`")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(
        event: HookEvent,
        (code, stdout, stderr): (i32, &str, &str),
        expected: Result<HookAnswer, &str>,
    ) {
        let end = HookEnd { code, stdout, stderr };
        match ((SINEW_HOOKS.answer)(event, &end), expected) {
            (Ok(answer), Ok(expected)) => assert_eq!(answer, expected, "{end:?}"),
            (Err(why), Err(words)) => assert!(why.contains(words), "{end:?}: {why}"),
            (answer, expected) => panic!("{end:?}: {answer:?}, not {expected:?}"),
        }
    }

    #[test]
    fn an_answer_means_one_thing_or_nothing() {
        let before = HookEvent::BeforeToolExecute;
        let change = |value: Value| HookAnswer::Change(value.as_object().cloned().expect("keys"));
        let block = |reason: &str| HookAnswer::Block(String::from(reason));
        check(before, (0, "", "noise"), Ok(HookAnswer::Continue));
        check(before, (0, " \n", ""), Ok(HookAnswer::Continue));
        check(before, (0, "{}", ""), Ok(HookAnswer::Continue));
        check(before, (0, r#"{"decision":"continue"}"#, ""), Ok(HookAnswer::Continue));
        check(before, (0, r#"{"decision":"block","reason":"no"}"#, ""), Ok(block("no")));
        check(before, (0, r#"{"decision":"block"}"#, ""), Ok(block("it gave no reason")));
        check(before, (2, "ignored", " because\n"), Ok(block("because")));
        check(
            before,
            (0, r#"{"arguments":{"a":1}}"#, ""),
            Ok(change(json!({"arguments": {"a": 1}}))),
        );
        check(HookEvent::Persist, (0, r#"{"reply":{}}"#, ""), Ok(change(json!({"reply": {}}))));
        check(before, (0, r#"{"reply":{}}"#, ""), Err("the key `reply`"));
        check(before, (0, r#"{"session":"x"}"#, ""), Err("the key `session`"));
        check(before, (0, r#"{"decision":"allow"}"#, ""), Err("neither"));
        check(before, (0, r#"{"decision":1}"#, ""), Err("neither"));
        check(before, (0, r#"{"decision":"block","reason":1}"#, ""), Err("not a text"));
        check(before, (0, r#"{"decision":"block","arguments":{}}"#, ""), Err("at once"));
        check(before, (0, "hello", ""), Err("not a JSON object"));
        check(before, (0, "[1]", ""), Err("not a JSON object"));
        check(before, (1, "", ""), Err("exit code 1"));
        let long = "é".repeat(5_000);
        check(before, (2, "", &long), Ok(block(&"é".repeat(2_048))));
    }

    #[test]
    fn every_event_has_its_own_name() {
        for event in HookEvent::ALL {
            assert_eq!(SINEW_HOOKS.event(event.as_str()), Some(Some(event)));
            assert_eq!(SINEW_HOOKS.name_of(event), Some(event.as_str()));
        }
    }
}
