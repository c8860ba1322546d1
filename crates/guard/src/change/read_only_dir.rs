//! Makes a read-only directory of this user writable for the time of a change.

use std::os::fd::AsRawFd;

use rustix::fs::{Access, AtFlags, Mode, accessat, chmod, fstat};
use rustix::process::{getegid, geteuid, getgroups};
use sinew_tool::FileError;

use sinew_fs::roots::Dir;
use sinew_fs::stat::error_of;

/// The permission bits of a directory that are kept and restored.
pub(crate) const BITS: u32 = 0o1777;
/// The rights of an owner.
pub(crate) const OWNER: u32 = 0o700;

/// Returns the permission bits of a directory that this user owns and may not write, if it can get them back.
pub(crate) fn mode(dir: &Dir) -> Result<Option<u32>, FileError> {
    let needed = Access::WRITE_OK.union(Access::EXEC_OK);
    if accessat(&**dir, c".", needed, AtFlags::EACCESS).is_ok() {
        return Ok(None);
    }
    let stat = fstat(&**dir).map_err(error_of)?;
    let is_own = stat.st_uid == geteuid().as_raw();
    // The kernel takes a setgid bit away with any `chmod` by a user outside of the group.
    let stays = stat.st_mode & 0o2000 == 0 || is_group_of_user(stat.st_gid);
    Ok((is_own && stays && stat.st_mode & OWNER != OWNER).then_some(stat.st_mode & BITS))
}

fn is_group_of_user(group: u32) -> bool {
    let groups = getgroups().unwrap_or_default();
    getegid().as_raw() == group || groups.iter().any(|one| one.as_raw() == group)
}

/// Returns the permission bits now.
pub(crate) fn mode_now(dir: &Dir) -> Result<u32, FileError> {
    Ok(fstat(&**dir).map_err(error_of)?.st_mode & BITS)
}

/// Sets the permission bits; setuid and setgid stay.
pub(crate) fn set_mode(dir: &Dir, mode: u32) -> Result<(), FileError> {
    // It may be a directory that this user cannot read.
    let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
    let kept = fstat(&**dir).map_err(error_of)?.st_mode & 0o6000;
    chmod(path, Mode::from_raw_mode(mode & BITS | kept)).map_err(error_of)
}

/// Sets the bits of a directory back that was made writable, unless another process changed them since.
pub(crate) fn close(dir: &Dir, before: u32) -> Result<(), FileError> {
    if mode_now(dir)? == before | OWNER { set_mode(dir, before) } else { Ok(()) }
}
