"""The official conformance suite with sinew as the client: every scenario for clients that needs no authorization server."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import checks
from checks import check, equal, true

CLIENT = Path(__file__).with_name("conformance_client.py")
MODULES = Path(os.environ["SINEW_E2E"]) / "npm/node_modules"
SUITE = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
NODE = Path(os.environ["SINEW_E2E"]) / "bin/node"


def run(*words):
    done = subprocess.run([str(word) for word in [NODE, SUITE, *words]], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def body(directory):
    _, listed = run("list", "--client")
    scenarios = re.findall(r"^\s*-\s+([\w/-]+)", listed, re.MULTILINE)
    print(listed)
    for scenario in scenarios:
        if scenario.startswith("auth/"):
            continue
        with check(f"{scenario}: the client passes"):
            code, out = run("client", "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario, "--timeout", "60000")
            equal(code, 0, out[-2000:])


checks.run(body)
