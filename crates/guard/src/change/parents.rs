//! Creates missing parent directories before a change, and removes them if it fails.
//! After a crash they stay, empty, because other processes may want them.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    Access, AtFlags, Mode, accessat, chmod, fchmod, fstat, mkdirat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
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
    /// Existing directories whose permission bits change, or differ during the change.
    changed: Vec<ChangedMode>,
    /// Whether a read-only directory of this user can be written during the change.
    writes_read_only: bool,
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
        self.make_writable(place)?;
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

    /// Gives the owner of the directory above a place, if read-only, its rights until the change ends.
    pub(crate) fn make_writable(&mut self, place: &Place) -> Result<(), FileError> {
        let dir = &place.dir;
        let n_missing = match &place.spot {
            Spot::MissingParents(names) => names.len(),
            Spot::Found(_) | Spot::Missing | Spot::Gone => 0,
        };
        let needed = Access::WRITE_OK.union(Access::EXEC_OK);
        if !self.writes_read_only || accessat(&**dir, c".", needed, AtFlags::EACCESS).is_ok() {
            return Ok(());
        }
        let Some(path) = place.real.ancestors().nth(1 + n_missing) else { return Ok(()) };
        let stat = fstat(&**dir).map_err(error_of)?;
        let old = stat.st_mode & 0o1777;
        if stat.st_uid != geteuid().as_raw() || old & 0o700 == 0o700 {
            // The change itself says what is missing.
            return Ok(());
        }
        let changed = ChangedMode { dir: Arc::clone(dir), path: path.to_owned(), old, new: old };
        changed.set(old | 0o700)?;
        self.changed.push(changed);
        Ok(())
    }

    /// Returns the permission bits that a directory had before they were changed here.
    pub(crate) fn mode_before(&self, path: &Path) -> Option<u32> {
        self.changed.iter().find(|changed| changed.path == path).map(|changed| changed.old)
    }

    /// Records that an existing directory gets other permission bits. Until then its owner can change what is in it.
    fn change_mode(
        &mut self,
        dir: &Dir,
        path: &Path,
        kept: &CallCheckpoint,
    ) -> Result<(), FileError> {
        let Some(new) = self.modes.get(path).copied() else { return Ok(()) };
        let before = self.mode_before(path);
        let old = match before {
            Some(mode) => mode,
            None => fstat(&**dir).map_err(error_of)?.st_mode & 0o1777,
        };
        if old == new & 0o1777 || self.made.iter().any(|made| made.path == path) {
            return Ok(());
        }
        kept.keep_mode(path, old, new)?;
        kept.record()?;
        let changed = ChangedMode { dir: Arc::clone(dir), path: path.to_owned(), old, new };
        if before.is_some() {
            self.changed.retain(|writable| writable.path != path);
        } else if old & 0o700 != 0o700 {
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

    /// Returns an empty set whose directories get these final permission bits. A restore writes in read-only directories
    /// too, as it replaces read-only files.
    pub(crate) fn with_modes(modes: HashMap<PathBuf, u32>, writes_read_only: bool) -> Self {
        Self { modes, writes_read_only, ..Self::default() }
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
        for changed in self.changed.iter().filter(|changed| changed.old != changed.new) {
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
            if changed.set(changed.old).is_ok() && changed.old != changed.new {
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
