//! Judges descendants of a moved directory at old and new paths, since the call names only the directory.
//!
//! A checkpoint records each descendant as removed at its old path and created at its new one.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir as Entries, FileType, Stat, statat};
use sinew_tool::{Access, FileError, FileKind};

use super::{Moved, kept_at};
use crate::change::kept::CallCheckpoint;
use sinew_fs::resolve::Place;
use sinew_fs::roots::{DIRECTORY_READ, Dir, open_name};
use sinew_fs::stat::{error_of, identity_of, kind_of};
use sinew_policy::protected::{self, Names};
use sinew_policy::rule::Judge;
use sinew_policy::rules;
use sinew_records::checkpoints::{CheckpointError, PathState};

/// The most names beneath a directory that is moved.
const MAX_BENEATH: usize = 100_000;
/// The most of them, and the most bytes, that a checkpoint keeps: a restore brings all back at once.
const MAX_KEPT: usize = 10_000;
const MAX_KEPT_BYTES: u64 = 512 << 20;

/// Judges descendants at old and new paths; returns the protected name of one. `also` sees each path.
pub(crate) fn judge(
    names: Judge<'_>,
    from: &Place,
    to: &Path,
    also: &mut dyn FnMut(&Path) -> Result<(), FileError>,
) -> Result<Option<&'static str>, FileError> {
    if to.starts_with(&from.real) {
        return Err(FileError::Invalid("cannot be moved into itself"));
    }
    if names.roots.paths().any(|root| root.starts_with(&from.real)) {
        return Err(FileError::Denied(String::from("a root cannot be moved")));
    }
    let (mut found, mut n_seen) = (None, 0);
    each(from, |_, _, beneath, stat| {
        n_seen += 1;
        if MAX_BENEATH < n_seen {
            return Err(FileError::Denied(format!(
                "it holds more than {MAX_BENEATH} names, which cannot all be judged"
            )));
        }
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        for real in [from.real.join(beneath), to.join(beneath)] {
            found = judged(names, &real, is_dir)?.or(found);
            also(&real)?;
        }
        Ok(())
    })?;
    Ok(found)
}

/// Records a directory and its descendants for a move. Fails if one cannot be kept, such as a FIFO.
pub(super) fn keep(
    kept: &CallCheckpoint,
    from: &Place,
    mode: u32,
    to: &Path,
) -> Result<Vec<Moved>, FileError> {
    if !kept.is_on() {
        return Ok(Vec::new());
    }
    check_kept(from)?;
    let mut moved = Vec::new();
    let directory = |here: PathBuf, there: PathBuf, mode| {
        kept.keep_directory(&here, mode)?;
        let after = PathState::directory(mode);
        kept.keep(&there, None, after.clone())?;
        Ok::<_, FileError>(Moved { from: here, to: there, after })
    };
    moved.push(directory(from.real.clone(), to.to_owned(), mode)?);
    each(from, |dir, name, beneath, stat| {
        let (here, there) = (from.real.join(beneath), to.join(beneath));
        match kind_of(FileType::from_raw_mode(stat.st_mode)) {
            FileKind::Directory => moved.push(directory(here, there, stat.st_mode)?),
            FileKind::File | FileKind::Symlink => {
                let old = super::open_to_keep(dir, name, stat)?;
                moved.push(kept_at(kept, &here, &there, &old)?);
            }
            FileKind::Special => return Err(CheckpointError::Special(here).into()),
        }
        Ok(())
    })?;
    kept.record()?;
    Ok(moved)
}

/// Rejects descendants that a checkpoint cannot keep or restore, before any is recorded.
fn check_kept(from: &Place) -> Result<(), FileError> {
    let (mut n_names, mut n_bytes) = (0, 0_u64);
    each(from, |_, _, beneath, stat| {
        let here = from.real.join(beneath);
        let kind = kind_of(FileType::from_raw_mode(stat.st_mode));
        n_names += 1;
        n_bytes = match kind {
            FileKind::File => n_bytes.saturating_add(identity_of(&stat).size),
            _ => n_bytes,
        };
        let problem = if kind == FileKind::Special {
            CheckpointError::Special(here)
        } else if here.to_str().is_none() {
            CheckpointError::Unnameable(here)
        } else if MAX_KEPT < n_names {
            CheckpointError::TooMany { path: from.real.clone(), max: MAX_KEPT }
        } else if MAX_KEPT_BYTES < n_bytes {
            CheckpointError::TooMuch { max: MAX_KEPT_BYTES }
        } else {
            return Ok(());
        };
        Err(problem.into())
    })
}

/// Passes each descendant to `take`, parents first.
fn each(
    top: &Place,
    mut take: impl FnMut(&Dir, &CStr, &Path, Stat) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let dir: Dir = Arc::new(top.open_directory(DIRECTORY_READ)?);
    let mut left: Vec<(Dir, CString, PathBuf)> = vec![(dir, c".".to_owned(), PathBuf::new())];
    while let Some((above, name, beneath)) = left.pop() {
        let dir: Dir = Arc::new(open_name(above.as_fd(), &name, DIRECTORY_READ).map_err(error_of)?);
        for entry in Entries::read_from(&*dir).map_err(error_of)? {
            let entry = entry.map_err(error_of)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let beneath = beneath.join(OsStr::from_bytes(name.to_bytes()));
            let stat = statat(&*dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(error_of)?;
            take(&dir, name, &beneath, stat)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                left.push((Arc::clone(&dir), name.to_owned(), beneath));
            }
        }
    }
    Ok(())
}

/// Applies the rules to one name; returns its protected name, if any.
fn judged(names: Judge<'_>, real: &Path, is_dir: bool) -> Result<Option<&'static str>, FileError> {
    let named = names.roots.named(real);
    rules::check_own(named, Access::Move)?;
    if is_dir {
        names.rules.check_search(real)?;
    } else {
        names.rules.check(real)?;
    }
    Ok(protected::protected(&Names::new(real, named)))
}
