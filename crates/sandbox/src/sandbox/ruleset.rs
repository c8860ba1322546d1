//! Landlock rules: which files commands may read and write.
//!
//! Landlock only allows: a path without a rule stays closed. To close a directory in an open one, all entries
//! beside it on the way are opened, as they exist when the session begins. The directories on the way can be
//! traversed, but neither listed nor extended. That would break work in a repository, so protected names in
//! it stay open here.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::extra::HeldExtra;
use crate::sandbox_level::Shortfall;
use crate::wire::Policy;

/// The newest Landlock ABI that is requested; an older kernel applies what it has.
const ABI_WANTED: ABI = ABI::V6;

/// Returns the rules inside namespaces, a second barrier against tricks with mounts.
pub(super) fn within_namespaces(
    policy: &Policy,
    kept: Option<BorrowedFd<'_>>,
    extras: &[HeldExtra],
) -> Result<OwnedFd, Shortfall> {
    let mut ruleset = empty()?;
    allow_keeping(&mut ruleset, kept)?;
    allow(&mut ruleset, Path::new("/"), read())?;
    for place in ["/dev", "/proc", "/tmp", "/var/tmp"] {
        allow(&mut ruleset, Path::new(place), AccessFs::from_all(ABI_WANTED))?;
    }
    for place in policy.writable.iter().chain(&policy.caches) {
        allow(&mut ruleset, place, AccessFs::from_all(ABI_WANTED))?;
    }
    allow_extras(&mut ruleset, extras)?;
    handle(ruleset)
}

/// The rules as the only containment.
pub(super) struct SystemRules(RulesetCreated);

impl SystemRules {
    /// Returns an fd of these rules.
    pub(super) fn handle(&self) -> Result<OwnedFd, Shortfall> {
        handle(self.0.try_clone().map_err(missing)?)
    }

    /// Allows reads of the `/proc` that this process has mounted. It covers the one that the rules were made
    /// with, and Landlock skips covered file systems.
    pub(super) fn open_proc(&self) -> Result<(), Shortfall> {
        allow(&mut self.0.try_clone().map_err(missing)?, Path::new("/proc"), read())
    }
}

/// Returns the rules as the only containment.
pub(super) fn beneath_the_system(
    policy: &Policy,
    kept: Option<BorrowedFd<'_>>,
    extras: &[HeldExtra],
) -> Result<SystemRules, Shortfall> {
    let mut ruleset = empty()?;
    allow_keeping(&mut ruleset, kept)?;
    let hidden: Vec<PathBuf> =
        policy.hidden.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    let closed: Vec<PathBuf> = hidden.iter().chain(&policy.private).cloned().collect();
    open_beside(&mut ruleset, Path::new("/"), &closed, read())?;
    for place in &policy.shown {
        open_beside(&mut ruleset, place, &hidden, read())?;
    }
    allow_extras(&mut ruleset, extras)?;
    let writes = AccessFs::from_all(ABI_WANTED);
    for place in &policy.writable {
        open_beside(&mut ruleset, place, &hidden, writes)?;
    }
    for own in ["tmp", "shm"] {
        allow(&mut ruleset, &policy.scratch.join(own), writes)?;
    }
    // Other users have terminals in `/dev/pts` and files in `/dev/shm`.
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        allow(&mut ruleset, &Path::new("/dev").join(device), writes)?;
    }
    Ok(SystemRules(ruleset))
}

/// Returns rules for a process whose parent has the rules above. They close nothing more, but keep it from
/// tracing or signalling its parent. Landlock requires a file right, so one is handled and allowed
/// everywhere.
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

/// Returns a ruleset that allows none of these rights.
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

/// Allows everything below a directory except closed paths.
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
        // The target of a symlink has a rule of its own.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            open_beside(ruleset, &entry.path(), closed, access)?;
        }
    }
    Ok(())
}

/// Allows one file, or everything below one directory. A missing path stays closed.
fn allow(
    ruleset: &mut RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<(), Shortfall> {
    let Ok(handle) = PathFd::new(path) else { return Ok(()) };
    let is_dir = fs::metadata(path).is_ok_and(|meta| meta.is_dir());
    // The kernel rejects directory rights for files.
    let access = if is_dir { access } else { access & AccessFs::from_file(ABI_WANTED) };
    ruleset.add_rule(PathBeneath::new(handle, access)).map(drop).map_err(missing)
}

/// Allows extra paths by the fds that were compared with what was judged: a name could lead elsewhere by now.
fn allow_extras(ruleset: &mut RulesetCreated, extras: &[HeldExtra]) -> Result<(), Shortfall> {
    for extra in extras {
        let access = if extra.is_writable { AccessFs::from_all(ABI_WANTED) } else { read() };
        let access = if extra.is_dir { access } else { access & AccessFs::from_file(ABI_WANTED) };
        ruleset.add_rule(PathBeneath::new(&extra.handle, access)).map(drop).map_err(missing)?;
    }
    Ok(())
}

/// Allows files to be moved and copied to where the changes of commands are kept, and nothing there to be read.
fn allow_keeping(
    ruleset: &mut RulesetCreated,
    kept: Option<BorrowedFd<'_>>,
) -> Result<(), Shortfall> {
    let Some(kept) = kept else { return Ok(()) };
    let access = AccessFs::MakeReg
        | AccessFs::RemoveFile
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::Refer;
    ruleset.add_rule(PathBeneath::new(kept, access)).map(drop).map_err(missing)
}

fn handle(ruleset: RulesetCreated) -> Result<OwnedFd, Shortfall> {
    let handle: Option<OwnedFd> = ruleset.into();
    handle.ok_or_else(|| Shortfall::new("landlock", "the kernel has none"))
}

fn missing(error: impl std::fmt::Display) -> Shortfall {
    Shortfall::new("landlock", error)
}
