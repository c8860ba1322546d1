//! The records of the ledger as rows of a table.

use std::path::PathBuf;

use rusqlite::{Connection, params};
use sinew_tool::{Change, Clock, Closing, Effects, Opening, Ticket};

use super::known::KnownRow;
use crate::clock::SystemClock;
use crate::database::separated;
use crate::mark::ProcessMark;

/// The version of the tables, which the database carries.
pub(super) const VERSION: i64 = 3;

/// The tables, made at once with their [`VERSION`]. A call that changes nothing has one record, its
/// outcome; a change has its intent first. The outcome of a call that changed several files holds the
/// first of them, and `further_change` the others. What every record of a process would repeat stands once
/// in `process`; the view `entry` shows both together. What callers know of files has one row for each
/// file and caller, whose `agent` is empty where there is one alone.
pub(super) const SCHEMA: &str = "
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS process (
        process       INTEGER PRIMARY KEY,
        surface       TEXT NOT NULL,
        client        TEXT,
        os_user       TEXT NOT NULL,
        pid           INTEGER NOT NULL,
        pid_started   INTEGER NOT NULL,
        pid_namespace INTEGER NOT NULL,
        machine       TEXT NOT NULL,
        boot          TEXT NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS record (
        seq          INTEGER PRIMARY KEY,
        phase        TEXT NOT NULL CHECK (phase IN ('intent', 'outcome')),
        at_ms        INTEGER NOT NULL,
        process      INTEGER NOT NULL REFERENCES process (process),
        ticket       INTEGER,
        settled      INTEGER NOT NULL DEFAULT 0,
        call_id      TEXT NOT NULL,
        session      TEXT NOT NULL,
        agent        TEXT,
        parent       TEXT,
        dialect      TEXT NOT NULL,
        tool         TEXT NOT NULL,
        arguments    BLOB NOT NULL,
        effects      TEXT,
        file_path    TEXT,
        temporaries  BLOB,
        verdict      TEXT,
        rule         TEXT,
        approver     TEXT,
        outcome      TEXT,
        duration_ms  REAL,
        bytes        INTEGER,
        before_hash  TEXT,
        after_hash   TEXT,
        reply_bytes  INTEGER
    ) STRICT;
    CREATE INDEX IF NOT EXISTS unsettled ON record (settled)
        WHERE phase = 'intent' AND settled = 0;
    CREATE TABLE IF NOT EXISTS known (
        path         BLOB NOT NULL,
        session      TEXT NOT NULL,
        agent        TEXT NOT NULL,
        deed         TEXT NOT NULL CHECK (deed IN ('read', 'wrote')),
        content_hash BLOB,
        state        BLOB,
        tool         TEXT NOT NULL,
        at_ms        INTEGER NOT NULL,
        process      INTEGER NOT NULL REFERENCES process (process),
        PRIMARY KEY (path, session, agent)
    ) STRICT, WITHOUT ROWID;
    CREATE VIEW IF NOT EXISTS entry AS SELECT * FROM record JOIN process USING (process);
    CREATE TABLE IF NOT EXISTS further_change (
        seq         INTEGER NOT NULL REFERENCES record (seq),
        file_path   TEXT NOT NULL,
        bytes       INTEGER NOT NULL,
        before_hash TEXT,
        after_hash  TEXT
    ) STRICT;
    CREATE INDEX IF NOT EXISTS further ON further_change (seq);
    PRAGMA user_version = 3;
    COMMIT;
";

/// The version before this one, whose database is taken on: what is missing in it is made.
pub(super) const PREVIOUS: i64 = 2;

/// What every record of a process names.
pub(super) struct Who {
    pub(super) surface: &'static str,
    pub(super) user: String,
    pub(super) mark: ProcessMark,
}

impl Who {
    /// Enters this process, with the client it serves, and returns its number in the database.
    pub(super) fn enter(
        &self,
        transaction: &Connection,
        client: Option<&str>,
    ) -> rusqlite::Result<i64> {
        transaction.execute(
            "INSERT INTO process (surface, client, os_user, pid, pid_started, pid_namespace,
                machine, boot) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                self.surface,
                client,
                self.user,
                self.mark.pid,
                self.mark.started,
                self.mark.namespace,
                self.mark.machine,
                self.mark.boot,
            ],
        )?;
        Ok(transaction.last_insert_rowid())
    }
}

/// One record.
pub(super) enum Row {
    Intent {
        ticket: Ticket,
        at_ms: u64,
        opening: Box<Opening>,
        effects: Effects,
        paths: Vec<PathBuf>,
        temporaries: Vec<PathBuf>,
    },
    Outcome {
        intent: Option<Ticket>,
        closing: Box<Closing>,
    },
    /// What a caller knows of a file.
    Known(Box<KnownRow>),
    /// An intent came to nothing, because the call was taken back while it was written.
    Withdrawn(Ticket),
}

impl Row {
    pub(super) fn intent(
        ticket: Ticket,
        opening: &Opening,
        effects: Effects,
        paths: &[PathBuf],
        temporaries: &[PathBuf],
    ) -> Self {
        Self::Intent {
            ticket,
            at_ms: SystemClock.wall_ms(),
            opening: Box::new(opening.clone()),
            effects,
            paths: paths.to_vec(),
            temporaries: temporaries.to_vec(),
        }
    }

    pub(super) fn outcome(intent: Option<Ticket>, closing: Closing) -> Self {
        Self::Outcome { intent, closing: Box::new(closing) }
    }

    /// Writes the record as one of the process with a number.
    pub(super) fn insert(
        &self,
        transaction: &Connection,
        who: &Who,
        process: i64,
    ) -> rusqlite::Result<()> {
        match self {
            Self::Intent { ticket, at_ms, opening, effects, paths, temporaries } => transaction
                .prepare_cached(
                    "INSERT INTO record (phase, at_ms, process, ticket, call_id, session, agent,
                            parent, dialect, tool, arguments, effects, file_path, temporaries)
                         VALUES ('intent', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
                )?
                .execute(params![
                    *at_ms as i64,
                    process,
                    ticket.0 as i64,
                    opening.call_id,
                    opening.session,
                    opening.agent,
                    opening.parent,
                    opening.dialect,
                    opening.tool,
                    opening.arguments,
                    effects.names().join("+"),
                    paths.first().map(|path| path.to_string_lossy()),
                    separated(temporaries),
                ])
                .map(|_| ()),
            Self::Outcome { intent, closing } => {
                insert_outcome(transaction, process, closing)?;
                intent.map_or(Ok(()), |ticket| settle(transaction, who, ticket))
            }
            Self::Known(row) => row.insert(transaction, process),
            Self::Withdrawn(ticket) => settle(transaction, who, *ticket),
        }
    }
}

/// Marks an intent as one that nothing is left of to clean up. It cannot fail half-way, and without
/// `OR FAIL` the pages would be copied for the case that it does.
fn settle(transaction: &Connection, who: &Who, ticket: Ticket) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE OR FAIL record SET settled = 1
             WHERE phase = 'intent' AND settled = 0 AND ticket = ?1
                AND EXISTS (SELECT 1 FROM process WHERE process.process = record.process
                    AND pid = ?2 AND pid_started = ?3 AND machine = ?4 AND boot = ?5)",
        )?
        .execute(params![
            ticket.0 as i64,
            who.mark.pid,
            who.mark.started,
            who.mark.machine,
            who.mark.boot
        ])
        .map(|_| ())
}

fn insert_outcome(
    transaction: &Connection,
    process: i64,
    closing: &Closing,
) -> rusqlite::Result<()> {
    let opening = &closing.opening;
    let change: Option<&Change> = closing.changes.first();
    let path = change.map(|change| &change.path).or(closing.path.as_ref());
    transaction
        .prepare_cached(
            "INSERT INTO record (phase, at_ms, process, call_id, session, agent, parent, dialect,
                tool, arguments, effects, file_path, verdict, rule, approver, outcome, duration_ms,
                bytes, before_hash, after_hash, reply_bytes)
             VALUES ('outcome', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
                ?16, ?17, ?18, ?19, ?20)",
        )?
        .execute(params![
            closing.opened_at_ms as i64,
            process,
            opening.call_id,
            opening.session,
            opening.agent,
            opening.parent,
            opening.dialect,
            opening.tool,
            opening.arguments,
            closing.effects.map(|effects| effects.names().join("+")),
            path.map(|path| path.to_string_lossy()),
            closing.verdict,
            closing.rule,
            closing.approver,
            closing.error.map_or("ok", |kind| kind.as_str()),
            closing.duration_ms,
            change.map(|change| change.bytes as i64),
            change.and_then(|change| change.before.as_deref()),
            change.and_then(|change| change.after.as_deref()),
            closing.reply_bytes as i64,
        ])?;
    let seq = transaction.last_insert_rowid();
    closing.changes.iter().skip(1).try_for_each(|change| insert_further(transaction, seq, change))
}

fn insert_further(transaction: &Connection, seq: i64, change: &Change) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO further_change (seq, file_path, bytes, before_hash, after_hash)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            seq,
            change.path.to_string_lossy(),
            change.bytes as i64,
            change.before,
            change.after,
        ])
        .map(|_| ())
}
