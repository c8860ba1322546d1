//! What goes by retention, and that the rest is whole.

use std::path::Path;
use std::sync::{Arc, Mutex};

use sinew_tool::Ledger;

use super::super::tests::{closing, intend, rows};
use super::super::{Audit, Recorded, SqliteLedger};
use super::*;
use sinew_fs::state::StateDir;
use sinew_tool::sync::lock;

fn ledger(dir: &Path, retention: Retention) -> SqliteLedger {
    let state = StateDir::open(&dir.join("state")).expect("a state directory");
    SqliteLedger::new(&state, Recorded { retention, ..Recorded::by("test") })
}

const UNBOUNDED: Retention = Retention { max_age: None, max_records: None };

/// Writes records, which opened so long ago.
fn write(dir: &Path, n_records: usize, age: Duration) {
    let ledger = ledger(dir, UNBOUNDED);
    for n in 0..n_records {
        let mut closed = closing(&n.to_string(), None);
        closed.opened_at_ms = SystemClock.wall_ms() - age.as_millis() as u64;
        closed.changes.push(closed.changes.first().expect("a change").clone());
        ledger.close(None, closed);
    }
}

/// Lets a process look after the records; returns how many are left, the text on removed ones, and whether the chain is
/// whole.
fn tended(dir: &Path, retention: Retention) -> (i64, Vec<String>, bool) {
    let last = ledger(dir, retention);
    let mut closed = closing("last", None);
    closed.opened_at_ms = SystemClock.wall_ms();
    last.close(None, closed);
    drop(last);
    let state = StateDir::open(&dir.join("state")).expect("it is there");
    let audit = Audit::open(&state).expect("a ledger");
    let verified = audit.verify(None, |_| {}).expect("it can be read");
    let pruned = rows(dir, "SELECT text FROM record WHERE event = 'pruned'");
    (verified.n_records as i64, pruned, verified.is_whole())
}

#[test]
fn the_oldest_go_and_the_rest_is_whole() {
    for (max_records, n_left, pruned) in [
        (None, 62, None),
        (Some(20), 21, Some("42 records were removed by retention, up to record 42")),
        // A fiftieth more may be there.
        (Some(61), 62, None),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        write(dir.path(), 60, Duration::ZERO);
        let (left, went, is_whole) = tended(dir.path(), Retention { max_records, ..UNBOUNDED });
        let went: Vec<_> = went.iter().map(String::as_str).collect();
        assert_eq!((left, is_whole), (n_left, true), "{max_records:?} {went:?}");
        assert_eq!(went, pruned.into_iter().collect::<Vec<_>>());
        let further = rows(
            dir.path(),
            "SELECT 'x' FROM further_change WHERE seq NOT IN (SELECT seq FROM record)",
        );
        assert_eq!(further, [""; 0], "nothing of them is left");
    }
}

#[test]
fn what_is_too_old_goes() {
    let day = Duration::from_secs(24 * 60 * 60);
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), 50, 2 * day);
    write(dir.path(), 10, Duration::ZERO);
    // The first record says now that there is a new ledger; it goes first.
    tended(dir.path(), Retention { max_records: Some(60), ..UNBOUNDED });
    let yesterday = SystemClock.wall_ms() - day.as_millis() as u64;
    let old = format!("SELECT 'x' FROM record WHERE at_ms < {yesterday}");
    for (max_age, n_old) in [(3 * day, 49), (day, 0)] {
        let retention = Retention { max_age: Some(max_age), ..UNBOUNDED };
        let (_, went, is_whole) = tended(dir.path(), retention);
        assert!(is_whole);
        assert_eq!(rows(dir.path(), &old).len(), n_old, "{max_age:?} {went:?}");
    }
}

#[test]
fn what_is_not_settled_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let live = ledger(dir.path(), UNBOUNDED);
    intend(&live, "open", &[]);
    write(dir.path(), 50, Duration::ZERO);
    let (left, went, is_whole) =
        tended(dir.path(), Retention { max_records: Some(5), ..UNBOUNDED });
    assert!(is_whole);
    assert_eq!(went, ["1 records were removed by retention, up to record 1"], "{left}");
    assert_eq!(rows(dir.path(), "SELECT call_id FROM record WHERE phase = 'intent'"), ["open"]);
}

/// Retention removed the entry of a process that was idle, and its next record named no process.
#[test]
fn a_process_whose_records_went_is_entered_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let idle = ledger(dir.path(), UNBOUNDED);
    idle.close(None, closing("early", None));
    idle.flush().expect("it writes");
    write(dir.path(), 50, Duration::ZERO);
    let (_, went, _) = tended(dir.path(), Retention { max_records: Some(5), ..UNBOUNDED });
    assert_eq!(went.len(), 1);
    idle.close(None, closing("late", None));
    idle.flush().expect("it writes");
    let (_, _, is_whole) = tended(dir.path(), UNBOUNDED);
    assert!(is_whole);
    let late = "SELECT surface FROM entry WHERE call_id = 'late'";
    assert_eq!(rows(dir.path(), late), ["test"]);
}

/// The seal over what went would hide it.
#[test]
fn what_does_not_fit_stays_and_is_told() {
    for tamper in [
        "UPDATE record SET at_ms = 0 WHERE seq <= 9",
        "UPDATE record SET tool = 'Other' WHERE seq = 3",
        "DELETE FROM record WHERE seq = 4",
        "UPDATE chain SET anchor_seal = zeroblob(32)",
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        write(dir.path(), 50, Duration::ZERO);
        let database = Connection::open(dir.path().join("state/sinew.db")).expect("the database");
        database.execute_batch(tamper).expect("it is changed");
        let n_before: i64 = database
            .query_row("SELECT count(*) FROM record", [], |row| row.get(0))
            .expect("records");
        let next = ledger(dir.path(), Retention { max_records: Some(5), ..UNBOUNDED });
        let told = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&told);
        next.on_notice(move |text| lock(&into).push(text.to_owned()));
        next.close(None, closing("next", None));
        next.flush().expect("it writes");
        drop(next);
        let (_, went, is_whole) = tended(dir.path(), UNBOUNDED);
        assert!(!is_whole && went.is_empty(), "{tamper}: {went:?}");
        let n_after: i64 = database
            .query_row("SELECT count(*) FROM record", [], |row| row.get(0))
            .expect("records");
        assert!(n_before < n_after, "{tamper}");
        let told = lock(&told);
        assert!(told.len() == 1 && told[0].contains("audit verify"), "{tamper}: {told:?}");
    }
}

/// A user who removes records and says that retention did has no seal for it.
#[test]
fn retention_cannot_be_feigned() {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), 50, Duration::ZERO);
    let (_, _, is_whole) = tended(dir.path(), Retention { max_records: Some(40), ..UNBOUNDED });
    assert!(is_whole);
    let database = Connection::open(dir.path().join("state/sinew.db")).expect("the database");
    database
        .execute_batch(
            "UPDATE chain SET anchor_seq = 20, anchor_hash = (SELECT hash FROM record WHERE seq = 20);
             DELETE FROM further_change WHERE seq <= 20; DELETE FROM record WHERE seq <= 20;",
        )
        .expect("it is changed");
    let (_, _, is_whole) = tended(dir.path(), UNBOUNDED);
    assert!(!is_whole);
}
