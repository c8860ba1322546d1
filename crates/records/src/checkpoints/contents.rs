//! The content store of checkpoints: one file per content, named by its hash.
//!
//! The files lie in one flat directory, for its owner alone. A large content is a clone (reflink) if the file
//! system can share its blocks; otherwise contents are compressed if that saves space. Each file is renamed
//! to its hash when complete, so that a crash leaves no partial content. An intact content is not written
//! again.
//!
//! Entries are written after the contents that they name. Until then a call holds a shared lock on the
//! directory, and a collection needs it exclusively. So no content is collected before it is named.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, chmodat, fdatasync, flock, fstat, fsync,
    ioctl_ficlone, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use sinew_tool::ContentHash;

use super::path_state::{CHUNK, hash_of, read_from_start};
use super::{CheckpointError, Content, PathState};
use crate::ledger::LedgerSync;
use sinew_fs::content_hash::{content_hash, hash_so_far};
use sinew_fs::dir_lock::granted;
use sinew_fs::roots::{DIRECTORY_READ, FILE_READ};
use sinew_fs::temporary::{is_temporary, temporary_name};

/// Contents up to this size are read into memory once.
const SMALL: u64 = CHUNK as u64;
/// Contents up to this size fit into one disk block and are not compressed.
const BLOCK: usize = 4 * 1024;
/// The compression level: the fastest, because a change waits.
const LEVEL: i32 = 1;
/// The file extension of a compressed content.
const PACKED: &str = ".zst";
/// The file extension of a collected content that is about to be removed.
const COLLECTED: &[u8] = b".gone";
/// The longest sleep while waiting for the directory lock.
const LONGEST_SLEEP: Duration = Duration::from_millis(5);

/// The store of contents.
#[derive(Debug, Clone)]
pub(super) struct Contents {
    path: PathBuf,
    sync: LedgerSync,
}

/// A kept content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) content: ContentHash,
    /// The bytes that it added to the store.
    pub(super) n_new: u64,
}

/// Why a content was not kept.
#[derive(Debug)]
pub(super) enum Failure {
    /// The file changed while it was read.
    Changed,
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The content cannot be written.
    Store(Errno),
}

impl Failure {
    /// Returns the error for the file at a path.
    pub(super) fn about(self, path: &Path) -> CheckpointError {
        match self {
            Self::Changed => CheckpointError::Changed(path.to_owned()),
            Self::Unreadable(error) => CheckpointError::Unreadable(path.to_owned(), error),
            Self::Store(errno) => CheckpointError::of_store(errno),
        }
    }

    /// Distinguishes a changed size from a read error.
    fn of_read(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Changed,
            _ => Self::Unreadable(error),
        }
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Store(errno)
    }
}

/// A shared lock to add contents: no collection runs while it lives.
#[derive(Debug)]
pub struct Held {
    dir: OwnedFd,
    sync: LedgerSync,
}

/// An exclusive lock to collect contents: no call adds any while it lives.
#[derive(Debug)]
pub(super) struct Alone {
    dir: OwnedFd,
}

/// One file in the store.
#[derive(Debug)]
pub(super) struct ContentFile {
    pub(super) name: CString,
    /// The content; `None` if a crash left the file behind.
    pub(super) content: Option<ContentHash>,
    pub(super) n_bytes: u64,
}

impl Contents {
    pub(super) fn new(path: PathBuf, sync: LedgerSync) -> Self {
        Self { path, sync }
    }

    /// Takes the shared lock; creates the directory if missing.
    pub(super) fn hold(&self, patience: Duration) -> Result<Held, CheckpointError> {
        let dir = match self.directory() {
            Err(Errno::NOENT) => {
                super::make_state(&self.path)?;
                match mkdirat(CWD, &self.path, Mode::from_raw_mode(0o700)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(CheckpointError::of_store(errno)),
                }
                self.directory()
            }
            other => other,
        };
        let dir = dir.map_err(CheckpointError::of_store)?;
        match take(&dir, FlockOperation::NonBlockingLockShared, patience)? {
            true => Ok(Held { dir, sync: self.sync }),
            false => Err(CheckpointError::Busy),
        }
    }

    /// Takes the exclusive lock; `None` on timeout or without a directory.
    pub(super) fn alone(&self, patience: Duration) -> Result<Option<Alone>, CheckpointError> {
        let dir = match self.directory() {
            Err(Errno::NOENT) => return Ok(None),
            other => other.map_err(CheckpointError::of_store)?,
        };
        let taken = take(&dir, FlockOperation::NonBlockingLockExclusive, patience)?;
        Ok(taken.then_some(Alone { dir }))
    }

    /// Lists the files in the store.
    pub(super) fn list(&self) -> Result<Vec<ContentFile>, CheckpointError> {
        let list = || {
            let dir = match self.directory() {
                Err(Errno::NOENT) => return Ok(Vec::new()),
                other => other?,
            };
            let mut all = Vec::new();
            for entry in Dir::read_from(&dir)? {
                let name = entry?.file_name().to_owned();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let n_bytes = match statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => u64::try_from(stat.st_size).unwrap_or(0),
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(errno),
                };
                let content = content_of(name.to_bytes());
                all.push(ContentFile { name, content, n_bytes });
            }
            Ok(all)
        };
        list().map_err(CheckpointError::of_store)
    }

    /// Opens the content that a state of a path names.
    pub(super) fn open(&self, path: &Path, state: &PathState) -> Result<Content, CheckpointError> {
        let (content, size) = match state {
            PathState::File { content, size, .. } => (*content, *size),
            PathState::Unkept { .. } => return Err(CheckpointError::NotKept(path.to_owned())),
            _ => return Err(CheckpointError::Special(path.to_owned())),
        };
        let opened = match self.directory() {
            Ok(dir) => Content::open(&dir, content, size, path),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        };
        match opened {
            Ok(Some(content)) => Ok(content),
            Ok(None) => Err(CheckpointError::Lost(path.to_owned())),
            Err(errno) => Err(CheckpointError::of_store(errno)),
        }
    }

    fn directory(&self) -> Result<OwnedFd, Errno> {
        openat(CWD, &self.path, DIRECTORY_READ, Mode::empty())
    }
}

/// Locks the directory, waiting up to `patience`; returns whether it succeeded. Closing the handle unlocks.
fn take(
    dir: &OwnedFd,
    operation: FlockOperation,
    patience: Duration,
) -> Result<bool, CheckpointError> {
    let due = Instant::now() + patience;
    let mut sleep = Duration::from_micros(50);
    loop {
        let answer = granted(flock(dir, operation));
        if answer.map_err(|error| CheckpointError::Unusable(format!("{error:?}")))? {
            return Ok(true);
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        std::thread::sleep(sleep.min(left));
        sleep = (sleep * 2).min(LONGEST_SLEEP);
    }
}

/// Returns the content that a file name stands for.
fn content_of(name: &[u8]) -> Option<ContentHash> {
    ContentHash::from_hex(name.strip_suffix(PACKED.as_bytes()).unwrap_or(name))
}

/// Returns the plain and the compressed name of a content.
pub(super) fn names_of(content: ContentHash) -> Result<(CString, CString), Errno> {
    let name = |end: &str| CString::new(format!("{content}{end}")).map_err(|_| Errno::INVAL);
    Ok((name("")?, name(PACKED)?))
}

impl Held {
    /// Keeps the content of a file of known size.
    pub(super) fn keep(&self, file: &File, size: u64) -> Result<Kept, Failure> {
        if size <= SMALL { self.keep_small(file, size) } else { self.keep_large(file, size) }
    }

    /// Keeps the content of a file in another directory of this file system by moving it here. `note` is called before,
    /// with the hash and size of the content.
    pub(super) fn adopt(
        &self,
        dir: &OwnedFd,
        name: &CStr,
        note: impl FnOnce(ContentHash, u64) -> Result<(), Failure>,
    ) -> Result<(Kept, u64), Failure> {
        let file = match openat(dir, name, FILE_READ, Mode::empty()) {
            // Its mode closes it to its owner.
            Err(Errno::ACCESS) => chmodat(dir, name, Mode::RUSR | Mode::WUSR, AtFlags::empty())
                .and_then(|()| openat(dir, name, FILE_READ, Mode::empty())),
            other => other,
        };
        // It may belong to another user.
        let file = file.map_err(|errno| match errno {
            Errno::ACCESS | Errno::PERM => Failure::Unreadable(errno.into()),
            other => Failure::Store(other),
        })?;
        let file = File::from(file);
        let stat = fstat(&file)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let content = hash_of(&file, size).map_err(Failure::of_read)?;
        if self.is_sound(content, size)? {
            return Ok((Kept { content, n_new: 0 }, size));
        }
        // A file that others can change is copied.
        if stat.st_nlink != 1 {
            return Ok((self.keep(&file, size)?, size));
        }
        let (plain_name, _) = names_of(content)?;
        note(content, size)?;
        match renameat(dir, name, &self.dir, &plain_name) {
            Ok(()) => Ok((Kept { content, n_new: size }, size)),
            Err(_) => Ok((self.keep(&file, size)?, size)),
        }
    }

    fn keep_small(&self, file: &File, size: u64) -> Result<Kept, Failure> {
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        read_from_start(file, size, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })
        .map_err(Failure::of_read)?;
        let content = content_hash(&bytes);
        if self.is_sound(content, size)? {
            return Ok(Kept { content, n_new: 0 });
        }
        let packed = match BLOCK < bytes.len() {
            true => zstd::bulk::compress(&bytes, LEVEL).ok(),
            false => None,
        };
        let packed = packed.filter(|packed| saves(packed.len(), bytes.len()));
        let temporary = Temporary::create(&self.dir)?;
        (&temporary.file).write_all(packed.as_deref().unwrap_or(&bytes)).map_err(errno_of)?;
        self.name(temporary, content, packed.is_some())
    }

    fn keep_large(&self, file: &File, size: u64) -> Result<Kept, Failure> {
        let temporary = Temporary::create(&self.dir)?;
        if ioctl_ficlone(&temporary.file, file).is_ok() {
            let content = hash_of(&temporary.file, size).map_err(Failure::of_read)?;
            return match self.is_sound(content, size)? {
                true => Ok(Kept { content, n_new: 0 }),
                false => self.name(temporary, content, false),
            };
        }
        let content = hash_of(file, size).map_err(Failure::of_read)?;
        if self.is_sound(content, size)? {
            return Ok(Kept { content, n_new: 0 });
        }
        let packs = packs(file).map_err(Failure::Unreadable)?;
        match copy(file, size, &temporary.file, packs)? == content {
            true => self.name(temporary, content, packs),
            false => Err(Failure::Changed),
        }
    }

    /// Renames a complete content to its hash.
    fn name(
        &self,
        temporary: Temporary<'_>,
        content: ContentHash,
        packed: bool,
    ) -> Result<Kept, Failure> {
        let (plain_name, packed_name) = names_of(content)?;
        let (name, other) =
            if packed { (packed_name, plain_name) } else { (plain_name, packed_name) };
        let n_new = u64::try_from(fstat(&temporary.file)?.st_size).unwrap_or(0);
        if self.sync == LedgerSync::Full {
            fdatasync(&temporary.file)?;
        }
        temporary.rename(&name)?;
        // A file under the other name was not intact.
        match unlinkat(&self.dir, &other, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        if self.sync == LedgerSync::Full {
            fsync(&self.dir)?;
        }
        Ok(Kept { content, n_new })
    }

    /// Returns whether a content exists and is intact. Without this check a damaged content stays damaged.
    fn is_sound(&self, content: ContentHash, size: u64) -> Result<bool, Errno> {
        match Content::open(&self.dir, content, size, Path::new(""))? {
            Some(mut kept) => Ok(io::copy(&mut kept, &mut io::sink()).is_ok()),
            None => Ok(false),
        }
    }
}

impl Alone {
    /// Renames a file; [`Alone::remove`] then removes it without the lock.
    pub(super) fn collect(&self, found: &mut ContentFile) -> Result<(), CheckpointError> {
        let mut name = found.name.to_bytes().to_vec();
        if !name.ends_with(COLLECTED) {
            name.extend_from_slice(COLLECTED);
        }
        let name = CString::new(name).map_err(|_| CheckpointError::of_store(Errno::INVAL))?;
        match renameat(&self.dir, &found.name, &self.dir, &name) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(CheckpointError::of_store(errno)),
        }
        found.name = name;
        Ok(())
    }

    /// Unlocks and removes the collected files.
    pub(super) fn remove(self, collected: &[ContentFile]) {
        let _ = flock(&self.dir, FlockOperation::NonBlockingUnlock);
        for found in collected {
            let _ = unlinkat(&self.dir, &found.name, AtFlags::empty());
        }
    }
}

impl ContentFile {
    /// Returns whether a crash left the file behind, while it was written or removed. Other files stay.
    pub(super) fn is_left_over(&self) -> bool {
        let name = self.name.to_bytes();
        let collected = name.strip_suffix(COLLECTED);
        is_temporary(name)
            || collected.is_some_and(|name| is_temporary(name) || content_of(name).is_some())
    }
}

/// A file that is being written, removed on drop unless renamed.
struct Temporary<'a> {
    dir: &'a OwnedFd,
    name: CString,
    file: File,
    named: bool,
}

impl<'a> Temporary<'a> {
    fn create(dir: &'a OwnedFd) -> Result<Self, Errno> {
        let name = temporary_name()?;
        let flags = OFlags::CREATE
            .union(OFlags::EXCL)
            .union(OFlags::RDWR)
            .union(OFlags::NOFOLLOW)
            .union(OFlags::CLOEXEC);
        let file = File::from(openat(dir, &name, flags, Mode::from_raw_mode(0o600))?);
        Ok(Self { dir, name, file, named: false })
    }

    fn rename(mut self, name: &CStr) -> Result<(), Errno> {
        renameat(self.dir, &self.name, self.dir, name)?;
        self.named = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.named {
            let _ = unlinkat(self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// Returns whether compression saves at least an eighth.
fn saves(packed: usize, size: usize) -> bool {
    packed <= size - size / 8
}

/// Returns whether the start of a file compresses well.
fn packs(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;

    let mut sample = vec![0_u8; CHUNK];
    file.read_exact_at(&mut sample, 0)?;
    Ok(zstd::bulk::compress(&sample, LEVEL).is_ok_and(|packed| saves(packed.len(), sample.len())))
}

/// Copies a file of known size; returns the hash of the copied bytes.
fn copy(file: &File, size: u64, to: &File, packed: bool) -> Result<ContentHash, Failure> {
    let mut hasher = blake3::Hasher::new();
    // A write error, kept apart from a read error.
    let mut unwritten = None;
    let mut sink = match packed {
        true => Sink::Packed(zstd::stream::write::Encoder::new(to, LEVEL).map_err(errno_of)?),
        false => Sink::Plain(to),
    };
    let read = read_from_start(file, size, |chunk| {
        hasher.update(chunk);
        sink.write(chunk).inspect_err(|error| unwritten = Some(errno_of_ref(error)))
    });
    match (read, unwritten) {
        (_, Some(errno)) => return Err(errno.into()),
        (Err(error), None) => return Err(Failure::of_read(error)),
        (Ok(()), None) => {}
    }
    sink.finish().map_err(errno_of)?;
    Ok(hash_so_far(&hasher))
}

/// The destination of a content.
enum Sink<'a> {
    Plain(&'a File),
    Packed(zstd::stream::write::Encoder<'static, &'a File>),
}

impl Sink<'_> {
    fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.write_all(chunk),
            Self::Packed(encoder) => encoder.write_all(chunk),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Packed(encoder) => encoder.finish().map(|_| ()),
        }
    }
}

pub(super) fn errno_of(error: io::Error) -> Errno {
    errno_of_ref(&error)
}

fn errno_of_ref(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
