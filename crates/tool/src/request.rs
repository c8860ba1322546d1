//! The request of a call, as a surface passes it.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Map, Value};

use crate::agents;

/// The arguments of a call as written: a JSON object.
pub type Arguments = Map<String, Value>;

/// One call as a surface received it. Its ids go unchanged to ledger, hooks and approvers.
#[derive(Debug, Clone)]
pub struct Request {
    /// The id of the call; [`call_id`] validates external ones.
    pub call_id: String,
    /// The session of the call.
    pub session: String,
    /// The agent, if there are several. One with `/` is a sub-agent; see [`agents`].
    pub agent: Option<String>,
    /// The conversation turn, if the caller counts turns; selects checkpoints.
    pub turn: Option<String>,
    /// The call that caused this one, for calls of sub-agents.
    pub parent: Option<String>,
    /// The start of relative paths, beneath a root; `None` is the first root.
    pub cwd: Option<PathBuf>,
    /// Narrows the runtime's roots, never widens them; `None` keeps all.
    pub roots: Option<Vec<PathBuf>>,
    /// The dialect; `None` is the runtime's first.
    pub dialect: Option<String>,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// The wire name of the tool.
    pub name: String,
    /// The arguments as written.
    pub arguments: Arguments,
}

impl Request {
    /// Returns a request with defaults for all other fields.
    pub fn new(call_id: impl Into<String>, name: impl Into<String>, arguments: Arguments) -> Self {
        Self {
            call_id: call_id.into(),
            session: String::from("default"),
            agent: None,
            turn: None,
            parent: None,
            cwd: None,
            roots: None,
            dialect: None,
            deadline: None,
            name: name.into(),
            arguments,
        }
    }

    /// Returns where its commands run and its messages arrive; see [`agents::address`].
    pub fn address(&self) -> &str {
        agents::address(&self.session, self.agent.as_deref())
    }
}

/// Returns `given` if it matches `[A-Za-z0-9_-]{1,256}`: a call id is also a file name in the store.
pub fn call_id(given: &str) -> Option<&str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (!given.is_empty() && given.len() <= 256 && given.bytes().all(fits)).then_some(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_that_could_leave_the_store_are_replaced() {
        for (given, accepted) in [
            ("toolu_01A-b", true),
            ("", false),
            ("../x", false),
            ("a/b", false),
            ("a b", false),
            ("é", false),
        ] {
            assert_eq!(call_id(given).is_some(), accepted, "{given:?}");
        }
        assert!(call_id(&"x".repeat(256)).is_some());
        assert!(call_id(&"x".repeat(257)).is_none());
    }
}
