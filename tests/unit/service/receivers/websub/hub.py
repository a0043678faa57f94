"""A site with a feed, and its hub: a real server, which can behave badly."""

import hashlib
import hmac
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

ENTRY = "<entry><id>{url}</id><link href='{url}'/><updated>{at}</updated></entry>"


class Asked(NamedTuple):
    """One request to the hub."""

    mode: str
    topic: str
    callback: str
    secret: str
    lease_seconds: str


class HubAnswer(NamedTuple):
    status: int
    body: bytes


class Hub:
    """A site at /feed, whose hub is at /hub.

    ``behaviour`` is what the hub does with a request: "verify", "verify first" (before it answers),
    "ignore", "refuse" (an error), "deny", "other topic", "other mode", "move" (a redirect).
    """

    def __init__(self) -> None:
        self.behaviour = "verify"
        self.lease_seconds = "864000"
        self.in_header = False
        self.names_hub = True
        self.entries: list[tuple[str, str]] = []
        self.asked: list[Asked] = []
        self.verified: list[HubAnswer] = []
        self.secrets: dict[str, str] = {}
        self.n_feeds = 0
        self._threads: list[threading.Thread] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/feed":
                    hub.n_feeds += 1
                    self.answer(200, hub.feed(), hub.links())
                else:
                    self.answer(404)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/hub" and hub.behaviour == "move":
                    self.answer(307, headers={"Location": "/moved"})
                    return
                form = dict(parse_qsl(body.decode()))
                asked = Asked(
                    form["hub.mode"],
                    form["hub.topic"],
                    form["hub.callback"],
                    form.get("hub.secret", ""),
                    form.get("hub.lease_seconds", ""),
                )
                hub.asked.append(asked)
                if hub.behaviour == "refuse":
                    self.answer(500, b"out of order")
                    return
                if hub.behaviour == "verify first":
                    hub.verify(asked)
                self.answer(202)
                if hub.behaviour not in ("ignore", "verify first"):
                    thread = threading.Thread(target=hub.follow, args=(asked,))
                    hub._threads.append(thread)
                    thread.start()

            def answer(
                self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
            ) -> None:
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/atom+xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"

    @property
    def topic(self) -> str:
        return self.url("/feed?canonical=1")

    def links(self) -> dict[str, str]:
        if not self.in_header:
            return {}
        return {"Link": f'</hub>; rel="hub", <{self.topic}>; rel="self"'}

    def feed(self, entries: list[tuple[str, str]] | None = None) -> bytes:
        links = ""
        if self.names_hub and not self.in_header:
            links = f"<link rel='hub' href='/hub'/><link rel='self' href='{self.topic}'/>"
        found = self.entries if entries is None else entries
        rows = "".join(ENTRY.format(url=url, at=at) for url, at in found)
        return f"<feed xmlns='http://www.w3.org/2005/Atom'>{links}{rows}</feed>".encode()

    def follow(self, asked: Asked) -> None:
        """Do what the hub does after it has answered."""
        match self.behaviour:
            case "deny":
                self.call(asked.callback, mode="denied", topic=asked.topic, reason="not today")
            case "other topic":
                self.verify(asked._replace(topic="https://other.example/feed"))
            case "other mode":
                other = "unsubscribe" if asked.mode == "subscribe" else "subscribe"
                self.verify(asked._replace(mode=other))
            case _:
                self.verify(asked)

    def verify(self, asked: Asked, challenge: str = "a challenge & more") -> HubAnswer:
        """Ask the callback whether a request was meant."""
        options = {"lease_seconds": self.lease_seconds} if asked.mode == "subscribe" else {}
        found = self.call(
            asked.callback, mode=asked.mode, topic=asked.topic, challenge=challenge, **options
        )
        if found == HubAnswer(200, challenge.encode()) and asked.mode == "subscribe":
            self.secrets[asked.callback] = asked.secret
        self.verified.append(found)
        return found

    def call(self, callback: str, **fields: str) -> HubAnswer:
        query = urlencode({f"hub.{name}": value for name, value in fields.items()})
        return send("GET", f"{callback}?{query}")

    def push(
        self, callback: str, body: bytes, *, secret: str | None = None, method: str = "sha256"
    ) -> HubAnswer:
        """Send a feed to a callback, signed with the secret of its subscription."""
        key = self.secrets.get(callback, "") if secret is None else secret
        signature = hmac.new(key.encode(), body, getattr(hashlib, method)).hexdigest()
        return send("POST", callback, body, {"X-Hub-Signature": f"{method}={signature}"})

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        for thread in self._threads:
            thread.join()
        self.server.server_close()


def send(
    method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> HubAnswer:
    """Send one request."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = HTTPConnection(parts.hostname, parts.port or 80, timeout=30)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    found = HubAnswer(answer.status, answer.read())
    connection.close()
    return found


def query_of(url: str) -> dict[str, Any]:
    return dict(parse_qs(urlsplit(url).query))
