//! The process beside one command: it takes the order, starts the command, ends all that the command
//! started, and says what became of it.
//!
//! In a namespace of its own it is the first process there, so whatever the command leaves behind
//! falls to it and cannot outlive it. Elsewhere it asks the kernel for the same: orphans of its
//! children become its children. It ends with the line to sinew.

use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::process::{Pid, Signal, WaitOptions, fchdir, kill_process_group, wait};

use super::group::CommandGroup;
use super::porter;
use super::sandbox::Sandbox;
use super::tree;
use super::wire::{self, Command, End, Order, Refusal, Report};
use crate::spawn::{self, Child, Failed, Program, Step};

/// How often children that are nobody's are waited for while the command runs.
const REAP: Duration = Duration::from_millis(500);
/// How long the report may take to be heard.
const HEARD: Duration = Duration::from_millis(50);
/// How long processes that were killed may take to be gone.
const GONE: Duration = Duration::from_secs(2);

/// Waits for the next order of a session, runs its command and ends with it. The handle is closed
/// once the order is there.
pub(super) fn keep_next(session: OwnedFd, waiting: OwnedFd, sandbox: &Sandbox) {
    let group = sandbox.command_group();
    let prepared = sandbox.prepare_keeper().and_then(|()| sandbox.restrict_keeper());
    let prepared = prepared.map(|()| group);
    let received = wire::receive::<Order>(&session);
    drop((session, waiting));
    let Ok(Some((order, handles))) = received else { return };
    if let Ok([line, input, output, errors]) = <[OwnedFd; 4]>::try_from(handles) {
        keep(prepared, &order, &line, [input, output, errors], sandbox);
    }
}

fn keep(
    prepared: io::Result<Option<CommandGroup>>,
    order: &Order,
    line: &OwnedFd,
    stdio: [OwnedFd; 3],
    sandbox: &Sandbox,
) {
    let (prepared, group) = match prepared {
        Ok(group) => (Ok(()), group),
        Err(error) => (Err(error), None),
    };
    let started = begin(prepared, order, &stdio, sandbox);
    // From here on the streams end when the command and its children have closed them.
    drop(stdio);
    let report = match started {
        Ok(mut child) => {
            let calls = child.calls.take().zip(sandbox.means());
            let refused = calls.map(|(calls, means)| porter::begin(calls, Arc::clone(means)));
            let (grace, group) = (Duration::from_millis(order.grace_ms), group.as_ref());
            // Where nobody listens any more the first look at the line says so.
            let end = Watch { line, child, grace, group }.until_the_end();
            let n_left = end_the_rest(group);
            let refused = refused.map(|refused| refused.all()).unwrap_or_default();
            Report::Ended { end, n_left, cwd: where_it_was(), refused }
        }
        Err((refusal, error)) => Report::Failed(refusal, error.raw_os_error().unwrap_or(0)),
    };
    let _ = wire::send(line, &report, &[]);
    // The end of a process takes long, and whoever waits for the report may wait for this processor.
    let mut closed = [PollFd::new(line, PollFlags::empty())];
    let _ = poll(&mut closed, Timespec::try_from(HEARD).ok().as_ref());
}

/// Starts the command in this process, if that was prepared.
fn begin(
    prepared: io::Result<()>,
    order: &Order,
    stdio: &[OwnedFd; 3],
    sandbox: &Sandbox,
) -> Result<Child, (Refusal, io::Error)> {
    prepared.map_err(|error| (Refusal::Containment, error))?;
    enter(&order.cwd, order.cwd_identity).map_err(|error| (Refusal::Directory, error))?;
    let program = program(order).map_err(|error| (Refusal::Program, error))?;
    let streams = [stdio[0].as_fd(), stdio[1].as_fd(), stdio[2].as_fd()];
    spawn::start(&program, streams, sandbox.limits(), &sandbox.confinement()).map_err(
        |Failed { step, error }| match step {
            Step::Execute => (Refusal::Program, error),
            _ => (Refusal::Containment, error),
        },
    )
}

/// Makes a directory the working directory, if it is the one that was judged.
fn enter(path: &Path, identity: (u64, u64)) -> io::Result<()> {
    let flags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    let strict = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let dir = match openat2(CWD, path, flags, Mode::empty(), strict) {
        // What the identity says is then all there is.
        Err(rustix::io::Errno::NOSYS) => openat(CWD, path, flags, Mode::empty()),
        other => other,
    }?;
    let stat = fstat(&dir)?;
    #[expect(clippy::useless_conversion, reason = "the type depends on the machine")]
    if (u64::from(stat.st_dev), u64::from(stat.st_ino)) != identity {
        return Err(io::Error::from(rustix::io::Errno::STALE));
    }
    Ok(fchdir(&dir)?)
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

/// A command that runs.
struct Watch<'a> {
    line: &'a OwnedFd,
    child: Child,
    grace: Duration,
    group: Option<&'a CommandGroup>,
}

impl Watch<'_> {
    /// Waits for the command to end, and ends it when it is told to.
    fn until_the_end(&self) -> End {
        let mut kill_at: Option<Instant> = None;
        let mut listening = true;
        loop {
            let wait = kill_at.map_or(REAP, |at| at.saturating_duration_since(Instant::now()));
            let told = self.sleep(wait, listening);
            if let Some(end) = self.reap() {
                return end;
            }
            if told {
                match wire::receive::<Command>(self.line) {
                    Ok(Some((Command::Stop, _))) => {
                        ask_all_to_end();
                        kill_at.get_or_insert(Instant::now() + self.grace);
                    }
                    Ok(Some((Command::Kill, _)) | None) | Err(_) => {
                        listening = false;
                        kill_at = Some(Instant::now());
                    }
                }
            }
            if kill_at.is_some_and(|at| at <= Instant::now()) {
                kill_all(self.group);
                kill_at = Some(Instant::now() + REAP);
            }
        }
    }

    /// Sleeps until the command ends, the line has something to say, or the time is over; returns
    /// whether the line has.
    fn sleep(&self, time: Duration, listening: bool) -> bool {
        let line = if listening { PollFlags::IN } else { PollFlags::empty() };
        let mut watched =
            [PollFd::new(&self.child.handle, PollFlags::IN), PollFd::new(self.line, line)];
        let n = if listening { 2 } else { 1 };
        let time = Timespec::try_from(time).ok();
        let _ = poll(watched.get_mut(..n).unwrap_or_default(), time.as_ref());
        let [_, line] = watched;
        listening && !line.revents().is_empty()
    }

    /// Waits for all that ended, also orphans that fell to this process; returns how the command
    /// ended, if it did.
    fn reap(&self) -> Option<End> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.child.pid {
                return Some(match status.terminating_signal() {
                    Some(signal) => End::Signal(signal),
                    None => End::Code(status.exit_status().unwrap_or(0)),
                });
            }
        }
        None
    }
}

/// Returns whether this is the first process of its namespace.
fn is_first() -> bool {
    std::process::id() == 1
}

fn ask_all_to_end() {
    for signal in [Signal::TERM, Signal::CONT] {
        if is_first() {
            // Every process of the namespace but this one.
            let _ = kill_process_group(Pid::INIT, signal);
        } else {
            tree::signal_all_below(signal);
        }
    }
}

fn kill_all(group: Option<&CommandGroup>) {
    if group.is_some_and(|group| group.kill().is_ok()) {
        return;
    }
    if is_first() {
        let _ = kill_process_group(Pid::INIT, Signal::KILL);
    } else {
        tree::kill_children(&HashSet::new());
    }
}

/// Ends what the command left behind; returns how many processes that were.
fn end_the_rest(group: Option<&CommandGroup>) -> u32 {
    let until = Instant::now() + GONE;
    let mut n_killed = 0;
    let mut pause = Duration::from_micros(100);
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((_, status))) => {
                let killed = status.terminating_signal() == Some(Signal::KILL.as_raw());
                n_killed += u32::from(killed);
            }
            Ok(None) if Instant::now() < until => {
                kill_all(group);
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(10));
            }
            // Nobody is left, or somebody cannot be killed because the kernel holds him.
            Ok(None) | Err(_) => return n_killed,
        }
    }
}

/// Returns the working directory, which this process shared with the command.
fn where_it_was() -> Option<PathBuf> {
    let path = rustix::process::getcwd(Vec::new()).ok()?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    path.is_absolute().then_some(path)
}
