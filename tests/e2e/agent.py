"""`sinew run` against scripted model servers of a third party: its tasks, its failures, and its way back.

Each API gets the same script. The journal of the server says what sinew sent.
"""

import contextlib
import http.server
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
import urllib.request

import checks
from agent_tasks import TASKS
from checks import Skip, check, contains, equal, true
from scripted_model import KEY, WIRES, Project, Server, configure, events, fixtures_of_task
from tmux_screen import Screen

SCREENS = checks.Path(__file__).with_name("screens")
OVERLOADED = {"anthropic": 529}


def failing(wire):
    """What fails once and then answers, and what fails for good."""
    first = lambda prompt, n: {"userMessage": f"{prompt} {wire}", "sequenceIndex": n}
    read = {"id": f"cut_{wire}", "name": "Read", "arguments": json.dumps({"file_path": "notes/" + "x" * 200})}
    fixtures = []
    for prompt, failure in [
        ("E2E-LIMITED", {"response": {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1}}),
        ("E2E-OVERLOADED", {"response": {"error": {"message": "busy", "type": "overloaded_error"}, "status": OVERLOADED.get(wire, 503)}}),
        ("E2E-CUT-TEXT", {"response": {"content": "half of an answer " * 20}, "chunkSize": 10, "latency": 20, "truncateAfterChunks": 5}),
        # Ollama sends a call at once.
        ("E2E-CUT-CALL", {"response": {"content": "Reading.", "toolCalls": [read]}, "chunkSize": 10, "latency": 20,
                          "truncateAfterChunks": 2 if wire == "ollama" else 8}),
        ("E2E-MALFORMED", {"response": {"content": "x"}, "chaos": {"malformedRate": 1}}),
        ("E2E-DROPPED", {"response": {"content": "x"}, "chaos": {"disconnectRate": 1}}),
    ]:
        fixtures.append({"match": first(prompt, 0), **failure})
        fixtures.append({"match": first(prompt, 1), "response": {"content": f"whole answer of {prompt}"}})
    for prompt, status, kind in [("E2E-KEY", 401, "authentication_error"), ("E2E-MODEL", 404, "not_found_error")]:
        error = {"message": "no", "type": kind}
        fixtures.append({"match": {"userMessage": f"{prompt} {wire}"}, "response": {"error": error, "status": status}})
    thinking = {
        "content": "Reading.", "reasoning": "I should read the file.",
        "toolCalls": [{"id": f"think_{wire}", "name": "Read", "arguments": json.dumps({"file_path": "a.txt"})}],
    }
    fixtures.append({"match": first("E2E-THINK", 0), "response": thinking})
    fixtures.append({"match": first("E2E-THINK", 1), "response": {"content": "thought and read"}})
    blocks = [
        {"type": "toolCall", "id": f"inter_{wire}_1", "name": "Read", "arguments": json.dumps({"file_path": "a.txt"})},
        {"type": "text", "text": "And now the other."},
        {"type": "toolCall", "id": f"inter_{wire}_2", "name": "Read", "arguments": json.dumps({"file_path": "b.txt"})},
    ]
    fixtures.append({"match": first("E2E-INTERLEAVED", 0), "response": {"blocks": blocks}})
    fixtures.append({"match": first("E2E-INTERLEAVED", 1), "response": {"content": "read both"}})
    return fixtures


EDIT = {"id": "edit_1", "name": "Edit", "arguments": json.dumps({"file_path": "a.txt", "old_string": "one", "new_string": "one one"})}
WAIT = {"id": "wait_1", "name": "Bash", "arguments": json.dumps({"command": "echo begun >> log.txt && sleep 60"})}
CHAT = [
    {"id": "chat_1", "name": "Edit", "arguments": json.dumps({"file_path": "a.txt", "old_string": "one", "new_string": "uno"})},
    {"id": "chat_2", "name": "Bash", "arguments": json.dumps({"command": "touch made"})},
]
CHAT_ANSWER = "## Done\n\n* `a.txt` says uno\n* nothing was made\n"
READS = [{"id": f"read_{n}", "name": "Read", "arguments": json.dumps({"file_path": "a.txt"})} for n in range(6)]


def others():
    same = lambda n: {"content": "Again.", "toolCalls": [READS[n]]}
    return [
        {"match": {"userMessage": "E2E-KILL", "hasToolResult": False}, "response": {"toolCalls": [EDIT]}},
        {"match": {"toolCallId": "edit_1", "sequenceIndex": 0}, "response": {"content": "too late"}, "latency": 20000},
        {"match": {"toolCallId": "edit_1", "sequenceIndex": 1}, "response": {"content": "changed it once"}},
        {"match": {"userMessage": "E2E-COMMAND", "hasToolResult": False}, "response": {"toolCalls": [WAIT]}},
        {"match": {"toolCallId": "wait_1"}, "response": {"content": "the command was lost"}},
        {"match": {"userMessage": "E2E-SLOW"}, "response": {"content": "slow " * 200}, "chunkSize": 5, "latency": 300},
        {"match": {"userMessage": "E2E-LOOP", "hasToolResult": False}, "response": same(0)},
        *[{"match": {"toolCallId": f"read_{n}"}, "response": same(n + 1)} for n in range(4)],
        {"match": {"toolCallId": "read_4"}, "response": {"content": "I give up"}},
        {"match": {"userMessage": "E2E-INPUT"}, "response": {"content": "reviewed"}},
        {"match": {"userMessage": "E2E-AGAIN"}, "response": {"content": "went on"}},
        {"match": {"userMessage": "E2E-TEXT-CALL", "hasToolResult": False},
         "response": {"content": '```json\n{"name": "Read", "arguments": {"file_path": "a.txt"}}\n```'}},
        {"match": {"userMessage": "E2E-TEXT-CALL", "hasToolResult": True}, "response": {"content": "read it from text"}},
        {"match": {"userMessage": "E2E-LEAN"}, "response": {"content": "lean"}},
        *[{"match": {"toolCallId": f"grant_{n}"}, "response": {"content": "asked for it"}} for n in range(4)],
        *[
            {"match": {"userMessage": f"E2E-GRANT {n}"}, "response": {"toolCalls": [
                {"id": f"grant_{n}", "name": "Bash", "arguments": json.dumps({"command": f"touch made-{n}"})}]}}
            for n in range(4)
        ],
        {"match": {"userMessage": "E2E-CHAT", "hasToolResult": False}, "response": {"content": "I **look** first.", "toolCalls": [CHAT[0], CHAT[1]]}},
        {"match": {"toolCallId": "chat_2"}, "response": {"content": CHAT_ANSWER}},
    ]


def tasks(directory, server):
    for wire in WIRES:
        with check(f"ten tasks of ten over {wire}"):
            for task in TASKS:
                project = Project(directory, f"{wire}-{task['name']}", task["files"])
                before = project.picture()
                done = project.run("run", "--model", wire, "--json", task["prompt"])
                equal(done.returncode, 0, f"{task['name']}: {done.stderr}{done.stdout[-500:]}")
                lines = events(done)
                end = lines[-1]
                equal((end["type"], end["stop"]), ("end", "done"), task["name"])
                task["check"](project.root, end["text"])
                n_calls = sum(line["type"] == "call" for line in lines)
                true(0 < n_calls <= 20, f"{task['name']}: {n_calls} calls")
                undone(project, before, end)


def undone(project, before, end):
    """The command that the run printed restores the tree byte for byte."""
    if project.picture() == before:
        equal(end["undo"], None, "the line that undoes nothing")
        return
    line = shlex.split(end["undo"])
    equal(line[:3], ["sinew", "checkpoint", "restore"], "the line that undoes")
    done = project.run(*line[1:], "--yes")
    equal(done.returncode, 0, done.stderr)
    equal(project.picture(), before, "the tree after the undo")


def failures(directory, server):
    for wire in WIRES:
        project = Project(directory, f"failures-{wire}", {})
        for prompt, words in [
            ("E2E-LIMITED", "HTTP 429"), ("E2E-OVERLOADED", "busy"), ("E2E-CUT-TEXT", "ended before"),
            ("E2E-CUT-CALL", "ended before"), ("E2E-MALFORMED", ""), ("E2E-DROPPED", ""),
        ]:
            with check(f"{wire}: {prompt} is tried again"):
                done = project.run("run", "--model", wire, "--json", f"{prompt} {wire}")
                lines = events(done)
                retries = [line["error"] for line in lines if line["type"] == "retry"]
                equal((done.returncode, lines[-1]["text"]), (0, f"whole answer of {prompt}"), f"{retries} {lines[-1]}")
                equal(len(retries), 1, f"{retries}")
                contains(retries[0], words)
                true(not any(line["type"] == "call" for line in lines), "a half call was made")
        for prompt, code, words in [("E2E-KEY", 2, "check the key"), ("E2E-MODEL", 1, "check the name of the model")]:
            with check(f"{wire}: {prompt} is an error that says what to do"):
                done = project.run("run", "--model", wire, f"{prompt} {wire}")
                equal((done.returncode, done.stdout), (code, ""), done.stderr)
                contains(done.stderr, words, "sinew run --resume")
                true(KEY not in done.stderr, "the key is shown")
        with check(f"{wire}: thinking streams, and is kept as it was signed"):
            done = project.run("run", "--model", wire, "--json", f"E2E-THINK {wire}")
            lines = events(done)
            equal(lines[-1]["text"], "thought and read", done.stderr)
            if wire == "ollama":
                raise Skip("the scripted server streams no thinking over this API")
            thought = "".join(line["text"] for line in lines if line["type"] == "thinking")
            equal(thought, "I should read the file.")
            if wire == "anthropic":
                contains(project.run("sessions", "export", "latest").stdout, '"sealed":{', '"signature":')
        with check(f"{wire}: interleaved calls keep their order"):
            done = project.run("run", "--model", wire, "--json", f"E2E-INTERLEAVED {wire}")
            lines = events(done)
            equal(lines[-1]["text"], "read both", done.stderr)
            calls = [line["arguments"]["file_path"] for line in lines if line["type"] == "call"]
            equal(calls, ["a.txt", "b.txt"], "the calls")
            results = [line for line in lines if line["type"] == "result"]
            true(all(line["ok"] for line in results), f"{results}")


def requests(directory, server):
    with check("later requests begin with the earlier ones"):
        for wire in ("chat", "anthropic", "responses"):
            project = Project(directory, f"stable-{wire}", TASKS[5]["files"])
            project.run("run", "--model", wire, TASKS[5]["prompt"])
            bodies = [entry["body"] for entry in server.journal(TASKS[5]["prompt"])]
            bodies = [body for body in bodies if str(project.root) in json.dumps(body)]
            equal(len(bodies), 3, "requests")
            for key in ("tools", "system", "instructions"):
                equal(len({json.dumps(body.get(key)) for body in bodies}), 1, key)
            for one, other in zip(bodies, bodies[1:]):
                first, second = messages(one), messages(other)
                equal(second[:len(first)], first, "the prefix")
    with check("a small context window gets a short prompt and six tools"):
        project = Project(directory, "lean", {"AGENTS.md": ""})
        done = project.run("run", "--model", "small", "E2E-LEAN")
        equal(done.returncode, 0, done.stderr)
        body = server.journal("E2E-LEAN")[-1]["body"]
        tools, system = body["tools"], body["messages"][0]["content"]
        true(len(tools) <= 6, f"{len(tools)} tools")
        n_tokens = (len(json.dumps(tools, separators=(",", ":"))) + len(system)) / 3.6
        true(n_tokens <= 900, f"{n_tokens} tokens")
        print(f"lean: {len(tools)} tools, about {n_tokens:.0f} tokens with the prompt")
    with check("a window that the tools half fill is refused with figures"):
        checks.write(project.root / "AGENTS.md", "long " * 8000)
        done = project.run("run", "--model", "middle", "E2E-LEAN")
        equal(done.returncode, 2, done.stderr)
        contains(done.stderr, "more than half of the 16000 of the model's context window")
    with check("AGENTS.md reaches the model, and a link out of the repository does not"):
        project = Project(directory, "instructed", {"AGENTS.md": "Say MARK-7.\n"})
        project.run("run", "E2E-AGAIN instructed")
        contains(json.dumps(server.journal("E2E-AGAIN instructed")[-1]["body"]), "Say MARK-7.")
        (project.root / "AGENTS.md").unlink()
        (project.root / "AGENTS.md").symlink_to("/etc/hostname")
        done = project.run("run", "E2E-AGAIN linked")
        contains(done.stderr, "outside the repository")
    with check("a call that was written as text is made"):
        done = project.run("run", "--json", "E2E-TEXT-CALL")
        lines = events(done)
        equal(lines[-1]["text"], "read it from text", done.stderr)
        equal([line["tool"] for line in lines if line["type"] == "call"], ["Read"])


def messages(body):
    """Returns the conversation, without the marker of the prompt cache, which is by content."""
    text = json.dumps(body.get("messages") or body.get("input"))
    return json.loads(re.sub(r', "cache_control": \{"type": "ephemeral"\}', "", text))


def ways_of_ending(directory, server):
    with check("identical calls are noticed and stopped"):
        project = Project(directory, "loop", {})
        done = project.run("run", "--json", "E2E-LOOP")
        lines = events(done)
        equal((done.returncode, lines[-1]["stop"]), (1, "repeated"))
        contains(lines[-1]["text"], "I give up")
        equal(sum(line["type"] == "call" for line in lines), 4, "calls that ran")
    with check("Ctrl-C ends the turn and keeps what was said"):
        process = project.start("run", "E2E-SLOW")
        wait_for(lambda: server.journal("E2E-SLOW"))
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        equal(process.returncode, 130, err)
        contains(err, "the turn ends", "interrupted")
        shown = project.run("sessions", "show", "latest").stdout
        contains(shown, "E2E-SLOW", "slow slow", "[ended: interrupted]")
    with check("a command that asks is denied without a person, with the property that it lacks"):
        done = project.run("--set", "run.ask=always", "run", "E2E-COMMAND denied")
        equal(done.returncode, 0, done.stderr)
        contains(done.stderr, "Bash", "failed", "it cannot run unasked")
        true(not (project.root / "log.txt").exists(), "the command ran")
    with check("standard input joins the task"):
        done = project.run("run", "E2E-INPUT", "-", text="a difference of MARK-9\n")
        equal((done.returncode, done.stdout), (0, "reviewed\n"), done.stderr)
        contains(json.dumps(server.journal("E2E-INPUT")[-1]["body"]), "MARK-9")
    with check("a reader that closes its end stops the run"):
        process = project.start("run", "--json", "E2E-SLOW closed")
        process.stdout.readline()
        process.stdout.close()
        true(process.wait(30) in (0, 1, 130), f"exit {process.returncode}")
        process.stderr.close()
    with check("no task, no model and no session are told with what to do"):
        for args, words in [
            ([], "say what to do"), (["x", "--model", "none"], "there is no model `none`"),
            (["x", "--resume", "none"], "sinew sessions list"), (["x", "--budget", "$1"], "input_price"),
            (["-"], "the task is empty"),
        ]:
            done = project.run("run", *args)
            equal((done.returncode, done.stdout), (2, ""), done.stderr)
            contains(done.stderr, words)
    with check("a key comes from a program, which is no file of the project"):
        for argv, words in [
            (["/bin/sh", "-c", f"echo {KEY}; echo other"], None),
            (["/bin/sh", "-c", "echo the keyring is locked >&2; exit 3"], "exits with 3: the keyring is locked"),
            (["/bin/true"], "prints nothing"), (["/no/such/program"], "did not start"),
            ([str(project.root / "key.sh")], "did not start"),
        ]:
            checks.write(project.root / "key.sh", f"#!/bin/sh\necho {KEY}\n").chmod(0o755)
            more = checks.write(directory / "key.toml", "\n".join([
                "[models.keyed]", 'wire = "chat"', f'url = "http://127.0.0.1:{server.port}/v1"', f"key_command = {json.dumps(argv)}",
            ]))
            done = project.run("--config", str(more), "run", "--model", "keyed", "E2E-AGAIN keyed")
            equal(done.returncode, 2 if words else 0, done.stderr)
            contains(done.stderr, words or "go on with")
            true(KEY not in done.stderr + done.stdout, "the key is shown")
    with check("a key that is in no variable is in no transcript either"):
        secret = "unshaped-key-0123456789"
        more = checks.write(directory / "key.toml", "\n".join([
            "[models.keyed]", 'wire = "chat"', f'url = "http://127.0.0.1:{server.port}/v1"',
            f'key_command = ["/bin/echo", "{secret}"]',
        ]))
        # The control: another model does not know that this is a secret.
        for model, is_found in [("keyed", False), ("chat", True)]:
            done = project.run("--config", str(more), "run", "--model", model, f"E2E-AGAIN {secret}")
            equal((done.returncode, secret in project.run("sessions", "export", "latest").stdout), (0, is_found), done.stderr)
    with check("plain HTTP of another machine is for those who say so"):
        # An address of this machine that is written as if it were none.
        for plain, code in [("", 2), ("plain_http = true", 0)]:
            more = checks.write(directory / "plain.toml", "\n".join([
                "[models.plain]", 'wire = "chat"', f'url = "http://[::ffff:127.0.0.1]:{server.port}/v1"', 'key_env = "E2E_KEY"', plain,
            ]))
            done = project.run("--config", str(more), "run", "--model", "plain", "E2E-AGAIN plain")
            if code == 0 and "unreachable" in done.stderr.lower():
                raise Skip("no IPv6 here")
            equal(done.returncode, code, done.stderr)
            contains(done.stderr, "go on with" if code == 0 else "plain_http")
    with check("the doctor names the model, or what is missing"):
        find = lambda: next(
            one for one in json.loads(project.run("doctor", "--json").stdout)["findings"] if one["check"] == "model"
        )
        contains(find()["text"], "chat: chat at http://127.0.0.1", "64000 tokens")
        key = os.environ.pop("E2E_KEY")
        try:
            missing = find()
        finally:
            os.environ["E2E_KEY"] = key
        equal((missing["ok"], missing["needed"]), (False, False))
        contains(missing["text"], "E2E_KEY")
    with check("a budget ends the run before the next request"):
        done = project.run("run", "--budget", "1", "--json", "E2E-LOOP budget")
        lines = events(done)
        equal((lines[-1]["stop"], sum(line["type"] == "request" for line in lines)), ("budget", 1), f"{lines[-1]}")


def way_back(directory, server):
    with check("a killed run goes on and changes nothing twice"):
        project = Project(directory, "killed", {})
        before = project.picture()
        process = project.start("run", "E2E-KILL")
        wait_for(lambda: (project.root / "a.txt").read_text() == "one one\n")
        wait_for(lambda: server.journal("edit_1"))
        process.kill()
        process.communicate(timeout=10)
        done = project.run("run", "--resume", "latest", "--json")
        end = events(done)[-1]
        equal((done.returncode, end["text"]), (0, "changed it once"), done.stderr)
        equal((project.root / "a.txt").read_text(), "one one\n")
        last = project.run("checkpoint", "list").stdout.split()[0]
        equal(project.run("checkpoint", "restore", last, "--yes").returncode, 0)
        equal(project.picture(), before, "the tree after the undo")
    with check("a command that was killed with its run is not run again"):
        project = Project(directory, "commanded", {})
        process = project.start("--profile", "sandboxed", "run", "E2E-COMMAND")
        log = project.root / "log.txt"
        try:
            wait_for(lambda: log.exists() or process.poll() is not None)
            if process.poll() is not None:
                raise Skip("no strong sandbox here")
        finally:
            process.kill()
            process.communicate(timeout=10)
        done = project.run("--profile", "sandboxed", "run", "--resume", "latest", "--json")
        equal(events(done)[-1]["text"], "the command was lost", done.stderr)
        equal(log.read_text(), "begun\n", "what the command wrote")
        contains(json.dumps(server.journal("wait_1")[-1]["body"]), "its result is lost")
    with check("sessions are listed, shown, copied and exported"):
        project.run("run", "E2E-AGAIN first")
        done = project.run("run", "--resume", "latest", "E2E-AGAIN second")
        equal((done.returncode, done.stdout), (0, "went on\n"), done.stderr)
        body = json.dumps(server.journal("E2E-AGAIN second")[-1]["body"])
        contains(body, "E2E-AGAIN first")
        name = project.run("sessions", "fork", "latest").stdout.strip()
        listed = [json.loads(line) for line in project.run("sessions", "list", "--json").stdout.splitlines()]
        equal((listed[0]["session"], listed[0]["title"]), (name, "E2E-AGAIN first"))
        exported = project.run("sessions", "export", name).stdout.splitlines()
        equal(json.loads(exported[0])["entry"]["entry"], "turn_begins")
        contains(project.run("sessions", "show", name).stdout, "> E2E-AGAIN second", "went on")
        other = Project(directory, "elsewhere", {})
        done = other.run("run", "--resume", name, "x")
        equal(done.returncode, 2)
        contains(done.stderr, str(project.root))
    with check("no key is in any file of the state directory"):
        state = checks.Path(os.environ["HOME"]) / ".local/state/sinew"
        true((state / "sessions.db").exists(), "there are sessions")
        # The control: what was said is found in the same way.
        found = {part: False for part in (KEY, "E2E-AGAIN second")}
        for path in state.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                found = {part: was or part.encode() in content for part, was in found.items()}
        equal(found, {KEY: False, "E2E-AGAIN second": True})
        with contextlib.closing(sqlite3.connect(state / "sessions.db")) as database:
            equal(database.execute("PRAGMA integrity_check").fetchone()[0], "ok")


def replays(directory, server):
    task = TASKS[5]
    recording = directory / "recording.jsonl"
    with check("a recorded run is replayed with the results that were recorded"):
        project = Project(directory, "recorded", task["files"])
        before = project.picture()
        done = project.run("run", "--record", str(recording), "--model", "anthropic", task["prompt"])
        equal(done.returncode, 0, done.stderr)
        after = project.picture()
        bare = Project(directory, "bare", {})
        untouched = bare.picture()
        done = bare.run("replay", str(recording))
        equal((done.returncode, done.stdout), (0, "Renamed in both files.\n"), done.stderr)
        contains(done.stderr, "4 calls, all results as recorded")
        equal(bare.picture(), untouched, "the tree of a replay without tools")
        listed = project.run("sessions", "list").stdout
        equal(project.run("run", "--record", str(recording), "x").returncode, 2, "an existing recording")
        equal(project.run("sessions", "list").stdout, listed, "the sessions after a run that did not begin")
    with check("a replay runs the tools, and shows what differs"):
        again = Project(directory, "again", task["files"])
        done = again.run("replay", "--real", str(recording))
        equal((done.returncode, again.picture() == after), (0, True), done.stderr)
        other = Project(directory, "other", {**task["files"], "main.py": "print('other')\n"})
        done = other.run("replay", "--real", "--json", str(recording))
        last = events(done)[-1]
        equal((done.returncode, last["type"]), (1, "replayed"), done.stderr)
        equal({difference["tool"] for difference in last["differences"]}, {"Read", "Edit"}, "what differs")
        contains(other.run("replay", "--real", str(recording)).stderr, "-", "differ", "recorded")
        equal(before != after, True)
    with check("the demo runs without a key"):
        plain = {name: value for name, value in os.environ.items() if name != "E2E_KEY"}
        done = subprocess.run(
            [checks.binary(), "replay", "demo"], cwd=project.root, env={**plain, "TMPDIR": str(directory)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )
        equal(done.returncode, 0, done.stderr)
        contains(done.stderr, "all results as recorded", "undo with: sinew --root", "path denied: /etc/shadow")
        contains(done.stdout, "polite now")
    with check("a file that is no recording is told with its line"):
        broken = checks.write(directory / "broken.jsonl", recording.read_text().replace('"turn_begins"', '"other"', 1))
        done = project.run("replay", broken)
        equal((done.returncode, done.stdout), (2, ""), done.stderr)
        contains(done.stderr, "line 2: unknown variant")


def steady(shown):
    """Takes away what differs from run to run."""
    shown = re.sub(r"session [0-9a-f]{16}", "session S", shown)
    shown = re.sub(r"/\S*/talk", "/talk", shown)
    shown = re.sub(r"\b\d+ ms", "N ms", shown)
    shown = re.sub(r"\bc\d+\b", "cN", shown)
    shown = re.sub(r"sandbox: [^·\n]* ", "sandbox: ... ", shown)
    return "\n".join(line.rstrip() for line in shown.rstrip().splitlines()) + "\n"


def hold(name, shown):
    """Holds a screen against the golden one."""
    at = SCREENS / f"chat-{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        at.write_text(steady(shown))
    equal(steady(shown), at.read_text(), f"the screen {at.name}")


def chat(directory, server):
    project = Project(directory, "talk", {})
    binary = checks.binary()
    end = r"\n> *\n*$"
    with check("a conversation: streamed answer, approval, difference, undo, Ctrl-C"):
        if not shutil.which("tmux"):
            raise Skip("there is no tmux")
        screen = Screen(project.root, f"trap : INT; E2E_KEY={KEY} {binary} --approvals ask chat --model chat")
        try:
            screen.until(end)
            screen.type("E2E-CHAT make it uno")
            hold("1-question", screen.until(r"Run it\? \[[^]]*\] *\n*$"))
            screen.press("y")
            screen.until(r"touch made[\s\S]*Run it\? \[[^]]*\] *\n*$")
            # Keys of the first moments are ignored behind another question.
            time.sleep(1)
            screen.press("n")
            screen.until("for no reason\\)")
            screen.type("not now")
            hold("2-answer", screen.until(r"undo with[^\n]*(\n[^\n]*)?" + end))
            equal((project.root / "a.txt").read_text(), "uno\n")
            true(not (project.root / "made").exists(), "the denied command ran")
            screen.press("C-l")
            screen.type("/undo")
            screen.until(r"Run it\? \[[^]]*\] *\n*$")
            time.sleep(1)
            screen.press("y")
            hold("3-undo", screen.until(r"restored[\s\S]*" + end))
            equal((project.root / "a.txt").read_text(), "one\n")
            screen.press("C-l")
            screen.type("E2E-SLOW")
            wait_for(lambda: "E2E-SLOW" in json.dumps(server.journal("E2E-CHAT make it uno")[-1]["body"]))
            time.sleep(1.5)
            screen.press("C-c")
            contains(screen.until("interrupted" + r"[^\n]*" + end), "slow", "the turn ends")
            screen.type("/cost")
            screen.until("tokens read[^\n]*" + end)
            screen.type("/nothing")
            contains(screen.until(r"no command[^\n]*" + end), "/help")
            screen.press("C-d")
            contains(screen.until(r"\[exit \d\]"), "[exit 0]")
        finally:
            screen.close()
    with check("a conversation is resumed"):
        screen = Screen(project.root, f"E2E_KEY={KEY} {binary} chat --resume latest")
        try:
            contains(screen.until(end), "the session continues after 2 turns")
            screen.type("E2E-AGAIN in chat")
            screen.until(r"went on" + end)
            contains(json.dumps(server.journal("E2E-AGAIN in chat")[-1]["body"]), "E2E-CHAT make it uno", "not now")
            screen.type("/exit")
            screen.until(r"\[exit 0\]")
            contains(project.run("sessions", "list").stdout, "E2E-CHAT make it uno")
        finally:
            screen.close()
    with check("a person begins a turn with a skill, which leaves its tools for this turn"):
        if not shutil.which("tmux"):
            raise Skip("there is no tmux")
        own = checks.Path(os.environ["HOME"]) / ".config/sinew/skills/greet"
        checks.write(own / "SKILL.md", "---\nallowed-tools: [Read]\ndisable-model-invocation: true\n---\nE2E-AGAIN greet $ARGUMENTS\n")
        screen = Screen(project.root, f"E2E_KEY={KEY} {binary} chat")
        try:
            screen.until(end)
            screen.type("/greet Ada Lovelace")
            screen.until("went on" + end)
            screen.press("C-l")
            screen.type("E2E-AGAIN without a skill")
            screen.until("went on" + end)
            names = lambda part: {tool["function"]["name"] for tool in server.journal(part)[0]["body"]["tools"]}
            contains(json.dumps(server.journal("E2E-AGAIN greet Ada Lovelace")[0]["body"]), "only these tools can be called")
            true(names("E2E-AGAIN greet Ada Lovelace") <= {"Read", "Skill"}, str(names("E2E-AGAIN greet Ada Lovelace")))
            true("Bash" in names("E2E-AGAIN without a skill"), "the tools after the turn")
            screen.press("C-d")
            screen.until(r"\[exit 0\]")
        finally:
            screen.close()
            shutil.rmtree(own)
    with check("what was granted for the session is granted when it is resumed, and in no other"):
        if not shutil.which("tmux"):
            raise Skip("there is no tmux")
        screen = Screen(project.root, f"E2E_KEY={KEY} {binary} --approvals ask chat")
        try:
            screen.until(end)
            screen.type("E2E-GRANT 0")
            contains(screen.until(r"Run it\? \[[^]]*\] *\n*$"), "for this session")
            screen.press("s")
            # What the command changed follows, with the line that undoes it.
            contains(screen.until(r"asked for it(?:\nsinew: .*)*" + end), "made-0 (new", "undo with")
            true((project.root / "made-0").exists(), "the command did not run")
            done = project.run("run", "--resume", "latest", "x")
            equal(done.returncode, 2, done.stderr)
            contains(done.stderr, "is open in process", "sinew sessions fork")
            screen.type("/exit")
            screen.until(r"\[exit 0\]")
        finally:
            screen.close()
        copy = project.run("sessions", "fork", "latest").stdout.strip()
        own = json.loads(project.run("sessions", "list", "--json").stdout.splitlines()[1])["session"]
        for n, (args, made) in enumerate([(["--resume", own], True), (["--resume", copy], False), ([], False)], 1):
            done = project.run("--approvals", "ask", "run", *args, f"E2E-GRANT {n}")
            equal((done.returncode, (project.root / f"made-{n}").exists()), (0, made), done.stderr)
    with check("a conversation needs a terminal"):
        done = project.run("chat")
        equal(done.returncode, 2)
        contains(done.stderr, "needs a terminal", "sinew run")


class Ollama(http.server.BaseHTTPRequestHandler):
    """As much of Ollama as a model that says one word needs."""

    asked = []

    def reply(self, *lines):
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        self.reply({"models": [{"name": "tiny:latest"}]} if self.path == "/api/tags" else {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/api/show":
            return self.reply({"model_info": {"qwen2.context_length": 32768}})
        Ollama.asked.append(body)
        end = {"message": {"content": ""}, "done": True, "done_reason": "stop"}
        self.reply({"message": {"content": "found"}, "done": False}, end)

    def log_message(self, *_):
        pass


def found(directory, server):
    config = checks.Path(os.environ["HOME"]) / ".config/sinew/config.toml"
    aside = config.rename(config.with_suffix(".aside"))
    project = Project(directory, "found", {})
    try:
        with check("a model server on a usual port is named, and used when it is chosen"):
            try:
                local = http.server.ThreadingHTTPServer(("127.0.0.1", 11434), Ollama)
            except OSError as error:
                raise Skip(f"port 11434: {error}") from None
            threading.Thread(target=local.serve_forever, daemon=True).start()
            try:
                done = project.run("run", "x")
                equal((done.returncode, done.stdout), (2, ""), done.stderr)
                if "tiny:latest" not in done.stderr:
                    raise Skip("another model server runs here")
                contains(done.stderr, "Ollama at http://127.0.0.1:11434 serves tiny:latest", "--model local")
                equal(Ollama.asked, [], "requests without a choice")
                done = project.run("run", "--model", "local", "x")
                equal((done.returncode, done.stdout), (0, "found\n"), done.stderr)
                equal(Ollama.asked[0]["options"]["num_ctx"], 16384)
            finally:
                local.shutdown()
                local.server_close()
        with check("without a model the error says what to set"):
            done = project.run("run", "x")
            equal((done.returncode, done.stdout), (2, ""), done.stderr)
            if "serves" in done.stderr:
                raise Skip("a model server runs here")
            contains(done.stderr, "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "[models.NAME]", "127.0.0.1:11434")
    finally:
        aside.rename(config)


def wait_for(condition):
    until = time.monotonic() + 30
    while not condition():
        true(time.monotonic() < until, "it did not happen within 30 s")
        time.sleep(0.05)


def body(directory):
    # A suite in the background is started with SIGINT ignored, and sinew leaves a signal so that was.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The more particular ones count first.
    fixtures = [fixture for task in TASKS for fixture in fixtures_of_task(task, by_turn="ollama")]
    fixtures += [fixture for task in TASKS for fixture in fixtures_of_task(task)]
    fixtures += [fixture for wire in WIRES for fixture in failing(wire)] + others()
    server = Server(directory, fixtures)
    try:
        configure(server)
        for part in (tasks, failures, requests, ways_of_ending, way_back, replays, chat, found):
            part(directory, server)
    finally:
        server.end()


checks.run(body)
