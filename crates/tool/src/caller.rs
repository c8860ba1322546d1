//! Who makes a call.

use std::borrow::Cow;

/// Who makes a call, and how it is named.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The session, whose commands see one another.
    pub session: String,
    /// The agent, where there are several: each knows its own files.
    pub agent: Option<String>,
    /// The turn of the conversation, where the caller counts turns.
    pub turn: Option<String>,
    /// The call, which names the stored output.
    pub call_id: String,
    /// The wire name of the tool.
    pub tool: String,
    /// The dialect whose name was used.
    pub dialect: Cow<'static, str>,
}
