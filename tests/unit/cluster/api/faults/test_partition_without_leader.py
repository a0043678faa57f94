"""A partition whose log has no leader holds up no other partition of the same worker."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recrawl
from recrawl import Outcome
from recrawl.cluster.api.cluster_corpus import ClusterCorpus
from recrawl.cluster.api.credentials import ClusterKeys, rotate_cluster_keys
from recrawl.cluster.api.own_calls import OwnCalls
from recrawl.cluster.api.owners import TableOfOwners
from recrawl.cluster.api.worker_calls import ForwardingSettings, WorkerCalls
from recrawl.corpus import Corpus, CorpusConfig, Order, Orders, RowStatus
from recrawl.errors import LedgerError
from recrawl.ledger import AppendedSpan, Ledger, Record
from recrawl.messages.enums import Why
from recrawl.node.orders import partition_in
from recrawl.node.routing import as_array
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.slow_without_jit

SICK = 2
URLS = [f"https://h{i % 40}.example/page/{i}" for i in range(200)]
WAIT_SECONDS = 300.0
# Only the time for an append is short: calls have deadlines that a busy machine keeps.
SETTINGS = ForwardingSettings(
    own_seconds_max=WAIT_SECONDS, own_lease_seconds_max=WAIT_SECONDS, own_append_seconds_max=0.2
)


class HeldLedger:
    """A ledger whose appends may wait for a leader, or fail."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.has_leader = threading.Event()
        self.has_leader.set()
        self.fails = False
        self.n_begun = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def begin_append(self, records: Sequence[Record]) -> "HeldAppend":
        self.n_begun += 1
        return HeldAppend(self, records)

    def append(self, records: Sequence[Record]) -> AppendedSpan:
        return self.begin_append(records).finish()


class HeldAppend:
    def __init__(self, held: HeldLedger, records: Sequence[Record]) -> None:
        self._held = held
        self._records = records
        self._begun_at = time.monotonic()

    def wait(self, seconds_max: float) -> bool:
        left = self._begun_at + seconds_max - time.monotonic()
        return self._held.fails or self._held.has_leader.wait(max(left, 0.0))

    def finish(self) -> AppendedSpan:
        if self._held.fails or not self._held.has_leader.wait(WAIT_SECONDS):
            raise LedgerError("an append failed: the partition has no leader")
        return self._held._ledger.append(self._records)


class Faulty:
    """A worker with all partitions, of which one may lose its leader."""

    def __init__(self, corpus: Corpus, calls: WorkerCalls, clock: ManualClock) -> None:
        self.corpus = corpus
        self.shared = ClusterCorpus(corpus, TableOfOwners("a"), calls)
        self.clock = clock
        self.node = corpus.nodes[SICK]
        self.ledgers = {}
        for node in corpus.nodes:
            self.ledgers[node.partition] = held = HeldLedger(node.ledger)
            node.ledger = held
        assert self.shared.add(URLS).n_added == len(URLS)
        self.is_sick = self.shared._partitions(as_array(URLS), None) == SICK
        clock.pass_seconds(2)
        self.orders = self.shared.lease(80, seconds=3600)
        assert len(self.orders) == 80

    @property
    def ledger(self) -> HeldLedger:
        return self.ledgers[SICK]

    def heal(self) -> None:
        self.ledger.fails = False
        self.ledger.has_leader.set()
        self.clock.pass_seconds(5)
        self.corpus.tick(SICK)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def faulty(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    # Otherwise a worker that has all partitions makes calls without a deadline.
    monkeypatch.setattr(OwnCalls, "_is_alone", False)
    rotate_cluster_keys(tmp_path / "keys", time.time_ns() // 1_000_000)
    calls = WorkerCalls("news", "a", ClusterKeys(tmp_path / "keys"), SETTINGS)
    config = CorpusConfig.from_dict(
        {
            "corpus": {"partitions": 4},
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
        }
    )
    found = Faulty(recrawl.open(tmp_path / "corpus", config, clock=clock), calls, clock)
    try:
        yield found
    finally:
        found.ledger.has_leader.set()
        found.shared.close()


def of_sick(orders: Sequence[Order]) -> Any:
    return np.array([partition_in(one.handle) == SICK for one in orders])


def add(faulty: Faulty) -> tuple[Any, Any]:
    return faulty.shared.add([f"{url}/new" for url in URLS]).rows, faulty.is_sick


def signal(faulty: Faulty) -> tuple[Any, Any]:
    return faulty.shared.signal(URLS, source="sitemap").rows, faulty.is_sick


def requests(faulty: Faulty) -> tuple[Any, Any]:
    return faulty.shared.requests(URLS).rows, faulty.is_sick


def fetch_now(faulty: Faulty) -> tuple[Any, Any]:
    return faulty.shared.fetch_now(URLS).rows, faulty.is_sick


def set_pages(faulty: Faulty) -> tuple[Any, Any]:
    return faulty.shared.set(URLS, importance=3.0).rows, faulty.is_sick


def set_each(faulty: Faulty) -> tuple[Any, Any]:
    return faulty.shared.set_each(URLS, importance=[2.0] * len(URLS)).rows, faulty.is_sick


def remove(faulty: Faulty) -> tuple[Any, Any]:
    return faulty.shared.remove(URLS).rows, faulty.is_sick


def extend(faulty: Faulty) -> tuple[Any, Any]:
    handles = [one.handle for one in faulty.orders]
    return faulty.shared.extend(handles, seconds=7200).rows, of_sick(faulty.orders)


def release(faulty: Faulty) -> tuple[Any, Any]:
    handles = [one.handle for one in faulty.orders]
    return faulty.shared.release(handles).rows, of_sick(faulty.orders)


def report(faulty: Faulty, step: int = 1, **content: Any) -> tuple[Any, Any]:
    orders = faulty.orders[::step]
    outcomes = [Outcome(handle=one.handle, **content) for one in orders]
    reported = faulty.shared.report(outcomes)
    rows = np.where(reported.counted, RowStatus.DONE, RowStatus.UNKNOWN)
    rows = np.where(reported.is_unavailable, RowStatus.UNAVAILABLE, rows)
    return rows, of_sick(orders)


def report_many(faulty: Faulty) -> tuple[Any, Any]:
    return report(faulty, body=b"<p>text</p>", content_type="text/html")


def report_few(faulty: Faulty) -> tuple[Any, Any]:
    return report(faulty, 7, digest=b"x")


def lease_urls(faulty: Faulty) -> tuple[Any, Any]:
    free = sorted({*URLS} - {one.url for one in faulty.orders})
    leased = faulty.shared.lease_urls(free)
    is_missing = [one is None for one in leased.order]
    rows = np.where(is_missing, RowStatus.UNAVAILABLE, RowStatus.DONE)
    return rows, faulty.shared._partitions(as_array(free), None) == SICK


CALLS = [
    add,
    signal,
    requests,
    fetch_now,
    set_pages,
    set_each,
    remove,
    extend,
    release,
    report_many,
    report_few,
    lease_urls,
]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_leaves_out_only_the_rows_of_that_partition(
    faulty: Faulty, call: Callable[[Faulty], tuple[Any, Any]], fails: bool
) -> None:
    faulty.clock.pass_seconds(2)  # so that the call logs ticks first
    faulty.ledger.has_leader.clear()
    faulty.ledger.fails = fails
    rows, is_sick = call(faulty)
    assert is_sick.any()
    assert not is_sick.all()
    assert (rows[is_sick] == RowStatus.UNAVAILABLE).all()
    assert (rows[~is_sick] == RowStatus.DONE).all()


@pytest.mark.parametrize("call", CALLS)
def test_the_append_of_the_rows_themselves_may_be_the_late_one(
    faulty: Faulty, call: Callable[[Faulty], tuple[Any, Any]]
) -> None:
    faulty.clock.pass_seconds(2)
    for node in faulty.corpus.nodes:
        node.tick(faulty.corpus.time)  # the call has no ticks to log
    faulty.ledger.has_leader.clear()
    rows, is_sick = call(faulty)
    assert (rows[is_sick] == RowStatus.UNAVAILABLE).all()
    assert (rows[~is_sick] == RowStatus.DONE).all()
    faulty.heal()
    assert not faulty.node.is_late


def test_a_lease_has_the_orders_of_the_other_partitions(faulty: Faulty) -> None:
    faulty.clock.pass_seconds(2)
    faulty.ledger.has_leader.clear()
    orders = faulty.shared.lease(400)
    assert isinstance(orders, Orders)
    held = {one.url for one in faulty.orders}
    n_free = sum(url not in held for url in URLS)
    n_sick = sum(url not in held for url, sick in zip(URLS, faulty.is_sick, strict=True) if sick)
    assert len(orders) == n_free - n_sick
    # The partition of the others is asked again as soon as it has a leader.
    faulty.heal()
    assert len(faulty.shared.lease(400)) == n_sick


def test_later_calls_do_not_wait_for_the_partition(faulty: Faulty) -> None:
    faulty.ledger.has_leader.clear()
    faulty.clock.pass_seconds(2)
    signal(faulty)
    n_begun = faulty.ledger.n_begun
    n_others = sum(held.n_begun for held in faulty.ledgers.values())
    for _ in range(3):
        faulty.clock.pass_seconds(2)
        for call in (add, signal, extend, fetch_now):
            call(faulty)
        faulty.shared.lease(5)
        faulty.corpus.tick(SICK)
    assert faulty.ledger.n_begun == n_begun
    assert sum(held.n_begun for held in faulty.ledgers.values()) > n_others
    # The worker does not give the partition away for that.
    assert SICK in faulty.corpus.owned_partitions()


def test_the_late_records_have_their_effect_when_the_leader_is_back(faulty: Faulty) -> None:
    for node in faulty.corpus.nodes:
        node.tick(faulty.corpus.time)
    faulty.ledger.has_leader.clear()
    rows, is_sick = add(faulty)
    assert (rows[is_sick] == RowStatus.UNAVAILABLE).all()
    faulty.heal()
    rows, _ = add(faulty)
    assert (rows == RowStatus.DUPLICATE).all()


def test_a_partition_whose_late_append_has_failed_goes_on(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a node while it is found out whether its partition has a leader."""
    ledger = faulty.ledger
    monkeypatch.setattr(faulty.node, "_reopen_ledger", lambda: ledger)
    ledger.has_leader.clear()
    faulty.clock.pass_seconds(2)
    signal(faulty)
    ledger.fails = True
    faulty.clock.pass_seconds(2)
    asks, may_answer = threading.Event(), threading.Event()

    def end(_: HeldLedger) -> int:
        asks.set()
        assert may_answer.wait(WAIT_SECONDS)
        return int(ledger._ledger.end)

    monkeypatch.setattr(HeldLedger, "end", property(end), raising=False)
    ticking = threading.Thread(target=faulty.corpus.tick, args=(SICK,))
    ticking.start()
    assert asks.wait(WAIT_SECONDS)
    rows, is_sick = signal(faulty)
    assert (rows == np.where(is_sick, RowStatus.UNAVAILABLE, RowStatus.DONE)).all()
    ledger.fails = False
    ledger.has_leader.set()
    may_answer.set()
    ticking.join(WAIT_SECONDS)
    faulty.clock.pass_seconds(2)
    rows, _ = signal(faulty)
    assert (rows == RowStatus.DONE).all()


def test_a_failed_partition_goes_on_while_leases_come_before_each_tick(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = faulty.ledger
    monkeypatch.setattr(faulty.node, "_reopen_ledger", lambda: ledger)
    ledger.fails = True
    faulty.clock.pass_seconds(2)
    signal(faulty)
    assert SICK not in faulty.corpus.owned_partitions()
    ledger.fails = False
    faulty.clock.pass_seconds(2)
    faulty.shared.lease(400)  # is refused, and counts as a tick
    faulty.corpus.tick(SICK)
    assert SICK in faulty.corpus.owned_partitions()
    rows, _ = signal(faulty)
    assert (rows == RowStatus.DONE).all()


def test_the_shortfall_of_a_lease_names_the_worker_if_all_partitions_have_stopped(
    faulty: Faulty,
) -> None:
    for held in faulty.ledgers.values():
        held.has_leader.clear()
    faulty.clock.pass_seconds(2)
    orders = faulty.shared.lease(5)
    assert not orders
    assert orders.shortfall is not None
    assert [one.why for one in orders.shortfall.reasons] == [Why.UNAVAILABLE]
    for held in faulty.ledgers.values():
        held.has_leader.set()
