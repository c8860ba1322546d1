"""Runs a command through `sinew pipe`. Usage: python3 bash.py PROGRAM PROJECT."""

import json
import subprocess
import sys

pipe = subprocess.Popen([sys.argv[1], "--root", sys.argv[2], "pipe"],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
call = {"type": "call", "id": 1, "name": "Bash", "arguments": {"command": "ls | sort > files.txt"}}
print(json.dumps(call), file=pipe.stdin, flush=True)
reply = next(line for line in map(json.loads, pipe.stdout) if line["type"] == "reply")
print(reply["content"][0]["text"])
pipe.stdin.close()
sys.exit(pipe.wait())
