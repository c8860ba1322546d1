//! Compares a walk with `rg --files --hidden` over the same directory, file by file.
//!
//! `cargo bench -p sinew-guard --bench walk -- DIRECTORY [RG]` prints the medians, the ratio and
//! whether both saw the same files.

#![expect(clippy::disallowed_methods, reason = "a benchmark starts the program it compares with")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail loudly")]

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sinew_guard::{Case, Guard, GuardSettings, Rules};
use sinew_tool::{
    Access, Claim, Entry, Facts, FileKind, Flow, Slot, Visitor, Visitors, WalkOptions, World,
};

const ROUNDS: usize = 15;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let Some(directory) = args.next() else {
        println!("usage: walk DIRECTORY [RG]");
        return;
    };
    let rg = args.next().unwrap_or_else(|| String::from("rg"));
    let guard = Guard::open(GuardSettings::new(vec![PathBuf::from(&directory)])).unwrap();
    let claim = Claim::new("path", None, Access::Search);
    let contained = guard.contain(&[claim], None, None).unwrap();
    let (facts, rules) = (&Facts::OBSERVES, Rules::default());
    let case =
        Case { tool: "bench", operation: "Bench", facts, effects: facts.effects, agent: None };
    let world = contained.judge(&case, &rules).looking().unwrap();

    let (mut walks, mut searches, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    let mut n_files = 0;
    for _ in 0..ROUNDS {
        let at = Instant::now();
        n_files = count(&world);
        walks.push(at.elapsed());
        let at = Instant::now();
        run(&rg, &directory);
        searches.push(at.elapsed());
        let at = Instant::now();
        let listing = world.files.list(Slot(0), 1_000).unwrap();
        lists.push(at.elapsed());
        assert!(listing.rows.len() <= 1_000);
    }
    let (walk, search) = (median(walks), median(searches));
    println!("files {n_files}");
    println!(
        "walk  {walk:?}\nrg    {search:?}\nratio {:.2}",
        walk.as_secs_f64() / search.as_secs_f64()
    );
    println!("list  {:?}", median(lists));

    let ours = names(&world);
    let theirs = run(&rg, &directory);
    let theirs: BTreeSet<Vec<u8>> = theirs
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| name.strip_prefix(b"./").unwrap_or(name).to_vec())
        .collect();
    println!("same  {}", ours == theirs);
    for name in ours.symmetric_difference(&theirs).take(10) {
        println!("      {}", String::from_utf8_lossy(name));
    }
}

fn run(rg: &str, directory: &str) -> Vec<u8> {
    let args = ["--files", "--hidden", "--null", "--glob", "!.git/", "--no-messages"];
    Command::new(rg).args(args).current_dir(directory).output().unwrap().stdout
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

const OPTIONS: WalkOptions =
    WalkOptions { heed_ignore: true, enter_state: false, max_depth: None, directories: false };

fn count(world: &World) -> usize {
    let n = Count(AtomicUsize::new(0));
    world.files.walk(Slot(0), &OPTIONS, &n, &AtomicBool::new(false)).unwrap();
    n.0.into_inner()
}

struct Count(AtomicUsize);

impl Visitors for Count {
    fn visitor(&self) -> Box<dyn Visitor + '_> {
        Box::new(Counting { all: &self.0, n: 0 })
    }
}

struct Counting<'c> {
    all: &'c AtomicUsize,
    n: usize,
}

impl Visitor for Counting<'_> {
    fn visit(&mut self, entry: &dyn Entry) -> Flow {
        self.n += usize::from(entry.kind() == FileKind::File);
        Flow::Continue
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.all.fetch_add(self.n, Ordering::Relaxed);
    }
}

fn names(world: &World) -> BTreeSet<Vec<u8>> {
    let names = Names(Mutex::default());
    world.files.walk(Slot(0), &OPTIONS, &names, &AtomicBool::new(false)).unwrap();
    names.0.into_inner().unwrap()
}

struct Names(Mutex<BTreeSet<Vec<u8>>>);

impl Visitors for Names {
    fn visitor(&self) -> Box<dyn Visitor + '_> {
        Box::new(Naming(&self.0))
    }
}

struct Naming<'n>(&'n Mutex<BTreeSet<Vec<u8>>>);

impl Visitor for Naming<'_> {
    fn visit(&mut self, entry: &dyn Entry) -> Flow {
        if entry.kind() == FileKind::File {
            self.0.lock().unwrap().insert(entry.path().as_os_str().as_bytes().to_vec());
        }
        Flow::Continue
    }
}
