"""A corpus on a real broker, whose partitions three workers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from recrawl.client import Client
from recrawl.corpus import CorpusConfig
from tests.unit.cluster.api.workers import Workers

PARTITIONS = [[0, 3], [1, 4, 5], [2]]


@pytest.fixture
def config(kafka_bootstrap: str, kafka_topic: str) -> CorpusConfig:
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": 6},
            "ledger": {
                "kind": "kafka",
                "bootstrap": kafka_bootstrap,
                "topic": kafka_topic,
                "replication": 1,
            },
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
        }
    )


@pytest.fixture
def workers(tmp_path: Path, config: CorpusConfig) -> Iterator[Workers]:
    with Workers(tmp_path, config, PARTITIONS) as running:
        yield running


@pytest.fixture
def clients(workers: Workers) -> Iterator[list[Client]]:
    opened = [worker.client(row_retry_seconds=0) for worker in workers.all]
    yield opened
    for client in opened:
        client.close()
