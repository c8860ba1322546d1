//! Parallel walk of a directory tree, in no particular order.
//!
//! `openat2` opens each directory beneath the start when its turn comes, so one fd per thread is enough.
//! Entries are used only as single names on that handle. Symlinks are never followed, so neither a loop nor a
//! swapped directory leads out. Threads steal work: each takes its newest job, an idle one the oldest of
//! another, and a large directory is split. Further threads start only once there is enough work.

mod queue;

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, RawDir, fstat, statat};
use rustix::io::Errno;
use sinew_tool::sync::lock;
use sinew_tool::{
    Access, Entry, FileError, FileKind, FileMeta, FileTarget, Flow, Skipped, Visitor, Visitors,
    WalkOptions, WalkReport,
};

use queue::Queues;
use sinew_fs::ignore_rules::IgnoreCache;
use sinew_fs::ignore_rules::{Level, Marks};
use sinew_fs::resolve::open_beneath;
use sinew_fs::roots::{DIRECTORY_PATH, DIRECTORY_READ, FILE_READ, open_name};
use sinew_fs::stat::{error_of, kind_of, meta_of};
use sinew_fs::temporary::is_temporary;
use sinew_policy::rule::Judge;
use sinew_policy::rules;

/// Buffer of directory entries, in bytes.
const BUFFER: usize = 32 * 1024;
/// The longest path that the kernel opens beneath the start, in bytes.
const MAX_PATH: usize = 4_095;
/// The most threads of a walk: more gain nothing and use fds.
const MAX_THREADS: usize = 12;
/// Directories that one thread opens before others start.
const DIRECTORIES_ALONE: usize = 8;
/// Entries that one thread visits before others start.
const ENTRIES_ALONE: usize = 64;
/// Bytes of entries that are worth sharing while visits are fast.
const SHARED_BYTES: usize = 1_024;
/// From this duration on a visit is slow, and even a few entries are worth sharing.
const SLOW: Duration = Duration::from_micros(100);
/// Directories that are entered only if the options ask for it.
const STATE: [&[u8]; 3] = [b".git", b".sinew", b".molf"];

/// A walk that all its threads share.
struct Walk<'w> {
    judge: Judge<'w>,
    ignores: &'w IgnoreCache,
    options: &'w WalkOptions,
    visitors: &'w dyn Visitors,
    stop: &'w AtomicBool,
    start: Arc<OwnedFd>,
    /// The absolute path of the start with a slash behind it.
    base: Vec<u8>,
    judged: bool,
    kernel: bool,
    n_threads: usize,
    queues: Queues<WalkJob>,
    skipped: Mutex<Skipped>,
}

/// A job of a thread.
enum WalkJob {
    /// A directory to open.
    Directory(Where),
    /// Some entries of a directory that is open.
    Entries { place: Where, dir: Arc<OwnedFd>, entries: Vec<u8> },
}

/// A directory of a walk.
#[derive(Clone)]
struct Where {
    /// Its path relative to the start.
    path: Arc<[u8]>,
    /// How many levels beneath the start.
    depth: usize,
    /// The ignore rules for its entries; its own are added once it is open.
    level: Arc<Level>,
    /// Whether it lies in sinew's own directory.
    own: bool,
}

/// Walks the directory at a target, which is open as `start`.
pub(crate) fn walk(
    judge: Judge<'_>,
    (ignores, n_threads): (&IgnoreCache, usize),
    target: &FileTarget,
    start: OwnedFd,
    options: &WalkOptions,
    visitors: &dyn Visitors,
    stop: &AtomicBool,
) -> Result<WalkReport, FileError> {
    let mut base = target.path.as_os_str().as_bytes().to_vec();
    if !base.ends_with(b"/") {
        base.push(b'/');
    }
    let level = match options.heed_ignore {
        true => Level::above(ignores, &start, &target.path),
        false => Arc::default(),
    };
    let own = judge.roots.named(&target.path).iter().any(rules::is_own);
    let n_threads = n_threads.min(MAX_THREADS);
    let walk = Walk {
        judge,
        ignores,
        options,
        visitors,
        stop,
        start: Arc::new(start),
        base,
        judged: judge.judges_beneath(&target.path),
        kernel: judge.roots.kernel_resolves(),
        n_threads,
        queues: Queues::new(n_threads),
        skipped: Mutex::default(),
    };
    let first = Where { path: Arc::from(&b""[..]), depth: 0, level, own };
    walk.queues.push(0, WalkJob::Directory(first));
    std::thread::scope(|scope| {
        let grow = || {
            for at in 1..walk.n_threads {
                // The walk is only slower if a thread cannot start.
                let walk = &walk;
                let run = move || Worker::new(walk, at, None).run();
                let _ = Builder::new().name(String::from("walk")).spawn_scoped(scope, run);
            }
        };
        Worker::new(&walk, 0, Some(&grow)).run();
    });
    let complete = !walk.queues.is_ended();
    let skipped = *lock(&walk.skipped);
    Ok(WalkReport { skipped, complete })
}

/// One thread of a walk.
struct Worker<'w> {
    walk: &'w Walk<'w>,
    /// Its index among the threads.
    at: usize,
    /// Starts the other threads, once.
    grow: Option<&'w dyn Fn()>,
    visitor: Box<dyn Visitor + 'w>,
    skipped: Skipped,
    n_directories: usize,
    n_entries: usize,
    /// When it last checked for idle threads.
    looked_at: Option<Instant>,
    /// The absolute path of the current entry.
    path: Vec<u8>,
    buffer: Vec<MaybeUninit<u8>>,
}

impl<'w> Worker<'w> {
    fn new(walk: &'w Walk<'w>, at: usize, grow: Option<&'w dyn Fn()>) -> Self {
        Self {
            walk,
            at,
            grow,
            visitor: walk.visitors.visitor(),
            skipped: Skipped::default(),
            n_directories: 0,
            n_entries: 0,
            looked_at: None,
            path: walk.base.clone(),
            buffer: vec![MaybeUninit::uninit(); BUFFER],
        }
    }

    /// Works until no job is left.
    fn run(mut self) {
        let walk = self.walk;
        let _end = EndOnPanic(&walk.queues);
        let mut entries = Vec::new();
        while let Some(job) = walk.queues.next(self.at, walk.stop) {
            let flow = match job {
                WalkJob::Directory(place) => self.directory(place, &mut entries),
                WalkJob::Entries { place, dir, entries } => self.entries(&place, &dir, &entries),
            };
            if flow == Flow::Stop {
                walk.queues.end();
            }
            walk.queues.done();
        }
        lock(&walk.skipped).add(&self.skipped);
    }

    /// Opens a directory and visits its entries.
    fn directory(&mut self, mut place: Where, entries: &mut Vec<u8>) -> Flow {
        self.n_directories += 1;
        if DIRECTORIES_ALONE <= self.n_directories {
            self.grow();
        }
        let Ok(dir) = self.open(&place.path) else {
            self.skipped.unreadable += 1;
            return Flow::Continue;
        };
        let (marks, whole) = read_entries(&dir, &mut self.buffer, entries, self.walk.stop);
        if !whole {
            self.skipped.unreadable += 1;
        }
        if self.walk.options.heed_ignore {
            let below = if place.path.is_empty() { 0 } else { place.path.len() + 1 };
            let base = self.walk.base.len() + below;
            let cache = self.walk.ignores;
            place.level = place.level.enter(cache, dir.as_fd(), marks, base);
        }
        self.entries(&place, &dir, entries)
    }

    /// Opens a directory beneath the start, without following links.
    fn open(&self, path: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        let start = &self.walk.start;
        if path.is_empty() {
            return Ok(Arc::clone(start));
        }
        if MAX_PATH < path.len() {
            return Err(Errno::NAMETOOLONG);
        }
        if self.walk.kernel {
            match open_beneath(start.as_fd(), path, DIRECTORY_READ) {
                // The kernel lacks the call, or seccomp filters it.
                Err(Errno::NOSYS | Errno::PERM) => {}
                other => return other.map(Arc::new),
            }
        }
        let mut dir = Arc::clone(start);
        let mut names = path.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            let flags = if names.peek().is_some() { DIRECTORY_PATH } else { DIRECTORY_READ };
            let name = CString::new(name).map_err(|_| Errno::INVAL)?;
            dir = Arc::new(open_name(dir.as_fd(), &name, flags)?);
        }
        Ok(dir)
    }

    /// Visits entries of an open directory.
    fn entries(&mut self, place: &Where, dir: &Arc<OwnedFd>, entries: &[u8]) -> Flow {
        self.path.truncate(self.walk.base.len());
        if !place.path.is_empty() {
            self.path.extend_from_slice(&place.path);
            self.path.push(b'/');
        }
        let name_at = self.path.len();
        self.looked_at = None;
        let mut left = entries;
        while let Some((kind, name, rest)) = next_entry(left) {
            left = rest;
            self.n_entries += 1;
            if self.grow.is_some() || self.walk.queues.is_hungry() {
                left = self.share(place, dir, left);
            }
            if self.walk.stop.load(Ordering::Relaxed) || self.walk.queues.is_ended() {
                return Flow::Stop;
            }
            self.path.truncate(name_at);
            self.path.extend_from_slice(name.to_bytes());
            if self.entry(place, dir, kind, name, name_at) == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::Continue
    }

    /// Shares half of the remaining entries if a thread is idle.
    fn share<'e>(&mut self, place: &Where, dir: &Arc<OwnedFd>, left: &'e [u8]) -> &'e [u8] {
        let now = Instant::now();
        let slow = self.looked_at.replace(now).is_some_and(|before| SLOW <= now - before);
        if slow || ENTRIES_ALONE <= self.n_entries {
            self.grow();
        }
        let queues = &self.walk.queues;
        if !queues.is_hungry() || (left.len() < SHARED_BYTES && !slow) {
            return left;
        }
        let middle = (left.len() / 2).saturating_sub(1);
        let end = left.get(middle..).and_then(|tail| memchr::memchr(0, tail)).unwrap_or(0);
        match left.split_at_checked(middle + end + 1) {
            Some((mine, given)) if !given.is_empty() => {
                let (place, dir, entries) = (place.clone(), Arc::clone(dir), given.to_vec());
                queues.push(self.at, WalkJob::Entries { place, dir, entries });
                mine
            }
            _ => left,
        }
    }

    fn grow(&mut self) {
        if let Some(grow) = self.grow.take() {
            grow();
        }
    }

    /// Visits one entry, whose absolute path is in `path`.
    fn entry(
        &mut self,
        place: &Where,
        dir: &OwnedFd,
        kind: Option<FileKind>,
        name: &CStr,
        name_at: usize,
    ) -> Flow {
        let Some(kind) = kind.or_else(|| kind_by_look(dir, name)) else {
            self.skipped.unreadable += 1;
            return Flow::Continue;
        };
        let directory = kind == FileKind::Directory;
        let bytes = name.to_bytes();
        let state = directory && !self.walk.options.enter_state && STATE.contains(&bytes);
        if state || is_temporary(bytes) {
            self.skipped.hidden += 1;
            return Flow::Continue;
        }
        if !place.level.is_empty() && place.level.leaves_out(&self.path, directory) {
            self.skipped.ignored += 1;
            return Flow::Continue;
        }
        let own = place.own || (directory && rules::is_own(OsStr::from_bytes(bytes)));
        if (self.walk.judged || own) && !self.may_see(directory, own) {
            self.skipped.denied += 1;
            return Flow::Continue;
        }
        if directory {
            self.enter_later(place, own);
        }
        if directory && !self.walk.options.directories {
            return Flow::Continue;
        }
        let seen =
            Seen { dir, path: &self.path, start_at: self.walk.base.len(), name_at, name, kind };
        self.visitor.visit(&seen)
    }

    /// Queues the current directory, if the depth and the visitor allow it.
    fn enter_later(&mut self, place: &Where, own: bool) {
        let depth = place.depth + 1;
        if self.walk.options.max_depth.is_some_and(|max| max < depth) {
            return;
        }
        let path = self.path.get(self.walk.base.len()..).unwrap_or_default();
        if !self.visitor.enter(Path::new(OsStr::from_bytes(path))) {
            return;
        }
        let level = Arc::clone(&place.level);
        let job = WalkJob::Directory(Where { path: Arc::from(path), depth, level, own });
        self.walk.queues.push(self.at, job);
    }

    /// Returns whether the path rules show the current entry.
    fn may_see(&self, directory: bool, own: bool) -> bool {
        let path = Path::new(OsStr::from_bytes(&self.path));
        if !self.walk.judge.may_see(path, directory) {
            return false;
        }
        let access = if directory { Access::Search } else { Access::Read };
        !own || rules::check_own(self.walk.judge.roots.named(path), access).is_ok()
    }
}

/// Ends the walk of the other threads when a visitor panics.
struct EndOnPanic<'q>(&'q Queues<WalkJob>);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

/// Reads all entries as kind byte, name and NUL. Returns the marks found, and whether it reached the end.
fn read_entries(
    dir: &OwnedFd,
    buffer: &mut [MaybeUninit<u8>],
    entries: &mut Vec<u8>,
    stop: &AtomicBool,
) -> (Marks, bool) {
    entries.clear();
    let mut marks = Marks::default();
    let mut raw = RawDir::new(dir, buffer);
    while let Some(entry) = raw.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(Errno::INTR) => continue,
            Err(_) => return (marks, false),
        };
        let name = entry.file_name().to_bytes_with_nul();
        if matches!(name, b".\0" | b"..\0") {
            continue;
        }
        let kind = entry.file_type();
        if name.first() == Some(&b'.') {
            marks.note(entry.file_name().to_bytes(), kind_of(kind));
        }
        entries.push(KINDS.iter().position(|known| *known == kind).unwrap_or(0) as u8);
        entries.extend_from_slice(name);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    (marks, true)
}

/// Entry types by kind byte.
const KINDS: [FileType; 8] = [
    FileType::Unknown,
    FileType::RegularFile,
    FileType::Directory,
    FileType::Symlink,
    FileType::Fifo,
    FileType::Socket,
    FileType::CharacterDevice,
    FileType::BlockDevice,
];

/// Splits the next entry off the output of [`read_entries`].
fn next_entry(entries: &[u8]) -> Option<(Option<FileKind>, &CStr, &[u8])> {
    let (kind, rest) = entries.split_first()?;
    let end = memchr::memchr(0, rest)?;
    let (name, rest) = rest.split_at_checked(end + 1)?;
    let kind = match KINDS.get(usize::from(*kind)) {
        None | Some(FileType::Unknown) => None,
        Some(kind) => Some(kind_of(*kind)),
    };
    Some((kind, CStr::from_bytes_with_nul(name).ok()?, rest))
}

/// Returns the kind by `statat` if the directory does not give it.
fn kind_by_look(dir: &OwnedFd, name: &CStr) -> Option<FileKind> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(kind_of(FileType::from_raw_mode(stat.st_mode)))
}

/// One entry during its visit.
struct Seen<'v> {
    dir: &'v OwnedFd,
    /// The absolute path.
    path: &'v [u8],
    start_at: usize,
    name_at: usize,
    name: &'v CStr,
    kind: FileKind,
}

impl Entry for Seen<'_> {
    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.path.get(self.start_at..).unwrap_or_default()))
    }

    fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.path.get(self.name_at..).unwrap_or_default())
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn meta(&self) -> Result<FileMeta, FileError> {
        let stat = statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW).map_err(error_of)?;
        Ok(meta_of(&stat))
    }

    fn open(&self) -> Result<File, FileError> {
        if self.kind != FileKind::File {
            return Err(FileError::NotRegular(self.kind));
        }
        let file = open_name(self.dir.as_fd(), self.name, FILE_READ).map_err(error_of)?;
        let stat = fstat(&file).map_err(error_of)?;
        match kind_of(FileType::from_raw_mode(stat.st_mode)) {
            FileKind::File => Ok(File::from(file)),
            other => Err(FileError::NotRegular(other)),
        }
    }
}
