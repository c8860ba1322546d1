//! Extra paths of one command: opened once, compared with what was judged, and used by fd from then on. A name could lead
//! elsewhere at any moment, since other commands may change a directory above it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, mount, mount_remount, move_mount, open_tree,
};
use sinew_fs::stat::identity_of;

use super::mounts::{Held, TEMPORARY, fix, make_read_only, skeletons};
use crate::sandbox_level::{REPLACED, Shortfall};
use crate::spawn;
use crate::wire::{Extra, Policy};

/// An extra path by an `O_PATH` fd, which is what was judged.
pub(super) struct HeldExtra {
    pub(super) handle: OwnedFd,
    pub(super) is_writable: bool,
    pub(super) is_dir: bool,
}

const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

/// Opens the extra paths of a policy in the view of this process.
pub(super) fn held(policy: &Policy) -> Result<Vec<HeldExtra>, Shortfall> {
    policy
        .extra
        .iter()
        .map(|extra| {
            let opened = openat2(CWD, &extra.path, PATH_ONLY, Mode::empty(), NO_LINKS);
            checked(extra, opened.map_err(io::Error::from))
        })
        .collect()
}

/// Fails unless an fd is what was judged.
fn checked(extra: &Extra, opened: io::Result<OwnedFd>) -> Result<HeldExtra, Shortfall> {
    let replaced = || Shortfall::new(REPLACED, extra.path.display());
    let handle = opened.map_err(|_| replaced())?;
    let stat = fstat(&handle).map_err(|_| replaced())?;
    if identity_of(&stat).of_file() != extra.identity {
        return Err(replaced());
    }
    let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Ok(HeldExtra { handle, is_writable: extra.is_writable, is_dir })
}

/// Adds extra paths to the view of a joined session, in a mount namespace of this process alone. `covered` are directories
/// of the machine that other mounts cover in that view. Returns the mounted paths.
pub(super) fn extend(policy: &Policy, covered: &[Held]) -> Result<Vec<HeldExtra>, Shortfall> {
    // A mount can only be copied in its own namespace.
    let copies: Vec<HeldExtra> =
        policy.extra.iter().map(|extra| copied(extra, covered)).collect::<Result<_, _>>()?;
    let roots =
        policy.writable.iter().filter(|root| temporary(policy).any(|dir| root.starts_with(dir)));
    let roots: Vec<(&Path, OwnedFd)> = roots
        .map(|root| Ok((root.as_path(), copied_root(root, covered)?)))
        .collect::<Result<_, _>>()?;
    let extras = policy.extra.iter().map(|extra| extra.path.as_path()).zip(&copies);
    let mut all: Vec<(&Path, &OwnedFd, bool)> =
        extras.map(|(path, copy)| (path, &copy.handle, copy.is_dir)).collect();
    all.extend(roots.iter().map(|(path, copy)| (*path, copy, true)));
    // The outer one is mounted first.
    all.sort_by_key(|(path, ..)| *path);
    let mounted = spawn::unshare_mounts().and_then(|()| add_copies(policy, &all));
    mounted.map_err(missing).map(|()| copies)
}

/// Copies the mount of a root among the temporary files, as the joined session has it.
fn copied_root(root: &Path, covered: &[Held]) -> Result<OwnedFd, Shortfall> {
    let replaced = || Shortfall::new(REPLACED, root.display());
    let open = |dir: BorrowedFd<'_>, path: &Path| {
        let opened = openat2(dir, path, PATH_ONLY, Mode::empty(), NO_LINKS);
        let opened = opened.map_err(|_| replaced())?;
        let stat = fstat(&opened).map_err(|_| replaced())?;
        Ok::<_, Shortfall>((opened, identity_of(&stat).of_file()))
    };
    let (seen, identity) = open(CWD, root)?;
    let within =
        covered.iter().find_map(|(dir, handle)| Some((root.strip_prefix(dir).ok()?, handle)));
    if let Some((rest, handle)) = within
        && open(handle.as_fd(), rest)?.1 != identity
    {
        // A command moved a directory above it.
        return Err(replaced());
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(&seen, "", flags).map_err(|errno| missing(errno.into()))
}

/// Returns the directories for temporary files that hold extra paths.
fn temporary(policy: &Policy) -> impl Iterator<Item = &'static Path> {
    let holds = |dir: &&Path| policy.extra.iter().any(|extra| extra.path.starts_with(dir));
    TEMPORARY.iter().map(Path::new).filter(holds)
}

fn missing(error: io::Error) -> Shortfall {
    Shortfall::new("extra paths", error)
}

/// Copies the mount of an extra path, as the machine has it.
fn copied(extra: &Extra, covered: &[Held]) -> Result<HeldExtra, Shortfall> {
    let hidden =
        covered.iter().find_map(|(dir, handle)| Some((extra.path.strip_prefix(dir).ok()?, handle)));
    let opened = match hidden {
        Some((rest, handle)) if rest.as_os_str().is_empty() => handle.try_clone(),
        Some((rest, handle)) => {
            openat2(handle, rest, PATH_ONLY, Mode::empty(), NO_LINKS).map_err(io::Error::from)
        }
        None => {
            openat2(CWD, &extra.path, PATH_ONLY, Mode::empty(), NO_LINKS).map_err(io::Error::from)
        }
    };
    let found = checked(extra, opened)?;
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    if found.is_dir {
        // A file has nothing mounted beneath it, but may have a mount that hides it.
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let copy = open_tree(&found.handle, "", flags).map_err(|errno| missing(errno.into()))?;
    if extra.is_writable {
        spawn::make_mount_writable(&copy).map_err(missing)?;
    }
    Ok(HeldExtra { handle: copy, ..found })
}

/// Mounts copies of extra paths and roots, each at an fd.
fn add_copies(policy: &Policy, copies: &[(&Path, &OwnedFd, bool)]) -> io::Result<()> {
    let writable = MountFlags::NOSUID | MountFlags::NODEV;
    let is_fresh = |dir: &PathBuf| temporary(policy).any(|fresh| dir.starts_with(fresh));
    let skeletons: Vec<PathBuf> = skeletons(policy).into_iter().filter(is_fresh).collect();
    // No other command can move what is above an extra path in these.
    for dir in temporary(policy) {
        mount("tmpfs", dir, "tmpfs", writable, Some(c"mode=1777"))?;
    }
    for dir in &skeletons {
        mkdirat(&walk(dir.parent().unwrap_or(dir), true)?, name(dir), Mode::from_raw_mode(0o755))?;
        mount("tmpfs", dir, "tmpfs", writable, Some(c"mode=0755"))?;
    }
    let is_used = |dir: &&PathBuf| policy.extra.iter().any(|extra| extra.path.starts_with(dir));
    for dir in policy.private.iter().filter(is_used) {
        // Only this view of it becomes writable.
        mount_remount(dir, writable | MountFlags::BIND, "")?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    for (path, copy, is_dir) in copies {
        move_mount(copy, "", &walk(path, *is_dir)?, "", flags)?;
    }
    let is_of_extra =
        |path: &&PathBuf| policy.extra.iter().any(|extra| path.starts_with(&extra.path));
    policy.fixed.iter().filter(is_of_extra).try_for_each(|path| fix(path))?;
    policy.private.iter().chain(&skeletons).try_for_each(|dir| make_read_only(dir))
}

/// Opens a path without following a symlink; makes what is missing of it.
fn walk(path: &Path, is_dir: bool) -> io::Result<OwnedFd> {
    let mut at = openat(CWD, "/", PATH_ONLY, Mode::empty())?;
    let mut names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let mut next = names.next();
    while let Some(name) = next {
        next = names.next();
        let open = |at: &OwnedFd| openat2(at, name, PATH_ONLY, Mode::empty(), NO_LINKS);
        at = match open(&at) {
            Err(Errno::NOENT) if next.is_some() || is_dir => {
                mkdirat(&at, name, Mode::from_raw_mode(0o755))?;
                open(&at)?
            }
            Err(Errno::NOENT) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                drop(openat(&at, name, flags, Mode::from_raw_mode(0o644))?);
                open(&at)?
            }
            opened => opened?,
        };
    }
    Ok(at)
}

fn name(path: &Path) -> &std::ffi::OsStr {
    path.file_name().unwrap_or_default()
}
