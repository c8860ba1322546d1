//! Directories that tools make anew, such as `node_modules`: a restore moves them out of the way, and its undo moves them back.
//!
//! What commands changed in them is not kept, and programs execute what is in them. They go to `.sinew/undone/NUMBER/NAME` of
//! their root, which git ignores.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, RenameFlags, renameat_with, unlinkat};
use rustix::io::Errno;
use sinew_tool::FileError;

use crate::change::Terms;
use sinew_fs::resolve::Place;
use sinew_fs::roots::{DIRECTORY_PATH, Root, open_name};
use sinew_fs::stat::error_of;
use sinew_fs::store;
use sinew_records::checkpoints::PathState;

/// Where they go, beneath a root.
const UNDONE: &str = ".sinew/undone";

/// A directory that moves out of the way or back.
pub(crate) struct Aside<'a> {
    place: &'a Place,
    root: &'a Root,
    /// Its number and name outside of the way.
    number: CString,
    name: CString,
}

impl<'a> Aside<'a> {
    /// Returns a directory that is in its place. `unique` has the digits of a random number.
    pub(crate) fn in_place(place: &'a Place, root: &'a Root, unique: &CStr) -> Option<Self> {
        let digits = unique.to_bytes().iter().filter(|byte| byte.is_ascii_hexdigit());
        let number = CString::new(digits.copied().collect::<Vec<u8>>()).ok()?;
        Some(Self { place, root, number, name: place.name.clone()? })
    }

    /// Returns a directory that is out of the way, at a path that a restore recorded.
    pub(crate) fn at(place: &'a Place, root: &'a Root, path: &Path) -> Option<Self> {
        let rest = path.strip_prefix(root.real.join(UNDONE)).ok()?;
        let (number, name) = (rest.parent()?, rest.file_name()?);
        let is_number = number.as_os_str().as_bytes().iter().all(u8::is_ascii_hexdigit);
        let text = |name: &OsStr| CString::new(name.as_bytes()).ok();
        is_number.then_some(())?;
        Some(Self { place, root, number: text(number.as_os_str())?, name: text(name)? })
    }

    fn path(&self) -> PathBuf {
        let number = OsStr::from_bytes(self.number.to_bytes());
        let name = OsStr::from_bytes(self.name.to_bytes());
        self.root.real.join(UNDONE).join(number).join(name)
    }

    /// Records that the directory will go.
    pub(crate) fn keep_away(&self, terms: &Terms<'_>) -> Result<(), FileError> {
        Ok(terms.kept.keep_rebuilt(&self.place.real, PathState::SetAside(self.path()))?)
    }

    /// Records that the directory will come back.
    pub(crate) fn keep_back(&self, terms: &Terms<'_>) -> Result<(), FileError> {
        terms.kept.keep(&self.place.real, None, PathState::Rebuilt)?;
        Ok(())
    }

    /// Moves the directory out of the way.
    pub(crate) fn away(&self, terms: &Terms<'_>) -> Result<(), FileError> {
        let moved = || {
            let own = store::own_directory_of(self.root)?;
            let undone = store::directory(&own, c"undone")?;
            store::directory(&undone, &self.number)
        };
        let rename = |dir: &_, name: &CStr, above: &_| {
            renameat_with(dir, name, above, &self.name, RenameFlags::NOREPLACE)
        };
        self.settle(terms, PathState::SetAside(self.path()), moved, rename)
    }

    /// Moves the directory back, if it is still there and nothing took its place.
    pub(crate) fn back(&self, terms: &Terms<'_>) -> Result<(), FileError> {
        let undone = || {
            let own = open_name(self.root.handle.as_fd(), c".sinew", DIRECTORY_PATH)?;
            open_name(own.as_fd(), c"undone", DIRECTORY_PATH)
        };
        let above = || open_name(undone()?.as_fd(), &self.number, DIRECTORY_PATH);
        let rename = |dir: &_, name: &CStr, above: &_| {
            renameat_with(above, &self.name, dir, name, RenameFlags::NOREPLACE)
        };
        self.settle(terms, PathState::Rebuilt, above, rename)?;
        if let Ok(undone) = undone() {
            let _ = unlinkat(&undone, &self.number, AtFlags::REMOVEDIR);
        }
        Ok(())
    }

    /// Makes a move, and reports whether it happened.
    fn settle<D: AsFd>(
        &self,
        terms: &Terms<'_>,
        after: PathState,
        above: impl FnOnce() -> Result<D, Errno>,
        rename: impl FnOnce(&sinew_fs::roots::Dir, &CStr, &D) -> Result<(), Errno>,
    ) -> Result<(), FileError> {
        let dir = self.place.parent()?;
        let name = self.place.name.as_deref().ok_or(FileError::Missing)?;
        match above().and_then(|above| rename(&dir, name, &above)) {
            Ok(()) => {
                terms.kept.settle(&self.place.real, after);
                Ok(())
            }
            Err(errno) => {
                terms.kept.withdraw(&self.place.real);
                match errno {
                    Errno::NOENT | Errno::NOTDIR | Errno::EXIST => Ok(()),
                    other => Err(error_of(other)),
                }
            }
        }
    }
}
