//! What hooks are told: one type for each event, and the JSON schemas of all of them.
//!
//! A type and its schema come from one definition, whose documentation the schema shows. No key is
//! ever left out: an unknown value is null. What a call needs only for programs, such as the paths
//! that it names, is worked out when a hook reads it.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::HookEvent;
use crate::{Arguments, Block, ErrorBody, Meta, Reply};

/// A type that can stand in a payload.
trait PayloadType {
    /// Returns its JSON schema.
    fn schema() -> Value;
}

macro_rules! typed {
    ($($type:ty => $schema:expr),+ $(,)?) => {
        $(impl PayloadType for $type {
            fn schema() -> Value {
                $schema
            }
        })+
    };
}

typed! {
    String => json!({ "type": "string" }),
    &str => json!({ "type": "string" }),
    Cow<'_, str> => json!({ "type": "string" }),
    bool => json!({ "type": "boolean" }),
    u64 => json!({ "type": "integer", "minimum": 0 }),
    f64 => json!({ "type": "number" }),
    Value => json!({}),
    &Value => json!({}),
    &Arguments => json!({ "type": "object" }),
    NamedPaths<'_> => <Option<Vec<String>>>::schema(),
    &Meta => json!({ "type": "object" }),
    &ErrorBody => json!({
        "type": "object",
        "properties": {
            "kind": { "type": "string" },
            "message": { "type": "string" },
            "hint": { "type": ["string", "null"] },
        },
        "required": ["kind", "message", "hint"],
    }),
    &[Block] => json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": { "type": { "enum": ["text", "image", "audio", "resource"] } },
            "required": ["type"],
        },
    }),
}

impl<T: PayloadType> PayloadType for Vec<T> {
    fn schema() -> Value {
        json!({ "type": "array", "items": T::schema() })
    }
}

impl<T: PayloadType> PayloadType for Option<T> {
    fn schema() -> Value {
        let schema = T::schema();
        match schema.get("type").cloned() {
            Some(Value::String(kind)) => with(schema, "type", json!([kind, "null"])),
            // Anything is allowed already.
            _ => schema,
        }
    }
}

/// One key of a payload.
struct Field {
    name: &'static str,
    about: &'static str,
    schema: Value,
}

/// Defines payloads: each type, and the keys of its schema.
macro_rules! payloads {
    ($(
        $(#[doc = $about:literal])+
        $(#[derive($($derive:ident),+)])?
        pub struct $name:ident $(<$life:lifetime>)? {
            $($(#[doc = $doc:literal])+ pub $field:ident: $type:ty,)+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Debug, Clone, Serialize)]
        $(#[derive($($derive),+)])?
        pub struct $name $(<$life>)? {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl $(<$life>)? $name $(<$life>)? {
            fn fields() -> Vec<Field> {
                vec![$(Field {
                    name: stringify!($field),
                    about: concat!($($doc),+),
                    schema: <$type as PayloadType>::schema(),
                }),+]
            }
        }

        impl $(<$life>)? PayloadType for $name $(<$life>)? {
            fn schema() -> Value {
                object(Self::fields())
            }
        }
    )+};
}

payloads! {
    /// A call of a tool.
    pub struct ToolCall<'a> {
        /// The session the call belongs to.
        pub session: &'a str,
        /// The agent that makes it, where there are several.
        pub agent: Option<&'a str>,
        /// The turn of the conversation that makes it, where the caller counts turns.
        pub turn: Option<&'a str>,
        /// The call.
        pub call_id: &'a str,
        /// The vocabulary of the tool.
        pub dialect: &'a str,
        /// The tool, by the name that was called.
        pub tool: &'a str,
        /// The operation behind the name, which is the same in every vocabulary.
        pub operation: &'a str,
        /// Where relative paths start.
        pub cwd: Cow<'a, str>,
        /// The arguments as the model wrote them and earlier hooks changed them.
        pub arguments: &'a Arguments,
        /// The real paths that the arguments name; null where they are not known.
        pub paths: NamedPaths<'a>,
    }

    /// How a tool that ran ended.
    pub struct Executed<'a> {
        /// What it answers.
        pub reply: HookReply<'a>,
        /// How long it took so far, in milliseconds.
        pub duration_ms: f64,
    }

    /// What leaves to the model.
    pub struct HookReply<'a> {
        /// Whether the call succeeded.
        pub ok: bool,
        /// What the model sees: blocks of text, pictures and files. A hook may put a text or a list of
        /// blocks of text in its place.
        pub content: &'a [Block],
        /// The result object of the vocabulary, or null. A hook may put another one in its place.
        pub structured: Option<&'a Value>,
        /// Why the call failed, or null.
        pub error: Option<&'a ErrorBody>,
        /// Metadata of the reply.
        pub meta: &'a Meta,
    }

    /// A question, and the answer once there is one.
    pub struct Approval {
        /// The session the call belongs to.
        pub session: String,
        /// The call that asks.
        pub call_id: String,
        /// The tool, by the name that was called.
        pub tool: String,
        /// The operation behind the name, which is the same in every vocabulary.
        pub operation: String,
        /// The effects of the call: `change`, `execute` and so on.
        pub effects: Vec<String>,
        /// The real paths that it names.
        pub paths: Vec<String>,
        /// Whether it finds further paths by itself, as a search and a command do.
        pub finds_paths: bool,
        /// The program that it would execute with its arguments, or null.
        pub argv: Option<Vec<String>>,
        /// The change as a unified diff, or null where it cannot be shown.
        pub diff: Option<String>,
        /// The rule that asks.
        pub rule: String,
        /// Why it asks.
        pub why: String,
        /// The approver that is asked.
        pub approver: String,
        /// `asked` or `answered`.
        pub state: String,
        /// `yes`, `exact`, `session`, `forever`, `no`, `timed_out` or `gone`; null before the answer.
        pub answer: Option<String>,
        /// The reason of a `no`, or null.
        pub reason: Option<String>,
    }

    /// A message that is about to be sent.
    #[derive(PartialEq, Deserialize)]
    pub struct MessageSending {
        /// The session that sends it.
        pub session: String,
        /// The call that sends it.
        pub call_id: String,
        /// The channel; `agent` is the inbox of another session.
        pub channel: String,
        /// The chat of the channel, or the other session.
        pub receiver: String,
        /// The content. A hook may put another one in its place.
        pub content: String,
    }

    /// A message that was sent.
    #[derive(PartialEq, Deserialize)]
    pub struct MessageSent {
        /// The session that sent it.
        pub session: String,
        /// The call that sent it.
        pub call_id: String,
        /// The channel; `agent` is the inbox of another session.
        pub channel: String,
        /// The chat of the channel, or the other session.
        pub receiver: String,
        /// The content.
        pub content: String,
    }

    /// A message that was read.
    #[derive(PartialEq, Deserialize)]
    pub struct MessageReceived {
        /// The session that reads it.
        pub session: String,
        /// The channel; `agent` is the inbox of the session.
        pub channel: String,
        /// The session that sent it.
        pub sender: String,
        /// When it was sent, in milliseconds since 1970.
        pub sent_at_ms: u64,
        /// The content. A hook may put another one in its place.
        pub content: String,
    }

    /// A session that begins.
    pub struct SessionStart {
        /// The session.
        pub session: String,
        /// The directories that calls may touch; relative paths start at the first.
        pub roots: Vec<String>,
        /// The vocabulary of its first call.
        pub dialect: String,
    }

    /// A session that ends.
    pub struct SessionEnd {
        /// The session.
        pub session: String,
        /// How many calls it made.
        pub n_calls: u64,
        /// How long it lasted, in milliseconds.
        pub duration_ms: f64,
    }

    /// A prompt that is about to be built.
    #[derive(PartialEq, Deserialize)]
    pub struct BeforePrompt {
        /// The session.
        pub session: String,
        /// The model.
        pub model: String,
        /// The system prompt.
        pub system_prompt: String,
        /// The conversation.
        pub messages: Vec<Value>,
        /// The tools that the model is offered.
        pub tools: Vec<Value>,
    }

    /// A call of a model that is about to be made.
    #[derive(PartialEq, Deserialize)]
    pub struct BeforeModelCall {
        /// The session.
        pub session: String,
        /// The provider of the model.
        pub provider: String,
        /// The model.
        pub model: String,
        /// The conversation.
        pub messages: Vec<Value>,
        /// How many tools the model is offered.
        pub n_tools: u64,
        /// The place of the call in its turn, from 1.
        pub iteration: u64,
    }

    /// What a model answered.
    #[derive(PartialEq, Deserialize)]
    pub struct AfterModelCall {
        /// The session.
        pub session: String,
        /// The provider of the model.
        pub provider: String,
        /// The model.
        pub model: String,
        /// The text, or null.
        pub text: Option<String>,
        /// The calls of tools that it asks for.
        pub tool_calls: Vec<Value>,
        /// The tokens of the prompt.
        pub input_tokens: u64,
        /// The tokens of the answer.
        pub output_tokens: u64,
        /// The place of the call in its turn, from 1.
        pub iteration: u64,
        /// How long it took, in milliseconds.
        pub duration_ms: f64,
    }

    /// A conversation that is about to be shortened.
    #[derive(PartialEq, Deserialize)]
    pub struct BeforeCompaction {
        /// The session.
        pub session: String,
        /// `context_limit` or `manual`.
        pub reason: String,
        /// The conversation.
        pub messages: Vec<Value>,
    }

    /// A conversation that was shortened.
    #[derive(PartialEq, Deserialize)]
    pub struct AfterCompaction {
        /// The session.
        pub session: String,
        /// How many messages there were.
        pub n_before: u64,
        /// How many are left.
        pub n_after: u64,
        /// The text that replaces the others.
        pub summary: String,
    }

    /// A turn that begins.
    #[derive(PartialEq, Deserialize)]
    pub struct TurnStart {
        /// The session.
        pub session: String,
        /// The turn.
        pub turn: String,
        /// What the person wrote.
        pub prompt: String,
        /// The model.
        pub model: String,
    }

    /// A turn that ended.
    #[derive(PartialEq, Deserialize)]
    pub struct TurnEnd {
        /// The session.
        pub session: String,
        /// The turn.
        pub turn: String,
        /// The last message of the model.
        pub message: String,
        /// How many calls of tools it made.
        pub n_tool_calls: u64,
        /// How often the model was called.
        pub n_steps: u64,
        /// How long it took, in milliseconds.
        pub duration_ms: f64,
    }

    /// An agent that begins.
    #[derive(PartialEq, Deserialize)]
    pub struct AgentStart {
        /// The session.
        pub session: String,
        /// The agent.
        pub agent: String,
        /// Its task.
        pub prompt: String,
        /// The model.
        pub model: String,
    }

    /// An agent that ended.
    #[derive(PartialEq, Deserialize)]
    pub struct AgentEnd {
        /// The session.
        pub session: String,
        /// The agent.
        pub agent: String,
        /// Its report.
        pub text: String,
        /// How often the model was called.
        pub n_iterations: u64,
        /// How many calls of tools it made.
        pub n_tool_calls: u64,
    }
}

impl<'a> From<&'a Reply> for HookReply<'a> {
    fn from(reply: &'a Reply) -> Self {
        Self {
            ok: reply.ok,
            content: &reply.content,
            structured: reply.structured.as_ref(),
            error: reply.error.as_ref(),
            meta: &reply.meta,
        }
    }
}

/// The real paths that the arguments of a call name, worked out when they are asked for.
#[derive(Clone, Copy)]
pub struct NamedPaths<'a>(&'a (dyn Fn() -> Option<Vec<String>> + Sync));

impl<'a> NamedPaths<'a> {
    /// Returns paths that a function works out.
    pub fn new(find: &'a (dyn Fn() -> Option<Vec<String>> + Sync)) -> Self {
        Self(find)
    }

    /// Returns the paths; `None` where it cannot be told what the arguments name.
    pub fn get(&self) -> Option<Vec<String>> {
        (self.0)()
    }
}

impl fmt::Debug for NamedPaths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NamedPaths")
    }
}

impl Serialize for NamedPaths<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(out)
    }
}

/// A moment of an agent or of a message, with its payload.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// A prompt is about to be built.
    BeforePrompt(BeforePrompt),
    /// A model is about to be called.
    BeforeModelCall(BeforeModelCall),
    /// A model answered.
    AfterModelCall(AfterModelCall),
    /// The conversation is about to be shortened.
    BeforeCompaction(BeforeCompaction),
    /// The conversation was shortened.
    AfterCompaction(AfterCompaction),
    /// A turn begins.
    TurnStart(TurnStart),
    /// A turn ended.
    TurnEnd(TurnEnd),
    /// The agent begins.
    AgentStart(AgentStart),
    /// The agent ended.
    AgentEnd(AgentEnd),
    /// A message is about to be sent.
    MessageSending(MessageSending),
    /// A message was sent.
    MessageSent(MessageSent),
    /// A message was read.
    MessageReceived(MessageReceived),
}

impl AgentEvent {
    /// Returns the event.
    pub fn event(&self) -> HookEvent {
        match self {
            Self::BeforePrompt(_) => HookEvent::BeforePrompt,
            Self::BeforeModelCall(_) => HookEvent::BeforeModelCall,
            Self::AfterModelCall(_) => HookEvent::AfterModelCall,
            Self::BeforeCompaction(_) => HookEvent::BeforeCompaction,
            Self::AfterCompaction(_) => HookEvent::AfterCompaction,
            Self::TurnStart(_) => HookEvent::TurnStart,
            Self::TurnEnd(_) => HookEvent::TurnEnd,
            Self::AgentStart(_) => HookEvent::AgentStart,
            Self::AgentEnd(_) => HookEvent::AgentEnd,
            Self::MessageSending(_) => HookEvent::MessageSending,
            Self::MessageSent(_) => HookEvent::MessageSent,
            Self::MessageReceived(_) => HookEvent::MessageReceived,
        }
    }

    /// Returns the example of an event; nothing where it is none of an agent or a message.
    pub fn example(event: HookEvent) -> Option<Self> {
        let Value::Object(mut keys) = example(event) else { return None };
        keys.shift_remove("event");
        let keys = Value::Object(keys);
        let read = match event {
            HookEvent::BeforeToolExecute
            | HookEvent::AfterToolExecute
            | HookEvent::Persist
            | HookEvent::Approval
            | HookEvent::SessionStart
            | HookEvent::SessionEnd => return None,
            HookEvent::BeforePrompt => serde_json::from_value(keys).map(Self::BeforePrompt),
            HookEvent::BeforeModelCall => serde_json::from_value(keys).map(Self::BeforeModelCall),
            HookEvent::AfterModelCall => serde_json::from_value(keys).map(Self::AfterModelCall),
            HookEvent::BeforeCompaction => serde_json::from_value(keys).map(Self::BeforeCompaction),
            HookEvent::AfterCompaction => serde_json::from_value(keys).map(Self::AfterCompaction),
            HookEvent::TurnStart => serde_json::from_value(keys).map(Self::TurnStart),
            HookEvent::TurnEnd => serde_json::from_value(keys).map(Self::TurnEnd),
            HookEvent::AgentStart => serde_json::from_value(keys).map(Self::AgentStart),
            HookEvent::AgentEnd => serde_json::from_value(keys).map(Self::AgentEnd),
            HookEvent::MessageSending => serde_json::from_value(keys).map(Self::MessageSending),
            HookEvent::MessageSent => serde_json::from_value(keys).map(Self::MessageSent),
            HookEvent::MessageReceived => serde_json::from_value(keys).map(Self::MessageReceived),
        };
        read.ok()
    }

    /// Returns the session.
    pub fn session(&self) -> &str {
        match self {
            Self::BeforePrompt(payload) => &payload.session,
            Self::BeforeModelCall(payload) => &payload.session,
            Self::AfterModelCall(payload) => &payload.session,
            Self::BeforeCompaction(payload) => &payload.session,
            Self::AfterCompaction(payload) => &payload.session,
            Self::TurnStart(payload) => &payload.session,
            Self::TurnEnd(payload) => &payload.session,
            Self::AgentStart(payload) => &payload.session,
            Self::AgentEnd(payload) => &payload.session,
            Self::MessageSending(payload) => &payload.session,
            Self::MessageSent(payload) => &payload.session,
            Self::MessageReceived(payload) => &payload.session,
        }
    }

    /// Returns what a hook is told, as JSON.
    pub fn payload(&self) -> Value {
        let own = match self {
            Self::BeforePrompt(own) => json!(own),
            Self::BeforeModelCall(own) => json!(own),
            Self::AfterModelCall(own) => json!(own),
            Self::BeforeCompaction(own) => json!(own),
            Self::AfterCompaction(own) => json!(own),
            Self::TurnStart(own) => json!(own),
            Self::TurnEnd(own) => json!(own),
            Self::AgentStart(own) => json!(own),
            Self::AgentEnd(own) => json!(own),
            Self::MessageSending(own) => json!(own),
            Self::MessageSent(own) => json!(own),
            Self::MessageReceived(own) => json!(own),
        };
        payload(self.event(), [own])
    }

    /// Returns the same with some keys changed. Only keys that a hook may change at this event are
    /// taken, and only values of their type.
    pub fn changed(&self, changes: Arguments) -> Result<Self, String> {
        let event = self.event();
        if let Some(key) = changes.keys().find(|key| !event.changes().contains(&key.as_str())) {
            return Err(format!("`{key}` cannot be changed at {event}"));
        }
        let Value::Object(mut all) = self.payload() else { return Ok(self.clone()) };
        all.extend(changes);
        all.shift_remove("event");
        let all = Value::Object(all);
        let read = match self {
            Self::BeforePrompt(_) => serde_json::from_value(all).map(Self::BeforePrompt),
            Self::BeforeModelCall(_) => serde_json::from_value(all).map(Self::BeforeModelCall),
            Self::AfterModelCall(_) => serde_json::from_value(all).map(Self::AfterModelCall),
            Self::BeforeCompaction(_) => serde_json::from_value(all).map(Self::BeforeCompaction),
            Self::MessageSending(_) => serde_json::from_value(all).map(Self::MessageSending),
            Self::MessageReceived(_) => serde_json::from_value(all).map(Self::MessageReceived),
            // Nothing of these can be changed.
            Self::AfterCompaction(_)
            | Self::MessageSent(_)
            | Self::TurnStart(_)
            | Self::TurnEnd(_)
            | Self::AgentStart(_)
            | Self::AgentEnd(_) => Ok(self.clone()),
        };
        read.map_err(|error| error.to_string())
    }
}

/// Returns a payload as JSON: the event, and the keys of its parts.
pub fn payload(event: HookEvent, parts: impl IntoIterator<Item = Value>) -> Value {
    let mut all = Map::new();
    all.insert(String::from("event"), Value::from(event.as_str()));
    for part in parts {
        if let Value::Object(keys) = part {
            all.extend(keys);
        }
    }
    Value::Object(all)
}

/// Returns an object with one more key.
fn with(mut object: Value, key: &str, value: Value) -> Value {
    if let Some(keys) = object.as_object_mut() {
        keys.insert(key.to_owned(), value);
    }
    object
}

fn object(fields: Vec<Field>) -> Value {
    let required: Vec<&str> = fields.iter().map(|field| field.name).collect();
    let required = json!(required);
    let properties: Map<String, Value> = fields
        .into_iter()
        .map(|Field { name, about, schema }| {
            let about = Value::from(about.trim().replace("  ", " "));
            (name.to_owned(), with(schema, "description", about))
        })
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Returns the keys of the payload of an event.
fn fields(event: HookEvent) -> Vec<Field> {
    let mut fields = vec![Field {
        name: "event",
        about: "The event.",
        schema: json!({ "const": event.as_str() }),
    }];
    match event {
        HookEvent::BeforeToolExecute => fields.extend(ToolCall::fields()),
        HookEvent::AfterToolExecute => {
            fields.extend(ToolCall::fields());
            fields.extend(Executed::fields());
        }
        HookEvent::Persist => {
            fields.extend(ToolCall::fields());
            fields.extend(Executed::fields().into_iter().filter(|field| field.name == "reply"));
        }
        HookEvent::Approval => fields.extend(Approval::fields()),
        HookEvent::MessageSending => fields.extend(MessageSending::fields()),
        HookEvent::MessageSent => fields.extend(MessageSent::fields()),
        HookEvent::MessageReceived => fields.extend(MessageReceived::fields()),
        HookEvent::SessionStart => fields.extend(SessionStart::fields()),
        HookEvent::SessionEnd => fields.extend(SessionEnd::fields()),
        HookEvent::BeforePrompt => fields.extend(BeforePrompt::fields()),
        HookEvent::BeforeModelCall => fields.extend(BeforeModelCall::fields()),
        HookEvent::AfterModelCall => fields.extend(AfterModelCall::fields()),
        HookEvent::BeforeCompaction => fields.extend(BeforeCompaction::fields()),
        HookEvent::AfterCompaction => fields.extend(AfterCompaction::fields()),
        HookEvent::TurnStart => fields.extend(TurnStart::fields()),
        HookEvent::TurnEnd => fields.extend(TurnEnd::fields()),
        HookEvent::AgentStart => fields.extend(AgentStart::fields()),
        HookEvent::AgentEnd => fields.extend(AgentEnd::fields()),
    }
    fields
}

/// Returns the JSON schema of what hooks are told at an event.
pub fn schema(event: HookEvent) -> Value {
    let about = [
        ("title", Value::from(event.as_str())),
        ("description", Value::from(event.about())),
        ("x-of-agent", Value::from(event.is_of_agent())),
        ("x-can-block", Value::from(event.can_block())),
        ("x-changes", json!(event.changes())),
    ];
    let schema = object(fields(event));
    about.into_iter().fold(schema, |schema, (key, value)| with(schema, key, value))
}

/// Returns the JSON schemas of every event, by its word.
pub fn schemas() -> Value {
    let of = |event: HookEvent| (event.as_str().to_owned(), schema(event));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The input of hooks",
        "oneOf": HookEvent::ALL.map(|event| json!({ "$ref": format!("#/$defs/{event}") })),
        "$defs": HookEvent::ALL.into_iter().map(of).collect::<Map<_, _>>(),
    })
}

/// Returns a payload of an event as it may come, for trying hooks and for the reference.
pub fn example(event: HookEvent) -> Value {
    let call = json!({
        "session": "s1", "agent": null, "turn": null, "call_id": "s1-1", "dialect": "native",
        "tool": "Write", "operation": "Write", "cwd": "/home/ada/project",
        "arguments": { "file_path": "notes.md", "content": "hello\n" },
        "paths": ["/home/ada/project/notes.md"],
    });
    let reply = json!({
        "ok": true, "content": [{ "type": "text", "text": "wrote notes.md: 6 bytes" }],
        "structured": null, "error": null, "meta": { "duration_ms": 0.0, "truncated": false },
    });
    let messages = json!([{ "role": "user", "content": "write it down" }]);
    let parts = match event {
        HookEvent::BeforeToolExecute => vec![call],
        HookEvent::AfterToolExecute => {
            vec![call, json!({ "reply": reply, "duration_ms": 1.5 })]
        }
        HookEvent::Persist => vec![call, json!({ "reply": reply })],
        HookEvent::Approval => vec![json!({
            "session": "s1", "call_id": "s1-1", "tool": "Bash",
            "operation": "Bash", "effects": ["execute"], "paths": ["/home/ada/project"],
            "finds_paths": true, "argv": ["bash", "-c", "make"], "diff": null,
            "rule": "execute", "why": "it runs a program", "approver": "terminal",
            "state": "answered", "answer": "no", "reason": "not now",
        })],
        HookEvent::MessageSending | HookEvent::MessageSent => vec![json!({
            "session": "s1", "call_id": "s1-1", "channel": "telegram", "receiver": "42",
            "content": "the build is green",
        })],
        HookEvent::MessageReceived => vec![json!({
            "session": "s1", "channel": "agent", "sender": "s2",
            "sent_at_ms": 1_800_000_000_000_u64, "content": "the tests are green",
        })],
        HookEvent::SessionStart => {
            vec![json!({ "session": "s1", "roots": ["/home/ada/project"], "dialect": "native" })]
        }
        HookEvent::SessionEnd => {
            vec![json!({ "session": "s1", "n_calls": 3, "duration_ms": 1250.0 })]
        }
        HookEvent::BeforePrompt => vec![json!({
            "session": "s1", "model": "m", "system_prompt": "Be brief.", "messages": messages,
            "tools": [],
        })],
        HookEvent::BeforeModelCall => vec![json!({
            "session": "s1", "provider": "p", "model": "m", "messages": messages, "n_tools": 12,
            "iteration": 1,
        })],
        HookEvent::AfterModelCall => vec![json!({
            "session": "s1", "provider": "p", "model": "m", "text": "done", "tool_calls": [],
            "input_tokens": 900, "output_tokens": 20, "iteration": 1, "duration_ms": 800.0,
        })],
        HookEvent::BeforeCompaction => {
            vec![json!({ "session": "s1", "reason": "context_limit", "messages": messages })]
        }
        HookEvent::AfterCompaction => vec![json!({
            "session": "s1", "n_before": 40, "n_after": 6, "summary": "notes were written",
        })],
        HookEvent::TurnStart => {
            vec![json!({ "session": "s1", "turn": "t1", "prompt": "write it down", "model": "m" })]
        }
        HookEvent::TurnEnd => vec![json!({
            "session": "s1", "turn": "t1", "message": "done", "n_tool_calls": 1, "n_steps": 2,
            "duration_ms": 900.0,
        })],
        HookEvent::AgentStart => vec![json!({
            "session": "s1", "agent": "main", "prompt": "write it down", "model": "m",
        })],
        HookEvent::AgentEnd => vec![json!({
            "session": "s1", "agent": "main", "text": "done", "n_iterations": 2, "n_tool_calls": 1,
        })],
    };
    payload(event, parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().map(|keys| keys.keys().map(String::as_str).collect()).unwrap_or_default()
    }

    #[test]
    fn every_event_has_a_schema_that_its_example_and_its_changes_fit() {
        for event in HookEvent::ALL {
            let (schema, example) = (schema(event), example(event));
            assert_eq!(keys(&schema["properties"]), keys(&example), "{event}");
            for (name, property) in schema["properties"].as_object().expect("keys") {
                let about = property["description"].as_str().unwrap_or_default();
                assert!(about.ends_with('.') && !about.contains("  "), "{event}: {name}: {about}");
            }
            for key in event.changes() {
                assert!(example.get(key).is_some(), "{event}: {key}");
            }
            let moment = AgentEvent::example(event);
            let is_moment = event.is_of_agent() || event.is_of_message();
            assert_eq!(moment.is_some(), is_moment, "{event}");
            assert!(moment.is_none_or(|moment| moment.payload() == example), "{event}");
        }
    }

    #[test]
    fn what_is_told_has_the_keys_of_the_schema() {
        let arguments = Arguments::new();
        let reply = Reply::text("x");
        let call = ToolCall {
            session: "s",
            agent: None,
            turn: None,
            call_id: "c",
            dialect: "d",
            tool: "t",
            operation: "o",
            cwd: Cow::Borrowed("/"),
            arguments: &arguments,
            paths: NamedPaths::new(&|| Some(vec![String::from("/a")])),
        };
        let executed = Executed { reply: HookReply::from(&reply), duration_ms: 1.0 };
        let event = HookEvent::AfterToolExecute;
        let told = payload(event, [json!(call), json!(executed)]);
        assert_eq!(keys(&told), keys(&schema(event)["properties"]));
        assert_eq!(told["paths"], json!(["/a"]));
        assert_eq!(told["agent"], Value::Null);
    }

    #[test]
    fn a_moment_changes_only_where_it_may() {
        let prompt = AgentEvent::BeforePrompt(BeforePrompt {
            session: String::from("s"),
            model: String::from("m"),
            system_prompt: String::from("old"),
            messages: Vec::new(),
            tools: Vec::new(),
        });
        let change = |changes: Value| {
            let Value::Object(changes) = changes else { panic!("no object") };
            prompt.changed(changes).map(|changed| changed.payload()["system_prompt"].clone())
        };
        assert_eq!(change(json!({ "system_prompt": "new" })), Ok(json!("new")));
        let refused = |changes| change(changes).expect_err("it is refused");
        assert!(refused(json!({ "session": "other" })).contains("`session` cannot be changed"));
        assert!(refused(json!({ "system_prompt": 1 })).contains("expected a string"));
    }
}
