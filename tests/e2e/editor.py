"""What an editor says to a language server about one file: opens it, and formats and saves it each second.

Arguments: the file, its language, the command of the server.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

LONGEST = 60


def main(file, language, *command):
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(**message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        server.stdin.flush()

    def notify(method, **params):
        send(method=method, params=params)

    def receive():
        length = 0
        while line := server.stdout.readline():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            elif line == b"\r\n":
                return json.loads(server.stdout.read(length))

    def answer():
        while message := receive():
            if "id" in message and "method" in message:
                send(id=message["id"], result=None)

    root = Path.cwd().as_uri()
    document = {"uri": Path(file).resolve().as_uri()}
    folders = [{"uri": root, "name": "project"}]
    capabilities = {"textDocument": {"synchronization": {"didSave": True}}}
    send(id=0, method="initialize", params={
        "processId": None, "rootUri": root, "workspaceFolders": folders, "capabilities": capabilities})
    receive()
    notify("initialized")
    threading.Thread(target=answer, daemon=True).start()
    notify("textDocument/didOpen", textDocument={**document, "languageId": language, "version": 1, "text": ""})
    for number in range(1, LONGEST):
        time.sleep(1)
        send(id=number, method="textDocument/formatting", params={
            "textDocument": document, "options": {"tabSize": 4, "insertSpaces": True}})
        notify("textDocument/didSave", textDocument=document)


main(*sys.argv[1:])
