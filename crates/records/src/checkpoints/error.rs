//! Why a checkpoint was not made, or cannot be used.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sinew_tool::{FileError, Kind, ToolError};

use super::CheckpointId;
use crate::database::Failed;

/// How changes run without checkpoints, for hints.
const OFF: &str = "`tools.fs.checkpoint_before_mutation = false` changes files without checkpoints";

/// Why a checkpoint was not made, or cannot be used.
#[derive(Debug)]
pub enum CheckpointError {
    /// The file changed while it was kept.
    Changed(PathBuf),
    /// The file could not be read.
    Unreadable(PathBuf, io::Error),
    /// No file, link or directory is there, so nothing can be kept.
    Special(PathBuf),
    /// The file is larger than one that is kept.
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The largest size that is kept.
        max: u64,
    },
    /// The files of one call are together more than all checkpoints may be.
    TooMuch {
        /// The most bytes that checkpoints may be.
        max: u64,
    },
    /// The path is not UTF-8, so no restore can name it.
    Unnameable(PathBuf),
    /// The directory holds more names than one checkpoint keeps.
    TooMany {
        /// The directory.
        path: PathBuf,
        /// The most names.
        max: usize,
    },
    /// There is no space left where checkpoints are kept.
    Full(String),
    /// Another process holds the checkpoints. Nothing happened, and it can be asked again.
    Busy,
    /// The checkpoints cannot be read or written.
    Unusable(String),
    /// There is no checkpoint with this id.
    Unknown(CheckpointId),
    /// The checkpoint is not there, or its caller counted no turns.
    NoTurn(CheckpointId),
    /// The kept content of this path is not there any more.
    Lost(PathBuf),
    /// The kept content of this path is not what was kept.
    Corrupt(PathBuf),
    /// The content of this path was not kept, because it was too large.
    NotKept(PathBuf),
}

impl CheckpointError {
    /// Returns the error for one of the system about the place where checkpoints are kept.
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

    /// Returns the parts where one content is missing.
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

/// What can be done where one content is missing.
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
