//! Questions about a running command: it waits while an approver is asked about a change that undo cannot keep, or about a
//! file outside the roots that it opens for writing.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A change of a running command whose old state undo cannot keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnkeptChange {
    /// The real path of the file or directory.
    pub path: PathBuf,
    /// The size of the content that would be lost, in bytes; `None` if it is unknown.
    pub size: Option<u64>,
    /// Whether the command removes the path.
    pub removes: bool,
    /// Why undo cannot keep it, such as `too large to keep for undo`.
    pub why: &'static str,
}

/// A file outside the roots that a running command opens for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideOpen {
    /// The path, without symlinks as far as the command sees it.
    pub path: PathBuf,
    /// The flags of `open`, as the command gave them.
    pub flags: u32,
    /// The mode of a new file, without the bits of the command's umask.
    pub mode: u32,
}

/// A file outside the roots, opened for a command.
#[derive(Debug)]
pub struct OutsideFile {
    /// The file, opened for writing. It has its old content, also where the command truncates it.
    pub file: OwnedFd,
    /// The file once more, opened for reading; `None` if it is new.
    pub before: Option<OwnedFd>,
}

/// The answer to a question about a running command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MidwayAnswer {
    /// It may, until it ends.
    Yes,
    /// An approver said no, perhaps with words for the model.
    No(Option<String>),
    /// No approver answered in time.
    TimedOut,
    /// No approver could be asked, or the question was taken back.
    Unanswered,
}

/// Whether a running command may open a file outside the roots.
pub enum OutsideAnswer {
    /// It may, by this right.
    Granted(Box<dyn OpensOutside>),
    /// It may not. The answer is no yes.
    Refused(MidwayAnswer),
    /// It cannot be opened.
    Failed(io::Error),
}

/// The right of a running command to open one file outside the roots for writing.
pub trait OpensOutside: Send {
    /// Returns the directory that holds the file.
    fn dir(&self) -> &Path;

    /// Opens the file, or makes it. Fails if it is no longer what was judged.
    fn open(&self) -> io::Result<OutsideFile>;
}

/// Asks about a running command. Each question returns before its answer is there: `answered` gets it on any thread, and
/// dropping `answered` means that there was none. Dropping what is returned takes the question back.
pub trait AsksMidway: fmt::Debug + Send + Sync {
    /// Asks about a change that undo cannot keep.
    fn ask_unkept(
        &self,
        change: UnkeptChange,
        answered: Box<dyn FnOnce(MidwayAnswer) + Send>,
    ) -> Box<dyn Send>;

    /// Asks about a file outside the roots that is opened for writing, unless an earlier answer or a rule settles it; `asking` is
    /// called if an approver is asked, so that the clock of the command stops.
    fn ask_outside(
        &self,
        wanted: OutsideOpen,
        asking: Box<dyn FnOnce() + Send>,
        answered: Box<dyn FnOnce(OutsideAnswer) + Send>,
    ) -> Box<dyn Send>;
}
