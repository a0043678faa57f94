"""A partition of the worker that was asked delays nobody beyond the deadline either."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from recrawl import Outcome
from recrawl.cluster.api import own_calls
from recrawl.corpus import Orders, RowStatus
from recrawl.errors import ServiceUnavailable
from recrawl.messages.enums import Why
from recrawl.node.node import Node
from tests.unit.cluster.api.workers import PATIENT, Worker, Workers

pytestmark = pytest.mark.slow_without_jit

URLS = [f"https://h{i % 40}.example/page/{i}" for i in range(200)]
WAIT_SECONDS = 300.0
# Deadlines of calls to partitions that cannot answer.
SHORT = replace(PATIENT, own_seconds_max=0.5, own_lease_seconds_max=0.5)


@contextmanager
def stuck(node: Node) -> Iterator[None]:
    """Keep a node from doing anything, as one that waits for its broker does."""
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with node.lock:
            is_held.set()
            is_over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def wait_until(is_true: Callable[[], Any]) -> None:
    ends_at = time.monotonic() + WAIT_SECONDS
    while not is_true():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def wait_for_late_calls(worker: Worker) -> None:
    wait_until(lambda: not worker.shared._split_calls.own._n_late)


@pytest.fixture
def worker(workers: Workers) -> Worker:
    assert workers[0].shared.add(URLS).n_added == 200
    return workers[0]


def test_rows_of_other_workers_do_not_wait(worker: Worker) -> None:
    n_here = worker.corpus.n_pages
    with stuck(worker.corpus.nodes[3]):
        worker.calls.settings = SHORT
        added = worker.shared.add([f"{url}/new" for url in URLS])
        assert (added.rows == RowStatus.UNAVAILABLE).sum() == n_here
        assert (added.rows == RowStatus.DONE).sum() == 200 - n_here
        # From now on no call waits for its deadline, however long that is.
        worker.calls.settings = PATIENT
        for _ in range(3):
            signalled = worker.shared.signal(URLS, source="sitemap")
            assert (signalled.rows == RowStatus.UNAVAILABLE).sum() == n_here
    # The late call has its effect, and its rows may be sent again.
    wait_for_late_calls(worker)
    again = worker.shared.add([f"{url}/new" for url in URLS])
    assert (again.rows == RowStatus.DUPLICATE).all()


def test_all_rows_of_a_call_may_be_late(worker: Worker) -> None:
    (url,) = [url for url in URLS if worker.shared._partitions([url], None)[0] == 3][:1]
    with stuck(worker.corpus.nodes[3]):
        worker.calls.settings = SHORT
        reported = worker.shared.report(Outcome(url=url, digest=b"x", fetched_at_ms=1))
        assert reported.is_unavailable.tolist() == [True]
    wait_for_late_calls(worker)


def test_late_orders_of_this_worker_are_released(worker: Worker) -> None:
    n_here = worker.corpus.n_pages
    with stuck(worker.corpus.nodes[3]):
        worker.calls.settings = SHORT
        orders = worker.shared.lease(400)
        assert isinstance(orders, Orders)
        assert len(orders) == 200 - n_here
        assert orders.shortfall is not None
        assert [one.why for one in orders.shortfall.reasons] == [Why.UNAVAILABLE]
    wait_for_late_calls(worker)
    worker.calls.settings = PATIENT
    wait_until(lambda: not worker.corpus.stats().in_flight)
    assert len(worker.shared.lease(400)) == n_here


def test_a_call_that_was_never_begun_has_no_effect(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = own_calls.OwnCalls(worker.corpus)
    monkeypatch.setattr(own._threads, "_n_threads_max", 1)
    is_over = threading.Event()
    first, second = own.begin(is_over.wait), own.begin(is_over.set)
    with pytest.raises(ServiceUnavailable, match="not answered in time"):
        own.result_of(first, 0.01)
    with pytest.raises(ServiceUnavailable, match="not answered in time"):
        own.result_of(second, 0.01)
    assert second.cancelled()
    assert not is_over.is_set()
    is_over.set()
    own.close()
    with pytest.raises(ServiceUnavailable, match="is stopping"):
        own.begin(is_over.set)


def test_a_slow_call_does_not_shorten_the_next_one(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that a busy machine delays follow each other after the broker has come back."""
    monkeypatch.setattr(own_calls, "_WAIT_SECONDS", 0.01)
    own = own_calls.OwnCalls(worker.corpus)
    is_back, is_over = threading.Event(), threading.Event()
    stuck_call, slow_call = own.begin(is_back.wait), own.begin(is_over.wait)
    with pytest.raises(ServiceUnavailable, match="not answered in time"):
        own.result_of(stuck_call, 0.02)  # its whole deadline
    with pytest.raises(ServiceUnavailable, match="not answered in time"):
        own.result_of(slow_call, WAIT_SECONDS)  # much less than its deadline
    is_back.set()
    wait_until(lambda: not own._n_late)
    assert not slow_call.done()
    pause = threading.Event()
    assert own.result_of(own.begin(lambda: pause.wait(0.2)), WAIT_SECONDS) is False
    is_over.set()
    own.close()
