"""The official conformance suite with sinew as the client: every scenario for clients that needs no authorization
server. The same suite fails a client that does nothing, which shows that it can fail."""

import os
import re
import subprocess
import sys
from pathlib import Path

import checks
from checks import check, equal, true

# Scenarios of extensions of the protocol that sinew does not have: skills.
OTHERS = ("auth/", "sep-2640-")

CLIENT = Path(__file__).with_name("conformance_client.py")
MODULES = Path(os.environ["SINEW_E2E"]) / "npm/node_modules"
SUITE = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
NODE = Path(os.environ["SINEW_E2E"]) / "bin/node"


def run(*words):
    done = subprocess.run([str(word) for word in [NODE, SUITE, *words]], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def body(directory):
    _, listed = run("list", "--client")
    scenarios = [name for name in re.findall(r"^\s*-\s+([\w/-]+)", listed, re.MULTILINE) if not name.startswith(OTHERS)]
    with check("the suite lists its scenarios"):
        true(11 <= len(scenarios), listed)
    for scenario in scenarios:
        with check(f"{scenario}: the client passes"):
            code, out = run("client", "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario, "--timeout", "60000")
            equal(code, 0, out[-2000:])
    with check("a client that does nothing does not pass (control)"):
        true(run("client", "--command", "true", "--scenario", "tools_call", "--timeout", "20000")[0] != 0, "it passed")


checks.run(body)
