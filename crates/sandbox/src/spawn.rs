//! Starts processes by fork, vfork and exec, and binds them to seccomp and Landlock. These system calls are
//! unsafe code here, because no safe wrapper exists.
//!
//! [`fork`] and [`unshare`] are for the helper process, which has little memory to copy. [`beside`] makes a
//! child that shares the memory of its parent until `execve`, as `vfork` does: the parent sleeps and nothing
//! is copied. [`confine`] and [`execute`] make such a child the command. [`Calls`] are the system calls that
//! seccomp hands over, and [`restrict`] applies Landlock rules.

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

/// A program with its arguments and environment, as `execve` takes them.
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

/// Strings with a null-terminated array of their addresses.
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

/// A resource limit of one process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// One of the `RLIMIT_` numbers.
    pub(crate) resource: u32,
    /// The soft and the hard limit.
    pub(crate) at_most: u64,
}

/// What confines a child before it executes its program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Confinement<'a> {
    /// The Landlock rules.
    pub(crate) ruleset: Option<BorrowedFd<'a>>,
    /// The seccomp filter.
    pub filter: Option<&'a [sock_filter]>,
    /// The seccomp filter that hands system calls to the parent.
    pub(crate) watched: Option<&'a [sock_filter]>,
    /// Whether executed programs may gain rights, as by setuid.
    pub(crate) may_gain_rights: bool,
}

/// The highest signal, plus one.
const N_SIGNALS: c_int = 65;

/// Confines this process, which has one thread and becomes a command, in a session of its own and with
/// default signal handling. Returns the system calls that it hands over from now on.
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

/// Executes a program with these limits. Returns the error if that fails.
pub(crate) fn execute(program: &Program, limits: &[Limit]) -> io::Error {
    // SAFETY: every call takes numbers, or addresses of what lives on until its end.
    unsafe {
        for limit in limits {
            let mut both = rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::getrlimit(limit.resource, &mut both);
            // A lower limit stays.
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

/// Closes all inherited fds but the first three and resets all signals but SIGPIPE, in a helper that has just
/// started. A write to a pipe without a reader still returns an error.
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

/// Makes writes past the file size limit fail, as on a full disk, instead of killing this process.
pub fn bear_limits() {
    // SAFETY: the call takes numbers.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Returns a filter in the form of the kernel, which rejects one that is too long.
fn loadable(filter: &[sock_filter]) -> sock_fprog {
    sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or(u16::MAX),
        filter: filter.as_ptr().cast_mut(),
    }
}

/// Installs a filter that hands system calls over; returns them. Only a fatal signal interrupts a waiting
/// caller, so no performed call is restarted.
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

/// Tests whether system calls can be handed over. Sets `no_new_privs` on this process for ever.
pub(crate) fn try_to_listen(filter: &[sock_filter]) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    // The fd closes when the process exits.
    listen(&loadable(filter)).map(drop)
}

/// Applies Landlock rules to this process, which must have one thread.
pub(crate) fn restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: takes numbers, and changes what this thread may do, not its memory or descriptors.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the scheduler run this process, which has one thread, soon after it wakes: by `SCHED_FIFO` where
/// allowed, else with the shortest slice. If the scheduler groups by session
/// (`kernel.sched_autogroup_enabled`), it also gets its own share. Its threads and children run as usual.
pub(crate) fn run_first() {
    // Fails if this process leads a session already.
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

/// Restores the usual scheduling of this process, which has one thread.
pub(crate) fn run_as_usual() {
    schedule(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0);
}

/// Returns whether this process may use `SCHED_FIFO`, by `CAP_SYS_NICE` or `RLIMIT_RTPRIO`.
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

/// Returns a signalfd that is readable once a child has ended, for a process with one thread. Commands have
/// the signal unblocked ([`confine`]).
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

/// Sets the scheduling policy and priority of this thread; returns whether that is allowed.
fn schedule(policy: c_int, priority: c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: takes numbers and the address of plain data that lives until the end of the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

/// The shortest scheduler slice of a thread, in nanoseconds.
const SHORTEST_SLICE_NS: u64 = 100_000;

/// Connects a socket to a raw `sockaddr`.
pub(crate) fn connect(socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
    let (at, length) = sockaddr(address);
    // SAFETY: takes numbers, and the address and length of bytes that live until the end of the call.
    outcome(unsafe { libc::connect(socket.as_raw_fd(), at, length) })
}

/// Binds a socket to a raw `sockaddr`.
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

/// Gives this thread its own working directory and umask.
pub(crate) fn keep_apart() -> io::Result<()> {
    // SAFETY: takes a number, and changes what this thread alone has from then on.
    if unsafe { libc::unshare(libc::CLONE_FS) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The system calls that a command hands over by seccomp user notification.
#[derive(Debug)]
pub(crate) struct Calls(OwnedFd);

/// An intercepted system call that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    id: u64,
    /// The thread that makes it.
    pub thread: u32,
    /// The system call number.
    pub number: c_long,
    /// Its arguments.
    pub(crate) args: [u64; 6],
}

/// The answer to a system call.
#[derive(Debug)]
pub(crate) enum SyscallAnswer {
    /// The value that it returns.
    Value(i64),
    /// It returns a new fd of this file; the flag sets `FD_CLOEXEC` on it.
    Handle(OwnedFd, bool),
}

impl Calls {
    /// Lets a caller run on the processor of the handler, where the kernel supports it.
    pub(crate) fn quicken(&self) {
        const SYNC_WAKE_UP: u64 = 1;
        // SAFETY: takes numbers.
        unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP);
        }
    }

    /// Receives the next call; `None` if its caller is gone.
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

    /// Returns whether the caller still waits. If so, data read by its PID is its own.
    pub(crate) fn waits(&self, call: &Call) -> bool {
        self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut { call.id }).is_ok()
    }

    /// Answers a call. Does nothing if its caller is gone.
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
                // A program that another process holds open for writing cannot be executed (`ETXTBSY`).
                drop(handle);
                match added {
                    Ok(number) => response.val = i64::from(number),
                    Err(error) => response.error = -error.raw_os_error().unwrap_or(libc::EIO),
                }
            }
        }
        let _ = self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response);
    }

    /// Returns another fd of the same calls.
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
    /// Takes the fd that another process got when it was confined.
    fn from(handle: OwnedFd) -> Self {
        Self(handle)
    }
}

impl AsFd for Calls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads memory of a thread's process; returns how many bytes.
pub(crate) fn read_memory(thread: u32, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let address = usize::try_from(at).map_err(|_| Errno::FAULT)?;
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote =
        libc::iovec { iov_base: ptr::without_provenance_mut(address), iov_len: into.len() };
    let thread = libc::pid_t::try_from(thread).map_err(|_| Errno::SRCH)?;
    // SAFETY: the kernel writes at most its length into the buffer, and checks the address in the other process.
    let n = unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(n)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// The side of a fork.
#[derive(Debug)]
pub(crate) enum Side {
    /// The parent, with the PID of the child.
    Parent(Pid),
    /// The child.
    Child,
}

/// Namespaces that a forked process gets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Own {
    /// None.
    Nothing,
    /// PID, mount and UTS namespaces: the child is PID 1.
    Processes,
}

/// Forks this process, which must have one thread. The child gains no rights.
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

/// The stack of a vfork child until it executes its program, in bytes.
const STACK_BYTES: usize = 512 * 1024;

/// Runs `work` in a child that shares the memory of this process, which must have one thread. This process
/// sleeps until the child executes a program or exits. Returns the PID and a pidfd. Both processes share
/// their working directory and umask from then on. Memory that `work` owns at `execve` is never freed, and it
/// must leave no fd to the caller.
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

/// The child: does its work, then exits if that executed no program.
extern "C" fn enter<F: FnOnce()>(work: *mut c_void) -> c_int {
    // SAFETY: the address is the one of the parent's work, which sleeps.
    let work = unsafe { &mut *work.cast::<Option<F>>() };
    if let Some(work) = work.take() {
        let _ = catch_unwind(AssertUnwindSafe(work));
    }
    // SAFETY: ends this process alone, without running anything of the parent's.
    unsafe { libc::_exit(NOT_STARTED) }
}

/// The exit code of a child that executed no program.
const NOT_STARTED: c_int = 127;

/// Blocks all signals of this thread until dropped.
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

/// Returns whether the kernel can hand system calls over to a supervisor, as kernels since 5.0 do.
pub(crate) fn can_hand_over_calls() -> bool {
    let mut sizes = [0_u16; 3];
    let sizes = sizes.as_mut_ptr();
    // SAFETY: The kernel writes the three sizes of `seccomp_notif_sizes`, seccomp(2).
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, sizes) == 0 }
}

/// Returns whether no process has a file open for writing: only then is a lease for reading granted, fcntl(2).
pub(crate) fn has_no_writer(file: impl AsFd) -> bool {
    let file = file.as_fd().as_raw_fd();
    // SAFETY: The fd is open, and a lease takes no pointer.
    let taken = unsafe { libc::fcntl(file, libc::F_SETLEASE, libc::F_RDLCK) } == 0;
    if taken {
        // SAFETY: As above.
        unsafe { libc::fcntl(file, libc::F_SETLEASE, libc::F_UNLCK) };
    }
    taken
}

/// Returns whether this process has one thread, as a fork requires.
pub(crate) fn has_one_thread() -> io::Result<bool> {
    Ok(n_threads()? == 1)
}

fn n_threads() -> io::Result<usize> {
    let flags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    let tasks = rustix::fs::open(c"/proc/self/task", flags, Mode::empty())?;
    let named = rustix::fs::Dir::new(tasks)?.filter_map(Result::ok);
    Ok(named.filter(|task| !task.file_name().to_bytes().starts_with(b".")).count())
}

/// Gives this process, which must have one thread, new user, mount and IPC namespaces, and a network
/// namespace unless `keep_network`. It has every capability inside until it drops them, and gains none
/// outside.
pub(crate) fn unshare(keep_network: bool) -> io::Result<()> {
    let network = if keep_network { 0 } else { libc::CLONE_NEWNET };
    let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | network;
    // SAFETY: takes a number, and changes what this process sees, not its memory or descriptors.
    if unsafe { libc::unshare(flags) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a mount writable that is at no path yet, as kernels since 5.12 can: mount_setattr(2).
pub(crate) fn make_mount_writable(mount: impl AsFd) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_NOSUID,
        attr_clr: libc::MOUNT_ATTR_RDONLY,
        propagation: 0,
        userns_fd: 0,
    };
    let size = size_of_val(&attributes);
    let mount = mount.as_fd().as_raw_fd();
    // SAFETY: the fd is open, the path is an empty C string, and the kernel reads `size` bytes of the attributes.
    let set = unsafe {
        let path = c"".as_ptr();
        libc::syscall(
            libc::SYS_mount_setattr,
            mount,
            path,
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size,
        )
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives this process new mount and IPC namespaces in its user namespace.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: as above.
    match unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWIPC) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
