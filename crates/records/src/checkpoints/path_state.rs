//! What is at a path, as far as a checkpoint tells one state from another.
//!
//! Set-id bits are no part of it: a change drops them, and giving them back is not for an undo. Owner,
//! extended attributes and times are not either: a change keeps the first two of a file that is
//! there, and nothing keeps the last.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use sinew_tool::FileMeta;

/// How much of a file is read at once.
pub(super) const CHUNK: usize = 128 * 1024;
/// The bits of a mode that are kept.
const MODE: u32 = 0o1777;

/// The BLAKE3 hash of a content, which names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// Returns the hash of a content that is in memory.
    pub fn of(content: &[u8]) -> Self {
        Self(blake3::hash(content).into())
    }

    /// Returns the hash with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the hash of what was read so far.
    pub(super) fn of_read(hasher: &blake3::Hasher) -> Self {
        Self(hasher.finalize().into())
    }

    /// Reads a hash in lower-case hex.
    pub fn from_hex(hex: &[u8]) -> Option<Self> {
        let lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let hash = blake3::Hash::from_hex(hex).ok()?;
        hex.iter().all(lower).then(|| Self(hash.into()))
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

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
        Self::hashed(ContentHash::of(content), content.len() as u64, mode)
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
    Ok(ContentHash::of_read(&hasher))
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
