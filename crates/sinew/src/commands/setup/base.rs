//! Paths of clients below directories that differ by user.

/// A directory of which files are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    Home,
    /// The XDG configuration directory.
    Config,
    /// `~/.claude`.
    Claude,
    /// The directory of `.claude.json`.
    ClaudeState,
    Codex,
    Gemini,
    /// The current directory.
    Project,
}

/// A path below a base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At(pub(super) Base, pub(super) &'static str);
