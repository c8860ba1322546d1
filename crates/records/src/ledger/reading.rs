//! Opens a database of the state directory to read it, even on a file system mounted read-only.
//!
//! SQLite creates a `-shm` file beside a database in WAL mode. Where it cannot, a database with a missing or
//! empty log is opened as immutable. With other logs this would ignore content, so database and log are read
//! from a temporary copy.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use super::opening::{self, LOCK, NAME};
use crate::database::{self, Failed};

/// A database opened for reading, with its temporary copy, if any.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) connection: Connection,
    /// Dropped after the connection.
    _copy: Option<Copied>,
}

/// Opens the ledger's database of a state directory for reading.
pub(super) fn open(state: &Path, patience: Duration) -> Result<Reading, Failed> {
    // The lock prevents renames between opening the files.
    let _lock = locked(state, patience)?;
    open_file(&state.join(NAME), patience)
}

/// Opens a database for reading.
pub(crate) fn open_file(path: &Path, patience: Duration) -> Result<Reading, Failed> {
    let connection = match connect(path, patience) {
        Err(error) if needs_to_write(&error) => return without_writing(path, patience),
        connection => connection?,
    };
    Ok(Reading { connection, _copy: None })
}

/// Takes the lock of openers. Without write permission it uses an existing lock file.
fn locked(state: &Path, patience: Duration) -> Result<Option<OwnedFd>, Failed> {
    let denied = match opening::locked(state, FlockOperation::NonBlockingLockShared, patience) {
        Err(failed) if failed.busy => return Err(failed),
        Err(denied) => denied,
        Ok(lock) => return Ok(Some(lock)),
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(CWD, state.join(LOCK), flags, Mode::empty()) {
        // Without locks on this file system no other process renames.
        Ok(file) => Ok(flock(&file, FlockOperation::NonBlockingLockShared).ok().map(|()| file)),
        Err(Errno::NOENT) => Ok(None),
        Err(_) => Err(denied),
    }
}

fn connect(path: &Path, patience: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(patience)?;
    // The first read opens the other files of the database.
    database::version(&connection)?;
    Ok(connection)
}

/// Returns whether SQLite failed to create or write a file beside the database.
fn needs_to_write(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn without_writing(path: &Path, patience: Duration) -> Result<Reading, Failed> {
    let log = log_of(path);
    let has_log = fs::symlink_metadata(&log).is_ok_and(|meta| 0 < meta.len());
    if !has_log {
        let connection = connect(Path::new(&immutable(path)), patience)?;
        return Ok(Reading { connection, _copy: None });
    }
    let failed = |error: io::Error| {
        Failed::new(format!(
            "the state directory is read-only, and a copy of the database cannot be made in the \
             temporary directory ({error}); set TMPDIR to a directory with enough space"
        ))
    };
    let copy = Copied::new().map_err(failed)?;
    let to = copy.0.join(NAME);
    fs::copy(path, &to).map_err(failed)?;
    fs::copy(&log, log_of(&to)).map_err(failed)?;
    let connection = connect(&to, patience)?;
    Ok(Reading { connection, _copy: Some(copy) })
}

/// Returns the write-ahead log of a database.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

/// Returns the URI of an immutable database: no locks, no new files.
fn immutable(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// A temporary directory with a copy, removed on drop.
#[derive(Debug)]
struct Copied(PathBuf);

impl Copied {
    fn new() -> io::Result<Self> {
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = std::env::temp_dir().join(format!("sinew-audit-{name}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Copied {
    #[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
