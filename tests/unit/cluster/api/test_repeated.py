"""A request with an idempotency key that is repeated at another worker has its effect once."""

import asyncio

import pytest

from recrawl.client import Client
from recrawl.client.request_keys import new_request_key
from recrawl.cluster.api.owners import Owner
from recrawl.cluster.api.shared_leases import SharedLeases, _Asked, _Lease, _Options
from recrawl.corpus import RowStatus
from recrawl.errors import RequestKeyReused
from recrawl.messages.leases import Orders
from recrawl.messages.orders import Order
from recrawl.node.records import RequestKey
from tests.unit.cluster.api.workers import Workers

pytestmark = pytest.mark.slow_without_jit

URLS = [f"https://h{i % 40}.example/page/{i}" for i in range(200)]


def test_signals_and_requests_count_once_whoever_gets_them(
    workers: Workers, clients: list[Client]
) -> None:
    urls = [f"https://h{i % 40}.example/page/{i}" for i in range(12_000)]
    clients[0].add(urls)
    body = [{"url": url} for url in urls]
    for i, worker in enumerate(workers.all):
        answer = worker.server.post(
            "/signals?source=ping", body, Idempotency_Key="one", Content_Type="application/json"
        )
        assert answer.json["counts"] == {"done" if i == 0 else "duplicate": 12_000}
        answer = worker.server.post("/requests", body, Idempotency_Key="two")
        assert answer.json["counts"] == {"done" if i == 0 else "duplicate": 12_000}
    assert sum(worker.corpus.stats().n_signals for worker in workers.all) == 12_000
    answer = workers[1].server.post("/signals?source=ping", body[:9], Idempotency_Key="one")
    assert answer.problem == "idempotency-key-reused"


def test_a_repeated_request_is_found_after_partitions_have_moved(
    workers: Workers, clients: list[Client]
) -> None:
    clients[0].add(URLS)
    signalled = clients[0].signal(URLS, source="ping", request="a")
    orders = clients[0].lease(100, request="b")
    for partition in (4, 5):
        workers[1].corpus.close_partition(partition)
        workers[0].corpus.open_partition(partition)
    workers.tell_all()
    assert int(signalled) == 200
    for client in clients:
        again = client.signal(URLS, source="ping", request="a")
        assert again.rows.tolist() == [RowStatus.DUPLICATE] * 200
        held = client.lease(100, request="b")
        assert {one.handle for one in held} == {one.handle for one in orders}


@pytest.mark.parametrize("n", [1, 2, 10, 190, 1_000])
def test_a_repeated_lease_returns_the_same_orders_anywhere(
    workers: Workers, clients: list[Client], n: int
) -> None:
    clients[0].add(URLS)
    first = clients[0].lease(n, request="again")
    assert len(first) == min(n, 200)
    for client in clients:
        again = client.lease(n, request="again")
        assert {one.handle for one in again} == {one.handle for one in first}
        with pytest.raises(RequestKeyReused):
            client.lease(n + 1, request="again")
    assert sum(worker.corpus.stats().in_flight for worker in workers.all) == len(first)


def test_given_pages_leased_again_are_the_same(workers: Workers, clients: list[Client]) -> None:
    clients[0].add(URLS)
    first = clients[0].lease_urls(URLS, request="given")
    assert len(first.orders) == 200
    for client in clients[1:]:
        again = client.lease_urls(URLS, request="given")
        assert [one.handle for one in again.orders] == [one.handle for one in first.orders]
    assert sum(worker.corpus.stats().in_flight for worker in workers.all) == 200


def test_only_a_lease_that_may_be_a_repetition_asks_what_was_given_before(
    workers: Workers, clients: list[Client]
) -> None:
    clients[0].add(URLS)

    def n_forwarded() -> int:
        return sum(workers[0].calls.counts.n_by_result.values())

    before = n_forwarded()
    assert len(clients[0].lease(30, with_shortfall=False)) == 30
    assert n_forwarded() - before == 2  # one lease at each of the two other workers
    before = n_forwarded()
    orders = clients[0].lease(30, request="mine", with_shortfall=False)
    assert n_forwarded() - before == 4

    # The second use of a key that the client has made may be a repetition, too.
    key = new_request_key()
    first = clients[0].lease(30, request=key)
    for client in clients:
        again = client.lease(30, request=key)
        assert {one.handle for one in again} == {one.handle for one in first}
    assert len({one.handle for one in [*orders, *first]}) == 60


def test_orders_that_an_old_and_a_new_owner_know_are_handed_out_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While a partition moves, both answer a repeated lease with its orders."""
    leases = object.__new__(SharedLeases)
    order = Order(*[None] * len(Order._fields))._replace(handle=7)  # type: ignore[arg-type]
    asked: list[RequestKey] = []

    async def call(_: object, n: int, request: RequestKey, *more: object, **how: object) -> Orders:
        asked.append(request)
        return Orders([order, order._replace(handle=8)] if len(asked) <= 2 else [])

    monkeypatch.setattr(leases, "_call", call)
    options = _Options(None, exact=False, run=None, with_shortfall=True)
    held = asyncio.run(leases._find_held([None, None], RequestKey(b"key", b""), options))
    assert [one.handle for one in held] == [7, 8]


def test_an_order_that_two_workers_give_is_in_a_lease_once() -> None:
    leases, lease = object.__new__(SharedLeases), _Lease()
    order = Order(*[None] * len(Order._fields))._replace(handle=7)  # type: ignore[arg-type]
    other = Owner("b", "http://b/", 1)
    lease.n_asked = {None: 1, other: 1}
    given = [_Asked(None, 1, Orders([order])), _Asked(other, 1, Orders([order]))]
    asyncio.run(leases._take(given, lease))
    assert [one.handle for one in lease.orders] == [7]
