//! Replaces one file atomically, so that readers see the old content or the new, never a mixture.
//!
//! A temporary file beside the original gets the new content and its owner, mode, extended attributes and
//! ACLs. One rename then takes the name, all on the directory handle. The original is checked again just
//! before, under the directory lock. An attribute that cannot be kept fails the change and leaves the
//! original. Setuid and setgid bits and capabilities are dropped, as the kernel does on write.

use std::os::fd::AsFd;

use rustix::fs::{OFlags, fdatasync, fstat, ftruncate, renameat};
use rustix::io::Errno;
use sinew_tool::{Change, ContentHash, FileError, FileKind, HardLinks, Sync, Written};

use crate::change::original::{self, Content, Original};
use crate::change::parents::{Parents, error_below};
use crate::change::temporary::{Temporary, take_free_name, write_pieces};
use crate::change::{Failure, MAX_ATTEMPTS, NameChange, length, sync_directory};
use sinew_fs::content_hash::hash_so_far;
use sinew_fs::dir_lock::{self, DirLock};
use sinew_fs::roots::{Dir, FILE_READ, open_name};
use sinew_fs::stat::{error_of, identity_of, meta_of};
use sinew_records::checkpoints::PathState;

/// A change that happened.
pub(crate) struct AppliedChange {
    pub(crate) written: Written,
    pub(crate) change: Change,
    /// A failure after the point of no return.
    pub(crate) late: Option<FileError>,
}

/// Replaces or creates a file from pieces.
pub(crate) fn replace(job: &NameChange<'_>, pieces: &[&[u8]]) -> Result<AppliedChange, FileError> {
    let mut parents = Parents::default();
    let kept = job.terms.kept;
    let done = parents.enter(job.place, kept).and_then(|dir| {
        let _held = job.terms.locks.lock(&dir, job.name)?;
        attempts(job, pieces, &dir).map_err(|error| error_below(job.place, error))
    });
    match done {
        Ok(mut done) => {
            let kept = parents.keep(job.terms.settings.sync, kept);
            done.late = done.late.or(kept.err());
            Ok(done)
        }
        Err(error) => {
            parents.remove(kept);
            kept.withdraw(&job.place.real);
            Err(error)
        }
    }
}

fn attempts(job: &NameChange<'_>, pieces: &[&[u8]], dir: &Dir) -> Result<AppliedChange, FileError> {
    for _ in 0..MAX_ATTEMPTS {
        match attempt(job, pieces, dir) {
            Ok(done) => return Ok(done),
            Err(Failure::Error(error)) => return Err(error),
            // A change that accepts any old content is retried after the other one.
            Err(Failure::Raced) if job.expects_nothing() => {}
            Err(Failure::Raced) => return Err(FileError::Changed),
        }
    }
    Err(FileError::Busy)
}

fn attempt(job: &NameChange<'_>, pieces: &[&[u8]], dir: &Dir) -> Result<AppliedChange, Failure> {
    let old = job.open_old(dir)?;
    match &old {
        None => create(job, pieces, dir),
        Some(Original { content: Content::Link(_), .. }) => {
            Err(FileError::NotRegular(FileKind::Symlink).into())
        }
        Some(old) => overwrite(job, pieces, dir, old),
    }
    .inspect(|_| job.close_later(old))
}

/// Creates a file at a free name.
fn create(job: &NameChange<'_>, pieces: &[&[u8]], dir: &Dir) -> Result<AppliedChange, Failure> {
    let before = job.take_down(None)?;
    let temporary = Temporary::create(dir, job.temporary, 0o666)?;
    let after = temporary.fill(pieces)?;
    let left = job.keep(None, &temporary, after, pieces)?;
    temporary.sync(job.terms.settings.sync)?;
    match take_free_name(dir, job.temporary, job.name) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(Failure::Raced),
        Err(errno) => return Err(errno.into()),
    }
    temporary.name.keep();
    job.terms.kept.settle(&job.place.real, left);
    Ok(finish(job, pieces, dir, before, Some(after), true))
}

/// Replaces an existing file.
fn overwrite(
    job: &NameChange<'_>,
    pieces: &[&[u8]],
    dir: &Dir,
    old: &Original,
) -> Result<AppliedChange, Failure> {
    let n_links = meta_of(&old.stat).links;
    if 1 < n_links {
        match job.terms.settings.hard_links {
            HardLinks::Refuse => return Err(FileError::ManyLinks(n_links).into()),
            HardLinks::InPlace => return write_in_place(job, pieces, dir, old),
            HardLinks::Break => {}
        }
    }
    let turn = DirLock::of(&**dir, job.terms.dir_locking)?;
    // Fails early if the directory is locked, but holds no lock during preparation.
    turn.take_at_once()?;
    turn.give_back();
    let before = job.take_down(Some(old))?;
    let temporary = Temporary::create(dir, job.temporary, 0o600)?;
    let after = temporary.fill(pieces)?;
    temporary.take_after(old)?;
    let left = job.keep(Some(old), &temporary, after, pieces)?;
    temporary.sync(job.terms.settings.sync)?;
    turn.take()?;
    match original::look(dir, job.name, false)? {
        Some(now) if identity_of(&now) == identity_of(&old.stat) => {}
        _ => return Err(Failure::Raced),
    }
    renameat(&**dir, job.temporary, &**dir, job.name)?;
    // Syncing the directory needs no lock.
    drop(turn);
    temporary.name.keep();
    job.terms.kept.settle(&job.place.real, left);
    Ok(finish(job, pieces, dir, before, Some(after), false))
}

/// Writes into a file with several hard links, under its lock. Not atomic: readers can see a mixture.
fn write_in_place(
    job: &NameChange<'_>,
    pieces: &[&[u8]],
    dir: &Dir,
    old: &Original,
) -> Result<AppliedChange, Failure> {
    let dir_locking = job.terms.dir_locking;
    let turn = DirLock::of(&**dir, dir_locking)?;
    turn.take_at_once()?;
    let flags = OFlags::WRONLY.union(FILE_READ.difference(OFlags::RDONLY));
    let file = open_name(dir.as_fd(), job.name, flags)?;
    dir_lock::at_file(&file, dir_locking)?;
    if identity_of(&fstat(&file)?) != identity_of(&old.stat) {
        return Err(Failure::Raced);
    }
    let before = job.take_down(Some(old))?;
    let (kept, path) = (job.terms.kept, &job.place.real);
    if kept.is_on() {
        let mut hasher = blake3::Hasher::new();
        for piece in pieces {
            hasher.update(piece);
        }
        let after = hash_so_far(&hasher);
        let after = PathState::hashed(after, length(pieces), old.stat.st_mode);
        kept.keep(path, Some(old), after)?;
        kept.record()?;
    }
    let written = write_pieces(&file, pieces).and_then(|after| {
        ftruncate(&file, length(pieces))?;
        if job.terms.settings.sync != Sync::Off {
            fdatasync(&file)?;
        }
        Ok(after)
    });
    drop((file, turn));
    match written {
        Ok(after) => {
            kept.settle(path, PathState::hashed(after, length(pieces), old.stat.st_mode));
            Ok(finish(job, pieces, dir, before, Some(after), false))
        }
        Err(errno) => {
            // A part of the new content may be written.
            let mut done = finish(job, pieces, dir, before, None, false);
            done.late = Some(error_of(errno));
            Ok(done)
        }
    }
}

impl NameChange<'_> {
    /// Records the original before a file takes its name; returns the state after it.
    fn keep(
        &self,
        old: Option<&Original>,
        new: &Temporary,
        hash: ContentHash,
        pieces: &[&[u8]],
    ) -> Result<PathState, Failure> {
        let kept = self.terms.kept;
        if !kept.is_on() {
            return Ok(PathState::Absent);
        }
        let mode = fstat(&new.file)?.st_mode;
        let after = PathState::hashed(hash, length(pieces), mode);
        kept.keep(&self.place.real, old, after.clone())?;
        kept.record()?;
        Ok(after)
    }
}

/// Returns the change, once the file has its name.
fn finish(
    job: &NameChange<'_>,
    pieces: &[&[u8]],
    dir: &Dir,
    before: Option<ContentHash>,
    after: Option<ContentHash>,
    created: bool,
) -> AppliedChange {
    let synced = match job.terms.settings.sync {
        Sync::Full => sync_directory(dir),
        Sync::Off | Sync::Data => Ok(()),
    };
    let bytes = length(pieces);
    let path = job.place.real.clone();
    AppliedChange {
        written: Written { bytes, created },
        change: Change { path, before, after, bytes },
        late: synced.err().map(error_of),
    }
}
