"""Scripted model servers of a third party, and projects in which agents work."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request

import checks

WIRES = ["chat", "anthropic", "responses", "ollama"]
KEY = "sk-e2e-0123456789abcdef0123456789abcdef"


def free_port():
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return any_socket.getsockname()[1]


def fixtures_of_task(task, by_turn=None):
    """Each turn answers the last result of the turn before; over an API whose results have no ids, the next request."""
    fixtures, match = [], {"userMessage": task["prompt"], "hasToolResult": False}
    for at, turn in enumerate(task["turns"]):
        if by_turn:
            match = {"userMessage": task["prompt"], "model": by_turn, "sequenceIndex": at}
        if isinstance(turn, str):
            fixtures.append({"match": match, "response": {"content": turn}})
            continue
        calls = [
            {"id": f"{task['name']}_{at}_{n}", "name": name, "arguments": json.dumps(arguments)}
            for n, (name, arguments) in enumerate(turn)
        ]
        response = {"content": "Looking.", "toolCalls": calls}
        fixtures.append({"match": match, "response": response})
        match = {"toolCallId": calls[-1]["id"]}
    return fixtures


class Server:
    """A model server of a third party that answers by a script; its journal says what sinew sent."""

    def __init__(self, directory, fixtures):
        self.port = free_port()
        script = checks.write(directory / "fixtures.json", json.dumps({"fixtures": fixtures}))
        self.process = subprocess.Popen(
            ["llmock", "-p", str(self.port), "-f", script, "--strict", "--validate-on-load"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(directory / "llmock.log").open("wb"),
        )
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            time.sleep(0.1)
        raise AssertionError((directory / "llmock.log").read_text())

    def journal(self, part):
        """Returns the bodies of all requests that hold a text."""
        url = f"http://127.0.0.1:{self.port}/__aimock/journal?limit=1000"
        with urllib.request.urlopen(url, timeout=10) as answer:
            entries = json.load(answer)
        entries = entries if isinstance(entries, list) else entries["entries"]
        return [entry for entry in entries if part in json.dumps(entry["body"])]

    def end(self):
        self.process.terminate()
        self.process.wait(10)


def configure(server):
    base = f"http://127.0.0.1:{server.port}"
    tables = ["[agent]\nmodel = \"chat\"\n"]
    for wire in WIRES:
        url = base + "/v1" if wire in ("chat", "responses") else base
        tables.append(f'[models.{wire}]\nwire = "{wire}"\nurl = "{url}"\nkey_env = "E2E_KEY"\ncontext = 64000\n')
    tables.append(f'[models.small]\nwire = "chat"\nurl = "{base}/v1"\nkey_env = "E2E_KEY"\ncontext = 8000\n')
    tables.append(f'[models.middle]\nwire = "chat"\nurl = "{base}/v1"\nkey_env = "E2E_KEY"\ncontext = 16000\n')
    config = checks.Path(os.environ["HOME"]) / ".config/sinew/config.toml"
    checks.write(config, "\n".join(tables))
    os.environ["E2E_KEY"] = KEY


class Project:
    def __init__(self, directory, name, files):
        self.root = directory / name
        shutil.rmtree(self.root, ignore_errors=True)
        for path, text in {"a.txt": "one\n", "b.txt": "two\n", **files}.items():
            checks.write(self.root / path, text)

    def start(self, *args, **more):
        return subprocess.Popen(
            [checks.binary(), *args], cwd=self.root, stdin=more.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
        )

    def run(self, *args, text=None):
        done = subprocess.run(
            [checks.binary(), *args], cwd=self.root, input=text, capture_output=True, text=True, timeout=120,
            **({} if text is not None else {"stdin": subprocess.DEVNULL}),
        )
        return done

    def picture(self):
        """Returns every file with its bytes and its mode."""
        files = sorted(path for path in self.root.rglob("*") if path.is_file() and ".sinew" not in path.parts)
        return {str(path.relative_to(self.root)): (path.read_bytes(), path.stat().st_mode) for path in files}


def events(done):
    return [json.loads(line) for line in done.stdout.splitlines()]
