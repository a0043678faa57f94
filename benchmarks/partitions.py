"""Measure threads, open files, memory and leases of a process with many partitions on Kafka.

Each number of partitions has a new topic, a new folder and a process of its own.
"""

import multiprocessing
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import recrawl
from recrawl.corpus import Corpus, CorpusConfig, Order
from recrawl.node.orders import partition_in

__all__ = ["measure", "process_counts"]

# Orders of a lease, and number of leases.
_LEASES = {1: 200, 100: 100, 1_000: 30}
# Where each partition has only so many pages to give, a lease of as many for each asks all of them.
_ORDERS_OF_ALL = 4
_N_LEASES_OF_ALL = 20


def measure(bootstrap: str, partitions: Sequence[int], n_pages: int) -> dict[str, Any]:
    """Return a row for each number of partitions.

    Parameters
    ----------
    bootstrap
        Address of a Kafka broker.
    partitions
        Numbers of partitions.
    n_pages
        Number of pages of each corpus.
    """
    spawn = multiprocessing.get_context("spawn")
    rows = []
    for n_partitions in partitions:
        with spawn.Pool(1) as pool:
            rows.append(pool.apply(_measure_one, (bootstrap, n_partitions, n_pages)))
    return {"rows": rows}


def process_counts() -> dict[str, int]:
    """Return the numbers of threads and open files of this process, and its memory in MB."""
    status = Path("/proc/self/status").read_text()
    (resident,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "memory_mb": int(resident) // 1024,
    }


def _measure_one(bootstrap: str, n_partitions: int, n_pages: int) -> dict[str, Any]:
    config = CorpusConfig.from_dict(
        {
            "corpus": {"partitions": n_partitions},
            "ledger": {
                "kind": "kafka",
                "bootstrap": bootstrap,
                "topic": f"partitions-{uuid.uuid4().hex}",
                "replication": 1,
            },
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
        }
    )
    row: dict[str, Any] = {"partitions": n_partitions, "pages": n_pages}
    before = process_counts()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with recrawl.open(Path(folder) / "corpus", config) as corpus:
            row["open_seconds"] = time.perf_counter() - start
            start = time.perf_counter()
            corpus.add([f"https://host-{i}.example/page-{i}" for i in range(n_pages)])
            row["add_seconds"] = time.perf_counter() - start
            for n in _LEASES:
                corpus.lease(n)  # compiles kernels, and reads what every partition has
            leases = {str(n): _time_leases(corpus, n, calls) for n, calls in _LEASES.items()}
            leases["all"] = _time_leases_of_all(corpus, n_partitions, n_pages)
            row |= process_counts()
            row["memory_mb_before"] = before["memory_mb"]
            row["leases"] = leases
    return row


def _time_leases_of_all(corpus: Corpus, n_partitions: int, n_pages: int) -> dict[str, float]:
    """Return the times of leases that must ask every partition: each has a few pages to give."""
    free: dict[int, list[int]] = {i: [] for i in range(n_partitions)}
    for order in corpus.lease(n_pages):
        own = free[partition_in(order.handle)]
        if len(own) < _ORDERS_OF_ALL:
            own.append(order.handle)
    corpus.release([handle for own in free.values() for handle in own])

    def release(orders: Sequence[Order]) -> None:
        corpus.release([order.handle for order in orders])

    return _time_leases(corpus, _ORDERS_OF_ALL * n_partitions, _N_LEASES_OF_ALL, release)


def _time_leases(
    corpus: Corpus,
    n: int,
    n_calls: int,
    after_each: Callable[[Sequence[Order]], None] = lambda _: None,
) -> dict[str, float]:
    """Return the median and the 99th percentile of leases, in milliseconds, and their CPU time."""
    seconds, n_orders, cpu = [], 0, 0.0
    for _ in range(n_calls):
        start, cpu_start = time.perf_counter(), time.process_time()
        orders = corpus.lease(n)
        seconds.append(time.perf_counter() - start)
        cpu += time.process_time() - cpu_start
        n_orders += len(orders)
        after_each(orders)
    p50, p99 = np.quantile(seconds, [0.5, 0.99], method="higher")
    return {
        "n": n,
        "calls": n_calls,
        "orders": n_orders,
        "p50_ms": round(1000 * p50, 2),
        "p99_ms": round(1000 * p99, 2),
        "p99_to_p50": round(p99 / p50, 2),
        "cpu_ms": round(1000 * cpu / n_calls, 2),
    }
