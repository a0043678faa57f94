"""Open the log that the configuration selects."""

from pathlib import Path
from typing import Literal

from recrawl.errors import LedgerError
from recrawl.ledger import Log, RocksLog
from recrawl.node.config.corpus_config import CorpusConfig

__all__ = ["check_log_client", "open_log"]


def check_log_client(config: CorpusConfig) -> None:
    """Raise `LedgerError` if the log is on Kafka and the client library is not installed."""
    if config.ledger.kind == "kafka":
        try:
            import recrawl.ledger.kafka  # noqa: F401, PLC0415 (an optional dependency)
        except ImportError as error:
            raise LedgerError(str(error)) from error


def open_log(
    folder: Path,
    config: CorpusConfig,
    *,
    mode: Literal["writer", "reader"] = "writer",
    corpus_id: str | None = None,
) -> Log:
    """Open the log of a corpus: in its folder, or in a Kafka topic.

    Parameters
    ----------
    folder
        Folder of the corpus.
    config
        Configuration of the corpus.
    mode
        Mode of access; a writer creates a log that does not exist.
    corpus_id
        Id of the corpus, which must be that of the log; None to accept any.
    """
    n_partitions = config.corpus.partitions
    ledger = config.ledger
    if ledger.kind == "rocksdb":
        return RocksLog.open(
            folder / "log",
            n_partitions,
            durability=ledger.durability,
            mode=mode,
            corpus_id=corpus_id,
        )
    check_log_client(config)
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
        in_sync_min=ledger.in_sync_min,
        accept_weaker=ledger.weaker_topic == "accept",
        client_settings=ledger.client_settings,
        corpus_id=corpus_id,
        seconds_max=ledger.give_up_after,
    )
