//! Supervises one command: starts it, kills what it leaves behind and reports its exit.
//!
//! It is PID 1 of a PID namespace, so that no process outlives it there. Elsewhere it is a child subreaper:
//! orphans of the command become its children. It exits when the socket to sinew closes. It serves the next
//! command only after one that exited by itself and left no process.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, chdir, getpriority_process, umask, wait,
    waitid,
};
use rustix::thread::{CpuSet, sched_getaffinity};

use super::asking::{Answered, PendingQuestion};
use super::exec_child::{self, OomPreference, Started, SupervisorRequest};
use super::fork_server::Notifier;
use super::kill_scope::Killer;
use super::notify_handler::{NotifyHandler, UndoHandles};
use super::sandbox::Sandbox;
use super::urgency::Urgency;
use super::usage::{Exhausted, Usage};
use super::wire::{self, Command, End, Findings, Refusal, Report, SpawnRequest, Unkept};
use crate::spawn;

/// The size of a signal read from a signalfd, signalfd(2).
const SIGNAL_BYTES: usize = 128;
/// A command that runs longer than this may exhaust the processors.
const SHORT: Duration = Duration::from_millis(5);
/// How often orphans are reaped while the command runs, with or without SIGCHLD.
const REAP: Duration = Duration::from_millis(500);
/// How long sinew may take to receive the report.
const HEARD: Duration = Duration::from_millis(50);
/// How long an idle thread may take to exit.
const THREADS: Duration = Duration::from_millis(5);
/// How long killed processes may take to exit.
const GONE: Duration = Duration::from_secs(2);
/// How often a kill is repeated until they have.
const AGAIN: Duration = Duration::from_millis(20);
/// How long a supervisor pauses after it reaped orphans: else a fork bomb uses up its share of a processor.
const PAUSE: Duration = Duration::from_millis(10);
/// The most orphans that are reaped between two pauses, and how many at first: up to 6,400 a second.
const MAX_ORPHANS: usize = 64;
const FIRST_ORPHANS: usize = 16;
/// A supervisor that wakes later than this shares its processor with very many processes.
const LATE: Duration = Duration::from_millis(5);
/// The most processes that are reaped before other work is checked.
const MAX_REAPED: usize = 256;

/// Serves the next request of a session, and those after it if it `lasts`. Fails if processes may be left
/// that its parent must kill.
pub(super) fn supervise(
    session: &OwnedFd,
    notifier: &Notifier,
    lasts: bool,
    sandbox: &Sandbox,
) -> io::Result<()> {
    let prepared = sandbox.command_cgroup().and_then(|cgroup| {
        let urgency = sandbox.prepare_supervisor()?;
        let oom = OomPreference::open();
        sandbox.restrict_supervisor()?;
        let killer = Killer::new(sandbox.kill_scope(), cgroup);
        Ok(Prepared { killer, oom, children: spawn::child_signals()?, urgency })
    });
    let mut prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            refuse_next(session, notifier, &error);
            return Ok(());
        }
    };
    let mask = umask(Mode::empty());
    let standing = Standing::own();
    loop {
        // The last command shared both.
        umask(mask);
        let _ = chdir("/");
        match serve_next(session, notifier, &mut prepared, sandbox) {
            Ok(Served::Alone) if lasts && is_alone() && Standing::own() == standing => {
                notifier.free();
            }
            Ok(Served::Left) => return Err(io::Error::other("a process cannot be ended")),
            Ok(_) => return Ok(()),
            Err(error) => {
                refuse_next(session, notifier, &error);
                return Ok(());
            }
        }
    }
}

/// What a supervisor has before its first command.
struct Prepared {
    killer: Killer,
    oom: OomPreference,
    /// Becomes readable when a child ends.
    children: OwnedFd,
    urgency: Urgency,
}

/// What another process of this user can change about this one, and its children inherit.
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

/// How a request was served.
enum Served {
    /// Its command exited by itself and left no process.
    Alone,
    /// There was no command, or it had to be killed.
    Done,
    /// A process could not be killed.
    Left,
}

/// Serves the next request of a session. Fails if that could not be prepared.
fn serve_next(
    session: &OwnedFd,
    notifier: &Notifier,
    prepared: &mut Prepared,
    sandbox: &Sandbox,
) -> io::Result<Served> {
    let Prepared { killer, oom, children, urgency } = prepared;
    let started =
        exec_child::start_next(session, notifier, (killer, oom), sandbox).or_else(|_| {
            // A resource that was short may be available when the request arrives.
            poll(&mut [PollFd::new(session, PollFlags::IN)], None)?;
            exec_child::start_next(session, notifier, (killer, oom), sandbox)
        })?;
    let Started { pid, handle, calls, ordered, terminal, undo, failure } = started;
    let Some(ordered) = ordered else {
        let rest = end_the_rest(killer, urgency, None);
        return Ok(if rest.is_left { Served::Left } else { Served::Done });
    };
    let SupervisorRequest { line, timeout, grace, granted, unkept, asks_outside, room, free } =
        ordered;
    let calls = calls.zip(sandbox.means());
    // The command leads a session of its own.
    let terminal = terminal.map(|terminal| (terminal, pid.as_raw_nonzero().get().unsigned_abs()));
    let question = match unkept == Unkept::Asks || asks_outside {
        true => PendingQuestion::new(&line).ok().map(Arc::new),
        false => None,
    };
    let unkept = if unkept == Unkept::Asks && question.is_none() { Unkept::Fails } else { unkept };
    let asking = question.clone();
    let undo =
        undo.map(|(dir, log)| UndoHandles { dir, log, unkept, room, question, asks_outside });
    let mut handler = calls.map(|(calls, means)| {
        NotifyHandler::begin(calls, Arc::clone(means), terminal, granted, undo)
    });
    // If sinew has closed the socket, the first poll shows it.
    let usage = sandbox.begin_usage(free);
    let mut watch = Watch {
        line: &line,
        pid,
        handle: &handle,
        children,
        timeout,
        grace,
        killer,
        urgency,
        usage,
        question: asking,
    };
    let CommandEnd { end, was_told, out_of_time, exhausted } = watch.until_the_end();
    let was_stopped = out_of_time || exhausted.is_some();
    // One that ended by itself meanwhile was not ended for that.
    let exhausted = exhausted.filter(|_| end == End::Signal(Signal::KILL.as_raw()));
    let exhausted =
        watch.usage.take().and_then(Usage::end).filter(|_| exhausted.is_none()).or(exhausted);
    let rest = end_the_rest(killer, urgency, Some(pid));
    urgency.lower();
    let report = match failure {
        Some((refusal, number)) => Report::Failed(refusal, number),
        None => {
            let findings = handler.as_ref().map(NotifyHandler::findings).unwrap_or_default();
            let findings = Findings { exhausted: exhausted.map(Box::new), ..findings };
            let cwd = where_it_was();
            let Rest { n_killed: n_left, is_left, .. } = rest;
            Report::Ended { end, out_of_time, n_left, is_left, cwd, findings }
        }
    };
    let _ = wire::send(&line, &report, &[]);
    // The cleanup takes long, and the process that waits for the report may need this processor.
    let mut closed = [PollFd::new(&line, PollFlags::empty())];
    let _ = poll(&mut closed, Timespec::try_from(HEARD).ok().as_ref());
    let has_ended = handler.as_mut().is_none_or(NotifyHandler::has_ended);
    Ok(match rest {
        Rest { is_left: true, .. } => Served::Left,
        Rest { had_to_kill: false, .. } if has_ended && !was_told && !was_stopped => Served::Alone,
        _ => Served::Done,
    })
}

/// Answers the next request with an error.
fn refuse_next(session: &OwnedFd, notifier: &Notifier, error: &io::Error) {
    let received = wire::receive::<SpawnRequest>(session);
    notifier.taken();
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

struct Watch<'a> {
    line: &'a OwnedFd,
    pid: Pid,
    /// Becomes readable when it ends.
    handle: &'a OwnedFd,
    /// Becomes readable when any child ends.
    children: &'a OwnedFd,
    timeout: Option<Duration>,
    grace: Duration,
    killer: &'a mut Killer,
    urgency: &'a mut Urgency,
    usage: Option<Usage>,
    /// The question that stops its clock.
    question: Option<Arc<PendingQuestion>>,
}

/// How a watched command ended.
struct CommandEnd {
    end: End,
    /// Whether sinew asked it to.
    was_told: bool,
    out_of_time: bool,
    exhausted: Option<Exhausted>,
}

impl Watch<'_> {
    /// Waits for the command to end, and kills it when its time is over or sinew says so. A command that the
    /// kernel still holds after [`GONE`] counts as killed.
    fn until_the_end(&mut self) -> CommandEnd {
        let mut stop_at = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut kill_at: Option<Instant> = None;
        let mut give_up_at: Option<Instant> = None;
        let mut out_of_time = false;
        let mut listening = true;
        let mut was_told = false;
        let mut exhausted = None;
        let mut max_reaped = FIRST_ORPHANS;
        let mut pauses = false;
        let mut must_hold_back = false;
        self.forget_signals();
        loop {
            let next = [self.over_at(stop_at), kill_at, give_up_at].into_iter().flatten().min();
            let until_next = next.map(|at| at.saturating_duration_since(Instant::now()));
            let wait = match self.urgency {
                Urgency::Usual => SHORT,
                Urgency::Fixed | Urgency::Raised if pauses => PAUSE,
                Urgency::Fixed | Urgency::Raised => REAP,
            };
            let looks = self.usage.as_ref().filter(|_| exhausted.is_none());
            let until_look = looks.map_or(wait, Usage::due_in);
            let time = until_next.map_or(wait, |time| time.min(wait)).min(until_look);
            let awake_at = Instant::now() + time;
            let wanted = (listening, !pauses && !must_hold_back);
            let told = self.sleep(time, wanted, exhausted.is_some());
            // A supervisor that has used up its share of a processor wakes late.
            let is_late = awake_at + LATE < Instant::now();
            max_reaped =
                if is_late { max_reaped / 2 } else { max_reaped * 2 }.clamp(1, MAX_ORPHANS);
            if self.over_at(stop_at).is_some_and(|at| at <= Instant::now()) {
                (stop_at, out_of_time) = (None, true);
                must_hold_back = self.killer.terminate();
                kill_at.get_or_insert(Instant::now() + self.grace);
            }
            if exhausted.is_none() {
                exhausted = self.usage.as_mut().and_then(Usage::look);
                kill_at = if exhausted.is_some() { Some(Instant::now()) } else { kill_at };
            }
            if kill_at.is_some_and(|at| at <= Instant::now()) {
                must_hold_back = self.killer.kill(Some(self.pid));
                kill_at =
                    Some(Instant::now() + if must_hold_back { Duration::ZERO } else { AGAIN });
                give_up_at.get_or_insert(Instant::now() + GONE);
            }
            match self.reap(if must_hold_back { 0 } else { max_reaped }) {
                Reaped::Command(end) => {
                    return CommandEnd { end, was_told, out_of_time, exhausted };
                }
                Reaped::None => pauses = false,
                Reaped::Some => pauses = true,
            }
            if give_up_at.is_some_and(|at| at <= Instant::now()) {
                let end = End::Signal(Signal::KILL.as_raw());
                return CommandEnd { end, was_told, out_of_time, exhausted };
            }
            if told {
                match wire::receive::<Command>(self.line) {
                    Ok(Some((Command::Asking, _))) => {
                        self.question.as_ref().inspect(|question| question.pause.begin());
                        continue;
                    }
                    Ok(Some((Command::Answer(answer), _))) => {
                        self.answer(Answered::Unkept(answer));
                        continue;
                    }
                    Ok(Some((Command::Opened(opened), handles))) => {
                        self.answer(Answered::opened(opened, handles));
                        continue;
                    }
                    Ok(Some((Command::Stop, _))) => {
                        must_hold_back = self.killer.terminate();
                        kill_at.get_or_insert(Instant::now() + self.grace);
                    }
                    Ok(Some((Command::Kill, _)) | None) | Err(_) => {
                        listening = false;
                        kill_at = Some(Instant::now());
                    }
                }
                was_told = true;
            }
        }
    }

    fn answer(&self, answered: Answered) {
        if let Some(question) = &self.question {
            question.answer(answered);
        }
    }

    /// Returns when the time of the command is over, unless its clock is stopped.
    fn over_at(&self, stop_at: Option<Instant>) -> Option<Instant> {
        match &self.question {
            Some(question) => question.pause.over_at(stop_at?),
            None => stop_at,
        }
    }

    /// Sleeps until the command ends, sinew sends a message, a child ends (if `for_children`) or the time is
    /// over. Returns whether there is a message.
    fn sleep(
        &mut self,
        time: Duration,
        (listening, for_children): (bool, bool),
        is_exhausted: bool,
    ) -> bool {
        let wanted = |is_wanted| if is_wanted { PollFlags::IN } else { PollFlags::empty() };
        let mut watched = vec![
            PollFd::new(self.handle, PollFlags::IN),
            PollFd::new(self.children, wanted(for_children)),
        ];
        // A closed socket is always ready.
        watched.extend(listening.then(|| PollFd::new(self.line, PollFlags::IN)));
        let signal = self.usage.as_ref().and_then(Usage::signal).filter(|_| !is_exhausted);
        watched.extend(signal.map(|signal| PollFd::new(signal, PollFlags::IN)));
        let time = Timespec::try_from(time).ok();
        let _ = poll(&mut watched, time.as_ref());
        let is_ready = |at: usize| watched.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let (command, children, line) = (is_ready(0), is_ready(1), listening && is_ready(2));
        if !command {
            self.urgency.raise();
        }
        if children {
            self.forget_signals();
        }
        line
    }

    /// Reads pending SIGCHLD signals, which the kernel merges into one.
    fn forget_signals(&self) {
        let _ = rustix::io::read(self.children, &mut [0; SIGNAL_BYTES]);
    }

    /// Reaps processes that ended, orphans included, but at most so many: other work needs time.
    fn reap(&self, at_most: usize) -> Reaped {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(status)) = waitid(WaitId::Pid(self.pid), ended) {
            return Reaped::Command(match status.terminating_signal() {
                Some(signal) => End::Signal(signal),
                None => End::Code(status.exit_status().unwrap_or(0)),
            });
        }
        for n in 0..at_most {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.pid => {
                    return Reaped::Command(match status.terminating_signal() {
                        Some(signal) => End::Signal(signal),
                        None => End::Code(status.exit_status().unwrap_or(0)),
                    });
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return if n == 0 { Reaped::None } else { Reaped::Some },
            }
        }
        if at_most == 0 { Reaped::None } else { Reaped::Some }
    }
}

/// The result of a reap.
enum Reaped {
    /// It included the command, which ended like this.
    Command(End),
    None,
    /// Some had ended, and more may have.
    Some,
}

/// What a command left behind.
#[derive(Default)]
struct Rest {
    n_killed: u32,
    had_to_kill: bool,
    /// Whether a process may still run: the kernel holds it, or no kill reached it.
    is_left: bool,
}

/// Kills what the command left behind, until nothing is left or [`GONE`] is over.
fn end_the_rest(killer: &mut Killer, urgency: &mut Urgency, command: Option<Pid>) -> Rest {
    let until = Instant::now() + GONE;
    let mut rest = Rest::default();
    let mut pause = Duration::from_micros(100);
    let mut kill_at = None;
    // An unreaped command keeps its PID reserved, so its process group can still be killed.
    let mut unwaited = command;
    let mut max_reaped = MAX_REAPED;
    loop {
        for _ in 0..max_reaped {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, _))) if Some(pid) == command => unwaited = None,
                Ok(Some((_, status))) => {
                    let killed = status.terminating_signal() == Some(Signal::KILL.as_raw());
                    rest.n_killed += u32::from(killed);
                }
                Ok(None) => break,
                Err(_) => return rest,
            }
        }
        let now = Instant::now();
        if until <= now {
            return Rest { is_left: true, ..rest };
        }
        if kill_at.is_none_or(|at| at <= now) {
            rest.had_to_kill = true;
            urgency.raise();
            let are_left = killer.kill(unwaited);
            max_reaped = if are_left { 0 } else { MAX_REAPED };
            kill_at = Some(now + if are_left { Duration::ZERO } else { AGAIN });
        } else {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}

/// Returns the working directory, which this process shared with the command, even if it was removed.
fn where_it_was() -> Option<PathBuf> {
    let path = rustix::process::getcwd(Vec::new()).map(CString::into_bytes).or_else(|_| {
        let link = rustix::fs::readlink("/proc/self/cwd", Vec::new())?.into_bytes();
        let removed = link.strip_suffix(b" (deleted)").ok_or(Errno::NOENT)?;
        Ok::<_, Errno>(removed.to_owned())
    });
    let path = PathBuf::from(OsString::from_vec(path.ok()?));
    path.is_absolute().then_some(path)
}
