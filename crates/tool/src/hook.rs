//! Code of somebody else that runs around calls: what it is told, what it may answer, and when.
//!
//! A hook sees typed payloads, one type for each event, whose JSON schemas are made from the same
//! definition. Arguments are changed before anything judges them and replies before they are bounded,
//! so a hook can neither change what was approved nor make a reply longer than it may be. A hook
//! answers no question: it sees them asked and answered.

mod event;
mod form;
mod payload;

pub use event::HookEvent;
pub use form::{FormEvent, HookAnswer, HookEnd, HookForm, SINEW_HOOKS, object, reason};
pub use payload::{
    AfterCompaction, AfterModelCall, AgentEnd, AgentEvent, AgentStart, Approval, BeforeCompaction,
    BeforeModelCall, BeforePrompt, Executed, HookReply, NamedPaths, SessionEnd, SessionStart,
    ToolCall, TurnEnd, TurnStart, example, payload, schema, schemas,
};

use crate::{Arguments, BoxFuture, Meta, Reply, ToolError};

/// What a hook decided about something that has not happened yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing to say.
    Continue,
    /// Changes these: for a call its arguments, for a moment of an agent the keys of its payload. What
    /// is not named stays.
    Modify(Arguments),
    /// Puts these in the place of all arguments of a call; else the same as [`Decision::Modify`].
    Replace(Arguments),
    /// Stops it, with the reason for the model.
    Block(String),
    /// The hook failed for this reason, and what it was asked about goes on all the same.
    Failed(String),
}

/// Runs around every call. Hooks with a higher priority run first; later ones see what earlier ones
/// changed.
///
/// Each method belongs to one event and does nothing unless it is written. A hook that says in
/// [`Hook::wants`] which events it is for costs nothing at the others.
pub trait Hook: Send + Sync {
    /// Names the hook in messages.
    fn name(&self) -> &str;

    /// Returns where the hook is written, where that can be said.
    fn origin(&self) -> Option<&str> {
        None
    }

    /// Orders hooks, high first; among equals the one that was added first comes first.
    fn priority(&self) -> i32 {
        0
    }

    /// Returns whether the hook is called at an event. Asked once, when the runtime is built.
    fn wants(&self, event: HookEvent) -> bool {
        let _ = event;
        true
    }

    /// Runs before anything judges the call. An error blocks it.
    fn before_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Decision, ToolError>> {
        let _ = call;
        Box::pin(std::future::ready(Ok(Decision::Continue)))
    }

    /// Runs on the reply of a tool that ran, whether or not it did its deed. An error withholds the
    /// reply.
    fn after_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        duration_ms: f64,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = (call, duration_ms, reply);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Runs on every reply, also of calls that were refused, before it is bounded, kept and handed out.
    /// An error withholds the reply.
    fn persist<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = (call, reply);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Sees a question when it is asked and when it is answered. An error changes nothing, and nobody
    /// waits for it: it runs on a thread beside the calls.
    fn approval<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = approval;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Runs before the first call of a session, on a thread beside the calls. An error changes nothing.
    fn session_start<'a>(
        &'a self,
        session: &'a SessionStart,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = session;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Runs at the end of a session that had a call. An error changes nothing.
    fn session_end<'a>(&'a self, session: &'a SessionEnd) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = session;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Runs at a moment of an agent. An error blocks what can be blocked. Nothing in this version
    /// brings such moments about: a program that has an agent does.
    fn agent<'a>(&'a self, moment: &'a AgentEvent) -> BoxFuture<'a, Result<Decision, ToolError>> {
        let _ = moment;
        Box::pin(std::future::ready(Ok(Decision::Continue)))
    }
}

impl Meta {
    /// Notes what a hook did to a call, for whoever reads the reply as a program.
    pub fn hook_did(&mut self, hook: &str, event: HookEvent, did: &str) {
        let note = serde_json::json!({ "hook": hook, "event": event.as_str(), "did": did });
        let mut notes = match self.more.get("hooks") {
            Some(serde_json::Value::Array(notes)) => notes.clone(),
            _ => Vec::new(),
        };
        notes.push(note);
        self.more.insert("hooks", notes);
    }
}
