//! Parses the index of a repository, to find the working tree files that `git` opens.
//!
//! `git` opens indexed names without another check, so a name may lead elsewhere. Versions 2 and 3, which
//! `git` writes by default, are supported, with extensions that only speed something up.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::file_system::FileSystem;

/// The largest index, in bytes, and the most entries of one.
const MAX_BYTES: u64 = 16 << 20;
const MAX_ENTRIES: u32 = 50_000;

/// Bytes of the header, of an entry before its flags, and of the final hash.
const HEAD: usize = 12;
const STAT: usize = 60;
const HASH: usize = 20;

/// Extensions that do not affect names.
const EXTENSIONS: &[&[u8]] = &[b"TREE", b"REUC", b"UNTR", b"FSMN"];

/// Names in an index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// Directories that hold its files, and their parents, except the topmost.
    pub(super) directories: HashSet<PathBuf>,
    /// Files that give attributes to others (`.gitattributes`).
    pub(super) attributes: HashSet<PathBuf>,
}

/// Reads an index; a missing one is empty. `None` if its format is unsupported.
pub(super) fn read(files: &dyn FileSystem, path: &Path) -> Option<Index> {
    match files.read(path, MAX_BYTES) {
        Ok(bytes) => parse(&bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(Index::default()),
        Err(_) => None,
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn parse(bytes: &[u8]) -> Option<Index> {
    let bytes = bytes.get(..bytes.len().checked_sub(HASH)?)?;
    let (version, n_entries) = (number(bytes, 4)?, number(bytes, 8)?);
    if !bytes.starts_with(b"DIRC") || !matches!(version, 2 | 3) || MAX_ENTRIES < n_entries {
        return None;
    }
    let mut index = Index::default();
    let (mut at, mut before) = (HEAD, &b""[..]);
    for _ in 0..n_entries {
        let (name, next) = entry(bytes, at, version)?;
        at = next;
        let (dir, last) = match name.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (name.get(..slash)?, name.get(slash + 1..)?),
            None => (&b""[..], name),
        };
        if last.eq_ignore_ascii_case(b".gitattributes") {
            index.attributes.insert(PathBuf::from(OsStr::from_bytes(name)));
        }
        if dir != before {
            let dirs = Path::new(OsStr::from_bytes(dir)).ancestors();
            for dir in dirs.filter(|dir| !dir.as_os_str().is_empty()) {
                if !index.directories.insert(dir.to_owned()) {
                    break;
                }
            }
        }
        before = dir;
    }
    while at != bytes.len() {
        let name = bytes.get(at..at.checked_add(4)?)?;
        if !EXTENSIONS.contains(&name) {
            return None;
        }
        at = at.checked_add(8)?.checked_add(usize::try_from(number(bytes, at + 4)?).ok()?)?;
        bytes.get(..at)?;
    }
    Some(index)
}

/// Returns the name of the entry at an offset, and the offset of the next one.
fn entry(bytes: &[u8], at: usize, version: u32) -> Option<(&[u8], usize)> {
    // A file, a symlink or a submodule; no directory of a sparse index.
    if !matches!(number(bytes, at.checked_add(24)?)? >> 12, 0o10 | 0o12 | 0o16) {
        return None;
    }
    let flags = bytes.get(at + STAT..at + STAT + 2)?;
    let flags = u16::from_be_bytes(flags.try_into().ok()?);
    let is_extended = flags & 0x4000 != 0;
    if is_extended && version == 2 {
        return None;
    }
    let n_before = STAT + if is_extended { 4 } else { 2 };
    let rest = bytes.get(at + n_before..)?;
    let n = rest.iter().position(|byte| *byte == 0)?;
    if usize::from(flags & 0xfff) != n.min(0xfff) {
        return None;
    }
    let name = rest.get(..n)?;
    let is_odd =
        |part: &[u8]| matches!(part, b"" | b"." | b"..") || part.eq_ignore_ascii_case(b".git");
    // At least one NUL pads an entry to a multiple of eight bytes.
    let next = at + ((n_before + n + 8) & !7);
    (!name.split(|byte| *byte == b'/').any(is_odd)).then_some((name, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(version: u32, names: &[&str], end: &[u8]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        for name in names {
            let begins = bytes.len();
            bytes.extend([0; 24]);
            bytes.extend(0o100_644_u32.to_be_bytes());
            bytes.extend([0; 32]);
            bytes.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            bytes.extend(name.as_bytes());
            bytes.push(0);
            while !(bytes.len() - begins).is_multiple_of(8) {
                bytes.push(0);
            }
        }
        bytes.extend(end);
        bytes.extend([7; HASH]);
        bytes
    }

    #[test]
    fn index_names_directories_and_attributes() {
        let bytes = index(2, &["a", "b/.gitattributes", "b/c/d", "b/c/e", "f"], b"TREE\0\0\0\x01x");
        let index = parse(&bytes).unwrap();
        assert_eq!(index.directories, HashSet::from(["b".into(), "b/c".into()]));
        assert_eq!(index.attributes, HashSet::from(["b/.gitattributes".into()]));
        // Without its last extension it is one again.
        let whole = bytes.len() - b"TREE\0\0\0\x01x".len();
        for n in (0..bytes.len()).filter(|n| *n != whole) {
            assert_eq!(parse(&bytes[..n]), None, "cut off at {n}");
        }
    }

    #[test]
    fn odd_index_is_not_read() {
        for name in ["/etc/passwd", "../a", "a/../b", "a//b", "a/.GIT/b", ".git", "./a", "a/", ""] {
            assert_eq!(parse(&index(2, &[name], b"")), None, "{name}");
        }
        for end in
            [&b"link\0\0\0\0"[..], b"sdir\0\0\0\0", b"IEOT\0\0\0\0", b"TREE\xff\xff\xff\xff", b"TR"]
        {
            assert_eq!(parse(&index(2, &["a"], end)), None, "{end:?}");
        }
        assert_eq!(parse(&index(4, &["a"], b"")), None);
        assert_eq!(parse(b""), None);
        assert!(parse(&index(3, &[], b"")).is_some());
    }
}
