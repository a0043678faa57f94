"""Calls that can wait give way to leases, piece by piece, but not for ever."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from recrawl import giving_way
from recrawl.corpus import Corpus
from recrawl.giving_way import LeasesUnderWay, Patience, give_way
from tests.manual_clock import ManualClock

PATIENCE_SECONDS = 60.0
OTHER_THREAD = -1


class Clock:
    """Time that passes only while somebody sleeps; it may do something meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.n_pauses = 0
        self.meanwhile: Callable[[], None] = lambda: None
        monkeypatch.setattr(
            giving_way, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.n_pauses += 1
        self.meanwhile()


@pytest.fixture
def clock_of_pauses(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_piece_begins_when_the_lease_has_ended_and_its_answer_has_left(
    clock_of_pauses: Clock,
) -> None:
    leases = LeasesUnderWay()
    leases._threads.add(OTHER_THREAD)

    def end_at_tenth() -> None:
        if clock_of_pauses.n_pauses == 10:
            leases._threads.clear()

    clock_of_pauses.meanwhile = end_at_tenth
    with leases.go_first(PATIENCE_SECONDS):
        assert clock_of_pauses.n_pauses == 11  # the last one is for the answer
        give_way()
        assert clock_of_pauses.n_pauses == 11


def test_patience_ends_however_many_leases_there_are(clock_of_pauses: Clock) -> None:
    leases = LeasesUnderWay()
    leases._threads.add(OTHER_THREAD)
    with leases.go_first(0.25):
        assert clock_of_pauses.now == pytest.approx(1_000.25, abs=0.01)
        for _ in range(1_000):
            give_way()
        assert clock_of_pauses.now == pytest.approx(1_000.25, abs=0.01)


def test_without_a_promise_nothing_is_waited_for(clock_of_pauses: Clock) -> None:
    leases = LeasesUnderWay()
    with leases:
        give_way()
        with leases.go_first(0.0):
            give_way()
        give_way()
    assert clock_of_pauses.n_pauses == 0


def test_a_promise_is_of_one_thread_and_ends_with_the_call(clock_of_pauses: Clock) -> None:
    leases = LeasesUnderWay()

    def fail_beside_another_thread() -> None:
        with leases.go_first(PATIENCE_SECONDS), leases:
            other = threading.Thread(target=give_way)
            other.start()
            other.join()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_beside_another_thread()
    with leases:
        give_way()
    assert clock_of_pauses.n_pauses == 0


def test_a_lease_of_the_thread_itself_is_not_waited_for(
    open_corpus: Callable[..., Corpus], clock: ManualClock, clock_of_pauses: Clock
) -> None:
    """It holds the lock of its node, where it logs a sample of the state once a minute."""
    corpus = open_corpus()
    corpus.add([f"https://site.example/{i}" for i in range(4)])
    clock.pass_seconds(120)
    with corpus.leases_under_way.go_first(PATIENCE_SECONDS):
        assert corpus.lease(1)
    assert clock_of_pauses.n_pauses == 0


def test_a_lease_that_fails_is_no_longer_under_way() -> None:
    leases = LeasesUnderWay()

    def fail() -> None:
        with leases:
            assert leases.is_any
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not leases.is_any


@pytest.mark.parametrize(
    "lease",
    [
        lambda corpus: corpus.lease(1),
        lambda corpus: corpus.lease(2_000),
        lambda corpus: corpus.lease_each([1, 1]),
        lambda corpus: corpus.lease_table(1),
        lambda corpus: corpus.lease_urls(["https://site.example/1"]),
    ],
    ids=["few", "many", "each", "table", "urls"],
)
def test_every_lease_is_seen_while_it_runs(
    open_corpus: Callable[..., Corpus], lease: Callable[[Corpus], Any]
) -> None:
    corpus = open_corpus()
    corpus.add([f"https://site.example/{i}" for i in range(4)])
    seen: list[bool] = []
    now_ms = corpus.time.now_ms

    def watch() -> int:
        seen.append(corpus.leases_under_way.is_any)
        return now_ms()

    corpus.time.now_ms = watch  # type: ignore[method-assign]
    assert not corpus.leases_under_way.is_any
    lease(corpus)
    assert any(seen)
    assert not corpus.leases_under_way.is_any


@pytest.mark.parametrize(
    ("read", "n_pieces_min"),
    [
        (lambda corpus: corpus.sample(), 6),
        (lambda corpus: corpus.plan_targets(), 10),
        (lambda corpus: corpus.history("https://site1.example/1"), 3),
    ],
    ids=["sample", "plan", "history"],
)
def test_what_pages_read_is_read_in_pieces_that_give_way(
    open_corpus: Callable[..., Corpus],
    clock: ManualClock,
    clock_of_pauses: Clock,
    read: Callable[[Corpus], Any],
    n_pieces_min: int,
) -> None:
    corpus = open_corpus(corpus={"partitions": 2})
    corpus.add([f"https://site{i}.example/{j}" for i in range(10) for j in range(10)])
    clock.pass_seconds(60)
    corpus.lease(10)
    leases = corpus.leases_under_way
    with leases.go_first(PATIENCE_SECONDS):
        leases._threads.add(OTHER_THREAD)
        # Each lease ends as soon as it is waited for, and the next one comes at once.
        clock_of_pauses.meanwhile = lambda: (
            leases._threads.clear() if leases.is_any else leases._threads.add(OTHER_THREAD)
        )
        read(corpus)
        leases._threads.clear()
    assert clock_of_pauses.n_pauses >= 2 * n_pieces_min


def test_nobody_waits_for_leases_while_holding_the_lock_of_a_node(
    open_corpus: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus(corpus={"partitions": 2})
    corpus.add([f"https://site{i}.example/{j}" for i in range(10) for j in range(10)])
    corpus.lease(10)

    def is_free(lock: Any) -> bool:
        taken = threading.Event()

        def take() -> None:
            with lock:
                taken.set()

        threading.Thread(target=take, daemon=True).start()
        return taken.wait(timeout=10)

    held: list[int] = []
    pause_seconds = Patience.pause_seconds

    def look(patience: Patience) -> float:
        held.extend(node.partition for node in corpus.nodes if not is_free(node.lock))
        return pause_seconds(patience)

    monkeypatch.setattr(Patience, "pause_seconds", look)
    with corpus.leases_under_way.go_first(PATIENCE_SECONDS):
        corpus.sample()
        corpus.plan()
        corpus.plan_targets()
        corpus.history("https://site1.example/1")
        corpus.last_change("https://site1.example/1")
        corpus.hosts()
    assert held == []
