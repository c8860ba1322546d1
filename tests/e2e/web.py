"""Pages fetched and searched by the real command from servers in another network namespace, whose addresses are public there: names
by the real resolver, redirects, names that change their meaning, hostile pages, and a canary on loopback.

A client that follows redirects, and one that judges a name before it connects by it, are the controls: both reach the
canary.
"""

import contextlib
import gzip
import html.entities
import http.client
import http.server
import ipaddress
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import checks
import providers
import wire
from checks import Skip, check, contains, equal, true

HERE, SITE, OTHER = "5.6.7.1", "5.6.7.2", "5.6.7.3"
# What names mean: each answer is the next of the list.
NAMES = {
    "site.test": [[SITE]], "other.test": [[OTHER]], "inside.test": [["127.0.0.1"]], "both.test": [[SITE, "127.0.0.1"]],
    "rebinds.test": [[SITE], ["127.0.0.1"]], "mapped.test": [["::ffff:127.0.0.1"]], "metadata.test": [["169.254.169.254"]],
    "host.test": [[HERE]], "third.test": [[SITE]], **{name: [[SITE]] for name in providers.HOSTS},
}
PAGE = b"""<!DOCTYPE html><html><head><title>A page</title><script>SCRIPT</script></head><body>
<nav><a href="/menu">Menu</a></nav><h1>Heading</h1><p>Some <b>bold</b> words and <a href="next.html">a link</a>.</p>
<!-- COMMENT --><p style="display:none">HIDDEN</p><p>se\xe2\x80\x8bcret</p></body></html>"""


# Entities of what is shown, with `;`: html5 also has the old names without it.
ENTITIES = [name for name, text in html.entities.html5.items() if name.endswith(";") and text.isprintable() and not text.isspace()]


class Site(http.server.BaseHTTPRequestHandler):
    """The server of every public address."""

    n_counted = 0

    def do_GET(self):
        canary = os.environ["CANARY"]
        moved = {
            "/to-canary": f"http://127.0.0.1:{canary}/", "/to-inside": f"http://inside.test:{canary}/",
            "/to-host": f"http://{HERE}:{canary}/", "/to-other": "http://other.test/page", "/to-page": "/page",
            "/to-port": "http://other.test:8080/page", "/to-file": "file:///etc/passwd", "/to-two": "http://other.test/to-third", "/to-third": "http://third.test/page",
        }
        headers, body = {"content-type": "text/html; charset=utf-8"}, PAGE
        if self.path in moved:
            self.send_response(302)
            self.send_header("location", moved[self.path])
            self.send_header("content-length", "0")
            self.end_headers()
            return
        if self.path == "/deep":
            body = b"<p>top" + b"<div>" * 20_000 + b"bottom" + b"</div>" * 20_000
        elif self.path == "/malformed":
            body = b"<p>top" + b"<table><tr><td <b><i><p>cell </td>< <a href=x" * 210_000 + b"<p>bottom"
        elif self.path == "/entities":
            body = "".join(f"<p>[&{name}]" for name in ENTITIES).encode()
        elif self.path == "/latin":
            headers, body = {"content-type": "text/html"}, b"<meta charset=latin1><p>caf\xe9"
        elif self.path == "/one.zip?a=1.x":
            headers, body = {"content-type": "application/zip"}, b"PK\x03\x04\0binary"
        elif self.path == "/bomb":
            headers["content-encoding"], body = "gzip", gzip.compress(bytes(200_000_000))
        elif self.path == "/odd":
            headers["content-encoding"] = "odd"
        elif self.path == "/slow":
            time.sleep(3)
        elif self.path == "/count":
            Site.n_counted += 1
            headers, body = {"content-type": "text/plain"}, f"count {Site.n_counted}".encode()
        elif self.path == "/echo":
            headers, body = {"content-type": "text/plain"}, str(self.headers).encode()
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):
            self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.end_headers()
        self.wfile.write(b"posted " + body)

    def log_message(self, *_):
        pass


def name_server():
    """Answers questions for addresses, over UDP."""
    served = {name: 0 for name in NAMES}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((SITE, 53))
        while True:
            query, client = server.recvfrom(512)
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            kind = struct.unpack("!H", query[at + 1:at + 3])[0]
            name = ".".join(labels).lower()
            addresses = []
            if name in NAMES:
                answers = NAMES[name]
                addresses = [ipaddress.ip_address(text) for text in answers[served[name] % len(answers)]]
                served[name] += kind == 1
            found = [address for address in addresses if (address.version == 4) == (kind == 1) and kind in (1, 28)]
            flags = 0x8180 if name in NAMES else 0x8183
            head = query[:2] + struct.pack("!HHHHH", flags, 1, len(found), 0, 0)
            records = b"".join(
                b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(address.packed)) + address.packed for address in found
            )
            server.sendto(head + query[12:at + 5] + records, client)


def world():
    """Runs the public hosts, in a network namespace of their own, until the suite ends."""
    sys.stdin.readline()
    for step in [f"addr add {SITE}/24 dev far", f"addr add {OTHER}/24 dev far", "link set far up", "link set lo up"]:
        subprocess.run(["ip", *step.split()], check=True)
    threading.Thread(target=name_server, daemon=True).start()
    for port in 80, 8080:
        server = http.server.ThreadingHTTPServer(("0.0.0.0", port), Site)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    providers.serve(sys.argv[2])
    print("up", flush=True)
    sys.stdin.read()


class Canary:
    """A server of this host that no page may reach."""

    def __init__(self):
        self.n_hits = 0
        canary = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                canary.n_hits += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"canary")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class ForwardProxy:
    """A proxy of this host that connects wherever it is asked to, and remembers what it was asked."""

    def __init__(self):
        self.asked, self.authorized = [], None
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                proxy.asked.append(self.path)
                proxy.authorized = self.headers["proxy-authorization"]
                parts = urllib.parse.urlsplit(self.path)
                connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=10)
                try:
                    connection.request("GET", parts.path or "/", headers={"host": parts.netloc})
                    answer = connection.getresponse()
                    body = answer.read()
                except OSError:
                    self.send_error(502)
                    return
                self.send_response(answer.status)
                for name in "content-type", "location":
                    if answer.headers[name]:
                        self.send_header(name, answer.headers[name])
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_CONNECT(self):
                proxy.asked.append(self.path)
                name, port = self.path.rsplit(":", 1)
                with socket.create_connection((name, int(port)), timeout=10) as far:
                    self.send_response(200)
                    self.end_headers()
                    ends = {self.connection: far, far: self.connection}
                    while True:
                        for end in select.select(list(ends), [], [])[0]:
                            data = end.recv(65_536)
                            if not data:
                                return
                            ends[end].sendall(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@contextlib.contextmanager
def public_hosts(directory, canary):
    """Connects this namespace with that of the public hosts, and resolves names there."""
    if os.getuid() != 0 or not shutil.which("ip"):
        raise Skip("network namespaces need root and `ip`")
    providers.make_certificates(directory)
    child = subprocess.Popen(
        ["unshare", "--net", sys.executable, __file__, "world", directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "CANARY": str(canary.port)},
    )
    try:
        added = subprocess.run(["ip", "link", "add", "name", "near", "type", "veth", "peer", "name", "far"], capture_output=True)
        if added.returncode:
            raise Skip("this kernel has no virtual links")
        # The child is in its namespace once it is another program than `unshare`.
        while "unshare" in Path(f"/proc/{child.pid}/comm").read_text():
            time.sleep(0.01)
        for step in [f"link set far netns {child.pid}", f"addr add {HERE}/24 dev near", "link set near up"]:
            subprocess.run(["ip", *step.split()], check=True)
        child.stdin.write("\n")
        child.stdin.flush()
        equal(child.stdout.readline(), "up\n", "the public hosts")
        resolving = checks.write(directory / "resolv.conf", f"nameserver {SITE}\noptions timeout:1 attempts:3\n")
        subprocess.run(["mount", "--bind", resolving, os.path.realpath("/etc/resolv.conf")], check=True)
        yield
    finally:
        child.kill()
        child.wait()


def fetch(root, url, *options, **more):
    _, result = checks.call(root, "WebFetch", {"url": url, **more}, *options, approvals="deny")
    return result["ok"], checks.text(result)


def controls(canary):
    with check("control: a client that follows redirects reaches the canary"):
        equal(urllib.request.urlopen("http://site.test/to-canary", timeout=10).read(), b"canary")
        equal(canary.n_hits, 1, "hits of the canary")
    with check("control: a client that judges a name before it connects by it reaches the canary"):
        for _ in range(6):
            address = socket.getaddrinfo("rebinds.test", 80, socket.AF_INET)[0][4][0]
            if ipaddress.ip_address(address).is_global:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://rebinds.test:{canary.port}/", timeout=10).read()
        true(1 < canary.n_hits, "the canary was not hit")


def pages(root):
    for what, path, more, parts in [
        ("Markdown", "/page", {}, ["http://site.test/page answers 200, text/html, ", "A page\n\n", "# Heading", "**bold**",
                                   "[a link](http://site.test/next.html)", "[Menu](http://site.test/menu)", "secret"]),
        ("text", "/page", {"format": "text"}, ["Heading", "bold"]),
        ("as it is", "/page", {"format": "raw"}, ["<!DOCTYPE html>", "COMMENT"]),
        ("another charset", "/latin", {}, ["café"]),
        ("a redirect", "/to-page", {}, ["http://site.test/page answers 200", "[redirected from http://site.test/to-page]"]),
        ("a redirect to another host", "/to-other", {}, ["http://other.test/page answers 200", "# Heading"]),
        ("a file", "/one.zip?a=1.x", {}, ["application/zip, 11 bytes", "[stored in .sinew/tool-output/"]),
        ("headers", "/echo", {"headers": {"X-Mine": "yes"}}, ["x-mine: yes", "user-agent: sinew/"]),
        ("less than there is", "/page", {"format": "raw", "max_bytes": 15}, ["15 bytes; more was left out", "<!DOCTYPE html>"]),
    ]:
        with check(f"a page: {what}"):
            ok, text = fetch(root, f"http://site.test{path}", **more)
            true(ok, text)
            contains(text, *parts)
            if more.get("format") != "raw":
                for unseen in "SCRIPT", "COMMENT", "HIDDEN", "\u200b":
                    true(unseen not in text, f"{unseen!r} is in {text}")
    with check("a file is stored as it was sent"):
        [stored] = (root / ".sinew/tool-output").iterdir()
        equal([stored.suffix, stored.read_bytes()], [".zip", b"PK\x03\x04\0binary"])


def entities(root):
    with check("every entity is what Python takes it for"):
        ok, text = fetch(root, "http://site.test/entities", format="text")
        true(ok, text)
        # Of a character and the one that varies it, the second is invisible.
        expected = [f"[{html.unescape('&' + name)}]".replace("\ufe00", "") for name in ENTITIES]
        true(2_000 < len(expected), f"{len(expected)} entities")
        lines = set(text.splitlines())
        stored = [path for path in (root / ".sinew/tool-output").iterdir() if path.suffix == ".txt"]
        lines |= {line for path in stored for line in path.read_text().splitlines()}
        equal([line for line in expected if line not in lines], [])


def hostile_pages(root):
    for what, path, form in [
        ("20,000 elements in one another", "/deep", "markdown"), ("10 MB of malformed HTML", "/malformed", "markdown"),
        ("the same as an article", "/deep", "article"), ("the same as text", "/deep", "text"),
    ]:
        with check(f"a hostile page: {what}"):
            begun = time.monotonic()
            ok, text = fetch(root, f"http://site.test{path}", format=form)
            true(ok, text[:500])
            contains(text, "top", "bottom" if path == "/deep" else "[cut after 49152 of ")
            true(time.monotonic() - begun < 15, f"it took {time.monotonic() - begun:.1f} s")
    with check("a hostile page: 200 MB of zeros, compressed"):
        ok, text = fetch(root, "http://site.test/bomb", format="raw", max_bytes=1_000_000)
        true(ok, text[:500])
        contains(text, "1000000 bytes; more was left out")


def refusals(root, canary):
    before = canary.n_hits
    port = canary.port
    for url, part in [
        (f"http://127.0.0.1:{port}/", "is not public: it leads to this host"),
        (f"http://{HERE}:{port}/", "is not public: it leads to this host"),
        (f"http://localhost:{port}/", "is not public"), (f"http://0.0.0.0:{port}/", "is not public"),
        (f"http://[::ffff:127.0.0.1]:{port}/", "is not public"), (f"http://0x7f000001:{port}/", "is not public"),
        (f"http://inside.test:{port}/", "is not public"), (f"http://both.test:{port}/", "is not public"),
        (f"http://mapped.test:{port}/", "is not public"), (f"http://host.test:{port}/", "is not public"),
        ("http://metadata.test/latest/meta-data/", "a cloud provider's metadata service"),
        ("http://site.test/to-canary", "is not public"), ("http://site.test/to-inside", "is not public"),
        ("http://site.test/to-host", "is not public"), ("http://site.test/to-file", "only `http` and `https`"),
        ("http://nowhere.test/", "cannot be resolved: the name has no address"),
        ("http://user:pw@site.test/page", "no user name"), ("http://site.test\\@127.0.0.1/", "must not hold"),
        ("http://site.test/\r\nX: y", "must not hold"), ("http://site.test\0/", "must not hold"),
        ("gopher://site.test/", "only `http` and `https`"), ("http://site.test:99999/", "invalid port"),
    ]:
        with check(f"refused: {url!r}"):
            ok, text = fetch(root, url)
            true(not ok, text)
            contains(text, part)
    with check("a name that changes its meaning never leads inside"):
        for _ in range(12):
            fetch(root, f"http://rebinds.test:{port}/")
        said = [fetch(root, "http://rebinds.test/page") for _ in range(6)]
        true(any(ok for ok, _ in said) and not all(ok for ok, _ in said), f"{said}")
    with check("the canary was not hit"):
        equal(canary.n_hits - before, 0, "hits of the canary")
    with check("an exception is for one host and one port"):
        allowed = "--set", f'tools.web_fetch.allow_hosts=["127.0.0.1:{port}"]'
        ok, text = fetch(root, f"http://127.0.0.1:{port}/", *allowed)
        true(ok and "canary" in text, text)
        ok, text = fetch(root, f"http://localhost:{port}/", *allowed)
        true(not ok, text)
        ok, text = fetch(root, "http://site.test/to-canary", *allowed)
        true(ok and "canary" in text, text)


def settings(root):
    for key, value, path, part in [
        ("timeout_s", 1, "/slow", "was not there within 1 s"), ("idle_timeout_s", 1, "/slow", "sent nothing for 1 s"),
        ("max_redirects", 0, "/to-page", "redirects more than 0 times"),
    ]:
        with check(f"the setting {key}"):
            ok, text = fetch(root, f"http://site.test{path}")
            true(ok, text)
            ok, text = fetch(root, f"http://site.test{path}", "--set", f"tools.web_fetch.{key}={value}")
            true(not ok, text)
            contains(text, part)
    for seconds, same in ("60", True), ("0", False):
        with check(f"an answer is reused for {seconds} s"):
            with wire.Server(root, "--set", f"tools.web_fetch.cache_s={seconds}", approvals="deny") as one:
                one.shake()
                said = [checks.text(one.call("WebFetch", {"url": "http://site.test/count", "format": "raw"})) for _ in range(2)]
            counts = [text.split("\ncount ")[1].split()[0] for text in said]
            equal(counts[0] == counts[1], same, said)


def rules(root):
    def server(*options, approvals="deny"):
        return wire.Server(root, *options, approvals=approvals)

    def said(server, url, **more):
        result = server.call("WebFetch", {"url": url, **more})
        return result.get("isError", False), checks.text(result)

    with check("once a page was read, other hosts ask"), server() as one:
        one.shake()
        for url, refused in [
            ("http://site.test/page", False), ("http://site.test/echo", False), ("http://other.test/page", True),
            ("http://site.test:80/page", False),
        ]:
            is_error, text = said(one, url)
            equal(is_error, refused, f"{url}: {text}")
            if refused:
                contains(text, "which may have named other.test")
    with check("then a redirect to another host is refused, with the address there"), server() as one:
        one.shake()
        equal(said(one, "http://site.test/page")[0], False)
        is_error, text = said(one, "http://site.test/to-other")
        true(is_error, text)
        contains(text, "redirects to other.test:80, which asks first", "http://other.test/page")
        equal(said(one, "http://other.test/page")[0], True)
    with check("the profile full asks for no host"), server("--set", 'profile="full"') as one:
        one.shake()
        for url in "http://site.test/page", "http://other.test/page":
            equal(said(one, url)[0], False)
    with check("what a redirect led to is known"), server() as one:
        one.shake()
        equal(said(one, "http://site.test/to-other")[0], False)
        equal(said(one, "http://other.test/page")[0], False)
    allow = checks.write(root.parent / "allow.toml", "[[rules]]\nverdict = 'allow'\nhosts = ['*.test:80']\n")
    deny = checks.write(root.parent / "deny.toml", "[[rules]]\nverdict = 'deny'\nhosts = ['other.test']\n")
    with check("the first page may redirect to one host after the other"), server() as one:
        one.shake()
        is_error, text = said(one, "http://site.test/to-two")
        equal(is_error, False, text)
        equal(said(one, "http://other.test/page")[0], True)
    with check("a rule allows hosts beforehand"), server("--config", str(allow)) as one:
        one.shake()
        for url in "http://site.test/page", "http://other.test/page":
            equal(said(one, url)[0], False)
    with check("a rule denies a host, also behind a redirect"), server("--config", str(deny)) as one:
        one.shake()
        for url in "http://other.test/page", "http://site.test/to-other":
            is_error, text = said(one, url)
            true(is_error, text)
            contains(text, "other.test")
    with check("an answer for the session counts for redirects as well"):
        answers_for_session(root)
    with check("a method that may change something asks"), server() as one:
        one.shake()
        is_error, text = said(one, "http://site.test/page", method="POST", body="x")
        true(is_error, text)
    with check("the profile read-only fetches nothing"), server("--set", 'profile="read-only"') as one:
        one.shake()
        true(said(one, "http://site.test/page")[0], "it was fetched")
    with check("a yes sends what may change something"):
        _, result = checks.call(root, "WebFetch", {"url": "http://site.test/page", "method": "POST", "body": "x"})
        contains(checks.text(result), "posted x")
    with check("a page that was just read is not fetched again"), server(approvals="allow") as one:
        one.shake()
        said(one, "http://site.test/page")
        begun = time.monotonic()
        for _ in range(50):
            said(one, "http://site.test/page")
        each = (time.monotonic() - begun) / 50
        print(f"     a cached page: {each * 1000:.2f} ms a call")
        true(each < 0.02, f"a call took {each * 1000:.1f} ms")
        contains(said(one, "http://site.test/page")[1], "s ago, from the cache")


def answers_for_session(root):
    """A host that was allowed for the session, and never answered: only the answer lets a redirect lead there."""
    piped = subprocess.Popen(
        [checks.binary(), "--root", root, "--approvals", "ask", "pipe"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )

    def said(id, url, answer=None):
        piped.stdin.write(json.dumps({"type": "call", "id": id, "name": "WebFetch", "arguments": {"url": url}}) + "\n")
        piped.stdin.flush()
        while (line := json.loads(piped.stdout.readline()))["type"] != "reply":
            if line["type"] == "question":
                piped.stdin.write(json.dumps({"type": "answer", "question": line["question"], **answer}) + "\n")
                piped.stdin.flush()
        return line["ok"], checks.text(line)

    with piped:
        equal(said(1, "http://site.test/page")[0], True)
        ok, text = said(2, "http://site.test/to-other")
        true(not ok, text)
        contains(text, "which asks first")
        ok, text = said(3, "http://other.test/odd", {"answer": "session"})
        true(not ok, text)
        contains(text, "compresses its answer as `odd`")
        ok, text = said(4, "http://other.test/to-port")
        true(ok, text)
        ok, text = said(5, "http://site.test/to-other")
        true(ok, text)
        piped.stdin.close()
        equal(piped.wait(timeout=10), 0)


def dialects(root):
    with check("agentos: text of a page"):
        _, result = checks.call(root, "tool::web_fetch", {"url": "http://site.test/page"}, dialect="agentos")
        page = json.loads(checks.text(result))
        equal([page["status"], page["contentType"], page["truncated"]], [200, "text/html; charset=utf-8", False])
        contains(page["content"], "Heading", "bold")
    with check("clawft: a page as it is"):
        _, result = checks.call(root, "web_fetch", {"url": "http://site.test/to-page"}, dialect="clawft")
        page = json.loads(checks.text(result))
        equal([page["status"], page["body"], page["bytes"], page["url"]], [200, PAGE.decode(), len(PAGE), "http://site.test/page"])


KEYS = {"TAVILY_API_KEY": providers.TAVILY_KEY, "BRAVE_API_KEY": providers.BRAVE_KEY}


@contextlib.contextmanager
def variables(**values):
    """Sets variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def search(root, query, *options, tool="WebSearch", dialect="native", **more):
    _, result = checks.call(root, tool, {"query": query, **more}, *options, dialect=dialect, approvals="deny")
    return result["ok"], checks.text(result)


def searches(root, directory, canary):
    with variables(SSL_CERT_FILE=str(directory / "trusted.pem")):
        answers(root)
        failures(root, canary)
        found_pages(root)
        searching_dialects(root)
    with check("a provider that does not prove its name is not asked"), variables(**KEYS):
        ok, text = search(root, "two words")
        true(not ok, text)
        contains(text, "api.tavily.com:443 cannot be reached")


def answers(root):
    for provider, shown in [
        ("tavily", "count 3 hidden"), ("brave", "bold & more"), ("duckduckgo", "Found two & words"),
    ]:
        with check(f"a search: {provider}"), variables(**KEYS):
            ok, text = search(root, "two & words", provider=provider, max_results=3)
            true(ok, text)
            contains(text, f"{provider} found 1 result\n", "1. Found two & words\n", providers.FOUND, shown)
    for first, keys in [("tavily", KEYS), ("brave", {"BRAVE_API_KEY": providers.BRAVE_KEY}), ("duckduckgo", {})]:
        with check(f"a search without a name, with the keys {list(keys)}"), variables(**keys):
            contains(search(root, "x")[1], f"{first} found 1 result")
    with check("a search that finds nothing"), variables(**KEYS):
        for provider in "tavily", "brave", "duckduckgo":
            contains(search(root, "nothing", provider=provider)[1], f"{provider} found nothing")


def failures(root, canary):
    before = canary.n_hits
    wrong = {"TAVILY_API_KEY": "tvly-wrong", "BRAVE_API_KEY": "wrong"}
    for query, told in [
        ("busy", "takes no more searches now: status 429"), ("html", "is not JSON"), ("broken", "answers with status 500"),
        ("away", "redirects to 127.0.0.1"), ("slow", "did not answer within 2 s"),
    ]:
        with check(f"a search that fails: {query}"), variables(**KEYS):
            for provider in "tavily", "brave", "duckduckgo":
                ok, text = search(root, query, "--set", "tools.web_search.timeout_s=2", provider=provider)
                true(not ok, text)
                contains(text, told)
    with check("a search with a wrong key"), variables(**wrong):
        for provider, name in ("tavily", "TAVILY_API_KEY"), ("brave", "BRAVE_API_KEY"):
            contains(search(root, "x", provider=provider)[1], f"{provider} refuses the search with status 401", name)
    with check("a search without the key of its provider"):
        contains(search(root, "x", provider="brave")[1], "brave cannot be asked: `BRAVE_API_KEY` is not set")
    with check("the canary was not hit by searches"):
        equal(canary.n_hits - before, 0, "hits of the canary")
    with check("no record has a key"), variables(**KEYS):
        for provider in "tavily", "brave":
            search(root, "x", provider=provider)
            search(root, KEYS[f"{provider.upper()}_API_KEY"], provider=provider)
        state = Path(os.environ["XDG_STATE_HOME"]) / "sinew"
        files = [path for path in state.rglob("*") if path.is_file()]
        true(any(b"WebSearch" in path.read_bytes() for path in files), "no record has a search")
        for path in files:
            for key in KEYS.values():
                true(key.encode() not in path.read_bytes(), f"{path} has a key")
    deny = checks.write(root.parent / "no-brave.toml", "[[rules]]\nverdict = 'deny'\nhosts = ['*.brave.com']\n")
    with check("a rule denies the host of a provider"), variables(**KEYS):
        ok, text = search(root, "x", "--config", str(deny), provider="brave")
        true(not ok and "the rule `*.brave.com`" in text, text)


def found_pages(root):
    with check("a page that a search found is fetched, and no other of its host"), wire.Server(root, approvals="deny") as one:
        one.shake()
        equal(one.call("WebSearch", {"query": "x"}).get("isError", False), False)
        for url, refused in [
            ("http://other.test/page?found=2", True), ("http://other.test/", True), (providers.FOUND, False),
            ("http://site.test/page", True), ("http://other.test/page?found=1&x=secret", True),
        ]:
            result = one.call("WebFetch", {"url": url})
            equal(result.get("isError", False), refused, f"{url}: {checks.text(result)}")
    with check("a found page is fetched without headers alone"), wire.Server(root, approvals="deny") as one:
        one.shake()
        one.call("WebSearch", {"query": "x"})
        result = one.call("WebFetch", {"url": providers.FOUND, "headers": {"X-Told": "secret"}})
        true(result.get("isError", False), checks.text(result))
    with check("a search that finds nothing makes nothing ask"), wire.Server(root, approvals="deny") as one:
        one.shake()
        one.call("WebSearch", {"query": "nothing"})
        result = one.call("WebFetch", {"url": "http://site.test/page"})
        true(not result.get("isError", False), checks.text(result))
    with check("control: without a search each of them is fetched"):
        for url in "http://other.test/page?found=2", "http://other.test/", "http://site.test/page":
            true(fetch(root, url)[0], url)
    with check("a search after a page does not ask"), wire.Server(root, approvals="deny") as one:
        one.shake()
        equal(one.call("WebFetch", {"url": "http://site.test/page"}).get("isError", False), False)
        equal(one.call("WebSearch", {"query": "x"}).get("isError", False), False)


def searching_dialects(root):
    with check("agentos: DuckDuckGo answers for a provider without its key"):
        ok, text = search(root, "x", tool="tool::web_search", dialect="agentos", provider="tavily", maxResults=1)
        equal([ok, json.loads(text)], [True, {"provider": "duckduckgo", "results": [{"title": "Found x", "url": providers.FOUND, "content": "Found x"}]}])
    endpoint = ["--set", "tools.web_search.endpoint=http://site.test:81/api"]
    with check("clawft: the endpoint is asked"), variables(**KEYS):
        ok, text = search(root, "x", *endpoint, tool="web_search", dialect="clawft", num_results=2)
        equal([ok, json.loads(text)["query"], json.loads(text)["results"]["of"]], [True, "x", "endpoint"])
    with check("clawft: without an endpoint nobody is asked"), variables(**KEYS):
        ok, text = search(root, "x", tool="web_search", dialect="clawft")
        equal([ok, json.loads(text)["error"]], [True, "web search not configured"])


def unconfirmed_variables(root, proxy, asked):
    """A repository can set them beside the server that it names, so the user's own configuration does not suffice."""
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "sinew/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    was = config.read_text() if config.exists() else None
    config.write_text("[tools.web_fetch]\nproxy = 'environment'\n")
    try:
        with variables(HTTP_PROXY=proxy.address), wire.Server(root, approvals="trust-client") as one:
            one.shake()
            result = one.call("WebFetch", {"url": "http://site.test/page"})
            true(result.get("isError"), result)
            contains(checks.text(result), "the proxies that variables name are not confirmed")
        equal(asked(), [])
        with variables(HTTP_PROXY=proxy.address):
            line = "--root", os.fspath(root), "--tools", "all", "--approvals", "trust-client", "mcp"
            subprocess.run([checks.binary(), "trust", "--yes", "--arguments", "--", *line], cwd=root, check=True, capture_output=True)
            with wire.Server(root, approvals="trust-client") as one:
                one.shake()
                result = one.call("WebFetch", {"url": "http://site.test/page"})
                true(not result.get("isError"), result)
        equal(asked(), ["http://site.test/page"])
        with wire.Server(root, approvals="trust-client") as one:
            one.shake()
            result = one.call("WebFetch", {"url": "http://site.test/page"})
            true(not result.get("isError"), result)
    finally:
        config.unlink() if was is None else config.write_text(was)


def proxies(root, directory, canary):
    proxy = ForwardProxy()
    through = "--set", f"tools.web_fetch.proxy={proxy.address}"
    of_environment = "--set", "tools.web_fetch.proxy=environment"

    def asked():
        before, proxy.asked = proxy.asked, []
        return before

    with check("control: the proxy leads a client to the canary"):
        before = canary.n_hits
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy.address}))
        equal(opener.open(f"http://inside.test:{canary.port}/", timeout=10).read(), b"canary")
        equal([canary.n_hits - before, asked()], [1, [f"http://inside.test:{canary.port}/"]])
    before = canary.n_hits
    with check("a page is fetched through a proxy"):
        ok, text = fetch(root, "http://site.test/page", *through)
        true(ok and "Heading" in text, text)
        equal(asked(), ["http://site.test/page"])
    with check("a search goes through a proxy, in a tunnel"), variables(SSL_CERT_FILE=str(directory / "trusted.pem"), **KEYS):
        ok, text = search(root, "two words", *through, provider="tavily")
        true(ok, text)
        equal(asked(), ["api.tavily.com:443"])
    for url, part in [
        (f"http://127.0.0.1:{canary.port}/", "is not public: it leads to this host"),
        (f"http://inside.test:{canary.port}/", "is not public"), (f"http://both.test:{canary.port}/", "is not public"),
        ("http://metadata.test/", "a cloud provider's metadata service"), ("http://nowhere.test/", "cannot be resolved"),
    ]:
        with check(f"a proxy is not asked for {url!r}"):
            ok, text = fetch(root, url, *through)
            true(not ok, text)
            contains(text, part)
            equal(asked(), [])
    with check("a redirect inside is refused behind a proxy"):
        ok, text = fetch(root, "http://site.test/to-inside", *through)
        true(not ok and "is not public" in text, text)
        equal(asked(), ["http://site.test/to-inside"])
    with check("an exception is reached without the proxy"):
        allowed = "--set", f'tools.web_fetch.allow_hosts=["other.test:80"]'
        ok, text = fetch(root, "http://other.test/page", *through, *allowed)
        true(ok, text)
        equal(asked(), [])
    with check("variables name the proxy where the configuration says so"), variables(HTTP_PROXY=proxy.address, NO_PROXY="other.test"):
        for url, options, expected in [
            ("http://site.test/page", of_environment, ["http://site.test/page"]), ("http://other.test/page", of_environment, []),
            ("http://site.test/page", (), []),
        ]:
            ok, text = fetch(root, url, *options)
            true(ok, text)
            equal(asked(), expected, url)
    with check("a name and a password go to the proxy alone"):
        secret = proxy.address.replace("//", "//ada:secret@")
        with variables(HTTP_PROXY=secret, NO_PROXY="other.test"):
            ok, text = fetch(root, "http://site.test/echo", *of_environment)
            true(ok and "authorization" not in text.lower(), text)
            equal([asked(), proxy.authorized], [["http://site.test/echo"], "Basic YWRhOnNlY3JldA=="])
            ok, text = fetch(root, "http://other.test/echo", *of_environment)
            true(ok and "authorization" not in text.lower(), text)
        with variables(HTTP_PROXY="http://ada:secret@127.0.0.1:9"):
            ok, text = fetch(root, "http://site.test/page", *of_environment)
            true(not ok and "127.0.0.1:9" in text and "secret" not in text, text)
    with check("a host without a proxy is judged"), variables(HTTP_PROXY=proxy.address, NO_PROXY="inside.test"):
        ok, text = fetch(root, f"http://inside.test:{canary.port}/", *of_environment)
        true(not ok and "is not public" in text, text)
        equal(asked(), [])
    with check("what is no host is no proxy, and nothing is fetched without one"), variables(HTTP_PROXY="http://${PROXY}:3128"):
        done = subprocess.run([checks.binary(), "--root", root, *of_environment, "call", "List"], capture_output=True, text=True)
        contains(done.stderr, "`HTTP_PROXY` names no proxy that can be used")
    with check("the variables of a client's server count once they are confirmed"):
        unconfirmed_variables(root, proxy, asked)
    with check("a variable that names no proxy is an error"), variables(HTTPS_PROXY="socks5://127.0.0.1:1"):
        done = subprocess.run([checks.binary(), "--root", root, *of_environment, "call", "List"], capture_output=True, text=True)
        true(done.returncode, done.stdout)
        contains(done.stderr, "`HTTPS_PROXY` names no proxy that can be used")
    alone = *through, "--set", "tools.web_fetch.proxy_resolves=true"
    with check("a proxy alone resolves names where the configuration says so"):
        ok, text = fetch(root, "http://nowhere.test/", *alone)
        contains(text, "502")
        equal(asked(), ["http://nowhere.test/"])
    for name in "localhost", "printer", "printer.local", "metadata.google.internal":
        with check(f"a proxy is not asked for the local name {name}"):
            ok, text = fetch(root, f"http://{name}:{canary.port}/", *alone)
            true(not ok, text)
            contains(text, "a name of a local network")
            equal(asked(), [])
    with check("a proxy that is not there is named"):
        ok, text = fetch(root, "http://site.test/page", "--set", "tools.web_fetch.proxy=http://127.0.0.1:9")
        true(not ok, text)
        contains(text, "site.test:80 cannot be reached through the proxy 127.0.0.1:9")
    with check("the canary was not hit through a proxy"):
        equal(canary.n_hits - before, 0, "hits of the canary")


def body(directory):
    root = directory / "root"
    root.mkdir()
    canary = Canary()
    with public_hosts(directory, canary):
        controls(canary)
        pages(root)
        entities(root)
        hostile_pages(root)
        refusals(root, canary)
        settings(root)
        rules(root)
        dialects(root)
        searches(root, directory, canary)
        proxies(root, directory, canary)


if sys.argv[1:2] == ["world"]:
    world()
else:
    checks.loopback_only()
    checks.run(body)
