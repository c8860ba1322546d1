//! The start of processes, in code that the compiler cannot check.
//!
//! Some things have no safe face. [`fork`] copies a process of one thread, and [`unshare`] gives it
//! namespaces of its own: both are for the helper process, which has little memory. [`beside`] makes a child
//! that shares the memory of its parent until it executes its program, as `vfork` does: the parent sleeps
//! meanwhile, nothing is copied, and nothing is given back when the program begins. [`confine`] binds
//! such a child to what commands are bound to, and [`execute`] makes it the command. [`Calls`] are the
//! system calls that a filter hands to another process, and [`restrict`] binds this thread to rules of
//! Landlock.

#![expect(unsafe_code, reason = "the start of processes has no safe face")]

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use libc::{rlimit, sigset_t, sock_filter, sock_fprog};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;

/// A program with everything that its execution takes, in the form of the kernel.
#[derive(Debug)]
pub(crate) struct Program {
    path: CString,
    argv: Texts,
    env: Texts,
}

impl Program {
    pub(crate) fn new(path: CString, argv: Vec<CString>, env: Vec<CString>) -> Self {
        Self { path, argv: Texts::new(argv), env: Texts::new(env) }
    }
}

/// Texts with their addresses, ended by none.
#[derive(Debug)]
struct Texts {
    addresses: Vec<*const c_char>,
    _texts: Vec<CString>,
}

impl Texts {
    fn new(texts: Vec<CString>) -> Self {
        let addresses = texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        Self { addresses, _texts: texts }
    }
}

/// A limit on what one process may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// One of the `RLIMIT_` numbers.
    pub(crate) resource: u32,
    /// The soft and the hard limit.
    pub(crate) at_most: u64,
}

/// What a child is bound to before it executes its program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Confinement<'a> {
    /// The rules of Landlock.
    pub(crate) ruleset: Option<BorrowedFd<'a>>,
    /// The filter of system calls.
    pub filter: Option<&'a [sock_filter]>,
    /// The filter that hands system calls to the parent.
    pub(crate) watched: Option<&'a [sock_filter]>,
    /// Whether programs may gain rights when they are executed.
    pub(crate) may_gain_rights: bool,
}

/// The highest signal, plus one.
const N_SIGNALS: c_int = 65;

/// Binds this process, which has one thread and becomes a command, to what commands are bound to, in a
/// session of its own and with every signal in its default state; returns the system calls that it hands over from now on.
pub(crate) fn confine(confinement: &Confinement<'_>) -> io::Result<Option<Calls>> {
    rustix::process::setsid()?;
    // SAFETY: the calls take numbers, and the address of what lives until their end.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        let mut none: sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
    if !confinement.may_gain_rights {
        rustix::thread::set_no_new_privs(true)?;
    }
    let calls = confinement.watched.map(|filter| listen(&loadable(filter))).transpose()?;
    if let Some(ruleset) = confinement.ruleset {
        restrict(ruleset)?;
    }
    if let Some(filter) = confinement.filter {
        let filter = loadable(filter);
        // SAFETY: takes numbers and the address of a program that the kernel copies.
        let done = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                ptr::from_ref(&filter),
            )
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(calls)
}

/// Makes this process another program, with these limits. Returns why that failed.
pub(crate) fn execute(program: &Program, limits: &[Limit]) -> io::Error {
    // SAFETY: every call takes numbers, or addresses of what lives on until its end.
    unsafe {
        for limit in limits {
            let mut both = rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::getrlimit(limit.resource, &mut both);
            // What is limited further already stays so.
            let most = limit.at_most.min(both.rlim_max);
            let both = rlimit { rlim_cur: most, rlim_max: most };
            if libc::setrlimit(limit.resource, &both) < 0 {
                return io::Error::last_os_error();
            }
        }
        libc::execve(
            program.path.as_ptr(),
            program.argv.addresses.as_ptr(),
            program.env.addresses.as_ptr(),
        );
    }
    io::Error::last_os_error()
}

/// Rids this process, which has just begun as a helper, of what it was given: descriptors but the first
/// three, and signals that are ignored. A pipe that nobody reads still gives it an error.
pub(crate) fn begin_afresh() {
    // SAFETY: the calls take numbers, and this process has opened nothing yet.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, c_int::MAX, 0);
        for signal in (1..N_SIGNALS).filter(|signal| *signal != libc::SIGPIPE) {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    bear_limits();
}

/// A file that would grow past the limit of this process gives it an error, as a full disk does, and does not
/// end it.
pub fn bear_limits() {
    // SAFETY: the call takes numbers.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Returns a filter in the form of the kernel. One that is too long is one that the kernel refuses.
fn loadable(filter: &[sock_filter]) -> sock_fprog {
    sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or(u16::MAX),
        filter: filter.as_ptr().cast_mut(),
    }
}

/// Installs a filter that hands system calls over; returns them. A process that waits for the answer can
/// only be killed meanwhile, so nothing that was done for it is begun again.
fn listen(filter: &sock_fprog) -> io::Result<Calls> {
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: takes numbers and the address of a program that the kernel copies.
    let number = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            ptr::from_ref(filter),
        )
    };
    let number = RawFd::try_from(number).unwrap_or(-1);
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel opened it for this call, and nothing else knows the number.
    Ok(Calls(unsafe { OwnedFd::from_raw_fd(number) }))
}

/// Tries whether this process, which gives up all rights by it, could hand system calls over.
pub(crate) fn try_to_listen(filter: &[sock_filter]) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    // The process ends, and the descriptor with it.
    listen(&loadable(filter)).map(drop)
}

/// Binds this process, which must have one thread, to rules of Landlock.
pub(crate) fn restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: takes numbers, and changes what this thread may do, not its memory or descriptors.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the scheduler run this process, which has one thread, soon after it wakes, even if others run: before all
/// threads of the usual policy where it may, else with the shortest slice that the kernel takes. In a session of
/// its own it also has a share of its own, where the scheduler groups processes by session
/// (`kernel.sched_autogroup_enabled`). Threads and children of it run as usual.
pub(crate) fn run_first() {
    // Fails where it leads a session already.
    let _ = rustix::process::setsid();
    if schedule(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1) {
        return;
    }
    // sched_setattr(2): Linux 6.12 and later take the slice of a thread in `sched_runtime`.
    // SAFETY: the structure is plain numbers, for which zero is a value.
    let mut soon: libc::sched_attr = unsafe { std::mem::zeroed() };
    soon.size = u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0);
    soon.sched_policy = libc::SCHED_OTHER.cast_unsigned();
    soon.sched_flags = u64::from(libc::SCHED_FLAG_RESET_ON_FORK.cast_unsigned());
    soon.sched_nice = rustix::process::getpriority_process(None).unwrap_or(0);
    soon.sched_runtime = SHORTEST_SLICE_NS;
    // SAFETY: takes numbers and the address of plain data that lives until the end of the call.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const soon, 0);
    }
}

/// Has the scheduler run this process, which has one thread, as any other again.
pub(crate) fn run_as_usual() {
    schedule(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0);
}

/// Returns whether this process may have threads run before all of the usual policy: it has `CAP_SYS_NICE`, or
/// `RLIMIT_RTPRIO` allows it.
pub(crate) fn can_run_first() -> bool {
    // SAFETY: takes a number.
    let own = unsafe { libc::sched_getscheduler(0) };
    let is_usual = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE].contains(&own);
    let can = schedule(libc::SCHED_FIFO, 1);
    if can && is_usual {
        schedule(own, 0);
    }
    can
}

/// Returns a descriptor that is readable once a child has ended, for a process with one thread. Commands have
/// the signal in its default state ([`confine`]).
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialized before it is read, and lives until the end of the calls.
    let fd = unsafe {
        let mut children: sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut children);
        libc::sigaddset(&raw mut children, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const children, ptr::null_mut());
        libc::signalfd(-1, &raw const children, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets the scheduling policy and priority of this thread; returns whether it may have them.
fn schedule(policy: c_int, priority: c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: takes numbers and the address of plain data that lives until the end of the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

/// The shortest slice that the kernel takes for a thread, in nanoseconds.
const SHORTEST_SLICE_NS: u64 = 100_000;

/// Connects a socket to an address in the form of the kernel.
pub(crate) fn connect(socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
    let (at, length) = sockaddr(address);
    // SAFETY: takes numbers, and the address and length of bytes that live until the end of the call.
    outcome(unsafe { libc::connect(socket.as_raw_fd(), at, length) })
}

/// Binds a socket to an address in the form of the kernel.
pub(crate) fn bind(socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
    let (at, length) = sockaddr(address);
    // SAFETY: takes numbers, and the address and length of bytes that live until the end of the call.
    outcome(unsafe { libc::bind(socket.as_raw_fd(), at, length) })
}

fn sockaddr(address: &[u8]) -> (*const libc::sockaddr, libc::socklen_t) {
    (address.as_ptr().cast(), libc::socklen_t::try_from(address.len()).unwrap_or(0))
}

fn outcome(done: c_int) -> Result<(), Errno> {
    if done < 0 {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(())
    }
}

/// Gives this thread a working directory and a file mode mask of its own.
pub(crate) fn keep_apart() -> io::Result<()> {
    // SAFETY: takes a number, and changes what this thread alone has from then on.
    if unsafe { libc::unshare(libc::CLONE_FS) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The system calls that the processes of a command hand over instead of making them.
#[derive(Debug)]
pub(crate) struct Calls(OwnedFd);

/// A system call that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    id: u64,
    /// The thread that makes it.
    pub thread: u32,
    /// The number of the system call.
    pub number: c_long,
    /// What it is given.
    pub(crate) args: [u64; 6],
}

/// The answer to a system call.
#[derive(Debug)]
pub(crate) enum SyscallAnswer {
    /// It returns this.
    Value(i64),
    /// It returns a new descriptor of this, which is closed or not when a program is executed.
    Handle(OwnedFd, bool),
}

impl Calls {
    /// Lets whoever makes a call run on the processor that answers it, where the kernel can.
    pub(crate) fn quicken(&self) {
        const SYNC_WAKE_UP: u64 = 1;
        // SAFETY: takes numbers.
        unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP);
        }
    }

    /// Takes the next call; `None` where whoever made it is gone.
    pub(crate) fn next(&self) -> io::Result<Option<Call>> {
        // SAFETY: zeros are a value of this plain data, and what the kernel asks for.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        match self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut call) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(Some(Call {
            id: call.id,
            thread: call.pid,
            number: c_long::from(call.data.nr),
            args: call.data.args,
        }))
    }

    /// Returns whether whoever made a call still waits: what was read of a process is its own then.
    pub(crate) fn waits(&self, call: &Call) -> bool {
        self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut { call.id }).is_ok()
    }

    /// Answers a call. Where nobody waits any more it changes nothing.
    pub(crate) fn answer(&self, call: &Call, answer: Result<SyscallAnswer, Errno>) {
        let mut response = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags: 0 };
        match answer {
            Ok(SyscallAnswer::Value(value)) => response.val = value,
            Err(errno) => response.error = -errno.raw_os_error(),
            Ok(SyscallAnswer::Handle(handle, closed_on_exec)) => {
                let mut given = libc::seccomp_notif_addfd {
                    id: call.id,
                    flags: 0,
                    srcfd: handle.as_raw_fd().cast_unsigned(),
                    newfd: 0,
                    newfd_flags: if closed_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
                };
                let added = self.control(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut given);
                // Whoever goes on must be the only one who has the file open: a program that was just
                // written could not be executed otherwise.
                drop(handle);
                match added {
                    Ok(number) => response.val = i64::from(number),
                    Err(error) => response.error = -error.raw_os_error().unwrap_or(libc::EIO),
                }
            }
        }
        let _ = self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response);
    }

    /// Returns another handle of the same calls.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    fn control<T>(&self, request: libc::Ioctl, value: &mut T) -> io::Result<c_int> {
        // SAFETY: every request of this file is given the value that the kernel defines for it.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), request, ptr::from_mut(value)) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
    }
}

impl From<OwnedFd> for Calls {
    /// Takes what another process got when it was bound.
    fn from(handle: OwnedFd) -> Self {
        Self(handle)
    }
}

impl AsFd for Calls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Which side of a fork this is.
#[derive(Debug)]
pub(crate) enum Side {
    /// The one that goes on, with its copy.
    Parent(Pid),
    /// The copy.
    Child,
}

/// Namespaces that a copy gets of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Own {
    /// None.
    Nothing,
    /// Processes, mounts and the host name: the copy is the first process of its namespace.
    Processes,
}

/// Copies this process, which must have one thread. The copy gets no more than it has.
pub(crate) fn fork(own: Own) -> io::Result<Side> {
    let flags = match own {
        Own::Nothing => libc::SIGCHLD,
        Own::Processes => {
            libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::SIGCHLD
        }
    };
    if !has_one_thread()? {
        return Err(io::Error::other("a process of several threads cannot be copied"));
    }
    // SAFETY: the process has one thread, so no lock is held by another, and the copy has memory of
    // its own. The arguments after the flags are all zero, in whatever order the machine has them.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match i32::try_from(pid) {
        Ok(0) => Ok(Side::Child),
        Ok(pid) if 0 < pid => {
            Pid::from_raw(pid).map(Side::Parent).ok_or_else(|| io::Error::other("no process"))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// The stack of a child until it executes its program.
const STACK_BYTES: usize = 512 * 1024;

/// Does work in a child that shares the memory of this process, which must have one thread, and sleeps until
/// the child executes a program or ends; returns the child, and what becomes readable when it ends. Both
/// share their working directory and file mode mask from then on: where the child goes, this process goes
/// too. What the work has in memory when it executes a program is never freed, unless it belongs to the
/// caller; descriptors are the child's own, and must not be left to the caller.
pub(crate) fn beside(work: impl FnOnce()) -> io::Result<(Pid, OwnedFd)> {
    if !has_one_thread()? {
        return Err(io::Error::other("a process of several threads cannot share its memory"));
    }
    let mut stack = vec![0_u128; STACK_BYTES / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    let flags =
        libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FS | libc::CLONE_PIDFD | libc::SIGCHLD;
    let mut handle: c_int = -1;
    let pid = begin(work, top, flags, &mut handle);
    drop(stack);
    let pid = pid?;
    // SAFETY: the kernel wrote a new descriptor there, which nothing else owns.
    let handle = unsafe { OwnedFd::from_raw_fd(handle) };
    Ok((pid, handle))
}

fn begin<F: FnOnce()>(
    work: F,
    top: *mut c_void,
    flags: c_int,
    handle: &mut c_int,
) -> io::Result<Pid> {
    let mut work = Some(work);
    let blocked = BlockedSignals::all();
    // SAFETY: `top` is the aligned end of a stack that outlives the child's use of it, because with
    // `CLONE_VFORK` this thread sleeps until the child has executed its program or ended. `work` lives as
    // long, and is of the type that this `enter` takes. This is the only thread, so the child is the only
    // one that runs in this memory until then, and finds every lock free. No signal handler runs in it: all
    // signals are blocked here, and a helper has no handlers.
    let pid = unsafe {
        libc::clone(
            enter::<F>,
            top,
            flags,
            ptr::from_mut(&mut work).cast::<c_void>(),
            ptr::from_mut(handle),
        )
    };
    let problem = io::Error::last_os_error();
    drop(blocked);
    // The child took it, and may be another program now.
    Pid::from_raw(pid).filter(|_| 0 < pid).ok_or(problem)
}

/// The child: does its work and ends, if that has not made it another program.
extern "C" fn enter<F: FnOnce()>(work: *mut c_void) -> c_int {
    // SAFETY: the address is the one of the parent's work, which sleeps.
    let work = unsafe { &mut *work.cast::<Option<F>>() };
    if let Some(work) = work.take() {
        let _ = catch_unwind(AssertUnwindSafe(work));
    }
    // SAFETY: ends this process alone, without running anything of the parent's.
    unsafe { libc::_exit(NOT_STARTED) }
}

/// The code of a child that did not become another program.
const NOT_STARTED: c_int = 127;

/// All signals blocked in this thread; dropping it lets in those that were let in before.
struct BlockedSignals(sigset_t);

impl BlockedSignals {
    fn all() -> Self {
        // SAFETY: the sets are plain data that the calls fill, and live on this stack.
        unsafe {
            let mut all: sigset_t = std::mem::zeroed();
            let mut before: sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Self(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set is the one that the kernel gave.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut());
        }
    }
}

/// Returns whether this process has one thread, and so can be copied.
pub(crate) fn has_one_thread() -> io::Result<bool> {
    Ok(n_threads()? == 1)
}

/// Returns how many threads this process has.
fn n_threads() -> io::Result<usize> {
    let flags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    let tasks = rustix::fs::open(c"/proc/self/task", flags, Mode::empty())?;
    let named = rustix::fs::Dir::new(tasks)?.filter_map(Result::ok);
    Ok(named.filter(|task| !task.file_name().to_bytes().starts_with(b".")).count())
}

/// Gives this process, which must have one thread, users, mounts and System V objects of its own,
/// and a network unless it keeps the machine's. It has every right there until it drops them, and
/// none outside that it did not have.
pub(crate) fn unshare(keep_network: bool) -> io::Result<()> {
    let network = if keep_network { 0 } else { libc::CLONE_NEWNET };
    let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | network;
    // SAFETY: takes a number, and changes what this process sees, not its memory or descriptors.
    if unsafe { libc::unshare(flags) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
