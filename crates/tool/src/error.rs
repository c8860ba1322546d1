//! Errors of calls, by kind.

use std::borrow::Cow;
use std::fmt;

crate::word_enum! {
    /// The closed list of error kinds for programs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Kind {
        /// No tool of that name.
        NotFound = "not_found",
        /// Arguments that do not fit the tool.
        InvalidArgs = "invalid_args",
        /// A missing file or directory, or a dangling symlink.
        FileNotFound = "file_not_found",
        /// An invalid path: NUL, too long, a symlink loop.
        InvalidPath = "invalid_path",
        /// A path outside the roots, or one that a rule denies.
        PathDenied = "path_denied",
        /// The operating system refused.
        PermissionDenied = "permission_denied",
        /// A rule denied the call.
        PolicyDenied = "policy_denied",
        /// A person denied the call, or no approver exists.
        ApprovalDenied = "approval_denied",
        /// No answer came in time.
        ApprovalTimeout = "approval_timeout",
        /// A hook stopped the call.
        BlockedByHook = "blocked_by_hook",
        /// A directory, FIFO, socket or device where a file is needed, or a file for a directory.
        NotRegularFile = "not_regular_file",
        /// Content that is not text.
        Binary = "binary",
        /// More bytes than the limit.
        TooLarge = "too_large",
        /// The text to replace does not occur in the file.
        NoMatch = "no_match",
        /// The text to replace occurs more than once.
        NotUnique = "not_unique",
        /// The file must be read before it is changed.
        MustReadFirst = "must_read_first",
        /// The file changed since it was read.
        Stale = "stale",
        /// The time ran out.
        Timeout = "timeout",
        /// The caller cancelled the call.
        Cancelled = "cancelled",
        /// A count, size or rate limit was reached.
        LimitReached = "limit_reached",
        /// A feature is missing on this machine or in this build.
        Unavailable = "unavailable",
        /// Any other failure.
        ExecutionFailed = "execution_failed",
    }
}

impl Kind {
    /// Returns the CLI exit code: 3 for a denial, 2 for invalid input, else 1.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::PathDenied
            | Self::PolicyDenied
            | Self::ApprovalDenied
            | Self::ApprovalTimeout
            | Self::BlockedByHook => 3,
            Self::NotFound | Self::InvalidArgs => 2,
            _ => 1,
        }
    }
}

/// An error: kind for programs, message and hint for the model, source for the log.
/// Paths outside the workspace, secrets and internal addresses appear only in `source`.
#[derive(Debug)]
pub struct ToolError {
    /// For programs.
    pub kind: Kind,
    /// For the model: lower case, no final period.
    pub message: Cow<'static, str>,
    /// The next step to try, if known.
    pub hint: Option<Cow<'static, str>>,
    /// For the log alone.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ToolError {
    /// Returns an error of a kind with a message.
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    /// Returns the error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the error with its cause for the log.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns an `invalid_args` error about one argument.
    pub fn argument(name: &str, problem: impl fmt::Display) -> Self {
        Self::new(Kind::InvalidArgs, format!("argument `{name}` {problem}"))
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
