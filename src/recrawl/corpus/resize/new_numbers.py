"""Decide which group goes to which new partition, and number everything there anew."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.errors import CorpusError, RecoveryError
from recrawl.node.node import Node
from recrawl.node.routing import (
    partition_of_key,
    partitions_of,
    partitions_of_keys,
    split_partitions_of,
)
from recrawl.shard.resize import NewNumbers, OldShard, SplitGroup
from recrawl.store import Names
from recrawl.urls import GroupBy
from recrawl.urls.groups import group_keys, registrable_domain

__all__ = ["NewNames", "PagePlaces", "number_anew"]

_NAMES_AT_ONCE: Final = 65_536
_SLOTS_AT_ONCE: Final = 65_536
# The number of a pattern's digest does not count; the last digest does.
_FIRST: Final = 0


class NewNames(NamedTuple):
    """The names of one new partition, with their numbers."""

    groups: list[str]
    """Names of groups, by number."""
    sources: list[str]
    """Names of sources of signals, by number."""
    kinds: list[str]
    """Names of kinds of pages, by number less 1."""
    domains: dict[str, int]
    """Group that keeps the credit of a domain, for domains that are not named like it."""
    patterns: str | None
    """Digest of the patterns that all pages have been matched with; None if they differ."""

    @property
    def columns(self) -> tuple[NDArray[np.uint8], NDArray[np.int64], pa.StringArray]:
        """Namespace, number and name of each."""
        rows: list[tuple[int, int, str]] = []
        rows += [(Names.GROUP, i, name) for i, name in enumerate(self.groups)]
        rows += [(Names.KIND, i + 1, name) for i, name in enumerate(self.kinds)]
        rows += [(Names.SOURCE, i, name) for i, name in enumerate(self.sources)]
        rows += [(Names.DOMAIN, i, name) for name, i in self.domains.items()]
        if self.patterns is not None:
            rows.append((Names.PATTERNS, _FIRST, self.patterns))
        what, number, name = zip(*rows, strict=True) if rows else ((), (), ())
        return (
            np.array(what, np.uint8),
            np.array(number, np.int64),
            pa.array(name, pa.string()),
        )


class PagePlaces:
    """Says which new partition each page belongs to, also the pages of split hosts.

    Parameters
    ----------
    nodes
        Nodes of all old partitions.
    n_partitions
        New number of partitions.
    by
        Grouping of the corpus.
    """

    def __init__(self, nodes: Sequence[Node], n_partitions: int, by: GroupBy) -> None:
        self._n_partitions, self._by = n_partitions, by
        hosts = sorted({host for node in nodes for host in node.split_hosts()})
        self.homes = {host: partition_of_key(host, n_partitions) for host in hosts}
        """New home partition of each split host."""

    def partitions_of(self, names: pa.StringArray) -> NDArray[np.int64]:
        """Return the new partitions of pages by their names.

        Those of split hosts are spread by their hashes, also pages from before the split.
        """
        partition = partitions_of(names, self._n_partitions, self._by)
        if not self.homes:
            return partition
        keys = group_keys(names, self._by)
        for host, home in self.homes.items():
            rows = np.flatnonzero(pc.equal(keys, host).to_numpy(zero_copy_only=False))
            if rows.size:
                own = names.take(pa.array(rows))
                partition[rows] = split_partitions_of(own, home, self._n_partitions)
        return partition

    def of_slots(self, node: Node) -> NDArray[np.int64] | None:
        """Return the new partition of each slot with a page of a split host; None without any."""
        tables = node.shard.tables
        # By name: while logs are followed, a part may know that a host is split before its home.
        numbers = _known_groups(node, self.homes)
        split = np.array([*numbers.values()], np.int64)
        split = split[split < tables.groups.n_pages.size]
        if not tables.groups.n_pages[split].any():
            return None
        n_slots = int(tables.registers.n_slots[0])
        partition = np.full(n_slots, -1, np.int64)
        group = tables.pages.group[:n_slots]
        is_split = np.isin(group, split)
        for host, number in numbers.items():
            partition[group == number] = self.homes[host]  # if a page has no name
        for start in range(0, n_slots, _SLOTS_AT_ONCE):
            if not is_split[start : start + _SLOTS_AT_ONCE].any():
                continue
            page, names = node.store.scan_names(start, _SLOTS_AT_ONCE)
            slot = page & 0xFFFFFFFF
            rows = np.flatnonzero((slot < n_slots) & is_split[np.minimum(slot, n_slots - 1)])
            partition[slot[rows]] = self.partitions_of(names.take(pa.array(rows)))
        return partition


def number_anew(
    nodes: Sequence[Node], n_partitions: int, by: GroupBy
) -> tuple[list[OldShard], list[NewNumbers], list[NewNames]]:
    """Return the old shards with new numbers, and numbers and names of each new partition.

    Parameters
    ----------
    nodes
        Nodes of all old partitions, in the order of their numbers.
    n_partitions
        New number of partitions.
    by
        Grouping of the corpus.
    """
    groups: list[list[str]] = [[] for _ in range(n_partitions)]
    sources: list[list[str]] = [[] for _ in range(n_partitions)]
    kinds: dict[str, int] = {}
    olds = []
    places = PagePlaces(nodes, n_partitions, by)
    slot_partitions = [places.of_slots(node) for node in nodes]
    hosts = _number_split_hosts(nodes, slot_partitions, places, groups)
    split_sources: dict[str, NDArray[np.int64]] = {}
    for node, slot_partition in zip(nodes, slot_partitions, strict=True):
        partition, group = _number_groups(node, len(nodes), groups, hosts)
        source, source_partition, shared = _number_sources(node, sources, hosts, split_sources)
        own = _names(node, Names.KIND, 1)
        kind = [0, *(kinds.setdefault(name, len(kinds) + 1) for name in own)]
        olds.append(
            OldShard(
                node.shard.tables,
                partition=partition,
                group=group,
                source=source,
                source_partition=source_partition,
                kind=np.array(kind, np.int64),
                split_groups=tuple(
                    SplitGroup(
                        number,
                        hosts[host],
                        places.homes[host],
                        is_home=partition_of_key(host, len(nodes)) == node.partition,
                    )
                    for host, number in _known_groups(node, hosts).items()
                ),
                split_sources=shared,
                slot_partition=slot_partition,
            )
        )
    patterns = _last_patterns(nodes)
    numbers, names = [], []
    for i in range(n_partitions):
        keeper, domains = _find_keepers(groups[i], by)
        numbers.append(NewNumbers(len(groups[i]), len(sources[i]), 1 + len(kinds), keeper))
        names.append(NewNames(groups[i], sources[i], list(kinds), domains, patterns))
    return olds, numbers, names


def _names(node: Node, what: Names, first: int = 0) -> list[str]:
    """Return the names of a namespace by number."""
    found: list[str] = []
    n_names = node.store.n_names(what)
    for begin in range(first, first + n_names, _NAMES_AT_ONCE):
        numbers = range(begin, min(begin + _NAMES_AT_ONCE, first + n_names))
        for number, name in zip(numbers, node.store.names_of(what, numbers), strict=True):
            if name is None:
                raise RecoveryError(
                    f"partition {node.partition} does not know the name of {what.name.lower()} "
                    f"{number}: its store is damaged. Run `recrawl doctor`"
                )
            found.append(name)
    return found


def _known_groups(node: Node, hosts: Iterable[str]) -> dict[str, int]:
    """Return the numbers of the hosts among these that a partition knows."""
    names = [*hosts]
    if not names:
        return {}
    numbers = node.store.numbers_of(Names.GROUP, names).tolist()
    return {host: i for host, i in zip(names, numbers, strict=True) if i >= 0}


def _number_split_hosts(
    nodes: Sequence[Node],
    slot_partitions: Sequence[NDArray[np.int64] | None],
    places: PagePlaces,
    groups: list[list[str]],
) -> dict[str, NDArray[np.int64]]:
    """Return the new number of each split host in each new partition, -1 where it has none.

    It gets one where it has pages, and in its home partition.
    """
    found = {host: {home} for host, home in places.homes.items()}
    for node, partition in zip(nodes, slot_partitions, strict=True):
        if partition is None:
            continue
        group = node.shard.tables.pages.group[: partition.size]
        for host, number in _known_groups(node, found).items():
            own = partition[(group == number) & (partition >= 0)]
            found[host].update(np.unique(own).tolist())
    numbers: dict[str, NDArray[np.int64]] = {}
    for host, partitions in found.items():
        numbers[host] = np.full(len(groups), -1, np.int64)
        for i in partitions:
            numbers[host][i] = len(groups[i])
            groups[i].append(host)
    return numbers


def _number_groups(
    node: Node, n_before: int, groups: list[list[str]], split: Mapping[str, NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the new partition of each group of an old partition, and its new number there."""
    names = _names(node, Names.GROUP)
    keys = pa.array(names, pa.string())
    partition = partitions_of_keys(keys, len(groups))
    # A group that belongs elsewhere has no pages here, unless it is split.
    is_home = partitions_of_keys(keys, n_before) == node.partition
    is_whole = np.array([name not in split for name in names], np.bool_)
    n_pages = node.shard.tables.groups.n_pages
    away = np.flatnonzero((is_whole & ~is_home)[: n_pages.size])
    if n_pages[away].any():
        raise CorpusError(
            f"the pages of {names[away[np.argmax(n_pages[away])]]} are in several partitions, but "
            "none of them knows that it is split. Nothing was changed. Run `recrawl doctor`"
        )
    number = np.full(len(names), -1, np.int64)
    is_moved = is_home & is_whole
    for i, name in enumerate(names):
        if is_moved[i]:
            number[i] = len(groups[partition[i]])
            groups[partition[i]].append(name)
    return np.where(is_moved, partition, -1), number


def _number_sources(
    node: Node,
    sources: list[list[str]],
    split: Mapping[str, NDArray[np.int64]],
    split_sources: dict[str, NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[tuple[int, NDArray[np.int64]], ...]]:
    """Return the new number of each source, its new partition, and the numbers of shared sources.

    The partition is that of its group.  Sources of split groups are in each partition that has
    pages of the group; ``split_sources`` has their numbers, for the next old partition.
    """
    names = _names(node, Names.SOURCE)
    hosts = [name.rpartition("\t")[2] for name in names]
    partition = partitions_of_keys(pa.array(hosts, pa.string()), len(sources))
    number = np.full(len(names), -1, np.int64)
    shared = []
    for i, (name, host) in enumerate(zip(names, hosts, strict=True)):
        if host not in split:
            number[i] = len(sources[partition[i]])
            sources[partition[i]].append(name)
            continue
        partition[i] = -1
        if name not in split_sources:
            numbers = split_sources[name] = np.full(len(sources), -1, np.int64)
            for new in np.flatnonzero(split[host] >= 0):
                numbers[new] = len(sources[new])
                sources[new].append(name)
        shared.append((i, split_sources[name]))
    return number, partition, tuple(shared)


def _find_keepers(groups: list[str], by: GroupBy) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Return which group keeps the credit of each group's domain, and the names of domains."""
    keeper = np.arange(len(groups))
    if by != "host":
        return keeper, {}
    domains = [registrable_domain(host) for host in groups]
    # A host with the name of its domain keeps the credit, otherwise the first host.
    keepers: dict[str, int] = {}
    for i, (host, domain) in enumerate(zip(groups, domains, strict=True)):
        if host == domain or domain not in keepers:
            keepers[domain] = i
    keeper[:] = [keepers[domain] for domain in domains]
    return keeper, {domain: i for domain, i in keepers.items() if groups[i] != domain}


def _last_patterns(nodes: Sequence[Node]) -> str | None:
    """Return the digest of the patterns if all partitions have applied the same last."""
    found = set()
    for node in nodes:
        n_applied = node.store.n_names(Names.PATTERNS)
        names = node.store.names_of(Names.PATTERNS, [n_applied - 1]) if n_applied else [None]
        found.add((names[0] or "").partition(" ")[2])
    if len(found) != 1 or "" in found:
        return None
    return f"{_FIRST} {found.pop()}"
