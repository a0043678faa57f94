"""More partitions on Kafka take no more threads, and a bounded number of files and MB each."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

import recrawl
from benchmarks.partitions import process_counts
from recrawl.corpus import CorpusConfig

FEW, MANY = 4, 32
# The store of a partition: its lock, manifest, write-ahead log, messages, and its folder twice.
FILES_PER_PARTITION = 6
MB_PER_PARTITION = 6


def config_of(bootstrap: str, topic: str) -> CorpusConfig:
    ledger = {"kind": "kafka", "bootstrap": bootstrap, "topic": topic, "replication": 1}
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": MANY},
            "ledger": ledger,
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
        }
    )


def use_corpus(folder: Path, bootstrap: str, topic: str) -> list[dict[str, int]]:
    """Return the counts of a process with few and with many partitions of a corpus."""
    found = []
    some = range(FEW)
    with recrawl.open(folder, config_of(bootstrap, topic), partitions=some) as corpus:
        for partitions in (range(FEW), range(FEW, MANY)):
            for partition in partitions:
                if partition >= FEW:
                    corpus.open_partition(partition)
            corpus.add([f"https://h{i}.example/{i}" for i in range(2000)])
            for n in (1, 100, 10 * len(corpus.nodes)):
                assert len(corpus.lease(n)) == n
            found.append(process_counts())
    return found


@pytest.mark.slow_without_jit
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_more_partitions_take_no_more_threads(
    tmp_path: Path, kafka_bootstrap: str, kafka_topic: str
) -> None:
    arguments: Any = (tmp_path / "corpus", kafka_bootstrap, kafka_topic)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        few, many = pool.apply(use_corpus, arguments)
    n_more = MANY - FEW
    assert many["threads"] <= few["threads"] + 2
    assert many["threads"] <= 40
    assert many["files"] - few["files"] <= FILES_PER_PARTITION * n_more
    assert many["memory_mb"] - few["memory_mb"] <= MB_PER_PARTITION * n_more
