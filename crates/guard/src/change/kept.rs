//! The checkpoint of one call, filled by its changes.
//!
//! It begins with the first change and ends with the World of the call. Each change records the content at its path and
//! the state that it will leave; the records are durable before the change happens; then the change reports its result.
//! A retried change records again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use sinew_tool::Caller;

use super::Failure;
use super::original::{Content, Original};
use sinew_fs::roots::Roots;
use sinew_fs::stat::meta_of;
use sinew_records::checkpoints::{
    Before, CallContext, CheckpointDraft, CheckpointError, Checkpoints, PathState, QUICK,
};
use sinew_tool::sync::lock;

/// The checkpoint of one call; none where checkpoints are off or nobody is known to call.
#[derive(Debug)]
pub(crate) struct CallCheckpoint(Option<KeptPaths>);

#[derive(Debug)]
struct KeptPaths {
    checkpoints: Arc<Checkpoints>,
    caller: Arc<Caller>,
    roots: Arc<Roots>,
    draft: Mutex<Option<CheckpointDraft>>,
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Changed(_) => Self::Raced,
            other => Self::Error(other.into()),
        }
    }
}

impl CallCheckpoint {
    /// Returns the checkpoint of a call that changed nothing so far.
    pub(crate) fn new(
        checkpoints: Option<Arc<Checkpoints>>,
        caller: Option<Arc<Caller>>,
        roots: &Arc<Roots>,
    ) -> Self {
        let both = checkpoints.zip(caller);
        Self(both.map(|(checkpoints, caller)| KeptPaths {
            checkpoints,
            caller,
            roots: Arc::clone(roots),
            draft: Mutex::new(None),
        }))
    }

    /// Returns whether changes are kept.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    fn with<T>(
        &self,
        deed: impl FnOnce(&mut CheckpointDraft) -> Result<T, CheckpointError>,
    ) -> Result<Option<T>, CheckpointError> {
        let Some(kept) = &self.0 else { return Ok(None) };
        let mut draft = kept.draft();
        deed(draft.get_or_insert_with(|| kept.checkpoints.begin(kept.mark()))).map(Some)
    }

    /// Keeps what is at a path, which the change is to leave in this state. Returns what it is, where
    /// changes are kept.
    pub(crate) fn keep(
        &self,
        path: &Path,
        old: Option<&Original>,
        after: PathState,
    ) -> Result<Option<PathState>, CheckpointError> {
        self.with(|draft| {
            let meta = old.map(|old| meta_of(&old.stat));
            let before = match (old.map(|old| &old.content), &meta) {
                (Some(Content::File(file)), Some(meta)) => Before::File(file, meta),
                (Some(Content::Link(target)), _) => Before::Link(path_of(target)),
                _ => Before::Absent,
            };
            draft.keep(path, before, Some(after))
        })
    }

    /// Keeps that nothing is where directories are to be made.
    pub(crate) fn keep_missing<'a>(
        &self,
        paths: impl Iterator<Item = &'a Path>,
    ) -> Result<(), CheckpointError> {
        self.with(|draft| {
            for path in paths {
                draft.keep(path, Before::Absent, Some(PathState::directory(0o777)))?;
            }
            Ok(())
        })
        .map(drop)
    }

    /// Keeps that a directory of this mode is where none is to be left.
    pub(crate) fn keep_directory(&self, path: &Path, mode: u32) -> Result<(), CheckpointError> {
        self.with(|draft| draft.keep(path, Before::Directory(mode), Some(PathState::Absent)))
            .map(drop)
    }

    /// Puts on record what was kept. Changes may happen after it and not before.
    pub(crate) fn record(&self) -> Result<(), CheckpointError> {
        self.with(|draft| draft.record(QUICK)).map(drop)
    }

    /// Says that the change of a path happened, and what it left.
    pub(crate) fn settle(&self, path: &Path, after: PathState) {
        self.if_begun(|draft| draft.settle(path, after));
    }

    /// Says that the change of a path did not happen.
    pub(crate) fn withdraw(&self, path: &Path) {
        self.if_begun(|draft| draft.withdraw(path));
    }

    fn if_begun(&self, deed: impl FnOnce(&mut CheckpointDraft)) {
        if let Some(kept) = &self.0
            && let Some(draft) = kept.draft().as_mut()
        {
            deed(draft);
        }
    }

    /// Returns the id of the checkpoint, where anything in it happened or may have happened.
    pub(crate) fn id(&self) -> Option<String> {
        let draft = self.0.as_ref()?.draft();
        let draft = draft.as_ref().filter(|draft| draft.holds_changes())?;
        draft.id().map(|id| id.to_string())
    }
}

impl KeptPaths {
    fn draft(&self) -> MutexGuard<'_, Option<CheckpointDraft>> {
        lock(&self.draft)
    }

    fn mark(&self) -> CallContext {
        let caller = &self.caller;
        CallContext {
            session: caller.session.clone(),
            agent: caller.agent.clone(),
            turn: caller.turn.clone(),
            call_id: caller.call_id.clone(),
            dialect: caller.dialect.clone().into_owned(),
            tool: caller.tool.clone(),
            roots: self.roots.paths().map(Path::to_owned).collect(),
        }
    }
}

/// Returns the path that bytes are.
pub(crate) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
