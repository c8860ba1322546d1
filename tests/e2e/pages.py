"""Pages of documentation as WebFetch shows them: 52 pages by thirteen generators, out of Debian packages.

Other people's pages are not part of this repository. What is kept of each is a row of `pages.tsv`: what its Markdown
holds, and a hash of it. A page whose Markdown changed fails; `UPDATE_GOLDEN=1` writes the rows anew. The Markdown itself
is in `.bench/e2e/pages/shown`, to be looked at.

Ten pages are also converted by trafilatura and html2text: tokens, and what of the page each keeps.

`cargo xtask nightly pages` runs it: the packages are downloaded, not installed.
"""

import hashlib
import html.parser
import http.server
import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import checks
import wire
from checks import Skip, check, equal, true

# Read before the suite names its own home.
IS_WANTED = os.environ.get("SINEW_PAGES") == "1"
PACKAGES = {
    "apache2-doc": "2.4.71-1~deb12u1", "cmake-doc": "3.25.1-1", "git-doc": "1:2.39.5-0+deb12u3",
    "junit4-doc": "4.13.2-3", "libglib2.0-doc": "2.74.6-2+deb12u9", "libxml2-doc": "2.9.14+dfsg-1.3~deb12u6",
    "nodejs-doc": "18.20.4+dfsg-1~deb12u3", "postgresql-doc-15": "15.20-0+deb12u1",
    "python-django-doc": "3:3.2.25-0+deb12u7", "python3.11-doc": "3.11.2-6+deb12u9", "rust-doc": "1.63.0+dfsg1-2",
    "sphinx-doc": "5.3.0-4", "sqlite3-doc": "3.40.1-2+deb12u2", "debian-policy": "4.6.2.0",
}
PAGES = """
apache2-doc/manual/en/mod/mod_alias.html
apache2-doc/manual/de/mod/mod_include.html
apache2-doc/manual/ja/mod/mod_md.html
apache2-doc/manual/zh-cn/caching.html
cmake-data/html/command/build_command.html
cmake-data/html/guide/tutorial/Adding%20a%20Custom%20Command%20and%20Generated%20File.html
cmake-data/html/manual/cmake-buildsystem.7.html
cmake-data/html/module/GoogleTest.html
debian-policy/README.html
debian-policy/policy.html/ch-source.html
git-doc/git-for-each-ref.html
git-doc/gitcore-tutorial.html
git-doc/howto/revert-branch-rebase.html
git-doc/technical/api-trace2.html
junit4/api/junit/framework/TestResult.html
junit4/api/org/junit/runner/Runner.html
junit4/api/src-html/org/junit/rules/Timeout.Builder.html
junit4/epl-v10.html
libglib2.0-doc/gio/GDtlsConnection.html
libglib2.0-doc/glib/glib-Bookmark-file-parser.html
libglib2.0-doc/glib/glib-building.html
libglib2.0-doc/gobject/glib-genmarshal.html
libxml2/html/html/libxml-xmlIO.html
libxml2/html/tree.html
libxml2/html/xmlreader.html
nodejs/api/async_hooks.html
nodejs/api/tls.html
nodejs/api/fs.html
postgresql-doc-15/html/pgtrgm.html
postgresql-doc-15/html/protocol-flow.html
postgresql-doc-15/html/rowtypes.html
postgresql-doc-15/html/storage-page-layout.html
python-django-doc/html/_modules/django/utils/text.html
python-django-doc/html/index.html
python-django-doc/html/ref/templates/api.html
python-django-doc/html/topics/logging.html
python3.11/html/c-api/sys.html
python3.11/html/library/datatypes.html
python3.11/html/library/exceptions.html
python3.11/html/library/http.html
rust-doc/html/book/ch04-01-what-is-ownership.html
rust-doc/html/reference/expressions/match-expr.html
rust-doc/html/src/core/mem/maybe_uninit.rs.html
rust-doc/html/std/vec/struct.Vec.html
sphinx-doc/html/_modules/sphinx/events.html
sphinx-doc/html/faq.html
sphinx-doc/html/tutorial/describing-code.html
sphinx-doc/html/usage/quickstart.html
sqlite3/c3ref/wal_checkpoint_v2.html
sqlite3/nulls.html
sqlite3/syntax/table-or-subquery.html
sqlite3/vtab.html
""".split()
COMPARED = [
    "apache2-doc/manual/en/mod/mod_alias.html", "cmake-data/html/module/GoogleTest.html",
    "git-doc/git-for-each-ref.html", "junit4/api/junit/framework/TestResult.html", "nodejs/api/async_hooks.html",
    "postgresql-doc-15/html/storage-page-layout.html", "python3.11/html/library/http.html",
    "rust-doc/html/book/ch04-01-what-is-ownership.html", "sphinx-doc/html/faq.html", "sqlite3/nulls.html",
]
SNAPSHOT = Path(__file__).parent / "pages.tsv"
COLUMNS = ["page", "html", "markdown", "headings", "links", "code", "items", "rows", "article", "hash"]
WHEELS = ["trafilatura==2.0.0", "lxml-html-clean==0.4.6", "html2text==2025.4.15"]
# o200k_base, the vocabulary of current models, has 4.2 bytes of such text in a token.
TOKEN = 4.2
MAX_TIME, MAX_MEMORY = 2.0, 256 << 20
SILENT = {"script", "style", "template", "noscript"}


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def unpacked(tools):
    """Downloads and unpacks the packages; returns where their documentation is."""
    place = tools / "unpacked"
    for package, version in PACKAGES.items():
        done = tools / "done" / f"{package}_{version.replace(':', '%3a')}"
        if done.exists():
            continue
        done.parent.mkdir(parents=True, exist_ok=True)
        got = subprocess.run(["apt-get", "download", "-q", f"{package}={version}"], cwd=tools, capture_output=True, text=True)
        files = list(tools.glob(f"{package}_*.deb"))
        if got.returncode or not files:
            print(f"     {package} {version} cannot be had: {got.stderr.strip().splitlines()[-1:]}")
            continue
        subprocess.run(["dpkg-deb", "-x", files[0], place], check=True)
        files[0].unlink()
        done.write_text("")
    return place / "usr/share/doc"


def text_of(reply, root):
    """Returns the whole text of a page, out of a reply or of the file that has it."""
    text = checks.text(reply)
    stored = re.search(r"\[cut after \d+ of \d+ bytes; the full text is in ([^\]]+)\]", text)
    if stored:
        return (root / stored.group(1)).read_text()
    boundary = re.search(r"between the lines (\w+) is the page", text).group(1)
    return text.split(f"\n{boundary}\n")[1]


def counted(markdown):
    """Returns how many headings, links, blocks of code, items of lists and rows of tables a text has."""
    prose, n_code, fence = [], 0, None
    for line in markdown.splitlines():
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence is None and mark:
            fence, n_code = mark.group(1), n_code + 1
        elif fence is not None:
            fence = None if line.strip() == fence else fence
        else:
            prose.append(line)
    text = "\n".join(prose)
    return {
        "headings": len(re.findall(r"(?m)^\s*#{1,6} ", text)), "links": len(re.findall(r"\]\(", text)), "code": n_code,
        "items": len(re.findall(r"(?m)^\s*(?:[-*+]|\d+\.) ", text)), "rows": len(re.findall(r"(?m)^\s*\|", text)),
    }


class Parts(html.parser.HTMLParser):
    """What a page holds: its words, and those of headings, of code and of cells; and the targets of its links."""

    def __init__(self, source):
        super().__init__()
        self.open, self.links = [], []
        self.words = {part: Counter() for part in ("text", "headings", "code", "cells")}
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        if tag not in {"br", "img", "hr", "meta", "link", "input", "area", "base", "col", "embed", "source", "track", "wbr"}:
            self.open.append(tag)
        href = dict(attributes).get("href")
        if tag == "a" and href and not href.startswith(("#", "javascript:")):
            self.links.append(href)

    def handle_endtag(self, tag):
        if tag in self.open:
            del self.open[len(self.open) - 1 - self.open[::-1].index(tag):]

    def handle_data(self, data):
        if SILENT & set(self.open) or "body" not in self.open:
            return
        found = words(data)
        self.words["text"].update(found)
        for part, tags in ("headings", {"h1", "h2", "h3", "h4"}), ("code", {"pre"}), ("cells", {"td", "th"}):
            if tags & set(self.open):
                self.words[part].update(found)


def words(text):
    return re.findall(r"\w+", text)


def kept(parts, text):
    """Returns which share of each part of a page a text has, in per cent; nothing for parts without words."""
    there = Counter(words(text))
    shares = {}
    for part, wanted in parts.words.items():
        total = wanted.total()
        shares[part] = round(100 * (wanted & there).total() / total) if total else None
    ends = {link.split("#")[0].rstrip("/").split("/")[-1] for link in parts.links} - {""}
    found = sum(end in text for end in ends)
    shares["links"] = round(100 * found / len(ends)) if ends else None
    return shares


def compared(docs, markdown, article):
    """Prints tokens and shares of the parts of ten pages, as sinew and two others convert them."""
    import html2text
    import trafilatura

    def by_html2text(source):
        converter = html2text.HTML2Text()
        converter.body_width = 0
        return converter.handle(source)

    def by_trafilatura(source):
        options = {"output_format": "markdown", "include_links": True, "include_tables": True, "include_formatting": True}
        return trafilatura.extract(source, **options) or ""

    parts_named = ["text", "headings", "code", "cells", "links"]
    print(f"     {'page':<52} {'by':<12} {'tokens':>7} " + " ".join(f"{part:>8}" for part in parts_named))
    totals = {}
    for page in COMPARED:
        if page not in markdown:
            continue
        source = (docs / page).read_text(errors="replace")
        parts = Parts(source)
        for name, text in [
            ("sinew", markdown[page]), ("html2text", by_html2text(source)), ("article", article[page]),
            ("trafilatura", by_trafilatura(source)),
        ]:
            shares = kept(parts, text)
            tokens = round(len(text.encode()) / TOKEN)
            totals.setdefault(name, []).append((tokens, shares))
            shown = " ".join(f"{'-' if shares[part] is None else str(shares[part]) + ' %':>8}" for part in parts_named)
            print(f"     {page:<52} {name:<12} {tokens:>7} {shown}")
    for name, rows in totals.items():
        means = [[shares[part] for _, shares in rows if shares[part] is not None] for part in parts_named]
        shown = " ".join(f"{round(sum(values) / max(1, len(values))):>6} %" for values in means)
        print(f"     {'all of them':<52} {name:<12} {sum(tokens for tokens, _ in rows):>7} {shown}")
    return {name: sum(tokens for tokens, _ in rows) for name, rows in totals.items()}


def hostile(server, root, base, docs):
    """Pages that are deep or malformed: in time, and in the memory of the process that converts them."""
    made = {
        "deep.html": "<p>top" + "<div>" * 20_000 + "bottom" + "</div>" * 20_000,
        "malformed.html": "<p>top" + "<table><tr><td <b><i><p>cell </td>< <a href=x" * 210_000 + "<p>bottom",
        "unclosed.html": "<p>top" + "<b><i><a href=x><font>" * 100_000 + "bottom",
        "attributes.html": "<p>top<p " + " ".join(f"a{n}=1" for n in range(500_000)) + ">bottom",
        "large.html": "<p>top" + "<p>word <b>bold</b> <a href=x>link</a>\n" * 250_000 + "<p>bottom",
    }
    (docs / "made").mkdir(exist_ok=True)
    for name, text in made.items():
        (docs / "made" / name).write_text(text[: 10 << 20])
        with check(f"hostile: {name}, {min(len(text), 10 << 20)} bytes: within {MAX_TIME} s"):
            for format in "markdown", "article", "text":
                begun = time.monotonic()
                reply = server.call("WebFetch", {"url": f"{base}/made/{name}", "format": format})
                took = time.monotonic() - begun
                print(f"     {name} as {format}: {took:.2f} s")
                checks.contains(checks.text(reply), "top")
                true(took <= MAX_TIME, f"{format} took {took:.2f} s")


def body(directory):
    tools = Path(os.environ["SINEW_E2E"]) / "pages"
    tools.mkdir(exist_ok=True)
    if not IS_WANTED:
        raise Skip("`cargo xtask nightly pages` downloads the pages")
    docs = unpacked(tools)
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--upgrade", "--target", tools / "wheels", *WHEELS], check=True)
    sys.path.append(str(tools / "wheels"))
    os.chdir(docs)
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    host = f"127.0.0.1:{site.server_address[1]}"
    root = directory / "root"
    root.mkdir()
    before = dict(row.split("\t", 1) for row in SNAPSHOT.read_text().splitlines()) if SNAPSHOT.exists() else {}
    rows, markdown, article = [], {}, {}
    shown = tools / "shown"
    shown.mkdir(exist_ok=True)
    with wire.Server(root, "--set", f'tools.web_fetch.allow_hosts=["{host}"]') as server:
        server.shake()
        for page in PAGES:
            with check(f"a page: {page}"):
                file = docs / page.replace("%20", " ")
                if not file.exists():
                    raise Skip("its package cannot be had in that version")
                texts = {}
                for format in "markdown", "article":
                    begun = time.monotonic()
                    reply = server.call("WebFetch", {"url": f"http://{host}/{page}", "format": format})
                    took = time.monotonic() - begun
                    texts[format] = text_of(reply, root).replace(host, "site.test")
                    true(took <= MAX_TIME, f"it took {took:.2f} s as {format}")
                    true("its form was lost" not in checks.text(reply), "its form was lost")
                markdown[page], article[page] = texts["markdown"], texts["article"]
                name = page.replace("/", "_").removesuffix(".html")
                for format, text in texts.items():
                    (shown / f"{name}.{format}.md").write_text(text)
                both = "\0".join(texts.values()).encode()
                row = [
                    page, file.stat().st_size, len(texts["markdown"].encode()), *counted(texts["markdown"]).values(),
                    len(texts["article"].encode()), hashlib.sha256(both).hexdigest()[:16],
                ]
                rows.append("\t".join(map(str, row)))
                if not os.environ.get("UPDATE_GOLDEN"):
                    equal(rows[-1].split("\t", 1)[1], before.get(page), f"columns {COLUMNS[1:]}")
        hostile(server, root, f"http://{host}", docs)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    with check(f"no process had more than {MAX_MEMORY >> 20} MiB"):
        print(f"     the largest process had {peak >> 20} MiB")
        true(peak <= MAX_MEMORY, f"{peak >> 20} MiB")
    if os.environ.get("UPDATE_GOLDEN"):
        SNAPSHOT.write_text("\n".join(["\t".join(COLUMNS), *rows]) + "\n")
    with check("ten pages: at most a tenth more tokens than html2text, whose links are relative, and fewer of the article"):
        tokens = compared(docs, markdown, article)
        true(tokens["sinew"] <= 1.1 * tokens["html2text"], tokens)
        true(tokens["article"] < tokens["sinew"], tokens)


if __name__ == "__main__":
    checks.run(body)
