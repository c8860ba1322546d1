"""The command line, given what is wrong: kinds, exit codes, and what the message names."""

import os

import checks
from checks import check, contains, equal, true

LONG = "x" * 300

# (tool, arguments, kind, exit code, what the text must say)
CALLS = [
    ("Nope", {}, "not_found", 2, ["Nope", "known tools: Read, Write"]),
    ("read", {"file_path": "f.txt"}, "not_found", 2, ["read", "Read"]),
    ("Read", {}, "invalid_args", 2, ["`file_path`"]),
    ("Read", {"file_path": 3}, "invalid_args", 2, ["`file_path`", "a string", "a number"]),
    ("Read", {"file_path": None}, "invalid_args", 2, ["`file_path`"]),
    ("Read", {"file_path": "f.txt", "ofset": 1}, "invalid_args", 2, ["`ofset`", "offset"]),
    ("Read", {"file_path": "f.txt", "offset": 0}, "invalid_args", 2, ["`offset`"]),
    ("Read", {"file_path": "f.txt", "offset": -1}, "invalid_args", 2, ["`offset`"]),
    ("Read", {"file_path": "f.txt", "offset": 1.5}, "invalid_args", 2, ["`offset`"]),
    ("Read", {"file_path": ""}, "invalid_args", 2, ["`file_path`"]),
    ("Write", {"file_path": "w.txt"}, "invalid_args", 2, ["`content`"]),
    ("Edit", {"file_path": "f.txt", "old_string": "a"}, "invalid_args", 2, ["`new_string`"]),
    ("MultiEdit", {"file_path": "f.txt", "edits": []}, "invalid_args", 2, ["`edits`"]),
    ("MultiEdit", {"file_path": "f.txt", "edits": [3]}, "invalid_args", 2, ["`edits"]),
    (
        "MultiEdit",
        {"file_path": "f.txt", "edits": [{"old_string": "a", "new": "b"}]},
        "invalid_args",
        2,
        ["`edits"],
    ),
    ("ApplyPatch", {"patch": ""}, "invalid_args", 2, ["no patch was found"]),
    ("ApplyPatch", {"patch": "@@ -1 +1 @@\n-a\n+b\n"}, "invalid_args", 2, ["`path`", "line 1"]),
    ("ApplyPatch", {"patch": "--- a/f.txt\n+++ b/f.txt\n"}, "invalid_args", 2, ["no hunk"]),
    (
        "ApplyPatch",
        {"patch": "--- a/f.txt\n+++ b/f.txt\n@@ -1 +1 @@\n-zz\n+b\n"},
        "no_match",
        1,
        ["nothing was changed", "hunk #1", "f.txt"],
    ),
    (
        "ApplyPatch",
        {"patch": "--- /dev/null\n+++ b/../new.txt\n@@ -0,0 +1 @@\n+x\n"},
        "path_denied",
        3,
        ["../new.txt"],
    ),
    (
        "ApplyPatch",
        {"patch": "diff --git a/c b/c\ncopy from ../secret.txt\ncopy to c\n"},
        "path_denied",
        3,
        ["../secret.txt"],
    ),
    ("Grep", {"pattern": "a(b"}, "invalid_args", 2, ["`pattern`", "character 2"]),
    ("Grep", {"pattern": "über[z-a]"}, "invalid_args", 2, ["`pattern`", "character 6"]),
    ("Grep", {"pattern": "(?=a)"}, "invalid_args", 2, ["`pattern`", "look-around"]),
    ("Grep", {"pattern": "a", "glob": "a[b"}, "invalid_args", 2, ["`glob`", "character 2"]),
    ("Grep", {"pattern": "a", "type": "nope"}, "invalid_args", 2, ["`type`", "nope"]),
    ("Grep", {"pattern": "a", "output_mode": "x"}, "invalid_args", 2, ["content", "count"]),
    ("Grep", {"pattern": "a", "head_limit": "one"}, "invalid_args", 2, ["`head_limit`"]),
    ("Glob", {"pattern": "a/{b"}, "invalid_args", 2, ["`pattern`"]),
    ("Glob", {"pattern": "a[b"}, "invalid_args", 2, ["`pattern`", "character 2"]),
    ("List", {"depth": 0}, "invalid_args", 2, ["`depth`"]),
    ("Read", {"file_path": "/var/none"}, "path_denied", 3, ["/var/none", "--root"]),
    ("Read", {"file_path": "../secret.txt"}, "path_denied", 3, ["../secret.txt"]),
    ("Read", {"file_path": "d/../../secret.txt"}, "path_denied", 3, []),
    ("Read", {"file_path": "out/secret.txt"}, "path_denied", 3, ["out/secret.txt"]),
    ("Read", {"file_path": "secret"}, "path_denied", 3, []),
    ("Read", {"file_path": "/proc/self/root/etc/passwd"}, "path_denied", 3, []),
    ("Write", {"file_path": "newd/", "content": "x"}, "invalid_path", 1, ["ends in a slash"]),
    ("Write", {"file_path": "../new.txt", "content": "x"}, "path_denied", 3, []),
    ("Write", {"file_path": "out/new.txt", "content": "x"}, "path_denied", 3, []),
    ("Write", {"file_path": "secret", "content": "x"}, "path_denied", 3, []),
    ("List", {"path": ".."}, "path_denied", 3, []),
    ("Glob", {"pattern": "*", "path": "out"}, "path_denied", 3, []),
    ("Grep", {"pattern": "x", "path": "/etc"}, "path_denied", 3, []),
    ("Read", {"file_path": "a\0b"}, "invalid_path", 1, ["NUL"]),
    ("Read", {"file_path": "loop"}, "invalid_path", 1, ["loop"]),
    ("Read", {"file_path": "loop/x"}, "invalid_path", 1, []),
    ("Write", {"file_path": "loop", "content": "x"}, "invalid_path", 1, []),
    ("Read", {"file_path": LONG}, "invalid_path", 1, ["too long"]),
    ("Read", {"file_path": "x/" * 3000}, "invalid_path", 1, ["too long"]),
    ("Read", {"file_path": "none.txt"}, "file_not_found", 1, ["none.txt"]),
    ("Read", {"file_path": "none/none.txt"}, "file_not_found", 1, []),
    ("Read", {"file_path": "dangling"}, "file_not_found", 1, ["dangling"]),
    ("Write", {"file_path": "dangling", "content": "x"}, "file_not_found", 1, ["dangling"]),
    ("Edit", {"file_path": "none", "old_string": "a", "new_string": "b"}, "file_not_found", 1, []),
    ("List", {"path": "none"}, "file_not_found", 1, ["none"]),
    ("Glob", {"pattern": "*", "path": "none"}, "file_not_found", 1, ["none"]),
    ("Grep", {"pattern": "x", "path": "none"}, "file_not_found", 1, ["none"]),
    ("Read", {"file_path": "d"}, "not_regular_file", 1, ["directory", "List"]),
    ("Write", {"file_path": "d", "content": "x"}, "not_regular_file", 1, ["directory"]),
    (
        "Edit",
        {"file_path": "d", "old_string": "a", "new_string": "b"},
        "not_regular_file",
        1,
        ["directory"],
    ),
    ("Read", {"file_path": "fifo"}, "not_regular_file", 1, ["fifo"]),
    ("Write", {"file_path": "fifo", "content": "x"}, "not_regular_file", 1, ["fifo"]),
    ("Grep", {"pattern": "x", "path": "fifo"}, "not_regular_file", 1, ["fifo"]),
    ("List", {"path": "f.txt"}, "not_regular_file", 1, ["not a directory"]),
    ("Glob", {"pattern": "*", "path": "f.txt"}, "not_regular_file", 1, ["not a directory"]),
    ("Read", {"file_path": "f.txt/x"}, "not_regular_file", 1, ["not a directory"]),
    ("Write", {"file_path": "f.txt/x", "content": "x"}, "not_regular_file", 1, []),
    ("Read", {"file_path": "binary.bin"}, "binary", 1, ["bytes"]),
    (
        "Edit",
        {"file_path": "binary.bin", "old_string": "a", "new_string": "b"},
        "binary",
        1,
        [],
    ),
    ("Edit", {"file_path": "f.txt", "old_string": "zz", "new_string": "b"}, "no_match", 1, []),
    ("Edit", {"file_path": "f.txt", "old_string": "l", "new_string": "b"}, "not_unique", 1, []),
    (
        "MultiEdit",
        {
            "file_path": "f.txt",
            "edits": [
                {"old_string": "hello", "new_string": "bye"},
                {"old_string": "zz", "new_string": "b"},
            ],
        },
        "no_match",
        1,
        [],
    ),
    (
        "Edit",
        {"file_path": "linked.txt", "old_string": "one", "new_string": "two"},
        "execution_failed",
        1,
        ["hard link"],
    ),
]

# (configuration, what the message must say): the file and the line come first.
CONFIGURATIONS = [
    ("bogus = 1\n", ["line 1", "`bogus`"]),
    ('log = "info"\n[tools.fs]\ndeny_path = []\n', ["line 3", "`deny_path`"]),
    ('log = "info"\nread_only = 3\n', ["line 2", "boolean"]),
    ("[mcp]\nmax_line_bytes = -1\n", ["line 2"]),
    ("[files]\n\nsync = 3\n", ["line 3"]),
    ("read_only =\n", ["line 1"]),
    ("[files\n", ["line 1"]),
    ('log = "info"\nlog = "warn"\n', ["line 2"]),
]

# (configuration, what the message must say)
VALUES = [
    ('dialect = "nope"\n', ["`dialect`", "`nope`", "native, moltis"]),
    ('approvals = "maybe"\n', ["`approvals`", "`maybe`", "trust-client"]),
    ('[files]\nsync = "some"\n', ["`files.sync`", "`some`"]),
    ('[tools.fs]\ndeny_paths = ["relative/*"]\n', ["`relative/*`", "absolute"]),
    ('[tools.fs]\ndeny_paths = ["/a["]\n', ["`/a[`"]),
]

# (arguments of the command, standard input, exit code, what standard error must say)
USAGES = [
    ([], "", 2, ["Usage"]),
    (["bogus"], "", 2, ["bogus"]),
    (["--bogus", "tools"], "", 2, ["--bogus"]),
    (["call"], "", 2, []),
    (["call", "Read", "{"], "", 2, ["not JSON"]),
    (["call", "Read", "[]"], "", 2, ["object"]),
    (["call", "Read", "-"], "nonsense", 2, ["not JSON"]),
    (["call", "Read", "-"], b"\xff\xfe", 2, []),
    (["--dialect", "nope", "tools"], "", 2, ["nope", "moltis"]),
    (["--approvals", "nope", "tools"], "", 2, ["nope", "trust-client"]),
    (["--root", "none", "tools"], "", 2, ["none"]),
    (["--root", "f.txt", "tools"], "", 2, ["f.txt"]),
    (["--config", "none.toml", "tools"], "", 2, ["none.toml"]),
    (["--config", "fifo", "tools"], "", 2, ["fifo", "regular"]),
    (["--config", "d", "tools"], "", 2, ["d: "]),
    (["--set", "nonsense", "tools"], "", 2, ["--set", "key=value"]),
    (["--set", "bogus=1", "tools"], "", 2, ["`bogus`"]),
    (["call", "List"], "", 0, []),
    (["call", "Read", '{"file_path":"f.txt"}'], "", 0, []),
    (["call", "Read", '{"file_path":"none"}'], "", 1, ["no such file: none"]),
    (["call", "Read", '{"file_path":"../x"}'], "", 3, ["path denied"]),
    (["call", "Nope"], "", 2, ["Nope"]),
    (["--approvals", "ask", "call", "Write", '{"file_path":"n","content":""}'], "", 3,
     ["approval", "--approvals"]),
    (["--approvals", "deny", "call", "Write", '{"file_path":"n","content":""}'], "", 3, []),
    (["--read-only", "--approvals", "allow", "call", "Write", '{"file_path":"n","content":""}'],
     "", 3, ["read-only"]),
    (["--set", 'tools.policy.deny=["Write"]', "--approvals", "allow", "call", "Write",
      '{"file_path":"n","content":""}'], "", 3, ["rule"]),
]


def make(directory):
    root = directory / "project"
    checks.write(directory / "secret.txt", "secret\n")
    checks.write(root / "f.txt", "hello\n")
    checks.write(root / "binary.bin", bytes(range(256)))
    os.link(checks.write(root / "one.txt", "one\n"), root / "linked.txt")
    (root / "d").mkdir()
    os.mkfifo(root / "fifo")
    links = [("dangling", "none"), ("loop", "pool"), ("pool", "loop"), ("out", "..")]
    for name, to in [*links, ("secret", "../secret.txt")]:
        (root / name).symlink_to(to)
    return root


def state(root):
    """Returns what the tree holds: every name, and every content."""
    return {
        str(path): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in [*root.rglob("*"), *root.parent.glob("*.txt")]
    }


def calls(root):
    before = state(root)
    for tool, arguments, kind, code, said in CALLS:
        with check(f"{tool} {checks.short(str(arguments), 60)} is {kind}"):
            got, result = checks.call(root, tool, arguments)
            error = result["error"] or {}
            equal((error.get("kind"), got, result["ok"]), (kind, code, False), error)
            contains(checks.text(result), *said)
            contains(checks.text(result), error["message"])
            true(str(root) not in error["message"], "the message names the root")
    with check("a call that fails changes nothing"):
        equal(state(root), before)


def names(directory):
    root = directory / "names"
    root.mkdir()
    for name in [b"bad\xff.txt", b"dir\xfe/in.txt", "größe.txt".encode(), b"new\nline.txt"]:
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("needle\n")
    for tool, arguments in [
        ("Glob", {"pattern": "**/*.txt"}),
        ("Grep", {"pattern": "needle"}),
        ("Grep", {"pattern": "needle", "output_mode": "content", "-n": True}),
        ("List", {"recursive": True}),
    ]:
        with check(f"{tool} {arguments} shows names that are not UTF-8"):
            code, result = checks.call(root, tool, arguments)
            equal(code, 0)
            text = checks.text(result)
            contains(text, '"bad\\377.txt"', '"dir\\376/in.txt"', '"new\\nline.txt"', "größe.txt")
            contains(text, "cannot be given to a tool")
    with check("an argument that is not UTF-8 is refused"):
        code, _, errors = checks.sinew("call", "Read", b'{"file_path":"bad\xff.txt"}', cwd=root)
        equal(code, 2)
        contains(errors, "UTF-8")


def configurations(root):
    own = os.path.join(os.environ["XDG_CONFIG_HOME"], "sinew/config.toml")
    places = [
        ("--config", root / "c.toml", ["--config", root / "c.toml"]),
        ("the person's file", checks.Path(own), []),
        ("the project's file", root / ".sinew/config.toml", []),
    ]
    for place, path, flags in places:
        with check(f"{place}: what cannot be read is refused with file and line"):
            for text, said in CONFIGURATIONS:
                checks.write(path, text)
                code, out, errors = checks.sinew(*flags, "tools", cwd=root)
                equal((code, out), (2, ""), text)
                contains(errors, path.name, *said)
            path.unlink()
    for text, said in VALUES:
        with check(f"{' '.join(text.split())} is refused"):
            path = checks.write(root / "c.toml", text)
            code, out, errors = checks.sinew("--config", path, "tools", cwd=root)
            equal((code, out), (2, ""))
            contains(errors, *said)
    with check("a project's file cannot loosen, and the warning says where"):
        checks.write(root / ".sinew/config.toml", 'log = "warn"\napprovals = "allow"\n')
        code, _, errors = checks.sinew("call", "Bash", '{"command":"touch .envrc"}', cwd=root)
        equal(code, 3)
        contains(errors, ".sinew/config.toml:2", "`approvals`")
        (root / ".sinew/config.toml").unlink()


def roots(directory):
    home = checks.Path(os.environ["HOME"])
    (directory / "home-by-link").symlink_to(home)
    for where in [checks.Path("/"), home, directory / "home-by-link"]:
        with check(f"{'/' if where.parent == where else where.name} is no root by accident"):
            for command in [["call", "List"], ["mcp"]]:
                code, out, errors = checks.sinew(*command, cwd=where)
                equal((code, out), (2, ""))
                contains(errors, "--root")
            code, _, _ = checks.sinew("--root", where, "call", "List", cwd=where)
            equal(code, 0, "exit code with --root")


def body(directory):
    root = make(directory)
    calls(root)
    names(directory)
    for arguments, stdin, code, said in USAGES:
        with check(f"`sinew {checks.short(' '.join(arguments), 60)}` ends with {code}"):
            got, _, errors = checks.sinew(*arguments, stdin=stdin, cwd=root)
            equal(got, code, errors)
            contains(errors, *said)
    configurations(root)
    roots(directory)


checks.run(body)
