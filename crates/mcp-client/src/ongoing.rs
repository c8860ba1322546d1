//! The calls of a connection that go on: their progress, their time, and what their server asks of the person meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use serde_json::{Map, Value, json};
use sinew_runtime::Runtime;
use sinew_tool::sync::lock;
use sinew_tool::{Context, Filled, Form, Progress, visible_only};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The most forms that a server may show during one call.
const MAX_FORMS: usize = 5;
/// The most fields of a form.
const MAX_FIELDS: usize = 16;
/// The longest message of a form, in bytes.
const MAX_MESSAGE: usize = 4 << 10;
/// The most lines of a message.
const MAX_LINES: usize = 30;
/// The longest schema of a form, in bytes.
const MAX_SCHEMA: usize = 16 << 10;
/// The longest text in a schema, in bytes.
const MAX_TEXT: usize = 256;
/// The longest name of a field, in bytes.
const MAX_KEY: usize = 64;

/// What a call is about, for whom its server may ask something.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) call_id: String,
    pub(crate) session: String,
    pub(crate) progress: Progress,
}

impl Caller {
    pub(crate) fn of(cx: &Context) -> Self {
        Self {
            call_id: cx.call_id.clone(),
            session: cx.session.clone(),
            progress: cx.progress.clone(),
        }
    }
}

/// The calls of one connection.
#[derive(Clone)]
pub(crate) struct Ongoing {
    server: Arc<str>,
    runtime: Weak<Runtime>,
    calls: Arc<Mutex<Calls>>,
}

#[derive(Default)]
struct Calls {
    next: u64,
    by_number: HashMap<u64, Call>,
    /// Forms that wait for the person, whose time is not the server's.
    n_open: usize,
}

/// Which call a server asks something for, as far as that is known.
#[derive(Debug, Clone)]
pub(crate) enum During {
    /// The one with this number.
    Call(u64),
    /// The one whose answer is awaited by this request.
    Request(RequestId),
    Unknown,
}

struct Call {
    caller: Caller,
    /// The request that the server works at.
    request: Option<RequestId>,
    token: Option<ProgressToken>,
    /// When the server gave a sign last.
    heard: Instant,
    n_forms: usize,
    /// Changes once the call ends.
    going: watch::Sender<()>,
}

impl Ongoing {
    pub(crate) fn new(server: &str, runtime: Weak<Runtime>) -> Self {
        Self { server: Arc::from(server), runtime, calls: Arc::default() }
    }

    /// Returns whether no call runs.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.calls).by_number.is_empty()
    }

    /// Enters a call until the returned value is dropped.
    pub(crate) fn enter(&self, caller: Caller) -> Entered {
        let mut calls = lock(&self.calls);
        calls.next += 1;
        let number = calls.next;
        let heard = Instant::now();
        let going = watch::Sender::new(());
        let call = Call { caller, request: None, token: None, heard, n_forms: 0, going };
        calls.by_number.insert(number, call);
        drop(calls);
        Entered { ongoing: self.clone(), number }
    }

    /// Passes progress on to its call.
    pub(crate) fn progress(&self, told: &ProgressNotificationParam) {
        let mut calls = lock(&self.calls);
        let is_meant = |call: &&mut Call| call.token.as_ref() == Some(&told.progress_token);
        let Some(call) = calls.by_number.values_mut().find(is_meant) else { return };
        call.heard = Instant::now();
        let progress = call.caller.progress.clone();
        drop(calls);
        if 0.0 <= told.progress {
            let message = told.message.as_deref().map(visible_only);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count that is too large is the largest one"
            )]
            progress.report(told.progress as u64, message.as_deref().unwrap_or("done"));
        }
    }

    /// Shows a form of the server to the person who waits for a call, its newest one where none is known, until that
    /// call ends.
    pub(crate) async fn fill(&self, message: &str, schema: Value, during: During) -> Filled {
        let Some(schema) = shown_schema(schema) else { return Filled::Declined };
        let Some(runtime) = self.runtime.upgrade() else { return Filled::Gone };
        let Some((open, caller, mut going)) = self.open_form(&during) else {
            return Filled::Declined;
        };
        let Caller { call_id, session, .. } = caller;
        let (message, server) = (shown_message(message), Arc::clone(&self.server));
        let form = Form { call_id, session, server, message, schema };
        let filled = tokio::select! {
            filled = runtime.fill(&form) => filled,
            _ = going.changed() => Filled::Closed,
        };
        drop(open);
        match filled {
            Filled::Sent(fields) => Filled::Sent(sent(&form.schema, fields)),
            filled => filled,
        }
    }

    fn open_form(&self, during: &During) -> Option<(OpenForm, Caller, watch::Receiver<()>)> {
        let mut calls = lock(&self.calls);
        let newest = || calls.by_number.keys().max().copied();
        let number = match during {
            During::Call(number) => Some(*number),
            // One whose request was not noted yet may be meant.
            During::Request(id) => {
                let waits_for = |id: Option<&RequestId>| {
                    let mut all = calls.by_number.iter();
                    all.find(|(_, call)| call.request.as_ref() == id).map(|(number, _)| *number)
                };
                waits_for(Some(id)).or_else(|| waits_for(None))
            }
            During::Unknown => newest(),
        }?;
        let call = calls.by_number.get_mut(&number)?;
        if MAX_FORMS <= call.n_forms {
            return None;
        }
        call.n_forms += 1;
        let (caller, going) = (call.caller.clone(), call.going.subscribe());
        // Which call a server asks for is not always known, so the time of none runs meanwhile.
        calls.n_open += 1;
        drop(calls);
        Some((OpenForm(self.clone()), caller, going))
    }
}

/// A call until it is dropped.
pub(crate) struct Entered {
    ongoing: Ongoing,
    number: u64,
}

impl Entered {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Says which request the server works at, and by which token it reports progress.
    pub(crate) fn listen(&self, request: RequestId, token: ProgressToken) {
        if let Some(call) = lock(&self.ongoing.calls).by_number.get_mut(&self.number) {
            call.request = Some(request);
            call.token = Some(token);
            call.heard = Instant::now();
        }
    }

    /// Waits until the server has given no sign for so long, while nothing waited for the person.
    pub(crate) async fn silent(&self, within: Duration) {
        loop {
            let until = {
                let calls = lock(&self.ongoing.calls);
                match calls.by_number.get(&self.number) {
                    Some(call) if calls.n_open == 0 => call.heard + within,
                    // The form ends with a sign.
                    _ => Instant::now() + within,
                }
            };
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        lock(&self.ongoing.calls).by_number.remove(&self.number);
    }
}

/// A form that waits for the person until it is dropped.
struct OpenForm(Ongoing);

impl Drop for OpenForm {
    fn drop(&mut self) {
        let mut calls = lock(&self.0.calls);
        calls.n_open = calls.n_open.saturating_sub(1);
        let now = Instant::now();
        calls.by_number.values_mut().for_each(|call| call.heard = now);
    }
}

/// Returns the message of a form: visible characters, and no more lines than a person reads.
fn shown_message(message: &str) -> String {
    let mut message = visible_only(message);
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    let lines: Vec<&str> = message.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = lines.get(..MAX_LINES.min(lines.len())).unwrap_or_default();
    shown.join("\n")
}

/// Returns a schema of fields with visible texts of one line; nothing where it has too many, or names that are no plain words.
fn shown_schema(schema: Value) -> Option<Value> {
    let fields = schema.get("properties")?.as_object()?;
    let is_plain = |name: &String| {
        (1..=MAX_KEY).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-. ".contains(c))
    };
    let is_usable = fields.len() <= MAX_FIELDS
        && fields.keys().all(is_plain)
        && schema.to_string().len() <= MAX_SCHEMA;
    is_usable.then(|| {
        let properties = visible(schema.get("properties").cloned().unwrap_or_default());
        let required = visible(schema.get("required").cloned().unwrap_or_else(|| json!([])));
        json!({"type": "object", "properties": properties, "required": required})
    })
}

/// Makes every text one visible line.
fn visible(value: Value) -> Value {
    match value {
        Value::String(text) => {
            let mut line = visible_only(&text).split_whitespace().collect::<Vec<_>>().join(" ");
            line.truncate(line.floor_char_boundary(MAX_TEXT));
            Value::String(line)
        }
        Value::Array(values) => values.into_iter().map(visible).collect(),
        Value::Object(members) => {
            let seen = |(name, value): (String, Value)| (visible_only(&name), visible(value));
            Value::Object(members.into_iter().map(seen).collect())
        }
        other => other,
    }
}

/// Returns the fields for the server: known ones with plain values, and for those that the person left alone the values
/// that the form showed.
fn sent(schema: &Value, fields: Map<String, Value>) -> Map<String, Value> {
    let known = |name: &str| schema.pointer(&format!("/properties/{name}")).is_some();
    let is_plain = |value: &Value| match value {
        Value::Array(values) => values.iter().all(Value::is_string),
        Value::Object(_) => false,
        _ => true,
    };
    let filled = fields.into_iter().filter(|(name, value)| known(name) && is_plain(value));
    defaults(schema).into_iter().chain(filled).collect()
}

/// Returns the values that the fields have at first.
fn defaults(schema: &Value) -> Map<String, Value> {
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let with_default =
        |(name, field): (&String, &Value)| Some((name.clone(), field.get("default")?.clone()));
    fields.filter_map(with_default).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(n: usize, name: &str, title: &str) -> Value {
        let fields =
            (0..n).map(|n| (format!("{name}{n}"), json!({"type": "string", "title": title})));
        json!({"type": "object", "properties": fields.collect::<Map<_, _>>(), "required": []})
    }

    #[test]
    fn forms_are_seen_and_bounded() {
        let shown = shown_schema(schema(1, "f", "a\u{202e}b\n\nBash wants"));
        assert_eq!(shown, Some(schema(1, "f", "ab Bash wants")));
        let mut titled = schema(1, "f", "a");
        titled["description"] = json!("Run it?");
        assert_eq!(shown_schema(titled), Some(schema(1, "f", "a")), "only fields are shown");
        for (schema, expected) in [
            (schema(MAX_FIELDS, "f", "a"), true),
            (schema(MAX_FIELDS + 1, "f", "a"), false),
            (schema(1, "f", &"x".repeat(MAX_SCHEMA)), false),
            (schema(1, "f\u{202e}", "a"), false),
            (schema(1, "a\nb", "a"), false),
            (json!({"type": "object"}), false),
        ] {
            assert_eq!(shown_schema(schema).is_some(), expected);
        }
        assert_eq!(shown_message("\n\n\u{200b}one\n \ntwo"), "one\ntwo");
        assert_eq!(shown_message(&"x\n".repeat(2_000)).lines().count(), MAX_LINES);
    }

    #[test]
    fn known_fields_go_back_with_their_defaults() {
        let schema = json!({"properties": {"a": {"default": 1}, "b": {"type": "string"}, "c": {}}});
        let fields = json!({"b": "x", "c": {"deep": 1}, "other": 2});
        let fields = fields.as_object().cloned().unwrap_or_default();
        assert_eq!(Value::Object(sent(&schema, fields)), json!({"a": 1, "b": "x"}));
        let fields = json!({"a": 2, "c": ["x"]}).as_object().cloned().unwrap_or_default();
        assert_eq!(Value::Object(sent(&schema, fields)), json!({"a": 2, "c": ["x"]}));
    }
}
