"""Change the number of partitions of a corpus that stands still; see ADR 0039."""

import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from recrawl.atomic_files import create_folder, sync_tree
from recrawl.corpus.leasing.old_handles import OldHandles
from recrawl.corpus.opening import (
    RecoveredCorpus,
    adopt_successor,
    recover_corpus,
)
from recrawl.corpus.resize.new_layout import NewLayout, make_layout
from recrawl.corpus.resize.new_numbers import number_anew
from recrawl.errors import ConfigError, CorpusError, OwnershipLost
from recrawl.ledger import Ledger, Log, RocksLog
from recrawl.node.config.corpus_config import SnapshotsConfig
from recrawl.node.config.values import PARTITIONS_MAX
from recrawl.node.durability.corpus_format import (
    GENERATION_MAX,
    CorpusFormat,
    new_corpus_id,
    write_format,
)
from recrawl.node.durability.layout_switch import NEXT_LAYOUT, finish_switch
from recrawl.node.durability.log_opening.open_log import open_log
from recrawl.node.durability.log_opening.successor import (
    Successor,
    format_of_successor,
    successor_entries,
    topic_of,
)
from recrawl.node.durability.shared_copies import SharedPartitions, epoch_and_time
from recrawl.node.node import Node
from recrawl.node.records import record_of

__all__ = ["Resized", "resize_corpus"]

logger = logging.getLogger(__name__)

Step = Callable[[str], None]
# Workers wait longer from claim to claim.
_CLAIMS_MAX: Final = 10


class Resized(NamedTuple):
    """Result of changing the number of partitions."""

    partitions: int
    """Number of partitions now."""
    partitions_before: int
    n_pages: int
    n_orders: int
    """Number of orders that moved: those in flight, and those that may still be reported late."""
    topic: str | None
    """Topic of the log, None if the log is in the folder."""
    pause_seconds: float
    """Time during which nothing could be written."""


def resize_corpus(
    folder: str | os.PathLike[str],
    partitions: int,
    *,
    on_step: Step = lambda _: None,
    before_switch: Callable[[str], None] = lambda _: None,
) -> Resized:
    """Change the number of partitions of a corpus that no other process uses.

    It can be interrupted at any moment: call it again to finish.

    Parameters
    ----------
    folder
        Folder of the corpus.
    partitions
        New number of partitions.
    on_step
        Function that is called with the name of each step before it begins.
    before_switch
        Function that is called with the name of the new topic before that is the log of the corpus.

    Raises
    ------
    LockedError
        If another process uses the corpus.
    ConfigError
        If it is on Kafka and has no shared storage for snapshots.
    CorpusError
        If it cannot be divided, or is being divided into another number of partitions.
    ValueError
        If the number of partitions is not possible.
    """
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise ValueError(f"partitions must be 1 to {PARTITIONS_MAX}, got {partitions}")
    place = Path(folder).resolve()
    finish_switch(place)
    corpus = recover_corpus(place)
    started = time.monotonic()
    try:
        n_before = corpus.shape.partitions
        _check_can_resize(corpus, partitions)
        if n_before == partitions and not any(node.shard.is_closed for node in corpus.nodes):
            n_pages = sum(node.shard.n_pages for node in corpus.nodes)
            return Resized(partitions, n_before, n_pages, 0, corpus.config.ledger.topic, 0.0)
        if corpus.shape.ledger == "kafka":
            # Refuses what cannot be divided, before anything is closed.
            number_anew(corpus.nodes, partitions, corpus.config.corpus.group_by)
            started = time.monotonic()
            made, topic = _resize_topic(corpus, place, partitions, on_step, before_switch)
        else:
            made, topic = _make_beside(corpus, place, partitions, on_step), None
    finally:
        corpus.close()
    if topic is None:
        on_step("switch")
        finish_switch(place)
    seconds = time.monotonic() - started
    return Resized(partitions, n_before, made.n_pages, len(made.handles), topic, seconds)


def _check_can_resize(corpus: RecoveredCorpus, partitions: int) -> None:
    shape = corpus.shape
    if shape.generation >= GENERATION_MAX:
        raise CorpusError(
            f"the number of partitions was changed {shape.generation} times, and handles of "
            "orders have no room for more. Export the pages, and import them into a new corpus"
        )
    if shape.corpus_id is None:
        raise CorpusError("the corpus has no id yet: open it once with this version of recrawl")
    if shape.ledger == "kafka" and corpus.config.snapshots.shared is None:
        raise ConfigError(
            "the new partitions of a corpus on Kafka begin with snapshots that all machines "
            "reach: set snapshots.shared"
        )
    wanted = shape.generation + 1, partitions
    for node in corpus.nodes:
        closed_for = node.shard.closed_for
        if closed_for is not None and closed_for != wanted:
            raise CorpusError(
                f"the number of partitions is being changed to {closed_for[1]}. Finish that "
                f"first: run `recrawl resize --partitions {closed_for[1]}`"
            )


def _next_format(corpus: RecoveredCorpus, partitions: int, topic: str | None) -> CorpusFormat:
    """Return the format of the corpus with its new partitions.

    Their id follows from that of the old ones, so that repeated attempts agree, and files of the
    old partitions are never taken for those of the new ones.
    """
    shape = corpus.shape
    generation = shape.generation + 1
    successor = Successor(
        topic=topic or "",
        n_partitions=partitions,
        generation=generation,
        corpus_id=new_corpus_id(f"{shape.corpus_id} {generation} {partitions}"),
        old_handles=OldHandles.none().old,
        new_handles=OldHandles.none().new,
    )
    return format_of_successor(shape, successor)


def _make_beside(
    corpus: RecoveredCorpus, folder: Path, partitions: int, on_step: Step
) -> NewLayout:
    """Make the new partitions of a corpus with its log in the folder; the FORMAT file is last."""
    format = _next_format(corpus, partitions, None)
    beside = folder / NEXT_LAYOUT
    shutil.rmtree(beside, ignore_errors=True)
    create_folder(beside)
    on_step("copy")
    durability = corpus.config.ledger.durability
    with RocksLog.open(
        beside / "log", partitions, durability=durability, corpus_id=format.corpus_id
    ) as log:
        made = _make(corpus, format, folder, beside, log, on_step)
    made.handles.save(beside)
    on_step("sync")
    sync_tree(beside)
    on_step("decide")
    write_format(beside, format)
    return made


def _make(
    corpus: RecoveredCorpus,
    format: CorpusFormat,
    folder: Path,
    beside: Path,
    log: Log,
    on_step: Step,
) -> NewLayout:
    ledgers: list[Ledger] = [log.partition(i) for i in range(format.partitions)]
    made = make_layout(
        corpus.nodes,
        format,
        beside,
        ledgers,
        changes_max=corpus.config.changes.kept_max,
        handles=OldHandles.load(folder),
        on_pages=lambda n: on_step(f"{n} pages"),
    )
    on_step("copied")
    return made


def _resize_topic(
    corpus: RecoveredCorpus,
    folder: Path,
    partitions: int,
    on_step: Step,
    before_switch: Callable[[str], None],
) -> tuple[NewLayout, str]:
    """Change the partitions of a corpus whose log is on Kafka."""
    old_topic = corpus.config.ledger.topic
    assert old_topic is not None
    topic = topic_of(old_topic, corpus.shape.generation + 1)
    format = _next_format(corpus, partitions, topic)
    assert format.corpus_id is not None
    _close_partitions(corpus, format, on_step)
    beside = folder / NEXT_LAYOUT
    shutil.rmtree(beside, ignore_errors=True)
    create_folder(beside)
    config = replace(
        corpus.config,
        corpus=replace(corpus.config.corpus, partitions=partitions),
        ledger=replace(corpus.config.ledger, topic=topic),
    )
    on_step("create topic")
    # In a folder without files, the topic may be created.
    log = open_log(beside, config, corpus_id=format.corpus_id)
    try:
        made = _make(corpus, format, folder, beside, log, on_step)
    finally:
        log.close()
    _publish(made, config.snapshots, format, on_step)
    before_switch(topic)
    successor = Successor(
        topic=topic,
        n_partitions=partitions,
        generation=format.generation,
        corpus_id=format.corpus_id,
        old_handles=made.handles.old,
        new_handles=made.handles.new,
    )
    on_step("switch")
    ledger = corpus.nodes[0].ledger
    for entry in successor_entries(successor, ledger.end):
        ledger.append([record_of(entry)])
    on_step("adopt")
    corpus.close()
    adopt_successor(folder, corpus.shape, successor)
    shutil.rmtree(beside, ignore_errors=True)
    return made, topic


def _close_partitions(corpus: RecoveredCorpus, format: CorpusFormat, on_step: Step) -> None:
    """End the logs of all old partitions, except those that an earlier attempt has ended."""
    for node in corpus.nodes:
        node.follow()  # what workers have written since it was recovered
    for node in corpus.nodes:
        if not node.shard.is_closed:
            on_step(f"close {node.partition}")
            _close_partition(node, format)


def _close_partition(node: Node, format: CorpusFormat) -> None:
    """End the log of a partition; a worker may claim it again in between."""
    for attempt in range(_CLAIMS_MAX):
        try:
            node.end_log(secrets.randbits(63), format.generation, format.partitions)
            return
        except OwnershipLost:
            if attempt == _CLAIMS_MAX - 1:
                raise


def _publish(made: NewLayout, config: SnapshotsConfig, format: CorpusFormat, on_step: Step) -> None:
    """Copy the first snapshots to shared storage, and read them back."""
    shared = SharedPartitions(config)
    now_ms = time.time_ns() // 1_000_000
    for i, saved in enumerate(made.snapshots):
        on_step(f"publish {i}")
        copies = shared.of(format.corpus_id, i)
        assert copies is not None
        epoch, at_ms = epoch_and_time(saved)
        copy = copies.publish(saved, epoch=epoch, now_ms=now_ms, at_ms=at_ms)
        copies.verify(copy, now_ms=now_ms)
