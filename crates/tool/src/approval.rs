//! Asking somebody.

use std::time::Duration;

use crate::{Arguments, BoxFuture, Targets};

/// What a person is asked before a call may run.
#[derive(Debug, Clone)]
pub struct Question {
    /// Names the question: `q7`. Whoever answers elsewhere names it.
    pub id: String,
    /// The call the question belongs to.
    pub call_id: String,
    /// The session the call belongs to.
    pub session: String,
    /// The agent that makes the call, where there are several.
    pub agent: Option<String>,
    /// The wire name of the tool.
    pub tool: String,
    /// What the tool does to the outside, in words: `change`, `execute` …
    pub effects: Vec<&'static str>,
    /// What the call really names.
    pub targets: Targets,
    /// What the call says beside its targets: its numbers and switches, by name.
    pub arguments: Arguments,
    /// Whether a command may load files that its words do not name, so that the answer does not hold for what they
    /// are now.
    pub is_open: bool,
    /// The change as a unified diff, where it can be shown.
    pub diff: Option<String>,
    /// How a command would be contained, and what of that is missing here, if the call has one.
    pub sandbox: Option<String>,
    /// The rule that asks.
    pub rule: &'static str,
    /// The layer of that rule and where it stands, if somebody wrote it.
    pub origin: Option<String>,
    /// Why it asks.
    pub why: String,
    /// What an answer can cover beside this call, the narrowest first.
    pub covers: Vec<Cover>,
    /// How many questions the session has had, this one included.
    pub n_asked: u64,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// Something that an answer can cover beside the call that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// What it covers, and for how long.
    pub scope: Scope,
    /// What that is, in words: `git commit *`.
    pub what: Vec<String>,
}

crate::word_enum! {
    /// What an answer covers, the narrowest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Scope {
        /// The call that asks and no other.
        Call = "call",
        /// The same tool with the same arguments, for the rest of the session.
        Exact = "exact",
        /// What fits the patterns that the question shows, for the rest of the session.
        Session = "session",
        /// What fits the patterns that the question shows, in these roots, for ever.
        Forever = "forever",
    }
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This call may run, and all that the scope covers. A scope that the question does not offer counts as
    /// [`Scope::Call`].
    Yes(Scope),
    /// It may not, with the person's words where there were any.
    No(Option<String>),
    /// Nobody answered in time. An approver that says so counts as gone: the runtime has the time.
    TimedOut,
    /// Nobody is there to answer any more: others may. Where nobody is left, the call does not run.
    Gone,
}

/// Somebody who can be asked: a terminal, a console, a program.
pub trait Approver: Send + Sync {
    /// Names the approver in the ledger.
    fn name(&self) -> &'static str;

    /// Asks and waits. The runtime holds no lock meanwhile and does not count the time as execution
    /// time. Where somebody else answers first, or the call is taken back, the future is dropped.
    fn ask(&self, question: Question) -> BoxFuture<'_, Answer>;

    /// Returns whether questions about a call of a session are for this approver.
    fn serves(&self, session: &str, call_id: &str) -> bool {
        let _ = (session, call_id);
        true
    }

    /// Returns whether the answer to one question can stand for an equal one that waits beside it. Where the
    /// other end waits for each call by itself, it is asked about each.
    fn joins(&self) -> bool {
        true
    }

    /// Returns whether its answers may cover more than the call that asks.
    fn may_grant(&self) -> bool {
        true
    }
}
