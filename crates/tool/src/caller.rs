//! The identity of a caller.

use std::borrow::Cow;

/// The session, agent and call behind a change or command.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The session; its calls share background commands.
    pub session: String,
    /// The agent, if there are several; each has its own file knowledge.
    pub agent: Option<String>,
    /// The conversation turn, if the caller counts turns.
    pub turn: Option<String>,
    /// The call, which names the stored output.
    pub call_id: String,
    /// The wire name of the tool.
    pub tool: String,
    /// The dialect of the call.
    pub dialect: Cow<'static, str>,
}
