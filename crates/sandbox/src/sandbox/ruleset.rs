//! The rules of the kernel on files: what commands may read and write, by Landlock.
//!
//! Landlock allows and never denies: what is not named is closed. To close one directory under an
//! open one, everything beside it on the way there is opened instead, as it is when the session
//! begins. The directories on the way can then be passed and not listed, and nothing new can be made in
//! them. A repository could not be worked in like that, so protected names in it stay open here.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};

use crate::sandbox_level::Shortfall;
use crate::wire::Policy;

/// The newest set of rules that is asked for; an older kernel gives what it has.
const ABI_WANTED: ABI = ABI::V6;

/// Returns the rules beneath namespaces, which already hide what is hidden: a second wall that
/// stands where a trick with mounts works.
pub(super) fn within_namespaces(policy: &Policy) -> Result<OwnedFd, Shortfall> {
    let mut ruleset = empty()?;
    allow(&mut ruleset, Path::new("/"), read())?;
    for place in ["/dev", "/proc", "/tmp", "/var/tmp"] {
        allow(&mut ruleset, Path::new(place), AccessFs::from_all(ABI_WANTED))?;
    }
    for place in policy.writable.iter().chain(&policy.caches) {
        allow(&mut ruleset, place, AccessFs::from_all(ABI_WANTED))?;
    }
    handle(ruleset)
}

/// The rules that are the wall by themselves.
pub(super) struct SystemRules(RulesetCreated);

impl SystemRules {
    /// Returns these rules as what a process is bound to.
    pub(super) fn handle(&self) -> Result<OwnedFd, Shortfall> {
        handle(self.0.try_clone().map_err(missing)?)
    }

    /// Opens the `/proc` that this process has mounted. It hides the one that the rules were made with, and
    /// Landlock looks at no file system that is hidden.
    pub(super) fn open_proc(&self) -> Result<(), Shortfall> {
        allow(&mut self.0.try_clone().map_err(missing)?, Path::new("/proc"), read())
    }
}

/// Returns the rules that are the wall by themselves.
pub(super) fn beneath_the_system(policy: &Policy) -> Result<SystemRules, Shortfall> {
    let mut ruleset = empty()?;
    let hidden: Vec<PathBuf> =
        policy.hidden.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    open_beside(&mut ruleset, Path::new("/"), &hidden, read())?;
    let writes = AccessFs::from_all(ABI_WANTED);
    for place in &policy.writable {
        open_beside(&mut ruleset, place, &hidden, writes)?;
    }
    for own in ["tmp", "shm"] {
        allow(&mut ruleset, &policy.scratch.join(own), writes)?;
    }
    // The terminals of `/dev/pts` are other people's, and so is what lies in `/dev/shm`.
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        allow(&mut ruleset, &Path::new("/dev").join(device), writes)?;
    }
    Ok(SystemRules(ruleset))
}

/// Returns rules for a process whose parent is bound to those above, and which inherits them: they
/// close nothing more, and set it apart, so that it can neither trace nor signal its parent. The
/// kernel takes no rules without any file right, so one is handled and allowed everywhere.
pub(super) fn apart() -> Result<OwnedFd, Shortfall> {
    let mut ruleset = closed_to(AccessFs::MakeChar.into())?;
    allow(&mut ruleset, Path::new("/"), AccessFs::MakeChar.into())?;
    handle(ruleset)
}

fn read() -> BitFlags<AccessFs> {
    AccessFs::from_read(ABI_WANTED)
}

fn empty() -> Result<RulesetCreated, Shortfall> {
    closed_to(AccessFs::from_all(ABI_WANTED))
}

/// Returns rules that allow none of these rights.
fn closed_to(handled: BitFlags<AccessFs>) -> Result<RulesetCreated, Shortfall> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled & AccessFs::from_all(ABI::V1))
        .and_then(|ruleset| {
            ruleset
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(handled)?
                .scope(Scope::AbstractUnixSocket | Scope::Signal)?
                .create()
        })
        .map_err(missing)
}

/// Opens everything beneath a directory but what is closed.
fn open_beside(
    ruleset: &mut RulesetCreated,
    dir: &Path,
    closed: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<(), Shortfall> {
    if closed.iter().any(|closed| dir.starts_with(closed)) {
        return Ok(());
    }
    if !closed.iter().any(|closed| closed.starts_with(dir)) {
        return allow(ruleset, dir, access);
    }
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        // A link leads to what has a rule of its own.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            open_beside(ruleset, &entry.path(), closed, access)?;
        }
    }
    Ok(())
}

/// Opens one file or everything beneath one directory. What is not there stays closed.
fn allow(
    ruleset: &mut RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<(), Shortfall> {
    let Ok(handle) = PathFd::new(path) else { return Ok(()) };
    let is_dir = fs::metadata(path).is_ok_and(|meta| meta.is_dir());
    // The kernel takes no rights of directories for files.
    let access = if is_dir { access } else { access & AccessFs::from_file(ABI_WANTED) };
    ruleset.add_rule(PathBeneath::new(handle, access)).map(drop).map_err(missing)
}

fn handle(ruleset: RulesetCreated) -> Result<OwnedFd, Shortfall> {
    let handle: Option<OwnedFd> = ruleset.into();
    handle.ok_or_else(|| Shortfall::new("landlock", "the kernel has none"))
}

fn missing(error: impl std::fmt::Display) -> Shortfall {
    Shortfall::new("landlock", error)
}
