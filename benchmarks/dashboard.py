"""Measure how fast the pages of the dashboard are under load, and what viewers cost fetchers.

``recrawl serve`` is a process of its own.  One client leases and reports pages all the time, in
periods with viewers and without, in turn; a viewer opens every page of the dashboard again every
five seconds.
"""

import json
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import numpy as np

import recrawl
from benchmarks.scale import synthetic_urls
from recrawl.client import Client
from recrawl.corpus import CorpusConfig, Outcome

__all__ = ["measure", "serve"]

_CONFIG: Final = {
    "corpus": {"partitions": 12},
    "politeness": {"delay": 0, "in_flight_max": 30_000, "burst": 30_000},
    "budget": {"rate": "1000000/s"},
    "audit": {"share": 0.01},
}
_PAGES_PER_CALL: Final = 1 << 17
_PAGES_PER_HOST: Final = 50
_ORDERS_PER_LEASE: Final = 100
_REFRESH_SECONDS: Final = 5.0
_WARM_UP_SECONDS: Final = 10.0
_DIGEST: Final = b"0123456789abcdef"


def measure(n_pages: int, *, seconds: float, n_periods: int, n_viewers: int) -> dict[str, Any]:
    """Return the slowest answers of each page, and leases and reports with viewers and without.

    Parameters
    ----------
    n_pages
        Number of tracked pages.
    seconds
        Length of each period.
    n_periods
        Number of periods with viewers, and as many without.
    n_viewers
        Number of viewers.
    """
    with tempfile.TemporaryDirectory(prefix="recrawl-dashboard-") as name:
        folder = Path(name) / "corpus"
        url, host = _fill(folder, n_pages)
        with serve(folder) as base:
            paths = [
                *("", "live", "plan", "hosts", f"hosts/{host}", "sources", "kinds", "proof"),
                f"page?url={quote(url, safe='')}",
            ]
            first = _open_once(base, paths)
            _load(base, _WARM_UP_SECONDS)
            calls: dict[bool, list[tuple[float, float]]] = defaultdict(list)
            answers: dict[str, list[float]] = defaultdict(list)
            for _ in range(n_periods):
                for is_viewed in (False, True):
                    with _viewers(base, paths, answers, n_viewers if is_viewed else 0):
                        calls[is_viewed] += _load(base, seconds)
    return {
        "n_pages": n_pages,
        "first_seconds": {path or "overview": round(took, 3) for path, took in first.items()},
        "page_seconds_max": {
            (path or "overview").partition("?")[0]: round(max(times), 3)
            for path, times in answers.items()
        },
        "leases": {_name(key): _figures_of(rows, 0) for key, rows in calls.items()},
        "reports": {_name(key): _figures_of(rows, 1) for key, rows in calls.items()},
        "p99_ratio": round(_p99_ms(calls[True], 0) / _p99_ms(calls[False], 0), 3),
        "report_p99_ratio": round(_p99_ms(calls[True], 1) / _p99_ms(calls[False], 1), 3),
    }


def _name(is_viewed: bool) -> str:
    return "with viewers" if is_viewed else "without"


def _p99_ms(calls: list[tuple[float, float]], column: int) -> float:
    return 1_000 * float(np.percentile([row[column] for row in calls], 99))


def _figures_of(calls: list[tuple[float, float]], column: int) -> dict[str, float]:
    return {
        "n": len(calls),
        "p50_ms": round(1_000 * float(np.median([row[column] for row in calls])), 2),
        "p99_ms": round(_p99_ms(calls, column), 2),
    }


def _fill(folder: Path, n_pages: int) -> tuple[str, str]:
    """Add pages; return the URL of one, and its host."""
    n_hosts = max(n_pages // _PAGES_PER_HOST, 1)
    with recrawl.open(folder, CorpusConfig.from_dict(_CONFIG)) as corpus:
        for first in range(0, n_pages, _PAGES_PER_CALL):
            corpus.add(synthetic_urls(first, min(_PAGES_PER_CALL, n_pages - first), n_hosts))
    url = synthetic_urls(0, 1, n_hosts)[0].as_py()
    return url, urlsplit(url).hostname or ""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a corpus under the name ``news``; yield the address of the server.

    Parameters
    ----------
    folder
        Folder of the corpus.
    """
    command = [sys.executable, "-m", "recrawl", "serve", f"news={folder}", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        parts = urlsplit(json.loads(process.stdout.readline())["url"])
        yield f"http://{parts.netloc}"
    finally:
        process.terminate()
        process.communicate()


def _open_once(base: str, paths: list[str]) -> dict[str, float]:
    return {path: _get(base, path) for path in paths}


def _get(base: str, path: str) -> float:
    """Open a page of the dashboard; return the seconds it took."""
    began = time.perf_counter()
    with urllib.request.urlopen(f"{base}/ui/news/{path}", timeout=120) as answer:
        answer.read()
    return time.perf_counter() - began


def _load(base: str, seconds: float) -> list[tuple[float, float]]:
    """Lease and report for a while; return the seconds of each lease and of its report."""
    times = []
    with Client(f"{base}/v1/corpora/news") as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.perf_counter()
            orders = client.lease(_ORDERS_PER_LEASE)
            leased = time.perf_counter()
            client.report([Outcome(handle=one.handle, digest=_DIGEST) for one in orders])
            times.append((leased - began, time.perf_counter() - leased))
    return times


@contextmanager
def _viewers(
    base: str, paths: list[str], answers: dict[str, list[float]], n_viewers: int
) -> Iterator[None]:
    """Let viewers open all pages every few seconds meanwhile, from a process of their own."""
    if not n_viewers:
        yield
        return
    spawn = multiprocessing.get_context("spawn")
    begun, stopping, found = spawn.Event(), spawn.Event(), spawn.SimpleQueue()
    process = spawn.Process(target=_view, args=(base, paths, n_viewers, begun, stopping, found))
    process.start()
    begun.wait()
    try:
        yield
    finally:
        stopping.set()
        for path, times in found.get().items():
            answers[path] += times
        process.join()


def _view(
    base: str, paths: list[str], n_viewers: int, begun: Any, stopping: Any, found: Any
) -> None:
    answers: dict[str, list[float]] = {path: [] for path in paths}

    def view(number: int) -> None:
        stopping.wait(_REFRESH_SECONDS * number / n_viewers)
        while not stopping.is_set():
            began = time.monotonic()
            for path in paths:
                answers[path].append(_get(base, path))
            stopping.wait(max(_REFRESH_SECONDS - (time.monotonic() - began), 0.1))

    threads = [threading.Thread(target=view, args=(i,)) for i in range(n_viewers)]
    for thread in threads:
        thread.start()
    begun.set()
    for thread in threads:
        thread.join()
    found.put(answers)
