//! The missing directories above the names of a change, made before it and removed where it fails.
//! Where the process dies before the change, they stay, empty: nothing says afterwards that nobody
//! else wants them.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, fchmod, fstat, mkdirat, statat, unlinkat};
use rustix::io::Errno;
use sinew_tool::{FileError, Sync};

use super::sync_directory;
use crate::change::kept::CallCheckpoint;
use sinew_fs::resolve::{Place, Spot};
use sinew_fs::roots::{DIRECTORY_PATH, DIRECTORY_READ, Dir, open_name};
use sinew_fs::stat::{error_of, identity_of};
use sinew_records::checkpoints::PathState;

/// The directories that were made for a change, or for several.
#[derive(Default)]
pub(crate) struct Parents {
    /// Each with the directory above it, in the order in which they were made.
    made: Vec<Made>,
    /// Handles of the directories on the way, which many names may share, by the device and inode
    /// of the directory above and the name.
    known: HashMap<(u64, u64, CString), Dir>,
    /// The permission bits that directories get in the end; until then only their owner enters them.
    modes: HashMap<PathBuf, u32>,
}

/// A directory that was made.
struct Made {
    above: Dir,
    name: CString,
    path: PathBuf,
}

impl Parents {
    /// Returns the directory that holds the name of a place, making those on the way that are
    /// missing. That nothing was there is on record before the first is made.
    pub(crate) fn enter(&mut self, place: &Place, kept: &CallCheckpoint) -> Result<Dir, FileError> {
        let Spot::MissingParents(names) = &place.spot else { return Ok(Arc::clone(&place.dir)) };
        let mut paths: Vec<&Path> = place.real.ancestors().skip(1).take(names.len()).collect();
        paths.reverse();
        self.make(&place.dir, names, &paths, kept)
    }

    /// Makes the directory that a place names, and those on the way that are missing.
    pub(crate) fn make_place(
        &mut self,
        place: &Place,
        kept: &CallCheckpoint,
    ) -> Result<Dir, FileError> {
        let name = place.name.as_ref().ok_or(FileError::Invalid("is a root"))?;
        let above = self.enter(place, kept)?;
        self.make(&above, std::slice::from_ref(name), &[&place.real], kept)
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
            // Whatever is below the first that is missing is missing too.
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

    /// Returns directories of which these get other permission bits in the end than new ones do.
    pub(crate) fn with_modes(modes: HashMap<PathBuf, u32>) -> Self {
        Self { modes, ..Self::default() }
    }

    /// Gives the directories that were made their permission bits, the deepest first: one may be
    /// closed to its owner from then on.
    pub(crate) fn set_modes(&self) -> Result<(), FileError> {
        for made in self.made.iter().rev() {
            let Some(mode) = self.modes.get(&made.path) else { continue };
            let dir = open_name(made.above.as_fd(), &made.name, DIRECTORY_READ);
            let mode = Mode::from_raw_mode(mode & 0o1777);
            fchmod(dir.map_err(error_of)?, mode).map_err(error_of)?;
        }
        Ok(())
    }

    /// Says that what was made stays, and syncs the directories that hold it where that is asked for.
    pub(crate) fn keep(&self, sync: Sync, kept: &CallCheckpoint) -> Result<(), FileError> {
        for made in self.made.iter().filter(|_| kept.is_on()) {
            let found = statat(&*made.above, &made.name, AtFlags::SYMLINK_NOFOLLOW);
            let mode = found.map_or(0o777, |stat| stat.st_mode);
            kept.settle(&made.path, PathState::directory(mode));
        }
        if sync != Sync::Full {
            return Ok(());
        }
        self.made.iter().try_for_each(|made| sync_directory(&made.above)).map_err(error_of)
    }

    /// Removes what was made, the deepest first. What others have put there stays.
    pub(crate) fn remove(&self, kept: &CallCheckpoint) {
        for made in self.made.iter().rev() {
            if unlinkat(&*made.above, &*made.name, AtFlags::REMOVEDIR).is_ok() {
                kept.withdraw(&made.path);
            }
        }
    }
}
