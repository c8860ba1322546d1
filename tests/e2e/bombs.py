"""Fork bombs and survivors on every sandbox level: the process count is bounded, and all of them are killed in time.

By default a few cases of each level run. SINEW_BOMB_ROUNDS runs all of them, each as often as it says, and
SINEW_BOMB_SHOW prints the answers of the calls. The names of levels as arguments leave the others out.

Each case runs inside a pids cgroup of its own, which holds more processes than the limit of sinew, so that
limit must hold by itself. Without such a cgroup the whole suite is skipped. A plain
spawn that kills only the shell is the control: it must leave processes behind.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import checks
import kernel
from checks import Skip, check, true

MAX_IN_CGROUP = 6_500
MAX_PROCESSES = 4_096
# sinew, its fork server and supervisors, and what the kernel counts while processes end.
OWN_PROCESSES = 64
TIME_LIMIT = 1.5
# Of a command that starts a few processes and then waits.
SHORT_TIME_LIMIT = 0.7
MAX_OVER = 2.0
# A bound of memory that the machine exceeds and a bomb does not.
LOW_MEMORY_MIB = 400
NOBODY = 65_534
LEVELS = ["namespaces", "bubblewrap", "landlock", "none"]
ROUNDS = int(os.environ.get("SINEW_BOMB_ROUNDS", "0"))
# How many processes for each processor a command has whose supervisor has no larger share of them, and one whose
# processes are killed one by one.
MAX_EQUAL, MAX_LISTED = 512, 128

BOMBS = {
    "pipes in the background": "b(){ b|b& };b; sleep 60",
    "a session for each": """cat >b <<'END'
#!/bin/sh
setsid ./b & setsid ./b & sleep 60
END
chmod +x b; ./b""",
    "double forks": """perl -MPOSIX -e 'for (;;) { my $c = fork; if (defined $c && !$c) { setsid; fork and exit } }'""",
    "every signal ignored": """perl -e '$SIG{$_} = "IGNORE" for qw(TERM INT HUP QUIT USR1 USR2 TSTP TTIN TTOU ALRM); fork while 1'""",
    "parents that exit at once": """perl -MPOSIX -e 'fork for 1..7; for (;;) { my $c = fork; if (defined $c) { if ($c) { POSIX::_exit(0) } else { setsid } } }' & sleep 60""",
}
HIDES = "processes that hide from each other"
PRCTL = "157" if os.uname().machine == "x86_64" else "167"
# With `PR_SET_DUMPABLE` off, `hidepid` hides a process from others of its user as well.
HIDDEN_BOMB = {HIDES: """perl -MPOSIX -e 'syscall(PRCTL, 4, 0, 0, 0, 0); for (;;) { my $c = fork; if (defined $c && !$c) { syscall(PRCTL, 4, 0, 0, 0, 0); setsid; fork and exit } }'""".replace("PRCTL", PRCTL)}
KILLS_ALL = "a command that kills all it can reach"
# Cases of a run without rounds.
FEW = ["double forks", "a session for each", "a daemon", "many orphans"]
ORPHANS = "many orphans"
SURVIVORS = {
    "setsid": "setsid sleep 99 & sleep 60",
    "a daemon": """perl -MPOSIX -e 'fork and exit; setsid; fork and exit; close STDIN; close STDOUT; close STDERR; sleep 99'; sleep 60""",
    "signals ignored": """perl -e '$SIG{$_} = "IGNORE" for qw(TERM INT HUP QUIT); fork; sleep 1 while 1'""",
    "a stopped process": """setsid sh -c 'kill -STOP $$; sleep 99' & sleep 60""",
    "a process that starts itself again on a signal": """perl -e 'sub again { fork and exit 0 } $SIG{$_} = \\&again for qw(TERM HUP INT); sleep 1 while 1'""",
    KILLS_ALL: "setsid sleep 99 & kill -9 -1; sleep 60",
    # Orphans that have ended count against the limit until they are waited for, so there are more than it holds.
    ORPHANS: """i=0; while [ $i -lt N_ORPHANS ]; do (true &); i=$((i+1)); done; echo all""",
    "a command that ends before its children": """perl -MPOSIX -e 'for (1..50) { fork or do { setsid; fork; sleep 99 } }'""",
}


class Cgroup:
    """A pids cgroup of version 1 or 2 beneath the one of this process."""

    def __init__(self, name, limit):
        self.path = pids_directory() / f"e2e-{os.getpid()}-{name}"
        self.path.mkdir()
        (self.path / "pids.max").write_text(str(limit))

    def join(self):
        (self.path / "cgroup.procs").write_text("0")

    def count(self):
        return int((self.path / "pids.current").read_text())

    def hits(self):
        """Returns how often the limit of this cgroup refused a process."""
        return int((self.path / "pids.events").read_text().split()[1])

    def all(self):
        """Returns this cgroup and those below it, the lowest first."""
        found = [Path(place) for place, _, _ in os.walk(self.path, topdown=False)]
        return found

    def members(self):
        """Returns the processes of this cgroup and of those that sinew made below it."""
        found = []
        for place in self.all():
            with contextlib.suppress(OSError):
                found += [int(number) for number in (place / "cgroup.procs").read_text().split()]
        return found

    def remove(self):
        """Kills what is left, and removes the cgroup."""
        (self.path / "pids.max").write_text("0")
        for _ in range(1000):
            for number in self.members():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            reap_orphans()
            for place in self.all():
                with contextlib.suppress(OSError):
                    place.rmdir()
            if not self.path.exists():
                return
            time.sleep(0.01)
        raise AssertionError(f"{self.path} cannot be removed")


def pids_directory():
    """Returns the cgroup of this process in the hierarchy that counts processes."""
    own = dict(
        (controllers, path)
        for _, controllers, path in (
            row.split(":", 2) for row in Path("/proc/self/cgroup").read_text().splitlines()
        )
    )
    for row in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = row.partition(" - ")
        kind, _, options = after.split(" ", 2)
        mount = Path(before.split()[4])
        if kind == "cgroup" and "pids" in options.split(" ")[-1].split(","):
            return mount / own.get("pids", "/").lstrip("/")
        if kind == "cgroup2":
            found = mount / own.get("", "/").lstrip("/")
            if "pids" in (found / "cgroup.subtree_control").read_text().split():
                return found
    raise Skip("no pids cgroup can be made here")


def demote(user):
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


def environment(home):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return {**kept, "HOME": str(home)}


class Place:
    """A root and a home of one user, and what the command line of sinew is there."""

    def __init__(self, directory, level, user, missing=(), max_memory_mib=None):
        self.user = user
        self.max_memory_mib = max_memory_mib
        self.missing = missing
        self.root, self.home = directory / "root", directory / "home"
        for made in (self.root, self.home):
            made.mkdir(parents=True)
            os.chown(made, user, user)
        (self.home / ".config/sinew").mkdir(parents=True)
        (self.home / ".config/sinew/config.toml").write_text("")
        for at in [self.home / ".config", self.home / ".config/sinew"]:
            os.chown(at, user, user)
        self.level = level

    started = []

    def start(self, cgroup, text, time_limit):
        arguments = {"command": text, "timeout": int(time_limit * 1000)}
        config = self.home / ".config/sinew/config.toml"
        memory = "" if self.max_memory_mib is None else f"max_command_memory_mib = {self.max_memory_mib}\n"
        config.write_text(f'[run]\nsandbox = "{self.level}"\nmax_processes = {MAX_PROCESSES}\n{memory}')
        def prepare():
            cgroup.join()
            kernel.take_away(self.missing)
            demote(self.user)
        process = subprocess.Popen(
            [os.environ["SINEW_BOMB_BIN"], "--root", self.root, "--approvals", "allow",
             "--dialect", "native", "call", "Bash", json.dumps(arguments), "--json"],
            cwd=self.root, env=environment(self.home), preexec_fn=prepare,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        Place.started = [process]
        return process


def run_case(place, name, text, time_limit=TIME_LIMIT):
    """Runs one command under a time limit; returns what was seen of its processes."""
    cgroup = Cgroup("case", MAX_IN_CGROUP)
    peak, slowest, gone_at = 0, 0.0, None
    try:
        began = time.monotonic()
        process = place.start(cgroup, text, time_limit)
        deadline = began + time_limit + 12
        while time.monotonic() < deadline:
            before = time.monotonic()
            process.poll()
            reap_orphans()
            count = cgroup.count()
            peak = max(peak, count)
            if count == 0:
                gone_at = time.monotonic()
                break
            time.sleep(0.01)
            slowest = max(slowest, time.monotonic() - before)
        hits = cgroup.hits()
        left = cgroup.count()
    finally:
        cgroup.remove()
    out, errors = process.communicate(timeout=20)
    over = None if gone_at is None else gone_at - began - time_limit
    return {"peak": peak, "over": over, "left": left, "hits": hits, "slowest": slowest,
            "code": process.returncode, "out": out.decode(errors="replace"), "errors": errors.decode(errors="replace")}


def reap_orphans():
    """Waits for orphans that fell to this process: an unreaped process counts as one that is left."""
    with contextlib.suppress(ChildProcessError):
        while True:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None or found.si_pid in subprocess_pids():
                return
            os.waitpid(found.si_pid, 0)


def subprocess_pids():
    return {started.pid for started in Place.started}


def max_processes(level, user, missing=()):
    """Returns how many processes a command has on a level."""
    n_processors = len(os.sched_getaffinity(0))
    makes_pid_namespace = level in ("namespaces", "bubblewrap") and "PID namespaces" not in missing
    # A user namespace takes the privilege to run first away.
    if user == 0 and level not in ("namespaces", "bubblewrap"):
        return MAX_PROCESSES
    is_listed = user != 0 and not makes_pid_namespace and (level == "none" or "recent kernel" in missing)
    return min(MAX_PROCESSES, (MAX_LISTED if is_listed else MAX_EQUAL) * n_processors)


def judge(seen, most):
    true(seen["hits"] == 0, f"the cgroup of the test refused processes {seen['hits']} times")
    true(seen["peak"] <= most + OWN_PROCESSES, f"{seen['peak']} processes at once, of {most}")
    true(seen["over"] is not None, f"{seen['left']} processes are left 12 s after the time limit")
    true(seen["over"] <= MAX_OVER, f"the last process ended {seen['over']:.2f} s after the time limit")


@contextlib.contextmanager
def held_memory(mib):
    """Has the machine hold this much memory."""
    held = os.memfd_create("held")
    try:
        for _ in range(mib):
            os.write(held, b"x" * (1 << 20))
        yield
    finally:
        os.close(held)


def works(place):
    """Returns the reply of a harmless command; skips where the level does not work here."""
    cgroup = Cgroup("probe", MAX_IN_CGROUP)
    try:
        process = place.start(cgroup, "echo on", 20)
        out, errors = process.communicate(timeout=60)
    finally:
        cgroup.remove()
    if process.returncode != 0:
        raise Skip(f"this level does not work here: {checks.short((errors or out).decode(), 200)}")


def is_apart(place):
    """Returns whether commands cannot signal a process of the same user outside: only then may one try all."""
    victim = subprocess.Popen(["sleep", "60"], preexec_fn=lambda: demote(place.user))
    try:
        cgroup = Cgroup("probe", MAX_IN_CGROUP)
        try:
            process = place.start(cgroup, f"kill -0 {victim.pid} 2>/dev/null && echo reached || echo apart", 20)
            out, _ = process.communicate(timeout=60)
        finally:
            cgroup.remove()
        return b"apart" in out and b"reached" not in out
    finally:
        victim.kill()
        victim.wait()


def control(directory):
    """A plain spawn that kills the shell alone leaves processes behind."""
    for name, text in {**BOMBS, **SURVIVORS}.items():
        if name == KILLS_ALL:
            continue
        root = directory / "control" / name.replace(" ", "-")
        root.mkdir(parents=True)
        cgroup = Cgroup("control", 300)
        try:
            process = subprocess.Popen(
                ["sh", "-c", text.replace("N_ORPHANS", "5000")], cwd=root, preexec_fn=cgroup.join,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            time.sleep(0.5)
            process.kill()
            process.wait()
            time.sleep(0.2)
            left = cgroup.count()
        finally:
            cgroup.remove()
        with check(f"control: {name}: a plain spawn leaves processes"):
            true(0 < left, "it left none, so this case shows nothing")


# What a kernel or a container may lack, on which level and for whom. Without a bound no bomb is tried.
WITHOUT = [
    ("landlock", 0, ["PID namespaces"], BOMBS),
    ("namespaces", 0, ["PID namespaces"], BOMBS),
    ("landlock", 0, ["PID namespaces", "cgroups"], {}),
    ("none", 0, ["Landlock"], BOMBS),
    ("none", 0, ["cgroups"], {}),
    ("landlock", NOBODY, ["processes of others in /proc"], HIDDEN_BOMB),
    ("none", NOBODY, ["processes of others in /proc"], HIDDEN_BOMB),
    ("landlock", NOBODY, ["recent kernel", "PID namespaces"], BOMBS),
]


def dead_session(directory):
    """A command ends its supervisor and fork server: the next session kills its processes, and no others."""
    place = Place(directory / "dead-session", "none", 0)
    text = """setsid sleep 99 & above=$(cut -d" " -f4 /proc/$PPID/stat); kill -9 $above $PPID"""
    cgroup = Cgroup("dead", MAX_IN_CGROUP)
    others = []
    try:
        place.start(cgroup, text, 20).communicate(timeout=60)
        left = cgroup.count()
        # Cgroups of another program whose names resemble those of sinew.
        for name in ("sinew-agents/1", "sinew-1-0/jobs"):
            (cgroup.path / name).mkdir(parents=True)
            other = subprocess.Popen(["sleep", "60"])
            (cgroup.path / name / "cgroup.procs").write_text(str(other.pid))
            others.append(other)
        live = Place(directory / "live-session", "none", 0)
        beside = live.start(cgroup, "sleep 1; echo end", 20)
        time.sleep(0.5)
        Place.started = [beside, *others, place.start(cgroup, "echo on", 20)]
        Place.started[-1].communicate(timeout=60)
        answer, _ = beside.communicate(timeout=60)
        deadline = time.monotonic() + MAX_OVER
        while len(others) < cgroup.count() and time.monotonic() < deadline:
            reap_orphans()
            time.sleep(0.01)
        still = cgroup.count() - len(others)
        spared = [other.poll() is None for other in others]
    finally:
        for other in others:
            other.kill()
            other.wait()
        cgroup.remove()
    with check("none, root: a dead session leaves processes, which shows that the next case can fail"):
        true(0 < left, "it left none")
    with check("none, root: the next session kills what a dead one left"):
        true(still == 0, f"{still} processes are left")
    with check("none, root: the next session spares a live one and cgroups of others"):
        true(b"end" in answer, answer)
        true(all(spared), spared)


def doctor(place):
    """Returns what `sinew doctor` says of commands."""
    def prepare():
        kernel.take_away(place.missing)
        demote(place.user)
    done = subprocess.run(
        [os.environ["SINEW_BOMB_BIN"], "--root", place.root, "doctor"],
        cwd=place.root, env=environment(place.home), preexec_fn=prepare,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
    )
    return done.stdout.decode(errors="replace")


def without(directory, only):
    """The same where parts of the kernel are missing."""
    for number, (level, user, missing, bombs) in enumerate(WITHOUT):
        if only and level not in only:
            continue
        who = "root" if user == 0 else "nobody"
        name = f"{level}, {who}, without {' and '.join(missing)}"
        place = Place(directory / f"without-{number}", level, user, missing)
        usable = False
        with check(f"{name}: the level works"):
            works(place)
            usable = True
        if not usable:
            continue
        with check(f"{name}: doctor says whether processes are bounded"):
            told = doctor(place)
            true(f"sandbox: {level}" in told or level in told, told)
            true(("bound of processes" in told) == (not bombs), told)
        quick = {key: text for key, text in SURVIVORS.items() if key != KILLS_ALL}
        for key, text in {**bombs, **quick}.items():
            run_and_judge(name, place, key, text)


def run_and_judge(name, place, key, text):
    """Judges each run of a case."""
    if ROUNDS == 0 and key not in FEW:
        return
    most = max_processes(place.level, place.user, place.missing)
    text = text.replace("N_ORPHANS", str(most + most // 4))
    # Thousands of forks take more than the usual time.
    time_limit = 15.0 if key == ORPHANS else SHORT_TIME_LIMIT if key in SURVIVORS else TIME_LIMIT
    for _ in range(max(1, ROUNDS)):
        seen = observe(name, place, key, text, time_limit)
        with check(f"{name}: {key}"):
            judge(seen, most)
            if key == ORPHANS:
                true("all" in seen["out"] and "fork" not in seen["out"], seen["out"])


def observe(name, place, key, text, time_limit):
    seen = run_case(place, key, text, time_limit)
    over = "never" if seen["over"] is None else f"{seen['over']:.2f} s"
    print(f"     {name}: {key}: peak {seen['peak']}, over {over}, "
          f"slowest look {seen['slowest'] * 1000:.0f} ms, exit {seen['code']}", flush=True)
    if os.environ.get("SINEW_BOMB_SHOW"):
        print(seen["out"][:600], seen["errors"][:600])
    return seen


def body(directory):
    pids_directory()
    if os.geteuid() != 0:
        raise Skip("only root can make the cgroups and become nobody")
    os.chmod(directory, 0o755)
    program = directory / "bin/sinew"
    program.parent.mkdir()
    shutil.copy(checks.binary(), program)
    program.chmod(0o755)
    os.environ["SINEW_BOMB_BIN"] = str(program)
    # Orphans fall to this process: the first process of a machine may wait for them late.
    kernel.become_subreaper()
    # A bomb that uses up the processors must not keep this process from looking.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(2))
    only = set(sys.argv[1:])
    checks.true(only <= set(LEVELS), f"levels are {LEVELS}")
    control(directory)
    for level in LEVELS:
        for user in (0, NOBODY):
            who = "root" if user == 0 else "nobody"
            if only and level not in only:
                continue
            place = Place(directory / f"{level}-{who}", level, user)
            usable = False
            with check(f"{level}, {who}: the level works"):
                works(place)
                usable = True
            apart = usable and is_apart(place)
            for name, text in {**BOMBS, **SURVIVORS}.items() if usable else ():
                if name == KILLS_ALL and not apart:
                    with check(f"{level}, {who}: {name}"):
                        raise Skip("commands reach the processes of their user on this level")
                    continue
                run_and_judge(f"{level}, {who}", place, name, text)
            if usable and level == "namespaces":
                # Its processes must be looked at, since the machine holds more, and that must not delay the kill.
                bounded = Place(directory / f"bounded-{who}", level, user, max_memory_mib=LOW_MEMORY_MIB)
                with held_memory(LOW_MEMORY_MIB):
                    run_and_judge(f"{level}, {who}, memory bounded", bounded, "double forks", BOMBS["double forks"])
    if not only or "none" in only:
        dead_session(directory)
    without(directory, only)


if __name__ == "__main__":
    checks.run(body)
