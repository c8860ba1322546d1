//! Checkpoints of files before changes, and the restore of a checkpoint.
//!
//! A call names a checkpoint; only the index knows its paths. The guard turns them into claims, which are
//! contained, judged, shown and recorded like any change. The operation then runs the [`RestorePlan`].

use std::path::{Path, PathBuf};

use crate::{Kind, Slot, ToolError};

/// The request of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// The wire name of the argument that chooses the checkpoint, for messages.
    pub argument: &'static str,
    /// The checkpoint.
    pub choice: RestoreChoice,
    /// Whether it restores this checkpoint alone, without the later ones of its session.
    pub only: bool,
    /// Whether it starts at the first checkpoint of the same turn.
    pub turn: bool,
    /// The only file or directory to restore.
    pub path: Option<String>,
    /// Whether it overwrites later changes by others.
    pub force: bool,
    /// Whether it is a dry run.
    pub looks: bool,
    /// Whether refused paths are left as they are and the others restored.
    pub partial: bool,
    /// The operations behind each act: a rule that denies one of them denies the act.
    pub operations: &'static [(RestoreAct, &'static [&'static str])],
    /// The operations that change memory files: a rule that denies one of them denies each act there.
    pub of_memory: &'static [&'static str],
}

/// Which checkpoint a restore restores the state before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreChoice {
    /// The one with this ID.
    Id(String),
    /// The one of the last changes in force of the caller's session, or of the last undos.
    Last {
        /// How many are taken back.
        n: usize,
        /// Whether undos are taken back.
        redo: bool,
    },
}

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Was {
    /// Absent.
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
    /// A regular file too large to be stored.
    Unkept,
    /// A symlink with this target.
    Link(PathBuf),
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A FIFO, socket or device.
    Special,
    /// A directory that tools make anew, whose content is not kept.
    Rebuilt,
    /// Nothing: a restore moved such a directory to this path.
    SetAside(PathBuf),
}

/// The act of one restore step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreAct {
    /// Moves a directory that tools make anew out of the way.
    SetAside,
    /// Moves it back.
    BringBack,
    /// Removes a file or symlink.
    Remove,
    /// Removes an empty directory.
    RemoveDirectory,
    /// Creates a directory.
    MakeDirectory,
    /// Writes a file, with its mode.
    Write,
    /// Creates a symlink.
    MakeLink,
    /// No change is needed.
    Nothing,
}

/// A conflict of a restore step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreConflict {
    /// The reason, as the end of a sentence.
    pub why: String,
    /// Whether `force` overrides it.
    pub can_be_forced: bool,
}

/// One step of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreStep {
    /// The target, if the call may reach the path.
    pub slot: Option<Slot>,
    /// The real path.
    pub path: PathBuf,
    /// The act.
    pub act: RestoreAct,
    /// The current state.
    pub now: Was,
    /// The state after the restore.
    pub wanted: Was,
    /// The conflict, if any.
    pub conflict: Option<RestoreConflict>,
    /// The command that makes a directory anew that is set aside, if known.
    pub rebuild: Option<&'static str>,
}

/// The steps of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestorePlan {
    /// The checkpoint.
    pub id: String,
    /// Its creation time, in milliseconds since 1970.
    pub at_ms: u64,
    /// The wire name of the tool that changed the files.
    pub tool: String,
    /// The session whose changes are undone.
    pub session: String,
    /// The undone checkpoints, oldest first.
    pub undone: Vec<String>,
    /// The changes of the checkpoint's call, by path.
    pub changes: Vec<PathChange>,
    /// The steps in order.
    pub steps: Vec<RestoreStep>,
    /// The paths that a partial restore leaves as they are.
    pub left: Vec<LeftPath>,
}

/// A path that a partial restore leaves as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftPath {
    /// The real path.
    pub path: PathBuf,
    /// The reason, as the end of a sentence.
    pub why: String,
}

impl RestorePlan {
    /// Returns the steps whose conflict stops the restore, with or without force.
    pub fn refused(&self, forced: bool) -> impl Iterator<Item = (&RestoreStep, &RestoreConflict)> {
        self.steps.iter().filter_map(move |step| {
            let conflict = step.conflict.as_ref()?;
            (!(forced && conflict.can_be_forced)).then_some((step, conflict))
        })
    }

    /// Leaves refused paths as they are, with the paths beneath them; a directory that holds a left path is not
    /// replaced. The files of a repository's `.git` stay together.
    pub fn leave_refused(&mut self, forced: bool) {
        let refused = self.refused(forced);
        let refused: Vec<(PathBuf, String)> = refused
            .map(|(step, conflict)| (unit(&step.path).to_owned(), conflict.why.clone()))
            .collect();
        for (path, why) in refused {
            self.leave(&path, &why);
        }
        let replaced = self
            .steps
            .iter()
            .filter(|step| step.act == RestoreAct::RemoveDirectory && step.wanted != Was::Absent);
        let holds =
            |step: &&RestoreStep| self.left.iter().any(|left| left.path.starts_with(&step.path));
        let replaced: Vec<PathBuf> = replaced.filter(holds).map(|step| step.path.clone()).collect();
        for path in replaced {
            self.leave(&path, "it holds what stays as it is");
        }
        self.left.sort_by(|one, other| one.path.cmp(&other.path));
    }

    /// Leaves a path as it is, with the paths beneath it.
    pub fn leave(&mut self, path: &Path, why: &str) {
        if self.left.iter().all(|left| left.path != path) {
            self.left.push(LeftPath { path: path.to_owned(), why: why.to_owned() });
        }
        self.steps.retain(|step| !step.path.starts_with(path));
    }

    /// Returns the steps that change something.
    pub fn acting(&self) -> impl Iterator<Item = &RestoreStep> {
        self.steps.iter().filter(|step| step.act != RestoreAct::Nothing)
    }
}

/// Returns what a path changes with: the `.git` that it is in, else itself.
fn unit(path: &Path) -> &Path {
    path.ancestors()
        .find(|path| path.file_name().is_some_and(|name| name == ".git"))
        .unwrap_or(path)
}

/// The change of one path by a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// The real path.
    pub path: PathBuf,
    /// The state before.
    pub before: Was,
    /// The actual or intended state after; `None` if unknown.
    pub after: Option<Was>,
    /// Whether the change is known to have happened; otherwise the call is running or its process died.
    pub settled: bool,
}

/// The filter of a checkpoint list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointQuery {
    /// Only this session, or all.
    pub session: Option<String>,
    /// Only this turn, or all.
    pub turn: Option<String>,
    /// Only changes of this real path or beneath it, or all.
    pub path: Option<PathBuf>,
    /// The longest list.
    pub limit: usize,
}

/// A checkpoint in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Its id.
    pub id: String,
    /// Its creation time, in milliseconds since 1970.
    pub at_ms: u64,
    /// The session of its call.
    pub session: String,
    /// The agent, if there are several.
    pub agent: Option<String>,
    /// The turn of the conversation, if the caller counted turns.
    pub turn: Option<String>,
    /// The call.
    pub call_id: String,
    /// The dialect of the call.
    pub dialect: String,
    /// The wire name of the tool.
    pub tool: String,
    /// The changes to paths that this caller may see.
    pub changes: Vec<PathChange>,
}

/// The checkpoints that a call may see.
pub trait Checkpoints: Send + Sync {
    /// Lists checkpoints, newest first, without paths that the caller may not touch.
    fn list(&self, query: &CheckpointQuery) -> Result<Vec<CheckpointInfo>, ToolError>;

    /// Returns the plan of the restore that the call requests.
    fn plan(&self) -> Option<&RestorePlan>;

    /// Reads the stored content of a file in the plan.
    fn content(&self, path: &Path, was: &Was) -> Result<Vec<u8>, ToolError>;
}

/// The `Checkpoints` of a World without any.
#[derive(Debug)]
pub struct NoCheckpoints;

impl NoCheckpoints {
    /// Returns the error for a call that needs checkpoints.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step(path: &str, act: RestoreAct, wanted: Was, why: Option<&str>) -> RestoreStep {
        let conflict = why.map(|why| RestoreConflict { why: why.to_owned(), can_be_forced: true });
        RestoreStep {
            slot: None,
            path: PathBuf::from(path),
            act,
            now: Was::Absent,
            wanted,
            conflict,
            rebuild: None,
        }
    }

    #[test]
    fn refused_paths_are_left_with_what_depends_on_them() {
        use RestoreAct::{MakeDirectory, Remove, RemoveDirectory, Write};
        let directory = || Was::Directory { mode: 0o755 };
        let check = |steps: Vec<RestoreStep>, forced: bool, left: &[&str], done: &[&str]| {
            let mut plan = RestorePlan {
                id: String::from("c1"),
                at_ms: 0,
                tool: String::new(),
                session: String::new(),
                undone: Vec::new(),
                changes: Vec::new(),
                steps,
                left: Vec::new(),
            };
            plan.leave_refused(forced);
            let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
            let names: Vec<PathBuf> = plan.left.iter().map(|left| left.path.clone()).collect();
            assert_eq!(names, paths(left));
            let names: Vec<PathBuf> = plan.acting().map(|step| step.path.clone()).collect();
            assert_eq!(names, paths(done));
        };
        let files = || {
            vec![
                step("/p/a", Write, Was::Unkept, Some("others changed it")),
                step("/p/b", Write, Was::Unkept, None),
            ]
        };
        check(files(), false, &["/p/a"], &["/p/b"]);
        check(files(), true, &[], &["/p/a", "/p/b"]);
        // A file cannot come back beneath a path that stays.
        let beneath = vec![
            step("/p/d", MakeDirectory, directory(), Some("others changed it")),
            step("/p/d/a", Write, Was::Unkept, None),
            step("/p/da", Write, Was::Unkept, None),
        ];
        check(beneath, false, &["/p/d"], &["/p/da"]);
        // A directory that holds what stays makes no room for a file.
        let within = |wanted| {
            vec![
                step("/p/d/a", Remove, Was::Absent, Some("others changed it")),
                step("/p/d", RemoveDirectory, wanted, None),
            ]
        };
        check(within(Was::Unkept), false, &["/p/d", "/p/d/a"], &[]);
        check(within(Was::Absent), false, &["/p/d/a"], &["/p/d"]);
        let repository = vec![
            step("/p/.git/refs/heads/a", Write, Was::Unkept, Some("others changed it")),
            step("/p/.git/index", Write, Was::Unkept, None),
            step("/p/.gitignore", Write, Was::Unkept, None),
        ];
        check(repository, false, &["/p/.git"], &["/p/.gitignore"]);
    }
}
