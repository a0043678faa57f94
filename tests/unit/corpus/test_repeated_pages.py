"""Many rows of one page in one call take linear time, and mean the same as one after another."""

import doctest
import random
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

from recrawl.corpus import Corpus, Outcome
from recrawl.node import repeated_outcomes
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
PAGE = "https://a.example/"
PAGES = [f"https://a.example/{i}" for i in range(4)]


def test_the_doctests_pass() -> None:
    assert doctest.testmod(repeated_outcomes).failed == 0


def random_outcomes(draw: random.Random, handles: list[int], now_ms: int) -> list[Outcome]:
    """Return outcomes of a few pages, some late, repeated, failed or without an order."""
    outcomes = []
    for _ in range(60):
        named: dict[str, Any] = (
            {"handle": draw.choice(handles)} if draw.random() < 0.3 else {"url": draw.choice(PAGES)}
        )
        found: dict[str, Any] = draw.choice(
            [
                {"digest": draw.choice([b"1", b"2", b"3", b"4", b"5", b"6"])},
                {"digest": draw.choice([b"1", b"2"])},
                {"changed": draw.random() < 0.5},
                {"changed": False, "digest": b"7"},
                {"status": 304, "digest": b"8"},
                {"status": draw.choice([0, 404, 301, 503])},
                {"status": 500, "digest": b"9"},
                {"disallowed": True},
            ]
        )
        at_ms = now_ms - draw.randrange(0, 200_000) if draw.random() < 0.8 else 0
        outcomes.append(Outcome(**named, **found, fetched_at_ms=at_ms))
    return outcomes


@pytest.mark.parametrize("variant", range(12))
def test_outcomes_of_one_page_together_mean_the_same_as_in_turn(
    open_corpus: Open, clock: ManualClock, variant: int
) -> None:
    draw = random.Random(variant)
    results = []
    together, in_turn = open_corpus("together"), open_corpus("in_turn")
    for corpus in (together, in_turn):
        corpus.add(PAGES)
    clock.pass_seconds(300)
    handles = [sorted(order.handle for order in corpus.lease(4)) for corpus in (together, in_turn)]
    assert handles[0] == handles[1]
    clock.pass_seconds(100)
    outcomes = random_outcomes(draw, handles[0], together.now_ms())
    for corpus, parts in ((together, [outcomes]), (in_turn, [[one] for one in outcomes])):
        done = [corpus.report(part) for part in parts]
        digests = [corpus.nodes[0].store.digests_of(np.arange(4, dtype=np.int64))]
        results.append(
            (
                np.concatenate([one.counted for one in done]).tolist(),
                np.concatenate([one.transition for one in done]).tolist(),
                digests,
                sorted((change.url, change.what) for change in corpus.changes()),
                [corpus.explain(url).state for url in PAGES],  # type: ignore[union-attr]
            )
        )
    assert results[0] == results[1]
    assert 0 < sum(results[0][0]) < len(outcomes)


def calls(corpus: Corpus, monkeypatch: pytest.MonkeyPatch, name: str, at: Any) -> list[int]:
    """Count the calls of a method."""
    counted: list[int] = []
    method = getattr(at, name)

    def count(*arguments: Any, **settings: Any) -> Any:
        counted.append(1)
        return method(*arguments, **settings)

    monkeypatch.setattr(at, name, count)
    return counted


def report(corpus: Corpus, n: int, at_ms: int) -> int:
    outcomes = [
        Outcome(url=PAGE, digest=b"%d" % (i % 7), fetched_at_ms=at_ms + 1000 * i) for i in range(n)
    ]
    return int(corpus.report(outcomes).counted.sum())


def signal(corpus: Corpus, n: int, at_ms: int) -> int:
    return corpus.signal([PAGE] * n, source="feed", claimed_at_ms=at_ms + 1000 * np.arange(n))


def requests(corpus: Corpus, n: int, at_ms: int) -> int:
    return corpus.requests([PAGE] * n)


def add(corpus: Corpus, n: int, at_ms: int) -> int:
    return corpus.add([f"https://b.example/{n}"] * n).n_known + 1


def set_each(corpus: Corpus, n: int, at_ms: int) -> int:
    return corpus.set_each([PAGE] * n, importance=np.arange(n) + 1.0)


@pytest.mark.parametrize("call", [report, signal, requests, add, set_each])
def test_many_rows_of_one_page_need_no_more_writes(
    open_corpus: Open,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[Corpus, int, int], int],
) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    clock.pass_seconds(86_400)
    node = corpus.nodes[0]
    call(corpus, 2, corpus.now_ms() - 80_000_000)  # names are numbered at the first call
    appends = calls(corpus, monkeypatch, "append", node.ledger)
    writes = calls(corpus, monkeypatch, "write", node.store)
    reads = calls(corpus, monkeypatch, "records_of", node.store)
    counts = []
    for n in (3, 300):
        clock.pass_seconds(10_000)
        for counted in (appends, writes, reads):
            counted.clear()
        assert call(corpus, n, corpus.now_ms() - 9_000_000) == n
        counts.append((len(appends), len(writes), len(reads)))
    assert counts[0] == counts[1]


def test_every_outcome_of_one_page_is_recorded(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    clock.pass_seconds(86_400)
    assert report(corpus, 2_000, corpus.now_ms() - 3_000_000) == 2_000
    assert len(corpus.changes(limit=10_000)) == 2_000
    history = corpus.history(PAGE)
    assert history is not None
    assert len(history.polls) == 2_000
    corpus.close()
    corpus = open_corpus()
    assert len(corpus.changes(limit=10_000)) == 2_000
