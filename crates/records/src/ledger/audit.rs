//! Reads and verifies the ledger: filters records and walks the hash chain.
//!
//! The database is opened read-only, so this works beside writers and on a read-only file system.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::check;
use super::head::{self, Noted};
use super::key::{self, Key};
use super::opening::{self, NAME};
use super::reading::{self, Reading};
use super::record::{self, Fields, Link, Record};
use super::row;
use super::scan;
use super::verify::{Finding, Verified, Walk};
use crate::database::{self, Failed};
use sinew_fs::state::StateDir;

/// How long a reader waits for other processes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why the ledger cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// No record was ever written.
    #[error("nothing is recorded yet")]
    Empty,
    /// Records were written, and the database is missing.
    #[error("{0}")]
    Gone(String),
    /// The file is not a database, or has broken pages.
    #[error(
        "the database of the audit log is damaged: {0}; the next call that is recorded keeps it aside and begins a \
         new one"
    )]
    Damaged(String),
    /// The database exists but cannot be read.
    #[error("the audit log cannot be read: {0}")]
    Unreadable(String),
}

impl From<Failed> for AuditError {
    fn from(failed: Failed) -> Self {
        match failed.corrupt {
            true => Self::Damaged(failed.problem),
            false => Self::Unreadable(failed.problem),
        }
    }
}

impl From<rusqlite::Error> for AuditError {
    fn from(error: rusqlite::Error) -> Self {
        Self::from(Failed::from(error))
    }
}

/// A filter for records; empty fields match all.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The session.
    pub session: Option<String>,
    /// One of these sessions or calls; `limit` counts the other records too.
    pub among: Option<SessionsAndCalls>,
    /// The wire name of the tool, or a prefix with `*`.
    pub tool: Option<String>,
    /// The path, or a directory above it.
    pub path: Option<String>,
    /// `ok` or error kinds; the outcome is one of them.
    pub outcomes: Vec<String>,
    /// The call.
    pub call_id: Option<String>,
    /// The earliest time in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// The lowest record number.
    pub since_seq: Option<i64>,
    /// Leaves out intents whose outcome is recorded too.
    pub without_ended_intents: bool,
    /// Whether the newest record comes first.
    pub newest_first: bool,
    /// The most records.
    pub limit: Option<u64>,
}

/// Sessions, and IDs of further calls.
#[derive(Debug, Clone, Default)]
pub struct SessionsAndCalls {
    /// The sessions.
    pub sessions: HashSet<String>,
    /// The calls.
    pub calls: HashSet<String>,
}

/// A ledger opened for reading.
#[derive(Debug)]
pub struct Audit {
    state: PathBuf,
    reading: Reading,
}

impl Audit {
    /// Opens the database of a state directory read-only.
    pub fn open(state: &StateDir) -> Result<Self, AuditError> {
        Self::at(state.path())
    }

    /// Returns whether a state directory has a database, without opening it.
    pub fn is_in(state: &Path) -> bool {
        opening::file_of(&state.join(NAME)).is_some()
    }

    pub(super) fn at(state: &Path) -> Result<Self, AuditError> {
        let state = state.to_owned();
        let path = state.join(NAME);
        let missing = |what: &str| match traces(&state) {
            Some(known) => AuditError::Gone(format!("{what}, and {known}")),
            None => AuditError::Empty,
        };
        if opening::file_of(&path).is_none() {
            return Err(missing("the database of the audit log is gone"));
        }
        let reading = reading::open(&state, PATIENCE)?;
        let connection = &reading.connection;
        match database::version(connection)? {
            row::VERSION => Ok(Self { state, reading }),
            0 if database::is_empty(connection)? => {
                Err(missing("the database of the audit log is empty"))
            }
            0 => Err(AuditError::Gone(String::from(
                "the tables of the audit log have lost their version, so it is not read",
            ))),
            version => Err(database::foreign(&path, version, row::VERSION).into()),
        }
    }

    fn connection(&self) -> &Connection {
        &self.reading.connection
    }

    /// Passes the matching records to a callback until it fails.
    pub fn records<E: From<AuditError>>(
        &self,
        wanted: &Wanted,
        mut take: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut conditions = vec![String::from("TRUE")];
        let mut values = Vec::new();
        let mut add = |condition: &str, value: Value| {
            values.push(value);
            conditions.push(condition.replace('?', &format!("?{}", values.len())));
        };
        for (condition, value) in
            [("session = ?", &wanted.session), ("call_id = ?", &wanted.call_id)]
        {
            if let Some(value) = value {
                add(condition, Value::Text(value.clone()));
            }
        }
        if !wanted.outcomes.is_empty() {
            // One text, because a condition takes one value.
            let all = wanted.outcomes.iter().map(|outcome| format!(" {outcome} "));
            add("instr(?, ' ' || outcome || ' ')", Value::Text(all.collect()));
        }
        if let Some(tool) = &wanted.tool {
            match tool.strip_suffix('*') {
                Some(start) => {
                    add("substr(tool, 1, length(?)) = ?", Value::Text(start.to_owned()));
                }
                None => add("tool = ?", Value::Text(tool.clone())),
            }
        }
        if let Some(path) = &wanted.path {
            let path = path.trim_end_matches('/').to_owned();
            let is = "(f = ? OR substr(f, 1, length(?) + 1) = ? || '/')";
            let further = format!(
                "EXISTS (SELECT 1 FROM further_change AS c WHERE c.seq = record.seq AND {})",
                is.replace("f ", "c.file_path ").replace("(f,", "(c.file_path,")
            );
            let own = is.replace("f ", "record.file_path ").replace("(f,", "(record.file_path,");
            add(&format!("({own} OR {further})"), Value::Text(path));
        }
        for (condition, value) in
            [("at_ms >= ?", wanted.since_ms), ("record.seq >= ?", wanted.since_seq)]
        {
            if let Some(value) = value {
                add(condition, Value::Integer(value));
            }
        }
        if wanted.without_ended_intents {
            // An outcome follows its intent closely, so this search is short.
            conditions.push(String::from(
                "(phase <> 'intent' OR NOT EXISTS (SELECT 1 FROM record AS ended
                    WHERE record.seq < ended.seq AND ended.intent = record.seq))",
            ));
        }
        let sql = format!(
            "SELECT {} FROM record LEFT JOIN process USING (process) WHERE {} ORDER BY seq {} LIMIT {}",
            record::selected(),
            conditions.join(" AND "),
            if wanted.newest_first { "DESC" } else { "ASC" },
            wanted.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX)),
        );
        let failed = |error: rusqlite::Error| AuditError::from(error);
        let mut statement = self.connection().prepare(&sql).map_err(failed)?;
        let column = |name| statement.column_index(name).map_err(failed);
        let (session, call_id) = (column("session")?, column("call_id")?);
        let mut rows = statement.query(params_from_iter(values)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let is_in = |column, names: &HashSet<String>| {
                let text = row.get_ref(column).ok().and_then(|value| value.as_str().ok());
                text.is_some_and(|text| names.contains(text))
            };
            // There may be more names than a statement has parameters.
            let is_among = |among: &SessionsAndCalls| {
                is_in(session, &among.sessions) || is_in(call_id, &among.calls)
            };
            if !wanted.among.as_ref().is_none_or(is_among) {
                continue;
            }
            let mut record = record::of_row(row).map_err(failed)?;
            record.changes = self.changes(record.link.seq).map_err(failed)?;
            take(record)?;
        }
        Ok(())
    }

    /// Returns the sessions with a call on this path or one beneath it.
    pub fn sessions_beneath(&self, path: &Path) -> Result<Vec<String>, AuditError> {
        let path = path.to_string_lossy();
        let path = path.trim_end_matches('/');
        let is_beneath = "file_path = ?1 OR substr(file_path, 1, length(?1) + 1) = ?1 || '/'";
        let sql = format!(
            "SELECT DISTINCT session FROM record WHERE session IS NOT NULL AND ({is_beneath}
                OR seq IN (SELECT seq FROM further_change WHERE {is_beneath}))"
        );
        let mut statement = self.connection().prepare(&sql)?;
        let sessions = statement.query_map([path], |row| row.get(0))?;
        Ok(sessions.collect::<Result<_, _>>()?)
    }

    /// Returns the previous record of one, if known.
    pub fn before(&self, seq: i64) -> Result<Option<Link>, AuditError> {
        if seq <= 1 {
            return Ok(Some(Link::START));
        }
        // The anchor is the record before the first one that retention kept.
        if let Some(key) = Key::read(&self.state)? {
            let (anchor, is_ours) = key::anchor(self.connection(), &key)?;
            if is_ours && anchor.seq == seq - 1 {
                return Ok(Some(anchor));
            }
        }
        let hash = record::hash_of(self.connection(), seq - 1)?;
        Ok(hash.map(|hash| Link { seq: seq - 1, hash }))
    }

    fn changes(&self, seq: i64) -> rusqlite::Result<Vec<Fields<'static>>> {
        self.connection()
            .prepare_cached(
                "SELECT seq, file_path, bytes, before_hash, after_hash FROM further_change
                 WHERE seq = ?1 ORDER BY rowid",
            )?
            .query_map([seq], |row| record::change_of_row(row).map(|(_, change)| change))?
            .collect()
    }

    /// Returns the end of the chain.
    pub fn head(&self) -> Result<Link, AuditError> {
        Ok(record::tail(self.connection(), Link::START)?)
    }

    /// Reads every page and walks the chain; compares it with a head kept elsewhere, and reports progress.
    pub fn verify(
        &self,
        kept: Option<Link>,
        progress: impl FnMut(u64),
    ) -> Result<Verified, AuditError> {
        let damage = match check::structure(self.connection()) {
            Err(error) if Failed::from_sqlite(&error).corrupt => Some(error.to_string()),
            damage => damage?,
        };
        let Some(why) = damage else { return self.walk(kept, progress) };
        let damaged =
            Finding::new(0, "damaged", format!("pages of the database are broken: {why}"));
        let mut verified = match self.walk(kept, progress) {
            Ok(verified) => verified,
            Err(error) => {
                let text = format!("the records cannot be read: {error}");
                unwalked(Link::START, "unreadable", text)
            }
        };
        verified.findings.insert(0, damaged);
        Ok(verified)
    }

    fn walk(
        &self,
        kept: Option<Link>,
        mut progress: impl FnMut(u64),
    ) -> Result<Verified, AuditError> {
        let Some(key) = Key::read(&self.state)? else {
            let last = record::tail(self.connection(), Link::START)?;
            return Ok(unwalked(
                last,
                "key",
                "`ledger.key` is missing, so nothing can be verified",
            ));
        };
        // Read before the records: a writer notes the head after its records.
        let noted = head::noted(&self.state, &key);
        let snapshot = self.connection().unchecked_transaction()?;
        if opening::key_id(self.connection())? != Some(*key.id()) {
            let last = record::tail(self.connection(), Link::START)?;
            let text = "`ledger.key` is not the key of this chain, so nothing can be verified";
            return Ok(unwalked(last, "key", text));
        }
        let (anchor, is_ours) = key::anchor(self.connection(), &key)?;
        let mut walk = Walk::after(&key, Some(anchor));
        if !is_ours {
            let text = "where the chain begins was changed: records before may have been removed";
            walk.find(Finding::new(anchor.seq, "anchor", text));
        }
        if let Err(error) = scan::all(self.connection(), i64::MAX, &mut walk, &mut progress) {
            let seq = walk.last().seq.saturating_add(1);
            walk.find(Finding::new(
                seq,
                "unreadable",
                format!("record {seq} cannot be read: {error}"),
            ));
        }
        self.compare(&mut walk, anchor, noted)?;
        if let Some(kept) = kept {
            self.compare_kept(&mut walk, anchor, kept)?;
        }
        drop(snapshot);
        Ok(walk.end())
    }

    /// Compares the chain with the head file.
    fn compare(&self, walk: &mut Walk<'_>, anchor: Link, noted: Noted) -> Result<(), AuditError> {
        let last = walk.last();
        match noted {
            Noted::Nothing => walk.find(Finding::new(
                last.seq,
                "head",
                "the head beside the database is missing, so nothing says whether records were cut off",
            )),
            Noted::Damaged => walk.find(Finding::new(
                last.seq,
                "head",
                "the head beside the database was not written with the key of this chain",
            )),
            Noted::At(noted) if last.seq < noted.seq => {
                walk.find(Finding::new(last.seq.saturating_add(1), "cut", cut(last, noted, "the head")));
            }
            Noted::At(noted) => {
                let hash = record::hash_of(self.connection(), noted.seq)?;
                if anchor.seq < noted.seq && hash.is_some_and(|hash| hash != noted.hash) {
                    let text = format!(
                        "record {0} is not the one that the head knows: the chain was replaced",
                        noted.seq
                    );
                    walk.find(Finding::new(noted.seq, "other", text));
                }
                walk.beyond(last.seq.saturating_sub(noted.seq));
            }
        }
        Ok(())
    }

    /// Compares the chain with a head kept elsewhere.
    fn compare_kept(
        &self,
        walk: &mut Walk<'_>,
        anchor: Link,
        kept: Link,
    ) -> Result<(), AuditError> {
        let last = walk.last();
        let hash = match kept.seq {
            seq if seq == anchor.seq => Some(anchor.hash),
            seq => record::hash_of(self.connection(), seq)?,
        };
        match hash {
            Some(hash) if hash == kept.hash => {}
            Some(_) => {
                let text = format!(
                    "record {} is not the one that was kept: the chain was replaced",
                    kept.seq
                );
                walk.find(Finding::new(kept.seq, "other", text));
            }
            None if last.seq < kept.seq => {
                walk.find(Finding::new(
                    last.seq.saturating_add(1),
                    "cut",
                    cut(last, kept, "the head that was kept"),
                ));
            }
            None if kept.seq < anchor.seq => walk.remark(
                kept.seq,
                "pruned",
                format!("record {} was removed by retention, so it cannot be compared", kept.seq),
            ),
            // The missing record is already reported.
            None => {}
        }
        Ok(())
    }
}

fn cut(last: Link, known: Link, whose: &str) -> String {
    let n = known.seq.saturating_sub(last.seq);
    format!(
        "the chain ends with record {}, and {whose} knows {n} more: they were cut off",
        last.seq
    )
}

/// Returns the result for a chain whose records cannot be read.
fn unwalked(last: Link, what: &'static str, text: impl Into<String>) -> Verified {
    let key = Key::nobodys();
    let mut walk = Walk::after(&key, Some(last));
    walk.find(Finding::new(last.seq, what, text));
    walk.end()
}

/// Returns the file that proves an earlier database, if any.
fn traces(state: &Path) -> Option<String> {
    let beside = [(head::NAME, "head"), (key::NAME, "key")];
    let known = beside.iter().find(|(name, _)| opening::file_of(&state.join(name)).is_some());
    if let Some((_, known)) = known {
        return Some(format!("the {known} beside it knows of one"));
    }
    let aside = opening::kept_aside(state).pop()?;
    Some(format!("{aside} was kept aside before it"))
}

/// Returns the key of a state directory, to verify an export.
pub fn key_of(state: &StateDir) -> Result<Key, AuditError> {
    let missing = || AuditError::Unreadable(String::from("`ledger.key` is missing"));
    Key::read(state.path())?.ok_or_else(missing)
}
