"""What every suite shares: one printed line a check, a home of its own, and a clean end."""

import contextlib
import ctypes
import fcntl
import http.server
import json
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = [
    "Read", "Write", "Edit", "MultiEdit", "ApplyPatch", "Glob", "Grep", "List", "Bash",
    "BashOutput", "KillShell", "Terminal", "WebFetch", "WebSearch", "MemoryRead",
    "MemoryWrite", "AgentSend", "AgentInbox", "Message", "TodoWrite", "Undo", "CheckpointList",
    "CheckpointRestore",
]

# The home of whoever runs the suites: what is installed there, `name_home` hides.
USER_HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

suite = Path(sys.argv[0]).stem
failed = 0


class Skip(Exception):
    """Raised inside a check that cannot be made here; its text is the reason."""


def line(mark, claim):
    print(f"{mark:<4} {suite}: {claim}", flush=True)


@contextlib.contextmanager
def check(claim):
    """Counts its block as one check: an exception fails it, and what follows goes on."""
    global failed
    try:
        yield
    except Skip as reason:
        line("skip", f"{claim}: {reason}")
    except Exception as error:
        failed += 1
        line("FAIL", f"{claim}: {told(error)}")
        if not isinstance(error, AssertionError):
            traceback.print_exc()
    else:
        line("ok", claim)


def told(error):
    """Returns an error as one line; a group of errors as its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())
    return text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"


def equal(got, expected, what=""):
    if got != expected:
        raise AssertionError(f"{what or 'value'} is {short(got)}, expected {short(expected)}")


def contains(text, *parts):
    for part in parts:
        if part not in text:
            raise AssertionError(f"{short(part)} is not in {short(text)}")


def true(value, what):
    if not value:
        raise AssertionError(what)


def short(value, limit=500):
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def run(body):
    """Runs a suite: `body` gets an empty directory, and nothing of it stays behind."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    directory = Path(tempfile.mkdtemp(prefix=f"sinew-e2e-{suite}-")).resolve()
    try:
        at_home(directory / "home")
        name_home(directory / "home")
        with check("the suite runs to its end"):
            body(directory)
        with check("no process is left behind"):
            left = wait_for_no_sinew()
            equal(left, [], "what still runs")
    finally:
        end_descendants()
        shutil.rmtree(directory, onerror=make_removable)
    sys.exit(1 if failed else 0)


def at_home(home):
    """Gives this process and its children a home of their own."""
    for name in [name for name in os.environ if name.startswith(("XDG_", "SINEW_", "GIT_"))]:
        if name not in ("SINEW_BIN", "SINEW_E2E"):
            del os.environ[name]
    os.environ["HOME"] = str(home)
    for name, place in [
        ("CONFIG", ".config"),
        ("STATE", ".local/state"),
        ("CACHE", ".cache"),
        ("DATA", ".local/share"),
    ]:
        os.environ[f"XDG_{name}_HOME"] = str(home / place)
        (home / place).mkdir(parents=True)
    # Commands see the interpreter of these tests where it is in the user's home directory.
    if (USER_HOME / ".pyenv").is_dir() and USER_HOME != home:
        (home / ".pyenv").symlink_to(USER_HOME / ".pyenv")
    # The suites start servers as a person does who trusts what their client starts.
    write(home / ".config/sinew/config.toml", "[mcp]\ntrust_arguments = true\n")
    (home / ".gitconfig").write_text(
        "[safe]\n\tdirectory = *\n[user]\n\tname = e2e\n\temail = e2e@example.invalid\n"
    )


CLONE_NEWNS = 0x00020000
MS_REC_PRIVATE = 0x4000 | 0x40000
MS_BIND = 0x1000


def name_home(home):
    """Names a home in the user database that this process and its children see: sinew reads the user's own
    configuration there, whatever variables say."""
    libc = ctypes.CDLL(None, use_errno=True)
    known = Path("/etc/passwd").read_text()
    own = [line for line in known.splitlines() if line.split(":")[2:3] == [str(os.getuid())]]
    name = own[0].split(":")[0] if own else "tester"
    database = home / ".user-database"
    database.write_text(f"{name}:x:{os.getuid()}:{os.getgid()}:Tester:{home}:/bin/sh\n{known}")
    steps = [
        lambda: libc.unshare(CLONE_NEWNS),
        lambda: libc.mount(None, b"/", None, MS_REC_PRIVATE, None),
        lambda: libc.mount(os.fsencode(database), b"/etc/passwd", None, MS_BIND, None),
    ]
    for step in steps:
        if step() != 0:
            why = os.strerror(ctypes.get_errno())
            sys.exit(f"{suite}: no user database of its own can be bound ({why}); run the suites as root")


class Page(http.server.BaseHTTPRequestHandler):
    """A page on loopback for calls of WebFetch, and a SearXNG that finds it for calls of WebSearch."""

    def do_GET(self):
        body, kind = b"<title>A page</title><h1>Heading</h1>", "text/html"
        if self.path.startswith("/search?"):
            found = {"title": "Found", "url": f"http://{self.headers['host']}/", "content": self.path}
            body, kind = json.dumps({"results": [found]}).encode(), "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve_page():
    """Serves a page until the suite ends; returns its address, and the options that allow it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"127.0.0.1:{server.server_address[1]}"
    allowed = f'tools.web_fetch.allow_hosts=["{host}"]'
    return f"http://{host}/", ["--set", allowed, "--set", f"tools.web_search.searxng=http://{host}/"]


def loopback_only():
    """As root, begins this suite anew in a network namespace that has loopback only."""
    if os.getuid() == 0 and not os.environ.get("E2E_LOOPBACK_ONLY"):
        os.environ["E2E_LOOPBACK_ONLY"] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    if os.environ.get("E2E_LOOPBACK_ONLY"):
        request = struct.pack("16sh", b"lo", 1 | 64)
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, 0x8914, request)


def make_removable(function, path, _):
    os.chmod(os.path.dirname(path), 0o700)
    function(path)


def descendants(of=None):
    """Returns the processes below this one, or below another, as (number, name), orphans of children included."""
    children = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                name, fields = Path(entry, "stat").read_text().rsplit(") ", 1)
                state, parent = fields.split()[:2]
                if state != "Z":
                    name = name.partition("(")[2]
                    children.setdefault(int(parent), []).append((int(entry.name), name))
    found, todo = [], [of or os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += [number for number, _ in below]
    return found


def wait_for_no_sinew(seconds=3):
    """Returns the processes of sinew that are still there after a while."""
    until = time.monotonic() + seconds
    while left := [name for _, name in descendants() if name == "sinew"]:
        if until < time.monotonic():
            break
        time.sleep(0.02)
    return left


def end_descendants():
    while left := descendants():
        for number, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.02)


def binary():
    return os.environ["SINEW_BIN"]


def sinew(*args, cwd=None, stdin=b"", timeout=60, env=None):
    """Runs the command line to its end, and returns (exit code, standard output, errors)."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    done = subprocess.run(
        [binary(), *map(os.fspath, args)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def call(root, tool, arguments, *options, cwd=None, dialect="native", approvals="allow"):
    """Calls one tool on the command line, and returns (exit code, the result object)."""
    code, out, errors = sinew(
        "--root", root, "--dialect", dialect, "--approvals", approvals, *options,
        "call", tool, "-", "--json",
        cwd=cwd or root,
        stdin=json.dumps(arguments),
    )
    if not out:
        raise AssertionError(f"no result, exit {code}: {short(errors)}")
    return code, json.loads(out)


def text(result):
    """Returns the text of a result, of `--json` or of MCP."""
    return "".join(block.get("text", "") for block in result["content"])


def unnumbered(shown):
    """Turns the lines of Read back into what the file holds, and into the note after them."""
    lines, note = [], ""
    for row in shown.splitlines(keepends=True):
        number, arrow, rest = row.partition("→")
        if arrow and number.strip().isdigit():
            lines.append(rest)
        else:
            note += row
    return "".join(lines), note


def records(where="1", *values):
    """Returns the outcomes in the ledger, in order, as dictionaries."""
    import sqlite3

    path = Path(os.environ["XDG_STATE_HOME"]) / "sinew/sinew.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        rows = database.execute(
            f"SELECT * FROM entry WHERE phase = 'outcome' AND {where} ORDER BY seq", values
        )
        return [dict(row) for row in rows]


def write(path, content):
    """Writes a file of a test, with its directories, and returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def clone(into):
    """Clones the repository that this script lies in."""
    subprocess.run(
        ["git", "clone", "--quiet", "--no-hardlinks", REPOSITORY, into], check=True, timeout=120
    )
    return into


def tracked(repository, *patterns):
    out = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=repository, check=True, capture_output=True
    ).stdout
    return [name for name in out.decode().split("\0") if name]


# A pattern that is slow to look for in what `hard_to_search` makes, and found nowhere.
SLOW = r"(?i)(\w+ )+lazy (cat|cow|\w{9,})$"


def hard_to_search(directory, n_files=400, n_lines=80_000):
    """Makes a directory that takes long to search and little space: one text, many names."""
    words = "".join(f"{n:07d} the quick brown fox jumps over a lazy dog\n" for n in range(n_lines))
    first = write(directory / "0.txt", words)
    for n in range(1, n_files):
        os.link(first, directory / f"{n}.txt")
    return directory
