//! The index of a git repository, as far as sinew compares it: paths, modes, object IDs and stages.
//!
//! Git writes the same entries with other file times whenever it looks at the working tree, so the bytes of an
//! index change where nothing that a user knows of does.

use std::path::Path;

use sinew_tool::ContentHash;

use crate::content_hash::hash_so_far;

/// The status of a file that an entry begins with: times, device, inode, mode, owner and size.
const STATUS: usize = 40;
/// The object ID behind it, of SHA-1.
const OBJECT_ID: usize = 20;
/// Where the mode is in the status.
const MODE: usize = 24;
/// The flags that say more than the length of a path.
const FLAGS: u16 = 0xf000;
/// The flag of an entry with two more bytes of flags.
const EXTENDED: u16 = 0x4000;

/// One entry of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// The path relative to the working tree.
    pub path: &'a [u8],
    mode: &'a [u8],
    object: &'a [u8],
    flags: u16,
    extended: &'a [u8],
}

/// Returns whether a path is that of an index.
pub fn is_index(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "index")
        && path.parent().is_some_and(|dir| dir.iter().any(|name| name == ".git"))
}

/// Returns the entries of an index of version 2 or 3 with SHA-1; `None` of any other format.
pub fn entries(index: &[u8]) -> Option<Vec<IndexEntry<'_>>> {
    let (head, rest) = index.split_first_chunk::<12>()?;
    let [b'D', b'I', b'R', b'C', 0, 0, 0, 2 | 3, n @ ..] = head else { return None };
    let mut entries: Vec<IndexEntry<'_>> = Vec::new();
    let mut rest = rest;
    for _ in 0..u32::from_be_bytes(*n) {
        let (status, after) = rest.split_at_checked(STATUS)?;
        let (object, after) = after.split_at_checked(OBJECT_ID)?;
        let (flags, after) = after.split_first_chunk::<2>()?;
        let flags = u16::from_be_bytes(*flags);
        let n_extended = if flags & EXTENDED == 0 { 0 } else { 2 };
        let (extended, after) = after.split_at_checked(n_extended)?;
        let path = after.get(..memchr::memchr(0, after)?)?;
        // They are sorted; read as another format they would not be.
        let is_sorted = entries.last().is_none_or(|last| last.path <= path);
        if path.is_empty() || !is_sorted {
            return None;
        }
        let mode = status.get(MODE..MODE + 4)?;
        entries.push(IndexEntry { path, mode, object, flags: flags & FLAGS, extended });
        // An entry ends with one to eight zeros, at a multiple of eight bytes.
        let length = STATUS + OBJECT_ID + 2 + n_extended + path.len();
        rest = rest.get(length / 8 * 8 + 8..)?;
    }
    Some(entries)
}

/// Returns a hash of the entries of an index, which is the same for all that git writes of one state.
pub fn meaning(index: &[u8]) -> Option<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    for entry in entries(index)? {
        let flags = entry.flags.to_be_bytes();
        for part in [entry.mode, entry.object, &flags, entry.extended, entry.path, &[0]] {
            hasher.update(part);
        }
    }
    Some(hash_so_far(&hasher))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out real trees")]
mod tests {
    use std::fs;
    use std::process::Command;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn git(root: &Path, words: &[&str]) {
        let done = Command::new("git").args(words).current_dir(root).output().expect("git");
        assert!(done.status.success(), "{done:?}");
    }

    #[test]
    fn an_index_means_the_same_after_a_look() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path();
        git(root, &["init", "-q"]);
        for n in 0..300 {
            let path = root.join(format!("{}file{n}", "dir/".repeat(n % 8)));
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, n.to_string()).expect("written");
        }
        git(root, &["add", "-A"]);
        let index = || fs::read(root.join(".git/index")).expect("an index");
        let first = index();
        let paths: Vec<&[u8]> =
            entries(&first).expect("entries").iter().map(|entry| entry.path).collect();
        assert_eq!(paths.len(), 300);
        assert!(paths.contains(&b"dir/dir/file2".as_slice()));
        // The times of a file change, and git notes them.
        let file = fs::File::options().write(true).open(root.join("file0")).expect("opened");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000))
            .expect("set");
        git(root, &["update-index", "--refresh"]);
        assert!(index() != first, "git wrote the same index");
        assert_eq!(meaning(&index()), meaning(&first));
        for (path, words) in
            [("file8", ["add", "-A"].as_slice()), ("file16", ["add", "-N", "new"].as_slice())]
        {
            let before = meaning(&index());
            fs::write(root.join(path), "other").expect("written");
            fs::write(root.join("new"), "new").expect("written");
            git(root, words);
            assert_ne!(meaning(&index()), before, "{words:?}");
            git(root, &["rm", "-q", "--cached", "-f", "new"]);
        }
        git(root, &["update-index", "--index-version", "4"]);
        assert_eq!(meaning(&index()), None);
    }

    #[test]
    fn any_bytes_are_an_index_or_none() {
        let check = |index: &[u8]| assert_eq!(meaning(index), None, "{index:?}");
        check(b"");
        check(b"DIRC");
        check(b"DIRC\0\0\0\x02\0\0\0\x01");
        check(&[b"DIRC\0\0\0\x02\xff\xff\xff\xff".as_slice(), &[0; 200]].concat());
        assert!(meaning(b"DIRC\0\0\0\x02\0\0\0\0").is_some());
    }

    #[test]
    fn an_index_is_known_by_its_path() {
        let check = |path: &str, expected: bool| {
            assert_eq!(is_index(Path::new(path)), expected, "{path}");
        };
        check("/p/.git/index", true);
        check("/p/.git/modules/m/index", true);
        check("/p/.git/worktrees/w/index", true);
        check("/p/index", false);
        check("/p/.git/index.lock", false);
    }
}
