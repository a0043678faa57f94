"""A proxy in front of a server that does what bad networks do."""

import threading
from collections import deque
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

HUGE = 64 << 20


class Sent(NamedTuple):
    method: str
    path: str
    request: str | None
    """Idempotency key."""
    body: bytes


class UnreliableProxy:
    """Forwards requests; each takes the next fault from `faults`, as long as there are any.

    ``drop``: the server gets the request, and the client no answer.  ``refuse``: the connection is
    closed before the server gets it.  ``garbage``: not HTTP.  ``page``: an HTML page with status
    200.  ``bad gateway``, ``busy``: an error of a proxy.  ``hang``: nothing at all.  ``huge``: an
    answer that does not end.  ``redirect``: to another server.
    """

    def __init__(self, port: int) -> None:
        self.faults: deque[str] = deque()
        self.sent: list[Sent] = []
        self.released = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy.handle(self, port)

            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):
                    return self.do_GET
                raise AttributeError(name)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1/corpora/news"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def handle(self, client: BaseHTTPRequestHandler, port: int) -> None:
        body = client.rfile.read(int(client.headers.get("Content-Length", 0)))
        key = client.headers.get("Idempotency-Key")
        self.sent.append(Sent(client.command, client.path, key, body))
        fault = self.faults.popleft() if self.faults else None
        fault = None if fault == "pass" else fault
        client.close_connection = fault is not None
        if fault in (None, "drop"):
            status, headers, data = _forward(client, port, body)
            if fault is None:
                _answer(client, status, headers, data)
        elif fault == "garbage":
            client.wfile.write(b"\x00\xff this is not HTTP\r\n\r\n")
        elif fault == "page":
            _answer(client, 200, {"Content-Type": "text/html"}, b"<html>Please log in")
        elif fault == "bad gateway":
            _answer(client, 502, {"Content-Type": "text/html"}, b"<html>Bad gateway")
        elif fault == "busy":
            _answer(client, 429, {"Retry-After": "1"}, b"")
        elif fault == "redirect":
            _answer(client, 302, {"Location": "http://elsewhere.example/"}, b"")
        elif fault == "hang":
            self.released.wait(60)
        elif fault == "huge":
            client.send_response(200)
            client.send_header("Content-Length", str(HUGE))
            client.end_headers()
            try:
                for _ in range(HUGE >> 16):
                    client.wfile.write(b" " * (1 << 16))
            except OSError:
                pass
        else:
            assert fault == "refuse"


def _forward(
    client: BaseHTTPRequestHandler, port: int, body: bytes
) -> tuple[int, dict[str, str], bytes]:
    upstream = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        upstream.request(client.command, client.path, body, dict(client.headers.items()))
        answer = upstream.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        upstream.close()


def _answer(
    client: BaseHTTPRequestHandler, status: int, headers: dict[str, Any], data: bytes
) -> None:
    client.send_response(status)
    for name, value in headers.items():
        if name.lower() not in ("content-length", "date", "server"):
            client.send_header(name, value)
    client.send_header("Content-Length", str(len(data)))
    client.end_headers()
    client.wfile.write(data)
