//! What containment and atomicity cost: one read and one write of 1 KB, with and without them, and
//! one write of 1 MB and one of 50 MB.
//!
//! `cargo bench -p sinew-guard --bench files`

#![expect(clippy::disallowed_methods, reason = "a benchmark compares with the plain way")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail loudly")]

use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sinew_guard::{Case, Guard, GuardSettings, Profile, Rules};
use sinew_tool::{Access, Claim, Expect, Facts, Links, Slot, World};

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
}

fn world(guard: &Arc<Guard>, access: Access) -> World {
    let claim = Claim { argument: "path", path: Some("a/b/c/d/file.txt".into()), access };
    let contained = guard.contain(&[claim], None, None).unwrap();
    let (facts, rules) = (&Facts::CHANGES, Rules { profile: Profile::Full, ..Rules::default() });
    let case = Case { tool: "bench", operation: "Bench", facts, effects: facts.effects };
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
