//! Asking somebody.

use crate::{BoxFuture, Targets};

/// What a person is asked before a call may run.
#[derive(Debug, Clone)]
pub struct Question {
    /// The call the question belongs to.
    pub call_id: String,
    /// The session the call belongs to.
    pub session: String,
    /// The wire name of the tool.
    pub tool: String,
    /// What the tool does to the outside, in words: `change`, `execute` …
    pub effects: Vec<&'static str>,
    /// What the call really names.
    pub targets: Targets,
    /// The change as a unified diff, where it can be shown.
    pub diff: Option<String>,
    /// The rule that asks.
    pub rule: &'static str,
    /// Why it asks.
    pub why: String,
    /// The patterns of commands that [`Answer::Always`] would cover; `None` where it covers this call alone.
    pub always: Option<Vec<String>>,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This call may run.
    Yes,
    /// This call may run, and for the rest of the session all that the patterns of the question cover.
    Always,
    /// It may not, with the person's words where there were any.
    No(Option<String>),
    /// Nobody answered in time.
    TimedOut,
}

/// Somebody who can be asked: a terminal, a console, a program.
pub trait Approver: Send + Sync {
    /// Names the approver in the ledger.
    fn name(&self) -> &'static str;

    /// Asks and waits. The runtime holds no lock meanwhile and does not count the time as
    /// execution time.
    fn ask(&self, question: Question) -> BoxFuture<'_, Answer>;
}
