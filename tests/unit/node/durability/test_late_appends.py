"""Appends that nobody waits for have their effect once, whatever happens meanwhile."""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recrawl.corpus.leasing.repeated import is_repeated
from recrawl.errors import LedgerError, OwnershipLost
from recrawl.ledger import AppendedSpan, Record, SnapshotFolder
from recrawl.node.clock import NodeTime
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.recovery import Partition, recover_node
from recrawl.node.durability.snapshotter import take_snapshot
from recrawl.node.node import Node, apply_entry
from recrawl.node.numbering import Namer, PagesToAdd
from recrawl.node.records import RequestKey, entry_of
from recrawl.shard import Ordered, Outcomes, RequestsSeen, event_of
from recrawl.shard.events import select_rows
from tests.manual_clock import ManualClock
from tests.unit.corpus.test_shared_log import ListLedger

pytestmark = pytest.mark.slow_without_jit
REQUEST = RequestKey(b"a key", b"a digest")
WHAT = [
    "add",
    "order",
    "order",
    "report",
    "request",
    "request",
    "tick",
    "answer",
    "answer",
    "catch_up",
    "catch_up",
    "claim",
    "snapshot",
    "reopen",
    "follow",
    "brokers",
]


class WholeLog(ListLedger):
    """A log that keeps all records, so that all of it can be replayed."""

    def truncate(self, position: int) -> None:
        pass


class SlowLedger:
    """One writer's view of a log, whose appends may be late, be lost, or fail."""

    def __init__(self, log: ListLedger, slow: "Slow") -> None:
        self._log = log
        self._slow = slow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    @property
    def end(self) -> int:
        if self._slow.is_away:
            raise LedgerError("the partition has no leader")
        return self._log.end

    def begin_append(self, records: Sequence[Record]) -> "SlowAppend":
        append = SlowAppend(self._log, [*records])
        how = self._slow.choose()
        if how in ("at once", "unanswered"):
            append.land()
        append.is_answered = how in ("at once", "fails")
        if not append.is_answered:
            self._slow.held.append(append)
        return append

    def append(self, records: Sequence[Record]) -> AppendedSpan:
        if self._slow.is_away:
            raise LedgerError("the partition has no leader")
        return self._log.append(records)


class SlowAppend:
    def __init__(self, log: ListLedger, records: list[Record]) -> None:
        self._log = log
        self._records = records
        self._span: AppendedSpan | None = None
        self.is_answered = False

    def land(self) -> None:
        if self._span is None:
            self._span = self._log.append(self._records)

    def wait(self, seconds_max: float) -> bool:
        return self.is_answered

    def finish(self) -> AppendedSpan:
        assert self.is_answered, "a call waits"
        if self._span is None:
            raise LedgerError("the brokers have not written the records")
        return self._span


class Slow:
    """What becomes of appends."""

    def __init__(self, choose: Callable[[], str] = lambda: "at once") -> None:
        self.choose = choose
        self.held: list[SlowAppend] = []
        self.is_away = False


def node_of(log: ListLedger, folder: Path, slow: Slow) -> Node:
    ledger = SlowLedger(log, slow)
    partition = Partition(
        0,
        ledger,
        folder / "store",
        SnapshotFolder(folder / "snapshots"),
        is_shared=True,
        reopen_ledger=lambda: SlowLedger(log, slow),
    )
    return recover_node(partition)


class Owner:
    """A node that owns the partition at times, with what it has handed out."""

    def __init__(self, number: int, log: ListLedger, folder: Path, clock: ManualClock) -> None:
        self.number, self.log, self.folder = number, log, folder
        self.slow = Slow()
        self.time = NodeTime(clock, 0)
        self.handed_out: list[tuple[int, int]] = []
        self.open()

    def open(self) -> None:
        self.node = node_of(self.log, self.folder, self.slow)
        self.node.append_seconds_max = 1.5
        self.namer = Namer(self.node, CorpusConfig())

    def claim(self) -> None:
        self.node.append_seconds_max = float("inf")
        self.node.follow()
        self.time.restart(max(self.node.shard.now_ms, self.time.now_ms()))
        # As `append_seconds_max` is infinite, the claim is a plain append.
        self.node.claim(self.number, self.time)
        self.node.append_seconds_max = 1.5

    def add(self, urls: list[str]) -> Any:
        n = len(urls)
        nan = np.full(n, np.nan, np.float32)
        new = PagesToAdd(pa.array(urls), pa.nulls(n, pa.string()), nan, nan)
        return self.namer.add(new, self.time)

    def order(self, n: int) -> None:
        ordered = self.node.order(n, self.time, lease_seconds=3600)
        self.handed_out += zip(ordered.order.tolist(), ordered.page.tolist(), strict=True)

    def request(self, key: RequestKey, page: int) -> None:
        node = self.node
        now_ms = node.tick(self.time)
        with node.lock:
            if not is_repeated(node, key):
                event = event_of(RequestsSeen, page=page, n_requests=1, at_ms=now_ms)
                node.submit([event], request=key)

    def report(self, draw: random.Random) -> None:
        if not self.handed_out:
            return
        some = draw.sample(self.handed_out, min(3, len(self.handed_out)))
        some = [*{page: (order, page) for order, page in some}.values()]
        now_ms = self.node.tick(self.time)
        event = event_of(
            Outcomes,
            page=np.array([page for _, page in some]),
            order=np.array([order for order, _ in some]),
            fetched_at_ms=now_ms,
            verdict=draw.choice([0, 1]),
            divergence=np.nan,
            last_modified_at_ms=0,
            status_class=2,
            retry_after_seconds=0.0,
        )
        self.node.submit([event])

    def answer(self, draw: random.Random) -> None:
        """Let the brokers answer a part of what is late."""
        for append in self.slow.held:
            if draw.random() < 0.7:
                if draw.random() < 0.7:
                    append.land()
                append.is_answered = True
        self.slow.held = [one for one in self.slow.held if not one.is_answered]


def replay(log: ListLedger, folder: Path) -> tuple[Node, dict[int, int], int]:
    """Return a node that has read the log, its valid orders, and the number of valid requests."""
    node = node_of(log, folder, Slow())
    other = node_of(ListLedger(), folder / "empty", Slow())
    valid: dict[int, int] = {}
    n_requests = 0
    for record in log.records:
        entry = entry_of(record)
        applied = apply_entry(other.shard, entry)
        if isinstance(entry, Ordered):
            rows = select_rows(entry, applied.valid)
            valid.update(zip(rows.order.tolist(), rows.page.tolist(), strict=True))
        if isinstance(entry, RequestsSeen):
            n_requests += int(applied.valid.sum())
    assert other.shard.digest() == node.shard.digest()
    return node, valid, n_requests


def one_owner(tmp_path: Path, clock: ManualClock) -> Owner:
    owner = Owner(1, WholeLog(), tmp_path / "one", clock)
    owner.claim()
    owner.add(["https://a.example/"])
    return owner


def test_an_error_while_an_append_is_waited_for_stops_the_node(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records may be in the log: a repeated request must find them before it is done."""
    owner = one_owner(tmp_path, clock)

    def interrupt(_: SlowAppend, seconds_max: float) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SlowAppend, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            owner.request(REQUEST, 0)
    with pytest.raises(LedgerError, match="tries again by itself"):
        owner.request(REQUEST, 0)
    clock.pass_seconds(2)
    owner.node.catch_up(owner.time.now_ms())
    owner.request(REQUEST, 0)
    _, _, n_requests = replay(owner.log, tmp_path / "other")
    assert n_requests == 1


def test_the_next_call_takes_an_answer_that_has_come(tmp_path: Path, clock: ManualClock) -> None:
    """It need not wait until the thread that ticks the node looks."""
    owner = one_owner(tmp_path, clock)
    owner.slow.choose = lambda: "late"
    with pytest.raises(LedgerError, match="waits until the brokers have its last records"):
        owner.request(REQUEST, 0)
    owner.slow.choose = lambda: "at once"
    with pytest.raises(LedgerError, match="waits until the brokers have its last records"):
        owner.request(REQUEST, 0)
    (late,) = owner.slow.held
    late.land()
    late.is_answered = True
    # No time has passed, so no tick is due.
    owner.request(REQUEST, 0)
    owner.order(1)
    assert owner.handed_out
    _, valid, n_requests = replay(owner.log, tmp_path / "other")
    assert n_requests == 1
    assert [*valid.items()] == owner.handed_out


def test_a_node_that_goes_on_is_not_stopped_by_an_older_attempt(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = one_owner(tmp_path, clock)
    node = owner.node
    owner.slow.choose = lambda: "fails"
    with pytest.raises(LedgerError):
        owner.request(REQUEST, 0)
    owner.slow.choose = lambda: "at once"
    clock.pass_seconds(2)
    now_ms = owner.time.now_ms()

    def end(ledger: SlowLedger) -> int:
        monkeypatch.undo()
        node.resume(now_ms)  # as another thread may, while the brokers do not answer this one
        assert not node.has_stopped
        raise LedgerError("the brokers do not answer")

    monkeypatch.setattr(SlowLedger, "end", property(end))
    node.resume(now_ms)
    assert not node.has_stopped
    owner.request(REQUEST, 0)


def test_random_histories(tmp_path: Path, clock: ManualClock, seed: int) -> None:
    """Two owners whose appends are late, lost or unanswered agree with a replay of the log."""
    draw = random.Random(seed)
    log = WholeLog()
    owners = [Owner(i + 1, log, tmp_path / str(i), clock) for i in range(2)]
    owners[0].claim()
    owners[0].add([f"https://h{i % 7}.example/{i}" for i in range(60)])
    for owner in owners:
        owner.slow.choose = lambda: draw.choices(
            ["at once", "late", "unanswered", "fails"], [12, 2, 2, 1]
        )[0]
    keys: dict[RequestKey, bool] = {}
    for step in range(120):
        owner = draw.choice(owners) if draw.random() < 0.4 else owners[0]
        clock.pass_seconds(draw.choice([0, 0.01, 0.1, 1.2, 5]))
        with suppress(LedgerError, OwnershipLost):
            do_something(draw, step, owner, owners[0], keys)
    for owner in owners:
        owner.slow.is_away = False
        owner.slow.choose = lambda: "at once"
        for append in owner.slow.held:
            append.land()
            append.is_answered = True
    for owner in owners:
        for _ in range(3):
            clock.pass_seconds(100)
            with suppress(OwnershipLost):
                owner.node.catch_up(owner.time.now_ms())
        assert not owner.node.has_stopped
    for owner in owners:
        owner.node.follow()
    other, valid, n_requests = replay(log, tmp_path / "other")
    for owner in owners:
        assert owner.node.position == other.position
        assert owner.node.shard.digest() == other.shard.digest()
        for order, page in owner.handed_out:
            assert valid.get(order) == page
    assert sum(keys.values()) <= n_requests <= len(keys)


def do_something(
    draw: random.Random, step: int, owner: Owner, sender: Owner, keys: dict[RequestKey, bool]
) -> None:
    """Do something at random on a node; requests with keys are all sent to one of them."""
    node = owner.node
    match draw.choice(WHAT):
        case "add":
            owner.add([f"https://h{draw.randrange(12)}.example/{step}/{i}" for i in range(3)])
        case "order":
            owner.order(draw.randrange(1, 6))
        case "report":
            owner.report(draw)
        case "request":
            key = draw.choice([RequestKey(b"%d" % step, b"digest"), *keys])
            keys.setdefault(key, False)
            sender.request(key, 0)
            keys[key] = True
        case "tick":
            node.tick(owner.time)
        case "answer":
            owner.answer(draw)
        case "catch_up":
            node.catch_up(owner.time.now_ms())
        case "claim" if draw.random() < 0.4:
            owner.claim()
        case "snapshot":
            take_snapshot(node, SnapshotFolder(owner.folder / "snapshots"))
        case "reopen" if draw.random() < 0.3 and not owner.slow.is_away:
            node.close()
            for append in owner.slow.held:
                # What landed after a restart would be a second request for the new node.
                if draw.random() < 0.5:
                    append.land()
            owner.slow.held.clear()
            owner.open()
        case "follow":
            node.follow()
        case "brokers":
            owner.slow.is_away = draw.random() < 0.5
