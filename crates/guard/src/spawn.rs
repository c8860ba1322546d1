//! The start of processes: the only code of the project that the compiler cannot check.
//!
//! Four things have no safe face. [`fork`] and [`fork_in_place`] copy a process of one thread, and
//! [`unshare`] gives it namespaces of its own: all are for the helper process and its copies, which have
//! little memory, so that a copy is made in a fraction of a millisecond, whatever the size of the process
//! that sinew runs in. [`confine`] binds a copy to what its command is bound to, and [`execute`] makes it
//! the command. [`Calls`] are the system calls that a filter hands to another process, and [`restrict`]
//! binds this thread to rules of Landlock.

#![expect(unsafe_code, reason = "this is the one file that may")]

use std::ffi::{CString, c_char, c_int, c_long};
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

/// The highest signal, plus one.
const N_SIGNALS: c_int = 65;

/// Binds this process, which has one thread and becomes a command, to what commands are bound to, in a
/// session of its own and with every signal in its default state; returns the system calls that it hands over from now on.
pub(crate) fn confine(confinement: &Confinement<'_>) -> io::Result<Option<Calls>> {
    rustix::process::setsid()?;
    // SAFETY: the calls take numbers, and the address of what lives until their end.
    unsafe {
        for signal in 1..N_SIGNALS {
            libc::signal(signal, libc::SIG_DFL);
        }
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
    let argv = pointers(&program.argv);
    let env = pointers(&program.env);
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
        libc::execve(program.path.as_ptr(), argv.as_ptr(), env.as_ptr());
    }
    io::Error::last_os_error()
}

/// Closes every descriptor but the first three.
pub(crate) fn close_others() {
    // SAFETY: called before this process opens anything.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, c_int::MAX, 0);
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

/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`.
const PROCEED: u32 = 1;

/// Which side of a fork this is.
#[derive(Debug)]
pub(crate) enum Side {
    /// The one that goes on, with its copy and what becomes readable when the copy ends.
    Parent(Pid, OwnedFd),
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
    copy(match own {
        Own::Nothing => 0,
        Own::Processes => libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWUTS,
    })
}

/// Copies this process, which must have one thread. Both share their working directory and file mode mask
/// from then on: where the copy goes, this process goes too.
pub(crate) fn fork_in_place() -> io::Result<Side> {
    copy(libc::CLONE_FS)
}

fn copy(flags: c_int) -> io::Result<Side> {
    if !has_one_thread()? {
        return Err(io::Error::other("a process of several threads cannot be copied"));
    }
    let mut handle: c_int = -1;
    let flags = flags | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: the process has one thread, so no lock is held by another, and the copy has memory of
    // its own. The kernel writes the descriptor to the third argument, on every machine; those after it
    // are zero, in whatever order the machine has them.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone, flags, 0, ptr::from_mut(&mut handle), 0, 0, 0) };
    match i32::try_from(pid) {
        Ok(0) => Ok(Side::Child),
        Ok(pid) if 0 < pid => {
            // SAFETY: the kernel wrote a new descriptor there, which nothing else owns.
            let handle = unsafe { OwnedFd::from_raw_fd(handle) };
            let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("no process"))?;
            Ok(Side::Parent(pid, handle))
        }
        _ => Err(io::Error::last_os_error()),
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
