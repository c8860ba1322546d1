//! Full disks and limits: the change fails with the right word, and the old file is untouched.

use std::fs;
use std::process::Command;

use sinew_tool::{Expect, FileError, FileSettings, HardLinks, Slot, Sync};

use crate::tree::{EDIT, RESOLVERS, Tree, WRITE, skipped, world};

const CHILD: &str = "SINEW_GUARD_TEST_CHILD";

/// Runs one test of this binary again in a shell that first sets limits. Returns whether this
/// process is that run.
pub(crate) fn is_child_under(limits: &str, test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let script = format!("{limits} exec \"$0\" --exact {test} --nocapture");
    // Through pipes: a limit on files would also hold for a file that this test's output goes to.
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} failed under {limits}\n{said}");
    false
}

fn refuses(tree: &Tree, big: &[u8]) {
    for resolver in RESOLVERS {
        for sync in [Sync::Off, Sync::Data, Sync::Full] {
            let settings = FileSettings { sync, ..FileSettings::default() };
            let guard = tree.guard_with(resolver, settings);
            let before = tree.everything();
            for (path, access) in [("a.txt", EDIT), ("new.txt", WRITE), ("n/e/w.txt", WRITE)] {
                let world = world(&guard, path, access).unwrap();
                let result = world.files.replace(Slot(0), &[big], Expect::Any);
                assert!(matches!(result, Err(FileError::Full(_))), "{path}: {result:?}");
                assert!(world.files.changes().is_empty());
                assert!(before == tree.everything(), "{path} left something behind");
            }
        }
    }
}

#[test]
fn a_limit_of_file_size_leaves_the_old_file() {
    let name = "disk::a_limit_of_file_size_leaves_the_old_file";
    // The signal that comes with the limit is ignored, as servers do.
    if is_child_under("trap '' XFSZ; ulimit -f 8;", name) {
        let tree = Tree::new().with(&[("a.txt", "old")]);
        refuses(&tree, &vec![b'x'; 64 * 1024]);
    }
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let tree = Tree::new();
    let mount = |args: &[&str]| {
        let status = Command::new("mount").args(args).arg(&tree.root).status();
        status.is_ok_and(|status| status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"]) {
        return skipped("mounting is not permitted here, so no disk is full");
    }
    fs::write(tree.root.join("a.txt"), "old").unwrap();
    let result = std::panic::catch_unwind(|| {
        refuses(&tree, &vec![b'x'; 256 * 1024]);
        in_place_on_a_full_disk(&tree);
        // A process that another test starts at this moment holds its descriptors until it executes.
        let mut tries = 0..50;
        while !mount(&["-o", "remount,ro"]) {
            assert!(tries.next().is_some(), "the disk becomes read-only");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        for (path, access) in [("a.txt", EDIT), ("new.txt", WRITE), ("n/e/w.txt", WRITE)] {
            let world = world(&tree.guard(RESOLVERS[0]), path, access).unwrap();
            let result = world.files.replace(Slot(0), &[b"x"], Expect::Any);
            assert!(matches!(result, Err(FileError::ReadOnly)), "{path}: {result:?}");
        }
    });
    let status = Command::new("umount").arg(&tree.root).status().unwrap();
    assert!(status.success());
    result.unwrap();
}

/// Writing in place is not atomic, and says so; it still fails with the right word.
fn in_place_on_a_full_disk(tree: &Tree) {
    fs::hard_link(tree.root.join("a.txt"), tree.root.join("b.txt")).unwrap();
    let settings = FileSettings { hard_links: HardLinks::InPlace, ..FileSettings::default() };
    let guard = tree.guard_with(RESOLVERS[0], settings);
    let world = world(&guard, "a.txt", EDIT).unwrap();
    let result = world.files.replace(Slot(0), &[&[b'x'; 256 * 1024]], Expect::Any);
    assert!(matches!(result, Err(FileError::Full(_))), "{result:?}");
    fs::remove_file(tree.root.join("b.txt")).unwrap();
    fs::write(tree.root.join("a.txt"), "old").unwrap();
}
