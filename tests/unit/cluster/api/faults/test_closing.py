"""A worker that ends closes its partitions, whatever becomes of its connections to others."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import recrawl
from recrawl.cluster.api import worker_calls
from recrawl.cluster.api.cluster_corpus import ClusterCorpus
from recrawl.cluster.api.credentials import ClusterKeys, rotate_cluster_keys
from recrawl.cluster.api.owners import TableOfOwners
from recrawl.cluster.api.worker_calls import WorkerCalls
from recrawl.corpus import Corpus


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    with recrawl.open(tmp_path / "corpus") as opened:
        yield opened


@pytest.fixture
def calls(tmp_path: Path) -> WorkerCalls:
    rotate_cluster_keys(tmp_path / "keys", time.time_ns() // 1_000_000)
    return WorkerCalls("news", "a", ClusterKeys(tmp_path / "keys"))


def test_partitions_are_closed_also_if_the_connections_take_too_long(
    corpus: Corpus,
    calls: WorkerCalls,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The thread of the requests stands still, as on a machine that is too busy."""
    monkeypatch.setattr(worker_calls, "_CLOSE_SECONDS", 0.05)
    may_go_on = threading.Event()

    async def stand_still() -> None:
        may_go_on.wait()

    shared = ClusterCorpus(corpus, TableOfOwners("a"), calls)
    standing = calls.run(stand_still())
    try:
        shared.close()
        assert corpus._moves.is_closed
        assert "are not closed after 0.05 s" in caplog.text
    finally:
        may_go_on.set()
    standing.result(300)
    # The connections are closed later then.
    assert calls._thread is not None
    assert calls._loop is not None
    calls._thread.join(300)
    assert calls._loop.is_closed()


def test_partitions_are_closed_also_after_an_error(
    corpus: Corpus, calls: WorkerCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: WorkerCalls) -> None:
        raise OSError("the connections cannot be closed")

    monkeypatch.setattr(WorkerCalls, "close", fail)
    shared = ClusterCorpus(corpus, TableOfOwners("a"), calls)
    with pytest.raises(OSError, match="the connections cannot be closed"):
        shared.close()
    assert corpus._moves.is_closed


def test_close_waits_until_the_connections_are_closed(
    calls: WorkerCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_calls, "_CLOSE_SECONDS", 300.0)

    async def connect() -> None:
        assert not calls.session.closed

    calls.run(connect()).result(300)
    calls.close()
    assert calls.session.closed
    assert calls._loop is not None
    assert calls._loop.is_closed()
