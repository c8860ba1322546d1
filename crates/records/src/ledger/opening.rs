//! Opens the ledger's database; creates a new one, and keeps a damaged one aside.
//!
//! Openers share a lock, and a process takes it exclusively to create a database or keep one aside. So only
//! one of several processes that find damage begins the new database.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use sinew_tool::{Clock, Event};

use super::head::{HeadFile, Noted};
use super::key::{ANCHOR, Key};
use super::record::{self, Link, OfProcess, RecordDraft};
use super::row::{self, Cleaner, Who};
use super::verify::Finding;
use super::{LedgerSync, check, leftovers};
use crate::database::{self, Failed, at_once};
use crate::redact::Redactor;
use sinew_fs::clock::{SystemClock, timestamp};

/// The file names of lock and database.
pub(super) const LOCK: &str = "ledger.lock";
pub(super) const NAME: &str = "sinew.db";
/// The most databases kept aside: a disk that breaks each new one must not fill up.
const MAX_ASIDE: usize = 16;
/// No release will write such a version.
const MAX_VERSION: i64 = 10_000;

/// A file by device and inode.
pub(super) type FileId = (u64, u64);

/// An open database, with the state of its chain.
pub(super) struct OpenLedger {
    pub(super) connection: Connection,
    pub(super) key: Key,
    pub(super) head: HeadFile,
    /// The database file.
    pub(super) file: FileId,
    /// This process in the database, with the client that it was entered with.
    pub(super) process: Option<(OfProcess, Option<String>)>,
}

/// The parameters for opening a ledger.
pub(super) struct Opener<'a> {
    pub(super) state: &'a Path,
    pub(super) sync: LedgerSync,
    pub(super) who: &'a Who,
    pub(super) redactor: &'a Redactor,
    /// A file found damaged during use, and its damage.
    pub(super) damaged: Option<&'a (FileId, String)>,
}

/// The state of the database file.
enum FoundDatabase {
    Ready(Connection, Key),
    /// Nothing was ever written.
    Empty(Connection),
    /// Unusable: a word for the file name, and the reason.
    Lost(&'static str, String),
}

impl Opener<'_> {
    /// Opens the database; `told` gets a notice for the user, if any.
    pub(super) fn open(
        &self,
        patience: Duration,
        told: &mut Option<String>,
    ) -> Result<OpenLedger, Failed> {
        let shared = locked(self.state, FlockOperation::NonBlockingLockShared, patience)?;
        let mut damaged = self.damaged.cloned();
        if let FoundDatabase::Ready(connection, key) = self.find(patience, damaged.as_ref())? {
            let open = self.opened(connection, key)?;
            let looked = check::quick(&open.connection, &open.key).and_then(|misfit| {
                leftovers::remove(&open.connection, self.state).map(|()| misfit)
            });
            match looked.map_err(Failed::from) {
                Ok(misfit) => {
                    *told = misfit.as_ref().map(changed);
                    return Ok(open);
                }
                // No other check reads the broken page: without this each start would fail on it.
                Err(failed) if failed.corrupt => damaged = Some((open.file, failed.problem)),
                Err(failed) => return Err(failed),
            }
        }
        drop(shared);
        let _alone = locked(self.state, FlockOperation::NonBlockingLockExclusive, patience)?;
        let mut aside = None;
        for _ in 0..2 {
            match self.find(patience, damaged.as_ref())? {
                FoundDatabase::Ready(connection, key) => return self.opened(connection, key),
                FoundDatabase::Empty(connection) => {
                    let (key, is_new) = self.key_of_new()?;
                    let mut open = self.opened(connection, key)?;
                    let is_told = aside.is_some();
                    let gone = self.begin(&mut open, is_new, aside)?;
                    *told = told.take().filter(|_| is_told).or(gone);
                    return Ok(open);
                }
                FoundDatabase::Lost(word, why) => {
                    let name = self.keep_aside(word)?;
                    let text =
                        format!("{why}; the old one is kept as {name}, and a new one begins");
                    *told = Some(text.clone());
                    aside = Some(text);
                }
            }
        }
        Err(Failed::new("each new database is damaged at once; check the disk"))
    }

    fn find(
        &self,
        patience: Duration,
        damaged: Option<&(FileId, String)>,
    ) -> Result<FoundDatabase, Failed> {
        let path = self.state.join(NAME);
        if let Some((file, why)) = damaged
            && file_of(&path) == Some(*file)
        {
            return Ok(FoundDatabase::Lost("corrupt", format!("the database was damaged ({why})")));
        }
        match self.look(&path, patience) {
            Err(failed) if failed.corrupt => {
                let why = format!("the database was damaged ({})", failed.problem);
                Ok(FoundDatabase::Lost("corrupt", why))
            }
            found => found,
        }
    }

    fn look(&self, path: &Path, patience: Duration) -> Result<FoundDatabase, Failed> {
        let connection = database::connect(path, self.sync, patience)?;
        let damaged =
            |why| Ok(FoundDatabase::Lost("corrupt", format!("the database was damaged ({why})")));
        let count = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
        let n_tables: i64 = connection.query_row(count, [], |row| row.get(0))?;
        match database::version(&connection)? {
            0 if n_tables == 0 => return Ok(FoundDatabase::Empty(connection)),
            0 => return damaged("its tables have no version"),
            row::VERSION => {}
            version if !(0..=MAX_VERSION).contains(&version) => {
                return damaged("its version is none that was ever written");
            }
            version => return Err(database::foreign(path, version, row::VERSION)),
        }
        let id = match key_id(&connection) {
            Ok(Some(id)) => id,
            Ok(None) => return damaged("it does not say which key its chain has"),
            // The tables do not match the version.
            Err(rusqlite::Error::SqliteFailure(_, Some(why))) if why.starts_with("no such") => {
                return damaged("tables are missing in it");
            }
            Err(rusqlite::Error::FromSqlConversionFailure(..)) => {
                return damaged("what it says of its key is none");
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(why) = other_tables(&connection)? {
            return damaged(why);
        }
        match Key::read(self.state)? {
            Some(key) if *key.id() == id => Ok(FoundDatabase::Ready(connection, key)),
            Some(_) => Ok(FoundDatabase::Lost(
                "keyless",
                String::from("`ledger.key` is not the key that the records were chained with"),
            )),
            None => Ok(FoundDatabase::Lost(
                "keyless",
                String::from("`ledger.key`, which the records were chained with, is gone"),
            )),
        }
    }

    /// Returns the key for a new chain, and whether it is new.
    fn key_of_new(&self) -> Result<(Key, bool), Failed> {
        match Key::read(self.state)? {
            Some(key) => Ok((key, false)),
            None => Ok((Key::create(self.state)?, true)),
        }
    }

    fn opened(&self, connection: Connection, key: Key) -> Result<OpenLedger, Failed> {
        let path = self.state.join(NAME);
        let file = file_of(&path).ok_or_else(|| Failed::new("the database was taken away"))?;
        Ok(OpenLedger { connection, key, head: HeadFile::new(self.state), file, process: None })
    }

    /// Creates the tables and the first record, which reports lost records. Returns this report.
    fn begin(
        &self,
        open: &mut OpenLedger,
        is_key_new: bool,
        aside: Option<String>,
    ) -> Result<Option<String>, Failed> {
        let noted = open.head.noted(&open.key);
        let gone = match (aside, noted) {
            (Some(aside), Noted::At(link)) if link.seq != 0 => {
                Some(format!("{aside}; {} records were in it at least", link.seq))
            }
            (Some(aside), _) => Some(aside),
            // After a crash between the two steps, the head notes no record.
            (None, Noted::At(link)) if link.seq == 0 => None,
            (None, Noted::At(link)) => Some(format!(
                "the database before this one had {} records at least and was taken away",
                link.seq
            )),
            (None, Noted::Damaged) => Some(String::from(
                "there was a head of another chain, whose database or key was taken away",
            )),
            (None, Noted::Nothing) if is_key_new => None,
            (None, Noted::Nothing) => Some(String::from(
                "there was a key already, so a database and its head were taken away, or the first \
                 start of all died at once",
            )),
        };
        let mut tail = Link::START;
        let connection = &open.connection;
        // The head comes before the chain, so that a crash leaves no chain without a head.
        if noted == Noted::Nothing {
            let _ = open.head.note(&open.key, tail, false);
        }
        at_once(connection, |connection| {
            connection.execute_batch(row::SCHEMA)?;
            begin_chain(connection, &open.key)?;
            let process = self.who.enter(connection, None)?;
            let (kind, text) = match gone.clone() {
                Some(gone) => ("gone", gone),
                None => ("begin", String::from("a new audit log")),
            };
            let draft = event(self.redactor, &Event { kind, text, session: None }).into_owned();
            Ok::<_, Failed>(record::append(connection, &open.key, &mut tail, &process, &draft)?)
        })?;
        let _ = open.head.note(&open.key, tail, true);
        Ok(gone)
    }

    /// Renames the database and its files; returns the new name. Renames the write-ahead log first: a new
    /// database would adopt it.
    fn keep_aside(&self, word: &str) -> Result<String, Failed> {
        let n_aside = kept_aside(self.state).len();
        if MAX_ASIDE <= n_aside {
            return Err(Failed::new(format!(
                "the database is damaged, and {n_aside} others are kept aside already; check the \
                 disk, and move them away"
            )));
        }
        let stamp = timestamp(SystemClock.wall_ms()).replace(['-', ':'], "");
        let taken = |name: &String| file_of(&self.state.join(name)).is_some();
        let names = (0..).map(|n| match n {
            0 => format!("{NAME}.{word}-{stamp}"),
            n => format!("{NAME}.{word}-{stamp}.{n}"),
        });
        let name = names.take(MAX_ASIDE + 1).find(|name| !taken(name)).unwrap_or_default();
        for end in ["-wal", "-shm", ""] {
            let (from, to) = (format!("{NAME}{end}"), format!("{name}{end}"));
            match rustix::fs::rename(self.state.join(from), self.state.join(to)) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(errno) => {
                    let why = format!("the damaged database cannot be kept aside: {errno}");
                    return Err(Failed::new(why));
                }
            }
        }
        Ok(name)
    }
}

/// Returns an error if the tables do not match [`row::SCHEMA`], or a trigger was added.
fn other_tables(connection: &Connection) -> rusqlite::Result<Option<&'static str>> {
    let sql = "SELECT type || ' ' || name FROM sqlite_schema WHERE sql IS NOT NULL";
    let mut found = connection.prepare(sql)?;
    let found: Vec<String> = found.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    // Other objects, such as views of the user, are harmless.
    let is_there = |object: &&str| found.iter().any(|found| found == object);
    if !row::OBJECTS.iter().all(is_there) || found.iter().any(|found| found.starts_with("trigger "))
    {
        return Ok(Some("its tables are not those of its version"));
    }
    let columns =
        format!("SELECT {} FROM record JOIN process USING (process) LIMIT 0", record::selected());
    Ok(connection.prepare(&columns).is_err().then_some("columns are missing in it"))
}

/// Returns the notice about a record that does not match its hash. The database stays in use: all its pages
/// are readable, and the change can be examined.
pub(super) fn changed(misfit: &Finding) -> String {
    format!("{}; the database is used on; see `sinew audit verify`", misfit.text)
}

/// Returns the names of databases kept aside.
#[expect(clippy::disallowed_methods, reason = "the guard may look at the system")]
pub(super) fn kept_aside(state: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(state).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_kept = |name: &String| {
        let rest = name.strip_prefix(NAME).unwrap_or_default();
        (rest.starts_with(".corrupt-") || rest.starts_with(".keyless-"))
            && !rest.ends_with("-wal")
            && !rest.ends_with("-shm")
    };
    let mut names: Vec<String> = names.filter(is_kept).collect();
    names.sort();
    names
}

pub(super) fn event<'a>(redactor: &Redactor, event: &'a Event) -> RecordDraft<'a> {
    row::told(event, SystemClock.wall_ms(), &Cleaner(redactor))
}

/// Writes the ID of the chain's key and an empty anchor.
pub(super) fn begin_chain(connection: &Connection, key: &Key) -> rusqlite::Result<()> {
    let seal = key.seal(ANCHOR, &Link::START);
    connection
        .execute(
            "INSERT INTO chain (one, key_id, anchor_seq, anchor_hash, anchor_seal)
             VALUES (1, ?1, ?2, ?3, ?4)",
            (key.id(), Link::START.seq, Link::START.hash, seal),
        )
        .map(|_| ())
}

pub(super) fn key_id(connection: &Connection) -> rusqlite::Result<Option<[u8; 32]>> {
    connection.query_row("SELECT key_id FROM chain", [], |row| row.get(0)).optional()
}

/// Returns device and inode of the file at a path.
pub(super) fn file_of(path: &Path) -> Option<FileId> {
    let stat = rustix::fs::lstat(path).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// Locks the place of the database, waiting up to `patience`. Dropping the result unlocks.
pub(super) fn locked(
    state: &Path,
    operation: FlockOperation,
    patience: Duration,
) -> Result<OwnedFd, Failed> {
    let path: PathBuf = state.join(LOCK);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let failed = |errno| Failed::new(format!("{} cannot be locked: {errno}", path.display()));
    let file = openat(CWD, &path, flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
    let end = Instant::now() + patience;
    loop {
        match flock(&file, operation) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let busy = "another process is creating the database; repeat the call";
                return Err(Failed { busy: true, ..Failed::new(busy) });
            }
            Err(errno) => return Err(failed(errno)),
        }
    }
}

#[cfg(test)]
mod tests;
