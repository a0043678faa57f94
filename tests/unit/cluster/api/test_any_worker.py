"""Any worker takes any request: rows go to their owners, and the answers come back in order."""

import numpy as np
import pytest

from recrawl import Outcome
from recrawl.client import Client
from recrawl.corpus import RowStatus
from tests.unit.cluster.api.workers import Workers

pytestmark = pytest.mark.slow_without_jit

URLS = [f"https://h{i % 40}.example/page/{i}" for i in range(200)]
DONE, DUPLICATE = RowStatus.DONE, RowStatus.DUPLICATE


def n_pages_of(workers: Workers) -> list[int]:
    return [worker.corpus.n_pages for worker in workers.all]


def test_rows_reach_their_owners_through_any_worker(
    workers: Workers, clients: list[Client]
) -> None:
    added = clients[0].add([*URLS, "not a URL"], importance=np.arange(201.0))
    assert tuple(added) == (200, 0, 1)
    assert added.rows.tolist() == [DONE] * 200 + [RowStatus.REFUSED]
    assert all(n_pages_of(workers))
    for client in clients[1:]:
        assert client.add(URLS).rows.tolist() == [DUPLICATE] * 200
    found = {
        row["url"]: row["importance"]
        for worker in workers.all
        for batch in worker.corpus.pages(["url", "importance"])
        for row in batch.to_pylist()
    }
    assert [found[url] for url in URLS] == pytest.approx(np.arange(200.0), rel=0.01)

    for client in clients:
        assert int(client.set(URLS, importance=2.0)) == 200
        assert int(client.set_each(URLS, doc_id=[f"d{i}" for i in range(200)])) == 200
        pages = [client.explain(url) for url in URLS[:9]]
        assert [page and page.doc_id for page in pages] == [f"d{i}" for i in range(9)]
        assert client.explain("https://other.example/") is None
        assert client.signal(URLS, source="sitemap").rows.size == 200
        assert int(client.requests(URLS, 3)) == 200
    assert clients[2].remove([URLS[0], "https://other.example/"]).rows.tolist() == [
        DONE,
        RowStatus.UNKNOWN,
    ]
    assert int(clients[1].remove(pattern="/page/1*")) == 111
    assert int(clients[1].set(pattern="/page/2*", cost=2.0)) == 11


@pytest.mark.parametrize("n", [1, 7, 100, 1_000])
def test_a_lease_returns_what_is_available_and_never_more(
    workers: Workers, clients: list[Client], n: int
) -> None:
    clients[0].add(URLS)
    leased: set[str] = set()
    for i in range(200 // n + 3):
        orders = clients[i % 3].lease(n)
        assert len(orders) == min(n, 200 - len(leased))
        assert leased.isdisjoint(order.url for order in orders)
        leased.update(order.url for order in orders)
        assert (orders.shortfall is not None) == (len(orders) < n)
        if i > 3 and n == 1:
            break
    else:
        assert leased == set(URLS)
    assert sum(worker.corpus.stats().in_flight for worker in workers.all) == len(leased)


def test_orders_are_reported_extended_and_released_anywhere(
    workers: Workers, clients: list[Client]
) -> None:
    clients[0].add(URLS)
    orders = clients[1].lease(200)
    handles = [order.handle for order in orders]
    assert int(clients[2].extend(handles, seconds=60.0)) == 200
    assert int(clients[0].release(handles[:50])) == 50
    assert clients[0].release([*handles[:2], 12345 << 12]).rows.tolist() == [RowStatus.UNKNOWN] * 3
    outcomes = [
        Outcome(handle=handle, status=200, digest=bytes([i]) * 16)
        for i, handle in enumerate(handles[50:])
    ]
    for outcome in outcomes[:3]:
        assert clients[2].report(outcome).rows.tolist() == [DONE]
    reported = clients[2].report(outcomes)
    assert reported.rows.tolist() == [DUPLICATE] * 3 + [DONE] * 147
    # A page of an order that was given back: the others have an outcome of this very second.
    by_url = Outcome(url=orders[0].url, status=404, fetched_at_ms=clients[0].now_ms())
    assert clients[1].report(by_url).rows.tolist() == [DONE]
    assert sum(worker.corpus.stats().n_outcomes for worker in workers.all) == 151


def test_given_pages_are_leased_anywhere(clients: list[Client]) -> None:
    clients[0].add(URLS[:100])
    found = clients[1].lease_urls(URLS)
    assert [one.order is not None for one in found] == [True] * 100 + [False] * 100
    assert [one.url for one in found] == URLS
    found = clients[2].lease_urls(URLS[100:], add=True)
    assert [order.url for order in found.orders] == URLS[100:]


def test_a_host_is_set_and_shown_anywhere(clients: list[Client]) -> None:
    clients[0].add(URLS)
    for i, client in enumerate(clients):
        client.set_host(f"h{i}.example", delay=i + 1.0)
    for client in clients:
        assert [client.host(f"h{i}.example").delay_seconds for i in range(3)] == [1.0, 2.0, 3.0]
        assert client.host("h0.example").n_pages == 5


def test_many_rows_go_through_any_worker(clients: list[Client]) -> None:
    urls = [f"https://many{i % 50}.example/{i}" for i in range(1_000)]
    for i, client in enumerate(clients):
        assert client.add(urls).rows.tolist() == [DONE if i == 0 else DUPLICATE] * 1_000
        assert client.signal(urls, source="feed").rows.size == 1_000


def test_a_worker_without_partitions_answers_for_the_others(
    workers: Workers, clients: list[Client]
) -> None:
    workers[2].corpus.close_partition(2)
    workers[0].corpus.open_partition(2)
    workers.tell_all()
    assert clients[2].add([*URLS, "not a URL"]).rows.tolist() == [DONE] * 200 + [RowStatus.REFUSED]
    orders = clients[2].lease(300)
    assert len(orders) == 200
    assert orders.shortfall is not None
    handles = [order.handle for order in orders]
    assert int(clients[2].release(handles)) == 200
    assert clients[2].stats().n_pages == 200
    assert len(clients[2].changes()) == 0
