//! The checkpoint of one call while the call runs.
//!
//! [`CheckpointDraft::keep`] keeps the state of a path, and [`CheckpointDraft::record`] writes all states in
//! one transaction before any change. [`CheckpointDraft::settle`] and [`CheckpointDraft::withdraw`] note the
//! results, which the drop writes. After a crash the index has unsettled entries with the planned states, and
//! a look at the disk tells whether the changes happened.

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

/// The state of a path before a change.
#[derive(Debug, Clone, Copy)]
pub enum Before<'a> {
    /// Nothing.
    Absent,
    /// A regular file, open for reading, and its status when it was opened.
    File(&'a File, &'a FileMeta),
    /// A symbolic link to this path.
    Link(&'a Path),
    /// A directory with this mode.
    Directory(u32),
    /// A directory that tools make anew.
    Rebuilt,
}

/// The checkpoint of a running call.
#[derive(Debug)]
pub struct CheckpointDraft {
    shared: Arc<SharedCheckpoints>,
    mark: CallContext,
    id: Option<CheckpointId>,
    /// Blocks collections from the first content until the entries are written.
    held: Option<Held>,
    entries: BTreeMap<PathBuf, Drafted>,
    /// Bytes that this call added to the store, and those not yet counted in the index.
    n_kept: u64,
    n_uncounted: u64,
}

#[derive(Debug)]
struct Drafted {
    before: PathState,
    /// The planned state, if known.
    after: Option<PathState>,
    /// Whether the index has an entry of the path, and whether that holds `before` and `after`.
    known: bool,
    recorded: bool,
    fate: Fate,
    /// The state after an earlier change of this call.
    earlier: Option<PathState>,
}

/// The result of a change.
#[derive(Debug)]
enum Fate {
    /// Not reported yet.
    Open,
    /// It happened and left this state.
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

    /// Returns the ID of the checkpoint once it is recorded.
    pub fn id(&self) -> Option<CheckpointId> {
        self.id
    }

    /// Returns whether any change happened or may have happened.
    pub fn holds_changes(&self) -> bool {
        let is_change = |drafted: &Drafted| match drafted.fate {
            Fate::Open => drafted.known,
            Fate::Happened(_) => true,
            Fate::Withdrawn => false,
        };
        self.entries.values().any(is_change)
    }

    /// Keeps and returns the state of a real path. `after` is the planned state, which shows after a crash
    /// whether the change happened.
    ///
    /// The state before the first change of this call is retained. A parent directory that the change creates
    /// is a separate path, absent before.
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
            Before::Rebuilt => PathState::Rebuilt,
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
            // The file is intact only if its status is unchanged after the read.
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

    /// Writes all new states in one transaction and returns the ID; only then may changes happen. Waits up to
    /// `patience` for other processes; after [`CheckpointError::Busy`] nothing is written and a retry is
    /// safe.
    pub fn record(&mut self, patience: Duration) -> Result<CheckpointId, CheckpointError> {
        let new = self.entries.iter().filter(|(_, drafted)| !drafted.recorded);
        let new =
            new.map(|(path, drafted)| (path.as_path(), &drafted.before, drafted.after.as_ref()));
        let id =
            self.shared.record(&self.mark, self.id, new, (self.n_uncounted, false), patience)?;
        for drafted in self.entries.values_mut() {
            (drafted.known, drafted.recorded) = (true, true);
        }
        self.n_uncounted = 0;
        self.held = None;
        self.id = Some(id);
        Ok(id)
    }

    /// Notes that the change of a path happened, and the state that it left.
    pub fn settle(&mut self, path: &Path, after: PathState) {
        if let Some(drafted) = self.entries.get_mut(path) {
            drafted.fate = Fate::Happened(after);
        }
    }

    /// Notes that the change of a path did not happen. The result of an earlier change of this call stays.
    pub fn withdraw(&mut self, path: &Path) {
        if let Some(drafted) = self.entries.get_mut(path)
            && matches!(drafted.fate, Fate::Open)
        {
            drafted.fate = drafted.earlier.take().map_or(Fate::Withdrawn, Fate::Happened);
        }
    }
}

impl Drop for CheckpointDraft {
    /// Writes the results of the changes, at the latest with the next checkpoint.
    fn drop(&mut self) {
        self.held = None;
        // Contents kept in vain are counted for collection too.
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
