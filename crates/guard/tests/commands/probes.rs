//! What a command tries that it must not do: each on each sandbox level, with a table of what a lower sandbox level does
//! not stop.
//!
//! A probe prints `REACHED` where it succeeds. Where nothing contains it, it must succeed, or it proves
//! nothing; where it cannot even then, as without root, it does not count there. What each sandbox level stops
//! is written into the document about the sandbox.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use rustix::fs::XattrFlags;
use sinew_guard::{Helper, SandboxLevel};

use crate::world::{Place, beside_others, works};

/// Something that a command tries.
struct Probe {
    /// What it tries, in the words of the document.
    name: &'static str,
    /// The text for the shell; names in braces stand for things of the harness.
    text: &'static str,
    /// The weakest sandbox level that stops it.
    stopped_by: SandboxLevel,
    /// A weaker sandbox level that stops it where it can make PID namespaces.
    stopped_by_pid_namespace: Option<SandboxLevel>,
}

const fn probe(name: &'static str, stopped_by: SandboxLevel, text: &'static str) -> Probe {
    Probe { name, text, stopped_by, stopped_by_pid_namespace: None }
}

use SandboxLevel::{Bubblewrap, Landlock};

const PROBES: &[Probe] = &[
    probe("read a hidden file", Landlock, "grep -q canary {out}/hidden/secret && echo REACHED"),
    probe("list a hidden directory", Landlock, "ls {out}/hidden | grep -q secret && echo REACHED"),
    probe(
        "see that a hidden file is there",
        Bubblewrap,
        "test -e {out}/hidden/secret && echo REACHED",
    ),
    probe(
        "read a file of a private directory",
        Landlock,
        "cat {out}/private/papers/canary && echo REACHED",
    ),
    probe(
        "list a private directory",
        Landlock,
        "ls {out}/private | grep -q papers && echo REACHED",
    ),
    probe(
        "see that a file of a private directory is there",
        Bubblewrap,
        "test -e {out}/private/papers/canary && echo REACHED",
    ),
    probe(
        "reach a private directory by a way around",
        Landlock,
        "cat {out}/private/tools/../papers/canary {out}/private/tools/out/canary && echo REACHED; \
         cat /proc/self/root{out}/private/papers/canary && echo REACHED; \
         ln -s {out}/private/papers p; cat p/canary && echo REACHED",
    ),
    probe(
        "create a file in a private directory",
        Landlock,
        "echo x >{out}/private/new && echo REACHED; mkdir {out}/private/d && echo REACHED; \
         echo x >>{out}/private/tools/new && echo REACHED",
    ),
    probe("read sinew's own state", Landlock, "ls {sessions} | grep -q . && echo REACHED"),
    probe(
        "change a protected name that is there",
        Landlock,
        "echo x >>.git/hooks/pre-commit && echo REACHED; echo x >>.mcp.json; touch y; \
         grep -qx x .mcp.json && echo REACHED",
    ),
    probe(
        "replace a protected name that is there",
        Landlock,
        "touch y && mv -f y .mcp.json && echo REACHED",
    ),
    probe(
        "remove a protected name that is there",
        Landlock,
        "rm -f .mcp.json; test -e .mcp.json || echo REACHED",
    ),
    probe(
        "make a protected name that is missing",
        Landlock,
        "mkdir .vscode; echo x >.vscode/tasks.json; echo x >.envrc; touch y; \
         cat .vscode/tasks.json .envrc && echo REACHED",
    ),
    probe(
        "make a protected name deep in a root",
        Landlock,
        "mkdir -p a/b/.git/hooks && echo x >a/b/.git/hooks/pre-commit && echo REACHED; \
         echo x >a/b/.mcp.json; touch y; cat a/b/.mcp.json && echo REACHED",
    ),
    probe(
        "make a protected name in other letters",
        Landlock,
        "echo x >.ENVRC; mkdir .VSCode; echo x >.VSCode/tasks.json; touch y; \
         cat .ENVRC .VSCode/tasks.json && echo REACHED",
    ),
    probe(
        "give a protected name to a file",
        Landlock,
        "echo x >y; mv y .envrc && echo REACHED; ln z .envrc 2>/dev/null; echo x >z; \
         ln z .envrc && echo REACHED; ln -s z .bashrc && echo REACHED",
    ),
    probe(
        "change a protected name by another",
        Landlock,
        "ln .mcp.json other && echo x >>other && echo REACHED",
    ),
    probe(
        "change a protected name through a link",
        Landlock,
        "ln -s .git/hooks h; echo x >h/post-commit && echo REACHED",
    ),
    probe(
        "move a directory over a protected name",
        Landlock,
        "mkdir g; echo x >g/config; mv .git old; mv -T g .git && cat .git/config && echo REACHED",
    ),
    probe(
        "link a directory to a protected name",
        Landlock,
        "mkdir c g; echo x >g/config; ln -s ../g c/.git && echo REACHED; \
         echo 'gitdir: /tmp' >g/.git; touch y; \
         cat g/.git && echo REACHED",
    ),
    probe(
        "move a protected name out of a cache of tools",
        Landlock,
        "mkdir -p target/p/.git/hooks && echo x >target/p/.git/hooks/pre-commit; mv target/p . && \
         test -e p/.git/hooks/pre-commit && echo REACHED",
    ),
    probe(
        "change a protected name by its number",
        Landlock,
        "exec 3<.mcp.json; echo x >/proc/self/fd/3 && echo REACHED",
    ),
    probe(
        "make a protected name in a race",
        Landlock,
        r#"perl -e '
            mkdir "gg"; symlink "gg", "w"; my $k = fork;
            while (!$k) { symlink ".git", "t"; rename "t", "w"; symlink "gg", "t"; rename "t", "w" }
            for (1 .. 3000) { open(F, ">", "w/config.worktree") and close F }
            kill 9, $k; print "REACHED" if -e ".git/config.worktree"'"#,
    ),
    probe(
        "lead git to another repository",
        Landlock,
        "mkdir evil; echo ../evil >.git/commondir; touch y; cat .git/commondir && echo REACHED",
    ),
    probe(
        "move a protected name into a cache of tools",
        Landlock,
        "mv proj build; echo x >>build/.git/hooks/pre-commit; mv build proj; \
         grep -q x proj/.git/hooks/pre-commit && echo REACHED",
    ),
    probe(
        "let a protected name be executed",
        Landlock,
        "chmod 755 proj/.git/hooks/pre-commit && echo REACHED",
    ),
    probe(
        "give a protected name to a socket",
        Landlock,
        r#"perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) or exit; bind(S, sockaddr_un(".envrc")) and print "REACHED"'"#,
    ),
    probe(
        "leave a file that gives its user's rights away",
        Landlock,
        "cp /bin/true s; chmod 4755 s; test -u s && echo REACHED",
    ),
    probe(
        "open what a path glob denies after its place moved",
        Landlock,
        "mv deep d2; cat d2/secrets/key && echo REACHED",
    ),
    probe(
        "open what a path glob denies",
        Landlock,
        "cat denied/secret && echo REACHED; ln denied/secret s && cat s && echo REACHED; \
         mv denied open && cat open/secret && echo REACHED",
    ),
    probe(
        "reach into its supervisor",
        Landlock,
        r#"K=$PPID perl -e 'open(M, "+<", "/proc/$ENV{K}/mem") and print "REACHED"';
           head -c 1 </proc/$PPID/environ && echo REACHED"#,
    ),
    probe("write a file outside the roots", Landlock, "echo x >>{out}/file && echo REACHED"),
    probe("create a file outside the roots", Landlock, "touch {out}/new && echo REACHED"),
    probe("remove a file outside the roots", Landlock, "rm -f {out}/file2 && echo REACHED"),
    probe(
        "move a file out of the roots",
        Landlock,
        "touch m; mv -n m {out}/moved && test -e {out}/moved && echo REACHED",
    ),
    probe("change the mode of a file outside", Landlock, "chmod 600 {out}/file && echo REACHED"),
    probe(
        "change the times of a file outside",
        Landlock,
        "touch -d 2001-01-01 {out}/file && echo REACHED",
    ),
    probe(
        "set an attribute of a file outside",
        Landlock,
        r#"perl -e '($p, $n, $v) = ("{out}/file", "user.x", "y"); syscall({setxattr}, $p, $n, $v, 1, 0) == 0 and print "REACHED"'"#,
    ),
    probe(
        "remove an attribute of a file outside",
        Landlock,
        r#"perl -e '($p, $n) = ("{out}/file2", "user.x"); syscall({removexattr}, $p, $n) == 0 and print "REACHED"'"#,
    ),
    probe(
        "change the owner of a file outside",
        Landlock,
        r#"perl -e 'chown $<, int $(, "{out}/file" and print "REACHED";
           open(F, "<", "{out}/file"); chown $<, int $(, *F and print "REACHED"'"#,
    ),
    probe(
        "change the times of a file outside by its number",
        Landlock,
        r#"perl -e 'open(F, "<", "{out}/file"); utime 1, 1, *F and print "REACHED"'"#,
    ),
    probe(
        "change the owner of a link outside",
        Landlock,
        "chown -h $(id -u) {out}/link && echo REACHED",
    ),
    probe(
        "change the flags of a file outside",
        Landlock,
        r#"perl -e 'open(F, "<", "{out}/file"); $f = pack "Q", 0; ioctl(F, 0x80086601, $f) or exit; $f = pack "Q", unpack("Q", $f) | 0x40; ioctl(F, 0x40086602, $f) and print "REACHED"'"#,
    ),
    probe(
        "write through a hard link made inside",
        Landlock,
        "ln {out}/file l && echo x >>l && echo REACHED",
    ),
    probe(
        "write through a symbolic link made inside",
        Landlock,
        "ln -s {out}/file s; echo x >>s && echo REACHED",
    ),
    probe(
        "use the machine's temporary files",
        Landlock,
        "ls {top} | grep -q root && test -w {top}/beside && echo x >{top}/beside && echo REACHED",
    ),
    probe(
        "reach a server of this machine",
        Landlock,
        r#"perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0) or exit; connect(S, sockaddr_in({tcp}, INADDR_LOOPBACK)) and print "REACHED"'"#,
    ),
    probe(
        "send a datagram",
        Landlock,
        r#"perl -MSocket -e 'socket(S, PF_INET, SOCK_DGRAM, 0) or exit; send(S, "x", 0, sockaddr_in({udp}, INADDR_LOOPBACK)); print "SENT"'"#,
    ),
    probe(
        "reach a socket with a path",
        Landlock,
        r#"perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) or exit; connect(S, sockaddr_un("{top}/socket")) and print "REACHED"'"#,
    ),
    probe(
        "send to a socket with a path",
        Landlock,
        r#"perl -MSocket -e 'socketpair(A, B, PF_UNIX, SOCK_DGRAM, 0) or exit; send(A, "x", 0, sockaddr_un("{top}/datagrams")) and print "REACHED"'"#,
    ),
    probe(
        "reach a program outside by its socket in a root",
        Landlock,
        r#"perl -MSocket -e 'for $path ("served", "served2") { socket(S, PF_UNIX, SOCK_STREAM, 0) or exit; connect(S, sockaddr_un($path)) and print "REACHED"; rename "served", "served2" }'"#,
    ),
    // The number stands for another socket in the table of the thread that calls.
    probe(
        "reach a program outside by a socket of one thread alone",
        Landlock,
        r#"python3 -c '
import ctypes, os, socket, struct, threading
libc, address = ctypes.CDLL(None), struct.pack("H108s", 1, b"served")
inet, unix = socket.socket(), socket.socket(socket.AF_UNIX)
os.dup2(inet.fileno(), 50)
def reach():
    libc.close_range(1000, 1000, 2)
    os.dup2(unix.fileno(), 50)
    if libc.connect(50, address, len(address)) == 0: print("REACHED")
thread = threading.Thread(target=reach); thread.start(); thread.join()'"#,
    ),
    // The number stands for another socket when the kernel looks.
    probe(
        "reach a program outside by another socket at the same number",
        Landlock,
        r#"python3 -c '
import ctypes, os, socket, struct, threading, time
libc, address = ctypes.CDLL(None), struct.pack("H108s", 1, b"served")
inet, unix = socket.socket(), socket.socket(socket.AF_UNIX)
until = time.time() + 2
def change():
    while time.time() < until:
        for one in (unix, inet): os.dup2(one.fileno(), 50)
threading.Thread(target=change, daemon=True).start()
while time.time() < until:
    if libc.connect(50, address, len(address)) == 0: print("REACHED", flush=True); os._exit(0)'"#,
    ),
    probe(
        "send to a program outside by its socket in a root",
        Landlock,
        r#"perl -MSocket -e 'for $type (SOCK_DGRAM, SOCK_RAW) {
           socket(S, PF_UNIX, $type, 0) and send(S, "x", 0, sockaddr_un("heard")) and print "REACHED";
           socketpair(A, B, PF_UNIX, $type, 0) and send(A, "x", 0, sockaddr_un("heard")) and print "REACHED" }'"#,
    ),
    probe(
        "limit what watches it",
        Landlock,
        "prlimit --pid $PPID --nofile=900:900 2>/dev/null && echo REACHED",
    ),
    probe(
        "use the machine's shared memory",
        Landlock,
        "echo x >>{shm}; grep -q old {shm} && grep -q x {shm} && echo REACHED",
    ),
    probe(
        "reach a socket that came later",
        Landlock,
        r#"perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) or exit; connect(S, sockaddr_un("{top}/later")) and print "REACHED"'"#,
    ),
    probe(
        "reach a socket without a path",
        Landlock,
        r#"perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) or exit; connect(S, pack("S a*", AF_UNIX, "\0{abstract}")) and print "REACHED"'"#,
    ),
    probe("listen to the kernel", Landlock, r#"perl -e 'socket(S, 16, 3, 0) and print "REACHED"'"#),
    probe("signal sinew", Landlock, "kill -0 {pid} && echo REACHED"),
    probe(
        "read sinew's environment",
        Landlock,
        "tr '\\0' ' ' </proc/{pid}/environ | grep -q PATH= && echo REACHED",
    ),
    Probe {
        stopped_by_pid_namespace: Some(Landlock),
        ..probe(
            "see other processes",
            Bubblewrap,
            "test -e /proc/{pid}/status && grep -q Name /proc/{pid}/status && echo REACHED",
        )
    },
    probe(
        "trace a process",
        Landlock,
        r#"perl -e 'syscall({ptrace}, 0, 0, 0, 0) == 0 and print "REACHED"'"#,
    ),
    probe(
        "make calls past the filter",
        Landlock,
        r#"perl -e '$p = "\0" x 120; syscall({io_uring_setup}, 1, $p) < 0 and $!{ENOSYS} or print "REACHED"'"#,
    ),
    probe(
        "load code into the kernel",
        Landlock,
        r#"perl -e 'syscall({bpf}, 99, 0, 0); $!{ENOSYS} or print "REACHED"'"#,
    ),
    probe(
        "handle page faults",
        Landlock,
        r#"perl -e 'syscall({userfaultfd}, 1) < 0 and $!{ENOSYS} or print "REACHED"'"#,
    ),
    probe(
        "use the kernel's key rings",
        Landlock,
        r#"perl -e 'syscall({keyctl}, 0, -3, 0) < 0 and $!{ENOSYS} or print "REACHED"'"#,
    ),
    probe(
        "make namespaces",
        Landlock,
        r#"perl -e 'syscall({unshare}, 0x10000000) == 0 and print "REACHED"'"#,
    ),
    probe(
        "gain rights by a program",
        Landlock,
        "grep -q 'NoNewPrivs:.0' /proc/self/status && echo REACHED",
    ),
    probe(
        "open the machine's disk",
        Landlock,
        "head -c 1 /dev/vda >/dev/null 2>&1 && echo REACHED",
    ),
    probe(
        "use rights of root",
        Landlock,
        "grep -q 'CapEff:.0*1ff' /proc/self/status && echo REACHED",
    ),
];

/// The page before its table.
const PAGE: &str = "\
# How commands are contained

This page is generated by the test that tries all of it (`crates/guard/tests/commands/probes.rs`).

A command runs on the strongest sandbox level that works on the machine, and every reply says which that was.
`sinew doctor` says what keeps a machine from a higher one. `run.sandbox` names one level,
`run.require_sandbox` or `--require-sandbox` the weakest that is good enough.

- **namespaces**: users, mounts, processes, a network and System V objects of the session's own, and
  beneath them both walls of the next level. The roots can be written; the rest of the system can be read
  and not changed. `/tmp`, `/dev` and `/run` are the session's own, secrets and sinew's own state are
  not there, and what tools write to their caches in the home directory stays with the session, but for downloads that
  `run.caches = \"project\"` keeps.
- **bubblewrap**: the same view, made once for a session by the program of that name (`bwrap`), where the
  system lets it make namespaces and not sinew. The commands of a session see one another's processes,
  and caches of tools cannot be written. Taken only where `run.sandbox` says so.
- **landlock**: rules of the kernel on files and a filter of system calls, in the machine's own view. The
  directories on the way to a hidden one can be passed and not listed. Temporary files go where
  `TMPDIR` says, and memory that is shared by name is the session's own, where it is opened for writing:
  programs that open such a name only to read it do not find it. There are no sockets but pairs, and
  caches of tools cannot be written.
- **none**: commands can do what sinew can do. They are still killed with all that they started, unless they
  kill their own supervisors, and get the same environment, no terminal and no descriptors. In a cgroup,
  processes that such a command leaves are killed by the next session on this level that sinew starts there.

A root below a directory that is the session's own, such as `/tmp/a/b`, is there at its path. What is between, here `/tmp/a`,
is empty but for roots and cannot be changed, since a command that moved it would take the root to where rules by path miss it.

**Private directories** are `/home`, `/root`, `/Users`, `/mnt`, `/media`, `/run/media` and the home directory. Commands see
of them the roots and the repositories around them, toolchains and caches of tools, programs in `PATH`, configuration
without secrets such as that of git with the files that it includes, and what `run.show` lists. They can change none of it
but the roots. A reply names private paths that a command complains of.

Everything that a command starts ends with it: at the end of the command, of its time, or of the session.
One system call kills all of it where the level has one of these, tried in this order:

1. A PID namespace for each command: on namespaces and bubblewrap, and on landlock where sinew runs as root.
2. A Landlock domain that keeps signals inside (Linux 6.12 or later).
3. A cgroup for each command that sinew may make: version 2 (Linux 5.14 or later), or the `pids` controller of
   version 1. Level none always needs it, since its commands are in neither of the first two.

Without all of them the supervisor kills the processes one by one, as the lists of children in `/proc` show
them (`CONFIG_PROC_CHILDREN`, which distributions set), and bounds them at 128 for each processor of an
ordinary user. A kernel without these lists is named by `sinew doctor` (`lists of processes`): there only the
process group of a command is killed. What a supervisor could not kill in 2 seconds is reported as perhaps still
running.

`run.max_processes` bounds the processes of a command: by its PID namespace (Linux 6.14 or later), by a
pids cgroup, or by `RLIMIT_NPROC`, which counts all processes of the user. Root is exempt from `RLIMIT_NPROC`:
as root, without such a namespace and without a pids cgroup, **nothing bounds them**. `sinew doctor` then says
`bound of processes`. A command whose supervisor may not run before other processes has at most 512 for each
processor, even if the key says more. That takes `CAP_SYS_NICE` or `RLIMIT_RTPRIO`, which ordinary users, many
containers and, as root too, the levels namespaces and bubblewrap do not have. Bounds by `RLIMIT_NPROC` are counted
from the processes that the user has when the session starts, and all later ones of the user share them.

A command that uses too much is ended, and the reply says of what. Its processes together hold at most
`run.max_command_memory_mib` of memory, by default seven eighths of that of the machine or container: their own pages
and their part of shared ones, swapped out or not. Not counted are cached files and shared memory whose pages no process
has in its memory now, such as files in `/dev/shm` (on namespaces a quarter of the memory, with `/run` a twentieth) and what a
`memfd` holds. And it leaves `run.min_free_disk_mib` (512 MiB) free on the disks of the roots and of temporary
files, or half of what was free when its session began. sinew looks four times a second, first after a quarter of one, more
often at a command that holds half of its bound, and once a second at one with very many processes. A command that ends before may have filled a disk; then the reply says so. One that runs
while another program fills a disk is ended too if it began before. Disks of other machines (NFS, SMB, FUSE and the like) do not count,
since they may not answer, and MCP servers have no such bounds. Commands run with a niceness 5 above that of sinew and,
when memory runs out, are ended before it (`oom_score_adj` 500).

Unix sockets: a command connects only to those with a path that a process of the same session bound, whatever
they are called now; elsewhere it is told that the connection was refused. Unix datagram sockets, pairs too,
cannot be made. Sockets without a path (abstract ones) connect within one command only.

On the levels above none, system calls that change something by its name are carried out by a process beside the command,
which judges where the name really is and, for names that programs outside act on, what it will hold:

- **Configuration of git** (`.git/config`, that of working trees, submodules, bare repositories, and `.gitmodules`) is
  judged where git renames it into place. A command may set, change and remove the keys of a list
  (`crates/policy/src/git_config/keys.rs`) to values that execute nothing; every other entry stays as it was when
  the session began. It cannot give a remote that was there another address.
- **Hooks** of a repository: only samples. A directory becomes a repository only if its configuration and hooks pass.
- **What leads git elsewhere** (`.git` as a file, `gitdir`, `commondir`, `objects/info/alternates`) stays inside
  the roots, and a rebase that the user may continue holds no step that executes or stops.
- **What other machines execute** (workflows and pipelines of CI) can be changed, and the reply names it.
- **What programs here execute or obey** (`.envrc`, `.vscode/`, `.mcp.json`, `CLAUDE.md` and the like) gets only
  content that the repository held when the session began, or the local one that it was cloned from: a checkout works. The
  reply names it. Where no repository is left, such files can be removed.

A file that is written under such a name appears there once no process has it open and its content is judged: at the next
call that changes something, or at the end of the command. A program that looks for it before, as `git am` does, finds
nothing. The steps of a rebase are written in place, and those that execute are taken out at the same moments. Each refusal makes the reply a failure, even if the
command ends with 0. Names in directories that tools fill with other people's files (`node_modules`, `target`,
`vendor` and the like) are left alone. `run.unprotected` lists names that commands may change as they like, and a command whose
text names one asks: once it is allowed, it may change that one ([SECURITY.md](../SECURITY.md)). The same process keeps files closed that `tools.fs.deny_paths` denies; their names can still be seen.

| a command cannot | namespaces | bubblewrap | landlock | none |
|---|---|---|---|---|
";

/// Returns a trial for the whole table: its rows are compared with one another.
pub(crate) fn trials(helper: &Helper) -> Vec<Trial> {
    let helper = helper.clone();
    let together = helper.clone();
    vec![
        Trial::test("probes: each sandbox level stops what it should", move || {
            let _turn = beside_others();
            check(&helper)
        }),
        Trial::test("probes: two commands plant nothing together", move || {
            let _turn = beside_others();
            race(&together)
        }),
    ]
}

/// How long two commands try.
const RACE: &str = "2";

/// One command makes a name now a file, now a directory; the other moves it to a place that only a file
/// may have. Where nothing contains them they succeed at once.
fn race(helper: &Helper) -> Result<(), Failed> {
    const SWAP: &str = r#"perl -e 'mkdir "a"; mkdir "a/d"; mkdir "a/d/workflows"; open(F, ">", "a/d/workflows/evil.yml"); close F;
        open(F, ">", "a/f"); close F; $until = time + {time} + 1; ($d, $f) = ("a/d", "a/f");
        while (time < $until) { syscall({renameat2}, -100, $d, -100, $f, 2) }'"#;
    const MOVE: &str = r#"perl -e '$until = time + {time};
        while (time < $until) { rename "a/f", ".github"; -d ".github" and last; unlink ".github"; open(F, ">>", "a/f"); close F }
        print "REACHED" if -e ".github/workflows/evil.yml"'"#;
    let fill = |text: &str| {
        text.replace("{time}", RACE).replace("{renameat2}", &libc::SYS_renameat2.to_string())
    };
    for level in SandboxLevel::ALL.into_iter().filter(|&level| works(helper, level)) {
        let place = Place::new(helper, level);
        let long = Duration::from_secs(20);
        let output = std::thread::scope(|scope| {
            scope.spawn(|| place.run_unseen(&fill(SWAP), long));
            std::thread::sleep(Duration::from_millis(200));
            place.run_unseen(&fill(MOVE), long).map(|done| done.merged.head)
        });
        let output = output.map_err(|error| format!("{error:?}"))?;
        let reached = String::from_utf8_lossy(&output).contains("REACHED");
        if reached != (level == SandboxLevel::None) {
            return Err(format!("on {level}: {}", String::from_utf8_lossy(&output)).into());
        }
    }
    Ok(())
}

fn check(helper: &Helper) -> Result<(), Failed> {
    let mut problems = Vec::new();
    let mut page = String::from(PAGE);
    for probe in PROBES {
        let tried = SandboxLevel::ALL.iter().map(|&level| match works(helper, level) {
            true => reached(probe, helper, level).map(Some),
            false => Ok(None),
        });
        let reached: Vec<Option<bool>> = tried.collect::<Result<_, _>>()?;
        let counts = reached.last() == Some(&Some(true));
        if !counts {
            println!("SKIPPED: nobody can {} here", probe.name);
        }
        let mut row = format!("| {} |", probe.name);
        for (&level, reached) in SandboxLevel::ALL.iter().zip(&reached) {
            let stops = probe.stopped_by <= level;
            let may_stop = probe.stopped_by_pid_namespace == Some(level);
            if stops && *reached == Some(true) {
                problems.push(format!("on {level} a command can {}", probe.name));
            }
            if !stops && !may_stop && *reached == Some(false) && counts {
                problems.push(format!(
                    "on {level} a command cannot {}, and the table says it can",
                    probe.name
                ));
            }
            let cell = match (stops, may_stop) {
                (true, _) => "yes",
                (false, true) => "as root",
                (false, false) => "no",
            };
            let _ = write!(row, " {cell} |");
        }
        page.push_str(&row);
        page.push('\n');
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sandbox.md");
    // Another user has no sources.
    if path.parent().is_some_and(Path::is_dir) {
        sinew_testkit::golden(&path, &page);
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// Returns whether a probe succeeds on a sandbox level.
fn reached(probe: &Probe, helper: &Helper, level: SandboxLevel) -> Result<bool, Failed> {
    let place = Place::judging_reads(helper, level);
    let outside = Outside::new(&place)?;
    let text = outside.fill(probe.text, &place);
    // Sockets that existed when the session began are hidden; this one came later.
    place.sh("true");
    let _later = UnixListener::bind(place.top().join("later"))?;
    let done =
        place.run_unseen(&text, Duration::from_secs(10)).map_err(|error| format!("{error:?}"))?;
    let output = String::from_utf8_lossy(&done.merged.head).into_owned();
    Ok(output.contains("REACHED") || (output.contains("SENT") && outside.got_datagram()))
}

/// Makes a private directory: `tools`, `conf` and `link` of it are shown, `papers` is not.
pub(crate) fn make_private(outside: &Path) -> io::Result<()> {
    let private = outside.join("private");
    for name in ["papers", "tools"] {
        fs::create_dir_all(private.join(name))?;
    }
    fs::write(private.join("papers/canary"), "canary")?;
    fs::write(private.join("tools/tool"), "tool")?;
    fs::write(private.join("conf"), "conf")?;
    fs::write(outside.join("beyond"), "beyond")?;
    symlink("../papers", private.join("tools/out"))?;
    symlink("../beyond", private.join("link"))
}

/// What lies outside the sandbox.
struct Outside {
    dir: PathBuf,
    tcp: TcpListener,
    udp: UdpSocket,
    name: String,
    _datagrams: [UnixDatagram; 2],
    shm: tempfile::NamedTempFile,
    _sockets: [UnixListener; 3],
}

impl Outside {
    fn new(place: &Place) -> Result<Self, Failed> {
        let dir = place.outside.clone();
        fs::create_dir(dir.join("hidden"))?;
        fs::write(dir.join("hidden/secret"), "canary")?;
        make_private(&dir)?;
        fs::create_dir_all(place.root.join(".git/hooks"))?;
        fs::write(place.root.join(".git/hooks/pre-commit"), "old")?;
        fs::write(place.root.join(".mcp.json"), "old")?;
        fs::create_dir_all(place.root.join("proj/.git/hooks"))?;
        fs::write(place.root.join("proj/.git/hooks/pre-commit"), "old")?;
        fs::create_dir_all(place.root.join("deep/secrets"))?;
        fs::write(place.root.join("deep/secrets/key"), "canary")?;
        fs::create_dir(place.root.join("denied"))?;
        fs::write(place.root.join("denied/secret"), "canary")?;
        for name in ["file", "file2"] {
            fs::write(dir.join(name), "old")?;
        }
        // Not every file system has attributes that its user may name.
        let _ = rustix::fs::setxattr(dir.join("file2"), "user.x", b"y", XattrFlags::empty());
        std::os::unix::fs::symlink("file", dir.join("link"))?;
        let top = place.top();
        fs::write(top.join("beside"), "")?;
        let name = format!("sinew-test-{}-{}", std::process::id(), crate::hazards::number());
        let shm = tempfile::NamedTempFile::new_in("/dev/shm")?;
        fs::write(shm.path(), "old\n")?;
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        udp.set_read_timeout(Some(Duration::from_millis(100)))?;
        Ok(Self {
            dir,
            tcp: TcpListener::bind("127.0.0.1:0")?,
            udp,
            _datagrams: [
                UnixDatagram::bind(top.join("datagrams"))?,
                UnixDatagram::bind(place.root.join("heard"))?,
            ],
            shm,
            _sockets: [
                UnixListener::bind(top.join("socket"))?,
                UnixListener::bind(place.root.join("served"))?,
                UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?,
            ],
            name,
        })
    }

    fn got_datagram(&self) -> bool {
        self.udp.recv(&mut [0; 8]).is_ok()
    }

    /// Puts the things of the harness into a text.
    fn fill(&self, text: &str, place: &Place) -> String {
        let port = |address: std::io::Result<std::net::SocketAddr>| {
            address.map_or(0, |address| address.port()).to_string()
        };
        let shown = |path: &Path| path.display().to_string();
        let mut text = text.to_owned();
        for (name, value) in [
            ("{out}", shown(&self.dir)),
            ("{top}", shown(place.top())),
            ("{sessions}", shown(&place.top().join("sessions"))),
            ("{tcp}", port(self.tcp.local_addr())),
            ("{udp}", port(self.udp.local_addr())),
            ("{abstract}", self.name.clone()),
            ("{shm}", shown(self.shm.path())),
            ("{pid}", std::process::id().to_string()),
            ("{setxattr}", libc::SYS_setxattr.to_string()),
            ("{removexattr}", libc::SYS_removexattr.to_string()),
            ("{ptrace}", libc::SYS_ptrace.to_string()),
            ("{io_uring_setup}", libc::SYS_io_uring_setup.to_string()),
            ("{bpf}", libc::SYS_bpf.to_string()),
            ("{userfaultfd}", libc::SYS_userfaultfd.to_string()),
            ("{keyctl}", libc::SYS_keyctl.to_string()),
            ("{unshare}", libc::SYS_unshare.to_string()),
        ] {
            text = text.replace(name, &value);
        }
        text
    }
}
