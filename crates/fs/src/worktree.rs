//! Finds the shared directory of a repository from a linked git worktree, to read its exclude file.
//!
//! In a linked worktree `.git` is a file that names a directory, whose file `commondir` names the shared one.
//! Both may lie outside the roots, and every writer of the worktree chooses them. So only exclude rules are
//! read there, from small regular files without symlinks, and only if the repository agrees:
//!
//! - The worktree's directory lies two levels beneath the shared one, as git lays it out.
//! - It names this worktree in turn.
//!
//! ripgrep skips this check, and resolves a relative name from its own working directory, unlike git and this
//! module. A submodule has no `commondir`, so both ignore it.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

use crate::roots::{DIRECTORY_PATH, FILE_READ, open_name};

/// The largest file that names a directory: `PATH_MAX` and a keyword.
const MAX_BYTES: u64 = 4_096 + 16;

/// Returns the shared directory of a linked worktree's repository.
pub fn shared_directory(worktree: BorrowedFd<'_>) -> Option<OwnedFd> {
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

/// Opens the directory that a line names, anywhere, with `O_PATH`: it cannot be read.
fn directory(from: BorrowedFd<'_>, path: &[u8]) -> Option<OwnedFd> {
    let flags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    openat(from, path, flags, Mode::empty()).ok()
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    Path::new(OsStr::from_bytes(path)).parent().map(|parent| parent.as_os_str().as_bytes())
}

fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Option<bool> {
    let (one, other) = (fstat(one).ok()?, fstat(other).ok()?);
    Some((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
