//! Errors of making and using checkpoints.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sinew_tool::{FileError, Kind, ToolError};

use super::CheckpointId;
use crate::database::Failed;

/// The hint how to change files without checkpoints.
const OFF: &str = "`tools.fs.checkpoint_before_mutation = false` changes files without checkpoints";

/// Why a checkpoint was not made, or cannot be used.
#[derive(Debug)]
pub enum CheckpointError {
    /// The file changed while its content was kept.
    Changed(PathBuf),
    /// The file could not be read.
    Unreadable(PathBuf, io::Error),
    /// The path is no regular file, symlink or directory, so it cannot be kept.
    Special(PathBuf),
    /// The file exceeds the limit for one file.
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The files of one call exceed the limit of all checkpoints.
    TooMuch {
        /// The limit in bytes.
        max: u64,
    },
    /// The path is not UTF-8, so no restore can name it.
    Unnameable(PathBuf),
    /// The directory holds too many names for one checkpoint.
    TooMany {
        /// The directory.
        path: PathBuf,
        /// The limit.
        max: usize,
    },
    /// The disk of the checkpoints is full.
    Full(String),
    /// Another process holds the checkpoints. Nothing happened; the caller may retry.
    Busy,
    /// The checkpoints cannot be read or written.
    Unusable(String),
    /// There is no checkpoint with this id.
    Unknown(CheckpointId),
    /// The checkpoint does not exist, or its call had no turn.
    NoTurn(CheckpointId),
    /// The kept content of this path is missing.
    Lost(PathBuf),
    /// The kept content of this path does not match its hash.
    Corrupt(PathBuf),
    /// The content of this path was too large to keep.
    NotKept(PathBuf),
}

impl CheckpointError {
    /// Returns the error for an errno of the content store.
    pub(super) fn of_store(errno: Errno) -> Self {
        match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Self::Full(errno.to_string()),
            other => Self::Unusable(other.to_string()),
        }
    }

    fn parts(&self) -> (Kind, String, Option<String>) {
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        match self {
            Self::Changed(path) => (
                Kind::Stale,
                format!("the file changed while its checkpoint was made: {}", shown(path)),
                Some(String::from("read it again and repeat the call")),
            ),
            Self::Unreadable(path, _) => (
                Kind::ExecutionFailed,
                format!("the file cannot be kept for an undo, so it stays: {}", shown(path)),
                Some(format!("the user who runs sinew must be able to read it; {OFF}")),
            ),
            Self::Special(path) => (
                Kind::NotRegularFile,
                format!("a FIFO, socket or device cannot be kept for an undo: {}", shown(path)),
                Some(OFF.to_owned()),
            ),
            Self::TooLarge { path, size, max } => (
                Kind::LimitReached,
                format!(
                    "the file has {size} bytes, and a checkpoint keeps at most {max} of a file, so \
                     it stays: {}",
                    shown(path)
                ),
                Some(format!("raise `checkpoints.max_file_bytes`; {OFF}")),
            ),
            Self::TooMuch { max } => (
                Kind::LimitReached,
                format!(
                    "the files of this call are more than the {max} bytes that checkpoints keep, \
                     so they stay"
                ),
                Some(format!("change fewer at once, or raise `checkpoints.max_bytes`; {OFF}")),
            ),
            Self::Unnameable(path) => (
                Kind::InvalidPath,
                format!("a path that is not UTF-8 cannot be kept for an undo: {}", shown(path)),
                Some(OFF.to_owned()),
            ),
            Self::TooMany { path, max } => (
                Kind::LimitReached,
                format!(
                    "the directory holds more than the {max} names that a checkpoint keeps, so it \
                     stays: {}",
                    shown(path)
                ),
                Some(format!("move what is in it in parts; {OFF}")),
            ),
            Self::Full(_) => (
                Kind::LimitReached,
                String::from("no space is left for a checkpoint, so nothing was changed"),
                Some(format!("make space where sinew keeps its state; {OFF}")),
            ),
            Self::Busy => (
                Kind::Timeout,
                String::from("another process holds the checkpoints, so nothing was changed"),
                Some(String::from("repeat the call; `sinew doctor` looks at the state directory")),
            ),
            Self::Unusable(_) => (
                Kind::Unavailable,
                String::from("checkpoints cannot be read or written, so nothing was changed"),
                Some(format!("run `sinew doctor`; {OFF}")),
            ),
            Self::Unknown(id) => (
                Kind::NotFound,
                format!("no such checkpoint: {id}"),
                Some(String::from("list the checkpoints; the oldest are removed in time")),
            ),
            Self::NoTurn(id) => (
                Kind::NotFound,
                format!("there is no checkpoint {id} that belongs to a turn"),
                Some(String::from("restore it without naming its turn")),
            ),
            Self::Lost(_) | Self::Corrupt(_) | Self::NotKept(_) => self.parts_of_content(),
        }
    }

    /// Returns kind, text and hint for one missing content.
    fn parts_of_content(&self) -> (Kind, String, Option<String>) {
        let (kind, problem, path) = match self {
            Self::Corrupt(path) => {
                (Kind::Unavailable, "the kept content is damaged and is not used", path.as_path())
            }
            Self::NotKept(path) => {
                (Kind::LimitReached, "the content was too large to be kept", path.as_path())
            }
            Self::Lost(path) => (Kind::Unavailable, "the kept content is gone", path.as_path()),
            _ => (Kind::Unavailable, "a kept content is gone", Path::new("")),
        };
        (kind, format!("{problem}: {}", path.to_string_lossy()), Some(OTHERS.to_owned()))
    }
}

/// The hint for one missing content.
const OTHERS: &str = "the other files of the checkpoint can be restored without it";

impl From<Failed> for CheckpointError {
    fn from(failed: Failed) -> Self {
        if failed.busy { Self::Busy } else { Self::Unusable(failed.problem) }
    }
}

impl From<rusqlite::Error> for CheckpointError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Self::Full(error.to_string()),
            _ => Failed::from(error).into(),
        }
    }
}

impl From<CheckpointError> for ToolError {
    fn from(error: CheckpointError) -> Self {
        let (kind, message, hint) = error.parts();
        let mut answer = Self::new(kind, message);
        answer.hint = hint.map(Into::into);
        match error {
            CheckpointError::Full(problem) | CheckpointError::Unusable(problem) => {
                answer.source(problem)
            }
            CheckpointError::Unreadable(_, problem) => answer.source(problem),
            _ => answer,
        }
    }
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, message, _) = self.parts();
        match self {
            Self::Full(problem) | Self::Unusable(problem) => write!(f, "{message}: {problem}"),
            Self::Unreadable(_, problem) => write!(f, "{message}: {problem}"),
            _ => f.write_str(&message),
        }
    }
}

impl std::error::Error for CheckpointError {}

impl From<CheckpointError> for FileError {
    fn from(error: CheckpointError) -> Self {
        Self::Unkept(Box::new(ToolError::from(error)))
    }
}
