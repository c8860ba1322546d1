//! Applies the sandbox of a session to its helper process, before any command runs. A partly applied sandbox
//! level cannot be undone, so if one fails, sinew starts another helper for the next. A smaller gap, such as
//! a kernel without Landlock where namespaces work, is reported and tolerated.

mod extra;
mod filter;
mod mounts;
mod namespaces;
mod ruleset;

use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

use libc::sock_filter;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{
    DumpableBehavior, Pid, Signal, getpid, getuid, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities,
};

use super::cgroup::{CommandCgroup, Hierarchy, SessionCgroup};
use super::kill_scope::KillScope;
use super::notify_handler::{
    BoundSockets, Means, OldObjects, RootOutside, SessionMemory, StandIn, began_now,
};
use super::process_tree;
use super::sandbox_level::{SandboxLevel, Shortfall, UNBOUNDED, UNLISTED, WATCHED_NAMES};
use super::urgency::Urgency;
use super::usage::{self, Disk, Usage, UsageLimits};
use super::wire::{JoinHandles, Outside, Policy};
use crate::spawn::{self, Confinement, Limit, Own};
use extra::HeldExtra;
use filter::{Closed, Sockets, WatchedCalls};
use ruleset::SystemRules;
use sinew_policy::command_rules::CommandJudge;

pub(super) use mounts::{KEPT_OF_SERVICES, SERVICES, skeletons, sockets};

/// The most processes of a command per processor, if its supervisor has only the same share of it as each of
/// them. Then a millisecond of work takes the supervisor half a second.
const MAX_EQUAL: usize = 512;
/// The same where processes can only be listed, and killed one by one.
const MAX_LISTED: usize = 128;

/// Multiplies a number by the number of processors.
fn for_each_processor(n: usize) -> u64 {
    let n_processors = available_parallelism().map_or(1, NonZero::get);
    u64::try_from(n.saturating_mul(n_processors)).unwrap_or(u64::MAX)
}

/// The containment of one session.
pub(super) struct Sandbox {
    level: SandboxLevel,
    missing: Vec<Shortfall>,
    ruleset: Option<OwnedFd>,
    /// The same rules, where they are the only containment.
    system_rules: Option<SystemRules>,
    /// A Landlock domain that separates a command from a supervisor with the same rules.
    apart: Option<OwnedFd>,
    filter: Option<Vec<sock_filter>>,
    watched: Option<(Vec<sock_filter>, Arc<Means>)>,
    limits: Vec<Limit>,
    kill_scope: KillScope,
    /// The cgroup of the session, if commands need one for a limit or a kill.
    cgroup: Option<SessionCgroup>,
    max_processes: u64,
    usage: Option<UsageLimits>,
    disks: Arc<[Disk]>,
    /// By what other sessions can join this one, until sinew has it.
    joinable: Option<JoinHandles>,
}

impl Sandbox {
    /// Applies the containment of a policy, or returns the feature that is missing for it.
    pub(super) fn enter(
        policy: &Policy,
        outside: Option<Outside>,
        joined: Option<JoinHandles>,
    ) -> Result<Self, Shortfall> {
        let mut sandbox = Self {
            level: policy.level,
            missing: Vec::new(),
            ruleset: None,
            system_rules: None,
            apart: None,
            filter: None,
            watched: None,
            limits: policy
                .limits
                .iter()
                .map(|&(resource, at_most)| Limit { resource, at_most })
                .collect(),
            kill_scope: KillScope::ProcessTree,
            cgroup: None,
            max_processes: policy.max_processes,
            usage: policy.usage,
            disks: Arc::from([]),
            joinable: None,
        };
        // The namespaces of a session have no writable cgroup file system.
        let hierarchy = (!policy.trusted).then(Hierarchy::find);
        let kept = outside.as_ref().map(|outside| outside.kept.as_fd());
        match policy.level {
            SandboxLevel::None => {}
            SandboxLevel::Landlock => {
                let extras = extra::held(policy)?;
                let rules = ruleset::beneath_the_system(policy, kept, &extras)?;
                sandbox.ruleset = Some(rules.handle()?);
                sandbox.system_rules = Some(rules);
                sandbox.filter = Some(filter::closed(Closed {
                    network: policy.network,
                    sockets: Sockets::Closed,
                    in_view_of_machine: true,
                })?);
                // Without a network only socket pairs can be made.
                sandbox.watch(policy, policy.network, outside);
            }
            SandboxLevel::Bubblewrap => {
                sandbox.wall_within(policy, outside, &extra::held(policy)?);
            }
            SandboxLevel::Namespaces => {
                let extras = match joined {
                    Some(other) => namespaces::join(policy, other)?,
                    None => {
                        sandbox.joinable = namespaces::enter(policy)?;
                        Vec::new()
                    }
                };
                sandbox.wall_within(policy, outside, &extras);
                // They must be where the command looks for them.
                extra::held(policy)?;
            }
        }
        if sandbox.ruleset.is_some() {
            // Without it commands apply the rules once more, which takes longer.
            sandbox.apart = ruleset::apart().ok();
        }
        // A user namespace takes the privilege away.
        if !policy.trusted && !spawn::can_run_first() {
            sandbox.max_processes = sandbox.max_processes.min(for_each_processor(MAX_EQUAL));
        }
        sandbox.find_kill_scope();
        sandbox.bound_processes(policy.trusted, hierarchy);
        if let Some(limits) = policy.usage {
            sandbox.disks = usage::disks(limits, filled(policy)).into();
        }
        Ok(sandbox)
    }

    /// Finds the surest way to kill a command here. An uncontained command sees and reaches what sinew does,
    /// so it gets neither a PID namespace nor a Landlock domain.
    fn find_kill_scope(&mut self) {
        if self.level == SandboxLevel::None {
            return;
        }
        match namespaces::has_own_processes() {
            Ok(()) => self.kill_scope = KillScope::PidNamespace,
            Err(shortfall) => {
                if self.level == SandboxLevel::Namespaces {
                    self.missing.push(shortfall);
                }
                let domain = self.apart.as_ref();
                if domain.is_some_and(|domain| namespaces::scopes_signals(domain.as_fd())) {
                    self.kill_scope = KillScope::LandlockDomain;
                }
            }
        }
    }

    /// Limits the processes of a command by its PID namespace, by a cgroup, or together with all others of
    /// this user, which should hardly grow. Root is exempt from the last limit.
    fn bound_processes(&mut self, trusted: bool, hierarchy: Option<Result<Hierarchy, Shortfall>>) {
        if self.kill_scope == KillScope::PidNamespace && namespaces::has_bound() {
            return;
        }
        let is_root = getuid().is_root();
        let must_kill = self.kill_scope == KillScope::ProcessTree;
        if let Some(hierarchy) = hierarchy.filter(|_| is_root || must_kill) {
            let made = hierarchy.and_then(|hierarchy| hierarchy.make_session(self.max_processes));
            match made {
                Ok(cgroup) => self.cgroup = Some(cgroup),
                Err(shortfall) if must_kill => self.missing.push(shortfall),
                Err(_) => {}
            }
        }
        let bounds = self.cgroup.as_ref().map(SessionCgroup::has_bound);
        if must_kill && bounds.is_some() {
            self.kill_scope = KillScope::Cgroup;
        }
        match (bounds, is_root) {
            (Some(true), _) => {}
            (_, false) if self.kill_scope == KillScope::ProcessTree && !trusted => {
                if !process_tree::has_lists() {
                    let why = "the kernel does not list the children of a process";
                    self.missing.push(Shortfall::new(UNLISTED, why));
                }
                self.bound_by_user(self.max_processes.min(for_each_processor(MAX_LISTED)));
            }
            (_, false) => self.bound_by_user(self.max_processes),
            (_, true) => {
                let why = "root is exempt from RLIMIT_NPROC, and there is no pids cgroup";
                self.missing.push(Shortfall::new(UNBOUNDED, why));
            }
        }
    }

    fn bound_by_user(&mut self, max_processes: u64) {
        let at_most = process_tree::n_threads_of(getuid().as_raw()) + max_processes;
        self.limits.push(Limit { resource: libc::RLIMIT_NPROC, at_most });
    }

    /// Applies Landlock and seccomp inside namespaces.
    fn wall_within(&mut self, policy: &Policy, outside: Option<Outside>, extras: &[HeldExtra]) {
        let kept = outside.as_ref().map(|outside| outside.kept.as_fd());
        self.ruleset = self.or_missing(ruleset::within_namespaces(policy, kept, extras));
        let filter = filter::closed(Closed {
            network: policy.network,
            sockets: Sockets::Open,
            in_view_of_machine: false,
        });
        self.filter = self.or_missing(filter);
        self.watch(policy, true, outside);
        if self.watched.is_none() && self.level == SandboxLevel::Namespaces {
            let fixed = policy.fixed_unless_judged.iter().try_for_each(|path| mounts::fix(path));
            self.or_missing(fixed.map_err(|error| Shortfall::new(WATCHED_NAMES, error)));
        }
    }

    /// Hands calls that change files by name to the supervisor, where the kernel can.
    fn watch(&mut self, policy: &Policy, connections: bool, outside: Option<Outside>) {
        let judge = CommandJudge::new(policy.rules.clone())
            .map_err(|error| Shortfall::new(WATCHED_NAMES, error));
        let Some(judge) = self.or_missing(judge) else { return };
        let filter = filter::watching(WatchedCalls {
            reads: judge.judges_reads(),
            connections,
            attributes: judge.judges_attributes(),
        });
        let means = namespaces::can_watch(&filter).and_then(|()| {
            let turn = memfd_create(c"turn", MemfdFlags::CLOEXEC)
                .map_err(|errno| Shortfall::new(WATCHED_NAMES, errno))?;
            let sockets = BoundSockets::with(policy.socket.as_deref())
                .map_err(|error| Shortfall::new(WATCHED_NAMES, error))?;
            let own = policy.shared_memory.as_deref();
            let shared_memory = own.and_then(|own| StandIn::new(own, Path::new("/dev/shm")).ok());
            let of_files = |limit: &&(u32, u64)| limit.0 == libc::RLIMIT_FSIZE;
            let max_file_bytes =
                policy.limits.iter().find(of_files).map_or(u64::MAX, |limit| limit.1);
            let memory =
                SessionMemory::new().map_err(|errno| Shortfall::new(WATCHED_NAMES, errno))?;
            let old_objects =
                OldObjects::new().map_err(|errno| Shortfall::new(WATCHED_NAMES, errno))?;
            let began = began_now();
            let paths = policy.kept_at.iter().cloned();
            let dirs = outside.into_iter().flat_map(|outside| outside.roots);
            let roots = paths.zip(dirs).map(|(path, dir)| RootOutside { path, dir }).collect();
            Ok(Means {
                judge: Arc::new(judge),
                turn,
                began,
                memory,
                old_objects,
                sockets,
                shared_memory,
                max_file_bytes,
                roots,
                tracked: policy.tracked.clone(),
            })
        });
        self.watched = self.or_missing(means).map(|means| (filter, Arc::new(means)));
    }

    fn or_missing<T>(&mut self, part: Result<T, Shortfall>) -> Option<T> {
        part.map_err(|shortfall| self.missing.push(shortfall)).ok()
    }

    /// Takes that by which other sessions can join this one.
    pub(super) fn take_joinable(&mut self) -> Option<JoinHandles> {
        self.joinable.take()
    }

    /// Returns the features that are missing although the sandbox level works.
    pub(super) fn missing(&self) -> &[Shortfall] {
        &self.missing
    }

    /// Returns the namespaces that a supervisor gets.
    pub(super) fn own(&self) -> Own {
        match self.kill_scope {
            KillScope::PidNamespace => Own::Processes,
            KillScope::LandlockDomain | KillScope::Cgroup | KillScope::ProcessTree => Own::Nothing,
        }
    }

    pub(super) fn kill_scope(&self) -> KillScope {
        self.kill_scope
    }

    /// Makes the cgroup for the commands of this supervisor, if they need one.
    pub(super) fn command_cgroup(&self) -> io::Result<Option<CommandCgroup>> {
        self.cgroup.as_ref().map(SessionCgroup::make_command).transpose()
    }

    /// Cleans up after a supervisor that ended.
    pub(super) fn supervisor_ended(&self, supervisor: Pid) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.end_command(supervisor.as_raw_nonzero().get().cast_unsigned());
        }
    }

    /// Cleans up at the end of the session.
    pub(super) fn leave(&self) {
        self.cgroup.iter().for_each(SessionCgroup::remove);
    }

    /// Returns whether commands get a lower priority: those of a model, not the user's own programs.
    pub(super) fn lowers_priority(&self) -> bool {
        self.usage.is_some()
    }

    /// Returns the free space of each disk that commands fill.
    pub(super) fn free(&self) -> Vec<u64> {
        usage::free(&self.disks)
    }

    /// Begins to look at what a command uses, before which so much space was free, where it has limits.
    pub(super) fn begin_usage(&self, free: Vec<u64>) -> Option<Usage> {
        self.usage.map(|limits| Usage::begin(limits, Arc::clone(&self.disks), free))
    }

    /// Returns the resource limits of commands.
    pub(super) fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Returns the confinement of commands, beside that of their supervisor.
    pub(super) fn confinement(&self) -> Confinement<'_> {
        let apart = self.apart.as_ref().filter(|_| self.watched.is_some());
        Confinement {
            ruleset: apart.or(self.ruleset.as_ref()).map(AsFd::as_fd),
            filter: self.filter.as_deref(),
            watched: self.watched.as_ref().map(|(filter, _)| filter.as_slice()),
            may_gain_rights: self.level == SandboxLevel::None,
        }
    }

    /// Returns what a supervisor performs intercepted calls with, if any.
    pub(super) fn means(&self) -> Option<&Arc<Means>> {
        self.watched.as_ref().map(|(_, means)| means)
    }

    /// Closes a supervisor to its command. One that performs calls gets the Landlock rules of its command;
    /// another gets a domain only if a kill needs it.
    pub(super) fn restrict_supervisor(&self) -> io::Result<()> {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let domain = match (&self.watched, self.kill_scope) {
            (Some(_), _) => self.ruleset.as_ref(),
            (None, KillScope::LandlockDomain) => self.apart.as_ref(),
            (None, KillScope::PidNamespace | KillScope::Cgroup | KillScope::ProcessTree) => None,
        };
        domain.map_or(Ok(()), |ruleset| spawn::restrict(ruleset.as_fd()))
    }

    /// Makes a freshly forked process a supervisor, which adopts orphans and has no rights that its command
    /// could gain. In a PID namespace it dies with its parent.
    pub(super) fn prepare_supervisor(&self) -> io::Result<Urgency> {
        if self.kill_scope == KillScope::PidNamespace {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            namespaces::mount_proc()?;
            if let Some(rules) = &self.system_rules {
                rules.open_proc().map_err(|shortfall| io::Error::other(shortfall.why))?;
            }
            namespaces::bound_processes(self.max_processes);
        } else {
            set_child_subreaper(Some(getpid()))?;
        }
        let drops_rights = self.level != SandboxLevel::None;
        let urgency = Urgency::new(drops_rights);
        if drops_rights {
            drop_rights()?;
        }
        Ok(urgency)
    }
}

/// Returns directories in all file systems that commands fill: the roots, extra paths, and that of temporary files.
fn filled(policy: &Policy) -> Vec<PathBuf> {
    let temporary = match policy.level {
        SandboxLevel::Landlock | SandboxLevel::None => policy.scratch.clone(),
        SandboxLevel::Namespaces | SandboxLevel::Bubblewrap => PathBuf::from("/tmp"),
    };
    let extra = policy.extra.iter().filter(|extra| extra.is_writable).map(|extra| &extra.path);
    policy.writable.iter().chain(extra).cloned().chain([temporary]).collect()
}

/// Drops every capability for ever. Programs executed later gain none, since commands may not gain rights.
fn drop_rights() -> io::Result<()> {
    let _ = clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None::<Pid>, none)?)
}
