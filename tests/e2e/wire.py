"""A client of MCP over stdio that says exactly the bytes it is told to."""

import contextlib
import io
import json
import os
import queue
import signal
import socket
import subprocess
import threading

import checks

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
CLIENT = {"name": "wire", "version": "1"}


def request(id, method, params=None):
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        message["params"] = params
    return message


def tool_call(id, name, arguments, meta=None):
    params = {"name": name, "arguments": arguments}
    if meta:
        params["_meta"] = meta
    return request(id, "tools/call", params)


def cancelled(id):
    params = {"requestId": id, "reason": "enough"}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def stateless(**more):
    """Returns what a request of the stateless revision carries about its client."""
    return {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
        **more,
    }


INITIALIZE = request(
    0,
    "initialize",
    {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT},
)
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Server:
    """A server process and this end of its streams; ends with the block that opened it."""

    def __init__(self, root, *options, kind="pipe", read=True, command=(), approvals="allow"):
        self.kind = kind
        args = [
            *command, checks.binary(), "--root", os.fspath(root), "--tools", "all",
            "--approvals", approvals, *options, "mcp",
        ]
        if kind == "pipe":
            self.process = subprocess.Popen(
                args, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
            ends = self.process.stdin, self.process.stdout
        elif kind == "socketpair":
            ours, theirs = zip(socket.socketpair(), socket.socketpair())
            self.process = subprocess.Popen(args, cwd=root, stdin=theirs[0], stdout=theirs[1])
            for end in theirs:
                end.close()
            ends = ours[0].makefile("wb", buffering=0), ours[1].makefile("rb")
            for end in ours:
                end.close()
        else:
            raise ValueError(kind)
        self.follow(*ends, read)

    def follow(self, input, output, read=True):
        """Takes the streams of the process."""
        self.input = input
        self.output = io.BufferedReader(output) if isinstance(output, io.RawIOBase) else output
        self.lines = queue.Queue()
        self.asides = []
        self.next_id = 1000
        self.reader = None
        if read:
            self.read_on()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        # A thread that still reads would read from whatever gets the same descriptor next.
        if self.reader:
            self.reader.join()
        with contextlib.suppress(OSError):
            self.output.close()

    def read_on(self):
        """Starts taking what the server says."""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        try:
            for line in self.output:
                self.lines.put(json.loads(line))
        except OSError:
            pass
        except ValueError as error:
            self.lines.put({"broken": f"{error}: {checks.short(repr(line))}"})
        self.lines.put(None)

    def close(self):
        """Ends the input of the server."""
        with contextlib.suppress(OSError):
            self.input.close()

    def send(self, *messages):
        for message in messages:
            raw = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            while raw:
                raw = raw[self.input.write(raw) or 0 :]

    def receive(self, timeout=20):
        """Returns the next message, or None where the server ended its output."""
        try:
            return self.lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"nothing came within {timeout} s") from None

    def answer(self, id, timeout=20):
        """Returns the answer to a request; what else comes meanwhile is kept in `asides`."""
        while True:
            message = self.receive(timeout)
            if message is None:
                raise AssertionError(f"the server ended before it answered {id!r}")
            if message.get("id") == id and "method" not in message:
                return message
            self.asides.append(message)

    def ask(self, method, params=None, timeout=20):
        self.next_id += 1
        self.send(request(self.next_id, method, params))
        return self.answer(self.next_id, timeout)

    def shake(self):
        self.send(INITIALIZE)
        reply = self.answer(0)
        checks.equal(reply["result"]["protocolVersion"], HANDSHAKE, "version")
        self.send(INITIALIZED)
        return self

    def call(self, name, arguments, meta=None, timeout=20):
        self.next_id += 1
        return self.result_of(tool_call(self.next_id, name, arguments, meta), timeout)

    def result_of(self, message, timeout=30):
        self.send(message)
        return self.answer(message["id"], timeout)["result"]

    def is_well(self):
        """Checks that the server still does its work."""
        checks.equal(self.ask("ping")["result"], {}, "ping")
        names = [tool["name"] for tool in self.ask("tools/list")["result"]["tools"]]
        checks.equal(names, checks.TOOLS, "tools")

    def ended(self, timeout=10):
        """Waits for the end of the process and returns its exit code."""
        return self.process.wait(timeout)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def resident(pid):
    """Returns the memory that a process holds, in MiB."""
    with open(f"/proc/{pid}/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def kind_of(result):
    """Returns the error kind of a result, or None where it did its deed."""
    return (result.get("_meta") or {}).get("sinew/error", {}).get("kind")
