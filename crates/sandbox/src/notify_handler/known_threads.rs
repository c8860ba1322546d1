//! Remembers the part of `/proc` of each thread that makes calls: its directory and its status, both open.
//!
//! They belong to one thread, also if its number is used again: then nothing in them can be read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

/// The most threads that are remembered.
const MAX_THREADS: usize = 32;

/// The threads of a command, with their directories in `/proc`.
#[derive(Debug, Default)]
pub(super) struct KnownThreads(RefCell<HashMap<u32, KnownThread>>);

#[derive(Debug, Clone)]
struct KnownThread {
    /// Its directory in `/proc`.
    dir: Arc<OwnedFd>,
    /// Its status there, once it was read.
    status: Option<Arc<OwnedFd>>,
}

impl KnownThreads {
    /// Opens a name in the part of `/proc` of a thread.
    pub(super) fn open(&self, thread: u32, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        if let Some(known) = self.find(thread) {
            match openat(&*known.dir, name, flags, Mode::empty()) {
                // The thread may have ended, and another one may have its number.
                Err(Errno::NOENT | Errno::SRCH) => {}
                opened => return opened,
            }
        }
        let held = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, Path::new(&format!("/proc/{thread}")), held, Mode::empty())?;
        let known = KnownThread { dir: Arc::new(dir), status: None };
        let mut threads = self.0.borrow_mut();
        if MAX_THREADS <= threads.len() {
            threads.clear();
        }
        threads.insert(thread, known.clone());
        openat(&*known.dir, name, flags, Mode::empty())
    }

    /// Returns a field of the status of a thread.
    pub(super) fn status(&self, thread: u32, field: &str) -> Result<String, Errno> {
        let known = self.find(thread).and_then(|known| known.status);
        let text = match known.map(|status| read_start(&status)) {
            Some(Ok(text)) => text,
            // The thread has ended, or nothing was read of it yet.
            _ => {
                let status = Arc::new(self.open(thread, "status", OFlags::RDONLY)?);
                let text = read_start(&status)?;
                if let Some(known) = self.0.borrow_mut().get_mut(&thread) {
                    known.status = Some(status);
                }
                text
            }
        };
        let value = text.lines().find_map(|line| line.strip_prefix(field));
        value.map(|value| value.trim().to_owned()).ok_or(Errno::SRCH)
    }

    /// Reads the start of a file in the part of `/proc` of a thread.
    pub(super) fn read(&self, thread: u32, name: &str) -> Result<String, Errno> {
        read_start(&self.open(thread, name, OFlags::RDONLY)?)
    }

    fn find(&self, thread: u32) -> Option<KnownThread> {
        self.0.borrow().get(&thread).cloned()
    }
}

/// Reads the start of a file of `/proc`, which the kernel makes anew.
fn read_start(file: &OwnedFd) -> Result<String, Errno> {
    let mut text = [0; 4096];
    let n = rustix::io::pread(file, &mut text, 0).map_err(|_| Errno::SRCH)?;
    if n == 0 {
        return Err(Errno::SRCH);
    }
    Ok(String::from_utf8_lossy(text.get(..n).unwrap_or_default()).into_owned())
}
