//! Making directories, and giving what is there another name.
//!
//! A thing is moved by one rename from one open directory to another, and never over something. A
//! directory takes along what lies beneath it, which nobody named: each name there is judged where it
//! is and where it goes, when the call is contained and again just before the rename. What may not be
//! touched at either place ends the call; a protected name makes the ruling ask.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Dir as Entries, FileType, Mode, RenameFlags, fstat, linkat, mkdirat, renameat_with,
    statat, unlinkat,
};
use rustix::io::Errno;
use sinew_tool::{Access, Change, FileError, FileKind, Identity, Sync};

use crate::change::old::{Content, Old};
use crate::change::parents::Parents;
use crate::change::{Failure, Job, sync_directory};
use crate::checkpoints::{PathState, of_call};
use crate::guard::Guard;
use crate::resolve::{Place, Spot};
use crate::roots::{DIRECTORY_READ, Dir, open_name};
use crate::rules::{self, Names};
use crate::stat::{error_of, identity_of, kind_of, meta_of};
use crate::turn::Turn;

/// The most names beneath a directory that is moved.
const MAX_BENEATH: usize = 100_000;

/// Makes the directory at a place, and those above it that are missing. Returns whether it was not
/// there before.
pub(crate) fn make_directory(
    place: &Place,
    sync: Sync,
    kept: &of_call::OfCall,
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
                errno => Err(error_of(errno)),
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

/// Refuses a name that stands for something else than a directory.
fn is_directory(dir: &Dir, name: &CStr) -> Result<(), FileError> {
    let stat = statat(&**dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(error_of)?;
    match kind_of(FileType::from_raw_mode(stat.st_mode)) {
        FileKind::Directory => Ok(()),
        _ => Err(FileError::Exists),
    }
}

/// Gives what a job names the name of a place. `protected` is the protected name that the ruling knew
/// of. Returns the changes: of the old name, and of the new one.
pub(crate) fn rename(
    guard: &Guard,
    job: &Job<'_>,
    to: &Place,
    protected: Option<&str>,
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
    // A directory that moves cannot be undone: what lies beneath it is not kept.
    let (hash, after) = match seen.0 {
        FileKind::Directory => {
            let found = taken_along(guard, job.place, &to.real)?;
            if found.is_some() && protected.is_none() {
                return Err(FileError::Changed);
            }
            (None, None)
        }
        FileKind::File | FileKind::Symlink => take_down(job, from, &to.real)?,
        FileKind::Special => return Err(FileError::NotRegular(FileKind::Special)),
    };
    let kept = job.terms.kept;
    let moved = in_turn(job, to, name, seen);
    match (&moved, after) {
        (Ok(()), Some(after)) => {
            kept.settle(&job.place.real, PathState::Absent);
            kept.settle(&to.real, after);
        }
        (Err(_), Some(_)) => {
            [&job.place.real, &to.real].iter().for_each(|path| kept.withdraw(path))
        }
        (_, None) => {}
    }
    moved?;
    if job.terms.settings.sync == Sync::Full {
        sync_directory(&to.dir).and_then(|()| sync_directory(from)).map_err(error_of)?;
    }
    let change =
        |path: &Path, before, after, bytes| Change { path: path.into(), before, after, bytes };
    let bytes = if seen.0 == FileKind::Directory { 0 } else { seen.1.size };
    Ok([change(&job.place.real, hash.clone(), None, 0), change(&to.real, None, hash, bytes)])
}

/// Makes the move once it is the turn of both directories, where the old thing is as it was.
fn in_turn(
    job: &Job<'_>,
    to: &Place,
    name: &CStr,
    seen: (FileKind, Identity),
) -> Result<(), FileError> {
    let from = &job.place.dir;
    let turn = Turn::of(&**from, job.terms.turns)?;
    turn.take()?;
    let other =
        is_other(from, &to.dir)?.then(|| Turn::of(&*to.dir, job.terms.turns)).transpose()?;
    other.as_ref().map_or(Ok(()), Turn::take)?;
    if look(from, job.name)? != seen {
        return Err(FileError::Changed);
    }
    let moved = renameat_with(&**from, job.name, &*to.dir, name, RenameFlags::NOREPLACE);
    moved.or_else(|errno| without_flags(errno, seen.0, (from, job.name), (&to.dir, name)))
}

/// Moves a file on a file system that cannot rename without replacing; a link does not replace either.
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

/// Returns what a name stands for, and in which state.
fn look(dir: &Dir, name: &CStr) -> Result<(FileKind, Identity), FileError> {
    let stat = statat(&**dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(error_of)?;
    Ok((kind_of(FileType::from_raw_mode(stat.st_mode)), identity_of(&stat)))
}

fn is_other(one: &Dir, other: &Dir) -> Result<bool, FileError> {
    let identity = |dir: &Dir| fstat(&**dir).map(|stat| identity_of(&stat).of_file());
    Ok(identity(one).map_err(error_of)? != identity(other).map_err(error_of)?)
}

/// Takes down what leaves its name, and keeps it; returns its hash, and what will be at the new name.
/// A file that cannot be read has no hash, and its move cannot be undone.
fn take_down(
    job: &Job<'_>,
    dir: &Dir,
    to: &Path,
) -> Result<(Option<String>, Option<PathState>), FileError> {
    let seen = statat(&**dir, job.name, AtFlags::SYMLINK_NOFOLLOW).map_err(error_of)?;
    let old = match Old::open_to_read(dir, job.name, seen) {
        Ok(old) => old,
        Err(Failure::Error(FileError::Permission)) => return Ok((None, None)),
        Err(Failure::Error(error)) => return Err(error),
        Err(Failure::Raced) => return Err(FileError::Changed),
    };
    let hash = job.take_down(Some(&old))?;
    let (meta, kept) = (meta_of(&old.stat), job.terms.kept);
    let after = match (&old.content, &hash) {
        (Content::Link(target), _) => PathState::Link(of_call::path_of(target).to_owned()),
        (Content::File(_), Some(hash)) => of_call::written(hash, meta.size(), meta.mode),
        (Content::File(_), None) => PathState::unkept(meta.size(), meta.mode),
    };
    kept.keep(&job.place.real, Some(&old), PathState::Absent)?;
    kept.keep(to, None, after.clone())?;
    kept.record()?;
    Ok((hash, Some(after)))
}

/// Judges what a directory takes along where it goes. Returns the protected name that something
/// beneath it falls under, here or there.
pub(crate) fn taken_along(
    guard: &Guard,
    from: &Place,
    to: &Path,
) -> Result<Option<&'static str>, FileError> {
    if to.starts_with(&from.real) {
        return Err(FileError::Invalid("is to be moved into itself"));
    }
    if guard.roots().any(|root| root.starts_with(&from.real)) {
        return Err(FileError::Denied(String::from("a root is moved by nobody")));
    }
    let top = from.open_directory(DIRECTORY_READ)?;
    let mut left: Vec<(Arc<OwnedFd>, CString, PathBuf)> =
        vec![(Arc::new(top), c".".to_owned(), PathBuf::new())];
    let (mut found, mut n_seen) = (None, 0);
    while let Some((above, name, beneath)) = left.pop() {
        let dir = Arc::new(open_name(above.as_fd(), &name, DIRECTORY_READ).map_err(error_of)?);
        for entry in Entries::read_from(&*dir).map_err(error_of)? {
            let entry = entry.map_err(error_of)?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            n_seen += 1;
            if MAX_BENEATH < n_seen {
                return Err(FileError::Denied(format!(
                    "it holds more than {MAX_BENEATH} names, which cannot all be judged"
                )));
            }
            let beneath = beneath.join(OsStr::from_bytes(entry.file_name().to_bytes()));
            let stat = statat(&*dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            let stat = stat.map_err(error_of)?;
            let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            for real in [from.real.join(&beneath), to.join(&beneath)] {
                found = judged(guard, &real, is_dir)?.or(found);
            }
            if is_dir {
                left.push((Arc::clone(&dir), entry.file_name().to_owned(), beneath));
            }
        }
    }
    Ok(found)
}

/// Applies the rules to one name. Returns the protected name that it falls under.
fn judged(guard: &Guard, real: &Path, is_dir: bool) -> Result<Option<&'static str>, FileError> {
    let named = guard.roots.named(real);
    rules::check_own(named, Access::Move)?;
    if is_dir {
        guard.rules.check_search(real)?;
    } else {
        guard.rules.check(real)?;
    }
    Ok(rules::protected(&Names::new(real, named)))
}
