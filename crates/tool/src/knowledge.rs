//! The caller's knowledge of file content, which detects stale changes.
//!
//! A caller is a session, or one of its agents. It knows the content hashes that it read or wrote, not times.
//! The World of a call uses its caller's knowledge only, and names files by slots.

use std::time::Duration;

use crate::slot::Slot;
use crate::world::Identity;
use crate::{ContentHash, FileError};
use crate::{Kind, ToolError};

/// A read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadObservation {
    /// The state of the file at opening.
    pub state: Identity,
    /// The BLAKE3 of the content, if read completely.
    pub content: Option<ContentHash>,
    /// The shown part: first line and line limit.
    pub part: (u64, u64),
}

/// The writer of the current content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The session.
    pub session: String,
    /// The agent, if there are several.
    pub agent: Option<String>,
    /// The wire name of the tool.
    pub tool: String,
    /// The time since the write.
    pub ago: Duration,
    /// Whether the change is known to be complete.
    pub is_done: bool,
}

impl Writer {
    /// Returns a sentence such as `session s wrote it with Edit 12 s ago`.
    pub fn words(&self) -> String {
        let agent = self.agent.as_ref().map_or(String::new(), |agent| format!(", agent {agent},"));
        let seconds = self.ago.as_secs();
        let ago = match seconds {
            0 => String::from("just now"),
            1..120 => format!("{seconds} s ago"),
            120..7_200 => format!("{} min ago", seconds / 60),
            7_200..172_800 => format!("{} h ago", seconds / 3_600),
            _ => format!("{} days ago", seconds / 86_400),
        };
        let did = if self.is_done { "wrote it" } else { "began to change it" };
        format!("session {}{agent} {did} with {} {ago}", self.session, self.tool)
    }
}

/// Returns the error for content that the caller does not know.
pub(crate) fn stale(writer: Option<&Writer>, shown: &str) -> ToolError {
    let who = writer
        .map_or_else(|| String::from("another program or a command changed it"), Writer::words);
    ToolError::new(Kind::Stale, format!("{shown} changed since you last saw it: {who}"))
        .hint("read it again, and make the change on what is there now")
}

pub(crate) fn unread(shown: &str) -> ToolError {
    let problem = format!("not read yet, so it is not changed: {shown}");
    ToolError::new(Kind::MustReadFirst, problem).hint("read the file first, then repeat the call")
}

/// The knowledge of the files of a call.
pub trait Knowledge: Send + Sync {
    /// Returns whether knowledge, or the lack of it, can refuse a change of a slot.
    fn minds(&self, slot: Slot) -> bool;

    /// Refuses a change of content that the caller does not know. An early check reports the first reason
    /// first; the change checks again. Returns the BLAKE3 if computed, to avoid a second hash.
    fn check(
        &self,
        slot: Slot,
        state: &Identity,
        content: &[u8],
    ) -> Result<Option<ContentHash>, FileError>;

    /// Records a read; returns how often in a row the caller saw the same part of the same content.
    fn saw(&self, slot: Slot, observation: &ReadObservation) -> u32;
}

/// The `Knowledge` of a World without a caller: it remembers and refuses nothing.
#[derive(Debug)]
pub struct NoKnowledge;

impl Knowledge for NoKnowledge {
    fn minds(&self, _slot: Slot) -> bool {
        false
    }

    fn check(
        &self,
        _slot: Slot,
        _state: &Identity,
        _content: &[u8],
    ) -> Result<Option<ContentHash>, FileError> {
        Ok(None)
    }

    fn saw(&self, _slot: Slot, _observation: &ReadObservation) -> u32 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_named_with_how_long_ago_it_was() {
        for (agent, seconds, is_done, expected) in [
            (None, 0, true, "session s wrote it with Edit just now"),
            (None, 12, true, "session s wrote it with Edit 12 s ago"),
            (Some("a"), 150, true, "session s, agent a, wrote it with Edit 2 min ago"),
            (None, 7_200, true, "session s wrote it with Edit 2 h ago"),
            (None, 200_000, true, "session s wrote it with Edit 2 days ago"),
            (None, 1, false, "session s began to change it with Edit 1 s ago"),
        ] {
            let writer = Writer {
                session: String::from("s"),
                agent: agent.map(str::to_owned),
                tool: String::from("Edit"),
                ago: Duration::from_secs(seconds),
                is_done,
            };
            assert_eq!(writer.words(), expected);
        }
    }
}
