//! Atomic change of several files: all changes happen, or none.
//!
//! Everything that can fail early comes first: originals are checked, and each new file is staged complete
//! under a temporary name. Then the [`journal`] (a write-ahead log) is written, all directory locks are taken
//! in one order, and everything is checked again. Only then names are exchanged, one by one; a failure
//! exchanges them back. Originals are removed once all new files are in place, and the journal last. The
//! journal is renamed before any file that it needs is removed.
//!
//! Readers may see some changes before others, but no half-written file. Large sets keep no handle per file,
//! since a call may change more files than a process may open.

pub(crate) mod aside;
mod journal;
mod recover;
mod stage;
mod step;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Stat, fstat, unlinkat};
use rustix::io::Errno;
use sinew_tool::{
    Becomes, Change, CommitError, ContentHash, FileError, FileKind, FileMeta, Identity, Slot, Sync,
    Written,
};

use crate::change::original::{self, Original};
use crate::change::parents::{Parents, error_below};
use crate::change::temporary::TemporaryName;
use crate::change::{Failure, MAX_ATTEMPTS, NameChange, Terms, length, sync_directory};
use aside::Aside;
use journal::{DirRecord, Journal};
use sinew_fs::dir_lock::DirLock;
use sinew_fs::resolve::Place;
use sinew_fs::roots::Dir;
use sinew_fs::stat::{error_of, identity_of};
use sinew_records::checkpoints::PathState;
use step::{ALONE, Stand, Step, Trace, WAYS, Way};

pub use journal::JournalSettings;
pub(crate) use recover::recover;

/// One change of the set.
pub(crate) struct Part<'a> {
    pub(crate) slot: Slot,
    pub(crate) job: &'a NameChange<'a>,
    pub(crate) becomes: &'a Becomes<'a>,
    /// The file whose attributes a new one copies, if it is not the old one.
    pub(crate) like: Option<&'a Place>,
}

/// Changes that happened.
pub(crate) struct CommittedChanges {
    /// In the order of the parts.
    pub(crate) written: Vec<Written>,
    pub(crate) changes: Vec<Change>,
    /// A failure after the point of no return.
    pub(crate) late: Option<CommitError>,
}

/// Sets of up to this many changes keep their originals open to the end.
const FEW: usize = 8;

/// A directory among the changes.
pub(crate) struct DirectoryPart<'a> {
    pub(crate) slot: Slot,
    pub(crate) place: &'a Place,
    pub(crate) deed: OfDirectory<'a>,
}

/// A change of a directory.
pub(crate) enum OfDirectory<'a> {
    /// Created before the other changes; gets these permission bits after them.
    Made(Option<u32>),
    /// Removed after the other changes.
    Removed,
    /// Moved out of the way after the other changes.
    SetAside(Aside<'a>, Option<Option<Identity>>),
    /// Moved back after the other changes.
    BroughtBack(Aside<'a>),
}

/// Why an attempt failed, and at which target.
struct Stopped {
    slot: Slot,
    why: Failure,
    /// Whether some changes were made and could not be rolled back.
    is_half: bool,
}

impl Part<'_> {
    fn stopped(&self, why: impl Into<Failure>) -> Stopped {
        Stopped { slot: self.slot, why: why.into(), is_half: false }
    }
}

/// Makes all changes or none. Directories are created first, and removed last if they are empty; a failure
/// removes the created ones.
pub(crate) fn commit(
    parts: &[Part<'_>],
    directories: &[DirectoryPart<'_>],
    journals: Option<&JournalSettings>,
    terms: &Terms<'_>,
) -> Result<CommittedChanges, CommitError> {
    let kept = terms.kept;
    let modes = directories.iter().filter_map(|directory| match directory.deed {
        OfDirectory::Made(mode) => Some((directory.place.real.clone(), mode?)),
        OfDirectory::Removed | OfDirectory::SetAside(..) | OfDirectory::BroughtBack(_) => None,
    });
    let mut parents = Parents::with_modes(modes.collect(), terms.replaces_read_only);
    let done = make_directories(directories, &mut parents, terms)
        .and_then(|()| attempts(parts, journals, terms, &mut parents));
    match done {
        Ok(mut done) => {
            let first = parts.first().map_or(Slot(0), |part| part.slot);
            // Before the final modes, which may lock the owner out of a directory.
            for DirectoryPart { slot, place, deed } in directories {
                let moved = match deed {
                    OfDirectory::Made(_) => continue,
                    OfDirectory::Removed => remove_directory(place, terms),
                    OfDirectory::SetAside(aside, bound) => {
                        aside.away(terms, *bound);
                        continue;
                    }
                    OfDirectory::BroughtBack(aside) => {
                        aside.back(terms);
                        continue;
                    }
                };
                if let Err(error) = moved {
                    done.late.get_or_insert(CommitError { slot: *slot, error });
                }
            }
            let kept_all = parents.set_modes().and(parents.keep(terms.settings.sync, kept));
            if let Err(error) = kept_all {
                done.late.get_or_insert(CommitError { slot: first, error });
            }
            Ok(done)
        }
        Err(error) => {
            parents.remove(kept);
            directories.iter().for_each(|directory| kept.withdraw(&directory.place.real));
            Err(error)
        }
    }
}

/// Creates the directories to create, and records those to remove.
fn make_directories(
    directories: &[DirectoryPart<'_>],
    parents: &mut Parents,
    terms: &Terms<'_>,
) -> Result<(), CommitError> {
    for DirectoryPart { slot, place, deed } in directories {
        let about = |error| CommitError { slot: *slot, error };
        parents.make_writable(place, terms.kept).map_err(about)?;
        match deed {
            OfDirectory::Made(_) => drop(parents.make_place(place, terms.kept).map_err(about)?),
            OfDirectory::SetAside(aside, _) => aside.keep_away(terms).map_err(about)?,
            OfDirectory::BroughtBack(aside) => aside.keep_back(terms).map_err(about)?,
            OfDirectory::Removed => {
                if let Ok(FileMeta { kind: FileKind::Directory, mode, .. }) = place.meta_now() {
                    let mode = parents.mode_before(&place.real).unwrap_or(mode);
                    let kept = terms.kept.keep_directory(&place.real, mode);
                    kept.map_err(|error| about(error.into()))?;
                }
            }
        }
    }
    match directories.iter().find(|directory| !matches!(directory.deed, OfDirectory::Made(_))) {
        Some(DirectoryPart { slot, .. }) => {
            let recorded = terms.kept.record();
            recorded.map_err(|error| CommitError { slot: *slot, error: error.into() })
        }
        None => Ok(()),
    }
}

/// Removes a directory if it is empty; leaves anything else.
fn remove_directory(place: &Place, terms: &Terms<'_>) -> Result<(), FileError> {
    let Some(name) = &place.name else { return Ok(()) };
    match unlinkat(&*place.parent()?, name, AtFlags::REMOVEDIR) {
        Ok(()) => {
            terms.kept.settle(&place.real, PathState::Absent);
            Ok(())
        }
        Err(errno) => {
            terms.kept.withdraw(&place.real);
            match errno {
                Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT | Errno::NOTDIR => Ok(()),
                other => Err(error_of(other)),
            }
        }
    }
}

fn attempts(
    parts: &[Part<'_>],
    journals: Option<&JournalSettings>,
    terms: &Terms<'_>,
    parents: &mut Parents,
) -> Result<CommittedChanges, CommitError> {
    let about = |part: &Part<'_>, error| CommitError { slot: part.slot, error };
    if parts.is_empty() {
        return Ok(CommittedChanges { written: Vec::new(), changes: Vec::new(), late: None });
    }
    let mut dirs = Directories::default();
    let mut keys = Vec::with_capacity(parts.len());
    for part in parts {
        let entered = parents.enter(part.job.place, terms.kept);
        let entered = entered.and_then(|dir| dirs.add(&dir, part, terms));
        keys.push(entered.map_err(|error| about(part, error))?);
    }
    let mut order: Vec<(Key, &Part<'_>)> = keys.iter().copied().zip(parts).collect();
    order.sort_by_key(|(key, part)| (*key, part.job.name));
    let mut held = Vec::with_capacity(parts.len());
    let mut last = None;
    for (key, part) in order {
        if last.replace((key, part.job.name)) == Some((key, part.job.name)) {
            return Err(about(part, FileError::Invalid("is changed twice at once")));
        }
        let lock = dirs.get(key).and_then(|dir| terms.locks.lock(&dir.handle, part.job.name));
        held.push(lock.map_err(|error| about(part, error))?);
    }
    for _ in 0..MAX_ATTEMPTS {
        let Stopped { slot, why, is_half } = match attempt(parts, &keys, &dirs, journals, terms) {
            Ok(done) => return Ok(done),
            Err(stopped) => stopped,
        };
        // Changes that may have happened stay in the checkpoint.
        if !is_half {
            parts.iter().for_each(|part| terms.kept.withdraw(&part.job.place.real));
        }
        let stopped_at = parts.iter().find(|part| part.slot == slot);
        match why {
            Failure::Error(error) => {
                return Err(match stopped_at {
                    Some(part) => about(part, error_below(part.job.place, error)),
                    None => CommitError { slot, error },
                });
            }
            Failure::Raced => {
                // A change that accepts any old content is retried after the other one.
                if !stopped_at.is_some_and(|part| part.job.expects_nothing()) {
                    return Err(CommitError { slot, error: FileError::Changed });
                }
            }
        }
    }
    let slot = parts.first().map_or(Slot(0), |part| part.slot);
    Err(CommitError { slot, error: FileError::Busy })
}

/// Device and inode of a directory.
type Key = (u64, u64);

/// The directories in which names change, in lock order.
#[derive(Default)]
struct Directories(BTreeMap<Key, Directory>);

struct Directory {
    handle: Dir,
    turn: DirLock,
    /// The first target in it, which errors name.
    slot: Slot,
    /// The bytes of its real path.
    path: Vec<u8>,
}

impl Directories {
    fn add(&mut self, handle: &Dir, part: &Part<'_>, terms: &Terms<'_>) -> Result<Key, FileError> {
        let key = fstat(&**handle).map(|stat| identity_of(&stat).of_file()).map_err(error_of)?;
        if let Entry::Vacant(vacant) = self.0.entry(key) {
            let path = part.job.place.real.parent().map_or(OsStr::new("/"), Path::as_os_str);
            vacant.insert(Directory {
                handle: Dir::clone(handle),
                turn: DirLock::of(&**handle, terms.dir_locking)?,
                slot: part.slot,
                path: path.as_bytes().to_vec(),
            });
        }
        Ok(key)
    }

    fn get(&self, key: Key) -> Result<&Directory, FileError> {
        self.0.get(&key).ok_or(FileError::Missing)
    }

    fn each(
        &self,
        mut deed: impl FnMut(&Directory) -> Result<(), FileError>,
    ) -> Result<(), Stopped> {
        self.0.values().try_for_each(|dir| {
            deed(dir).map_err(|error| Stopped { slot: dir.slot, why: error.into(), is_half: false })
        })
    }

    fn give_back(&self) {
        self.0.values().for_each(|dir| dir.turn.give_back());
    }

    fn records(&self) -> Vec<DirRecord> {
        let record = |(key, dir): (&Key, &Directory)| DirRecord {
            path: dir.path.clone(),
            device: key.0,
            inode: key.1,
        };
        self.0.iter().map(record).collect()
    }
}

/// A change whose new file is staged under its temporary name.
struct Prepared<'a> {
    part: &'a Part<'a>,
    dir: &'a Dir,
    step: Step,
    /// Status of the original at preparation.
    old: Option<Stat>,
    /// The open original, in small sets.
    open: Option<Original>,
    /// Removes the staged file until another owner does.
    temporary: Option<TemporaryName>,
    written: Written,
    before: Option<ContentHash>,
    after: Option<ContentHash>,
    /// State after the change.
    left: PathState,
}

fn attempt(
    parts: &[Part<'_>],
    keys: &[Key],
    dirs: &Directories,
    journals: Option<&JournalSettings>,
    terms: &Terms<'_>,
) -> Result<CommittedChanges, Stopped> {
    // Fails early if a directory is locked, but holds no lock during preparation.
    let free = dirs.each(|dir| dir.turn.take_at_once());
    dirs.give_back();
    free?;
    let places: BTreeMap<Key, usize> =
        dirs.0.keys().enumerate().map(|(at, key)| (*key, at)).collect();
    let moved: HashSet<&Path> =
        parts.iter().filter_map(|part| part.like).map(|like| &*like.real).collect();
    let mut prepared = Vec::with_capacity(parts.len());
    for (part, key) in parts.iter().zip(keys) {
        let dir = &dirs.get(*key).map_err(|error| part.stopped(error))?.handle;
        let at = places.get(key).copied().unwrap_or_default();
        let is_one_of_few = parts.len() <= FEW;
        let one = prepare(part, dir, at, &moved, is_one_of_few);
        prepared.push(one.map_err(|why| part.stopped(why))?);
    }
    if let Some(part) = parts.first() {
        terms.kept.record().map_err(|error| part.stopped(error))?;
    }
    // A single change is one rename: its intent record names what a crash leaves.
    let journal = match (journals, prepared.as_slice()) {
        (Some(settings), [first, _, ..]) => {
            let steps = prepared.iter().map(|one| one.step.clone()).collect();
            let journal = Journal::write(settings, dirs.records(), steps, terms.settings.sync);
            Some(journal.map_err(|error| first.part.stopped(FileError::Journal(error)))?)
        }
        _ => None,
    };
    let made = dirs
        .each(|dir| dir.turn.take())
        .and_then(|()| prepared.iter().try_for_each(Prepared::look_again));
    if let Err(stopped) = made {
        let stopped = give_up(prepared, journal, stopped);
        dirs.give_back();
        return Err(stopped);
    }
    // From here on a temporary name may hold an original.
    prepared.iter().filter_map(|one| one.temporary.as_ref()).for_each(TemporaryName::keep);
    let ways = if prepared.len() == 1 { ALONE } else { WAYS };
    for (n_made, one) in prepared.iter().enumerate() {
        if let Err(stopped) = one.forward(ways) {
            let steps: Vec<_> = prepared.iter().map(|one| (&one.step, one.dir)).collect();
            let (why, is_half) = take_back(&steps, n_made, journal, stopped.why);
            dirs.give_back();
            return Err(Stopped { slot: stopped.slot, why, is_half });
        }
    }
    // Syncing and removing need no lock.
    dirs.give_back();
    Ok(finish(prepared, dirs, journal, terms))
}

/// Removes staged files of changes that are not made, and their journal. That is turned back first:
/// without the staged files, recovery would make a part of the changes.
fn give_up(prepared: Vec<Prepared<'_>>, journal: Option<Journal>, stopped: Stopped) -> Stopped {
    let Some(mut journal) = journal else { return stopped };
    if let Err(error) = journal.turn_back()
        && journal.remove().is_err()
    {
        prepared.iter().filter_map(|one| one.temporary.as_ref()).for_each(TemporaryName::keep);
        return Stopped { slot: stopped.slot, why: unturned(&error), is_half: true };
    }
    drop(prepared);
    // A remaining journal says that nothing is to be done.
    let _ = journal.remove();
    stopped
}

/// Returns the failure of changes that are not made, while their journal still points forward.
fn unturned(error: &std::io::Error) -> Failure {
    let problem = format!(
        "a change failed, and its journal can neither be reversed nor removed ({error}): the next start \
         of sinew may make the change after all"
    );
    FileError::Io(std::io::Error::other(problem)).into()
}

/// Rolls back the first `n_made` changes; returns the failure, and whether some changes remain or may.
fn take_back(
    steps: &[(&Step, &Dir)],
    n_made: usize,
    mut journal: Option<Journal>,
    why: Failure,
) -> (Failure, bool) {
    let turned = journal.as_mut().map_or(Ok(()), Journal::turn_back);
    let mut failed = Vec::new();
    let mut back = Vec::with_capacity(steps.len());
    for (at, (step, dir)) in steps.iter().enumerate().rev() {
        let name = step.name.to_string_lossy();
        match step.back(dir) {
            Ok(Stand::Done) => back.push((step, dir)),
            // A change that was not made needs no rollback.
            Ok(_) if n_made <= at => back.push((step, dir)),
            Ok(Stand::Changed) if step.old.is_none() => failed.push(format!(
                "`{name}` was created, then changed by others, and stays"
            )),
            Ok(Stand::Changed) => failed.push(format!(
                "`{name}` was changed by others meanwhile and stays, and its old content is beside it as `{}`",
                step.temporary.to_string_lossy()
            )),
            Ok(_) => failed.push(format!("the old content of `{name}` is not there any more")),
            Err(errno) => failed.push(format!("`{name}`: {errno}")),
        }
    }
    if failed.is_empty()
        && let (Some(journal), Err(error)) = (&journal, &turned)
        && journal.remove().is_err()
    {
        return (unturned(error), true);
    }
    for (step, dir) in back {
        if let Err(errno) = step.clean(dir) {
            failed.push(format!("`{}`: {errno}", step.temporary.to_string_lossy()));
        }
    }
    if failed.is_empty() {
        let _ = journal.map(|journal| journal.remove());
        return (why, false);
    }
    let rest = match journal {
        Some(_) => "the next start of sinew continues with that",
        None => "old contents are beside the files under names like `.sinew-*.tmp`",
    };
    let failed = failed.join("; ");
    let problem = format!("a change failed and others could not be taken back: {failed}; {rest}");
    (FileError::Io(std::io::Error::other(problem)).into(), true)
}

/// Removes the originals and reports the changes.
fn finish(
    prepared: Vec<Prepared<'_>>,
    dirs: &Directories,
    mut journal: Option<Journal>,
    terms: &Terms<'_>,
) -> CommittedChanges {
    let synced = match terms.settings.sync {
        Sync::Full => dirs.each(|dir| sync_directory(&dir.handle).map_err(error_of)),
        Sync::Off | Sync::Data => Ok(()),
    };
    // The next start removes what cannot be removed now, as long as the journal names it.
    let turned = journal.as_mut().map_or(Ok(()), Journal::turn_done);
    let clean = || prepared.iter().try_for_each(|one| one.step.clean(one.dir));
    if turned.is_ok() && clean().is_ok() {
        let _ = journal.map(|journal| journal.remove());
    }
    let late = synced.err().map(|stopped| CommitError {
        slot: stopped.slot,
        error: match stopped.why {
            Failure::Error(error) => error,
            Failure::Raced => FileError::Changed,
        },
    });
    let mut done = CommittedChanges { written: Vec::new(), changes: Vec::new(), late };
    for one in prepared {
        let path = one.part.job.place.real.clone();
        let bytes = one.written.bytes;
        terms.kept.settle(&path, one.left);
        done.changes.push(Change { path, before: one.before, after: one.after, bytes });
        done.written.push(one.written);
        one.part.job.close_later(one.open);
    }
    done
}

/// Checks the original and stages the new file. `moved` are files whose attributes new ones copy.
fn prepare<'a>(
    part: &'a Part<'a>,
    dir: &'a Dir,
    place: usize,
    moved: &HashSet<&Path>,
    is_one_of_few: bool,
) -> Result<Prepared<'a>, Failure> {
    let job = part.job;
    let old = job.open_old(dir)?;
    // Removing one hard link keeps the others, unless the set moves the file: a copy breaks the link.
    let parts_links = !matches!(part.becomes, Becomes::Nothing) || moved.contains(&*job.place.real);
    if let Some(old) = old.as_ref().filter(|_| parts_links) {
        stage::check_links(old, job.terms)?;
    }
    let before = job.take_down(old.as_ref())?;
    let (new, bytes) = match part.becomes {
        Becomes::File { pieces, mode, .. } => {
            let like = part.like.map(stage::open_like).transpose()?;
            let like = like.as_ref().or(old.as_ref());
            let new = stage::file(job, dir, like, pieces, *mode)?;
            (Some(new), length(pieces))
        }
        Becomes::Link(target) => {
            let new = stage::link(job, dir, old.as_ref(), target)?;
            (Some(new), target.len() as u64)
        }
        Becomes::Nothing
        | Becomes::Directory { .. }
        | Becomes::NoDirectory
        | Becomes::SetAside
        | Becomes::BroughtBack(_) => (None, 0),
    };
    let left = new.as_ref().map_or(PathState::Absent, |new| new.state.clone());
    job.terms.kept.keep(&job.place.real, old.as_ref(), left.clone())?;
    let step = Step {
        dir: place,
        name: job.name.to_owned(),
        temporary: job.temporary.to_owned(),
        old: old.as_ref().map(|old| Trace::of(&old.stat)),
        new: new.as_ref().map(|new| new.trace),
    };
    let (temporary, after) = new.map(|new| (new.name, new.hash)).unzip();
    let written = Written { bytes, created: old.is_none() };
    let stat = old.as_ref().map(|old| old.stat);
    let open = old.filter(|_| is_one_of_few);
    Ok(Prepared { part, dir, step, old: stat, open, temporary, written, before, after, left })
}

impl Prepared<'_> {
    /// Compares the original with its status at preparation.
    fn look_again(&self) -> Result<(), Stopped> {
        let job = self.part.job;
        let now = original::look(self.dir, job.name, job.place.itself);
        let now = now.map_err(|why| self.part.stopped(why))?;
        match (now.map(|stat| identity_of(&stat)), self.old.map(|stat| identity_of(&stat))) {
            (now, old) if now == old => Ok(()),
            _ => Err(self.part.stopped(Failure::Raced)),
        }
    }

    fn forward(&self, ways: &[Way]) -> Result<(), Stopped> {
        match self.step.forward(self.dir, ways) {
            Ok(Stand::Done) => Ok(()),
            Ok(Stand::Displaced) => {
                let temporary = self.part.job.temporary.to_string_lossy();
                let problem = format!(
                    "others changed the file twice at the same moment, and one of their versions is beside it as `{temporary}`; give that another name if it is wanted"
                );
                Err(self.part.stopped(FileError::Io(std::io::Error::other(problem))))
            }
            Ok(Stand::Gone | Stand::Changed) => Err(self.part.stopped(Failure::Raced)),
            Err(errno) => Err(self.part.stopped(errno)),
        }
    }
}

#[cfg(test)]
mod tests;
