//! Creates missing parent directories before a change, and removes them if it fails.
//! After a crash they stay, empty, because other processes may want them.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, fchmod, fstat, mkdirat, statat, unlinkat};
use rustix::io::Errno;
use sinew_tool::{FileError, Sync};

use super::read_only_dir::{self, BITS, OWNER};
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
    /// Returns whether the directory is only writable until the change ends.
    fn is_meanwhile(&self) -> bool {
        self.old == self.new
    }

    /// Sets the bits `old` or `new` when the change ends.
    fn end(&self, mode: u32) -> Result<(), FileError> {
        match self.is_meanwhile() {
            true => read_only_dir::close(&self.dir, mode),
            false => read_only_dir::set_mode(&self.dir, mode),
        }
    }
}

struct Made {
    above: Dir,
    name: CString,
    path: PathBuf,
}

/// Returns the error of a change in a directory that was entered. Another process may have made one of its parents and
/// removed it again, as its change failed: nothing happened here, and a retry makes it.
pub(crate) fn error_below(place: &Place, error: FileError) -> FileError {
    match (&place.spot, error) {
        (Spot::MissingParents(_), FileError::Missing) => FileError::Busy,
        (_, error) => error,
    }
}

impl Parents {
    /// Returns the directory of a place, creating missing parents; records first that they are missing.
    pub(crate) fn enter(&mut self, place: &Place, kept: &CallCheckpoint) -> Result<Dir, FileError> {
        self.make_writable(place, kept)?;
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

    /// Gives the owner of the directory above a place, if read-only, its rights until the change ends. The checkpoint has
    /// its mode meanwhile: a restore brings it back after a death.
    pub(crate) fn make_writable(
        &mut self,
        place: &Place,
        kept: &CallCheckpoint,
    ) -> Result<(), FileError> {
        let n_missing = match &place.spot {
            Spot::MissingParents(names) => names.len(),
            Spot::Found(_) | Spot::Missing => 0,
            Spot::Gone => return Ok(()),
        };
        if !self.writes_read_only || place.name.is_none() {
            return Ok(());
        }
        let Some(path) = place.real.ancestors().nth(1 + n_missing) else { return Ok(()) };
        // Without the right to change the mode, the change itself returns the error.
        let Some(old) = read_only_dir::mode(&place.dir)? else { return Ok(()) };
        if self.mode_before(path).is_some() {
            return Ok(());
        }
        kept.keep_mode(path, old, old | OWNER)?;
        kept.record()?;
        let dir = Arc::clone(&place.dir);
        read_only_dir::set_mode(&dir, old | OWNER)?;
        self.changed.push(ChangedMode { dir, path: path.to_owned(), old, new: old });
        Ok(())
    }

    /// Returns the permission bits that a directory had before they were changed here.
    pub(crate) fn mode_before(&self, path: &Path) -> Option<u32> {
        self.changed.iter().find(|changed| changed.path == path).map(|changed| changed.old)
    }

    /// Records that an existing directory gets other permission bits. Until then its owner can change its entries.
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
            None => read_only_dir::mode_now(dir)?,
        };
        if old == new & BITS || self.made.iter().any(|made| made.path == path) {
            return Ok(());
        }
        kept.keep_mode(path, old, new)?;
        kept.record()?;
        let changed = ChangedMode { dir: Arc::clone(dir), path: path.to_owned(), old, new };
        if before.is_some() {
            self.changed.retain(|writable| writable.path != path);
        } else if old & OWNER != OWNER {
            read_only_dir::set_mode(dir, old | OWNER)?;
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
            dir = match self.step(&dir, name, path, kept) {
                // Another process made the directory above, and removed it again.
                Err(FileError::Missing) if 0 < at => return Err(FileError::Busy),
                stepped => stepped?,
            };
        }
        Ok(dir)
    }

    fn step(
        &mut self,
        above: &Dir,
        name: &CStr,
        path: &Path,
        kept: &CallCheckpoint,
    ) -> Result<Dir, FileError> {
        let identity = identity_of(&fstat(&**above).map_err(error_of)?);
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
            Err(errno) => return Err(error_of(errno)),
        }
        let opened = open_name(above.as_fd(), name, DIRECTORY_PATH);
        let dir = Dir::new(opened.map_err(|errno| match errno {
            Errno::NOENT => FileError::Busy,
            errno => error_of(errno),
        })?);
        self.known.insert(key, Arc::clone(&dir));
        Ok(dir)
    }

    /// Returns an empty set whose directories get these final permission bits. A restore writes in read-only directories
    /// too, as it replaces read-only files.
    pub(crate) fn with_modes(modes: HashMap<PathBuf, u32>, writes_read_only: bool) -> Self {
        Self { modes, writes_read_only, ..Self::default() }
    }

    /// Sets the final permission bits, deepest first: they may lock the owner out of a parent. Sets all that can be set, and
    /// returns the first failure.
    pub(crate) fn set_modes(&self) -> Result<(), FileError> {
        let made = self.made.iter().rev().filter_map(|made| {
            let mode = Mode::from_raw_mode(self.modes.get(&made.path)? & BITS);
            let opened = open_name(made.above.as_fd(), &made.name, DIRECTORY_READ);
            match opened.and_then(|dir| fchmod(dir, mode)) {
                // Another process removed it since.
                Ok(()) | Err(Errno::NOENT) => None,
                Err(errno) => Some(error_of(errno)),
            }
        });
        let changed =
            self.changed.iter().rev().filter_map(|changed| changed.end(changed.new).err());
        // All are tried before the first counts.
        let failed: Vec<FileError> = made.chain(changed).collect();
        failed.into_iter().next().map_or(Ok(()), Err)
    }

    /// Keeps the created directories, and syncs their parents if `sync` is full.
    pub(crate) fn keep(&self, sync: Sync, kept: &CallCheckpoint) -> Result<(), FileError> {
        for made in self.made.iter().filter(|_| kept.is_on()) {
            let found = statat(&*made.above, &made.name, AtFlags::SYMLINK_NOFOLLOW);
            let mode = found.map_or(0o777, |stat| stat.st_mode);
            kept.settle(&made.path, PathState::directory(mode));
        }
        for changed in &self.changed {
            if changed.is_meanwhile()
                && read_only_dir::mode_now(&changed.dir).is_ok_and(|now| now == changed.old)
            {
                kept.withdraw(&changed.path);
                continue;
            }
            kept.settle(&changed.path, PathState::directory(changed.new));
        }
        if sync != Sync::Full {
            return Ok(());
        }
        self.made.iter().try_for_each(|made| sync_directory(&made.above)).map_err(error_of)
    }

    /// Takes all back, deepest first: the created directories, of which one that is not empty stays, and the permission
    /// bits.
    pub(crate) fn remove(&self, kept: &CallCheckpoint) {
        for made in self.made.iter().rev() {
            if unlinkat(&*made.above, &*made.name, AtFlags::REMOVEDIR).is_ok() {
                kept.withdraw(&made.path);
            }
        }
        for changed in self.changed.iter().rev() {
            if changed.end(changed.old).is_ok() {
                kept.withdraw(&changed.path);
            }
        }
    }
}
