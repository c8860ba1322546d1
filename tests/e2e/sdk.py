"""The official Python SDK on a real repository, in both ways of the protocol."""

import json
import os
import re
import subprocess
import sys
import time

import anyio
from mcp import Client, StdioServerParameters, types

import checks
from checks import check, contains, equal, true

MODES = [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"), ("auto", "2026-07-28")]
CLIENT = types.Implementation(name="e2e", version="1")
N_AT_ONCE = 200
# Another MCP server, behind sinew.
SERVER = checks.Path(__file__).with_name("foreign_server.py")

# (tool, arguments, kind, what the text must say)
REFUSED = [
    ("Read", {"file_path": "/var/none"}, "path_denied", "path denied: /var/none"),
    ("Read", {"file_path": "../x"}, "path_denied", "path denied: ../x"),
    ("Write", {"file_path": "../x", "content": ""}, "path_denied", "path denied: ../x"),
    ("Grep", {"pattern": "x", "path": "/"}, "path_denied", "path denied: /"),
    ("Read", {"file_path": "none"}, "file_not_found", "no such file: none"),
    ("Nope", {}, "not_found", "known tools: Read, Write"),
    ("Read", {"file_path": "README", "lines": 3}, "invalid_args", "`lines`"),
    ("Read", {"file_path": 3}, "invalid_args", "a string, not a number"),
    ("Read", {}, "invalid_args", "`file_path`"),
    ("Grep", {"pattern": "("}, "invalid_args", "character 1"),
    ("Edit", {"file_path": "Cargo.toml", "old_string": "absent-text", "new_string": ""},
     "no_match", "not found"),
]


PAGE, ALLOWED = checks.serve_page()


def server(root, *options):
    return StdioServerParameters(
        command=checks.binary(),
        args=["--root", str(root), *options, "mcp"],
        env=dict(os.environ),
        cwd=root,
    )


def native(root):
    beside = str(root.parent / "beside")
    return server(root, "--root", beside, "--tools", "all", "--approvals", "trust-client", *ALLOWED)


def plain(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def call(client, tool, arguments, **more):
    return plain(await client.call_tool(tool, arguments, **more))


async def good(client, tool, arguments, **more):
    result = await call(client, tool, arguments, **more)
    true(not result.get("isError"), checks.text(result))
    return result


async def whole(client, path):
    """Reads a file from its first line to its last, window after window."""
    content, offset = "", 1
    while offset:
        result = await good(client, "Read", {"file_path": path, "offset": offset})
        shown, _ = checks.unnumbered(checks.text(result))
        content += shown
        offset = (result.get("_meta") or {}).get("sinew/meta", {}).get("next_offset")
    return content


async def looks(client, root, way):
    with check(f"{way}: every tool is listed, with a schema and its hints"):
        tools = [plain(tool) for tool in (await client.list_tools()).tools]
        equal([tool["name"] for tool in tools], checks.TOOLS)
        for tool in tools:
            equal(tool["inputSchema"]["type"], "object", tool["name"])
            looks_only = tool["name"] in ("Read", "Glob", "Grep", "List", "MemoryRead", "TodoWrite", "CheckpointList")
            equal(tool["annotations"]["readOnlyHint"], looks_only, tool["name"])
    with check(f"{way}: Read gives every file of the repository as it is"):
        n_read = 0
        for path in checks.tracked(root):
            text = (root / path).read_bytes().decode(errors="replace")
            if "\ufffd" in text or not text or 2_000 < max(map(len, text.splitlines())):
                continue
            got = await whole(client, path)
            # A last line without its end is shown with one.
            equal(got, text if text.endswith("\n") else text + "\n", path)
            n_read += 1
        true(50 < n_read, f"only {n_read} files were read")
    with check(f"{way}: Glob finds what git lists"):
        for pattern, tracked in [("**/*.rs", "*.rs"), ("*.toml", ":(glob)*.toml")]:
            expected = set(checks.tracked(root, tracked))
            found = await good(client, "Glob", {"pattern": pattern})
            names = {line for line in checks.text(found).splitlines() if not line.startswith("[")}
            if len(expected) <= 100:
                equal(names, expected, pattern)
            else:
                true(names < expected and len(names) == 100, f"{len(names)} names")
                contains(checks.text(found), str(len(expected)))
    with check(f"{way}: Grep finds what a plain search finds"):
        expected = {
            f"{path}:{n}:{line}"
            for path in checks.tracked(root, "crates/*.rs")
            for n, line in enumerate((root / path).read_text().split("\n"), 1)
            if re.search(r"^pub fn \w+\(", line)
        }
        found = await good(
            client,
            "Grep",
            {"pattern": r"^pub fn \w+\(", "path": "crates", "output_mode": "content", "-n": True,
             "head_limit": 0, "type": "rust"},
        )
        lines = {line for line in checks.text(found).splitlines() if ":" in line[:-1]}
        true(5 < len(expected), "there is too little to find")
        equal({line for line in lines if not line.startswith("[")}, expected)
    with check(f"{way}: List shows the directory"):
        shown = checks.text(await good(client, "List", {}))
        names = {line.split(" ", 3)[3].rstrip("/") for line in shown.splitlines() if line[0] != "["}
        equal(names | {".git"}, set(os.listdir(root)))


async def changes(client, root, way):
    place = f"made by/{way}"
    with check(f"{way}: Write makes a file with its directories"):
        content = "first\r\nsecond\n\ttab → arrow\nlast without end"
        await good(client, "Write", {"file_path": f"{place}/new.txt", "content": content})
        equal((root / place / "new.txt").read_bytes(), content.encode())
    with check(f"{way}: Edit changes the bytes it names and no other"):
        before = (root / "Cargo.toml").read_bytes()
        edit = {"old_string": "[workspace]\n", "new_string": f"[workspace] # {way}\n"}
        await good(client, "Edit", {"file_path": "Cargo.toml", **edit})
        expected = before.replace(b"[workspace]\n", f"[workspace] # {way}\n".encode(), 1)
        equal((root / "Cargo.toml").read_bytes(), expected)
        back = {"old_string": edit["new_string"], "new_string": edit["old_string"]}
        await good(client, "Edit", {"file_path": str(root / "Cargo.toml"), **back})
        equal((root / "Cargo.toml").read_bytes(), before)
    with check(f"{way}: MultiEdit makes all of its edits"):
        edits = [
            {"old_string": "first", "new_string": "1st"},
            {"old_string": "1st\r\nsecond", "new_string": "1st\r\n2nd"},
            {"old_string": "t", "new_string": "T", "replace_all": True},
        ]
        await good(client, "MultiEdit", {"file_path": f"{place}/new.txt", "edits": edits})
        expected = "1sT\r\n2nd\n\tTab → arrow\nlasT wiThouT end"
        equal((root / place / "new.txt").read_bytes(), expected.encode())
    with check(f"{way}: ApplyPatch changes all files of a diff of git, or none"):
        path = f"{place}/new.txt"
        diff = (
            f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
            "@@ -1,2 +1,2 @@\n-1sT\r\n+first\r\n 2nd\n"
            f"diff --git a/{place}/made.txt b/{place}/made.txt\nnew file mode 100644\n"
            f"--- /dev/null\n+++ b/{place}/made.txt\n@@ -0,0 +1 @@\n+made\n"
        )
        done = await good(client, "ApplyPatch", {"patch": diff})
        contains(checks.text(done), f"A {place}/made.txt")
        expected = expected.replace("1sT", "first")
        equal((root / path).read_bytes(), expected.encode())
        gone = f"*** Begin Patch\n*** Delete File: {place}/made.txt\n*** End Patch\n"
        await good(client, "ApplyPatch", {"patch": gone})
        true(not (root / place / "made.txt").exists(), "the file is gone")
    with check(f"{way}: CheckpointRestore brings back what was removed, and is undone too"):
        made = root / place / "made.txt"
        listed = await good(client, "CheckpointList", {"path": str(made), "limit": 1})
        [removal] = listed["structuredContent"]["checkpoints"]
        equal([path["deed"] for path in removal["paths"]], ["removed"])
        restored = await good(client, "CheckpointRestore", {"id": removal["id"]})
        equal(made.read_bytes(), b"made\n")
        undo = restored["structuredContent"]["checkpoint_id"]
        await good(client, "CheckpointRestore", {"id": undo})
        true(not made.exists(), "the file is gone again")
    with check(f"{way}: Undo takes the last change of the session back, and its redo the undo"):
        undone = await good(client, "Undo", {})
        contains(checks.text(undone), "Undo with `redo` takes this back")
        equal(made.read_bytes(), b"made\n")
        await good(client, "Undo", {"redo": True})
        true(not made.exists(), "the file is gone once more")
    with check(f"{way}: a dry run changes nothing"):
        before = (root / "LICENSE-MIT").read_bytes()
        edit = {"old_string": "Permission", "new_string": "x", "replace_all": True, "dry_run": True}
        shown = await good(client, "Edit", {"file_path": "LICENSE-MIT", **edit})
        contains(checks.text(shown), "-Permission")
        equal((root / "LICENSE-MIT").read_bytes(), before)
    with check(f"{way}: git sees these changes and no other"):
        out = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=all", "-z"], cwd=root, check=True,
            capture_output=True,
        ).stdout.decode()
        known = {"?? made by/" + mode + "/new.txt" for mode, _ in MODES}
        true(set(filter(None, out.split("\0"))) <= known, out)


async def refusals(client, root, way):
    for tool, arguments, kind, said in REFUSED:
        with check(f"{way}: {tool} {json.dumps(arguments)} is {kind}"):
            result = await call(client, tool, arguments)
            equal(result["isError"], True)
            equal(result["_meta"]["sinew/error"]["kind"], kind)
            contains(checks.text(result), said)
            true("structuredContent" not in result, "an error has no structured content")


SERVE = "python3 -m http.server 8124 --bind 127.0.0.1 --directory target/page"
FETCH = """python3 -c '
import time, urllib.request
for _ in range(100):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:8124/page.txt").read().decode()); break
    except OSError:
        time.sleep(0.1)'"""


async def runs(client, root, way):
    sandbox = None
    with check(f"{way}: a command changes files in a root and none outside"):
        result = await good(client, "Bash", {"command": "mkdir -p target; echo written >target/by-command.txt"})
        equal((root / "target/by-command.txt").read_text(), "written\n")
        sandbox = result["_meta"]["sinew/meta"]["sandbox"]["level"]
        contains("namespaces landlock", sandbox)
        outside = root.parent / "outside.txt"
        refused = await call(client, "Bash", {"command": f"echo x >{outside}"})
        true(not outside.exists(), checks.text(refused))
    with check(f"{way}: one call starts a server and another fetches its page"):
        if sandbox == "landlock":
            raise checks.Skip("commands have no sockets on the sandbox level landlock")
        checks.write(root / "target/page/page.txt", "the page of the server")
        await good(client, "Bash", {"command": SERVE, "run_in_background": True})
        contains(checks.text(await good(client, "Bash", {"command": FETCH})), "the page of the server")
    with check(f"{way}: a command in the background is looked at and ended, a terminal is begun, a page fetched and searched"):
        begun = await good(client, "Bash", {"command": "echo begun; sleep 99", "run_in_background": True})
        name = re.search(r"\[(b\d+) ", checks.text(begun)).group(1)
        looked = await good(client, "BashOutput", {"bash_id": name})
        contains(checks.text(begun) + checks.text(looked), "begun\n", f"[{name}: running for ")
        ended = await good(client, "KillShell", {"shell_id": name})
        contains(checks.text(ended), f"{name}: ended by signal")
        page = await good(client, "WebFetch", {"url": PAGE})
        contains(checks.text(page), "# Heading")
        found = await good(client, "WebSearch", {"query": "some words"})
        contains(checks.text(found), "searxng found 1 result", "q=some%20words", PAGE)
        shown = await good(client, "Terminal", {"command": "echo shown", "timeout": 20_000})
        contains(checks.text(shown), "shown\n", "exit code 0")
    with check(f"{way}: a note is written and found"):
        noted = await good(client, "MemoryWrite", {"content": f"Noted by {way}."})
        contains(checks.text(noted), ".sinew/MEMORY.md")
        found = await good(client, "MemoryRead", {"query": f"noted BY {way}"})
        contains(checks.text(found), f"Noted by {way}.")
    with check(f"{way}: messages are sent, the inbox is read, and a list of tasks is kept"):
        # The inbox of another session, whose process keeps no records here.
        checks.call(root, "AgentInbox", {}, "--session", "peer", "--set", 'ledger.mode="off"')
        sent = await good(client, "AgentSend", {"target": "peer", "message": f"from {way}"})
        contains(checks.text(sent), "bytes to peer")
        contains(checks.text(await good(client, "AgentInbox", {})), "no message waits")
        await good(client, "Message", {"channel": "console", "chat_id": "me", "content": "done"})
        listed = await good(client, "TodoWrite", {"todos": [{"content": "look", "status": "completed"}]})
        contains(checks.text(listed), "1 of 1 done", "[x] look")


async def at_once(client, root, way):
    with check(f"{way}: {N_AT_ONCE} calls at once get their own answers"):
        for n in range(N_AT_ONCE):
            checks.write(root / f"target/many/{n}.txt", f"this is number {n}\n" * (n + 1))
        answers = {}

        async def one(n):
            arguments = {"file_path": f"target/many/{n}.txt"}
            answers[n] = checks.text(await good(client, "Read", arguments))

        async with anyio.create_task_group() as group:
            for n in range(N_AT_ONCE):
                group.start_soon(one, n)
        for n in range(N_AT_ONCE):
            equal(checks.unnumbered(answers[n])[0], f"this is number {n}\n" * (n + 1))


def slow(root, name):
    return {"pattern": checks.SLOW, "path": str(root.parent / "beside" / name)}


async def waits(client, root, way):
    with check(f"{way}: a long call tells its progress"):
        told = []

        async def on_progress(done, total, message):
            told.append((done, message))
            if 2 <= len(told):
                scope.cancel()

        with anyio.move_on_after(20) as scope:
            await call(client, "Grep", slow(root, "many"), progress_callback=on_progress)
        true(2 <= len(told), f"told {len(told)} times")
        done = [number for number, _ in told]
        equal(done, sorted(set(done)), "growing numbers")
        contains(told[0][1], str(int(done[0])))
    with check(f"{way}: a call that is taken back ends, and the server goes on"):
        n_before = n_cancelled()
        with anyio.move_on_after(0.5) as scope:
            await call(client, "Grep", slow(root, "long"))
        true(scope.cancelled_caught, "the call ended before it was taken back")
        began = time.monotonic()
        await good(client, "Read", {"file_path": "Cargo.toml"})
        true(time.monotonic() - began < 1, "the next call waited")
        with anyio.fail_after(5):
            while n_cancelled() == n_before:
                await anyio.sleep(0.05)


def n_cancelled():
    return len(checks.records("tool = 'Grep' AND outcome = 'cancelled'"))


async def ledger(root, way, began_ms):
    with check(f"{way}: the ledger holds every call, with the client's name"):
        rows = checks.records("at_ms >= ?", began_ms)
        tools = {row["tool"] for row in rows if row["outcome"] == "ok"}
        equal(tools, set(checks.TOOLS))
        outcomes = {row["outcome"] for row in rows}
        true({kind for _, _, kind, _ in REFUSED} <= outcomes, f"outcomes: {outcomes}")
        equal({row["surface"] for row in rows}, {"mcp"})
        true(N_AT_ONCE < len(rows), f"{len(rows)} records")
        if way == "legacy":
            equal({row["client"] for row in rows}, {"e2e"})


async def both_ways(root):
    for way, version in MODES:
        database = checks.Path(os.environ["XDG_STATE_HOME"]) / "sinew"
        for left in database.glob("sinew.db*"):
            left.unlink()
        began_ms = int(time.time() * 1000)
        async with Client(native(root), mode=way, client_info=CLIENT) as client:
            with check(f"{way}: the version is {version}"):
                equal(client.protocol_version, version)
            for part in [looks, changes, refusals, runs, at_once, waits]:
                await part(client, root, way)
        await ledger(root, way, began_ms)


# (tool, arguments, kind of the payload, parts of the payload)
MOLTIS = [
    ("Read", {"file_path": "a.txt"}, "text",
     {"content": "     1→one\n     2→two\n", "total_lines": 2, "start_line": 1,
      "truncated": False}),
    ("Read", {"file_path": "none"}, "not_found", {"error": "file does not exist"}),
    ("Read", {"file_path": "/var/none"}, "path_denied", {"file_path": "/var/none"}),
    ("Write", {"file_path": "../x", "content": ""}, "path_denied", {}),
    ("Read", {"file_path": "binary.bin"}, "binary", {"bytes": 256}),
    ("Read", {"file_path": "large.txt"}, "too_large", {"bytes": 11 << 20, "max_bytes": 10 << 20}),
    ("Read", {"file_path": "d"}, "not_regular_file", {}),
    ("Write", {"file_path": "d", "content": ""}, "not_regular_file", {}),
    ("Write", {"file_path": "new.txt", "content": "one\n"}, None, {"bytes_written": 4}),
    ("Edit", {"file_path": "new.txt", "old_string": "one", "new_string": "1"}, None,
     {"replacements": 1, "replace_all": False, "recovered_via_crlf": False}),
    ("MultiEdit", {"file_path": "new.txt", "edits": [
        {"old_string": "1", "new_string": "2"}, {"old_string": "2", "new_string": "3"}]}, None,
     {"edits_applied": 2, "replacements_per_edit": [1, 1]}),
    ("Grep", {"pattern": "two", "output_mode": "content", "-n": True}, None,
     {"mode": "content", "truncated": False}),
    ("Grep", {"pattern": "two"}, None, {"mode": "files_with_matches"}),
    ("Glob", {"pattern": "*.bin"}, None, {"truncated": False}),
]


async def moltis(directory):
    root = directory / "moltis"
    checks.write(root / "a.txt", "one\ntwo\n")
    checks.write(root / "binary.bin", bytes(range(256)))
    checks.write(root / "large.txt", b"x" * (11 << 20))
    (root / "d").mkdir()

    def absolute(arguments):
        name = "path" if "pattern" in arguments else "file_path"
        return {**arguments, name: str(root / arguments.get(name, "."))}

    for way in ["legacy", "2026-07-28"]:
        options = server(root, "--dialect", "moltis", "--approvals", "trust-client")
        async with Client(options, mode=way) as client:
            with check(f"moltis, {way}: its eight tools are listed"):
                names = [tool.name for tool in (await client.list_tools()).tools]
                expected = ["Read", "Write", "Edit", "MultiEdit", "Glob", "Grep"]
                equal(names, [*expected, "checkpoint_restore", "exec"])
            for tool, arguments, kind, parts in MOLTIS:
                with check(f"moltis, {way}: {tool} gives {kind or 'its payload'}"):
                    result = await good(client, tool, absolute(arguments))
                    payload = result["structuredContent"]
                    equal(json.loads(checks.text(result)), payload, "the text")
                    equal(payload.get("kind"), kind)
                    equal({key: payload.get(key) for key in parts}, parts)
            with check(f"moltis, {way}: the file is as it was written and edited"):
                equal((root / "new.txt").read_text(), "3\n")
            with check(f"moltis, {way}: a path that is not absolute is an error"):
                result = await call(client, "Read", {"file_path": "a.txt"})
                equal(result["isError"], True)
    with check("moltis: a change without approval is denied"):
        async with Client(server(root, "--dialect", "moltis"), mode="legacy") as client:
            arguments = {"file_path": str(root / "a.txt"), "content": "gone"}
            result = await call(client, "Write", arguments)
            equal(result["_meta"]["sinew/error"]["kind"], "approval_denied")
            equal((root / "a.txt").read_text(), "one\ntwo\n")


async def foreign(root):
    table = f"command = {json.dumps(sys.executable)}, args = {json.dumps([str(SERVER)])}, internal_only = false"
    options = server(root, "--approvals", "trust-client", "--set", f"tools.mcp_servers.fx={{ {table} }}")
    for way, _ in MODES:
        async with Client(options, mode=way, client_info=CLIENT) as client:
            with check(f"{way}: a tool of another server is listed with its schema"):
                tools = {tool.name: plain(tool) for tool in (await client.list_tools()).tools}
                equal(tools["fx__echo"]["inputSchema"]["properties"], {"text": {"type": "string"}})
            with check(f"{way}: it is called, with every kind of block and an error as its server gives them"):
                equal(checks.text(await good(client, "fx__echo", {"text": way})), way)
                mixed = await good(client, "fx__mixed", {})
                equal([block["type"] for block in mixed["content"]], ["text", "image", "resource", "resource_link"])
                equal(mixed["structuredContent"], {"n": 1})
                failed = await call(client, "fx__fail", {})
                equal((failed["isError"], checks.text(failed)), (True, "it went wrong\nbecause"))
            with check(f"{way}: the ledger has the call with server, tool and pinned definition"):
                last = checks.records("tool = 'fx__echo'")[-1]["text"]
                contains(last, "the tool `echo` of the server `fx`, definition ")
                equal(len(last.rsplit(" ", 1)[1]), 64)


def body(directory):
    root = checks.clone(directory / "repository")
    checks.hard_to_search(directory / "beside/long")
    checks.hard_to_search(directory / "beside/many", 10_000, 1_500)
    anyio.run(both_ways, root)
    anyio.run(moltis, directory)
    anyio.run(foreign, root)


checks.run(body)
