"""Pages fetched from servers that people use: httpbin, and nginx with settings that no page should have.

`cargo xtask nightly servers` runs it: httpbin is installed from its registry below `.bench`, nginx is a Debian package that
is unpacked there, not installed.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import checks
import wire
from checks import Skip, check, contains, equal, true

# Read before the suite names its own home.
IS_WANTED = os.environ.get("SINEW_SERVERS") == "1"
HTTPBIN = ["httpbin==0.10.2", "setuptools==80.9.0"]
IDLE, ALL = 2, 4


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port}")


@contextlib.contextmanager
def httpbin(tools):
    wheels = tools / "httpbin"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--upgrade", "--target", wheels, *HTTPBIN], check=True)
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", "httpbin", "run", "--port", str(port)], cwd=tools,
        env={**os.environ, "PYTHONPATH": str(wheels)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


NGINX = """
user root;
daemon off;
worker_processes 1;
pid ROOT/nginx.pid;
error_log ROOT/error.log;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path ROOT/tmp; proxy_temp_path ROOT/tmp; fastcgi_temp_path ROOT/tmp;
    uwsgi_temp_path ROOT/tmp; scgi_temp_path ROOT/tmp;
    types { text/html html; text/plain txt; }
    server {
        listen 127.0.0.1:PORT;
        root ROOT/site;
        location = /closed { return 444; }
        location = /loop { return 302 /loop; }
        location = /there { return 301 /and-back; }
        location = /and-back { return 307 /there; }
        location = /farther { return 302 http://127.0.0.1:9/; }
        location = /inside { return 302 http://169.254.169.254/latest/meta-data/; }
        location = /file { return 302 file:///etc/passwd; }
        location = /nowhere { return 302 http://; }
        location = /slow.txt { limit_rate 1; }
        location = /trickle.txt { limit_rate 2048; }
        location = /empty { return 204; }
        location = /teapot { default_type text/plain; return 418 "short and stout"; }
        location = /odd { default_type text/plain; return 599 "odd"; }
        location = /untyped { types {} default_type ""; alias ROOT/site/page.html; }
        location = /octets { types {} default_type application/octet-stream; alias ROOT/site/page.html; }
        location = /wrong-charset.html { charset koi8-r; source_charset koi8-r; }
        location = /unknown-charset { types {} default_type "text/html; charset=klingon"; alias ROOT/site/page.html; }
        location = /many-headers { HEADERS default_type text/plain; return 200 "many"; }
        location = /zipped.txt { gzip on; gzip_types text/plain; gzip_min_length 1; }
        location = /no-length.txt { gzip on; gzip_types text/plain; }
        location = /lies.txt { add_header content-encoding gzip always; }
        location = /unknown-encoding.txt { add_header content-encoding klingon always; }
        error_page 404 =200 /page.html;
    }
}
"""


@contextlib.contextmanager
def nginx(tools):
    unpacked = tools / "nginx"
    if not (unpacked / "usr/sbin/nginx").exists():
        unpacked.mkdir(exist_ok=True)
        got = subprocess.run(["apt-get", "download", "-q", "nginx"], cwd=unpacked, capture_output=True, text=True)
        files = list(unpacked.glob("nginx_*.deb"))
        if got.returncode or not files:
            raise Skip(f"nginx cannot be had: {got.stderr.strip()}")
        subprocess.run(["dpkg-deb", "-x", files[0], unpacked], check=True)
    work = unpacked / "work"
    (work / "site").mkdir(parents=True, exist_ok=True)
    (work / "tmp").mkdir(exist_ok=True)
    page = "<!doctype html><title>A page</title><h1>Überschrift</h1><p>text"
    (work / "site/page.html").write_text(page)
    (work / "site/wrong-charset.html").write_text(page)
    (work / "site/zipped.txt").write_text("zipped\n" * 100)
    (work / "site/lies.txt").write_text("not compressed")
    (work / "site/unknown-encoding.txt").write_text("text")
    for name, size in ("slow.txt", 1_000), ("trickle.txt", 1_000_000):
        (work / "site" / name).write_text("x" * size)
    # Holes: they take no room.
    for name, size in ("huge.txt", 10 << 30), ("no-length.txt", 10 << 30):
        with open(work / "site" / name, "wb") as file:
            file.truncate(size)
    port = free_port()
    headers = "\n".join(f'add_header X-{n} "{"x" * 4000}";' for n in range(200))
    text = NGINX.replace("ROOT", str(work)).replace("PORT", str(port)).replace("HEADERS", headers)
    checks.write(work / "nginx.conf", text)
    log = open(work / "started.log", "wb")
    server = subprocess.Popen([unpacked / "usr/sbin/nginx", "-p", work, "-c", work / "nginx.conf"], stdout=log, stderr=log)
    try:
        wait_for(port)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def fetched(server, host, path, **more):
    """Returns whether a page was fetched, its text, and how long it took."""
    begun = time.monotonic()
    result = server.call("WebFetch", {"url": f"http://{host}{path}", **more})
    return not result.get("isError", False), checks.text(result), time.monotonic() - begun


def from_httpbin(server, host):
    base = f"http://{host}"
    for path, more, ok, parts in [
        ("/html", {}, True, ["Herman Melville - Moby-Dick", "text/html"]),
        ("/html", {"format": "text"}, True, ["Moby-Dick"]),
        ("/json", {"format": "json"}, True, ['"slideshow"', "application/json"]),
        ("/html", {"format": "json"}, False, ["is `json`, but the page is not JSON"]),
        ("/xml", {}, True, ["<slideshow"]),
        ("/robots.txt", {}, True, ["Disallow"]),
        ("/encoding/utf8", {}, True, ["∮ E⋅da = Q"]),
        ("/gzip", {}, True, ['"gzipped":true']),
        ("/deflate", {}, True, ['"deflated":true']),
        ("/brotli", {}, False, ["`br`"]),
        ("/status/404", {}, True, ["answers 404"]),
        ("/status/500", {}, True, ["answers 500"]),
        ("/status/204", {}, True, ["[no body]"]),
        ("/image/png", {}, True, ["image/png"]),
        ("/image/svg", {}, True, ["<svg"]),
        ("/stream/20", {}, True, ['"id": 19']),
        ("/stream-bytes/5000?chunk_size=7", {}, True, ["5000 bytes", "[stored in .sinew/tool-output/"]),
        ("/drip?duration=1&numbytes=5&code=200", {}, True, ["5 bytes"]),
        ("/redirect/5", {}, True, ["[redirected from"]),
        ("/absolute-redirect/3", {}, True, ["[redirected from"]),
        ("/redirect/11", {}, False, ["redirects more than 10 times"]),
        (f"/redirect-to?url={base}/robots.txt", {}, True, ["Disallow"]),
        ("/redirect-to?url=http://127.0.0.1:9/", {}, False, ["127.0.0.1:9"]),
        ("/redirect-to?url=http://[::ffff:127.0.0.1]:9/", {}, False, ["[::ffff:7f00:1]:9"]),
        ("/redirect-to?url=file:///etc/passwd", {}, False, ["only `http` and `https`"]),
        ("/basic-auth/user/pass", {}, True, ["answers 401"]),
        ("/basic-auth/user/pass", {"headers": {"Authorization": "Basic dXNlcjpwYXNz"}}, True, ["authenticated"]),
        ("/cookies/set/name/value", {}, True, ['{"cookies":{}}']),
        ("/response-headers?X-A=%0d%0aX-B:%20c", {}, True, ["answers"]),
        ("/delay/3", {}, False, [f"sent nothing for {IDLE} s"]),
        ("/post", {"method": "POST", "body": "a=1", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}, True, ['"a":"1"']),
        ("/put", {"method": "PUT", "body": "text"}, True, ['"data":"text"']),
        ("/redirect-to?status_code=307&url=/post", {"method": "POST", "body": "x"}, True, ['"data":"x"']),
        ("/deny", {}, True, ["YOU SHOULDN'T BE HERE"]),
        ("/cache/60", {}, True, ["200"]),
        ("/links/10/0", {}, True, [f"]({base}/links/10/9)"]),
    ]:
        with check(f"httpbin: {path} {more or ''}"):
            went, text, took = fetched(server, host, path, **more)
            equal(went, ok, text)
            contains(text, *parts)
            true(took < ALL + 2, f"it took {took:.1f} s")
    with check("httpbin: what a request says of itself"):
        headers = json.loads(re.search(r"\{.*\}", fetched(server, host, "/headers", format="raw")[1], re.S).group())["headers"]
        equal(sorted(headers), ["Accept", "Accept-Encoding", "Host", "User-Agent"])
        true(headers["User-Agent"].startswith("sinew/"), headers)


def from_nginx(server, host):
    for path, more, ok, parts in [
        ("/page.html", {}, True, ["# Überschrift"]),
        ("/missing", {}, True, ["answers 200", "# Überschrift"]),
        ("/untyped", {}, True, ["# Überschrift"]),
        ("/octets", {}, True, ["# Überschrift"]),
        ("/wrong-charset.html", {}, True, ["text/html"]),
        ("/unknown-charset", {}, True, ["# Überschrift"]),
        ("/empty", {}, True, ["[no body]"]),
        ("/teapot", {}, True, ["answers 418", "short and stout"]),
        ("/odd", {}, True, ["answers 599"]),
        ("/zipped.txt", {}, True, ["zipped", "700 bytes"]),
        ("/lies.txt", {}, False, ["cannot be read"]),
        ("/unknown-encoding.txt", {}, False, ["`klingon`"]),
        ("/closed", {}, False, ["cannot be read"]),
        ("/loop", {}, False, ["redirects to itself"]),
        ("/there", {}, False, ["redirects to itself"]),
        ("/farther", {}, False, ["127.0.0.1:9"]),
        ("/inside", {}, False, ["169.254.169.254"]),
        ("/file", {}, False, ["only `http` and `https`"]),
        ("/nowhere", {}, False, ["cannot be fetched"]),
        ("/many-headers", {}, False, ["cannot be read"]),
        ("/huge.txt", {}, True, ["10485760 bytes; more was left out"]),
        ("/huge.txt", {"max_bytes": 5}, True, ["5 bytes; more was left out"]),
        ("/no-length.txt", {}, True, ["10485760 bytes; more was left out"]),
        ("/slow.txt", {}, False, [f"sent nothing for {IDLE} s"]),
        ("/trickle.txt", {}, False, [f"within {ALL} s"]),
    ]:
        with check(f"nginx: {path} {more or ''}"):
            went, text, took = fetched(server, host, path, **more)
            equal(went, ok, text)
            contains(text, *parts)
            true(took < ALL + 2, f"it took {took:.1f} s")
    with check("control: a plain client waits for the slow page, and follows the redirect inside"):
        with urllib.request.urlopen(f"http://{host}/slow.txt", timeout=30) as slow:
            begun = time.monotonic()
            slow.read(8)
            true(ALL < time.monotonic() - begun, "the page is not slow")
        try:
            urllib.request.urlopen(f"http://{host}/farther", timeout=30)
            raise AssertionError("it did not follow the redirect")
        except OSError as error:
            contains(str(error), "refused")
    with check("the process is unharmed"):
        contains(fetched(server, host, "/page.html")[1], "# Überschrift")


def body(directory):
    if not IS_WANTED:
        raise Skip("`cargo xtask nightly servers` installs the servers")
    tools = Path(os.environ["SINEW_E2E"]) / "servers"
    tools.mkdir(exist_ok=True)
    root = directory / "root"
    root.mkdir()
    with httpbin(tools) as one, nginx(tools) as two:
        options = ["--set", f'tools.web_fetch.allow_hosts=["{one}", "{two}"]']
        for key, value in ("timeout_s", ALL), ("idle_timeout_s", IDLE), ("cache_s", 0):
            options += ["--set", f"tools.web_fetch.{key}={value}"]
        with wire.Server(root, *options) as server:
            server.shake()
            from_httpbin(server, one)
        with wire.Server(root, *options) as server:
            server.shake()
            from_nginx(server, two)


if __name__ == "__main__":
    checks.run(body)
