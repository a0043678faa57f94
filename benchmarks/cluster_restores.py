"""Measure how long partitions have no owner if no standby has prepared them, per gigabyte.

Three workers share the partitions, and nobody fetches.  Two of them are killed at the same moment.
The third one must restore what it has no copy of: it fetches the snapshots from shared storage,
here a folder on the same disk, and reads the log after them.  The time until a partition answers
has three parts: until the worker counts the others as gone, a fixed part, and one that grows with
the snapshots.  A worker restores two partitions at a time, so the gigabytes are those of all
partitions that it restores, and the seconds end when the last one answers.  With two sizes or more,
a line through them separates the fixed part from the one that grows; ``seconds_per_gigabyte`` of a
row still has both, so it is large for small snapshots.
"""

import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from pyarrow import fs

from benchmarks.cluster_processes import (
    Brokers,
    Workers,
    add_pages,
    first_pages,
    memory_gigabytes,
)
from benchmarks.cluster_watch import AvailabilityProbe, ClusterListener, Timeline, first_urls
from recrawl.cluster.control_topic import CONTROL_SUFFIX
from recrawl.cluster.members.membership import SILENCE_SECONDS_MAX
from recrawl.corpus import CorpusConfig
from recrawl.ledger import SnapshotOrigin
from recrawl.ledger.kafka import KafkaLog
from recrawl.ledger.shared_snapshots import SharedSnapshots

__all__ = ["measure"]

_READY_SECONDS_MAX: Final = 1_800.0
_WAIT_SECONDS: Final = 0.5
_SETTLED_SECONDS: Final = 6.0
_SNAPSHOT_SECONDS_MIN: Final = 15.0
_SNAPSHOT_SECONDS_PER_PAGE: Final = 1e-5


class _Shared(NamedTuple):
    """The newest snapshot of a partition in shared storage."""

    position: int
    gigabytes: float


def measure(*, pages: Sequence[int], n_partitions: int) -> dict[str, Any]:
    """Return a row for each number of pages, and a line through all rows.

    Parameters
    ----------
    pages
        Numbers of pages.
    n_partitions
        Number of partitions.
    """
    rows = []
    with tempfile.TemporaryDirectory(prefix="recrawl-restores-") as folder:
        brokers = Brokers(Path(folder) / "brokers", 1)
        try:
            for n_pages in pages:
                own = Path(folder) / str(n_pages)
                rows.append(_measure_one(own, brokers.bootstrap, n_pages, n_partitions))
                print(json.dumps(rows[-1]), file=sys.stderr)
        finally:
            brokers.close()
    found: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "rows": rows}
    if len({row["gigabytes"] for row in rows}) > 1:
        grows, fixed = np.polyfit(
            [row["gigabytes"] for row in rows], [row["seconds_after_notice"] for row in rows], 1
        )
        found["line"] = {
            "fixed_seconds": round(float(fixed), 2),
            "seconds_per_gigabyte": round(float(grows), 2),
        }
    return found


def _measure_one(folder: Path, bootstrap: str, n_pages: int, n_partitions: int) -> dict[str, Any]:
    folder.mkdir()
    (folder / "shared").mkdir()
    topic = f"restores-{n_pages}"
    # Large partitions need more time for a snapshot, and should not take them all the time.
    every = max(_SNAPSHOT_SECONDS_MIN, n_pages * _SNAPSHOT_SECONDS_PER_PAGE)
    settings = _settings(bootstrap, topic, n_partitions, folder / "shared", every)
    add_pages(folder / "w1", settings, n_pages)
    config = CorpusConfig.from_toml(folder / "w1" / "recrawl.toml")
    log = KafkaLog.open(bootstrap, topic, n_partitions=n_partitions, create=False)
    ends = [log.partition(i).end for i in range(n_partitions)]
    timeline = Timeline()
    workers = Workers(folder, settings)
    listener = ClusterListener(bootstrap, topic + CONTROL_SUFFIX, n_partitions, timeline)
    probe = AvailabilityProbe(
        workers, first_urls(config, first_pages(n_pages).to_pylist()), listener, timeline
    )
    try:
        for name in ("w1", "w2", "w3"):
            workers.start(name)
            probe.begin(name)
            probe.wait_until_all_there(_READY_SECONDS_MAX)
        shared = _wait_until_settled(folder / "shared", ends, workers, listener)
        restored = sorted({*range(n_partitions)} - listener.copies_of("w3"))
        survivor = workers.processes["w3"].pid
        memory = memory_gigabytes(survivor)
        n_records = sum(log.partition(i).end - shared[i].position for i in restored)
        probe.begin("w3")
        killed_at = time.monotonic()
        for name in ("w1", "w2"):
            workers.processes[name].send_signal(signal.SIGKILL)
        for name in ("w1", "w2"):
            workers.end(name, signal.SIGKILL)
        time.sleep(SILENCE_SECONDS_MAX)  # nobody can know it sooner
        silent_at = max(listener.last_heard_at(name) for name in ("w1", "w2"))
        probe.wait_until_all_there(_READY_SECONDS_MAX)
        seconds = probe.longest[restored]
        notice = silent_at + SILENCE_SECONDS_MAX - killed_at
        gigabytes = sum(shared[i].gigabytes for i in restored)
        return {
            "pages": n_pages,
            "partitions": n_partitions,
            "partitions_restored": len(restored),
            "gigabytes": round(gigabytes, 6),
            "gigabytes_max": round(max((shared[i].gigabytes for i in restored), default=0.0), 6),
            "records_read": n_records,
            "memory_gigabytes": round(memory_gigabytes(survivor) - memory, 3),
            "seconds_to_notice": round(notice, 2),
            "seconds_median": round(float(np.median(seconds)), 2) if restored else math.nan,
            "seconds_max": round(float(seconds.max()), 2) if restored else math.nan,
            "seconds_after_notice": round(float(seconds.max()) - notice, 2),
            "seconds_per_gigabyte": round((float(seconds.max()) - notice) / gigabytes, 2),
        }
    finally:
        probe.close()
        listener.close()
        workers.close()
        log.close()


def _settings(
    bootstrap: str, topic: str, n_partitions: int, shared: Path, snapshot_seconds: float
) -> str:
    return f"""
[corpus]
partitions = {n_partitions}
[ledger]
kind = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
replication = 1
[snapshots]
shared = "{shared}"
every = "{snapshot_seconds:g}s"
[budget]
rate = "40/s"
"""


def _wait_until_settled(
    folder: Path, ends: list[int], workers: Workers, listener: ClusterListener
) -> list[_Shared]:
    """Wait until each partition has a standby, and a snapshot in shared storage with all pages."""
    deadline = time.monotonic() + _READY_SECONDS_MAX
    settled_at = math.inf
    while True:
        shared = _newest_snapshots(folder, len(ends))
        has_snapshots = all(one.position >= end for one, end in zip(shared, ends, strict=True))
        has_standbys = not any(listener.find_without_standby(name) for name in workers.processes)
        now = time.monotonic()
        is_settled = has_snapshots and has_standbys and len(listener.owners()) == len(ends)
        settled_at = min(settled_at, now) if is_settled else math.inf
        if now - settled_at >= _SETTLED_SECONDS:
            return shared
        if now > deadline:
            raise RuntimeError("some partitions have no standby, or no snapshot")
        time.sleep(_WAIT_SECONDS)


def _newest_snapshots(folder: Path, n_partitions: int) -> list[_Shared]:
    """Return the newest snapshot of each partition; one before all positions if it has none."""
    found = [_Shared(-1, 0.0)] * n_partitions
    for corpus in folder.iterdir():
        for i in range(n_partitions):
            origin = SnapshotOrigin(corpus.name, i)
            complete = SharedSnapshots(fs.LocalFileSystem(), str(folder), origin).list_complete()
            if complete:
                newest = max(complete, key=lambda one: one.position)
                files = json.loads(Path(newest.path).read_text())["files"]
                found[i] = _Shared(newest.position, sum(one["bytes"] for one in files) / 1e9)
    return found
