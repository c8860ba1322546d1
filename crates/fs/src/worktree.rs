//! From a linked worktree of git to the directory that all worktrees of its repository share.
//!
//! In a linked worktree `.git` is a file that names a directory of the repository, and the file
//! `commondir` in there names the shared one. Both lie outside the roots as a rule, and whoever can
//! write the worktree chooses what they name. So nothing of them is shown, only rules of what to
//! leave out are read from there, and only where the repository agrees: its directory for the
//! worktree must lie two levels beneath the shared one, as git lays it out, and must name this
//! worktree in turn. Files are read only when they are regular and small, and never through a link.
//!
//! ripgrep reads the same file without asking the repository, and takes a relative name to start
//! at its own working directory; here it starts where git starts it. A submodule has no `commondir`
//! and is passed over by both.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

use crate::roots::{DIRECTORY_PATH, FILE_READ, open_name};

/// The largest file that names a directory: as long as a path may be, and a word before it.
const MAX_BYTES: u64 = 4_096 + 16;

/// Returns the shared directory of the repository that a linked worktree belongs to.
pub(crate) fn shared_directory(worktree: BorrowedFd<'_>) -> Option<OwnedFd> {
    let line = first_line(worktree, c".git")?;
    let own = directory(worktree, line.strip_prefix(b"gitdir: ")?)?;
    let shared = directory(own.as_fd(), &first_line(own.as_fd(), c"commondir")?)?;
    let worktrees = open_name(own.as_fd(), c"..", DIRECTORY_PATH).ok()?;
    let above = open_name(worktrees.as_fd(), c"..", DIRECTORY_PATH).ok()?;
    let back = first_line(own.as_fd(), c"gitdir")?;
    let back = directory(own.as_fd(), parent(&back)?)?;
    let agrees = is_same(above.as_fd(), shared.as_fd())? && is_same(back.as_fd(), worktree)?;
    agrees.then_some(shared)
}

/// Returns the first line of a small regular file.
fn first_line(dir: BorrowedFd<'_>, name: &CStr) -> Option<Vec<u8>> {
    let file = open_name(dir, name, FILE_READ).ok()?;
    let stat = fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = Vec::new();
    File::from(file).take(MAX_BYTES + 1).read_to_end(&mut text).ok()?;
    if MAX_BYTES < text.len() as u64 {
        return None;
    }
    let line = text.split(|byte| *byte == b'\n').next()?;
    Some(line.strip_suffix(b"\r").unwrap_or(line).to_owned())
}

/// Opens the directory that a line names, which may lie anywhere. Nothing can be read of it by this.
fn directory(from: BorrowedFd<'_>, path: &[u8]) -> Option<OwnedFd> {
    let flags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    openat(from, path, flags, Mode::empty()).ok()
}

/// Returns the directory of a path.
fn parent(path: &[u8]) -> Option<&[u8]> {
    Path::new(OsStr::from_bytes(path)).parent().map(|parent| parent.as_os_str().as_bytes())
}

/// Returns whether two handles are of one directory.
fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Option<bool> {
    let (one, other) = (fstat(one).ok()?, fstat(other).ok()?);
    Some((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
