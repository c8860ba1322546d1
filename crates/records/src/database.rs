//! The databases in the state directory: how one is opened, and work that is done at once in it.
//!
//! Several processes share each of them, so every opener waits for the others for a while, and the
//! tables carry a version. A database that another release wrote is left as it is.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{CWD, Mode, OFlags, openat};

/// How much a committed intent survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerSync {
    /// Any death of the process: the record is in the hands of the kernel.
    Normal,
    /// Power loss too: the record is on the disk.
    Full,
}

/// How long whoever need not answer at once waits for a database that somebody else writes.
pub(crate) const PATIENT: Duration = Duration::from_secs(5);
/// After this many pages the write-ahead log is moved into the database.
const LOG_PAGES: i64 = 1_000;

/// The tables that a database holds.
#[derive(Debug)]
pub(crate) struct Tables {
    /// The version that the database carries.
    pub(crate) version: i64,
    /// The version before it, whose tables the schema brings up to this one.
    pub(crate) previous: Option<i64>,
    /// What makes them in a new database, at once and with their version.
    pub(crate) schema: &'static str,
}

/// Why a database was not read or written.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    /// Whether somebody else was writing all the time.
    pub(crate) busy: bool,
    /// Whether what is there is no database, or one with broken pages.
    pub(crate) corrupt: bool,
    pub(crate) problem: String,
}

impl Failed {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self { busy: false, corrupt: false, problem: problem.into() }
    }
}

impl Failed {
    pub(crate) fn from_sqlite(error: &rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        let busy = matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked));
        // The tables are strict, so a value of another type came there by a page of another table.
        let is_other_type = matches!(
            error,
            rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
        );
        let corrupt = is_other_type
            || matches!(code, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt));
        Self { busy, corrupt, problem: error.to_string() }
    }
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::from_sqlite(&error)
    }
}

/// Opens a database, and makes its tables where it is new. It waits so long for others.
pub(crate) fn open(
    path: &Path,
    tables: &Tables,
    sync: LedgerSync,
    patience: Duration,
) -> Result<Connection, Failed> {
    let connection = connect(path, sync, patience)?;
    match version(&connection)? {
        0 => connection.execute_batch(tables.schema)?,
        version if version == tables.version => {}
        version if Some(version) == tables.previous => connection.execute_batch(tables.schema)?,
        version => return Err(foreign(path, version, tables.version)),
    }
    Ok(connection)
}

/// Opens a database or an empty file in its place, whatever is in it.
///
/// Nobody moves the write-ahead log into the database while committing: [`shorten_log`] does it when
/// nobody waits.
pub(crate) fn connect(
    path: &Path,
    sync: LedgerSync,
    patience: Duration,
) -> Result<Connection, Failed> {
    create(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(patience)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(
        None,
        "synchronous",
        match sync {
            LedgerSync::Normal => "NORMAL",
            LedgerSync::Full => "FULL",
        },
    )?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}

/// Returns the version that a database carries.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Returns whether nothing was ever written to a database.
pub(crate) fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// The most problems that are told of one database.
const MAX_TOLD: usize = 3;

/// Reads every page of a database, and returns what is wrong with their structure.
pub(crate) fn broken_pages(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let mut check = connection.prepare(&format!("PRAGMA integrity_check({MAX_TOLD})"))?;
    let told: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let lines = told.iter().flat_map(|told| told.lines()).filter(|line| !line.starts_with("***"));
    let problems: Vec<&str> = lines.take(MAX_TOLD).collect();
    Ok((problems != ["ok"]).then(|| problems.join("; ")))
}

/// Creates the file of a new database for its owner alone; the files beside it get the same mode. A
/// file that is there is not opened: closing it would give back every lock that this process has on
/// it. What fails here fails again, with its reason, when the database is opened.
fn create(path: &Path) {
    let flags = OFlags::CREATE
        .union(OFlags::EXCL)
        .union(OFlags::WRONLY)
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC);
    drop(openat(CWD, path, flags, Mode::from_raw_mode(0o600)));
}

/// The failure of opening a database that another release wrote.
pub(crate) fn foreign(path: &Path, version: i64, own: i64) -> Failed {
    Failed::new(format!(
        "{} has version {version} of its tables, and this sinew writes version {own}; move it away, \
         or use the sinew that wrote it",
        path.display()
    ))
}

/// Does work in one transaction, which nothing of is left where it fails. Its statements are prepared once:
/// they run for every change.
pub(crate) fn at_once<T, E: From<rusqlite::Error>>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, E>,
) -> Result<T, E> {
    let run = |statement| connection.prepare_cached(statement)?.execute([]);
    run("BEGIN IMMEDIATE")?;
    let done = work(connection).and_then(|done| run("COMMIT").map(|_| done).map_err(E::from));
    if done.is_err() {
        let _ = run("ROLLBACK");
    }
    done
}

/// Moves the write-ahead log into the database where it has become long.
pub(crate) fn shorten_log(connection: &Connection) {
    let pages = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1));
    if pages.is_ok_and(|pages: i64| LOG_PAGES < pages) {
        let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }
}

/// Paths one after the other, each ended by the one byte that no path holds.
pub(crate) fn separated(paths: &[PathBuf]) -> Vec<u8> {
    paths.iter().flat_map(|path| path.as_os_str().as_bytes().iter().chain(&[0])).copied().collect()
}
