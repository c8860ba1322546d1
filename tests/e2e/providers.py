"""Providers of searches, which answer as their pages say: for the suites that search.

A query of one word has its own answer: `busy` too many requests, `html` a page, `broken` an error, `away` a redirect to
the canary, `nothing` no result, `slow` no answer in time. Any other query finds one page.
"""

import http.server
import json
import os
import ssl
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import trustme

HOSTS = ["api.tavily.com", "api.search.brave.com", "api.duckduckgo.com"]
TAVILY_KEY, BRAVE_KEY = "tvly-0123456789abcdef", "BSA0123456789abcdef"
FOUND = "http://other.test/page?found=1"


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers for each provider by the host that was asked."""

    def do_GET(self):
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self.reply(query.get("q", ""))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.reply(body["query"], body["max_results"])

    def reply(self, query, count=None):
        host, path = self.headers["host"].split(":")[0], urlsplit(self.path).path
        keys = {
            "api.tavily.com": ("POST", "/search", "authorization", f"Bearer {TAVILY_KEY}"),
            "api.search.brave.com": ("GET", "/res/v1/web/search", "x-subscription-token", BRAVE_KEY),
        }
        if host in keys:
            method, known, header, key = keys[host]
            if (method, known) != (self.command, path):
                return self.send(404, b"")
            if self.headers[header] != key:
                return self.send(401, b'{"detail": {"error": "Unauthorized: missing or invalid API key."}}')
        match query:
            case "busy":
                return self.send(429, b"{}", {"retry-after": "0"})
            case "html":
                return self.send(200, b"<!doctype html><title>Are you a robot?</title>")
            case "broken":
                return self.send(500, b"")
            case "away":
                return self.send(302, b"", {"location": f"http://127.0.0.1:{os.environ['CANARY']}/"})
            case "slow":
                time.sleep(4)
        row = {"title": f"Found {query}", "url": FOUND, "content": f"count {count} \u200bhid\u202eden"}
        rows = [] if query == "nothing" else [row]
        answers = {
            "api.tavily.com": {"query": query, "results": rows, "response_time": 0.5},
            "api.search.brave.com": {
                "type": "search",
                "web": {"results": [{**row, "description": "<strong>bold</strong> &amp; more"} for row in rows]},
            },
            "api.duckduckgo.com": {
                "AbstractText": "", "AbstractURL": "", "Heading": "", "Results": [],
                "RelatedTopics": [{"Name": "Group", "Topics": [{"FirstURL": FOUND, "Text": f"Found {query}"}] if rows else []}],
            },
        }
        if host == "api.search.brave.com":
            for one in answers[host]["web"]["results"]:
                del one["content"]
        self.send(200, json.dumps(answers.get(host, {"results": rows, "of": "endpoint"})).encode())

    def send(self, status, body, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def make_certificates(directory):
    """Writes the certificate of the providers and the one to trust into a directory."""
    authority = trustme.CA()
    certificate = authority.issue_cert(*HOSTS)
    certificate.private_key_and_cert_chain_pem.write_to_path(str(Path(directory) / "providers.pem"))
    authority.cert_pem.write_to_path(str(Path(directory) / "trusted.pem"))


def serve(directory):
    """Serves the providers with TLS on port 443, and an endpoint without it on port 81, until the suite ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(directory) / "providers.pem")
    for port in (443, 81):
        server = http.server.ThreadingHTTPServer(("0.0.0.0", port), Provider)
        if port == 443:
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        # Clients that hang up, or trust another authority, are part of the suites.
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
