//! Retention: removes the oldest records, and the rest stays verifiable.
//!
//! Only a prefix before the first unsettled intent is removed. Its last record's number and hash stay as the
//! anchor with a MAC, and an event records the number of removed records. The prefix is verified first: a
//! mismatch blocks the removal, since the anchor would hide it. Portions keep such events few.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use sinew_tool::{Clock, Event};

use super::key;
use super::opening::{self, OpenLedger};
use super::record::{self, Link};
use super::row::Who;
use super::scan;
use super::verify::Walk;
use crate::database::{Failed, at_once};
use crate::redact::Redactor;
use sinew_fs::clock::SystemClock;

/// The portion, as a fraction of the most records or the longest age.
const PORTION: u64 = 50;
/// The most records per transaction, because other processes wait for it.
const MAX_AT_ONCE: i64 = 5_000;

/// How long records stay; `None` is unbounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The maximum age of a record.
    pub max_age: Option<Duration>,
    /// The most records.
    pub max_records: Option<u64>,
}

impl Default for Retention {
    fn default() -> Self {
        let year = Duration::from_secs(365 * 24 * 60 * 60);
        Self { max_age: Some(year), max_records: Some(1_000_000) }
    }
}

impl Retention {
    /// Removes old or surplus records. If the chain forbids that, returns the reason for the user.
    pub(super) fn apply(
        &self,
        open: &mut OpenLedger,
        who: &Who,
        redactor: &Redactor,
    ) -> Result<Option<String>, Failed> {
        while let Some(until) = self.until(&open.connection)? {
            match remove(open, who, redactor, until)? {
                Removed::Some(n) if n < MAX_AT_ONCE as u64 => break,
                Removed::Some(_) => {}
                Removed::Refused(why) => {
                    return Ok(Some(format!(
                        "old records stay in the audit log, since it is not whole: {why}; see `sinew \
                         audit verify`"
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Returns the last record to remove, if a portion is due.
    fn until(&self, connection: &Connection) -> rusqlite::Result<Option<i64>> {
        let ends = |order: &str| {
            let sql = format!("SELECT seq, at_ms FROM record ORDER BY seq {order} LIMIT 1");
            let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
            connection.query_row(&sql, [], row).optional()
        };
        let (Some((first, oldest_ms)), Some((last, _))) = (ends("ASC")?, ends("DESC")?) else {
            return Ok(None);
        };
        let mut until = first - 1;
        if let Some(most) = self.max_records {
            let n_records = last.saturating_sub(first).unsigned_abs() + 1;
            if most + most / PORTION < n_records {
                until = until.max(first - 1 + (n_records - most) as i64);
            }
        }
        if let Some(age) = self.max_age {
            let now = SystemClock.wall_ms() as i64;
            let limit = |age: Duration| now - i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            if oldest_ms < limit(age + age / PORTION as u32) {
                let sql = "SELECT min(seq) FROM record WHERE ?1 <= at_ms";
                let kept: Option<i64> =
                    connection.query_row(sql, [limit(age)], |row| row.get(0))?;
                until = until.max(kept.unwrap_or(last) - 1);
            }
        }
        let sql = "SELECT min(seq) FROM unsettled";
        let open: Option<i64> = connection.query_row(sql, [], |row| row.get(0))?;
        // The last record stays: the chain continues there.
        let most = open.unwrap_or(last).min(last) - 1;
        let until = until.min(most).min(first - 1 + MAX_AT_ONCE);
        Ok((first <= until).then_some(until))
    }
}

/// The result of a removal.
enum Removed {
    /// The number of removed records.
    Some(u64),
    /// The reason why none was removed.
    Refused(String),
}

fn remove(
    open: &mut OpenLedger,
    who: &Who,
    redactor: &Redactor,
    until: i64,
) -> Result<Removed, Failed> {
    let OpenLedger { connection, key, head, process, .. } = open;
    let (removed, tail) = at_once(connection, |connection| {
        let Some(hash) = record::hash_of(connection, until)? else {
            return Ok((Removed::Some(0), None));
        };
        let (anchor, is_ours) = key::anchor(connection, key)?;
        let mut walk = Walk::after(key, Some(anchor));
        scan::all(connection, until, &mut walk, &mut |_| {})?;
        let found = walk.has_found().map(|finding| finding.text.clone());
        if let Some(why) = found.or((!is_ours).then(|| String::from("its beginning was changed"))) {
            return Ok((Removed::Refused(why), None));
        }
        let anchor = Link { seq: until, hash };
        connection.execute("DELETE FROM further_change WHERE seq <= ?1", [until])?;
        let n_removed = connection.execute("DELETE FROM record WHERE seq <= ?1", [until])?;
        connection.execute(
            "UPDATE chain SET anchor_seq = ?1, anchor_hash = ?2, anchor_seal = ?3",
            (anchor.seq, anchor.hash, key.seal(key::ANCHOR, &anchor)),
        )?;
        connection.execute(
            "DELETE FROM process WHERE process NOT IN
                (SELECT process FROM record UNION SELECT process FROM known)",
            [],
        )?;
        let of_process = who.enter(connection, process.as_ref().and_then(|(_, c)| c.as_deref()))?;
        let text = format!("{n_removed} records were removed by retention, up to record {until}");
        let pruned = Event { kind: "pruned", text, session: None };
        let pruned = opening::event(redactor, &pruned);
        let mut tail = record::tail(connection, anchor)?;
        record::append(connection, key, &mut tail, &of_process, &pruned)?;
        Ok::<_, Failed>((Removed::Some(n_removed as u64), Some(tail)))
    })?;
    if let Some(tail) = tail {
        let _ = head.note(key, tail, false);
    }
    Ok(removed)
}

#[cfg(test)]
mod tests;
