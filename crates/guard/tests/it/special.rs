//! FIFOs, sockets, devices and directories are answered at once and never opened for what they are.

use std::fs;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, makedev, mkfifoat, mknodat};
use sinew_tool::{Access, Expect, FileError, FileKind, Slot};

use crate::tree::{OPTIONS, RESOLVERS, Tree, WRITE, skipped, walk, world};

const AT_ONCE: Duration = Duration::from_millis(100);

#[test]
fn nothing_but_a_regular_file_is_opened_or_replaced() {
    let tree = Tree::new().with(&[("dir/x", ""), ("file", "text")]);
    let mode = Mode::from_raw_mode(0o666);
    mkfifoat(CWD, tree.root.join("fifo"), mode).unwrap();
    mknodat(CWD, tree.root.join("socket"), FileType::Socket, mode, 0).unwrap();
    let mut cases = vec![
        ("fifo", FileKind::Special),
        ("socket", FileKind::Special),
        ("dir", FileKind::Directory),
    ];
    let device = tree.root.join("device");
    if mknodat(CWD, &device, FileType::CharacterDevice, mode, makedev(1, 5)).is_ok() {
        cases.push(("device", FileKind::Special));
    } else {
        skipped("no devices can be made here");
    }
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        for (path, kind) in &cases {
            let at = Instant::now();
            let looked = world(&guard, path, Access::Read).unwrap();
            assert_eq!(looked.files.meta(Slot(0)).unwrap().kind, *kind);
            let opened = looked.files.open(Slot(0));
            assert!(matches!(opened, Err(FileError::NotRegular(found)) if found == *kind));
            let changed = world(&guard, path, WRITE).unwrap();
            let replaced = changed.files.replace(Slot(0), &[b"x"], Expect::Any);
            assert!(matches!(replaced, Err(FileError::NotRegular(found)) if found == *kind));
            assert!(at.elapsed() < AT_ONCE, "{path} took {:?}", at.elapsed());
        }
        let (names, report) = walk(&guard, ".", &OPTIONS);
        assert_eq!(names.len(), cases.len() + 1);
        assert!(report.complete);
    }
}

#[test]
fn a_file_that_becomes_a_fifo_does_not_block() {
    let tree = Tree::new().with(&[("file", "text")]);
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        tree.write("file", "text");
        let world = world(&guard, "file", Access::Read).unwrap();
        fs::remove_file(tree.root.join("file")).unwrap();
        mkfifoat(CWD, tree.root.join("file"), Mode::from_raw_mode(0o666)).unwrap();
        let at = Instant::now();
        assert!(matches!(world.files.open(Slot(0)), Err(FileError::NotRegular(_))));
        assert!(at.elapsed() < AT_ONCE);
        fs::remove_file(tree.root.join("file")).unwrap();
    }
}

#[test]
fn ignore_files_that_are_no_files_stop_nothing() {
    let tree = Tree::new().with(&[("a.txt", ""), ("sub/b.txt", ""), (".git/HEAD", "")]);
    for name in [".gitignore", ".ignore", "sub/.rgignore"] {
        mkfifoat(CWD, tree.root.join(name), Mode::from_raw_mode(0o666)).unwrap();
    }
    fs::write(tree.outside.join("rules"), "*\n").unwrap();
    tree.link("sub/.gitignore", tree.outside.join("rules"));
    for resolver in RESOLVERS {
        let at = Instant::now();
        let (names, _) = walk(&tree.guard(resolver), ".", &OPTIONS);
        assert!(at.elapsed() < AT_ONCE);
        let expected =
            [".gitignore", ".ignore", "a.txt", "sub/.gitignore", "sub/.rgignore", "sub/b.txt"];
        assert_eq!(names, expected);
    }
}
