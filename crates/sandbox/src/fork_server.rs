//! Fork server of a session: enters the sandbox once and forks the supervisors of commands. It has one thread
//! and little memory, so a fork takes a fraction of a millisecond, regardless of the size of sinew.
//!
//! Each supervisor is forked before a command needs it, and its exec child waits for the spawn request. Two
//! supervisors serve one command after another; further ones exit with their command. When the socket to
//! sinew closes, the fork server exits after every process below it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, wait};

use super::process_tree::ProcessTree;
use super::sandbox::Sandbox;
use super::supervisor;
use super::wire::{self, Join, JoinHandles, Outside, Policy, Ready, Refusal, Report, SpawnRequest};
use crate::spawn::{self, Side};

/// How many supervisors serve more than one command.
const LASTING: usize = 2;
/// How often supervisors that ended are reaped.
const REAP: Duration = Duration::from_secs(1);
/// How long this process yields to commands while a supervisor is free for the next one.
const PAUSE: Duration = Duration::from_millis(2);
/// The pause between two kills of orphans.
const ORPHANS: Duration = Duration::from_millis(5);
/// How long orphans may delay the next supervisor at once.
const MAX_ORPHANS: Duration = Duration::from_secs(1);
/// How long one attempt to kill processes may take.
const ONE_ATTEMPT: Duration = Duration::from_millis(300);
/// The most processes that are reaped before other work is checked.
const MAX_REAPED: usize = 256;
/// How long supervisors have to end their commands once sinew is gone.
const LAST: Duration = Duration::from_secs(3);

/// Serves a session until sinew closes the socket.
pub(super) fn serve(line: OwnedFd) -> io::Result<()> {
    let Some((policy, _)) = wire::receive::<Policy>(&line)? else { return Ok(()) };
    // Orphans of a dead supervisor become children of this process instead of leaving the session.
    set_child_subreaper(Some(getpid()))?;
    let outside = match policy.keeps_changes {
        true => Some(Outside::receive(&line, policy.kept_at.len())?),
        false => None,
    };
    let joined = match policy.join {
        Join::Other => Some(JoinHandles::receive(&line)?),
        Join::Alone | Join::Open => None,
    };
    let mut sandbox = match Sandbox::enter(&policy, outside, joined) {
        Ok(sandbox) => sandbox,
        Err(shortfall) => return wire::send(&line, &Ready::Err(shortfall), &[]),
    };
    let joinable = sandbox.take_joinable();
    let is_joinable = joinable.is_some();
    wire::send(&line, &Ready::Ok((sandbox.missing().to_vec(), is_joinable)), &[])?;
    if let Some(joinable) = joinable {
        joinable.send(&line)?;
    }
    let mut supervisors = Supervisors::new(&sandbox)?;
    // Whether a request came while there was no supervisor for it.
    let mut is_late = false;
    loop {
        let goes_on = match supervisors.make_unless_free() {
            Ok(Made::Here(notifier, lasts)) => {
                drop(supervisors);
                return supervisor::supervise(&line, &notifier, lasts, &sandbox);
            }
            Ok(Made::Beside) => {
                is_late = false;
                // Spawn requests are for the supervisors.
                supervisors.look(&line, PollFlags::empty())?.goes_on
            }
            Err(error) if is_late => {
                is_late = false;
                refuse_next(&line, &error)?
            }
            Err(_) => {
                // A resource that was short may be available when the request arrives.
                let seen = supervisors.look(&line, PollFlags::IN)?;
                is_late = seen.is_ordered;
                seen.goes_on
            }
        };
        if !goes_on {
            break;
        }
    }
    supervisors.end_all();
    sandbox.leave();
    Ok(())
}

/// Tells the fork server what a supervisor does.
pub(super) struct Notifier {
    number: u32,
    pipe: OwnedFd,
}

impl Notifier {
    /// Tells that a request was taken.
    pub(super) fn taken(&self) {
        self.tell(TAKEN);
    }

    /// Tells that the next request can be taken.
    pub(super) fn free(&self) {
        self.tell(FREE);
    }

    fn tell(&self, what: u8) {
        let [a, b, c, d] = self.number.to_ne_bytes();
        let _ = rustix::io::write(&self.pipe, &[a, b, c, d, what]);
    }
}

const TAKEN: u8 = 0;
const FREE: u8 = 1;
/// The size of a notice.
const TOLD_BYTES: usize = 5;

/// The result of a fork.
enum Made {
    /// This process is the supervisor; says whether it lasts.
    Here(Notifier, bool),
    /// It runs beside this process.
    Beside,
}

/// The state of the socket to sinew.
struct Seen {
    goes_on: bool,
    is_ordered: bool,
}

/// A supervisor and its last notice.
struct Supervisor {
    number: u32,
    lasts: bool,
    is_free: bool,
}

struct Supervisors<'a> {
    sandbox: &'a Sandbox,
    alive: HashMap<Pid, Supervisor>,
    n_made: u32,
    /// Whether processes of a dead supervisor may be left.
    has_orphans: bool,
    tree: ProcessTree,
    /// Both ends of the pipe for their notices.
    told: (OwnedFd, OwnedFd),
}

impl<'a> Supervisors<'a> {
    fn new(sandbox: &'a Sandbox) -> io::Result<Self> {
        Ok(Self {
            sandbox,
            alive: HashMap::new(),
            n_made: 0,
            has_orphans: false,
            tree: ProcessTree::new(),
            told: pipe_with(PipeFlags::CLOEXEC)?,
        })
    }

    fn make_unless_free(&mut self) -> io::Result<Made> {
        if self.one_is_free() {
            return Ok(Made::Beside);
        }
        self.n_made = self.n_made.wrapping_add(1);
        let number = self.n_made;
        let n_lasting = self.alive.values().filter(|supervisor| supervisor.lasts).count();
        let lasts = n_lasting < LASTING;
        let notifier = Notifier { number, pipe: self.told.1.try_clone()? };
        let Side::Parent(pid) = spawn::fork(self.sandbox.own())? else {
            return Ok(Made::Here(notifier, lasts));
        };
        self.alive.insert(pid, Supervisor { number, lasts, is_free: true });
        Ok(Made::Beside)
    }

    fn one_is_free(&self) -> bool {
        self.alive.values().any(|supervisor| supervisor.is_free)
    }

    /// Waits for a notice, an event on the socket, or [`REAP`]; then reaps.
    fn look(&mut self, line: &OwnedFd, at_line: PollFlags) -> io::Result<Seen> {
        let mut watched = [PollFd::new(line, at_line), PollFd::new(&self.told.0, PollFlags::IN)];
        match poll(&mut watched, Timespec::try_from(REAP).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [line, told] = watched.map(|handle| handle.revents());
        if told.contains(PollFlags::IN) {
            self.listen()?;
            if self.one_is_free() {
                // The rest can wait while commands run.
                std::thread::sleep(PAUSE);
            }
        }
        self.reap();
        let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::RDHUP;
        Ok(Seen { goes_on: !line.intersects(closed), is_ordered: line.contains(PollFlags::IN) })
    }

    /// Reads the notices of supervisors.
    fn listen(&mut self) -> io::Result<()> {
        let mut told = [0; TOLD_BYTES * 64];
        let n = rustix::io::retry_on_intr(|| rustix::io::read(&self.told.0, &mut told))?;
        for told in told.get(..n).unwrap_or_default().chunks_exact(TOLD_BYTES) {
            let &[a, b, c, d, what] = told else { continue };
            let number = u32::from_ne_bytes([a, b, c, d]);
            // A notice of a supervisor that has ended is ignored.
            let mut all = self.alive.values_mut();
            if let Some(supervisor) = all.find(|supervisor| supervisor.number == number) {
                supervisor.is_free = what == FREE;
            }
        }
        Ok(())
    }

    /// Reaps all that ended, and kills the processes left by a supervisor that a signal killed or that could
    /// not kill everything. What a second cannot kill is retried at the next look.
    fn reap(&mut self) {
        let until = Instant::now() + MAX_ORPHANS;
        loop {
            // While some live, none is reaped: a zombie holds its share of the process limit.
            let mut are_left = false;
            if self.has_orphans {
                let alive = &self.alive;
                let at_most = Instant::now() + ONE_ATTEMPT;
                are_left = self.tree.kill(&|pid| alive.contains_key(&pid), at_most);
                self.has_orphans = are_left;
            }
            for _ in 0..if are_left { 0 } else { MAX_REAPED } {
                let Ok(Some((child, status))) = wait(WaitOptions::NOHANG) else { break };
                let was_supervisor = self.ended(child);
                self.has_orphans |= was_supervisor && status.exit_status() != Some(0);
            }
            if !self.has_orphans || until <= Instant::now() {
                return;
            }
            std::thread::sleep(ORPHANS);
        }
    }

    /// Forgets a child that ended; returns whether it was a supervisor.
    fn ended(&mut self, child: Pid) -> bool {
        let was_supervisor = self.alive.remove(&child).is_some();
        if was_supervisor {
            self.sandbox.supervisor_ended(child);
        }
        was_supervisor
    }

    /// Waits for the supervisors, whose sockets closed too, and kills the remaining processes. It stays until no child
    /// remains, as the last process that knows them.
    fn end_all(mut self) {
        let until = Instant::now() + LAST;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((child, _))) => {
                    self.ended(child);
                }
                Ok(None) => {
                    let now = Instant::now();
                    if until <= now {
                        self.tree.kill(&|_| false, now + ONE_ATTEMPT);
                    }
                    std::thread::sleep(ORPHANS);
                }
                Err(_) => return,
            }
        }
    }
}

/// Answers the next request with an error; returns whether the session continues.
fn refuse_next(line: &OwnedFd, error: &io::Error) -> io::Result<bool> {
    let Some((_, handles)) = wire::receive::<SpawnRequest>(line)? else { return Ok(false) };
    if let Some(own) = handles.first() {
        let number = error.raw_os_error().unwrap_or(0);
        let _ = wire::send(own, &Report::Failed(Refusal::Containment, number), &[]);
    }
    Ok(true)
}
