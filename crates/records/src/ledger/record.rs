//! A record as the chain sees it: named values, and the hash that covers them and the record before.
//!
//! The hash is BLAKE3 with a key of the ledger, over the hash of the record before and everything that
//! the record says: each value with its name, its type and its length, the process that made the record
//! and each further change included. A value that is missing is left out, so a later release can add a
//! column without touching what is there. A record is never updated; what is kept about it and changes
//! stands in tables of its own, outside the hash.

use std::borrow::Cow;

use rusqlite::types::{Null, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql};

use super::key::Key;

/// The columns of a record that its hash covers, in this order. The hash covers their names too, so `rung`,
/// the old word for the sandbox level, stays in databases; what people and programs read says `sandbox_level`.
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

/// What stands once for all records of a process.
pub(super) const OF_PROCESS: [&str; 8] =
    ["surface", "client", "os_user", "pid", "pid_started", "pid_namespace", "machine", "boot"];

/// A change beside the first of a call.
pub(super) const OF_CHANGE: [&str; 4] = ["file_path", "bytes", "before_hash", "after_hash"];

/// A value of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field<'a> {
    /// A number.
    Integer(i64),
    /// A text.
    Text(Cow<'a, str>),
    /// A hash.
    Bytes(Cow<'a, [u8]>),
}

impl Field<'static> {
    pub(super) fn of(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Null => None,
            ValueRef::Integer(number) => Some(Self::Integer(number)),
            // Nothing of ours is stored so: it stays visible, and does not match its hash.
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

/// Values by name, in the order of their columns; what is missing is left out.
pub type Fields<'a> = Vec<(&'static str, Field<'a>)>;

/// The number of a record and its hash: the end of a chain, or a place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The number.
    pub seq: i64,
    /// The hash.
    pub hash: [u8; 32],
}

impl Link {
    /// What stands before the first record.
    pub const START: Self = Self { seq: 0, hash: [0; 32] };
}

/// One record of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place.
    pub link: Link,
    /// What it says, with the process that made it.
    pub fields: Fields<'static>,
    /// The changes of its call beside the first.
    pub changes: Vec<Fields<'static>>,
}

impl Record {
    /// Returns a text of the record.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.field(name)? {
            Field::Text(text) => Some(text),
            Field::Integer(_) | Field::Bytes(_) => None,
        }
    }

    /// Returns a number of the record.
    pub fn number(&self, name: &str) -> Option<i64> {
        match self.field(name)? {
            Field::Integer(number) => Some(*number),
            Field::Text(_) | Field::Bytes(_) => None,
        }
    }

    fn field(&self, name: &str) -> Option<&Field<'static>> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, field)| field)
    }

    /// Returns the hash that the record has at a place, after a record with a hash.
    pub(super) fn hash_at(&self, key: &Key, seq: i64, previous: &[u8; 32]) -> [u8; 32] {
        hash(key, seq, previous, self.fields.iter(), &self.changes)
    }

    /// Puts values of any order into that of the columns; `None` where one has an unknown name.
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

/// What a record will say, but for its process.
#[derive(Debug, Clone)]
pub(super) struct RecordDraft<'a> {
    fields: Fields<'a>,
    changes: Vec<Fields<'a>>,
}

/// So many values has a record of most calls.
const FEW: usize = 18;

impl<'a> RecordDraft<'a> {
    /// Begins a record of a phase. What follows is added in the order of the columns.
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

    /// Names the intent that this record closes.
    pub(super) fn closes(&mut self, intent: i64) {
        let before = |name: &str| matches!(name, "phase" | "at_ms");
        let at = self.fields.iter().take_while(|(name, _)| before(name)).count();
        self.fields.insert(at, ("intent", Field::Integer(intent)));
    }

    /// Returns the draft with the intent that it closes, which is known when it is written.
    pub(super) fn closing(&self, intent: i64) -> Self {
        let mut draft = self.clone();
        draft.closes(intent);
        draft
    }

    pub(super) fn change(&mut self, change: Fields<'a>) {
        self.changes.push(change);
    }

    /// Returns a draft that borrows nothing.
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

/// The process that records are of: its number in the database, and what they say of it.
#[derive(Debug, Clone)]
pub(super) struct OfProcess {
    pub(super) number: i64,
    pub(super) fields: Fields<'static>,
}

/// Writes a record at the end of the chain, which moves on to it.
pub(super) fn append(
    transaction: &Connection,
    key: &Key,
    tail: &mut Link,
    process: &OfProcess,
    draft: &RecordDraft<'_>,
) -> rusqlite::Result<()> {
    // A number that somebody put at the very end is taken, and nothing is written after it.
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
    // Hashed at once: many small pieces take longer than to put them together.
    let mut said = Vec::with_capacity(1_024);
    said.extend_from_slice(previous);
    said.extend_from_slice(&seq.to_le_bytes());
    say(&mut said, fields);
    said.extend_from_slice(&(changes.len() as u64).to_le_bytes());
    changes.iter().for_each(|change| say(&mut said, change.iter()));
    blake3::keyed_hash(key.of_records(), &said).into()
}

/// Adds values: how many there are, then each with the length of its name, its name, its type, and its
/// number or its length and bytes. So no two lists look the same.
fn say<'a>(
    said: &mut Vec<u8>,
    fields: impl Iterator<Item = &'a (&'static str, Field<'a>)> + Clone,
) {
    said.extend_from_slice(&(fields.clone().count() as u64).to_le_bytes());
    for (name, field) in fields {
        let (tag, number, bytes) = field.parts();
        // Names are columns, so one byte holds how long they are.
        said.push(name.len() as u8);
        said.extend_from_slice(name.as_bytes());
        said.push(tag);
        said.extend_from_slice(&number);
        said.extend_from_slice(bytes);
    }
}

/// Returns the end of the chain: the last record, or what stands before the first.
pub(super) fn tail(connection: &Connection, anchor: Link) -> rusqlite::Result<Link> {
    let last = connection
        .prepare_cached("SELECT seq, hash FROM record ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| Ok(Link { seq: row.get(0)?, hash: row.get(1)? }))
        .optional()?;
    Ok(last.unwrap_or(anchor))
}

/// Returns the hash of a record.
pub(super) fn hash_of(connection: &Connection, seq: i64) -> rusqlite::Result<Option<[u8; 32]>> {
    connection
        .prepare_cached("SELECT hash FROM record WHERE seq = ?1")?
        .query_row([seq], |row| row.get(0))
        .optional()
}

/// Returns the columns of a record in a query, those of its process after them.
pub(super) fn selected() -> String {
    let own = COLUMNS.iter().map(|name| format!("record.{name}"));
    let of_process = OF_PROCESS.iter().map(|name| format!("process.{name}"));
    let all: Vec<String> = own.chain(of_process).collect();
    format!("record.seq, record.hash, {}", all.join(", "))
}

/// Reads a record of a row of [`selected`] columns, without its further changes.
pub(super) fn of_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Record> {
    let seq = row.get(0)?;
    // A hash of another length is none, and matches nothing.
    let hash = row.get(1).unwrap_or([0; 32]);
    let mut fields = Fields::new();
    for (at, name) in COLUMNS.iter().chain(&OF_PROCESS).enumerate() {
        fields.extend(Field::of(row.get_ref(at + 2)?).map(|field| (*name, field)));
    }
    Ok(Record { link: Link { seq, hash }, fields, changes: Vec::new() })
}

/// Reads a further change, with the number of its record, from the columns `seq` and [`OF_CHANGE`].
pub(super) fn change_of_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, Fields<'static>)> {
    let mut fields = Fields::new();
    for (at, name) in OF_CHANGE.iter().enumerate() {
        fields.extend(Field::of(row.get_ref(at + 1)?).map(|field| (*name, field)));
    }
    Ok((row.get(0)?, fields))
}
