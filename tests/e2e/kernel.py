"""Takes parts of the kernel from a process before it executes its program: what older kernels and containers lack.

A part is named by what is missing: see `MISSING`. System calls are taken by a seccomp filter that answers
with an error, views of the system by mounts in a mount namespace.
"""

import ctypes
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x0002_0000
CLONE_NEWPID = 0x2000_0000
MS_REC, MS_PRIVATE = 0x4000, 0x4_0000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
PR_SET_CHILD_SUBREAPER = 36
EPERM, ENOSYS = 1, 38

# Numbers of system calls by architecture; those from 424 on are the same everywhere.
CALLS = {
    "x86_64": {"clone": 56, "unshare": 272, "arch": 0xC000_003E},
    "aarch64": {"clone": 220, "unshare": 97, "arch": 0xC000_00B7},
}[os.uname().machine]
CLONE3, LANDLOCK_CREATE_RULESET = 435, 444

MISSING = ["PID namespaces", "Landlock", "cgroups", "processes of others in /proc", "recent kernel"]
# personality(2): has the kernel say that it is Linux 2.6.
UNAME26 = 0x0002_0000


def take_away(missing):
    """Takes parts from this process; for the child side of a fork, as root."""
    assert set(missing) <= set(MISSING), missing
    if "cgroups" in missing or "processes of others in /proc" in missing:
        check(libc.unshare(CLONE_NEWNS))
        mount(None, "/", None, MS_REC | MS_PRIVATE)
    if "cgroups" in missing:
        mount("tmpfs", "/sys/fs/cgroup", "tmpfs")
    if "processes of others in /proc" in missing:
        # What this hides is also hidden from a process of the same user where it may not be traced.
        mount("proc", "/proc", "proc", options="hidepid=2")
    if "recent kernel" in missing:
        check(libc.personality(UNAME26))
    filters = []
    if "PID namespaces" in missing:
        filters += refuse_flag(CALLS["clone"], CLONE_NEWPID) + refuse_flag(CALLS["unshare"], CLONE_NEWPID)
        filters += refuse(CLONE3, ENOSYS)
    if "Landlock" in missing:
        filters += refuse(LANDLOCK_CREATE_RULESET, ENOSYS)
    if filters:
        load_filter(filters)


def become_subreaper():
    """Has orphans below this process become its children."""
    check(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def mount(source, target, kind, flags=0, options=None):
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    check(libc.mount(*arguments, ctypes.c_ulong(flags), None if options is None else os.fsencode(options)))


# Classic BPF: code, jump if true, jump if false, operand.
def step(code, k, jt=0, jf=0):
    return struct.pack("HBBI", code, jt, jf, k & 0xFFFF_FFFF)


LOAD, IS, HAS, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF_0000, 0x0005_0000
NUMBER, FIRST_ARGUMENT = 0, 16


def refuse(call, errno):
    return [step(LOAD, NUMBER), step(IS, call, 0, 1), step(RETURN, ERRNO | errno)]


def refuse_flag(call, flag):
    return [
        step(LOAD, NUMBER), step(IS, call, 0, 3),
        step(LOAD, FIRST_ARGUMENT), step(HAS, flag, 0, 1), step(RETURN, ERRNO | EPERM),
    ]


def load_filter(steps):
    steps = steps + [step(RETURN, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0))


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "a part of the kernel cannot be taken away")
