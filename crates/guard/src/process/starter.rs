//! The process that becomes the next command of a session.
//!
//! It is made before that command is ordered, and bound then to what commands are bound to, so that
//! nobody waits for either. It takes the order itself, tells its keeper and becomes the program.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::stat;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, chdir, set_parent_process_death_signal};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::sandbox::Sandbox;
use super::wire::{self, Order, Progress, Refusal};
use crate::spawn::{self, Calls, Program, Side};

/// The process that waits for the next order, seen from its keeper.
pub(super) struct Starter {
    pub(super) pid: Pid,
    /// Becomes readable when it ends.
    pub(super) handle: OwnedFd,
    /// The system calls that it hands over, if it does.
    pub(super) calls: Option<Calls>,
    line: OwnedFd,
}

impl Starter {
    /// Makes it. Only the keeper returns.
    pub(super) fn make(session: &OwnedFd, sandbox: &Sandbox) -> io::Result<Self> {
        let (line, theirs) = wire::line()?;
        match spawn::fork_in_place()? {
            Side::Child => {
                drop(line);
                let _ = become_command(session, &theirs, sandbox);
                std::process::exit(NOT_STARTED)
            }
            Side::Parent(pid, handle) => {
                drop(theirs);
                let calls = match wire::receive::<Progress>(&line)? {
                    Some((Progress::Confined, handles)) => handles.into_iter().next(),
                    _ => None,
                };
                Ok(Self { pid, handle, calls: calls.map(Calls::from), line })
            }
        }
    }

    /// Waits until it has its order; returns the line to whoever ordered and the time that processes
    /// have to end. `None` where there is no more order.
    pub(super) fn ordered(&self) -> Option<(OwnedFd, Duration)> {
        let (progress, handles) = wire::receive::<Progress>(&self.line).ok()??;
        let Progress::Ordered { grace_ms } = progress else { return None };
        Some((handles.into_iter().next()?, Duration::from_millis(grace_ms)))
    }

    /// Returns why it did not become the command, once it ended.
    pub(super) fn failure(&self) -> Option<(Refusal, i32)> {
        match wire::receive::<Progress>(&self.line) {
            Ok(Some((Progress::Failed(refusal, number), _))) => Some((refusal, number)),
            _ => None,
        }
    }
}

/// The code with which it ends where it does not become the command.
const NOT_STARTED: i32 = 127;

/// Takes the next order and becomes its program. Returns where it cannot.
fn become_command(session: &OwnedFd, keeper: &OwnedFd, sandbox: &Sandbox) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let confined = spawn::confine(&sandbox.confinement());
    let calls = confined.as_ref().ok().and_then(Option::as_ref);
    let handles: Vec<_> = calls.into_iter().map(AsFd::as_fd).collect();
    wire::send(keeper, &Progress::Confined, &handles)?;
    // Whoever holds it is not told that the last of those that hand calls over has ended.
    let confined = confined.map(drop);
    let Some((order, handles)) = wire::receive::<Order>(session)? else { return Ok(()) };
    let [line, input, output, errors] = <[OwnedFd; 4]>::try_from(handles)
        .map_err(|_| io::Error::other("an order without its streams"))?;
    wire::send(keeper, &Progress::Ordered { grace_ms: order.grace_ms }, &[line.as_fd()])?;
    drop(line);
    let (refusal, error) = match confined {
        Ok(()) => start(&order, [input, output, errors], sandbox),
        Err(error) => (Refusal::Containment, error),
    };
    wire::send(keeper, &Progress::Failed(refusal, error.raw_os_error().unwrap_or(0)), &[])
}

/// Becomes a program. Returns why that failed.
fn start(order: &Order, stdio: [OwnedFd; 3], sandbox: &Sandbox) -> (Refusal, io::Error) {
    if let Err(error) = enter(&order.cwd, order.cwd_identity) {
        return (Refusal::Directory, error);
    }
    let program = match program(order) {
        Ok(program) => program,
        Err(error) => return (Refusal::Program, error),
    };
    let [input, output, errors] = stdio;
    let placed =
        dup2_stdin(&input).and_then(|()| dup2_stdout(&output)).and_then(|()| dup2_stderr(&errors));
    match placed {
        Ok(()) => (Refusal::Program, spawn::execute(&program, sandbox.limits())),
        Err(errno) => (Refusal::Containment, errno.into()),
    }
}

/// Makes a directory the working directory, if it is the one that was judged.
fn enter(path: &Path, identity: (u64, u64)) -> io::Result<()> {
    chdir(path)?;
    let stat = stat(".")?;
    #[expect(clippy::useless_conversion, reason = "the type depends on the machine")]
    if (u64::from(stat.st_dev), u64::from(stat.st_ino)) != identity {
        return Err(Errno::STALE.into());
    }
    Ok(())
}

fn program(order: &Order) -> io::Result<Program> {
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
