"""Claude Code at work with the tools of sinew alone: its own are denied, its model is scripted.

A second task works with git as a person sees it: in a terminal, with a dialog for each command. With root the
suite moves into a network namespace that has loopback only.
"""

import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import checks
import day
from checks import Skip, check, contains, equal, true

TASK = "E2E-TASK: make the greeting polite"
FINAL = "FINAL: the greeting is polite now"
SOURCE = (
    'fn greet(name: &str) {\r\n    println!("hey {name}");\n}\n\n'
    'fn main() {\n    greet("you");\n}'
)
GREETING = ('    println!("hey {name}");', '    println!("good day, {name}");')

# The tools of Claude Code that reach files or run commands.
DENIED = ["Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read", "Write"]

# Another MCP server, behind sinew.
SERVER = checks.Path(__file__).with_name("foreign_server.py")
FOREIGN = f"""[tools.mcp_servers.fx]
command = {json.dumps(sys.executable)}
args = {json.dumps([str(SERVER)])}
internal_only = false
"""

# What the model says turn by turn: (text, tool, arguments), and what it must have been answered.
TURNS = [
    ("Looking.", "Grep", {"pattern": "fn greet", "output_mode": "content", "-n": True},
     "src/greet.rs:1:fn greet(name: &str) {"),
    ("Reading.", "Read", {"file_path": "src/greet.rs"}, '     2→    println!("hey {name}");\n'),
    ("Editing.", "Edit",
     {"file_path": "src/greet.rs", "old_string": GREETING[0], "new_string": GREETING[1]},
     "src/greet.rs"),
    ("Reading again.", "Read", {"file_path": "src/greet.rs", "offset": 2, "limit": 1},
     '     2→    println!("good day, {name}");\n'),
    ("Asking another server.", "fx__echo", {"text": "a greeting of others"}, "a greeting of others"),
    ("Trying outside.", "Read", {"file_path": "/etc/shadow"}, "path denied: /etc/shadow"),
    ("Trying its own.", None, None, None),
]


GIT_TASK = "E2E-GIT: bring the branches together"
GIT_FINAL = "FINAL: the branches are one"
# What changes the branch, the settings of the pipeline and those of the editor.
GROUND = """git init -q -b main . && git config user.name a && git config user.email a@b.c &&
mkdir -p .github/workflows .vscode && echo one > .github/workflows/ci.yml && echo {} > .vscode/settings.json &&
echo one > notes.txt && git add . && git commit -qm one && git switch -qc feature &&
echo two > .github/workflows/ci.yml && echo '{"a": 1}' > .vscode/settings.json && git commit -qam two &&
git switch -q main && echo more > more.txt && git add . && git commit -qm three"""
# Each command, and whether it fails: a hook is planted by a script, which no question names.
GIT_TURNS = [
    ("Switching.", "git checkout -q feature && cat .github/workflows/ci.yml .vscode/settings.json", False),
    ("Committing.", "echo two >> notes.txt && git commit -qam notes && git log --oneline | wc -l", False),
    ("Merging.", "git checkout -q main && git merge -q -m merged feature && git status --short", False),
    ("Beginning another.", "git init -q -b main tool && git -C tool status --short --branch", False),
    ("Trying a hook.", "h=hooks; echo echo planted > tool/.git/$h/pre-commit", True),
]


DAY_TASK = "E2E-DAY: parse the numbers and test it"
DAY_FINAL = "FINAL: the numbers are parsed"
def day_fixtures():
    turns = [
        {"content": f"Step {n}.", "toolCalls": [{"name": f"mcp__sinew__{tool}", "arguments": arguments}]}
        for n, (tool, arguments, _) in enumerate(day.turns(), 1)
    ]
    return [
        {"match": {"userMessage": "E2E-DAY", "turnIndex": n}, "response": response}
        for n, response in enumerate([*turns, {"content": DAY_FINAL}])
    ]


def git_fixtures():
    turns = []
    for n, (text, command, _) in enumerate(GIT_TURNS):
        arguments = {"command": command, "description": text}
        turns.append({"content": text, "toolCalls": [{"name": "mcp__sinew__Bash", "arguments": arguments}]})
    turns.append({"content": GIT_FINAL})
    return [
        {"match": {"userMessage": "E2E-GIT", "turnIndex": n}, "response": response}
        for n, response in enumerate(turns)
    ]


def fixtures():
    turns = []
    for n, (text, tool, arguments, _) in enumerate(TURNS):
        name = f"mcp__sinew__{tool}" if tool else "Bash"
        arguments = arguments or {"command": "touch ran", "description": "runs"}
        call = {"name": name, "arguments": arguments}
        turns.append((n, {"content": text, "toolCalls": [call]}))
    turns.append((len(turns), {"content": FINAL}))
    return {
        "fixtures": [
            {"match": {"userMessage": "E2E-TASK", "turnIndex": n}, "response": response}
            for n, response in turns
        ]
        + git_fixtures()
        + day_fixtures()
    }


def free_port():
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return any_socket.getsockname()[1]


@contextlib.contextmanager
def model(directory):
    """Starts the scripted model, and hands out its address and the requests it got."""
    port = free_port()
    script = checks.write(directory / "fixtures.json", json.dumps(fixtures()))
    process = subprocess.Popen(
        ["llmock", "-p", str(port), "-f", script, "--strict", "--validate-on-load"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=(directory / "llmock.log").open("wb"),
        env={**os.environ, "AIMOCK_STRICT_TURN_INDEX": "1"},
    )
    for _ in range(200):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        time.sleep(0.1)
    requests = []
    between = listener(f"http://127.0.0.1:{port}", requests)
    try:
        yield f"http://127.0.0.1:{between.server_address[1]}", requests
    finally:
        between.shutdown()
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def listener(to, requests):
    """Stands between a client and its model, and keeps what the client asks."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            with contextlib.suppress(ValueError):
                requests.append(json.loads(body))
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in ("host", "content-length", "accept-encoding", "connection")
            }
            asked = urllib.request.Request(to + self.path, body, headers)
            try:
                answer = urllib.request.urlopen(asked, timeout=60)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                content = answer.read()
            self.send_response(answer.status)
            self.send_header("content-type", answer.headers.get("content-type", ""))
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def project(directory):
    """Makes a project that a person set up for sinew and trusts."""
    root = directory / "project"
    checks.write(root / "src/greet.rs", SOURCE)
    server = {
        "command": checks.binary(),
        "args": ["--approvals", "trust-client", "mcp"],
        "alwaysLoad": True,
    }
    checks.write(root / ".mcp.json", json.dumps({"mcpServers": {"sinew": server}}))
    settings = {
        "permissions": {"allow": ["mcp__sinew"], "deny": DENIED},
        "enabledMcpjsonServers": ["sinew"],
    }
    checks.write(root / ".claude/settings.json", json.dumps(settings))
    trusted = {"projects": {str(root): {"hasTrustDialogAccepted": True}}}
    checks.write(checks.Path(os.environ["HOME"]) / ".claude.json", json.dumps(trusted))
    return root


def claude(root, address, **more):
    """Lets Claude Code do the task, with more variables, and returns its events."""
    kept = {name: os.environ[name] for name in os.environ if not name.startswith("CLAUDE")}
    done = subprocess.run(
        ["claude", "-p", TASK, "--model", "claude-sonnet-4-5", "--output-format", "stream-json",
         "--verbose"],
        cwd=root, stdin=subprocess.DEVNULL, capture_output=True, timeout=180,
        env={
            **kept,
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MAX_THINKING_TOKENS": "0",
            "IS_SANDBOX": "1",
            **more,
        },
    )
    if done.returncode:
        said = (done.stderr + done.stdout[-2000:]).decode()
        raise AssertionError(f"exit {done.returncode}: {checks.short(said, 3000)}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class Terminal:
    """Claude Code in a terminal of tmux, which a person looks at."""

    def __init__(self, root, address, task):
        self.name = f"sinew-claude-{os.getpid()}-{task[:7]}"
        kept = {name: os.environ[name] for name in ("HOME", "PATH", "SINEW_BIN") if name in os.environ}
        env = {
            **kept, "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": KEY, "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
            "MAX_THINKING_TOKENS": "0", "TERM": "xterm-256color", "LANG": "C.UTF-8",
        }
        self.tmux(
            "new-session", "-d", "-s", self.name, "-x", "110", "-y", "50", "-c", str(root), "env", "-i",
            *[f"{name}={value}" for name, value in env.items()],
            "claude", "--model", "claude-sonnet-4-5", task,
        )

    def tmux(self, *args):
        done = subprocess.run(["tmux", "-L", self.name, *args], capture_output=True, text=True)
        return done.stdout

    def shown(self):
        return self.tmux("capture-pane", "-p", "-t", self.name).rstrip() + "\n"

    def until(self, pattern):
        """Waits until the screen has a pattern, and returns the screen."""
        for _ in range(600):
            shown = self.shown()
            if re.search(pattern, shown):
                return shown
            time.sleep(0.1)
        raise AssertionError(f"no {pattern!r} on the screen:\n{shown}")

    def accept(self, dialog):
        """Answers a dialog with its first choice. One that is still being drawn takes no key."""
        for n in range(100):
            if n % 10 == 0:
                self.tmux("send-keys", "-t", self.name, "Enter")
            time.sleep(0.1)
            if not re.search(dialog, self.shown()):
                return
        raise AssertionError(f"the dialog stays:\n{self.shown()}")

    def close(self):
        self.tmux("kill-server")


KEY = "sk-ant-e2e-00000000000000000000"


def set_up(root, args, allow):
    """Writes what a person has who uses sinew in a project with Claude Code, in a terminal."""
    server = {"command": checks.binary(), "args": args, "alwaysLoad": True}
    checks.write(root / ".mcp.json", json.dumps({"mcpServers": {"sinew": server}}))
    settings = {"permissions": {"allow": allow, "deny": DENIED}, "enabledMcpjsonServers": ["sinew"]}
    checks.write(root / ".claude/settings.local.json", json.dumps(settings))
    known = {
        "hasCompletedOnboarding": True, "theme": "dark", "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {str(root): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    checks.write(checks.Path(os.environ["HOME"]) / ".claude.json", json.dumps(known))


def keep(name, screens):
    """Keeps the screens for a person to look at, where `E2E_SCREENS` names a directory."""
    if os.environ.get("E2E_SCREENS"):
        for n, shown in enumerate(screens, 1):
            checks.write(checks.Path(os.environ["E2E_SCREENS"]) / f"claude-{name}-{n}.txt", shown)


def work(directory, address):
    """Lets a person do a day's work; sinew alone asks."""
    root = directory / "day"
    day.lay_out(root, directory)
    set_up(root, ["mcp", "--tools", "all"], ["mcp__sinew"])
    screens = []
    terminal = Terminal(root, address, DAY_TASK)
    try:
        with check("of a day's 30 calls sinew asks about three, and Enter answers each"):
            equal(len(day.TURNS), 30)
            for asked, parts in [
                (r"Read numbers\.md outside the project\?", ["notes/numbers.md", "the model sees what is in it"]),
                # Its default is no, which Enter takes.
                (r"Create \.envrc\?", [str(root / ".envrc"), "+1 −0 lines", "undo covers it"]),
                (r"Run with the network open\?", ["$ python3 -m venv", "it can send project files"]),
            ]:
                screens.append(terminal.until(asked + r"[\s\S]*Esc to cancel|FINAL"))
                # Lines of the dialog wrap.
                shown = re.sub(r"\s+", " ", screens[-1])
                for part in parts:
                    contains(shown, part)
                terminal.accept(asked + r"[\s\S]*Esc to cancel")
            screens.append(terminal.until(re.escape(DAY_FINAL)))
    finally:
        terminal.close()
        keep("day", screens)
    with check("every call of the day but the one that was denied has done its work"):
        day.is_done(root, checks.records())


def in_terminal(directory, address):
    """Lets a person do the task with git; each command has a dialog, whose answer counts for sinew too."""
    root, twin = directory / "git", directory / "outside"
    for place in (root, twin):
        place.mkdir()
        subprocess.run(["sh", "-c", GROUND], cwd=place, check=True)
    # Objects count as the user's only if they are older than the session.
    time.sleep(0.1)
    set_up(root, ["--approvals", "trust-client", "mcp"], [])
    checks.write(root / ".git/info/exclude", ".mcp.json\n.claude\n")
    screens = []
    terminal = Terminal(root, address, GIT_TASK)
    try:
        with check("in a terminal each command of the task has one dialog"):
            for text, _, _ in GIT_TURNS:
                dialog = rf'(?s)description: "{re.escape(text)}".*Do you want to proceed'
                screens.append(terminal.until(dialog))
                terminal.accept(dialog)
            screens.append(terminal.until(re.escape(GIT_FINAL)))
    finally:
        terminal.close()
        keep("git", screens)
    with check("the dialog shows the whole command"):
        contains(re.sub(r"[\s│]+", " ", screens[0]), "git checkout -q feature && cat .github/workflows/ci.yml")
    with check("after it the repository is as it is outside"):
        for _, command, fails in GIT_TURNS:
            if not fails:
                subprocess.run(["sh", "-c", command], cwd=twin, check=True, capture_output=True)

        def state(place):
            look = (
                "git log --format=%s --graph --all; git status --short --branch; git config --list --local;"
                "cat .github/workflows/ci.yml .vscode/settings.json notes.txt; git -C tool status --short --branch;"
                "ls tool/.git tool/.git/hooks"
            )
            return subprocess.run(["sh", "-c", look], cwd=place, capture_output=True, text=True).stdout

        equal(state(root), state(twin))
        true(not (root / "tool/.git/hooks/pre-commit").exists(), "the hook was planted")
    with check("each command is in the ledger with how it ended"):
        rows = [(row["tool"], row["outcome"]) for row in checks.records()][-len(GIT_TURNS):]
        equal([tool for tool, _ in rows], ["Bash"] * len(GIT_TURNS))
        equal([outcome != "ok" for _, outcome in rows], [fails for *_, fails in GIT_TURNS], str(rows))


def results(events):
    """Returns what each tool call was answered, in order, as (text, whether it failed)."""
    found = []
    for event in events:
        if event["type"] != "user":
            continue
        for block in event["message"]["content"]:
            if block["type"] == "tool_result":
                content = block["content"]
                text = content if isinstance(content, str) else checks.text(block)
                found.append((text, block.get("is_error", False)))
    return found


def by_setup(directory, address):
    """Registers sinew by `sinew setup` in a home of its own, lets Claude Code work through it, and takes that back."""
    home, root = directory / "registered", directory / "registered-project"
    checks.write(root / "src/greet.rs", SOURCE)
    written = '{\n\t"includeCoAuthoredBy" : false,\n\t"permissions": { "deny":["WebFetch"] }\n}'
    settings = checks.write(home / ".claude/settings.json", written)

    def listed():
        done = subprocess.run(
            ["claude", "mcp", "list"], cwd=root, capture_output=True, text=True, timeout=60,
            env={**os.environ, "HOME": str(home)},
        )
        return done.stdout + done.stderr

    def setup(*args):
        code, said, errors = checks.sinew("setup", "claude", *args, cwd=root, env={"HOME": str(home)})
        equal(code, 0, said + errors)
        return said

    with check("`sinew setup claude` registers sinew by Claude Code's own command, and rehearses"):
        contains(setup(), "ran claude mcp add-json -s user sinew", "brought notes.txt back", ".ssh/id_ed25519: refused")
        contains(setup(), "already configured")
    with check("Claude Code lists the server as connected"):
        contains(listed(), f"sinew: {checks.binary()} mcp", "Connected")
    with check("it works through the server, without tools of its own"):
        events = claude(root, address, HOME=str(home))
        start = next(event for event in events if event.get("subtype") == "init")
        equal([(server["name"], server["status"]) for server in start["mcp_servers"]], [("sinew", "connected")])
        equal(sorted(set(start["tools"]) & set(DENIED)), [])
        equal((root / "src/greet.rs").read_bytes(), SOURCE.replace(*GREETING).encode())
    with check("after `--undo` the settings are as before, and the server is gone"):
        contains(setup("--undo"), "ran claude mcp remove -s user sinew")
        equal(settings.read_text(), written)
        true("sinew" not in listed(), listed())


def body(directory):
    with check("Claude Code and the scripted model are installed"):
        missing = [name for name in ["claude", "llmock"] if not shutil.which(name)]
        if missing:
            raise Skip(f"{missing} missing; tests/e2e/run installs them")
    if missing:
        return
    root = project(directory)
    own = checks.Path(os.environ["XDG_CONFIG_HOME"]) / "sinew/config.toml"
    checks.write(own, (own.read_text() if own.exists() else "") + FOREIGN)
    with model(directory) as (address, requests):
        events = claude(root, address)
    start = next(event for event in events if event.get("subtype") == "init")
    with check("its own tools are gone, and those of sinew are there"):
        equal([server["status"] for server in start["mcp_servers"]], ["connected"])
        equal(sorted(set(start["tools"]) & set(DENIED)), [])
        ours = [name for name in start["tools"] if name.startswith("mcp__sinew__")]
        true({f"mcp__sinew__{tool}" for _, tool, *_ in TURNS if tool} <= set(ours), str(ours))
    with check("the model is shown them from the first turn"):
        asked = next(request for request in requests if "E2E-TASK" in json.dumps(request))
        shown = {tool["name"]: tool for tool in asked["tools"]}
        equal(sorted(set(shown) & set(DENIED)), [])
        for name in ours:
            true(name in shown and not shown[name].get("defer_loading"), f"{name} is deferred")
            contains(shown[name]["input_schema"]["type"], "object")
    for n, ((text, failed), (_, tool, _, said)) in enumerate(zip(results(events), TURNS), 1):
        with check(f"turn {n}: the model gets the answer of {tool or 'no other tool'}"):
            if tool:
                equal(failed, "denied" in said, text)
                contains(text, said)
            else:
                equal(failed, True, "whether it failed")
                true(not (root / "ran").exists(), "the command ran")
    with check("every turn was taken, to the last word"):
        equal(len(results(events)), len(TURNS))
        last = events[-1]
        equal((last["type"], last["result"], last["num_turns"]), ("result", FINAL, len(TURNS) + 1))
    with check("the file changed exactly as it was told to"):
        equal((root / "src/greet.rs").read_bytes(), SOURCE.replace(*GREETING).encode())
        names = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
        equal(names, [".claude/settings.json", ".mcp.json", "src/greet.rs"])
    with check("the ledger holds every one of these calls"):
        rows = [(row["tool"], row["outcome"], row["surface"]) for row in checks.records()]
        expected = [
            (tool, "path_denied" if "denied" in said else "ok", "mcp")
            for _, tool, _, said in TURNS
            if tool
        ]
        equal(rows, expected)
    with check("the ledger has the call of the other server with its pinned definition"):
        contains(checks.records("tool = 'fx__echo'")[-1]["text"], "the tool `echo` of the server `fx`, definition ")
    with model(directory) as (address, _):
        by_setup(directory, address)


def whole(directory):
    body(directory)
    with check("a terminal, Claude Code and the scripted model are installed"):
        missing = [name for name in ["tmux", "claude", "llmock"] if not shutil.which(name)]
        if missing:
            raise Skip(f"{missing} missing")
    if not missing:
        other = directory / "terminal"
        other.mkdir()
        with model(other) as (address, _):
            in_terminal(other, address)
            work(other, address)


checks.loopback_only()
checks.run(whole)
