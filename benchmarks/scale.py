"""Very many pages through the real add path: killed, reopened, ordered from, reported, explained.

One process adds the pages and is ended with SIGKILL; another one opens the corpus and goes on.
URLs are made of words and numbers; hosts have a power law of sizes.
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

__all__ = ["measure", "synthetic_urls"]

_PAGES_PER_CALL = 1 << 17
_WORDS = 4_096


@cache
def _words() -> pa.StringArray:
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    sizes = rng.integers(3, 10, _WORDS)
    return pa.array(["".join(rng.choice(letters, size)) for size in sizes], pa.string())


def synthetic_urls(first: int, n: int, n_hosts: int) -> pa.StringArray:
    """Return the URLs of pages ``first`` to ``first + n``, of about 70 bytes, all different."""
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


def _bytes_below(folder: Path) -> dict[str, int]:
    """Return the bytes on disk of each part of a corpus; a file with two names counts once."""
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


def _add(folder: Path, n_pages: int, n_hosts: int) -> None:
    """Add pages, say how it goes on standard output, and wait to be killed."""
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
    """Return the seconds that each call for a hundred orders took."""
    seconds = []
    for _ in range(n_calls):
        moment = time.perf_counter()
        orders = corpus.lease(100)
        seconds.append(time.perf_counter() - moment)
        assert len(orders) == 100, len(orders)
        outcomes = [recrawl.Outcome(handle=order.handle, digest=b"1") for order in orders]
        assert corpus.report(outcomes).counted.all()
    return seconds


def _milliseconds(seconds: list[float]) -> dict[str, float]:
    found = {f"p{q}": float(np.percentile(seconds, q)) * 1000 for q in (50, 99, 100)}
    return {name: round(value, 2) for name, value in found.items()} | {"calls": len(seconds)}


def _use(folder: Path, n_pages: int, n_hosts: int, n_calls: int) -> dict[str, Any]:
    """Open a corpus that was killed, and use it."""
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
            "explain_milliseconds": _milliseconds(explain_seconds),
            "lease_100_milliseconds": _milliseconds(alone),
            "lease_100_during_snapshot_milliseconds": _milliseconds(meanwhile),
            "lease_100_after_milliseconds": _milliseconds(again),
            "snapshot_seconds": round(snapshot_seconds, 2),
            "peak_gigabytes": round(_peak_gigabytes(), 2),
            "in_flight": stats.in_flight,
        }
    moment = time.perf_counter()
    recrawl.open(folder).close()
    return found | {"open_after_close_and_close_seconds": round(time.perf_counter() - moment, 2)}


def measure(
    n_pages: int, n_hosts: int, *, n_calls: int = 300, folder: str | None = None
) -> dict[str, object]:
    """Add pages, kill, reopen and use the corpus; return what each step took.

    Parameters
    ----------
    n_pages, n_hosts
        Of the corpus.
    n_calls
        Calls for a hundred orders whose time is taken.
    folder
        Of the corpus, which stays there; a temporary one unless given.
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
        assert lines, "the child died"
        on_disk = _bytes_below(where)
        used = subprocess.run(
            [sys.executable, "-m", "benchmarks.scale", "use", str(where), *numbers, str(n_calls)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        after = _bytes_below(where)
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
        _add(Path(place), *counts)
    else:
        print(json.dumps(_use(Path(place), *counts)))
