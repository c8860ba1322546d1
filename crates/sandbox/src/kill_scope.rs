//! Kills the processes of a supervisor's command by the surest means that works here.
//!
//! A command may fork faster than a supervisor lists its processes, so a kill should be one system call. In a
//! PID namespace, and in a Landlock domain with signal scoping, that call is `kill(-1)`. It holds the lock
//! that forks need, and no outside process gets the signal. In a cgroup one write kills all, or stops forks.
//! The process tree is the last resort.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, kill_process_group, test_kill_process};

use super::cgroup::CommandCgroup;
use super::process_tree::ProcessTree;
use sinew_fs::kernel;

/// How long one attempt to kill processes one by one may take.
pub(super) const ONE_ATTEMPT: Duration = Duration::from_millis(300);
/// How long processes may be looked up to receive SIGTERM.
const ASKED: Duration = Duration::from_millis(100);

/// How a kill reaches the processes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KillScope {
    /// The supervisor is PID 1 of a PID namespace.
    PidNamespace,
    /// The supervisor has its own Landlock domain, which signals do not leave.
    LandlockDomain,
    /// Commands are in a cgroup that the supervisor is not in.
    Cgroup,
    /// The supervisor lists the processes below it.
    ProcessTree,
}

/// Kills the processes of a supervisor's command. Made before the first command, while fds are available.
#[derive(Debug)]
pub(super) struct Killer {
    cgroup: Option<CommandCgroup>,
    /// `None` where one signal reaches all of them.
    tree: Option<ProcessTree>,
}

impl Killer {
    /// Returns the killer of this supervisor, whose containment is complete. Falls back to a weaker scope if
    /// this one does not hold.
    pub(super) fn new(scope: KillScope, cgroup: Option<CommandCgroup>) -> Self {
        let holds = match scope {
            KillScope::PidNamespace => std::process::id() == 1,
            KillScope::LandlockDomain => is_scoped(),
            KillScope::Cgroup | KillScope::ProcessTree => false,
        };
        Self { cgroup, tree: (!holds).then(ProcessTree::new) }
    }

    /// Moves this process, which becomes a command, into the cgroup of the commands.
    pub(super) fn enter_cgroup(&self) -> io::Result<()> {
        self.cgroup.as_ref().map_or(Ok(()), CommandCgroup::enter)
    }

    /// Sends SIGTERM and SIGCONT to every process; if they must be looked up, for at most [`ASKED`]. Returns
    /// whether they may fork without a limit of their own. If so, reap none: a zombie still counts towards
    /// the limit.
    pub(super) fn terminate(&mut self) -> bool {
        let signals = [Signal::TERM, Signal::CONT];
        let Some(tree) = &mut self.tree else {
            signals.into_iter().for_each(signal_all);
            return false;
        };
        let until = Instant::now() + ASKED;
        let is_done = |cgroup: &mut CommandCgroup| cgroup.signal(&signals, until).is_ok();
        if self.cgroup.as_mut().is_some_and(is_done) {
            return false;
        }
        tree.terminate(until);
        true
    }

    /// Kills every process but this one, starting with the process group of a command that is not reaped.
    /// Returns whether others may be left that fork, as [`Self::terminate`] does.
    pub(super) fn kill(&mut self, command: Option<Pid>) -> bool {
        let Some(tree) = &mut self.tree else {
            signal_all(Signal::KILL);
            return false;
        };
        if let Some(command) = command {
            let _ = kill_process_group(command, Signal::KILL);
        }
        if let Some(cgroup) = &mut self.cgroup
            && cgroup.kill().is_ok()
        {
            return false;
        }
        tree.kill(&|_| false, Instant::now() + ONE_ATTEMPT)
    }
}

/// Sends a signal to every process that this one can reach except itself: `kill(-1)`. Requires a PID
/// namespace or a Landlock domain that ends that reach.
fn signal_all(signal: Signal) {
    // The process group of PID 1 is -1 in the arguments of kill(2).
    let _ = kill_process_group(Pid::INIT, signal);
}

/// Returns whether the kernel keeps signals of this process in its Landlock domain. Its parent has the same
/// user and is outside, so nothing but the domain refuses it a signal.
pub(super) fn is_scoped() -> bool {
    // Another security module could return the same error, so the kernel version counts too.
    let is_refused = |parent| test_kill_process(parent) == Err(Errno::PERM);
    kernel::is_since((6, 12)) && getppid().is_some_and(is_refused)
}
