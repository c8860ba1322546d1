//! Directories that tools make anew, such as `node_modules`: a restore moves them out of the way, and its undo moves them back.
//!
//! Changes of commands in them are not kept, and programs execute their files. They move to `.sinew/undone/NUMBER/NAME`
//! of their root, which git ignores. One that cannot be moved stays, and the operation tells.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, RenameFlags, chmod, fstat, renameat_with, unlinkat};
use rustix::io::Errno;
use sinew_tool::{FileError, Identity};

use crate::change::Terms;
use sinew_fs::resolve::Place;
use sinew_fs::roots::{DIRECTORY_PATH, Dir, Root, open_name};
use sinew_fs::store;
use sinew_records::checkpoints::PathState;

/// Where they move, beneath a root.
const UNDONE: [&CStr; 2] = [c".sinew", c"undone"];

/// A directory that moves out of the way or back.
pub(crate) struct Aside<'a> {
    place: &'a Place,
    root: &'a Root,
    /// The names from the root to `undone`.
    above: Vec<CString>,
    number: CString,
    name: CString,
}

impl<'a> Aside<'a> {
    /// Returns a directory that is in its place. `unique` has the digits of a random number.
    pub(crate) fn in_place(place: &'a Place, root: &'a Root, unique: &CStr) -> Option<Self> {
        let digits = unique.to_bytes().iter().filter(|byte| byte.is_ascii_hexdigit());
        let number = CString::new(digits.copied().collect::<Vec<u8>>()).ok()?;
        let above = UNDONE.map(CStr::to_owned).to_vec();
        Some(Self { place, root, above, number, name: place.name.clone()? })
    }

    /// Returns a directory that a restore recorded to be at a path, which may be of a root within this one.
    pub(crate) fn at(place: &'a Place, root: &'a Root, path: &Path) -> Option<Self> {
        let names = path.strip_prefix(&root.real).ok()?.iter();
        let names = names.map(|name| CString::new(name.as_bytes()).ok());
        let names = names.collect::<Option<Vec<CString>>>()?;
        let [above @ .., number, name] = names.as_slice() else { return None };
        let is_number = number.to_bytes().iter().all(u8::is_ascii_hexdigit);
        let is_undone =
            above.iter().map(CString::as_c_str).rev().take(2).eq(UNDONE.into_iter().rev());
        let (above, number, name) = (above.to_vec(), number.clone(), name.clone());
        (is_number && is_undone).then_some(Self { place, root, above, number, name })
    }

    fn path(&self) -> PathBuf {
        let names = self.above.iter().chain([&self.number, &self.name]);
        let names = names.map(|name| OsStr::from_bytes(name.to_bytes()));
        self.root.real.join(names.collect::<PathBuf>())
    }

    /// Records that the directory will move out of the way.
    pub(crate) fn keep_away(&self, terms: &Terms<'_>) -> Result<(), FileError> {
        Ok(terms.kept.keep_rebuilt(&self.place.real, PathState::SetAside(self.path()))?)
    }

    /// Records that the directory will come back.
    pub(crate) fn keep_back(&self, terms: &Terms<'_>) -> Result<(), FileError> {
        terms.kept.keep(&self.place.real, None, PathState::Rebuilt)?;
        Ok(())
    }

    /// Moves the directory out of the way, if it is still the one that was looked at.
    pub(crate) fn away(&self, terms: &Terms<'_>, bound: Option<Option<Identity>>) {
        let is_same = |bound: Option<Identity>| {
            let now = self.place.meta_now().ok().map(|meta| meta.identity.of_file());
            now == bound.map(|bound| bound.of_file())
        };
        let moved = || {
            let own = store::own_directory_of(self.root)?;
            let above = store::directory(&store::directory(&own, c"undone")?, &self.number)?;
            let (dir, here) = self.here()?;
            rename((&dir, here), (&above, &self.name))
        };
        let is_bound = bound.is_none_or(is_same);
        self.settle(terms, PathState::SetAside(self.path()), is_bound && moved().is_ok());
    }

    /// Moves the directory back, if it is still there and nothing took its place.
    pub(crate) fn back(&self, terms: &Terms<'_>) {
        let moved = || {
            let mut undone: Dir = Arc::clone(&self.root.handle);
            for name in &self.above {
                undone = Arc::new(open_name(undone.as_fd(), name, DIRECTORY_PATH)?);
            }
            let above = open_name(undone.as_fd(), &self.number, DIRECTORY_PATH)?;
            drop(open_name(above.as_fd(), &self.name, DIRECTORY_PATH)?);
            let (dir, here) = self.here()?;
            rename((&above, &self.name), (&dir, here))?;
            let _ = unlinkat(&*undone, &self.number, AtFlags::REMOVEDIR);
            Ok::<(), Errno>(())
        };
        self.settle(terms, PathState::Rebuilt, moved().is_ok());
    }

    fn here(&self) -> Result<(Dir, &CStr), Errno> {
        let dir = self.place.parent().map_err(|_| Errno::NOENT)?;
        Ok((dir, self.place.name.as_deref().ok_or(Errno::NOENT)?))
    }

    /// Reports whether a move happened.
    fn settle(&self, terms: &Terms<'_>, after: PathState, is_moved: bool) {
        match is_moved {
            true => terms.kept.settle(&self.place.real, after),
            false => terms.kept.withdraw(&self.place.real),
        }
    }
}

/// Renames a directory. One that its owner may not write cannot get another parent, so it is writable meanwhile.
fn rename((from, old): (&impl AsFd, &CStr), (to, new): (&impl AsFd, &CStr)) -> Result<(), Errno> {
    let renamed = || renameat_with(from, old, to, new, RenameFlags::NOREPLACE);
    match renamed() {
        Err(Errno::ACCESS) => {
            let dir = open_name(from.as_fd(), old, DIRECTORY_PATH)?;
            let mode = fstat(&dir)?.st_mode & 0o7777;
            let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
            chmod(&path, Mode::from_raw_mode(mode | 0o200))?;
            let done = renamed();
            let _ = chmod(&path, Mode::from_raw_mode(mode));
            done
        }
        done => done,
    }
}
