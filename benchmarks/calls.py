"""Measure leasing and reporting with 1000, 100 and 1 rows per call.

Every call syncs the log once; the rows of a call share that cost.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

import recrawl
from benchmarks.scale import synthetic_urls
from recrawl.corpus import Corpus, CorpusConfig

__all__ = ["lease_and_report", "measure"]


def measure(
    n_pages: int, rows_per_call: Sequence[int] = (1_000, 100, 1), n_calls_max: int = 2_000
) -> dict[str, object]:
    """Measure leasing and reporting by the number of rows in a call.

    Parameters
    ----------
    n_pages
        Pages of the corpus.
    rows_per_call
        Numbers of rows in a call, each measured by itself.
    n_calls_max
        Largest number of calls for each; larger calls get fewer of them.
    """
    config = CorpusConfig.from_dict(
        {"politeness": {"delay": 0, "in_flight_max": 30_000, "burst": 30_000}}
    )
    n_hosts = max(n_pages // 50, 1)
    results: dict[str, object] = {"pages": n_pages}
    with (
        tempfile.TemporaryDirectory() as scratch,
        recrawl.open(Path(scratch) / "corpus", config) as corpus,
    ):
        for first in range(0, n_pages, 100_000):
            corpus.add(synthetic_urls(first, min(100_000, n_pages - first), n_hosts))
        # The first calls compile kernels and fill the picker's queues.
        for n_rows in (1_000, 100, 1, 1):
            lease_and_report(corpus, n_rows)
        for n_rows in rows_per_call:
            n_calls = max(min(n_pages // 50 // n_rows, n_calls_max), 1)
            started = time.perf_counter()
            n_done = sum(lease_and_report(corpus, n_rows) for _ in range(n_calls))
            seconds = time.perf_counter() - started
            results[f"rows_per_second_{n_rows}_per_call"] = round(n_done / seconds)
            results[f"milliseconds_per_call_of_{n_rows}"] = round(1e3 * seconds / n_calls, 2)
    return results


def lease_and_report(corpus: Corpus, n_rows: int) -> int:
    """Lease up to ``n_rows`` pages, report them, and return the number of outcomes that counted."""
    orders = corpus.lease(n_rows)
    handles = pa.array([order.handle for order in orders])
    digest = pa.array([b"0123456789abcdef"] * len(orders), pa.binary(16))
    return int(corpus.report(pa.table({"handle": handles, "digest": digest})).counted.sum())
