"""Measure what a cluster costs: CPU seconds of worker, broker and client per thousand outcomes.

A client leases and reports pages at one worker; worker, broker and client are each pinned to one
core.  The records that this wrote to the log are then written again by a bare producer, in the same
order and to as many partitions, which parses, looks up, learns and decides nothing.  With two
workers, half of the rows of each call are forwarded.
"""

import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.cluster_processes import Brokers, Workers, add_pages, memory_gigabytes
from recrawl.client import Client
from recrawl.ledger.kafka import KafkaLog

__all__ = ["measure"]

_ROWS_PER_CALL: Final = 1_000
_IDLE_SECONDS: Final = 10.0
_READY_SECONDS_MAX: Final = 1_800.0
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


def measure(
    *,
    pages: Sequence[int],
    partitions: Sequence[int],
    workers: Sequence[int],
    n_outcomes: int,
) -> dict[str, Any]:
    """Return a row for each combination of pages, partitions and workers.

    Parameters
    ----------
    pages
        Numbers of pages.
    partitions
        Numbers of partitions.
    workers
        Numbers of workers.
    n_outcomes
        Number of outcomes of each measurement; a tenth of it comes before, to warm up.
    """
    rows = []
    with tempfile.TemporaryDirectory(prefix="recrawl-costs-") as folder:
        brokers = Brokers(Path(folder) / "brokers", 1)
        try:
            (broker,) = brokers.process_ids
            _pin(broker, 0)
            for n_pages in pages:
                for n_partitions in partitions:
                    for n_workers in workers:
                        own = Path(folder) / f"{n_pages}-{n_partitions}-{n_workers}"
                        row = _measure_one(
                            own, brokers, n_pages, n_partitions, n_workers, n_outcomes
                        )
                        rows.append(row)
                        # What is measured is not lost if a later measurement fails.
                        print(json.dumps(row), file=sys.stderr, flush=True)
        finally:
            brokers.close()
    return {"cores": len(os.sched_getaffinity(0)), "rows": rows}


def _measure_one(
    folder: Path,
    brokers: Brokers,
    n_pages: int,
    n_partitions: int,
    n_workers: int,
    n_outcomes: int,
) -> dict[str, Any]:
    folder.mkdir()
    (folder / "shared").mkdir()
    topic = f"costs-{folder.name}"
    settings = _settings(brokers.bootstrap, topic, n_partitions, folder / "shared")
    workers = Workers(folder, settings)
    started = time.monotonic()
    add_pages(folder / "w0", settings, n_pages)
    row: dict[str, Any] = {
        "pages": n_pages,
        "partitions": n_partitions,
        "workers": n_workers,
        "outcomes": n_outcomes,
        "add_seconds": round(time.monotonic() - started, 1),
    }
    names = [f"w{i}" for i in range(n_workers)]
    spawn = multiprocessing.get_context("spawn")
    (broker,) = brokers.process_ids
    try:
        started = time.monotonic()
        for name in names:
            workers.start(name)
            _pin(workers.processes[name].pid, 1)
        with spawn.Pool(1, initializer=_pin_self, initargs=(2,)) as pool:
            pool.apply(_wait_for_pages, (workers.url("w0"), n_pages, n_partitions))
            row["start_seconds"] = round(time.monotonic() - started, 1)
            processes = [workers.processes[name].pid for name in names]
            row["idle_cores"] = _idle_cores(processes, broker)
            pool.apply(_lease_and_report, (workers.url("w0"), n_outcomes // 10))
            log = KafkaLog.open(brokers.bootstrap, topic, n_partitions=n_partitions, create=False)
            ends = [log.partition(i).end for i in range(n_partitions)]
            before = [_cpu_seconds(one) for one in (*processes, broker)]
            client_cpu, seconds = pool.apply(_lease_and_report, (workers.url("w0"), n_outcomes))
            after = [_cpu_seconds(one) for one in (*processes, broker)]
        *worker_cpu, broker_cpu = (b - a for a, b in zip(before, after, strict=True))
        thousands = n_outcomes / 1_000
        row |= {
            "outcomes_per_second": round(n_outcomes / seconds),
            "worker_cpu_ms": round(1_000 * sum(worker_cpu) / thousands, 2),
            "broker_cpu_ms": round(1_000 * broker_cpu / thousands, 2),
            "client_cpu_ms": round(1_000 * client_cpu / thousands, 2),
            "worker_memory_gigabytes": round(max(map(memory_gigabytes, processes)), 2),
        }
    finally:
        workers.close()
    records = [_values_from(log, i, end) for i, end in enumerate(ends)]
    log.close()
    row["log_bytes"] = round(
        sum(len(value) for values in records for value in values) / n_outcomes, 1
    )
    before_bare = _cpu_seconds(broker)
    with spawn.Pool(1, initializer=_pin_self, initargs=(1,)) as pool:
        cpu = pool.apply(_produce, (brokers.bootstrap, f"{topic}-bare", records))
    row["bare_producer_cpu_ms"] = round(1_000 * cpu / thousands, 2)
    row["bare_broker_cpu_ms"] = round(1_000 * (_cpu_seconds(broker) - before_bare) / thousands, 2)
    return row


def _settings(bootstrap: str, topic: str, n_partitions: int, shared: Path) -> str:
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
[budget]
rate = "1000000/s"
[politeness]
delay = 0
in_flight_max = 1000
burst = 1000
"""


def _wait_for_pages(url: str, n_pages: int, n_partitions: int) -> None:
    """Wait until all partitions have owners."""
    deadline = time.monotonic() + _READY_SECONDS_MAX
    with Client(url, retry_seconds=_READY_SECONDS_MAX) as client:
        while client.stats().n_pages < n_pages:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{n_partitions} partitions have no owners")
            time.sleep(0.5)


def _lease_and_report(url: str, n_outcomes: int) -> tuple[float, float]:
    """Lease and report pages; return the CPU seconds of this process, and the seconds it took."""
    chance = random.Random(n_outcomes)
    n_done = 0
    with Client(url, retry_seconds=60.0) as client:
        client.lease(1)
        cpu, started = time.process_time(), time.monotonic()
        while n_done < n_outcomes:
            orders = client.lease_table(_ROWS_PER_CALL)
            outcomes = pa.table(
                {
                    "handle": orders.column("handle"),
                    "digest": [chance.randbytes(16) for _ in range(orders.num_rows)],
                }
            )
            if orders.num_rows:
                client.report(outcomes)
            n_done += orders.num_rows
        return time.process_time() - cpu, time.monotonic() - started


def _values_from(log: KafkaLog, partition: int, position: int) -> list[bytes]:
    ledger, values = log.partition(partition), []
    while found := ledger.read(position):
        values += [bytes(record.data) for _, record in found]
        position = found[-1][0] + 1
    return values


def _produce(bootstrap: str, topic: str, records: list[list[bytes]]) -> float:
    """Write the records of each partition with a bare client; return the CPU seconds it took."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, len(records), 1)]).values():
        made.result()
    cpu = time.process_time()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    for round_of_records in _in_rounds(records):
        for partition, value in round_of_records:
            producer.produce(topic, value, partition=partition)
        producer.flush()
    return time.process_time() - cpu


def _in_rounds(records: list[list[bytes]]) -> list[list[tuple[int, bytes]]]:
    """Return records one of each partition at a time, which the writer waits for."""
    longest = max(map(len, records))
    return [
        [(i, values[k]) for i, values in enumerate(records) if k < len(values)]
        for k in range(longest)
    ]


def _idle_cores(processes: list[int], broker: int) -> dict[str, float]:
    """Return the shares of a core that workers and broker take while nobody asks."""
    before = [_cpu_seconds(one) for one in (*processes, broker)]
    time.sleep(_IDLE_SECONDS)
    after = [_cpu_seconds(one) for one in (*processes, broker)]
    *worker, of_broker = ((b - a) / _IDLE_SECONDS for a, b in zip(before, after, strict=True))
    return {"worker": round(max(worker), 3), "broker": round(of_broker, 3)}


def _cpu_seconds(process: int) -> float:
    text = Path(f"/proc/{process}/stat").read_text()
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def _pin(process: int, place: int) -> None:
    """Pin all threads of a process to one core; places beyond the last core begin anew."""
    cores = sorted(os.sched_getaffinity(os.getppid()))
    for thread in Path(f"/proc/{process}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {cores[place % len(cores)]})


def _pin_self(place: int) -> None:
    _pin(os.getpid(), place)
