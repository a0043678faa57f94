"""Rows whose partitions cannot be reached are sent again, and counted once."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from recrawl.client import AsyncClient, Client
from recrawl.corpus import Corpus, Order, Outcome, RowStatus
from recrawl.errors import ServiceUnavailable
from recrawl.messages.enums import Why
from tests.unit.client.partly_away import PartlyAway
from tests.unit.client.unreliable_proxy import UnreliableProxy
from tests.unit.service.running_server import RunningServer

URLS = [f"https://h{i}.example/{j}" for i in range(20) for j in range(3)]
DONE, DUPLICATE, UNKNOWN, AWAY = (
    RowStatus.DONE,
    RowStatus.DUPLICATE,
    RowStatus.UNKNOWN,
    RowStatus.UNAVAILABLE,
)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recrawl.client.sent_rows._PAUSE_SECONDS", 0.01)


@pytest.fixture
def corpus(open_corpus: Callable[..., Corpus]) -> Corpus:
    return open_corpus(corpus={"partitions": 4})


@pytest.fixture
def partly(corpus: Corpus) -> PartlyAway:
    return PartlyAway(corpus, [1, 2], 0)


@pytest.fixture
def server(partly: PartlyAway) -> Iterator[RunningServer]:
    with RunningServer({"news": partly}) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{server.port}/v1/corpora/news") as one:
        yield one


def test_only_rows_that_were_away_are_sent_again(client: Client, partly: PartlyAway) -> None:
    is_away = np.isin(partly.partitions(URLS), partly.away)
    n_away = int(is_away.sum())
    assert 0 < n_away < 60

    def count(call: Callable[[], Any]) -> Any:
        partly.calls.clear()
        partly.n_calls = 2
        found = call()
        assert [n for _, n in partly.calls[:3]] == [60, n_away, n_away]
        assert len({name for name, _ in partly.calls}) == 1
        return found

    added = count(lambda: client.add(URLS))
    assert tuple(added) == (60, 0, 0)
    assert added.rows.tolist() == [DONE] * 60
    found = count(lambda: client.set(URLS, importance=2.0))
    assert (int(found), found.rows.tolist()) == (60, [DONE] * 60)
    assert count(lambda: client.fetch_now(URLS)) == 60
    orders = client.lease(60)
    orders.sort(key=lambda order: URLS.index(str(order.url)))
    handles = [order.handle for order in orders]
    assert count(lambda: client.extend(handles, seconds=600)) == 60
    outcomes = [Outcome(handle=one, digest=b"%d" % i) for i, one in enumerate(handles)]
    reported = count(lambda: client.report(outcomes))
    assert reported.counted.all()
    assert reported.rows.tolist() == [DONE] * 60
    assert client.explain(URLS[7]) is not None
    assert partly.corpus.stats().n_outcomes == 60
    assert count(lambda: client.release(handles)) == 0
    assert count(lambda: client.remove(URLS)) == 60
    assert partly.corpus.n_pages == 0


@pytest.mark.parametrize("is_late", [False, True])
def test_pages_are_leased_once_when_their_partitions_are_back(
    client: Client, partly: PartlyAway, is_late: bool
) -> None:
    client.add(URLS)
    partly.is_late, partly.n_calls = is_late, 2
    partly.calls.clear()
    orders = [one.order for one in client.lease_urls(URLS, seconds=900.0)]
    assert partly.calls == [("lease_urls", 60)] * 3
    assert [None if one is None else one.url for one in orders] == URLS
    assert partly.corpus.stats().in_flight == 60


def test_a_lease_does_not_wait_for_most_of_its_time(client: Client, partly: PartlyAway) -> None:
    client.add(URLS)
    is_away = np.isin(partly.partitions(URLS), partly.away)
    partly.n_calls = 1_000_000
    answers = client.lease_urls(URLS, seconds=2.0)
    assert [one.order is None for one in answers] == is_away.tolist()
    assert {one.why for one in answers if one.order is None} == {Why.UNAVAILABLE}


def test_values_of_pages_are_set_although_an_owner_ends_between_two_of_them(
    client: Client, partly: PartlyAway
) -> None:
    client.add(URLS)
    set_each, has_ended = partly.set_each, threading.Event()

    def end_before_cost(urls: Any, **columns: Any) -> Any:
        if "cost" in columns and not has_ended.is_set():
            has_ended.set()
            partly.n_calls = 1
        return set_each(urls, **columns)

    partly.set_each = end_before_cost  # type: ignore[method-assign]
    assert client.set_each(URLS, importance=[3.0] * 60, cost=[2.0] * 60) == 60
    assert has_ended.is_set()
    rows = [row for one in partly.corpus.pages(["importance", "cost"]) for row in one.to_pylist()]
    assert {round(row["cost"], 1) for row in rows} == {2.0}
    assert {round(row["importance"], 1) for row in rows} == {3.0}


def test_requests_with_a_key_are_repeated_as_a_whole_and_count_once(
    client: Client, partly: PartlyAway
) -> None:
    client.add(URLS)
    corpus = partly.corpus
    partly.n_calls = 2
    signalled = client.signal(URLS, source="feed")
    assert (int(signalled), signalled.n_unknown) == (60, 0)
    assert signalled.rows.tolist() == [DONE] * 60
    assert corpus.stats().n_signals == 60
    assert partly.calls[-3:] == [("signal", 60)] * 3
    partly.n_calls = 1
    assert client.requests(URLS, 10, request="mine") == 60
    importance = [page["importance"] for page in rows_of(corpus)]
    assert client.requests(URLS, 10, request="mine").rows.tolist() == [DUPLICATE] * 60
    assert [page["importance"] for page in rows_of(corpus)] == importance


def rows_of(corpus: Corpus) -> list[dict[str, Any]]:
    return [row for batch in corpus.pages(["url", "importance"]) for row in batch.to_pylist()]


def test_rows_of_an_owner_that_was_only_late_count_once(client: Client, partly: PartlyAway) -> None:
    partly.is_late = True
    is_away = np.isin(partly.partitions(URLS), partly.away)

    def repeat(call: Callable[[], Any], again: RowStatus) -> Any:
        partly.n_calls = 1
        found = call()
        assert found.rows.tolist() == np.where(is_away, again, DONE).tolist()
        return found

    added = repeat(lambda: client.add(URLS), DUPLICATE)
    assert added.n_added + added.n_known == partly.corpus.n_pages == 60
    repeat(lambda: client.signal(URLS, source="feed"), DUPLICATE)
    assert partly.corpus.stats().n_signals == 60
    orders = sorted(client.lease(60), key=lambda order: URLS.index(str(order.url)))
    outcomes = [Outcome(handle=one.handle, digest=b"1") for one in orders]
    repeat(lambda: client.report(outcomes), DUPLICATE)
    assert partly.corpus.stats().n_outcomes == 60
    repeat(lambda: client.remove(URLS), UNKNOWN)


@pytest.mark.parametrize("options", [{"retry_seconds": 0.3}, {"row_retry_seconds": 0.3}])
def test_rows_that_stay_away_are_returned_as_such(
    server: RunningServer, partly: PartlyAway, options: dict[str, Any]
) -> None:
    partly.n_calls = 1_000
    is_away = np.isin(partly.partitions(URLS), partly.away)
    with Client(f"http://127.0.0.1:{server.port}/v1/corpora/news", **options) as client:
        added = client.add(URLS)
    assert added.rows.tolist() == np.where(is_away, AWAY, DONE).tolist()
    assert tuple(added) == (60 - is_away.sum(), 0, 0)
    assert 2 < len(partly.calls) < 30


@pytest.mark.parametrize("options", [{"retry_seconds": 0.0}, {"row_retry_seconds": 0.0}])
def test_a_client_may_send_rows_once(
    server: RunningServer, partly: PartlyAway, options: dict[str, Any]
) -> None:
    partly.n_calls = 1_000
    with Client(f"http://127.0.0.1:{server.port}/v1/corpora/news", **options) as client:
        assert AWAY in client.add(URLS).rows
    assert partly.calls == [("add", 60)]


def test_an_async_client_sends_rows_again(server: RunningServer, partly: PartlyAway) -> None:
    partly.n_calls = 3

    async def add() -> Any:
        async with AsyncClient(f"http://127.0.0.1:{server.port}") as client:
            return await client.add(URLS)

    assert tuple(asyncio.run(add())) == (60, 0, 0)


def test_what_was_done_is_returned_if_the_server_ends_meanwhile(
    proxy: UnreliableProxy, partly: PartlyAway
) -> None:
    add = partly.add

    def add_and_end(*args: Any, **columns: Any) -> Any:
        proxy.faults.extend(["refuse"] * 1_000)
        return add(*args, **columns)

    partly.n_calls = 1
    partly.add = add_and_end  # type: ignore[method-assign]
    with Client(proxy.url, retry_seconds=0.3) as client:
        added = client.add(URLS)
    assert AWAY in added.rows
    assert added.n_added == partly.corpus.n_pages > 0


# ---------------------------------------------------------------------- work


def fetch(order: Order) -> Outcome:
    return Outcome(digest=str(order.url).encode())


def test_work_reports_again_what_was_away(client: Client, partly: PartlyAway) -> None:
    client.add(URLS)
    client.set(URLS, min_age="1d")
    partly.names, partly.n_calls = {"report"}, 4
    counts = client.work(fetch, concurrency=10, until_idle=True)
    assert counts == (60, 60, 0, 0)
    stats = partly.corpus.stats()
    assert (stats.n_outcomes, stats.in_flight) == (60, 0)


def test_work_keeps_orders_whose_leases_cannot_be_extended_now(
    client: Client, partly: PartlyAway
) -> None:
    client.add(URLS)
    client.set(URLS, min_age="1d")
    partly.names, partly.n_calls, partly.away = {"extend"}, 1, [0, 1, 2, 3]
    begun = threading.Event()

    def slow(order: Order) -> Outcome:
        if not begun.is_set():
            begun.set()
            while partly.n_calls:
                threading.Event().wait(0.01)
        return fetch(order)

    counts = client.work(slow, concurrency=1, seconds=6.0, until_idle=True)
    assert counts.n_counted == 60
    assert partly.corpus.stats().n_ordered == 60


def test_work_that_ends_says_what_was_not_reported(
    server: RunningServer, partly: PartlyAway
) -> None:
    stop = threading.Event()
    with Client(f"http://127.0.0.1:{server.port}", retry_seconds=0.3) as client:
        client.add(URLS)
        partly.names, partly.n_calls = {"report"}, 1_000_000
        n_here = int((~np.isin(partly.partitions(URLS), partly.away)).sum())

        def fetch_and_stop(order: Order) -> Outcome:
            stop.set()
            return fetch(order)

        with pytest.raises(ServiceUnavailable) as caught:
            client.work(fetch_and_stop, concurrency=60, stop=stop)
    assert f"{60 - n_here} outcomes were not reported" in "".join(caught.value.__notes__)
    assert partly.corpus.stats().n_outcomes == n_here
