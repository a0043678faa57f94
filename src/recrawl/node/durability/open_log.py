"""Open the log that the configuration selects."""

from pathlib import Path
from typing import Literal

from recrawl.ledger import Log, RocksLog
from recrawl.node.config.corpus_config import CorpusConfig

__all__ = ["open_log"]


def open_log(
    folder: Path, config: CorpusConfig, *, mode: Literal["writer", "reader"] = "writer"
) -> Log:
    """Open the log of a corpus: in its folder, or in a Kafka topic."""
    n_partitions = config.corpus.partitions
    ledger = config.ledger
    if ledger.kind == "rocksdb":
        return RocksLog.open(folder / "log", n_partitions, durability=ledger.durability, mode=mode)
    # Imported here, because the Kafka client is an optional dependency.
    from recrawl.ledger.kafka import KafkaLog  # noqa: PLC0415

    assert ledger.bootstrap is not None
    assert ledger.topic is not None
    return KafkaLog.open(
        ledger.bootstrap,
        ledger.topic,
        n_partitions=n_partitions,
        create=mode == "writer",
        replication=ledger.replication,
        client_settings=ledger.client_settings,
    )
