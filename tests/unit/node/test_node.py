"""A node commits for all waiting threads, and stops after a failed append."""

import threading
from collections.abc import Callable, Sequence

import pytest

from recrawl.corpus import Corpus
from recrawl.errors import LedgerError
from recrawl.ledger import AppendedSpan, Ledger, Record
from recrawl.shard import ImportanceSet, event_of

Open = Callable[..., Corpus]
URLS = [f"https://h{i % 5}.example/{i}" for i in range(20)]


class WatchedLedger:
    """A ledger that counts appends and can be made to fail."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.appends: list[int] = []
        self.fails = False

    def append(self, records: Sequence[Record]) -> AppendedSpan:
        self.appends.append(len(records))
        if self.fails:
            raise LedgerError("no disk")
        return self._ledger.append(records)

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)


def test_the_thread_with_the_lock_commits_for_all_waiting_threads(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    node = corpus.nodes[0]
    node.ledger = watched = WatchedLedger(node.ledger)  # type: ignore[assignment]
    results = []

    def submit(i: int) -> None:
        results.append(node.submit([event_of(ImportanceSet, page=[i], importance=[2.0 + i])]))

    threads = [threading.Thread(target=submit, args=(i,)) for i in range(10)]
    with node.lock:
        for thread in threads:
            thread.start()
        while len(node._pending) < 10:
            threading.Event().wait(0.001)
    for thread in threads:
        thread.join()
    assert watched.appends == [10]
    assert len(results) == 10
    assert all(len(applied) == 1 and applied[0].valid.all() for applied in results)


def test_after_a_failed_append_a_node_refuses_work(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    node = corpus.nodes[0]
    node.ledger = watched = WatchedLedger(node.ledger)  # type: ignore[assignment]
    watched.fails = True
    with pytest.raises(LedgerError, match="no disk"):
        corpus.lease(3)
    watched.fails = False
    with pytest.raises(LedgerError, match="open the corpus again"):
        corpus.lease(3)
    assert corpus.stats().in_flight == 0
    corpus.close()
    assert len(open_corpus().lease(3)) == 3
