//! Remembers the part of `/proc` of each thread that makes calls, its process and its umask.
//!
//! A directory of `/proc` belongs to one thread, also if its number is used again: then nothing in it can be opened. The umask
//! changes by `umask` alone, which the handler hears of before the kernel performs it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

/// The most threads that are remembered. Their directories stay open.
const MAX_THREADS: usize = 32;
/// How long a status counts: shorter than the kernel needs to give the number of a thread to another one. A call of `umask` has
/// taken effect by then too.
const STATUS_AGE: Duration = Duration::from_millis(50);

/// What is known of the threads of a command.
#[derive(Debug, Default)]
pub(super) struct KnownThreads {
    threads: RefCell<HashMap<u32, KnownThread>>,
    /// When a thread called `umask` last.
    umask_called: Cell<Option<Instant>>,
}

#[derive(Debug)]
struct KnownThread {
    /// Its directory in `/proc`.
    dir: Arc<OwnedFd>,
    status: Option<(Instant, Status)>,
}

/// What the kernel tells of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Status {
    /// The PID of its process.
    pub(super) process: u32,
    pub(super) umask: Mode,
}

impl KnownThreads {
    /// Opens a name in the part of `/proc` of a thread.
    pub(super) fn open(&self, thread: u32, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let known = self.threads.borrow().get(&thread).map(|known| Arc::clone(&known.dir));
        if let Some(dir) = known {
            match openat(&*dir, name, flags, Mode::empty()) {
                // The thread may have ended, and another one may have its number.
                Err(Errno::NOENT | Errno::SRCH) => {}
                opened => return opened,
            }
        }
        let held = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir =
            Arc::new(openat(CWD, Path::new(&format!("/proc/{thread}")), held, Mode::empty())?);
        let mut threads = self.threads.borrow_mut();
        if MAX_THREADS <= threads.len() {
            threads.clear();
        }
        threads.insert(thread, KnownThread { dir: Arc::clone(&dir), status: None });
        openat(&*dir, name, flags, Mode::empty())
    }

    /// Returns the status of a thread.
    pub(super) fn status(&self, thread: u32) -> Result<Status, Errno> {
        let now = Instant::now();
        let is_new = |at: Instant| now.saturating_duration_since(at) < STATUS_AGE;
        let known = self.threads.borrow().get(&thread).and_then(|known| known.status);
        if let Some((at, status)) = known
            && is_new(at)
        {
            return Ok(status);
        }
        let status = parsed(&self.read(thread, "status")?).ok_or(Errno::SRCH)?;
        if !self.umask_called.get().is_some_and(is_new)
            && let Some(known) = self.threads.borrow_mut().get_mut(&thread)
        {
            known.status = Some((now, status));
        }
        Ok(status)
    }

    /// Reads the start of a file in the part of `/proc` of a thread.
    pub(super) fn read(&self, thread: u32, name: &str) -> Result<String, Errno> {
        let file = self.open(thread, name, OFlags::RDONLY)?;
        let mut text = [0; 4096];
        let n = rustix::io::read(&file, &mut text).map_err(|_| Errno::SRCH)?;
        Ok(String::from_utf8_lossy(text.get(..n).unwrap_or_default()).into_owned())
    }

    /// Forgets each umask, since a thread is about to change its own and that of threads that share it.
    pub(super) fn expect_umask(&self) {
        self.umask_called.set(Some(Instant::now()));
        for known in self.threads.borrow_mut().values_mut() {
            known.status = None;
        }
    }
}

fn parsed(text: &str) -> Option<Status> {
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let umask = u32::from_str_radix(field("Umask:")?, 8).ok()?;
    Some(Status { process: field("Tgid:")?.parse().ok()?, umask: Mode::from_bits_retain(umask) })
}
