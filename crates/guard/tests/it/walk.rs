//! Walks see everything once, stop when told, and survive odd trees.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, openat};
use sinew_tool::{Access, Entry, FileError, FileKind, Flow, Slot, Visitor, Visitors, WalkOptions};

use crate::disk::is_child_under;
use crate::tree::{Names, OPTIONS, RESOLVERS, Tree, skipped, walk, world};

#[test]
fn options_decide_what_is_shown() {
    let tree = Tree::new().with(&[
        ("a", ""),
        ("d/b", ""),
        ("d/e/c", ""),
        (".hidden/x", ""),
        (".git/config", ""),
        ("d/.molf/x", ""),
        ("sub/.git", "gitdir: elsewhere"),
    ]);
    tree.link("link", "d");
    let cases: &[(&str, WalkOptions, &str, u64)] = &[
        (".", OPTIONS, ".hidden/x a d/b d/e/c link sub/.git", 2),
        (
            ".",
            WalkOptions { directories: true, ..OPTIONS },
            ".hidden .hidden/x a d d/b d/e d/e/c link sub sub/.git",
            2,
        ),
        (".", WalkOptions { max_depth: Some(0), ..OPTIONS }, "a link", 1),
        (".", WalkOptions { max_depth: Some(1), ..OPTIONS }, ".hidden/x a d/b link sub/.git", 2),
        (
            ".",
            WalkOptions { max_depth: Some(0), directories: true, ..OPTIONS },
            ".hidden a d link sub",
            1,
        ),
        (
            ".",
            WalkOptions { enter_state: true, ..OPTIONS },
            ".git/config .hidden/x a d/.molf/x d/b d/e/c link sub/.git",
            0,
        ),
        // What the path names is walked, whatever it is.
        (".git", OPTIONS, "config", 0),
        ("d", OPTIONS, "b e/c", 1),
        ("link", OPTIONS, "b e/c", 1),
        ("d/e", OPTIONS, "c", 0),
    ];
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        for (path, options, expected, hidden) in cases {
            let (names, report) = walk(&guard, path, options);
            assert_eq!(names.join(" "), *expected, "{path} {options:?}");
            assert_eq!((report.skipped.hidden, report.complete), (*hidden, true), "{path}");
        }
    }
}

#[test]
fn a_file_cannot_be_walked() {
    let tree = Tree::new().with(&[("a", "")]);
    let world = world(&tree.guard(RESOLVERS[0]), "a", Access::Search).unwrap();
    let names = Names(Mutex::default());
    let result = world.files.walk(Slot(0), &OPTIONS, &names, &AtomicBool::new(false));
    assert!(matches!(result, Err(FileError::NotDirectory)));
}

#[test]
fn large_directories_are_shared_and_every_entry_is_seen_once() {
    let tree = Tree::new();
    fs::create_dir(tree.root.join("flat")).unwrap();
    for n in 0..2_000 {
        fs::write(tree.root.join(format!("flat/{n:05}")), "").unwrap();
    }
    for n in 0..100 {
        tree.write(&format!("wide/{n}/file"), "");
    }
    for resolver in RESOLVERS {
        let (names, report) = walk(&tree.guard(resolver), ".", &OPTIONS);
        assert_eq!(names.len(), 2_100);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 2_100);
        assert!(report.complete && report.skipped.is_empty());
    }
}

/// Opens, looks and counts what it can.
struct Opening {
    opened: AtomicUsize,
    looked: AtomicUsize,
}

impl Visitors for Opening {
    fn visitor(&self) -> Box<dyn Visitor + '_> {
        Box::new(OpeningOne(self))
    }
}

struct OpeningOne<'o>(&'o Opening);

impl Visitor for OpeningOne<'_> {
    fn visit(&mut self, entry: &dyn Entry) -> Flow {
        if let Ok(meta) = entry.meta() {
            assert_eq!(meta.kind, entry.kind());
            self.0.looked.fetch_add(1, Ordering::Relaxed);
        }
        match entry.open() {
            Ok(file) => {
                assert_eq!(std::io::read_to_string(file).unwrap(), "text");
                self.0.opened.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => assert_ne!(entry.kind(), FileKind::File, "{error:?}"),
        }
        Flow::Continue
    }
}

#[test]
fn entries_are_looked_at_and_opened_on_their_directory() {
    let tree = Tree::new().with(&[("a", "text"), ("d/b", "text"), ("d/e/c", "text")]);
    tree.link("d/link", "/etc/passwd");
    tree.link("loop", ".");
    fs::write(tree.root.join(std::ffi::OsStr::from_bytes(b"\xfe")), "text").unwrap();
    for resolver in RESOLVERS {
        let world = world(&tree.guard(resolver), ".", Access::Search).unwrap();
        let opening = Opening { opened: AtomicUsize::new(0), looked: AtomicUsize::new(0) };
        world.files.walk(Slot(0), &OPTIONS, &opening, &AtomicBool::new(false)).unwrap();
        assert_eq!((opening.opened.into_inner(), opening.looked.into_inner()), (4, 6));
    }
}

/// Makes a chain of directories that is longer than any path may be.
fn dig(tree: &Tree, levels: usize) {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut dir = openat(rustix::fs::CWD, &tree.root, flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        rustix::fs::mkdirat(&dir, "d", Mode::from_raw_mode(0o755)).unwrap();
        dir = openat(&dir, "d", flags, Mode::empty()).unwrap();
    }
}

/// Removes the chain by taking its far end apart, since a path to it cannot be written.
fn fill_in(tree: &Tree) {
    while fs::metadata(tree.root.join("d")).is_ok() {
        let deep = tree.root.join(["d"; 1_000].join("/"));
        if fs::rename(&deep, tree.root.join("cut")).is_ok() {
            fs::remove_dir_all(tree.root.join("d")).unwrap();
            fs::rename(tree.root.join("cut"), tree.root.join("d")).unwrap();
        } else {
            fs::remove_dir_all(tree.root.join("d")).unwrap();
        }
    }
}

#[test]
fn trees_deeper_than_paths_are_walked_as_far_as_paths_go() {
    let tree = Tree::new().with(&[("a", "")]);
    dig(&tree, 5_000);
    for resolver in RESOLVERS {
        let options = WalkOptions { directories: true, ..OPTIONS };
        let (names, report) = walk(&tree.guard(resolver), ".", &options);
        assert_eq!(report.skipped.unreadable, 1);
        assert!(report.complete);
        assert_eq!(names.len(), 2_050, "{resolver:?}");
    }
    fill_in(&tree);
}

#[test]
fn few_descriptors_are_enough() {
    let name = "walk::few_descriptors_are_enough";
    if !is_child_under("ulimit -n 256;", name) {
        return;
    }
    let tree = Tree::new();
    for n in 0..300 {
        tree.write(&format!("{n}/a/b/file"), "text");
    }
    let deep = ["deep"; 300].join("/");
    tree.write(&format!("{deep}/file"), "text");
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        let (names, report) = walk(&guard, ".", &OPTIONS);
        assert_eq!((names.len(), report.skipped.is_empty()), (301, true), "{resolver:?}");
        // Component by component, each directory on the way is held until the last is open.
        if resolver == RESOLVERS[0] {
            assert!(crate::tree::read(&guard, &format!("{deep}/file")).is_ok());
        }
    }
}

/// Takes its time, and counts how often.
struct Slow(AtomicUsize);

impl Visitors for Slow {
    fn visitor(&self) -> Box<dyn Visitor + '_> {
        Box::new(SlowOne(&self.0))
    }
}

struct SlowOne<'s>(&'s AtomicUsize);

impl Visitor for SlowOne<'_> {
    fn visit(&mut self, _entry: &dyn Entry) -> Flow {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
        Flow::Continue
    }
}

/// A search of few large files keeps every processor busy.
#[test]
fn few_entries_that_take_long_are_shared() {
    struct Threads(Mutex<BTreeSet<String>>);
    struct Thread<'t>(&'t Threads);
    impl Visitors for Threads {
        fn visitor(&self) -> Box<dyn Visitor + '_> {
            Box::new(Thread(self))
        }
    }
    impl Visitor for Thread<'_> {
        fn visit(&mut self, _entry: &dyn Entry) -> Flow {
            let thread = format!("{:?}", std::thread::current().id());
            self.0.0.lock().unwrap().insert(thread);
            std::thread::sleep(Duration::from_millis(20));
            Flow::Continue
        }
    }
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skipped("one processor has nothing to share");
    }
    let tree = Tree::new();
    for n in 0..8 {
        tree.write(&n.to_string(), "");
    }
    let world = world(&tree.guard(RESOLVERS[0]), ".", Access::Search).unwrap();
    let threads = Threads(Mutex::default());
    world.files.walk(Slot(0), &OPTIONS, &threads, &AtomicBool::new(false)).unwrap();
    assert!(1 < threads.0.into_inner().unwrap().len());
}

#[test]
fn a_visitor_that_declines_a_directory_does_not_see_what_lies_beneath() {
    struct Shy<'n>(&'n Names);
    struct ShyOne<'n>(Box<dyn Visitor + 'n>);
    impl Visitors for Shy<'_> {
        fn visitor(&self) -> Box<dyn Visitor + '_> {
            Box::new(ShyOne(self.0.visitor()))
        }
    }
    impl Visitor for ShyOne<'_> {
        fn visit(&mut self, entry: &dyn Entry) -> Flow {
            self.0.visit(entry)
        }
        fn enter(&mut self, path: &std::path::Path) -> bool {
            path != std::path::Path::new("d/e")
        }
    }
    let tree = Tree::new().with(&[("a", ""), ("d/b", ""), ("d/e/c", ""), ("e/f", "")]);
    for resolver in RESOLVERS {
        let world = world(&tree.guard(resolver), ".", Access::Search).unwrap();
        let names = Names(Mutex::default());
        let stop = AtomicBool::new(false);
        let report = world.files.walk(Slot(0), &OPTIONS, &Shy(&names), &stop).unwrap();
        let mut names = names.0.into_inner().unwrap();
        names.sort();
        assert_eq!((names.join(" ").as_str(), report.complete), ("a d/b e/f", true));
    }
}

#[test]
fn a_walk_that_is_taken_back_ends_at_once() {
    let tree = Tree::new();
    for n in 0..2_000 {
        tree.write(&format!("{}/{n}", n % 40), "");
    }
    for resolver in RESOLVERS {
        let world = world(&tree.guard(resolver), ".", Access::Search).unwrap();
        let (slow, stop) = (Slow(AtomicUsize::new(0)), AtomicBool::new(false));
        let (report, late) = std::thread::scope(|scope| {
            let walk = scope.spawn(|| world.files.walk(Slot(0), &OPTIONS, &slow, &stop).unwrap());
            while slow.0.load(Ordering::Relaxed) < 20 {
                std::thread::yield_now();
            }
            let at = Instant::now();
            stop.store(true, Ordering::Relaxed);
            (walk.join().unwrap(), at.elapsed())
        });
        assert!(!report.complete);
        assert!(late < Duration::from_millis(100), "{late:?}");
        assert!(slow.0.into_inner() < 2_000);
    }
}

/// Stops after so many entries.
struct Enough {
    seen: AtomicUsize,
    limit: usize,
}

impl Visitors for Enough {
    fn visitor(&self) -> Box<dyn Visitor + '_> {
        Box::new(EnoughOne(self))
    }
}

struct EnoughOne<'e>(&'e Enough);

impl Visitor for EnoughOne<'_> {
    fn visit(&mut self, _entry: &dyn Entry) -> Flow {
        match self.0.seen.fetch_add(1, Ordering::Relaxed) + 1 < self.0.limit {
            true => Flow::Continue,
            false => Flow::Stop,
        }
    }
}

#[test]
fn a_visitor_can_stop_the_whole_walk() {
    let tree = Tree::new();
    for n in 0..1_000 {
        tree.write(&format!("{}/{n}", n % 20), "");
    }
    for resolver in RESOLVERS {
        let world = world(&tree.guard(resolver), ".", Access::Search).unwrap();
        let enough = Enough { seen: AtomicUsize::new(0), limit: 10 };
        let report = world.files.walk(Slot(0), &OPTIONS, &enough, &AtomicBool::new(false)).unwrap();
        assert!(!report.complete);
        assert!(enough.seen.into_inner() < 20);
    }
}

#[test]
fn a_visitor_that_panics_ends_the_walk() {
    struct Panicking;
    impl Visitors for Panicking {
        fn visitor(&self) -> Box<dyn Visitor + '_> {
            Box::new(Panicking)
        }
    }
    impl Visitor for Panicking {
        fn visit(&mut self, entry: &dyn Entry) -> Flow {
            assert!(!entry.path().ends_with("500"), "on purpose");
            Flow::Continue
        }
    }
    let tree = Tree::new();
    for n in 0..1_000 {
        tree.write(&format!("{}/{n}", n % 20), "");
    }
    let world = world(&tree.guard(RESOLVERS[0]), ".", Access::Search).unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = world.files.walk(Slot(0), &OPTIONS, &Panicking, &AtomicBool::new(false));
    }));
    assert!(result.is_err());
}

#[test]
fn unreadable_directories_are_counted() {
    let tree = Tree::new().with(&[("a", ""), ("closed/b", "")]);
    let closed = tree.root.join("closed");
    let chmod = |mode| {
        fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    tree.without_root(|| {
        chmod(0o000);
        let (names, report) = walk(&tree.guard(RESOLVERS[0]), ".", &OPTIONS);
        chmod(0o755);
        assert_eq!((names.join(" ").as_str(), report.skipped.unreadable), ("a", 1));
    });
}

#[test]
fn links_are_shown_and_never_followed() {
    let tree = Tree::new().with(&[("d/a", "")]);
    tree.link("d/up", "..");
    tree.link("self", ".");
    tree.link("out", &tree.outside);
    symlink("nowhere", tree.root.join("dangling")).unwrap();
    for resolver in RESOLVERS {
        let (names, report) = walk(&tree.guard(resolver), ".", &OPTIONS);
        assert_eq!(names.join(" "), "d/a d/up dangling out self");
        assert!(report.skipped.is_empty());
    }
}
