//! Databases that are new, older, damaged or without their key.
#![expect(clippy::disallowed_methods, reason = "the tests damage what is really there")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use sinew_tool::Ledger;

use super::super::tests::{closing, intend, ledger, rows};
use super::super::verify::Verified;
use super::super::{Audit, Recorded, SqliteLedger};
use super::*;
use sinew_fs::state::StateDir;
use sinew_tool::sync::lock;

fn verified(dir: &Path) -> Verified {
    let state = StateDir::open(&dir.join("state")).expect("it is there");
    Audit::open(&state).expect("a ledger").verify(None, |_| {}).expect("it can be read")
}

/// A way to damage the database of a state directory.
type Damage = fn(&Path);

fn overwrite(state: &Path, at: u64, n_bytes: usize) {
    let file = fs::File::options().write(true).open(state.join(NAME)).expect("the database");
    file.write_all_at(&vec![0x5a; n_bytes], at).expect("it is written");
}

fn sql(state: &Path, sql: &str) {
    let database = Connection::open(state.join(NAME)).expect("the database");
    database.execute_batch(sql).expect(sql);
}

const DAMAGES: &[(&str, &str, Damage)] = &[
    ("corrupt", "no database", |state| {
        fs::write(state.join(NAME), "no database").expect("it is written");
    }),
    ("corrupt", "a header that was written over", |state| overwrite(state, 0, 200)),
    ("corrupt", "pages that were written over", |state| {
        sql(state, "PRAGMA wal_checkpoint(TRUNCATE)");
        let length = fs::metadata(state.join(NAME)).expect("it is there").len();
        overwrite(state, 4_096, usize::try_from(length).expect("a length") - 4_096);
    }),
    ("corrupt", "a version that never was", |state| sql(state, "PRAGMA user_version = -7")),
    ("corrupt", "no version", |state| sql(state, "PRAGMA user_version = 0")),
    ("corrupt", "no tables", |state| sql(state, "DROP TABLE chain")),
    ("corrupt", "no row of its chain", |state| sql(state, "DELETE FROM chain")),
    ("corrupt", "half a name of its key", |state| sql(state, "UPDATE chain SET key_id = x'00'")),
    ("corrupt", "no view", |state| sql(state, "DROP VIEW entry")),
    ("corrupt", "a column less", |state| {
        sql(
            state,
            "DROP VIEW entry; ALTER TABLE record DROP COLUMN text;
            CREATE VIEW entry AS SELECT * FROM record JOIN process USING (process)",
        );
    }),
    ("corrupt", "a view in the place of its records", |state| {
        sql(state, "ALTER TABLE record RENAME TO kept; CREATE VIEW record AS SELECT * FROM kept");
    }),
    ("corrupt", "a trigger", |state| {
        sql(state, "CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record; END");
    }),
    ("keyless", "no key", |state| fs::remove_file(state.join("ledger.key")).expect("it is")),
    ("keyless", "another key", |state| {
        fs::write(state.join("ledger.key"), [7; 32]).expect("it is written");
    }),
];

#[test]
fn what_cannot_be_gone_on_with_is_kept_aside_and_told() {
    for (word, name, damage) in DAMAGES {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        let first = ledger(dir.path());
        for n in 0..200 {
            first.close(None, closing(&n.to_string(), None));
        }
        drop(first);
        damage(&state);
        let damaged = fs::read(state.join(NAME)).expect("it is there");

        let second = ledger(dir.path());
        let told = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&told);
        second.on_notice(move |text| lock(&into).push(text.to_owned()));
        let ticket = intend(&second, "change", &[]);
        second.close(Some(ticket), closing("change", None));
        second.flush().expect("it writes");
        let kept = second.kept_aside();
        assert_eq!(kept.len(), 1, "{name}: {kept:?}");
        let aside = kept.first().expect("one");
        assert!(aside.starts_with(&format!("{NAME}.{word}-")), "{name}: {aside}");
        if *word == "corrupt" {
            assert_eq!(fs::read(state.join(aside)).expect("it is there").len(), damaged.len());
        }
        let told = lock(&told).clone();
        assert!(
            told.len() == 1 && told.iter().all(|text| text.contains(aside)),
            "{name}: {told:?}"
        );
        // `verify` says that earlier records are not in this chain.
        let verified = verified(dir.path());
        let [gone] = verified.findings.as_slice() else { panic!("{name}: {verified:?}") };
        assert_eq!((gone.what, gone.seq), ("gone", 1), "{name}: {gone:?}");
        assert!(gone.text.contains(aside), "{name}: {gone:?}");
        let is_counted = gone.text.contains("201 records were in it");
        assert_eq!(is_counted, *word == "corrupt", "{name}: {gone:?}");
        assert_eq!(rows(dir.path(), "SELECT phase FROM record"), ["event", "intent", "outcome"]);
    }
}

/// A page that is not read when the database is opened.
#[test]
fn damage_that_is_met_while_writing_loses_no_record() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let first = ledger(dir.path());
    for n in 0..500 {
        first.close(None, closing(&n.to_string(), None));
    }
    first.flush().expect("it writes");
    // The pages of the last records are in the database now, and not in the log.
    sql(&state, "PRAGMA wal_checkpoint(TRUNCATE)");
    let root: i64 = Connection::open(state.join(NAME))
        .and_then(|c| {
            let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'record'";
            c.query_row(sql, [], |row| row.get(0))
        })
        .expect("a page");
    overwrite(&state, (root.unsigned_abs() - 1) * 4_096, 4_096);
    drop(first);
    let second = ledger(dir.path());
    let ticket = intend(&second, "after", &[]);
    second.close(Some(ticket), closing("after", None));
    second.flush().expect("it writes");
    assert_eq!(second.kept_aside().len(), 1);
    assert_eq!(
        rows(dir.path(), "SELECT call_id FROM record WHERE call_id <> ''"),
        ["after", "after"]
    );
    let verified = verified(dir.path());
    assert_eq!(verified.findings.iter().map(|one| one.what).collect::<Vec<_>>(), ["gone"]);
}

/// Damage that was met when what dead processes left was looked for refused every change for ever.
#[test]
fn no_broken_page_keeps_changes_from_being_recorded() {
    const N_CALLS: usize = 100;
    for has_intent in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let whole = dir.path().join("state");
        let first = ledger(dir.path());
        for n in 0..N_CALLS {
            first.close(None, closing(&n.to_string(), None));
        }
        let ticket = intend(&first, "first", &[]);
        if !has_intent {
            first.close(Some(ticket), closing("first", None));
        }
        drop(first);
        sql(&whole, "PRAGMA wal_checkpoint(TRUNCATE)");
        let n_pages = fs::metadata(whole.join(NAME)).expect("it is there").len() / 4_096;
        assert!(11 < n_pages, "{n_pages}");
        let mut other = vec![0; 4_096];
        let file = fs::File::open(whole.join(NAME)).expect("the database");
        file.read_exact_at(&mut other, 4_096).expect("its second page");
        let garbage =
            [("words", vec![0x5a; 4_096]), ("nothing", vec![0; 4_096]), ("another page", other)];
        let pages = (0..n_pages).flat_map(|page| garbage.iter().map(move |g| (page, g)));
        let n_aside = pages.filter(|(page, (what, garbage))| {
            let name = format!("page {} of {what}, intent: {has_intent}", page + 1);
            let dir = tempfile::tempdir().expect("a directory");
            drop(StateDir::open(&dir.path().join("state")).expect("a state directory"));
            for name in ["ledger.key", "ledger.head", NAME] {
                fs::copy(whole.join(name), dir.path().join("state").join(name)).expect("a copy");
            }
            let file = fs::File::options().write(true).open(dir.path().join("state").join(NAME));
            file.and_then(|file| file.write_all_at(garbage, page * 4_096)).expect("it is written");
            is_gone_on_with(dir.path(), &name, N_CALLS)
        });
        assert!(5 < n_aside.count(), "pages matter");
    }
}

/// Checks that changes are recorded after so many calls; returns whether that needed a new database.
fn is_gone_on_with(dir: &Path, name: &str, n_calls: usize) -> bool {
    let next = ledger(dir);
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&told);
    next.on_notice(move |text| lock(&into).push(text.to_owned()));
    let ticket = intend(&next, "change", &[]);
    next.close(Some(ticket), closing("change", None));
    next.flush().unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let (told, kept) = (lock(&told).clone(), next.kept_aside());
    drop(next);
    let last = "SELECT phase || ' ' || call_id FROM record ORDER BY seq DESC LIMIT 1";
    assert_eq!(rows(dir, last), ["outcome change"], "{name}");
    assert_eq!(told.len(), kept.len(), "{name}: {told:?}");
    assert!(told.iter().zip(&kept).all(|(text, aside)| text.contains(aside)), "{name}: {told:?}");
    let state = StateDir::open(&dir.join("state")).expect("it is there");
    let verified = Audit::open(&state).and_then(|audit| audit.verify(None, |_| {}));
    match verified {
        Ok(verified) if !kept.is_empty() => {
            let found: Vec<_> = verified.findings.iter().map(|one| one.what).collect();
            assert_eq!(found, ["gone"], "{name}");
        }
        Ok(verified) => {
            let is_all = n_calls < usize::try_from(verified.n_records).expect("a count");
            assert!(is_all || !verified.is_whole(), "{name}: {verified:?}");
        }
        Err(error) => assert!(kept.is_empty(), "{name}: {error}"),
    }
    !kept.is_empty()
}

#[test]
fn several_that_find_the_damage_at_once_begin_one_database() {
    for _ in 0..10 {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        drop(ledger(dir.path()));
        fs::write(state.join(NAME), "no database").expect("it is written");
        let all: Vec<SqliteLedger> = (0..4).map(|_| ledger(dir.path())).collect();
        std::thread::scope(|scope| {
            for (n, ledger) in all.iter().enumerate() {
                scope.spawn(move || {
                    let ticket = intend(ledger, &n.to_string(), &[]);
                    ledger.close(Some(ticket), closing(&n.to_string(), None));
                });
            }
        });
        drop(all);
        assert_eq!(kept_aside(&state).len(), 1);
        let verified = verified(dir.path());
        let found: Vec<_> = verified.findings.iter().map(|one| one.what).collect();
        assert_eq!((found.as_slice(), verified.n_records), (&["gone"] as &[_], 9));
    }
}

/// A process that had the damaged database open wrote into it for ever.
#[test]
fn who_has_the_old_database_open_goes_on_in_the_new_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let old = ledger(dir.path());
    let ticket = intend(&old, "before", &[]);
    fs::remove_file(state.join("ledger.key")).expect("it is");
    intend(&ledger(dir.path()), "new", &[]);
    old.close(Some(ticket), closing("before", None));
    intend(&old, "after", &[]);
    let calls = "SELECT call_id FROM record WHERE call_id <> '' ORDER BY seq";
    assert_eq!(rows(dir.path(), calls), ["new", "before", "after"]);
    let verified = verified(dir.path());
    assert_eq!(verified.findings.iter().map(|one| one.what).collect::<Vec<_>>(), ["gone"]);
}

#[test]
fn a_disk_that_breaks_everything_is_not_filled() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    for n in 0..=MAX_ASIDE {
        let next = ledger(dir.path());
        fs::write(state.join(NAME), "no database").expect("it is written");
        assert_eq!(next.probe().is_ok(), n < MAX_ASIDE, "{n}");
    }
    assert_eq!(kept_aside(&state).len(), MAX_ASIDE);
}

#[test]
fn a_database_that_was_taken_away_is_missed() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    intend(&ledger(dir.path()), "before", &[]);
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(state.join(format!("{NAME}{end}")));
    }
    let state_dir = StateDir::open(&state).expect("it is there");
    let error = Audit::open(&state_dir).expect_err("it is gone");
    assert!(matches!(error, super::super::AuditError::Gone(_)), "{error:?}");
    intend(&ledger(dir.path()), "after", &[]);
    let verified = verified(dir.path());
    let found: Vec<_> =
        verified.findings.iter().map(|finding| (finding.what, finding.seq)).collect();
    assert_eq!(found, [("gone", 1)], "{verified:?}");
}

/// A user who takes the head away as well leaves the key, and with all three the head that was kept.
#[test]
fn what_is_left_beside_a_database_that_was_taken_away_tells_of_it() {
    for (gone, left) in [
        (&["sinew.db"] as &[_], "the head beside it"),
        (&["sinew.db", "ledger.head"], "the key beside it"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        intend(&ledger(dir.path()), "before", &[]);
        for name in gone.iter().chain(&["sinew.db-wal", "sinew.db-shm"]) {
            let _ = fs::remove_file(state.join(name));
        }
        let state_dir = StateDir::open(&state).expect("it is there");
        for is_empty in [false, true] {
            if is_empty {
                fs::write(state.join(NAME), "").expect("it is written");
            }
            let error = Audit::open(&state_dir).expect_err("it is gone").to_string();
            assert!(error.contains(left), "{gone:?}: {error}");
        }
        intend(&ledger(dir.path()), "after", &[]);
        let found = verified(dir.path()).findings;
        assert_eq!(found.iter().map(|one| (one.what, one.seq)).collect::<Vec<_>>(), [("gone", 1)]);
    }
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    intend(&ledger(dir.path()), "before", &[]);
    sql(&state, "PRAGMA user_version = 0");
    let state_dir = StateDir::open(&state).expect("it is there");
    let error = Audit::open(&state_dir).expect_err("it is not read");
    assert!(matches!(error, super::super::AuditError::Gone(_)), "{error:?}");
}

/// A database that says that another release wrote it is neither read nor taken on.
#[test]
fn a_database_of_another_release_is_left_alone() {
    for version in [1, 3, row::VERSION + 1] {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        drop(ledger(dir.path()));
        intend(&ledger(dir.path()), "before", &[]);
        sql(&state, &format!("PRAGMA user_version = {version}"));
        let next = ledger(dir.path());
        next.probe().expect_err("it is not taken on");
        assert!(next.broken().expect("a problem").contains("move it away"));
        assert_eq!(next.kept_aside(), [""; 0]);
        assert_eq!(rows(dir.path(), "SELECT call_id FROM record WHERE call_id <> ''"), ["before"]);
    }
}

#[test]
fn a_key_is_for_its_owner_and_never_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = StateDir::open(&dir.path().join("state")).expect("a state directory");
    intend(&ledger(dir.path()), "first", &[]);
    let path = state.path().join("ledger.key");
    let mode = |path: &Path| {
        let meta = fs::metadata(path).expect("it is there");
        std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777
    };
    for name in ["ledger.key", "ledger.head", "ledger.lock", NAME] {
        assert_eq!(mode(&state.path().join(name)), 0o600, "{name}");
    }
    let key = fs::read(&path).expect("a key");
    Key::create(state.path()).expect_err("there is one");
    assert_eq!(fs::read(&path).expect("a key"), key);
    let names: Vec<_> = fs::read_dir(state.path())
        .expect("entries")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("ledger.key."))
        .collect();
    assert_eq!(names, [""; 0], "no draft of a key is left");
    // What cannot be used is told, and nothing is done about it.
    let unusable: &[(&str, Damage)] = &[
        ("does not have 32 bytes", |path| fs::write(path, "short").expect("it is written")),
        ("other users", |path| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            fs::set_permissions(path, mode).expect("it is changed");
        }),
    ];
    for (why, make) in unusable {
        fs::write(&path, &key).expect("it is written");
        make(&path);
        let next = SqliteLedger::new(&state, Recorded::by("test"));
        next.probe().expect_err(why);
        let problem = next.broken().expect("a problem");
        assert!(problem.contains(why), "{problem}");
        assert_eq!(next.kept_aside(), [""; 0]);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&path, mode).expect("it is changed");
    }
}
