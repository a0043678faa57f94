"""Commands that only read, each a process of its own, on a corpus of very many pages.

The corpus is asked as it was closed, with a log that goes on after the newest snapshot, and while
another process has it open.  Times are of whole processes: interpreter, imports, answer and exit.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import recrawl
from benchmarks.scale import synthetic_urls
from recrawl.corpus import Corpus

__all__ = ["measure"]

_PAGES_PER_CALL = 1 << 17
_ROWS_PER_REPORT = 20_000
_RUNS = 3


def _report_some(corpus: Corpus, n_rows: int, n_pages: int, n_hosts: int, seed: int) -> None:
    """Report fetches of pages all over the corpus."""
    rng = np.random.default_rng(seed)
    for first in range(0, n_rows, _ROWS_PER_REPORT):
        n = min(_ROWS_PER_REPORT, n_rows - first, n_pages)
        url = synthetic_urls(int(rng.integers(0, n_pages - n + 1)), n, n_hosts)
        digest = pa.array([bytes([one]) for one in rng.integers(1, 4, n).tolist()], pa.binary())
        corpus.report(pa.table({"url": url, "digest": digest}))


def _make(folder: Path, n_pages: int, n_hosts: int) -> None:
    rng = np.random.default_rng(0)
    with recrawl.open(folder) as corpus:
        for first in range(0, n_pages, _PAGES_PER_CALL):
            n = min(_PAGES_PER_CALL, n_pages - first)
            corpus.add(synthetic_urls(first, n, n_hosts), importance=rng.lognormal(size=n))
        _report_some(corpus, n_pages // 10, n_pages, n_hosts, 1)
        corpus.lease(1_000)
        corpus.snapshot()


def _go_on(folder: Path, n_rows: int, n_pages: int, n_hosts: int) -> None:
    """Log some more, say so on standard output, and wait to be killed."""
    corpus = recrawl.open(folder)
    _report_some(corpus, n_rows, n_pages, n_hosts, 2)
    print("done", flush=True)
    time.sleep(3600)


def _seconds(command: list[str]) -> dict[str, float]:
    """Return the least of a few runs: seconds on the wall, and of the processor."""
    wall, cpu = [], []
    for _ in range(_RUNS):
        before, moment = os.times(), time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        wall.append(time.perf_counter() - moment)
        after = os.times()
        cpu.append(
            after.children_user
            - before.children_user
            + after.children_system
            - before.children_system
        )
    return {"seconds": round(min(wall), 2), "cpu_seconds": round(min(cpu), 2)}


def _asked(folder: Path, url: str) -> dict[str, Any]:
    commands = {"stats": ["stats"], "plan": ["plan"], "explain": ["explain", url]}
    python = [sys.executable, "-m", "recrawl"]
    return {
        name: _seconds([*python, *words, "-C", str(folder), "--json"])
        for name, words in commands.items()
    }


@contextmanager
def _going_on(folder: Path, n_rows: int, n_pages: int, n_hosts: int) -> Iterator[None]:
    numbers = [str(n_rows), str(n_pages), str(n_hosts)]
    command = [sys.executable, "-m", "benchmarks.reading", str(folder), *numbers]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "done"
        yield
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()


def measure(
    n_pages: int, n_hosts: int, *, n_rows: int = 200_000, folder: str | None = None
) -> dict[str, object]:
    """Make a corpus and ask it; return what each command took.

    Parameters
    ----------
    n_pages, n_hosts
        Of the corpus.
    n_rows
        Outcomes in the log after the newest snapshot.
    folder
        Of the corpus, which stays there and is not made again; a temporary one unless given.
    """
    where = Path(folder or tempfile.mkdtemp(prefix="recrawl-reading-"))
    url = synthetic_urls(n_pages // 3, 1, n_hosts)[0].as_py()
    try:
        if not (where / "FORMAT").exists():
            _make(where, n_pages, n_hosts)
        _asked(where, url)  # kernels are compiled, and files come into memory
        found: dict[str, object] = {"pages": n_pages, "closed": _asked(where, url)}
        with _going_on(where, 0, n_pages, n_hosts):
            found["while open elsewhere"] = _asked(where, url)
        with _going_on(where, n_rows, n_pages, n_hosts):
            found[f"open elsewhere, {n_rows} outcomes after the snapshot"] = _asked(where, url)
        return found
    finally:
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)


if __name__ == "__main__":
    _go_on(Path(sys.argv[1]), *(int(number) for number in sys.argv[2:]))
