//! Creates missing parent directories before a change, and removes them if it fails.
//! After a crash they stay, empty, because other processes may want them.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, chmod, fchmod, fstat, mkdirat, statat, unlinkat};
use rustix::io::Errno;
use sinew_tool::{FileError, Sync};

use super::sync_directory;
use crate::change::kept::CallCheckpoint;
use sinew_fs::resolve::{Place, Spot};
use sinew_fs::roots::{DIRECTORY_PATH, DIRECTORY_READ, Dir, open_name};
use sinew_fs::stat::{error_of, identity_of};
use sinew_records::checkpoints::PathState;

/// Directories created for one change or a set.
#[derive(Default)]
pub(crate) struct Parents {
    /// In creation order, each with its parent.
    made: Vec<Made>,
    /// Handles of directories on the way, by device and inode of the parent and name; names share them.
    known: HashMap<(u64, u64, CString), Dir>,
    /// Final permission bits; until they are set, only the owner can enter.
    modes: HashMap<PathBuf, u32>,
    /// Existing directories whose permission bits change.
    changed: Vec<ChangedMode>,
}

struct ChangedMode {
    dir: Dir,
    path: PathBuf,
    old: u32,
    new: u32,
}

impl ChangedMode {
    fn set(&self, mode: u32) -> Result<(), FileError> {
        // It may be a directory that this user cannot read.
        let path = format!("/proc/self/fd/{}", self.dir.as_raw_fd());
        let kept = fstat(&*self.dir).map_err(error_of)?.st_mode & 0o6000;
        chmod(path, Mode::from_raw_mode(mode & 0o1777 | kept)).map_err(error_of)
    }
}

struct Made {
    above: Dir,
    name: CString,
    path: PathBuf,
}

/// Returns the error of a change at a place. A parent that was missing may have been made and removed again by
/// another process whose change failed: nothing happened here, and a retry makes it.
pub(crate) fn error_below(place: &Place, error: FileError) -> FileError {
    match (&place.spot, error) {
        (Spot::MissingParents(_), FileError::Missing) => FileError::Busy,
        (_, error) => error,
    }
}

impl Parents {
    /// Returns the directory of a place, creating missing parents; records first that they are missing.
    pub(crate) fn enter(&mut self, place: &Place, kept: &CallCheckpoint) -> Result<Dir, FileError> {
        let Spot::MissingParents(names) = &place.spot else { return Ok(Arc::clone(&place.dir)) };
        let mut paths: Vec<&Path> = place.real.ancestors().skip(1).take(names.len()).collect();
        paths.reverse();
        self.make(&place.dir, names, &paths, kept)
    }

    /// Creates the directory at a place, with missing parents. One that exists gets its final permission bits too.
    pub(crate) fn make_place(
        &mut self,
        place: &Place,
        kept: &CallCheckpoint,
    ) -> Result<Dir, FileError> {
        let name = place.name.as_ref().ok_or(FileError::Invalid("is a root"))?;
        let above = self.enter(place, kept)?;
        let dir = self.make(&above, std::slice::from_ref(name), &[&place.real], kept)?;
        self.change_mode(&dir, &place.real, kept)?;
        Ok(dir)
    }

    /// Records that an existing directory gets other permission bits. Until then its owner can change what is in it.
    fn change_mode(
        &mut self,
        dir: &Dir,
        path: &Path,
        kept: &CallCheckpoint,
    ) -> Result<(), FileError> {
        let Some(new) = self.modes.get(path).copied() else { return Ok(()) };
        let old = fstat(&**dir).map_err(error_of)?.st_mode & 0o1777;
        if old == new & 0o1777 || self.made.iter().any(|made| made.path == path) {
            return Ok(());
        }
        kept.keep_mode(path, old, new)?;
        kept.record()?;
        let changed = ChangedMode { dir: Arc::clone(dir), path: path.to_owned(), old, new };
        if old & 0o700 != 0o700 {
            changed.set(old | 0o700)?;
        }
        self.changed.push(changed);
        Ok(())
    }

    fn make(
        &mut self,
        above: &Dir,
        names: &[CString],
        paths: &[&Path],
        kept: &CallCheckpoint,
    ) -> Result<Dir, FileError> {
        let mut dir = Arc::clone(above);
        let mut is_kept = !kept.is_on();
        for (at, (name, path)) in names.iter().zip(paths).enumerate() {
            // Below the first missing directory all are missing.
            let found = || statat(&*dir, name, AtFlags::SYMLINK_NOFOLLOW);
            if !is_kept && matches!(found(), Err(Errno::NOENT)) {
                kept.keep_missing(paths.iter().skip(at).copied())?;
                kept.record()?;
                is_kept = true;
            }
            dir = self.step(&dir, name, path, kept).map_err(error_of)?;
        }
        Ok(dir)
    }

    fn step(
        &mut self,
        above: &Dir,
        name: &CStr,
        path: &Path,
        kept: &CallCheckpoint,
    ) -> Result<Dir, Errno> {
        let identity = identity_of(&fstat(&**above)?);
        let key = (identity.device, identity.inode, name.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(Arc::clone(known));
        }
        let mode = if self.modes.contains_key(path) { 0o700 } else { 0o777 };
        match mkdirat(&**above, name, Mode::from_raw_mode(mode)) {
            Ok(()) => self.made.push(Made {
                above: Arc::clone(above),
                name: name.to_owned(),
                path: path.to_owned(),
            }),
            Err(Errno::EXIST) => kept.withdraw(path),
            Err(errno) => return Err(errno),
        }
        let dir = Dir::new(open_name(above.as_fd(), name, DIRECTORY_PATH)?);
        self.known.insert(key, Arc::clone(&dir));
        Ok(dir)
    }

    /// Returns an empty set whose directories get these final permission bits.
    pub(crate) fn with_modes(modes: HashMap<PathBuf, u32>) -> Self {
        Self { modes, ..Self::default() }
    }

    /// Sets the final permission bits, deepest first: they may lock the owner out of a parent.
    pub(crate) fn set_modes(&self) -> Result<(), FileError> {
        for made in self.made.iter().rev() {
            let Some(mode) = self.modes.get(&made.path) else { continue };
            let dir = open_name(made.above.as_fd(), &made.name, DIRECTORY_READ);
            let mode = Mode::from_raw_mode(mode & 0o1777);
            fchmod(dir.map_err(error_of)?, mode).map_err(error_of)?;
        }
        self.changed.iter().rev().try_for_each(|changed| changed.set(changed.new))
    }

    /// Keeps the created directories, and syncs their parents if `sync` is full.
    pub(crate) fn keep(&self, sync: Sync, kept: &CallCheckpoint) -> Result<(), FileError> {
        for made in self.made.iter().filter(|_| kept.is_on()) {
            let found = statat(&*made.above, &made.name, AtFlags::SYMLINK_NOFOLLOW);
            let mode = found.map_or(0o777, |stat| stat.st_mode);
            kept.settle(&made.path, PathState::directory(mode));
        }
        for changed in &self.changed {
            kept.settle(&changed.path, PathState::directory(changed.new));
        }
        if sync != Sync::Full {
            return Ok(());
        }
        self.made.iter().try_for_each(|made| sync_directory(&made.above)).map_err(error_of)
    }

    /// Takes all back: the permission bits, and the created directories, deepest first. A directory that is not empty stays.
    pub(crate) fn remove(&self, kept: &CallCheckpoint) {
        for changed in self.changed.iter().rev() {
            if changed.set(changed.old).is_ok() {
                kept.withdraw(&changed.path);
            }
        }
        for made in self.made.iter().rev() {
            if unlinkat(&*made.above, &*made.name, AtFlags::REMOVEDIR).is_ok() {
                kept.withdraw(&made.path);
            }
        }
    }
}
