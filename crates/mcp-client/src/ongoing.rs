//! The calls of a connection that go on: their progress, their time, and what their server asks of the person meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use serde_json::{Map, Value};
use sinew_runtime::Runtime;
use sinew_tool::sync::lock;
use sinew_tool::{Context, Filled, Form, Progress, visible_only};
use tokio::time::{Instant, sleep_until};

/// The most forms that a server may show during one call.
const MAX_FORMS: usize = 5;
/// The most fields of a form.
const MAX_FIELDS: usize = 16;
/// The longest message of a form, in bytes.
const MAX_MESSAGE: usize = 4 << 10;
/// The longest schema of a form, in bytes.
const MAX_SCHEMA: usize = 16 << 10;

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
}

struct Call {
    caller: Caller,
    token: Option<ProgressToken>,
    /// When the server gave a sign last.
    heard: Instant,
    /// Forms that wait for the person, whose time is not the server's.
    n_open: usize,
    n_forms: usize,
}

impl Ongoing {
    pub(crate) fn new(server: &str, runtime: Weak<Runtime>) -> Self {
        Self { server: Arc::from(server), runtime, calls: Arc::default() }
    }

    /// Enters a call until the returned value is dropped.
    pub(crate) fn enter(&self, caller: Caller) -> Entered {
        let mut calls = lock(&self.calls);
        calls.next += 1;
        let number = calls.next;
        let heard = Instant::now();
        let call = Call { caller, token: None, heard, n_open: 0, n_forms: 0 };
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

    /// Shows a form of the server to the person who waits for its newest call. Without a call there is no such person.
    pub(crate) async fn fill(&self, message: &str, schema: Value) -> Filled {
        let Some(schema) = shown_schema(schema) else { return Filled::Declined };
        let Some(runtime) = self.runtime.upgrade() else { return Filled::Gone };
        let Some((open, caller)) = self.open_form() else { return Filled::Declined };
        let mut message = visible_only(message);
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        let Caller { call_id, session, .. } = caller;
        let defaults = defaults(&schema);
        let form = Form { call_id, session, server: Arc::clone(&self.server), message, schema };
        let filled = runtime.fill(&form).await;
        drop(open);
        match filled {
            // Fields that the person leaves alone have the values that the form showed.
            Filled::Sent(fields) => Filled::Sent(defaults.into_iter().chain(fields).collect()),
            filled => filled,
        }
    }

    fn open_form(&self) -> Option<(OpenForm, Caller)> {
        let mut calls = lock(&self.calls);
        let number = *calls.by_number.keys().max()?;
        let call = calls.by_number.get_mut(&number)?;
        if MAX_FORMS <= call.n_forms {
            return None;
        }
        call.n_forms += 1;
        call.n_open += 1;
        let caller = call.caller.clone();
        drop(calls);
        Some((OpenForm { ongoing: self.clone(), number }, caller))
    }
}

/// A call until it is dropped.
pub(crate) struct Entered {
    ongoing: Ongoing,
    number: u64,
}

impl Entered {
    /// Says by which token the server reports progress.
    pub(crate) fn listen(&self, token: ProgressToken) {
        if let Some(call) = lock(&self.ongoing.calls).by_number.get_mut(&self.number) {
            call.token = Some(token);
            call.heard = Instant::now();
        }
    }

    /// Waits until the server has given no sign for so long, while nothing waited for the person.
    pub(crate) async fn silent(&self, within: Duration) {
        loop {
            let until = match lock(&self.ongoing.calls).by_number.get(&self.number) {
                Some(Call { n_open: 0, heard, .. }) => *heard + within,
                // The form ends with a sign.
                _ => Instant::now() + within,
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
struct OpenForm {
    ongoing: Ongoing,
    number: u64,
}

impl Drop for OpenForm {
    fn drop(&mut self) {
        if let Some(call) = lock(&self.ongoing.calls).by_number.get_mut(&self.number) {
            call.n_open -= 1;
            call.heard = Instant::now();
        }
    }
}

/// Returns a schema of fields without what a person does not see, or nothing where it has too many or too long ones.
fn shown_schema(schema: Value) -> Option<Value> {
    let n_fields = schema.get("properties")?.as_object()?.len();
    if MAX_FIELDS < n_fields || MAX_SCHEMA < schema.to_string().len() {
        return None;
    }
    Some(visible(schema))
}

/// Takes unseen characters out of every text.
fn visible(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible_only(&text)),
        Value::Array(values) => values.into_iter().map(visible).collect(),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, visible(value))).collect())
        }
        other => other,
    }
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

    #[test]
    fn forms_are_seen_and_bounded() {
        let schema = |n: usize, title: &str| {
            let fields =
                (0..n).map(|n| (format!("f{n}"), json!({"type": "string", "title": title})));
            json!({"type": "object", "properties": fields.collect::<Map<_, _>>()})
        };
        assert_eq!(shown_schema(schema(1, "a\u{202e}b")), Some(schema(1, "ab")));
        for (schema, expected) in [
            (schema(MAX_FIELDS, "a"), true),
            (schema(MAX_FIELDS + 1, "a"), false),
            (schema(1, &"x".repeat(MAX_SCHEMA)), false),
            (json!({"type": "object"}), false),
        ] {
            assert_eq!(shown_schema(schema).is_some(), expected);
        }
    }

    #[test]
    fn fields_have_their_defaults() {
        let schema = json!({"properties": {"a": {"default": 1}, "b": {"type": "string"}}});
        assert_eq!(Value::Object(defaults(&schema)), json!({"a": 1}));
    }
}
