"""Use a corpus at full speed for many minutes, and compare its size at half time and at the end.

Threads lease, report, signal, add and remove as fast as they can, with as many pages removed as
added.  Memory, open files and disk must not grow once everything that is kept for a time has been
kept for that long.  Each is the median over one interval between snapshots, because the log grows
until a snapshot lets it shrink.  Memory is given with and without the cache of blocks, which has a
limit of 128 MiB and may still be filling at half time.

The C library gives every thread a memory area of its own, and areas that several threads use in
turn fill with holes.  So the measurement runs with ``MALLOC_ARENA_MAX=2``, as long-running programs
should (see "Memory of long-running programs" in the documentation).
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

import recrawl
from benchmarks.acknowledged import outcome_of
from benchmarks.workload import CONFIG
from recrawl.corpus import Corpus, CorpusConfig

__all__ = ["measure"]

_N_PARTITIONS = 2
_N_THREADS = 2
_N_HOSTS = 200
_ORDERS_PER_CALL = 500
_PAGES_PER_ADD = 100
_SIGNALS_PER_CALL = 200
# Snapshots per run: five of them in its second half.
_SNAPSHOTS = 10
_SAMPLES_PER_SNAPSHOT = 12
_GROWTH_MAX = 0.05
_N_AREAS = "2"


class _Sample(NamedTuple):
    """What the process and the corpus take at one moment."""

    seconds: float
    memory_bytes: int
    memory_without_cache_bytes: int
    open_files: int
    disk_bytes: int


def _memory_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def _disk_bytes(folder: Path) -> int:
    """Return the bytes of all files, each once: snapshots share files with the store."""
    sizes: dict[int, int] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                about = (Path(parent) / name).stat()
            except FileNotFoundError:  # deleted meanwhile
                continue
            sizes[about.st_ino] = about.st_size
    return sum(sizes.values())


def _page_url(thread: int, i: int) -> str:
    return f"https://h{i % _N_HOSTS}.example/{thread}/{i}"


class _Load:
    """Threads that use a corpus until they are stopped.

    Parameters
    ----------
    corpus
        Corpus to use.
    n_pages
        Number of pages to track.
    """

    def __init__(self, corpus: Corpus, n_pages: int) -> None:
        self._corpus = corpus
        self._n_own = n_pages // _N_THREADS
        self._stopped = threading.Event()
        self.counts = {"ordered": 0, "reported": 0, "signalled": 0, "added": 0, "removed": 0}
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._is_warm = threading.Barrier(_N_THREADS + 1)
        self._threads = [
            threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(_N_THREADS)
        ]

    def start(self) -> None:
        """Start the threads, and wait until each has used everything once, which may compile."""
        for thread in self._threads:
            thread.start()
        try:
            self._is_warm.wait()
        except threading.BrokenBarrierError:
            self.raise_if_failed()
            raise

    def stop(self) -> None:
        """Stop the threads, and raise what one of them raised."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self.raise_if_failed()

    def raise_if_failed(self) -> None:
        """Raise what a thread raised."""
        if self._failure is not None:
            raise self._failure

    def _count(self, what: str, n: int) -> None:
        with self._lock:
            self.counts[what] += n

    def _run(self, thread: int) -> None:
        try:
            self._use(thread)
        except BaseException as error:
            self._failure = error
            self._is_warm.abort()

    def _use(self, thread: int) -> None:
        corpus = self._corpus
        pages = deque(_page_url(thread, i) for i in range(self._n_own))
        n_added = len(pages)
        self._count("added", corpus.add(list(pages)).n_added)
        is_first = True
        while is_first or not self._stopped.is_set():
            new = [_page_url(thread, n_added + i) for i in range(_PAGES_PER_ADD)]
            n_added += len(new)
            self._count("added", corpus.add(new).n_added)
            pages.extend(new)
            old = [pages.popleft() for _ in range(_PAGES_PER_ADD)]
            self._count("removed", corpus.remove(old))
            orders = corpus.lease(_ORDERS_PER_CALL)
            self._count("ordered", len(orders))
            counted = corpus.report([outcome_of(order.handle) for order in orders]).counted
            self._count("reported", int(counted.sum()))
            some = [pages[-1 - i * 7 % len(pages)] for i in range(_SIGNALS_PER_CALL)]
            self._count("signalled", corpus.signal(some, source="sitemap"))
            if is_first:
                is_first = False
                self._is_warm.wait()


def _median(samples: list[_Sample], until: float, seconds: float) -> _Sample:
    """Return the medians of the samples in the time before a moment, or the nearest sample."""
    rows = [sample for sample in samples if until - seconds <= sample.seconds <= until]
    if not rows:  # in a short run on a busy machine
        rows = [min(samples, key=lambda sample: abs(sample.seconds - until))]
    return _Sample(
        until,
        int(statistics.median(row.memory_bytes for row in rows)),
        int(statistics.median(row.memory_without_cache_bytes for row in rows)),
        int(statistics.median(row.open_files for row in rows)),
        int(statistics.median(row.disk_bytes for row in rows)),
    )


def measure(minutes: float, *, n_pages: int = 50_000) -> dict[str, object]:
    """Use a corpus for some time; return its size at half time and at the end.

    Parameters
    ----------
    minutes
        Length of the run.
    n_pages
        Number of tracked pages.
    """
    if os.environ.get("MALLOC_ARENA_MAX") != _N_AREAS:
        # The C library reads it when a process starts.
        command = [sys.executable, "-m", "benchmarks", "soak"]
        command += ["--minutes", str(minutes), "--pages", str(n_pages)]
        environment = os.environ | {"MALLOC_ARENA_MAX": _N_AREAS}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        found: dict[str, object] = json.loads(done.stdout)
        return found
    seconds = 60.0 * minutes
    every = seconds / _SNAPSHOTS
    # What is kept for a time is kept for a small part of the run, so that a machine that becomes
    # faster has few more leases in flight; and the feed is soon full.
    kept_for = seconds / 40
    tables = {
        **CONFIG,
        "corpus": {"partitions": _N_PARTITIONS},
        "snapshots": {"every": every},
        "leases": {"length": kept_for, "grace": kept_for},
        "changes": {"kept_max": 10_000},
    }
    samples: list[_Sample] = []
    positions: list[tuple[float, set[str]]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        recrawl.open(folder, CorpusConfig.from_dict(tables)) as corpus,
    ):
        load = _Load(corpus, n_pages)
        load.start()
        started = time.monotonic()
        while (elapsed := time.monotonic() - started) < seconds:
            memory_bytes = _memory_bytes()
            samples.append(
                _Sample(
                    elapsed,
                    memory_bytes,
                    memory_bytes - corpus.nodes[0].store.cached_bytes,
                    len(os.listdir("/proc/self/fd")),
                    _disk_bytes(Path(folder)),
                )
            )
            saved = (Path(folder) / "snapshots").glob("*/*")
            positions.append((elapsed, {f"{p.parent.name}/{p.name}" for p in saved}))
            load.raise_if_failed()
            time.sleep(every / _SAMPLES_PER_SNAPSHOT)
        load.stop()
    half, end = _median(samples, seconds / 2, every), _median(samples, seconds, every)
    before = {name for elapsed, names in positions if elapsed <= seconds / 2 for name in names}
    after = {name for _, names in positions for name in names} - before
    growth = {
        name: round(getattr(end, name) / getattr(half, name) - 1.0, 4)
        for name in _Sample._fields[1:]
    }
    return {
        "minutes": minutes,
        "pages": n_pages,
        **load.counts,
        "snapshots_in_second_half": sum("temporary" not in name for name in after) / _N_PARTITIONS,
        "half_time": half._asdict(),
        "end": end._asdict(),
        "growth": growth,
        "grew": [name for name, share in growth.items() if share > _GROWTH_MAX],
    }
