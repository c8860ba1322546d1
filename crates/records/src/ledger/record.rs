//! A record of the chain: named values, and the keyed hash (MAC) over them and the previous record.
//!
//! The hash is BLAKE3 with a key of the ledger. It covers the previous hash and all of the record: each value
//! with name, type and length, its process and its further changes. Missing values are left out, so a later
//! release can add columns. A record is never updated; mutable facts are in other tables, outside the hash.

use std::borrow::Cow;

use rusqlite::types::{Null, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql};

use super::key::Key;

/// The hashed columns, in this order. Their names are hashed too, so `rung`, the old word for the sandbox
/// level, stays in databases; output says `sandbox_level`.
pub(super) const COLUMNS: [&str; 29] = [
    "phase",
    "at_ms",
    "intent",
    "call_id",
    "session",
    "agent",
    "parent",
    "dialect",
    "tool",
    "arguments",
    "effects",
    "file_path",
    "verdict",
    "rule",
    "origin",
    "approver",
    "answer",
    "waited_us",
    "command",
    "rung",
    "background",
    "outcome",
    "duration_us",
    "bytes",
    "before_hash",
    "after_hash",
    "reply_bytes",
    "event",
    "text",
];

/// The columns that all records of a process share.
pub(super) const OF_PROCESS: [&str; 8] =
    ["surface", "client", "os_user", "pid", "pid_started", "pid_namespace", "machine", "boot"];

/// The columns of a further change of a call.
pub(super) const OF_CHANGE: [&str; 4] = ["file_path", "bytes", "before_hash", "after_hash"];

/// A value of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field<'a> {
    /// An integer.
    Integer(i64),
    /// A text.
    Text(Cow<'a, str>),
    /// A hash or other bytes.
    Bytes(Cow<'a, [u8]>),
}

impl Field<'static> {
    pub(super) fn of(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Null => None,
            ValueRef::Integer(number) => Some(Self::Integer(number)),
            // Sinew stores no reals: the value stays visible and does not match its hash.
            ValueRef::Real(number) => Some(Self::from(number.to_string())),
            ValueRef::Text(text) => Some(Self::from(String::from_utf8_lossy(text).into_owned())),
            ValueRef::Blob(bytes) => Some(Self::Bytes(Cow::Owned(bytes.to_vec()))),
        }
    }
}

impl Field<'_> {
    fn into_owned(self) -> Field<'static> {
        match self {
            Self::Integer(number) => Field::Integer(number),
            Self::Text(text) => Field::Text(Cow::Owned(text.into_owned())),
            Self::Bytes(bytes) => Field::Bytes(Cow::Owned(bytes.into_owned())),
        }
    }

    fn parts(&self) -> (u8, [u8; 8], &[u8]) {
        match self {
            Self::Integer(number) => (1, number.to_le_bytes(), &[]),
            Self::Text(text) => (2, (text.len() as u64).to_le_bytes(), text.as_bytes()),
            Self::Bytes(bytes) => (3, (bytes.len() as u64).to_le_bytes(), bytes),
        }
    }
}

impl ToSql for Field<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl From<i64> for Field<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u64> for Field<'_> {
    fn from(number: u64) -> Self {
        Self::Integer(number as i64)
    }
}

impl<'a> From<&'a str> for Field<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Field<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<Cow<'a, str>> for Field<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

/// Values by name in column order, without missing ones.
pub type Fields<'a> = Vec<(&'static str, Field<'a>)>;

/// A record's number and hash: a position in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The number.
    pub seq: i64,
    /// The hash.
    pub hash: [u8; 32],
}

impl Link {
    /// The position before the first record.
    pub const START: Self = Self { seq: 0, hash: [0; 32] };
}

/// One record of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its position.
    pub link: Link,
    /// Its values, with those of its process.
    pub fields: Fields<'static>,
    /// The further changes of its call.
    pub changes: Vec<Fields<'static>>,
}

impl Record {
    /// Returns a text value.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.field(name)? {
            Field::Text(text) => Some(text),
            Field::Integer(_) | Field::Bytes(_) => None,
        }
    }

    /// Returns an integer value.
    pub fn number(&self, name: &str) -> Option<i64> {
        match self.field(name)? {
            Field::Integer(number) => Some(*number),
            Field::Text(_) | Field::Bytes(_) => None,
        }
    }

    fn field(&self, name: &str) -> Option<&Field<'static>> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, field)| field)
    }

    /// Returns the hash that the record would have at this position.
    pub(super) fn hash_at(&self, key: &Key, seq: i64, previous: &[u8; 32]) -> [u8; 32] {
        hash(key, seq, previous, self.fields.iter(), &self.changes)
    }

    /// Sorts values into column order; `None` if a name is unknown.
    pub fn from_parts(
        link: Link,
        named: Vec<(String, Field<'static>)>,
        changes: Vec<Vec<(String, Field<'static>)>>,
    ) -> Option<Self> {
        let changes = changes.into_iter().map(|change| ordered(&OF_CHANGE, &[], change));
        Some(Self {
            link,
            fields: ordered(&COLUMNS, &OF_PROCESS, named)?,
            changes: changes.collect::<Option<_>>()?,
        })
    }
}

fn ordered(
    first: &[&'static str],
    then: &[&'static str],
    mut named: Vec<(String, Field<'static>)>,
) -> Option<Fields<'static>> {
    let mut fields = Fields::new();
    for column in first.iter().chain(then) {
        if let Some(at) = named.iter().position(|(name, _)| name == column) {
            fields.push((column, named.swap_remove(at).1));
        }
    }
    named.is_empty().then_some(fields)
}

/// A record before it is written, without its process.
#[derive(Debug, Clone)]
pub(super) struct RecordDraft<'a> {
    fields: Fields<'a>,
    changes: Vec<Fields<'a>>,
}

/// The number of values in most records.
const FEW: usize = 18;

impl<'a> RecordDraft<'a> {
    /// Starts a record of a phase; values follow in column order.
    pub(super) fn new(phase: &'static str, at_ms: u64) -> Self {
        let mut fields = Vec::with_capacity(FEW);
        fields.extend([("phase", Field::from(phase)), ("at_ms", Field::from(at_ms))]);
        Self { fields, changes: Vec::new() }
    }

    pub(super) fn with(mut self, name: &'static str, field: impl Into<Field<'a>>) -> Self {
        self.fields.push((name, field.into()));
        self
    }

    pub(super) fn with_any(self, name: &'static str, field: Option<impl Into<Field<'a>>>) -> Self {
        match field {
            Some(field) => self.with(name, field),
            None => self,
        }
    }

    /// Sets the intent that this record closes.
    pub(super) fn closes(&mut self, intent: i64) {
        let before = |name: &str| matches!(name, "phase" | "at_ms");
        let at = self.fields.iter().take_while(|(name, _)| before(name)).count();
        self.fields.insert(at, ("intent", Field::Integer(intent)));
    }

    /// Returns a copy that closes this intent, once it is known.
    pub(super) fn closing(&self, intent: i64) -> Self {
        let mut draft = self.clone();
        draft.closes(intent);
        draft
    }

    pub(super) fn change(&mut self, change: Fields<'a>) {
        self.changes.push(change);
    }

    pub(super) fn into_owned(self) -> RecordDraft<'static> {
        let owned = |fields: Fields<'a>| {
            fields.into_iter().map(|(name, field)| (name, field.into_owned())).collect()
        };
        RecordDraft {
            fields: owned(self.fields),
            changes: self.changes.into_iter().map(owned).collect(),
        }
    }
}

/// A process with its number in the database and its values.
#[derive(Debug, Clone)]
pub(super) struct OfProcess {
    pub(super) number: i64,
    pub(super) fields: Fields<'static>,
}

/// Appends a record to the chain and advances `tail`.
pub(super) fn append(
    transaction: &Connection,
    key: &Key,
    tail: &mut Link,
    process: &OfProcess,
    draft: &RecordDraft<'_>,
) -> rusqlite::Result<()> {
    // After the highest number the insert fails as a duplicate.
    let seq = tail.seq.saturating_add(1);
    let all = draft.fields.iter().chain(&process.fields);
    let hash = hash(key, seq, &tail.hash, all, &draft.changes);
    let mut fields = draft.fields.iter().peekable();
    let mut values: Vec<&dyn ToSql> = Vec::with_capacity(COLUMNS.len() + 3);
    values.extend([&seq as &dyn ToSql, &hash, &process.number]);
    for column in &COLUMNS {
        let field = fields.next_if(|(name, _)| name == column);
        values.push(field.map_or(&Null, |(_, field)| field));
    }
    transaction
        .prepare_cached(
            "INSERT INTO record (seq, hash, process, phase, at_ms, intent, call_id, session, agent,
                parent, dialect, tool, arguments, effects, file_path, verdict, rule, origin,
                approver, answer, waited_us, command, rung, background, outcome, duration_us, bytes,
                before_hash, after_hash, reply_bytes, event, text)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
                ?, ?, ?, ?, ?)",
        )?
        .execute(values.as_slice())?;
    for change in &draft.changes {
        let mut values: Vec<&dyn ToSql> = vec![&seq];
        for column in OF_CHANGE {
            let field = change.iter().find(|(name, _)| *name == column);
            values.push(field.map_or(&Null, |(_, field)| field));
        }
        transaction
            .prepare_cached(
                "INSERT INTO further_change (seq, file_path, bytes, before_hash, after_hash)
                 VALUES (?, ?, ?, ?, ?)",
            )?
            .execute(values.as_slice())?;
    }
    *tail = Link { seq, hash };
    Ok(())
}

fn hash<'a>(
    key: &Key,
    seq: i64,
    previous: &[u8; 32],
    fields: impl Iterator<Item = &'a (&'static str, Field<'a>)> + Clone,
    changes: &[Fields<'a>],
) -> [u8; 32] {
    // Hashed in one piece, which is faster than many small ones.
    let mut said = Vec::with_capacity(1_024);
    said.extend_from_slice(previous);
    said.extend_from_slice(&seq.to_le_bytes());
    say(&mut said, fields);
    said.extend_from_slice(&(changes.len() as u64).to_le_bytes());
    changes.iter().for_each(|change| say(&mut said, change.iter()));
    blake3::keyed_hash(key.of_records(), &said).into()
}

/// Adds the number of values, then each with its lengths, name and type: no two lists give the same bytes.
fn say<'a>(
    said: &mut Vec<u8>,
    fields: impl Iterator<Item = &'a (&'static str, Field<'a>)> + Clone,
) {
    said.extend_from_slice(&(fields.clone().count() as u64).to_le_bytes());
    for (name, field) in fields {
        let (tag, number, bytes) = field.parts();
        // Names are columns, so one byte holds their length.
        said.push(name.len() as u8);
        said.extend_from_slice(name.as_bytes());
        said.push(tag);
        said.extend_from_slice(&number);
        said.extend_from_slice(bytes);
    }
}

/// Returns the end of the chain: the last record, or the anchor.
pub(super) fn tail(connection: &Connection, anchor: Link) -> rusqlite::Result<Link> {
    let last = connection
        .prepare_cached("SELECT seq, hash FROM record ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| Ok(Link { seq: row.get(0)?, hash: row.get(1)? }))
        .optional()?;
    Ok(last.unwrap_or(anchor))
}

pub(super) fn hash_of(connection: &Connection, seq: i64) -> rusqlite::Result<Option<[u8; 32]>> {
    connection
        .prepare_cached("SELECT hash FROM record WHERE seq = ?1")?
        .query_row([seq], |row| row.get(0))
        .optional()
}

/// Returns the columns for a query, those of the process last.
pub(super) fn selected() -> String {
    let own = COLUMNS.iter().map(|name| format!("record.{name}"));
    let of_process = OF_PROCESS.iter().map(|name| format!("process.{name}"));
    let all: Vec<String> = own.chain(of_process).collect();
    format!("record.seq, record.hash, {}", all.join(", "))
}

/// Reads a record from a row of [`selected`] columns, without further changes.
pub(super) fn of_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Record> {
    let seq = row.get(0)?;
    // A hash of another length is invalid: zeros match nothing.
    let hash = row.get(1).unwrap_or([0; 32]);
    let mut fields = Fields::new();
    for (at, name) in COLUMNS.iter().chain(&OF_PROCESS).enumerate() {
        fields.extend(Field::of(row.get_ref(at + 2)?).map(|field| (*name, field)));
    }
    Ok(Record { link: Link { seq, hash }, fields, changes: Vec::new() })
}

/// Reads a further change and its record number from the columns `seq` and [`OF_CHANGE`].
pub(super) fn change_of_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, Fields<'static>)> {
    let mut fields = Fields::new();
    for (at, name) in OF_CHANGE.iter().enumerate() {
        fields.extend(Field::of(row.get_ref(at + 1)?).map(|field| (*name, field)));
    }
    Ok((row.get(0)?, fields))
}
