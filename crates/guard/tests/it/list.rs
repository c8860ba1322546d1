//! Listings: sorted, counted, bounded.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use sinew_tool::{Access, FileError, FileKind, FileSettings, Slot};

use crate::tree::{RESOLVERS, Tree, world};

#[test]
fn the_first_names_are_kept_and_all_are_counted() {
    let tree = Tree::new();
    for n in 0..300 {
        tree.write(&format!("dir/f{n:03}"), "x");
    }
    for resolver in RESOLVERS {
        let world = world(&tree.guard(resolver), "dir", Access::Search).unwrap();
        for (limit, kept) in [(0, 0), (1, 1), (10, 10), (300, 300), (1_000, 300)] {
            let listing = world.files.list(Slot(0), limit).unwrap();
            assert_eq!((listing.total, listing.rows.len()), (300, kept));
            let names: Vec<_> = listing.rows.iter().map(|row| row.path.clone()).collect();
            let expected: Vec<_> =
                (0..kept).map(|n| std::path::PathBuf::from(format!("f{n:03}"))).collect();
            assert_eq!(names, expected);
            assert!(listing.rows.iter().all(|row| row.meta.as_ref().unwrap().size() == 1));
        }
    }
}

#[test]
fn kinds_odd_names_and_hidden_files_are_shown() {
    let tree = Tree::new().with(&[(".hidden", ""), ("b", ""), ("dir/x", ""), (".git/x", "")]);
    tree.link("link", "/etc/passwd");
    fs::write(tree.root.join(OsStr::from_bytes(b"\xff")), "").unwrap();
    fs::write(tree.root.join(".sinew-0123456789abcdef01234567.tmp"), "").unwrap();
    for resolver in RESOLVERS {
        let world = world(&tree.guard(resolver), ".", Access::Search).unwrap();
        let listing = world.files.list(Slot(0), 100).unwrap();
        let rows: Vec<_> =
            listing.rows.iter().map(|row| (row.path.as_os_str().as_bytes(), row.kind)).collect();
        let expected: [(&[u8], FileKind); 6] = [
            (b".git", FileKind::Directory),
            (b".hidden", FileKind::File),
            (b"b", FileKind::File),
            (b"dir", FileKind::Directory),
            (b"link", FileKind::Symlink),
            (b"\xff", FileKind::File),
        ];
        assert_eq!(rows, expected);
        assert_eq!((listing.total, listing.skipped.hidden), (6, 1));
    }
}

#[test]
fn denied_entries_are_counted_and_not_shown() {
    let tree = Tree::new().with(&[("a.txt", ""), ("secret/x", ""), (".env", "")]);
    let deny_paths = vec!["/**/.env".into(), format!("{}/secret/**", tree.root.display())];
    let settings = FileSettings { deny_paths, ..FileSettings::default() };
    for resolver in RESOLVERS {
        let guard = tree.guard_with(resolver, settings.clone());
        let listing = world(&guard, ".", Access::Search).unwrap().files.list(Slot(0), 9).unwrap();
        assert_eq!(listing.rows.len(), 1);
        assert_eq!((listing.total, listing.skipped.denied), (1, 2));
    }
}

#[test]
fn a_file_is_no_directory() {
    let tree = Tree::new().with(&[("a.txt", "")]);
    for resolver in RESOLVERS {
        let world = world(&tree.guard(resolver), "a.txt", Access::Search).unwrap();
        assert!(matches!(world.files.list(Slot(0), 9), Err(FileError::NotDirectory)));
    }
}
