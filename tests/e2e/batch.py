"""A thousand calls of every kind through one process of `sinew call --batch`."""

import json

import checks
from checks import check, contains, equal

N_CALLS = 1000


def calls(root):
    """Returns the calls as (id, tool, arguments, kind of error, what the text says)."""
    makers = [
        lambda n: ("Read", {"file_path": f"in/{n % 50}.txt"}, None, f"     1→file {n % 50}\n"),
        lambda n: ("Write", {"file_path": f"out/{n}.txt", "content": f"made by {n}\n"}, None, ""),
        lambda n: (
            "Edit",
            {"file_path": "log.txt", "old_string": f"[{n}]", "new_string": f"<{n}>"},
            None,
            "",
        ),
        lambda n: (
            "MultiEdit",
            {
                "file_path": f"out/{n - 2}.txt",
                "edits": [
                    {"old_string": "made", "new_string": "remade"},
                    {"old_string": "remade by", "new_string": "then remade by"},
                ],
            },
            None,
            "",
        ),
        lambda n: ("Glob", {"pattern": "in/*7.txt"}, None, "in/47.txt"),
        lambda n: (
            "Grep",
            {"pattern": f"^then remade by {n - 4}$", "path": "out"},
            None,
            f"out/{n - 4}.txt",
        ),
        lambda n: ("List", {"path": "in"}, None, "49.txt"),
        lambda n: ("Read", {"file_path": f"in/{n}.none"}, "file_not_found", ""),
        lambda n: ("Read", {"file_path": "/var/none"}, "path_denied", ""),
        lambda n: (
            "Edit",
            {"file_path": "in/1.txt", "old_string": "absent", "new_string": "x"},
            "no_match",
            "",
        ),
        lambda n: (
            "Edit",
            {"file_path": "twice.txt", "old_string": "same", "new_string": "x"},
            "not_unique",
            "",
        ),
        lambda n: ("Write", {"file_path": "in", "content": "x"}, "not_regular_file", ""),
        lambda n: ("Grep", {"pattern": "("}, "invalid_args", "character 1"),
        lambda n: ("Grep", {"pattern": "x", "mode": "all"}, "invalid_args", "`mode`"),
        lambda n: ("Delete", {"file_path": "in/1.txt"}, "not_found", "Delete"),
    ]
    made = []
    for n in range(N_CALLS):
        tool, arguments, kind, said = makers[n % len(makers)](n)
        made.append((f"call-{n}", tool, arguments, kind, said))
    return made


def body(directory):
    root = directory / "project"
    for n in range(50):
        checks.write(root / f"in/{n}.txt", f"file {n}\n")
    checks.write(root / "twice.txt", "same\nsame\n")
    checks.write(root / "log.txt", "".join(f"[{n}]\n" for n in range(N_CALLS)))
    made = calls(root)
    lines = [
        json.dumps({"id": id, "name": tool, "arguments": arguments})
        for id, tool, arguments, _, _ in made
    ]
    code, out, errors = checks.sinew(
        "--root", root, "--approvals", "allow", "call", "--batch",
        cwd=root, stdin="\n".join(lines) + "\n", timeout=120,
    )
    results = [json.loads(line) for line in out.splitlines()]

    with check("a thousand calls give a thousand results, in order"):
        equal((code, errors), (0, ""))
        equal([result["id"] for result in results], [id for id, *_ in made])
        equal([result["tool"] for result in results], [tool for _, tool, *_ in made])
    with check("each result has its kind"):
        for result, (id, tool, arguments, kind, said) in zip(results, made, strict=True):
            what = f"{id} {tool} {arguments}"
            equal((result["error"] or {}).get("kind"), kind, what)
            equal(result["ok"], kind is None, what)
            contains(checks.text(result), said)
    with check("each change is on disk, and nothing else"):
        by_tool = {}
        for n, (_, tool, _, kind, _) in enumerate(made):
            if kind is None:
                by_tool.setdefault(tool, []).append(n)
        edited = set(by_tool["Edit"])
        expected = "".join(f"<{n}>\n" if n in edited else f"[{n}]\n" for n in range(N_CALLS))
        equal((root / "log.txt").read_text(), expected)
        remade = {n - 2 for n in by_tool["MultiEdit"]}
        for n in by_tool["Write"]:
            start = "then remade" if n in remade else "made"
            equal((root / f"out/{n}.txt").read_text(), f"{start} by {n}\n")
        equal(len(list((root / "out").iterdir())), len(by_tool["Write"]))
        equal((root / "in/1.txt").read_text(), "file 1\n")
        equal((root / "twice.txt").read_text(), "same\nsame\n")
    with check("each call is in the ledger with its outcome"):
        recorded = [(row["call_id"], row["tool"], row["outcome"]) for row in checks.records()]
        equal(len(recorded), N_CALLS)
        equal(recorded, [(id, tool, kind or "ok") for id, tool, _, kind, _ in made])
    with check("a line that is no call has a result and ends the batch"):
        for bad in ["{", "[]", '{"name":3}', '{"name":"List","argument":{}}']:
            lines = ["", '{"name":"List"}', bad, '{"name":"List"}']
            code, out, _ = checks.sinew(
                "--root", root, "call", "--batch", cwd=root, stdin="\n".join(lines)
            )
            results = [json.loads(line) for line in out.splitlines()]
            kinds = [(result["error"] or {}).get("kind") for result in results]
            equal((code, kinds), (2, [None, "invalid_args"]), bad)
            contains(checks.text(results[1]), "line 3: ")
    with check("an id comes back as it was written"):
        ids = ["a", 7, 1.5, None]
        lines = [json.dumps({"id": id, "name": "List"}) for id in ids]
        _, out, _ = checks.sinew("--root", root, "call", "--batch", cwd=root, stdin="\n".join(lines))
        equal([json.loads(line)["id"] for line in out.splitlines()], ids)


checks.run(body)
