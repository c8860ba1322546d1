"""Every tool with few descriptors, on a wide and deep tree, and where ignore files are traps."""

import json
import os
import subprocess

import checks
import wire
from checks import check, contains, equal, true

N_FILES, DEPTH, MAX_DESCRIPTORS = 5_000, 300, 256
FEW = ["sh", "-c", f'ulimit -n {MAX_DESCRIPTORS} && exec "$0" "$@"']


def wide_and_deep(root):
    """Makes 300 directories one in the other, and files in all of them."""
    here = root
    for level in range(DEPTH):
        here = here / "d"
        here.mkdir(parents=True)
        for n in range(N_FILES // DEPTH + 1):
            (here / f"{level}-{n}.txt").write_text(f"level {level} file {n}\n")
    return here


def tools(call, root, deepest):
    deep = deepest.relative_to(root)
    n_levels = N_FILES // DEPTH + 1

    def good(tool, arguments):
        result = call(tool, arguments)
        true(not result.get("isError") and result.get("ok", True), checks.text(result))
        return result

    with check(f"{call.way}: Glob walks the whole tree"):
        found = good("Glob", {"pattern": "**/299-0.txt"})
        equal(checks.text(found).splitlines()[0], f"{deep}/299-0.txt")
        true("unreadable" not in str(found), "something was not read")
    with check(f"{call.way}: Grep searches the whole tree"):
        found = good("Grep", {"pattern": r"^level (0|150|299) file \d+$", "output_mode": "count"})
        lines = [line for line in checks.text(found).splitlines() if line.endswith(":1")]
        equal(len(lines), 3 * n_levels)
        true("unreadable" not in str(found), "something was not read")
    with check(f"{call.way}: List walks the whole tree"):
        found = good("List", {"recursive": True, "depth": DEPTH + 1, "limit": 10 * N_FILES})
        true("unreadable" not in str(found), "something was not read")
        stored = (found.get("meta") or found["_meta"]["sinew/meta"])["output_path"]
        equal((root / stored).read_text().count(".txt"), N_FILES + DEPTH - N_FILES % DEPTH)
    with check(f"{call.way}: Read, Write, Edit and MultiEdit reach the deepest directory"):
        for n in range(n_levels):
            contains(checks.text(good("Read", {"file_path": f"{deep}/299-{n}.txt"})), "level 299")
        good("Write", {"file_path": f"{deep}/new.txt", "content": "one\ntwo\n"})
        edit = {"old_string": "one", "new_string": "1"}
        good("Edit", {"file_path": f"{deep}/new.txt", **edit})
        edits = [{"old_string": "two", "new_string": "2"}]
        good("MultiEdit", {"file_path": f"{deep}/new.txt", "edits": edits})
        equal((deepest / "new.txt").read_text(), "1\n2\n")
        (deepest / "new.txt").unlink()


def on_command_line(root):
    def call(tool, arguments):
        done = subprocess.run(
            [*FEW, checks.binary(), "--approvals", "allow", "call", tool, "-", "--json"],
            cwd=root, input=json.dumps(arguments).encode(), capture_output=True, timeout=60,
        )
        return json.loads(done.stdout)

    call.way = "call"
    return call


def many_at_once(server, root):
    with check("mcp: two hundred searches and changes at once share the descriptors"):
        for n in range(50):
            server.send(
                wire.tool_call(f"g{n}", "Grep", {"pattern": f"file {n % 16}$"}),
                wire.tool_call(f"l{n}", "Glob", {"pattern": f"**/{n}-1.txt"}),
                wire.tool_call(f"w{n}", "Write", {"file_path": f"w/{n}", "content": f"{n}\n"}),
                wire.tool_call(f"r{n}", "Read", {"file_path": f"d/0-{n % 16}.txt"}),
            )
        answers = {}
        while len(answers) < 200:
            message = server.receive(60)
            answers[message["id"]] = message["result"]
        wrong = {id: checks.text(r) for id, r in answers.items() if r.get("isError")}
        equal(wrong, {})
        equal(sorted(os.listdir(root / "w"), key=int), [str(n) for n in range(50)])
    with check("mcp: no descriptor is lost"):
        held = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        true(held < 32, f"{held} are open")
        server.is_well()


def traps(directory):
    """A FIFO where an ignore file is looked for blocks whoever opens it and waits."""
    for trap in [".gitignore", ".ignore", ".rgignore", ".git/info/exclude"]:
        root = directory / "trap" / trap.replace("/", "-")
        checks.write(root / "a.txt", "needle\n")
        checks.write(root / "sub/b.txt", "needle\n")
        (root / trap).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(root / trap)
        if "/" not in trap:
            os.mkfifo(root / "sub" / trap)
        for tool, arguments in [
            ("Glob", {"pattern": "**/*.txt"}),
            ("Grep", {"pattern": "needle"}),
            ("List", {"recursive": True}),
        ]:
            with check(f"a FIFO named {trap} does not stop {tool}"):
                code, result = checks.call(root, tool, arguments)
                equal(code, 0, checks.text(result))
                contains(checks.text(result), "a.txt", "sub/b.txt")
    with check("a FIFO among the files does not stop Grep"):
        root = directory / "trap/among"
        checks.write(root / "a.txt", "needle\n")
        os.mkfifo(root / "b.txt")
        code, result = checks.call(root, "Grep", {"pattern": "needle"})
        equal((code, checks.text(result)), (0, "a.txt"))
    for trap in [".sinew/config.toml", ".sinew"]:
        with check(f"a FIFO named {trap} is refused, not waited for"):
            root = directory / "trap" / f"own-{trap.replace('/', '-')}"
            (root / trap).parent.mkdir(parents=True)
            os.mkfifo(root / trap)
            code, _, errors = checks.sinew("call", "List", cwd=root, timeout=10)
            true(code in (0, 2), errors)


def body(directory):
    root = directory / "tree"
    deepest = wide_and_deep(root)
    tools(on_command_line(root), root, deepest)
    with wire.Server(root, command=FEW) as server:
        server.shake()

        def call(tool, arguments):
            return server.call(tool, arguments, timeout=60)

        call.way = "mcp"
        tools(call, root, deepest)
        many_at_once(server, root)
    traps(directory)


checks.run(body)
