//! The helper process of a session: it takes the containment once, and makes the keepers of commands.
//!
//! It has one thread and little memory, so a copy of it is made in a fraction of a millisecond,
//! whatever the size of the process that sinew runs in. A keeper is made before there is an order for it:
//! what it starts waits at the line to sinew and takes the order itself, so that neither the copies nor a
//! turn of this process is waited for. Two keepers last and serve one command after the other; those that
//! are needed beside them end with their command. The helper ends with the line, however sinew ended, and
//! everything below it ends first.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, wait};

use super::keeper;
use super::process_tree::ProcessTree;
use super::sandbox::Sandbox;
use super::wire::{self, Order, Policy, Ready, Refusal, Report};
use crate::spawn::{self, Side};

/// How many keepers last.
const LASTING: usize = 2;
/// How often keepers that ended are waited for.
const REAP: Duration = Duration::from_secs(1);
/// How long this process keeps out of the way of commands while there is a keeper for the next one.
const PAUSE: Duration = Duration::from_millis(2);
/// How long orphans that were killed get before the next look.
const ORPHANS: Duration = Duration::from_millis(5);
/// How long orphans may hold up the next keeper at once.
const MAX_ORPHANS: Duration = Duration::from_secs(1);
/// How long one attempt to kill processes may take.
const ONE_ATTEMPT: Duration = Duration::from_millis(300);
/// The most processes that are waited for before something else is looked at.
const MAX_REAPED: usize = 256;
/// How long keepers get to end their commands once sinew is gone.
const LAST: Duration = Duration::from_secs(3);

/// Serves a session over a line until sinew closes it.
pub(super) fn serve(line: OwnedFd) -> io::Result<()> {
    let Some((policy, _)) = wire::receive::<Policy>(&line)? else { return Ok(()) };
    // Orphans of a keeper that died fall to this process instead of leaving the session.
    set_child_subreaper(Some(getpid()))?;
    let sandbox = match Sandbox::enter(&policy) {
        Ok(sandbox) => sandbox,
        Err(shortfall) => return wire::send(&line, &Ready::Err(shortfall), &[]),
    };
    wire::send(&line, &Ready::Ok(sandbox.missing().to_vec()), &[])?;
    let mut keepers = Keepers::new(&sandbox)?;
    // Whether there is an order and was no keeper for it.
    let mut is_late = false;
    loop {
        let goes_on = match keepers.make_unless_free() {
            Ok(Made::Here(teller, lasts)) => {
                drop(keepers);
                return keeper::keep(&line, &teller, lasts, &sandbox);
            }
            Ok(Made::Beside) => {
                is_late = false;
                // Orders are not looked at: they are the keepers'.
                keepers.look(&line, PollFlags::empty())?.goes_on
            }
            Err(error) if is_late => {
                is_late = false;
                refuse_next(&line, &error)?
            }
            Err(_) => {
                // What is short may be there again when it is needed.
                let seen = keepers.look(&line, PollFlags::IN)?;
                is_late = seen.is_ordered;
                seen.goes_on
            }
        };
        if !goes_on {
            break;
        }
    }
    keepers.end_all();
    sandbox.leave();
    Ok(())
}

/// By what a keeper tells the launcher what it does.
pub(super) struct Teller {
    number: u32,
    pipe: OwnedFd,
}

impl Teller {
    /// Tells that an order was taken.
    pub(super) fn taken(&self) {
        self.tell(TAKEN);
    }

    /// Tells that the next order can be taken.
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
/// How long what a keeper tells is.
const TOLD_BYTES: usize = 5;

/// A keeper that was made.
enum Made {
    /// This process became it; says whether it lasts.
    Here(Teller, bool),
    /// It runs beside this process.
    Beside,
}

/// What was seen at the line to sinew.
struct Seen {
    goes_on: bool,
    is_ordered: bool,
}

/// A keeper, as far as it has told what it does.
struct Keeper {
    number: u32,
    lasts: bool,
    is_free: bool,
}

/// The keepers of a session.
struct Keepers<'a> {
    sandbox: &'a Sandbox,
    alive: HashMap<Pid, Keeper>,
    n_made: u32,
    /// Whether processes of a keeper that is gone may be left.
    has_orphans: bool,
    tree: ProcessTree,
    /// Both ends of the pipe by which they tell what they do.
    told: (OwnedFd, OwnedFd),
}

impl<'a> Keepers<'a> {
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
        let n_lasting = self.alive.values().filter(|keeper| keeper.lasts).count();
        let lasts = n_lasting < LASTING;
        let teller = Teller { number, pipe: self.told.1.try_clone()? };
        let Side::Parent(pid) = spawn::fork(self.sandbox.own())? else {
            return Ok(Made::Here(teller, lasts));
        };
        self.alive.insert(pid, Keeper { number, lasts, is_free: true });
        Ok(Made::Beside)
    }

    fn one_is_free(&self) -> bool {
        self.alive.values().any(|keeper| keeper.is_free)
    }

    /// Waits until a keeper has something to tell, there is something at the line, or a moment is over.
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
                // What follows can wait: commands run now.
                std::thread::sleep(PAUSE);
            }
        }
        self.reap();
        let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::RDHUP;
        Ok(Seen { goes_on: !line.intersects(closed), is_ordered: line.contains(PollFlags::IN) })
    }

    /// Takes in what keepers tell.
    fn listen(&mut self) -> io::Result<()> {
        let mut told = [0; TOLD_BYTES * 64];
        let n = rustix::io::retry_on_intr(|| rustix::io::read(&self.told.0, &mut told))?;
        for told in told.get(..n).unwrap_or_default().chunks_exact(TOLD_BYTES) {
            let &[a, b, c, d, what] = told else { continue };
            let number = u32::from_ne_bytes([a, b, c, d]);
            // Of one that has ended nothing counts any more.
            let mut all = self.alive.values_mut();
            if let Some(keeper) = all.find(|keeper| keeper.number == number) {
                keeper.is_free = what == FREE;
            }
        }
        Ok(())
    }

    /// Waits for all that ended. A keeper that was ended by a signal, or could not end everything, leaves
    /// the processes of its command to this one, which kills them. What a second cannot end is tried again
    /// at the next look.
    fn reap(&mut self) {
        let until = Instant::now() + MAX_ORPHANS;
        loop {
            // As long as some live, no killed one is waited for: it holds its share of the limit.
            let mut are_left = false;
            if self.has_orphans {
                let alive = &self.alive;
                let at_most = Instant::now() + ONE_ATTEMPT;
                are_left = self.tree.kill(&|pid| alive.contains_key(&pid), at_most);
                self.has_orphans = are_left;
            }
            for _ in 0..if are_left { 0 } else { MAX_REAPED } {
                let Ok(Some((child, status))) = wait(WaitOptions::NOHANG) else { break };
                let was_keeper = self.ended(child);
                self.has_orphans |= was_keeper && status.exit_status() != Some(0);
            }
            if !self.has_orphans || until <= Instant::now() {
                return;
            }
            std::thread::sleep(ORPHANS);
        }
    }

    /// Forgets a child that ended; returns whether it was a keeper.
    fn ended(&mut self, child: Pid) -> bool {
        let was_keeper = self.alive.remove(&child).is_some();
        if was_keeper {
            self.sandbox.keeper_ended(child);
        }
        was_keeper
    }

    /// Waits for the keepers, whose own lines were closed too, and kills whatever is left. It stays as long
    /// as a child remains: it is the last process that knows which they are.
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

/// Answers the next order with why there is no keeper for it; returns whether the session goes on.
fn refuse_next(line: &OwnedFd, error: &io::Error) -> io::Result<bool> {
    let Some((_, handles)) = wire::receive::<Order>(line)? else { return Ok(false) };
    if let Some(own) = handles.first() {
        let number = error.raw_os_error().unwrap_or(0);
        let _ = wire::send(own, &Report::Failed(Refusal::Containment, number), &[]);
    }
    Ok(true)
}
