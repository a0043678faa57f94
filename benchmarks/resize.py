"""Measure how long writes wait while the number of partitions of a corpus on Kafka changes.

Most pages were fetched, and each fetch put a change into the feed.  Meanwhile a process with a
folder of its own goes on reporting, finds the partitions closed, and opens the corpus again with
the new ones: ``writer_gap_seconds`` is the longest time between two reports that succeeded, and
includes its opening, which restores all partitions.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import recrawl
from benchmarks.cluster_processes import Brokers
from benchmarks.scale import synthetic_urls
from recrawl.corpus import Corpus, CorpusConfig, resize_corpus
from recrawl.errors import RecrawlError

__all__ = ["measure"]

_PAGES_PER_CALL: Final = 1 << 16
_PAGES_PER_HOST: Final = 50
_ROWS_PER_REPORT: Final = 100
_RETRY_SECONDS: Final = 0.2


def measure(
    *, n_pages: int, partitions: tuple[int, int], fetched: float, rate: float
) -> dict[str, Any]:
    """Return the pause, and the seconds of each step.

    Parameters
    ----------
    n_pages
        Number of pages.
    partitions
        Numbers of partitions before and after.
    fetched
        Share of the pages that were fetched.
    rate
        Reports per second of another process meanwhile; 0 for no such process.
    """
    before, after = partitions
    with tempfile.TemporaryDirectory(prefix="recrawl-resize-") as name:
        folder = Path(name)
        (folder / "shared").mkdir()
        brokers = Brokers(folder / "brokers", 1)
        writer: subprocess.Popen[str] | None = None
        try:
            tables = _settings(brokers.bootstrap, before, folder / "shared")
            n_changes = _fill(folder / "corpus", tables, n_pages, fetched)
            writer = _start_writer(folder, tables, n_pages, rate) if rate > 0 else None
            steps: list[tuple[str, float, float]] = []
            started = time.monotonic()
            resized = resize_corpus(
                folder / "corpus",
                after,
                on_step=lambda step: steps.append((step, time.monotonic(), time.process_time())),
            )
            ended, cpu_ended = time.monotonic(), time.process_time()
            gap = None if writer is None else _end_writer(writer)
        finally:
            if writer is not None and writer.returncode is None:
                writer.kill()
                writer.communicate()
            brokers.close()
    return {
        "cores": len(os.sched_getaffinity(0)),
        "pages": resized.n_pages,
        "changes": n_changes,
        "partitions": [before, after],
        "rate": rate,
        "seconds": round(ended - started, 2),
        "pause_seconds": round(resized.pause_seconds, 2),
        "writer_gap_seconds": gap,
        "steps": _seconds_by_step(steps, ended, cpu_ended),
    }


def _settings(bootstrap: str, n_partitions: int, shared: Path) -> dict[str, Any]:
    return {
        "corpus": {"partitions": n_partitions},
        "ledger": {
            "kind": "kafka",
            "bootstrap": bootstrap,
            "topic": "resize",
            "replication": 1,
        },
        "snapshots": {"shared": str(shared)},
    }


def _fill(folder: Path, tables: dict[str, Any], n_pages: int, fetched: float) -> int:
    """Make a corpus; return the number of changes in its feed."""
    with recrawl.open(folder, CorpusConfig.from_dict(tables)) as corpus:
        for first in range(0, n_pages, _PAGES_PER_CALL):
            n = min(_PAGES_PER_CALL, n_pages - first)
            urls = synthetic_urls(first, n, max(n_pages // _PAGES_PER_HOST, 1))
            corpus.add(urls)
            _report(corpus, urls.slice(0, round(n * fetched)), first)
        corpus.lease(1_000)
        corpus.snapshot()
        return sum(node.store.n_changes for node in corpus.nodes)


def _report(corpus: Corpus, urls: pa.StringArray, seed: int) -> None:
    """Report a new content of pages, with validators."""
    digest = np.random.default_rng(seed).bytes(16 * len(urls))
    digests = [digest[i : i + 16] for i in range(0, len(digest), 16)]
    etag = pa.array([b'"%s"' % one.hex().encode() for one in digests], pa.binary())
    corpus.report(pa.table({"url": urls, "digest": pa.array(digests, pa.binary()), "etag": etag}))


def _start_writer(
    folder: Path, tables: dict[str, Any], n_pages: int, rate: float
) -> subprocess.Popen[str]:
    """Start a process that reports until it is interrupted, and wait for its first report."""
    arguments = [str(folder / "writer"), json.dumps(tables), str(n_pages), str(rate)]
    writer = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.resize", *arguments], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    if writer.stdout.readline().strip() != "writing":
        raise RuntimeError("the writer did not start")
    return writer


def _end_writer(writer: subprocess.Popen[str]) -> float:
    """Let a writer report once more, end it, and return its longest gap in seconds."""
    writer.send_signal(signal.SIGTERM)
    printed, _ = writer.communicate()
    return round(float(printed.split()[-1]), 2)


class _Stop:
    """When the process was asked to end."""

    def __init__(self) -> None:
        self.asked_at = float("inf")
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, *_: object) -> None:
        self.asked_at = time.monotonic()


def _write(folder: Path, tables: dict[str, Any], n_pages: int, rate: float) -> None:
    """Report pages at a rate; print the longest time between two reports when asked to end."""
    stop = _Stop()
    n_hosts = max(n_pages // _PAGES_PER_HOST, 1)
    gap, last, n_reports = 0.0, time.monotonic(), 0
    while last < stop.asked_at:
        try:
            with recrawl.open(folder, CorpusConfig.from_dict(tables)) as corpus:
                while last < stop.asked_at:
                    first = int(np.random.default_rng(n_reports).integers(0, n_pages))
                    _report(corpus, synthetic_urls(first, _ROWS_PER_REPORT, n_hosts), n_reports)
                    if n_reports == 0:
                        print("writing", flush=True)
                    now = time.monotonic()
                    gap, last, n_reports = max(gap, now - last), now, n_reports + 1
                    time.sleep(_ROWS_PER_REPORT / rate)
        except RecrawlError:
            time.sleep(_RETRY_SECONDS)
    print(gap)


def _seconds_by_step(
    steps: list[tuple[str, float, float]], ended: float, cpu_ended: float
) -> dict[str, dict[str, float]]:
    """Return time and processor time of each step; those with numbers count together."""
    found: dict[str, dict[str, float]] = {}
    ends = [*steps[1:], ("", ended, cpu_ended)]
    for (step, began, cpu_began), (_, until, cpu_until) in zip(steps, ends, strict=True):
        name = " ".join(word for word in step.split() if not word.isdecimal())
        row = found.setdefault(name, {"seconds": 0.0, "cpu_seconds": 0.0})
        row["seconds"] = round(row["seconds"] + until - began, 3)
        row["cpu_seconds"] = round(row["cpu_seconds"] + cpu_until - cpu_began, 3)
    return found


if __name__ == "__main__":
    _write(Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
