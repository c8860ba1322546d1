//! The identity of a caller.

use std::borrow::Cow;

use crate::agents;

/// The session, agent and call behind a change or command.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The session.
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

impl Caller {
    /// Returns where its commands run and its messages arrive; see [`agents::address`].
    pub fn address(&self) -> &str {
        agents::address(&self.session, self.agent.as_deref())
    }
}
