"""Find the topic in which a corpus goes on after the number of its partitions was changed.

The last record of the old topic's first partition names the new topic.  It is the moment of the
change: before it, the old topic is the log of the corpus, and after it, the new one.
"""

import re
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.ledger import Ledger, Log
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.corpus_format import CorpusFormat
from recrawl.node.records import SUCCESSOR_SCHEMAS, HandlesMoved, LayoutReplaced, entry_of

__all__ = [
    "Successor",
    "find_successor",
    "format_of_successor",
    "generation_of_topic",
    "in_present_layout",
    "successor_entries",
    "topic_of",
]

# A worker that has not yet read that a partition is closed may append some records after that.
_RECORDS_LOOKED_AT: Final = 256
_HANDLES_PER_RECORD: Final = 200_000
_SUFFIX: Final = re.compile(r"\.g([1-9]\d?)$")


class Successor(NamedTuple):
    """Where a corpus goes on."""

    topic: str
    n_partitions: int
    generation: int
    """Layout generation."""
    corpus_id: str
    """Id of the new partitions."""
    old_handles: NDArray[np.int64]
    """Handles of orders that were handed out before."""
    new_handles: NDArray[np.int64]
    """Handles of the same orders now."""


def topic_of(topic: str, generation: int) -> str:
    """Return the name of the topic of a layout generation.

    Examples
    --------
    >>> topic_of("news", 1), topic_of("news.g1", 2)
    ('news.g1', 'news.g2')
    """
    return f"{_SUFFIX.sub('', topic)}.g{generation}"


def generation_of_topic(topic: str | None) -> int:
    """Return the layout generation that is part of the name of a topic; 0 if none is."""
    found = _SUFFIX.search(topic or "")
    return 0 if found is None else int(found[1])


def in_present_layout(config: CorpusConfig, shape: CorpusFormat) -> CorpusConfig:
    """Return a configuration with the partitions and the topic that the corpus has now.

    A configuration may still name those from before the number of partitions was changed.

    Parameters
    ----------
    config
        Configuration as it was written.
    shape
        Content of the FORMAT file.
    """
    if config.corpus.partitions in shape.earlier:
        config = replace(config, corpus=replace(config.corpus, partitions=shape.partitions))
    topic = config.ledger.topic
    if topic is not None and topic_of(topic, shape.generation) == shape.topic:
        config = replace(config, ledger=replace(config.ledger, topic=shape.topic))
    return config


def format_of_successor(shape: CorpusFormat, successor: Successor) -> CorpusFormat:
    """Return the content of the FORMAT file of a corpus with other partitions."""
    return replace(
        shape,
        corpus_id=successor.corpus_id,
        generation=successor.generation,
        partitions=successor.n_partitions,
        topic=successor.topic or None,
        earlier=tuple({*shape.earlier, shape.partitions}),
    )


def successor_entries(successor: Successor, position: int) -> list[HandlesMoved | LayoutReplaced]:
    """Return the entries that name a successor; the last one makes it valid.

    Parameters
    ----------
    successor
        Where the corpus goes on.
    position
        Position after the last record of the log.
    """
    entries: list[HandlesMoved | LayoutReplaced] = []
    old, new = successor.old_handles, successor.new_handles
    for first in range(0, old.size, _HANDLES_PER_RECORD):
        rows = slice(first, first + _HANDLES_PER_RECORD)
        entries.append(HandlesMoved(old[rows], new[rows]))
    last = LayoutReplaced(
        np.array([successor.generation]),
        np.array([successor.n_partitions]),
        np.array([position]),
        pa.array([successor.topic], pa.string()),
        pa.array([successor.corpus_id], pa.string()),
    )
    return [*entries, last]


def find_successor(log: Log, n_records: int = _RECORDS_LOOKED_AT) -> Successor | None:
    """Return where the corpus of a log goes on; None if that is this log.

    Parameters
    ----------
    log
        Log of the corpus.
    n_records
        Number of records at the end of its first partition to look at.
    """
    ledger = log.partition(0)
    end = ledger.end
    found = None
    for entry in _entries(ledger, max(ledger.first, end - n_records), end):
        if found is None and isinstance(entry, LayoutReplaced):
            found = entry
    if found is None:
        return None
    begin = max(int(found.position[0]), ledger.first)
    moved = [one for one in _entries(ledger, begin, end) if isinstance(one, HandlesMoved)]
    none = np.empty(0, np.int64)
    return Successor(
        topic=str(found.topic[0]),
        n_partitions=int(found.n_partitions[0]),
        generation=int(found.generation[0]),
        corpus_id=str(found.corpus_id[0]),
        old_handles=np.concatenate([none, *(one.old for one in moved)]),
        new_handles=np.concatenate([none, *(one.new for one in moved)]),
    )


def _entries(ledger: Ledger, begin: int, end: int) -> "list[HandlesMoved | LayoutReplaced]":
    """Return the entries about successors in a range of the log."""
    found: list[HandlesMoved | LayoutReplaced] = []
    while begin < end:
        for position, record in ledger.read(begin):
            begin = position + 1
            if record.schema in SUCCESSOR_SCHEMAS and position < end:
                entry = entry_of(record)
                assert isinstance(entry, (HandlesMoved, LayoutReplaced))
                found.append(entry)
    return found
