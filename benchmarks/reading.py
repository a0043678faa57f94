"""Time the commands that only read, on a corpus of very many pages.

The commands run on a closed corpus, while another process has it open, and with a log that goes on
after the newest snapshot.  Times are those of whole processes, from start to exit.
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


def _report_fetches(corpus: Corpus, n_rows: int, n_pages: int, n_hosts: int, seed: int) -> None:
    """Report fetches of pages all over the corpus."""
    rng = np.random.default_rng(seed)
    for first in range(0, n_rows, _ROWS_PER_REPORT):
        n = min(_ROWS_PER_REPORT, n_rows - first, n_pages)
        url = synthetic_urls(int(rng.integers(0, n_pages - n + 1)), n, n_hosts)
        digest = pa.array([bytes([digit]) for digit in rng.integers(1, 4, n).tolist()], pa.binary())
        corpus.report(pa.table({"url": url, "digest": digest}))


def _make_corpus(folder: Path, n_pages: int, n_hosts: int) -> None:
    rng = np.random.default_rng(0)
    with recrawl.open(folder) as corpus:
        for first in range(0, n_pages, _PAGES_PER_CALL):
            n = min(_PAGES_PER_CALL, n_pages - first)
            corpus.add(synthetic_urls(first, n, n_hosts), importance=rng.lognormal(size=n))
        _report_fetches(corpus, n_pages // 10, n_pages, n_hosts, 1)
        corpus.lease(1_000)
        corpus.snapshot()


def _write_and_wait(folder: Path, n_rows: int, n_pages: int, n_hosts: int) -> None:
    """Report outcomes, print "done", and wait to be killed."""
    corpus = recrawl.open(folder)
    _report_fetches(corpus, n_rows, n_pages, n_hosts, 2)
    print("done", flush=True)
    time.sleep(3600)


def _time_command(command: list[str]) -> dict[str, float]:
    """Return the least wall time and CPU time of a few runs of a command."""
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


def _time_commands(folder: Path, url: str) -> dict[str, Any]:
    commands = {"stats": ["stats"], "plan": ["plan"], "explain": ["explain", url]}
    python = [sys.executable, "-m", "recrawl"]
    return {
        name: _time_command([*python, *words, "-C", str(folder), "--json"])
        for name, words in commands.items()
    }


@contextmanager
def _writer_process(folder: Path, n_rows: int, n_pages: int, n_hosts: int) -> Iterator[None]:
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
    """Make a corpus and run the commands on it; return the times of each.

    Parameters
    ----------
    n_pages, n_hosts
        Number of pages and of hosts of the corpus.
    n_rows
        Number of outcomes in the log after the newest snapshot.
    folder
        Folder of the corpus, which is reused and not deleted; a temporary one by default.
    """
    where = Path(folder or tempfile.mkdtemp(prefix="recrawl-reading-"))
    url = synthetic_urls(n_pages // 3, 1, n_hosts)[0].as_py()
    try:
        if not (where / "FORMAT").exists():
            _make_corpus(where, n_pages, n_hosts)
        _time_commands(where, url)  # warm up: compile kernels, and load files into memory
        found: dict[str, object] = {"pages": n_pages, "closed": _time_commands(where, url)}
        with _writer_process(where, 0, n_pages, n_hosts):
            found["while open elsewhere"] = _time_commands(where, url)
        with _writer_process(where, n_rows, n_pages, n_hosts):
            found[f"open elsewhere, {n_rows} outcomes after the snapshot"] = _time_commands(
                where, url
            )
        return found
    finally:
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)


if __name__ == "__main__":
    _write_and_wait(Path(sys.argv[1]), *(int(number) for number in sys.argv[2:]))
