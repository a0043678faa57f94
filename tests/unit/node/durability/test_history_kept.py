"""The log of a small corpus keeps the history of its pages across many snapshots."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from recrawl import Corpus, Outcome
from recrawl.corpus.doctor import Severity, check_corpus
from recrawl.node.durability import snapshotter
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
URL = "https://a.example/"


@pytest.fixture(autouse=True)
def keeps_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshotter, "HISTORY_BYTES_MAX", 4 << 20)


def poll(corpus: Corpus, clock: ManualClock, n: int) -> None:
    for i in range(n):
        clock.pass_seconds(60)
        corpus.report(Outcome(url=URL, digest=bytes([i % 250])))


def test_polls_from_before_the_oldest_snapshot_are_in_the_history(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add([URL])
    for _ in range(4):
        poll(corpus, clock, 3)
        corpus.snapshot()
    history = corpus.history(URL)
    assert history is not None
    assert len(history.polls) == 12
    assert history.is_whole
    corpus.close()
    results = list(check_corpus(corpus.folder, is_deep=True, clock=clock))
    assert not [one for one in results if one.level == Severity.BAD]


def test_the_history_is_bounded(
    open_corpus: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus()
    corpus.add([URL])
    poll(corpus, clock, 1)
    ledger = corpus.nodes[0].ledger
    (_, record), *_ = ledger.read(ledger.end - 1)
    monkeypatch.setattr(snapshotter, "HISTORY_BYTES_MAX", 20 * len(record.data))
    kept = []
    for _ in range(20):
        poll(corpus, clock, 3)
        corpus.snapshot()
        kept.append(ledger.end - ledger.first)
    # Two snapshots of about three records each, and the history before.
    assert 15 < max(kept) < 60
    assert ledger.first > 0
    # What is too much to be read is cut at the oldest snapshot.
    monkeypatch.setattr(snapshotter, "HISTORY_BYTES_MAX", 0)
    poll(corpus, clock, 3)
    corpus.snapshot()
    assert ledger.end - ledger.first < 12


def test_forgotten_pages_leave_no_history(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([URL, "https://b.example/"])
    for _ in range(3):
        poll(corpus, clock, 3)
        corpus.snapshot()
    ledger = corpus.nodes[0].ledger
    assert ledger.first == 0
    corpus.forget([URL])
    assert ledger.first > 0
    data = b"".join(record.data for _, record in ledger.read(ledger.first))
    assert b"a.example" not in data
