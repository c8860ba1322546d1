//! The helper process of a session: it takes the containment once, and makes a keeper for each
//! command.
//!
//! It has one thread and little memory, so a copy of it is made in a fraction of a millisecond,
//! whatever the size of the process that sinew runs in. The copy for the next command is made before
//! that command is ordered: it waits at the line to sinew and takes the order itself, so that neither
//! the copy nor a turn of this process is waited for. The helper ends with the line, however sinew
//! ended, and everything below it ends first.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, wait};

use super::keeper;
use super::sandbox::Sandbox;
use super::tree;
use super::wire::{self, Order, Policy, Ready, Refusal, Report};
use crate::spawn::{self, Side};

/// How often keepers that ended are waited for.
const REAP: Duration = Duration::from_secs(1);
/// How long orphans that were killed get before the next look.
const ORPHANS: Duration = Duration::from_millis(2);
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
    let mut keepers = Keepers { sandbox: &sandbox, alive: HashSet::new() };
    loop {
        let made = keepers.make().or_else(|_| {
            // What was short may be there again when it is needed.
            while let [false] = keepers.look([(&line, PollFlags::IN)])? {}
            keepers.make()
        });
        let goes_on = match made {
            Ok(Made::Here(keeper)) => {
                keeper::keep_next(line, keeper, &sandbox);
                return Ok(());
            }
            Ok(Made::Beside(keeper)) => keepers.until_taken(&line, &keeper)?,
            Err(error) => refuse_next(&line, &error)?,
        };
        if !goes_on {
            break;
        }
    }
    keepers.end_all();
    sandbox.leave();
    Ok(())
}

/// A keeper for the next command, with its end of a pipe that it closes once it has its order.
enum Made {
    /// This process became it.
    Here(OwnedFd),
    /// It runs beside this process.
    Beside(OwnedFd),
}

/// The keepers of a session.
struct Keepers<'a> {
    sandbox: &'a Sandbox,
    alive: HashSet<Pid>,
}

impl Keepers<'_> {
    fn make(&mut self) -> io::Result<Made> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(match spawn::fork(self.sandbox.own())? {
            Side::Child => Made::Here(theirs),
            Side::Parent(keeper) => {
                self.alive.insert(keeper);
                Made::Beside(ours)
            }
        })
    }

    /// Waits until a keeper has its order, or died before it; returns whether the session goes on.
    fn until_taken(&mut self, line: &OwnedFd, keeper: &OwnedFd) -> io::Result<bool> {
        loop {
            // Orders are not looked at: they are the keeper's.
            let watched = [(line, PollFlags::empty()), (keeper, PollFlags::IN)];
            let [closed, taken] = self.look(watched)?;
            if closed || taken {
                return Ok(!closed);
            }
        }
    }

    /// Waits for a moment, and for keepers that ended; returns which of these have something to say.
    fn look<const N: usize>(
        &mut self,
        watched: [(&OwnedFd, PollFlags); N],
    ) -> io::Result<[bool; N]> {
        let mut watched = watched.map(|(handle, events)| PollFd::new(handle, events));
        match poll(&mut watched, Timespec::try_from(REAP).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.reap();
        Ok(watched.map(|handle| !handle.revents().is_empty()))
    }

    /// Waits for all that ended. A keeper that was ended by a signal leaves the processes of its command to
    /// this one, which ends them.
    fn reap(&mut self) {
        loop {
            let mut has_orphans = false;
            while let Ok(Some((child, status))) = wait(WaitOptions::NOHANG) {
                let was_keeper = self.ended(child);
                has_orphans |= !was_keeper || status.terminating_signal().is_some();
            }
            if !has_orphans {
                return;
            }
            tree::kill_children(&self.alive);
            std::thread::sleep(ORPHANS);
        }
    }

    /// Forgets a child that ended; returns whether it was a keeper.
    fn ended(&mut self, child: Pid) -> bool {
        let was_keeper = self.alive.remove(&child);
        if was_keeper {
            self.sandbox.keeper_ended(child);
        }
        was_keeper
    }

    /// Waits for the keepers, whose own lines were closed too, and ends whatever is left.
    fn end_all(mut self) {
        let until = Instant::now() + LAST;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((child, _))) => {
                    self.ended(child);
                }
                Ok(None) => {
                    if until <= Instant::now() {
                        tree::kill_children(&HashSet::new());
                    }
                    std::thread::sleep(Duration::from_millis(5));
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
