//! What the caller of a call knows of the content of its files.
//!
//! A caller is a session, or one agent of it. It knows what it read and what it wrote itself, by the
//! content and never by times; a change of anything else would undo what somebody did meanwhile. The
//! World of a call speaks for its caller alone, and holds no paths: files are named by their slots.

use std::time::Duration;

use crate::world::{Identity, Slot};
use crate::{ContentHash, FileError};
use crate::{Kind, ToolError};

/// What a read saw of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadObservation {
    /// The state of the file when it was opened.
    pub state: Identity,
    /// BLAKE3 of the whole content, where all of it was read.
    pub content: Option<ContentHash>,
    /// The part that is shown: first line and most lines.
    pub part: (u64, u64),
}

/// Who wrote the content that a file has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The session.
    pub session: String,
    /// The agent, where there are several.
    pub agent: Option<String>,
    /// The wire name of the tool.
    pub tool: String,
    /// How long ago.
    pub ago: Duration,
    /// Whether the change is known to be done; else it was begun.
    pub is_done: bool,
}

impl Writer {
    /// Returns a sentence about the deed, such as `session s wrote it with Edit 12 s ago`.
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

/// Returns the error of a file that the caller knows with another content.
pub(crate) fn stale(writer: Option<&Writer>, shown: &str) -> ToolError {
    let who = writer
        .map_or_else(|| String::from("another program or a command changed it"), Writer::words);
    ToolError::new(Kind::Stale, format!("{shown} changed since you last saw it: {who}"))
        .hint("read it again, and make the change on what is there now")
}

/// Returns the error of a file that the caller must know first.
pub(crate) fn unread(shown: &str) -> ToolError {
    let problem = format!("not read yet, so it is not changed: {shown}");
    ToolError::new(Kind::MustReadFirst, problem).hint("read the file first, then repeat the call")
}

/// What the caller of a call knows of its files.
pub trait Knowledge: Send + Sync {
    /// Returns whether a change of the file at a slot can be refused for what the caller knows of it
    /// or does not know.
    fn minds(&self, slot: Slot) -> bool;

    /// Refuses where the caller may not change a file with this content: it knows another one, or
    /// none and must know it. A change asks the same again for the content that it replaces; asking
    /// before lets a call fail for the first reason first. Returns BLAKE3 of the content where it was
    /// worked out, so that nobody does it again.
    fn check(
        &self,
        slot: Slot,
        state: &Identity,
        content: &[u8],
    ) -> Result<Option<ContentHash>, FileError>;

    /// Notes what the caller saw of the file at a slot; returns how often in a row it has now seen
    /// the same part of the same content.
    fn saw(&self, slot: Slot, observation: &ReadObservation) -> u32;
}

/// The knowledge of a World whose caller is nobody: nothing is remembered, and nothing refused.
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

    fn saw(&self, _slot: Slot, _sight: &ReadObservation) -> u32 {
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
