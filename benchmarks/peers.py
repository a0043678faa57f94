"""Compare leasing and reporting with tables of PostgreSQL and SQLite that do the same durable work.

Each case is a number of rows per call and a number of threads.  In every round the three take
turns with each case, so that other work on the machine slows all of them; the ratios are those of
the medians of the rounds.  A last case delays every sync by 2 ms.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import recrawl
from benchmarks.peer_queues import PostgresTable, Queue, SqliteTable, start_postgres
from benchmarks.scale import synthetic_urls
from recrawl.corpus import Corpus, CorpusConfig

__all__ = ["CASES", "Case", "measure", "measure_slow_sync"]

_DIGEST = b"0123456789abcdef"
_SYNC_MICROSECONDS = 2_000
_URLS_PER_PART = 100_000
# More rows than this are leased and reported as Arrow tables, which is what programs with batches
# do.
_OBJECTS_MAX = 100


class Case(NamedTuple):
    """A way of calling."""

    n_rows: int
    """Rows per call."""
    n_threads: int


CASES = (Case(1, 1), Case(1, 32), Case(100, 1), Case(1_000, 1))


class _CorpusQueue:
    """Leases and reports of one thread on a corpus."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def lease(self, n_rows: int) -> Sequence[Any] | pa.Table:
        if n_rows <= _OBJECTS_MAX:
            return self._corpus.lease(n_rows)
        return self._corpus.lease_table(n_rows)

    def close(self) -> None:
        pass

    def report(self, leased: Sequence[Any] | pa.Table, digest: bytes) -> int:
        if not isinstance(leased, pa.Table):
            outcomes = [recrawl.Outcome(handle=order.handle, digest=digest) for order in leased]
            return int(self._corpus.report(outcomes).counted.sum())
        table = pa.table(
            {
                "handle": leased["handle"],
                "digest": pa.array([digest] * len(leased), pa.binary(len(digest))),
            }
        )
        return int(self._corpus.report(table).counted.sum())


def _open_corpus(folder: Path) -> Corpus:
    config = {"politeness": {"delay": 0, "in_flight_max": 30_000, "burst": 30_000}}
    return recrawl.open(folder, CorpusConfig.from_dict(config))


def _urls(n_pages: int) -> Iterator[pa.StringArray]:
    for first in range(0, n_pages, _URLS_PER_PART):
        n = min(_URLS_PER_PART, n_pages - first)
        yield synthetic_urls(first, n, max(n_pages // 50, 1))


def _run_case(connect: Callable[[], Queue], case: Case, seconds: float) -> dict[str, float]:
    """Lease and report until the time is over; return pairs per second and latencies."""
    queues = [connect() for _ in range(case.n_threads)]
    started = time.perf_counter()
    ends = started + seconds
    latencies: list[list[float]] = [[] for _ in range(case.n_threads)]
    n_counted = [0] * case.n_threads
    errors: list[BaseException] = []

    def work(i: int) -> None:
        try:
            queue = queues[i]
            at = time.perf_counter()
            while at < ends:
                leased = queue.lease(case.n_rows)
                if not leased:
                    raise RuntimeError("no page was due; use more pages")
                n_counted[i] += queue.report(leased, _DIGEST)
                before, at = at, time.perf_counter()
                latencies[i].append(at - before)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(case.n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    passed = time.perf_counter() - started
    for queue in queues:
        queue.close()
    all_latencies = sorted(one for own in latencies for one in own)
    return {
        "rows_per_second": sum(n_counted) / passed,
        "milliseconds_median": 1e3 * all_latencies[len(all_latencies) // 2],
        "milliseconds_p99": 1e3 * all_latencies[int(len(all_latencies) * 0.99)],
    }


def _summary(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(one[name] for one in rounds), 2) for name in rounds[0]}


def measure(
    n_pages: int, *, n_rounds: int = 3, seconds: float = 3.0, cases: Sequence[Case] = CASES
) -> dict[str, object]:
    """Measure a corpus and both tables; return rows per second, latencies and ratios.

    Parameters
    ----------
    n_pages
        Pages of each.
    n_rounds
        Number of times that each case is run.
    seconds
        Length of one run.
    cases
        Numbers of rows per call and of threads.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = stack.enter_context(start_postgres())
        corpus = stack.enter_context(_open_corpus(folder / "corpus"))
        for part in _urls(n_pages):
            corpus.add(part)
        for table in (PostgresTable(address), SqliteTable(folder / "table.sqlite")):
            table.create(_urls(n_pages))
            table.close()
        connections: dict[str, Callable[[], Queue]] = {
            "recrawl": lambda: _CorpusQueue(corpus),
            "postgresql": lambda: PostgresTable(address),
            "sqlite": lambda: SqliteTable(folder / "table.sqlite"),
        }
        for connect in connections.values():  # compiles kernels, prepares statements
            for case in cases:
                _run_case(connect, Case(case.n_rows, 1), 0.3)
        found: dict[tuple[str, Case], list[dict[str, float]]] = {}
        for _ in range(n_rounds):
            for case in cases:
                for name, connect in connections.items():
                    rates = _run_case(connect, case, seconds)
                    found.setdefault((name, case), []).append(rates)
    results: dict[str, object] = {"pages": n_pages, "rounds": n_rounds, "seconds": seconds}
    for case in cases:
        by_name = {name: _summary(found[name, case]) for name in connections}
        own = by_name["recrawl"]["rows_per_second"]
        ratios = {
            f"ratio_to_{name}": round(own / by_name[name]["rows_per_second"], 2)
            for name in ("postgresql", "sqlite")
        }
        results[f"{case.n_rows} rows, {case.n_threads} threads"] = by_name | ratios
    return results


def _measure_alone(n_pages: int, seconds: float) -> dict[str, float]:
    case = Case(1, 32)
    with tempfile.TemporaryDirectory() as folder, _open_corpus(Path(folder) / "corpus") as corpus:
        for part in _urls(n_pages):
            corpus.add(part)
        _run_case(lambda: _CorpusQueue(corpus), case, 1.0)
        return _run_case(lambda: _CorpusQueue(corpus), case, seconds)


def measure_slow_sync(n_pages: int, *, seconds: float = 5.0) -> dict[str, object]:
    """Measure single rows from 32 threads in a process whose syncs take 2 ms longer.

    Parameters
    ----------
    n_pages
        Pages of the corpus.
    seconds
        Length of the run.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "slow_sync.so"
        source = Path(__file__).with_name("slow_sync.c")
        options = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run(["cc", *options, "-o", library, source, "-ldl"], check=True)
        delay = {"LD_PRELOAD": str(library), "SLOW_SYNC_US": str(_SYNC_MICROSECONDS)}
        script = (
            "import json; from benchmarks.peers import _measure_alone; "
            f"print(json.dumps(_measure_alone({n_pages}, {seconds})))"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | delay,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    found = json.loads(done.stdout)
    return {"sync_delay_milliseconds": _SYNC_MICROSECONDS / 1e3} | {
        name: round(value, 2) for name, value in found.items()
    }
