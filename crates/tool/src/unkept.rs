//! Changes of a running command that undo cannot keep: the command waits while an approver is asked.

use std::fmt;
use std::path::PathBuf;

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

/// Whether a command may change what undo cannot keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnkeptAnswer {
    /// It may, until it ends.
    Yes,
    /// An approver said no, perhaps with words for the model.
    No(Option<String>),
    /// No approver answered in time.
    TimedOut,
    /// No approver could be asked, or the question was taken back.
    Unanswered,
}

/// Asks about changes of a running command that undo cannot keep.
pub trait AsksUnkept: fmt::Debug + Send + Sync {
    /// Asks, and returns before the answer is there; `answered` gets it on any thread. Dropping `answered` means that the
    /// question got no answer. Dropping what is returned takes the question back.
    fn ask(
        &self,
        change: UnkeptChange,
        answered: Box<dyn FnOnce(UnkeptAnswer) + Send>,
    ) -> Box<dyn Send>;
}
