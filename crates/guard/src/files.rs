//! File operations of one call on the open handles of its targets.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::fs::{fstat, readlinkat};
use sinew_tool::sync::lock;
use sinew_tool::{
    Access, Becomes, Change, CommitError, Expect, FileError, FileKind, FileMeta, FileMode, FileOp,
    FileSettings, FileState, FileTarget, Files, Identity, Info, Listing, Opened, Slot, Stamp,
    Targets, Visitors, WalkOptions, WalkReport, Written,
};

use crate::change::kept;
use crate::change::{NameChange, Terms};
use crate::commit::aside::Aside;
use crate::commit::{self, DirectoryPart, OfDirectory, Part};
use crate::guard::Guard;
use crate::list;
use crate::moving::{self, descendants};
use crate::replace;
use crate::restore::Restoring;
use crate::walk;
use sinew_fs::content_hash::hash_so_far;
use sinew_fs::resolve::{Place, Spot};
use sinew_fs::roots::{DIRECTORY_READ, FILE_READ, Roots, open_name};
use sinew_fs::stat::{error_of, info_of, meta_of, now};
use sinew_policy::rule::{Beneath, Judge, Taken};
use sinew_records::knowledge::CallKnowledge;

/// State that a change of one target needs.
#[derive(Debug)]
pub(crate) struct Armed {
    /// The name of the temporary file.
    pub(crate) temporary: CString,
    /// State that an approval binds the change to; inner `None` means no file. Locked during a change.
    bound: Mutex<Option<Option<Identity>>>,
}

impl Armed {
    pub(crate) fn new(temporary: CString, bound: Option<Option<Identity>>) -> Self {
        Self { temporary, bound: Mutex::new(bound) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Option<Identity>>> {
        lock(&self.bound)
    }
}

/// The most bytes that are hashed to find the writer of a file.
const MAX_TOLD: u64 = 64 * 1024 * 1024;

/// The files of a call.
#[derive(Debug)]
pub(crate) struct GuardedFiles {
    guard: Arc<Guard>,
    /// The roots of the call, possibly fewer than those of the guard.
    roots: Arc<Roots>,
    targets: Arc<Targets>,
    places: Arc<[Place]>,
    /// State that the change of each target needs; `None` if it may not change.
    armed: Vec<Option<Armed>>,
    changes: Mutex<Vec<Change>>,
    /// Knowledge of the caller about the files.
    knowledge: Arc<CallKnowledge>,
    /// The checkpoint of the call.
    kept: kept::CallCheckpoint,
    /// Earliest time at which the call could read a file.
    since: Stamp,
    /// Paths that rules hide from its searches.
    beneath: Option<Arc<Beneath>>,
    /// Rules on descendants of directories that it moves.
    taken: Option<Arc<Taken>>,
    settings: Arc<FileSettings>,
    /// The restore that the call performs, if any.
    restoring: Option<Arc<Restoring>>,
}

impl GuardedFiles {
    pub(crate) fn new(
        guard: Arc<Guard>,
        roots: Arc<Roots>,
        targets: Arc<Targets>,
        places: Arc<[Place]>,
        armed: Vec<Option<Armed>>,
        knowledge: Arc<CallKnowledge>,
        kept: kept::CallCheckpoint,
    ) -> Self {
        let changes = Mutex::new(Vec::new());
        let since = now();
        let settings = Arc::clone(&guard.files);
        Self {
            guard,
            roots,
            targets,
            places,
            armed,
            changes,
            knowledge,
            kept,
            since,
            beneath: None,
            taken: None,
            settings,
            restoring: None,
        }
    }

    /// Performs a restore.
    pub(crate) fn restoring(self, restoring: Option<Arc<Restoring>>) -> Self {
        Self { restoring, ..self }
    }

    /// Changes files by other settings than those of the vocabulary.
    pub(crate) fn by(self, settings: Arc<FileSettings>) -> Self {
        Self { settings, ..self }
    }

    /// Hides paths from searches.
    pub(crate) fn without(self, beneath: Option<Arc<Beneath>>) -> Self {
        Self { beneath, ..self }
    }

    /// Applies rules to descendants of directories that move.
    pub(crate) fn taking(self, taken: Option<Arc<Taken>>) -> Self {
        Self { taken, ..self }
    }

    fn at(&self, slot: Slot) -> Result<(&FileTarget, &Place), FileError> {
        self.targets.files.get(slot.0).zip(self.places.get(slot.0)).ok_or(FileError::Missing)
    }

    /// Returns a target if its claim allows walking and listing.
    fn searched(&self, slot: Slot) -> Result<(&FileTarget, &Place), FileError> {
        let (target, place) = self.at(slot)?;
        match target.claim.access {
            Access::Search | Access::Read => Ok((target, place)),
            _ => Err(FileError::Denied(String::from("the call did not ask to look beneath it"))),
        }
    }

    /// Returns what a target needs to become something, if its claim covers that.
    fn armed(&self, slot: Slot, becomes: &Becomes<'_>) -> Result<(&Place, &Armed), FileError> {
        let (target, place) = self.at(slot)?;
        let Some(armed) = self.armed.get(slot.0).and_then(Option::as_ref) else {
            return Err(FileError::Denied(String::from("the call was cleared to look only")));
        };
        let covers = match becomes {
            Becomes::Nothing | Becomes::NoDirectory | Becomes::SetAside => {
                target.claim.access == Access::Remove
            }
            Becomes::File { .. }
            | Becomes::Link(_)
            | Becomes::Directory { .. }
            | Becomes::BroughtBack(_) => {
                matches!(target.claim.access, Access::Write { .. } | Access::Edit { .. })
            }
        };
        if !covers {
            return Err(FileError::Denied(String::from("the call did not ask for this change")));
        }
        Ok((place, armed))
    }

    /// Adds the writer of the conflicting change to a refusal, if known.
    fn told(&self, slot: Slot, error: FileError) -> FileError {
        let (FileError::Changed, Ok((target, _))) = (&error, self.at(slot)) else { return error };
        let hash = || {
            let file = self.open(slot).ok()?.file.take(MAX_TOLD);
            Some(hash_so_far(blake3::Hasher::new().update_reader(file).ok()?))
        };
        match self.knowledge.writer(&target.path, hash) {
            Some(writer) => FileError::Stale(Some(writer)),
            None => error,
        }
    }

    /// Returns what a target needs for the change that its claim names.
    fn asked(
        &self,
        slot: Slot,
        access: Access,
    ) -> Result<(&FileTarget, &Place, &Armed), FileError> {
        let (target, place) = self.at(slot)?;
        match self.armed.get(slot.0).and_then(Option::as_ref) {
            Some(armed) if target.claim.access == access => Ok((target, place, armed)),
            Some(_) => Err(FileError::Denied(String::from("the call did not ask for this change"))),
            None => Err(FileError::Denied(String::from("the call was cleared to look only"))),
        }
    }

    /// Binds the other names of files that a part of a restore removed or replaced to the status that this left: their
    /// number of links changed.
    fn bind_links(&self, changed: &HashSet<(u64, u64)>) {
        if self.restoring.is_none() {
            return;
        }
        for (place, armed) in self.places.iter().zip(&self.armed) {
            let Some(armed) = armed else { continue };
            let mut bound = armed.lock();
            if let Some(Some(before)) = bound.as_mut()
                && changed.contains(&before.of_file())
                && let Ok(now) = place.meta_now()
                && (Identity { changed: before.changed, ..now.identity }) == *before
            {
                *before = now.identity;
            }
        }
    }

    /// Takes git's locks of files that a restore changes, and binds an index to what git wrote there since, if it means the same.
    fn lock_git(&self, deeds: &[FileOp<'_>]) -> Result<(), CommitError> {
        let Some(restoring) = &self.restoring else { return Ok(()) };
        let place_of = |slot: Slot| self.places.get(slot.0);
        // All of them at the first commit: a later one must not fail.
        restoring.git().take(self.places.iter()).map_err(|(place, error)| {
            let at = self.places.iter().position(|other| other.real == place.real);
            CommitError { slot: Slot(at.unwrap_or_default()), error }
        })?;
        for deed in deeds {
            let armed = self.armed.get(deed.slot.0).and_then(Option::as_ref);
            if let (Some(place), Some(armed)) = (place_of(deed.slot), armed)
                && let Some(now) = restoring.git().same_index(place)
            {
                *armed.lock() = Some(Some(now));
            }
        }
        Ok(())
    }

    /// Returns the change of a directory; `None` of a file, and where no root holds the place.
    fn of_directory<'a>(
        &'a self,
        becomes: &Becomes<'_>,
        place: &'a Place,
        job: &NameChange<'_>,
    ) -> Option<OfDirectory<'a>> {
        let root = || self.roots.holding(&place.real);
        // A root, or a path that rules hide, would move with it.
        let may_move = || {
            let (names, to) = (self.guard.names(), place.real.with_file_name("undone"));
            let judged = || descendants::judge(names, place, &to, &mut |_| Ok(()));
            !self.guard.shared.roots.leads_to(&place.real)
                && (!names.judges_beneath(&place.real) || judged().is_ok())
        };
        match *becomes {
            Becomes::Directory { mode } => Some(OfDirectory::Made(mode)),
            Becomes::NoDirectory => Some(OfDirectory::Removed),
            Becomes::SetAside => {
                let aside = Aside::in_place(place, root()?, job.temporary);
                Some(OfDirectory::SetAside(aside.filter(|_| may_move())?, job.bound))
            }
            Becomes::BroughtBack(from) => {
                Some(OfDirectory::BroughtBack(Aside::at(place, root()?, from)?))
            }
            Becomes::File { .. } | Becomes::Link(_) | Becomes::Nothing => None,
        }
    }

    fn terms(&self) -> Terms<'_> {
        Terms {
            settings: &self.settings,
            locks: &self.guard.shared.locks,
            dir_locking: self.guard.shared.dir_locking,
            knowledge: &self.knowledge,
            kept: &self.kept,
            deferred_close: &self.guard.shared.deferred_close,
            since: self.since,
            replaces_read_only: self.restoring.is_some(),
        }
    }

    /// Returns the judge of names beneath a directory.
    fn judge(&self) -> Judge<'_> {
        Judge { beneath: self.beneath.as_deref(), ..self.guard.names() }
    }

    /// Returns the change of one target.
    fn job<'a>(
        &'a self,
        slot: Slot,
        armed: &'a Armed,
        bound: Option<Option<Identity>>,
        expect: Expect<'a>,
        terms: &'a Terms<'a>,
    ) -> Result<NameChange<'a>, FileError> {
        let (target, place) = self.at(slot)?;
        let Some(name) = &place.name else {
            return Err(FileError::NotRegular(FileKind::Directory));
        };
        if matches!(place.spot, Spot::Gone) {
            return Err(FileError::Missing);
        }
        if let Some(scope) = target.claim.memory {
            self.guard.prepare_memory(scope)?;
        }
        if place.orphan && place.parent().is_err() {
            return Err(FileError::NoParent);
        }
        let may_create = matches!(target.claim.access, Access::Write { .. });
        let temporary = &armed.temporary;
        Ok(NameChange { place, name, temporary, expect, bound, may_create, terms })
    }
}

impl Files for GuardedFiles {
    fn meta(&self, slot: Slot) -> Result<FileMeta, FileError> {
        self.at(slot)?.1.meta_now()
    }

    fn info(&self, slot: Slot) -> Result<Info, FileError> {
        info_of(self.at(slot)?.1)
    }

    fn roots(&self) -> Vec<std::path::PathBuf> {
        self.roots.paths().map(std::path::Path::to_owned).collect()
    }

    fn open(&self, slot: Slot) -> Result<Opened, FileError> {
        let (target, place) = self.at(slot)?;
        // Opening a device can have effects; a former file can at worst be a FIFO now, which does not block.
        let was_file =
            matches!(&target.state, FileState::Found(meta) if meta.kind == FileKind::File);
        if !was_file {
            let kind = place.meta_now()?.kind;
            if kind != FileKind::File {
                return Err(FileError::NotRegular(kind));
            }
        }
        let Some(name) = &place.name else {
            return Err(FileError::NotRegular(FileKind::Directory));
        };
        let file = open_name(place.parent()?.as_fd(), name, FILE_READ).map_err(error_of)?;
        let meta = meta_of(&fstat(&file).map_err(error_of)?);
        match meta.kind {
            FileKind::File => Ok(Opened { file: File::from(file), meta }),
            other => Err(FileError::NotRegular(other)),
        }
    }

    fn link(&self, slot: Slot) -> Result<Vec<u8>, FileError> {
        let (_, place) = self.at(slot)?;
        let meta = place.meta_now()?;
        match &place.name {
            Some(name) if meta.kind == FileKind::Symlink => {
                let target = readlinkat(&*place.parent()?, name, Vec::new()).map_err(error_of)?;
                Ok(target.into_bytes())
            }
            _ => Err(FileError::NotRegular(meta.kind)),
        }
    }

    fn replace(
        &self,
        slot: Slot,
        pieces: &[&[u8]],
        expect: Expect<'_>,
    ) -> Result<Written, FileError> {
        let (place, armed) =
            self.armed(slot, &Becomes::File { pieces, mode: FileMode::Kept, like: None })?;
        let terms = self.terms();
        let mut bound = armed.lock();
        let job = self.job(slot, armed, *bound, expect, &terms)?;
        let done = replace::replace(&job, pieces).map_err(|error| self.told(slot, error))?;
        if let Some(before) = bound.as_mut() {
            *before = place.meta_now().ok().map(|meta| meta.identity);
        }
        drop(bound);
        self.knowledge.changed(&done.change);
        lock(&self.changes).push(done.change);
        done.late.map_or(Ok(done.written), Err)
    }

    fn commit(&self, deeds: &[FileOp<'_>]) -> Result<Vec<Written>, CommitError> {
        let terms = self.terms();
        let about = |slot| move |error| CommitError { slot, error };
        self.lock_git(deeds)?;
        let mut order: Vec<&FileOp<'_>> = deeds.iter().collect();
        order.sort_by_key(|deed| deed.slot.0);
        // Two calls of one World lock the approval states in the same order, against deadlock.
        let mut held = Vec::with_capacity(deeds.len());
        let same = |pair: &&[&FileOp<'_>]| matches!(pair, [one, other] if one.slot == other.slot);
        if let Some([one, _]) = order.windows(2).find(same) {
            return Err(about(one.slot)(FileError::Invalid("is changed twice at once")));
        }
        for deed in order {
            let (place, armed) = self.armed(deed.slot, &deed.becomes).map_err(about(deed.slot))?;
            let bound = armed.lock();
            let job = self.job(deed.slot, armed, *bound, deed.expect, &terms);
            let job = job.map_err(about(deed.slot))?;
            let like = match deed.becomes {
                Becomes::File { like: Some(like), .. } => {
                    Some(self.at(like).map_err(about(deed.slot))?.1)
                }
                _ => None,
            };
            held.push((deed.slot, job, deed.becomes, like, place, bound));
        }
        let is_of_directory = |becomes: &Becomes<'_>| {
            !matches!(becomes, Becomes::File { .. } | Becomes::Link(_) | Becomes::Nothing)
        };
        let parts: Vec<Part<'_>> = held
            .iter()
            .filter(|(_, _, becomes, ..)| !is_of_directory(becomes))
            .map(|(slot, job, becomes, like, ..)| Part { slot: *slot, job, becomes, like: *like })
            .collect();
        // In the order of the deeds, in which parents come before children.
        let place_of = |slot: Slot| deeds.iter().position(|deed| deed.slot == slot);
        let mut directories: Vec<DirectoryPart<'_>> = held
            .iter()
            .filter_map(|(slot, job, becomes, _, place, _)| {
                let deed = self.of_directory(becomes, place, job)?;
                Some(DirectoryPart { slot: *slot, place, deed })
            })
            .collect();
        directories.sort_by_key(|directory| place_of(directory.slot));
        for DirectoryPart { slot, place, .. } in &directories {
            if held.iter().any(|(other, .., there, _)| other != slot && there.real == place.real) {
                return Err(about(*slot)(FileError::Invalid("is changed twice at once")));
            }
        }
        let journals = self.guard.shared.journals.as_ref();
        let done = commit::commit(&parts, &directories, journals, &terms);
        let done = done.map_err(|CommitError { slot, error }| {
            let error = self.told(slot, error);
            CommitError { slot, error }
        })?;
        let slots: Vec<Slot> = parts.iter().map(|part| part.slot).collect();
        let made: Vec<(Slot, Written)> = directories
            .iter()
            .map(|DirectoryPart { slot, place, deed }| {
                let is_made = matches!(deed, OfDirectory::Made(_));
                let created = is_made && !matches!(place.spot, Spot::Found(_));
                (*slot, Written { bytes: 0, created })
            })
            .collect();
        drop((parts, directories));
        let mut changed = HashSet::new();
        for (.., place, bound) in &mut held {
            if let Some(before) = bound.as_mut() {
                changed.extend(before.map(|before| before.of_file()));
                *before = place.meta_now().ok().map(|meta| meta.identity);
            }
        }
        drop(held);
        self.bind_links(&changed);
        let mut written: Vec<(Slot, Written)> = slots.into_iter().zip(done.written).collect();
        written.extend(made);
        done.changes.iter().for_each(|change| self.knowledge.changed(change));
        lock(&self.changes).extend(done.changes);
        if let Some(late) = done.late {
            return Err(late);
        }
        written.sort_by_key(|(slot, _)| place_of(*slot));
        Ok(written.into_iter().map(|(_, written)| written).collect())
    }

    fn make_directory(&self, slot: Slot) -> Result<bool, FileError> {
        let (target, place, armed) = self.asked(slot, Access::Make)?;
        let mut bound = armed.lock();
        if bound.is_some_and(|bound| bound.is_some() != place.meta_now().is_ok()) {
            return Err(FileError::Changed);
        }
        let made = moving::make_directory(place, self.guard.files.sync, &self.kept)?;
        if made {
            let path = target.path.clone();
            let change = Change { path, before: None, after: None, bytes: 0 };
            lock(&self.changes).push(change);
        }
        if let Some(before) = bound.as_mut() {
            *before = place.meta_now().ok().map(|meta| meta.identity);
        }
        Ok(made)
    }

    fn rename(&self, from: Slot) -> Result<(), FileError> {
        let (target, place, armed) = self.asked(from, Access::Move)?;
        if !matches!(place.spot, Spot::Found(_)) {
            return Err(FileError::Missing);
        }
        let (next, to) = self.at(Slot(from.0 + 1))?;
        if !matches!(next.claim.access, Access::Write { .. }) {
            return Err(FileError::Denied(String::from("the call did not ask for this change")));
        }
        let terms = self.terms();
        let bound = armed.lock();
        let job = self.job(from, armed, *bound, Expect::Any, &terms)?;
        let taken = self.taken.as_deref();
        let changes = moving::rename(self.guard.names(), &job, to, target.protected, taken)?;
        lock(&self.changes).extend(changes);
        Ok(())
    }

    fn walk(
        &self,
        slot: Slot,
        options: &WalkOptions,
        visitors: &dyn Visitors,
        stop: &AtomicBool,
    ) -> Result<WalkReport, FileError> {
        let (target, place) = self.searched(slot)?;
        let dir = place.open_directory(DIRECTORY_READ)?;
        let search = (&*self.guard.shared.ignores, self.guard.n_threads());
        walk::walk(self.judge(), search, target, dir, options, visitors, stop)
    }

    fn list(&self, slot: Slot, limit: usize) -> Result<Listing, FileError> {
        let (target, place) = self.searched(slot)?;
        let dir = place.open_directory(DIRECTORY_READ)?;
        list::list(self.judge(), target, &dir, limit)
    }

    fn changes(&self) -> Vec<Change> {
        lock(&self.changes).clone()
    }

    fn checkpoint(&self) -> Option<String> {
        self.kept.id()
    }
}
