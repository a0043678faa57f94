"""Each limit holds, is answered as the reference says, and is listed there."""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from recrawl.corpus import Corpus
from recrawl.dashboard import attach_dashboard
from recrawl.service import PROBLEMS, ServiceLimits, limit_rows
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer

REFERENCE = Path(__file__).parents[3] / "docs/reference/service.md"
Serve = Callable[..., AbstractContextManager[RunningServer]]
ROWS = [{"url": url} for url in URLS]


@pytest.fixture
def serve(corpus: Corpus) -> Serve:
    return lambda **limits: RunningServer({"news": corpus}, limits=ServiceLimits(**limits))


class SlowCorpus:
    """A corpus whose calls wait until a test lets them go."""

    def __init__(self, corpus: Corpus, *slow: str) -> None:
        self._corpus = corpus
        self._slow = slow
        self.go = threading.Event()
        self.begun = threading.Event()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._corpus, name)
        if name not in self._slow:
            return method

        def wait_first(*args: Any, **kwargs: Any) -> Any:
            self.begun.set()
            assert self.go.wait(30)
            return method(*args, **kwargs)

        return wait_first


def test_rows_and_orders(serve: Serve) -> None:
    with serve(rows_max=3, orders_max=4, reasons_max=1) as server:
        assert server.post("/pages", ROWS[:3]).status == 200
        answer = server.post("/pages", ROWS[:4])
        assert (answer.status, answer.problem) == (413, "too-many-rows")
        body = b"\n".join(b'{"url": "https://a.example/"}' for _ in range(4))
        answer = server.post("/pages", body, Content_Type="application/x-ndjson")
        assert answer.problem == "too-many-rows"
        answer = server.post("/orders/release", {"handles": [1] * 4})
        assert answer.problem == "too-many-rows"
        settings = {"urls": URLS[:4], "settings": {"importance": 1}}
        assert server.post("/pages/settings", settings).problem == "too-many-rows"
        assert server.post("/orders?n=4").status == 200
        assert server.post("/orders?n=5").problem == "invalid-value"
        answer = server.post("/pages", [{"url": "a"}, {"url": "b"}])
        assert len(answer.json["reasons"]) == 1


def test_sizes_of_bodies(serve: Serve) -> None:
    with serve(body_bytes_max=100) as server:
        padded = b'[{"url": "https://a.example/"}]'.ljust(100)
        assert server.post("/pages", padded, Content_Type="application/json").status == 200
        answer = server.post("/pages", padded + b" ", Content_Type="application/json")
        assert (answer.status, answer.problem) == (413, "body-too-large")


def test_bodies_held_at_a_time(serve: Serve) -> None:
    with serve(held_bytes_max=100) as server:
        answer = server.post("/pages", b"[]".ljust(101), Content_Type="application/json")
        assert (answer.status, answer.problem) == (429, "too-busy")
        assert int(answer.headers["retry-after"]) >= 1
        assert (
            server.post("/pages", b"[]".ljust(100), Content_Type="application/json").status == 200
        )
        assert server.app.state.service.memory.n_held == 0


def test_headers(serve: Serve) -> None:
    with serve(header_bytes_max=10_000, header_seconds_max=2.0) as server:
        address = ("127.0.0.1", server.port)
        assert server.request("GET", "/healthz", headers={"X": "x" * 9_000}).status == 200
        with socket.create_connection(address, timeout=20) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
            answer = b""
            while not answer:
                try:
                    client.sendall(b"x" * 1_000)
                    client.settimeout(0.01)
                    answer = client.recv(1_000)
                except TimeoutError:
                    continue
            assert answer.startswith(b"HTTP/1.1 431")
            assert b"headers-too-large" in answer
        for first in (b"", b"GET /healthz HTTP/1.1\r\nX: "):
            with socket.create_connection(address, timeout=20) as client:
                client.sendall(first)
                assert client.recv(1_000) == b""
        # A large body after a small head is no large head, also on a connection that is kept.
        connection = HTTPConnection(*address, timeout=20)
        for _ in range(2):
            body = b"[]".ljust(300_000)
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/v1/corpora/news/pages", body, headers)
            answered = connection.getresponse()
            assert (answered.status, answered.read()[:12]) == (200, b'{"status":[]')
            time.sleep(2.2)  # longer than a head may take
        connection.close()


def test_bodies_without_a_key_leave_memory_for_others(serve: Serve) -> None:
    with serve(held_bytes_max=80_000) as server, ExitStack() as clients:
        for _ in range(10):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=20)
            clients.enter_context(client)
            head = b"POST /v1/corpora/news/receivers/a HTTP/1.1\r\nContent-Length: 9000\r\n\r\n"
            client.sendall(head + b"x" * 8_999)
        body = b"[]".ljust(60_000)
        assert server.post("/pages", body, Content_Type="application/json").status == 200
        assert server.app.state.service.memory.n_held <= 10_000


def test_trailers_are_limited(serve: Serve) -> None:
    head = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with serve(header_bytes_max=10_000) as server:
        address = ("127.0.0.1", server.port)
        for line in (b"x: y\r\n" * 1_000, b"x" * 1_000):
            with socket.create_connection(address, timeout=20) as client:
                client.sendall(head + b"0\r\n")
                with pytest.raises(ConnectionError):  # noqa: PT012 - closed at some point
                    for _ in range(10_000):
                        client.sendall(line)
        with socket.create_connection(address, timeout=20) as client:
            for _ in range(2):
                client.sendall(head + b"2\r\n[]\r\n0\r\nx: y\r\n\r\n")
                assert client.recv(10_000).startswith(b"HTTP/1.1 405")


def is_answered_with(server: RunningServer, status: int) -> bool:
    """Return whether the server soon answers with a status."""
    ends_at = time.monotonic() + 20
    while time.monotonic() < ends_at:
        if server.request("GET", "/healthz").status == status:
            return True
        time.sleep(0.01)
    return False


def test_connections(serve: Serve) -> None:
    with serve(connections_max=3) as server:
        address = ("127.0.0.1", server.port)
        others = [socket.create_connection(address, timeout=20) for _ in range(3)]
        assert is_answered_with(server, 503)
        for one in others:
            one.close()
        assert is_answered_with(server, 200)


def test_a_slow_body(serve: Serve) -> None:
    with serve(body_seconds_max=0.2) as server:
        head = b"POST /v1/corpora/news/pages HTTP/1.1\r\nHost: localhost\r\n"
        head += b"Content-Type: application/json\r\nContent-Length: 10\r\n\r\n["
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            client.sendall(head)
            assert client.recv(1_000).startswith(b"HTTP/1.1 408")


def test_waits(serve: Serve) -> None:
    with serve(wait_seconds_max=5.0, waiting_leases_max=2, waiting_feeds_max=1) as server:
        assert server.post("/orders?wait=5.1").problem == "invalid-value"
        assert server.get("/changes?wait=5.1").problem == "invalid-value"
        with ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(server.post, "/orders?wait=5&why=false") for _ in range(2)]
            waiting.append(pool.submit(server.get, "/changes?wait=5"))
            hosted = server.app.state.service.corpora.find("news")
            while hosted.leases.n_waiting < 2 or hosted.feed.n_waiting < 1:
                time.sleep(0.01)
            for path in ("/orders", "/orders?wait=1"):
                answer = server.post(path)
                assert (answer.status, answer.problem) == (429, "too-busy")
                assert int(answer.headers["retry-after"]) >= 1
            assert server.get("/changes?wait=1").problem == "too-busy"
            assert [one.result(30).status for one in waiting] == [200] * 3


def test_calls_of_one_kind_do_not_hold_up_others(corpus: Corpus) -> None:
    slow = SlowCorpus(corpus, "add", "lease_each")
    limits = ServiceLimits(calls_max=2)
    corpus.add(URLS)
    (order,) = corpus.lease(1)
    with (
        RunningServer({"news": slow}, limits=limits) as server,
        ThreadPoolExecutor(4) as pool,
    ):
        adding = [pool.submit(server.post, "/pages", ROWS) for _ in range(2)]
        leasing = pool.submit(server.post, "/orders?n=1")
        hosted = server.app.state.service.corpora.find("news")
        while hosted.leases.n_waiting < 1 or hosted.n_changing < 2:
            time.sleep(0.01)
        answer = server.post("/pages", ROWS)
        assert (answer.status, answer.problem) == (429, "too-busy")
        # Reports, reading and health wait for none of them.
        report = server.post("/outcomes", [{"handle": order.handle, "digest": "x"}])
        assert report.json["status"] == ["done"]
        assert server.get("/stats").status == 200
        assert server.request("GET", "/healthz").status == 200
        slow.go.set()
        assert [one.result(30).status for one in adding] == [200, 200]
        assert leasing.result(30).status == 200


def test_lists_targets_and_keys(serve: Serve) -> None:
    with serve(listed_max=5, targets_max=1, idempotency_key_bytes_max=4) as server:
        assert server.get("/pages?limit=5").status == 200
        assert server.get("/pages?limit=6").problem == "invalid-value"
        assert server.get("/changes?limit=6").problem == "invalid-value"
        assert server.get("/plan?target=a&target=b").problem == "invalid-value"
        assert server.post("/orders", Idempotency_Key="abcd").status == 200
        assert server.post("/orders", Idempotency_Key="abcde").problem == "invalid-value"


def test_a_request_that_does_not_end_is_cut_off_when_the_server_stops(corpus: Corpus) -> None:
    slow = SlowCorpus(corpus, "add")
    ended: list[float] = []

    def ask() -> None:
        with suppress(OSError, HTTPException):  # it may be closed without an answer
            assert server.post("/pages", ROWS).status >= 500
        ended.append(time.monotonic())

    with RunningServer({"news": slow}, limits=ServiceLimits(drain_seconds_max=1)) as server:
        asking = threading.Thread(target=ask)
        asking.start()
        hosted = server.app.state.service.corpora.find("news")
        while hosted.n_changing < 1:
            time.sleep(0.01)
        # The corpus is closed only after the calls that change it.
        threading.Timer(6.0, slow.go.set).start()
        started = time.monotonic()
    stopped = time.monotonic()
    asking.join(30)
    assert 0.5 < ended[0] - started < 5.9
    assert stopped - started > 5.9


@pytest.mark.parametrize(
    ("method", "path"), [("stats", "/v1/corpora/news/stats"), ("plan_targets", "/ui/news/plan")]
)
def test_a_server_that_stops_does_not_wait_for_calls_that_only_read(
    corpus: Corpus, method: str, path: str
) -> None:
    slow = SlowCorpus(corpus, method)

    def ask() -> None:
        with suppress(OSError, HTTPException):  # it may be closed without an answer
            assert server.request("GET", path).status >= 500

    limits = ServiceLimits(drain_seconds_max=1)
    asking = threading.Thread(target=ask)
    before = {*threading.enumerate()}
    try:
        with RunningServer({"news": slow}, limits=limits, dashboard=attach_dashboard) as server:
            asking.start()
            assert slow.begun.wait(60)
        assert not slow.go.is_set()
        threads = [one for one in {*threading.enumerate()} - before if one is not asking]
        assert threads
        assert all(one.daemon for one in threads)
    finally:
        slow.go.set()
    asking.join(30)
    for one in threads:
        one.join(30)
        assert not one.is_alive()


def test_calls_for_pages_of_the_dashboard_are_few(corpus: Corpus) -> None:
    slow = SlowCorpus(corpus, "plan_targets")
    limits = ServiceLimits(shown_calls_max=2)
    with (
        RunningServer({"news": slow}, limits=limits, dashboard=attach_dashboard) as server,
        ThreadPoolExecutor(2) as pool,
    ):
        pages = [pool.submit(server.request, "GET", f"/ui/news/plan?at={i}") for i in range(2)]
        hosted = server.app.state.service.corpora.find("news")
        while hosted.n_showing < 2:
            time.sleep(0.01)
        answer = server.request("GET", "/ui/news/plan?at=3")
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        # The same page waits for the call that runs already.
        assert server.get("/stats").status == 200
        slow.go.set()
        assert [one.result(60).status for one in pages] == [200, 200]


def test_the_reference_lists_every_limit_and_every_problem() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    for row in limit_rows():
        assert f"| `{row.name}` | {row.value:,.0f} | {row.about} | {row.beyond} |" in text, row
    for name, (status, title) in PROBLEMS.items():
        assert f"| `{name}` | {status} | {title} |" in text, name


def test_answers_name_known_problems() -> None:
    for row in limit_rows():
        status, _, name = row.beyond.partition(" ")
        if status.isdigit():
            assert PROBLEMS[name].status == int(status)
