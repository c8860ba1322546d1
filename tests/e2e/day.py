"""A day's work of a model: thirty calls with edits, tests, git, an install and a note outside the project.

sinew asks about three of them. The default answers each: a protected name is denied, the others run once.
"""

import functools
import http.server
import json
import subprocess
import threading
import zipfile

import checks
from checks import contains, equal, true

# A server of one package, which the day's work installs.
PACKAGES = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
INSTALL = (
    "python3 -m venv .venv && .venv/bin/pip install -q --no-cache-dir --disable-pip-version-check "
    f"--index-url http://127.0.0.1:{PACKAGES.server_port}/ numberwords && .venv/bin/python -c 'import numberwords'"
)
# Each call, and the default answer if sinew asks.
TURNS = [
    ("Bash", {"command": "git init -q . && git add -A && git commit -q -m start"}, None),
    ("Bash", {"command": "git checkout -q -b numbers"}, None),
    ("Read", {"file_path": "HOME/notes/numbers.md"}, "once"),
    ("Read", {"file_path": "numbers.py"}, None),
    ("Write", {"file_path": "test_numbers.py", "content": "import numbers_of\n\nassert numbers_of.parse('1 2') == [1, 2]\n"}, None),
    ("Bash", {"command": "git mv numbers.py numbers_of.py"}, None),
    ("Bash", {"command": "python3 test_numbers.py || echo failed"}, None),
    ("Edit", {"file_path": "numbers_of.py", "old_string": "return []", "new_string": "return [int(word) for word in text.split()]"}, None),
    ("Bash", {"command": "python3 test_numbers.py && echo passed"}, None),
    ("Bash", {"command": "git add -A && git commit -q -m 'parse numbers'"}, None),
    ("Grep", {"pattern": "def parse"}, None),
    ("Bash", {"command": "mkdir -p docs && echo '# Numbers' > docs/index.md"}, None),
    ("Edit", {"file_path": "docs/index.md", "old_string": "# Numbers", "new_string": "# Numbers\n\n`parse` reads them."}, None),
    ("Bash", {"command": "sed -i s/text/line/g numbers_of.py"}, None),
    ("Bash", {"command": "python3 -m compileall -q ."}, None),
    ("Bash", {"command": "rm -rf __pycache__"}, None),
    ("Write", {"file_path": ".envrc", "content": "export NUMBERS=1\n"}, "no"),
    ("Bash", {"command": INSTALL, "needs": ["network"], "why": "the tests need numberwords"}, "once"),
    ("Bash", {"command": "git stash && git stash pop"}, None),
    ("Bash", {"command": "git commit -qam 'name it line'"}, None),
    ("Glob", {"pattern": "**/*.py"}, None),
    ("Bash", {"command": "for n in 1 2 3; do touch part-$n.txt; done"}, None),
    ("Bash", {"command": "cat part-*.txt | wc -l"}, None),
    ("Bash", {"command": "tar czf parts.tgz part-*.txt && rm part-*.txt"}, None),
    ("Bash", {"command": "sleep 0.1", "run_in_background": True}, None),
    ("BashOutput", {}, None),
    ("Bash", {"command": "git checkout -q - && git merge -q numbers"}, None),
    ("Bash", {"command": "git log --oneline | head -3"}, None),
    ("Bash", {"command": "git clean -fdq"}, None),
    ("Undo", {}, None),
]

# What sinew asks about in a day.
QUESTIONS = ["Read numbers.md outside the project?", "Create .envrc?", "Run with the network open?"]

SERVING = threading.Event()


def turns():
    """Returns the calls; the suite has a home of its own."""
    return json.loads(json.dumps(TURNS).replace("HOME/", f"{checks.Path.home()}/"))


def lay_out(root, directory):
    """Writes the project, the note, and the package that is installed."""
    checks.write(root / "numbers.py", "def parse(text):\n    return []\n")
    checks.write(root / ".gitignore", ".mcp.json\n.claude\n.venv\n")
    checks.write(checks.Path.home() / "notes/numbers.md", "Numbers are separated by spaces.\n")
    wheel(directory / "packages/numberwords")
    PACKAGES.RequestHandlerClass = functools.partial(QuietHandler, directory=directory / "packages")
    if not SERVING.is_set():
        SERVING.set()
        threading.Thread(target=PACKAGES.serve_forever, daemon=True).start()


def is_done(root, records):
    """Compares what the ledger and the project have with what was asked for."""
    rows = [(row["tool"], row["outcome"], bool(row["approver"])) for row in records][-len(TURNS):]
    expected = [
        (tool, "approval_denied" if answer == "no" else "ok", answer is not None) for tool, _, answer in TURNS
    ]
    equal(rows, expected)
    true(not (root / ".envrc").exists(), "the denied file is there")
    log = subprocess.run(["git", "log", "--format=%s"], cwd=root, capture_output=True, text=True).stdout.split("\n")
    equal(log[:3], ["name it line", "parse numbers", "start"])
    contains((root / "numbers_of.py").read_text(), "for word in line.split()")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *_):
        pass


def wheel(directory):
    """Writes a package in the form that pip installs."""
    directory.mkdir(parents=True, exist_ok=True)
    info = "numberwords-1.0.dist-info"
    with zipfile.ZipFile(directory / "numberwords-1.0-py3-none-any.whl", "w") as package:
        package.writestr("numberwords.py", "WORDS = ['one', 'two']\n")
        package.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: numberwords\nVersion: 1.0\n")
        package.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        package.writestr(f"{info}/RECORD", "")
