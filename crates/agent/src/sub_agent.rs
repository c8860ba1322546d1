//! The place of a sub-agent: the call that spawned it, and its limits beside those of its model.

use std::path::PathBuf;

/// The place of a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubAgentPlace {
    /// Its name; see [`sinew_tool::agents`].
    pub name: String,
    /// Its number, which no other sub-agent has: its calls have ids of it.
    pub number: String,
    /// The call that spawned it.
    pub spawned_by: String,
    /// The turn of the call, which its checkpoints have too.
    pub turn: Option<String>,
    /// The roots to which that call is narrowed.
    pub roots: Option<Vec<PathBuf>>,
    /// The dialect of that call.
    pub dialect: &'static str,
    /// The most tokens that it may use, in requests and answers.
    pub max_tokens: u64,
}
