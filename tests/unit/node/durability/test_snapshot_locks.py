"""A snapshot syncs and deletes files without the lock that every call of a corpus takes."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from recrawl import Corpus
from recrawl.ledger import rocks
from recrawl.node.durability import snapshotter
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]


def is_free(lock: Any) -> bool:
    """Return whether another thread gets a lock."""
    found = []

    def take() -> None:
        found.append(lock._lock.acquire(blocking=False))
        if found[0]:
            lock._lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return bool(found[0])


def test_no_lock_is_held_while_the_disk_is_synced(
    open_corpus: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshotter, "HISTORY_BYTES_MAX", 0)
    corpus = open_corpus()
    node = corpus.nodes[0]
    ledger = node.ledger
    assert isinstance(ledger, rocks.RocksLedger)
    looks: list[tuple[str, bool, bool]] = []

    def watch(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            if is_watching:
                looks.append((name, is_free(node.lock), is_free(ledger._lock)))
            return function(*arguments, **options)

        monkeypatch.setattr(owner, name, watched)

    is_watching = False
    watch(os, "fsync")
    watch(os, "fdatasync")
    watch(rocks._SharedSync, "sync")
    for i in range(4):
        corpus.add([f"https://a.example/{i}"])
        clock.pass_seconds(60)
        is_watching = True
        first = ledger.first
        corpus.snapshot()
        is_watching = False
    assert ledger.first > first
    assert {name for name, *_ in looks} >= {"fsync", "sync"}
    assert all(node_free and log_free for _, node_free, log_free in looks)


# Kernels have no part in it, and interpreted ones add that many pages in half a minute.
@pytest.mark.slow_without_jit
def test_columns_of_zeros_take_no_space_on_disk(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([f"https://a.example/{i}" for i in range(40_000)])
    corpus.snapshot()
    (columns,) = Path(corpus.folder).glob("snapshots/0/*/columns")
    status = columns.stat()
    if status.st_blocks * 512 >= status.st_size:
        pytest.skip("the file system has no sparse files")
    used = np.memmap(columns, np.uint8, mode="r")
    assert status.st_blocks * 512 < 0.7 * used.size
