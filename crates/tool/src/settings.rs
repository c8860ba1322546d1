//! Resolved settings of the file and search tools, without missing values.

use std::path::PathBuf;

/// The reply of Read to binary content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryPolicy {
    /// A marker without content.
    Reject,
    /// The bytes in base64.
    Base64,
}

/// The handling of a file with several hard links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HardLinks {
    /// Refuses.
    Refuse,
    /// Replaces this name; the other names keep the old content.
    Break,
    /// Writes into the shared file: not atomic, every name sees it.
    InPlace,
}

/// What becomes of a path outside the roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutsidePaths {
    /// The call asks; files of the system's programs and of toolchains are read unasked.
    Ask,
    /// The call is denied.
    Deny,
}

/// The durability of a change before the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Temporary file and rename: survives the death of the process.
    Off,
    /// The content is synced before the rename.
    Data,
    /// The content and the directory are synced: survives power loss.
    Full,
}

/// Settings of the file and search tools: dialect defaults, then configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSettings {
    /// The default start of searches; `None` is the working directory.
    pub workspace_root: Option<PathBuf>,
    /// Absolute path globs that file tools may access; empty allows all in the roots.
    pub allow_paths: Vec<String>,
    /// Absolute path globs that file tools may not access; stronger than `allow_paths`.
    pub deny_paths: Vec<String>,
    /// What becomes of paths outside the roots, where commands have settings.
    pub outside: OutsidePaths,
    /// Whether reads are remembered, so that a change of a stale file is refused.
    pub track_reads: bool,
    /// Whether an existing file must be read before a change.
    pub must_read_before_write: bool,
    /// Whether a checkpoint precedes each change, if a store exists.
    pub checkpoint_before_mutation: bool,
    /// Whether each change needs approval, whatever the rules say.
    pub require_approval: bool,
    /// The largest file for Read in bytes; above it the error is `too_large`. `None` has no limit.
    pub max_read_bytes: Option<u64>,
    /// The most bytes of text that one Read returns.
    pub read_reply_bytes: usize,
    /// The reply of Read to binary content.
    pub binary_policy: BinaryPolicy,
    /// Whether searches respect ignore files.
    pub respect_gitignore: bool,
    /// The durability of changes.
    pub sync: Sync,
    /// The handling of a file with several hard links.
    pub hard_links: HardLinks,
    /// The most paths that Glob returns.
    pub glob_limit: usize,
    /// The default of Grep's `head_limit`.
    pub grep_limit: usize,
    /// The most entries that List returns.
    pub list_limit: usize,
    /// The time limit of a search in milliseconds; partial results are returned.
    pub search_timeout_ms: u64,
    /// The largest memory file in bytes, to read and to write.
    pub max_memory_bytes: u64,
    /// The time limit of a command that names none, in seconds, where the dialect has a setting for it.
    pub command_timeout_s: Option<i64>,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self {
            workspace_root: None,
            allow_paths: Vec::new(),
            deny_paths: Vec::new(),
            outside: OutsidePaths::Ask,
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
            max_memory_bytes: 1 << 20,
            command_timeout_s: None,
        }
    }
}
