"""Ten small tasks for the agent, each with a checker, and with the turns of a model that does it.

The turns are for scripted model servers; a real model gets the prompt alone.
"""

import os
import subprocess

from checks import USER_HOME, contains, equal, true

LIB = """pub fn add(a: i32, b: i32) -> i32 {
    a - b
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(2, 3), 5);
    }
}
"""

SHAPES = """def area_of(width, height):
    return width * height


def volume_of(width, height, depth):
    return area_of(width, height) * depth
"""


def says(*parts):
    """Returns a checker of the answer: it must have one of these texts."""
    def check(_root, answer):
        true(any(part in answer for part in parts), f"{parts[0]!r} is not in {answer!r}")
    return check


def test_passes(root, _answer):
    built = root / "target-of-test"
    # The suite has a home of its own, where no toolchain is.
    rustup = os.environ.get("RUSTUP_HOME", str(USER_HOME / ".rustup"))
    done = subprocess.run(
        ["rustc", "--test", "--edition", "2021", "-o", str(built), "src/lib.rs"],
        cwd=root, env={**os.environ, "RUSTUP_HOME": rustup}, capture_output=True, text=True, timeout=120,
    )
    equal(done.returncode, 0, done.stderr)
    done = subprocess.run([str(built)], capture_output=True, timeout=60)
    built.unlink()
    equal(done.returncode, 0, "the exit code of the test")


def renamed(root, _answer):
    text = (root / "shapes.py").read_text()
    true("area_of" not in text, f"area_of is still in {text!r}")
    equal(text, SHAPES.replace("area_of", "rect_area"), "shapes.py")
    contains((root / "main.py").read_text(), "rect_area(2, 3)")


def holds(name, *parts, without=()):
    """Returns a checker of a file: it must have these texts, and none of the others."""
    def check(root, _answer):
        text = (root / name).read_text()
        contains(text, *parts)
        for part in without:
            true(part not in text, f"{part!r} is in {text!r}")
    return check


def call(name, **arguments):
    return (name, arguments)


TASKS = [
    {
        "name": "port",
        "files": {"src/server.py": "import http\n\nPORT = 7341\nHOST = 'localhost'\n", "src/client.py": "import server\n"},
        "prompt": "Read src/server.py and say which port the server listens on. Answer with the number.",
        "check": says("7341"),
        "turns": [[call("Read", file_path="src/server.py")], "It listens on port 7341."],
    },
    {
        "name": "where",
        "files": {
            "net/http.py": "def parse_header(line):\n    return line.split(':')\n",
            "net/tcp.py": "def connect(host):\n    return host\n",
            "main.py": "from net import http\n",
        },
        "prompt": "Search with Grep for def parse_header and say in which file it is. Answer with the path.",
        "check": says("net/http.py"),
        "turns": [[call("Grep", pattern="def parse_header")], "It is defined in net/http.py."],
    },
    {
        "name": "version",
        "files": {"package.json": '{\n  "name": "toy",\n  "version": "2.4.1"\n}\n'},
        "prompt": "Read package.json and say which version it has. Answer with the version.",
        "check": says("2.4.1"),
        "turns": [[call("Read", file_path="package.json")], "Version 2.4.1."],
    },
    {
        "name": "count",
        "files": {"notes/a.txt": "a\n", "notes/b.txt": "b\n", "notes/c.txt": "c\n", "notes/d.md": "d\n"},
        "prompt": "How many files in the directory notes end with .txt? Use Glob with the pattern notes/*.txt and answer with the number.",
        "check": says("3", "three"),
        "turns": [[call("Glob", pattern="notes/*.txt")], "There are 3."],
    },
    {
        "name": "test",
        "files": {"src/lib.rs": LIB},
        "prompt": "The test in src/lib.rs fails, because add returns a - b. Fix it with Edit: it must return a + b.",
        "check": test_passes,
        "turns": [
            [call("Read", file_path="src/lib.rs")],
            [call("Edit", file_path="src/lib.rs", old_string="a - b", new_string="a + b")],
            "add adds now.",
        ],
    },
    {
        "name": "rename",
        "files": {"shapes.py": SHAPES, "main.py": "from shapes import area_of\n\nprint(area_of(2, 3))\n"},
        "prompt": "Rename the function area_of to rect_area in shapes.py and main.py, everywhere. Use Edit with replace_all.",
        "check": renamed,
        "turns": [
            [call("Read", file_path="shapes.py"), call("Read", file_path="main.py")],
            [
                call("Edit", file_path="shapes.py", old_string="area_of", new_string="rect_area", replace_all=True),
                call("Edit", file_path="main.py", old_string="area_of", new_string="rect_area", replace_all=True),
            ],
            "Renamed in both files.",
        ],
    },
    {
        "name": "setting",
        "files": {"config.toml": "[server]\nport = 80\ntimeout = 30\n"},
        "prompt": "In config.toml change timeout from 30 to 60. Use Edit.",
        "check": holds("config.toml", "timeout = 60", "port = 80", without=["timeout = 30"]),
        "turns": [
            [call("Edit", file_path="config.toml", old_string="timeout = 30", new_string="timeout = 60")],
            "The timeout is 60 now.",
        ],
    },
    {
        "name": "create",
        "files": {"README.md": "# toy\n"},
        "prompt": "Create the file hello.txt with the text: hello world",
        "check": holds("hello.txt", "hello world"),
        "turns": [[call("Write", file_path="hello.txt", content="hello world\n")], "Created."],
    },
    {
        "name": "append",
        "files": {".gitignore": "target/\n"},
        "prompt": "The file .gitignore has the line target/. Use Edit to add the line *.log below it.",
        "check": holds(".gitignore", "target/", "*.log"),
        "turns": [
            [call("Edit", file_path=".gitignore", old_string="target/", new_string="target/\n*.log")],
            "Added.",
        ],
    },
    {
        "name": "typo",
        "files": {"README.md": "# toy\n\nClients recieve one message a second.\n"},
        "prompt": "In README.md the word recieve is misspelled. Correct it to receive with Edit.",
        "check": holds("README.md", "Clients receive one message", without=["recieve"]),
        "turns": [
            [call("Edit", file_path="README.md", old_string="recieve", new_string="receive")],
            "Corrected.",
        ],
    },
]
