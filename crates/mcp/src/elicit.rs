//! Asks the user at the client by MCP elicitation.
//!
//! - With handshake and declared capability: the client gets an elicitation request; the reading thread
//!   delivers the response.
//! - Stateless: the reply contains the question and a random state that cannot be guessed. The call waits
//!   here until the client calls again with that state and the answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sinew_runtime::question;
use sinew_tool::sync::lock;
use sinew_tool::{
    Answer, Approver, Arguments, BoxFuture, Cancel, Filled, Form, Kind, Question, Reply, Scope,
    ToolError,
};
use tokio::sync::{mpsc, oneshot};

use crate::transport::Output;

/// The name of a question in a stateless result, where it is the only one.
const QUESTION: &str = "approval";
/// The name of the form of another server there.
const FORM: &str = "form";
/// The field of an answer.
const ANSWER: &str = "answer";
/// The value of a no.
const DENY: &str = "deny";
/// The values of a yes.
const CHOICES: [(&str, Scope); 4] = [
    ("once", Scope::Call),
    ("exact", Scope::Exact),
    ("session", Scope::Session),
    ("always", Scope::Forever),
];
/// The least time in which a person declines. A faster client did not ask.
const BY_A_PERSON: Duration = Duration::from_millis(300);
/// The first protocol revision whose forms have titled values (`oneOf`).
const WITH_TITLES: &str = "2025-11-25";
/// The most suspended calls.
const MAX_SUSPENDED: usize = 1_000;
/// The prefix of this server's request ids.
const OURS: &str = "sinew-";

/// The client's response to an elicitation.
#[derive(Debug, Deserialize)]
struct Elicited {
    action: String,
    #[serde(default)]
    content: Option<Value>,
}

impl Elicited {
    /// Returns the answer to a question. Only an accepted form whose field names a scope is a yes.
    fn answer(self, waited: Duration) -> Answer {
        let content = self.content.unwrap_or_default();
        let chosen = content.get(ANSWER).and_then(Value::as_str);
        let no = |why: &str| Answer::No(Some(why.to_owned()));
        if self.action == "accept" {
            let scope = CHOICES.iter().find(|(word, _)| Some(*word) == chosen);
            return match (scope, chosen) {
                (Some((_, scope)), _) => Answer::Yes(*scope),
                (None, Some(DENY)) => Answer::No(None),
                (None, _) => no("the client accepted the question without an answer"),
            };
        }
        match self.action.as_str() {
            _ if waited < BY_A_PERSON => no("the client declined without asking"),
            "cancel" => no("the question was closed without an answer"),
            _ => Answer::No(None),
        }
    }

    /// Returns what became of a form.
    fn filled(self) -> Filled {
        match (self.action.as_str(), self.content) {
            ("accept", Some(Value::Object(fields))) => Filled::Sent(fields),
            ("accept", None | Some(Value::Null)) => Filled::Sent(Map::new()),
            ("cancel", _) => Filled::Closed,
            _ => Filled::Declined,
        }
    }
}

/// What the client of a call is asked.
struct ClientQuestion {
    /// Its name in a stateless result.
    name: &'static str,
    params: Value,
}

/// What the client of a call is asked, and the channel for its answer.
pub(crate) struct Asks {
    asked: ClientQuestion,
    answer: oneshot::Sender<Option<Elicited>>,
}

/// A call suspended until its client calls again.
pub(crate) struct Suspended {
    called: Called,
    cancel: Cancel,
    name: &'static str,
    answer: oneshot::Sender<Option<Elicited>>,
    going: Going,
}

/// The tool and arguments of a call; the repeated call must match.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Called {
    pub(crate) tool: String,
    pub(crate) arguments: Arguments,
}

/// A call that runs as its own task.
pub(crate) struct Going {
    pub(crate) reply: oneshot::Receiver<Reply>,
    asks: Listening,
}

/// The next event of a running call.
pub(crate) enum Came {
    Reply(Box<Reply>),
    Asks(Box<Asks>, Going),
}

impl Going {
    pub(crate) async fn wait(mut self) -> Came {
        tokio::select! {
            biased;
            reply = &mut self.reply => Came::Reply(Box::new(reply.unwrap_or_else(|_| lost()))),
            asks = self.asks.receiver.recv() => match asks {
                Some(asks) => Came::Asks(Box::new(asks), self),
                None => {
                    let reply = self.reply.await.unwrap_or_else(|_| lost());
                    Came::Reply(Box::new(reply))
                }
            },
        }
    }
}

fn lost() -> Reply {
    Reply::failure(&ToolError::new(Kind::ExecutionFailed, "the call was lost"))
}

/// Receives the questions of one call until it is dropped.
pub(crate) struct Listening {
    elicitation: Arc<Elicitation>,
    call_id: String,
    receiver: mpsc::UnboundedReceiver<Asks>,
}

impl Listening {
    /// Spawns a call, so that its time runs whether or not the client calls again.
    pub(crate) fn going(
        self,
        handle: &tokio::runtime::Handle,
        call: impl Future<Output = Reply> + Send + 'static,
    ) -> Going {
        let (done, reply) = oneshot::channel();
        // Without a receiver, no client wants the reply.
        handle.spawn(async move { drop(done.send(call.await)) });
        Going { reply, asks: self }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.elicitation.calls).remove(&self.call_id);
    }
}

/// Asks the user at the client of one connection.
pub(crate) struct Elicitation {
    output: Output,
    session: String,
    /// Whether the client declared the capability in its handshake.
    declared: AtomicBool,
    /// Whether the client has no handshake, so that each call says anew whether it can be asked.
    stateless: AtomicBool,
    /// Whether its forms have titled values.
    titles: AtomicBool,
    next: AtomicU64,
    /// Pending requests of this server, by id.
    waiting: Mutex<HashMap<String, oneshot::Sender<Option<Elicited>>>>,
    /// Running calls of stateless clients that support elicitation, by call id.
    calls: Mutex<HashMap<String, mpsc::UnboundedSender<Asks>>>,
    /// Suspended calls, by state.
    suspended: Mutex<HashMap<String, Suspended>>,
}

impl Elicitation {
    pub(crate) fn new(output: Output, session: String) -> Arc<Self> {
        Arc::new(Self {
            output,
            session,
            declared: AtomicBool::new(false),
            stateless: AtomicBool::new(false),
            titles: AtomicBool::new(false),
            next: AtomicU64::new(1),
            waiting: Mutex::default(),
            calls: Mutex::default(),
            suspended: Mutex::default(),
        })
    }

    /// Reads the client's capabilities and protocol revision from its handshake.
    pub(crate) fn declared(&self, handshake: &Value) {
        let can = handshake.get("capabilities").is_some_and(can_be_asked);
        let revision = handshake.get("protocolVersion").and_then(Value::as_str);
        self.titles.store(revision.is_some_and(|one| WITH_TITLES <= one), Ordering::Release);
        self.declared.store(can, Ordering::Release);
    }

    /// Notes that the client has no handshake.
    pub(crate) fn is_stateless(&self) {
        self.stateless.store(true, Ordering::Release);
        self.titles.store(true, Ordering::Release);
    }

    /// Closes all questions: they end unanswered.
    pub(crate) fn close(&self) {
        self.declared.store(false, Ordering::Release);
        lock(&self.calls).clear();
        lock(&self.waiting).clear();
        lock(&self.suspended).clear();
    }

    /// Subscribes to the questions of one call of a stateless client.
    pub(crate) fn listen(self: &Arc<Self>, call_id: String) -> Listening {
        let (sender, receiver) = mpsc::unbounded_channel();
        lock(&self.calls).insert(call_id.clone(), sender);
        Listening { elicitation: Arc::clone(self), call_id, receiver }
    }

    /// Accepts the response to a request of this server; returns whether it was one.
    pub(crate) fn respond(&self, id: &str, line: &[u8]) -> bool {
        let id = id.trim_matches('"');
        if !id.starts_with(OURS) {
            return false;
        }
        let Some(waiting) = lock(&self.waiting).remove(id) else { return true };
        #[derive(Deserialize)]
        struct Response {
            #[serde(default)]
            result: Option<Elicited>,
        }
        let response = serde_json::from_slice::<Response>(line).ok();
        // An error means that the client does not support elicitation after all.
        let _ = waiting.send(response.and_then(|response| response.result));
        true
    }

    /// Suspends a call and returns the result that contains its question.
    pub(crate) fn suspend(
        &self,
        asks: Asks,
        going: Going,
        called: Called,
        cancel: Cancel,
    ) -> Option<Value> {
        let Asks { asked: ClientQuestion { name, params }, answer } = asks;
        let mut suspended = lock(&self.suspended);
        // A call whose question timed out has a reply for its client all the same, as long as there is room.
        if MAX_SUSPENDED <= suspended.len() {
            suspended.retain(|_, one| !one.answer.is_closed());
        }
        let mut random = [0_u8; 16];
        if MAX_SUSPENDED <= suspended.len() || getrandom::fill(&mut random).is_err() {
            let _ = answer.send(None);
            return None;
        }
        let state = format!("{:032x}", u128::from_le_bytes(random));
        suspended.insert(state.clone(), Suspended { called, cancel, name, answer, going });
        Some(json!({
            "resultType": "input_required",
            "inputRequests": {
                name: { "method": "elicitation/create", "params": params },
            },
            "requestState": state,
        }))
    }

    /// Returns the call behind a state and delivers its answer.
    pub(crate) fn resume(
        &self,
        state: &str,
        called: &Called,
        responses: Option<Value>,
    ) -> Result<(Going, Cancel), String> {
        let mut suspended = lock(&self.suspended);
        let same = suspended.get(state).filter(|one| one.called == *called);
        let Some(name) = same.map(|one| one.name) else {
            return Err(String::from(
                "this `requestState` is unknown: what waited behind it has ended, or was another call",
            ));
        };
        let elicited = responses.and_then(|mut all| all.get_mut(name).map(Value::take));
        let elicited = elicited.and_then(|one| serde_json::from_value::<Elicited>(one).ok());
        let Some(elicited) = elicited else {
            return Err(format!("`inputResponses` must hold an answer named `{name}`"));
        };
        let Some(Suspended { cancel, answer, going, .. }) = suspended.remove(state) else {
            return Err(String::from("this `requestState` is unknown"));
        };
        // If the question timed out, the call's reply says so.
        let _ = answer.send(Some(elicited));
        Ok((going, cancel))
    }

    /// Asks the client of a call; `None` where it cannot be asked.
    fn elicit(&self, call_id: &str, asked: ClientQuestion) -> BoxFuture<'_, Option<Elicited>> {
        if self.declared.load(Ordering::Acquire) {
            return self.ask_by_request(&asked.params);
        }
        let call = lock(&self.calls).get(call_id).cloned();
        let Some(call) = call else { return Box::pin(std::future::ready(None)) };
        let (answer, answered) = oneshot::channel();
        if call.send(Asks { asked, answer }).is_err() {
            return Box::pin(std::future::ready(None));
        }
        Box::pin(async move { answered.await.unwrap_or(None) })
    }

    fn ask_by_request(&self, params: &Value) -> BoxFuture<'_, Option<Elicited>> {
        let id = format!("{OURS}{}", self.next.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        lock(&self.waiting).insert(id.clone(), answer);
        let request = json!({
            "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params,
        });
        let withdrawn = Withdrawn { elicitation: self, id };
        let written = self.output.write(format!("{request}\n").as_bytes());
        Box::pin(async move {
            if written.is_err() {
                return None;
            }
            let answer = answered.await.unwrap_or(None);
            drop(withdrawn);
            answer
        })
    }
}

impl Approver for Elicitation {
    fn name(&self) -> &'static str {
        "elicitation"
    }

    fn serves(&self, session: &str, call_id: &str) -> bool {
        let can = self.declared.load(Ordering::Acquire) || lock(&self.calls).contains_key(call_id);
        can && self.session == session
    }

    fn joins(&self) -> bool {
        // A stateless client waits for each call separately.
        self.declared.load(Ordering::Acquire)
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        let params = params(&question, self.titles.load(Ordering::Acquire));
        let asked = ClientQuestion { name: QUESTION, params };
        let elicited = self.elicit(&question.asked_for, asked);
        let asked_at = Instant::now();
        Box::pin(async move {
            let elicited = elicited.await;
            elicited.map_or(Answer::Gone, |elicited| elicited.answer(asked_at.elapsed()))
        })
    }

    fn fill(&self, form: Form) -> BoxFuture<'_, Filled> {
        let params = json!({
            "message": question::form_words(&form), "requestedSchema": form.schema,
        });
        let elicited = self.elicit(&form.call_id, ClientQuestion { name: FORM, params });
        Box::pin(async move { elicited.await.map_or(Filled::Gone, Elicited::filled) })
    }

    fn fills(&self) -> bool {
        self.declared.load(Ordering::Acquire) || self.stateless.load(Ordering::Acquire)
    }
}

/// Withdraws a question at the client on drop, unless the client answered it.
struct Withdrawn<'a> {
    elicitation: &'a Elicitation,
    id: String,
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        if lock(&self.elicitation.waiting).remove(&self.id).is_none() {
            return;
        }
        let told = json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": { "requestId": self.id, "reason": "it was settled elsewhere, or its time is over" },
        });
        // The reading thread detects a closed client.
        let _ = self.elicitation.output.write(format!("{told}\n").as_bytes());
    }
}

/// Returns whether these capabilities include elicitation by form.
pub(crate) fn can_be_asked(capabilities: &Value) -> bool {
    match capabilities.get("elicitation") {
        Some(Value::Object(modes)) => modes.is_empty() || modes.contains_key("form"),
        _ => false,
    }
}

/// Returns the parameters of the request that asks a question: one field, with a value for each answer.
fn params(question: &Question, with_titles: bool) -> Value {
    let yes = CHOICES.iter().filter_map(|(word, scope)| {
        let title = match scope {
            Scope::Call if question.is_running => String::from("Yes, go on"),
            Scope::Call => String::from("Yes, once"),
            scope => format!("Yes, {}", question::covers(question, *scope)?),
        };
        Some((*word, title))
    });
    let all: Vec<(&str, String)> = yes.chain([(DENY, String::from("No"))]).collect();
    let default = if question::is_denied_by_default(question) { DENY } else { "once" };
    let mut field = Map::new();
    let mut set = |key: &str, value: Value| drop(field.insert(key.to_owned(), value));
    set("type", json!("string"));
    set("title", json!("Answer"));
    set("description", json!(question::warning(question)));
    set("default", json!(default));
    if with_titles {
        let one_of = all.iter().map(|(word, title)| json!({ "const": word, "title": title }));
        set("oneOf", one_of.collect());
    } else {
        set("enum", all.iter().map(|(word, _)| json!(word)).collect());
        set("enumNames", all.iter().map(|(_, title)| json!(title)).collect());
    }
    json!({
        "message": question::words(question),
        "requestedSchema": {
            "type": "object", "properties": { ANSWER: field }, "required": [ANSWER],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_accepted_choice_is_a_yes() {
        let no = |words: &str| Answer::No((!words.is_empty()).then(|| words.to_owned()));
        let accept = |content: Value| json!({ "action": "accept", "content": content });
        let empty = "the client accepted the question without an answer";
        for (said, expected) in [
            (accept(json!({ "answer": "once" })), Answer::Yes(Scope::Call)),
            (accept(json!({ "answer": "session" })), Answer::Yes(Scope::Session)),
            (accept(json!({ "answer": "always" })), Answer::Yes(Scope::Forever)),
            (accept(json!({ "answer": "deny" })), no("")),
            (accept(json!({ "answer": "yes" })), no(empty)),
            (accept(json!({ "answer": true })), no(empty)),
            (accept(json!({})), no(empty)),
            (json!({ "action": "accept" }), no(empty)),
            (json!({ "action": "decline", "content": { "answer": "once" } }), no("")),
            (json!({ "action": "cancel" }), no("the question was closed without an answer")),
        ] {
            let elicited: Elicited = serde_json::from_value(said.clone()).expect("it is read");
            assert_eq!(elicited.answer(BY_A_PERSON), expected, "{said}");
        }
        for action in ["decline", "cancel"] {
            let elicited = Elicited { action: action.into(), content: None };
            let expected = no("the client declined without asking");
            assert_eq!(elicited.answer(Duration::from_millis(5)), expected);
        }
    }

    #[test]
    fn only_who_accepts_sends_fields() {
        let fields = json!({ "a": 1 });
        let sent = |fields: &Value| Filled::Sent(fields.as_object().cloned().unwrap_or_default());
        for (said, expected) in [
            (json!({ "action": "accept", "content": fields }), sent(&fields)),
            (json!({ "action": "accept" }), sent(&json!({}))),
            (json!({ "action": "accept", "content": [1] }), Filled::Declined),
            (json!({ "action": "decline", "content": fields }), Filled::Declined),
            (json!({ "action": "cancel" }), Filled::Closed),
            (json!({ "action": "other", "content": fields }), Filled::Declined),
        ] {
            let elicited: Elicited = serde_json::from_value(said.clone()).expect("it is read");
            assert_eq!(elicited.filled(), expected, "{said}");
        }
    }

    #[test]
    fn clients_can_be_asked_by_a_form_or_not() {
        for (capabilities, can) in [
            (json!({}), false),
            (json!({ "elicitation": {} }), true),
            (json!({ "elicitation": { "form": {} } }), true),
            (json!({ "elicitation": { "form": {}, "url": {} } }), true),
            (json!({ "elicitation": { "url": {} } }), false),
            (json!({ "elicitation": true }), false),
        ] {
            assert_eq!(can_be_asked(&capabilities), can, "{capabilities}");
        }
    }
}
