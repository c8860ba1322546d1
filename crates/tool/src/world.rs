//! The only way out: what an operation may reach, as traits.
//!
//! A World with authority comes only out of the guard, after the ruling, and holds nothing but the
//! targets of one call: operations name [`Slot`]s, never paths. The traits hand out native files
//! and native walks, so that no virtual call happens per line or per byte. `testkit` has a World in
//! memory; one differential test holds both to the same behaviour.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::{Checkpoints, ContentHash, FileError, Knowledge, Processes, Skipped};

/// The place of a target in the World of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(pub usize);

/// Everything an operation may reach.
#[derive(Clone)]
pub struct World {
    /// The files among the targets.
    pub files: Arc<dyn Files>,
    /// The command among the targets.
    pub processes: Arc<dyn Processes>,
    /// What the caller knows of the files.
    pub knowledge: Arc<dyn Knowledge>,
    /// What was there before changes.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

/// Time, as far as operations may know it.
pub trait Clock: Send + Sync {
    /// Returns a point on a clock that never goes back, for deadlines.
    fn now(&self) -> Instant;

    /// Returns milliseconds since 1970.
    fn wall_ms(&self) -> u64;
}

crate::word_enum! {
    /// What kind of thing a name stands for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum FileKind {
        /// A regular file.
        File = "file",
        /// A directory.
        Directory = "directory",
        /// A symbolic link, where it was not followed.
        Symlink = "symlink",
        /// A FIFO, socket or device.
        Special = "special",
    }
}

impl FileKind {
    /// Returns what a sentence calls it.
    pub fn words(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Directory => "a directory",
            Self::Symlink => "a symbolic link",
            Self::Special => "a FIFO, socket or device",
        }
    }
}

/// A time of a file: seconds since 1970 and nanoseconds, ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

/// What tells one state of one file from every other that a well-behaved system can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// The size in bytes.
    pub size: u64,
    /// When the content changed last.
    pub modified: Stamp,
    /// When content or attributes changed last.
    pub changed: Stamp,
}

impl Identity {
    /// Returns the device and the inode, which tell one file from every other that is there now.
    pub fn of_file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMeta {
    /// What it is.
    pub kind: FileKind,
    /// Its identity, size and times.
    pub identity: Identity,
    /// Permission bits.
    pub mode: u32,
    /// How many names it has.
    pub links: u64,
}

impl FileMeta {
    /// Returns the size in bytes. Files of procfs say 0 whatever they hold.
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// Returns when the content changed last.
    pub fn modified(&self) -> Stamp {
        self.identity.modified
    }
}

/// An open file and what it was when it was opened.
#[derive(Debug)]
pub struct Opened {
    /// The file, for reading, at its start.
    pub file: File,
    /// What it was.
    pub meta: FileMeta,
}

/// What is known of a file for somebody who asks about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// What every call knows.
    pub meta: FileMeta,
    /// When it was made, where the file system keeps that.
    pub created: Option<Stamp>,
    /// When it was read last, as far as the file system keeps that.
    pub accessed: Stamp,
}

/// What must be true of the old file for a replacement to go ahead.
#[derive(Debug, Clone, Copy)]
pub enum Expect<'a> {
    /// Anything, also nothing.
    Any,
    /// Nothing.
    Nothing,
    /// Still this file in this state, with this content.
    Same(Seen<'a>),
}

/// A file as the caller read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen<'a> {
    /// Its state.
    pub identity: Identity,
    /// Its content; of a symbolic link the target.
    pub content: &'a [u8],
    hash: Option<ContentHash>,
}

impl<'a> Seen<'a> {
    /// Returns a file whose content was not hashed.
    pub fn new(identity: Identity, content: &'a [u8]) -> Self {
        Self { identity, content, hash: None }
    }

    /// Returns the same with BLAKE3 of the content, where somebody has worked it out.
    #[must_use]
    pub fn hashed(self, hash: Option<ContentHash>) -> Self {
        Self { hash, ..self }
    }

    /// Returns BLAKE3 of the content, if it is known already.
    pub fn hash(&self) -> Option<ContentHash> {
        self.hash
    }
}

/// The permission bits that a file gets. Set-id bits are never given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// Those of the old file; a new file gets what the system gives new files.
    Kept,
    /// The same, but everybody who may read the file may execute it, or nobody may.
    Executable(bool),
    /// These.
    Exact(u32),
}

/// What a name stands for once a change is made.
#[derive(Debug, Clone, Copy)]
pub enum Becomes<'a> {
    /// A file with these pieces in order.
    File {
        /// The content.
        pieces: &'a [&'a [u8]],
        /// The permission bits.
        mode: FileMode,
        /// The target whose owner, permission bits and attributes it takes instead of those of the
        /// old file, as where a file gets another name.
        like: Option<Slot>,
    },
    /// A symbolic link with this target.
    Link(&'a [u8]),
    /// Nothing: what was there is removed.
    Nothing,
    /// A directory: it is made where none is, before the other changes, and goes again where those
    /// fail.
    Directory {
        /// The permission bits of a directory that is made; `None` are those of any new one.
        mode: Option<u32>,
    },
    /// No directory: it is removed after the other changes if nothing is in it, and else left.
    NoDirectory,
}

/// One of several changes that happen together.
#[derive(Debug, Clone, Copy)]
pub struct FileOp<'a> {
    /// The target.
    pub slot: Slot,
    /// What must be there for the change to go ahead.
    pub expect: Expect<'a>,
    /// What is there afterwards.
    pub becomes: Becomes<'a>,
}

/// Why several changes did not happen, and which of them it was.
#[derive(Debug)]
pub struct CommitError {
    /// The target that stood in the way.
    pub slot: Slot,
    /// What is wrong with it.
    pub error: FileError,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the new content; 0 where nothing is left.
    pub bytes: u64,
    /// Whether nothing was there before.
    pub created: bool,
}

/// One change, as the ledger keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The real path.
    pub path: PathBuf,
    /// The hash of the old content; `None` where there was none or it was too large.
    pub before: Option<ContentHash>,
    /// The hash of the new content; `None` where nothing is there any more.
    pub after: Option<ContentHash>,
    /// Bytes of the new content.
    pub bytes: u64,
}

/// What a walk looks at.
#[derive(Debug, Clone)]
pub struct WalkOptions {
    /// Whether ignore files are heeded.
    pub heed_ignore: bool,
    /// Whether directories named `.git`, `.sinew` or `.molf` are entered.
    pub enter_state: bool,
    /// How many levels beneath the start are entered; `None` is all. 0 lists the start alone.
    pub max_depth: Option<usize>,
    /// Whether directories are shown to the visitor, or files and links alone.
    pub directories: bool,
}

/// What a visitor wants next.
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

    /// Returns what it is; links are not followed.
    fn kind(&self) -> FileKind;

    /// Returns what is known of it, without following links.
    fn meta(&self) -> Result<FileMeta, FileError>;

    /// Opens a regular file for reading. Anything else is refused without blocking.
    fn open(&self) -> Result<File, FileError>;
}

/// Looks at the entries that one thread of a walk sees.
pub trait Visitor: Send {
    /// Looks at one entry.
    fn visit(&mut self, entry: &dyn Entry) -> Flow;

    /// Returns whether a directory is worth entering; its path is relative to the start of the
    /// walk. A walk need not ask, so what lies beneath may be shown all the same.
    fn enter(&mut self, path: &Path) -> bool {
        let _ = path;
        true
    }
}

/// Makes one visitor for each thread of a walk.
pub trait Visitors: std::marker::Sync {
    /// Makes a visitor.
    fn visitor(&self) -> Box<dyn Visitor + '_>;
}

/// What a walk passed over, and whether it came to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WalkReport {
    /// What was passed over.
    pub skipped: Skipped,
    /// Whether the walk saw everything: false after a stop or a visitor's stop.
    pub complete: bool,
}

/// One row of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The path relative to the listed directory.
    pub path: PathBuf,
    /// What it is; links are not followed.
    pub kind: FileKind,
    /// What is known of it, where it was asked for and could be had.
    pub meta: Option<FileMeta>,
}

/// A listing and what it passed over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The rows kept, by name.
    pub rows: Vec<Listed>,
    /// How many there were before the limit.
    pub total: u64,
    /// What was passed over.
    pub skipped: Skipped,
}

/// The files among the targets of one call.
pub trait Files: Send + std::marker::Sync {
    /// Returns what is at a slot now.
    fn meta(&self, slot: Slot) -> Result<FileMeta, FileError>;

    /// Returns what is at a slot now, with all its times.
    fn info(&self, slot: Slot) -> Result<Info, FileError>;

    /// Returns the directories that the call may touch; the first is where relative paths start.
    fn roots(&self) -> Vec<PathBuf>;

    /// Opens the regular file at a slot for reading.
    fn open(&self, slot: Slot) -> Result<Opened, FileError>;

    /// Returns the target of the symbolic link at a slot, where the claim is about the link itself.
    fn link(&self, slot: Slot) -> Result<Vec<u8>, FileError>;

    /// Replaces or creates the file at a slot atomically with the pieces in order. Mode, owner,
    /// extended attributes and access lists of the old file are kept, or the change is refused.
    /// Where others are changing the same directory it does not wait for longer than about a
    /// millisecond: [`FileError::Busy`] says that nothing happened and that it can be asked again,
    /// which [`Context::replace`](crate::Context::replace) does.
    fn replace(
        &self,
        slot: Slot,
        pieces: &[&[u8]],
        expect: Expect<'_>,
    ) -> Result<Written, FileError>;

    /// Makes several changes together: all of them happen, or none does, also where the process dies
    /// in the middle and the guard has a place for journals. Each slot stands in one deed. What
    /// [`Files::replace`] says of one file holds for each; files of several names are replaced or
    /// refused, because writing into them cannot be taken back. Readers may see some of the changes
    /// before the others.
    fn commit(&self, deeds: &[FileOp<'_>]) -> Result<Vec<Written>, CommitError>;

    /// Makes the directory at a slot, and those above it that are missing. Returns whether it was not
    /// there before.
    fn make_directory(&self, slot: Slot) -> Result<bool, FileError>;

    /// Gives what is at a slot the name at the slot after it, where nothing is, in one step. Neither
    /// claim may end in a slash, which means what a directory holds and not its name. A directory takes along what lies beneath it: what may not be touched there or where it goes is
    /// refused. As with [`Files::replace`], [`FileError::Busy`] says that it can be asked again.
    fn rename(&self, from: Slot) -> Result<(), FileError>;

    /// Walks the directory at a slot on several threads, in no particular order. `stop` ends it
    /// within milliseconds.
    fn walk(
        &self,
        slot: Slot,
        options: &WalkOptions,
        visitors: &dyn Visitors,
        stop: &AtomicBool,
    ) -> Result<WalkReport, FileError>;

    /// Lists one directory by name: the first `limit` rows, and what is known of each of them.
    fn list(&self, slot: Slot, limit: usize) -> Result<Listing, FileError>;

    /// Returns what was changed so far.
    fn changes(&self) -> Vec<Change>;

    /// Returns the id of the checkpoint that keeps what was there before, where there is one.
    fn checkpoint(&self) -> Option<String> {
        None
    }
}
