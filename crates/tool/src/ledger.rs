//! The record of every call.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{BoxFuture, Change, Effects, Kind, ToolError};

/// What is known when a call opens.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The call.
    pub call_id: String,
    /// Its session.
    pub session: String,
    /// The agent that makes it, where there are several.
    pub agent: Option<String>,
    /// The call that caused it.
    pub parent: Option<String>,
    /// The dialect whose name was used.
    pub dialect: Cow<'static, str>,
    /// The wire name of the tool.
    pub tool: String,
    /// BLAKE3 of the arguments as compact JSON.
    pub arguments: [u8; 32],
}

impl Opening {
    /// Returns a call of no agent in particular, which no other call caused, with no arguments known.
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

/// The place of an open call in a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// What is known when a call closes, and until then what is known of it so far.
#[derive(Debug, Clone)]
pub struct Closing {
    /// What the call opened with.
    pub opening: Opening,
    /// When it opened, in milliseconds since 1970.
    pub opened_at_ms: u64,
    /// How long it took, waiting for an answer included.
    pub duration_ms: f64,
    /// Whether there is a tool of that name. Where there is none the names of the opening are any text.
    pub found: bool,
    /// What it could do to the outside.
    pub effects: Option<Effects>,
    /// The first path it named: resolved, or as it was written where that was refused.
    pub path: Option<PathBuf>,
    /// The verdict, as a word.
    pub verdict: Option<&'static str>,
    /// The rule that decided.
    pub rule: Option<&'static str>,
    /// Where that rule is written: layer, file and line.
    pub origin: Option<Arc<str>>,
    /// Who was asked, where somebody was.
    pub approver: Option<Cow<'static, str>>,
    /// What came back: `yes`, `exact`, `session`, `forever`, `no`, `timeout` or `gone`.
    pub answer: Option<&'static str>,
    /// How long the answer took.
    pub waited_ms: Option<f64>,
    /// The command line that it names, as it was written.
    pub command: Option<String>,
    /// How the command was contained, where one ran.
    pub sandbox_level: Option<&'static str>,
    /// The command of the session that it began or reached, by name.
    pub background: Option<String>,
    /// `None` where the deed was done.
    pub error: Option<Kind>,
    /// What it changed.
    pub changes: Vec<Change>,
    /// Bytes of the reply's text.
    pub reply_bytes: u64,
}

impl Closing {
    /// Returns what is known of a call at its opening. One that goes no further was cancelled.
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
            error: Some(Kind::Cancelled),
            changes: Vec::new(),
            reply_bytes: 0,
        }
    }
}

/// Something worth a record that is no call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is, in one word.
    pub kind: &'static str,
    /// What happened, in words for people.
    pub text: String,
    /// The session that it happened in, where it is of one.
    pub session: Option<String>,
}

/// Where calls are recorded. One ledger serves every session of a process.
pub trait Ledger: Send + Sync {
    /// Commits the intent of a change before the change happens, with what is known of the call by then,
    /// the paths that it will change, and the names of the temporary files it may leave behind when the
    /// process dies. The future ends once the record survives
    /// the death of the process; its error stops the change. It may wait, but not in one poll: the
    /// first poll is on the thread that reads requests. Dropping it withdraws the intent.
    fn intend<'a>(
        &'a self,
        so_far: &'a Closing,
        paths: &'a [PathBuf],
        temporaries: &'a [PathBuf],
    ) -> BoxFuture<'a, Result<Ticket, ToolError>>;

    /// Records how a call ended; `intent` names the record of [`Ledger::intend`], where there was
    /// one. Never waits: records of calls that only looked are written in batches.
    fn close(&self, intent: Option<Ticket>, closing: Closing);

    /// Records something that is no call, as [`Ledger::close`] does.
    fn event(&self, event: Event) {
        let _ = event;
    }

    /// Writes everything that still waits.
    fn flush(&self) -> Result<(), ToolError>;

    /// Returns whether no more records can wait to be written: no call runs then.
    fn full(&self) -> bool {
        false
    }

    /// Returns why calls can no longer be recorded, if so: changes are then refused.
    fn broken(&self) -> Option<String> {
        None
    }

    /// Returns what happened to the ledger and should stand on the next reply, each of it once.
    fn news(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Where calls are counted and timed: one recorder feeds every metric.
pub trait Recorder: Send + Sync {
    /// Sees every call as it closes, whether it did its deed or not. Never waits.
    fn call(&self, closing: &Closing);

    /// Writes what still waits.
    fn flush(&self) {}
}
