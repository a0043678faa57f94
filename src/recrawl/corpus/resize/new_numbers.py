"""Decide which group goes to which new partition, and number everything there anew."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import CorpusError, RecoveryError
from recrawl.node.node import Node
from recrawl.node.routing import partitions_of_keys
from recrawl.shard.resize import NewNumbers, OldShard
from recrawl.store import Names
from recrawl.urls import GroupBy
from recrawl.urls.groups import registrable_domain

__all__ = ["NewNames", "number_anew"]

_NAMES_AT_ONCE: Final = 65_536
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
    for node in nodes:
        partition, group = _number_groups(node, len(nodes), groups)
        source, source_partition = _number_sources(node, sources, n_partitions)
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


def _number_groups(
    node: Node, n_before: int, groups: list[list[str]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the new partition of each group of an old partition, and its new number there."""
    names = _names(node, Names.GROUP)
    keys = pa.array(names, pa.string())
    partition = partitions_of_keys(keys, len(groups))
    # A group that belongs elsewhere has no pages here.
    is_home = partitions_of_keys(keys, n_before) == node.partition
    n_pages = node.shard.tables.groups.n_pages
    away = np.flatnonzero(~is_home[: n_pages.size])
    if n_pages[away].any():
        raise CorpusError(
            f"the pages of {names[away[np.argmax(n_pages[away])]]} are in several partitions, and "
            "the number of partitions of such a corpus cannot be changed yet. Nothing was changed"
        )
    number = np.full(len(names), -1, np.int64)
    for i, name in enumerate(names):
        if is_home[i]:
            number[i] = len(groups[partition[i]])
            groups[partition[i]].append(name)
    return np.where(is_home, partition, -1), number


def _number_sources(
    node: Node, sources: list[list[str]], n_partitions: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the new number of each source, and its new partition: that of its group."""
    names = _names(node, Names.SOURCE)
    keys = pa.array([name.rpartition("\t")[2] for name in names], pa.string())
    partition = partitions_of_keys(keys, n_partitions)
    number = np.empty(len(names), np.int64)
    for i, name in enumerate(names):
        number[i] = len(sources[partition[i]])
        sources[partition[i]].append(name)
    return number, partition


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
