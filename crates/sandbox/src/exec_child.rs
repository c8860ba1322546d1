//! Pre-forked child that becomes the next command of a session by `execve`. It is forked and sandboxed before
//! the spawn request arrives, so that no call waits for either.
//!
//! It shares the memory of its supervisor, which sleeps, until `execve` (vfork). It receives the request
//! itself and passes on the parts that the supervisor needs.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::stat;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, chdir, ioctl_tiocsctty, nice, pidfd_send_signal, set_parent_process_death_signal,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::fork_server::Notifier;
use super::kill_scope::Killer;
use super::sandbox::Sandbox;
use super::wire::{self, Notice, Refusal, SpawnRequest, Unkept};
use crate::spawn::{self, Calls, Program};
use sinew_fs::stat::identity_of;

/// The `oom_score_adj` of commands, in thousandths of memory: proc_pid_oom_score_adj(5).
const OOM_SCORE_ADJ: i32 = 500;

/// How much nicer commands are than sinew: programs that a person waits for come first.
const NICENESS: i32 = 5;

/// What a supervisor must know of a spawn request.
pub(super) struct SupervisorRequest {
    /// The socket to sinew.
    pub(super) line: OwnedFd,
    pub(super) timeout: Option<Duration>,
    /// The time between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    /// Protected names that the command may change besides those of the session.
    pub(super) granted: Vec<String>,
    /// What becomes of changes that cannot be kept for undo.
    pub(super) unkept: Unkept,
    /// Whether files outside the roots are asked about that it opens for writing.
    pub(super) asks_outside: bool,
    /// How many bytes of old contents can be kept.
    pub(super) room: u64,
    /// The free space of each disk of the sandbox, in bytes.
    pub(super) free: Vec<u64>,
}

/// An exec child that took a request, seen from its supervisor.
pub(super) struct Started {
    pub(super) pid: Pid,
    /// A pidfd, readable when it ends.
    pub(super) handle: OwnedFd,
    /// The system calls that it hands over, if it does.
    pub(super) calls: Option<Calls>,
    /// The request, or `None` if there are no more.
    pub(super) ordered: Option<SupervisorRequest>,
    /// The terminal of its command.
    pub(super) terminal: Option<OwnedFd>,
    /// The directory of the before-images of the command, and its undo log.
    pub(super) undo: Option<(OwnedFd, OwnedFd)>,
    /// Why it did not become the command.
    pub(super) failure: Option<(Refusal, i32)>,
}

/// Makes the kernel kill commands before sinew when memory runs out.
#[derive(Debug)]
pub(super) struct OomPreference {
    /// `oom_score_adj` of this process, with its own value.
    score: Option<(File, String)>,
}

impl OomPreference {
    /// Opens the score, which a sandboxed process cannot.
    #[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
    pub(super) fn open() -> Self {
        let read = || {
            let path = "/proc/self/oom_score_adj";
            let own = std::fs::read_to_string(path).ok()?.trim().to_owned();
            let is_lower = own.parse::<i32>().ok()? < OOM_SCORE_ADJ;
            let file = File::options().write(true).open(path).ok()?;
            is_lower.then_some((file, own))
        };
        Self { score: read() }
    }

    /// Starts a process that inherits a higher score: writing the score of the child takes much longer.
    fn start<T>(&self, start: impl FnOnce() -> T) -> T {
        let Some((file, own)) = &self.score else { return start() };
        let _ = (&mut &*file).write(OOM_SCORE_ADJ.to_string().as_bytes());
        let started = start();
        let _ = (&mut &*file).write(own.as_bytes());
        started
    }
}

/// Starts the next command of a session and waits for its request. Fails if no process was started.
pub(super) fn start_next(
    session: &OwnedFd,
    notifier: &Notifier,
    (killer, oom): (&Killer, &OomPreference),
    sandbox: &Sandbox,
) -> io::Result<Started> {
    let (line, theirs) = wire::line()?;
    let mut memory = Memory::default();
    let work = || {
        // If it fails, the notices sent before it remain valid.
        let lines = Lines { session, supervisor: &theirs, notifier };
        let _ = become_command(&lines, killer, sandbox, &mut memory);
    };
    let (pid, handle) = oom.start(|| spawn::beside(work))?;
    drop((theirs, memory));
    let mut started = Started {
        pid,
        handle,
        calls: None,
        ordered: None,
        terminal: None,
        undo: None,
        failure: None,
    };
    loop {
        let (notice, handles) = match wire::receive::<Notice>(&line) {
            Ok(Some(told)) => told,
            Ok(None) => break,
            Err(_) => {
                // No process could report the end of this one.
                let _ = pidfd_send_signal(&started.handle, Signal::KILL);
                break;
            }
        };
        let mut handles = handles.into_iter();
        let handle = handles.next();
        match notice {
            Notice::Confined => started.calls = handle.map(Calls::from),
            Notice::Ordered {
                timeout_ms,
                grace_ms,
                granted,
                unkept,
                asks_outside,
                room,
                has_terminal,
                free,
            } => {
                started.ordered = handle.map(|line| SupervisorRequest {
                    line,
                    timeout: timeout_ms.map(Duration::from_millis),
                    grace: Duration::from_millis(grace_ms),
                    granted,
                    unkept,
                    asks_outside,
                    room,
                    free,
                });
                started.terminal = handles.by_ref().take(usize::from(has_terminal)).next();
                started.undo = handles.next().zip(handles.next());
            }
            Notice::Failed(refusal, number) => started.failure = Some((refusal, number)),
        }
    }
    Ok(started)
}

/// What the supervisor owns, which alone can free it once the command has begun.
#[derive(Default)]
struct Memory {
    order: Option<SpawnRequest>,
    program: Option<Program>,
}

/// The sockets of an exec child to its requests and its supervisor.
struct Lines<'a> {
    session: &'a OwnedFd,
    supervisor: &'a OwnedFd,
    notifier: &'a Notifier,
}

/// Takes the next request and becomes its program. Returns if it cannot.
fn become_command(
    lines: &Lines<'_>,
    killer: &Killer,
    sandbox: &Sandbox,
    memory: &mut Memory,
) -> io::Result<()> {
    let Lines { session, supervisor, notifier } = lines;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let confined = killer.enter_cgroup().and_then(|()| spawn::confine(&sandbox.confinement()));
    let calls = confined.as_ref().ok().and_then(Option::as_ref);
    let handles: Vec<_> = calls.into_iter().map(AsFd::as_fd).collect();
    wire::send(supervisor, &Notice::Confined, &handles)?;
    drop(handles);
    // A process that holds the fd would miss that the last caller has ended.
    let confined = confined.map(drop);
    let Some((order, handles)) = wire::receive::<SpawnRequest>(session)? else { return Ok(()) };
    notifier.taken();
    let mut handles = handles;
    let undo = handles.split_off(4.min(handles.len()));
    let [line, input, output, errors] = <[OwnedFd; 4]>::try_from(handles)
        .map_err(|_| io::Error::other("an order without its streams"))?;
    let has_terminal = order.has_terminal;
    let terminal = has_terminal.then_some(input.as_fd());
    let undo_handles = undo.iter().map(AsFd::as_fd);
    let handles: Vec<_> = [line.as_fd()].into_iter().chain(terminal).chain(undo_handles).collect();
    let ordered = Notice::Ordered {
        timeout_ms: order.timeout_ms,
        grace_ms: order.grace_ms,
        granted: order.granted.clone(),
        unkept: order.unkept,
        asks_outside: order.asks_outside,
        room: order.room,
        has_terminal,
        // The command must not change what is free before that is known.
        free: sandbox.free(),
    };
    wire::send(supervisor, &ordered, &handles)?;
    drop(handles);
    drop(undo);
    if is_closed(&line) {
        // sinew has given up the request.
        return Ok(());
    }
    drop(line);
    if !order.keeps_cwd {
        // A setuid program gets no rights while it shares its working directory with another process.
        let _ = spawn::keep_apart();
    }
    let order = memory.order.insert(order);
    let (refusal, error) = match confined {
        Ok(()) => start(order, [input, output, errors], sandbox, &mut memory.program),
        Err(error) => (Refusal::Containment, error),
    };
    wire::send(supervisor, &Notice::Failed(refusal, error.raw_os_error().unwrap_or(0)), &[])
}

fn is_closed(line: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(line, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut watched, Some(&now)), Ok(n) if 0 < n)
}

/// Executes a program. Returns why that failed.
fn start(
    order: &SpawnRequest,
    [input, output, errors]: [OwnedFd; 3],
    sandbox: &Sandbox,
    place: &mut Option<Program>,
) -> (Refusal, io::Error) {
    if let Err(error) = enter(&order.cwd, order.cwd_identity) {
        return (Refusal::Directory, error);
    }
    let program = match program(order) {
        Ok(program) => place.insert(program),
        Err(error) => return (Refusal::Program, error),
    };
    let placed =
        dup2_stdin(&input).and_then(|()| dup2_stdout(&output)).and_then(|()| dup2_stderr(&errors));
    let placed = placed.and_then(|()| match order.has_terminal {
        true => ioctl_tiocsctty(rustix::stdio::stdin()),
        false => Ok(()),
    });
    if sandbox.lowers_priority() {
        let _ = nice(NICENESS);
    }
    match placed {
        Ok(()) => (Refusal::Program, spawn::execute(program, sandbox.limits())),
        Err(errno) => (Refusal::Containment, errno.into()),
    }
}

/// Enters a directory, if it is the one that was judged.
fn enter(path: &Path, identity: (u64, u64)) -> io::Result<()> {
    chdir(path)?;
    if identity_of(&stat(".")?).of_file() != identity {
        return Err(Errno::STALE.into());
    }
    Ok(())
}

fn program(order: &SpawnRequest) -> io::Result<Program> {
    let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::other);
    let pair = |name: &OsStr, value: &OsStr| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).map_err(io::Error::other)
    };
    Ok(Program::new(
        text(order.program.as_os_str())?,
        order.argv.iter().map(|arg| text(arg)).collect::<Result<_, _>>()?,
        order.env.iter().map(|(name, value)| pair(name, value)).collect::<Result<_, _>>()?,
    ))
}
