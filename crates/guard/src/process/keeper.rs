//! The process beside a command: it has the command started, ends all that the command started, and says
//! what became of it.
//!
//! In a namespace of its own it is the first process there, so whatever the command leaves behind
//! falls to it and cannot outlive it. Elsewhere it asks the kernel for the same: orphans of its
//! children become its children. It ends with the line to sinew. Where a command ended by itself and left
//! nothing behind, it can serve the next one.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::process::{
    Pid, Signal, WaitOptions, chdir, getpriority_process, kill_process_group, umask, wait,
};
use rustix::thread::{CpuSet, sched_getaffinity};

use super::group::CommandGroup;
use super::launcher::Teller;
use super::porter::Porting;
use super::sandbox::Sandbox;
use super::starter::{self, Started};
use super::tree;
use super::wire::{self, Command, End, Order, Refusal, Report};
use crate::spawn;

/// How often children that are nobody's are waited for while the command runs.
const REAP: Duration = Duration::from_millis(500);
/// How long the report may take to be heard.
const HEARD: Duration = Duration::from_millis(50);
/// How long a thread that has nothing left to do may take to end.
const THREADS: Duration = Duration::from_millis(5);
/// How long processes that were killed may take to be gone.
const GONE: Duration = Duration::from_secs(2);

/// Serves the next order of a session, and those after it where it lasts.
/// Fails where something may be left that its parent must end.
pub(super) fn keep(
    session: &OwnedFd,
    teller: &Teller,
    lasts: bool,
    sandbox: &Sandbox,
) -> io::Result<()> {
    let group = sandbox.command_group();
    let prepared = sandbox.prepare_keeper().and_then(|()| sandbox.restrict_keeper());
    if let Err(error) = prepared {
        refuse_next(session, teller, &error);
        return Ok(());
    }
    let mask = umask(Mode::empty());
    let standing = Standing::own();
    loop {
        // The command before shared both.
        umask(mask);
        let _ = chdir("/");
        match serve_next(session, teller, group.as_ref(), sandbox) {
            Ok(Served::Alone) if lasts && is_alone() && Standing::own() == standing => {
                teller.free();
            }
            Ok(Served::Left) => return Err(io::Error::other("a process cannot be ended")),
            Ok(_) => return Ok(()),
            Err(error) => {
                refuse_next(session, teller, &error);
                return Ok(());
            }
        }
    }
}

/// What another process of this user can change about this one, and what it makes inherits.
#[derive(PartialEq)]
struct Standing {
    niceness: Option<i32>,
    processors: Option<CpuSet>,
}

impl Standing {
    fn own() -> Self {
        Self { niceness: getpriority_process(None).ok(), processors: sched_getaffinity(None).ok() }
    }
}

/// How an order was served.
enum Served {
    /// Its command ended by itself, and nothing is left of it.
    Alone,
    /// There was none, or it had to be ended.
    Done,
    /// Something could not be ended.
    Left,
}

/// Has the next order of a session served. Fails where that could not be prepared.
fn serve_next(
    session: &OwnedFd,
    teller: &Teller,
    group: Option<&CommandGroup>,
    sandbox: &Sandbox,
) -> io::Result<Served> {
    let started = starter::start_next(session, teller, sandbox).or_else(|_| {
        // What was short may be there again when it is needed.
        poll(&mut [PollFd::new(session, PollFlags::IN)], None)?;
        starter::start_next(session, teller, sandbox)
    })?;
    let Started { pid, handle, calls, ordered, terminal, failure } = started;
    let Some((line, grace)) = ordered else {
        let rest = end_the_rest(group);
        return Ok(if rest.is_left { Served::Left } else { Served::Done });
    };
    let calls = calls.zip(sandbox.means());
    // The command leads a session of its own.
    let terminal = terminal.map(|terminal| (terminal, pid.as_raw_nonzero().get().unsigned_abs()));
    let mut porting =
        calls.map(|(calls, means)| Porting::begin(calls, Arc::clone(means), terminal));
    // Where nobody listens any more the first look at the line says so.
    let watch = Watch { line: &line, pid, handle: &handle, grace, group };
    let (end, was_told) = watch.until_the_end();
    let rest = end_the_rest(group);
    let report = match failure {
        Some((refusal, number)) => Report::Failed(refusal, number),
        None => {
            let refused = porting.as_ref().map(Porting::refused).unwrap_or_default();
            Report::Ended { end, n_left: rest.n_killed, cwd: where_it_was(), refused }
        }
    };
    let _ = wire::send(&line, &report, &[]);
    // What comes now takes long, and whoever waits for the report may wait for this processor.
    let mut closed = [PollFd::new(&line, PollFlags::empty())];
    let _ = poll(&mut closed, Timespec::try_from(HEARD).ok().as_ref());
    let has_ended = porting.as_mut().is_none_or(Porting::has_ended);
    Ok(match rest {
        Rest { is_left: true, .. } => Served::Left,
        Rest { had_to_kill: false, .. } if has_ended && !was_told => Served::Alone,
        _ => Served::Done,
    })
}

/// Answers the next order with why it cannot be served.
fn refuse_next(session: &OwnedFd, teller: &Teller, error: &io::Error) {
    let received = wire::receive::<Order>(session);
    teller.taken();
    let Ok(Some((_, handles))) = received else { return };
    if let Some(line) = handles.first() {
        let number = error.raw_os_error().unwrap_or(0);
        let _ = wire::send(line, &Report::Failed(Refusal::Containment, number), &[]);
    }
}

/// Returns whether this process has one thread again and no child.
fn is_alone() -> bool {
    let until = Instant::now() + THREADS;
    loop {
        let alone = spawn::has_one_thread().unwrap_or(false);
        if alone || until <= Instant::now() {
            return alone && wait(WaitOptions::NOHANG).is_err();
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// A command that runs.
struct Watch<'a> {
    line: &'a OwnedFd,
    pid: Pid,
    /// Becomes readable when it ends.
    handle: &'a OwnedFd,
    grace: Duration,
    group: Option<&'a CommandGroup>,
}

impl Watch<'_> {
    /// Waits for the command to end, and ends it when it is told to; returns how it ended, and whether it
    /// was told.
    fn until_the_end(&self) -> (End, bool) {
        let mut kill_at: Option<Instant> = None;
        let mut listening = true;
        let mut was_told = false;
        loop {
            let wait = kill_at.map_or(REAP, |at| at.saturating_duration_since(Instant::now()));
            let told = self.sleep(wait, listening);
            if let Some(end) = self.reap() {
                return (end, was_told);
            }
            was_told |= told;
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
        let mut watched = [PollFd::new(self.handle, PollFlags::IN), PollFd::new(self.line, line)];
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
            if pid == self.pid {
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

/// Kills everything but this process. A process that cannot be in the group is reached as a child.
fn kill_all(group: Option<&CommandGroup>) {
    let _ = group.map(CommandGroup::kill);
    if is_first() {
        let _ = kill_process_group(Pid::INIT, Signal::KILL);
    } else {
        tree::kill_children(|_| false);
    }
}

/// What a command left behind.
#[derive(Default)]
struct Rest {
    /// How many processes were killed.
    n_killed: u32,
    /// Whether this process had to kill, for which it leaves the group of its command.
    had_to_kill: bool,
    /// Whether somebody cannot be killed because the kernel holds him.
    is_left: bool,
}

/// Ends what the command left behind.
fn end_the_rest(group: Option<&CommandGroup>) -> Rest {
    let until = Instant::now() + GONE;
    let mut rest = Rest::default();
    let mut pause = Duration::from_micros(100);
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((_, status))) => {
                let killed = status.terminating_signal() == Some(Signal::KILL.as_raw());
                rest.n_killed += u32::from(killed);
            }
            Ok(None) if Instant::now() < until => {
                rest.had_to_kill = true;
                kill_all(group);
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(10));
            }
            Ok(None) => return Rest { is_left: true, ..rest },
            Err(_) => return rest,
        }
    }
}

/// Returns the working directory, which this process shared with the command.
fn where_it_was() -> Option<PathBuf> {
    let path = rustix::process::getcwd(Vec::new()).ok()?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    path.is_absolute().then_some(path)
}
