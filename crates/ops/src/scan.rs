//! Reads a file block by block.
//!
//! A scan never trusts the size: procfs files have 0, others grow meanwhile, and some never end. It reads
//! to the end, checks for cancellation between blocks, and stops at a limit that no honest file reaches.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use sinew_tool::{ContentHash, Context, FileError, FileTarget, Kind, Opened, ToolError};

/// The most bytes that a scan reads.
const MAX_BYTES: u64 = 64 << 30;

/// One pass over an open file.
pub(crate) struct Scan<'a> {
    cx: &'a Context,
    target: &'a FileTarget,
    file: &'a File,
    size: u64,
    buffer: Vec<u8>,
    read: u64,
    at: u64,
    ended: bool,
    content: Option<ScannedContent>,
}

/// The content of a file as it comes by.
struct ScannedContent {
    hasher: blake3::Hasher,
    /// How far it came without a gap.
    until: u64,
    is_whole: bool,
}

impl ScannedContent {
    fn take(&mut self, at: u64, bytes: &[u8], ended: bool) {
        let known = self.until.checked_sub(at).and_then(|n| usize::try_from(n).ok());
        if let Some(new) = known.and_then(|n| bytes.get(n..)) {
            self.hasher.update(new);
            self.until += new.len() as u64;
            self.is_whole |= ended;
        }
    }
}

impl<'a> Scan<'a> {
    pub(crate) fn new(cx: &'a Context, target: &'a FileTarget, opened: &'a Opened) -> Self {
        let (file, size) = (&opened.file, opened.meta.size());
        let buffer = Vec::new();
        Self { cx, target, file, size, buffer, read: 0, at: 0, ended: false, content: None }
    }

    /// Hashes the content as far as it comes by from the start.
    pub(crate) fn hash(&mut self) {
        let hasher = blake3::Hasher::new();
        self.content = Some(ScannedContent { hasher, until: 0, is_whole: false });
    }

    /// Returns the hash of the content, where all of it came by.
    pub(crate) fn content(&self) -> Option<ContentHash> {
        let whole = self.content.as_ref().filter(|content| content.is_whole);
        whole.map(|content| ContentHash::from(*content.hasher.finalize().as_bytes()))
    }

    /// Returns the next `size` bytes, or fewer where the file ends before.
    pub(crate) fn block(&mut self, size: usize) -> Result<&[u8], ToolError> {
        self.cx.still_wanted()?;
        if MAX_BYTES < self.read {
            return Err(ToolError::new(
                Kind::LimitReached,
                format!("the file does not end within {} GiB", MAX_BYTES >> 30),
            ));
        }
        self.buffer.resize(size, 0);
        let left = self.size.saturating_sub(self.at);
        let n = fill(self.file, &mut self.buffer, left)
            .map_err(|error| self.cx.about(self.target, FileError::Io(error)))?;
        self.buffer.truncate(n);
        self.ended = n < size;
        if let Some(content) = &mut self.content {
            content.take(self.at, &self.buffer, self.ended);
        }
        self.read += n as u64;
        self.at += n as u64;
        Ok(&self.buffer)
    }

    /// Returns the whole file, where it has at most `max` bytes and no more than its size says.
    pub(crate) fn all(&mut self, max: u64) -> Result<Option<&[u8]>, ToolError> {
        let Some(size) = usize::try_from(self.size).ok().filter(|_| self.size <= max) else {
            return Ok(None);
        };
        self.seek(0)?;
        self.block(size + 1)?;
        Ok(self.ended.then_some(self.buffer.as_slice()))
    }

    pub(crate) fn last(&self) -> &[u8] {
        &self.buffer
    }

    /// Continues reading at a place.
    pub(crate) fn seek(&mut self, to: u64) -> Result<(), ToolError> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(to))
            .map_err(|error| self.cx.about(self.target, FileError::Io(error)))?;
        self.at = to;
        self.ended = false;
        Ok(())
    }

    /// Returns whether the last block reached the end of the file.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }
}

/// Fills the buffer up to the end of the file; returns the count. A short read of `left` bytes is the end.
fn fill(mut file: &File, buffer: &mut [u8], left: u64) -> io::Result<usize> {
    let mut n = 0;
    while let Some(rest) = buffer.get_mut(n..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(more) => {
                n += more;
                if n as u64 == left {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}
