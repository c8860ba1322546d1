//! What every change of a file has in common, alone or with others.
//!
//! A change is worked out on the handle of a directory and one name in it: the old thing is looked
//! at and opened ([`old`]), a temporary file beside it gets the new content and what is kept of the
//! old one ([`temporary`]), directories that are missing are made ([`parents`]), and changes of one
//! name in this process keep apart ([`locks`]). The name is then taken by
//! [`replace`](crate::replace) or, together with others, by [`commit`](crate::commit).

pub(crate) mod kept;
pub(crate) mod locks;
pub(crate) mod original;
pub(crate) mod parents;
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

/// How often a change starts anew when others change the same file.
pub(crate) const MAX_ATTEMPTS: u32 = 3;

/// One change of one name.
pub(crate) struct NameChange<'a> {
    /// Where the file is.
    pub(crate) place: &'a Place,
    /// Its name there.
    pub(crate) name: &'a CStr,
    /// The name of the temporary file.
    pub(crate) temporary: &'a CStr,
    /// What the caller knows of the old file.
    pub(crate) expect: Expect<'a>,
    /// What an approval was given for; `None` inside means that nothing was there.
    pub(crate) bound: Option<Option<Identity>>,
    /// Whether the file may be missing.
    pub(crate) may_create: bool,
    /// What it shares with other changes.
    pub(crate) terms: &'a Terms<'a>,
}

/// What changes share.
pub(crate) struct Terms<'a> {
    /// Settings of the file tools.
    pub(crate) settings: &'a FileSettings,
    /// Keeps changes of one file apart.
    pub(crate) locks: &'a Locks,
    /// Keeps changes of one file by several processes apart.
    pub(crate) dir_locking: DirLocking,
    /// What the caller knows of the old file by earlier calls.
    pub(crate) knowledge: &'a CallKnowledge,
    /// The checkpoint of the call.
    pub(crate) kept: &'a kept::CallCheckpoint,
    /// Where old files stay open for a moment.
    pub(crate) deferred_close: &'a DeferredClose,
    /// When the caller could read the old file first.
    pub(crate) since: Stamp,
}

/// Why an attempt did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Somebody else changed the file between two looks.
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
    /// Returns whether the change is the same whatever was there before.
    pub(crate) fn expects_nothing(&self) -> bool {
        self.bound.is_none() && matches!(self.expect, Expect::Any)
    }

    /// Opens what is there, and compares it with what the caller and the approval know of it.
    pub(crate) fn open_old(&self, dir: &Dir) -> Result<Option<Original>, Failure> {
        let Some(seen) = original::look(dir, self.name, self.place.itself)? else {
            if !self.may_create {
                return Err(FileError::Missing.into());
            }
            self.check_expected(None)?;
            return Ok(None);
        };
        let old = Original::open(dir, self.name, seen)?;
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

    /// Takes down what the change takes away: the hash of its content. What the caller knows otherwise
    /// is not taken away.
    ///
    /// Every change passes here while the old thing is open and still has its name, which is
    /// `job.place.real`; `None` means that nothing is there. The change goes ahead only if the thing
    /// is still in this state when its name is taken, so whatever is read of it here is what was
    /// there.
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

/// Syncs a directory whose handle may be good for opening only.
pub(crate) fn sync_directory(dir: &Dir) -> Result<(), Errno> {
    match fsync(open_name(dir.as_fd(), c".", DIRECTORY_READ)?) {
        // Some file systems have nothing to sync there.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        other => other,
    }
}

/// Returns how many bytes pieces are together.
pub(crate) fn length(pieces: &[&[u8]]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}
