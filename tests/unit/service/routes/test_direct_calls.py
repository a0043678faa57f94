"""Leases and reports that bypass FastAPI get the answers that FastAPI would give."""

import socket
from typing import Any

import pytest

from recrawl.corpus import Corpus
from recrawl.service.connections import GatheredWrites
from recrawl.service.routes.direct import find_call
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer


def scope_of(path: str, query: str = "", method: str = "POST") -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "query_string": query.encode()}


def options_of(query: str) -> dict[str, Any] | None:
    found = find_call(scope_of("/v1/corpora/news/orders", query))
    return None if found is None else found.options


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {}),
        ("n=3", {"n": 3}),
        ("n=1&why=false", {"n": 1, "why": False}),
        ("n=2&wait=0.5&seconds=60", {"n": 2, "wait": 0.5, "seconds": 60.0}),
        ("exact=true&run=2026-01-01", {"exact": True, "run": "2026-01-01"}),
    ],
)
def test_leases_in_their_usual_form_are_recognised(query: str, options: dict[str, Any]) -> None:
    assert options_of(query) == options


@pytest.mark.parametrize(
    "query",
    [
        *("n=0", "n=-1", "n=1.5", "n=x", "n=", "n=1&n=2", "seconds=0", "seconds=-1", "wait=-1"),
        *("wait=1e3", "why=maybe", "other=1", "run=", "run=%41", "n=1&", "&", "n", "n=%31"),
    ],
)
def test_others_go_to_the_framework(query: str) -> None:
    assert options_of(query) is None


def test_other_paths_and_methods_go_to_the_framework() -> None:
    assert find_call(scope_of("/v1/corpora/news/orders", method="GET")) is None
    assert find_call(scope_of("/v1/corpora/news/pages")) is None
    assert find_call(scope_of("/v1/corpora/.news/orders")) is None
    assert find_call(scope_of("/v1/corpora/news/orders/")) is None
    assert find_call(scope_of("/healthz")) is None
    assert find_call({"type": "lifespan"}) is None


def test_both_ways_give_the_same_answers(server: RunningServer) -> None:
    # No page is due, so that the first answer is also right the second time.
    for path, body, headers in (
        ("/orders?n=20000", None, {}),
        ("/orders?wait=1000", None, {}),
        ("/orders?wait=0.01", None, {}),
        ("/orders", None, {"Host": "elsewhere.example"}),
        ("/orders", None, {"Idempotency-Key": "\t"}),
        ("/outcomes", b"{", {"Content-Type": "application/json"}),
        ("/outcomes", b"[]", {"Content-Type": "text/plain"}),
        ("/outcomes", [{"handle": 1}], {}),
        ("/outcomes", [{"handle": 1, "status": 404}, {"status": 404}], {}),
        ("/outcomes", [{"url": URLS[0], "fetched_at_ms": 1, "status": 404}], {}),
        ("/outcomes", [{"handle": 1, "status": 200, "body": "text"}], {}),
        ("/orders/release", {"handles": [1]}, {}),
        ("/orders/extend", {"handles": [1], "seconds": 0}, {}),
    ):
        direct = server.request("POST", f"/v1/corpora/news{path}", body, headers)
        # The framework looks at a request with an argument that it does not know.
        joint = "&" if "?" in path else "?"
        routed = server.request("POST", f"/v1/corpora/news{path}{joint}x=1", body, headers)
        named = {k: v for k, v in direct.headers.items() if k not in ("date", "x-request-id")}
        assert (direct.status, direct.data) == (routed.status, routed.data), path
        assert named.keys() == (routed.headers.keys() - {"date", "x-request-id"}), path


class _Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


class _Loop:
    def __init__(self) -> None:
        self.soon: list[Any] = []

    def call_soon(self, function: Any) -> None:
        self.soon.append(function)


def test_the_pieces_of_an_answer_are_written_at_once() -> None:
    transport, loop = _Transport(), _Loop()
    gathered = GatheredWrites(transport, loop)  # type: ignore[arg-type]
    gathered.write(b"head")
    gathered.write(b"body")
    assert transport.written == []
    loop.soon.pop()()
    gathered.flush()
    assert transport.written == [b"headbody"]
    gathered.write(b"x" * 100_000)
    assert transport.written[1:] == [b"x" * 100_000]
    gathered.write(b"end")
    gathered.close()
    assert transport.written[2:] == [b"end"]
    gathered.write(b"late")
    gathered.flush()
    assert transport.written[3:] == []


def test_requests_that_follow_each_other_without_waiting_are_answered(
    server: RunningServer, corpus: Corpus
) -> None:
    corpus.add(URLS)
    request = (
        b"POST /v1/corpora/news/orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(30)
        connection.sendall(request * 3)
        data = b""
        while data.count(b'"shortfall"') < 3:
            data += connection.recv(65_536)
    assert data.count(b"HTTP/1.1 200") == 3
