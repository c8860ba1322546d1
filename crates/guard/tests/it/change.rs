//! Changes are whole, keep what the old file had, or leave it untouched.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use rustix::fs::{CWD, Mode, XattrFlags, getxattr, lgetxattr, lsetxattr};
use sinew_guard::Guard;
use sinew_testkit::access_list;
use sinew_tool::{
    Access, Becomes, Expect, FileError, FileMode, FileOp, FileSettings, HardLinks, Kind, Links,
    Seen, Slot, Sync, World,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::tree::{
    EDIT, OTHER_USER, RESOLVERS, Tree, WRITE, allow, approve, contain, replace, rounds, skipped,
    world,
};

fn mode(tree: &Tree, path: &str) -> u32 {
    fs::metadata(tree.root.join(path)).unwrap().permissions().mode() & 0o7777
}

fn chmod(tree: &Tree, path: &str, mode: u32) {
    fs::set_permissions(tree.root.join(path), fs::Permissions::from_mode(mode)).unwrap();
}

fn names(tree: &Tree) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(&tree.root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_change_is_told_with_hashes_and_bytes() {
    for resolver in RESOLVERS {
        let tree = Tree::new().with(&[("a.txt", "old")]);
        let guard = tree.guard(resolver);
        let world = world(&guard, "a.txt", EDIT).unwrap();
        let written = world.files.replace(Slot(0), &[b"n", b"", b"ew!"], Expect::Any).unwrap();
        assert_eq!((written.bytes, written.created), (4, false));
        assert_eq!(tree.read("a.txt"), "new!");
        let changes = world.files.changes();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].path, tree.root.join("a.txt"));
        let hash = |text: &[u8]| Some(sinew_guard::content_hash(text));
        assert_eq!(changes[0].before, hash(b"old"));
        assert_eq!(changes[0].after, hash(b"new!"));
        assert_eq!(names(&tree), ["a.txt"]);
    }
}

#[test]
fn thousands_of_pieces_become_one_file() {
    let tree = Tree::new();
    let guard = tree.guard(RESOLVERS[0]);
    let text: Vec<String> = (0..5_000).map(|n| format!("piece {n}\n")).collect();
    let pieces: Vec<&[u8]> = text.iter().map(|piece| piece.as_bytes()).collect();
    let world = world(&guard, "a.txt", WRITE).unwrap();
    let written = world.files.replace(Slot(0), &pieces, Expect::Any).unwrap();
    assert!(written.created);
    assert_eq!(tree.read("a.txt"), text.concat());
}

#[test]
fn mode_is_kept_without_set_id_bits_and_new_files_heed_the_umask() {
    for resolver in RESOLVERS {
        let tree = Tree::new().with(&[("a.txt", "old")]);
        let guard = tree.guard(resolver);
        for (before, after) in [
            (0o640, 0o640),
            (0o6755, 0o755),
            (0o600, 0o600),
            (0o444 | 0o200, 0o644),
            (0o1777, 0o1777),
        ] {
            chmod(&tree, "a.txt", before);
            replace(&guard, "a.txt", EDIT, "new").unwrap();
            assert_eq!(mode(&tree, "a.txt"), after, "{before:o}");
        }
        let umask = rustix::process::umask(Mode::from_raw_mode(0o022));
        rustix::process::umask(umask);
        replace(&guard, "fresh/new.txt", WRITE, "new").unwrap();
        assert_eq!(mode(&tree, "fresh/new.txt"), 0o666 & !umask.as_raw_mode());
        assert_eq!(mode(&tree, "fresh"), 0o777 & !umask.as_raw_mode());
    }
}

/// A replacement by a user who may not give files away once took the file over, or opened it to
/// another group.
#[test]
fn owner_and_group_are_kept_or_the_change_is_refused() {
    const US: u32 = OTHER_USER;
    for (owner, group, groups, kept) in [
        (US, US, &[][..], true),
        (US, 34, &[34], true),
        (US, 34, &[], false),
        (12, US, &[], false),
        (12, 34, &[34], false),
        (12, 34, &[], false),
    ] {
        let tree = Tree::new().with(&[("a.txt", "old")]);
        let path = tree.root.join("a.txt");
        let prepare = || {
            chown(&path, Some(owner), Some(group)).unwrap();
            chmod(&tree, "a.txt", 0o666);
        };
        tree.beside_others(groups, prepare, || {
            for resolver in RESOLVERS {
                let before = fs::metadata(&path).unwrap();
                let result = replace(&tree.guard(resolver), "a.txt", EDIT, "new");
                let after = fs::metadata(&path).unwrap();
                assert_eq!((after.uid(), after.gid()), (owner, group));
                assert_eq!(mode(&tree, "a.txt"), 0o666);
                assert_eq!(result.is_ok(), kept, "{owner} {group} {groups:?}: {result:?}");
                if let Err(error) = result {
                    assert_eq!(error.kind, Kind::PermissionDenied);
                    assert!(error.hint.unwrap().contains("`chown`"));
                    assert_eq!((after.ino(), tree.read("a.txt").as_str()), (before.ino(), "old"));
                }
                assert_eq!(names(&tree), ["a.txt"]);
            }
        });
    }
}

#[test]
fn root_keeps_the_owner_of_every_file() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can give files away");
    }
    for resolver in RESOLVERS {
        let tree = Tree::new().with(&[("a.txt", "old")]);
        chown(tree.root.join("a.txt"), Some(12), Some(34)).unwrap();
        replace(&tree.guard(resolver), "a.txt", EDIT, "new").unwrap();
        let meta = fs::metadata(tree.root.join("a.txt")).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (12, 34));
    }
}

#[test]
fn extended_attributes_and_access_lists_are_kept() {
    for resolver in RESOLVERS {
        let tree = Tree::new().with(&[("a.txt", "old")]);
        let path = tree.root.join("a.txt");
        let set = |name: &str, value: &[u8]| lsetxattr(&path, name, value, XattrFlags::empty());
        let get = |name: &str| {
            let mut value = Vec::with_capacity(1_024);
            lgetxattr(&path, name, rustix::buffer::spare_capacity(&mut value)).map(|_| value)
        };
        if set("user.note", b"kept").is_err() {
            return skipped("no extended attributes here");
        }
        let large = vec![7_u8; 600];
        set("user.large", &large).unwrap();
        let lists = set("system.posix_acl_access", &access_list()).is_ok();
        replace(&tree.guard(resolver), "a.txt", EDIT, "new").unwrap();
        assert_eq!(get("user.note").unwrap(), b"kept");
        assert_eq!(get("user.large").unwrap(), large);
        if lists {
            assert_eq!(get("system.posix_acl_access").unwrap(), access_list());
        } else {
            skipped("no access lists here");
        }
    }
}

#[test]
fn an_inherited_access_list_does_not_open_an_old_file() {
    let tree = Tree::new().with(&[("a.txt", "old")]);
    chmod(&tree, "a.txt", 0o600);
    let set =
        lsetxattr(&tree.root, "system.posix_acl_default", &access_list(), XattrFlags::empty());
    if set.is_err() {
        return skipped("no access lists here");
    }
    replace(&tree.guard(RESOLVERS[0]), "a.txt", EDIT, "new").unwrap();
    let mut value = Vec::with_capacity(1_024);
    let path = tree.root.join("a.txt");
    let list =
        getxattr(path, "system.posix_acl_access", rustix::buffer::spare_capacity(&mut value));
    assert!(list.is_err(), "the new file has an access list: {value:?}");
    assert_eq!(mode(&tree, "a.txt"), 0o600);
}

#[test]
fn hard_links_are_refused_broken_or_written_through() {
    for resolver in RESOLVERS {
        let tree = Tree::new().with(&[("a.txt", "old content")]);
        let other = tree.outside.join("other.txt");
        fs::hard_link(tree.root.join("a.txt"), &other).unwrap();
        let guard = |hard_links| {
            tree.guard_with(resolver, FileSettings { hard_links, ..FileSettings::default() })
        };
        let error = replace(&guard(HardLinks::Refuse), "a.txt", WRITE, "new").unwrap_err();
        assert!(error.message.contains("2 hard links"), "{error}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "old content");

        replace(&guard(HardLinks::InPlace), "a.txt", WRITE, "shared").unwrap();
        assert_eq!((tree.read("a.txt").as_str(), names(&tree).len()), ("shared", 1));
        assert_eq!(fs::read_to_string(&other).unwrap(), "shared");

        replace(&guard(HardLinks::Break), "a.txt", WRITE, "own").unwrap();
        assert_eq!(tree.read("a.txt"), "own");
        assert_eq!(fs::read_to_string(&other).unwrap(), "shared");
    }
}

#[test]
fn every_way_to_sync_writes_the_same() {
    for resolver in RESOLVERS {
        for sync in [Sync::Off, Sync::Data, Sync::Full] {
            let tree = Tree::new().with(&[("a.txt", "old")]);
            let settings = FileSettings { sync, ..FileSettings::default() };
            let guard = tree.guard_with(resolver, settings);
            replace(&guard, "a.txt", EDIT, "new").unwrap();
            replace(&guard, "b/c/d.txt", WRITE, "made").unwrap();
            assert_eq!((tree.read("a.txt"), tree.read("b/c/d.txt")), ("new".into(), "made".into()));
        }
    }
}

fn opened(world: &World) -> (sinew_tool::Identity, Vec<u8>) {
    let opened = world.files.open(Slot(0)).unwrap();
    let text = std::io::read_to_string(opened.file).unwrap();
    (opened.meta.identity, text.into_bytes())
}

/// Two changes within one tick of the clock carry the same times, where the file system gives them no
/// finer ones: content decides then.
#[test]
fn a_file_that_changed_since_it_was_read_is_not_replaced() {
    for resolver in RESOLVERS {
        for _ in 0..50 {
            let tree = Tree::new().with(&[("a.txt", "old")]);
            let guard = tree.guard(resolver);
            let world = world(&guard, "a.txt", EDIT).unwrap();
            let (identity, text) = opened(&world);
            fs::write(tree.root.join("a.txt"), "bad").unwrap();
            let result =
                world.files.replace(Slot(0), &[b"new"], Expect::Same(Seen::new(identity, &text)));
            assert!(matches!(result, Err(FileError::Changed)), "{result:?}");
            assert_eq!((tree.read("a.txt").as_str(), names(&tree).len()), ("bad", 1));
        }
    }
}

#[test]
fn a_file_that_did_not_change_is_replaced_again_and_again() {
    let tree = Tree::new().with(&[("a.txt", "0")]);
    let guard = tree.guard(RESOLVERS[0]);
    let world = world(&guard, "a.txt", EDIT).unwrap();
    for n in 1..20 {
        let (identity, text) = opened(&world);
        let new = n.to_string();
        world
            .files
            .replace(Slot(0), &[new.as_bytes()], Expect::Same(Seen::new(identity, &text)))
            .unwrap();
    }
    assert_eq!(tree.read("a.txt"), "19");
}

#[test]
fn an_approval_holds_only_for_the_files_as_they_were() {
    for resolver in RESOLVERS {
        let tree = Tree::new().with(&[("a.txt", "old")]);
        let guard = tree.guard(resolver);
        let change = |cleared: &sinew_guard::Cleared| {
            cleared.world.files.replace(Slot(0), &[b"new"], Expect::Any)
        };
        let cleared = approve(contain(&guard, "a.txt", WRITE).unwrap());
        fs::write(tree.root.join("a.txt"), "changed meanwhile").unwrap();
        assert!(matches!(change(&cleared), Err(FileError::Changed)));

        let cleared = approve(contain(&guard, "b.txt", WRITE).unwrap());
        fs::write(tree.root.join("b.txt"), "appeared").unwrap();
        assert!(matches!(change(&cleared), Err(FileError::Changed)));
        assert_eq!(tree.read("b.txt"), "appeared");

        let cleared = approve(contain(&guard, "a.txt", WRITE).unwrap());
        fs::remove_file(tree.root.join("a.txt")).unwrap();
        assert!(matches!(change(&cleared), Err(FileError::Changed)));

        // The call's own changes are not held against it.
        let cleared = approve(contain(&guard, "c.txt", WRITE).unwrap());
        assert!(change(&cleared).unwrap().created);
        assert!(!change(&cleared).unwrap().created);

        // A ruling that allows does not depend on the old content.
        let cleared = allow(contain(&guard, "b.txt", WRITE).unwrap());
        fs::write(tree.root.join("b.txt"), "changed meanwhile").unwrap();
        change(&cleared).unwrap();
    }
}

#[test]
fn what_took_the_place_of_a_file_is_not_changed() {
    for resolver in RESOLVERS {
        let tree = Tree::new().with(&[("a.txt", "old"), ("d/x", "")]);
        let guard = tree.guard(resolver);
        let world = world(&guard, "a.txt", WRITE).unwrap();
        fs::remove_file(tree.root.join("a.txt")).unwrap();
        tree.link("a.txt", tree.outside.join("secret.txt"));
        let change = || world.files.replace(Slot(0), &[b"new"], Expect::Any);
        assert!(matches!(change(), Err(FileError::Changed)));
        assert!(matches!(world.files.open(Slot(0)), Err(FileError::Changed)));
        assert!(matches!(world.files.meta(Slot(0)), Err(FileError::Changed)));
        fs::remove_file(tree.root.join("a.txt")).unwrap();
        fs::create_dir(tree.root.join("a.txt")).unwrap();
        assert!(matches!(change(), Err(FileError::NotRegular(_))));
        assert_eq!(fs::read_to_string(tree.outside.join("secret.txt")).unwrap(), "SECRET");
    }
}

#[test]
fn parents_are_created_once_and_removed_when_the_change_fails() {
    for resolver in RESOLVERS {
        let tree = Tree::new();
        let guard = tree.guard(resolver);
        let first = world(&guard, "a/b/one.txt", WRITE).unwrap();
        let second = world(&guard, "a/b/two.txt", WRITE).unwrap();
        assert!(matches!(first.files.meta(Slot(0)), Err(FileError::Missing)));
        first.files.replace(Slot(0), &[b"1"], Expect::Any).unwrap();
        second.files.replace(Slot(0), &[b"2"], Expect::Any).unwrap();
        assert_eq!(first.files.meta(Slot(0)).unwrap().size(), 1);
        assert_eq!(opened(&second).1, b"2");

        // An edit of nothing fails after the parents of another slot were made.
        let missing = world(&guard, "x/y/z.txt", WRITE).unwrap();
        let stale = Expect::Same(Seen::new(first.files.meta(Slot(0)).unwrap().identity, b"1"));
        assert!(missing.files.replace(Slot(0), &[b"3"], stale).is_err());
        assert!(!tree.root.join("x").exists());
    }
}

#[test]
fn a_parent_that_became_a_link_is_not_followed() {
    for resolver in RESOLVERS {
        let tree = Tree::new();
        let guard = tree.guard(resolver);
        let world = world(&guard, "a/b.txt", WRITE).unwrap();
        tree.link("a", &tree.outside);
        assert!(world.files.replace(Slot(0), &[b"x"], Expect::Any).is_err());
        assert!(!tree.outside.join("b.txt").exists());
    }
}

#[test]
fn the_right_to_write_the_file_is_needed() {
    let tree = Tree::new().with(&[("a.txt", "old")]);
    tree.without_root(|| {
        chmod(&tree, "a.txt", 0o444);
        assert!(replace(&tree.guard(RESOLVERS[0]), "a.txt", EDIT, "new").is_err());
        assert_eq!(tree.read("a.txt"), "old");
    });
}

#[test]
fn changes_of_one_file_by_many_threads_are_whole() {
    let tree = Tree::new().with(&[("a.txt", "start")]);
    let guard = tree.guard(RESOLVERS[0]);
    let change = |guard: &Arc<Guard>, letter: char| {
        let text = letter.to_string().repeat(50_000);
        for _ in 0..50 {
            // A thread that finds the file taken asks again.
            while let Err(error) = replace(guard, "a.txt", WRITE, &text) {
                assert_eq!(error.kind, Kind::Timeout, "{error}");
            }
        }
    };
    std::thread::scope(|scope| {
        for letter in ['a', 'b', 'c'] {
            let guard = &guard;
            scope.spawn(move || change(guard, letter));
        }
        for _ in 0..500 {
            let text = tree.read("a.txt");
            let first = text.chars().next().unwrap();
            assert!(text == "start" || text.chars().all(|c| c == first));
        }
    });
    assert_eq!(names(&tree), ["a.txt"]);
}

#[test]
fn a_write_by_reference_to_a_directory_handle_survives_its_renaming() {
    let tree = Tree::new().with(&[("dir/a.txt", "old")]);
    let guard = tree.guard(RESOLVERS[0]);
    let access = Access::Write { parents: false, links: Links::Refuse };
    let world = world(&guard, "dir/a.txt", access).unwrap();
    fs::rename(tree.root.join("dir"), tree.root.join("moved")).unwrap();
    rustix::fs::symlinkat(&tree.outside, CWD, tree.root.join("dir")).unwrap();
    world.files.replace(Slot(0), &[b"new"], Expect::Any).unwrap();
    assert_eq!(tree.read("moved/a.txt"), "new");
    assert!(!tree.outside.join("a.txt").exists());
}

/// A process whose change failed removes the directories that it made, also while another is on its way through them.
#[test]
fn parents_that_others_remove_meanwhile_are_no_missing_file() {
    let tree = Tree::new();
    let guard = tree.guard(RESOLVERS[0]);
    let write = world(&guard, "a/b/c.txt", WRITE).unwrap();
    let make = world(&guard, "a/b/d", Access::Make).unwrap();
    let becomes = Becomes::File { pieces: &[b"new"], mode: FileMode::Kept, like: None };
    let deed = FileOp { slot: Slot(0), expect: Expect::Any, becomes };
    let (above, parent) = (tree.root.join("a"), tree.root.join("a/b"));
    let ended = AtomicBool::new(false);
    let (mut n_done, mut wrong) = (0, Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(100));
                let _ = fs::remove_dir(&parent);
                let _ = fs::remove_dir(&above);
            }
        });
        for _ in 0..rounds(400) {
            for done in [
                write.files.replace(Slot(0), &[b"new"], Expect::Any).map(drop),
                write.files.commit(&[deed]).map(drop).map_err(|error| error.error),
                make.files.make_directory(Slot(0)).map(drop),
            ] {
                match done {
                    Ok(()) => n_done += 1,
                    Err(FileError::Busy) => {}
                    Err(error) => wrong.push(error),
                }
            }
            let _ = fs::remove_file(parent.join("c.txt"));
            let _ = fs::remove_dir(parent.join("d"));
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert!(wrong.is_empty() && 0 < n_done, "{n_done} done, {wrong:?}");
}
