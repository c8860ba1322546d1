//! Opens the SQLite databases in the state directory, and runs transactions in them.
//!
//! Several processes share them, so each opener waits for the others. Tables carry a version, and a database
//! of another release is left unchanged.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{CWD, FileType, Mode, OFlags, openat, stat};
use sinew_fs::clock::SystemClock;
use sinew_tool::Clock as _;

/// Which crashes a committed record survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerSync {
    /// A crash of the process: the kernel has the record.
    Normal,
    /// Power loss too: the record is on disk.
    Full,
}

/// How long an operation without urgency waits for another writer.
pub(crate) const PATIENT: Duration = Duration::from_secs(5);
/// The pause before the switch to the write-ahead log is tried again.
const RETRY: Duration = Duration::from_millis(1);
/// The pages of write-ahead log that trigger a checkpoint into the database.
const LOG_PAGES: i64 = 1_000;

/// The schema of a database.
#[derive(Debug)]
pub(crate) struct Tables {
    /// The current version.
    pub(crate) version: i64,
    /// The previous version, which the schema can migrate.
    pub(crate) previous: Option<i64>,
    /// The SQL that creates tables and version in one transaction.
    pub(crate) schema: &'static str,
}

/// A failed database operation.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    /// Whether another process held the lock.
    pub(crate) busy: bool,
    /// Whether the file is no database or has broken pages.
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
        // Strict tables hold no other type, so a page comes from another table.
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

/// Returns whether there is a database, so that a look creates none.
pub(crate) fn is_file(path: &Path) -> bool {
    stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// Opens a database, creating missing tables; waits up to `patience`.
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

/// Opens a database or an empty file, regardless of its content.
///
/// Commits never checkpoint the write-ahead log; [`shorten_log`] does when no call waits.
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
    log_ahead(&connection, patience)?;
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

/// Switches a database to the write-ahead log. While another process uses a database that has none yet, SQLite fails at
/// once, without regard to the busy timeout.
fn log_ahead(connection: &Connection, patience: Duration) -> Result<(), Failed> {
    let end = Instant::now() + patience;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL").map_err(Failed::from) {
            Err(failed) if failed.busy && Instant::now() < end => thread::sleep(RETRY),
            done => return done,
        }
    }
}

/// Returns the schema version of a database.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Returns whether a database was never written.
pub(crate) fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// The most problems reported for one database.
const MAX_TOLD: usize = 3;

/// Reads every page of a database; returns its structural faults.
pub(crate) fn broken_pages(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let mut check = connection.prepare(&format!("PRAGMA integrity_check({MAX_TOLD})"))?;
    let told: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let lines = told.iter().flat_map(|told| told.lines()).filter(|line| !line.starts_with("***"));
    let problems: Vec<&str> = lines.take(MAX_TOLD).collect();
    Ok((problems != ["ok"]).then(|| problems.join("; ")))
}

/// Creates the file of a new database for its owner alone; SQLite copies the mode to its other files. An
/// existing file is not opened: closing it would drop the POSIX locks of this process. Errors reappear, with
/// a reason, when SQLite opens the file.
fn create(path: &Path) {
    let flags = OFlags::CREATE
        .union(OFlags::EXCL)
        .union(OFlags::WRONLY)
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC);
    drop(openat(CWD, path, flags, Mode::from_raw_mode(0o600)));
}

/// Returns the failure for a database of another release.
pub(crate) fn foreign(path: &Path, version: i64, own: i64) -> Failed {
    Failed::new(format!(
        "{} has version {version} of its tables, and this sinew writes version {own}; move it away, \
         or use the sinew that wrote it",
        path.display()
    ))
}

/// Runs work in one transaction and rolls back on errors. Caches the statements, which run for every change.
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

/// Checkpoints a long write-ahead log into the database.
pub(crate) fn shorten_log(connection: &Connection) {
    let pages = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1));
    if pages.is_ok_and(|pages: i64| LOG_PAGES < pages) {
        let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }
}

/// Joins paths, each terminated by a NUL byte.
pub(crate) fn separated(paths: &[PathBuf]) -> Vec<u8> {
    paths.iter().flat_map(|path| path.as_os_str().as_bytes().iter().chain(&[0])).copied().collect()
}

/// Returns the time as databases hold it, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    stored(SystemClock.wall_ms())
}

/// Returns a number as databases hold it.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a number that a database holds.
pub(crate) fn read(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    const TABLES: Tables = Tables {
        version: 1,
        previous: None,
        schema: "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS t (n INTEGER) STRICT; PRAGMA user_version = 1; COMMIT;",
    };

    #[test]
    fn racing_openers_of_a_new_database_wait() {
        let dir = tempfile::tempdir().expect("a directory");
        for round in 0..30 {
            let path = dir.path().join(round.to_string());
            let barrier = Barrier::new(8);
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        barrier.wait();
                        let open =
                            open(&path, &TABLES, LedgerSync::Normal, PATIENT).expect("opened");
                        let insert = |open: &Connection| -> Result<usize, Failed> {
                            Ok(open.execute("INSERT INTO t VALUES (1)", [])?)
                        };
                        at_once(&open, insert).expect("written");
                    });
                }
            });
        }
    }
}
