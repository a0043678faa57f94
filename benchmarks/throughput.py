"""Compare a whole node with a bare engine that writes the same bytes.

While the node runs, every batch to RocksDB and every append to the log is recorded.  The bare
engine then writes the same batches into an empty folder or topic, with the same syncs and waits.
It parses no URLs and looks up, learns and decides nothing.
"""

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow as pa
from rocksdict import Rdict, WriteBatch

import recrawl
from benchmarks.calls import lease_and_report
from benchmarks.scale import synthetic_urls
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.kv import KeyValues
from recrawl.kv.options import KvOptions, engine_options
from recrawl.ledger import Record

__all__ = ["measure"]


class _Write(NamedTuple):
    """One batch written to RocksDB."""

    folder: Path
    options: KvOptions
    keys: Sequence[bytes]
    values: Sequence[bytes]
    deletes: Sequence[bytes]
    sync: bool


class _Recording:
    """All batches written to RocksDB and all records appended to a log, in order."""

    def __init__(self) -> None:
        self.writes: list[_Write] = []
        self.appends: list[Sequence[Record]] = []


@contextmanager
def _record_writes(corpus: Corpus) -> Iterator[_Recording]:
    recording = _Recording()
    write = KeyValues.write

    def write_and_record(self: KeyValues, keys: Any, values: Any, **options: Any) -> None:
        write(self, keys, values, **options)
        recording.writes.append(
            _Write(
                self.folder,
                self._options,
                keys,
                values,
                options.get("deletes", ()),
                options.get("sync", False),
            )
        )

    sync = KeyValues.sync

    def sync_and_record(self: KeyValues) -> None:
        sync(self)
        recording.writes.append(_Write(self.folder, self._options, (), (), (), sync=True))

    ledger = corpus.nodes[0].ledger
    append = ledger.append

    def append_and_record(records: Sequence[Record]) -> Any:
        recording.appends.append(list(records))
        return append(records)

    with (
        patch.object(KeyValues, "write", write_and_record),
        patch.object(KeyValues, "sync", sync_and_record),
        patch.object(ledger, "append", append_and_record),
    ):
        yield recording


def _time_bare_rocksdb(writes: list[_Write]) -> float:
    """Return the seconds that RocksDB takes for the same batches."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = {write.folder: write.options for write in writes}
        engines = {
            folder: Rdict(str(Path(scratch) / str(i)), engine_options(options, is_reader=False))
            for i, (folder, options) in enumerate(folders.items())
        }
        started = time.perf_counter()
        for write in writes:
            batch = WriteBatch(raw_mode=True)
            deque(map(batch.delete, write.deletes), maxlen=0)
            deque(map(batch.put, write.keys, write.values), maxlen=0)
            engine = engines[write.folder]
            engine.write(batch)
            if write.sync:
                engine.flush_wal(True)
        seconds = time.perf_counter() - started
        for engine in engines.values():
            engine.close()
    return seconds


def _time_bare_kafka(appends: list[Sequence[Record]], bootstrap: str) -> float:
    """Return the seconds that a producer takes for the same messages, waiting as the node does."""
    from confluent_kafka import Producer  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

    topic = f"bare-{os.getpid()}-{time.monotonic_ns()}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 0,
            "message.max.bytes": 8_000_000,
        }
    )
    producer.produce(topic, b"connect", partition=0)
    producer.flush()
    started = time.perf_counter()
    for records in appends:
        for record in records:
            headers: Any = [("schema", str(record.schema).encode())]
            producer.produce(topic, record.data, partition=0, headers=headers)
        producer.flush()
    return time.perf_counter() - started


def _compare_with_bare(
    corpus: Corpus, n_rows: int, work: Callable[[], int], bootstrap: str | None
) -> dict[str, object]:
    """Time some work on a node, and the writes of that work on the bare engine."""
    with _record_writes(corpus) as recording:
        started = time.perf_counter()
        n_done = work()
        seconds = time.perf_counter() - started
    assert n_done == n_rows, (n_done, n_rows)
    rocksdb = _time_bare_rocksdb(recording.writes)
    found: dict[str, object] = {
        "rows": n_rows,
        "rows_per_second": round(n_rows / seconds),
        "bare_rocksdb_rows_per_second": round(n_rows / rocksdb),
        "ratio_to_bare_rocksdb": float(f"{rocksdb / seconds:.3g}"),
        "log_bytes_per_row": round(
            sum(len(r.data) for records in recording.appends for r in records) / n_rows, 1
        ),
    }
    if bootstrap is not None:
        kafka = _time_bare_kafka(recording.appends, bootstrap)
        found["bare_kafka_rows_per_second"] = round(n_rows / kafka)
        found["ratio_to_bare_kafka"] = float(f"{kafka / seconds:.3g}")
        found["ratio_to_bare_kafka_and_rocksdb"] = float(f"{(kafka + rocksdb) / seconds:.3g}")
    return found


def measure(
    n_rows: int, batch: int, ledger: str = "rocksdb", *, bootstrap: str | None = None
) -> dict[str, object]:
    """Measure adding, leasing and reporting, ingest by handle and by URL.

    Parameters
    ----------
    n_rows
        Number of pages added, of orders and of outcomes.
    batch
        Number of rows of each call.
    ledger, bootstrap
        Kind of the log, ``rocksdb`` or ``kafka``, and the address of the Kafka broker.
    """
    ledger_config: dict[str, Any] = {"kind": ledger}
    if ledger == "kafka":
        topic = f"throughput-{os.getpid()}-{time.monotonic_ns()}"
        ledger_config |= {"bootstrap": bootstrap, "topic": topic, "replication": 1}
    config = CorpusConfig.from_dict(
        {
            "ledger": ledger_config,
            "politeness": {"delay": 0, "in_flight_max": 30_000, "burst": 30_000},
        }
    )
    n_hosts = max(n_rows // 50, 1)
    urls = [
        synthetic_urls(first, min(batch, n_rows - first), n_hosts)
        for first in range(0, n_rows, batch)
    ]
    results: dict[str, object] = {"ledger": ledger, "batch": batch}
    with (
        tempfile.TemporaryDirectory() as scratch,
        recrawl.open(Path(scratch) / "corpus", config) as corpus,
    ):
        _warm_up(corpus)

        def add() -> int:
            return sum(corpus.add(part).n_added for part in urls)

        def cycle() -> int:
            n = 0
            for _ in urls:
                n += lease_and_report(corpus, batch)
            return n

        results["add"] = _compare_with_bare(corpus, n_rows, add, bootstrap)
        results["lease_and_report_digests"] = _compare_with_bare(corpus, n_rows, cycle, bootstrap)
        held = [corpus.lease(batch) for _ in urls]
        tables = [
            pa.table(
                {
                    "handle": [order.handle for order in orders],
                    "changed": pa.array([i % 9 == 0 for i in range(len(orders))]),
                }
            )
            for orders in held
        ]

        def report() -> int:
            return sum(int(corpus.report(table).counted.size) for table in tables)

        results["report_by_handle"] = _compare_with_bare(corpus, n_rows, report, bootstrap)

        def signal() -> int:
            for part in urls:
                corpus.signal(part, source="sitemap")
            return n_rows

        results["signal_by_url"] = _compare_with_bare(corpus, n_rows, signal, bootstrap)
    return results


def _warm_up(corpus: Corpus) -> None:
    """Compile and load everything before the measurement."""
    corpus.add([f"https://warm{i}.example/" for i in range(50)])
    orders = corpus.lease(50)
    corpus.report([recrawl.Outcome(handle=order.handle, digest=b"1") for order in orders])
    corpus.signal(["https://warm1.example/"], source="sitemap")
    corpus.remove([f"https://warm{i}.example/" for i in range(50)])
