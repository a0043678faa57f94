"""Orders over HTTP: lease, wait, lease by URL, extend, release, repeat."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

import pyarrow as pa
import pytest

from recrawl.corpus import Corpus
from tests.manual_clock import ManualClock
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer


@pytest.fixture
def filled(server: RunningServer, corpus: Corpus) -> RunningServer:
    corpus.add(URLS, doc_id=[f"doc {url}" for url in URLS], metadata=[{"u": url} for url in URLS])
    return server


def test_orders_have_everything_that_a_fetcher_needs(filled: RunningServer) -> None:
    answer = filled.post("/orders?n=3&seconds=60").json
    assert answer["shortfall"] is None
    for order in answer["orders"]:
        assert order["fetch_url"] == order["url"]
        assert order["doc_id"] == f"doc {order['url']}"
        assert order["metadata"] == {"u": order["url"]}
        assert order["expires_at_ms"] == 1_700_000_060_000


def test_orders_in_other_formats(filled: RunningServer) -> None:
    lines = filled.post("/orders?n=3", Accept="application/x-ndjson")
    assert len(lines.data.splitlines()) == 3
    arrow = filled.post("/orders?n=3", Accept="application/vnd.apache.arrow.stream")
    table = pa.ipc.open_stream(arrow.data).read_all()
    assert table.num_rows == 3
    assert table.schema.field("handle").type == pa.int64()
    filled.post("/orders?n=100")
    arrow = filled.post("/orders?n=3", Accept="application/vnd.apache.arrow.stream")
    assert pa.ipc.open_stream(arrow.data).read_all().num_rows == 0


def test_a_lease_says_why_it_is_short(filled: RunningServer) -> None:
    assert len(filled.post("/orders?n=100").json["orders"]) == len(URLS)
    answer = filled.post("/orders?n=2").json
    assert answer["orders"] == []
    assert answer["shortfall"]["n_requested"] == 2
    assert "leased already" in answer["shortfall"]["text"]
    assert filled.post("/orders?n=2&why=false").json["shortfall"] is None


def test_a_lease_waits_until_a_page_is_added(server: RunningServer, corpus: Corpus) -> None:
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        waiting = pool.submit(server.post, "/orders?n=5&wait=30")
        while server.app.state.service.corpora.find("news").leases.n_waiting == 0:
            time.sleep(0.01)
        server.post("/pages", [{"url": URLS[0]}])
        orders = waiting.result(30).json["orders"]
    assert [order["url"] for order in orders] == [URLS[0]]
    assert time.monotonic() - started < 20


def test_a_lease_waits_no_longer_than_it_says(server: RunningServer) -> None:
    started = time.monotonic()
    answer = server.post("/orders?n=5&wait=0.3").json
    assert answer["orders"] == []
    assert "no page" in answer["shortfall"]["text"].lower()
    assert 0.25 <= time.monotonic() - started < 20


def test_a_client_that_leaves_while_it_waits_gets_no_order(
    server: RunningServer, corpus: Corpus
) -> None:
    leases = server.app.state.service.corpora.find("news").leases
    connection = HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/v1/corpora/news/orders?wait=30")
    while leases.n_waiting == 0:
        time.sleep(0.01)
    connection.close()
    ends = time.monotonic() + 20
    while leases.n_waiting and time.monotonic() < ends:
        time.sleep(0.01)
    assert leases.n_waiting == 0
    server.post("/pages", [{"url": URLS[0]}])
    assert len(server.post("/orders?n=1").json["orders"]) == 1
    assert corpus.stats().in_flight == 1


def test_many_clients_share_the_pages(filled: RunningServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: filled.post("/orders?n=3").json["orders"], range(8)))
    urls = [order["url"] for orders in answers for order in orders]
    assert sorted(urls) == sorted(URLS)


def test_waiting_clients_are_served_in_their_order(server: RunningServer) -> None:
    leases = server.app.state.service.corpora.find("news").leases
    with ThreadPoolExecutor(3) as pool:
        waiting = []
        for n in range(3):
            waiting.append(pool.submit(server.post, "/orders?n=1&wait=5"))
            while leases.n_waiting <= n:
                time.sleep(0.01)
        server.post("/pages", [{"url": URLS[0]}, {"url": URLS[5]}])
        found = [len(one.result(30).json["orders"]) for one in waiting]
    assert found == [1, 1, 0]


def test_orders_are_extended_and_released(filled: RunningServer, clock: ManualClock) -> None:
    orders = filled.post("/orders?n=2&seconds=60").json["orders"]
    handles = [order["handle"] for order in orders]
    answer = filled.post("/orders/extend", {"handles": [*handles, 77], "seconds": 600})
    assert answer.json["status"] == ["done", "done", "unknown"]
    answer = filled.post("/orders/release", {"handles": [handles[0], 77]})
    assert answer.json["status"] == ["done", "unknown"]
    clock.pass_seconds(120)
    again = filled.post("/orders?n=100").json["orders"]
    assert orders[1]["url"] not in [order["url"] for order in again]
    assert len(again) == len(URLS) - 1
    wrong: Any
    for wrong in (
        {"handles": [1]},
        {"handles": [1], "seconds": 0},
        {"handles": [1], "seconds": 1e12},
        {"handles": [-1], "seconds": 1},
        {"handles": [1 << 63], "seconds": 1},
        {"handles": ["-1"], "seconds": 1},
        {"handles": [""], "seconds": 1},
        {"handles": ["1.0"], "seconds": 1},
        {"handles": [str(1 << 63)], "seconds": 1},
        {"handles": 1, "seconds": 1},
        {"handles": [1], "seconds": 1, "more": 1},
        [],
    ):
        assert filled.post("/orders/extend", wrong).problem == "invalid-value"


def test_given_urls_are_leased(filled: RunningServer) -> None:
    rows = [{"url": URLS[0]}, {"url": "https://new.example/"}, {"url": "no"}]
    answers = filled.post("/orders/by-url", rows).json["answers"]
    assert [one["why"] for one in answers] == ["due", "not_tracked", "invalid_url"]
    assert answers[0]["order"]["doc_id"] == f"doc {URLS[0]}"
    answers = filled.post("/orders/by-url?add=true", rows).json["answers"]
    assert [one["why"] for one in answers] == ["in_flight", "due", "invalid_url"]


def test_a_repeated_lease_gets_the_same_orders(filled: RunningServer) -> None:
    first = filled.post("/orders?n=3", Idempotency_Key="a").json["orders"]
    again = filled.post("/orders?n=3&wait=1&why=false", Idempotency_Key="a").json["orders"]
    assert again == first
    other = filled.post("/orders?n=4", Idempotency_Key="a")
    assert (other.status, other.problem) == (422, "idempotency-key-reused")
    second = filled.post("/orders?n=3", Idempotency_Key="b").json["orders"]
    assert not {order["url"] for order in first} & {order["url"] for order in second}
    rows = [{"url": URLS[-1]}]
    first = filled.post("/orders/by-url", rows, Idempotency_Key="c").json
    assert filled.post("/orders/by-url", rows, Idempotency_Key="c").json == first
    for wrong in ("", "x" * 256, "ü"):
        assert filled.post("/orders", Idempotency_Key=wrong).problem == "invalid-value"


def test_the_same_key_at_the_same_time_has_one_effect(filled: RunningServer) -> None:
    barrier = threading.Barrier(6)

    def lease(_: int) -> list[str]:
        barrier.wait()
        orders = filled.post("/orders?n=3", Idempotency_Key="same").json["orders"]
        return sorted(order["url"] for order in orders)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lease, range(6)))
    assert len(found[0]) == 3
    assert all(one == found[0] for one in found)


def test_handles_are_texts_and_may_be_sent_as_numbers(filled: RunningServer) -> None:
    orders = filled.post("/orders?n=4").json["orders"]
    handles = [order["handle"] for order in orders]
    assert all(isinstance(one, str) for one in handles)
    numbers = list(map(int, handles))
    largest = (1 << 63) - 1
    answer = filled.post("/orders/extend", {"handles": [handles[0], numbers[1]], "seconds": 600})
    assert answer.json["status"] == ["done", "done"]
    rows = [
        {"handle": handles[0], "digest": "x"},
        {"handle": numbers[1], "digest": "x"},
        {"handle": str(largest), "digest": "x"},
    ]
    assert filled.post("/outcomes", rows).json["status"] == ["done", "done", "unknown"]
    for wrong in (str(largest + 1), "x", "-1", " 1"):
        answer = filled.post("/outcomes", [{"handle": wrong, "digest": "x"}])
        assert answer.problem == "invalid-value", wrong
    release = {"handles": [handles[2], numbers[3], str(largest)]}
    assert filled.post("/orders/release", release).json["counts"] == {"done": 2, "unknown": 1}
