//! What checkpoints may be, and what happens where they cannot be made.

use std::process::Command;
use std::time::Instant;

use sinew_guard::checkpoints::{Collected, Larger};
use sinew_tool::{Kind, ToolError};

use super::*;
use crate::tree::skipped;

/// Settings whose limits hold for running processes too.
fn defaults() -> CheckpointSettings {
    CheckpointSettings { holds_for: Duration::ZERO, ..CheckpointSettings::default() }
}

/// Bytes that cannot be packed, others for each seed.
fn noise(seed: u64, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Replaces a file by others of this size, one call each. Returns the checkpoints.
fn replaced(bench: &Bench, n: u64, size: usize) -> Vec<CheckpointId> {
    let deed = |seed| TestedOp::Put("a".into(), noise(seed, size), 0o644);
    do_it(&bench.tree.root, &deed(1_000));
    (0..n).map(|seed| bench.call("s", &[deed(seed)])).collect()
}

#[test]
fn the_oldest_checkpoints_go_first_and_their_contents_with_them() {
    let none = Collected::default();
    let gone = |n: u64| Collected { n_checkpoints: n, n_contents: n, n_bytes: n * 1_000 };
    for (settings, expected) in [
        (defaults(), none),
        (CheckpointSettings { max_count: 10, ..defaults() }, none),
        (CheckpointSettings { max_count: 4, ..defaults() }, gone(6)),
        (CheckpointSettings { max_count: 0, ..defaults() }, gone(9)),
        (CheckpointSettings { max_bytes: 10_000, ..defaults() }, none),
        (CheckpointSettings { max_bytes: 9_999, ..defaults() }, gone(1)),
        (CheckpointSettings { max_bytes: 3_000, ..defaults() }, gone(7)),
        // One content is always kept: that of the last change.
        (CheckpointSettings { max_bytes: 1, ..defaults() }, gone(9)),
    ] {
        let bench = Bench::new();
        let mut ids = replaced(&bench, 10, 1_000);
        let collecting = checkpoints(&bench.tree, settings.clone());
        assert_eq!(collecting.collect().unwrap(), expected, "{settings:?}");
        assert_eq!(collecting.collect().unwrap(), none);
        ids.drain(..usize::try_from(expected.n_checkpoints).unwrap());
        ids.reverse();
        assert_eq!(bench.ids(None), ids);
        assert_eq!(bench.n_stored(), ids.len());
        bench.restore(*ids.last().unwrap(), Scope::Since, false);
    }
}

#[test]
fn a_checkpoint_goes_when_it_is_too_old() {
    let bench = Bench::new();
    let ids = replaced(&bench, 3, 10);
    let database = rusqlite::Connection::open(bench.tree.top.join("state/checkpoints.db")).unwrap();
    let age = |id: CheckpointId, days: i64| {
        let number: i64 = id.to_string()[1..].parse().unwrap();
        let sql = "UPDATE checkpoint SET at_ms = at_ms - ?2 * 86400000 WHERE number = ?1";
        assert_eq!(database.execute(sql, [number, days]).unwrap(), 1);
    };
    age(ids[0], 31);
    age(ids[1], 29);
    assert_eq!(bench.checkpoints.collect().unwrap().n_checkpoints, 1);
    assert_eq!(bench.ids(None), [ids[2], ids[1]]);
    age(ids[2], 365);
    bench.checkpoints.collect().unwrap();
    assert_eq!(bench.ids(None), [ids[2], ids[1]], "the newest stays whatever it is");
    assert!(matches!(bench.checkpoints.entries(ids[0]), Err(CheckpointError::Unknown(_))));
    let next = replaced(&bench, 1, 10);
    assert!(ids[2] < next[0], "a number is not given out again");
}

/// A session could push out the undo of its first change by many others.
#[test]
fn checkpoints_of_running_processes_stay_for_a_day() {
    for (holds_for, n_left) in [(Duration::ZERO, 5), (CheckpointSettings::default().holds_for, 9)] {
        let bench = Bench::with(CheckpointSettings {
            max_count: 5,
            max_bytes: 5_000,
            holds_for,
            ..CheckpointSettings::default()
        });
        let ids = replaced(&bench, 9, 1_000);
        bench.checkpoints.collect().unwrap();
        assert_eq!(bench.ids(None).len(), n_left, "{ids:?}");
        let more = replaced(&bench, 9, 1_000);
        bench.checkpoints.collect().unwrap();
        let n_left = if holds_for.is_zero() { 5 } else { 10 };
        assert_eq!(bench.ids(None).len(), n_left, "twice the limits at most: {more:?}");
        // What this process holds takes the room of later changes, which are asked about.
        assert!(!bench.checkpoints.has_room());
    }
}

#[test]
fn a_collection_comes_by_itself_once_enough_was_kept() {
    let settings = CheckpointSettings { max_bytes: 20_000, ..defaults() };
    let bench = Bench::with(settings);
    let ids = replaced(&bench, 60, 1_000);
    let due = Instant::now() + Duration::from_secs(20);
    while 23 < bench.n_stored() {
        assert!(Instant::now() < due, "{} contents are there", bench.n_stored());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(bench.ids(None).contains(&ids[59]));
}

/// Of processes that end at once, each goes on with what the one before began.
#[test]
fn short_processes_collect_together() {
    let bench = Bench::new();
    replaced(&bench, 1_500, 100);
    let small = CheckpointSettings { max_count: 5, max_bytes: 1_000, ..defaults() };
    let due = Instant::now() + Duration::from_secs(60);
    while 10 < bench.ids(None).len() || 10 < bench.n_stored() {
        assert!(Instant::now() < due, "{} checkpoints are there", bench.ids(None).len());
        let short = checkpoints(&bench.tree, small.clone());
        let mut draft = short.begin(mark("s"));
        keep(&mut draft, &bench.tree.root.join("a"), None);
        draft.record(LONG).unwrap();
    }
}

#[test]
fn what_is_too_large_is_refused_or_not_kept() {
    for larger in [Larger::Refuse, Larger::Unkept] {
        let bench = Bench::with(CheckpointSettings { max_file_bytes: 10, larger, ..defaults() });
        do_it(&bench.tree.root, &put("a", "0123456789"));
        bench.call("s", &[put("a", "0123456789+")]);
        let path = bench.tree.root.join("a");
        let mut draft = bench.begin("s");
        let result = keep_it(&mut draft, &path, None);
        match larger {
            Larger::Refuse => {
                let error = ToolError::from(result.unwrap_err());
                assert_eq!(error.kind, Kind::LimitReached);
                assert!(error.hint.unwrap().contains("checkpoints.max_file_bytes"));
                assert_eq!(bench.ids(None).len(), 1);
            }
            Larger::Unkept => {
                assert_eq!(result.unwrap(), PathState::unkept(11, 0o644));
                let other = bench.tree.root.join("b");
                keep(&mut draft, &other, None);
                let id = draft.record(LONG).unwrap();
                do_it(&bench.tree.root, &put("a", "new"));
                do_it(&bench.tree.root, &put("b", "new"));
                bench.settle_all(&mut draft, [path.clone(), other.clone()]);
                drop(draft);
                let mut history = bench.checkpoints.history(id, Scope::Since).unwrap();
                history.retain(|path| path == other);
                let alone = history.plan(|path| Ok::<_, ()>(look(path))).unwrap();
                assert_eq!((alone.steps.len(), alone.refused(false).count()), (1, 0));
                let mut plan = bench.plan(id, Scope::Since);
                plan.steps.retain(|step| step.path == path);
                assert_eq!(plan.refused(true).count(), 1, "{plan:?}");
                let error = bench.checkpoints.content(&path, &plan.steps[0].wanted).unwrap_err();
                assert!(matches!(error, CheckpointError::NotKept(_)), "{error:?}");
            }
        }
    }
    let bench = Bench::with(CheckpointSettings { max_bytes: 1_500, ..defaults() });
    let mut draft = bench.begin("s");
    for (n, name) in ["a", "b"].into_iter().enumerate() {
        let path = bench.tree.root.join(name);
        fs::write(&path, noise(n as u64, 1_000)).unwrap();
        let result = keep_it(&mut draft, &path, None);
        assert_eq!(result.is_err(), name == "b", "{result:?}");
        if let Err(error) = result {
            assert_eq!(ToolError::from(error).kind, Kind::LimitReached);
        }
    }
    drop(draft);
    // Another thread may have begun with the contents that were kept in vain.
    let due = Instant::now() + Duration::from_secs(20);
    while bench.n_stored() != 0 {
        assert!(Instant::now() < due, "{} contents that nothing names", bench.n_stored());
        bench.checkpoints.collect().unwrap();
    }
    let fifo = bench.tree.root.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let file = fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let result = bench.begin("s").keep(&fifo, Before::File(&file, &meta_of(&file)), None);
    assert!(matches!(result, Err(CheckpointError::Special(_))), "{result:?}");
}

#[test]
fn what_a_death_left_in_the_store_goes_and_nothing_else_does() {
    let bench = Bench::new();
    replaced(&bench, 2, 10);
    let unnamed = blake3::hash(b"unnamed").to_hex();
    let gone = blake3::hash(b"gone").to_hex();
    let left = [
        String::from(".sinew-0123456789abcdef01234567.tmp"),
        String::from(".sinew-1123456789abcdef01234567.tmp.gone"),
        format!("{unnamed}"),
        format!("{unnamed}.zst"),
        format!("{gone}.zst.gone"),
    ];
    let foreign = ["notes.txt", &unnamed[..63], &unnamed.to_uppercase(), "x.gone", ".hidden"];
    for name in left.iter().map(String::as_str).chain(foreign) {
        fs::write(bench.store().join(name), "half").unwrap();
    }
    let held = bench.checkpoints.hold().unwrap();
    bench.checkpoints.collect().unwrap();
    assert_eq!(bench.n_stored(), 12, "somebody may be writing them");
    drop(held);
    bench.checkpoints.collect().unwrap();
    assert_eq!(bench.n_stored(), 7);
    assert!(foreign.iter().all(|name| bench.store().join(name).exists()));
    fs::remove_dir_all(bench.store()).unwrap();
    assert_eq!(bench.checkpoints.collect().unwrap(), Collected::default());
}

#[test]
fn a_full_disk_refuses_the_change_and_leaves_nothing() {
    let bench = Bench::new();
    let state = bench.tree.top.join("state");
    let mount = ["-t", "tmpfs", "-o", "size=400k,mode=0700", "tmpfs"];
    let status = Command::new("mount").args(mount).arg(&state).status();
    if !status.is_ok_and(|status| status.success()) {
        return skipped("mounting is not permitted here, so no disk is full");
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| on_a_small_disk(&bench)));
    drop(bench.checkpoints);
    let status = Command::new("umount").arg("-l").arg(&state).status().unwrap();
    assert!(status.success());
    result.unwrap();
}

fn on_a_small_disk(bench: &Bench) {
    let path = bench.tree.root.join("a");
    bench.call("s", &[put("a", "one")]);
    let full = |error: CheckpointError| {
        assert!(matches!(error, CheckpointError::Full(_)), "{error:?}");
        let error = ToolError::from(error);
        assert_eq!(error.kind, Kind::LimitReached);
        assert!(error.hint.unwrap().contains("checkpoint_before_mutation"));
    };
    for content in [noise(1, 120_000), noise(2, 1 << 20)] {
        let filling = bench.tree.top.join("state/filling");
        fs::write(&filling, vec![0; 200_000]).unwrap();
        fs::write(&path, &content).unwrap();
        full(keep_it(&mut bench.begin("s"), &path, None).unwrap_err());
        assert_eq!(bench.n_stored(), 0, "half a content is left");
        fs::remove_file(&filling).unwrap();
    }
    // The content has room and its entry has not.
    fs::write(&path, "two").unwrap();
    let mut draft = bench.begin("s");
    keep(&mut draft, &path, None);
    let filling = bench.tree.top.join("state/filling");
    drop(fs::write(&filling, vec![0; 1 << 20]));
    let many = (0..200).map(|n| bench.tree.root.join(format!("{n}-{}", "x".repeat(200))));
    many.for_each(|path| keep(&mut draft, &path, None));
    full(draft.record(LONG).unwrap_err());
    assert_eq!(draft.id(), None);
    fs::remove_file(&filling).unwrap();
    draft.record(LONG).unwrap();
    assert_eq!(bench.ids(None).len(), 2);
}

#[test]
fn an_index_of_another_version_or_none_at_all_is_left_alone() {
    let check = |lay_out: &dyn Fn(&Path), expected: &str| {
        let bench = Bench::new();
        let path = bench.tree.top.join("state/checkpoints.db");
        lay_out(&path);
        let before = fs::read(&path).ok();
        let mut draft = bench.begin("s");
        keep(&mut draft, &bench.tree.root.join("a"), None);
        let error = draft.record(LONG).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(ToolError::from(error).kind, Kind::Unavailable);
        assert!(bench.checkpoints.usage().is_err());
        assert_eq!(fs::read(&path).ok(), before);
    };
    check(
        &|path| {
            let other = rusqlite::Connection::open(path).unwrap();
            let sql = "PRAGMA journal_mode = WAL; CREATE TABLE later (x); PRAGMA user_version = 7";
            other.execute_batch(sql).unwrap();
        },
        "version 7",
    );
    check(&|path| fs::write(path, "no database ".repeat(100)).unwrap(), "not a database");
    check(&|path| fs::create_dir(path).unwrap(), "open");
}

#[test]
fn a_busy_index_refuses_at_once_and_loses_nothing() {
    let bench = Bench::new();
    bench.call("s", &[put("a", "one")]);
    let other = rusqlite::Connection::open(bench.tree.top.join("state/checkpoints.db")).unwrap();
    let path = bench.tree.root.join("a");
    let mut draft = bench.begin("s");
    keep(&mut draft, &path, Some(PathState::file(b"two", 0o644)));
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = Instant::now();
    let error = draft.record(Duration::from_millis(5)).unwrap_err();
    assert!(matches!(error, CheckpointError::Busy), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(2));
    other.execute_batch("ROLLBACK").unwrap();
    let id = draft.record(Duration::from_millis(5)).unwrap();
    do_it(&bench.tree.root, &put("a", "two"));
    draft.settle(&path, look(&path));
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(draft);
    other.execute_batch("ROLLBACK").unwrap();
    let settled = |checkpoints: &Checkpoints| checkpoints.entries(id).unwrap()[0].settled;
    assert!(!settled(&checkpoints(&bench.tree, CheckpointSettings::default())));
    assert!(settled(&bench.checkpoints), "it is written before anything is read");
    assert!(settled(&checkpoints(&bench.tree, CheckpointSettings::default())));
}
