"""The first hour of a newcomer in a fresh clone, by the README alone, with the time of each step.

The build takes minutes, so the suite runs at night alone. Packages come out of the cache of cargo where they are
there; Claude Code is installed before, and its model is scripted.
"""

import os
import re
import shutil
import subprocess
import time

import checks
import scripted_model
from checks import USER_HOME, Skip, check, contains, equal, true

WHOLE = os.environ.get("SINEW_NEWCOMER")
TASK = "E2E-TASK: end the note politely"
TURNS = [
    [("mcp__sinew__Read", {"file_path": "note.txt"})],
    [("mcp__sinew__Edit", {"file_path": "note.txt", "old_string": "Bye.", "new_string": "Kind regards."})],
    "The note ends politely now.",
]
NOTE = "Come at noon.\nBye.\n"

# The most that a step may take, in seconds: the build is to be done in three minutes on two cores.
BUILD, STEP = 180, 20


class Newcomer:
    def __init__(self, directory):
        self.home = directory / "newcomer"
        self.clone, self.project = self.home / "sinew", self.home / "project"
        self.began = self.last = time.monotonic()
        variables = {name: text for name, text in os.environ.items() if not name.startswith(("CARGO_", "CLAUDE"))}
        self.variables = {
            **variables,
            "HOME": str(self.home),
            "CARGO_HOME": os.environ.get("CARGO_HOME", str(USER_HOME / ".cargo")),
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(USER_HOME / ".rustup")),
            "CARGO_INSTALL_ROOT": str(self.home / ".local"),
            "CARGO_TARGET_DIR": str(self.home / "target"),
            "PATH": f"{self.home}/.local/bin:{USER_HOME}/.cargo/bin:{os.environ['PATH']}",
        }
        for name in [name for name in self.variables if name.startswith("XDG_")]:
            del self.variables[name]

    def run(self, words, cwd, **more):
        """Runs words of a shell, and returns what they print."""
        done = subprocess.run(
            ["bash", "-c", words], cwd=cwd, env={**self.variables, **more}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500,
        )
        equal(done.returncode, 0, done.stdout[-3000:])
        return done.stdout

    def step(self, name, at_most):
        now = time.monotonic()
        seconds, self.last = now - self.last, now
        print(f"{seconds:7.1f} s  {name}", flush=True)
        true(seconds <= at_most, f"{name} took {seconds:.0f} s, at most {at_most}")


def block(text, before):
    """Returns the commands of the README behind a sentence."""
    return re.search(re.escape(before) + r".*?```sh\n(.*?)```", text, re.DOTALL)[1].strip()


def body(directory):
    with check("a newcomer builds, sets up, calls and undoes"):
        if not WHOLE:
            raise Skip("it runs at night")
        missing = [name for name in ["git", "cargo", "claude", "llmock"] if not shutil.which(name)]
        if missing:
            raise Skip(f"{missing} missing")
    if not WHOLE or missing:
        return
    newcomer = Newcomer(directory)
    newcomer.project.mkdir(parents=True)
    checks.write(newcomer.project / "note.txt", NOTE)
    subprocess.run(["git", "clone", "-q", checks.REPOSITORY, newcomer.clone], check=True)
    readme = (newcomer.clone / "README.md").read_text()
    newcomer.last = newcomer.began = time.monotonic()
    with check("the first command of the README installs sinew and makes a call"):
        contains(newcomer.run(block(readme, "Build it, install it"), newcomer.clone), "crates/sinew/src/main.rs:")
        newcomer.step("the first command of the README", BUILD)
    with check("`sinew setup claude` registers it and rehearses"):
        setup = block(readme, "## Use it with Claude Code")
        equal(setup, "sinew setup claude")
        contains(newcomer.run(setup, newcomer.project), "claude mcp add-json", "brought notes.txt back")
        newcomer.step(setup, STEP)
    fixtures = scripted_model.fixtures_of_task({"name": "note", "prompt": TASK, "turns": TURNS})
    server = scripted_model.Server(directory, fixtures)
    try:
        with check("Claude Code makes its first governed call"):
            more = {
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.port}", "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
                "MAX_THINKING_TOKENS": "0", "IS_SANDBOX": "1",
            }
            newcomer.run(f"claude -p '{TASK}' --model claude-sonnet-4-5", newcomer.project, **more)
            equal((newcomer.project / "note.txt").read_text(), NOTE.replace("Bye.", "Kind regards."))
            newcomer.step("the first governed calls of Claude Code", STEP)
    finally:
        server.end()
    with check("`sinew undo` takes it back"):
        newcomer.run("sinew undo --yes", newcomer.project)
        equal((newcomer.project / "note.txt").read_text(), NOTE)
        newcomer.step("sinew undo", STEP)
    print(f"{time.monotonic() - newcomer.began:7.1f} s  in all", flush=True)


checks.run(body)
