"""Drives `sinew pipe` from Python: a call, a question that is answered, and a refusal.

Usage: python3 pipe.py [PROGRAM], where PROGRAM is the path of sinew.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path


class Pipe:
    """One `sinew pipe`, with one call at a time."""

    def __init__(self, program, root):
        self.process = subprocess.Popen(
            [program, "--root", root, "--approvals", "ask", "pipe"],
            cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.calls = 0

    def send(self, line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def call(self, name, approve=lambda question: False, **arguments):
        """Returns the reply; `approve` answers questions before the call runs."""
        self.calls += 1
        self.send({"type": "call", "id": self.calls, "name": name, "arguments": arguments})
        for text in self.process.stdout:
            line = json.loads(text)
            if line["type"] == "question":
                print("?", line["head"][0])
                answer = "yes" if approve(line) else "no"
                self.send({"type": "answer", "question": line["question"], "answer": answer})
            elif line["type"] == "reply" and line["id"] == self.calls:
                return line
        raise EOFError("sinew ended")

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


with tempfile.TemporaryDirectory() as root:
    pipe = Pipe(sys.argv[1] if len(sys.argv) > 1 else "sinew", root)

    reply = pipe.call("Write", lambda question: True, file_path="notes.md", content="hello\n")
    print("Write:", reply["content"][0]["text"])
    assert reply["ok"] and Path(root, "notes.md").read_text() == "hello\n"

    print("Read:", pipe.call("Read", file_path="notes.md")["content"][0]["text"])

    reply = pipe.call("Write", file_path="notes.md", content="goodbye\n")
    print("Refused:", reply["error"]["kind"], "-", reply["error"]["message"])
    assert reply["error"]["kind"] == "approval_denied"
    assert Path(root, "notes.md").read_text() == "hello\n"

    assert pipe.close() == 0
