//! Creates directories and renames files and directories, never over an existing name.
//!
//! A move is one rename between open directories. Descendants of a directory are judged when the call is
//! contained and again just before the rename. A denied path at either place fails the call; a protected name
//! makes the ruling ask. For an undo, a move is a removal at the old name and a creation at the new one.

pub(crate) mod descendants;

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, RenameFlags, Stat, fstat, linkat, mkdirat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;
use sinew_tool::{Change, ContentHash, FileError, FileKind, Identity, Sync};

use crate::change::kept;
use crate::change::original::Original;
use crate::change::parents::{Parents, error_below};
use crate::change::{Failure, NameChange, sync_directory};
use sinew_fs::dir_lock::DirLock;
use sinew_fs::resolve::{Place, Spot};
use sinew_fs::roots::Dir;
use sinew_fs::stat::{error_of, identity_of, kind_of, meta_of};
use sinew_policy::rule::{Judge, Taken};
use sinew_records::checkpoints::PathState;

/// Checkpoint entry of one moved file or directory.
pub(crate) struct Moved {
    from: PathBuf,
    to: PathBuf,
    /// State at the new name after the move.
    after: PathState,
}

/// Creates the directory at a place, with missing parents. Returns whether it was missing.
pub(crate) fn make_directory(
    place: &Place,
    sync: Sync,
    kept: &kept::CallCheckpoint,
) -> Result<bool, FileError> {
    let Some(name) = &place.name else { return Ok(false) };
    match &place.spot {
        Spot::Gone => return Err(FileError::Missing),
        Spot::Found(_) if place.is_directory() => return Ok(false),
        Spot::Found(_) => return Err(FileError::Exists),
        Spot::Missing | Spot::MissingParents(_) => {}
    }
    let mut parents = Parents::default();
    let made = parents.enter(place, kept).and_then(|dir| {
        kept.keep_missing(std::iter::once(place.real.as_path()))?;
        kept.record()?;
        if let Err(errno) = mkdirat(&*dir, name, Mode::from_raw_mode(0o777)) {
            kept.withdraw(&place.real);
            return match errno {
                Errno::EXIST => is_directory(&dir, name).map(|()| false),
                errno => Err(error_below(place, error_of(errno))),
            };
        }
        kept.settle(&place.real, PathState::directory(0o777));
        if sync == Sync::Full {
            sync_directory(&dir).map_err(error_of)?;
        }
        Ok(true)
    });
    match made {
        Ok(made) => parents.keep(sync, kept).map(|()| made),
        Err(error) => {
            parents.remove(kept);
            Err(error)
        }
    }
}

/// Rejects a name that is not a directory.
fn is_directory(dir: &Dir, name: &CStr) -> Result<(), FileError> {
    let stat = statat(&**dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(error_of)?;
    match kind_of(FileType::from_raw_mode(stat.st_mode)) {
        FileKind::Directory => Ok(()),
        _ => Err(FileError::Exists),
    }
}

/// Renames to a place; returns the changes of the old name and the new one. `protected` is the protected
/// name that the ruling knew of, `taken` the rules on descendants.
pub(crate) fn rename(
    names: Judge<'_>,
    job: &NameChange<'_>,
    to: &Place,
    protected: Option<&str>,
    taken: Option<&Taken>,
) -> Result<[Change; 2], FileError> {
    let name = match &to.spot {
        Spot::Missing => to.name.as_ref().ok_or(FileError::Exists)?,
        Spot::Found(_) => return Err(FileError::Exists),
        Spot::MissingParents(_) | Spot::Gone => return Err(FileError::NoParent),
    };
    let from = &job.place.dir;
    let _held = job.terms.locks.lock(from, job.name)?;
    let _held = job.terms.locks.lock(&to.dir, name)?;
    let seen = look(from, job.name)?;
    if job.bound.is_some_and(|bound| bound != Some(seen.1)) {
        return Err(FileError::Changed);
    }
    let kept = job.terms.kept;
    let (hash, things) = match seen.0 {
        FileKind::Directory => {
            let mut check = |real: &Path| taken.map_or(Ok(()), |taken| taken.check(real));
            let found = descendants::judge(names, job.place, &to.real, &mut check)?;
            if found.is_some() && protected.is_none() {
                return Err(FileError::Changed);
            }
            (None, descendants::keep(kept, job.place, mode_of(from, job.name)?, &to.real)?)
        }
        FileKind::File | FileKind::Symlink => {
            let (hash, moved) = take_down(job, from, &to.real)?;
            (hash, vec![moved])
        }
        FileKind::Special => return Err(FileError::NotRegular(FileKind::Special)),
    };
    let moved = in_turn(job, to, name, seen);
    for thing in things {
        if moved.is_ok() {
            kept.settle(&thing.from, PathState::Absent);
            kept.settle(&thing.to, thing.after);
        } else {
            kept.withdraw(&thing.from);
            kept.withdraw(&thing.to);
        }
    }
    moved?;
    if job.terms.settings.sync == Sync::Full {
        sync_directory(&to.dir).and_then(|()| sync_directory(from)).map_err(error_of)?;
    }
    let change =
        |path: &Path, before, after, bytes| Change { path: path.into(), before, after, bytes };
    let bytes = if seen.0 == FileKind::Directory { 0 } else { seen.1.size };
    Ok([change(&job.place.real, hash, None, 0), change(&to.real, None, hash, bytes)])
}

/// Renames under the locks of both directories, if the original is unchanged.
fn in_turn(
    job: &NameChange<'_>,
    to: &Place,
    name: &CStr,
    seen: (FileKind, Identity),
) -> Result<(), FileError> {
    let from = &job.place.dir;
    let turn = DirLock::of(&**from, job.terms.dir_locking)?;
    turn.take()?;
    let other = is_other(from, &to.dir)?
        .then(|| DirLock::of(&*to.dir, job.terms.dir_locking))
        .transpose()?;
    other.as_ref().map_or(Ok(()), DirLock::take)?;
    if look(from, job.name)? != seen {
        return Err(FileError::Changed);
    }
    let moved = renameat_with(&**from, job.name, &*to.dir, name, RenameFlags::NOREPLACE);
    moved.or_else(|errno| without_flags(errno, seen.0, (from, job.name), (&to.dir, name)))
}

/// Moves a file on file systems without `RENAME_NOREPLACE`; a hard link does not replace either.
fn without_flags(
    errno: Errno,
    kind: FileKind,
    (from, old): (&Dir, &CStr),
    (to, new): (&Dir, &CStr),
) -> Result<(), FileError> {
    match errno {
        Errno::EXIST | Errno::NOTEMPTY => Err(FileError::Exists),
        Errno::XDEV => Err(FileError::OtherFileSystem),
        Errno::INVAL | Errno::NOSYS if kind == FileKind::File => {
            match linkat(&**from, old, &**to, new, AtFlags::empty()) {
                Ok(()) => unlinkat(&**from, old, AtFlags::empty()).map_err(error_of),
                Err(Errno::EXIST) => Err(FileError::Exists),
                Err(errno) => Err(error_of(errno)),
            }
        }
        errno => Err(error_of(errno)),
    }
}

/// Returns kind and identity of a name.
fn look(dir: &Dir, name: &CStr) -> Result<(FileKind, Identity), FileError> {
    let stat = statat(&**dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(error_of)?;
    Ok((kind_of(FileType::from_raw_mode(stat.st_mode)), identity_of(&stat)))
}

fn is_other(one: &Dir, other: &Dir) -> Result<bool, FileError> {
    let identity = |dir: &Dir| fstat(&**dir).map(|stat| identity_of(&stat).of_file());
    Ok(identity(one).map_err(error_of)? != identity(other).map_err(error_of)?)
}

/// Hashes and records what leaves its name; returns the hash.
fn take_down(
    job: &NameChange<'_>,
    dir: &Dir,
    to: &Path,
) -> Result<(Option<ContentHash>, Moved), FileError> {
    let seen = statat(&**dir, job.name, AtFlags::SYMLINK_NOFOLLOW).map_err(error_of)?;
    let (kept, here) = (job.terms.kept, &job.place.real);
    let old = match open_to_keep(dir, job.name, seen) {
        // Moving a file needs no right to read it.
        Err(FileError::Permission) if !kept.is_on() => {
            let (from, to) = (here.clone(), to.to_owned());
            return Ok((None, Moved { from, to, after: PathState::Special }));
        }
        other => other?,
    };
    let hash = job.take_down(Some(&old))?;
    let mut moved = kept_at(kept, here, to, &old)?;
    if let (PathState::Unkept { size, mode }, Some(hash)) = (&moved.after, hash) {
        moved.after = PathState::hashed(hash, *size, *mode);
    }
    kept.record()?;
    Ok((hash, moved))
}

/// Opens a file or symlink that moves.
fn open_to_keep(dir: &Dir, name: &CStr, seen: Stat) -> Result<Original, FileError> {
    Original::open_to_read(dir, name, seen).map_err(|failure| match failure {
        Failure::Error(error) => error,
        Failure::Raced => FileError::Changed,
    })
}

/// Records a file or symlink that moves between paths.
fn kept_at(
    kept: &kept::CallCheckpoint,
    from: &Path,
    to: &Path,
    old: &Original,
) -> Result<Moved, FileError> {
    let meta = meta_of(&old.stat);
    let found = kept.keep(from, Some(old), PathState::Absent)?;
    let after = found.unwrap_or_else(|| PathState::unkept(meta.size(), meta.mode));
    kept.keep(to, None, after.clone())?;
    Ok(Moved { from: from.to_owned(), to: to.to_owned(), after })
}

fn mode_of(dir: &Dir, name: &CStr) -> Result<u32, FileError> {
    let stat = statat(&**dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(error_of)?;
    Ok(stat.st_mode)
}
