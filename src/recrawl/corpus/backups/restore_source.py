"""Find what a corpus on Kafka is restored from as of a time: its partitions, and their log.

`recrawl resize` gives a corpus a new topic and a new id, so a time belongs to the partitions that
the corpus had then.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from recrawl.errors import BackupError, ConfigError, LedgerError, SnapshotError
from recrawl.ledger import Log
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.corpus_format import CorpusFormat, read_format
from recrawl.node.durability.log_opening.open_log import open_log
from recrawl.node.durability.log_opening.successor import (
    find_successor,
    format_of_successor,
    generation_of_topic,
    in_present_layout,
)
from recrawl.node.durability.shared_copies import SharedPartitions
from recrawl.urls import CANON_VERSION

__all__ = ["RestoreSource", "open_restore_source"]

logger = logging.getLogger(__name__)


class RestoreSource(NamedTuple):
    """The corpus to restore: what never changes, its configuration, and its log if it is there."""

    shape: CorpusFormat
    config: CorpusConfig
    log: Log | None


@contextmanager
def open_restore_source(folder: Path, at_ms: int) -> Iterator[RestoreSource]:
    """Read what is known of a corpus, and open the log that it had at a time, for reading.

    Parameters
    ----------
    folder
        Folder of the corpus, or only with its configuration.
    at_ms
        Time in milliseconds since 1970.

    Raises
    ------
    BackupError
        If nothing says which corpus to restore.
    ConfigError
        If the corpus has no configuration, or no shared storage.
    """
    found = _open_first(folder)
    try:
        source = found[0]
        while (later := _open_successor(folder, found[-1])) is not None:
            found.append(later)
            if _has_snapshots_before(later, at_ms):
                source = later
        yield source
    finally:
        for one in found:
            if one.log is not None:
                with suppress(LedgerError):
                    one.log.close()


def _open_first(folder: Path) -> list[RestoreSource]:
    """Return the corpus that the folder names."""
    shape = read_format(folder)
    config = _read_config(folder, shape)
    if config.snapshots.shared is None:
        raise ConfigError(
            f"the corpus in {folder} has no shared storage (snapshots.shared). Use `recrawl "
            "restore` without --at to restore a backup."
        )
    corpus_id = None if shape is None else shape.corpus_id
    log = _open_log(folder, config, corpus_id)
    if corpus_id is None and log is not None:
        corpus_id = log.corpus_id
    if corpus_id is None:
        if log is not None:
            log.close()
        raise BackupError(
            f"nothing in {folder} or in the topic {config.ledger.topic} says which corpus to "
            "restore. If its number of partitions was changed, name the present topic and number "
            "in recrawl.toml."
        )
    if shape is None:
        shape = CorpusFormat(
            corpus_id=corpus_id,
            generation=generation_of_topic(config.ledger.topic),
            canonical_urls=CANON_VERSION,
            partitions=config.corpus.partitions,
            group_by=config.corpus.group_by,
            ledger=config.ledger.kind,
        )
    return [RestoreSource(replace(shape, corpus_id=corpus_id), config, log)]


def _open_successor(folder: Path, source: RestoreSource) -> RestoreSource | None:
    """Return the same corpus after the next change of its number of partitions, if there was one.

    A machine that was away meanwhile, or has nothing but the old configuration, does not know of
    it; the old topic does.
    """
    if source.log is None:
        return None
    try:
        successor = find_successor(source.log)
    except LedgerError as error:
        logger.warning("the end of the topic %s is not read: %s", source.config.ledger.topic, error)
        return None
    if successor is None:
        return None
    shape = format_of_successor(source.shape, successor)
    config = in_present_layout(source.config, shape)
    return RestoreSource(shape, config, _open_log(folder, config, shape.corpus_id))


def _open_log(folder: Path, config: CorpusConfig, corpus_id: str | None) -> Log | None:
    try:
        return open_log(folder, config, mode="reader", corpus_id=corpus_id)
    except LedgerError as error:
        logger.warning("snapshots are restored without the log: %s", error)
        return None


def _has_snapshots_before(source: RestoreSource, at_ms: int) -> bool:
    """Return whether all partitions have snapshots in shared storage from before a time.

    New partitions begin with snapshots as of the moment at which the old ones ended.
    """
    shared = SharedPartitions(source.config.snapshots)
    for i in range(source.shape.partitions):
        copies = shared.of(source.shape.corpus_id, i)
        assert copies is not None
        for one in copies.list_complete():
            with suppress(SnapshotError):
                if copies.time_of(one) <= at_ms:
                    break
        else:
            return False
    return True


def _read_config(folder: Path, shape: CorpusFormat | None) -> CorpusConfig:
    """Return the configuration, with the topic and the partitions that the folder has now."""
    toml, last = folder / "recrawl.toml", folder / "last-config.json"
    try:
        if toml.exists():
            config = CorpusConfig.from_toml(toml)
        else:
            config = CorpusConfig.from_dict(json.loads(last.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ConfigError(f"{folder} has no recrawl.toml") from None
    except (OSError, ValueError) as error:
        if toml.exists():
            raise
        raise ConfigError(f"{last} cannot be read: {error}") from error
    return config if shape is None else in_present_layout(config, shape)
