"""Make logs, stores and snapshots of new partitions from the nodes of the old ones.

Nothing here changes what belongs to the old partitions.
"""

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from recrawl.corpus.feed.logged_consumers import moved_places
from recrawl.corpus.leasing.old_handles import OldHandles
from recrawl.corpus.resize.new_numbers import PagePlaces, number_anew
from recrawl.corpus.resize.placing import PlacedPages
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
from recrawl.shard.resize import (
    REMOVED_PAGE,
    NewShard,
    OldShard,
    divide_slots,
    make_shard,
    moved_pages,
    reorder_slots,
)
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import Pages
from recrawl.store import ContentCounts, Cursor, Store
from recrawl.store.resize.copying import (
    PageMoves,
    clear_slots,
    copy_host_memories,
    copy_pages,
    copy_values_again,
)
from recrawl.store.resize.moved_feed import (
    FeedMerge,
    MovedChange,
    OldFeed,
    moved_changes,
    old_feeds,
)
from recrawl.urls import GroupBy

__all__ = ["LayoutDraft", "NewLayout"]

logger = logging.getLogger(__name__)

_SNAPSHOTS_KEPT: Final = 2
_PARTITIONS_AT_ONCE: Final = 4


class NewLayout(NamedTuple):
    """The division of a corpus into new partitions, which nobody uses yet."""

    snapshots: list[SavedSnapshot]
    """First snapshot of each new partition."""
    handles: OldHandles
    """New handles of orders that were handed out."""
    n_pages: int


class LayoutDraft:
    """New partitions that are being made, at first while the old ones are still written.

    `copy` brings the new stores up to date with the old ones, as often as wanted; each time it
    reads only what was written since.  When the logs of the old partitions have ended, `finish`
    does so for the last time and makes the rest.

    Parameters
    ----------
    nodes
        Nodes of all old partitions, which apply nothing except between the calls and in ``follow``.
    format
        Format of the corpus with the new partitions, with an id of its own.
    folder
        Folder for ``store`` and ``snapshots``; what it has of earlier attempts is removed.
    changes_max
        Number of changes to keep in each feed.
    """

    def __init__(
        self, nodes: Sequence[Node], format: CorpusFormat, folder: Path, *, changes_max: int
    ) -> None:
        assert format.corpus_id is not None
        for name in ("store", "snapshots"):
            shutil.rmtree(folder / name, ignore_errors=True)
        self._nodes, self._format, self._folder = nodes, format, folder
        self._by: GroupBy = format.group_by  # type: ignore[assignment]
        self._changes_max = changes_max
        self.stores: list[Store] = []
        """Stores of the new partitions."""
        self._open_stores()
        self._written = [node.store.watch_writes() for node in nodes]
        self._placed = PlacedPages(len(nodes), format.partitions)
        self._feeds = FeedMerge([store.values for store in self.stores], len(nodes))
        self._split_hosts: dict[str, int] = {}
        self._n_trimmed = [node.store.n_trimmed_changes for node in nodes]

    @property
    def n_merged_changes(self) -> list[int]:
        """Number of changes that the feed of each new store has so far."""
        return self._feeds.n_rows

    def _open_stores(self) -> None:
        format = self._format
        for i in range(format.partitions):
            store = Store.open(
                self._folder / "store" / str(i),
                changes_max=self._changes_max,
                corpus_id=format.corpus_id,
                partition=i,
                update_host=update_host_memory,
            )
            self.stores.append(store)

    def copy(
        self, *, on_pages: Callable[[int], None] = lambda _: None, has_ended: bool = False
    ) -> int:
        """Copy what was written to the old partitions; return the number of pages copied.

        Parameters
        ----------
        on_pages
            Function that is called with the number of pages that were copied so far; it may let
            the nodes follow their logs, unless these have ended.
        has_ended
            Whether the logs of the old partitions have ended.
        """
        places = PagePlaces(self._nodes, self._format.partitions, self._by)
        olds, _, _ = number_anew(self._nodes, self._format.partitions, self._by)
        return self._copy(olds, places, on_pages, has_ended=has_ended)

    def _copy(
        self,
        olds: Sequence[OldShard],
        places: PagePlaces,
        on_pages: Callable[[int], None],
        *,
        has_ended: bool,
    ) -> int:
        nodes = self._nodes
        n_slots = [int(old.tables.registers.n_slots[0]) for old in olds]
        written = [one.take(n) for one, n in zip(self._written, n_slots, strict=True)]
        wanted = [_new_partitions(old) for old in olds]
        changes = self._placed.update(wanted, [one.has_new_page for one in written])
        for i, (slot, moved_to) in enumerate(zip(changes.vacated, changes.moved_to, strict=True)):
            clear_slots(self.stores[i], slot)
            after = np.where(moved_to < 0, REMOVED_PAGE, moved_to)
            self._feeds.renumber_pages(i, slot, after)
        self._merge_feeds(places, has_ended=has_ended)
        pages = [node.shard.tables.pages for node in nodes]
        added = [_pages_in(one, slot) for one, slot in zip(pages, changes.added, strict=True)]
        is_changed = [
            one.has_new_values & (moves.slot >= 0)
            for one, moves in zip(written, self._placed.moves, strict=True)
        ]
        for flags, slot in zip(is_changed, changes.added, strict=True):
            flags[slot] = False
        changed = [
            _pages_in(one, np.flatnonzero(flags))
            for one, flags in zip(pages, is_changed, strict=True)
        ]
        old_stores = [node.store for node in nodes]
        moves, n_done = self._placed.moves, 0
        for n_done in copy_pages(old_stores, added, moves, self.stores):
            on_pages(n_done)
        n_before = n_done
        for n_done in copy_values_again(old_stores, changed, moves, self.stores):
            on_pages(n_before + n_done)
        return sum(page.size for page in (*added, *changed))

    def _merge_feeds(self, places: PagePlaces, *, has_ended: bool) -> None:
        """Merge the changes of the old feeds, as far as their order is final."""
        nodes = self._nodes
        present = OldFeed(
            self._format.generation - 1, tuple(node.store.kept_from for node in nodes)
        )
        olds = old_feeds([(node.store.values, node.store.first_change) for node in nodes], present)
        n_trimmed = [node.store.n_trimmed_changes for node in nodes]
        # Changes of split hosts go elsewhere, and those that were removed would still be here.
        if places.homes != self._split_hosts or n_trimmed != self._n_trimmed:
            self._feeds.clear()
            self._split_hosts, self._n_trimmed = places.homes, n_trimmed
        if not self._feeds.add(self._changes(places, has_ended=has_ended), olds):
            self._feeds.clear()
            self._feeds.add(self._changes(places, has_ended=has_ended), olds)
        if has_ended:
            self._feeds.finish(olds)

    def _changes(self, places: PagePlaces, *, has_ended: bool) -> list[Iterator[MovedChange]]:
        """Return the changes of each old partition that were not merged yet."""

        def changes_of(node: Node, moves: PageMoves, first: Cursor) -> Iterator[MovedChange]:
            return moved_changes(
                node.store.values,
                node.partition,
                places.partitions_of,
                lambda page: moved_pages(page, node.shard.tables.pages, moves.slot),
                first=first,
                open_from_ms=None if has_ended else node.shard.now_ms,
            )

        return [
            changes_of(*one)
            for one in zip(self._nodes, self._placed.moves, self._feeds.next, strict=True)
        ]

    def finish(
        self,
        ledgers: Sequence[Ledger],
        handles: OldHandles,
        *,
        on_pages: Callable[[int], None] = lambda _: None,
    ) -> NewLayout:
        """Make the new partitions: the beginnings of their logs, their stores and their snapshots.

        Parameters
        ----------
        ledgers
            Logs of the new partitions, which are empty or have what an earlier attempt has written.
        handles
            Handles of earlier layouts that are still known.
        on_pages
            Function that is called with the number of pages that were copied so far.
        """
        nodes, n_partitions = self._nodes, self._format.partitions
        olds, numbers, names = number_anew(nodes, n_partitions, self._by)
        places = PagePlaces(nodes, n_partitions, self._by)
        self._copy(olds, places, on_pages, has_ended=True)
        divided = [divide_slots(old, n_partitions) for old in olds]
        _copy_memories(nodes, olds, self.stores)
        counts = _divide_counts(nodes, n_partitions)
        curve_prior = max(nodes, key=lambda node: population_of(node.store)[1]).store.curve_prior
        n_changes = self._feeds.n_rows

        def make_one(i: int) -> tuple[SavedSnapshot, list[NDArray[np.int64]]]:
            made = make_shard(
                olds, divided, i, numbers[i], nodes[0].shard.settings, nodes[0].shard.rules
            )
            batch = self.stores[i].batch()
            batch.add_names(*names[i].columns)
            batch.set_consumers(
                *moved_places(nodes, self._format.generation - 1, self.stores[i], n_changes[i])
            )
            node = self._new_node(i, made, ledgers[i])
            node.store.complete(
                batch,
                node.position,
                n_changes=n_changes[i],
                counts=counts[i],
                curve_prior=curve_prior,
            )
            return self._take_first_snapshot(node), self._moved_handles(i, made)

        # Most of the time they wait for the disk and for brokers.
        with ThreadPoolExecutor(_PARTITIONS_AT_ONCE) as pool:
            made = [*pool.map(make_one, range(n_partitions))]
        old_handles = np.concatenate([one[0] for _, one in made])
        new_handles = np.concatenate([one[1] for _, one in made])
        moved = handles.then(old_handles, new_handles)
        n_pages = sum(node.shard.n_pages for node in nodes)
        return NewLayout([saved for saved, _ in made], moved, n_pages)

    def _new_node(self, partition: int, made: NewShard, ledger: Ledger) -> Node:
        """Return the node of a new partition, after the first records of its log."""
        settings = self._nodes[0].shard.settings
        slot = [
            moves.slot[part] for moves, part in zip(self._placed.moves, made.slots, strict=True)
        ]
        shard = Shard(
            settings,
            tables=reorder_slots(made.tables, np.concatenate(slot)),
            due_table=shipped_due_table(),
            copy_table=copy_due_table,
        )
        position = _begin_log(ledger, self._format, partition, shard)
        store = self.stores[partition]
        return Node(shard=shard, ledger=ledger, store=store, position=position, partition=partition)

    def _take_first_snapshot(self, node: Node) -> SavedSnapshot:
        snapshots = SnapshotFolder(
            self._folder / "snapshots" / str(node.partition),
            keep=_SNAPSHOTS_KEPT,
            origin=SnapshotOrigin(str(self._format.corpus_id), node.partition),
        )
        take_snapshot(node, snapshots)
        return snapshots.list_saved()[0]

    def _moved_handles(self, partition: int, made: NewShard) -> list[NDArray[np.int64]]:
        """Return the old and the new handles of the orders of a new partition."""
        before, after = [], []
        for node, (order, new_order) in zip(self._nodes, made.orders, strict=True):
            before.append(handle_of(order, node.partition, node.generation))
            after.append(handle_of(new_order, partition, self._format.generation))
        return [np.concatenate(before), np.concatenate(after)]

    def close(self) -> None:
        """Close the new stores."""
        for store in self.stores:
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _new_partitions(old: OldShard) -> NDArray[np.int64]:
    """Return the new partition of each slot of an old shard, -1 for a free one."""
    n_slots = int(old.tables.registers.n_slots[0])
    used = np.flatnonzero(old.tables.pages.status[:n_slots] != PageStatus.FREE)
    partition = np.full(n_slots, -1, np.int64)
    partition[used] = old.partitions_of(used)
    return partition


def _pages_in(pages: Pages, slot: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of the pages in some slots."""
    return slot | (pages.generation[slot].astype(np.int64) << 32)


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
