//! The checkpoint of one call while the call runs.
//!
//! What is at a path is kept before its change ([`CheckpointDraft::keep`]), all of it is written in one
//! transaction ([`CheckpointDraft::record`]), and only then anything changes. What each change left is said
//! afterwards ([`CheckpointDraft::settle`], [`CheckpointDraft::withdraw`]) and written when the draft is dropped. A call
//! that dies in between leaves entries that are not settled: what their change was to leave is in the
//! index already, so a look at the disk tells whether it happened.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::fstat;
use sinew_tool::{FileKind, FileMeta};

use super::contents::{Failure, Held};
use super::{
    CallContext, CheckpointError, CheckpointId, Larger, PathState, QUICK, Settlement,
    SharedCheckpoints,
};
use sinew_fs::stat::identity_of;

/// What is at a path before a change.
#[derive(Debug, Clone, Copy)]
pub enum Before<'a> {
    /// Nothing.
    Absent,
    /// A regular file, open for reading, and what it was when it was opened.
    File(&'a File, &'a FileMeta),
    /// A symbolic link to this path.
    Link(&'a Path),
    /// A directory with this mode.
    Directory(u32),
}

/// The checkpoint of one call while the call runs.
#[derive(Debug)]
pub struct CheckpointDraft {
    shared: Arc<SharedCheckpoints>,
    mark: CallContext,
    id: Option<CheckpointId>,
    /// Nothing is collected from the first content on until the entries are written.
    held: Option<Held>,
    entries: BTreeMap<PathBuf, Drafted>,
    /// Bytes that contents of this call added to the store, and those that are not counted there yet.
    n_kept: u64,
    n_uncounted: u64,
}

/// What a draft knows of one path.
#[derive(Debug)]
struct Drafted {
    before: PathState,
    /// What the change is to leave, where that is known.
    after: Option<PathState>,
    /// Whether the index has an entry of the path, and whether it has both of these.
    known: bool,
    recorded: bool,
    fate: Fate,
    /// What an earlier change of this call left there.
    earlier: Option<PathState>,
}

/// What became of a change.
#[derive(Debug)]
enum Fate {
    /// Nobody said so far.
    Open,
    /// It happened and left this.
    Happened(PathState),
    /// It did not happen.
    Withdrawn,
}

impl CheckpointDraft {
    pub(super) fn new(shared: Arc<SharedCheckpoints>, mark: CallContext) -> Self {
        Self {
            shared,
            mark,
            id: None,
            held: None,
            entries: BTreeMap::new(),
            n_kept: 0,
            n_uncounted: 0,
        }
    }

    /// Returns the id of the checkpoint, once it is recorded.
    pub fn id(&self) -> Option<CheckpointId> {
        self.id
    }

    /// Returns whether it has a change that happened or may have happened.
    pub fn holds_changes(&self) -> bool {
        let is_change = |drafted: &Drafted| match drafted.fate {
            Fate::Open => drafted.known,
            Fate::Happened(_) => true,
            Fate::Withdrawn => false,
        };
        self.entries.values().any(is_change)
    }

    /// Keeps what is at a real path, and returns it. `after` is what the change is to leave, where
    /// that is known; it lets an undo tell after a death whether the change happened.
    ///
    /// Where this call changed the path already, what was there before the call stays. A directory
    /// that the change creates on the way is a path of its own, with nothing before it.
    pub fn keep(
        &mut self,
        path: &Path,
        before: Before<'_>,
        after: Option<PathState>,
    ) -> Result<PathState, CheckpointError> {
        let found = match before {
            Before::Absent => PathState::Absent,
            Before::Link(target) => PathState::Link(target.to_owned()),
            Before::Directory(mode) => PathState::directory(mode),
            Before::File(file, meta) => self.keep_file(path, file, meta)?,
        };
        let old = self.entries.remove(path);
        let known = old.as_ref().is_some_and(|old| old.known);
        let (before, earlier) = match old {
            Some(Drafted { before, fate: Fate::Happened(left), .. }) => (before, Some(left)),
            Some(Drafted { before, earlier: Some(left), .. }) => (before, Some(left)),
            _ => (found.clone(), None),
        };
        let drafted = Drafted { before, after, known, recorded: false, fate: Fate::Open, earlier };
        self.entries.insert(path.to_owned(), drafted);
        Ok(found)
    }

    fn keep_file(
        &mut self,
        path: &Path,
        file: &File,
        meta: &FileMeta,
    ) -> Result<PathState, CheckpointError> {
        if meta.kind != FileKind::File {
            return Err(CheckpointError::Special(path.to_owned()));
        }
        let (size, settings) = (meta.size(), &self.shared.settings);
        if settings.max_file_bytes < size {
            return match settings.larger {
                Larger::Unkept => Ok(PathState::unkept(size, meta.mode)),
                Larger::Refuse => Err(CheckpointError::TooLarge {
                    path: path.to_owned(),
                    size,
                    max: settings.max_file_bytes,
                }),
            };
        }
        let held = match &self.held {
            Some(held) => held,
            None => self.held.insert(self.shared.contents.hold(QUICK)?),
        };
        let kept = held.keep(file, size).and_then(|kept| {
            // What was read is what was opened only if nobody wrote meanwhile.
            let now = identity_of(&fstat(file).map_err(|errno| Failure::Unreadable(errno.into()))?);
            if now == meta.identity { Ok(kept) } else { Err(Failure::Changed) }
        });
        let kept = kept.map_err(|failure| failure.about(path))?;
        self.n_kept += kept.n_new;
        self.n_uncounted += kept.n_new;
        if self.shared.settings.max_bytes < self.n_kept {
            return Err(CheckpointError::TooMuch { max: self.shared.settings.max_bytes });
        }
        Ok(PathState::hashed(kept.content, size, meta.mode))
    }

    /// Writes what was kept since the last time, in one transaction, and returns the id. Changes may
    /// happen after it and not before. It waits so long for other processes;
    /// [`CheckpointError::Busy`] says that nothing happened and that it can be asked again.
    pub fn record(&mut self, patience: Duration) -> Result<CheckpointId, CheckpointError> {
        let new = self.entries.iter().filter(|(_, drafted)| !drafted.recorded);
        let new =
            new.map(|(path, drafted)| (path.as_path(), &drafted.before, drafted.after.as_ref()));
        let id = self.shared.record(&self.mark, self.id, new, self.n_uncounted, patience)?;
        for drafted in self.entries.values_mut() {
            (drafted.known, drafted.recorded) = (true, true);
        }
        self.n_uncounted = 0;
        self.held = None;
        self.id = Some(id);
        Ok(id)
    }

    /// Says that the change of a path happened, and what it left.
    pub fn settle(&mut self, path: &Path, after: PathState) {
        if let Some(drafted) = self.entries.get_mut(path) {
            drafted.fate = Fate::Happened(after);
        }
    }

    /// Says that the change of a path did not happen: it is no part of the checkpoint. What an earlier
    /// change of this call left there stays one.
    pub fn withdraw(&mut self, path: &Path) {
        if let Some(drafted) = self.entries.get_mut(path)
            && matches!(drafted.fate, Fate::Open)
        {
            drafted.fate = drafted.earlier.take().map_or(Fate::Withdrawn, Fate::Happened);
        }
    }
}

impl Drop for CheckpointDraft {
    /// Writes what became of the changes. What cannot be written now is written with the next
    /// checkpoint.
    fn drop(&mut self) {
        self.held = None;
        // What was kept for nothing is collected too.
        self.shared.uncounted(std::mem::take(&mut self.n_uncounted));
        let Some(id) = self.id else { return };
        let entries = std::mem::take(&mut self.entries).into_iter();
        let settled = entries.filter(|(_, drafted)| drafted.known).filter_map(|(path, drafted)| {
            let after = match drafted.fate {
                Fate::Open => return None,
                Fate::Happened(after) => Some(after),
                Fate::Withdrawn => None,
            };
            Some(Settlement { id, path, after })
        });
        self.shared.settle(settled.collect());
    }
}
