//! The interface between commands and the records that make checkpoints of them.
//!
//! The supervisor of a command writes an [undo log](sinew_fs::undo_log) and before-images; see
//! `notify_handler/before_images.rs`. When the command has ended, its log becomes a checkpoint.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sinew_tool::{Caller, CommandChanges};

/// Keeps the changes of commands.
pub trait KeepsChanges: fmt::Debug + Send + Sync {
    /// Opens the directory that holds those of all commands.
    fn directory(&self) -> io::Result<OwnedFd>;

    /// Returns whether a command would wait for the checkpoint of an earlier one.
    fn is_busy(&self) -> bool;

    /// Begins to keep what a command changes in these roots, and in directories beside them.
    fn begin(
        &self,
        caller: &Caller,
        roots: &[PathBuf],
        beside: Vec<PathBuf>,
    ) -> io::Result<Box<dyn CommandUndo>>;
}

/// The changes of one command.
pub trait CommandUndo: fmt::Debug + Send {
    /// Returns the directory for before-images, and the undo log.
    fn handles(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>);

    /// Returns how many bytes of old contents can be kept.
    fn room(&self) -> u64;

    /// Returns what takes note of directories that the command may change besides those known at its beginning.
    fn adds_dirs(&self) -> Arc<dyn AddsDirs>;

    /// Returns whether nothing was changed so far.
    fn is_unchanged(&self) -> bool;

    /// Makes the checkpoint, once the command has ended; says whether its log has all that it changed.
    fn end(self: Box<Self>, has_all: bool) -> CommandChanges;
}

/// Takes note of directories that a running command may change.
pub trait AddsDirs: fmt::Debug + Send + Sync {
    /// Adds one. A checkpoint has changes there from now on, also if this process dies.
    fn add(&self, dir: &Path) -> io::Result<()>;
}
