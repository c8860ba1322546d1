//! Seccomp user-notification handler: performs intercepted system calls on directory fds. A path could change
//! between check and use (TOCTOU), and no Landlock rule can deny a name wherever it is created.
//!
//! A seccomp filter hands calls that change files by name to the supervisor. The handler opens the directory,
//! checks its real path and the name, performs the call on the directory fd and returns the result. The
//! kernel never reads a checked path again.
//!
//! The handler has the command's user, view and Landlock rules, and no capability. It reaches one thing that
//! the command cannot: its own process. So it refuses paths into its own part of `/proc`.

mod attributes;
mod before_images;
mod caller;
mod deeds;
mod findings;
mod git_objects;
mod guarded;
mod held;
mod known_threads;
mod path;
mod session_memory;
mod sockets;
mod unnamed;

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, fcntl_lock, fstat, openat};
use rustix::io::Errno;

use super::wire::{Findings, Refused};
use crate::spawn::{self, Call, Calls, SyscallAnswer};
use attributes::Times;
use before_images::BeforeImages;
use caller::Caller;
use deeds::Make;
use findings::Found;
use held::HeldCalls;
use known_threads::KnownThreads;
use path::Place;
use sinew_fs::stat::identity_of;
use sinew_policy::command_rules::{CommandJudge, Forbidden};
use unnamed::Unnamed;

pub(super) use before_images::{RootOutside, UndoHandles};
pub(super) use git_objects::OldObjects;
pub(super) use session_memory::{SessionMemory, began_now};
pub(super) use sockets::BoundSockets;

/// How long judging the last files of a command may take.
const JUDGED: Duration = Duration::from_secs(2);
/// The most symlinks that one path may follow, as in the kernel.
const MAX_LINKS: usize = 40;

/// What the supervisors of a session share to perform calls.
#[derive(Debug)]
pub(super) struct Means {
    pub(super) judge: Arc<CommandJudge>,
    /// A lock on this file serializes the supervisors. It belongs to the process that takes it, so all can
    /// share the file.
    pub(super) turn: OwnedFd,
    /// The time before which files belong to the user.
    pub(super) began: SystemTime,
    pub(super) memory: SessionMemory,
    pub(super) old_objects: OldObjects,
    /// The sockets that processes of the session bound.
    pub(super) sockets: BoundSockets,
    /// The session's own `/dev/shm`, where its commands see the machine's.
    pub(super) shared_memory: Option<StandIn>,
    /// The largest file that a command may make, in bytes.
    pub(super) max_file_bytes: u64,
    /// The roots as sinew sees them, where what commands change is kept.
    pub(super) roots: Vec<RootOutside>,
    /// Directories with the name of one that tools make anew, in which git tracks files.
    pub(super) tracked: Vec<PathBuf>,
}

/// A directory that replaces another.
#[derive(Debug)]
pub(super) struct StandIn {
    /// The device and inode of the replaced directory.
    instead_of: (u64, u64),
    dir: OwnedFd,
}

impl StandIn {
    pub(super) fn new(dir: &Path, instead_of: &Path) -> Result<Self, Errno> {
        let held = |path| {
            openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        };
        Ok(Self { instead_of: identity(&held(instead_of)?)?, dir: held(dir)? })
    }

    /// Returns whether it replaces a directory.
    fn is_instead_of(&self, dir: (u64, u64)) -> bool {
        dir == self.instead_of
    }

    fn dir(&self) -> Result<OwnedFd, Errno> {
        self.dir.try_clone().map_err(|_| Errno::NFILE)
    }
}

fn identity(handle: &OwnedFd) -> Result<(u64, u64), Errno> {
    Ok(identity_of(&fstat(handle)?).of_file())
}

/// Performs the calls of one command on a thread of its own, since the supervisor must not wait for a slow
/// call.
pub(super) struct NotifyHandler {
    judge: Arc<CommandJudge>,
    found: Found,
    n_unnamed: Arc<AtomicUsize>,
    has_all_changes: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NotifyHandler {
    /// Starts the thread for a command that may have a terminal, and may change these protected names. Without the thread
    /// every call fails.
    pub(super) fn begin(
        calls: Calls,
        means: Arc<Means>,
        terminal: Option<(OwnedFd, u32)>,
        granted: Vec<String>,
        undo: Option<UndoHandles>,
    ) -> Self {
        let held = undo.as_ref().map(HeldCalls::new).unwrap_or_default();
        let found = Found::default();
        let judge = means.judge.granting(granted);
        let n_unnamed = Arc::default();
        let has_all_changes = Arc::new(AtomicBool::new(undo.is_some()));
        let notify_handler = CallHandler {
            calls,
            judge: Arc::clone(&judge),
            means,
            terminal,
            found: found.clone(),
            waiting: Arc::default(),
            unnamed: RefCell::default(),
            todos: RefCell::default(),
            n_unnamed: Arc::clone(&n_unnamed),
            remembered: RefCell::default(),
            threads: KnownThreads::default(),
            allowed: RefCell::default(),
            images: undo.map(|undo| BeforeImages::new(undo, &found, &has_all_changes)),
            held,
        };
        let work = move || {
            // The supervisor shares its working directory and umask with its command.
            if spawn::keep_apart().is_ok() {
                notify_handler.work();
            }
        };
        let thread = thread::Builder::new().name(String::from("notify_handler")).spawn(work).ok();
        Self { judge, found, n_unnamed, has_all_changes, thread }
    }

    /// Returns the findings, once files without a name are judged.
    pub(super) fn findings(&self) -> Findings {
        let until = Instant::now() + JUDGED;
        while 0 < self.n_unnamed.load(Ordering::Acquire) && Instant::now() < until {
            thread::sleep(Duration::from_micros(100));
        }
        let has_all_changes = self.thread.is_some() && self.has_all_changes.load(Ordering::Acquire);
        Findings { has_all_changes, ..self.found.at_end(&self.judge) }
    }

    /// Joins the thread if it has finished; returns whether it has.
    pub(super) fn has_ended(&mut self) -> bool {
        match self.thread.take_if(|thread| thread.is_finished()) {
            Some(thread) => thread.join().is_ok(),
            None => self.thread.is_none(),
        }
    }
}

/// Performs the calls of one command.
struct CallHandler {
    calls: Calls,
    means: Arc<Means>,
    /// That of the session, or one that grants more names.
    judge: Arc<CommandJudge>,
    /// The terminal that the command was given, which no path in its view names, and its session ID.
    terminal: Option<(OwnedFd, u32)>,
    found: Found,
    waiting: Arc<AtomicUsize>,
    /// Files that get their name once they are judged.
    unnamed: RefCell<Vec<Unnamed>>,
    /// Steps of rebases that are written in place.
    todos: RefCell<Vec<(Place, PathBuf)>>,
    n_unnamed: Arc<AtomicUsize>,
    /// The directories of objects of git that are remembered.
    remembered: RefCell<HashSet<PathBuf>>,
    /// The threads that made calls lately.
    threads: KnownThreads,
    /// Configurations that a person allowed it to change.
    allowed: RefCell<HashSet<PathBuf>>,
    /// What it changed, if that is kept.
    images: Option<BeforeImages>,
    /// The calls that wait for an answer.
    held: HeldCalls,
}

impl CallHandler {
    /// Answers calls until no process is left that could make one.
    fn work(self) {
        self.calls.quicken();
        self.answer_all();
        let lock = rustix::io::retry_on_intr(|| {
            fcntl_lock(&self.means.turn, FlockOperation::LockExclusive)
        });
        if lock.is_ok() {
            let _lock = CallLock(&self.means.turn);
            self.name_written(true);
            self.remember_allowed();
            self.n_unnamed.store(0, Ordering::Release);
        }
    }

    fn answer_all(&self) {
        loop {
            match self.wait() {
                Ok(false) | Err(Errno::INTR) => {}
                Ok(true) if self.serve().is_ok() => {}
                Ok(true) | Err(_) => return,
            }
        }
    }

    /// Answers the next call.
    fn serve(&self) -> io::Result<()> {
        if let Some(call) = self.calls.next()? {
            self.answer(call);
        }
        Ok(())
    }

    fn answer(&self, call: Call) {
        let answer = match self.lock_calls(&call) {
            Ok(turn) => {
                if turn.is_some() {
                    self.name_written(false);
                    // No call waits for what it could not name.
                    self.images.as_ref().inspect(|images| images.note_refused());
                }
                self.carry_out(&call)
            }
            Err(errno) => Err(errno),
        };
        self.give(call, answer);
    }

    /// Gives a call its answer, unless it waits for that of an approver.
    fn give(&self, call: Call, answer: Result<Option<SyscallAnswer>, Errno>) {
        match answer {
            // Another thread answers it.
            Ok(None) => {}
            Ok(Some(answer)) => self.calls.answer(&call, Ok(answer)),
            Err(Errno::DQUOT) if self.holds(call) => {}
            Err(_) if self.holds_outside(call) => {}
            Err(errno) => self.calls.answer(&call, Err(errno)),
        }
    }

    /// Locks out the other supervisors of the session, so that no judged name changes. `connect` needs no
    /// lock.
    fn lock_calls(&self, call: &Call) -> Result<Option<CallLock<'_>>, Errno> {
        if call.number == libc::SYS_connect {
            return Ok(None);
        }
        rustix::io::retry_on_intr(|| fcntl_lock(&self.means.turn, FlockOperation::LockExclusive))?;
        Ok(Some(CallLock(&self.means.turn)))
    }

    /// Performs a call. `None` if the answer follows later.
    fn carry_out(&self, call: &Call) -> Result<Option<SyscallAnswer>, Errno> {
        let caller = Caller::of(call, self.means.shared_memory.as_ref(), &self.threads);
        let [a, b, c, d, e, _] = call.args;
        let here = here();
        match call.number {
            libc::SYS_openat => self.open(&caller, a, b, flags_of(c), d),
            libc::SYS_mkdirat => self.make(&caller, (a, b), Make::Directory(mode_of(c))),
            libc::SYS_mknodat => self.make(&caller, (a, b), Make::Node(mode_of(c), d)),
            libc::SYS_symlinkat => {
                let target = caller.text(a)?;
                self.make(&caller, (b, c), Make::Link(target))
            }
            libc::SYS_linkat => self.link(&caller, (a, b), (c, d), at_flags(e)),
            libc::SYS_unlinkat => self.unlink(&caller, (a, b), at_flags(c)),
            libc::SYS_renameat2 => self.rename(&caller, (a, b), (c, d), e),
            libc::SYS_truncate => self.truncate(&caller, a, b),
            libc::SYS_fchmod => {
                let handle = caller.handle(a)?;
                self.check_waits(&caller)?;
                self.set_mode(&handle, mode_of(b))
            }
            libc::SYS_fchmodat => self.set_mode_at(&caller, (a, b), c, AtFlags::empty()),
            libc::SYS_fchmodat2 => self.set_mode_at(&caller, (a, b), c, at_flags(d)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => self.set_mode_at(&caller, (here, a), b, AtFlags::empty()),
            libc::SYS_bind => self.bind(&caller, a, b, c),
            libc::SYS_connect => self.connect(&caller, a, b, c),
            libc::SYS_socket | libc::SYS_socketpair => Err(self.refuse_datagrams()),
            libc::SYS_renameat => self.rename(&caller, (a, b), (c, d), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.open(&caller, here, a, flags_of(b), c),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
                self.open(&caller, here, a, flags, b)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => self.make(&caller, (here, a), Make::Directory(mode_of(b))),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mknod => self.make(&caller, (here, a), Make::Node(mode_of(b), c)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => {
                let target = caller.text(a)?;
                self.make(&caller, (here, b), Make::Link(target))
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => self.link(&caller, (here, a), (here, b), AtFlags::empty()),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => self.unlink(&caller, (here, a), AtFlags::empty()),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rmdir => self.unlink(&caller, (here, a), AtFlags::REMOVEDIR),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => self.rename(&caller, (here, a), (here, b), 0),
            _ => self.set_attributes(&caller),
        }
    }

    /// Performs a call that sets owner, times or extended attributes.
    fn set_attributes(&self, caller: &Caller<'_>) -> Result<Option<SyscallAnswer>, Errno> {
        let [a, b, c, d, e, _] = caller.call.args;
        let at = |path| (here(), path);
        let (follow, itself) = (AtFlags::empty(), AtFlags::SYMLINK_NOFOLLOW);
        match caller.call.number {
            libc::SYS_fchownat => self.set_owner_at(caller, (a, b), (c, d), at_flags(e)),
            libc::SYS_fchown => self.set_owner(&caller.handle(a)?, (b, c)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => self.set_owner_at(caller, at(a), (b, c), follow),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => self.set_owner_at(caller, at(a), (b, c), itself),
            libc::SYS_utimensat => {
                self.set_times(caller, (a, b), Times::Nanoseconds(c), at_flags(d))
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => self.set_times(caller, (a, b), Times::Microseconds(c), follow),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utimes => self.set_times(caller, at(a), Times::Microseconds(b), follow),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utime => self.set_times(caller, at(a), Times::Seconds(b), follow),
            libc::SYS_setxattr => {
                self.set_xattr(caller, &self.target(caller, at(a), follow)?, (b, c, d, e))
            }
            libc::SYS_lsetxattr => {
                self.set_xattr(caller, &self.target(caller, at(a), itself)?, (b, c, d, e))
            }
            libc::SYS_fsetxattr => self.set_xattr(caller, &caller.handle(a)?, (b, c, d, e)),
            libc::SYS_removexattr => {
                self.remove_xattr(caller, &self.target(caller, at(a), follow)?, b)
            }
            libc::SYS_lremovexattr => {
                self.remove_xattr(caller, &self.target(caller, at(a), itself)?, b)
            }
            libc::SYS_fremovexattr => self.remove_xattr(caller, &caller.handle(a)?, b),
            _ => Err(Errno::NOSYS),
        }
    }

    /// Finds the place of a name, without following a symlink there.
    fn place(&self, caller: &Caller<'_>, (dir, path): (u64, u64)) -> Result<Place, Errno> {
        let path = caller.text(path)?;
        let place = Place::find(caller, caller.start(dir, &path)?, &path)?;
        self.check_waits(caller)?;
        Ok(place)
    }

    /// Fails if the caller is gone, since data read by its PID may belong to another process.
    fn check_waits(&self, caller: &Caller<'_>) -> Result<(), Errno> {
        if self.calls.waits(&caller.call) { Ok(()) } else { Err(Errno::SRCH) }
    }

    fn refuse(&self, real: &Path, forbidden: Forbidden) -> Errno {
        self.found.refuse(match forbidden {
            Forbidden::Protected(name) => {
                Refused::Protected { path: real.to_owned(), name: name.to_owned() }
            }
            Forbidden::Denied(why) => Refused::Denied { path: real.to_owned(), why },
        });
        Errno::ACCESS
    }

    /// Records a change that the view of the file system denied, and returns its error.
    fn refused_by_the_system(&self, real: &Path, errno: Errno) -> Errno {
        if self.is_closed(real, errno) {
            self.found.refuse(Refused::Outside { path: real.to_owned(), answer: None });
        }
        errno
    }

    /// Returns whether a change failed with an error because it is outside the roots.
    fn is_closed(&self, real: &Path, errno: Errno) -> bool {
        let closed = matches!(errno, Errno::ROFS | Errno::ACCESS | Errno::PERM);
        let of_system = ["/proc", "/sys", "/dev"].iter().any(|place| real.starts_with(place));
        closed && !of_system && !self.judge.is_its_own(real)
    }
}

/// The lock of a supervisor, held until it is dropped.
struct CallLock<'a>(&'a OwnedFd);

impl Drop for CallLock<'_> {
    fn drop(&mut self) {
        let _ = fcntl_lock(self.0, FlockOperation::Unlock);
    }
}

/// The fd number of the working directory.
fn here() -> u64 {
    u64::from(libc::AT_FDCWD.cast_unsigned())
}

#[expect(clippy::cast_possible_truncation, reason = "the kernel takes no more of the argument")]
fn flags_of(argument: u64) -> OFlags {
    OFlags::from_bits_retain(argument as u32)
}

#[expect(clippy::cast_possible_truncation, reason = "the kernel takes no more of the argument")]
fn at_flags(argument: u64) -> AtFlags {
    AtFlags::from_bits_retain(argument as u32)
}

#[expect(clippy::cast_possible_truncation, reason = "the kernel takes no more of the argument")]
fn mode_of(argument: u64) -> Mode {
    Mode::from_bits_retain(argument as u32)
}
