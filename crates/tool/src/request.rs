//! What enters from a surface.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Map, Value};

/// The arguments of a call as the client wrote them: one JSON object.
pub type Arguments = Map<String, Value>;

/// One call as a surface received it.
///
/// Identifiers are the caller's own and flow through to the ledger, to hooks and to approvers.
#[derive(Debug, Clone)]
pub struct Request {
    /// Names the call; see [`call_id`] for what is accepted from outside.
    pub call_id: String,
    /// Names the session the call belongs to.
    pub session: String,
    /// The agent that makes the call, where there are several.
    pub agent: Option<String>,
    /// The turn of the conversation that makes the call, where the caller counts turns. Checkpoints
    /// can be listed and restored by it.
    pub turn: Option<String>,
    /// The call that caused this one, for calls of sub-agents.
    pub parent: Option<String>,
    /// Where relative paths start; beneath a root. `None` is the first root.
    pub cwd: Option<PathBuf>,
    /// Narrows the roots of the runtime to these; `None` keeps all. It never widens them.
    pub roots: Option<Vec<PathBuf>>,
    /// The dialect whose names are meant; `None` is the runtime's first.
    pub dialect: Option<String>,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// The wire name of the tool.
    pub name: String,
    /// The arguments as written.
    pub arguments: Arguments,
}

impl Request {
    /// Returns a request with a name and arguments, and nothing else set.
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
}

/// Returns `given` where it can serve as a call id, which also names a file of the store.
///
/// A call id matches `[A-Za-z0-9_-]{1,256}`; anything else answers `None` and the surface makes a
/// new one.
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
