//! Several processes share one store: what one of them keeps, no other collects.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::*;
use crate::tree::rounds;

const CHILD: &str = "SINEW_GUARD_TEST_KEEPS";
const KILLED: &str = "SINEW_GUARD_TEST_KEEPS_UNTIL_KILLED";
const ROUNDS: usize = 150;
const KILLS: usize = 40;

/// Keeps one of a few contents again and again. From the moment that its checkpoint is recorded until
/// its change is settled, the content must be there, whatever others forget meanwhile.
fn keep_again(top: &Path, name: &str) {
    let tidy = CheckpointSettings {
        max_count: 1,
        holds_for: Duration::ZERO,
        ..CheckpointSettings::default()
    };
    let state = StateDir::open(&top.join("state")).unwrap();
    let checkpoints = Checkpoints::new(&state, tidy);
    let path = top.join("ws").join(name);
    for n in 0..rounds(ROUNDS) {
        let content = [b"same content ".repeat(1 + n % 3), vec![b'x'; n % 2 * 9_000]].concat();
        fs::write(&path, &content).unwrap();
        let mut draft = checkpoints.begin(mark(name));
        let kept = loop {
            match keep_it(&mut draft, &path, None) {
                Err(CheckpointError::Busy) => std::thread::yield_now(),
                other => break other.unwrap(),
            }
        };
        draft.record(LONG).unwrap();
        for _ in 0..20 {
            let back = checkpoints.content(&path, &kept).and_then(|content| content.read_all());
            assert!(back.unwrap() == content, "round {n}");
            std::thread::yield_now();
        }
        draft.settle(&path, PathState::Absent);
    }
}

#[test]
fn what_is_just_being_kept_is_not_collected() {
    if let Some(top) = std::env::var_os(CHILD) {
        return keep_again(Path::new(&top), "child");
    }
    let bench = Bench::new();
    let top = &bench.tree.top;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "checkpoints::shared::what_is_just_being_kept_is_not_collected"])
        .env(CHILD, top)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let done = AtomicBool::new(false);
    let n_collected = std::thread::scope(|scope| {
        let collecting = scope.spawn(|| {
            let tidy = CheckpointSettings {
                max_count: 1,
                holds_for: Duration::ZERO,
                ..CheckpointSettings::default()
            };
            let collecting = checkpoints(&bench.tree, tidy);
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                n += collecting.collect().unwrap().n_contents;
            }
            n
        });
        let keeping = ["one", "two"].map(|name| scope.spawn(move || keep_again(top, name)));
        let kept = keeping.map(|keeping| keeping.join());
        let child = child.wait().unwrap();
        done.store(true, Ordering::Relaxed);
        assert!(kept.iter().all(Result::is_ok) && child.success());
        collecting.join().unwrap()
    });
    assert!(0 < n_collected, "nothing was ever collected, so nothing was tried");
}

#[test]
fn several_processes_share_an_index() {
    let bench = Bench::new();
    let other = checkpoints(&bench.tree, CheckpointSettings::default());
    std::thread::scope(|scope| {
        for (name, checkpoints) in [("a", &bench.checkpoints), ("b", &other)] {
            let path = bench.tree.root.join(name);
            scope.spawn(move || {
                for n in 0..50 {
                    fs::write(&path, format!("{name}{n}")).unwrap();
                    let mut draft = checkpoints.begin(mark(name));
                    keep(&mut draft, &path, None);
                    draft.record(LONG).unwrap();
                    draft.settle(&path, PathState::Absent);
                }
            });
        }
    });
    assert_eq!(bench.ids(None).len(), 100);
    assert_eq!(bench.ids(Some("b")).len(), 50);
    assert_eq!(bench.n_stored(), 100);
    drop(other);
    for id in bench.ids(None) {
        let entries = bench.checkpoints.entries(id).unwrap();
        assert!(entries.iter().all(|entry| entry.settled), "{entries:?}");
    }
}

/// Keeps large contents until another process ends this one.
fn keep_for_ever(top: &Path) {
    let state = StateDir::open(&top.join("state")).unwrap();
    let checkpoints = Checkpoints::new(&state, CheckpointSettings::default());
    let path = top.join("ws/a");
    let mut content = vec![0; 300_000];
    let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    for n in 0_u64.. {
        let seed = [since_1970.to_le_bytes().as_slice(), &n.to_le_bytes()].concat();
        // Every other one can be packed.
        let noisy = if n.is_multiple_of(2) { 300_000 } else { 30_000 };
        blake3::Hasher::new().update(&seed).finalize_xof().fill(&mut content[..noisy]);
        fs::write(&path, &content).unwrap();
        let mut draft = checkpoints.begin(mark("s"));
        keep(&mut draft, &path, None);
        draft.record(LONG).unwrap();
        draft.settle(&path, PathState::Absent);
        if n == 0 {
            println!("\nkeeping");
        }
    }
}

#[test]
fn a_killed_process_leaves_no_half_content() {
    if let Some(top) = std::env::var_os(KILLED) {
        return keep_for_ever(Path::new(&top));
    }
    let bench = Bench::new();
    let mut n_left = 0;
    for n in 0..rounds(KILLS) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "checkpoints::shared::a_killed_process_leaves_no_half_content",
                "--nocapture",
            ])
            .env(KILLED, &bench.tree.top)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "keeping"), "the child ended");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(n as u64 % 40 * 211) {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for entry in fs::read_dir(bench.store()).unwrap() {
        n_left += usize::from(entry.unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    }
    let ids = bench.ids(None);
    assert!(KILLS <= ids.len());
    let n_unsettled = ids.iter().filter(|id| {
        let [entry] = bench.checkpoints.entries(**id).unwrap().try_into().unwrap();
        let content = bench.checkpoints.content(&entry.path, &entry.before).unwrap();
        content.write_to(&mut std::io::sink()).unwrap();
        !entry.settled
    });
    println!("{n_left} half contents and {} open changes were left", n_unsettled.count());
    bench.checkpoints.collect().unwrap();
    assert_eq!(bench.n_stored(), ids.len(), "what no checkpoint names is collected");
}
