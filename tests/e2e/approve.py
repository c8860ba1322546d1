"""`sinew approve`: a person at a second terminal answers for clients that show no questions."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import anyio
from mcp import Client, StdioServerParameters, types

import checks
import day
from checks import Skip, check, contains, equal, true
from tmux_screen import Screen

# The end of a screen on which a question waits.
WAITS = r"Run it\? \[[^\]]*\]\s*$"
HOSTILE = "\x1b[2Jgone\x1b]0;title\x07 \u202e"


def server(root, *options):
    args = ["--root", str(root), *options, "mcp", "--tools", "all"]
    return StdioServerParameters(command=checks.binary(), args=args, env=dict(os.environ), cwd=root)


async def call(client, tool, arguments):
    result = await client.call_tool(tool, arguments)
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def kind(result):
    return (result.get("_meta") or {}).get("sinew/error", {}).get("kind")


@contextlib.contextmanager
def terminal(root):
    """Runs `sinew approve` in a terminal."""
    screen = Screen(root, f"{checks.binary()} approve")
    try:
        screen.until("appear here")
        yield screen
    finally:
        screen.close()
        # It ends with its terminal.
        for _ in range(100):
            if not socket_path().exists():
                break
            time.sleep(0.05)


def answers(screen, question, key, after=0.4):
    """Waits for a question, reads it for so many seconds and presses a key."""
    shown = screen.until(re.escape(question) + r"[\s\S]*" + WAITS)
    time.sleep(after)
    screen.press(key)
    return shown


def socket_path():
    return checks.Path(os.environ["XDG_STATE_HOME"]) / "sinew/approve.socket"


async def a_day(directory):
    root = directory / "day-approve"
    day.lay_out(root, directory)
    screens = []
    with terminal(root) as screen:
        with check("of a day's 30 calls of a client that shows no questions three ask, and Enter answers each"):
            async with Client(server(root), mode="legacy") as client, anyio.create_task_group() as group:

                def person():
                    for question in day.QUESTIONS:
                        screens.append(answers(screen, question, "Enter"))

                group.start_soon(anyio.to_thread.run_sync, person)
                for tool, arguments, _ in day.turns():
                    await call(client, tool, arguments)
            day.is_done(root, checks.records())
            equal({row["approver"] for row in checks.records() if row["approver"]}, {"approve"})
        with check("the screen shows what is asked, and which answer Enter gives"):
            contains(screens[0], f"sinew mcp in {root}:", "the model sees what is in it", "[Y/")
            contains(screens[1], "After a change, direnv executes it.", "+export NUMBERS=1", "/N]")
            contains(screens[2], "$ python3 -m venv", "What it sends cannot be undone", "[Y/")


async def answers_of_two(root):
    with terminal(root) as screen:
        with check("a question that the client's dialog answers first is taken back at the terminal"):

            async def person(context, params):
                await anyio.to_thread.run_sync(screen.until, WAITS)
                return types.ElicitResult(action="accept", content={"answer": "once"})

            async with Client(server(root, "--approvals", "ask"), mode="legacy", elicitation_callback=person) as client:
                result = await call(client, "Write", {"file_path": "first.txt", "content": "x\n"})
                equal(kind(result), None, checks.text(result))
                await anyio.to_thread.run_sync(screen.until, "not answered here")
        with check("the terminal can answer first, also for the session and with a reason"):
            asked = []

            async def absent(context, params):
                asked.append(params.message)
                await anyio.sleep(60)

            async with Client(server(root, "--approvals", "ask"), mode="legacy", elicitation_callback=absent) as client:

                async def answered(arguments, keys):
                    result = []
                    async with anyio.create_task_group() as group:

                        async def calls():
                            result.append(await call(client, "Bash", arguments))

                        group.start_soon(calls)
                        await anyio.to_thread.run_sync(screen.until, WAITS)
                        # Longer than after a question that was answered elsewhere.
                        await anyio.sleep(1.5)
                        for key in keys:
                            screen.press(key)
                            await anyio.sleep(0.2)
                    return result[0]

                equal(kind(await answered({"command": "mkdir one"}, ["s"])), None)
                equal(kind(await call(client, "Bash", {"command": "mkdir two"})), None)
                denied = await answered({"command": "touch never"}, ["n", "not now", "Enter"])
                equal(kind(denied), "approval_denied")
                contains(checks.text(denied), "the call was denied: not now")
            equal(len(asked), 2)
        true((root / "two").is_dir() and not (root / "never").exists(), "another call ran")
        with check("a command without a sandbox is remembered by a key of the terminal, and by no client"):
            forms, answer = [], "always"

            async def client_answers(context, params):
                forms.append(params.requested_schema["properties"]["answer"])
                if answer is None:
                    await anyio.sleep(60)
                return types.ElicitResult(action="accept", content={"answer": answer})

            line = {"command": "uname -s", "needs": ["unsandboxed"], "why": "to try it"}
            async with Client(server(root), mode="legacy", elicitation_callback=client_answers) as client:
                for n in (1, 2):
                    equal(kind(await call(client, "Bash", line)), None)
                    equal(len(forms), n)
                equal([one["const"] for one in forms[0]["oneOf"]], ["once", "deny"])
                answer = None
                await anyio.to_thread.run_sync(screen.until, "not answered here")
                async with anyio.create_task_group() as group:
                    group.start_soon(call, client, "Bash", line)
                    shown = await anyio.to_thread.run_sync(screen.until, WAITS)
                    contains(shown, 's  for this session: "uname -s" in')
                    await anyio.sleep(1.5)
                    screen.press("s")
                equal(kind(await call(client, "Bash", line)), None)
                equal(len(forms), 3)
                answer = "deny"
                equal(kind(await call(client, "Bash", {**line, "command": "uname -s -r"})), "approval_denied")
                equal(len(forms), 4)


async def from_before(root):
    async def absent(context, params):
        await anyio.sleep(60)

    with check("a question that waits at a client appears at a terminal that is opened meanwhile"):
        options = server(root, "--approvals", "ask")
        async with Client(options, mode="legacy", elicitation_callback=absent) as client:
            async with anyio.create_task_group() as group:
                results = []

                async def writes():
                    results.append(await call(client, "Write", {"file_path": "before.txt", "content": "x\n"}))

                group.start_soon(writes)
                await anyio.sleep(1.5)
                with terminal(root) as screen:
                    await anyio.to_thread.run_sync(answers, screen, "Create before.txt?", "y")
                    with anyio.fail_after(10):
                        while not results:
                            await anyio.sleep(0.05)
            equal(kind(results[0]), None, checks.text(results[0]))
            true((root / "before.txt").exists(), "it was not written")


async def without_an_answer(root):
    async def denied(words, within):
        async with Client(server(root, "--approvals", "ask"), mode="legacy") as client:
            began = time.monotonic()
            result = await call(client, "Bash", {"command": "touch never"})
            equal(kind(result), "approval_denied")
            contains(checks.text(result), *words)
            true(time.monotonic() - began < within, "it waited")
        true(not (root / "never").exists(), "it ran")

    with check("without a terminal the call is denied at once, and the reply names the command"):
        await denied(["no approver is connected", "`sinew approve` in another terminal"], 4)
    with check("a path outside the roots is denied with what opens it"):
        note = checks.write(checks.Path.home() / "notes/outside.md", "x\n")
        async with Client(server(root), mode="legacy") as client:
            result = await call(client, "Read", {"file_path": str(note)})
            equal(kind(result), "path_denied")
            contains(checks.text(result), "it lies outside the roots", "`sinew approve` in a terminal", 'verdict = "allow"')
            missing = await call(client, "Read", {"file_path": f"{note}.missing"})
            equal(kind(missing), "path_denied")
    with terminal(root) as screen:
        pid = int(subprocess.run(["pgrep", "-n", "-f", f"^{checks.binary()} approve"], capture_output=True, text=True).stdout)
        with check("a terminal that is stopped answers nothing, and the call does not wait for it"):
            os.kill(pid, signal.SIGSTOP)
            await denied(["no approver answered"], 12)
            os.kill(pid, signal.SIGCONT)
        with check("of a missing path outside the roots the question does not say that the model sees it"):
            async with Client(server(root), mode="legacy") as client, anyio.create_task_group() as group:
                group.start_soon(call, client, "Read", {"file_path": str(checks.Path.home() / "notes/none.md")})
                shown = await anyio.to_thread.run_sync(screen.until, WAITS)
                contains(shown, "Read none.md outside the project?", "nothing is there now")
                await anyio.sleep(1.5)
                screen.press("y")
        with check("a second `sinew approve` is refused"):
            other = Screen(root, f"{checks.binary()} approve")
            try:
                contains(other.until(r"\[exit \d+\]"), "answers already", "[exit 2]")
            finally:
                other.close()
        with check("a terminal that is left while a question waits gives no answer"):
            async with anyio.create_task_group() as group:
                group.start_soon(denied, ["no approver answered"], 8)
                await anyio.to_thread.run_sync(screen.until, WAITS)
                screen.press("C-c")
            for _ in range(100):
                if not checks.Path(f"/proc/{pid}").exists():
                    break
                await anyio.sleep(0.05)
            true(not checks.Path(f"/proc/{pid}").exists(), "it still runs")
            true(not socket_path().exists(), "its socket is left")
    with check("without a terminal `sinew approve` says what else asks"):
        done = subprocess.run([checks.binary(), "approve"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        equal(done.returncode, 2, done.stderr)
        contains(done.stderr, "shows questions and reads keys at a terminal", "sinew pipe")


def question(**more):
    shown = {"head": ["Run this?", "$ true", "in /"], "details": "", "must_be_read": False, "diff": None, "of": None, "warning": None,
             "reason": "", "covers": [{"scope": "call", "what": "once"}], "is_denied_by_default": False}
    return json.dumps({**shown, **more}).encode() + b"\n"


def sent(line):
    """Connects as a process of sinew does and sends a line."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(str(socket_path()))
    connection.sendall(line)
    return connection


async def hostile_peers(root):
    with terminal(root) as screen:
        with check("what a peer sends moves no cursor and hides nothing"):
            with sent(question(head=[HOSTILE, HOSTILE, HOSTILE])) as peer:
                shown = screen.until(WAITS)
                contains(shown, "appear here", "gone")
                true("title" in shown and "\u202e" not in shown, shown)
                time.sleep(0.4)
                screen.press("x")
                lines = peer.makefile().read().splitlines()
                equal([json.loads(line) for line in lines], [{"type": "arrived"}, {"type": "answer", "answer": "no", "reason": None}])
        with check("what is no question is left out, and the next one is asked"):
            for line in [b"\n", b"{}\n", b"[" * 200_000 + b"\n", b"\xff\n", question(more=1), question()[:-2]]:
                with sent(line) as peer:
                    peer.shutdown(socket.SHUT_WR)
                    equal(peer.recv(100), b"", f"reply to {line[:40]}")
            with sent(question(head=["Is it asked?", "", ""])) as peer:
                answers(screen, "Is it asked?", "y")
                contains(peer.makefile().read(), '"answer":"yes"')
        with check("a key for a question that is taken back answers no other"):
            for late in [["y"], ["n", "always", "Enter"]]:
                first = sent(question(head=["The first?", "", ""]))
                screen.until(r"The first\?[\s\S]*" + WAITS)
                with sent(question(head=["The other?", "", ""])) as peer:
                    time.sleep(0.4)
                    for key in late[:-1]:
                        screen.press(key)
                        time.sleep(0.1)
                    first.close()
                    screen.until(r"The other\?[\s\S]*" + WAITS)
                    time.sleep(0.4)
                    screen.press(late[-1])
                    time.sleep(1.5)
                    screen.press("x")
                    contains(peer.makefile().read(), '"answer":"no"')
        with check("of 100 questions at once 64 wait, one after the other"):
            peers = [sent(question(head=[f"Question {n}?", "", ""])) for n in range(100)]
            arrived = []

            def first(peer):
                with contextlib.suppress(ConnectionError):
                    arrived.append(peer.recv(100))

            threads = [threading.Thread(target=first, args=(peer,)) for peer in peers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            equal(sum(b"arrived" in line for line in arrived), 64)
            for peer in peers:
                peer.close()
            with sent(question(head=["Still there?", "", ""])) as peer:
                answers(screen, "Still there?", "y", after=1.5)
                contains(peer.makefile().read(), '"answer":"yes"')
        with check("a command in the sandbox reaches no socket of it"):
            connects = f"import socket; socket.socket(socket.AF_UNIX).connect({str(socket_path())!r})"
            plain = subprocess.run(["python3", "-c", connects], capture_output=True, text=True)
            equal(plain.returncode, 0, plain.stderr)
            done = subprocess.run(
                [checks.binary(), "--approvals", "auto", "call", "Bash", json.dumps({"command": f'python3 -c "{connects}"'})],
                cwd=root, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            )
            true(done.returncode != 0, "it connected")
            contains(done.stdout + done.stderr, "Error")


def body(directory):
    if not shutil.which("tmux"):
        raise Skip("there is no tmux")
    root = directory / "beside"
    root.mkdir()
    anyio.run(a_day, directory)
    anyio.run(answers_of_two, root)
    anyio.run(from_before, root)
    anyio.run(without_an_answer, root)
    anyio.run(hostile_peers, root)


checks.run(body)
