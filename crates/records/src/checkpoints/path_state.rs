//! The state of a path, as checkpoints compare it.
//!
//! Setuid and setgid bits are left out: a change drops them, and an undo must not restore them. Owner and
//! extended attributes are left out because a change keeps those of an existing file; times are never kept.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use sinew_fs::content_hash::{content_hash, hash_so_far};
use sinew_tool::{ContentHash, FileMeta};

/// The read size in bytes.
pub(super) const CHUNK: usize = 128 * 1024;
/// The mode bits that are kept.
const MODE: u32 = 0o1777;

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathState {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// The hash of its content.
        content: ContentHash,
        /// The size in bytes.
        size: u64,
        /// Permission bits and the sticky bit.
        mode: u32,
    },
    /// A regular file, too large for its content to be kept.
    Unkept {
        /// The size in bytes.
        size: u64,
        /// Permission bits and the sticky bit.
        mode: u32,
    },
    /// A symlink with this target, unresolved.
    Link(PathBuf),
    /// A directory.
    Directory {
        /// Permission bits and the sticky bit.
        mode: u32,
    },
    /// A FIFO, socket or device; sinew neither creates nor removes one.
    Special,
    /// A directory that tools make anew, such as `node_modules`, after a command changed something in it: that is not kept.
    Rebuilt,
    /// Nothing, since a restore moved such a directory to this path.
    SetAside(PathBuf),
}

impl PathState {
    /// Returns the state of a regular file from its content.
    pub fn file(content: &[u8], mode: u32) -> Self {
        Self::hashed(content_hash(content), content.len() as u64, mode)
    }

    /// Returns the state of a regular file from hash and size.
    pub fn hashed(content: ContentHash, size: u64, mode: u32) -> Self {
        Self::File { content, size, mode: mode & MODE }
    }

    /// Returns the state of a regular file without its content.
    pub fn unkept(size: u64, mode: u32) -> Self {
        Self::Unkept { size, mode: mode & MODE }
    }

    /// Returns the state of a directory.
    pub fn directory(mode: u32) -> Self {
        Self::Directory { mode: mode & MODE }
    }

    /// Returns the state of an open regular file, read from its start. A size that changes meanwhile is an
    /// `InvalidData` error.
    pub fn of_file(file: &File, meta: &FileMeta) -> io::Result<Self> {
        let content = hash_of(file, meta.size())?;
        Ok(Self::hashed(content, meta.size(), meta.mode))
    }

    /// Returns whether an undo may treat two states as equal; directories always are.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Directory { .. } | Self::Rebuilt, Self::Directory { .. } | Self::Rebuilt) => {
                true
            }
            _ => self == other,
        }
    }

    /// Returns whether two states have equal contents, regardless of mode.
    pub(super) fn is_same_content(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { content, .. }, Self::File { content: other, .. }) => content == other,
            _ => self.is_same(other),
        }
    }

    /// Returns whether two states have the same kind.
    pub(super) fn is_same_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { .. } | Self::Unkept { .. }, Self::File { .. } | Self::Unkept { .. }) => {
                true
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// Returns the hash of a file of known size.
pub(super) fn hash_of(file: &File, size: u64) -> io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    read_from_start(file, size, |chunk| {
        hasher.update(chunk);
        Ok(())
    })?;
    Ok(hash_so_far(&hasher))
}

/// Reads a file of known size in chunks from its start; the file position does not move.
pub(super) fn read_from_start(
    file: &File,
    size: u64,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let at_once = usize::try_from(size).unwrap_or(usize::MAX).saturating_add(1).min(CHUNK);
    let mut buffer = vec![0_u8; at_once];
    let mut at = 0_u64;
    loop {
        let n = match file.read_at(&mut buffer, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        at += n as u64;
        match buffer.get(..n).filter(|read| !read.is_empty() && at <= size) {
            Some(read) => take(read)?,
            None if n == 0 && at == size => return Ok(()),
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
