"""Skills through the real command: over MCP, in the agent, on the command line, and what they leave of the tools."""

import json
import os
import shutil

import checks
import wire
from checks import check, contains, equal, true
from foreign import is_told, named, start

ALLOWED = ["claude-flow__memory_*", "read_file", "write_file"]


def skill(base, name, head, body, **files):
    lines = "\n".join(f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in head.items())
    checks.write(base / name / "SKILL.md", f"---\n{lines}\n---\n{body}")
    for file, text in files.items():
        checks.write(base / name / file.replace("__", "."), text)


def listed(server):
    return [tool["name"] for tool in server.ask("tools/list")["result"]["tools"]]


def example_of_clawft(root, user):
    skill(user, "remember", {"description": "Keeps notes.", "allowed-tools": ALLOWED}, "Store $ARGUMENTS.\n", words__md="words")
    skill(user, "free", {"description": "Leaves all tools."}, "Do as you like.\n")
    flow = named("claude-flow", "memory", internal_only=True)
    with check("a skill makes exactly its tools visible and callable, hidden ones of servers too, until it is released"):
        with wire.Server(root, "--dialect", "clawft", *flow) as server:
            start(server)
            before = listed(server)
            true("Skill" in before and "exec_shell" in before, str(before))
            true(not [name for name in before if name.startswith("claude-flow")], str(before))
            equal(wire.kind_of(server.call("claude-flow__memory_store", {"key": "x"})), "not_found")
            tool = next(tool for tool in server.ask("tools/list")["result"]["tools"] if tool["name"] == "Skill")
            equal(tool["inputSchema"]["properties"]["skill"]["enum"], ["free", "remember"])
            contains(tool["description"], "- remember: Keeps notes.")
            loaded = checks.text(server.call("Skill", {"skill": "remember", "args": "the plan"}))
            contains(loaded, "Store the plan.", "words.md", "claude-flow__memory_*")
            expected = ["read_file", "write_file", "Skill", "claude-flow__memory_store", "claude-flow__memory_search"]
            equal(sorted(listed(server)), sorted(expected))
            equal(checks.text(server.call("claude-flow__memory_store", {"key": "x"})), "memory_store did it")
            equal(server.call("write_file", {"path": "note.txt", "content": "kept"}).get("isError", False), False)
            for name, arguments in [
                ("exec_shell", {"command": "true"}), ("edit_file", {"path": "note.txt", "old_text": "kept", "new_text": "x"}),
                ("claude-flow__swarm_init", {}), ("list_directory", {"path": "."}), ("no_such_tool", {}),
            ]:
                kind = wire.kind_of(server.call(name, arguments))
                equal(kind, "not_found" if name == "no_such_tool" else "policy_denied", name)
            equal((root / "note.txt").read_text(), "kept")
            contains(checks.text(server.call("Skill", {"release": True})), "remember")
            equal(listed(server), before)
            equal(server.call("exec_shell", {"command": "true"}).get("isError", False), False)
    with check("a list that is asked for right behind a load or a release is the new one"):
        with wire.Server(root, "--dialect", "clawft", *flow) as server:
            start(server)
            sizes = set()
            for _ in range(50):
                server.call("Skill", {"skill": "remember"})
                narrow = len(listed(server))
                server.call("Skill", {"release": True})
                sizes.add((narrow, len(listed(server))))
            equal(sizes, {(5, len(before))})
    with check("another skill replaces the one before, and a failed load leaves it"):
        with wire.Server(root, "--dialect", "clawft", *flow) as server:
            start(server)
            before = listed(server)
            server.call("Skill", {"skill": "remember"})
            for arguments in ({"skill": "none"}, {"skill": "remember", "variables": {"x": "1"}}, {"skill": "remember", "file": "../free/SKILL.md"}):
                true(server.call("Skill", arguments)["isError"], str(arguments))
                equal(wire.kind_of(server.call("exec_shell", {"command": "true"})), "policy_denied")
            server.call("Skill", {"skill": "free"})
            equal(listed(server), before)
    with check("molf has a tool of its own, with the names of the skills as values"):
        with wire.Server(root, "--dialect", "molf") as server:
            start(server)
            tool = next(tool for tool in server.ask("tools/list")["result"]["tools"] if tool["name"] == "skill")
            equal(tool["inputSchema"]["properties"]["name"]["enum"], ["free", "remember"])
            contains(checks.text(server.call("skill", {"name": "free"})), "Do as you like.")
    with check("without a skill nothing loads one, and molf has its own tool"):
        names = lambda *args: [tool["name"] for tool in json.loads(checks.sinew("--root", root, *args, "tools", "--format", "mcp")[1])]
        true("skill" in names("--dialect", "molf") and "Skill" not in names("--dialect", "molf"), "molf's tool")
        user.rename(user.with_name("aside"))
        try:
            for dialect in ("native", "molf", "clawft"):
                with wire.Server(root, "--dialect", dialect) as server:
                    start(server)
                    true(not {"Skill", "skill"} & set(listed(server)), dialect)
        finally:
            user.with_name("aside").rename(user)


def changes_while_it_runs(root, user):
    with check("the first skill that is written while the server runs is found, and clients hear of it; so is its end"):
        user.rename(user.with_name("aside"))
        try:
            with wire.Server(root) as server:
                start(server)
                true("Skill" not in listed(server), "a tool without skills")
                for is_there in (True, False):
                    server.asides.clear()
                    if is_there:
                        skill(user, "later", {"description": "Came later."}, "Later.\n")
                    else:
                        (user / "later" / "SKILL.md").unlink()
                    # Without a call: nothing but the server looks.
                    is_told(server)
                    equal("Skill" in listed(server), is_there)
                    if is_there:
                        contains(checks.text(server.call("Skill", {"skill": "later"})), "Later.")
        finally:
            shutil.rmtree(user, ignore_errors=True)
            user.with_name("aside").rename(user)


def commands(root, user):
    skill(user, "state", {"description": "Looks."}, "Files: !`echo $1 && ls *.here`\n")
    checks.write(root / "a.here", "")
    with check("a command of a skill is a call of the session: recorded with its parent, by its rules"):
        with wire.Server(root) as server:
            start(server)
            equal(checks.text(server.call("Skill", {"skill": "state", "args": "x;y"})).strip(), "Files: x;y\na.here")
            # The records of calls that change nothing are written a moment later.
            server.close()
            equal(server.ended(), 0)
        last = checks.records("tool = 'Bash'")[-1]
        parent = checks.records("tool = 'Skill'")[-1]
        equal(json.loads(json.dumps(last["parent"])), parent["call_id"])
        with wire.Server(root, "--set", 'rules=[{ verdict = "deny", command = "echo *" }]') as server:
            start(server)
            text = checks.text(server.call("Skill", {"skill": "state"}))
            contains(text, "[the command of the skill failed:", "denied by the rule")
            true("a.here" not in text, text)


def trust(root):
    project = root.with_name("project")
    skill(project / ".agents/skills", "own", {"description": "Of the project."}, "Own text.\n")
    find = lambda: [json.loads(line) for line in checks.sinew("--root", project, "skills", "list", "--json")[1].splitlines()]
    with check("skills of a project count while it is trusted as it is"):
        contains(str([line.get("problem") for line in find()]), "until you trust the project")
        true("own" not in [line.get("skill") for line in find()], "an untrusted skill is listed")
        code, _, errors = checks.sinew("trust", project, "--yes")
        equal(code, 0, errors)
        true("own" in [line.get("skill") for line in find()], "the trusted skill is not listed")
        code, result = checks.call(project, "Skill", {"skill": "own"})
        equal((code, checks.text(result)), (0, "Own text.\n"))
        checks.write(project / ".agents/skills/own/SKILL.md", "Other text.\n")
        contains(str([line.get("problem") for line in find()]), "another one than you trusted")
        code, result = checks.call(project, "Skill", {"skill": "own"})
        equal((code, result["error"]["kind"]), (2, "not_found"))
    with check("files of a skill are read by the rules, hidden ones not at all"):
        skill(project / ".agents/skills", "filed", {"description": "Has files."}, "Text.\n", notes__md="notes", secret__md="secret")
        checks.write(project / ".agents/skills/filed/.env", "KEY=secret")
        equal(checks.sinew("trust", project, "--yes")[0], 0)
        deny = ["--set", 'rules=[{ verdict = "deny", paths = ["**/secret.md"] }]']
        for file, expected in [("notes.md", 0), ("secret.md", 3), (".env", 1), ("../own/SKILL.md", 1), ("/etc/hostname", 1)]:
            code, result = checks.call(project, "Skill", {"skill": "filed", "file": file}, *deny)
            equal((file, code), (file, expected), str(result))
        deny = ["--set", 'rules=[{ verdict = "deny", paths = ["**/SKILL.md"] }]']
        code, result = checks.call(project, "Skill", {"skill": "filed"}, *deny)
        equal((code, result["error"]["kind"]), (3, "policy_denied"))
        true(".env" not in checks.text(checks.call(project, "Skill", {"skill": "filed"})[1]), "a hidden file is named")
    with check("a directory that cannot be trusted takes no trust from the rest"):
        (project / ".claude/skills").mkdir(parents=True)
        (project / ".claude/skills/link").symlink_to("../../.agents/skills/filed")
        equal(checks.sinew("trust", project, "--yes")[0], 0)
        found = find()
        true("filed" in [line.get("skill") for line in found] and "link" not in [line.get("skill") for line in found], str(found))
        contains(str([line.get("problem") for line in found]), "a link cannot be trusted")
    with check("no tool writes a skill without a yes"):
        code, result = checks.call(project, "Write", {"file_path": ".agents/skills/own/SKILL.md", "content": "x"}, approvals="auto")
        equal((code, (project / ".agents/skills/own/SKILL.md").read_text()), (3, "Other text.\n"), str(result))


def body(directory):
    root = directory / "root"
    root.mkdir()
    user = checks.Path(os.environ["HOME"]) / ".config/sinew/skills"
    example_of_clawft(root, user)
    changes_while_it_runs(root, user)
    commands(root, user)
    trust(root)


checks.run(body)
