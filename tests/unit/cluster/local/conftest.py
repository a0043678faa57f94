"""A cluster without workers, which tests let join."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from recrawl.corpus import CorpusConfig
from tests.unit.cluster.local.cluster import N_PARTITIONS, Cluster


@pytest.fixture
def cluster(tmp_path: Path, kafka_bootstrap: str, kafka_topic: str) -> Iterator[Cluster]:
    config = CorpusConfig.from_dict(
        {
            "corpus": {"partitions": N_PARTITIONS},
            "ledger": {
                "kind": "kafka",
                "bootstrap": kafka_bootstrap,
                "topic": kafka_topic,
                "replication": 1,
            },
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
            "budget": {"rate": "400000/h"},
        }
    )
    made = Cluster(tmp_path, config, kafka_bootstrap, kafka_topic)
    try:
        yield made
    finally:
        with ExitStack() as ending:
            for name in list(made.workers):
                ending.callback(made.end, name, says_goodbye=False)
