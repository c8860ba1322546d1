//! Reads one kept content back.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use sinew_tool::ContentHash;

use super::CheckpointError;
use super::contents::{errno_of, names_of};
use super::path_state::CHUNK;
use sinew_fs::content_hash::hash_so_far;
use sinew_fs::roots::{FILE_READ, open_name};

/// A kept content, to be read once. It withholds the last byte until the hash matches; a mismatch ends
/// reading with [`CheckpointError::Corrupt`] inside an `InvalidData` error.
#[derive(Debug)]
pub struct Content {
    source: Source,
    hasher: blake3::Hasher,
    content: ContentHash,
    n_left: u64,
    path: PathBuf,
}

enum Source {
    Plain(File),
    Packed(Box<zstd::stream::read::Decoder<'static, BufReader<File>>>),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Packed(_) => "Packed",
        })
    }
}

impl Content {
    /// Opens a content in the store's directory; `None` if missing.
    pub(super) fn open(
        dir: &OwnedFd,
        content: ContentHash,
        size: u64,
        path: &Path,
    ) -> Result<Option<Self>, Errno> {
        let (plain_name, packed_name) = names_of(content)?;
        let open = |name: &CStr| match open_name(dir.as_fd(), name, FILE_READ) {
            Ok(file) => Ok(Some(File::from(file))),
            // The store holds no symlinks.
            Err(Errno::NOENT | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno),
        };
        let source = match open(&plain_name)? {
            Some(file) => Source::Plain(file),
            None => match open(&packed_name)? {
                Some(file) => {
                    let decoder = zstd::stream::read::Decoder::new(file).map_err(errno_of)?;
                    Source::Packed(Box::new(decoder))
                }
                None => return Ok(None),
            },
        };
        let hasher = blake3::Hasher::new();
        Ok(Some(Self { source, hasher, content, n_left: size, path: path.to_owned() }))
    }

    /// Reads the whole content into memory.
    pub fn read_all(mut self) -> Result<Vec<u8>, CheckpointError> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.n_left).unwrap_or(0).min(CHUNK));
        match self.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(self.problem(error)),
        }
    }

    /// Writes the whole content in chunks. After an error the written part is invalid.
    pub fn write_to(mut self, to: &mut impl Write) -> Result<(), CheckpointError> {
        match io::copy(&mut self, to) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.problem(error)),
        }
    }

    fn problem(&self, error: io::Error) -> CheckpointError {
        match error.kind() {
            io::ErrorKind::InvalidData => CheckpointError::Corrupt(self.path.clone()),
            _ => CheckpointError::of_store(errno_of(error)),
        }
    }

    fn corrupt(&self) -> io::Error {
        let error = CheckpointError::Corrupt(self.path.clone());
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let at_most = usize::try_from(self.n_left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..at_most).filter(|buffer| !buffer.is_empty()) else {
            return Ok(0);
        };
        let read = match &mut self.source {
            Source::Plain(file) => file.read(buffer),
            Source::Packed(decoder) => decoder.read(buffer),
        };
        let n = match read {
            // The decoder's errors about invalid bytes have no errno.
            Err(error) if error.raw_os_error().is_none() => match error.kind() {
                io::ErrorKind::Interrupted => return Err(error),
                _ => return Err(self.corrupt()),
            },
            other => other?,
        };
        let read = buffer.get(..n).filter(|read| !read.is_empty()).ok_or_else(|| self.corrupt())?;
        self.hasher.update(read);
        self.n_left -= n as u64;
        if self.n_left == 0 && hash_so_far(&self.hasher) != self.content {
            return Err(self.corrupt());
        }
        Ok(n)
    }
}
