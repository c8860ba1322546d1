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

use libc::sock_filter;
use rustix::process::{
    Pid, Signal, getpid, getuid, set_child_subreaper, set_parent_process_death_signal,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities,
};

use super::rung::{Rung, Shortfall};
use super::tree;
use super::wire::Policy;
use crate::spawn::{Confinement, Limit, Own};

/// The containment of one session.
pub(super) struct Sandbox {
    rung: Rung,
    missing: Vec<Shortfall>,
    ruleset: Option<OwnedFd>,
    filters: Vec<Vec<sock_filter>>,
    limits: Vec<Limit>,
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
            filters: Vec::new(),
            limits: policy
                .limits
                .iter()
                .map(|&(resource, at_most)| Limit { resource, at_most })
                .collect(),
            own_processes: false,
            max_processes: policy.max_processes,
        };
        match policy.rung {
            Rung::None => sandbox.bound_by_user(),
            Rung::Landlock => {
                sandbox.bound_by_user();
                sandbox.ruleset = Some(ruleset::beneath_the_system(policy)?);
                sandbox.filters = filter::closed(policy.network, filter::Sockets::Closed)?;
            }
            Rung::Namespaces => {
                namespaces::enter(policy)?;
                let own_processes = namespaces::has_own_processes();
                sandbox.own_processes = sandbox.or_missing(own_processes).is_some();
                if !sandbox.own_processes || !namespaces::has_bound() {
                    sandbox.bound_by_user();
                }
                sandbox.ruleset = sandbox.or_missing(ruleset::within_namespaces(policy));
                let filters = filter::closed(policy.network, filter::Sockets::Open);
                sandbox.filters = sandbox.or_missing(filters).unwrap_or_default();
            }
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

    /// Returns what commands may use.
    pub(super) fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Returns what commands are bound to.
    pub(super) fn confinement(&self) -> Confinement<'_> {
        Confinement {
            ruleset: self.ruleset.as_ref().map(AsFd::as_fd),
            filters: &self.filters,
            may_gain_rights: self.rung == Rung::None,
        }
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
