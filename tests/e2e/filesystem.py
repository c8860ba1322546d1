"""The dialect mcp-filesystem beside the server that it speaks like: the same calls on the same tree.

Both servers get a tree of their own with the same content and the same hundred calls, one after the
other. Replies are compared once the path of the tree and times are replaced, and so are the trees in the
end. `DIFFERS` lists every reply that is not the same, `DIFFERS_ON_DISK` every file; each is stricter or
keeps more, and says why. A difference that is not listed fails, and so does one that is gone.
"""

import json
import os
import re
import shutil
import stat
import subprocess

import checks
from checks import Skip, check, equal, true
from wire import Server

PACKAGE = "mcp-server-filesystem"
RELEASE = "2026.8.31"
MAX_DIFFERENCES = 10

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452") + bytes(range(200))
CODE = "fn main() {\n    let one = 1;\n    if one == 1 {\n        print(one);\n    }\n}\n"

# What both trees hold: a text, bytes, or None for an empty directory.
TREE = {
    "a.txt": "alpha\nbeta\ngamma\n",
    "noeol.txt": "one\ntwo",
    "dos.txt": "one\r\ntwo\r\nthree\r\n",
    "empty.txt": "",
    "unicode.txt": "grüße\n日本語\n🙂 done\n",
    "two words.txt": "between\n",
    "code.rs": CODE,
    "edit/plain.txt": "red\ngreen\nblue\n",
    "edit/many.txt": "".join(f"line {n}\n" for n in range(1, 61)),
    "edit/code.rs": CODE,
    "edit/fence.md": "before\n```\ncode\n```\nafter\n",
    "edit/noeol.txt": "first\nlast",
    "edit/twice.txt": "same\nother\nsame\n",
    "edit/same.txt": "stays\n",
    "edit/none.txt": "stays\n",
    "edit/dos.txt": "one\r\ntwo\r\nthree\r\n",
    "big.txt": "".join(f"{n:05d} the quick brown fox\n" for n in range(5_000)),
    "binary.dat": b"text\0and more\n",
    "media/picture.png": PNG,
    "media/photo.JPG": b"\xff\xd8\xff" + bytes(50),
    "media/drawing.svg": "<svg/>\n",
    "media/sound.mp3": b"ID3" + bytes(64),
    "media/sound.wav": b"RIFF" + bytes(64),
    "media/book.pdf": b"%PDF-1.7\n",
    "media/other.bin": bytes(range(256)),
    "media/odd #1 é%.bin": b"x",
    "media/empty.gif": b"",
    "sizes/b.txt": "x" * 10,
    "sizes/A.txt": "x" * 2_000,
    "sizes/a.log": "x" * 1_500_000,
    "sizes/_z": "x" * 1_024,
    "sizes/10": "x",
    "sizes/9": "",
    "sizes/.dot": "x" * 1_023,
    "mixed/one/two/three/deep.txt": "deep\n",
    "mixed/one/top.rs": "",
    "mixed/.hidden/x.rs": "",
    "mixed/node_modules/lib/index.js": "",
    "mixed/src/main.rs": "",
    "mixed/src/main.test.rs": "",
    "mixed/README.md": "",
    "mixed/hollow": None,
    "move/file.txt": "moved\n",
    "move/there.txt": "there\n",
    "move/dir/inner.txt": "inner\n",
    "move/target.txt": "target\n",
    "links/to.txt": "behind\n",
    "hollow": None,
}
# Symbolic links, each with its target.
LINKS = {
    "links/inside.txt": "to.txt",
    "links/directory": "../mixed/src",
    "links/outside.txt": "/etc/hostname",
    "links/dangling.txt": "nothing",
    "move/link.txt": "target.txt",
}


def edits(*pairs):
    return [{"oldText": old, "newText": new} for old, new in pairs]


# The calls, in order: a name of its own, the tool, and the arguments with paths beneath the root.
CALLS = [
    ("read a text", "read_text_file", {"path": "a.txt"}),
    ("read by the old name", "read_file", {"path": "a.txt"}),
    ("read without a final line end", "read_text_file", {"path": "noeol.txt"}),
    ("read CRLF", "read_text_file", {"path": "dos.txt"}),
    ("read nothing", "read_text_file", {"path": "empty.txt"}),
    ("read characters of many bytes", "read_text_file", {"path": "unicode.txt"}),
    ("read a name with a blank", "read_text_file", {"path": "two words.txt"}),
    ("read a large text", "read_text_file", {"path": "big.txt"}),
    ("read through a link", "read_text_file", {"path": "links/inside.txt"}),
    ("read by a crooked path", "read_text_file", {"path": "mixed/../edit/./plain.txt"}),
    ("head of 2", "read_text_file", {"path": "a.txt", "head": 2}),
    ("head of 3", "read_text_file", {"path": "a.txt", "head": 3}),
    ("head of more than there is", "read_text_file", {"path": "a.txt", "head": 99}),
    ("head of 0", "read_text_file", {"path": "a.txt", "head": 0}),
    ("head of CRLF", "read_text_file", {"path": "dos.txt", "head": 2}),
    ("head without a final line end", "read_text_file", {"path": "noeol.txt", "head": 2}),
    ("head of nothing", "read_text_file", {"path": "empty.txt", "head": 3}),
    ("head of a large text", "read_text_file", {"path": "big.txt", "head": 3_000}),
    ("tail of 1", "read_text_file", {"path": "a.txt", "tail": 1}),
    ("tail of 2", "read_text_file", {"path": "a.txt", "tail": 2}),
    ("tail of more than there is", "read_text_file", {"path": "a.txt", "tail": 99}),
    ("tail of CRLF", "read_text_file", {"path": "dos.txt", "tail": 2}),
    ("tail without a final line end", "read_text_file", {"path": "noeol.txt", "tail": 1}),
    ("tail of nothing", "read_text_file", {"path": "empty.txt", "tail": 2}),
    ("tail of a large text", "read_text_file", {"path": "big.txt", "tail": 4_000}),
    ("tail by the old name", "read_file", {"path": "unicode.txt", "tail": 2}),
    ("head and tail", "read_text_file", {"path": "a.txt", "head": 1, "tail": 1}),
    ("read what is missing", "read_text_file", {"path": "nope.txt"}),
    ("read beneath what is missing", "read_text_file", {"path": "nope/nope.txt"}),
    ("read a directory", "read_text_file", {"path": "edit"}),
    ("read outside", "read_text_file", {"path": "/etc/hostname"}),
    ("read outside by dots", "read_text_file", {"path": "../../etc/hostname"}),
    ("read through a link that leads out", "read_text_file", {"path": "links/outside.txt"}),
    ("read binary content as text", "read_text_file", {"path": "binary.dat"}),
    ("an argument that is unknown", "read_text_file", {"path": "a.txt", "offset": 2}),
    ("a picture", "read_media_file", {"path": "media/picture.png"}),
    ("a picture with a loud name", "read_media_file", {"path": "media/photo.JPG"}),
    ("a drawing", "read_media_file", {"path": "media/drawing.svg"}),
    ("a sound", "read_media_file", {"path": "media/sound.mp3"}),
    ("another sound", "read_media_file", {"path": "media/sound.wav"}),
    ("a document", "read_media_file", {"path": "media/book.pdf"}),
    ("any bytes", "read_media_file", {"path": "media/other.bin"}),
    ("a name that must be escaped", "read_media_file", {"path": "media/odd #1 é%.bin"}),
    ("a picture of no bytes", "read_media_file", {"path": "media/empty.gif"}),
    ("a text as media", "read_media_file", {"path": "a.txt"}),
    ("media that is missing", "read_media_file", {"path": "media/nope.png"}),
    ("a directory as media", "read_media_file", {"path": "media"}),
    ("read one of several", "read_multiple_files", {"paths": ["a.txt"]}),
    ("read several", "read_multiple_files", {"paths": ["a.txt", "noeol.txt", "empty.txt"]}),
    ("read several, one missing", "read_multiple_files", {"paths": ["nope", "a.txt"]}),
    ("read several, one a directory", "read_multiple_files", {"paths": ["a.txt", "edit"]}),
    ("read several, one outside", "read_multiple_files", {"paths": ["a.txt", "/etc/hostname"]}),
    ("write a new file", "write_file", {"path": "new.txt", "content": "new\n"}),
    ("read what was written", "read_text_file", {"path": "new.txt"}),
    ("write over it", "write_file", {"path": "new.txt", "content": "grün"}),
    ("read what was written over it", "read_text_file", {"path": "new.txt"}),
    ("write nothing", "write_file", {"path": "blank.txt", "content": ""}),
    ("write through a link", "write_file", {"path": "links/inside.txt", "content": "x\n"}),
    ("write where no directory is", "write_file", {"path": "no/new.txt", "content": "x"}),
    ("write outside", "write_file", {"path": "/etc/new.txt", "content": "x"}),
    ("edit one line", "edit_file", {"path": "edit/plain.txt", "edits": edits(("green", "grey"))}),
    (
        "edit two places in order",
        "edit_file",
        {"path": "edit/plain.txt", "edits": edits(("red", "rose"), ("rose\ngrey", "rose\ngray"))},
    ),
    (
        "edit far apart",
        "edit_file",
        {"path": "edit/many.txt", "edits": edits(("line 5\n", "five\n"), ("line 55\n", "55!\n"))},
    ),
    (
        "edit near one another",
        "edit_file",
        {"path": "edit/many.txt", "edits": edits(("line 20\n", "20!\n"), ("line 27\n", "27!\n"))},
    ),
    (
        "edit only to see",
        "edit_file",
        {"path": "edit/plain.txt", "edits": edits(("blue", "cyan")), "dryRun": True},
    ),
    ("read what was not edited", "read_text_file", {"path": "edit/plain.txt"}),
    (
        "remove lines",
        "edit_file",
        {"path": "edit/many.txt", "edits": edits(("line 40\nline 41\n", ""))},
    ),
    (
        "add lines",
        "edit_file",
        {"path": "edit/many.txt", "edits": edits(("line 45\n", "line 45\nmore\nand more\n"))},
    ),
    (
        "edit with other indentation",
        "edit_file",
        {
            "path": "edit/code.rs",
            "edits": edits(("if one == 1 {\n    print(one);\n}", "if one == 1 {\n    log(one);\n}")),
        },
    ),
    ("edit a fence", "edit_file", {"path": "edit/fence.md", "edits": edits(("code", "more"))}),
    (
        "edit the last line",
        "edit_file",
        {"path": "edit/noeol.txt", "edits": edits(("last", "the end"))},
    ),
    (
        "end the last line",
        "edit_file",
        {"path": "edit/noeol.txt", "edits": edits(("the end", "the end\n"))},
    ),
    ("edit CRLF", "edit_file", {"path": "edit/dos.txt", "edits": edits(("two", "2"))}),
    (
        "edit what is not there",
        "edit_file",
        {"path": "edit/plain.txt", "edits": edits(("violet\nline", "x"))},
    ),
    ("edit one of two places", "edit_file", {"path": "edit/twice.txt", "edits": edits(("same", "x"))}),
    ("edit into the same", "edit_file", {"path": "edit/same.txt", "edits": edits(("stays", "stays"))}),
    ("edit without edits", "edit_file", {"path": "edit/none.txt", "edits": []}),
    ("edit what is missing", "edit_file", {"path": "edit/nope.txt", "edits": edits(("a", "b"))}),
    ("make a directory", "create_directory", {"path": "made"}),
    ("make directories", "create_directory", {"path": "made/in/one"}),
    ("make what is there", "create_directory", {"path": "made/in"}),
    ("make where a file is", "create_directory", {"path": "a.txt"}),
    ("make outside", "create_directory", {"path": "/etc/made"}),
    ("list", "list_directory", {"path": "mixed"}),
    ("list nothing", "list_directory", {"path": "hollow"}),
    ("list what is missing", "list_directory", {"path": "nope"}),
    ("list a file", "list_directory", {"path": "a.txt"}),
    ("list sizes", "list_directory_with_sizes", {"path": "sizes"}),
    ("list sizes by size", "list_directory_with_sizes", {"path": "sizes", "sortBy": "size"}),
    ("list sizes of directories", "list_directory_with_sizes", {"path": "mixed"}),
    ("tree", "directory_tree", {"path": "mixed"}),
    (
        "tree without some",
        "directory_tree",
        {"path": "mixed", "excludePatterns": ["node_modules", "*.md", "one/two", ".hidden"]},
    ),
    ("search there", "search_files", {"path": "mixed", "pattern": "*.md"}),
    ("search at any depth", "search_files", {"path": "mixed", "pattern": "**/*.{rs,js}"}),
    (
        "search without some",
        "search_files",
        {"path": "mixed", "pattern": "**/*.rs", "excludePatterns": ["**/*.test.rs", ".hidden/**"]},
    ),
    ("search nothing", "search_files", {"path": "mixed", "pattern": "*.zig"}),
    ("move a file", "move_file", {"source": "move/file.txt", "destination": "made/file.txt"}),
    ("move a directory", "move_file", {"source": "move/dir", "destination": "made/in/dir"}),
    ("move over a file", "move_file", {"source": "new.txt", "destination": "move/there.txt"}),
    ("move what is missing", "move_file", {"source": "nope", "destination": "move/nope"}),
    ("move a link", "move_file", {"source": "move/link.txt", "destination": "move/moved.txt"}),
    ("know a file", "get_file_info", {"path": "a.txt"}),
    ("know a directory", "get_file_info", {"path": "hollow"}),
    ("know what is missing", "get_file_info", {"path": "nope"}),
    ("know what is allowed", "list_allowed_directories", {}),
]

# Replies that are not the same: what ours says, what theirs says, and why ours is stricter.
DIFFERS = {
    "read through a link that leads out": (
        "path outside allowed directories",
        "symlink target outside allowed directories: /etc/hostname",
        "where a link leads outside is not told",
    ),
    "read binary content as text": (
        "binary content of 14 bytes",
        "text\0and more",
        "bytes that are no text are not passed off as text",
    ),
    "an argument that is unknown": (
        "argument `offset` is unknown",
        "alpha\nbeta\ngamma\n",
        "what a caller asked for is not silently left undone",
    ),
    "read several, one outside": (
        "Access denied - path outside allowed directories: /etc/hostname",
        "alpha\nbeta\ngamma\n",
        "a call that reaches out of the roots is refused as a whole",
    ),
    "edit with other indentation": (
        "-        print(one);\n+        log(one);\n     }\n }\n",
        "-        print(one);\n-    }\n",
        "lines that an edit does not change keep their indentation",
    ),
    "edit one of two places": (
        "occurs 2 times",
        "-same\n+x\n",
        "which place is meant is not guessed",
    ),
    "edit into the same": (
        "nothing would change",
        "--- ",
        "an edit that changes nothing is told",
    ),
    "edit without edits": (
        "must hold at least one item",
        "--- ",
        "an edit that changes nothing is told",
    ),
}

# Files that are not the same in the end, and why.
DIFFERS_ON_DISK = {
    "edit/dos.txt": "line endings of a file are kept",
    "edit/code.rs": "lines that an edit does not change keep their indentation",
    "edit/twice.txt": "which place is meant is not guessed",
    "move/link.txt": "a link is moved itself",
    "move/moved.txt": "a link is moved itself",
    "move/target.txt": "a link is moved itself",
}

TIME = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d GMT\+0000 \([^)]*\)")

# Tools whose rows have no order of their own.
UNORDERED = {"list_directory", "search_files"}


class Theirs(Server):
    """The server that the dialect speaks like."""

    def __init__(self, root):
        self.kind = "pipe"
        self.process = subprocess.Popen(
            [PACKAGE, os.fspath(root)],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self.follow(self.process.stdin, self.process.stdout)


def lay_out(root):
    for path, content in TREE.items():
        if content is None:
            (root / path).mkdir(parents=True)
        else:
            checks.write(root / path, content)
    for path, target in LINKS.items():
        (root / path).symlink_to(target)
    return root


def absolute(root, arguments):
    """Returns the arguments of a call with paths from the top."""
    whole = dict(arguments)
    for name in ["path", "source", "destination"]:
        if name in whole:
            whole[name] = os.path.join(root, whole[name])
    if "paths" in whole:
        whole["paths"] = [os.path.join(root, path) for path in whole["paths"]]
    return whole


def compared(result, root, tool):
    """Returns what is compared of a result."""
    kept = {key: result.get(key) for key in ["content", "structuredContent"]}
    kept["isError"] = result.get("isError", False)
    text = json.dumps(kept, ensure_ascii=False).replace(os.fspath(root), "ROOT")
    kept = json.loads(TIME.sub("TIME", text))
    if tool in UNORDERED or tool == "directory_tree":
        for holder, key in places(kept):
            holder[key] = ordered(holder[key], tool)
    return kept


def places(result):
    """Returns where the text of a result stands."""
    found = [(block, "text") for block in result["content"] if "text" in block]
    structured = result["structuredContent"]
    if structured and isinstance(structured.get("content"), str):
        found.append((structured, "content"))
    return found


def ordered(text, tool):
    if tool in UNORDERED:
        return "\n".join(sorted(text.split("\n")))
    try:
        tree = json.loads(text)
    except ValueError:
        return text
    equal(json.dumps(tree, indent=2, ensure_ascii=False), text, "the layout of a tree")

    def sort(children):
        for child in children:
            sort(child.get("children", []))
        children.sort(key=lambda child: child["name"])
        return children

    return json.dumps(sort(tree))


def on_disk(root):
    """Returns every name beneath a root with what it is, what it holds and its mode."""
    found = {}
    for directory, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            else:
                content = None
            found[os.path.relpath(path, root)] = (content, oct(status.st_mode))
    return found


def release():
    """Returns the release of the server that is installed."""
    program = os.path.realpath(shutil.which(PACKAGE))
    for directory in [os.path.dirname(program), os.path.dirname(os.path.dirname(program))]:
        path = os.path.join(directory, "package.json")
        if os.path.exists(path):
            with open(path) as file:
                return json.load(file)["version"]
    return None


def body(directory):
    with check("the server is installed in the release that is compared"):
        if not shutil.which(PACKAGE):
            raise Skip(f"there is no {PACKAGE}; tests/e2e/run installs it")
        equal(release(), RELEASE, "release")
    if not shutil.which(PACKAGE):
        return
    os.environ["TZ"] = "UTC"
    ours, theirs = lay_out(directory / "ours/tree"), lay_out(directory / "other/tree")
    with check("there are a hundred calls with names of their own, and few differences"):
        true(100 <= len(CALLS), f"only {len(CALLS)} calls")
        names = [name for name, _, _ in CALLS]
        equal(len(set(names)), len(names), "names")
        equal(set(DIFFERS) - set(names), set(), "listed calls that are not made")
        reasons = set(DIFFERS_ON_DISK.values()) - {why for _, _, why in DIFFERS.values()}
        n = len(DIFFERS) + len(reasons)
        true(n <= MAX_DIFFERENCES, f"{n} differences are listed")
    used = set()
    with (
        Server(ours, "--dialect", "mcp-filesystem") as our_server,
        Theirs(theirs) as their_server,
    ):
        our_server.shake()
        their_server.shake()
        with check("tools/list names the same tools with the same titles and annotations"):
            shown = [
                [
                    (tool["name"], tool.get("title"), tool["annotations"], tool["outputSchema"])
                    for tool in server.ask("tools/list")["result"]["tools"]
                ]
                for server in [our_server, their_server]
            ]
            for tools in shown:
                for *_, schema in tools:
                    schema.pop("$schema", None)
            equal(*shown, "tools")
        for name, tool, arguments in CALLS:
            used.add(tool)
            with check(f"{tool}: {name}"):
                replies = [
                    compared(server.call(tool, absolute(root, arguments)), root, tool)
                    for server, root in [(our_server, ours), (their_server, theirs)]
                ]
                if name in DIFFERS:
                    difference(replies, *DIFFERS[name])
                else:
                    equal(*replies, "our reply")
        with check("every tool was called"):
            equal(used, {tool[0] for tool in shown[0]}, "tools")
        with check("both servers are well"):
            for server in [our_server, their_server]:
                equal(server.ask("ping")["result"], {}, "ping")
    with check("both trees are the same in the end, but for what is listed"):
        found = [on_disk(ours), on_disk(theirs)]
        for tree in found:
            tree.pop(".sinew", None)
        names = set(found[0]) | set(found[1])
        differing = {name for name in names if found[0].get(name) != found[1].get(name)}
        equal(differing, set(DIFFERS_ON_DISK), "names that differ")


def difference(replies, our_words, their_words, _why):
    """Checks a difference that is listed."""
    ours, theirs = (said(reply) for reply in replies)
    true(replies[0] != replies[1], "it is listed and does not differ any more")
    checks.contains(ours, our_words)
    checks.contains(theirs, their_words)


def said(reply):
    return "".join(block.get("text", "") for block in reply["content"])


checks.run(body)
