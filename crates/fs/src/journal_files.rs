//! Opens and reads the journals in the state directory, and finds the temporary files that they name.
//!
//! The ledger asks here before it removes temporary files of dead processes: a journal may need one as the
//! only copy of a file.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use memchr::memmem;
use rustix::fs::{CWD, Mode, fstat, mkdirat, openat};
use rustix::io::Errno;

use crate::roots::{DIRECTORY_READ, FILE_READ, open_name};
use crate::state::StateDir;
use crate::temporary::{TEMPORARY_PREFIX, TEMPORARY_SUFFIX, is_temporary};

const DIRECTORY: &str = "journals";
/// The largest journal that is read.
const MAX_BYTES: u64 = 256 << 20;

/// Returns the temporary files that journals name, by a search in their bytes: damaged ones count too. Fails
/// if a journal may exist but cannot be read.
pub fn named_temporaries(state: &Path) -> io::Result<HashSet<Vec<u8>>> {
    let mut named = HashSet::new();
    let Some(dir) = open(state)? else { return Ok(named) };
    let finder = memmem::Finder::new(TEMPORARY_PREFIX);
    for name in names(&dir)? {
        let file = match open_name(dir.as_fd(), &name, FILE_READ) {
            Ok(file) => file,
            // Another process settled it meanwhile.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno.into()),
        };
        let bytes = read(File::from(file))?;
        for at in finder.find_iter(&bytes) {
            let tail = bytes.get(at..).unwrap_or_default();
            let tail = tail.get(..255).unwrap_or(tail);
            let end = memmem::find(tail, TEMPORARY_SUFFIX.as_bytes());
            let name = end.and_then(|end| tail.get(..end + TEMPORARY_SUFFIX.len()));
            named.extend(name.filter(|name| is_temporary(name)).map(<[u8]>::to_vec));
        }
    }
    Ok(named)
}

/// Opens the directory of journals; creates it and the state directory if missing.
pub fn open_or_make(state: &Path) -> io::Result<OwnedFd> {
    let state = StateDir::open(state)?;
    match mkdirat(CWD, state.path().join(DIRECTORY), Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    open(state.path())?.ok_or_else(|| io::Error::from(Errno::NOENT))
}

/// Opens the directory of journals if it exists. Rejects one that other users could write: the next start
/// renames files as journals say.
pub fn open(state: &Path) -> io::Result<Option<OwnedFd>> {
    let dir = match openat(CWD, state.join(DIRECTORY), DIRECTORY_READ, Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let stat = fstat(&dir)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("the directory of journals belongs to another user"));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(io::Error::other("the directory of journals can be written by other users"));
    }
    Ok(Some(dir))
}

/// Returns the names of the files in the directory of journals.
pub fn names(dir: impl AsFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

/// Reads a journal of limited size.
pub fn read(file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file.take(MAX_BYTES + 1).read_to_end(&mut bytes)? as u64 <= MAX_BYTES {
        return Ok(bytes);
    }
    Err(io::Error::other("it is too large"))
}
