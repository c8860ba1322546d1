//! What is at a path, as far as a checkpoint tells one state from another.
//!
//! Set-id bits are no part of it: a change drops them, and giving them back is not for an undo. Owner,
//! extended attributes and times are not either: a change keeps the first two of a file that is
//! there, and nothing keeps the last.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use sinew_fs::content_hash::{content_hash, hash_so_far};
use sinew_tool::{ContentHash, FileMeta};

/// How much of a file is read at once.
pub(super) const CHUNK: usize = 128 * 1024;
/// The bits of a mode that are kept.
const MODE: u32 = 0o1777;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathState {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Its content.
        content: ContentHash,
        /// Bytes of its content.
        size: u64,
        /// Permission bits and the sticky bit.
        mode: u32,
    },
    /// A regular file whose content was not kept, because it is too large.
    Unkept {
        /// Bytes of its content.
        size: u64,
        /// Permission bits and the sticky bit.
        mode: u32,
    },
    /// A symbolic link to this path, as it is written there.
    Link(PathBuf),
    /// A directory.
    Directory {
        /// Permission bits and the sticky bit.
        mode: u32,
    },
    /// A FIFO, socket or device, which no change of ours makes or removes.
    Special,
}

impl PathState {
    /// Returns the state of a regular file with this content and mode.
    pub fn file(content: &[u8], mode: u32) -> Self {
        Self::hashed(content_hash(content), content.len() as u64, mode)
    }

    /// Returns the state of a regular file whose content has this hash and size.
    pub fn hashed(content: ContentHash, size: u64, mode: u32) -> Self {
        Self::File { content, size, mode: mode & MODE }
    }

    /// Returns the state of a regular file whose content is not kept.
    pub fn unkept(size: u64, mode: u32) -> Self {
        Self::Unkept { size, mode: mode & MODE }
    }

    /// Returns the state of a directory.
    pub fn directory(mode: u32) -> Self {
        Self::Directory { mode: mode & MODE }
    }

    /// Returns the state of an open regular file, reading it from its start whatever has been read
    /// of it. One that grows or shrinks meanwhile is an error of the kind `InvalidData`.
    pub fn of_file(file: &File, meta: &FileMeta) -> io::Result<Self> {
        let content = hash_of(file, meta.size())?;
        Ok(Self::hashed(content, meta.size(), meta.mode))
    }

    /// Returns whether two states are the same for an undo. Nothing of a directory counts but that
    /// it is one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Directory { .. }, Self::Directory { .. }) => true,
            _ => self == other,
        }
    }

    /// Returns whether two states have the same content, whatever their modes are.
    pub(super) fn is_same_content(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { content, .. }, Self::File { content: other, .. }) => content == other,
            _ => self.is_same(other),
        }
    }

    /// Returns whether two states are of one kind.
    pub(super) fn is_same_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { .. } | Self::Unkept { .. }, Self::File { .. } | Self::Unkept { .. }) => {
                true
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// Returns the hash of a file of a known size.
pub(super) fn hash_of(file: &File, size: u64) -> io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    read_from_start(file, size, |chunk| {
        hasher.update(chunk);
        Ok(())
    })?;
    Ok(hash_so_far(&hasher))
}

/// Hands out a file of a known size from its start, in chunks. The position of the handle stays as
/// it is: it belongs to whoever gave it.
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
