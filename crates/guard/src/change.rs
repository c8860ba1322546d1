//! Steps that every file change shares, alone or in a set, so that all are checked and recorded alike.
//!
//! A change works on an open directory and one name in it. [`original`] opens the old file, [`temporary`]
//! stages the new content and the kept attributes beside it, and [`parents`] creates missing directories.
//! [`locks`] serializes changes of one name in this process. [`replace`](crate::replace) or, for a set,
//! [`commit`](crate::commit) then takes the name.

pub(crate) mod kept;
pub(crate) mod locks;
pub(crate) mod original;
pub(crate) mod parents;
pub(crate) mod read_only_dir;
pub(crate) mod temporary;

use std::ffi::CStr;
use std::os::fd::AsFd;

use rustix::fs::fsync;
use rustix::io::Errno;
use sinew_tool::{ContentHash, Expect, FileError, FileSettings, Identity, Stamp};

use locks::Locks;
use original::Original;
use sinew_fs::deferred_close::DeferredClose;
use sinew_fs::dir_lock::DirLocking;
use sinew_fs::resolve::Place;
use sinew_fs::roots::{DIRECTORY_READ, Dir, open_name};
use sinew_fs::stat::{error_of, identity_of};
use sinew_records::knowledge::CallKnowledge;

/// Attempts of a change when other processes change the same file.
pub(crate) const MAX_ATTEMPTS: u32 = 3;

/// One change of one name.
pub(crate) struct NameChange<'a> {
    /// Where the file is.
    pub(crate) place: &'a Place,
    /// Its name there.
    pub(crate) name: &'a CStr,
    /// The name of the temporary file.
    pub(crate) temporary: &'a CStr,
    /// Old content that the caller expects.
    pub(crate) expect: Expect<'a>,
    /// State that an approval depends on; inner `None` means that no file was there.
    pub(crate) bound: Option<Option<Identity>>,
    /// Whether the file may be missing.
    pub(crate) may_create: bool,
    /// Settings and state shared with other changes.
    pub(crate) terms: &'a Terms<'a>,
}

/// Settings and state that the changes of a call share.
pub(crate) struct Terms<'a> {
    /// Settings of the file tools.
    pub(crate) settings: &'a FileSettings,
    /// Serializes changes of one file in this process.
    pub(crate) locks: &'a Locks,
    /// Serializes changes of one file across processes.
    pub(crate) dir_locking: DirLocking,
    /// Knowledge of the caller about the old file, from earlier calls.
    pub(crate) knowledge: &'a CallKnowledge,
    /// The checkpoint of the call.
    pub(crate) kept: &'a kept::CallCheckpoint,
    /// Where old files stay open for a moment.
    pub(crate) deferred_close: &'a DeferredClose,
    /// Earliest time at which the caller could read the old file.
    pub(crate) since: Stamp,
    /// Whether a file that its owner may not write is replaced or removed too: a restore brings its mode back.
    pub(crate) replaces_read_only: bool,
}

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another process changed the file during the attempt.
    Raced,
    /// Anything else.
    Error(FileError),
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::Error(error)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Error(error_of(errno))
    }
}

impl NameChange<'_> {
    /// Returns whether the change accepts any old content.
    pub(crate) fn expects_nothing(&self) -> bool {
        self.bound.is_none() && matches!(self.expect, Expect::Any)
    }

    /// Opens the old file, and compares it with what the caller and the approval expect.
    pub(crate) fn open_old(&self, dir: &Dir) -> Result<Option<Original>, Failure> {
        let Some(seen) = original::look(dir, self.name, self.place.itself)? else {
            if !self.may_create {
                return Err(FileError::Missing.into());
            }
            self.check_expected(None)?;
            return Ok(None);
        };
        let old = match self.terms.replaces_read_only {
            true => Original::open_to_read(dir, self.name, seen)?,
            false => Original::open(dir, self.name, seen)?,
        };
        self.check_expected(Some(identity_of(&old.stat)))?;
        Ok(Some(old))
    }

    fn check_expected(&self, now: Option<Identity>) -> Result<(), FileError> {
        if self.bound.is_some_and(|bound| bound != now) {
            return Err(FileError::Changed);
        }
        match self.expect {
            Expect::Same(seen) if now != Some(seen.identity) => Err(FileError::Changed),
            Expect::Nothing if now.is_some() => Err(FileError::Changed),
            Expect::Same(..) | Expect::Any | Expect::Nothing => Ok(()),
        }
    }

    /// Returns the hash of the old content; fails if the caller knows other content.
    ///
    /// Every change calls this while the old file is open and still has its name, `place.real`; `None` means
    /// that there is no old file. The change proceeds only if this state still holds when the name is taken.
    pub(crate) fn take_down(
        &self,
        old: Option<&Original>,
    ) -> Result<Option<ContentHash>, FileError> {
        let Some(old) = old else { return Ok(None) };
        let (path, knowledge) = (&self.place.real, self.terms.knowledge);
        let is_needed = || knowledge.needs_check(path);
        let before = old.hash(self.expect, self.terms.since, is_needed)?;
        knowledge.check_path(path, &identity_of(&old.stat), before)?;
        Ok(before)
    }
}

/// Syncs a directory. It is opened again, since its handle may be `O_PATH`.
pub(crate) fn sync_directory(dir: &Dir) -> Result<(), Errno> {
    match fsync(open_name(dir.as_fd(), c".", DIRECTORY_READ)?) {
        // Some file systems cannot sync a directory.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        other => other,
    }
}

/// Returns the total length of the pieces, in bytes.
pub(crate) fn length(pieces: &[&[u8]]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}
