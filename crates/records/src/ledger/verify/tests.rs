//! The chain on real databases, and the findings after changes of them.
//!
//! Each change is made by SQL, as a user with access to the database would. The controls show that the changes are
//! ones that a weaker record misses: a hash of each record alone does not see removed records, and a chain without a
//! key does not see records that are hashed anew.
#![expect(clippy::disallowed_methods, reason = "the tests change what is really there")]

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use sinew_tool::{Change, ContentHash, Event, Kind, Ledger};

use super::super::record::{COLUMNS, Field, OF_CHANGE, OF_PROCESS};
use super::super::tests::{closing, intend, ledger, rows};
use super::super::{Audit, SqliteLedger, Wanted};
use super::*;
use sinew_fs::state::StateDir;

/// A ledger of two processes with each kind of record, copied for each test.
struct Chain {
    dir: tempfile::TempDir,
}

fn fill(dir: &Path) {
    let first = ledger(dir);
    first.close(None, closing("look", None));
    let ticket = intend(&first, "change", &[PathBuf::from("/w/.sinew-0.tmp")]);
    first.close(Some(ticket), closing("change", None));
    first.flush().expect("it writes");
    first.event(Event {
        kind: "granted",
        text: String::from("words"),
        session: Some(String::from("s")),
    });
    drop(first);
    let second = ledger(dir);
    second.set_client(String::from("a client"));
    let mut patch = closing("patch", Some(Kind::Stale));
    patch.opening.agent = Some(String::from("an agent"));
    patch.opening.parent = Some(String::from("a parent"));
    let gone = |path: &str| Change {
        path: PathBuf::from(path),
        before: Some(ContentHash::from([0xee; 32])),
        after: Some(ContentHash::from([0xdd; 32])),
        bytes: 5,
    };
    patch.changes = vec![gone("/w/a"), gone("/w/b"), gone("/w/c")];
    second.close(None, patch);
    second.flush().expect("it writes");
    intend(&second, "open", &[]);
    second.close(None, closing("last", None));
}

impl Chain {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fill(dir.path());
        Self { dir }
    }

    /// Returns a copy of the whole state, which one test may change.
    fn copy(&self) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        copy(&self.state(), &dir.path().join("state"));
        Self { dir }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn sql(&self, sql: &str) -> &Self {
        let database = Connection::open(self.state().join("sinew.db")).expect("the database");
        database.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}")).expect(sql);
        self
    }

    fn audit(&self) -> Audit {
        Audit::open(&StateDir::open(&self.state()).expect("it is there")).expect("a ledger")
    }

    fn verified(&self) -> Verified {
        self.audit().verify(None, |_| {}).expect("it can be read")
    }

    fn records(&self) -> Vec<Record> {
        let mut all = Vec::new();
        let take = |record| {
            all.push(record);
            Ok::<_, super::super::AuditError>(())
        };
        self.audit().records(&Wanted::default(), take).expect("records");
        all
    }

    fn n_records(&self) -> i64 {
        self.audit().head().expect("a head").seq
    }

    #[track_caller]
    fn finds(&self, what: &str, seq: i64) {
        let verified = self.verified();
        let first = verified.findings.first().map(|finding| (finding.what, finding.seq));
        assert_eq!(first, Some((what, seq)), "{:?}", verified.findings);
    }

    /// Calculates the chain and its head anew, as a user would who knows how it is made and has a key.
    fn forge(&self, key: &Key) {
        let mut previous = Link::START;
        let database = Connection::open(self.state().join("sinew.db")).expect("the database");
        for record in self.records() {
            let seq = record.link.seq;
            let hash = record.hash_at(key, seq, &previous.hash);
            database
                .execute("UPDATE record SET hash = ?1 WHERE seq = ?2", (hash, seq))
                .expect("it is");
            previous = Link { seq, hash };
        }
        let mut head = super::super::head::HeadFile::new(&self.state());
        head.note(key, previous, true).expect("the head is written");
    }

    /// Returns what a chain finds that anybody can calculate.
    fn with_no_key(&self) -> Verified {
        let key = Key::nobodys();
        let mut walk = Walk::after(&key, Some(Link::START));
        self.records().into_iter().for_each(|record| walk.record(record));
        walk.end()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a directory");
    for entry in fs::read_dir(from).expect("entries") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

#[test]
fn a_chain_that_nobody_touched_is_whole() {
    let chain = Chain::new();
    let verified = chain.verified();
    assert_eq!(verified.findings, []);
    assert_eq!((verified.first, verified.n_beyond_head), (Some(1), 0));
    assert_eq!(verified.n_records, 8);
    assert_eq!(verified.last, chain.audit().head().expect("a head"));
    let notes: Vec<_> = verified.notes.iter().map(|note| (note.seq, note.what)).collect();
    assert_eq!(notes, [(1, "begin")]);
    let open: Vec<_> =
        verified.unfinished.iter().map(|open| (&*open.call_id, open.is_dead)).collect();
    assert_eq!(open, [("open", Some(false))], "this process made it and runs");
    chain.sql("UPDATE process SET pid = 999999999").sql("PRAGMA user_version");
    assert!(!chain.verified().is_whole(), "what tells whether a process lives is covered too");
}

#[test]
fn each_value_that_is_changed_is_found() {
    let chain = Chain::new();
    let mut n_changed = 0;
    for record in chain.records() {
        let seq = record.link.seq;
        for (name, field) in record.fields.iter().filter(|(name, _)| COLUMNS.contains(name)) {
            let other = match (*name, field) {
                ("phase", _) => "CASE phase WHEN 'event' THEN 'outcome' ELSE 'event' END",
                (_, Field::Integer(_)) => "{} + 1",
                (_, Field::Text(_)) => "{} || 'x'",
                (_, Field::Bytes(_)) => "x'00'",
            };
            for other in [other, "NULL"] {
                if other == "NULL" && matches!(*name, "phase" | "at_ms") {
                    continue;
                }
                let copy = chain.copy();
                let other = other.replace("{}", name);
                copy.sql(&format!("UPDATE record SET {name} = {other} WHERE seq = {seq}"));
                copy.finds("changed", seq);
                n_changed += 1;
            }
        }
    }
    assert!(100 < n_changed, "{n_changed}");
    // What a record does not say is covered as well.
    for name in COLUMNS.iter().filter(|name| !matches!(**name, "phase" | "at_ms")) {
        let copy = chain.copy();
        let value = if name.ends_with("_us") || matches!(*name, "bytes" | "reply_bytes" | "intent")
        {
            "1"
        } else if *name == "arguments" {
            "x'01'"
        } else {
            "'x'"
        };
        copy.sql(&format!("UPDATE record SET {name} = {value} WHERE seq = 1"));
        copy.finds("changed", 1);
    }
}

#[test]
fn what_belongs_to_a_record_is_found_when_it_changes() {
    let chain = Chain::new();
    let first_of_second = chain
        .records()
        .iter()
        .find(|record| record.text("client").is_some())
        .map(|record| record.link.seq)
        .expect("one of the second process");
    for name in OF_PROCESS {
        let other = if name.starts_with("pid") { "1" } else { "'x'" };
        let copy = chain.copy();
        copy.sql(&format!("UPDATE process SET {name} = {other} WHERE client IS NOT NULL"));
        copy.finds("changed", first_of_second);
    }
    for (sql, what) in [
        ("DELETE FROM process WHERE client IS NOT NULL", "changed"),
        ("UPDATE record SET hash = x'00' WHERE seq = 6", "changed"),
        ("UPDATE record SET process = 1 WHERE seq = 6", "changed"),
        ("DELETE FROM further_change WHERE file_path = '/w/b'", "changed"),
        ("INSERT INTO further_change SELECT * FROM further_change", "changed"),
        ("INSERT INTO further_change VALUES (6, '/w/d', 1, NULL, NULL)", "changed"),
        (
            "UPDATE further_change SET file_path =
                CASE file_path WHEN '/w/b' THEN '/w/c' ELSE '/w/b' END",
            "changed",
        ),
    ] {
        let copy = chain.copy();
        copy.sql(sql);
        copy.finds(what, 6);
    }
    for name in OF_CHANGE {
        let other = if name == "bytes" { "9" } else { "'x'" };
        let copy = chain.copy();
        copy.sql(&format!("UPDATE further_change SET {name} = {other} WHERE file_path = '/w/c'"));
        copy.finds("changed", 6);
    }
    let copy = chain.copy();
    copy.sql("UPDATE further_change SET seq = 60 WHERE file_path = '/w/c'");
    copy.finds("changed", 6);
}

#[test]
fn each_record_that_is_removed_is_found() {
    let chain = Chain::new();
    let last = chain.n_records();
    for first in 1..=last {
        for until in first..=last {
            let copy = chain.copy();
            copy.sql(&format!("DELETE FROM record WHERE {first} <= seq AND seq <= {until}"));
            copy.sql(&format!(
                "DELETE FROM further_change WHERE {first} <= seq AND seq <= {until}"
            ));
            copy.finds(if until == last { "cut" } else { "missing" }, first);
            // Closing the gap does not help.
            if until < last {
                let n = until - first + 1;
                copy.sql(&format!("UPDATE record SET seq = seq - {n} WHERE {until} < seq"));
                assert!(!copy.verified().is_whole(), "{first} {until}");
            }
        }
    }
}

#[test]
fn records_in_another_order_are_found() {
    let chain = Chain::new();
    let last = chain.n_records();
    for one in 1..=last {
        for two in one + 1..=last {
            let copy = chain.copy();
            for table in ["record", "further_change"] {
                copy.sql(&format!(
                    "UPDATE {table} SET seq = -1 WHERE seq = {one};
                     UPDATE {table} SET seq = {one} WHERE seq = {two};
                     UPDATE {table} SET seq = {two} WHERE seq = -1;"
                ));
            }
            copy.finds("reordered", one);
        }
    }
}

/// Without the key even the whole chain, calculated anew, does not fit; without the chain nothing is missed.
#[test]
fn what_a_weaker_record_misses_is_found() {
    let chain = Chain::new();
    let changed = chain.copy();
    changed.sql("UPDATE record SET command = 'true' WHERE seq = 3");
    changed.forge(&Key::nobodys());
    assert_eq!(changed.with_no_key().findings, [], "a chain without a key is fooled");
    changed.finds("changed", 1);

    let shorter = chain.copy();
    shorter.sql("DELETE FROM record WHERE seq = 3");
    for table in ["record", "further_change"] {
        shorter.sql(&format!("UPDATE {table} SET seq = seq - 1 WHERE 3 < seq"));
    }
    let alone = |record: &Record| record.hash_at(&Key::nobodys(), 0, &[0; 32]);
    let known: Vec<_> = chain.records().iter().map(alone).collect();
    assert!(
        shorter.records().iter().all(|record| known.contains(&alone(record))),
        "each record fits a hash of its own"
    );
    assert!(!shorter.verified().is_whole());
    shorter.forge(&Key::nobodys());
    assert_eq!(shorter.with_no_key().findings, []);
    assert!(!shorter.verified().is_whole());
}

#[test]
fn what_lies_beside_the_database_counts() {
    let chain = Chain::new();
    let last = chain.n_records();
    let head = |chain: &Chain| chain.state().join("ledger.head");
    let older = chain.copy();
    let note = fs::read(head(&older)).expect("a head");
    ledger(older.dir.path()).close(None, closing("later", None));
    fs::write(head(&older), note).expect("it is written");
    let verified = older.verified();
    assert_eq!((verified.findings, verified.n_beyond_head), (Vec::new(), 1), "as after a crash");

    for (name, content, what) in [
        ("ledger.head", None, "head"),
        ("ledger.head", Some(Vec::new()), "head"),
        ("ledger.head", Some(b"00000000000000000001 and so on".to_vec()), "head"),
        ("ledger.key", None, "key"),
        ("ledger.key", Some(vec![7; 32]), "key"),
    ] {
        let copy = chain.copy();
        match &content {
            Some(content) => fs::write(copy.state().join(name), content).expect("it is written"),
            None => fs::remove_file(copy.state().join(name)).expect("it is removed"),
        }
        copy.finds(what, last);
    }
    let key = chain.copy();
    fs::write(key.state().join("ledger.key"), "short").expect("it is written");
    key.audit().verify(None, |_| {}).expect_err("it is no key");

    let anchored = chain.copy();
    anchored.sql(
        "UPDATE chain SET anchor_seq = 2, anchor_hash = (SELECT hash FROM record WHERE seq = 2)",
    );
    anchored.sql("DELETE FROM record WHERE seq <= 2");
    anchored.finds("anchor", 2);
}

/// The tail was cut and the chain went on until it was longer than before.
#[test]
fn what_was_cut_off_stays_found_when_the_chain_goes_on() {
    for (sql, head, what) in [
        ("DELETE FROM record WHERE 6 < seq", true, "cut"),
        ("UPDATE record SET hash = zeroblob(32) WHERE seq = 8", true, "changed"),
        ("DELETE FROM record", true, "missing"),
        ("SELECT 1", false, "head"),
    ] {
        let chain = Chain::new();
        chain.sql(sql);
        if !head {
            fs::remove_file(chain.state().join("ledger.head")).expect("it is removed");
        }
        let later = ledger(chain.dir.path());
        for n in 0..20 {
            later.close(None, closing(&n.to_string(), None));
        }
        drop(later);
        let verified = chain.verified();
        let found: Vec<_> = verified.findings.iter().map(|finding| finding.what).collect();
        assert!(found.contains(&what) || found.contains(&"cut"), "{sql}: {:?}", verified.findings);
        let noted =
            rows(chain.dir.path(), "SELECT event FROM record WHERE event IN ('cut', 'head')");
        assert_eq!(noted, [if head { "cut" } else { "head" }], "{sql}");
    }
    // While a process writes, too.
    let chain = Chain::new();
    let later = ledger(chain.dir.path());
    later.close(None, closing("one", None));
    later.flush().expect("it writes");
    chain.sql("DELETE FROM record WHERE seq = 9");
    later.close(None, closing("two", None));
    later.flush().expect("it writes");
    chain.finds("cut", 9);
}

#[test]
fn a_head_that_was_kept_finds_what_the_chain_alone_cannot() {
    let chain = Chain::new();
    let older = chain.copy();
    let kept = |chain: &Chain| chain.audit().head().expect("a head");
    ledger(chain.dir.path()).close(None, closing("later", None));
    let head = kept(&chain);
    assert_eq!(chain.audit().verify(Some(head), |_| {}).expect("it is").findings, []);
    // An older copy of everything is whole: this is accepted, and what `audit head` is for.
    assert!(older.verified().is_whole());
    let found = older.audit().verify(Some(head), |_| {}).expect("it is").findings;
    assert_eq!(found.first().map(|finding| (finding.what, finding.seq)), Some(("cut", 9)));
    // So does one that went on in another way.
    ledger(older.dir.path()).close(None, closing("other", None));
    let found = older.audit().verify(Some(head), |_| {}).expect("it is").findings;
    assert_eq!(found.first().map(|finding| (finding.what, finding.seq)), Some(("other", 9)));
}

/// Several ledgers at once make one chain.
#[test]
fn threads_write_one_chain() {
    let dir = tempfile::tempdir().expect("a directory");
    let all: Vec<SqliteLedger> = (0..4).map(|_| ledger(dir.path())).collect();
    std::thread::scope(|scope| {
        for (n, ledger) in all.iter().enumerate() {
            scope.spawn(move || {
                for m in 0..50 {
                    let id = format!("{n}-{m}");
                    let ticket = intend(ledger, &id, &[]);
                    ledger.close(Some(ticket), closing(&id, None));
                    ledger.close(None, closing("look", None));
                }
            });
        }
    });
    drop(all);
    let verified = Chain { dir }.verified();
    assert_eq!(verified.findings, []);
    assert_eq!((verified.n_records, verified.unfinished.len()), (601, 0));
}

/// A stray record at the end does not fit.
#[test]
fn a_record_that_was_put_there_is_found() {
    let chain = Chain::new();
    let columns = COLUMNS.join(", ");
    chain.sql(&format!(
        "INSERT INTO record (seq, hash, process, {columns})
         SELECT 9, hash, process, {columns} FROM record WHERE seq = 8"
    ));
    chain.finds("changed", 9);
    let more = chain.copy();
    ledger(more.dir.path()).close(None, closing("later", None));
    more.finds("changed", 9);
}

/// Numbers at the ends of what there is overflowed.
#[test]
fn a_record_with_any_number_is_found() {
    for seq in [i64::MIN, -1, 0, 10, i64::MAX - 1, i64::MAX] {
        let chain = Chain::new();
        let columns = COLUMNS.join(", ");
        chain.sql(&format!(
            "INSERT INTO record (seq, hash, process, {columns})
             SELECT {seq}, hash, process, {columns} FROM record WHERE seq = 8"
        ));
        assert!(!chain.verified().is_whole(), "{seq}");
        let later = ledger(chain.dir.path());
        later.close(None, closing("later", None));
        // After the last number there is none.
        assert_eq!(later.flush().is_err(), seq == i64::MAX, "{seq}");
        drop(later);
        assert!(!chain.verified().is_whole(), "{seq}");
    }
}
