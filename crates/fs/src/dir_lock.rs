//! Directory locks between processes (`flock`): they make the last check of a file and its change one step.
//!
//! - A change by rename locks the directory from the check to the rename.
//! - A change in place locks the directory and, because of hard links, the file while it writes.
//!
//! The locks are advisory, end with their process and leave no file. Changes go on unlocked without `flock`
//! and in unreadable directories. Other errors end the change. After a bounded wait the lock gives `Busy`
//! before any change, and the caller may retry.

use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sinew_tool::FileError;

use crate::roots::{DIRECTORY_READ, open_name};
use crate::stat::error_of;

/// How processes exclude one another when they change a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirLocking {
    /// By locks, if the file system has them.
    #[default]
    Auto,
    /// Not at all, as on file systems without locks.
    None,
}

/// Attempts without sleep, which take some microseconds.
const N_AT_ONCE: u32 = 16;
/// Sleeps if a failure would lose prepared work: less than a millisecond together.
const N_SLEEPS: u32 = 4;
/// Sleeps if a start finishes the work of a dead process: less than a second together.
const N_SLEEPS_AT_START: u32 = 14;
/// The first sleep; each further one is twice as long.
const FIRST_SLEEP: Duration = Duration::from_micros(50);

/// The lock on one directory. Dropping it unlocks.
#[derive(Debug)]
pub struct DirLock {
    dir: Option<OwnedFd>,
}

impl DirLock {
    /// Opens the directory to lock; an `O_PATH` handle is enough.
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

    /// Takes the lock without sleeping.
    pub fn take_at_once(&self) -> Result<(), FileError> {
        self.dir.as_ref().map_or(Ok(()), |dir| lock(dir, 0))
    }

    /// Takes the lock, and sleeps up to a millisecond: a failure would lose prepared work.
    pub fn take(&self) -> Result<(), FileError> {
        self.dir.as_ref().map_or(Ok(()), |dir| lock(dir, N_SLEEPS))
    }

    /// Takes the lock at a start, where no client waits for this process.
    pub fn take_at_start(&self) -> Result<(), FileError> {
        self.dir.as_ref().map_or(Ok(()), |dir| lock(dir, N_SLEEPS_AT_START))
    }

    /// Unlocks; the lock can be taken again.
    pub fn give_back(&self) {
        if let Some(dir) = &self.dir {
            let _ = flock(dir, FlockOperation::NonBlockingUnlock);
        }
    }
}

impl Drop for DirLock {
    /// Unlocks explicitly: a forked process holds the same fd until its exec.
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Locks an open file without sleeping. Closing the handle unlocks it.
pub fn at_file(file: impl AsFd, dir_locking: DirLocking) -> Result<(), FileError> {
    match dir_locking {
        DirLocking::Auto => lock(file, 0),
        DirLocking::None => Ok(()),
    }
}

fn lock(handle: impl AsFd, n_sleeps: u32) -> Result<(), FileError> {
    ask(n_sleeps, || granted(flock(&handle, FlockOperation::NonBlockingLockExclusive)))
}

/// Returns whether a change may go on after this answer to a lock request.
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

/// Tries several times at once, then after each of `n_sleeps` sleeps.
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

/// Tries several times, without sleeping.
pub fn ask_at_once(granted: impl FnMut() -> Result<bool, FileError>) -> Result<(), FileError> {
    ask(0, granted)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A start had given up because a forked process still held the fd before its exec.
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
        assert!(matches!(second.take(), Err(FileError::Busy)));
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(100));
                first.give_back();
            });
            second.take_at_start().expect("the turn in time");
        });
    }

    /// Earlier, a change went on without a lock after any error.
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
