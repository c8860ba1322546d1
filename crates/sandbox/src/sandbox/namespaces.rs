//! Makes the user, mount, network, PID and IPC namespaces of a session. Its commands share all but PIDs and
//! mounts, so that one command reaches a server of another over loopback, and nothing else.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use libc::sock_filter;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, sendto, socket};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, getegid, geteuid, waitpid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::extra::{self, HeldExtra};
use super::mounts;
use crate::kill_scope;
use crate::sandbox_level::{Shortfall, WATCHED_NAMES};
use crate::spawn::{self, Own, Side};
use crate::wire::{Join, JoinHandles, Policy};
use sinew_fs::kernel;

/// Enters the namespaces and mounts their file system view. Returns by what others can join them, if the policy wants that.
pub(super) fn enter(policy: &Policy) -> Result<Option<JoinHandles>, Shortfall> {
    let missing =
        |step: &str, error: io::Error| Shortfall::new("namespaces", format!("{step}: {error}"));
    // The list shows the network namespace that this process is about to leave.
    let sockets = mounts::sockets();
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    spawn::unshare(policy.network).map_err(|error| missing("unshare", error))?;
    // The kernel accepts a group map only after `setgroups` is denied.
    for (file, text) in [
        ("/proc/self/setgroups", String::from("deny")),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ] {
        write(file, &text).map_err(|error| missing(file, error))?;
    }
    if !policy.network {
        loopback_up().map_err(|error| missing("loopback device", error))?;
    }
    let covered = match policy.join {
        Join::Open => mounts::covered(policy),
        Join::Alone | Join::Other => Vec::new(),
    };
    mounts::lay_out(policy, &sockets).map_err(|error| missing("mounts", error))?;
    // A second barrier: if this fails, the seccomp filter still holds.
    let _ = write("/proc/sys/user/max_user_namespaces", "0");
    let handles = (policy.join == Join::Open).then(|| handles(covered));
    handles.transpose().map_err(|error| missing("handles", error))
}

/// Opens the namespaces of this process.
fn handles(covered: Vec<(PathBuf, OwnedFd)>) -> io::Result<JoinHandles> {
    let open = |name: &str| {
        let path = format!("/proc/self/ns/{name}");
        openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    };
    Ok(JoinHandles { user: open("user")?, mounts: open("mnt")?, network: open("net")?, covered })
}

/// Enters the namespaces of another session, with extra paths in a mount namespace of its own. So caches and temporary
/// files are the same in both. It keeps the network of the machine if the policy opens that. Returns the extra paths.
pub(super) fn join(policy: &Policy, of: JoinHandles) -> Result<Vec<HeldExtra>, Shortfall> {
    let missing =
        |step: &str, error: io::Error| Shortfall::new("namespaces", format!("{step}: {error}"));
    let enter = |space: &OwnedFd, of_type| {
        let entered = move_into_link_name_space(space.as_fd(), Some(of_type));
        entered.map_err(|errno| missing("setns", errno.into()))
    };
    // The rights in the others come with the first.
    enter(&of.user, LinkNameSpaceType::User)?;
    if !policy.network {
        enter(&of.network, LinkNameSpaceType::Network)?;
    }
    enter(&of.mounts, LinkNameSpaceType::Mount)?;
    extra::extend(policy, &of.covered)
}

/// Returns whether each command can have a PID namespace with its own `/proc`. Containers that mask parts of
/// `/proc` do not allow it.
pub(super) fn has_own_processes() -> Result<(), Shortfall> {
    let missing = |error: String| Shortfall::new("own /proc", error);
    match spawn::fork(Own::Processes).map_err(|error| missing(error.to_string()))? {
        Side::Child => {
            let code = mount_proc().err().map_or(0, |error| error.raw_os_error().unwrap_or(1));
            std::process::exit(code);
        }
        Side::Parent(pid) => match exit_code(pid) {
            Some(0) => Ok(()),
            Some(code) => Err(missing(io::Error::from_raw_os_error(code).to_string())),
            None => Err(missing(String::from("it cannot be told"))),
        },
    }
}

/// Returns whether a process can hand calls to its parent, and the parent can read its memory.
pub(super) fn can_watch(filter: &[sock_filter]) -> Result<(), Shortfall> {
    let missing = |error: io::Error| Shortfall::new(WATCHED_NAMES, error);
    let (wait, go_on) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| missing(errno.into()))?;
    match spawn::fork(Own::Nothing).map_err(missing)? {
        Side::Child => {
            drop(go_on);
            let _ = rustix::io::read(&wait, &mut [0_u8; 1]);
            let tried = spawn::try_to_listen(filter);
            std::process::exit(tried.err().map_or(0, |error| error.raw_os_error().unwrap_or(1)));
        }
        Side::Parent(pid) => {
            let memory = openat(
                CWD,
                format!("/proc/{}/mem", pid.as_raw_nonzero()),
                OFlags::RDONLY | OFlags::CLOEXEC,
                Mode::empty(),
            );
            drop(go_on);
            let ended = exit_code(pid);
            memory.map_err(|errno| missing(errno.into()))?;
            match ended {
                Some(0) => Ok(()),
                Some(code) => Err(missing(io::Error::from_raw_os_error(code))),
                None => Err(missing(io::Error::other("it cannot be told"))),
            }
        }
    }
}

/// Returns whether the kernel scopes signals to a Landlock domain, as kernels since 6.12 do.
pub(super) fn scopes_signals(ruleset: BorrowedFd<'_>) -> bool {
    match spawn::fork(Own::Nothing) {
        Ok(Side::Child) => {
            let is_scoped = spawn::restrict(ruleset).is_ok() && kill_scope::is_scoped();
            std::process::exit(i32::from(!is_scoped));
        }
        Ok(Side::Parent(pid)) => exit_code(pid) == Some(0),
        Err(_) => false,
    }
}

fn exit_code(pid: Pid) -> Option<i32> {
    let ended = waitpid(Some(pid), WaitOptions::empty());
    ended.ok().flatten().and_then(|(_, status)| status.exit_status())
}

/// Mounts the `/proc` of this PID namespace, unseen by the mount namespace of the parent.
pub(super) fn mount_proc() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("proc", "/proc", "proc", flags, None)?)
}

/// Returns whether each PID namespace has a process limit, as in kernels since 6.14.
pub(super) fn has_bound() -> bool {
    kernel::is_since((6, 14))
}

/// Limits the processes in this PID namespace, where the kernel has a limit for each.
pub(super) fn bound_processes(n: u64) {
    let _ = write("/proc/sys/kernel/pid_max", &n.to_string());
}

#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn write(path: &str, text: &str) -> io::Result<()> {
    std::fs::write(path, text)
}

/// Enables the loopback device of this namespace by a netlink message: `nlmsghdr` in `linux/netlink.h` and
/// `ifinfomsg` in `linux/rtnetlink.h`.
fn loopback_up() -> io::Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST: u16 = 1;
    const NLM_F_ACK: u16 = 4;
    const LOOPBACK: i32 = 1;
    const IFF_UP: u32 = 1;
    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    message.extend(1_u32.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend([0_u8; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    // The answer is a header, then a negative `errno` or 0.
    let mut answer = [0_u8; 256];
    let (_, n) = recv(&socket, &mut answer, RecvFlags::empty())?;
    let code = answer.get(16..20).filter(|_| 20 <= n).and_then(|code| code.try_into().ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("the kernel gave no answer")),
    }
}
