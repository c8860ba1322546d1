//! The start of processes: the only code of the project that the compiler cannot check.
//!
//! Four things have no safe face. [`start`] makes a child that shares the memory of its parent until
//! it executes its program, as `vfork` does: the parent sleeps meanwhile, nothing is copied, and so
//! the size of the parent does not matter. The child makes system calls on what was prepared before
//! and nothing else: it allocates nothing, takes no lock and does not unwind. [`fork`] copies a
//! process of one thread, and [`unshare`] gives it namespaces of its own. Both are for the helper
//! process alone, which has one thread when it calls them. [`Calls`] are the system calls that a filter
//! hands to the process that installed it, and [`restrict`] binds this thread to rules of Landlock.

#![expect(unsafe_code, reason = "this is the one file that may")]

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use libc::{rlimit, sigset_t, sock_filter, sock_fprog};
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

/// A program with everything that its execution takes, in the form of the kernel.
#[derive(Debug)]
pub(crate) struct Program {
    path: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Program {
    pub(crate) fn new(path: CString, argv: Vec<CString>, env: Vec<CString>) -> Self {
        Self { path, argv, env }
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
    pub(crate) filter: Option<&'a [sock_filter]>,
    /// The filter that hands system calls to the parent.
    pub(crate) watched: Option<&'a [sock_filter]>,
    /// Whether programs may gain rights when they are executed.
    pub(crate) may_gain_rights: bool,
}

/// A child that executes its program.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pid: Pid,
    /// Becomes readable when the child ends.
    pub(crate) handle: OwnedFd,
    /// The system calls that it hands over, if it does.
    pub(crate) calls: Option<Calls>,
}

/// What the child did when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Step {
    Clone,
    Session,
    Streams,
    Limits,
    Privileges,
    Landlock,
    Filter,
    Execute,
}

/// Why a child did not come to execute its program.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) step: Step,
    pub(crate) error: io::Error,
}

/// The stack of a child until it executes its program: it calls nothing deep.
const STACK_BYTES: usize = 64 * 1024;
/// The highest signal, plus one.
const N_SIGNALS: c_int = 65;

/// What parent and child share while the parent sleeps.
struct Plan<'a> {
    path: *const c_char,
    argv: *const *const c_char,
    env: *const *const c_char,
    stdio: [RawFd; 3],
    limits: &'a [Limit],
    ruleset: RawFd,
    filter: Option<sock_fprog>,
    watched: Option<sock_fprog>,
    may_gain_rights: bool,
    failed: Option<(Step, c_int)>,
    listener: RawFd,
}

/// Starts a program in a session of its own. It gets these three streams and no other descriptor,
/// every signal in its default state, and the working directory of the caller, which it shares from
/// then on: where the program goes, the caller goes too.
///
/// # Errors
///
/// Says at which step the child failed; it is gone then.
pub(crate) fn start(
    program: &Program,
    stdio: [BorrowedFd<'_>; 3],
    limits: &[Limit],
    confinement: &Confinement<'_>,
) -> Result<Child, Failed> {
    let argv = pointers(&program.argv);
    let env = pointers(&program.env);
    let mut plan = Plan {
        path: program.path.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        stdio: stdio.map(|stream| stream.as_raw_fd()),
        limits,
        ruleset: confinement.ruleset.map_or(-1, |ruleset| ruleset.as_raw_fd()),
        filter: confinement.filter.map(loadable),
        watched: confinement.watched.map(loadable),
        may_gain_rights: confinement.may_gain_rights,
        failed: None,
        listener: -1,
    };
    // With its descriptors shared, what the child opens for its parent is the parent's too.
    let shared = if plan.watched.is_some() { libc::CLONE_FILES } else { 0 };
    let flags = libc::CLONE_VM
        | libc::CLONE_VFORK
        | libc::CLONE_FS
        | libc::CLONE_PIDFD
        | libc::SIGCHLD
        | shared;
    let mut stack = vec![0_u128; STACK_BYTES / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    let mut handle: c_int = -1;
    let blocked = BlockedSignals::all();
    // SAFETY: `top` is the aligned end of a stack that outlives the child's use of it, because with
    // `CLONE_VFORK` this thread sleeps until the child has executed its program or ended. `plan` and
    // all it points to live as long. The child runs `enter` alone, which only makes system calls.
    // No signal handler runs in it, since every signal is blocked here and the child resets all
    // handlers before it lets signals in.
    let pid = unsafe {
        libc::clone(
            enter,
            top,
            flags,
            ptr::from_mut(&mut plan).cast::<c_void>(),
            ptr::from_mut(&mut handle),
        )
    };
    let problem = io::Error::last_os_error();
    drop(blocked);
    drop(stack);
    let Some(pid) = Pid::from_raw(pid).filter(|_| 0 < pid) else {
        return Err(Failed { step: Step::Clone, error: problem });
    };
    // SAFETY: the kernel wrote a new descriptor there, which nothing else owns.
    let handle = unsafe { OwnedFd::from_raw_fd(handle) };
    // SAFETY: the child had the kernel open it in the table that both shared then, and its own copy
    // of the table is gone; nothing else knows the number.
    let calls = (0 <= plan.listener).then(|| Calls(unsafe { OwnedFd::from_raw_fd(plan.listener) }));
    match plan.failed {
        None => Ok(Child { pid, handle, calls }),
        Some((step, errno)) => {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            Err(Failed { step, error: io::Error::from_raw_os_error(errno) })
        }
    }
}

/// Returns a filter in the form of the kernel. One that is too long is one that the kernel refuses.
fn loadable(filter: &[sock_filter]) -> sock_fprog {
    sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or(u16::MAX),
        filter: filter.as_ptr().cast_mut(),
    }
}

/// Returns the addresses of strings, ended by none.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// The child: does what the plan says and executes the program.
extern "C" fn enter(plan: *mut c_void) -> c_int {
    // SAFETY: the address is the one of the parent's plan, and the parent sleeps.
    let plan = unsafe { &mut *plan.cast::<Plan<'_>>() };
    let step = carry_out(plan);
    plan.failed = Some((step, io::Error::last_os_error().raw_os_error().unwrap_or(0)));
    // SAFETY: ends this process alone, without running anything of the parent's.
    unsafe { libc::_exit(127) }
}

/// Returns the step that failed. Where all go well it does not return.
fn carry_out(plan: &mut Plan<'_>) -> Step {
    // SAFETY: every call takes numbers, or addresses of what the plan keeps alive. None allocates,
    // locks or unwinds.
    unsafe {
        if libc::setsid() < 0 {
            return Step::Session;
        }
        if !plan.may_gain_rights && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 {
            return Step::Privileges;
        }
        if let Some(filter) = &plan.watched {
            plan.listener = listen(filter);
            // From here on what it closes stays open for its parent.
            if plan.listener < 0 || libc::unshare(libc::CLONE_FILES) < 0 {
                return Step::Filter;
            }
        }
        for (to, from) in (0..).zip(plan.stdio) {
            // The streams are above the first three, so none is lost before it is placed.
            if libc::dup2(from, to) < 0 {
                return Step::Streams;
            }
        }
        for limit in plan.limits {
            let mut both = rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::getrlimit(limit.resource, &mut both);
            // What is limited further already stays so.
            let most = if limit.at_most < both.rlim_max { limit.at_most } else { both.rlim_max };
            let both = rlimit { rlim_cur: most, rlim_max: most };
            if libc::setrlimit(limit.resource, &both) < 0 {
                return Step::Limits;
            }
        }
        for signal in 1..N_SIGNALS {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        if 0 <= plan.ruleset && libc::syscall(libc::SYS_landlock_restrict_self, plan.ruleset, 0) < 0
        {
            return Step::Landlock;
        }
        libc::syscall(libc::SYS_close_range, 3, c_int::MAX, 0);
        if let Some(filter) = &plan.filter {
            let mode = libc::SECCOMP_SET_MODE_FILTER;
            if libc::syscall(libc::SYS_seccomp, mode, 0, ptr::from_ref(filter)) < 0 {
                return Step::Filter;
            }
        }
        libc::execve(plan.path, plan.argv, plan.env);
    }
    Step::Execute
}

/// Installs a filter that hands system calls over; returns the number of the descriptor that they come
/// by, or one below 0. A process that waits for the answer can only be killed meanwhile, so nothing
/// that was done for it is begun again.
fn listen(filter: &sock_fprog) -> RawFd {
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
    RawFd::try_from(number).unwrap_or(-1)
}

/// Tries whether this process, which gives up all rights by it, could hand system calls over.
pub(crate) fn try_to_listen(filter: &[sock_filter]) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    match listen(&loadable(filter)) {
        number if number < 0 => Err(io::Error::last_os_error()),
        // The process ends, and the descriptor with it.
        _ => Ok(()),
    }
}

/// Binds this process, which must have one thread, to rules of Landlock.
pub(crate) fn restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: takes numbers, and changes what this thread may do, not its memory or descriptors.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
    pub(crate) thread: u32,
    /// The number of the system call.
    pub(crate) number: c_long,
    /// What it is given.
    pub(crate) args: [u64; 6],
}

/// The answer to a system call.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It returns this.
    Value(i64),
    /// It returns a new descriptor of this, which is closed or not when a program is executed.
    Handle(OwnedFd, bool),
    /// The kernel is to make it.
    Proceed,
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
    pub(crate) fn answer(&self, call: &Call, answer: Result<Answer, rustix::io::Errno>) {
        let mut response = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags: 0 };
        match answer {
            Ok(Answer::Value(value)) => response.val = value,
            Ok(Answer::Proceed) => response.flags = PROCEED,
            Err(errno) => response.error = -errno.raw_os_error(),
            Ok(Answer::Handle(handle, closed_on_exec)) => {
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

impl AsFd for Calls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`.
const PROCEED: u32 = 1;

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

/// Which side of a fork this is.
#[derive(Debug)]
pub(crate) enum Side {
    Parent(Pid),
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
    if n_threads()? != 1 {
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
