//! What is configured for the file and search tools: resolved, nothing missing.

use std::path::PathBuf;

/// What Read answers for binary content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryPolicy {
    /// A marker without content.
    Reject,
    /// The bytes in base64.
    Base64,
}

/// What a change does to a file that has several hard links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HardLinks {
    /// Refuses.
    Refuse,
    /// Replaces this name; the other names keep the old content.
    Break,
    /// Writes into the shared file: not atomic, every name sees it.
    InPlace,
}

/// How far a change is pushed towards the disk before the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Temporary file and rename: survives any death of the process.
    Off,
    /// The content is synced before the rename.
    Data,
    /// The content and the directory are synced: survives power loss.
    Full,
}

/// Settings of the file and search tools. Dialects give the defaults, configuration the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSettings {
    /// Where searches start when no path is given; `None` is the working directory.
    pub workspace_root: Option<PathBuf>,
    /// Absolute path globs that file tools may touch; empty allows all beneath the roots.
    pub allow_paths: Vec<String>,
    /// Absolute path globs that file tools may not touch; stronger than `allow_paths`.
    pub deny_paths: Vec<String>,
    /// Whether reads are remembered, and changes of what changed since are refused.
    pub track_reads: bool,
    /// Whether a file that is there must be read before it is changed.
    pub must_read_before_write: bool,
    /// Whether what is there is kept before each change, where there is a place for it.
    pub checkpoint_before_mutation: bool,
    /// Whether each change must be approved, whatever the rules say.
    pub require_approval: bool,
    /// Read answers `too_large` for files above this many bytes; `None` windows any size.
    pub max_read_bytes: Option<u64>,
    /// The most bytes of text that one Read returns.
    pub read_reply_bytes: usize,
    /// What Read answers for binary content.
    pub binary_policy: BinaryPolicy,
    /// Whether searches heed ignore files.
    pub respect_gitignore: bool,
    /// How far changes are pushed towards the disk.
    pub sync: Sync,
    /// What a change does to a file that has several hard links.
    pub hard_links: HardLinks,
    /// The most paths that Glob returns.
    pub glob_limit: usize,
    /// The default of Grep's `head_limit`.
    pub grep_limit: usize,
    /// The most entries that List returns.
    pub list_limit: usize,
    /// When a search stops and returns what it has, in milliseconds.
    pub search_timeout_ms: u64,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self {
            workspace_root: None,
            allow_paths: Vec::new(),
            deny_paths: Vec::new(),
            track_reads: false,
            must_read_before_write: false,
            checkpoint_before_mutation: true,
            require_approval: false,
            max_read_bytes: None,
            read_reply_bytes: 256 * 1024,
            binary_policy: BinaryPolicy::Reject,
            respect_gitignore: true,
            sync: Sync::Off,
            hard_links: HardLinks::Refuse,
            glob_limit: 100,
            grep_limit: 250,
            list_limit: 1_000,
            search_timeout_ms: 20_000,
        }
    }
}
