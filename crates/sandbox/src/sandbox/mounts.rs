//! Mounts what commands see of the file system: read-only, except for the roots. On top it mounts a `/dev`
//! with harmless devices, a session `/tmp`, overlays for tool caches, empty directories with the shown parts over
//! private ones, and empty files and directories over hidden ones. The mounts of the system stay below: uncovering them needs rights that no command has.
#![expect(clippy::disallowed_methods, reason = "the guard may touch the system")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_move, mount_remount, unmount,
};

use crate::cache_store;
use crate::wire::Policy;

/// Devices that commands may use.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Directories of running services, whose sockets lead out of the sandbox.
pub(crate) const SERVICES: &[&str] = &["/run", "/var/run"];

/// Directories for temporary files, of which a session has its own.
pub(super) const TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

/// Parts of those directories that programs need, and that hold no socket.
pub(crate) const KEPT_OF_SERVICES: &[&str] =
    &["/run/current-system", "/run/opengl-driver", "/run/systemd/resolve"];

/// Returns the Unix sockets that have a path now: a program of the machine listens at each.
pub(crate) fn sockets() -> Vec<PathBuf> {
    let table = fs::read("/proc/self/net/unix").unwrap_or_default();
    let path = |line: &[u8]| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        Some(PathBuf::from(OsString::from_vec(line.get(start..)?.to_vec())))
    };
    let is_socket =
        |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    table.split(|byte| *byte == b'\n').skip(1).filter_map(path).filter(is_socket).collect()
}

pub(super) fn lay_out(policy: &Policy, sockets: &[PathBuf]) -> io::Result<()> {
    let alone = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", alone)?;
    // Opens all that is needed later, before a mount covers it.
    let writable = held(&policy.writable)?;
    let kept = held_where_there(KEPT_OF_SERVICES.iter().map(Path::new));
    let temporary = hold(&policy.scratch.join("tmp"))?;
    let empty_dir = hold(&policy.scratch.join("empty"))?;
    let empty_file = hold(&policy.scratch.join("empty.file"))?;
    let scratch = hold(&policy.scratch)?;
    let shown = held_where_there(policy.shown.iter().map(PathBuf::as_path));
    read_only()?;
    close_private(policy, &shown)?;
    overlay_caches(policy, &scratch)?;
    devices()?;
    for place in SERVICES {
        if is_real_dir(Path::new(place)) {
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            mount("tmpfs", *place, "tmpfs", flags, Some(c"size=5%"))?;
        }
    }
    for (path, handle) in &kept {
        place(path, handle)?;
    }
    for there in TEMPORARY {
        if is_real_dir(Path::new(there)) {
            bind(&temporary, Path::new(there))?;
        }
    }
    let skeletons = skeletons(policy);
    for dir in &skeletons {
        fs::create_dir_all(dir)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", dir, "tmpfs", flags, Some(c"mode=0755"))?;
    }
    for (path, handle) in &writable {
        place(path, handle)?;
    }
    let outside = |socket: &&PathBuf| !policy.writable.iter().any(|root| socket.starts_with(root));
    for path in sockets.iter().filter(outside).chain(&policy.hidden) {
        hide(path, &empty_dir, &empty_file)?;
    }
    for path in &policy.fixed {
        fix(path)?;
    }
    policy.private.iter().chain(&skeletons).try_for_each(|dir| make_read_only(dir))
}

/// Directories that every session has of its own, and may change.
const OWN: &[&str] = &["/tmp", "/var/tmp", "/run", "/var/run", "/dev/shm"];

/// Returns the directories right beneath a session's own ones that hold roots or extra paths. They are made anew and read-only:
/// if a command moved one, rules by path would miss what it holds.
pub(crate) fn skeletons(policy: &Policy) -> BTreeSet<PathBuf> {
    let extras = policy.extra.iter().map(|extra| &extra.path);
    let skeleton = |path: &PathBuf| {
        OWN.iter().map(Path::new).find_map(|dir| {
            let first = dir.join(path.strip_prefix(dir).ok()?.components().next()?);
            // A mount point itself cannot move.
            (first != *path).then_some(first)
        })
    };
    extras.chain(&policy.writable).filter_map(skeleton).collect()
}

/// Opens the directories that [`lay_out`] is about to cover.
pub(super) fn covered(policy: &Policy) -> Vec<Held> {
    let places = SERVICES.iter().chain(TEMPORARY).map(Path::new);
    let private = policy.private.iter().map(PathBuf::as_path);
    let sockets = policy.lendable.iter().map(PathBuf::as_path);
    held_where_there(sockets.chain(places.chain(private).filter(|path| is_real_dir(path))))
}

/// Mounts an empty directory over each private one, with all that is shown of it. They are writable until everything
/// else is mounted in them.
fn close_private(policy: &Policy, shown: &[Held]) -> io::Result<()> {
    for dir in &policy.private {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", dir, "tmpfs", flags, Some(c"mode=0755"))?;
    }
    for (path, handle) in shown {
        make_mount_point(path, handle)?;
        // A copy of a mount that is read-only by now.
        mount_bind_recursive(name_of(handle), path)?;
    }
    for (link, target) in &policy.shown_links {
        if let Some(parent) = link.parent() {
            fs::create_dir_all(parent)?;
        }
        symlink(target, link)?;
    }
    // The overlays of caches are made there.
    fs::create_dir_all(&policy.scratch)
}

/// Makes an empty directory or file to mount an fd at.
fn make_mount_point(path: &Path, handle: &OwnedFd) -> io::Result<()> {
    let is_dir = FileType::from_raw_mode(fstat(handle)?.st_mode) == FileType::Directory;
    if is_dir {
        return fs::create_dir_all(path);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, "")
}

/// Makes the topmost mount at a path read-only, and no other one.
pub(super) fn make_read_only(path: &Path) -> io::Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    match mount_remount(path, with_bind(flags), "") {
        // Another mount covers the path.
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// A path with its `O_PATH` fd.
pub(super) type Held = (PathBuf, OwnedFd);

fn held(paths: &[PathBuf]) -> io::Result<Vec<Held>> {
    paths.iter().map(|path| Ok((path.clone(), hold(path)?))).collect()
}

fn held_where_there<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<Held> {
    paths.filter_map(|path| Some((path.to_owned(), hold(path).ok()?))).collect()
}

pub(super) fn hold(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
    openat(CWD, path, flags, Mode::empty())
        .map_err(|errno| io::Error::other(format!("{}: {errno}", path.display())))
}

/// Returns the path in `/proc` by which an fd can be mounted elsewhere.
fn name_of(handle: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

/// Mounts an fd, with all that is mounted in it, at a path that may have been covered.
fn place(path: &Path, handle: &OwnedFd) -> io::Result<()> {
    if !is_dir(path) {
        fs::create_dir_all(path)?;
    }
    mount_bind_recursive(name_of(handle), path)?;
    make_writable(path)
}

fn bind(handle: &OwnedFd, path: &Path) -> io::Result<()> {
    mount_bind(name_of(handle), path)?;
    make_writable(path)
}

fn make_writable(path: &Path) -> io::Result<()> {
    let flags = flags_of(path).unwrap_or(MountFlags::empty());
    Ok(mount_remount(path, with_bind((flags - MountFlags::RDONLY) | MountFlags::NOSUID), "")?)
}

/// Makes every mount read-only, and disables setuid there.
fn read_only() -> io::Result<()> {
    for (path, flags) in mounted()? {
        let flags = with_bind(flags | MountFlags::RDONLY | MountFlags::NOSUID);
        match mount_remount(&path, flags, "") {
            // Covered by another mount, or of a read-only file system.
            Ok(())
            | Err(
                rustix::io::Errno::INVAL | rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS,
            ) => {}
            Err(errno) => {
                return Err(io::Error::other(format!("{}: {errno}", path.display())));
            }
        }
    }
    Ok(())
}

fn with_bind(flags: MountFlags) -> MountFlags {
    flags | MountFlags::BIND
}

/// Returns every mount with the flags that a remount must keep.
fn mounted() -> io::Result<Vec<(PathBuf, MountFlags)>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(line).collect())
}

/// Parses a line of `mountinfo`: the fifth field is the path, the sixth its options.
fn line(line: &[u8]) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = unescaped(fields.nth(4)?);
    let options = std::str::from_utf8(fields.next()?).ok()?;
    let flags = options.split(',').filter_map(flag).fold(MountFlags::empty(), |all, one| all | one);
    Some((path, flags))
}

fn flag(option: &str) -> Option<MountFlags> {
    Some(match option {
        "ro" => MountFlags::RDONLY,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => return None,
    })
}

/// Decodes the octal escapes of a path in `mountinfo`.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let byte =
            code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 8).ok());
        path.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    PathBuf::from(OsString::from_vec(path))
}

/// Returns the flags of the mount at a path.
fn flags_of(path: &Path) -> Option<MountFlags> {
    mounted().ok()?.into_iter().rev().find(|(at, _)| at == path).map(|(_, flags)| flags)
}

/// Mounts overlays on tool caches, for changes of the session. Without an overlay a cache stays read-only.
fn overlay_caches(policy: &Policy, scratch: &OwnedFd) -> io::Result<()> {
    // The upper directory of an overlay must be on a writable mount.
    bind(scratch, &policy.scratch)?;
    for (n, cache) in policy.caches.iter().enumerate() {
        let changes = cache_store::changes(&policy.scratch, n);
        let work = changes.with_file_name("work");
        if fs::create_dir_all(&changes).and_then(|()| fs::create_dir_all(&work)).is_err() {
            continue;
        }
        // The user's own files cover those of an earlier session.
        let kept = Some(cache_store::kept(&policy.scratch, n)).filter(|kept| is_real_dir(kept));
        // A kernel that refuses two layers takes one.
        for lowest in [kept.as_deref(), None] {
            let data = overlay_options((cache, lowest), &changes, &work);
            let data = data.and_then(|data| std::ffi::CString::new(data).ok());
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            let mounted = data.map(|data| mount("overlay", cache, "overlay", flags, Some(&*data)));
            if lowest.is_none() || mounted.is_some_and(|mounted| mounted.is_ok()) {
                break;
            }
        }
    }
    Ok(unmount(&policy.scratch, UnmountFlags::DETACH)?)
}

/// Returns the options of an overlay over a layer that covers another. In a path, a comma, colon or backslash would have a
/// meaning there.
fn overlay_options(
    (lower, lowest): (&Path, Option<&Path>),
    changes: &Path,
    work: &Path,
) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    for (name, path) in [
        ("lowerdir=", Some(lower)),
        (":", lowest),
        (",upperdir=", Some(changes)),
        (",workdir=", Some(work)),
    ] {
        let Some(path) = path.map(|path| path.as_os_str().as_bytes()) else { continue };
        if path.iter().any(|byte| b",:\\".contains(byte)) {
            return None;
        }
        data.extend_from_slice(name.as_bytes());
        data.extend_from_slice(path);
    }
    data.extend_from_slice(b",userxattr");
    Some(data)
}

/// Replaces `/dev` by one with harmless devices.
fn devices() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    // It is built elsewhere, because it shows devices of the old `/dev`.
    let beside = Path::new("/tmp");
    // In a world-writable directory the kernel rejects the reopening of another user's device.
    mount("tmpfs", beside, "tmpfs", flags, Some(c"mode=0755"))?;
    for device in DEVICES {
        let there = Path::new("/dev").join(device);
        if fs::symlink_metadata(&there).is_ok() {
            fs::write(beside.join(device), "")?;
            mount_bind(&there, beside.join(device))?;
        }
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(target, beside.join(name))?;
    }
    for name in ["pts", "shm"] {
        fs::create_dir(beside.join(name))?;
    }
    let terminals = c"newinstance,ptmxmode=0666,mode=0620";
    // Without this mount a session has no terminals.
    let _ = mount("devpts", beside.join("pts"), "devpts", flags, Some(terminals));
    // Files that no process maps count for none.
    let size = Some(c"size=25%");
    mount("tmpfs", beside.join("shm"), "tmpfs", flags | MountFlags::NODEV, size)?;
    fs::set_permissions(beside.join("shm"), fs::Permissions::from_mode(0o1777))?;
    mount_move(beside, "/dev")?;
    // No device can be added later.
    Ok(mount_remount("/dev", with_bind(flags | MountFlags::RDONLY), "")?)
}

/// Covers a file or directory with an empty one that cannot be opened. Outside the roots a missing path
/// cannot be created either.
fn hide(path: &Path, empty_dir: &OwnedFd, empty_file: &OwnedFd) -> io::Result<()> {
    let Ok(real) = fs::canonicalize(path) else { return Ok(()) };
    let empty = if is_dir(&real) { empty_dir } else { empty_file };
    match mount_bind(name_of(empty), &real) {
        // A socket that has just vanished.
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        other => other?,
    }
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount_remount(&real, with_bind(flags), "")?)
}

/// Makes a writable file or directory read-only.
pub(super) fn fix(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    let handle = hold(path)?;
    mount_bind_recursive(name_of(&handle), path)?;
    let flags = flags_of(path).unwrap_or(MountFlags::empty());
    Ok(mount_remount(path, with_bind(flags | MountFlags::RDONLY | MountFlags::NOSUID), "")?)
}

fn is_dir(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_dir())
}

/// Returns whether a path is a directory, and no symlink.
pub(super) fn is_real_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}
