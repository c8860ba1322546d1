//! What containment and atomicity cost: one read and one write of 1 KB, with and without them, and
//! one write of 1 MB and one of 50 MB. What the checkpoint of such a write costs beside it: of a
//! content that was never kept, and of one that is there already; and a whole write with and without.
//!
//! `cargo bench -p sinew-guard --bench files`

#![expect(clippy::disallowed_methods, reason = "a benchmark compares with the plain way")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark may fail loudly"
)]

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sinew_guard::checkpoints::{Before, CallContext, PathState};
use sinew_guard::{
    Case, CheckpointSettings, Checkpoints, Guard, GuardSettings, Profile, Rules, StateDir,
};
use sinew_tool::{
    Access, Caller, Claim, Expect, Facts, FileKind, FileMeta, Identity, Links, Slot, Stamp, World,
};

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a/b/c/d");
    fs::create_dir_all(&root).unwrap();
    let path = root.join("file.txt");
    fs::write(&path, vec![b'x'; 1_024]).unwrap();
    let guard = Guard::open(GuardSettings::new(vec![dir.path().to_owned()])).unwrap();

    let plain = time(20_000, || fs::read(&path).unwrap().len());
    let ours = time(20_000, || read(&guard).len());
    println!("read 1 KB   plain {plain:?}  guard {ours:?}");

    let temporary = root.join("temporary");
    for (name, size, rounds) in
        [("1 KB", 1_024, 3_000), ("1 MB", 1 << 20, 200), ("50 MB", 50 << 20, 7)]
    {
        let content = vec![b'y'; size];
        let plain = time(rounds, || {
            fs::write(&temporary, &content).unwrap();
            fs::rename(&temporary, &path).unwrap();
            0
        });
        let ours = time(rounds, || write(&guard, &content));
        println!("write {name:5} plain {plain:?}  guard {ours:?}");
    }

    let kept = Checkpoints::new(
        &StateDir::open(&dir.path().join("kept")).unwrap(),
        CheckpointSettings::default(),
    );
    let kept = Guard::open(GuardSettings {
        checkpoints: Some(Arc::new(kept)),
        ..GuardSettings::new(vec![dir.path().to_owned()])
    })
    .unwrap();
    for (name, size, rounds) in [("1 KB", 1_024, 3_000), ("1 MB", 1 << 20, 300)] {
        let mut n = 0;
        // Another text each time, so that none is in the store yet.
        let mut next = || {
            n += 1;
            let mut text = format!("{n} and some more text\n").repeat(size / 20 + 1);
            text.truncate(size);
            text
        };
        let texts: Vec<String> = (0..rounds.min(600)).map(|_| next()).collect();
        let mut both = [&guard, &kept].map(|guard| {
            let mut at = texts.iter().cycle();
            time(rounds.min(600), || write(guard, at.next().unwrap().as_bytes()))
        });
        both.reverse();
        let [with, without] = both;
        println!("write {name:5} without a checkpoint {without:?}  with one {with:?}");
    }

    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let checkpoints = Checkpoints::new(&state, CheckpointSettings::default());
    for (name, size, rounds) in
        [("1 KB", 1_024, 3_000), ("20 KB", 20_000, 1_000), ("50 MB", 50 << 20, 7)]
    {
        // Text, which can be packed, and another one in each file.
        let paths: Vec<PathBuf> = (0..rounds).map(|n| root.join(format!("{size}-{n}"))).collect();
        for (n, path) in paths.iter().enumerate() {
            let content = format!("{n} and some more text\n").repeat(size / 20);
            fs::write(path, content.get(..size).unwrap()).unwrap();
        }
        let mut next = paths.iter();
        let new = time(rounds, || checkpoint(&checkpoints, next.next().unwrap()));
        let known = time(rounds, || checkpoint(&checkpoints, &paths[0]));
        println!("checkpoint {name:5} new content {new:?}  known content {known:?}");
    }
}

/// Makes the checkpoint of a change of a file, without the change.
fn checkpoint(checkpoints: &Checkpoints, path: &Path) -> usize {
    let mut draft = checkpoints.begin(CallContext {
        session: String::from("s"),
        agent: None,
        turn: None,
        call_id: String::from("toolu_1"),
        dialect: String::from("native"),
        tool: String::from("Edit"),
        roots: vec![PathBuf::from("/work")],
        restores: None,
    });
    let opened = fs::File::open(path).unwrap();
    let meta = meta_of(&opened);
    let after = PathState::file(b"new", 0o644);
    draft.keep(path, Before::File(&opened, &meta), Some(after.clone())).unwrap();
    draft.record(Duration::from_secs(5)).unwrap();
    draft.settle(path, after);
    1
}

fn meta_of(file: &fs::File) -> FileMeta {
    let meta = file.metadata().unwrap();
    let stamp = |seconds, nanos| Stamp { seconds, nanos: u32::try_from(nanos).unwrap() };
    let identity = Identity {
        device: meta.dev(),
        inode: meta.ino(),
        size: meta.size(),
        modified: stamp(meta.mtime(), meta.mtime_nsec()),
        changed: stamp(meta.ctime(), meta.ctime_nsec()),
    };
    FileMeta { kind: FileKind::File, identity, mode: meta.mode() & 0o7777, links: meta.nlink() }
}

fn world(guard: &Arc<Guard>, access: Access) -> World {
    let claim = Claim::new("path", Some("a/b/c/d/file.txt".into()), access);
    let contained = guard.contain(&[claim], None, None).unwrap().by(
        Caller {
            session: String::from("s"),
            agent: None,
            turn: None,
            call_id: String::from("toolu_1"),
            tool: String::from("Edit"),
            dialect: "native".into(),
        },
        None,
    );
    let (facts, rules) = (&Facts::CHANGES, Rules { profile: Profile::Full, ..Rules::default() });
    let case =
        Case { tool: "bench", operation: "Bench", facts, effects: facts.effects, agent: None };
    Guard::clear(contained.judge(&case, &rules).by_ruling().unwrap()).unwrap().world
}

fn read(guard: &Arc<Guard>) -> Vec<u8> {
    let mut opened = world(guard, Access::Read).files.open(Slot(0)).unwrap();
    let mut bytes = Vec::with_capacity(1_025);
    opened.file.read_to_end(&mut bytes).unwrap();
    bytes
}

fn write(guard: &Arc<Guard>, content: &[u8]) -> usize {
    let access = Access::Write { parents: true, links: Links::Follow };
    let written = world(guard, access).files.replace(Slot(0), &[content], Expect::Any).unwrap();
    usize::from(written.created)
}

/// Returns the median of some rounds.
fn time(rounds: usize, mut work: impl FnMut() -> usize) -> Duration {
    let mut times: Vec<_> = (0..rounds)
        .map(|_| {
            let at = Instant::now();
            std::hint::black_box(work());
            at.elapsed()
        })
        .collect();
    times.sort();
    times.get(rounds / 2).copied().unwrap_or_default()
}
