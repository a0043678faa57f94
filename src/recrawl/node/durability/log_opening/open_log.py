"""Open the log that the configuration selects."""

from pathlib import Path
from typing import Literal

from recrawl.errors import LedgerError
from recrawl.ledger import Log, RocksLog
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.corpus_format import new_corpus_id
from recrawl.node.durability.log_damage import has_begun
from recrawl.node.durability.log_opening.topic_identity import (
    check_topic,
    missing_topic_error,
    note_topic,
)
from recrawl.node.durability.log_opening.torn_log import open_rocks_log

__all__ = ["check_log_client", "id_for_log", "note_log", "open_log"]


def check_log_client(config: CorpusConfig) -> None:
    """Raise `LedgerError` if the log is on Kafka and the client library is not installed."""
    if config.ledger.kind == "kafka":
        try:
            import recrawl.ledger.kafka  # noqa: F401, PLC0415 (an optional dependency)
        except ImportError as error:
            raise LedgerError(str(error)) from error


def id_for_log(log: Log) -> str:
    """Return the id of the corpus whose records a log has, or a new one.

    The new id of a corpus on Kafka follows from the id that the brokers gave its topic: processes
    that open a new topic at the same moment must agree.
    """
    topic_id = getattr(log, "topic_id", None)
    return log.corpus_id or new_corpus_id(topic_id)


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
        Mode of access; a writer creates a log that does not exist, but not the topic of a corpus
        that had one before.
    corpus_id
        Id of the corpus, which must be that of the log; None to accept any.
    """
    n_partitions = config.corpus.partitions
    ledger = config.ledger
    if ledger.kind == "rocksdb" and mode == "writer":
        return open_rocks_log(folder, config, corpus_id)
    if ledger.kind == "rocksdb":
        return RocksLog.open(
            folder / "log",
            n_partitions,
            durability=ledger.durability,
            mode=mode,
            corpus_id=corpus_id,
        )
    check_log_client(config)
    return _open_topic(folder, config, is_writer=mode == "writer", corpus_id=corpus_id)


def _open_topic(
    folder: Path, config: CorpusConfig, *, is_writer: bool, corpus_id: str | None
) -> Log:
    # Imported here, because the Kafka client is an optional dependency.
    from recrawl.ledger.kafka import KafkaLog  # noqa: PLC0415
    from recrawl.ledger.kafka_topic import TopicMissing  # noqa: PLC0415

    ledger = config.ledger
    assert ledger.bootstrap is not None
    assert ledger.topic is not None
    is_old = has_begun(folder)
    try:
        log = KafkaLog.open(
            ledger.bootstrap,
            ledger.topic,
            n_partitions=config.corpus.partitions,
            # A new topic in the place of an old one would hide that its records are lost.
            create=is_writer and not is_old,
            replication=ledger.replication,
            in_sync_min=ledger.in_sync_min,
            accept_weaker=ledger.weaker_topic == "accept",
            client_settings=ledger.client_settings,
            corpus_id=corpus_id,
            seconds_max=ledger.give_up_after,
        )
    except TopicMissing as error:
        if not is_old:
            raise
        raise missing_topic_error(folder, ledger.topic, ledger.bootstrap) from error
    try:
        check_topic(folder, ledger.topic, log.topic_id)
    except BaseException:
        log.close()
        raise
    return log


def note_log(folder: Path, config: CorpusConfig, log: Log) -> None:
    """Note which topic the log of a corpus is in, for the next opening."""
    if config.ledger.topic is not None:
        note_topic(folder, config.ledger.topic, getattr(log, "topic_id", None))
