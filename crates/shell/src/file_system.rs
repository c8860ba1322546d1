//! The only file access of an analysis, so that it runs in memory in tests and can change no file.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use sinew_tool::FileKind;

/// The entries of a directory, without `.` and `..`.
pub type Entries<'a> = Box<dyn Iterator<Item = io::Result<(OsString, FileKind)>> + 'a>;

/// Reads that an analysis makes, by absolute paths.
pub trait FileSystem {
    /// Returns the kind at a path without following a final symlink; `None` if nothing is there.
    fn lstat(&self, path: &Path) -> io::Result<Option<FileKind>>;

    /// Returns the kind at a path after symlinks; `None` if nothing is there.
    fn stat(&self, path: &Path) -> io::Result<Option<FileKind>>;

    /// Resolves every symlink of a path, which must exist.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// Returns the entries of a directory, without following symlinks.
    fn read_dir(&self, dir: &Path) -> io::Result<Entries<'_>>;

    /// Reads a regular file of at most `max_bytes`; rejects a final symlink.
    fn read(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>>;
}
