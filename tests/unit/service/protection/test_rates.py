"""How fast one key or one address may use the server."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recrawl.corpus import Corpus
from recrawl.service import ServiceLimits, create_key
from recrawl.service.keys import KeyRing
from recrawl.service.problems import Problem
from recrawl.service.protection.rates import RateLimit, RequestRates
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_rate_holds_after_a_burst() -> None:
    clock = Clock()
    limit = RateLimit(10.0, now=clock)
    n_taken = 0
    for _ in range(1_000):  # ten seconds
        while not limit.wait_seconds("a"):
            limit.charge("a", 1)
            n_taken += 1
        clock.now += 0.01
    assert n_taken == pytest.approx(50 + 100, abs=2)
    assert not limit.wait_seconds("b")
    # A rate of its own, below one in a second.
    for _ in range(2):
        assert not limit.wait_seconds("slow", 0.1)
        limit.charge("slow", 1, 0.1)
        assert limit.wait_seconds("slow", 0.1) == 10
        clock.now += 10.0


def test_a_large_request_is_taken_and_then_paid_for() -> None:
    clock = Clock()
    limit = RateLimit(100.0, now=clock)
    limit.charge("a", 10_000)
    seconds = limit.wait_seconds("a")
    assert seconds == 96
    clock.now += seconds - 1
    assert limit.wait_seconds("a") == 1
    clock.now += 1
    assert not limit.wait_seconds("a")


def test_few_names_are_remembered() -> None:
    limit = RateLimit(1.0, n_names_max=3)
    for name in "abcd":
        limit.charge(name, 100)
    assert [bool(limit.wait_seconds(name)) for name in "abcd"] == [False, True, True, True]


def test_an_address_of_ipv6_counts_with_its_network() -> None:
    rates = RequestRates(ServiceLimits(keyless_requests_per_second=0.2))
    rates.take_keyless("2001:db8::1")
    for same in ("2001:db8::1", "2001:db8::ffff:2"):
        with pytest.raises(Problem, match="this address"):
            rates.take_keyless(same)
    rates.take_keyless("2001:db8:0:1::1")
    rates.take_keyless("192.0.2.1")
    rates.take_keyless("192.0.2.2")
    rates.take_keyless("unix")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "keys"
    found.mkdir()
    return found


@pytest.fixture
def bearer(folder: Path) -> Callable[..., str]:
    def create(**rates: Any) -> str:
        now_ms = time.time_ns() // 1_000_000
        return "Bearer " + create_key(folder, ["admin"], now_ms=now_ms, **rates)[0]

    return create


@pytest.fixture
def serve(
    open_corpus: Callable[..., Corpus], folder: Path
) -> Iterator[Callable[..., RunningServer]]:
    started: list[RunningServer] = []

    def start(**limits: Any) -> RunningServer:
        corpus = open_corpus()
        corpus.add(URLS)
        server = RunningServer(
            {"news": corpus},
            keys={"news": KeyRing(folder)},
            is_local=False,
            limits=ServiceLimits(**limits),
        )
        started.append(server.__enter__())
        return server

    yield start
    for one in started:
        one.stop()


def test_requests_of_a_key(serve: Callable[..., RunningServer], bearer: Callable[..., str]) -> None:
    common, own = bearer(), bearer(requests_per_second=1_000.0)
    slow = bearer(requests_per_second=0.01)
    server = serve(key_requests_per_second=0.4)
    for _ in range(2):
        assert server.get("/budget", Authorization=common).status == 200
    answer = server.get("/budget", Authorization=common)
    assert (answer.status, answer.problem) == (429, "too-many-requests")
    assert 1 <= int(answer.headers["retry-after"]) <= 3
    assert server.request("GET", "/v1/corpora", headers={"Authorization": common}).status == 429
    assert server.request("GET", "/metrics", headers={"Authorization": common}).status == 429
    for _ in range(20):
        assert server.get("/budget", Authorization=own).status == 200
    assert server.get("/budget", Authorization=slow).status == 200
    answer = server.get("/budget", Authorization=slow)
    assert (answer.status, 90 < int(answer.headers["retry-after"]) <= 100) == (429, True)
    # Refused requests cost nothing, and health is for everybody.
    assert server.request("GET", "/healthz").status == 200


ROWS = [{"url": url} for url in URLS]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/pages", ROWS),
        ("POST", "/signals?source=x", ROWS),
        ("POST", "/orders/by-url", ROWS),
        ("POST", "/orders?n=20", None),
        ("GET", "/pages?limit=20", None),
    ],
)
def test_rows_of_a_key(
    serve: Callable[..., RunningServer],
    bearer: Callable[..., str],
    method: str,
    path: str,
    body: object,
) -> None:
    common, own = bearer(), bearer(rows_per_second=1e6)
    server = serve(key_rows_per_second=0.2)
    for key, expected in ((common, 429), (own, 200)):
        headers = {"Authorization": key}
        for attempt in range(2):
            answer = server.request(method, f"/v1/corpora/news{path}", body, headers)
            assert answer.status == (expected if attempt else 200), answer
        if expected == 429:
            assert answer.problem == "too-many-requests"
            # One of the rows was there; the others come back at 0.2 in a second.
            assert 90 <= int(answer.headers["retry-after"]) <= 100


def test_wrong_rates_are_refused(bearer: Callable[..., str]) -> None:
    for wrong in (0.0, -1.0, float("nan"), 1e12):
        with pytest.raises(ValueError, match="per_second must be from"):
            bearer(rows_per_second=wrong)
