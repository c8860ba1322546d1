//! Sets owner, mode, times and extended attributes on an fd, where a command may do so. Landlock does not
//! restrict these calls: a command that sees files of the machine could change those of any file of its user.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Timespec, Timestamps, UTIME_NOW, Uid, XattrFlags, chmod, chownat,
    fstat, removexattr, setxattr, utimensat,
};
use rustix::io::Errno;

use super::caller::Caller;
use super::deeds::done;
use super::path::{self, kind_of, real_path};
use super::{CallHandler, mode_of};
use crate::spawn::SyscallAnswer;
use crate::wire::Refused;

/// The longest name of an extended attribute, with its end: `XATTR_NAME_MAX`.
const MAX_XATTR_NAME: usize = 256;
/// The longest value of an extended attribute: `XATTR_SIZE_MAX`.
const MAX_XATTR_VALUE: u64 = 65_536;
/// `UTIME_NOW` for both times.
const NOW: [i64; 4] = [0, UTIME_NOW, 0, UTIME_NOW];

/// How a call passes times, with their address.
#[derive(Debug, Clone, Copy)]
pub(super) enum Times {
    /// Two `struct timespec`.
    Nanoseconds(u64),
    /// Two `struct timeval`.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "an old call has them"))]
    Microseconds(u64),
    /// `struct utimbuf`.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "an old call has them"))]
    Seconds(u64),
}

impl Times {
    /// Reads the times; without an address they are now.
    fn read(self, caller: &Caller<'_>) -> Result<Timestamps, Errno> {
        let numbers = match self {
            Self::Nanoseconds(0) | Self::Microseconds(0) | Self::Seconds(0) => NOW,
            Self::Nanoseconds(at) => caller.numbers(at)?,
            Self::Microseconds(at) => {
                let [a, a_us, m, m_us] = caller.numbers(at)?;
                if !(0..1_000_000).contains(&a_us) || !(0..1_000_000).contains(&m_us) {
                    return Err(Errno::INVAL);
                }
                [a, a_us * 1_000, m, m_us * 1_000]
            }
            Self::Seconds(at) => {
                let [a, m] = caller.numbers(at)?;
                [a, 0, m, 0]
            }
        };
        let [a, a_ns, m, m_ns] = numbers;
        Ok(Timestamps {
            last_access: Timespec { tv_sec: a, tv_nsec: a_ns },
            last_modification: Timespec { tv_sec: m, tv_nsec: m_ns },
        })
    }
}

impl CallHandler {
    /// Sets the mode of a file, which others may then be able to execute.
    pub(super) fn set_mode(
        &self,
        target: &OwnedFd,
        mode: Mode,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        if kind_of(target)? == FileType::Symlink {
            return Err(Errno::OPNOTSUPP);
        }
        let real = self.may_set_attributes(target)?;
        self.may_have_mode(&real, mode)?;
        let set = self.changing_mode(&real, target, || chmod(path::by_number(target), mode));
        done(set.map_err(|errno| self.refused_by_the_system(&real, errno)))
    }

    pub(super) fn set_mode_at(
        &self,
        caller: &Caller<'_>,
        at: (u64, u64),
        mode: u64,
        flags: AtFlags,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        self.set_mode(&self.target(caller, at, flags)?, mode_of(mode))
    }

    pub(super) fn set_owner(
        &self,
        target: &OwnedFd,
        (user, group): (u64, u64),
    ) -> Result<Option<SyscallAnswer>, Errno> {
        #[expect(clippy::cast_possible_truncation, reason = "the kernel takes no more of it")]
        let id = |number: u64| Some(number as u32).filter(|number| *number != u32::MAX);
        let (user, group) = (id(user).map(Uid::from_raw), id(group).map(Gid::from_raw));
        self.set(target, || chownat(target, c"", user, group, AtFlags::EMPTY_PATH))
    }

    /// Sets owner and group of the target of a path.
    pub(super) fn set_owner_at(
        &self,
        caller: &Caller<'_>,
        at: (u64, u64),
        owner: (u64, u64),
        flags: AtFlags,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        self.set_owner(&self.target(caller, at, flags)?, owner)
    }

    /// Sets the times of the target of a path, or of an fd if there is no path.
    pub(super) fn set_times(
        &self,
        caller: &Caller<'_>,
        (dir, path): (u64, u64),
        times: Times,
        flags: AtFlags,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let times = times.read(caller)?;
        let target = match path {
            0 => caller.handle(dir)?,
            path => self.target(caller, (dir, path), flags)?,
        };
        self.set(&target, || utimensat(&target, c"", &times, AtFlags::EMPTY_PATH))
    }

    pub(super) fn set_xattr(
        &self,
        caller: &Caller<'_>,
        target: &OwnedFd,
        (name, value, length, flags): (u64, u64, u64, u64),
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let name = caller.xattr_name(name)?;
        if MAX_XATTR_VALUE < length {
            return Err(Errno::TOOBIG);
        }
        let flags = u32::try_from(flags).map_err(|_| Errno::INVAL)?;
        let flags = XattrFlags::from_bits(flags).ok_or(Errno::INVAL)?;
        let value = match usize::try_from(length) {
            Ok(0) | Err(_) => Vec::new(),
            Ok(length) => caller.bytes(value, length)?,
        };
        self.set(target, || setxattr(path::by_number(target), name, &value, flags))
    }

    pub(super) fn remove_xattr(
        &self,
        caller: &Caller<'_>,
        target: &OwnedFd,
        name: u64,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let name = caller.xattr_name(name)?;
        self.set(target, || removexattr(path::by_number(target), name))
    }

    /// Opens the target of a path, as a call that sets attributes follows it.
    pub(super) fn target(
        &self,
        caller: &Caller<'_>,
        (dir, path): (u64, u64),
        flags: AtFlags,
    ) -> Result<OwnedFd, Errno> {
        let path = caller.text_or_empty(path)?;
        if path.as_os_str().is_empty() {
            let by_number = flags.contains(AtFlags::EMPTY_PATH);
            return if by_number { caller.handle(dir) } else { Err(Errno::NOENT) };
        }
        let start = caller.start(dir, &path)?;
        let follow = !flags.contains(AtFlags::SYMLINK_NOFOLLOW);
        let target = path::handle_of(caller, start, &path, follow)?;
        self.check_waits(caller)?;
        Ok(target)
    }

    /// Sets attributes of an open file where a command may.
    fn set(
        &self,
        target: &OwnedFd,
        set: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let real = self.may_set_attributes(target)?;
        done(set().map_err(|errno| self.refused_by_the_system(&real, errno)))
    }

    /// Judges a change of attributes; returns the real path of the file.
    fn may_set_attributes(&self, target: &OwnedFd) -> Result<PathBuf, Errno> {
        let real = real_path(target.as_fd())?;
        self.may_describe(&real)?;
        // A pipe, a socket or an unlinked file is no file of the machine.
        let is_unnamed =
            || !real.is_absolute() || fstat(target).is_ok_and(|stat| stat.st_nlink == 0);
        let is_handed_out = self.images.as_ref().is_some_and(|images| images.is_handed_out(&real));
        if !self.judge.may_set_attributes(&real) && !is_handed_out && !is_unnamed() {
            self.found.refuse(Refused::Outside { path: real, answer: None });
            return Err(Errno::PERM);
        }
        Ok(real)
    }
}

impl Caller<'_> {
    fn xattr_name(&self, at: u64) -> Result<PathBuf, Errno> {
        let name = self.text_or_empty(at)?;
        match name.as_os_str().len() {
            0 | MAX_XATTR_NAME.. => Err(Errno::RANGE),
            _ => Ok(name),
        }
    }
}
