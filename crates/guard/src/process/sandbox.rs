//! The containment of commands, taken by the helper process of a session.
//!
//! One rung is tried at a time: a process that took a part of one cannot give it back, so where it
//! fails sinew starts another helper for the next. What is less than a rung, such as a kernel without
//! Landlock beneath namespaces that work, is told and gone on without.

mod filter;
mod mounts;
mod namespaces;
mod ruleset;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use libc::sock_filter;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{
    DumpableBehavior, Pid, Signal, getpid, getuid, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities,
};

use super::group::{CommandGroup, Group};
use super::porter::{Means, StandIn};
use super::rung::{Rung, Shortfall, WATCHED_NAMES};
use super::tree;
use super::wire::Policy;
use crate::command_rules::CommandJudge;
use crate::spawn::{self, Confinement, Limit, Own};
use filter::Watched;

pub(super) use mounts::{KEPT_OF_SERVICES, SERVICES, sockets};

/// The containment of one session.
pub(super) struct Sandbox {
    rung: Rung,
    missing: Vec<Shortfall>,
    ruleset: Option<OwnedFd>,
    /// What sets a command apart from a keeper that is bound to the rules already.
    apart: Option<OwnedFd>,
    filter: Option<Vec<sock_filter>>,
    watched: Option<(Vec<sock_filter>, Arc<Means>)>,
    limits: Vec<Limit>,
    /// The control group of the session, where commands have no namespaces of processes.
    group: Option<Group>,
    /// Whether commands get a namespace of processes each.
    own_processes: bool,
    max_processes: u64,
}

impl Sandbox {
    /// Takes the containment that the policy names, or says what is missing for it.
    pub(super) fn enter(policy: &Policy) -> Result<Self, Shortfall> {
        let mut sandbox = Self {
            rung: policy.rung,
            missing: Vec::new(),
            ruleset: None,
            apart: None,
            filter: None,
            watched: None,
            limits: policy
                .limits
                .iter()
                .map(|&(resource, at_most)| Limit { resource, at_most })
                .collect(),
            group: None,
            own_processes: false,
            max_processes: policy.max_processes,
        };
        match policy.rung {
            Rung::None => {
                sandbox.bound_by_user();
                sandbox.group = sandbox.or_missing(Group::of_session());
            }
            Rung::Landlock => {
                sandbox.bound_by_user();
                sandbox.group = sandbox.or_missing(Group::of_session());
                sandbox.ruleset = Some(ruleset::beneath_the_system(policy)?);
                sandbox.filter = Some(filter::closed(policy.network, filter::Sockets::Closed)?);
                // Without a network there are no sockets but pairs.
                sandbox.watch(policy, policy.network);
            }
            Rung::Bubblewrap => {
                sandbox.bound_by_user();
                sandbox.wall_within(policy);
            }
            Rung::Namespaces => {
                namespaces::enter(policy)?;
                let own_processes = namespaces::has_own_processes();
                sandbox.own_processes = sandbox.or_missing(own_processes).is_some();
                if !sandbox.own_processes || !namespaces::has_bound() {
                    sandbox.bound_by_user();
                }
                sandbox.wall_within(policy);
            }
        }
        if sandbox.watched.is_some() && sandbox.ruleset.is_some() {
            // Without it commands are bound to the rules once more, which takes longer.
            sandbox.apart = ruleset::apart().ok();
        }
        Ok(sandbox)
    }

    /// Bounds the processes of commands together with all others of this user, which are not many more
    /// later than now. Root has no such limit.
    fn bound_by_user(&mut self) {
        if getuid().is_root() {
            let why = "the limit of processes does not hold for root";
            self.missing.push(Shortfall::new("bound of processes", why));
            return;
        }
        let at_most = tree::n_threads_of(getuid().as_raw()) + self.max_processes;
        self.limits.push(Limit { resource: libc::RLIMIT_NPROC, at_most });
    }

    /// Takes what stands beside namespaces.
    fn wall_within(&mut self, policy: &Policy) {
        self.ruleset = self.or_missing(ruleset::within_namespaces(policy));
        let filter = filter::closed(policy.network, filter::Sockets::Open);
        self.filter = self.or_missing(filter);
        self.watch(policy, true);
    }

    /// Has calls that change something by its name handed to the keeper, where the kernel can do that.
    fn watch(&mut self, policy: &Policy, connections: bool) {
        let judge = CommandJudge::new(policy.rules.clone())
            .map_err(|error| Shortfall::new(WATCHED_NAMES, error));
        let Some(judge) = self.or_missing(judge) else { return };
        let filter = filter::watching(Watched { reads: judge.judges_reads(), connections });
        let means = namespaces::can_watch(&filter).and_then(|()| {
            let turn = memfd_create(c"turn", MemfdFlags::CLOEXEC)
                .map_err(|errno| Shortfall::new(WATCHED_NAMES, errno))?;
            let own = policy.shared_memory.as_deref();
            let shared_memory = own.and_then(|own| StandIn::new(own, Path::new("/dev/shm")).ok());
            let of_files = |limit: &&(u32, u64)| limit.0 == libc::RLIMIT_FSIZE;
            let max_file_bytes =
                policy.limits.iter().find(of_files).map_or(u64::MAX, |limit| limit.1);
            Ok(Means { judge, turn, shared_memory, max_file_bytes })
        });
        self.watched = self.or_missing(means).map(|means| (filter, Arc::new(means)));
    }

    fn or_missing<T>(&mut self, part: Result<T, Shortfall>) -> Option<T> {
        part.map_err(|shortfall| self.missing.push(shortfall)).ok()
    }

    /// Returns what is missing although the rung works.
    pub(super) fn missing(&self) -> &[Shortfall] {
        &self.missing
    }

    /// Returns what a keeper gets of its own.
    pub(super) fn own(&self) -> Own {
        if self.own_processes { Own::Processes } else { Own::Nothing }
    }

    /// Makes the group of a command whose keeper this process is, which enters it. Without one its processes are ended one
    /// by one.
    pub(super) fn command_group(&self) -> Option<CommandGroup> {
        self.group.as_ref()?.of_command().ok()
    }

    /// Does what is left to do for a keeper that ended.
    pub(super) fn keeper_ended(&self, keeper: Pid) {
        if let Some(group) = &self.group {
            group.remove_command(keeper.as_raw_nonzero().get().cast_unsigned());
        }
    }

    /// Does what is left to do at the end of the session.
    pub(super) fn leave(&self) {
        self.group.iter().for_each(Group::remove);
    }

    /// Returns what commands may use.
    pub(super) fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Returns what commands are bound to, beside what their keeper is bound to.
    pub(super) fn confinement(&self) -> Confinement<'_> {
        Confinement {
            ruleset: self.apart.as_ref().or(self.ruleset.as_ref()).map(AsFd::as_fd),
            filter: self.filter.as_deref(),
            watched: self.watched.as_ref().map(|(filter, _)| filter.as_slice()),
            may_gain_rights: self.rung == Rung::None,
        }
    }

    /// Returns what a keeper carries out calls with, where they are handed to it.
    pub(super) fn means(&self) -> Option<&Arc<Means>> {
        self.watched.as_ref().map(|(_, means)| means)
    }

    /// Binds a keeper that carries out calls to what its command is bound to, and closes it to its
    /// command.
    pub(super) fn restrict_keeper(&self) -> io::Result<()> {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        if self.watched.is_none() {
            return Ok(());
        }
        self.ruleset.as_ref().map_or(Ok(()), |ruleset| spawn::restrict(ruleset.as_fd()))
    }

    /// Makes a keeper of a fresh copy of this process: what falls to it stays with it, it ends with
    /// its parent, and it has no rights that its command could gain.
    pub(super) fn prepare_keeper(&self) -> io::Result<()> {
        if self.own_processes {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            namespaces::mount_proc()?;
            namespaces::bound_processes(self.max_processes);
        } else {
            set_child_subreaper(Some(getpid()))?;
        }
        if self.rung != Rung::None {
            drop_rights()?;
        }
        Ok(())
    }
}

/// Gives up every capability for ever: a program that is executed later gains none, since the
/// keeper's command may not gain rights.
fn drop_rights() -> io::Result<()> {
    let _ = clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None::<Pid>, none)?)
}
