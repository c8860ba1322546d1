//! Reads every page and verifies every record's hash: for idle servers, `doctor` and `audit verify`.
//!
//! SQLite reads only the pages that a statement needs, so damage can stay unnoticed for months. Free pages
//! are skipped: SQLite overwrites them before it reads them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};
use sinew_tool::Ledger as _;
use sinew_tool::sync::lock;

use super::batches::TENDED_EVERY;
use super::check::structure;
use super::key::{self, Key};
use super::opening::{self, FileId, NAME};
use super::record::{self, Link};
use super::row;
use super::scan;
use super::verify::{Finding, Walk};
use super::{Audit, AuditError, Database, SharedLedger, SqliteLedger, reading};
use crate::database::{self, Failed, PATIENT};

/// The most problems reported for one database.
const MAX_TOLD: usize = 3;
/// The SQLite virtual machine steps between two polls of the stop condition.
const STEPS: i32 = 1_000;

/// The pause after a check, relative to its duration: interrupted checks take a small part of one core.
const REST_FACTOR: u32 = 200;

/// The progress of [`whole`] in a database, where the next check continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Whether all pages were read.
    has_structure: bool,
    /// The last record up to which all hashes match.
    matching: Option<Link>,
}

/// The result of [`whole`].
#[derive(Debug, Clone, PartialEq, Eq)]
enum Checked {
    Sound,
    /// Pages are broken, and a write could lose more.
    Damaged(String),
    /// All pages are readable, and a record does not match its hash.
    Changed(Finding),
    /// The stop condition interrupted it.
    Stopped,
}

impl SqliteLedger {
    /// Finds all faults of the ledger for `doctor`, including those of `audit verify` and failed writes.
    /// Keeps a damaged database aside. Returns a line per fault.
    pub fn examine(&self) -> Vec<String> {
        let file = opening::file_of(&self.shared.state.join(NAME));
        let verified = Audit::at(&self.shared.state).and_then(|audit| audit.verify(None, |_| {}));
        let findings = match verified {
            // The next recorded call begins a new one, and reports this too.
            Err(AuditError::Gone(why)) => return vec![why],
            // The probe below reports it.
            Err(AuditError::Damaged(_) | AuditError::Unreadable(_) | AuditError::Empty) => {
                Vec::new()
            }
            Ok(verified) => verified.findings,
        };
        let damage = findings.iter().find(|finding| finding.what == "damaged");
        if let (Some(file), Some(damage)) = (file, damage) {
            self.shared.close_damaged(file, damage.text.clone());
        }
        let mut problems: Vec<String> =
            findings.iter().take(MAX_TOLD).map(|finding| finding.text.clone()).collect();
        let n_more = findings.len() - problems.len();
        if 0 < n_more {
            problems.push(format!("{n_more} further findings"));
        }
        if self.probe().is_err() {
            let problem = self.broken().unwrap_or_default();
            problems.push(format!("the database cannot be opened: {problem}"));
        }
        problems
    }
}

impl SharedLedger {
    /// Reads the whole database on a separate connection and handles the result; returns the next pause.
    pub(super) fn check(self: &Arc<Self>) -> Duration {
        let began = Instant::now();
        let is_over = self.checked_through();
        rest(is_over, began.elapsed())
    }

    /// Returns false if a waiting record interrupted the check.
    fn checked_through(self: &Arc<Self>) -> bool {
        let Some(file) = opening::file_of(&self.state.join(NAME)) else { return true };
        let before = lock(&self.checked).take().filter(|(of, _)| *of == file);
        let mut progress = before.map_or_else(Progress::default, |(_, progress)| progress);
        match self.look_through(&mut progress) {
            Ok(Checked::Sound) => true,
            Ok(Checked::Stopped) => {
                *lock(&self.checked) = Some((file, progress));
                false
            }
            Ok(Checked::Changed(misfit)) => {
                let text = opening::changed(&misfit);
                let is_known = lock(&self.misfit).replace(misfit.clone()) == Some(misfit);
                if !is_known {
                    self.tell(text);
                }
                true
            }
            Ok(Checked::Damaged(why)) => {
                self.keep_aside(file, why);
                true
            }
            Err(failed) if failed.corrupt => {
                self.keep_aside(file, failed.problem);
                true
            }
            // The next write meets a locked or foreign database.
            Err(_) => true,
        }
    }

    fn look_through(self: &Arc<Self>, progress: &mut Progress) -> Result<Checked, Failed> {
        let mut reading = reading::open(&self.state, PATIENT)?;
        if database::version(&reading.connection)? != row::VERSION {
            return Ok(Checked::Sound);
        }
        let key = Key::read(&self.state)?;
        let shared = Arc::clone(self);
        let stops = move || {
            let queue = lock(&shared.queue);
            queue.closed || !queue.rows.is_empty() || !queue.intents.is_empty()
        };
        Ok(whole(&mut reading.connection, key.as_ref(), progress, stops)?)
    }

    /// Makes the next opener keep a damaged database aside.
    fn close_damaged(&self, file: FileId, why: String) {
        *lock(&self.damaged) = Some((file, why));
        *lock(&self.database) = Database::Closed;
    }

    fn keep_aside(&self, file: FileId, why: String) {
        self.close_damaged(file, why);
        let mut database = lock(&self.database);
        if let Err(failed) = self.connection(&mut database, PATIENT) {
            self.note(&failed);
        }
    }
}

fn rest(is_over: bool, took: Duration) -> Duration {
    let rest = took.saturating_mul(REST_FACTOR);
    if is_over { TENDED_EVERY.max(rest) } else { rest }
}

/// Reads every page and verifies every record. After an interruption by `stops`, `progress` has the position.
fn whole(
    connection: &mut Connection,
    key: Option<&Key>,
    progress: &mut Progress,
    stops: impl Fn() -> bool + Send + 'static,
) -> rusqlite::Result<Checked> {
    connection.progress_handler(STEPS, Some(stops))?;
    let problem = if progress.has_structure { Ok(None) } else { structure(connection) };
    let checked = problem.and_then(|problem| {
        progress.has_structure = problem.is_none();
        match (problem, key) {
            (Some(problem), _) => Ok(Checked::Damaged(problem)),
            (None, Some(key)) => contents(connection, key, progress),
            (None, None) => Ok(Checked::Sound),
        }
    });
    connection.progress_handler(0, None::<fn() -> bool>)?;
    match checked {
        Err(rusqlite::Error::SqliteFailure(error, _))
            if error.extended_code == ffi::SQLITE_INTERRUPT =>
        {
            Ok(Checked::Stopped)
        }
        checked => checked,
    }
}

/// Verifies every record after the last verified one.
fn contents(
    connection: &Connection,
    key: &Key,
    progress: &mut Progress,
) -> rusqlite::Result<Checked> {
    let snapshot = connection.unchecked_transaction()?;
    let (anchor, _) = key::anchor(connection, key)?;
    // Retention or another process may have replaced that record.
    let before = match progress.matching.filter(|matching| anchor.seq < matching.seq) {
        Some(matching) if record::hash_of(connection, matching.seq)? == Some(matching.hash) => {
            Some(matching)
        }
        _ => None,
    };
    let mut walk = Walk::after(key, Some(before.unwrap_or(anchor)));
    let first = before.map_or(i64::MIN, |before| before.seq.saturating_add(1));
    let walked = scan::between(connection, (first, i64::MAX), &mut walk, &mut |_| {});
    progress.matching = walk.first_misfit().is_none().then(|| walk.last());
    walked?;
    drop(snapshot);
    Ok(match walk.first_misfit() {
        Some(finding) => Checked::Changed(finding.clone()),
        None => Checked::Sound,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::tests::{closing, ledger};
    use super::*;

    const N_RECORDS: usize = 2_000;

    /// Runs a check that stops at the n-th poll; returns the number of polls.
    fn check(state: &std::path::Path, progress: &mut Progress, stops_at: u64) -> (Checked, u64) {
        let mut reading = reading::open(state, PATIENT).expect("it is read");
        let key = Key::read(state).expect("the key is read");
        let looks = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&looks);
        let stops = move || stops_at <= counted.fetch_add(1, Ordering::Relaxed) + 1;
        let checked = whole(&mut reading.connection, key.as_ref(), progress, stops);
        (checked.expect("it is checked"), looks.load(Ordering::Relaxed))
    }

    /// Earlier, each interrupted check of a large ledger started over, so none ended.
    #[test]
    fn interrupted_check_resumes() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        let ledger = ledger(dir.path());
        for n in 0..N_RECORDS {
            ledger.close(None, closing(&format!("c{n}"), None));
        }
        ledger.flush().expect("it is written");
        let (checked, n_looks) = check(&state, &mut Progress::default(), u64::MAX);
        assert_eq!(checked, Checked::Sound);
        assert!(10 < n_looks, "{n_looks}");
        // Without the progress it never ends.
        for _ in 0..3 {
            let (checked, _) = check(&state, &mut Progress::default(), n_looks);
            assert_eq!(checked, Checked::Stopped);
        }
        let mut progress = Progress::default();
        assert_eq!(check(&state, &mut progress, n_looks).0, Checked::Stopped);
        assert!(progress.has_structure && progress.matching.is_some(), "{progress:?}");
        let stopped = progress;
        let (checked, n_more) = check(&state, &mut progress, n_looks);
        assert!(checked == Checked::Sound && n_more < n_looks / 2, "{checked:?} {n_more}");
        // The next check finds a change before the interruption. Another record at that position restarts it.
        let change = |seq: i64| {
            let connection = Connection::open(state.join(NAME)).expect("the database");
            let sql = "UPDATE record SET command = 'x' || seq WHERE seq = ?1";
            connection.execute(sql, [seq]).expect("it is changed");
        };
        change(2);
        assert_eq!(check(&state, &mut { stopped }, u64::MAX).0, Checked::Sound);
        let matching = stopped.matching.map(|link| Link { hash: [0; 32], ..link });
        let (checked, _) = check(&state, &mut Progress { matching, ..stopped }, u64::MAX);
        assert!(matches!(&checked, Checked::Changed(finding) if finding.seq == 2), "{checked:?}");
        change(N_RECORDS as i64);
        let (checked, _) = check(&state, &mut { stopped }, u64::MAX);
        let is_last = |finding: &Finding| finding.seq == N_RECORDS as i64;
        assert!(matches!(&checked, Checked::Changed(finding) if is_last(finding)), "{checked:?}");
    }

    #[test]
    fn check_rests_after_an_interruption() {
        for (is_over, took_ms, expected_s) in
            [(true, 1, 600), (true, 6_000, 1_200), (false, 10, 2), (false, 3_000, 600)]
        {
            let took = Duration::from_millis(took_ms);
            assert_eq!(rest(is_over, took), Duration::from_secs(expected_s), "{is_over} {took_ms}");
        }
    }
}
