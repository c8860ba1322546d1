"""MCP over stdio, byte by byte: what breaks the rules, what floods, and how it all ends."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import checks
import wire
from checks import check, contains, equal, true
from wire import Server, request, stateless, tool_call

MIB = 1 << 20
MAX_LINE = 8 * MIB

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601

# (what it is, the bytes of a line, the code and id of the error that answers it)
BROKEN = [
    ("half an object", b'{"jsonrpc":"2.0","id":1,', PARSE_ERROR, None),
    ("plain words", b"hello server", PARSE_ERROR, None),
    ("an escape for a terminal", b"\x1b[2J", PARSE_ERROR, None),
    ("bytes that are not UTF-8", b'{"jsonrpc":"2.0","id":2,"method":"\xff"}', PARSE_ERROR, None),
    ("zeros", b"\0" * 100, PARSE_ERROR, None),
    ("deep nesting", b"[" * 100_000, None, None),
    ("a batch", b'[{"jsonrpc":"2.0","id":3,"method":"ping"}]', INVALID_REQUEST, None),
    ("an empty batch", b"[]", INVALID_REQUEST, None),
    ("a number", b"3", INVALID_REQUEST, None),
    ("a text", b'"ping"', INVALID_REQUEST, None),
    ("no version", b'{"id":4,"method":"ping"}', INVALID_REQUEST, 4),
    ("another version", b'{"jsonrpc":"1.0","id":"v","method":"ping"}', INVALID_REQUEST, "v"),
    ("an object as id", b'{"jsonrpc":"2.0","id":{},"method":"ping"}', INVALID_REQUEST, None),
    ("a fraction as id", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST, None),
    ("no method", b'{"jsonrpc":"2.0","id":5}', INVALID_REQUEST, 5),
    ("a number as method", b'{"jsonrpc":"2.0","id":6,"method":7}', INVALID_REQUEST, None),
    ("an unknown method", b'{"jsonrpc":"2.0","id":7,"method":"nope"}', METHOD_NOT_FOUND, 7),
    ("a list as params", b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":[1]}', None, 8),
    ("no params", b'{"jsonrpc":"2.0","id":9,"method":"tools/call"}', None, 9),
    (
        "a number as name",
        b'{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":3}}',
        None,
        10,
    ),
    (
        "a list as arguments",
        b'{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"List","arguments":[]}}',
        None,
        11,
    ),
]

# Lines that nothing answers.
SILENT = [
    b"",
    b"   ",
    b"\r",
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":99,"error":{"code":-1,"message":"no"}}',
    b'{"jsonrpc":"2.0","method":"notifications/unknown"}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}',
]


def broken_lines(root):
    for kind in ["pipe", "socketpair"]:
        with Server(root, kind=kind) as server:
            server.shake()
            for name, line, code, id in BROKEN:
                with check(f"{kind}: {name} is answered by an error"):
                    server.send(line + b"\n")
                    reply = server.receive()
                    equal(sorted(set(reply) - {"id"}), ["error", "jsonrpc"], "parts")
                    equal(reply.get("id"), id, "id")
                    if code is not None:
                        equal(reply["error"]["code"], code, "code")
                    server.is_well()
            with check(f"{kind}: nothing answers what is no request"):
                for line in SILENT:
                    server.send(line + b"\n")
                server.is_well()
                equal(server.asides, [], "what else came")


def noise(root):
    with check("noise of every byte is survived"):
        chance = random.Random(7)
        with Server(root) as server:
            server.shake()
            for _ in range(50):
                server.send(chance.randbytes(10_000))
            server.send(b"\n")
            server.is_well()
    with check("messages cut at any byte are put together"):
        with Server(root) as server:
            server.shake()
            stream = b"".join(
                json.dumps(request(n, "ping")).encode() + b"\r\n" for n in range(1, 101)
            )
            while stream:
                n = chance.randrange(1, 60)
                server.send(stream[:n])
                stream = stream[n:]
            equal(sorted(server.receive()["id"] for _ in range(100)), list(range(1, 101)))


def long_lines(root):
    def padded(id, n, first):
        """Returns a ping of n bytes, its id at the start or at the end."""
        head, tail = (f'"id":{id},', "") if first else ("", f',"id":{id}')
        shell = f'{{"jsonrpc":"2.0",{head}"method":"ping","params":{{"x":"%s"}}{tail}}}'
        return (shell % ("y" * (n - len(shell) + 2))).encode()

    with Server(root) as server:
        server.shake()
        for first in [True, False]:
            where = "start" if first else "end"
            with check(f"a line of more than 8 MiB is refused by the id at its {where}"):
                server.send(padded(41, MAX_LINE + 1, first) + b"\n")
                reply = server.answer(41)
                equal(reply["error"]["code"], INVALID_REQUEST)
                contains(reply["error"]["message"], str(MAX_LINE))
                server.is_well()
        with check("a line of 8 MiB is taken"):
            server.send(padded(42, MAX_LINE, True) + b"\n")
            equal(server.answer(42).get("error"), None)
        with check("an argument of 10 MB is refused, and the file is not made"):
            server.send(tool_call(43, "Write", {"file_path": "big", "content": "z" * 10_000_000}))
            contains(server.answer(43)["error"]["message"], "longer than")
            true(not (root / "big").exists(), "the file is there")
            server.is_well()
        with check("an endless line costs no memory"):
            server.send(b'{"jsonrpc":"2.0","id":44,"method":"ping","x":"')
            for _ in range(256):
                server.send(b"n" * MIB)
            most = wire.resident(server.process.pid)
            server.send(b'"}\n')
            equal(server.answer(44)["error"]["code"], INVALID_REQUEST)
            true(most < 200, f"{most:.0f} MiB are held")
            server.is_well()
    with check("an argument of 10 MB is written where the limit allows it"):
        with Server(root, "--set", f"mcp.max_line_bytes={16 * MIB}") as server:
            server.shake()
            content = "zß\n" * 1_500_000
            server.call("Write", {"file_path": "big", "content": content}, timeout=60)
            equal((root / "big").read_text() == content, True, "the same content")
            (root / "big").unlink()


def storms(root):
    with check("a storm of notifications is passed over"):
        with Server(root) as server:
            server.shake()
            storm = b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}\n' * 1000
            for _ in range(50):
                server.send(storm)
            server.is_well()
            true(wire.resident(server.process.pid) < 200, "memory grows")
    with check("a storm of cancellations is passed over"):
        with Server(root) as server:
            server.shake()
            for n in range(20_000):
                server.send(
                    b'{"jsonrpc":"2.0","method":"notifications/cancelled",'
                    b'"params":{"requestId":%d}}\n' % n
                )
            server.is_well()
    with check("ten thousand pings at once are all answered"):
        with Server(root) as server:
            server.shake()
            server.send(
                b"".join(json.dumps(request(n, "ping")).encode() + b"\n" for n in range(1, 10_001))
            )
            equal(sorted(server.receive()["id"] for _ in range(10_000)), list(range(1, 10_001)))


def order(root):
    with check("a request before the handshake does no harm"):
        with Server(root) as server:
            server.send(tool_call(1, "List", {}), request(2, "ping"))
            server.shake()
            server.is_well()
    with check("requests twice under one id do no harm"):
        with Server(root) as server:
            server.shake()
            for id in ["same", 5]:
                short = tool_call(id, "Read", {"file_path": "f.txt"})
                long = tool_call(id, "Grep", {"pattern": "needle", "path": "deep"})
                server.send(short, short, long, long, request(id, "ping"))
                server.answer(id)
                server.is_well()
    with check("ids come back as they were: text, large, negative, empty, escaped"):
        with Server(root) as server:
            server.shake()
            for id in ["a", 2**53, -1, "", 'q"\\\n', "ü", "1"]:
                server.send(tool_call(id, "Read", {"file_path": "f.txt"}))
                equal(server.receive()["id"], id)
    with check("a cancelled call gets no answer, and the ledger says so"):
        with Server(root) as server:
            server.shake()
            server.send(tool_call(6, "Grep", slow(root)))
            time.sleep(0.3)
            server.send(wire.cancelled(6))
            server.is_well()
            last = recorded("outcome = 'cancelled'")
            equal([(row["tool"], row["client"]) for row in last], [("Grep", "wire")])
            server.close()
            left = [message for message in iter(server.receive, None)]
            equal([*server.asides, *left], [], "what else came")
    with check("a request of the stateless revision needs no handshake"):
        with Server(root) as server:
            server.send(tool_call(1, "Read", {"file_path": "f.txt"}, stateless()))
            contains(checks.text(server.answer(1)["result"]), "hello")
            reply = server.ask("tools/list", {"_meta": stateless()})
            equal([tool["name"] for tool in reply["result"]["tools"]], checks.TOOLS)


def recorded(where, n=1, seconds=5):
    """Returns records, once there are n of them: calls that look are written a little later."""
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(sqlite3.OperationalError):
            rows = checks.records(where)
            if n <= len(rows) or until < time.monotonic():
                return rows
        time.sleep(0.05)


def slow(root):
    return {"pattern": checks.SLOW, "path": str(root / "slow")}


def ends(root):
    def end(server, timeout=2):
        began = time.monotonic()
        code = server.ended(timeout)
        return code, time.monotonic() - began

    for kind in ["pipe", "socketpair"]:
        with check(f"{kind}: the end of the input ends the server, answers first"):
            with Server(root, kind=kind) as server:
                server.shake()
                server.send(*[tool_call(n, "Read", {"file_path": "f.txt"}) for n in range(1, 51)])
                server.close()
                equal(sorted(server.receive()["id"] for _ in range(50)), list(range(1, 51)))
                equal(end(server)[0], 0)
        with check(f"{kind}: half a line and the end"):
            with Server(root, kind=kind) as server:
                server.shake()
                server.send(b'{"jsonrpc":"2.0","id":1,"meth')
                server.close()
                equal(server.receive()["error"]["code"], PARSE_ERROR)
                equal(end(server)[0], 0)
        with check(f"{kind}: a last line without its end is a line"):
            with Server(root, kind=kind) as server:
                server.shake()
                server.send(json.dumps(request(1, "ping")).encode())
                server.close()
                equal(server.receive(), {"jsonrpc": "2.0", "id": 1, "result": {}})
                equal(end(server)[0], 0)
        with check(f"{kind}: a client that closes both ends is not waited for"):
            with Server(root, kind=kind, read=False) as server:
                server.send(wire.INITIALIZE, wire.INITIALIZED, tool_call(1, "Grep", slow(root)))
                time.sleep(0.5)
                server.close()
                server.output.close()
                true(end(server)[1] < 2, "it took longer than 2 s")
    with check("nothing as input ends the server at once"):
        done = subprocess.run(
            [checks.binary(), "mcp"], cwd=root, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=5,
        )
        equal((done.returncode, done.stdout, done.stderr), (0, b"", b""))
    with check("a closed standard input ends the server at once"):
        done = subprocess.run(
            ["sh", "-c", 'exec "$0" mcp <&-', checks.binary()], cwd=root, capture_output=True,
            timeout=5,
        )
        equal(done.stdout, b"")
    with check("a file as input is answered line by line, into a file"):
        calls = [tool_call(n, "Read", {"file_path": "f.txt"}) for n in range(1, 21)]
        lines = [wire.INITIALIZE, wire.INITIALIZED, *calls]
        script = checks.write(
            root.parent / "script.jsonl", "\n".join(json.dumps(line) for line in lines)
        )
        with script.open("rb") as input, (root.parent / "answers.jsonl").open("w+b") as output:
            done = subprocess.run(
                [checks.binary(), "mcp"], cwd=root, stdin=input, stdout=output, timeout=10
            )
            output.seek(0)
            ids = [json.loads(line)["id"] for line in output]
        equal((done.returncode, sorted(ids)), (0, list(range(21))))


def slow_readers(root):
    checks.write(root / "large.txt", ("x" * 99 + "\n") * 200)
    for kind in ["pipe", "socketpair"]:
        with check(f"{kind}: a client that stops reading stops the server, in bounded memory"):
            with Server(root, kind=kind, read=False) as server:
                server.send(wire.INITIALIZE, wire.INITIALIZED)
                os.set_blocking(server.input.fileno(), False)
                line = json.dumps(tool_call(1, "Read", {"file_path": "large.txt"})).encode()
                stream, sent, stalled = (line + b"\n") * 1000, 0, 0
                while stalled < 20 and sent < 200 * len(stream):
                    start = sent % len(stream)
                    try:
                        n = os.write(server.input.fileno(), stream[start:])
                    except BlockingIOError:
                        n = 0
                    sent, stalled = sent + n, 0 if n else stalled + 1
                    if not n:
                        time.sleep(0.05)
                true(stalled == 20, f"{sent} bytes were taken without a reader")
                most = wire.resident(server.process.pid)
                true(most < 300, f"{most:.0f} MiB are held")
                os.set_blocking(server.input.fileno(), True)
                server.read_on()
                server.send(stream[sent % len(stream) :] if sent % len(stream) else b"")
                server.is_well()


VICTIM = """
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import wire
server = wire.Server(sys.argv[2], kind=sys.argv[3], approvals="allow")
server.shake()
server.send(*[wire.tool_call(n, "Grep", eval(sys.argv[4])) for n in range(1, 4)])
print(server.process.pid, flush=True)
time.sleep(60)
"""


def disappearing_clients(root):
    for kind in ["pipe", "socketpair"]:
        for work in [slow(root), {"pattern": "needle"}]:
            busy = "busy" if work.get("path") else "idle"
            with check(f"{kind}: a client that is killed takes its {busy} server with it"):
                client = subprocess.Popen(
                    [sys.executable, "-c", VICTIM, os.path.dirname(checks.__file__), root, kind,
                     repr(work)],
                    stdout=subprocess.PIPE,
                )
                server = int(client.stdout.readline())
                time.sleep(0.5)
                client.send_signal(signal.SIGKILL)
                client.wait()
                client.stdout.close()
                equal(checks.wait_for_no_sinew(2), [], f"processes (server {server})")


def body(directory):
    root = directory / "project"
    checks.write(root / "f.txt", "hello\n")
    checks.write(root / "deep/a/b/c.txt", "needle\n")
    checks.hard_to_search(root / "slow")
    for part in [
        broken_lines, noise, long_lines, storms, order, ends, slow_readers, disappearing_clients
    ]:
        part(root)


checks.run(body)
