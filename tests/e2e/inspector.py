"""The inspector's command line: the list of tools, and a call of each."""

import json
import shutil
import subprocess

import checks
from checks import Skip, check, contains, equal

PAGE, ALLOWED = checks.serve_page()

# (tool, arguments as the inspector takes them, what the text must say)
CALLS = [
    ("Read", ["file_path=f.txt"], "     1→hello\n"),
    ("Read", ["file_path=f.txt", "offset=2", "limit=1"], "     2→there\n"),
    ("Write", ["file_path=new/w.txt", "content=written"], "w.txt"),
    ("Edit", ["file_path=f.txt", "old_string=hello", "new_string=hullo"], "f.txt"),
    (
        "MultiEdit",
        ["file_path=f.txt", 'edits=[{"old_string":"there","new_string":"here"}]'],
        "f.txt",
    ),
    (
        "ApplyPatch",
        ["patch=*** Begin Patch\n*** Add File: p.txt\n+patched\n*** End Patch"],
        "A p.txt",
    ),
    ("Glob", ["pattern=**/*.txt"], "new/w.txt"),
    ("Grep", ["pattern=^h", "output_mode=content", "-n=true"], "f.txt:2:here"),
    ("List", ["path=."], "f.txt"),
    ("Bash", ["command=cat f.txt | tail -n 1"], "here"),
    ("BashOutput", [], "no command runs in the background"),
    ("Terminal", ["command=echo shown", "timeout=20000"], "shown"),
    ("WebFetch", [f"url={PAGE}"], "# Heading"),
    ("WebSearch", ["query=some words"], "1. Found"),
    ("MemoryWrite", ["content=The build needs protoc."], "created .sinew/MEMORY.md"),
    ("MemoryRead", ["query=BUILD"], "The build needs protoc."),
    ("AgentInbox", [], "no message waits for"),
    ("Message", ["channel=console", "chat_id=me", "content=done"], "me"),
    ("TodoWrite", ['todos=[{"content":"look","status":"in_progress"}]'], "[>] look"),
    ("CheckpointList", [], "created  p.txt"),
    ("CheckpointRestore", ["id=c4", "dry_run=true"], "remove  p.txt"),
]


def inspect(root, *args):
    """Returns what the inspector printed."""
    command = ["mcp-inspector", "--cli", checks.binary(), "--root", str(root), "--tools", "all"]
    command += ["--approvals", "trust-client", *ALLOWED, "mcp", *args]
    done = subprocess.run(
        command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
    )
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        said = (done.stdout + done.stderr).decode()
        raise AssertionError(f"exit {done.returncode}: {checks.short(said)}") from None


def body(directory):
    root = directory / "project"
    checks.write(root / "f.txt", "hello\nthere\n")
    with check("the inspector is installed"):
        if not shutil.which("mcp-inspector"):
            raise Skip("there is no mcp-inspector; tests/e2e/run installs it")
    with check("tools/list shows every tool"):
        code, listed = inspect(root, "--method", "tools/list")
        equal((code, [tool["name"] for tool in listed["tools"]]), (0, checks.TOOLS))
    for tool, arguments, said in CALLS:
        with check(f"tools/call {tool} {' '.join(' '.join(arguments).split())}"):
            flags = [part for argument in arguments for part in ("--tool-arg", argument)]
            code, result = inspect(root, "--method", "tools/call", "--tool-name", tool, *flags)
            equal((code, result.get("isError", False)), (0, False), checks.text(result))
            contains(checks.text(result), said)
    with check("tools/call AgentSend to the session of an earlier call"):
        target = checks.records("tool = 'Read'")[0]["session"]
        flags = ["--tool-arg", f"target={target}", "--tool-arg", "message=done"]
        code, result = inspect(root, "--method", "tools/call", "--tool-name", "AgentSend", *flags)
        equal((code, result.get("isError", False)), (0, False), checks.text(result))
        contains(checks.text(result), "sent 4 bytes to")
    with check("tools/call Undo takes back no change of another session"):
        _, result = inspect(root, "--method", "tools/call", "--tool-name", "Undo")
        equal(result["isError"], True)
        contains(checks.text(result), "no file changes of this session are left to take back")
    with check("tools/call of what is refused is an error"):
        _, result = inspect(
            root, "--method", "tools/call", "--tool-name", "Read",
            "--tool-arg", "file_path=/var/none",
        )
        equal(result["isError"], True)
        contains(checks.text(result), "path denied: /var/none")
    with check("the files are as they were written and edited"):
        equal((root / "f.txt").read_text(), "hullo\nhere\n")
        equal((root / "new/w.txt").read_text(), "written")
    with check("the ledger names the inspector"):
        rows = checks.records("outcome = 'ok'")
        # Each call is a session of its own, without a command that could be ended and a change that could be undone.
        called = [tool for tool in checks.TOOLS if tool not in ("KillShell", "Undo")]
        equal(sorted({row["tool"] for row in rows}), sorted(called))
        equal({row["client"] is not None for row in rows}, {True})


checks.run(body)
