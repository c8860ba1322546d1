//! Files of the host, as the analysis of a command may read them.

#![expect(clippy::disallowed_methods, reason = "the guard may touch the system")]

use std::fs::{self, DirEntry, FileType, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use sinew_shell::file_system::{Entries, FileSystem};
use sinew_tool::FileKind;

/// The files of the host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostFiles;

impl FileSystem for HostFiles {
    fn lstat(&self, path: &Path) -> io::Result<Option<FileKind>> {
        found(fs::symlink_metadata(path))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<FileKind>> {
        found(fs::metadata(path))
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn read_dir(&self, dir: &Path) -> io::Result<Entries<'_>> {
        let named = |entry: DirEntry| Ok((entry.file_name(), kind_of(entry.file_type()?)));
        Ok(Box::new(fs::read_dir(dir)?.map(move |entry| named(entry?))))
    }

    fn read(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        // `O_NONBLOCK`: opening a FIFO must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: OwnedFd = openat(CWD, path, flags, Mode::empty())?;
        let file = fs::File::from(file);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        if file.take(max_bytes + 1).read_to_end(&mut bytes)? as u64 <= max_bytes {
            return Ok(bytes);
        }
        Err(io::Error::other("the file is too large"))
    }
}

fn found(looked: io::Result<Metadata>) -> io::Result<Option<FileKind>> {
    match looked {
        Ok(metadata) => Ok(Some(kind_of(metadata.file_type()))),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn kind_of(kind: FileType) -> FileKind {
    match kind {
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_dir() => FileKind::Directory,
        kind if kind.is_symlink() => FileKind::Symlink,
        _ => FileKind::Special,
    }
}
