//! A program that swaps a directory for a link to the outside, as fast as it can, while calls run.
//!
//! The same harness first shows that the usual way, resolving a path and then opening what came out,
//! leaks: a race without a loser proves nothing.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, openat, renameat_with};
use sinew_testkit::OnDrop;
use sinew_tool::{Access, Entry, Expect, Flow, Slot, Visitor, Visitors, WalkOptions};

use crate::tree::{OPTIONS, RESOLVERS, Tree, WRITE, rounds, world};

const CALLS: usize = 1_200;
/// A busy machine may let the swapper win for a long time.
const PATIENCE: Duration = Duration::from_secs(20);

/// `ws/swap` is at times a directory and at times a link to `outside`, which holds the same names.
fn tree() -> Tree {
    let tree = Tree::new();
    for n in 0..20 {
        tree.write(&format!("swap/deep/{n}.txt"), "inside");
    }
    fs::create_dir(tree.outside.join("deep")).unwrap();
    for n in 0..20 {
        fs::write(tree.outside.join(format!("deep/{n}.txt")), "SECRET").unwrap();
    }
    fs::write(tree.outside.join("deep/only-outside.txt"), "SECRET").unwrap();
    tree.link("other", &tree.outside);
    tree
}

/// Runs calls while another thread swaps.
fn race(tree: &Tree, calls: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            let dir = openat(CWD, &tree.root, flags, Mode::empty()).unwrap();
            while !over.load(Ordering::Relaxed) {
                renameat_with(&dir, "swap", &dir, "other", RenameFlags::EXCHANGE).unwrap();
            }
        });
        let end = OnDrop(&over);
        calls();
        drop(end);
    });
}

#[test]
fn resolving_a_path_and_opening_the_result_leaks_here() {
    let tree = tree();
    let mut leaks = 0;
    race(&tree, || {
        let end = Instant::now() + Duration::from_secs(60);
        while leaks == 0 && Instant::now() < end {
            let path = tree.root.join("swap/deep/1.txt");
            let Ok(real) = fs::canonicalize(&path) else { continue };
            if !real.starts_with(&tree.root) {
                continue;
            }
            leaks += usize::from(fs::read(&real).is_ok_and(|text| text == b"SECRET"));
        }
    });
    assert!(0 < leaks, "the harness does not race");
}

#[test]
fn reads_never_leak() {
    let tree = tree();
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        let mut n_read = 0;
        race(&tree, || {
            let until = Instant::now() + PATIENCE;
            for n in 0.. {
                if rounds(CALLS) * 5 <= n && (0 < n_read || until < Instant::now()) {
                    break;
                }
                let Ok(world) = world(&guard, "swap/deep/1.txt", Access::Read) else { continue };
                let Ok(opened) = world.files.open(Slot(0)) else { continue };
                assert_eq!(std::io::read_to_string(opened.file).unwrap(), "inside");
                n_read += 1;
            }
        });
        assert!(0 < n_read, "no read succeeded");
    }
}

#[test]
fn changes_never_leave_the_root() {
    let tree = tree();
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        let mut n_changed = 0;
        race(&tree, || {
            let until = Instant::now() + PATIENCE;
            for n in 0.. {
                if rounds(CALLS) * 2 <= n && (0 < n_changed || until < Instant::now()) {
                    break;
                }
                let path = match n % 2 {
                    0 => String::from("swap/deep/1.txt"),
                    _ => format!("swap/new{n}/file.txt"),
                };
                let Ok(world) = world(&guard, &path, WRITE) else { continue };
                let done = world.files.replace(Slot(0), &[b"inside"], Expect::Any);
                n_changed += usize::from(done.is_ok());
            }
        });
        assert!(0 < n_changed, "no change succeeded");
    }
    let mut outside: Vec<_> =
        fs::read_dir(&tree.outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    outside.sort();
    assert_eq!(outside, ["deep", "secret.txt"]);
    assert_eq!(fs::read_dir(tree.outside.join("deep")).unwrap().count(), 21);
    for n in 0..20 {
        let content = fs::read_to_string(tree.outside.join(format!("deep/{n}.txt"))).unwrap();
        assert_eq!(content, "SECRET");
    }
}

#[test]
fn listings_never_show_the_outside() {
    let tree = tree();
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        let mut n_listed = 0;
        race(&tree, || {
            let until = Instant::now() + PATIENCE;
            for n in 0.. {
                if rounds(CALLS) <= n && (0 < n_listed || until < Instant::now()) {
                    break;
                }
                let Ok(world) = world(&guard, "swap/deep", Access::Search) else { continue };
                let Ok(listing) = world.files.list(Slot(0), 100) else { continue };
                assert_eq!(listing.total, 20);
                n_listed += 1;
            }
        });
        assert!(0 < n_listed, "no listing succeeded");
    }
}

/// Reads whatever a walk shows.
struct Reading(Mutex<Vec<String>>);

impl Visitors for Reading {
    fn visitor(&self) -> Box<dyn Visitor + '_> {
        Box::new(ReadingOne(&self.0))
    }
}

struct ReadingOne<'r>(&'r Mutex<Vec<String>>);

impl Visitor for ReadingOne<'_> {
    fn visit(&mut self, entry: &dyn Entry) -> Flow {
        let shown = entry.path().display().to_string();
        let text = entry.open().map(|file| std::io::read_to_string(file).unwrap());
        if shown.contains("only-outside") || text.is_ok_and(|text| text != "inside") {
            self.0.lock().unwrap().push(shown);
        }
        Flow::Continue
    }
}

#[test]
fn walks_never_enter_the_outside() {
    let tree = tree();
    let options = WalkOptions { directories: true, ..OPTIONS };
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        let world = world(&guard, ".", Access::Search).unwrap();
        let reading = Reading(Mutex::default());
        race(&tree, || {
            for _ in 0..rounds(CALLS) {
                world.files.walk(Slot(0), &options, &reading, &AtomicBool::new(false)).unwrap();
            }
        });
        assert_eq!(reading.0.into_inner().unwrap(), Vec::<String>::new());
    }
}
