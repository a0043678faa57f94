"""Small leases and reports of several threads go into one append to the log."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl.corpus import Corpus
from recrawl.errors import RecrawlError

CONFIG = {"politeness": {"delay": 0, "in_flight_max": 100, "burst": 100}}
DIGEST = b"0123456789abcdef"


@pytest.fixture(params=[1, 3])
def corpus(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Corpus]:
    config = CONFIG | {"corpus": {"partitions": request.param}}
    with recrawl.open(tmp_path / "corpus", recrawl.CorpusConfig.from_dict(config)) as corpus:
        corpus.add([f"https://{i}.example/" for i in range(60)])
        yield corpus


def do_together(corpus: Corpus, calls: list[Callable[[], Any]]) -> list[Any]:
    """Return the results of calls that all waited for the same one, in their order."""
    found: list[Any] = [None] * len(calls)
    queue = corpus._leasing._small_calls

    def work(i: int) -> None:
        try:
            found[i] = calls[i]()
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    with queue._lock:
        queue._is_busy = True
    for i, thread in enumerate(threads):
        thread.start()
        while len(queue._waiting) <= i:
            pass
    with queue._lock:
        queue._waiting[0].has_turn = True
    woken = queue._waiting[0].woken
    assert woken is not None
    woken.release()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return found


def outcome(order: recrawl.Order) -> recrawl.Outcome:
    return recrawl.Outcome(handle=order.handle, digest=DIGEST)


def test_leases_and_reports_share_an_append(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [corpus.lease(1)[0] for _ in range(6)]
    n_appends = [0] * len(corpus.nodes)
    for i, node in enumerate(corpus.nodes):

        def append(records: Any, i: int = i, own: Any = node.ledger.append) -> Any:
            n_appends[i] += 1
            return own(records)

        monkeypatch.setattr(node.ledger, "append", append)
        node._ticked_ms = 2**62  # no tick in between
    calls: list[Callable[[], Any]] = []
    for order in orders:
        calls += [partial(corpus.report, outcome(order)), partial(corpus.lease, 1)]
    found = do_together(corpus, calls)
    assert max(n_appends) == 1
    assert all(reported.counted.all() for reported in found[::2])
    handles = {order.handle for leased in found[1::2] for order in leased}
    assert len(handles) == 6
    assert not handles & {order.handle for order in orders}
    assert sum(int(node.shard.tables.registers.in_flight[0]) for node in corpus.nodes) == 6


def test_an_error_of_leases_leaves_reports_alone(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = corpus.lease(1)[0]

    def fail(calls: object) -> None:
        raise RecrawlError("no more order numbers")

    monkeypatch.setattr(corpus._leasing, "lease_all", fail)
    leased, reported = do_together(
        corpus, [lambda: corpus.lease(1), lambda: corpus.report(outcome(order))]
    )
    assert isinstance(leased, RecrawlError)
    assert reported.counted.all()


def test_an_error_of_a_report_is_that_of_its_caller(corpus: Corpus) -> None:
    order, other = corpus.lease(2)
    wrong = recrawl.Outcome(handle=order.handle, digest="no bytes")  # type: ignore[arg-type]
    calls: list[Callable[[], Any]] = [
        lambda: corpus.report(wrong),
        lambda: corpus.lease(2),
        lambda: corpus.report(outcome(other)),
    ]
    failed, leased, reported = do_together(corpus, calls)
    assert isinstance(failed, (TypeError, ValueError))
    assert len(leased) == 2
    assert reported.counted.all()


def test_leases_of_different_length_are_not_decided_together(corpus: Corpus) -> None:
    short, long = do_together(
        corpus, [lambda: corpus.lease(1, seconds=60), lambda: corpus.lease(1, seconds=600)]
    )
    assert long[0].expires_at_ms - short[0].expires_at_ms > 500_000
