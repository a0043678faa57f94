"""Make logs, stores and snapshots of new partitions from the nodes of the old ones.

Nothing here changes what belongs to the old partitions, whose nodes must stand still meanwhile.
"""

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.corpus.feed.logged_consumers import moved_places
from recrawl.corpus.leasing.old_handles import OldHandles
from recrawl.corpus.resize.new_numbers import PagePlaces, number_anew
from recrawl.errors import CorpusError
from recrawl.ledger import Ledger, Record, SavedSnapshot, SnapshotFolder, SnapshotOrigin
from recrawl.node.content.judging import update_host_memory
from recrawl.node.durability.copied_table import copy_due_table
from recrawl.node.durability.corpus_format import CorpusFormat
from recrawl.node.durability.recovery import identity_entry, settings_event
from recrawl.node.durability.snapshotter import take_snapshot
from recrawl.node.longevity.population import population_of
from recrawl.node.node import Node
from recrawl.node.orders import handle_of
from recrawl.node.records import record_of
from recrawl.node.shipped_due_table import shipped_due_table
from recrawl.shard import Shard
from recrawl.shard.resize import OldShard, divide_slots, make_shard, moved_pages
from recrawl.store import ContentCounts, Store
from recrawl.store.resize.copying import PageMoves, copy_host_memories, copy_pages
from recrawl.store.resize.moved_feed import (
    MovedChange,
    OldFeed,
    merge_feeds,
    moved_changes,
    old_feeds,
)
from recrawl.urls import GroupBy

__all__ = ["NewLayout", "make_layout"]

logger = logging.getLogger(__name__)

_SNAPSHOTS_KEPT: Final = 2


class NewLayout(NamedTuple):
    """The division of a corpus into new partitions, which nobody uses yet."""

    snapshots: list[SavedSnapshot]
    """First snapshot of each new partition."""
    handles: OldHandles
    """New handles of orders that were handed out."""
    n_pages: int


def make_layout(
    nodes: Sequence[Node],
    format: CorpusFormat,
    folder: Path,
    ledgers: Sequence[Ledger],
    *,
    changes_max: int,
    handles: OldHandles,
    on_pages: Callable[[int], None] = lambda _: None,
) -> NewLayout:
    """Make new partitions: the beginnings of their logs, their stores and their snapshots.

    Parameters
    ----------
    nodes
        Nodes of all old partitions, which apply nothing meanwhile.
    format
        Format of the corpus with the new partitions, with an id of its own.
    folder
        Folder for ``store`` and ``snapshots``; what it has of earlier attempts is removed.
    ledgers
        Logs of the new partitions, which are empty or have what an earlier attempt has written.
    changes_max
        Number of changes to keep in each feed.
    handles
        Handles of earlier layouts that are still known.
    on_pages
        Function that is called with the number of pages that were copied so far.
    """
    assert format.corpus_id is not None
    for name in ("store", "snapshots"):
        shutil.rmtree(folder / name, ignore_errors=True)
    by: GroupBy = format.group_by  # type: ignore[assignment]
    n_partitions = format.partitions
    olds, numbers, names = number_anew(nodes, n_partitions, by)
    divided = [divide_slots(old, n_partitions) for old in olds]
    settings, rules = nodes[0].shard.settings, nodes[0].shard.rules
    stores = [
        Store.open(
            folder / "store" / str(i),
            changes_max=changes_max,
            corpus_id=format.corpus_id,
            partition=i,
            update_host=update_host_memory,
        )
        for i in range(n_partitions)
    ]
    try:
        moves = _page_moves(olds, divided)
        for n_done in copy_pages([node.store for node in nodes], moves, stores):
            on_pages(n_done)
        places = PagePlaces(nodes, n_partitions, by)
        n_changes = _move_feeds(nodes, moves, stores, places, format.generation - 1)
        _copy_memories(nodes, olds, stores)
        counts = _divide_counts(nodes, n_partitions)
        curve_prior = max(nodes, key=lambda node: population_of(node.store)[1]).store.curve_prior
        saved, old_handles, new_handles = [], [], []
        for i in range(n_partitions):
            made = make_shard(olds, divided, i, numbers[i], settings, rules)
            shard = Shard(
                settings,
                tables=made.tables,
                due_table=shipped_due_table(),
                copy_table=copy_due_table,
            )
            position = _begin_log(ledgers[i], format, i, shard)
            batch = stores[i].batch()
            batch.add_names(*names[i].columns)
            consumers = moved_places(nodes, format.generation - 1, stores[i], n_changes[i])
            batch.set_consumers(*consumers)
            stores[i].complete(
                batch,
                position,
                n_changes=n_changes[i],
                counts=counts[i],
                curve_prior=curve_prior,
            )
            node = Node(
                shard=shard, ledger=ledgers[i], store=stores[i], position=position, partition=i
            )
            snapshots = SnapshotFolder(
                folder / "snapshots" / str(i),
                keep=_SNAPSHOTS_KEPT,
                origin=SnapshotOrigin(format.corpus_id, i),
            )
            take_snapshot(node, snapshots)
            saved.append(snapshots.list_saved()[0])
            for old_node, (order, new_order) in zip(nodes, made.orders, strict=True):
                before = old_node.generation
                old_handles.append(handle_of(order, old_node.partition, before))
                new_handles.append(handle_of(new_order, i, format.generation))
    finally:
        for store in stores:
            store.close()
    moved = handles.then(np.concatenate(old_handles), np.concatenate(new_handles))
    return NewLayout(saved, moved, sum(node.shard.n_pages for node in nodes))


def _page_moves(
    olds: Sequence[OldShard], divided: Sequence[Sequence[NDArray[np.int64]]]
) -> list[PageMoves]:
    """Return where the page of each slot goes, as `make_shard` puts them."""
    n_slots = [0] * len(divided[0])
    moves = []
    for old, parts in zip(olds, divided, strict=True):
        size = int(old.tables.registers.n_slots[0])
        partition, slot = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        for i, part in enumerate(parts):
            partition[part] = i
            slot[part] = n_slots[i] + np.arange(part.size)
            n_slots[i] += part.size
        moves.append(PageMoves(partition, slot))
    return moves


def _begin_log(ledger: Ledger, format: CorpusFormat, partition: int, shard: Shard) -> int:
    """Write the first records of a log, unless an earlier attempt has; return their number."""
    wanted: list[Record] = [
        record_of(identity_entry(format, partition)),
        record_of(settings_event(shard.settings)),
    ]
    found = [record for _, record in ledger.read(0)] if ledger.end else []
    if ledger.first > 0 or found != wanted[: len(found)]:
        raise CorpusError(
            f"the log of new partition {partition} has other records already. Nothing was changed"
        )
    ledger.append(wanted[len(found) :])
    return len(wanted)


def _move_feeds(
    nodes: Sequence[Node],
    moves: Sequence[PageMoves],
    stores: Sequence[Store],
    places: PagePlaces,
    generation: int,
) -> list[int]:
    """Merge the change feeds of the old partitions into the new ones; return their lengths."""

    def changes_of(node: Node, one: PageMoves) -> Iterator[MovedChange]:
        pages = node.shard.tables.pages
        return moved_changes(
            node.store.values,
            node.partition,
            places.partitions_of,
            lambda page: moved_pages(page, pages, one.slot),
        )

    feeds = [changes_of(node, one) for node, one in zip(nodes, moves, strict=True)]
    present = OldFeed(generation, tuple(node.store.kept_from for node in nodes))
    olds = old_feeds([(node.store.values, node.store.first_change) for node in nodes], present)
    return merge_feeds(feeds, [store.values for store in stores], olds)


def _copy_memories(
    nodes: Sequence[Node], olds: Sequence[OldShard], stores: Sequence[Store]
) -> None:
    """Copy what is remembered of the common text of groups."""
    for node, old in zip(nodes, olds, strict=True):
        if node.store.content_counts is None:
            continue
        for i, store in enumerate(stores):
            split = [one.group for one in old.split_groups if one.numbers[i] >= 0]
            group = np.append(np.flatnonzero(old.partition == i), np.array(split, np.int64))
            copy_host_memories(node.store.values, store.values, group, old.groups_in(i)[group])


def _divide_counts(nodes: Sequence[Node], n_partitions: int) -> list[ContentCounts | None]:
    """Return counts of outcomes whose sum is that of the old ones; all None if there are none."""
    found = [node.store.content_counts for node in nodes]
    if all(one is None for one in found):
        return [None] * n_partitions
    counts = [ContentCounts() for _ in range(n_partitions)]
    for i, one in enumerate(found):
        counts[i % n_partitions] = counts[i % n_partitions].plus(one)
    return [*counts]
