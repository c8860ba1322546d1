//! Checkpoint of one call, filled by its changes so that the call can be undone.
//!
//! It begins with the first change and ends with the World of the call. Before a change, the old content and
//! the new state of its path are durably recorded; after it, the result. A retried change records again.

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
    Before, CallContext, CheckpointDraft, CheckpointError, CheckpointId, Checkpoints, PathState,
    QUICK,
};
use sinew_tool::sync::lock;

/// The checkpoint of one call; `None` if checkpoints are off or the caller is unknown.
#[derive(Debug)]
pub(crate) struct CallCheckpoint(Option<KeptPaths>);

#[derive(Debug)]
struct KeptPaths {
    checkpoints: Arc<Checkpoints>,
    caller: Arc<Caller>,
    roots: Arc<Roots>,
    restores: Option<CheckpointId>,
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
    /// Returns an empty checkpoint.
    pub(crate) fn new(
        checkpoints: Option<Arc<Checkpoints>>,
        caller: Option<Arc<Caller>>,
        roots: &Arc<Roots>,
        restores: Option<CheckpointId>,
    ) -> Self {
        let both = checkpoints.zip(caller);
        Self(both.map(|(checkpoints, caller)| KeptPaths {
            checkpoints,
            caller,
            roots: Arc::clone(roots),
            restores,
            draft: Mutex::new(None),
        }))
    }

    /// Returns whether changes are recorded.
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

    /// Records the old state of a path and the state that the change will leave; returns the old one.
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

    /// Records that directories are missing and will be created.
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

    /// Records a directory of this mode that will be removed.
    pub(crate) fn keep_directory(&self, path: &Path, mode: u32) -> Result<(), CheckpointError> {
        self.with(|draft| draft.keep(path, Before::Directory(mode), Some(PathState::Absent)))
            .map(drop)
    }

    /// Records a directory that tools make anew, which moves out of the way.
    pub(crate) fn keep_rebuilt(
        &self,
        path: &Path,
        after: PathState,
    ) -> Result<(), CheckpointError> {
        self.with(|draft| draft.keep(path, Before::Rebuilt, Some(after))).map(drop)
    }

    /// Records a directory that gets another mode.
    pub(crate) fn keep_mode(&self, path: &Path, old: u32, new: u32) -> Result<(), CheckpointError> {
        let after = Some(PathState::directory(new));
        self.with(|draft| draft.keep(path, Before::Directory(old), after)).map(drop)
    }

    /// Makes the records durable. Changes may happen only after it.
    pub(crate) fn record(&self) -> Result<(), CheckpointError> {
        self.with(|draft| draft.record(QUICK)).map(drop)
    }

    /// Reports that the change of a path happened, and the state that it left.
    pub(crate) fn settle(&self, path: &Path, after: PathState) {
        self.if_begun(|draft| draft.settle(path, after));
    }

    /// Reports that the change of a path did not happen.
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

    /// Returns the id of the checkpoint if a recorded change happened or may have happened.
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
        let roots = self.roots.paths().map(Path::to_owned).collect();
        CallContext::of(&self.caller, roots, self.restores)
    }
}

/// Returns the path that bytes are.
pub(crate) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
