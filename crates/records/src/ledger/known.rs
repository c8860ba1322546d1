//! Stores callers' knowledge of files: one row per file and caller.
//!
//! Rows are written with the records of calls and read on a separate connection, so that neither waits for
//! the other. An unreadable row counts as unknown.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use rustix::fs::FlockOperation;
use sinew_tool::{Caller, Clock, ContentHash, Identity, ReadObservation, Stamp, Writer};

use super::opening::{self, NAME};
use super::row::Cleaner;
use super::{Row, SharedLedger, lock};
use crate::redact::Redactor;
use sinew_fs::clock::SystemClock;

/// How long an unchanged row is kept.
const MAX_AGE_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// One process in so many removes old rows.
const PRUNED_EVERY: i64 = 64;
/// The maximum age of an intent that may explain an unrecorded content.
const MAX_INTENT_MS: u64 = 5_000;
/// How long a query waits for an exclusive holder of the database.
const PATIENCE: Duration = Duration::from_millis(20);

/// How many of the latest records a search for a session reads.
const MAX_SEARCHED: i64 = 100_000;

/// How a caller knows a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownFrom {
    Read,
    Wrote,
}

impl KnownFrom {
    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Wrote => "wrote",
        }
    }
}

/// A caller's knowledge of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// The hash of the whole content, if known.
    pub content: Option<ContentHash>,
    /// The file's state when it was read.
    pub state: Option<Identity>,
}

impl Known {
    /// Returns whether the file is unchanged: by content if known, else by state.
    pub(crate) fn holds(&self, state: Option<&Identity>, content: Option<ContentHash>) -> bool {
        match (self.content, content) {
            (Some(known), Some(now)) => known == now,
            _ => self.state.is_some() && self.state.as_ref() == state,
        }
    }

    /// Returns the knowledge after another read. A partial read adds nothing to a known whole.
    pub(crate) fn and(self, observation: &ReadObservation) -> Self {
        let content = match observation.content {
            None if self.state == Some(observation.state) => self.content,
            content => content,
        };
        Self { content, state: Some(observation.state) }
    }
}

/// A row to write: what a call taught its caller about a file.
#[derive(Debug)]
pub(crate) struct KnownRow {
    path: PathBuf,
    session: String,
    agent: String,
    tool: String,
    deed: KnownFrom,
    known: Known,
    pub at_ms: u64,
}

impl KnownRow {
    pub(crate) fn new(caller: &Caller, path: &Path, deed: KnownFrom, known: Known) -> Self {
        Self {
            path: path.to_owned(),
            session: caller.session.clone(),
            agent: caller.agent.clone().unwrap_or_default(),
            tool: caller.tool.clone(),
            deed,
            known,
            at_ms: SystemClock.wall_ms(),
        }
    }

    /// Returns whether the row holds a secret; then it is not written.
    pub(super) fn holds_secret(&self, redactor: &Redactor) -> bool {
        let path = self.path.to_string_lossy();
        [&*path, &self.session, &self.agent, &self.tool].iter().any(|text| redactor.finds(text))
    }

    /// Inserts or replaces the row. A writer that reads its content remains the writer.
    pub(super) fn insert(&self, transaction: &Connection, process: i64) -> rusqlite::Result<()> {
        transaction
            .prepare_cached(
                "INSERT INTO known (path, session, agent, deed, content_hash, state, tool, at_ms,
                    process) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                 ON CONFLICT (path, session, agent) DO UPDATE SET
                    deed = excluded.deed, content_hash = excluded.content_hash,
                    state = excluded.state, tool = excluded.tool, at_ms = excluded.at_ms,
                    process = excluded.process
                 WHERE at_ms <= excluded.at_ms
                    AND (excluded.deed = 'wrote' OR content_hash IS NULL
                        OR content_hash IS NOT excluded.content_hash)",
            )?
            .execute(params![
                self.path.as_os_str().as_bytes(),
                self.session,
                self.agent,
                self.deed.as_str(),
                self.known.content.as_ref().map(ContentHash::as_bytes),
                self.known.state.as_ref().map(bytes_of),
                self.tool,
                self.at_ms as i64,
                process,
            ])
            .map(|_| ())
    }
}

/// Removes old rows, in some processes only; returns their number.
pub(super) fn prune(connection: &Connection, process: i64) -> rusqlite::Result<usize> {
    if process % PRUNED_EVERY != 0 {
        return Ok(0);
    }
    let oldest = SystemClock.wall_ms().saturating_sub(MAX_AGE_MS);
    connection.execute("DELETE FROM known WHERE at_ms < ?1", [oldest as i64])
}

/// The stored knowledge of files, for queries.
pub(crate) struct Records {
    shared: Arc<SharedLedger>,
    /// The connection, and the opening number of the database it belongs to.
    reader: Mutex<Option<(u64, Connection)>>,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("state", &self.shared.state).finish_non_exhaustive()
    }
}

impl Records {
    pub(super) fn new(shared: Arc<SharedLedger>) -> Self {
        Self { shared, reader: Mutex::new(None) }
    }

    /// Queues a row; the record of the call wakes the writer later.
    pub(crate) fn note(&self, row: KnownRow) {
        let mut queue = lock(&self.shared.queue);
        // Rows must not displace records while the database cannot be written.
        if queue.rows.len() < super::MAX_KEPT / 2 {
            queue.rows.push(Row::Known(Box::new(row)));
        }
    }

    /// Returns a caller's knowledge of a file.
    pub(crate) fn known(&self, caller: &Caller, path: &Path) -> Option<Known> {
        self.ask(|connection| {
            connection
                .prepare_cached(
                    "SELECT content_hash, state FROM known
                     WHERE path = ?1 AND session = ?2 AND agent = ?3",
                )?
                .query_row(
                    params![path.as_os_str().as_bytes(), caller.session, agent(caller)],
                    |row| {
                        let state: Option<Vec<u8>> = row.get(1)?;
                        let state = state.and_then(|bytes| identity_of(&bytes));
                        let content: Option<[u8; 32]> = row.get(0)?;
                        Ok(Known { content: content.map(ContentHash::from), state })
                    },
                )
                .optional()
        })
    }

    /// Returns the writer of a content, else the session that changes the file now: its intent comes first.
    pub(crate) fn writer(
        &self,
        caller: &Caller,
        path: &Path,
        content: Option<ContentHash>,
        now_ms: u64,
    ) -> Option<Writer> {
        let writer = |is_done| {
            move |row: &rusqlite::Row<'_>| {
                let agent: Option<String> = row.get(1)?;
                let at_ms = row.get::<_, i64>(3)?.cast_unsigned();
                Ok(Writer {
                    session: row.get(0)?,
                    agent: agent.filter(|agent| !agent.is_empty()),
                    tool: row.get(2)?,
                    ago: Duration::from_millis(now_ms.saturating_sub(at_ms)),
                    is_done,
                })
            }
        };
        let wrote = self.ask(|connection| {
            connection
                .prepare_cached(
                    "SELECT session, agent, tool, at_ms FROM known
                     WHERE path = ?1 AND deed = 'wrote' AND content_hash = ?2
                     ORDER BY at_ms DESC LIMIT 1",
                )?
                .query_row(
                    params![
                        path.as_os_str().as_bytes(),
                        content.as_ref().map(ContentHash::as_bytes)
                    ],
                    writer(true),
                )
                .optional()
        });
        let oldest = now_ms.saturating_sub(MAX_INTENT_MS);
        wrote.or_else(|| {
            self.ask(|connection| {
                connection
                    .prepare_cached(
                        "SELECT session, agent, tool, at_ms FROM unsettled JOIN record USING (seq)
                         WHERE file_path = ?1 AND ?2 <= at_ms
                            AND NOT (session = ?3 AND call_id = ?4)
                         ORDER BY seq DESC LIMIT 1",
                    )?
                    .query_row(
                        params![
                            Cleaner(&self.shared.recorded.redactor).path(path),
                            oldest as i64,
                            caller.session,
                            caller.call_id
                        ],
                        writer(false),
                    )
                    .optional()
            })
        })
    }

    /// Returns whether one of the latest records is of a session.
    pub(crate) fn has_session(&self, session: &str) -> bool {
        let found = self.ask(|connection| {
            connection
                .prepare_cached(
                    "SELECT 1 FROM record
                     WHERE (SELECT max(seq) FROM record) - ?2 < seq AND session = ?1 LIMIT 1",
                )?
                .query_row(params![session, MAX_SEARCHED], |_| Ok(()))
                .optional()
        });
        found.is_some()
    }

    /// Queries the database. On an error returns `None`, and the next query reopens it.
    fn ask<T>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<Option<T>>,
    ) -> Option<T> {
        let now = self.shared.n_openings.load(Ordering::Relaxed);
        let mut reader = lock(&self.reader);
        // Another database may have replaced this one.
        reader.take_if(|(opening, _)| *opening != now);
        if reader.is_none() {
            *reader = open(&self.shared.state).map(|connection| (now, connection));
        }
        let answer = question(&reader.as_ref()?.1);
        answer.unwrap_or_else(|_| {
            *reader = None;
            None
        })
    }
}

fn agent(caller: &Caller) -> &str {
    caller.agent.as_deref().unwrap_or_default()
}

fn open(state: &Path) -> Option<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let _lock = opening::locked(state, FlockOperation::NonBlockingLockShared, PATIENCE).ok()?;
    let connection = Connection::open_with_flags(state.join(NAME), flags).ok()?;
    connection.busy_timeout(PATIENCE).ok()?;
    Some(connection)
}

/// Returns a state as little-endian bytes.
fn bytes_of(state: &Identity) -> Vec<u8> {
    let Identity { device, inode, size, modified, changed } = state;
    let times = [modified, changed]
        .into_iter()
        .flat_map(|stamp| [stamp.seconds.cast_unsigned(), u64::from(stamp.nanos)]);
    let numbers = [*device, *inode, *size].into_iter().chain(times);
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// Reads the bytes of [`bytes_of`].
fn identity_of(bytes: &[u8]) -> Option<Identity> {
    let numbers: Vec<u64> = bytes.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n)).collect();
    let [device, inode, size, m_seconds, m_nanos, c_seconds, c_nanos] = *numbers.as_slice() else {
        return None;
    };
    let stamp = |seconds: u64, nanos: u64| {
        Some(Stamp { seconds: seconds.cast_signed(), nanos: u32::try_from(nanos).ok()? })
    };
    let (modified, changed) = (stamp(m_seconds, m_nanos)?, stamp(c_seconds, c_nanos)?);
    Some(Identity { device, inode, size, modified, changed })
}
