//! The original that a change replaces or removes: a file, or a symlink if the link itself is the target.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::fs::{Access, AtFlags, FileType, Stat, accessat, fstat, readlinkat, statat};
use rustix::io::Errno;
use sinew_tool::{ContentHash, Expect, FileError, FileKind, Stamp};

use super::{Failure, NameChange};
use sinew_fs::content_hash::{content_hash, hash_so_far};
use sinew_fs::roots::{Dir, FILE_READ, open_name};
use sinew_fs::stat::{self, identity_of, kind_of};

/// The largest old content that is read only for its hash, in bytes.
const MAX_HASHED: u64 = 64 * 1024 * 1024;
/// The coarsest clock tick, in nanoseconds: two changes within it may get the same timestamp.
const TICK_NS: i128 = 20_000_000;

/// The open original, before a change.
pub(crate) struct Original {
    /// Its status when it was opened.
    pub(crate) stat: Stat,
    /// Its content.
    pub(crate) content: Content,
}

/// Content of an original.
pub(crate) enum Content {
    /// An open file.
    File(File),
    /// The target of a symbolic link.
    Link(Vec<u8>),
}

/// Returns the status of a name; rejects all but regular files and, if `links`, symlinks.
pub(crate) fn look(dir: &Dir, name: &CStr, links: bool) -> Result<Option<Stat>, Failure> {
    let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    match kind_of(FileType::from_raw_mode(stat.st_mode)) {
        FileKind::File => Ok(Some(stat)),
        FileKind::Symlink if links => Ok(Some(stat)),
        FileKind::Symlink => Err(FileError::Changed.into()),
        other => Err(FileError::NotRegular(other).into()),
    }
}

/// Returns the failure of an access to a name that existed a moment ago.
fn gone(errno: Errno) -> Failure {
    match errno {
        Errno::NOENT => Failure::Raced,
        other => Failure::from(other),
    }
}

impl Original {
    /// Opens an original that will be replaced.
    pub(crate) fn open(dir: &Dir, name: &CStr, seen: Stat) -> Result<Self, Failure> {
        if kind_of(FileType::from_raw_mode(seen.st_mode)) == FileKind::File {
            // A rename needs no write permission on the file, so it is checked here.
            accessat(dir, name, Access::WRITE_OK, AtFlags::empty()).map_err(gone)?;
        }
        Self::open_to_read(dir, name, seen)
    }

    /// Opens an original that stays.
    pub(crate) fn open_to_read(dir: &Dir, name: &CStr, seen: Stat) -> Result<Self, Failure> {
        let kind = kind_of(FileType::from_raw_mode(seen.st_mode));
        if kind == FileKind::Symlink {
            let target = readlinkat(dir, name, Vec::new()).map_err(gone)?.into_bytes();
            let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(gone)?;
            return Self { stat, content: Content::Link(target) }.if_still(&seen);
        }
        let file = open_name(dir.as_fd(), name, FILE_READ).map_err(gone)?;
        let stat = fstat(&file)?;
        Self { stat, content: Content::File(File::from(file)) }.if_still(&seen)
    }

    fn if_still(self, seen: &Stat) -> Result<Self, Failure> {
        let same = identity_of(&self.stat) == identity_of(seen);
        if same { Ok(self) } else { Err(Failure::Raced) }
    }

    /// Returns the content hash, from the caller's copy or by reading. Large files are read only if needed.
    pub(super) fn hash(
        &self,
        expect: Expect<'_>,
        since: Stamp,
        is_needed: impl FnOnce() -> bool,
    ) -> Result<Option<ContentHash>, FileError> {
        match (&self.content, expect) {
            (Content::Link(target), Expect::Same(seen)) if target != seen.content => {
                Err(FileError::Changed)
            }
            (Content::Link(target), _) => Ok(Some(content_hash(target))),
            (Content::File(file), Expect::Same(seen)) => {
                let may_differ = self.may_hide_a_change(since, file);
                if may_differ && !holds(file, seen.content).map_err(FileError::Io)? {
                    return Err(FileError::Changed);
                }
                let worked_out = || content_hash(seen.content);
                let hash = seen.hash().unwrap_or_else(worked_out);
                debug_assert_eq!(hash, worked_out(), "a hash is that of its content");
                Ok(Some(hash))
            }
            (Content::File(file), _) => {
                let size = identity_of(&self.stat).size;
                if MAX_HASHED < size && !is_needed() {
                    return Ok(None);
                }
                let mut hasher = blake3::Hasher::new();
                hasher.update_reader(file.take(MAX_HASHED.max(size))).map_err(FileError::Io)?;
                Ok(Some(hash_so_far(&hasher)))
            }
        }
    }

    /// Returns whether a second change may have the timestamp that was read: the age at that time counts.
    fn may_hide_a_change(&self, since: Stamp, file: &File) -> bool {
        let changed = identity_of(&self.stat).changed;
        let ns = |at: Stamp| i128::from(at.seconds) * 1_000_000_000 + i128::from(at.nanos);
        let age = ns(since) - ns(changed);
        // Some file systems store whole seconds, or every second one.
        let tick = if changed.nanos == 0 { 2_000_000_000 } else { TICK_NS };
        age < tick && (changed.nanos == 0 || !stat::tells_changes_apart(file))
    }
}

impl NameChange<'_> {
    /// Leaves closing the original to `DeferredClose`, once the change is made.
    pub(crate) fn close_later(&self, old: Option<Original>) {
        if let Some(Original { content: Content::File(file), .. }) = old {
            self.terms.deferred_close.add(file);
        }
    }
}

/// Returns whether a file holds exactly this content.
fn holds(mut file: &File, content: &[u8]) -> io::Result<bool> {
    let mut buffer = vec![0_u8; 256 * 1024];
    let mut left = content;
    loop {
        let n = file.read(&mut buffer)?;
        let Some(read) = buffer.get(..n).filter(|read| !read.is_empty()) else {
            return Ok(left.is_empty());
        };
        match left.strip_prefix(read) {
            Some(rest) => left = rest,
            None => return Ok(false),
        }
    }
}
