//! The missing directories above the names of a change, made before it and removed where it fails.
//! Where the process dies before the change, they stay, empty: nothing says afterwards that nobody
//! else wants them.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, fstat, mkdirat, unlinkat};
use rustix::io::Errno;
use sinew_tool::{FileError, Sync};

use super::sync_directory;
use crate::resolve::{Place, Spot};
use crate::roots::{DIRECTORY_PATH, Dir, open_name};
use crate::stat::{error_of, identity_of};

/// The directories that were made for a change, or for several.
#[derive(Default)]
pub(crate) struct Parents {
    /// Each with the directory above it, in the order in which they were made.
    made: Vec<(Dir, CString)>,
    /// Handles of the directories on the way, which many names may share, by the device and inode
    /// of the directory above and the name.
    known: HashMap<(u64, u64, CString), Dir>,
}

impl Parents {
    /// Returns the directory that holds the name of a place, making those on the way that are
    /// missing.
    pub(crate) fn enter(&mut self, place: &Place) -> Result<Dir, FileError> {
        let mut dir = Arc::clone(&place.dir);
        let Spot::MissingParents(names) = &place.spot else { return Ok(dir) };
        for name in names {
            dir = self.step(&dir, name).map_err(error_of)?;
        }
        Ok(dir)
    }

    fn step(&mut self, above: &Dir, name: &CStr) -> Result<Dir, Errno> {
        let identity = identity_of(&fstat(&**above)?);
        let key = (identity.device, identity.inode, name.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(Arc::clone(known));
        }
        match mkdirat(&**above, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => self.made.push((Arc::clone(above), name.to_owned())),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let dir = Dir::new(open_name(above.as_fd(), name, DIRECTORY_PATH)?);
        self.known.insert(key, Arc::clone(&dir));
        Ok(dir)
    }

    /// Syncs the directories that hold new ones, where that is asked for.
    pub(crate) fn keep(&self, sync: Sync) -> Result<(), FileError> {
        if sync != Sync::Full {
            return Ok(());
        }
        self.made.iter().try_for_each(|(above, _)| sync_directory(above)).map_err(error_of)
    }

    /// Removes what was made, the deepest first. What others have put there stays.
    pub(crate) fn remove(&self) {
        for (above, name) in self.made.iter().rev() {
            let _ = unlinkat(&**above, name, AtFlags::REMOVEDIR);
        }
    }
}
