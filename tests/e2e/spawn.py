"""Sub-agents through the real command: a team on a scripted server, their rights, their limits, and their end."""

import collections
import http.server
import json
import os
import shlex
import signal
import sqlite3
import threading
import time

import checks
import wire
from checks import check, contains, equal, true
from foreign import start
from scripted_model import Project, Server, configure, events, fixtures_of_task

TEAM = {
    "name": "team", "prompt": "Lead the team.",
    "turns": [
        [("Spawn", {"tasks": [
            {"name": "a", "prompt": "You are a."}, {"name": "b", "prompt": "You are b."},
            {"name": "c", "prompt": "You are c.", "template": "explore"},
        ]})],
        [("AgentInbox", {})],
        [("Write", {"file_path": "team.txt", "content": "all did it\n"})],
        "The team is done.",
    ],
}
MEMBERS = [
    {"name": "a", "prompt": "You are a.", "turns": [
        [("Write", {"file_path": "from_a.txt", "content": "a\n"})],
        [("AgentSend", {"target": "team/general.b-2", "message": "a is done"})],
        [("AgentSend", {"target": "team", "message": "from a"})],
        "a wrote from_a.txt",
    ]},
    {"name": "b", "prompt": "You are b.", "turns": [
        [("Bash", {"command": "until test -e from_a.txt; do sleep 0.05; done; sleep 0.5; echo seen"})],
        [("AgentInbox", {})],
        [("Write", {"file_path": "from_b.txt", "content": "b\n"})],
        "b saw what a wrote",
    ]},
    {"name": "c", "prompt": "You are c.", "turns": [
        [("Read", {"file_path": "a.txt"})],
        [("Write", {"file_path": "from_c.txt", "content": "c\n"})],
        "c may only look",
    ]},
]


class Model(http.server.ThreadingHTTPServer):
    """A model that answers by what it is asked: slow, counted, and with the calls of a script."""

    daemon_threads = True

    def __init__(self, answer, delay=0.0):
        self.answer, self.delay = answer, delay
        self.lock, self.running, self.most, self.seen = threading.Lock(), collections.Counter(), 0, []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def settings(self, *more):
        url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        models = f'models.scripted={{ wire = "chat", url = "{url}", context = 64000 }}'
        return ["--set", models, "--set", 'agent.model="scripted"', *[part for one in more for part in ("--set", one)]]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        with server.lock:
            server.seen.append(body)
            server.running["all"] += 1
            server.most = max(server.most, server.running["all"])
        try:
            time.sleep(server.delay)
            said = server.answer(body)
        finally:
            with server.lock:
                server.running["all"] -= 1
        delta = {"role": "assistant", "content": said} if isinstance(said, str) else {"role": "assistant", "tool_calls": [
            {"index": n, "id": f"call_{len(body['messages'])}_{n}", "type": "function",
             "function": {"name": name, "arguments": json.dumps(arguments)}} for n, (name, arguments) in enumerate(said)]}
        end = "stop" if isinstance(said, str) else "tool_calls"
        chunks = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": end}], "usage": {"prompt_tokens": 100, "completion_tokens": 10}},
        ]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        try:
            self.wfile.write(text.encode())
        except OSError:
            pass

    def log_message(self, *_):
        pass


def prompt_of(body):
    return next(message["content"] for message in body["messages"] if message["role"] == "user")


def results_of(body):
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def team(directory):
    server = Server(directory, [fixture for task in [TEAM, *MEMBERS] for fixture in fixtures_of_task(task)])
    try:
        configure(server)
        project = Project(directory, "team", {})
        before = project.picture()
        with check("three sub-agents with messages between them complete a task, each with its own rights"):
            done = project.run("run", "--session", "team", "--tools", "all", "--profile", "sandboxed", "--json", TEAM["prompt"])
            equal(done.returncode, 0, done.stderr + done.stdout[-2000:])
            end = events(done)[-1]
            equal((end["stop"], end["text"]), ("done", "The team is done."))
            for name in ("from_a.txt", "from_b.txt", "team.txt"):
                true((project.root / name).exists(), name)
            true(not (project.root / "from_c.txt").exists(), "a sub-agent of `explore` wrote a file")
            said = lambda prompt: json.dumps([entry["body"] for entry in server.journal(prompt)])
            contains(said("You are b."), "a is done", "team/general.a-1")
            lead = said("Lead the team.")
            contains(lead, "## a: OK", "## b: OK", "## c: OK", "a wrote from_a.txt", "c may only look", "from a")
            true("seen" not in lead, "the leader saw more than the reports")
            contains(said("You are c."), "the template `explore` does not allow this tool: Write")
        with check("usage of a run is that of all its agents, and what they changed is in its summary"):
            n_requests = sum(len(server.journal(task["prompt"])) for task in [TEAM, *MEMBERS])
            true(n_requests >= 16, f"{n_requests} requests")
            contains(" ".join(change["path"] for change in end["changes"]), "from_a.txt", "from_b.txt", "team.txt")
        with check("the audit log says who did what, as a tree"):
            code, shown, _ = checks.sinew("--root", project.root, "audit", "list", "--tree", "--limit", "100")
            equal(code, 0)
            lines = [line for line in shown.splitlines() if "CALL" not in line]
            spawn = next(at for at, line in enumerate(lines) if " Spawn" in line)
            beneath = [line for line in lines[spawn + 1:] if "(team/" in line]
            contains("\n".join(beneath), "  (team/general.a-1) Write", "(team/general.b-2) Bash", "(team/explore.c-3) Read")
            equal(len(beneath), 8, "\n".join(lines))
            refused = next(line for line in beneath if "explore.c-3) Write" in line)
            contains(refused, "policy_denied")
            indent = lambda line, mark: line.index(mark)
            true(indent(beneath[0], "(team/") > indent(lines[spawn], "Spawn"), "\n".join(lines))
            true("(team/" not in lines[-1], "the last call is the leader's\n" + "\n".join(lines))
        with check("one ledger: calls of sub-agents belong to the session, with their parent"):
            rows = checks.records("agent is not null")
            equal({row["session"] for row in rows}, {"team"})
            spawned = checks.records("tool = 'Spawn'")[-1]["call_id"]
            equal({row["parent"] for row in rows}, {spawned})
        with check("what sub-agents changed is undone with the run, by the line that it printed"):
            line = shlex.split(end["undo"])
            done = project.run(*line[1:], "--yes")
            equal(done.returncode, 0, done.stderr)
            equal(project.picture(), before, "the tree after the undo")
    finally:
        server.end()


def rights(root):
    """What the agent above may not, no sub-agent may."""
    def answer(body):
        results = results_of(body)
        calls = [
            ("Write", {"file_path": "secret.txt", "content": "x"}),
            ("Read", {"file_path": "hidden/key.txt"}),
            ("Bash", {"command": "touch by_sub_agent"}),
            ("WebFetch", {"url": "http://denied.example/"}),
        ]
        return [calls[len(results)]] if len(results) < len(calls) else "\n".join(results)

    rules = ('rules=[{ verdict = "deny", tools = ["Write"], paths = ["secret.txt"] }, { verdict = "deny", tools = ["Read"], paths = ["hidden/**"] }, '
             '{ verdict = "deny", hosts = ["denied.example"] }, { verdict = "allow", agents = ["*"] }]')
    checks.write(root / "hidden/key.txt", "the key")
    with check("a sub-agent is denied what its parent is denied: a path, a host, a command without an approval; rules that allow agents free none"):
        with Model(answer) as model, wire.Server(root, "--tools", "all", *model.settings(rules), approvals="deny") as server:
            start(server)
            reply = server.call("Spawn", {"tasks": [{"prompt": "try it"}]}, timeout=60)
            text = checks.text(reply)
            contains(text, "OK", "denied by the rule")
            true(not (root / "secret.txt").exists() and not (root / "by_sub_agent").exists() and "the key" not in text, text)
            equal(len(results_of(model.seen[-1])), 4, text)
            expected = ["the rule `Write secret.txt`", "the rule `Read hidden/**`", "`--approvals deny` is set", "denied"]
            for result, part in zip(results_of(model.seen[-1]), expected):
                contains(result, part)
    with check("a rule for a template binds its sub-agents alone"):
        rule = 'rules=[{ verdict = "deny", tools = ["Read"], agents = ["explore"] }]'
        look = lambda body: [("Read", {"file_path": "a.txt"})] if not results_of(body) else results_of(body)[0]
        with Model(look) as model, wire.Server(root, "--tools", "all", *model.settings(rule)) as server:
            start(server)
            both = {"tasks": [{"prompt": "x", "template": "explore"}, {"prompt": "x", "template": "general"}]}
            text = checks.text(server.call("Spawn", both, timeout=60))
            explore, general = text.split("\n---\n")
            contains(explore, "denied by the rule")
            contains(general, "one")
            contains(checks.text(server.call("Read", {"file_path": "a.txt"})), "one")


def heard(root):
    """What a sub-agent heard of others, its session heard."""
    def answer(body):
        calls = [("AgentInbox", {}), ("WebFetch", {"url": "http://named.example/"})]
        n = len(results_of(body))
        return [calls[n]] if n < len(calls) else " ".join(results_of(body))

    with check("hosts that a message may have named ask, when a sub-agent read the message too"):
        with Model(answer) as model, wire.Server(root, "--tools", "all", "--session", "hears", *model.settings(), approvals="auto") as server:
            start(server)
            done = threading.Event()

            def send():
                with wire.Server(root, "--tools", "all", "--session", "speaks") as speaker:
                    start(speaker)
                    while not done.is_set():
                        speaker.call("AgentSend", {"target": "hears/general-%d" % number, "message": "fetch http://named.example/"})
                        time.sleep(0.05)

            model.delay = 0.5
            first = checks.text(server.call("Spawn", {"tasks": [{"prompt": "x"}]}, timeout=60))
            number = int(first.split("hears/general-")[1].split(";")[0].split(":")[0]) + 1
            true("may have named" not in first, first)
            thread = threading.Thread(target=send)
            thread.start()
            time.sleep(1)
            text = checks.text(server.call("Spawn", {"tasks": [{"prompt": "x"}]}, timeout=60))
            done.set()
            thread.join()
            contains(text, "which may have named named.example")


def approvals(root):
    """Questions of a sub-agent reach the client of the call that spawned it."""
    ask = lambda body: [("Bash", {"command": "touch asked_by_sub_agent"})] if not results_of(body) else results_of(body)[0]
    for word, is_there in (("accept", True), ("decline", False)):
        with check(f"an approval bubbles up under the name of the sub-agent: {word}"):
            with Model(ask) as model, wire.Server(root, "--tools", "all", *model.settings(), approvals="ask") as server:
                opening = wire.request(1, "initialize", {
                    "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "e2e", "version": "1"}})
                server.send(opening)
                server.answer(1)
                server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
                server.send(wire.tool_call(2, "Spawn", {"tasks": [{"name": "toucher", "prompt": "touch it"}]}))
                message = server.receive()
                while message.get("method") != "elicitation/create":
                    message = server.receive()
                contains(json.dumps(message["params"]), "general.toucher-", "touch asked_by_sub_agent")
                content = {"answer": "once"} if word == "accept" else None
                server.send({"jsonrpc": "2.0", "id": message["id"], "result": {"action": word, **({"content": content} if content else {})}})
                reply = server.answer(2, timeout=60)
                equal((root / "asked_by_sub_agent").exists(), is_there, str(reply))
            (root / "asked_by_sub_agent").unlink(missing_ok=True)
    with check("without an approver the sub-agent is denied, and says what would allow it"):
        with Model(ask) as model, wire.Server(root, "--tools", "all", *model.settings(), approvals="ask") as server:
            start(server)
            text = checks.text(server.call("Spawn", {"tasks": [{"prompt": "touch it"}]}, timeout=60))
            contains(text, "no approver is connected", "--approvals")
            true(not (root / "asked_by_sub_agent").exists(), text)


def answered(server, ids):
    """Returns the kinds of the answers to all of these requests, in whatever order they come."""
    left, kinds = set(ids), []
    while left:
        message = server.receive(60)
        if message.get("id") in left and "method" not in message:
            left.discard(message["id"])
            kinds.append(wire.kind_of(message["result"]))
    return kinds


def together(servers, counts, call):
    """Sends calls from all servers at once, `counts` of each; returns how many answers of each kind there were."""
    kinds, lock = collections.Counter(), threading.Lock()

    def send(server, n):
        ids = list(range(server.next_id + 1000, server.next_id + 1000 + n))
        server.next_id += 1000 + n
        server.send(*[wire.tool_call(id, *call(id)) for id in ids])
        for kind in answered(server, ids):
            with lock:
                kinds[kind] += 1

    threads = [threading.Thread(target=send, args=pair) for pair in zip(servers, counts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return kinds


def limits(root):
    state = lambda: sqlite3.connect(checks.Path(os.environ["XDG_STATE_HOME"]) / "sinew/messages.db")
    with check("of 100 spawns by 8 processes at most 20 begin within an hour and 5 work at once; none is recorded twice"):
        with Model(lambda body: "done", delay=0.4) as model:
            servers = [wire.Server(root, "--tools", "all", "--session", "racing", *model.settings()) for _ in range(8)]
            try:
                for server in servers:
                    start(server)
                work = lambda _: ("Spawn", {"tasks": [{"prompt": "work"}]})
                kinds = collections.Counter()
                for _ in range(4):
                    kinds += together(servers, [4] + [3] * 7, work)
                equal(sum(kinds.values()), 100, str(kinds))
                equal(set(kinds) - {None, "limit_reached"}, set(), str(kinds))
                true(5 <= kinds[None] <= 20, str(kinds))
                true(model.most <= 5, f"{model.most} at once")
                equal(len(model.seen), kinds[None], "requests of the model")
                for _ in range(40):
                    if wire.kind_of(servers[0].call("Spawn", {"tasks": [{"prompt": "work"}]}, timeout=60)) == "limit_reached":
                        break
                equal(state().execute("select count(*) from child where parent = 'racing'").fetchone()[0], 20)
                contains(checks.text(servers[1].call("Spawn", {"tasks": [{"prompt": "work"}]})), "20 within an hour", "begin in", "sub_agents.max_children")
            finally:
                for server in servers:
                    server.close()
    with check("a burst of 100 spawns by 8 processes begins exactly the 20 of an hour, where 32 may work at once"):
        with Model(lambda body: "done") as model:
            more = model.settings("sub_agents.max_running=32")
            servers = [wire.Server(root, "--tools", "all", "--session", "burst", *more) for _ in range(8)]
            try:
                for server in servers:
                    start(server)
                kinds = together(servers, [13] * 4 + [12] * 4, lambda _: ("Spawn", {"tasks": [{"prompt": "work"}]}))
                equal(kinds, {None: 20, "limit_reached": 80})
                equal(len(model.seen), 20, "requests of the model")
            finally:
                for server in servers:
                    server.close()
    with check("a budget is that of the session, not of each spawn"):
        with Model(lambda body: "done") as model, wire.Server(root, "--tools", "all", "--session", "budget", *model.settings('agent.budget="250"')) as server:
            start(server)
            texts = [checks.text(server.call("Spawn", {"tasks": [{"prompt": "work"}]}, timeout=60)) for _ in range(4)]
            equal([": OK" in text for text in texts], [True, True, True, False], str(texts))
            contains(texts[3], "its tokens are used up")
    with check("a call begins all of its tasks or none, and at most 5"):
        with Model(lambda body: "done") as model, wire.Server(root, "--tools", "all", "--session", "six", *model.settings()) as server:
            start(server)
            reply = server.call("Spawn", {"tasks": [{"prompt": "work"}] * 6})
            equal((wire.kind_of(reply), len(model.seen)), ("limit_reached", 0))
            equal(checks.text(server.call("Spawn", {"tasks": [{"prompt": "work"}] * 5}, timeout=60)).count(": OK"), 5)
    with check("sub-agents spawn sub-agents down to depth 5, and a cycle ends there"):
        deeper = lambda body: [("Spawn", {"tasks": [{"prompt": "deeper"}]})] if not results_of(body) else results_of(body)[0]
        with Model(deeper) as model, wire.Server(root, "--tools", "all", "--session", "deep", *model.settings()) as server:
            start(server)
            text = checks.text(server.call("Spawn", {"tasks": [{"prompt": "deeper"}]}, timeout=60))
            contains(text, "more than 5 agents above it", "sub_agents.max_depth")
            equal(max(name.count("/") for (name,) in state().execute("select name from child where session = 'deep'")), 5)
            equal(state().execute("select count(*) from child where is_running = 1").fetchone()[0], 0)
    with check("time, tokens, rounds of calls and the number in a session are limited, each by its key"):
        again = lambda body: [("Read", {"file_path": "a.txt", "offset": len(results_of(body)) + 1})]
        for key, answer, delay, expected in [
            ("timeout_s=1", lambda body: "late", 3, "its time of 1 s ran out"),
            ("max_tokens=300", again, 0, "its tokens are used up"),
            ("max_iterations=2", lambda body: again(body) if body.get("tools") and len(results_of(body)) < 9 else "that is all", 0, "turns: 3"),
            ("max_total=1", lambda body: "done", 0, "1 sub-agents may begin in one session within an hour"),
            ("max_running=1", lambda body: "done", 0, "1 sub-agents of one agent may work at once, and 0 do"),
            ("max_depth=1", deeper, 0, "more than 1 agents above it"),
        ]:
            with Model(answer, delay) as model, wire.Server(root, "--tools", "all", "--session", key.split("=")[0], *model.settings(f"sub_agents.{key}")) as server:
                start(server)
                n = 2 if key in ("max_total=1", "max_running=1") else 1
                contains(checks.text(server.call("Spawn", {"tasks": [{"prompt": "work"}] * n}, timeout=60)), expected)
    with check("10 messages a minute pass between two agents however many processes send, and an inbox holds what it may"):
        servers = [wire.Server(root, "--tools", "all", "--session", "sender", "--set", "messages.max_queued=15") for _ in range(8)]
        try:
            with wire.Server(root, "--tools", "all", "--session", "reader") as reader:
                start(reader)
                reader.call("AgentInbox", {})
                for server in servers:
                    start(server)
                message = lambda id: ("AgentSend", {"target": "reader", "message": f"m{id}"})
                kinds = together(servers, [13] * 4 + [12] * 4, message)
                equal(kinds, {None: 10, "limit_reached": 90})
                got = reader.call("AgentInbox", {"limit": 100})
                equal(checks.text(got).count("sender"), 10, checks.text(got))
        finally:
            for server in servers:
                server.close()


def ends(root):
    """Everything of a sub-agent ends with the agent above it."""
    def answer(body):
        return [("Bash", {"command": "exec -a of_sub_agent sleep 300"})] if not results_of(body) else "done"

    def sleepers():
        found = []
        for directory in checks.Path("/proc").iterdir():
            try:
                if b"of_sub_agent" == (directory / "cmdline").read_bytes().split(b"\0")[0]:
                    found.append(int(directory.name))
            except (OSError, ValueError):
                pass
        return found

    def wait(condition, what):
        for _ in range(200):
            if condition():
                return
            time.sleep(0.05)
        raise AssertionError(what)

    allow = 'rules=[{ verdict = "allow", command = "exec *" }]'
    for way in ("kill -9 of the agent above", "the call is cancelled"):
        with check(f"sub-agents and their commands end: {way}"):
            with Model(answer) as model, wire.Server(root, "--tools", "all", "--session", "ending", *model.settings(allow), approvals="allow") as server:
                start(server)
                server.send(wire.tool_call(7, "Spawn", {"tasks": [{"prompt": "sleep"}] * 3}))
                wait(lambda: len(sleepers()) == 3, f"three commands: {sleepers()}")
                if way.startswith("kill"):
                    server.kill()
                else:
                    server.send(wire.cancelled(7))
                wait(lambda: not sleepers(), f"left: {sleepers()}")
                n = len(model.seen)
                time.sleep(0.5)
                equal(len(model.seen), n, "the model is asked after the end")
    with check("background commands of a sub-agent end with it, and of those beneath it"):
        def background(body):
            calls = [("Bash", {"command": "exec -a of_sub_agent sleep 300", "run_in_background": True})]
            if prompt_of(body) == "first":
                calls.append(("Spawn", {"tasks": [{"prompt": "second"}]}))
            n = len(results_of(body))
            return [calls[n]] if n < len(calls) else f"{len(sleepers())} run; " + " ".join(results_of(body))

        with Model(background) as model, wire.Server(root, "--tools", "all", "--session", "behind", *model.settings(allow), approvals="allow") as server:
            start(server)
            text = checks.text(server.call("Spawn", {"tasks": [{"prompt": "first"}]}, timeout=60))
            contains(text, ": OK", "2 run;")
            wait(lambda: not sleepers(), f"left: {sleepers()}\n{text}")
    with check("a sub-agent that ended gets no messages"):
        with Model(lambda body: "done") as model, wire.Server(root, "--tools", "all", "--session", "mail", *model.settings()) as server:
            start(server)
            text = checks.text(server.call("Spawn", {"tasks": [{"prompt": "work"}]}, timeout=60))
            name = text.split("[")[-1].split(";")[0]
            true(name.startswith("mail/general-"), text)
            contains(checks.text(server.call("AgentSend", {"target": name, "message": "late"})), "names no known session")
    with check("what a killed process left does not count as working"):
        with Model(lambda body: "done") as model, wire.Server(root, "--tools", "all", "--session", "ending", *model.settings()) as server:
            start(server)
            equal(checks.text(server.call("Spawn", {"tasks": [{"prompt": "work"}] * 5}, timeout=60)).count(": OK"), 5)


def templates(root):
    user = checks.Path(os.environ["HOME"]) / ".config/sinew/agents"
    checks.write(user / "reviewer.md", "---\ndescription: Reviews.\ntools: Read, Grep\nmax_steps: 3\n---\nReview what you are shown.\n")
    checks.write(user / "runner.md", "---\ntools: [Bash]\n---\nRun it.\n")
    checks.write(user / "broken.md", "---\nname: [\n---\nx\n")
    project = root.with_name("of-project")
    checks.write(project / ".agents/agents/own.md", "Of the project.\n")
    checks.write(project / "a.txt", "one\n")
    with check("templates are listed with their source; a project's own count after trust; broken ones are told"):
        code, out, err = checks.sinew("--root", project, "agents", "list")
        equal(code, 0, err)
        contains(out, "explore", "built-in", "reviewer", "user")
        contains(err, "broken.md", "until you trust the project")
        true("own" not in out.split(), out)
        equal(checks.sinew("trust", project, "--yes")[0], 0)
        contains(checks.sinew("--root", project, "agents", "list")[1], "own", "project")
        shown = [json.loads(line) for line in checks.sinew("--root", project, "agents", "list", "--json")[1].splitlines()]
        equal(next(one for one in shown if one.get("template") == "reviewer")["tools"], ["Read", "Grep"])
        contains(checks.sinew("--root", project, "agents", "show", "reviewer")[1], "Review what you are shown.", "Read, Grep")
        equal(checks.sinew("--root", project, "agents", "show", "none")[0], 2)
    say = lambda body: "told: " + body["messages"][0]["content"].split("nothing else")[-1][:400]
    with check("a template says what its sub-agents are, and which tools they have"):
        with Model(say) as model, wire.Server(root, "--tools", "all", *model.settings()) as server:
            start(server)
            text = checks.text(server.call("Spawn", {"tasks": [{"prompt": "x", "template": "reviewer"}]}, timeout=60))
            contains(text, "Review what you are shown.")
            equal(sorted(tool["function"]["name"] for tool in model.seen[-1]["tools"]), ["Grep", "Read"])
            kind = wire.kind_of(server.call("Spawn", {"tasks": [{"prompt": "x", "template": "none"}]}))
            equal(kind, "not_found")
            tool = next(tool for tool in server.ask("tools/list")["result"]["tools"] if tool["name"] == "Spawn")
            contains(tool["description"], "- reviewer: Reviews.", "- explore:")
    with check("a template that asks for more than the agent above it has is refused, and other tools stay out of reach"):
        deeper = lambda body: [("Spawn", {"tasks": [{"prompt": "x", "template": "runner"}]})] if not results_of(body) else results_of(body)[0]
        checks.write(user / "lead.md", "---\ntools: Read, Spawn\n---\nLead.\n")
        with Model(deeper) as model, wire.Server(root, "--tools", "all", *model.settings()) as server:
            start(server)
            text = checks.text(server.call("Spawn", {"tasks": [{"prompt": "x", "template": "lead"}]}, timeout=60))
            contains(text, "asks for tools that this agent has not: Bash")
            equal(len(model.seen), 2, "requests")
    with check("aionrs and agentos have their own tools for it, and nothing is listed without a model"):
        with Model(lambda body: "found it") as model:
            with wire.Server(root, "--dialect", "aionrs", *model.settings()) as server:
                start(server)
                contains(checks.text(server.call("Spawn", {"tasks": [{"name": "find", "prompt": "x"}]}, timeout=60)), "## find: OK", "found it")
            with wire.Server(root, "--dialect", "agentos", "--session", "os", *model.settings()) as server:
                start(server)
                reply = server.call("tool::agent_spawn", {"template": "general", "message": "x", "parentId": "os"}, timeout=60)
                result = json.loads(checks.text(reply))
                equal((result["response"], result["depth"]), ("found it", 1))
                true(result["agentId"].startswith("os/general-"), str(result))
                equal(wire.kind_of(server.call("tool::agent_spawn", {"template": "general", "message": "x", "parentId": "other"})), "policy_denied")
        for dialect in ("native", "aionrs", "agentos"):
            with wire.Server(root, "--dialect", dialect, "--tools", "all") as server:
                start(server)
                names = {tool["name"] for tool in server.ask("tools/list")["result"]["tools"]}
                true(not names & {"Spawn", "tool::agent_spawn", "tool__agent_spawn"}, f"{dialect}: {names}")


def body(directory):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    root = directory / "work"
    checks.write(root / "a.txt", "one\n")
    team(directory)
    checks.write(checks.Path(os.environ["HOME"]) / ".config/sinew/config.toml", "[mcp]\ntrust_arguments = true\n")
    rights(root)
    heard(root)
    approvals(root)
    limits(root)
    ends(root)
    templates(root)


checks.run(body)
