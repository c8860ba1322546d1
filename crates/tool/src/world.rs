//! The World of a call: traits for all that an operation may reach.
//!
//! Only the guard makes a World with authority, after the ruling, for the targets of one call. Operations
//! name [`Slot`]s, never paths. The traits return native files and walks, so that no virtual call happens per
//! line or byte. `testkit` has an in-memory World; a differential test compares both.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::slot::Slot;
use crate::{Checkpoints, ContentHash, FileError, Knowledge, Messages, Net, Processes, Skipped};

/// All that an operation may reach.
#[derive(Clone)]
pub struct World {
    /// The files among the targets.
    pub files: Arc<dyn Files>,
    /// The command among the targets.
    pub processes: Arc<dyn Processes>,
    /// The hosts among the targets.
    pub net: Arc<dyn Net>,
    /// The message that it sends, and the inbox of its session.
    pub messages: Arc<dyn Messages>,
    /// The caller's knowledge of the files.
    pub knowledge: Arc<dyn Knowledge>,
    /// The checkpoints of earlier states.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

/// The clock that operations read.
pub trait Clock: Send + Sync {
    /// Returns a monotonic time, for deadlines.
    fn now(&self) -> Instant;

    /// Returns milliseconds since 1970.
    fn wall_ms(&self) -> u64;
}

crate::word_enum! {
    /// The type of a file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum FileKind {
        /// A regular file.
        File = "file",
        /// A directory.
        Directory = "directory",
        /// A symlink that was not followed.
        Symlink = "symlink",
        /// A FIFO, socket or device.
        Special = "special",
    }
}

impl FileKind {
    /// Returns the word for messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Directory => "a directory",
            Self::Symlink => "a symbolic link",
            Self::Special => "a FIFO, socket or device",
        }
    }
}

/// A file timestamp: seconds since 1970 and nanoseconds, ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

/// Identifies one state of one file by inode, size and timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// The size in bytes.
    pub size: u64,
    /// The modification time (mtime).
    pub modified: Stamp,
    /// The status change time (ctime).
    pub changed: Stamp,
}

impl Identity {
    /// Returns device and inode, which identify an existing file.
    pub fn of_file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// The metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMeta {
    /// The file type.
    pub kind: FileKind,
    /// Its identity, size and times.
    pub identity: Identity,
    /// Permission bits.
    pub mode: u32,
    /// The number of hard links.
    pub links: u64,
}

impl FileMeta {
    /// Returns the size in bytes; files of procfs report 0.
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// Returns the modification time.
    pub fn modified(&self) -> Stamp {
        self.identity.modified
    }
}

/// An open file with its metadata at opening.
#[derive(Debug)]
pub struct Opened {
    /// The file, for reading, at its start.
    pub file: File,
    /// The metadata at opening.
    pub meta: FileMeta,
}

/// Detailed metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The common metadata.
    pub meta: FileMeta,
    /// The creation time, if the file system stores it.
    pub created: Option<Stamp>,
    /// The access time, as far as the file system stores it.
    pub accessed: Stamp,
}

/// The precondition of a replacement.
#[derive(Debug, Clone, Copy)]
pub enum Expect<'a> {
    /// Any state, including absence.
    Any,
    /// Absence.
    Nothing,
    /// The same file, state and content.
    Same(Seen<'a>),
}

/// A file as the caller read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen<'a> {
    /// Its state.
    pub identity: Identity,
    /// Its content; of a symlink the target.
    pub content: &'a [u8],
    hash: Option<ContentHash>,
}

impl<'a> Seen<'a> {
    /// Returns a file without a content hash.
    pub fn new(identity: Identity, content: &'a [u8]) -> Self {
        Self { identity, content, hash: None }
    }

    /// Returns the file with the BLAKE3 of its content, if computed.
    #[must_use]
    pub fn hashed(self, hash: Option<ContentHash>) -> Self {
        Self { hash, ..self }
    }

    /// Returns the BLAKE3 of the content, if known.
    pub fn hash(&self) -> Option<ContentHash> {
        self.hash
    }
}

/// The permission bits of a new file, never setuid or setgid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// Those of the old file; the system default for a new one.
    Kept,
    /// The same, with execute permission for all readers, or for none.
    Executable(bool),
    /// Exactly these.
    Exact(u32),
}

/// The state of a name after a change.
#[derive(Debug, Clone, Copy)]
pub enum Becomes<'a> {
    /// A file with these pieces in order.
    File {
        /// The content.
        pieces: &'a [&'a [u8]],
        /// The permission bits.
        mode: FileMode,
        /// The target that provides owner, mode and attributes instead of the old file, as in a rename.
        like: Option<Slot>,
    },
    /// A symlink with this target.
    Link(&'a [u8]),
    /// Absence: the old entry is removed.
    Nothing,
    /// A directory, created before the other changes if missing; removed again if they fail.
    Directory {
        /// The mode of the directory after the other changes; `None` is the default of new ones, and leaves an
        /// existing one as it is.
        mode: Option<u32>,
    },
    /// An empty directory is removed after the other changes; a non-empty one stays.
    NoDirectory,
    /// Absence: a directory that tools make anew moves to `.sinew/undone` of its root after the other changes.
    SetAside,
    /// Such a directory, moved back from this path after the other changes; nothing happens if it is not there.
    BroughtBack(&'a Path),
}

/// One change of a commit.
#[derive(Debug, Clone, Copy)]
pub struct FileOp<'a> {
    /// The target.
    pub slot: Slot,
    /// The precondition.
    pub expect: Expect<'a>,
    /// The state afterwards.
    pub becomes: Becomes<'a>,
}

/// The failed change of a commit.
#[derive(Debug)]
pub struct CommitError {
    /// The target that failed.
    pub slot: Slot,
    /// The error.
    pub error: FileError,
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The size of the new content; 0 after a removal.
    pub bytes: u64,
    /// Whether the name was absent before.
    pub created: bool,
}

/// One change as the ledger records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The real path.
    pub path: PathBuf,
    /// The hash of the old content; `None` if absent or too large.
    pub before: Option<ContentHash>,
    /// The hash of the new content; `None` if removed.
    pub after: Option<ContentHash>,
    /// Bytes of the new content.
    pub bytes: u64,
}

/// The options of a walk.
#[derive(Debug, Clone)]
pub struct WalkOptions {
    /// Whether ignore files apply.
    pub heed_ignore: bool,
    /// Whether the walk enters directories named `.git`, `.sinew` or `.molf`.
    pub enter_state: bool,
    /// The depth limit; `None` is unlimited, 0 lists the start alone.
    pub max_depth: Option<usize>,
    /// Whether the visitor sees directories, or files and links alone.
    pub directories: bool,
}

/// The decision of a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Stop the whole walk.
    Stop,
}

/// One entry of a walk, valid during the visit.
pub trait Entry {
    /// Returns the path relative to the start of the walk.
    fn path(&self) -> &Path;

    /// Returns the last component.
    fn name(&self) -> &OsStr;

    /// Returns the file type; symlinks are not followed.
    fn kind(&self) -> FileKind;

    /// Returns the metadata; symlinks are not followed.
    fn meta(&self) -> Result<FileMeta, FileError>;

    /// Opens a regular file for reading; rejects others without blocking.
    fn open(&self) -> Result<File, FileError>;
}

/// Visits the entries of one thread of a walk.
pub trait Visitor: Send {
    /// Visits one entry.
    fn visit(&mut self, entry: &dyn Entry) -> Flow;

    /// Returns whether to enter a directory, relative to the start. A walk may ignore the answer.
    fn enter(&mut self, path: &Path) -> bool {
        let _ = path;
        true
    }
}

/// Makes one visitor per thread of a walk.
pub trait Visitors: std::marker::Sync {
    /// Makes a visitor.
    fn visitor(&self) -> Box<dyn Visitor + '_>;
}

/// The skip counts of a walk, and whether it completed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WalkReport {
    /// The skip counts.
    pub skipped: Skipped,
    /// Whether the walk saw everything: false after a cancellation or [`Flow::Stop`].
    pub complete: bool,
}

/// One row of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The path relative to the listed directory.
    pub path: PathBuf,
    /// The file type; symlinks are not followed.
    pub kind: FileKind,
    /// The metadata, if requested and readable.
    pub meta: Option<FileMeta>,
}

/// A listing with its skip counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The rows, by name.
    pub rows: Vec<Listed>,
    /// The number of rows before the limit.
    pub total: u64,
    /// The skip counts.
    pub skipped: Skipped,
}

/// The files among the targets of one call.
pub trait Files: Send + std::marker::Sync {
    /// Returns the current metadata at a slot.
    fn meta(&self, slot: Slot) -> Result<FileMeta, FileError>;

    /// Returns the current metadata at a slot with all timestamps.
    fn info(&self, slot: Slot) -> Result<Info, FileError>;

    /// Returns the roots of the call; relative paths start at the first.
    fn roots(&self) -> Vec<PathBuf>;

    /// Opens the regular file at a slot for reading.
    fn open(&self, slot: Slot) -> Result<Opened, FileError>;

    /// Returns the target of the symlink at a slot, if the claim is about the link itself.
    fn link(&self, slot: Slot) -> Result<Vec<u8>, FileError>;

    /// Atomically replaces or creates a file; keeps mode, owner, extended attributes and ACLs, or refuses.
    /// Waits about 1 ms at most for concurrent changes of the directory. [`FileError::Busy`] means nothing
    /// happened; [`Context::replace`](crate::Context::replace) retries it.
    fn replace(
        &self,
        slot: Slot,
        pieces: &[&[u8]],
        expect: Expect<'_>,
    ) -> Result<Written, FileError>;

    /// Makes several changes atomically; a journal (write-ahead log) makes them crash-safe. Each slot occurs
    /// once, and [`Files::replace`] describes each file. Files with several hard links are replaced or
    /// refused: a write in place cannot be undone. Readers may see a partial state.
    fn commit(&self, deeds: &[FileOp<'_>]) -> Result<Vec<Written>, CommitError>;

    /// Creates the directory at a slot with its parents. Returns whether it was missing.
    fn make_directory(&self, slot: Slot) -> Result<bool, FileError>;

    /// Renames a slot to the next, absent one in one step; neither claim may end in a slash. Denied paths
    /// inside a moved directory, at either place, are refused. Callers may retry [`FileError::Busy`].
    fn rename(&self, from: Slot) -> Result<(), FileError>;

    /// Walks the directory at a slot on several threads, unordered. `stop` ends it within milliseconds.
    fn walk(
        &self,
        slot: Slot,
        options: &WalkOptions,
        visitors: &dyn Visitors,
        stop: &AtomicBool,
    ) -> Result<WalkReport, FileError>;

    /// Lists one directory by name: the first `limit` rows with metadata.
    fn list(&self, slot: Slot, limit: usize) -> Result<Listing, FileError>;

    /// Returns the changes so far.
    fn changes(&self) -> Vec<Change>;

    /// Returns the id of the checkpoint of the call, if any.
    fn checkpoint(&self) -> Option<String> {
        None
    }
}
