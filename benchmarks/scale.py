"""Add very many pages, kill the process, open the corpus again and use it.

One process adds the pages and is killed with SIGKILL; another one opens the corpus, leases,
reports and explains.  URLs are made of words and numbers; the sizes of hosts follow a power law.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import recrawl
from recrawl.corpus import Corpus

__all__ = ["bytes_by_part", "measure", "synthetic_urls"]

_PAGES_PER_CALL = 1 << 17
_WORDS = 4_096


@cache
def _words() -> pa.StringArray:
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    sizes = rng.integers(3, 10, _WORDS)
    return pa.array(["".join(rng.choice(letters, size)) for size in sizes], pa.string())


def synthetic_urls(first: int, n: int, n_hosts: int) -> pa.StringArray:
    """Return ``n`` distinct URLs of about 70 bytes, those of the pages from number ``first`` on."""
    words = _words()
    i = np.arange(first, first + n, dtype=np.uint64)
    mixed = (i + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    share = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
    # A cube: the greatest host has n_hosts^(-1/3) of all pages, half of the hosts a fifth.
    host = (share**3 * n_hosts).astype(np.int64)
    word = [
        words.take(pa.array((mixed >> np.uint64(s)) & np.uint64(_WORDS - 1))) for s in (3, 17, 31)
    ]
    text = [pa.array(column).cast(pa.string()) for column in (host, i.astype(np.int64))]
    head = pc.binary_join_element_wise("https://www.site", text[0], ".example/", word[0], "")
    return pc.binary_join_element_wise(head, "/", word[1], "-", word[2], "-", text[1], ".html", "")


def bytes_by_part(folder: Path) -> dict[str, int]:
    """Return the bytes on disk of each part of a corpus; a hard-linked file counts once."""
    seen: set[int] = set()
    found: dict[str, int] = {}
    for part in ("log", "store", "snapshots"):
        found[part] = 0
        for file in (folder / part).rglob("*"):
            status = file.stat()
            if file.is_file() and status.st_ino not in seen:
                seen.add(status.st_ino)
                found[part] += status.st_blocks * 512
    return found


def _peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _add_and_wait(folder: Path, n_pages: int, n_hosts: int) -> None:
    """Add pages, print the progress to standard output, and wait to be killed."""
    making = 0.0
    with recrawl.open(folder) as corpus:
        started = time.perf_counter()
        for first in range(0, n_pages, _PAGES_PER_CALL):
            moment = time.perf_counter()
            urls = synthetic_urls(first, min(_PAGES_PER_CALL, n_pages - first), n_hosts)
            making += time.perf_counter() - moment
            added = corpus.add(urls)
            assert added.n_added == len(urls), added
            n_done = first + len(urls)
            if first % (64 * _PAGES_PER_CALL) == 0 or n_done == n_pages:
                seconds = time.perf_counter() - started - making
                line = {
                    "pages": n_done,
                    "seconds": round(seconds, 1),
                    "pages_per_second": round(n_done / seconds),
                    "peak_gigabytes": round(_peak_gigabytes(), 2),
                }
                print(json.dumps(line), flush=True)
        print("done", flush=True)
        time.sleep(3600)


def _lease_and_report(corpus: Corpus, n_calls: int) -> list[float]:
    """Lease and report a hundred pages per call; return the seconds of each `Corpus.lease`."""
    seconds = []
    for _ in range(n_calls):
        moment = time.perf_counter()
        orders = corpus.lease(100)
        seconds.append(time.perf_counter() - moment)
        assert len(orders) == 100, len(orders)
        outcomes = [recrawl.Outcome(handle=order.handle, digest=b"1") for order in orders]
        assert corpus.report(outcomes).counted.all()
    return seconds


def _percentiles(seconds: list[float]) -> dict[str, float]:
    found = {f"p{q}": float(np.percentile(seconds, q)) * 1000 for q in (50, 99, 100)}
    return {name: round(value, 2) for name, value in found.items()} | {"calls": len(seconds)}


def _use_corpus(folder: Path, n_pages: int, n_hosts: int, n_calls: int) -> dict[str, Any]:
    """Open a corpus whose writer was killed, and time its operations."""
    moment = time.perf_counter()
    corpus = recrawl.open(folder)
    opened = time.perf_counter() - moment
    with corpus:
        stats_started = time.perf_counter()
        stats = corpus.stats()
        stats_seconds = time.perf_counter() - stats_started
        moment = time.perf_counter()
        corpus.plan()
        plan_seconds = time.perf_counter() - moment
        explain_seconds = []
        rng = np.random.default_rng(1)
        for i in rng.integers(0, n_pages, 100):
            url = synthetic_urls(int(i), 1, n_hosts)[0].as_py()
            moment = time.perf_counter()
            explanation = corpus.explain(url)
            explain_seconds.append(time.perf_counter() - moment)
            assert explanation is not None
            assert explanation.url == url
        _lease_and_report(corpus, 20)
        alone = _lease_and_report(corpus, n_calls)
        snapshot = threading.Thread(target=corpus.snapshot)
        moment = time.perf_counter()
        snapshot.start()
        meanwhile = []
        while snapshot.is_alive():
            meanwhile += _lease_and_report(corpus, 1)
        snapshot_seconds = time.perf_counter() - moment
        again = _lease_and_report(corpus, n_calls)
        found = {
            "open_after_kill_seconds": round(opened, 2),
            "pages": sum(node.shard.n_pages for node in corpus.nodes),
            "stats_seconds": round(stats_seconds, 3),
            "plan_seconds": round(plan_seconds, 3),
            "explain_milliseconds": _percentiles(explain_seconds),
            "lease_100_milliseconds": _percentiles(alone),
            "lease_100_during_snapshot_milliseconds": _percentiles(meanwhile),
            "lease_100_after_milliseconds": _percentiles(again),
            "snapshot_seconds": round(snapshot_seconds, 2),
            "peak_gigabytes": round(_peak_gigabytes(), 2),
            "in_flight": stats.in_flight,
        }
    moment = time.perf_counter()
    recrawl.open(folder).close()
    found["open_after_close_and_close_seconds"] = round(time.perf_counter() - moment, 2)
    # The first calls of a process fill the picker's queues; users notice them after each start.
    with recrawl.open(folder) as corpus:
        first = _lease_and_report(corpus, 4)
    return found | {"first_leases_100_seconds": [round(seconds, 3) for seconds in first]}


def measure(
    n_pages: int, n_hosts: int, *, n_calls: int = 300, folder: str | None = None
) -> dict[str, object]:
    """Add pages, kill the process, reopen and use the corpus; return the times of each step.

    Parameters
    ----------
    n_pages, n_hosts
        Number of pages and of hosts of the corpus.
    n_calls
        Number of timed calls for a hundred orders.
    folder
        Folder of the corpus, which is not deleted; a temporary one by default.
    """
    where = Path(folder or tempfile.mkdtemp(prefix="recrawl-scale-"))
    try:
        numbers = [str(n_pages), str(n_hosts)]
        command = [sys.executable, "-m", "benchmarks.scale", "add", str(where), *numbers]
        lines = []
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for line in child.stdout:
            if line.strip() == "done":
                break
            lines.append(json.loads(line))
            print(line.strip(), file=sys.stderr, flush=True)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert lines, "the process that adds pages died"
        on_disk = bytes_by_part(where)
        used = subprocess.run(
            [sys.executable, "-m", "benchmarks.scale", "use", str(where), *numbers, str(n_calls)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        after = bytes_by_part(where)
        return {
            "pages": n_pages,
            "hosts": n_hosts,
            "adding": lines,
            "bytes_per_page_when_killed": {k: round(v / n_pages, 1) for k, v in on_disk.items()},
            "bytes_per_page_after": {k: round(v / n_pages, 1) for k, v in after.items()},
            **json.loads(used.stdout),
        }
    finally:
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)


if __name__ == "__main__":
    what, place, *numbers = sys.argv[1:]
    counts = [int(number) for number in numbers]
    if what == "add":
        _add_and_wait(Path(place), *counts)
    else:
        print(json.dumps(_use_corpus(Path(place), *counts)))
