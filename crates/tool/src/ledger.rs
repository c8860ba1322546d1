//! The ledger: the record of every call, with intents as a write-ahead log of changes.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{BoxFuture, Change, Effects, Kind, ToolError, ToolOrigin};

/// The data known when a call opens.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The call.
    pub call_id: String,
    /// Its session.
    pub session: String,
    /// The agent, if there are several.
    pub agent: Option<String>,
    /// The call that caused this one.
    pub parent: Option<String>,
    /// The dialect of the call.
    pub dialect: Cow<'static, str>,
    /// The wire name of the tool.
    pub tool: String,
    /// BLAKE3 of the arguments as compact JSON.
    pub arguments: [u8; 32],
}

impl Opening {
    /// Returns a call without agent, parent and arguments.
    pub fn new(
        call_id: impl Into<String>,
        session: impl Into<String>,
        dialect: impl Into<Cow<'static, str>>,
        tool: impl Into<String>,
    ) -> Self {
        Self {
            call_id: call_id.into(),
            session: session.into(),
            agent: None,
            parent: None,
            dialect: dialect.into(),
            tool: tool.into(),
            arguments: [0; 32],
        }
    }
}

/// The id of an intent in a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// The data known when a call closes, filled in until then.
#[derive(Debug, Clone)]
pub struct Closing {
    /// The data at opening.
    pub opening: Opening,
    /// When it opened, in milliseconds since 1970.
    pub opened_at_ms: u64,
    /// Its duration in milliseconds, including the wait for an answer.
    pub duration_ms: f64,
    /// Whether the tool exists; otherwise the names at opening are arbitrary text.
    pub found: bool,
    /// Its possible effects.
    pub effects: Option<Effects>,
    /// Its first path: resolved, or as written if refused.
    pub path: Option<PathBuf>,
    /// The word of the verdict.
    pub verdict: Option<&'static str>,
    /// The deciding rule.
    pub rule: Option<&'static str>,
    /// The origin of that rule: layer, file and line.
    pub origin: Option<Arc<str>>,
    /// The approver that was asked, if any.
    pub approver: Option<Cow<'static, str>>,
    /// The answer: `yes`, `exact`, `session`, `forever`, `no`, `timeout` or `gone`.
    pub answer: Option<&'static str>,
    /// The time until the answer, in milliseconds.
    pub waited_ms: Option<f64>,
    /// Its command line as written.
    pub command: Option<String>,
    /// The sandbox level of its command, if one ran.
    pub sandbox_level: Option<&'static str>,
    /// The background command that it started or accessed, by name.
    pub background: Option<String>,
    /// What it changed that acts later, in words.
    pub consequences: Option<String>,
    /// Where a tool of another server comes from.
    pub tool_origin: Option<ToolOrigin>,
    /// The error; `None` if it succeeded.
    pub error: Option<Kind>,
    /// Its changes.
    pub changes: Vec<Change>,
    /// Bytes of the reply's text.
    pub reply_bytes: u64,
}

impl Closing {
    /// Returns the record of a call at opening, which counts as cancelled until it is filled in.
    pub fn new(opening: Opening, opened_at_ms: u64) -> Self {
        Self {
            opening,
            opened_at_ms,
            duration_ms: 0.0,
            found: false,
            effects: None,
            path: None,
            verdict: None,
            rule: None,
            origin: None,
            approver: None,
            answer: None,
            waited_ms: None,
            command: None,
            sandbox_level: None,
            background: None,
            consequences: None,
            tool_origin: None,
            error: Some(Kind::Cancelled),
            changes: Vec::new(),
            reply_bytes: 0,
        }
    }
}

/// A recorded event other than a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its kind, in one word.
    pub kind: &'static str,
    /// Its description, in words for people.
    pub text: String,
    /// Its session, if it has one.
    pub session: Option<String>,
}

/// Records calls; one ledger serves all sessions of a process.
pub trait Ledger: Send + Sync {
    /// Commits the intent of a change before the change: its paths, and temporary files that a crash may
    /// leave. Completes once the record survives the death of the process; an error stops the change. One
    /// poll must not block: the first is on the reading thread. Dropping the future withdraws the intent.
    fn intend<'a>(
        &'a self,
        so_far: &'a Closing,
        paths: &'a [PathBuf],
        temporaries: &'a [PathBuf],
    ) -> BoxFuture<'a, Result<Ticket, ToolError>>;

    /// Records the end of a call, with the ticket of its intent if any. Never waits: it batches reads.
    fn close(&self, intent: Option<Ticket>, closing: Closing);

    /// Records an event, without waiting.
    fn event(&self, event: Event) {
        let _ = event;
    }

    /// Writes all pending records.
    fn flush(&self) -> Result<(), ToolError>;

    /// Returns whether the queue of records is full; then no call runs.
    fn full(&self) -> bool {
        false
    }

    /// Returns why the ledger cannot record; changes are then refused.
    fn broken(&self) -> Option<String> {
        None
    }

    /// Returns notices about the ledger for the next reply, each once.
    fn news(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Counts and times calls; one recorder feeds every metric.
pub trait Recorder: Send + Sync {
    /// Learns that a call begins, whose end follows. Never waits.
    fn begins(&self) {}

    /// Receives every call at its end, also failed ones. Never waits.
    fn call(&self, closing: &Closing);

    /// Writes pending data.
    fn flush(&self) {}
}
