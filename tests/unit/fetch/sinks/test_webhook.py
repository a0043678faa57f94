"""A webhook: signed requests, only to allowed addresses, repeated until they are accepted."""

import base64
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from recrawl.errors import SinkError
from recrawl.fetch.sinks.kinds.webhook import WebhookSink
from recrawl.testing.sinks import make_versions

SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes ...").decode()


class Receiver:
    """A receiver whose answers the test sets."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 204
        self.headers: dict[str, str] = {}
        self.text = b""
        self.n_connections = 0
        self.closes = False
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                receiver.n_connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers), body))
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                if receiver.status != 204:
                    self.send_header("Content-Length", str(len(receiver.text)))
                self.end_headers()
                self.wfile.write(receiver.text)
                # Without saying so before, as a receiver does that restarts.
                self.close_connection = receiver.closes

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    @property
    def port(self) -> int:
        return self.server.server_address[1]

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def sink_for(receiver: Receiver, **settings: Any) -> WebhookSink:
    given: dict[str, Any] = {"allow_networks": ["127.0.0.0/8"], "content": (), "seconds_max": 10}
    url = f"http://127.0.0.1:{receiver.port}/hook?a=1"
    return WebhookSink(url, **(given | settings))


def test_a_request_is_signed(receiver: Receiver) -> None:
    sink = sink_for(receiver, secret=SECRET, now_seconds=lambda: 1_700_000_000.7)
    versions = make_versions(3)
    sink.write(versions)
    sink.close()
    ((path, headers, body),) = receiver.requests
    assert path == "/hook?a=1"
    assert headers["Host"] == f"127.0.0.1:{receiver.port}"
    assert headers["webhook-timestamp"] == "1700000000"
    assert headers["webhook-id"] == f"{versions[0].id}-3"
    # As the standard describes it, written once more.
    signed = f"{headers['webhook-id']}.1700000000.".encode() + body
    digest = hmac.digest(b"a secret of 24 bytes ...", signed, hashlib.sha256)
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    assert [row["number"] for row in json.loads(body)["versions"]] == [1, 2, 3]


def test_one_connection_serves_several_requests(receiver: Receiver) -> None:
    sink = sink_for(receiver)
    for number in range(1, 4):
        sink.write(make_versions(1, first=number))
    sink.close()
    assert receiver.n_connections == 1
    assert len(receiver.requests) == 3
    assert "webhook-signature" not in receiver.requests[0][1]


def test_a_connection_that_was_closed_is_made_again(receiver: Receiver) -> None:
    receiver.closes = True
    sink = sink_for(receiver)
    for number in range(1, 4):
        sink.write(make_versions(1, first=number))
    sink.close()
    assert len(receiver.requests) == 3


@pytest.mark.parametrize("status", [301, 307, 400, 404, 429, 500, 503])
def test_other_answers_mean_that_versions_come_again(receiver: Receiver, status: int) -> None:
    receiver.status = status
    receiver.headers = {"Retry-After": "120", "Location": "http://127.0.0.1:1/"}
    receiver.text = b"not now" * 1_000
    sink = sink_for(receiver)
    with pytest.raises(SinkError, match=f"answered {status} .*not now") as caught:
        sink.write(make_versions(1))
    assert caught.value.retry_after_seconds == 120
    assert len(str(caught.value)) < 400
    receiver.status, receiver.text = 200, b"ok"
    sink.write(make_versions(1))
    sink.close()
    assert len(receiver.requests) == 2


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "169.254.169.254", "10.0.0.1", "0x7f.1"]
)
def test_addresses_that_are_not_public_are_refused(receiver: Receiver, host: str) -> None:
    sink = WebhookSink(f"http://{host}:{receiver.port}/")
    with pytest.raises(SinkError, match=r"Use allow_networks|gaierror"):
        sink.write(make_versions(1))
    assert receiver.n_connections == 0


def test_the_address_that_was_checked_is_the_one_that_is_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads to another address at the second look-up."""
    answers = [("93.184.215.14", receiver.port), ("127.0.0.1", receiver.port)]
    connected = []

    def look_up(*_: Any, **__: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", answers.pop(0))]

    def connect(address: tuple[str, int], *_: Any, **__: Any) -> None:
        connected.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(SinkError):
        WebhookSink("http://a.example/").write(make_versions(1))
    assert connected == ["93.184.215.14"]


def test_a_receiver_that_does_not_answer(receiver: Receiver) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        sink = WebhookSink(url, allow_networks=["127.0.0.0/8"], seconds_max=0.2)
        with pytest.raises(SinkError, match=r"127\.0\.0\.1: TimeoutError"):
            sink.write(make_versions(1))
    with pytest.raises(SinkError, match="ConnectionRefusedError"):
        sink.write(make_versions(1))


def test_tls_is_checked(receiver: Receiver) -> None:
    url = f"https://127.0.0.1:{receiver.port}/"
    sink = WebhookSink(url, allow_networks=["127.0.0.0/8"], seconds_max=5)
    with pytest.raises(SinkError, match="SSL"):
        sink.write(make_versions(1))
    assert receiver.requests == []
