//! The look at files that an analysis is given. This crate touches the system in no other way, so that an analysis
//! runs in memory in tests, and nothing here can change a file.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use sinew_tool::FileKind;

/// The entries of a directory, `.` and `..` left out.
pub type Entries<'a> = Box<dyn Iterator<Item = io::Result<(OsString, FileKind)>> + 'a>;

/// Reads that an analysis makes. Relative paths are not given.
pub trait FileSystem {
    /// Returns what is at a path, no link followed at its end; `None` where nothing is.
    fn lstat(&self, path: &Path) -> io::Result<Option<FileKind>>;

    /// Returns what a path leads to, links followed; `None` where nothing is.
    fn stat(&self, path: &Path) -> io::Result<Option<FileKind>>;

    /// Returns a path with every link resolved, which must exist.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// Returns the entries of a directory, links not followed.
    fn read_dir(&self, dir: &Path) -> io::Result<Entries<'_>>;

    /// Reads a regular file of at most so many bytes; links at its end are refused.
    fn read(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>>;
}
