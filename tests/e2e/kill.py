"""Five hundred writes killed at random points: content is wholly old or wholly new, always."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import time

import checks
import wire
from checks import check, equal, true

N_SERVER, N_COMMAND = 400, 100
SEED = 20


def content(n):
    """Returns some 400 KB that say in every line which version they are."""
    return f"version {n} of the file\n" * (18_000 + n % 3_000)


def version(path):
    """Returns the version that a file holds, or nothing where it is a mixture or cut."""
    first = path.read_text().partition("\n")[0].split()
    n = int(first[1])
    return n if path.read_text() == content(n) else None


def temporaries(directory):
    return [
        os.path.join(place, name)
        for place, _, names in os.walk(directory)
        for name in names
        if name.startswith(".sinew-") and name.endswith(".tmp")
    ]


class Moments:
    """When to kill: at random, around the moment that leaves the old as often as the new."""

    def __init__(self, chance, usual):
        self.chance, self.longest = chance, usual
        self.old = self.new = 0

    def wait(self):
        time.sleep(self.chance.uniform(0, self.longest))

    def came(self, was_new):
        self.new += was_new
        self.old += not was_new
        self.longest *= 0.95 if was_new else 1.05

    def on_both_sides(self):
        print(f"     old {self.old}, new {self.new}")
        few = (self.old + self.new) // 10
        true(few < self.old and few < self.new, "the kills came at one side")


def in_servers(root, moments):
    """Kills servers in the middle of writes, and returns what was neither old nor new."""
    target, old, killed, mixtures = root / "sub/dir/target.txt", 0, 0, []
    checks.write(target, content(0))
    while killed < N_SERVER:
        with wire.Server(root, read=False) as server:
            server.send(wire.INITIALIZE, wire.INITIALIZED)
            # One write is waited for, so that the database is open, and the next is killed.
            ready = wire.tool_call(1, "Write", {"file_path": "ready.txt", "content": "x"})
            server.send(ready)
            for _ in range(2):
                server.output.readline()
            killed += 1
            arguments = {"file_path": "sub/dir/target.txt", "content": content(killed)}
            server.send(wire.tool_call(2, "Write", arguments))
            moments.wait()
            server.kill()
        now = version(target)
        if now not in (old, killed):
            mixtures.append((killed, now))
        moments.came(now == killed)
        old = now
    return mixtures


def on_command_line(root, moments):
    target, old, mixtures = root / "command.txt", 0, []
    checks.write(target, content(0))
    for n in range(1, N_COMMAND + 1):
        arguments = json.dumps({"file_path": "command.txt", "content": content(n)})
        process = subprocess.Popen(
            [checks.binary(), "--approvals", "allow", "call", "Write", "-"],
            cwd=root, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )
        process.stdin.write(arguments.encode())
        process.stdin.close()
        moments.wait()
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = version(target)
        if now not in (old, n):
            mixtures.append((n, now))
        moments.came(now == n)
        old = now
    return mixtures


def usual_seconds(root):
    """Measures a write in a server, and on the command line."""
    with wire.Server(root) as server:
        server.shake()
        server.call("Write", {"file_path": "usual.txt", "content": "x"})
        began = time.monotonic()
        for n in range(5):
            server.call("Write", {"file_path": "usual.txt", "content": content(n)})
        in_server = (time.monotonic() - began) / 5
    began = time.monotonic()
    for n in range(5):
        checks.call(root, "Write", {"file_path": "usual.txt", "content": content(n)})
    return in_server, (time.monotonic() - began) / 5


def body(directory):
    root = directory / "project"
    root.mkdir()
    chance = random.Random(SEED)
    in_server, command = usual_seconds(root)
    for n, what, kill, usual in [
        (N_SERVER, "servers", in_servers, in_server),
        (N_COMMAND, "commands", on_command_line, command),
    ]:
        with check(f"{n} writes of {what} are whole or not there"):
            moments = Moments(chance, usual)
            equal(kill(root, moments), [], "mixtures")
            moments.on_both_sides()
    with check("the next change leaves no temporary file"):
        code, _ = checks.call(root, "Write", {"file_path": "after.txt", "content": "after\n"})
        # What a death leaves in the state directory is collected in time.
        equal((code, temporaries(root)), (0, []))
        equal((root / "after.txt").read_text(), "after\n")
    with check("only what was written is in the tree"):
        names = sorted(path.name for path in root.rglob("*") if path.is_file())
        known = ["after.txt", "command.txt", "ready.txt", "target.txt", "usual.txt"]
        equal(names, known)
    with check("a change that died has its intent on record, settled by the next"):
        path = os.path.join(os.environ["XDG_STATE_HOME"], "sinew/sinew.db")
        with contextlib.closing(sqlite3.connect(path)) as database:
            equal(database.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            (n_intents,) = database.execute(
                "SELECT count(*) FROM record WHERE phase = 'intent'"
            ).fetchone()
            (n_unsettled,) = database.execute("SELECT count(*) FROM unsettled").fetchone()
        true(N_SERVER < n_intents, f"{n_intents} intents are on record")
        equal(n_unsettled, 0, "intents that are not settled")
    with check("what the deaths left on record is whole"):
        verified = subprocess.run([checks.binary(), "audit", "verify"], capture_output=True,
                                  text=True)
        equal(verified.returncode, 0, verified.stdout + verified.stderr)


checks.run(body)
