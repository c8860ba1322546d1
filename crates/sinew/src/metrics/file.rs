//! Writes metrics to a file for a collector that reads files.
//!
//! Processes are short-lived, but a collector needs one file whose sums only grow. So each process adds its
//! counts since its last write to the file, under a lock on the directory, and replaces the file atomically.
#![expect(clippy::disallowed_methods, reason = "the person names the file to be written")]

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::fs::{FlockOperation, OFlags, flock};
use sinew_tool::sync::lock;
use sinew_tool::{Closing, Recorder};

use super::Metrics;
use super::text::Text;
use crate::config::MetricsSettings;
use crate::output;

/// The time-out of the lock.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// The interval of lock attempts.
const PAUSE: Duration = Duration::from_millis(5);
/// The size limit of the file; a larger one is not sinew's.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A recorder that writes its metrics to a file.
pub(crate) struct MetricsFile {
    shared: Arc<Shared>,
    interval: Duration,
    started: Once,
}

struct Shared {
    metrics: Metrics,
    path: PathBuf,
    /// What this process has added to the file; locked during a write.
    added: Mutex<Added>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct Added {
    text: Text,
    /// Whether the last write failed, so that the error is printed once.
    failed: bool,
}

#[derive(Default)]
struct State {
    /// Whether counted calls are missing from the file.
    waits: bool,
    /// Whether the recorder was dropped.
    ended: bool,
}

impl MetricsFile {
    /// Returns a recorder for a file, and validates an existing file without writing.
    pub(crate) fn open(settings: &MetricsSettings, roots: &[PathBuf]) -> anyhow::Result<Self> {
        let path = output::place("metrics.file", &settings.file, roots)?;
        read(&path).with_context(|| {
            format!("`metrics.file` cannot be added to; name another file: `{}`", path.display())
        })?;
        let shared = Shared {
            metrics: Metrics::new()?,
            path,
            added: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Ok(Self { shared: Arc::new(shared), interval: settings.interval, started: Once::new() })
    }

    /// Starts the writer thread. Without it only the end of the process writes.
    fn start(&self) {
        let (shared, interval) = (Arc::clone(&self.shared), self.interval);
        let thread = thread::Builder::new().name(String::from("metrics"));
        let _ = thread.spawn(move || shared.keep_writing(interval));
    }
}

impl Recorder for MetricsFile {
    fn begins(&self) {
        self.shared.metrics.begins();
    }

    fn call(&self, closing: &Closing) {
        self.shared.metrics.call(closing);
        lock(&self.shared.state).waits = true;
        self.started.call_once(|| self.start());
        self.shared.changed.notify_one();
    }

    fn flush(&self) {
        self.shared.write();
    }
}

impl Drop for MetricsFile {
    fn drop(&mut self) {
        lock(&self.shared.state).ended = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    /// Writes after new counts, and then sleeps for the interval.
    fn keep_writing(&self, interval: Duration) {
        loop {
            let idle = self.changed.wait_while(lock(&self.state), |s| !s.waits && !s.ended);
            if idle.unwrap_or_else(PoisonError::into_inner).ended {
                return;
            }
            self.write();
            let rest = self.changed.wait_timeout_while(lock(&self.state), interval, |s| !s.ended);
            drop(rest);
        }
    }

    fn write(&self) {
        let mut added = lock(&self.added);
        // Later counts wait for the next write.
        if !std::mem::take(&mut lock(&self.state).waits) {
            return;
        }
        match self.add(&added.text) {
            Ok(now) => *added = Added { text: now, failed: false },
            Err(error) => {
                lock(&self.state).waits = true;
                if !std::mem::replace(&mut added.failed, true) {
                    let path = self.path.display();
                    crate::screen::say(&format!(
                        "the metrics cannot be written to {path}: {error}"
                    ));
                }
            }
        }
    }

    /// Adds the counts since `before`, and returns the new total of this process.
    fn add(&self, before: &Text) -> io::Result<Text> {
        let now = Text::read(&self.metrics.sums())
            .map_err(|problem| io::Error::other(problem.to_string()))?;
        let dir = self.path.parent().unwrap_or(&self.path);
        let _held = hold(dir)?;
        let mut sum = read(&self.path)?;
        sum.add(&now, before);
        if *before == Text::default() {
            sweep(dir, &self.path);
        }
        replace(&self.path, &sum.to_file())?;
        Ok(now)
    }
}

/// Locks a directory against other writers until the returned file is dropped.
fn hold(dir: &Path) -> io::Result<File> {
    let lock = File::open(dir)?;
    let until = Instant::now() + MAX_WAIT;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(PAUSE),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(io::Error::other("another process holds the lock on its directory"));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads the file; a missing one is empty.
fn read(path: &Path) -> io::Result<Text> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Text::default()),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if MAX_BYTES < text.len() as u64 {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Text::read_file(&text).map_err(|problem| io::Error::other(problem.to_string()))
}

/// Removes temporary files of killed processes: under the lock no other process writes.
fn sweep(dir: &Path, path: &Path) {
    let Some(own) = path.file_name() else { return };
    let is_left = |name: &OsStr| {
        let rest = name.as_bytes().strip_prefix(own.as_bytes());
        let random = rest.and_then(|rest| rest.strip_prefix(b"."));
        random.is_some_and(|hex| hex.len() == 16 && hex.iter().all(u8::is_ascii_hexdigit))
    };
    for entry in fs::read_dir(dir).into_iter().flatten().filter_map(io::Result::ok) {
        if is_left(&entry.file_name()) {
            // A file that stays does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Replaces the file atomically, readable for a collector that runs as another user.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    // Collectors skip names without their extension.
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}", u64::from_le_bytes(random)));
    let temporary = PathBuf::from(name);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o644).open(&temporary)?;
    // Independent of the umask.
    let done = file.set_permissions(fs::Permissions::from_mode(0o644));
    let done = done
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&temporary, path));
    done.inspect_err(|_| drop(fs::remove_file(&temporary)))
}
