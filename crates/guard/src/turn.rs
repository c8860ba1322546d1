//! Taking turns with other processes: the last look at a file and its change as one step.
//!
//! A change by rename holds a lock on the directory, and a change in place also one on the file,
//! whose names may lie in several directories. Both are `flock`s on handles: they bind those who
//! ask for them, end with their process, and leave nothing behind. Where the system has none, or a
//! directory may not be read, changes go on without.

use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sinew_tool::FileError;

use crate::roots::{DIRECTORY_READ, open_name};

/// How changes of one file by several processes are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Turns {
    /// By locks, where the file system has them.
    #[default]
    Auto,
    /// Not at all, as on file systems without locks.
    None,
}

/// The longest wait for somebody else's turn to end. A turn takes microseconds.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// How often a lock is asked for again before the first sleep.
const MAX_YIELDS: u32 = 8;
/// The first sleep; each further one is twice as long, up to the last.
const FIRST_SLEEP: Duration = Duration::from_micros(50);
const LAST_SLEEP: Duration = Duration::from_millis(5);

/// A turn at a directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _dir: Option<OwnedFd>,
}

impl Turn {
    /// Waits for the turn at a directory. Its handle may be good for opening only.
    pub(crate) fn at(dir: impl AsFd, turns: Turns) -> Result<Self, FileError> {
        let readable = match turns {
            Turns::Auto => open_name(dir.as_fd(), c".", DIRECTORY_READ).ok(),
            Turns::None => None,
        };
        if let Some(dir) = &readable {
            wait(dir)?;
        }
        Ok(Self { _dir: readable })
    }
}

/// Waits for the turn at an open file. It ends when the handle is closed.
pub(crate) fn at_file(file: impl AsFd, turns: Turns) -> Result<(), FileError> {
    match turns {
        Turns::Auto => wait(file),
        Turns::None => Ok(()),
    }
}

/// Waits for the lock on a handle.
fn wait(handle: impl AsFd) -> Result<(), FileError> {
    let mut until = None;
    let mut sleep = FIRST_SLEEP;
    for n in 0_u32.. {
        match flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {}
            Err(Errno::INTR) => continue,
            // Some file systems have no locks, or none for handles that cannot write.
            Ok(()) | Err(_) => return Ok(()),
        }
        if n < MAX_YIELDS {
            thread::yield_now();
            continue;
        }
        let now = Instant::now();
        if *until.get_or_insert(now + MAX_WAIT) <= now {
            return Err(FileError::Busy);
        }
        thread::sleep(sleep);
        sleep = LAST_SLEEP.min(sleep * 2);
    }
    Ok(())
}
