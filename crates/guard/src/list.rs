//! Lists one directory by name: counts every entry, and stats only those that are kept.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, RawDir, statat};
use rustix::io::Errno;
use sinew_tool::{Access, FileError, FileKind, FileTarget, Listed, Listing};

use sinew_fs::stat::{error_of, kind_of, meta_of};
use sinew_fs::temporary::is_temporary;
use sinew_policy::rule::Judge;
use sinew_policy::rules;

/// Buffer of directory entries, in bytes. glibc consolidates its heap when 64 KiB are freed.
const BUFFER: usize = 32 * 1024;

/// A name that is kept, ordered by name.
struct ListedName {
    name: CString,
    kind: FileKind,
}

impl Ord for ListedName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

impl PartialOrd for ListedName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ListedName {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ListedName {}

/// Lists the first `limit` names of a directory.
pub(crate) fn list(
    judge: Judge<'_>,
    target: &FileTarget,
    dir: &OwnedFd,
    limit: usize,
) -> Result<Listing, FileError> {
    let own = judge.roots.named(&target.path).iter().any(rules::is_own);
    let judged = own || judge.judges_beneath(&target.path);
    let mut listing = Listing::default();
    let mut kept: BinaryHeap<ListedName> = BinaryHeap::new();
    let mut path = target.path.clone();
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Err(Errno::INTR) => continue,
            other => other.map_err(error_of)?,
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if is_temporary(name.to_bytes()) {
            listing.skipped.hidden += 1;
            continue;
        }
        if judged {
            path.push(OsStr::from_bytes(name.to_bytes()));
            let allowed = may_see(judge, &path, entry.file_type());
            path.pop();
            if !allowed {
                listing.skipped.denied += 1;
                continue;
            }
        }
        listing.total += 1;
        let full = limit <= kept.len();
        if full && kept.peek().is_none_or(|last| *last.name <= *name) {
            continue;
        }
        if full {
            kept.pop();
        }
        kept.push(ListedName { name: name.to_owned(), kind: kind_of(entry.file_type()) });
    }
    listing.rows = kept.into_sorted_vec().into_iter().map(|kept| row(dir, kept)).collect();
    Ok(listing)
}

/// Returns whether the path rules show an entry.
fn may_see(judge: Judge<'_>, path: &Path, kind: FileType) -> bool {
    let directory = kind == FileType::Directory;
    let access = if directory { Access::Search } else { Access::Read };
    let named = judge.roots.named(path);
    judge.may_see(path, directory) && rules::check_own(named, access).is_ok()
}

/// Returns the row of a name, with its current status.
fn row(dir: &OwnedFd, kept: ListedName) -> Listed {
    let meta = statat(dir, &kept.name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| meta_of(&stat));
    let kind = match &meta {
        Some(meta) => meta.kind,
        None => kept.kind,
    };
    Listed { path: PathBuf::from(OsStr::from_bytes(kept.name.to_bytes())), kind, meta }
}
