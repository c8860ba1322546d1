//! Finds damage in the database that the statements of calls would not meet.
//!
//! [`quick`] reads root pages and the last records at each opening, a bounded number of pages. [`structure`]
//! reads every page.

use rusqlite::{Connection, OptionalExtension};

use super::key::{self, Key};
use super::record::{self, Link};
use super::row::OBJECTS;
use super::scan;
use super::verify::{Finding, Walk};
use crate::database;

/// How many of the last records are compared with their hashes at opening.
const N_TAIL: i64 = 8;

/// Reads the root pages of tables and indexes, and compares the last records with their hashes.
pub(super) fn quick(connection: &Connection, key: &Key) -> rusqlite::Result<Option<Finding>> {
    for object in OBJECTS {
        let sql = match object.split_once(' ') {
            Some(("table", table)) => format!("SELECT 1 FROM {table} LIMIT 1"),
            Some(("index", "further")) => String::from(
                "SELECT 1 FROM further_change INDEXED BY further ORDER BY seq DESC LIMIT 1",
            ),
            _ => continue,
        };
        connection.query_row(&sql, [], |_| Ok(())).optional()?;
    }
    let (anchor, _) = key::anchor(connection, key)?;
    let last = record::tail(connection, anchor)?;
    let first = last.seq.saturating_sub(N_TAIL).max(anchor.seq);
    let before = match first == anchor.seq {
        true => Some(anchor),
        false => record::hash_of(connection, first)?.map(|hash| Link { seq: first, hash }),
    };
    // Missing records are left to the whole check.
    let Some(before) = before else { return Ok(None) };
    let mut walk = Walk::after(key, Some(before));
    let range = (before.seq.saturating_add(1), last.seq);
    scan::between(connection, range, &mut walk, &mut |_| {})?;
    Ok(walk.first_misfit().cloned())
}

/// Reads every page in one snapshot; returns any structural damage.
pub(super) fn structure(connection: &Connection) -> rusqlite::Result<Option<String>> {
    if let Some(problem) = database::broken_pages(connection)? {
        return Ok(Some(problem));
    }
    // SQLite accepts the last page of a long value overwritten with zeros. The chain covers records. In other
    // tables the last values of a row are never all zeros. Lists of temporary files have no two NUL bytes in
    // a row, tool names have none, and each process ID exists.
    for (table, condition) in [
        ("unsettled", "instr(temporaries, x'0000')"),
        ("known", "instr(tool, char(0)) OR process NOT IN (SELECT process FROM process)"),
    ] {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE {condition})");
        if connection.query_row(&sql, [], |row| row.get(0))? {
            return Ok(Some(format!("values of the table `{table}` were overwritten with zeros")));
        }
    }
    Ok(None)
}
