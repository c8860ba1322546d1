//! What one kill of a supervisor reaches, from the surest to the last resort.
//!
//! A command may fork faster than anyone can list its processes, so a kill should be one call of the kernel.
//! In a PID namespace and in a Landlock domain with signal scoping `kill(-1)` is that call: it holds the
//! lock that forks need, and no process outside receives the signal. In a cgroup one write kills all, or
//! keeps them from forking. Only where none of them works is the process tree alone what there is.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, kill_process_group, test_kill_process};

use super::cgroup::CommandCgroup;
use super::process_tree::ProcessTree;
use sinew_fs::kernel;

/// How long one attempt to kill processes one by one may take.
pub(super) const ONE_ATTEMPT: Duration = Duration::from_millis(300);
/// How long processes are looked up that are asked to end.
const ASKED: Duration = Duration::from_millis(100);

/// How the processes of a command are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KillScope {
    /// The supervisor is PID 1 of a PID namespace.
    PidNamespace,
    /// The supervisor has a Landlock domain of its own, and signals do not leave it.
    LandlockDomain,
    /// Commands are in a cgroup that the supervisor is not in.
    Cgroup,
    /// Lists of children show the processes below the supervisor.
    ProcessTree,
}

/// Kills the processes of a supervisor's command. It is made before the first command, while there are descriptors
/// for what it opens.
#[derive(Debug)]
pub(super) struct Killer {
    cgroup: Option<CommandCgroup>,
    /// Nothing where a signal reaches all of them.
    tree: Option<ProcessTree>,
}

impl Killer {
    /// Returns the killer of this supervisor, whose containment is complete. A scope that does not hold here
    /// gives way to a weaker one.
    pub(super) fn new(scope: KillScope, cgroup: Option<CommandCgroup>) -> Self {
        let holds = match scope {
            KillScope::PidNamespace => std::process::id() == 1,
            KillScope::LandlockDomain => is_scoped(),
            KillScope::Cgroup | KillScope::ProcessTree => false,
        };
        Self { cgroup, tree: (!holds).then(ProcessTree::new) }
    }

    /// Moves this process, which becomes a command, into the cgroup of the supervisor's commands.
    pub(super) fn enter_cgroup(&self) -> io::Result<()> {
        self.cgroup.as_ref().map_or(Ok(()), CommandCgroup::enter)
    }

    /// Asks every process to end, also one that is stopped. Where processes have to be looked up, that takes
    /// no longer than a moment. Returns whether they may fork without a bound of their own: then none should
    /// be waited for, since one that has ended holds its share of the limit.
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

    /// Kills every process but this one. The command leads a process group, which one call reaches as long
    /// as it is not waited for. Returns whether others may be left that fork, as for [`Self::terminate`].
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

/// Sends a signal to every process that this one can reach but itself: `kill(-1)`. Only where a PID namespace
/// or a Landlock domain ends that reach.
fn signal_all(signal: Signal) {
    // The process group of PID 1 is -1 in the arguments of kill(2).
    let _ = kill_process_group(Pid::INIT, signal);
}

/// Returns whether the kernel keeps signals of this process in its Landlock domain. Its parent, which has the
/// same user and is outside, is alive: a supervisor ends with it.
pub(super) fn is_scoped() -> bool {
    // Another security module could give the same error, so the version of the kernel counts too.
    let is_refused = |parent| test_kill_process(parent) == Err(Errno::PERM);
    kernel::is_since((6, 12)) && getppid().is_some_and(is_refused)
}
