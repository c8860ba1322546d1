//! Builds the seccomp filters of commands, which close system calls that programs do without and attackers
//! use. A closed call fails: with `ENOSYS` if programs can go on without it, with `EPERM` if its arguments
//! decide. Programs for another architecture are killed, because they number system calls differently.

use std::collections::BTreeMap;

use libc::{c_long, sock_filter};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::sandbox_level::Shortfall;

/// Calls that set file attributes and are newer than the handler: `setxattrat`, `removexattrat`,
/// `open_tree_attr`, `file_setattr`. Programs fall back to older ones. Every architecture has these numbers.
const NEW_ATTRIBUTES: &[c_long] = &[463, 466, 467, 469];

/// Types of `ioctl` requests (bits 8 to 15) that change file attributes or subvolumes through an fd open for
/// reading, which Landlock does not restrict. Of each type only these requests are open.
const FILE_REQUESTS: &[(u64, &[u64])] = &[
    // All file systems and ext4: flags, version, extents, verity and encryption.
    (
        0x6600,
        &[
            0x8008_6601, // FS_IOC_GETFLAGS
            0x8004_6601, // FS_IOC32_GETFLAGS
            0x8008_6603, // EXT4_IOC_GETVERSION
            0xc020_660b, // FS_IOC_FIEMAP
            0x400c_6615, // FS_IOC_GET_ENCRYPTION_POLICY
            0xc009_6616, // FS_IOC_GET_ENCRYPTION_POLICY_EX
            0xc004_6686, // FS_IOC_MEASURE_VERITY
            0xc028_6687, // FS_IOC_READ_VERITY_METADATA
        ],
    ),
    // `FS_IOC_GETVERSION`.
    (0x7600, &[0x8008_7601, 0x8004_7601]),
    // btrfs: `FICLONE`, `FICLONERANGE`, `FIDEDUPERANGE`, which write to an fd open for writing.
    (0x9400, &[0x4004_9409, 0x4020_940d, 0xc018_9436]),
];

/// Requests of other types that set attributes: `FS_IOC_FSSETXATTR`, `FAT_IOCTL_SET_ATTRIBUTES`.
const SETS_FLAGS: &[u64] = &[0x401c_5820, 0x4004_7211];

/// The sockets that commands may make when they may not reach the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Internet and Unix sockets: the network namespace contains them.
    Open,
    /// Only socket pairs: nothing contains other sockets.
    Closed,
}

/// Calls that programs do without; they fail with `ENOSYS`.
const UNKNOWN: &[c_long] = &[
    // `io_uring` makes calls past every filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Their flags are in memory, which no filter reads; programs fall back to `clone` and `openat`.
    libc::SYS_clone3,
    libc::SYS_openat2,
    // Memory and fds of other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // Files by other means than their names.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Parts of the kernel with many vulnerabilities, or with power over the machine.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Calls that set the mode of a file, with the index of the mode argument.
const SETS_MODE: &[(c_long, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
];

/// The namespaces that `clone` makes.
const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// What the filter of commands closes beside what it always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) network: bool,
    pub(super) sockets: Sockets,
    /// Whether commands see files outside the roots, whose attributes they could set by calls that the
    /// handler does not judge.
    pub(super) in_view_of_machine: bool,
}

/// Returns the filter of commands.
pub(super) fn closed(closed: Closed) -> Result<Vec<sock_filter>, Shortfall> {
    let missing = |error: String| Shortfall::new("seccomp", error);
    let new = if closed.in_view_of_machine { NEW_ATTRIBUTES } else { &[] };
    let unknown = UNKNOWN.iter().chain(new).map(|&call| (call, Vec::new())).collect();
    let refused = refused(closed).map_err(|error| missing(error.to_string()))?;
    let filters = [(unknown, libc::ENOSYS), (refused, libc::EPERM)];
    let mut programs: Vec<_> = filters
        .into_iter()
        .map(|(rules, errno)| program(rules, errno).map_err(missing))
        .collect::<Result<_, _>>()?;
    programs.extend(no_second_numbering());
    Ok(joined(programs))
}

/// Joins filters for different calls: a call that one allows continues in the next. The kernel installs a
/// long filter as fast as a short one.
fn joined(programs: Vec<Vec<sock_filter>>) -> Vec<sock_filter> {
    let lets_through = |step: &sock_filter| {
        let through = end(libc::SECCOMP_RET_ALLOW);
        (step.code, step.k) == (through.code, through.k)
    };
    let mut all: Vec<sock_filter> = Vec::new();
    for program in programs {
        let n_before = all.len();
        for (at, step) in all.iter_mut().enumerate().filter(|(_, step)| lets_through(step)) {
            *step = go_on(n_before - at - 1);
        }
        all.extend(program);
    }
    all
}

/// Which calls a filter hands to the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WatchedCalls {
    /// Whether files opened for reading are judged.
    pub(super) reads: bool,
    /// Whether Unix sockets are judged, and connections reported.
    pub(super) connections: bool,
    /// Whether owners, times and extended attributes are judged.
    pub(super) attributes: bool,
}

/// Calls that change a file by its name.
const CHANGES: &[c_long] = &[
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_truncate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
];

/// Calls that change owner, times or extended attributes of a file.
const ATTRIBUTES: &[c_long] = &[
    libc::SYS_fchownat,
    libc::SYS_fchown,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Calls that open a file, with the index of the flags argument.
const OPENS: &[(c_long, u32)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// Flags that open a file for change.
const CHANGING: i32 = libc::O_WRONLY
    | libc::O_RDWR
    | libc::O_CREAT
    | libc::O_TRUNC
    | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// Returns the filter that hands calls over. Other filters kill calls of another architecture.
pub(super) fn watching(watched: WatchedCalls) -> Vec<sock_filter> {
    let mut steps = vec![load(NUMBER)];
    let sockets: &[c_long] =
        if watched.connections { &[libc::SYS_connect, libc::SYS_bind] } else { &[] };
    let attributes = if watched.attributes { ATTRIBUTES } else { &[] };
    for &call in CHANGES.iter().chain(sockets).chain(attributes) {
        steps.push(unless(libc::BPF_JEQ, number(call), 1));
        steps.push(end(libc::SECCOMP_RET_USER_NOTIF));
    }
    if watched.connections {
        for call in [libc::SYS_socket, libc::SYS_socketpair] {
            steps.extend(datagrams(call));
        }
    }
    for &(call, flags) in OPENS {
        steps.push(unless(libc::BPF_JEQ, number(call), 6));
        steps.push(load(argument(flags)));
        // An `O_PATH` fd can neither read nor change a file.
        steps.push(unless(libc::BPF_JSET, libc::O_PATH.cast_unsigned(), 1));
        steps.push(end(libc::SECCOMP_RET_ALLOW));
        let bits = if watched.reads { 0 } else { CHANGING.cast_unsigned() };
        let test = if watched.reads { libc::BPF_JGE } else { libc::BPF_JSET };
        steps.push(unless(test, bits, 1));
        steps.push(end(libc::SECCOMP_RET_USER_NOTIF));
        steps.push(end(libc::SECCOMP_RET_ALLOW));
    }
    steps.push(end(libc::SECCOMP_RET_ALLOW));
    steps
}

/// Returns the steps that hand over calls which make a Unix datagram socket. It can send to any path by
/// `sendmsg`, whose address is in memory, which no filter reads.
fn datagrams(call: c_long) -> [sock_filter; 7] {
    // `SOCK_DGRAM` and `SOCK_RAW`, which makes the same; no other type of a Unix socket has this bit.
    const DATAGRAMS: u32 = 2;
    [
        unless(libc::BPF_JEQ, number(call), 6),
        load(argument(0)),
        unless(libc::BPF_JEQ, libc::AF_UNIX.cast_unsigned(), 3),
        load(argument(1)),
        unless(libc::BPF_JSET, DATAGRAMS, 1),
        end(libc::SECCOMP_RET_USER_NOTIF),
        end(libc::SECCOMP_RET_ALLOW),
    ]
}

/// Returns the filter that rejects the x32 numbering of system calls, which some kernels have.
#[cfg(target_arch = "x86_64")]
fn no_second_numbering() -> Option<Vec<sock_filter>> {
    const SECOND: u32 = 0x4000_0000;
    let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    Some(vec![
        load(NUMBER),
        unless(libc::BPF_JSET, SECOND, 1),
        end(unknown),
        end(libc::SECCOMP_RET_ALLOW),
    ])
}

#[cfg(not(target_arch = "x86_64"))]
fn no_second_numbering() -> Option<Vec<sock_filter>> {
    None
}

/// The offset of the call number in `seccomp_data`.
const NUMBER: u32 = 0;

/// Returns the offset of the lower half of an argument in `seccomp_data`.
fn argument(n: u32) -> u32 {
    16 + 8 * n + if cfg!(target_endian = "big") { 4 } else { 0 }
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

fn load(at: u32) -> sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, at)
}

/// Skips steps unless a test holds.
fn unless(test: u32, value: u32, n_skipped: u8) -> sock_filter {
    step(libc::BPF_JMP | test | libc::BPF_K, n_skipped, value)
}

fn go_on(n_skipped: usize) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JA, 0, u32::try_from(n_skipped).unwrap_or(u32::MAX))
}

fn end(answer: u32) -> sock_filter {
    step(libc::BPF_RET | libc::BPF_K, 0, answer)
}

fn step(code: u32, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: u16::try_from(code).unwrap_or(0), jt: 0, jf, k }
}

/// Returns the calls that are rejected by their arguments.
fn refused(closed: Closed) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    use SeccompCmpArgLen::Dword;
    let Closed { network, sockets, in_view_of_machine } = closed;
    let mut rules = BTreeMap::new();
    let clone = NAMESPACES
        .iter()
        .map(|&flag| {
            let flag = u64::from(flag.cast_unsigned());
            let set = SeccompCondition::new(0, Dword, SeccompCmpOp::MaskedEq(flag), flag)?;
            SeccompRule::new(vec![set])
        })
        .collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_clone, clone);
    // A setuid or setgid file outlives the sandbox: each user who executes it gets rights of its owner.
    for (call, mode) in SETS_MODE {
        let bits = [libc::S_ISUID, libc::S_ISGID].into_iter().map(|bit| {
            let bit = u64::from(bit);
            SeccompRule::new(vec![SeccompCondition::new(
                *mode,
                Dword,
                SeccompCmpOp::MaskedEq(bit),
                bit,
            )?])
        });
        rules.insert(*call, bits.collect::<Result<_, _>>()?);
    }
    // A datagram pair could still send to any socket path.
    if !network && sockets == Sockets::Closed {
        let kind = |kind: i32| {
            let kind = u64::from(kind.cast_unsigned());
            SeccompRule::new(vec![SeccompCondition::new(
                1,
                Dword,
                SeccompCmpOp::MaskedEq(0xf),
                kind,
            )?])
        };
        // The kernel makes the same of both.
        let datagrams = vec![kind(libc::SOCK_DGRAM)?, kind(libc::SOCK_RAW)?];
        rules.insert(libc::SYS_socketpair, datagrams);
    }
    // Limits of other processes, such as the supervisor.
    let of_others = SeccompRule::new(vec![
        SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, 0)?,
        SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?,
    ])?;
    rules.insert(libc::SYS_prlimit64, vec![of_others]);
    // Priorities of all processes of a user or group.
    let wide = [libc::PRIO_PGRP, libc::PRIO_USER].into_iter().map(|which| {
        let which = SeccompCondition::new(0, Dword, SeccompCmpOp::Eq, u64::from(which))?;
        SeccompRule::new(vec![which])
    });
    rules.insert(libc::SYS_setpriority, wide.collect::<Result<_, _>>()?);
    // Typing into the terminal of another process.
    let requests = [libc::TIOCSTI, libc::TIOCLINUX].into_iter();
    let flags = if in_view_of_machine { SETS_FLAGS } else { &[] };
    let mut ioctl = requests
        .chain(flags.iter().copied())
        .map(|request| {
            let is = SeccompCondition::new(1, Dword, SeccompCmpOp::Eq, request)?;
            SeccompRule::new(vec![is])
        })
        .collect::<Result<Vec<_>, _>>()?;
    for (kind, open) in FILE_REQUESTS.iter().filter(|_| in_view_of_machine) {
        let others = open.iter().map(|&request| (SeccompCmpOp::Ne, request));
        let of_type = [(SeccompCmpOp::MaskedEq(0xff00), *kind)].into_iter().chain(others);
        let conditions = of_type.map(|(is, value)| SeccompCondition::new(1, Dword, is, value));
        ioctl.push(SeccompRule::new(conditions.collect::<Result<_, _>>()?)?);
    }
    rules.insert(libc::SYS_ioctl, ioctl);
    let families: &[i32] = match (network, sockets) {
        (true, _) | (false, Sockets::Open) => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6],
        (false, Sockets::Closed) => &[],
    };
    let other = families
        .iter()
        .map(|&family| {
            SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, u64::from(family.cast_unsigned()))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let socket = if other.is_empty() { Vec::new() } else { vec![SeccompRule::new(other)?] };
    rules.insert(libc::SYS_socket, socket);
    Ok(rules)
}

/// Returns a filter that fails these calls with an error and allows all others.
fn program(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<Vec<sock_filter>, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let answer = SeccompAction::Errno(errno.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)
        .map_err(|error| error.to_string())?;
    let program = BpfProgram::try_from(filter).map_err(|error| error.to_string())?;
    Ok(program
        .into_iter()
        .map(|step| sock_filter { code: step.code, jt: step.jt, jf: step.jf, k: step.k })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs steps as the kernel does, for a call without arguments.
    fn answer(steps: &[sock_filter], call: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = steps[at];
            at += 1;
            match u32::from(step.code) {
                code if code == libc::BPF_RET | libc::BPF_K => return step.k,
                code if code == libc::BPF_JMP | libc::BPF_JA => at += step.k as usize,
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => {
                    at += usize::from(if loaded == step.k { step.jt } else { step.jf });
                }
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => loaded = call,
                code => panic!("{code}"),
            }
        }
    }

    #[test]
    fn joined_filters_answer_as_each_alone() {
        let one = |call: u32| {
            let refused = end(libc::SECCOMP_RET_ERRNO | call);
            let open = end(libc::SECCOMP_RET_ALLOW);
            vec![load(NUMBER), unless(libc::BPF_JEQ, call, 1), refused, open]
        };
        let all = joined(vec![one(1), one(2), one(3)]);
        for call in 0..5 {
            let refused = libc::SECCOMP_RET_ERRNO | call;
            let expected = if (1..4).contains(&call) { refused } else { libc::SECCOMP_RET_ALLOW };
            assert_eq!(answer(&all, call), expected, "{call}");
        }
    }
}
