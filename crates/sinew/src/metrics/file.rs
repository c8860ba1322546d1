//! The metrics in a file, for a collector that reads files.
//!
//! Processes of sinew come and go, one for each client or even each call, and a collector wants one
//! file whose sums only grow. So a process adds what it counted since its last write to what stands
//! in the file, under a lock on the directory; the new text takes the place of the old one at once.
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

/// How long others may hold the lock.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// How long nobody looks whether the lock is free.
const PAUSE: Duration = Duration::from_millis(5);
/// A larger file is none of sinew's.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A recorder that writes what it counts to a file.
pub(crate) struct MetricsFile {
    shared: Arc<Shared>,
    interval: Duration,
    started: Once,
}

struct Shared {
    metrics: Metrics,
    path: PathBuf,
    /// What this process has added to the file so far; held while it is written.
    added: Mutex<Added>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct Added {
    text: Text,
    /// Whether the last write failed, so that it is told once.
    failed: bool,
}

#[derive(Default)]
struct State {
    /// Whether calls were counted that are not in the file.
    waits: bool,
    /// Whether the recorder is gone.
    ended: bool,
}

impl MetricsFile {
    /// Returns a recorder for a file. What stands there already is looked at now, and nothing is written.
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

    /// Starts the thread that writes. Without it the end of the process writes alone.
    fn start(&self) {
        let (shared, interval) = (Arc::clone(&self.shared), self.interval);
        let thread = thread::Builder::new().name(String::from("metrics"));
        let _ = thread.spawn(move || shared.keep_writing(interval));
    }
}

impl Recorder for MetricsFile {
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
    /// Writes whenever something was counted, and then rests for an interval.
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

    /// Adds to the file what is not there yet.
    fn write(&self) {
        let mut added = lock(&self.added);
        // Whatever is counted from here on waits for the next write.
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

    /// Adds what was counted since a text, and returns what is added now.
    fn add(&self, before: &Text) -> io::Result<Text> {
        let now = self.metrics.prometheus().map_err(io::Error::other)?;
        let now = Text::read(&now).map_err(|problem| io::Error::other(problem.to_string()))?;
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

/// Holds a directory against other processes that write there, until what is returned is dropped.
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

/// Reads what stands in the file; where there is none that is nothing.
fn read(path: &Path) -> io::Result<Text> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Text::default()),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if MAX_BYTES < text.len() as u64 {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Text::read_file(&text).map_err(|problem| io::Error::other(problem.to_string()))
}

/// Removes what processes left that were killed while they wrote: nobody else writes while the directory is
/// held.
fn sweep(dir: &Path, path: &Path) {
    let Some(own) = path.file_name() else { return };
    let is_left = |name: &OsStr| {
        let rest = name.as_bytes().strip_prefix(own.as_bytes());
        let random = rest.and_then(|rest| rest.strip_prefix(b"."));
        random.is_some_and(|hex| hex.len() == 16 && hex.iter().all(u8::is_ascii_hexdigit))
    };
    for entry in fs::read_dir(dir).into_iter().flatten().filter_map(io::Result::ok) {
        if is_left(&entry.file_name()) {
            // It is in nobody's way.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Puts a text in the place of the file. A collector runs as another user, and may read it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    // Collectors pass over names that do not end as theirs do.
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}", u64::from_le_bytes(random)));
    let temporary = PathBuf::from(name);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o644).open(&temporary)?;
    // Whatever the mask of this process takes away.
    let done = file.set_permissions(fs::Permissions::from_mode(0o644));
    let done = done
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&temporary, path));
    done.inspect_err(|_| drop(fs::remove_file(&temporary)))
}
