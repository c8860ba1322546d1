//! Taking on the database of the release before, whose records were not chained.
//!
//! They enter the chain in their order, as what they said then, and an event after them says that they were
//! not chained before: what was done to them until now nobody can know.

use std::collections::HashMap;

use rusqlite::Connection;
use sinew_tool::Event;

use super::key::Key;
use super::opening::{begin_chain, event};
use super::record::{self, Draft, Field, Fields, Link, OF_PROCESS, OfProcess};
use super::row::{self, Cleaner, Who};
use crate::Redactor;
use crate::database::{Failed, at_once};

/// The columns that both have, in the order of the chain, but for the phase, the time and those that are
/// renamed.
const KEPT: [&str; 12] = [
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
    "approver",
];
const KEPT_AT_END: [&str; 4] = ["bytes", "before_hash", "after_hash", "reply_bytes"];

/// Makes the tables of this release of those before, in one transaction.
pub(super) fn take_on(
    connection: &Connection,
    key: &Key,
    who: &Who,
    redactor: &Redactor,
) -> Result<(), Failed> {
    at_once(connection, |connection| {
        connection.execute_batch(
            "DROP VIEW IF EXISTS entry;
             DROP INDEX IF EXISTS unsettled;
             DROP INDEX IF EXISTS further;
             ALTER TABLE record RENAME TO record_before;
             ALTER TABLE further_change RENAME TO further_before;",
        )?;
        connection.execute_batch(row::SCHEMA)?;
        begin_chain(connection, key)?;
        let mut tail = Link::START;
        let n_records = chain(connection, key, &mut tail, &Cleaner(redactor))?;
        let process = who.enter(connection, None)?;
        let text = format!("{n_records} records were made without a chain and entered it here");
        let taken_on = Event { kind: "taken_on", text, session: None };
        let taken_on = event(redactor, &taken_on);
        record::append(connection, key, &mut tail, &process, &taken_on)?;
        connection.execute_batch("DROP TABLE further_before; DROP TABLE record_before;")?;
        Ok::<_, Failed>(())
    })
}

/// Chains the records, in their order; returns how many there are.
fn chain(
    connection: &Connection,
    key: &Key,
    tail: &mut Link,
    clean: &Cleaner<'_>,
) -> rusqlite::Result<u64> {
    let processes = processes(connection)?;
    let mut intents: HashMap<(String, String), i64> = HashMap::new();
    let mut further = connection.prepare(
        "SELECT file_path, bytes, before_hash, after_hash FROM further_before WHERE seq = ?1
         ORDER BY rowid",
    )?;
    let mut all = connection.prepare("SELECT * FROM record_before ORDER BY seq")?;
    let mut rows = all.query([])?;
    let mut n_records = 0;
    while let Some(row) = rows.next()? {
        let is_intent = row.get::<_, String>("phase")? == "intent";
        let mut draft = Draft::new(
            if is_intent { "intent" } else { "outcome" },
            row.get::<_, i64>("at_ms")? as u64,
        );
        let call = (row.get("session")?, row.get("call_id")?);
        if !is_intent && let Some(intent) = intents.remove(&call) {
            draft.closes(intent);
        }
        draft = kept(draft, row, &KEPT, clean)?;
        draft = draft.with_any("outcome", row.get::<_, Option<String>>("outcome")?);
        let duration: Option<f64> = row.get("duration_ms")?;
        draft = draft.with_any("duration_us", duration.map(|ms| (ms * 1e3).round() as i64));
        draft = kept(draft, row, &KEPT_AT_END, clean)?;
        let changes = further.query_map([row.get::<_, i64>("seq")?], |row| {
            let mut fields = Fields::new();
            for (at, name) in record::OF_CHANGE.iter().enumerate() {
                fields.extend(field(row.get_ref(at)?, clean).map(|field| (*name, field)));
            }
            Ok(fields)
        })?;
        for change in changes {
            draft.change(change?);
        }
        let number: i64 = row.get("process")?;
        let unknown = OfProcess { number, fields: Fields::new() };
        let process = processes.get(&number).unwrap_or(&unknown);
        record::append(connection, key, tail, process, &draft)?;
        n_records += 1;
        if is_intent {
            intents.insert(call, tail.seq);
            if row.get::<_, i64>("settled")? == 0 {
                let temporaries: Option<Vec<u8>> = row.get("temporaries")?;
                connection
                    .prepare_cached("INSERT INTO unsettled (seq, temporaries) VALUES (?1, ?2)")?
                    .execute((tail.seq, temporaries.unwrap_or_default()))?;
            }
        }
    }
    Ok(n_records)
}

fn kept<'a>(
    mut draft: Draft<'a>,
    row: &rusqlite::Row<'_>,
    columns: &[&'static str],
    clean: &Cleaner<'_>,
) -> rusqlite::Result<Draft<'a>> {
    for column in columns {
        draft = draft.with_any(column, field(row.get_ref(*column)?, clean));
    }
    Ok(draft)
}

fn field(value: rusqlite::types::ValueRef<'_>, clean: &Cleaner<'_>) -> Option<Field<'static>> {
    Field::of(value).map(|field| match field {
        Field::Text(text) => Field::from(clean.text(&text, 4_096).into_owned()),
        Field::Integer(_) | Field::Bytes(_) => field,
    })
}

fn processes(connection: &Connection) -> rusqlite::Result<HashMap<i64, OfProcess>> {
    let sql = format!("SELECT process, {} FROM process", OF_PROCESS.join(", "));
    let mut all = connection.prepare(&sql)?;
    let rows = all.query_map([], |row| {
        let number = row.get(0)?;
        let mut fields = Fields::new();
        for (at, name) in OF_PROCESS.iter().enumerate() {
            fields.extend(Field::of(row.get_ref(at + 1)?).map(|field| (*name, field)));
        }
        Ok((number, OfProcess { number, fields }))
    })?;
    rows.collect()
}
