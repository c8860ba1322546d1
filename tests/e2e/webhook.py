"""A server is asked: signed both ways, answered at once or later, and by nobody who has not the secret."""

import base64
import datetime
import http.server
import json
import os
import ssl
import subprocess
import threading
import time

import trustme
from standardwebhooks import Webhook

import checks
from checks import check, contains, equal, true

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(32)).decode()


class Server:
    """Answers what `answer` says: (status, headers, body) for each request, as (method, path, headers, body)."""

    def __init__(self, answer, context=None):
        self.requests = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self):
                length = int(self.headers.get("content-length") or 0)
                request = (self.command, self.path, dict(self.headers.items()), self.rfile.read(length))
                outer.requests.append(request)
                status, headers, body = answer(len(outer.requests), *request)
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = handle_one

            def log_message(self, *_):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.scheme = "https" if context else "http"
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}/ask?team=a"

    def questions(self):
        return [json.loads(body) for method, _, _, body in self.requests if method == "POST"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def signed(headers, answer, secret=SECRET, number=None, ago=0):
    """Returns an answer as a server signs it with the published library."""
    body = answer if isinstance(answer, str) else json.dumps(answer)
    number = number or headers["webhook-id"]
    at = datetime.datetime.now(tz=datetime.timezone.utc) - datetime.timedelta(seconds=ago)
    sign = Webhook(secret).sign(number, at, body)
    return 200, {
        "webhook-id": number,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": sign,
    }, body.encode()


def call(root, secret, url, tool, arguments, *options, env=None):
    code, out, errors = checks.sinew(
        "--root", root, "--approvals", "ask", "--set", f"webhook.url={url}",
        *(["--set", f"webhook.secret_file={secret}"] if secret else []), *options,
        "call", tool, "-", "--json", cwd=root, stdin=json.dumps(arguments), env=env,
    )
    if not out:
        raise AssertionError(f"no result, exit {code}: {checks.short(errors)}")
    return json.loads(out), errors


def kind(result):
    return (result.get("error") or {}).get("kind")


def answers(root, secret):
    with check("what is asked is signed as the published library checks it, and shows the change"):
        with Server(lambda n, method, path, headers, body: signed(headers, {"answer": "yes"})) as server:
            result, _ = call(root, secret, server.url, "Write", {"file_path": "a.txt", "content": "one\n"})
        equal(kind(result), None, result)
        equal((root / "a.txt").read_text(), "one\n")
        [(method, path, headers, body)] = server.requests
        equal((method, path), ("POST", "/ask?team=a"))
        question = Webhook(SECRET).verify(body, headers)
        equal((question["type"], question["tool"], question["diff"]), ("question", "Write", "--- /dev/null\n+++ a.txt\n@@ -0,0 +1 @@\n+one\n"))
        contains(question["text"], "a.txt?", "Write: change")
        equal([cover["scope"] for cover in question["covers"]][0], "call")
        equal(checks.records("tool = 'Write'")[-1]["approver"], "webhook")
    with check("no, with words for the model"):
        no = {"answer": "no", "reason": "not on a Friday"}
        with Server(lambda n, method, path, headers, body: signed(headers, no)) as server:
            result, _ = call(root, secret, server.url, "Bash", {"command": "touch never"})
        equal(kind(result), "approval_denied")
        contains(checks.text(result), "not on a Friday")
        true(not (root / "never").exists(), "it ran")
    with check("an answer that comes later is asked for where the server says"):
        def later(n, method, path, headers, body):
            if n < 3:
                return 202, {"location": "/answers/7", "retry-after": "0"}, b""
            return signed(headers, {"answer": "yes"})
        with Server(later) as server:
            result, _ = call(root, secret, server.url, "Bash", {"command": "touch later"})
        equal(kind(result), None, result)
        equal([(method, path) for method, path, _, _ in server.requests],
              [("POST", "/ask?team=a"), ("GET", "/answers/7"), ("GET", "/answers/7")])
        equal(len({headers["webhook-id"] for _, _, headers, _ in server.requests}), 1)
        for _, _, headers, body in server.requests[1:]:
            expected = Webhook(SECRET).sign(
                headers["webhook-id"],
                datetime.datetime.fromtimestamp(int(headers["webhook-timestamp"]),
                                                tz=datetime.timezone.utc), "")
            equal(headers["webhook-signature"], expected)
    with check("a server that is busy is asked again, by the same number"):
        def busy(n, method, path, headers, body):
            return (503, {}, b"") if n < 3 else signed(headers, {"answer": "yes"})
        with Server(busy) as server:
            result, _ = call(root, secret, server.url, "Bash", {"command": "touch again"})
        equal(kind(result), None, result)
        equal(len({headers["webhook-id"] for _, _, headers, _ in server.requests}), 1)
        equal(len(server.requests), 3)
    with check("nobody answers in time, and that is no denial"):
        def slow(n, method, path, headers, body):
            time.sleep(4)
            return signed(headers, {"answer": "yes"})
        with Server(slow) as server:
            result, _ = call(root, secret, server.url, "Bash", {"command": "touch never"},
                             "--set", "approval_timeout_s=1")
        equal(kind(result), "approval_timeout")
        true(not (root / "never").exists(), "it ran")


def forged(root, secret):
    """Everything that is no answer of the server: what was asked does not run."""
    question = {"type": "question", "answer": "yes"}
    for claim, told, answer in [
        ("an answer with another secret", "does not fit the secret",
         lambda headers: signed(headers, {"answer": "yes"}, secret=OTHER)),
        ("an answer without a signature", "has not the `webhook-id`",
         lambda headers: (200, {}, b'{"answer": "yes"}')),
        ("an answer to another question", "has not the `webhook-id`",
         lambda headers: signed(headers, {"answer": "yes"}, number="msg_other")),
        ("an answer of yesterday", "not of these minutes",
         lambda headers: signed(headers, {"answer": "yes"}, ago=86_400)),
        ("an answer that was changed", "does not fit the secret",
         lambda headers: (*signed(headers, {"answer": "no"})[:2], b'{"answer": "yes"}')),
        ("the question sent back", "not of the form", lambda headers: signed(headers, question)),
        ("an answer of another word", "no such answer: maybe",
         lambda headers: signed(headers, {"answer": "maybe"})),
        ("an answer that is no JSON", "not of the form", lambda headers: signed(headers, "yes")),
        ("an answer without an end", "more than 65536 bytes",
         lambda headers: signed(headers, json.dumps({"answer": "yes"}) + " " * 100_000)),
        ("a redirect", "it replied 302",
         lambda headers: (302, {"location": "http://127.0.0.1:9/"}, b"")),
        ("an answer at another server", "without a `Location` on the same server",
         lambda headers: (202, {"location": "http://127.0.0.1:9/"}, b"")),
        ("an error", "it replied 500", lambda headers: (500, {}, b'{"answer": "yes"}')),
        ("nothing", "does not answer this question", lambda headers: (204, {}, b"")),
    ]:
        # A change that a checkpoint keeps does not run either: somebody was asked.
        for tool, arguments in [
            ("Bash", {"command": "touch never"}),
            ("Write", {"file_path": "never", "content": ""}),
        ]:
            with check(f"{claim}: {tool} does not run"):
                with Server(lambda n, method, path, headers, body: answer(headers)) as server:
                    result, errors = call(root, secret, server.url, tool, arguments)
                equal(kind(result), "approval_denied", result)
                contains(errors, "the webhook at http://127.0.0.1:", told)
                true("team=a" not in errors, "the address is told whole")
                true(not (root / "never").exists(), "it ran")
    with check("a server that is not there"):
        result, errors = call(root, secret, "http://127.0.0.1:9/", "Bash", {"command": "touch never"})
        equal(kind(result), "approval_denied", result)
        contains(errors, "cannot be reached")


def beside(root, secret):
    with check("whoever answers first counts, and the server is told that it is settled"):
        def later(n, method, path, headers, body):
            return 202, {"location": "/a", "retry-after": "1"}, b""
        with Server(later) as server:
            pipe = subprocess.Popen(
                [checks.binary(), "--root", root, "--approvals", "ask", "--set", f"webhook.url={server.url}",
                 "--set", f"webhook.secret_file={secret}", "pipe"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root,
            )
            say = lambda line: (pipe.stdin.write(json.dumps(line) + "\n"), pipe.stdin.flush())
            say({"type": "call", "id": 1, "name": "Bash", "arguments": {"command": "touch first"}})
            question = json.loads(pipe.stdout.readline())
            while not server.requests:
                time.sleep(0.01)
            time.sleep(0.2)
            say({"type": "answer", "question": question["question"], "answer": "yes"})
            reply = json.loads(pipe.stdout.readline())
            while reply["type"] != "reply":
                reply = json.loads(pipe.stdout.readline())
            equal(reply["ok"], True, reply)
            for _ in range(200):
                if 1 < len(server.questions()):
                    break
                time.sleep(0.02)
            pipe.stdin.close()
            equal(pipe.wait(20), 0)
        asked, settled = server.questions()
        equal(settled, {"type": "settled", "question": asked["question"]})
        equal(asked["question"], question["question"])
    with check("what it answers for the session is not asked again"):
        yes = {"answer": "session"}
        with Server(lambda n, method, path, headers, body: signed(headers, yes)) as server:
            lines = [{"type": "call", "id": n, "name": "Bash", "arguments": {"command": f"touch s{n}"}}
                     for n in (1, 2)]
            pipe = subprocess.Popen(
                [checks.binary(), "--root", root, "--approvals", "ask", "--set", f"webhook.url={server.url}",
                 "--set", f"webhook.secret_file={secret}", "pipe"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root,
            )
            for line in lines:
                pipe.stdin.write(json.dumps(line) + "\n")
                pipe.stdin.flush()
                while (told := json.loads(pipe.stdout.readline()))["type"] != "reply":
                    pass
                equal(told["ok"], True, told)
            pipe.stdin.close()
            pipe.wait(20)
        equal(len(server.questions()), 1)


def encrypted(directory, root):
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    roots = directory / "roots.pem"
    authority.cert_pem.write_to_path(str(roots))
    other = directory / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    answer = lambda n, method, path, headers, body: (200, {}, b'{"answer": "yes"}')
    with check("a server that proves its name needs no secret"):
        with Server(answer, context) as server:
            result, errors = call(root, None, server.url, "Bash", {"command": "touch tls"},
                                  env={"SSL_CERT_FILE": str(roots)})
        equal(kind(result), None, f"{result} {errors}")
        true("webhook-signature" not in server.requests[0][2], "it was signed")
    with check("a server that does not prove its name is told nothing"):
        with Server(answer, context) as server:
            result, errors = call(root, None, server.url, "Bash", {"command": "touch never"},
                                  env={"SSL_CERT_FILE": str(other)})
        equal(kind(result), "approval_denied", result)
        contains(errors, "cannot be reached", "certificate")
        equal(server.requests, [])
        true(not (root / "never").exists(), "it ran")


def refused(directory, root, secret):
    readable = directory / "readable"
    readable.write_text(SECRET)
    readable.chmod(0o644)
    bad = directory / "bad"
    bad.write_text("not a secret")
    bad.chmod(0o600)
    inside = root / "inside"
    inside.write_text(SECRET)
    inside.chmod(0o600)
    local = "http://127.0.0.1:9/"
    for claim, url, file, told in [
        ("http to another machine", "http://example.com/", secret, "use `https`"),
        ("http without a secret", local, None, "needs `webhook.secret_file`"),
        ("a secret that others may read", local, readable, "chmod 600"),
        ("a secret of another form", local, bad, "whsec_"),
        ("a secret that is not there", local, directory / "none", "cannot be read"),
        ("a secret where tools may read it", local, inside, "must be outside the roots"),
        ("a password in the address", "https://ada:pw@example.com/", secret, "no password"),
    ]:
        with check(f"{claim} is refused at the start"):
            options = ["--set", f"webhook.url={url}"]
            if file:
                options += ["--set", f"webhook.secret_file={file}"]
            code, _, errors = checks.sinew("--root", root, *options, "call", "List", "{}", cwd=root)
            equal(code, 2, errors)
            contains(errors, told)
    with check("a project's own file names no server"):
        project = directory / "project"
        checks.write(project / ".sinew/config.toml", '[webhook]\nurl = "https://example.com/"\n')
        code, out, errors = checks.sinew("--root", project, "call", "List", "{}", cwd=project)
        equal(code, 0, errors)
        contains(errors, "webhook.url", "left out")


def body(directory):
    root = directory / "project-root"
    root.mkdir()
    secret = directory / "secret"
    secret.write_text(SECRET + "\n")
    os.chmod(secret, 0o600)
    answers(root, secret)
    forged(root, secret)
    beside(root, secret)
    encrypted(directory, root)
    refused(directory, root, secret)


checks.run(body)
