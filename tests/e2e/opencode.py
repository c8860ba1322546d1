"""A day at opencode, which shows no questions of MCP servers: a person answers at `sinew approve`."""

import json
import os
import re
import shutil
import subprocess
import threading
import time

import checks
import day
import scripted_model
from checks import Skip, check, contains, equal
from tmux_screen import Screen

TASK = {
    "name": "day", "prompt": "E2E-DAY: parse the numbers and test it",
    "turns": [*[[(f"sinew_{tool}", arguments)] for tool, arguments, _ in day.TURNS], "FINAL: the numbers are parsed"],
}


def program():
    """Returns the program of opencode; its package has a wrapper that an install script replaces."""
    for name in ("opencode-linux-x64", "opencode-linux-x64-baseline", "opencode-linux-arm64"):
        found = checks.Path(os.environ["SINEW_E2E"]) / "npm/node_modules" / name / "bin/opencode"
        if found.exists() and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            return found
    raise Skip("opencode has no program for this machine")


def configure(server, root):
    model = {"npm": "@ai-sdk/openai-compatible", "models": {"m": {"tool_call": True}},
             "options": {"baseURL": f"http://127.0.0.1:{server.port}/v1", "apiKey": "none"}}
    sinew = {"type": "local", "command": [str(checks.binary()), "--root", str(root), "mcp", "--tools", "all"], "enabled": True}
    settings = {"model": "scripted/m", "small_model": "scripted/m", "autoupdate": False, "share": "disabled",
                "provider": {"scripted": model}, "mcp": {"sinew": sinew}}
    checks.write(checks.Path.home() / ".config/opencode/opencode.json", json.dumps(settings))


def body(directory):
    if not shutil.which("tmux"):
        raise Skip("there is no tmux")
    opencode = program()
    root = directory / "day-opencode"
    day.lay_out(root, directory)
    task = {**TASK, "turns": [*[[(f"sinew_{tool}", arguments)] for tool, arguments, _ in day.turns()], TASK["turns"][-1]]}
    server = scripted_model.Server(directory, scripted_model.fixtures_of_task(task))
    configure(server, root)
    screen = Screen(root, f"{checks.binary()} approve")
    shown = []

    def person():
        for question in day.QUESTIONS:
            shown.append(screen.until(re.escape(question) + r"[\s\S]*Run it\? \[[^\]]*\]\s*$"))
            time.sleep(0.4)
            screen.press("Enter")

    try:
        with check("opencode: of a day's 30 calls three ask at `sinew approve`, and Enter answers each"):
            screen.until("appear here")
            answering = threading.Thread(target=person)
            answering.start()
            done = subprocess.run([opencode, "run", "--format", "json", task["prompt"]], cwd=root, capture_output=True,
                                  text=True, stdin=subprocess.DEVNULL, timeout=240, env={**os.environ, "PWD": str(root)})
            contains(done.stdout, TASK["turns"][-1])
            answering.join(5)
            equal(len(shown), len(day.QUESTIONS))
            day.is_done(root, checks.records())
    finally:
        if os.environ.get("E2E_SCREENS"):
            for n, text in enumerate(shown):
                checks.write(checks.Path(os.environ["E2E_SCREENS"]) / f"opencode-{n}.txt", text)
        screen.close()
        server.end()


checks.run(body)
