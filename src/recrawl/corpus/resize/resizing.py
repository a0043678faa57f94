"""Change the number of partitions of a corpus; see ADR 0039.

A corpus on Kafka may be used meanwhile: most of it is copied while workers go on writing.
"""

import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from recrawl.atomic_files import create_folder, sync_tree
from recrawl.corpus.leasing.old_handles import OldHandles
from recrawl.corpus.opening import (
    RecoveredCorpus,
    adopt_successor,
    recover_corpus,
)
from recrawl.corpus.resize.new_layout import LayoutDraft, NewLayout
from recrawl.corpus.resize.new_numbers import number_anew
from recrawl.errors import ConfigError, CorpusError, LedgerError, OwnershipLost
from recrawl.ledger import Ledger, Log, RocksLog, SavedSnapshot
from recrawl.node.config.values import PARTITIONS_MAX
from recrawl.node.durability.corpus_format import (
    GENERATION_MAX,
    CorpusFormat,
    successor_id,
    write_format,
)
from recrawl.node.durability.layout_switch import NEXT_LAYOUT, finish_switch
from recrawl.node.durability.log_opening.open_log import open_log
from recrawl.node.durability.log_opening.successor import (
    Successor,
    find_successor,
    format_of_successor,
    successor_entries,
    topic_of,
)
from recrawl.node.durability.shared_copies import SharedPartitions, epoch_and_time
from recrawl.node.node import Node
from recrawl.node.records import record_of

if TYPE_CHECKING:
    from recrawl.ledger.shared_snapshots import SharedSnapshot, SharedSnapshots

__all__ = ["Resized", "resize_corpus"]

logger = logging.getLogger(__name__)

Step = Callable[[str], None]
# Workers wait longer from claim to claim.
_CLAIMS_MAX: Final = 10
# The last copy before the pause takes less than this time, if so many copies are enough.
_COPY_SECONDS_MIN: Final = 3.0
_COPIES_MAX: Final = 6
_FOLLOW_SECONDS: Final = 5.0
_COPIES_AT_ONCE: Final = 4
# Files of the new stores as they are sent early; the folder is never opened.
_EARLY: Final = "sent"
# A folder without files.
_TOPIC: Final = "topic"


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
    """Time during which nothing could be written, without that of workers to begin again."""


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
            try:
                made, topic, seconds = _resize_topic(
                    corpus, place, partitions, on_step, before_switch
                )
            finally:
                # Another attempt begins anew, and `recrawl forget` would not look there.
                shutil.rmtree(place / NEXT_LAYOUT, ignore_errors=True)
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
    """Return the format of the corpus with its new partitions."""
    shape = corpus.shape
    generation = shape.generation + 1
    successor = Successor(
        topic=topic or "",
        n_partitions=partitions,
        generation=generation,
        corpus_id=successor_id(shape.corpus_id, generation, partitions),
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
    with (
        RocksLog.open(
            beside / "log", partitions, durability=durability, corpus_id=format.corpus_id
        ) as log,
        _draft(corpus, format, beside) as draft,
    ):
        made = _finish(draft, partitions, folder, log, on_step)
    made.handles.save(beside)
    on_step("sync")
    sync_tree(beside)
    on_step("decide")
    write_format(beside, format)
    return made


def _draft(corpus: RecoveredCorpus, format: CorpusFormat, beside: Path) -> LayoutDraft:
    return LayoutDraft(corpus.nodes, format, beside, changes_max=corpus.config.changes.kept_max)


def _finish(
    draft: LayoutDraft, n_partitions: int, folder: Path, log: Log, on_step: Step
) -> NewLayout:
    ledgers: list[Ledger] = [log.partition(i) for i in range(n_partitions)]
    made = draft.finish(ledgers, OldHandles.load(folder), on_pages=lambda n: on_step(f"{n} pages"))
    on_step("copied")
    return made


def _resize_topic(
    corpus: RecoveredCorpus,
    folder: Path,
    partitions: int,
    on_step: Step,
    before_switch: Callable[[str], None],
) -> tuple[NewLayout, str, float]:
    """Change the partitions of a corpus whose log is on Kafka."""
    old_topic = corpus.config.ledger.topic
    assert old_topic is not None
    topic = topic_of(old_topic, corpus.shape.generation + 1)
    format = _next_format(corpus, partitions, topic)
    assert format.corpus_id is not None
    beside = folder / NEXT_LAYOUT
    shutil.rmtree(beside, ignore_errors=True)
    create_folder(beside)
    shared = SharedPartitions(corpus.config.snapshots)
    found = [shared.of(format.corpus_id, i) for i in range(partitions)]
    copies = [one for one in found if one is not None]
    draft = _draft(corpus, format, beside)
    try:
        # After an attempt that has closed partitions, nothing can be prepared without a pause.
        if is_prepared := not any(node.shard.is_closed for node in corpus.nodes):
            _prepare(corpus, draft, copies, beside, on_step)
        started = time.monotonic()
        if not _close_partitions(corpus, partitions, format, on_step) and is_prepared:
            # Another process is doing the same: what all make is the same only without preparation.
            is_prepared = False
            draft.close()
            draft = _draft(corpus, format, beside)
        config = replace(
            corpus.config,
            corpus=replace(corpus.config.corpus, partitions=partitions),
            ledger=replace(corpus.config.ledger, topic=topic),
        )
        on_step("create topic")
        # In a folder without files, the topic may be created.
        create_folder(beside / _TOPIC)
        log = open_log(beside / _TOPIC, config, corpus_id=format.corpus_id)
        try:
            made = _finish(draft, partitions, folder, log, on_step)
        finally:
            log.close()
    finally:
        draft.close()
    _check_not_replaced(corpus)
    published = _publish(corpus, made, copies, on_step, n_attempt=0 if is_prepared else 1)
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
    position = ledger.end
    try:
        _check_not_replaced(corpus)
        if is_prepared:
            _check_alone(copies, published)
    except CorpusError:
        _discard(copies, published)
        raise
    entries = successor_entries(successor, position)
    for entry in entries:
        ledger.append([record_of(entry)])
    if ledger.end == position + len(entries):
        # Nobody else has decided in this moment: their snapshots can be of no use.
        _discard_earlier(copies, published)
    on_step("adopt")
    corpus.close_files()
    adopt_successor(folder, corpus.shape, successor)
    return made, topic, time.monotonic() - started


def _prepare(
    corpus: RecoveredCorpus,
    draft: LayoutDraft,
    copies: Sequence["SharedSnapshots"],
    beside: Path,
    on_step: Step,
) -> None:
    """Copy to new stores and to shared storage what there is, while workers go on writing.

    Each time less is left to copy, because less was written meanwhile.
    """
    followed_at = time.monotonic()

    def follow_sometimes() -> None:
        # Workers shorten their logs, but not within so few seconds.
        nonlocal followed_at
        if time.monotonic() - followed_at > _FOLLOW_SECONDS:
            _follow(corpus)
            followed_at = time.monotonic()

    def go_on(n: int) -> None:
        on_step(f"prepare {n} pages")
        follow_sometimes()

    for i in range(_COPIES_MAX):
        on_step("prepare" if i == 0 else "prepare again")
        began = time.monotonic()
        _follow(corpus)
        draft.copy(on_pages=go_on)
        if i == 0:
            _send_early(draft, copies, beside / _EARLY, on_step, follow_sometimes)
        if time.monotonic() - began < _COPY_SECONDS_MIN:
            break


def _send_early(
    draft: LayoutDraft,
    copies: Sequence["SharedSnapshots"],
    folder: Path,
    on_step: Step,
    follow: Callable[[], None],
) -> None:
    """Send the files of the new stores to shared storage, where the first snapshots need them."""
    for i, (store, one) in enumerate(zip(draft.stores, copies, strict=True)):
        on_step(f"send {i}")
        store.checkpoint(folder)
        one.send_early(folder, now_ms=time.time_ns() // 1_000_000, on_request=follow)
        shutil.rmtree(folder)


def _follow(corpus: RecoveredCorpus) -> None:
    """Apply what workers have written."""
    for node in corpus.nodes:
        node.follow()


def _close_partitions(
    corpus: RecoveredCorpus, partitions: int, format: CorpusFormat, on_step: Step
) -> bool:
    """End the logs of all old partitions; return False if other attempts have ended some."""
    _follow(corpus)  # what workers have written meanwhile
    _check_can_resize(corpus, partitions)
    is_alone = True
    for node in corpus.nodes:
        if node.shard.is_closed:
            is_alone = False
            continue
        on_step(f"close {node.partition}")
        is_alone &= _close_partition(node, format)
    return is_alone


def _close_partition(node: Node, format: CorpusFormat) -> bool:
    """End the log of a partition; return whether this process has done it.

    A worker may claim the partition again in between.
    """
    for attempt in range(_CLAIMS_MAX):
        try:
            node.end_log(secrets.randbits(63), format.generation, format.partitions)
            return True
        except OwnershipLost:
            if node.shard.is_closed:
                return False
            if attempt == _CLAIMS_MAX - 1:
                raise
    return False


def _publish(
    corpus: RecoveredCorpus,
    made: NewLayout,
    copies: Sequence["SharedSnapshots"],
    on_step: Step,
    *,
    n_attempt: int,
) -> list["SharedSnapshot"]:
    """Copy the first snapshots to shared storage, and read them back.

    Pages that were copied early are in other slots than after a whole copy.  So an attempt that
    resumes another one, and makes a whole copy, has snapshots that come first.  Those of the other
    one stay until the change is decided, because workers need them if that one goes on.
    """
    now_ms = time.time_ns() // 1_000_000
    looking = threading.Lock()
    published: list[SharedSnapshot | None] = [None] * len(copies)

    def check_not_replaced() -> None:
        with looking:
            _check_not_replaced(corpus)

    def publish_one(i: int, saved: SavedSnapshot, one: "SharedSnapshots") -> "SharedSnapshot":
        check_not_replaced()
        epoch, at_ms = epoch_and_time(saved)
        copy = one.publish(saved, epoch=epoch + n_attempt, now_ms=now_ms, at_ms=at_ms)
        published[i] = copy
        # If another attempt has finished meanwhile, workers may use its snapshot already.
        check_not_replaced()
        one.verify(copy, now_ms=now_ms)
        return copy

    publishing = []
    try:
        with ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
            for i, (saved, one) in enumerate(zip(made.snapshots, copies, strict=True)):
                on_step(f"publish {i}")
                publishing.append(pool.submit(publish_one, i, saved, one))
        return [one.result() for one in publishing]
    except CorpusError:
        _discard(copies, published)
        raise


def _discard(
    copies: Sequence["SharedSnapshots"], snapshots: Sequence["SharedSnapshot | None"]
) -> None:
    """Remove one snapshot of each new partition, if there is one."""
    for one, copy in zip(copies, snapshots, strict=True):
        if copy is not None:
            with suppress(LedgerError):  # another attempt may have removed it
                one.discard(copy)


def _discard_earlier(
    copies: Sequence["SharedSnapshots"], published: Sequence["SharedSnapshot"]
) -> None:
    """Remove the first snapshots of earlier attempts, after the change is decided."""
    for one, copy in zip(copies, published, strict=True):
        with suppress(LedgerError):  # nobody uses them as long as there are later ones
            for other in one.list_complete():
                if other.position == copy.position and other.epoch < copy.epoch:
                    one.discard(other)


def _check_alone(
    copies: Sequence["SharedSnapshots"], published: Sequence["SharedSnapshot"]
) -> None:
    """Raise `CorpusError` if another attempt has made snapshots of the new partitions."""
    found = [[other.path for other in one.list_complete()] for one in copies]
    if found != [[copy.path] for copy in published]:
        raise CorpusError(
            "another process is changing the number of partitions as well. Run `recrawl resize` "
            "again when it has ended"
        )


def _check_not_replaced(corpus: RecoveredCorpus) -> None:
    """Raise `CorpusError` if another attempt has finished."""
    if find_successor(corpus.log) is not None:
        raise CorpusError(
            "another process has changed the number of partitions meanwhile. Run `recrawl resize` "
            "again to see the result"
        )
