"""Whoever is asked: a person at a terminal, and one at an MCP client, in both ways of the protocol."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters, types

import checks
import day
import wire
from checks import Skip, check, contains, equal, true
from tmux_screen import Screen

MODES = ["legacy", "2026-07-28", "auto"]


def server(root, *options):
    return StdioServerParameters(
        command=checks.binary(),
        args=["--root", str(root), "--approvals", "ask", *options, "mcp"],
        env=dict(os.environ),
        cwd=root,
    )


class Person:
    """Answers what it is asked, one answer after the other, and remembers the questions."""

    def __init__(self, *answers, meanwhile=None, after=0):
        self.answers, self.asked, self.meanwhile, self.after = list(answers), [], meanwhile, after

    async def __call__(self, context, params):
        self.asked.append(params)
        if self.meanwhile:
            self.meanwhile()
        await anyio.sleep(self.after)
        answer = self.answers.pop(0)
        if answer == "late":
            await anyio.sleep(30)
        if isinstance(answer, dict):
            return types.ElicitResult(action="accept", content=answer)
        return types.ElicitResult(action=answer)


async def call(client, tool, arguments):
    result = await client.call_tool(tool, arguments)
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def kind(result):
    return (result.get("_meta") or {}).get("sinew/error", {}).get("kind")


async def file_outside(root, way, outside, yes, no):
    (root / "a.txt").write_text("one\n")
    (outside / "old").write_text("old\n")
    person = Person(no, yes, yes, after=2)
    at = StdioServerParameters(
        command=checks.binary(), args=["--root", str(root), "mcp"], env=dict(os.environ), cwd=root
    )
    line = f"echo new >>{outside}/old"
    async with Client(at, mode=way, elicitation_callback=person) as client:
        for words, content in (("the answer was no", "old\n"), ("undoes this", "old\nnew\n")):
            # The command may run for less than the person takes.
            result = await call(client, "Bash", {"command": line, "timeout": 1000})
            contains(checks.text(result), words)
            equal((outside / "old").read_text(), content)
        result = await call(client, "Bash", {"command": f"cp a.txt {outside}/new", "timeout": 1000})
        equal((kind(result), (outside / "new").read_text()), (None, "one\n"), checks.text(result))
    equal(len(person.asked), 3)
    contains(person.asked[0].message, "Let a command change old outside the project?", f"$ {line}",
             f"the command waits to open {outside}/old for writing")
    contains(person.asked[2].message, f"Let a command change {outside.name} outside the project?")
    answer = person.asked[2].requested_schema["properties"]["answer"]
    titles = {one["const"]: one["title"] for one in answer["oneOf"]}
    equal((answer["default"], titles["once"]), ("once", "Yes, go on"))
    contains(titles["session"], f"cp * with needs write:{outside}")


async def elicitation(root):
    yes, no = {"answer": "once"}, {"answer": "deny"}
    for way in MODES:
        with check(f"{way}: the person at the client is asked, with the change in view"):
            person = Person(yes, no, "decline", "cancel", yes, after=0.4)
            async with Client(server(root), mode=way, elicitation_callback=person) as client:
                for n, (expected, words) in enumerate([
                    (None, "created"),
                    ("approval_denied", "the call was denied"),
                    ("approval_denied", "the call was denied"),
                    ("approval_denied", "closed without an answer"),
                    (None, "created"),
                ]):
                    name = f"{way}-{n}.txt"
                    result = await call(client, "Write", {"file_path": name, "content": "x\n"})
                    equal(kind(result), expected, name)
                    contains(checks.text(result), words)
                    equal((root / name).exists(), expected is None, name)
            equal(len(person.asked), 5)
            contains(person.asked[0].message, f"Create {way}-0.txt?", "+x", "+1 −0 lines · undo covers it")
            schema = person.asked[0].requested_schema
            equal(list(schema["properties"]), ["answer"])
            answer = schema["properties"]["answer"]
            equal([one["const"] for one in answer["oneOf"]], ["once", "exact", "session", "always", "deny"])
            contains(answer["oneOf"][3]["title"], "always in this project: Write", f"{way}-0.txt")
            equal(answer["default"], "once")
        with check(f"{way}: a client that declines at once did not ask, and an empty form is no yes"):
            person = Person("decline", {})
            async with Client(server(root), mode=way, elicitation_callback=person) as client:
                for words in ("the client declined without asking", "accepted the question without an answer"):
                    result = await call(client, "Write", {"file_path": "never", "content": "x\n"})
                    contains(checks.text(result), words)
                true(not (root / "never").exists(), "it was written")
        with check(f"{way}: an answer for the session covers the pattern that it shows"):
            person = Person({"answer": "session"})
            async with Client(server(root), mode=way, elicitation_callback=person) as client:
                for name in ("one", "two"):
                    result = await call(client, "Bash", {"command": f"mkdir {name}-{way}"})
                    equal(kind(result), None, checks.text(result))
            contains(str(person.asked[0].requested_schema), "for this session: mkdir *")
            equal(len(person.asked), 1)
        with check(f"{way}: an answer holds for its call alone"):
            person = Person(yes, no)
            async with Client(server(root), mode=way, elicitation_callback=person) as client:
                first = await call(client, "Bash", {"command": f"touch one-{way}"})
                equal(kind(first), None, checks.text(first))
                equal(kind(await call(client, "Bash", {"command": f"touch one-{way}"})),
                      "approval_denied")
            equal(len(person.asked), 2)
        with check(f"{way}: what changed since the question refuses"):
            file = root / f"changed-{way}.sh"
            file.write_text("echo before\n")
            person = Person(yes, meanwhile=lambda: file.write_text("echo after\n"))
            async with Client(server(root), mode=way, elicitation_callback=person) as client:
                result = await call(client, "Bash", {"command": f"sh {file.name}"})
                equal(kind(result), "stale")
                contains(checks.text(result), file.name, "changed after")
        with check(f"{way}: a command waits while the person thinks of what undo cannot keep"):
            large = root / f"large-{way}"
            with large.open("wb") as file:
                file.truncate(65 << 20)
            person = Person(no, yes, after=2)
            at = StdioServerParameters(
                command=checks.binary(), args=["--root", str(root), "mcp"], env=dict(os.environ), cwd=root
            )
            line = f"touch before-{way}; echo x >>{large.name}"
            async with Client(at, mode=way, elicitation_callback=person) as client:
                for words, size in (("the answer was no", 65 << 20), ("cannot be undone: large", (65 << 20) + 2)):
                    # The command may run for less than the person takes.
                    result = await call(client, "Bash", {"command": line, "timeout": 1000})
                    contains(checks.text(result), words)
                    equal(large.stat().st_size, size)
            equal(len(person.asked), 2)
            contains(person.asked[0].message, f"Change {large.name} (65.0 MiB) for good, and go on without full undo? Cannot be undone", f"$ {line}")
            answer = person.asked[0].requested_schema["properties"]["answer"]
            titles = {one["const"]: one["title"] for one in answer["oneOf"]}
            equal((answer["default"], titles), ("deny", {"once": "Yes, go on", "deny": "No"}))
        with check(f"{way}: a command waits while the person thinks of a file outside the roots"):
            if checks.REPOSITORY.is_relative_to("/tmp"):
                raise Skip("commands have a /tmp of their own")
            with tempfile.TemporaryDirectory(dir=checks.REPOSITORY, prefix="e2e-") as outside:
                await file_outside(root, way, Path(outside), yes, no)
        with check(f"{way}: a client that cannot ask is told at once"):
            async with Client(server(root), mode=way) as client:
                began = time.monotonic()
                result = await call(client, "Bash", {"command": "touch never"})
                equal(kind(result), "approval_denied")
                true(time.monotonic() - began < 5, "it waited")
                true(not (root / "never").exists(), "it ran")
        with check(f"{way}: nobody answers in time, and that is no denial"):
            person = Person("late")
            options = server(root, "--set", "approval_timeout_s=1")
            async with Client(options, mode=way, elicitation_callback=person) as client:
                with anyio.move_on_after(20) as scope:
                    if way == "legacy":
                        result = await call(client, "Bash", {"command": "touch never"})
                        equal(kind(result), "approval_timeout")
                        contains(checks.text(result), "it was not denied")
                    else:
                        # The client answers before it calls again, so its call waits for that.
                        with anyio.move_on_after(3):
                            await call(client, "Bash", {"command": "touch never"})
                true(not scope.cancelled_caught, "it waited for longer")
                true(not (root / "never").exists(), "it ran")
        with check(f"{way}: calls that ask do not hold up others"):
            (root / "a.txt").write_text("one\n")
            person = Person("late")
            async with Client(server(root), mode=way, elicitation_callback=person) as client:
                async with anyio.create_task_group() as group:
                    group.start_soon(call, client, "Bash", {"command": "touch never"})
                    while not person.asked:
                        await anyio.sleep(0.01)
                    read = await call(client, "Read", {"file_path": "a.txt"})
                    contains(checks.text(read), "one")
                    group.cancel_scope.cancel()
    with check("the ledger names who answered"):
        rows = checks.records("tool = 'Write' AND phase = 'outcome'")
        equal({row["approver"] for row in rows}, {"elicitation"})


async def days_of_clients(directory):
    """The same day at a client of the SDK and over `sinew pipe`: the default answers each question."""
    for way in ("2025-11-25", "2026-07-28"):
        root = directory / f"day-{way}"
        day.lay_out(root, directory)
        mode = "legacy" if way == "2025-11-25" else way
        with check(f"{way}: of a day's 30 calls three ask, and the default answers each"):
            asked = []

            async def person(context, params):
                asked.append(params.message.split("\n")[0])
                await anyio.sleep(0.4)
                answer = params.requested_schema["properties"]["answer"]["default"]
                return types.ElicitResult(action="accept", content={"answer": answer})

            at = StdioServerParameters(
                command=checks.binary(), args=["--root", str(root), "mcp", "--tools", "all"], env=dict(os.environ), cwd=root
            )
            async with Client(at, mode=mode, elicitation_callback=person) as client:
                for tool, arguments, _ in day.turns():
                    await call(client, tool, arguments)
            equal(asked, day.QUESTIONS)
            day.is_done(root, checks.records())
    with check("over a pipe: of a day's 30 calls three ask"):
        root = directory / "day-pipe"
        day.lay_out(root, directory)
        pipe = subprocess.Popen(
            [checks.binary(), "--root", root, "--approvals", "auto", "pipe"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        asked = []
        for n, (tool, arguments, answer) in enumerate(day.turns()):
            print(json.dumps({"type": "call", "id": n, "name": tool, "arguments": arguments}), file=pipe.stdin, flush=True)
            for line in map(json.loads, pipe.stdout):
                if line["type"] == "reply":
                    break
                if line["type"] == "question":
                    asked.append(line["head"][0])
                    said = {"type": "answer", "question": line["question"], "answer": answer}
                    print(json.dumps(said), file=pipe.stdin, flush=True)
        pipe.stdin.close()
        equal(pipe.wait(60), 0)
        equal(asked, day.QUESTIONS)
        day.is_done(root, checks.records())


def shaken(root, *options):
    """Returns a server with a client that can be asked, and asks for a change that can be undone."""
    server = wire.Server(root, *options, approvals="ask")
    opening = json.loads(json.dumps(wire.INITIALIZE))
    opening["params"]["capabilities"] = {"elicitation": {}}
    server.send(opening)
    server.answer(0)
    server.send(wire.INITIALIZED)
    return server


def asked(server):
    while (message := server.receive()).get("method") != "elicitation/create":
        pass
    return message


def bytes_of_answers(root):
    """What no client of a library says."""
    for claim, answer in [
        ("an error", {"error": {"code": -32603, "message": "user dismissed"}}),
        ("a result without an action", {"result": {}}),
        ("a result of another type", {"result": {"action": 7}}),
        ("a result that is a text", {"result": "accept"}),
    ]:
        with check(f"{claim} is no yes, also where the change could be undone"):
            with shaken(root) as server:
                server.send(wire.tool_call(1, "Write", {"file_path": "odd", "content": ""}))
                server.send({"jsonrpc": "2.0", "id": asked(server)["id"], **answer})
                equal(kind(server.answer(1)["result"]), "approval_denied")
            true(not (root / "odd").exists(), "it was written")
    with check("a call that the client took back does not run, whatever is answered"):
        for n in range(20):
            with shaken(root) as server:
                server.send(wire.tool_call(1, "Write", {"file_path": "back", "content": ""}))
                yes = {"action": "accept", "content": {"answer": "once"}}
                reply = {"jsonrpc": "2.0", "id": asked(server)["id"], "result": yes}
                server.send(b"".join(json.dumps(line).encode() + b"\n"
                                     for line in (wire.cancelled(1), reply)))
                server.ask("ping")
                server.close()
                equal(server.ended(), 0)
            true(not (root / "back").exists(), f"it was written in round {n}")
    for way, meta in [
        ("with a handshake", None),
        ("without one", wire.stateless(**{
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}})),
    ]:
        with check(f"{way}: who closes the input answers nothing, and nobody waits for it"):
            with shaken(root) if meta is None else wire.Server(root, approvals="ask") as server:
                server.send(wire.tool_call(1, "Write", {"file_path": "closed", "content": ""}, meta))
                asked(server) if meta is None else server.answer(1)
                began = time.monotonic()
                server.close()
                equal(server.ended(), 0)
                true(time.monotonic() - began < 5, "it waited")
            true(not (root / "closed").exists(), "it was written")
    with check("a call that goes on is the one that asked"):
        with wire.Server(root, approvals="ask") as server:
            def call(id, name, **more):
                arguments = {"file_path": name, "content": ""}
                line = wire.tool_call(id, "Write", arguments, meta)
                line["params"].update(more)
                server.send(line)
                return server.answer(id)
            state = call(1, "one")["result"]["requestState"]
            yes = {"approval": {"action": "accept", "content": {"answer": "once"}}}
            refused = call(2, "two", requestState=state, inputResponses=yes)
            contains(refused["error"]["message"], "was another call")
            # An equal call beside it has a question of its own.
            equal(call(3, "one")["result"]["resultType"], "input_required")
            equal(kind(call(4, "one", requestState=state, inputResponses=yes)["result"]), None)
        true((root / "one").exists() and not (root / "two").exists(), "another file was written")


ONCE = {"action": "accept", "content": {"answer": "once"}}
DENY = {"action": "accept", "content": {"answer": "deny"}}
DECLINE = {"action": "decline"}
# What a client does, its answers to one question, the seconds before the first, and then of the call: its error, words of
# its reply, and the answer in the ledger.
ANSWERS = [
    ("accepts once", [ONCE], 0.4, None, "", "yes"),
    ("accepts twice", [ONCE, ONCE], 0.4, None, "", "yes"),
    ("accepts, then declines", [ONCE, DECLINE], 0.4, None, "", "yes"),
    ("denies, then accepts", [DENY, ONCE], 0.4, "approval_denied", "the call was denied", "no"),
    ("accepts after the time is over", [ONCE], 1.6, "approval_timeout", "it was not denied", "timeout"),
    ("never answers", [], 0, "approval_timeout", "it was not denied", "timeout"),
    ("accepts an empty form", [{"action": "accept", "content": {}}], 0.4, "approval_denied", "without an answer", "no"),
    ("declines at once", [DECLINE], 0, "approval_denied", "declined without asking", "no"),
]
ASKABLE = wire.stateless(**{"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}})
WAYS = [("with a handshake", None), ("without one", ASKABLE)]


def put(server, meta, id, arguments, answers, after):
    """Makes a call and answers its question so often; returns its reply, None where a client never asks for it."""
    server.send(wire.tool_call(id, "Bash", arguments, meta))
    if meta is None:
        question = asked(server)
        time.sleep(after)
        for answer in answers:
            server.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        return server.answer(id)["result"]
    state = server.answer(id)["result"]["requestState"]
    time.sleep(after)
    replies = [server.ask("tools/call", params) for params in resumed(arguments, meta, state, answers)]
    for reply in replies[1:]:
        contains(reply["error"]["message"], "this `requestState` is unknown")
    return replies[0]["result"] if replies else None


def resumed(arguments, meta, state, answers):
    """Returns the parameters of the calls by which a client without a handshake answers."""
    params = wire.tool_call(0, "Bash", arguments, meta)["params"]
    return [{**params, "requestState": state, "inputResponses": {"approval": answer}} for answer in answers]


def is_on_record(command, answer):
    """Checks that the ledger has one outcome of a command, with this answer."""
    until = time.monotonic() + 10
    while not (rows := checks.records("command = ?", command)) and time.monotonic() < until:
        time.sleep(0.05)
    equal([(row["answer"], row["approver"]) for row in rows], [(answer, "elicitation")], "answers in the ledger")


def answers_of_clients(root):
    (root / "next.txt").write_text("next\n")

    def goes_on(server, meta):
        contains(checks.text(server.call("Read", {"file_path": "next.txt"}, meta)), "next")
        server.close()
        equal(server.ended(), 0)

    for way, meta in WAYS:
        for n, (does, answers, after, error, words, recorded) in enumerate(ANSWERS):
            with check(f"{way}: a client {does}: one answer counts, and the next call is answered"):
                made = root / f"answers-{n}-{way.split()[0]}"
                command = f"echo run >>{made.name}"
                options = ["--set", "approval_timeout_s=1"] if recorded == "timeout" else []
                server = shaken(root, *options) if meta is None else wire.Server(root, *options, approvals="ask")
                with server:
                    reply = put(server, meta, 1, {"command": command}, answers, after)
                    if reply:
                        equal(kind(reply), error)
                        contains(checks.text(reply), words)
                    is_on_record(command, recorded)
                    goes_on(server, meta)
                equal(made.read_text() if made.exists() else "", "" if error else "run\n", "its runs")
                is_on_record(command, recorded)
        with check(f"{way}: fifty questions at once, each answered twice and in another order"):
            commands = [f"echo run >>fifty-{n}-{way.split()[0]}" for n in range(50)]
            with shaken(root) if meta is None else wire.Server(root, approvals="ask") as server:
                server.send(*(wire.tool_call(f"c{n}", "Bash", {"command": command}, meta)
                              for n, command in enumerate(commands)))
                replies, errors = fifty(server, meta, commands)
                equal(errors, 0 if meta is None else 50, "second answers that are refused")
                goes_on(server, meta)
            for n, command in enumerate(commands):
                equal(kind(replies[n]), "approval_denied" if n % 2 else None, command)
                made = root / command.split(">>")[1]
                equal(made.read_text() if made.exists() else "", "" if n % 2 else "run\n", command)
                is_on_record(command, "no" if n % 2 else "yes")


def fifty(server, meta, commands):
    """Answers the questions of all calls; returns the replies by the number of the call, and how many answers failed."""
    questions = {}
    while len(questions) < len(commands):
        message = server.receive()
        if meta is None:
            shown = message["params"]["message"]
            n = next(n for n, command in enumerate(commands) if f"$ {command}\n" in shown)
            questions[n] = message["id"]
        else:
            questions[int(message["id"][1:])] = message["result"]["requestState"]
    for n in sorted(questions, reverse=True):
        answers = [DENY if n % 2 else ONCE] * 2
        if meta is None:
            server.send(*({"jsonrpc": "2.0", "id": questions[n], "result": answer} for answer in answers))
        else:
            calls = resumed({"command": commands[n]}, meta, questions[n], answers)
            server.send(*(wire.request(f"c{n}", "tools/call", params) for params in calls))
    replies, errors = {}, 0
    while len(replies) < len(commands) or (meta and errors < len(commands)):
        message = server.receive()
        if "error" in message:
            errors += 1
        else:
            replies[int(message["id"][1:])] = message["result"]
    return replies, errors


def answered(root, command, question, typed, waits):
    """Answers the question of a command at a terminal; returns the screen before and after it."""
    if not shutil.which("tmux"):
        raise Skip("there is no tmux")
    screen = Screen(root, command)
    try:
        before = screen.until(question)
        waits()
        screen.type(typed)
        return before, screen.until(r"\[exit \d\]")
    finally:
        screen.close()


def terminal(root):
    binary = checks.binary()
    write = f"{binary} --approvals ask call Write '{{\"file_path\": \"t.txt\", \"content\": \"typed\\n\"}}'"
    commit = f"{binary} --approvals ask call Bash '{{\"command\": \"touch made\"}}'"
    for name, command, typed, shown, code, made in [
        ("yes, after the difference", write, "dy", ["Create t.txt?", "+1 −0 lines", "+typed", "Run it? [y/e/s/a/d/?/N]"], 0, "t.txt"),
        ("everything is shown, then no", commit, "?x", ["$ touch made", "is not known to be read-only"], 3, None),
        ("no, with words", commit, "n not now", ["touch made", "the call was denied: not now"], 3, None),
        ("an empty line", commit, "", ["touch made"], 3, None),
        ("for ever", commit, "f", ["always in this project: touch *"], 0, "made"),
    ]:
        with check(f"a person at a terminal is asked and answers: {name}"):
            def waits():
                true(made is None or not (root / made).exists(), "it ran before the answer")

            before, after = answered(root, command, r"Run it\? \[[^]]*\]", typed, waits)
            contains(before + after, *shown)
            contains(after, f"[exit {code}]")
            true(made is None or (root / made).exists(), f"{made} was not made")
    with check("a terminal of 20 columns shows what is asked beside the keys"):
        if not shutil.which("tmux"):
            raise Skip("there is no tmux")
        long = "; ".join(f"ln -s a narrow-{n}" for n in range(12))
        screen = Screen(root, f"{binary} --approvals ask call Bash '{{\"command\": \"{long}\"}}'", columns=20)
        try:
            shown = screen.until(r"Run\s+it\?\s+\[[^\]]*\]")
            contains(shown.replace("\n", ""), "Run this command?$ ln -s a narrow-0", "show everything")
            screen.type("n")
        finally:
            screen.close()
    with check("what was typed before the question is no answer to it"):
        if not shutil.which("tmux"):
            raise Skip("there is no tmux")
        screen = Screen(root, f"sleep 1; {binary} --approvals ask call Bash '{{\"command\": \"mkdir early\"}}'")
        try:
            screen.type("y")
            screen.until(r"Run it\? \[[^]]*\]")
            time.sleep(0.3)
            true(not (root / "early").exists(), "it ran")
            screen.type("n")
            contains(screen.until(r"\[exit \d\]"), "[exit 3]")
        finally:
            screen.close()
    with check("what was answered for ever is not asked again"):
        if not shutil.which("tmux"):
            raise Skip("there is no tmux")
        (root / "made").unlink()
        done = subprocess.run([binary, "--approvals", "ask", "call", "Bash", '{"command": "touch made"}'], cwd=root,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        equal(done.returncode, 0, done.stderr)
        true((root / "made").exists(), done.stderr)


def signed_commits(directory):
    """Commits are signed by a real SSH agent, which is lent to them once a session."""
    if not shutil.which("ssh-agent"):
        raise Skip("there is no ssh-agent")
    root, ssh = directory / "signed", checks.Path.home() / ".ssh"
    root.mkdir()
    ssh.mkdir(mode=0o700)
    key, place = ssh / "id_ed25519", str(directory / "agent.socket")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    checks.write(ssh / "allowed_signers", f"a@b.c {key.with_suffix('.pub').read_text()}")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", place], stdout=subprocess.DEVNULL)
    settings = {
        "gpg.format": "ssh", "user.signingkey": f"{key}.pub", "user.name": "a", "user.email": "a@b.c",
        "gpg.ssh.allowedSignersFile": ssh / "allowed_signers",
    }
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    for name, value in settings.items():
        subprocess.run(["git", "config", name, value], cwd=root, check=True)
    outside = {**os.environ, "SSH_AUTH_SOCK": place}
    for _ in range(100):
        if os.path.exists(place):
            break
        time.sleep(0.05)
    subprocess.run(["ssh-add", "-q", key], env=outside, check=True)
    pipe = subprocess.Popen(
        [checks.binary(), "--root", root, "--approvals", "auto", "pipe"], env=outside,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )

    def commit(n, answer, **needs):
        """Returns what was asked, and the reply."""
        arguments = {"command": f"git commit -q -S --allow-empty -m {n}", **needs}
        print(json.dumps({"type": "call", "id": n, "name": "Bash", "arguments": arguments}), file=pipe.stdin, flush=True)
        asked = None
        for line in map(json.loads, pipe.stdout):
            if line["type"] == "reply":
                return asked, line
            if line["type"] == "question":
                asked = line
                said = {"type": "answer", "question": line["question"], "answer": answer}
                print(json.dumps(said), file=pipe.stdin, flush=True)

    needs = {"needs": ["ssh-agent"], "why": "commits are signed here"}
    try:
        with check("a commit that is to be signed fails without the agent, and the reply names what it needs"):
            asked, reply = commit(1, "no")
            true(asked is None and not reply["ok"], reply)
            contains(json.dumps(reply), 'needs=[\\"ssh-agent\\"]')
        with check("the agent is lent once asked, for the session, and signs with the key of the home directory"):
            asked, reply = commit(2, "session", **needs)
            true(reply["ok"], reply)
            contains(asked["head"][2], "it can sign and log in as you")
            asked, reply = commit(3, "no", **needs)
            true(asked is None and reply["ok"], (asked, reply))
        with check("a link among the public keys leads a command nowhere"):
            secret = checks.write(checks.Path.home() / "private/secret", "canary\n")
            (ssh / "linked.pub").symlink_to(secret)
            (ssh / "dir.pub").symlink_to(secret.parent)
            look = f"git commit -q -S --allow-empty -m 4; cat {ssh}/*.pub {secret}; ls {secret.parent}"
            asked, reply = commit(4, "once", command=look, **needs)
            true(asked is not None, reply)
            contains(json.dumps(reply), "ssh-ed25519 ")
            true("canary" not in json.dumps(reply), reply)
            for name in ("HEAD", "HEAD~1"):
                shown = subprocess.run(["git", "verify-commit", name], cwd=root, capture_output=True, text=True)
                equal(shown.returncode, 0, shown.stderr)
    finally:
        pipe.stdin.close()
        equal(pipe.wait(60), 0)
        agent.terminate()
        agent.wait(10)


def undo(root):
    binary = checks.binary()
    for content in ("first\n", "second\n"):
        arguments = json.dumps({"file_path": "u.txt", "content": content})
        done = subprocess.run([binary, "--session", "undo", "call", "Write", arguments], cwd=root,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        equal(done.returncode, 0, done.stderr)
    for name, options, typed, shown, code, content in [
        ("a key leaves it", "", "dn", ["-second", "+first", "the call was denied"], 3, "second\n"),
        ("Enter takes it", "", "d", ["-second", "+first", "`sinew undo --redo` takes that back"], 0, "first\n"),
        ("Enter takes the undo back", " --redo", "d", ["-first", "+second", "restored c"], 0, "second\n"),
    ]:
        with check(f"a person at a terminal undoes: {name}"):
            def waits():
                equal((root / "u.txt").read_text(), "first\n" if options else "second\n")

            command = f"{binary} undo{options}"
            before, after = answered(root, command, "Enter runs it", typed, waits)
            contains(before + after, *shown)
            contains(after, f"[exit {code}]")
            equal((root / "u.txt").read_text(), content)


def body(directory):
    # Beside what sinew keeps: not every sandbox level lets commands see the directory around it.
    root = directory / "approvals"
    root.mkdir()
    anyio.run(elicitation, root)
    anyio.run(days_of_clients, directory)
    bytes_of_answers(root)
    answers_of_clients(root)
    terminal(root)
    undo(root)
    with check("commits are signed by an agent: the case runs"):
        signed_commits(directory)


checks.run(body)
