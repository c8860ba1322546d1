//! Journal of one set of changes: a write-ahead log for recovery to finish or undo them after a crash.
//!
//! A journal is a file in the state directory, whether or not calls are recorded. It is written whole under
//! another name, renamed before the first change and removed after the last. Its suffix gives the direction:
//! `.journal` forward, `.undo` back, `.done` only removal of originals. It names its maker, so that the
//! changes of a living process are left alone, and holds its own hash, so that a damaged one is not followed.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fdatasync, fsync, openat, renameat, unlinkat};
use serde::{Deserialize, Serialize};
use sinew_tool::{Clock, Sync};

use super::step::Step;
use sinew_fs::clock::SystemClock;
use sinew_fs::journal_files::open_or_make;
use sinew_fs::process_identity::ProcessIdentity;
use sinew_fs::resolve::check_spelling;
use sinew_fs::temporary::is_temporary;

/// First bytes of a journal, with the format version.
const HEAD: &[u8] = b"sinew journal 1\n";
const HASH_BYTES: usize = 32;
/// Suffix of a journal that is being written.
pub(super) const NEW: &str = ".new";
/// Suffix of a journal whose changes are to be made.
pub(super) const FORWARD: &str = ".journal";
/// Suffix of a journal whose changes are to be undone.
pub(super) const BACK: &str = ".undo";
/// Suffix of a journal whose changes are made, and whose originals are to be removed.
pub(super) const DONE: &str = ".done";
/// Suffix of a journal that was set aside.
pub(super) const ASIDE: &str = ".aside";

/// Where journals are kept, and where warnings go.
#[derive(Debug, Clone)]
pub struct JournalSettings {
    /// The state directory, created with the first journal. It must also hold the ledger's database, if any:
    /// the ledger spares temporary files that journals beside its database need.
    pub state: PathBuf,
    /// Receives the outcome of interrupted changes.
    pub warn: fn(&str),
}

/// Content of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The process that makes the changes.
    pub(super) maker: ProcessIdentity,
    /// Start time, in milliseconds since 1970.
    pub(super) at_ms: i64,
    pub(super) dirs: Vec<DirRecord>,
    pub(super) steps: Vec<Step>,
}

/// A directory in which names change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DirRecord {
    /// The bytes of its real path.
    pub(super) path: Vec<u8>,
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl DirRecord {
    /// Returns the real path.
    pub(super) fn path(&self) -> &Path {
        Path::new(std::ffi::OsStr::from_bytes(&self.path))
    }
}

impl Record {
    /// Returns the bytes of a journal file.
    pub(super) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let body = postcard::to_stdvec(self).map_err(io::Error::other)?;
        let hash = blake3::hash(&body);
        Ok([HEAD, hash.as_bytes(), &body].concat())
    }

    /// Parses a journal file; rejects a record that could not have been written.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (hash, body) = bytes.strip_prefix(HEAD)?.split_at_checked(HASH_BYTES)?;
        if blake3::hash(body).as_bytes() != hash {
            return None;
        }
        let (record, rest) = postcard::take_from_bytes::<Self>(body).ok()?;
        (rest.is_empty() && record.is_sound()).then_some(record)
    }

    fn is_sound(&self) -> bool {
        let is_name = |name: &CString| {
            let name = name.to_bytes();
            !matches!(name, b"" | b"." | b"..") && name.len() <= 255 && !name.contains(&b'/')
        };
        let is_step = |step: &Step| {
            is_name(&step.name)
                && !is_temporary(step.name.to_bytes())
                && is_temporary(step.temporary.to_bytes())
                && step.dir < self.dirs.len()
                && (step.old.is_some() || step.new.is_some())
        };
        let is_dir =
            |dir: &DirRecord| dir.path().is_absolute() && check_spelling(dir.path()).is_ok();
        self.dirs.iter().all(is_dir) && self.steps.iter().all(is_step)
    }
}

/// A journal of this process.
#[derive(Debug)]
pub(super) struct Journal {
    dir: OwnedFd,
    stem: String,
    ending: &'static str,
}

impl Journal {
    /// Writes the journal before the changes.
    pub(super) fn write(
        settings: &JournalSettings,
        dirs: Vec<DirRecord>,
        steps: Vec<Step>,
        sync: Sync,
    ) -> io::Result<Self> {
        let maker = ProcessIdentity::own();
        let at_ms = SystemClock.wall_ms() as i64;
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let stem = format!("{}-{}-{:016x}", maker.pid, maker.started, u64::from_ne_bytes(random));
        let bytes = Record { maker, at_ms, dirs, steps }.to_bytes()?;
        let mut journal = Self { dir: open_or_make(&settings.state)?, stem, ending: NEW };
        let written = journal.fill(&bytes, sync).and_then(|()| journal.rename(FORWARD));
        let synced = written.and_then(|()| match sync {
            Sync::Full => fsync(&journal.dir).map_err(io::Error::from),
            Sync::Off | Sync::Data => Ok(()),
        });
        match synced {
            Ok(()) => Ok(journal),
            Err(error) => {
                let _ = journal.remove();
                Err(error)
            }
        }
    }

    fn fill(&self, bytes: &[u8], sync: Sync) -> io::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&self.dir, self.name(self.ending), flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        file.write_all(bytes)?;
        if sync != Sync::Off {
            fdatasync(&file)?;
        }
        Ok(())
    }

    /// Marks the changes as to be undone.
    pub(super) fn turn_back(&mut self) -> io::Result<()> {
        self.rename(BACK)
    }

    /// Marks the changes as made. Originals are removed only after this: without them, recovery cannot tell
    /// a change that was made from one whose files are lost.
    pub(super) fn turn_done(&mut self) -> io::Result<()> {
        self.rename(DONE)
    }

    /// Removes the journal, once all that it names is settled.
    pub(super) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.dir, self.name(self.ending), AtFlags::empty())?)
    }

    fn rename(&mut self, ending: &'static str) -> io::Result<()> {
        renameat(&self.dir, self.name(self.ending), &self.dir, self.name(ending))?;
        self.ending = ending;
        Ok(())
    }

    fn name(&self, ending: &str) -> String {
        format!("{}{ending}", self.stem)
    }
}
