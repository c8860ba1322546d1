//! Reads records in order, with all values that their hashes cover.

use rusqlite::Connection;

use super::record::{self, Fields};
use super::verify::{Finding, Walk};

/// The number of records between two progress reports.
const TOLD_EVERY: u64 = 10_000;

/// Passes the records up to one, with further changes, to the walk.
pub(super) fn all(
    connection: &Connection,
    until: i64,
    walk: &mut Walk<'_>,
    progress: &mut impl FnMut(u64),
) -> rusqlite::Result<()> {
    between(connection, (i64::MIN, until), walk, progress)
}

/// Passes the records of a range to the walk.
pub(super) fn between(
    connection: &Connection,
    (first, last): (i64, i64),
    walk: &mut Walk<'_>,
    progress: &mut impl FnMut(u64),
) -> rusqlite::Result<()> {
    let mut changes = connection.prepare_cached(
        "SELECT seq, file_path, bytes, before_hash, after_hash FROM further_change
         WHERE ?1 <= seq AND seq <= ?2 ORDER BY seq, rowid",
    )?;
    let mut changes = changes.query_map([first, last], record::change_of_row)?.peekable();
    let sql = format!(
        "SELECT {} FROM record LEFT JOIN process USING (process)
         WHERE ?1 <= record.seq AND record.seq <= ?2 ORDER BY record.seq",
        record::selected()
    );
    let mut records = connection.prepare_cached(&sql)?;
    let mut records = records.query([first, last])?;
    let mut n_records = 0;
    while let Some(row) = records.next()? {
        let mut record = record::of_row(row)?;
        let seq = record.link.seq;
        let is_before = |next: &rusqlite::Result<(i64, Fields<'_>)>| {
            next.as_ref().map_or(true, |(of, _)| *of <= seq)
        };
        while let Some(change) = changes.next_if(is_before) {
            let (of, change) = change?;
            match of == seq {
                true => record.changes.push(change),
                false => walk.find(stray(of)),
            }
        }
        walk.record(record);
        n_records += 1;
        if n_records % TOLD_EVERY == 0 {
            progress(n_records);
        }
    }
    for change in changes {
        walk.find(stray(change?.0));
    }
    Ok(())
}

fn stray(seq: i64) -> Finding {
    Finding::new(seq, "changed", format!("there are changes of record {seq}, which is not there"))
}
