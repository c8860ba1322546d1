//! Stores the messages between agents in bounded queues, which messages to channels were sent, and which sub-agents began.
//!
//! Every client has a process of its own, so queues, rates and the outbox are in one database. Each send checks its limits and
//! inserts in one IMMEDIATE transaction: limits hold however many processes race.
//!
//! A message leaves its queue when it is read, in the transaction that reads it: two readers of one inbox never get the same
//! message, and each read frees room. A message is lost if its reader dies before it shows it.

mod children;
mod outbox;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use sinew_tool::InboxMessage;
use sinew_tool::sync::lock;

use crate::database::{self, Failed, PATIENT, Tables, at_once, is_file, now_ms, read, stored};
use crate::knowledge::KnowledgeBase;
use crate::ledger::LedgerSync;
use crate::redact::Redactor;
use crate::sessions::Sessions;
use sinew_fs::state::StateDir;

pub use children::{ChildLimits, NewChildren};
pub use outbox::OutboxEntry;

/// The file name of the database.
const NAME: &str = "messages.db";
/// The sliding window of the rate of a pair, in milliseconds.
const WINDOW_MS: i64 = 60_000;
/// The most content that one read returns, in bytes; a single message is always returned.
const MAX_READ: usize = 400 << 10;

const TABLES: Tables = Tables {
    version: 1,
    previous: None,
    schema: "
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS agent (
        id      TEXT PRIMARY KEY,
        root    TEXT NOT NULL,
        seen_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS agent_seen ON agent (seen_ms);
    CREATE TABLE IF NOT EXISTS message (
        number  INTEGER PRIMARY KEY AUTOINCREMENT,
        target  TEXT NOT NULL,
        sender  TEXT NOT NULL,
        at_ms   INTEGER NOT NULL,
        content TEXT NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS message_target ON message (target, number);
    CREATE INDEX IF NOT EXISTS message_at ON message (at_ms);
    CREATE TABLE IF NOT EXISTS recent (
        number INTEGER PRIMARY KEY,
        sender TEXT NOT NULL,
        target TEXT NOT NULL,
        at_ms  INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS recent_pair ON recent (sender, target, at_ms);
    CREATE INDEX IF NOT EXISTS recent_at ON recent (at_ms);
    CREATE TABLE IF NOT EXISTS outbox (
        session     TEXT NOT NULL,
        call_id     TEXT NOT NULL,
        fingerprint BLOB NOT NULL,
        channel     TEXT NOT NULL,
        chat        TEXT NOT NULL,
        state       TEXT NOT NULL,
        is_told     INTEGER NOT NULL,
        at_ms       INTEGER NOT NULL,
        process     TEXT NOT NULL,
        PRIMARY KEY (session, call_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS outbox_at ON outbox (at_ms);
    CREATE TABLE IF NOT EXISTS child (
        number     INTEGER PRIMARY KEY AUTOINCREMENT,
        name       TEXT NOT NULL,
        parent     TEXT NOT NULL,
        session    TEXT NOT NULL,
        at_ms      INTEGER NOT NULL,
        is_running INTEGER NOT NULL,
        process    TEXT NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS child_parent ON child (parent, at_ms);
    CREATE INDEX IF NOT EXISTS child_session ON child (session, at_ms);
    CREATE INDEX IF NOT EXISTS child_name ON child (name);
    PRAGMA user_version = 1;
    COMMIT;",
};

/// The limits of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageLimits {
    /// The longest message between agents, in bytes of UTF-8.
    pub max_bytes: usize,
    /// The most messages that wait in one inbox.
    pub max_queued: u64,
    /// The most messages of one sender to one target within a minute.
    pub max_per_minute: u64,
    /// How long unread messages, inboxes and the outbox are kept.
    pub max_age: Duration,
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            max_bytes: 102_400,
            max_queued: 1_000,
            max_per_minute: 10,
            max_age: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }
}

/// Why a message cannot be sent or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The database failed.
    #[error("the messages in {path} cannot be used: {problem}")]
    Database {
        /// The database.
        path: String,
        /// The error of the database.
        problem: String,
    },
    /// The message is too long.
    #[error("the message has {bytes} bytes, more than {max}")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The inbox of the target is full.
    #[error("the inbox of `{target}` is full: {max} messages wait until it reads them")]
    QueueFull {
        /// The target.
        target: String,
        /// The limit.
        max: u64,
    },
    /// The sender wrote too often.
    #[error(
        "{max} messages went to `{target}` within a minute, which is the limit; the next may go in {} s",
        wait_s(retry_after)
    )]
    TooOften {
        /// The target.
        target: String,
        /// The limit.
        max: u64,
        /// When the next one may go.
        retry_after: Duration,
    },
}

fn wait_s(wait: &Duration) -> u64 {
    u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// A session that can get messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownAgent {
    /// Its first root, where it is known.
    pub root: Option<String>,
}

/// The messages of a state directory.
#[derive(Debug)]
pub struct MessageStore {
    /// The state directory, which is created when something is written.
    state: PathBuf,
    limits: MessageLimits,
    redactor: Redactor,
    connection: Mutex<Option<Connection>>,
    /// The names of sub-agents whose ends could not be recorded yet.
    unrecorded_ends: Mutex<Vec<String>>,
}

impl MessageStore {
    /// Returns the messages of a state directory; opens and creates nothing yet.
    pub fn new(state: &Path, limits: MessageLimits, redactor: Redactor) -> Self {
        Self {
            state: state.to_owned(),
            limits,
            redactor,
            connection: Mutex::new(None),
            unrecorded_ends: Mutex::default(),
        }
    }

    /// Returns the limits.
    pub fn limits(&self) -> &MessageLimits {
        &self.limits
    }

    /// Returns a session that can get messages: one that sent a message or opened its inbox, a stored session of the
    /// agent, or one that the audit log recorded lately. Creates nothing.
    pub fn find(
        &self,
        id: &str,
        knowledge: &KnowledgeBase,
    ) -> Result<Option<KnownAgent>, MessageError> {
        let registered = match is_file(&self.path()) {
            false => None,
            true => self.with(|connection| {
                let mut statement =
                    connection.prepare_cached("SELECT root FROM agent WHERE id = ?1")?;
                Ok(statement.query_row([id], |row| row.get::<_, String>(0)).optional()?)
            })?,
        };
        if let Some(root) = registered {
            return Ok(Some(KnownAgent { root: Some(root) }));
        }
        let sessions = Sessions::beneath(&self.state, self.redactor.clone());
        if let Some(session) = sessions.and_then(|sessions| sessions.find(id).ok().flatten()) {
            return Ok(Some(KnownAgent { root: Some(session.root) }));
        }
        Ok(knowledge.has_session(id).then_some(KnownAgent { root: None }))
    }

    /// Puts a message into the inbox of its target, if every limit allows it.
    pub fn send(
        &self,
        (sender, root): (&str, &str),
        target: &str,
        content: &str,
    ) -> Result<(), MessageError> {
        let MessageLimits { max_bytes, max_queued, max_per_minute, .. } = self.limits;
        if max_bytes < content.len() {
            return Err(MessageError::TooLarge { bytes: content.len(), max: max_bytes });
        }
        let refused = self.change(|connection| {
            // Within the transaction, so that times are in the order of the sends.
            let now = now_ms();
            self.expire(connection, now)?;
            register(connection, sender, root, now)?;
            let newest = "SELECT at_ms FROM recent WHERE sender = ?1 AND target = ?2 ORDER BY at_ms DESC LIMIT 1 OFFSET ?3";
            let offset = stored(max_per_minute.saturating_sub(1));
            let last = connection
                .prepare_cached(newest)?
                .query_row(params![sender, target, offset], |row| row.get::<_, i64>(0))
                .optional()?;
            if let Some(at) = last {
                let wait = at.saturating_add(WINDOW_MS).saturating_sub(now);
                let retry_after = Duration::from_millis(u64::try_from(wait).unwrap_or_default());
                let (target, max) = (target.to_owned(), max_per_minute);
                return Ok(Some(MessageError::TooOften { target, max, retry_after }));
            }
            if max_queued <= waiting(connection, target)? {
                let target = target.to_owned();
                return Ok(Some(MessageError::QueueFull { target, max: max_queued }));
            }
            connection
                .prepare_cached(
                    "INSERT INTO message (target, sender, at_ms, content) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![target, sender, now, content])?;
            connection
                .prepare_cached("INSERT INTO recent (sender, target, at_ms) VALUES (?1, ?2, ?3)")?
                .execute(params![sender, target, now])?;
            Ok(None)
        })?;
        refused.map_or(Ok(()), Err)
    }

    /// Takes the oldest messages out of an inbox, and returns how many are left. The owner is known from then on.
    pub fn receive(
        &self,
        (owner, root): (&str, &str),
        max: usize,
    ) -> Result<(Vec<InboxMessage>, u64), MessageError> {
        self.change(|connection| {
            let now = now_ms();
            self.expire(connection, now)?;
            register(connection, owner, root, now)?;
            let mut statement = connection.prepare_cached(
                "SELECT number, sender, at_ms, content FROM message WHERE target = ?1 ORDER BY number LIMIT ?2",
            )?;
            let mut rows = statement.query(params![owner, stored(max as u64)])?;
            let (mut messages, mut last, mut n_bytes) = (Vec::new(), None, 0);
            while let Some(row) = rows.next()? {
                let content: String = row.get(3)?;
                n_bytes += content.len();
                if MAX_READ < n_bytes && !messages.is_empty() {
                    break;
                }
                last = Some(row.get::<_, i64>(0)?);
                let at_ms = read(row.get(2)?);
                messages.push(InboxMessage { sender: row.get(1)?, at_ms, content: Ok(content) });
            }
            if let Some(last) = last {
                connection
                    .prepare_cached("DELETE FROM message WHERE target = ?1 AND number <= ?2")?
                    .execute(params![owner, last])?;
            }
            Ok((messages, waiting(connection, owner)?))
        })
    }

    /// Removes messages that are too old, and times of the rate window that lie outside it on either side: a clock can
    /// be set back.
    fn expire(&self, connection: &Connection, now: i64) -> Result<(), Failed> {
        let age = i64::try_from(self.limits.max_age.as_millis()).unwrap_or(i64::MAX);
        let oldest = now.saturating_sub(age);
        connection
            .prepare_cached("DELETE FROM recent WHERE at_ms <= ?1 OR ?2 < at_ms")?
            .execute([now.saturating_sub(WINDOW_MS), now.saturating_add(WINDOW_MS)])?;
        for statement in [
            "DELETE FROM message WHERE at_ms < ?1",
            "DELETE FROM agent WHERE seen_ms < ?1",
            "DELETE FROM outbox WHERE at_ms < ?1",
        ] {
            connection.prepare_cached(statement)?.execute([oldest])?;
        }
        Ok(())
    }

    /// Runs a change in one IMMEDIATE transaction.
    fn change<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failed>,
    ) -> Result<T, MessageError> {
        self.with(|connection| {
            let done = at_once(connection, work)?;
            database::shorten_log(connection);
            Ok(done)
        })
    }

    fn path(&self) -> PathBuf {
        self.state.join(NAME)
    }

    fn open(&self) -> Result<Connection, Failed> {
        StateDir::open(&self.state).map_err(|error| Failed::new(error.to_string()))?;
        // A message that was confirmed must not be lost, nor sent again, after a loss of power.
        database::open(&self.path(), &TABLES, LedgerSync::Full, PATIENT)
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failed>,
    ) -> Result<T, MessageError> {
        let mut connection = lock(&self.connection);
        let done = match &*connection {
            Some(open) => work(open),
            None => self.open().and_then(|open| work(connection.insert(open))),
        };
        done.map_err(|failed| MessageError::Database {
            path: self.path().display().to_string(),
            problem: match failed.corrupt {
                true => format!("{}; move the file away to begin anew", failed.problem),
                false => failed.problem,
            },
        })
    }
}

fn register(connection: &Connection, id: &str, root: &str, now: i64) -> Result<(), Failed> {
    let statement = "INSERT INTO agent VALUES (?1, ?2, ?3) \
                     ON CONFLICT (id) DO UPDATE SET root = excluded.root, seen_ms = excluded.seen_ms";
    connection.prepare_cached(statement)?.execute(params![id, root, now])?;
    Ok(())
}

/// Returns how many messages wait in an inbox.
fn waiting(connection: &Connection, target: &str) -> Result<u64, Failed> {
    let mut statement =
        connection.prepare_cached("SELECT count(*) FROM message WHERE target = ?1")?;
    Ok(read(statement.query_row([target], |row| row.get(0))?))
}

#[cfg(test)]
mod tests;
