//! Approval: questions about calls, answers, and approvers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::{Arguments, BoxFuture, Targets, ToolOrigin, UnkeptChange};

/// A question before a call may run.
#[derive(Debug, Clone)]
pub struct Question {
    /// The id of the question, such as `q7`, for answers from other processes.
    pub id: String,
    /// The call the question belongs to.
    pub call_id: String,
    /// The session the call belongs to.
    pub session: String,
    /// The agent, if there are several.
    pub agent: Option<String>,
    /// The call whose client is asked: for a call of a sub-agent the one of the session that spawned it, or spawned what
    /// spawned it, else the call itself.
    pub asked_for: String,
    /// The wire name of the tool.
    pub tool: String,
    /// Where a tool of another server comes from.
    pub tool_origin: Option<ToolOrigin>,
    /// The effects in words: `change`, `execute` …
    pub effects: Vec<&'static str>,
    /// The resolved targets of the call.
    pub targets: Targets,
    /// The arguments that the targets do not show, by name.
    pub arguments: Arguments,
    /// Whether a command may load unnamed files, which can change after the answer.
    pub is_open: bool,
    /// How much of what the call does a checkpoint undoes.
    pub undo: UndoCover,
    /// The change that undo cannot keep, if the question is about one.
    pub unkept: Option<UnkeptChange>,
    /// Whether the command runs already and waits for the answer.
    pub is_running: bool,
    /// The change as a unified diff, if available.
    pub diff: Option<String>,
    /// The sandbox of a command and its missing features, if the call has one.
    pub sandbox: Option<String>,
    /// The rule that asks.
    pub rule: &'static str,
    /// The layer and position of a configured rule.
    pub origin: Option<String>,
    /// The reason.
    pub why: String,
    /// The scopes that an answer can cover beside this call, narrowest first.
    pub covers: Vec<Cover>,
    /// The number of questions of the session, including this one.
    pub n_asked: u64,
    /// The time limit of the answer.
    pub timeout: Duration,
}

crate::word_enum! {
    /// How much of what a call does a checkpoint undoes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum UndoCover {
        /// All of it.
        All = "all",
        /// What a command changes, up to the limits of what is kept.
        Most = "most",
        /// Nothing, or it is unknown.
        None = "none",
    }
}

/// A scope that an answer can cover beside the asking call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// The scope.
    pub scope: Scope,
    /// Its contents in words: `git commit *`.
    pub what: Vec<String>,
    /// Whether it is offered only to a person at a terminal.
    pub only_at_terminal: bool,
}

crate::word_enum! {
    /// The scope of an answer, narrowest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Scope {
        /// The asking call only.
        Call = "call",
        /// The same tool with the same arguments, for the rest of the session.
        Exact = "exact",
        /// Calls that match the patterns of the question, for the rest of the session.
        Session = "session",
        /// Calls that match the patterns of the question, in these roots, for all sessions.
        Forever = "forever",
    }
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Allows the call and the scope; a scope that was not offered counts as [`Scope::Call`].
    Yes(Scope),
    /// Denies the call, with a reason if given.
    No(Option<String>),
    /// No answer came in time. Only the runtime keeps time: from an approver it counts as gone.
    TimedOut,
    /// This approver is gone; others may answer. Without any left the call does not run.
    Gone,
}

/// What an MCP server of others asks of a person during a call: fields to fill in. It approves nothing.
#[derive(Debug, Clone)]
pub struct Form {
    /// The call during which the server asks.
    pub call_id: String,
    /// The session the call belongs to.
    pub session: String,
    /// The server, by its name in the configuration.
    pub server: Arc<str>,
    /// The words of the server, without invisible characters.
    pub message: String,
    /// The JSON schema of the fields: an object of texts, numbers, booleans and choices.
    pub schema: Value,
}

/// What became of a form.
#[derive(Debug, Clone, PartialEq)]
pub enum Filled {
    /// The person sends these fields.
    Sent(Map<String, Value>),
    /// The person sends nothing.
    Declined,
    /// The person closed it, or did not answer in time.
    Closed,
    /// This approver shows no forms, or is gone; others may.
    Gone,
}

/// An approver: a terminal, a console, a program.
pub trait Approver: Send + Sync {
    /// Returns its name in the ledger.
    fn name(&self) -> &'static str;

    /// Asks and waits, outside locks and execution time. Another answer or a cancellation drops the future.
    fn ask(&self, question: Question) -> BoxFuture<'_, Answer>;

    /// Shows a form and waits, as [`Approver::ask`] does.
    fn fill(&self, form: Form) -> BoxFuture<'_, Filled> {
        let _ = form;
        Box::pin(std::future::ready(Filled::Gone))
    }

    /// Returns whether it shows forms at all.
    fn fills(&self) -> bool {
        false
    }

    /// Returns whether it gets questions about a call of a session.
    fn serves(&self, session: &str, call_id: &str) -> bool {
        let _ = (session, call_id);
        true
    }

    /// Returns whether it may be asked the same question again after it was gone, such as a terminal that is opened anew.
    fn comes_back(&self) -> bool {
        false
    }

    /// Returns whether one answer also settles equal pending questions, instead of one question per call.
    fn joins(&self) -> bool {
        true
    }

    /// Returns whether its answers may cover more than the asking call.
    fn may_grant(&self) -> bool {
        true
    }

    /// Returns whether its answers are keys that a person presses at a terminal. Only there a command without a sandbox is
    /// allowed for more than one call.
    fn is_at_terminal(&self) -> bool {
        false
    }
}
