"""What the agent loop adds between two requests, and what it keeps: measured at the model's server.

The binary must be that of releases; `cargo xtask nightly loop` builds it.
"""

import json
import os
import socket
import statistics
import subprocess
import threading
import time

import checks
from checks import check, true

# Results of 10 KB, until the conversation has 200 KB; then short ones, which are measured.
N_LONG = 20
N_MEASURED = 60
N_TURNS = 500
MOST_MS = 5
MOST_GROWTH = 1.5


def event(data):
    return b"data: " + json.dumps(data).encode() + b"\n\n"


class Server:
    """A model that reads another part of a file in each message, and notes when requests come."""

    def __init__(self, n_calls, arguments, on_request=lambda n: None):
        self.n_calls, self.arguments, self.on_request = n_calls, arguments, on_request
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        # When each answer was sent, when the next request began, and how many bytes it had.
        self.sent, self.begun, self.sizes = [], [], []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection:
                while self.request(connection):
                    pass

    def request(self, connection):
        data = connection.recv(1)
        if not data:
            return False
        began = time.perf_counter()
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head, body = data.split(b"\r\n\r\n", 1)
        if head.startswith(b"GET"):
            connection.sendall(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
            return True
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        while len(body) < length:
            body += connection.recv(1 << 20)
        self.begun.append(began)
        self.sizes.append(length)
        n = len(self.begun)
        self.on_request(n)
        if n <= self.n_calls:
            call = {"index": 0, "id": f"c{n}", "function": {"name": "Read", "arguments": json.dumps(self.arguments(n))}}
            delta, reason = {"tool_calls": [call]}, "tool_calls"
        else:
            delta, reason = {"content": "done"}, "stop"
        answer = event({"choices": [{"delta": delta}]})
        answer += event({"choices": [{"delta": {}, "finish_reason": reason}]}) + b"data: [DONE]\n\n"
        connection.sendall(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer
        )
        self.sent.append(time.perf_counter())
        return True


def start(root, port):
    config = checks.Path(os.environ["HOME"]) / ".config/sinew/config.toml"
    checks.write(config, f'[models.m]\nwire = "chat"\nurl = "http://127.0.0.1:{port}/v1"\ncontext = 4000000\n')
    return subprocess.Popen(
        [checks.binary(), "run", "--max-turns", "10000", "--json", "read on"],
        cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def overhead(root):
    """Returns the milliseconds between an answer and the next request, without those of the tool, and the last size."""
    def arguments(n):
        return {"file_path": "long.txt", "offset": n, "limit": 200} if n <= N_LONG else {"file_path": "short.txt", "offset": n, "limit": 2}
    server = Server(N_LONG + N_MEASURED, arguments)
    out, err = (process := start(root, server.port)).communicate(timeout=300)
    server.listener.close()
    true(process.returncode == 0, err)
    results = [line for line in map(json.loads, out.splitlines()) if line["type"] == "result"]
    true(len(results) == N_LONG + N_MEASURED, f"{len(results)} results")
    between = [
        (begun - sent) * 1e3 - result["duration_ms"]
        for sent, begun, result in zip(server.sent, server.begun[1:], results)
    ]
    return between[N_LONG:], server.sizes[-1]


def memory(root):
    """Returns the resident kilobytes after 50 turns and at the end."""
    seen, process = {}, None
    ready = threading.Event()

    def on_request(n):
        ready.wait(10)
        if n in (50, N_TURNS):
            status = (checks.Path("/proc") / str(process.pid) / "status").read_text()
            seen[n] = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))

    server = Server(N_TURNS, lambda n: {"file_path": "short.txt", "offset": n, "limit": 2}, on_request)
    process = start(root, server.port)
    ready.set()
    out, err = process.communicate(timeout=600)
    server.listener.close()
    true(process.returncode == 0, err)
    return seen[50], seen[N_TURNS]


def body(directory):
    root = directory / "project"
    checks.write(root / "long.txt", "".join(f"{n} {'x' * 45}\n" for n in range(1000)))
    checks.write(root / "short.txt", "".join(f"{n} y\n" for n in range(2000)))
    checks.write(root / "AGENTS.md", "")
    with check(f"at most {MOST_MS} ms between an answer and the next request"):
        between, size = overhead(root)
        median = statistics.median(between)
        print(f"overhead: median {median:.2f} ms, 90th percentile {sorted(between)[len(between) * 9 // 10]:.2f} ms, "
              f"{len(between)} requests of about {size // 1000} KB")
        true(200_000 <= size, f"{size} bytes of history")
        true(median <= MOST_MS, f"{median:.2f} ms")
    with check(f"memory after {N_TURNS} turns is at most {MOST_GROWTH} times that after 50"):
        early, late = memory(root)
        print(f"memory: {early} KB after 50 turns, {late} KB after {N_TURNS}, {late / early:.2f}x")
        true(late <= MOST_GROWTH * early, f"{late / early:.2f}x")


if os.environ.get("SINEW_LOOP"):
    checks.run(body)
else:
    checks.line("skip", "the loop's overhead: `cargo xtask nightly loop` measures it")
