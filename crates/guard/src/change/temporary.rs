//! Temporary file beside the original: it gets the new content, then the name by rename.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, fchmod, fchown, fdatasync, fstat, linkat, openat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;
use sinew_tool::{ContentHash, FileError, Sync};

use super::original::{Content, Original};
use sinew_fs::attributes;
use sinew_fs::content_hash::hash_so_far;
use sinew_fs::roots::Dir;
use sinew_fs::stat::error_of;

/// The most pieces of one `writev` (`IOV_MAX`).
const MAX_SLICES: usize = 1_024;

/// An open temporary file.
pub(crate) struct Temporary {
    /// The file.
    pub(crate) file: OwnedFd,
    /// Its name.
    pub(crate) name: TemporaryName,
}

/// A temporary name, removed on drop unless it is kept.
pub(crate) struct TemporaryName {
    dir: Dir,
    name: CString,
    remove: Cell<bool>,
}

impl TemporaryName {
    /// Takes charge of a name that was just created.
    pub(crate) fn new(dir: &Dir, name: &CStr) -> Self {
        Self { dir: Arc::clone(dir), name: name.to_owned(), remove: Cell::new(true) }
    }

    /// Prevents the removal: the file was renamed, or another owner removes it.
    pub(crate) fn keep(&self) {
        self.remove.set(false);
    }
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        if self.remove.get() {
            let _ = unlinkat(&*self.dir, &*self.name, AtFlags::empty());
        }
    }
}

impl Temporary {
    /// Creates a file; fails if the name is taken.
    pub(crate) fn create(dir: &Dir, name: &CStr, mode: u32) -> Result<Self, Errno> {
        let flags = OFlags::CREATE
            .union(OFlags::EXCL)
            .union(OFlags::WRONLY)
            .union(OFlags::NOFOLLOW)
            .union(OFlags::CLOEXEC);
        let file = openat(&**dir, name, flags, Mode::from_raw_mode(mode))?;
        Ok(Self { file, name: TemporaryName::new(dir, name) })
    }

    /// Writes the content and returns its hash.
    pub(crate) fn fill(&self, pieces: &[&[u8]]) -> Result<ContentHash, Errno> {
        write_pieces(&self.file, pieces)
    }

    /// Copies owner, attributes and mode of the original, if it is a file.
    pub(crate) fn take_after(&self, old: &Original) -> Result<(), FileError> {
        let Content::File(file) = &old.content else { return Ok(()) };
        let new = fstat(&self.file).map_err(error_of)?;
        if (new.st_uid, new.st_gid) != (old.stat.st_uid, old.stat.st_gid) {
            let owner = Some(Uid::from_raw(old.stat.st_uid));
            let group = Some(Gid::from_raw(old.stat.st_gid));
            // Only root may change the owner; other users may set only their own groups.
            fchown(&self.file, owner, group).map_err(|_| FileError::Owner)?;
        }
        attributes::copy(file, &self.file)?;
        fchmod(&self.file, Mode::from_raw_mode(old.stat.st_mode & 0o1777)).map_err(error_of)
    }

    /// Syncs the content to disk, unless `sync` is off.
    pub(crate) fn sync(&self, sync: Sync) -> Result<(), Errno> {
        if sync == Sync::Off { Ok(()) } else { fdatasync(&self.file) }
    }
}

/// Renames to a free name; returns `EXIST` if the name is taken.
pub(crate) fn take_free_name(dir: &Dir, from: &CStr, to: &CStr) -> Result<(), Errno> {
    match renameat_with(&**dir, from, &**dir, to, RenameFlags::NOREPLACE) {
        // Some file systems lack `RENAME_NOREPLACE`; a hard link does not replace either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(&**dir, from, &**dir, to, AtFlags::empty())?;
            unlinkat(&**dir, from, AtFlags::empty())
        }
        other => other,
    }
}

/// Writes all pieces and returns the hash of the whole.
pub(crate) fn write_pieces(file: &OwnedFd, pieces: &[&[u8]]) -> Result<ContentHash, Errno> {
    let mut hasher = blake3::Hasher::new();
    for piece in pieces {
        hasher.update(piece);
    }
    let mut left: Vec<&[u8]> =
        pieces.iter().copied().filter(|piece| !piece.is_empty()).rev().collect();
    while !left.is_empty() {
        let slices: Vec<IoSlice<'_>> =
            left.iter().rev().take(MAX_SLICES).map(|piece| IoSlice::new(piece)).collect();
        match rustix::io::writev(file, &slices) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => advance(&mut left, n),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(hash_so_far(&hasher))
}

/// Removes `n` written bytes from pieces in reverse order.
fn advance(left: &mut Vec<&[u8]>, mut n: usize) {
    while let Some(piece) = left.pop() {
        if let Some(rest) = piece.get(n..).filter(|rest| !rest.is_empty()) {
            left.push(rest);
            return;
        }
        n -= piece.len().min(n);
        if n == 0 {
            return;
        }
    }
}
