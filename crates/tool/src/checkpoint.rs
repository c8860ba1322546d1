//! What was there before changes, and what a call wants to have back.
//!
//! The paths of a restore are known to the index alone, so a call names a checkpoint, and the guard
//! makes claims of its paths: they are contained, judged, shown and recorded like the paths of any
//! other change. What the operation then does it reads from the [`RestorePlan`].

use std::path::{Path, PathBuf};

use crate::{Kind, Slot, ToolError};

/// What a call wants to have as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// The wire name of the argument that names the checkpoint, for messages.
    pub argument: &'static str,
    /// The checkpoint, by id.
    pub id: String,
    /// Whether the paths of this checkpoint alone are meant, and not those of all later ones of its
    /// session too.
    pub only: bool,
    /// Whether it begins with the first checkpoint of the same turn.
    pub turn: bool,
    /// The file or directory that alone is meant.
    pub path: Option<String>,
    /// Whether it is done where somebody else changed a path since.
    pub force: bool,
    /// Whether nothing is to be changed.
    pub looks: bool,
    /// The operations that each act of a restore stands for: a rule that stops one of them stops the act.
    pub operations: &'static [(RestoreAct, &'static [&'static str])],
}

/// What was or is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Was {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// The hash of its content, in hex.
        content: String,
        /// Bytes of its content.
        size: u64,
        /// Permission bits.
        mode: u32,
    },
    /// A regular file whose content was too large to be kept.
    Unkept,
    /// A symbolic link to this path.
    Link(PathBuf),
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A FIFO, socket or device.
    Special,
}

/// What a step of a restore does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreAct {
    /// Removes a file or a link.
    Remove,
    /// Removes a directory if nothing is in it.
    RemoveDirectory,
    /// Makes a directory.
    MakeDirectory,
    /// Writes a file, with its mode.
    Write,
    /// Makes a symbolic link.
    MakeLink,
    /// Nothing: it is as it was.
    Nothing,
}

/// What stands against a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreConflict {
    /// Why, as the end of a sentence.
    pub why: String,
    /// Whether force helps.
    pub can_be_forced: bool,
}

/// One step of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreStep {
    /// The target, where the call may reach the path.
    pub slot: Option<Slot>,
    /// The real path.
    pub path: PathBuf,
    /// What is done.
    pub act: RestoreAct,
    /// What is there now.
    pub now: Was,
    /// What is there after the restore.
    pub wanted: Was,
    /// What stands against it.
    pub conflict: Option<RestoreConflict>,
}

/// What a restore does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestorePlan {
    /// The checkpoint.
    pub id: String,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: u64,
    /// The wire name of the tool that it was made for.
    pub tool: String,
    /// The session whose changes are undone.
    pub session: String,
    /// The checkpoints that are undone, the oldest first.
    pub undone: Vec<String>,
    /// What the call of the checkpoint did, by path.
    pub changes: Vec<PathChange>,
    /// What is done, in order.
    pub steps: Vec<RestoreStep>,
}

impl RestorePlan {
    /// Returns the steps that stand against the restore, where it is forced or not.
    pub fn refused(&self, forced: bool) -> impl Iterator<Item = (&RestoreStep, &RestoreConflict)> {
        self.steps.iter().filter_map(move |step| {
            let conflict = step.conflict.as_ref()?;
            (!(forced && conflict.can_be_forced)).then_some((step, conflict))
        })
    }

    /// Returns the steps that do something.
    pub fn acting(&self) -> impl Iterator<Item = &RestoreStep> {
        self.steps.iter().filter(|step| step.act != RestoreAct::Nothing)
    }
}

/// What a call did to one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// The real path.
    pub path: PathBuf,
    /// What was there before.
    pub before: Was,
    /// What the call left, or was to leave; `None` where nobody said.
    pub after: Option<Was>,
    /// Whether the change is known to have happened. Where it is not, the call is under way or its
    /// process died.
    pub settled: bool,
}

/// Which checkpoints are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointQuery {
    /// Those of this session, or of all.
    pub session: Option<String>,
    /// Those of this turn, or of all.
    pub turn: Option<String>,
    /// Those that changed this real path or what is beneath it, or all.
    pub path: Option<PathBuf>,
    /// The most that are listed.
    pub limit: usize,
}

/// A checkpoint in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Its id.
    pub id: String,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: u64,
    /// The session of its call.
    pub session: String,
    /// The agent, where there are several.
    pub agent: Option<String>,
    /// The turn of the conversation, where the caller counted turns.
    pub turn: Option<String>,
    /// The call.
    pub call_id: String,
    /// The dialect whose name was used.
    pub dialect: String,
    /// The wire name of the tool.
    pub tool: String,
    /// What the call did to each path that this caller may see.
    pub changes: Vec<PathChange>,
}

/// The checkpoints that a call may see.
pub trait Checkpoints: Send + Sync {
    /// Lists checkpoints, the newest first. Paths that the caller may not touch are left out.
    fn list(&self, query: &CheckpointQuery) -> Result<Vec<CheckpointInfo>, ToolError>;

    /// Returns what the call restores, where it names a checkpoint.
    fn plan(&self) -> Option<&RestorePlan>;

    /// Reads the kept content of a file that the plan names.
    fn content(&self, path: &Path, was: &Was) -> Result<Vec<u8>, ToolError>;
}

/// The checkpoints of a World that has none.
#[derive(Debug)]
pub struct NoCheckpoints;

impl NoCheckpoints {
    /// Returns the error of a call that needs checkpoints where there are none.
    pub fn error() -> ToolError {
        ToolError::new(Kind::Unavailable, "no checkpoints are kept here")
            .hint("they need a state directory; `sinew doctor` says what is missing")
    }
}

impl Checkpoints for NoCheckpoints {
    fn list(&self, _query: &CheckpointQuery) -> Result<Vec<CheckpointInfo>, ToolError> {
        Err(Self::error())
    }

    fn plan(&self) -> Option<&RestorePlan> {
        None
    }

    fn content(&self, _path: &Path, _was: &Was) -> Result<Vec<u8>, ToolError> {
        Err(Self::error())
    }
}
