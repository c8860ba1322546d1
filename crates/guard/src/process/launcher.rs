//! The helper process of a session: it takes the containment once, and makes a keeper for each
//! command.
//!
//! It has one thread and little memory, so a copy of it is made in a fraction of a millisecond,
//! whatever the size of the process that sinew runs in. It ends with the line to sinew, however
//! sinew ended, and everything below it ends first.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};

use super::keeper::{self, Handles};
use super::sandbox::Sandbox;
use super::tree;
use super::wire::{self, Order, Policy, Ready, Refusal, Report};
use crate::spawn::{self, Side};

/// How often keepers that ended are waited for.
const REAP: Duration = Duration::from_secs(1);
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
    loop {
        if spoke(&line)? {
            let Some((order, handles)) = wire::receive::<Order>(&line)? else { break };
            if let Ok([own, input, output, errors]) = <[OwnedFd; 4]>::try_from(handles) {
                let handles = Handles { line: own, stdio: [input, output, errors] };
                if let Some(Side::Child) = make_keeper(&handles, &sandbox) {
                    drop(line);
                    keeper::keep(&order, handles, &sandbox);
                    return Ok(());
                }
            }
        }
        while let Ok(Some((keeper, _))) = wait(WaitOptions::NOHANG) {
            sandbox.keeper_ended(keeper);
        }
    }
    end_all(&sandbox);
    sandbox.leave();
    Ok(())
}

/// Copies this process for one command. Where that fails the command's line says so.
fn make_keeper(handles: &Handles, sandbox: &Sandbox) -> Option<Side> {
    match spawn::fork(sandbox.own()) {
        Ok(side) => Some(side),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(0);
            let _ = wire::send(&handles.line, &Report::Failed(Refusal::Containment, number), &[]);
            None
        }
    }
}

/// Waits for a moment; returns whether the line has something to say.
fn spoke(line: &OwnedFd) -> io::Result<bool> {
    let mut watched = [PollFd::new(line, PollFlags::IN)];
    match poll(&mut watched, Timespec::try_from(REAP).ok().as_ref()) {
        Ok(_) => Ok(watched.iter().any(|line| !line.revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Waits for the keepers, whose own lines were closed too, and ends whatever is left.
fn end_all(sandbox: &Sandbox) {
    let until = Instant::now() + LAST;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((keeper, _))) => sandbox.keeper_ended(keeper),
            Ok(None) => {
                if until <= Instant::now() {
                    tree::kill_children();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(_) => return,
        }
    }
}
