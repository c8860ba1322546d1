//! Directory locks between processes (`flock`): the last check of a file and its change are one step.
//!
//! - A change by rename locks the directory from the check to the rename.
//! - A change in place locks the directory and the file, whose names may be in several directories, while it writes.
//!
//! The locks are advisory, end with their process and leave no file. Without `flock`, or for a directory that cannot be
//! read, changes go on unlocked; any other failure ends the change. A lock that stays taken gives `Busy` before
//! anything was changed, so that no thread blocks for long; the caller may retry.

use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sinew_tool::FileError;

use crate::roots::{DIRECTORY_READ, open_name};
use crate::stat::error_of;

/// How changes of one file by several processes are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirLocking {
    /// By locks, where the file system has them.
    #[default]
    Auto,
    /// Not at all, as on file systems without locks.
    None,
}

/// How often a thread asks without sleeping, which takes some microseconds.
const N_AT_ONCE: u32 = 16;
/// How often it sleeps where something would be lost. Together this lasts less than a millisecond.
const N_SLEEPS: u32 = 4;
/// How often it sleeps where a start finishes what a dead process began. Together this lasts less than
/// a second.
const N_SLEEPS_AT_START: u32 = 14;
/// The first sleep; each further one is twice as long.
const FIRST_SLEEP: Duration = Duration::from_micros(50);

/// Where changes beneath one directory take turns. Dropping it gives the turn back.
#[derive(Debug)]
pub struct DirLock {
    dir: Option<OwnedFd>,
}

impl DirLock {
    /// Opens the lock file at a directory, whose handle may be good for opening only.
    pub fn of(dir: impl AsFd, dir_locking: DirLocking) -> Result<Self, FileError> {
        let dir = match dir_locking {
            DirLocking::Auto => open_name(dir.as_fd(), c".", DIRECTORY_READ).map(Some),
            DirLocking::None => Ok(None),
        };
        match dir {
            Ok(dir) => Ok(Self { dir }),
            Err(Errno::ACCESS | Errno::PERM) => Ok(Self { dir: None }),
            Err(errno) => Err(error_of(errno)),
        }
    }

    /// Takes the turn where it is free.
    pub fn take_at_once(&self) -> Result<(), FileError> {
        self.dir.as_ref().map_or(Ok(()), |dir| lock(dir, 0))
    }

    /// Takes the turn, for which a millisecond is not too long: what was prepared would be lost.
    pub fn take(&self) -> Result<(), FileError> {
        self.dir.as_ref().map_or(Ok(()), |dir| lock(dir, N_SLEEPS))
    }

    /// Takes the turn at a start, where nobody else waits for this process.
    pub fn take_at_start(&self) -> Result<(), FileError> {
        self.dir.as_ref().map_or(Ok(()), |dir| lock(dir, N_SLEEPS_AT_START))
    }

    /// Gives the turn back for now.
    pub fn give_back(&self) {
        if let Some(dir) = &self.dir {
            let _ = flock(dir, FlockOperation::NonBlockingUnlock);
        }
    }
}

impl Drop for DirLock {
    /// A process that is being started has the handle too until it executes its program, so closing
    /// it here would not be enough.
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Takes the turn at an open file where it is free. It ends when the handle is closed.
pub fn at_file(file: impl AsFd, dir_locking: DirLocking) -> Result<(), FileError> {
    match dir_locking {
        DirLocking::Auto => lock(file, 0),
        DirLocking::None => Ok(()),
    }
}

fn lock(handle: impl AsFd, n_sleeps: u32) -> Result<(), FileError> {
    ask(n_sleeps, || granted(flock(&handle, FlockOperation::NonBlockingLockExclusive)))
}

/// Returns whether the answer to a request for a lock lets a change go on.
pub fn granted(answer: Result<(), Errno>) -> Result<bool, FileError> {
    match answer {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        // Some file systems have no locks, or none for handles that cannot write.
        Err(
            Errno::ACCESS
            | Errno::PERM
            | Errno::NOTSUP
            | Errno::NOLCK
            | Errno::BADF
            | Errno::INVAL
            | Errno::NOSYS,
        ) => Ok(true),
        Err(errno) => Err(error_of(errno)),
    }
}

/// Asks for something a few times, and then after each of so many sleeps.
fn ask(
    n_sleeps: u32,
    mut granted: impl FnMut() -> Result<bool, FileError>,
) -> Result<(), FileError> {
    for n in 0..N_AT_ONCE + n_sleeps {
        if granted()? {
            return Ok(());
        }
        match n.checked_sub(N_AT_ONCE) {
            None => thread::yield_now(),
            Some(n_slept) => thread::sleep(FIRST_SLEEP * 2_u32.pow(n_slept)),
        }
    }
    if granted()? { Ok(()) } else { Err(FileError::Busy) }
}

/// Asks for something a few times, without sleeping.
pub fn ask_at_once(granted: impl FnMut() -> Result<bool, FileError>) -> Result<(), FileError> {
    ask(0, granted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory, and a way to ask for the turn at it.
    fn place() -> (tempfile::TempDir, impl Fn() -> DirLock) {
        let dir = tempfile::tempdir().expect("a directory");
        let handle =
            open_name(rustix::fs::CWD, &path_of(&dir), DIRECTORY_READ).expect("its handle");
        (dir, move || DirLock::of(&handle, DirLocking::Auto).expect("a place of dir_locking"))
    }

    fn path_of(dir: &tempfile::TempDir) -> std::ffi::CString {
        use std::os::unix::ffi::OsStrExt;
        std::ffi::CString::new(dir.path().as_os_str().as_bytes()).expect("a path")
    }

    /// A start had given up where a process that was just being started still had the handle.
    #[test]
    fn a_turn_ends_though_somebody_has_its_handle() {
        let (_dir, turn) = place();
        let first = turn();
        first.take_at_once().expect("the turn");
        let copy = first.dir.as_ref().map(|dir| dir.try_clone().expect("a copy"));
        assert!(matches!(turn().take(), Err(FileError::Busy)));
        drop(first);
        turn().take_at_once().expect("the next turn");
        drop(copy);
    }

    #[test]
    fn a_start_waits_for_longer() {
        let (_dir, turn) = place();
        let first = turn();
        first.take_at_once().expect("the turn");
        let second = turn();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(100));
                first.give_back();
            });
            assert!(matches!(second.take(), Err(FileError::Busy)));
            second.take_at_start().expect("the turn in time");
        });
    }

    /// Whatever went wrong, the change had gone on without a lock.
    #[test]
    fn only_a_system_without_locks_is_gone_on_without() {
        let words = |answer| match granted(answer) {
            Ok(true) => "on",
            Ok(false) => "wait",
            Err(_) => "error",
        };
        for (answer, expected) in [
            (Ok(()), "on"),
            (Err(Errno::WOULDBLOCK), "wait"),
            (Err(Errno::INTR), "wait"),
            (Err(Errno::PERM), "on"),
            (Err(Errno::OPNOTSUPP), "on"),
            (Err(Errno::NOLCK), "on"),
            (Err(Errno::BADF), "on"),
            (Err(Errno::INVAL), "on"),
            (Err(Errno::NOSYS), "on"),
            (Err(Errno::MFILE), "error"),
            (Err(Errno::NOMEM), "error"),
            (Err(Errno::IO), "error"),
        ] {
            assert_eq!(words(answer), expected, "{answer:?}");
        }
    }
}
