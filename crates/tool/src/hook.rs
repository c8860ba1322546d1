//! Hooks: external code around calls, with typed payloads and decisions.
//!
//! Each event has one payload type, which also generates its JSON schema. Hooks change arguments before the
//! ruling and replies before truncation, so they cannot alter approved calls or exceed reply limits.
//! A hook observes approval questions and cannot answer them.

mod event;
mod form;
mod payload;

pub use event::HookEvent;
pub use form::{FormEvent, HookAnswer, HookEnd, HookForm, SINEW_HOOKS, object, reason};
pub use payload::{
    AfterCompaction, AfterModelCall, AgentEnd, AgentEvent, AgentStart, Approval, BeforeCompaction,
    BeforeModelCall, BeforePrompt, Executed, HookReply, MessageReceived, MessageSending,
    MessageSent, NamedPaths, SessionEnd, SessionStart, ToolCall, TurnEnd, TurnStart, example,
    payload, schema, schemas,
};

use crate::{Arguments, BoxFuture, Meta, Reply, ToolError};

/// The decision of a hook before an event happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// No change.
    Continue,
    /// Changes call arguments, or payload keys of an agent event; others stay.
    Modify(Arguments),
    /// Replaces all arguments of a call; otherwise the same as [`Decision::Modify`].
    Replace(Arguments),
    /// Blocks the event, with the reason for the model.
    Block(String),
    /// Asks a person whether the call may run, with the reason, even if rules allow it. At other events
    /// without effect.
    Ask(String),
    /// The hook failed for this reason, and the event continues.
    Failed(String),
}

/// Runs around every call, by descending priority; later hooks see the changes of earlier ones.
/// Each method handles one event, by default without effect; [`Hook::wants`] skips other events at no cost.
pub trait Hook: Send + Sync {
    /// Returns the name for messages.
    fn name(&self) -> &str;

    /// Returns where the hook is configured, if known.
    fn origin(&self) -> Option<&str> {
        None
    }

    /// Returns the priority: high first, equal ones in the order added.
    fn priority(&self) -> i32 {
        0
    }

    /// Returns whether the hook handles an event; called once at build time.
    fn wants(&self, event: HookEvent) -> bool {
        let _ = event;
        true
    }

    /// Runs before the ruling. An error blocks the call.
    fn before_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Decision, ToolError>> {
        let _ = call;
        Box::pin(std::future::ready(Ok(Decision::Continue)))
    }

    /// Runs on the reply of a tool that ran, even if it failed. An error withholds the reply.
    fn after_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        duration_ms: f64,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = (call, duration_ms, reply);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Runs on every reply, also of refusals, before truncation. An error withholds the reply.
    fn persist<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = (call, reply);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Observes a question and its answer, on a thread beside the calls. Errors are ignored.
    fn approval<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = approval;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Runs before the first call of a session, on a thread beside the calls. Errors are ignored.
    fn session_start<'a>(
        &'a self,
        session: &'a SessionStart,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = session;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Runs at the end of a session that had a call. Errors are ignored.
    fn session_end<'a>(&'a self, session: &'a SessionEnd) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = session;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Runs at an event of an agent or of a message. An error blocks what can be blocked.
    fn agent<'a>(&'a self, moment: &'a AgentEvent) -> BoxFuture<'a, Result<Decision, ToolError>> {
        let _ = moment;
        Box::pin(std::future::ready(Ok(Decision::Continue)))
    }
}

impl Meta {
    /// Adds a note about a hook's effect for programs that read the reply.
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
