"""What a plan needs to know of one partition: sampled pages, their hosts, and its budget.

Reading it holds the lock of the partition for a few milliseconds at a time.  Plans are computed
from the copies, without a lock, and wherever the copies are: `recrawl.corpus.plan.partition_bytes`
sends them to another worker of a cluster.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FlagArray, FloatArray, RowArray
from recrawl.core.belief.codes import BeliefCodes, decode_beliefs
from recrawl.core.price.due_table import DueTable
from recrawl.core.price.promise import latest_elapsed
from recrawl.corpus.inspect.kinds import kind_names
from recrawl.corpus.inspect.page_sample import PageSample, is_fetched, sample_in_steps
from recrawl.giving_way import give_way
from recrawl.node.node import Node
from recrawl.shard import Shard
from recrawl.shard.state.rules import has_learning_horizon, learning_horizon
from recrawl.shard.state.tables import GROUP_CLOSED, GROUP_SPLIT, Tables
from recrawl.store import Names
from recrawl.urls import PatternSet

__all__ = [
    "INTERVAL_SECONDS_MIN",
    "PlannedBudget",
    "PlannedHosts",
    "PlannedPartition",
    "PlannedTerms",
    "page_quotas",
    "read_node",
    "read_nodes",
    "read_shard",
    "url_patterns",
]

INTERVAL_SECONDS_MIN = 1.0
"""Shortest interval between two fetches in a plan: shards store whole seconds, and a second fetch
within one second does not count."""

# Names and URLs that are read from the store at once.
_READ_AT_ONCE: Final = 1_024


class PlannedHosts(NamedTuple):
    """The groups of the sampled pages of one partition, one row each."""

    number: NDArray[np.uint32]
    """Number of the group in the partition."""
    n_pages: NDArray[np.uint32]
    """Number of its pages in the partition."""
    delay_ms: NDArray[np.uint32]
    is_closed: FlagArray
    is_split: FlagArray
    """Whether other partitions have pages of the group, too."""
    name: Sequence[str | None]
    """Names of the groups that were asked for; those of split groups are always known."""


class PlannedBudget(NamedTuple):
    """The budget of one partition, as its registers have it."""

    per_second: float
    """Fetches or cost per second; inf if unlimited."""
    unit: int
    """`recrawl.shard.state.status.BudgetUnit`."""
    period_seconds: float
    """Unit of time in which the user gave it; 0 if unknown."""
    price_mode: int
    """`recrawl.shard.state.status.PriceMode`."""
    fixed_price: float


class PlannedTerms(NamedTuple):
    """What turns the words of pages into fetch rates."""

    table: DueTable
    """Table of due times.  Its rows of pages without signals hold for ``learning_horizon`` only
    once they have been written; callers must copy the table for that."""
    learning_horizon: float | None
    """Learning horizon of a decision now; None if due times do not depend on one."""
    log2_bonus: FloatArray
    recall: FloatArray
    precision: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """What a plan needs to know of one partition; each column has one row per sampled page."""

    partition: int
    n_pages: int
    """Number of tracked pages."""
    word: NDArray[np.uint64]
    n_represented: FloatArray
    """Number of pages that each sampled page represents."""
    cost_code: NDArray[np.uint16]
    is_important: FlagArray
    """Whether a page has any importance; the word says how much."""
    kind: NDArray[np.uint16]
    bounds: FloatArray
    """Shortest and longest interval in seconds that limits allow, in two columns."""
    group: NDArray[np.uint32]
    """Row of the page's group in ``hosts``."""
    hosts: PlannedHosts
    kinds: Mapping[int, str]
    """Names of kinds by their numbers."""
    matches: Mapping[str, FlagArray] = field(default_factory=dict)
    """Which pages match each URL pattern that targets name."""
    terms: PlannedTerms
    budget: PlannedBudget
    n_polls: int
    """Number of fetches so far that showed whether a page had changed."""

    @property
    def kind_labels(self) -> tuple[list[str], NDArray[np.int64]]:
        """The names of the kinds that have sampled pages, and the index of each page's in them.

        A kind without a name is called by its number, and kind 0 "other".
        """
        own, of_page = np.unique(self.kind, return_inverse=True)
        return [self.kinds.get(int(k)) or (str(k) if k else "other") for k in own], of_page


def page_quotas(
    n_pages: Sequence[int], n_pages_max: int, n_pages_total: int | None = None
) -> list[int]:
    """Return how many pages of each partition to sample: in proportion to their pages.

    Parameters
    ----------
    n_pages
        Number of pages of each partition.
    n_pages_max
        Largest number of pages of all partitions together, about; 0 to sample none.
    n_pages_total
        Number of pages of all partitions, if some are open elsewhere.
    """
    if n_pages_max <= 0:
        return [0] * len(n_pages)
    total = max(sum(n_pages) if n_pages_total is None else n_pages_total, 1)
    return [min(max(-(-n_pages_max * n // total), 1), n_pages_max) for n in n_pages]


def read_nodes(
    nodes: Sequence[Node],
    n_pages_max: int,
    *,
    n_pages_total: int | None = None,
    patterns: Sequence[str] = (),
    with_names: bool = False,
) -> list[PlannedPartition]:
    """Return what a plan needs to know of partitions, with a sample of their pages.

    Parameters
    ----------
    nodes
        Nodes of the partitions.
    n_pages_max, n_pages_total
        Arguments of `page_quotas`.
    patterns
        URL patterns, hosts and names of kinds that targets name.
    with_names
        Whether to read the names of all groups, not only of split ones.
    """
    quotas = page_quotas([node.shard.n_pages for node in nodes], n_pages_max, n_pages_total)
    return [
        read_node(node, quota, patterns=patterns, with_names=with_names)
        for node, quota in zip(nodes, quotas, strict=True)
    ]


def read_node(
    node: Node, n_max: int, *, patterns: Sequence[str] = (), with_names: bool = False
) -> PlannedPartition:
    """Return what a plan needs to know of one partition; see `read_nodes`."""
    kinds = kind_names(node)
    found, page = _read(node.shard, n_max, lock=node.lock, partition=node.partition, kinds=kinds)
    return replace(
        found,
        hosts=_with_names(node, found.hosts, with_names=with_names),
        matches=_match_urls(node, page, patterns, found.kind_labels[0]),
    )


def read_shard(
    shard: Shard, n_max: int, *, partition: int = 0, kinds: Mapping[int, str] | None = None
) -> PlannedPartition:
    """Return what a plan needs to know of a shard that nobody changes meanwhile.

    Parameters
    ----------
    shard
        Shard of the partition.
    n_max
        Size of the sample.
    partition
        Number of the partition.
    kinds
        Names of kinds by their numbers.
    """
    return _read(shard, n_max, lock=nullcontext(), partition=partition, kinds=kinds or {})[0]


def _read(
    shard: Shard,
    n_max: int,
    *,
    lock: AbstractContextManager[Any],
    partition: int,
    kinds: Mapping[int, str],
) -> tuple[PlannedPartition, NDArray[np.int64]]:
    """Return what a plan needs to know of a shard, and the sampled pages."""

    @contextmanager
    def read_tables() -> Iterator[Tables]:
        give_way()
        with lock:
            yield shard.tables

    sample = PageSample(np.empty(0, np.int64), np.empty(0))
    if n_max > 0:
        sample = sample_in_steps(read_tables, n_max)
    with read_tables() as tables:
        is_there = is_fetched(tables.pages.status[sample.slot])  # not removed meanwhile
        slot = sample.slot[is_there]
        pages, registers = tables.pages, tables.registers
        word, cost, kind = pages.word[slot], pages.cost[slot], pages.kind[slot]
        importance = pages.importance[slot]
        group, generation = pages.group[slot], pages.generation[slot].astype(np.int64)
        limits = _LimitsOfPages.read(tables, slot)
        n_pages, n_polls = shard.n_pages, int(registers.n_polls[0])
        budget = PlannedBudget(
            float(registers.budget[0]),
            int(registers.budget_unit[0]),
            float(registers.budget_period[0]),
            int(registers.price_mode[0]),
            float(registers.fixed_price[0]),
        )
        terms = PlannedTerms(
            shard.terms.table,
            learning_horizon(n_polls, n_pages) if has_learning_horizon(shard.settings) else None,
            shard.terms.log2_bonus,
            shard.rules.recall,
            shard.rules.precision,
        )
    number, of_page = np.unique(group, return_inverse=True)
    with read_tables() as tables:
        hosts = _hosts(tables, number)
    found = PlannedPartition(
        partition=partition,
        n_pages=n_pages,
        word=word,
        n_represented=sample.n_pages[is_there],
        cost_code=cost,
        is_important=importance > 0,
        kind=kind,
        bounds=limits.bounds(),
        group=of_page.astype(np.uint32),
        hosts=hosts,
        kinds=kinds,
        terms=terms,
        budget=budget,
        n_polls=n_polls,
    )
    return found, slot | generation << 32


class _LimitsOfPages(NamedTuple):
    """The limits of pages, and the beliefs that a staleness limit depends on."""

    interval_min: FloatArray
    interval_max: FloatArray
    stale_for: FloatArray
    stale_probability: FloatArray
    belief: BeliefCodes

    @classmethod
    def read(cls, tables: Tables, slot: RowArray) -> "_LimitsOfPages":
        """Return the limits of the pages in slots."""
        row, limits, pages = tables.pages.limits[slot], tables.limits, tables.pages
        return cls(
            limits.interval_min[row],
            limits.interval_max[row],
            limits.stale_for[row],
            limits.stale_probability[row],
            BeliefCodes(pages.belief_shape[slot], pages.belief_seconds[slot]),
        )

    def bounds(self) -> FloatArray:
        """Return the shortest and longest interval that the limits of pages allow."""
        bounds: FloatArray = np.stack([self.interval_min, self.interval_max], axis=1)
        promised = np.flatnonzero(self.stale_probability > 0)
        if promised.size:
            latest = latest_elapsed(
                decode_beliefs(BeliefCodes(*(column[promised] for column in self.belief))),
                stale_for=self.stale_for[promised],
                probability=self.stale_probability[promised],
            )
            bounds[promised, 1] = np.minimum(bounds[promised, 1], latest)
        return np.maximum(bounds, INTERVAL_SECONDS_MIN)


def _hosts(tables: Tables, number: NDArray[np.uint32]) -> PlannedHosts:
    groups = tables.groups
    flags = groups.flags[number]
    return PlannedHosts(
        number,
        groups.n_pages[number],
        groups.delay_ms[number],
        (flags & GROUP_CLOSED) > 0,
        (flags & GROUP_SPLIT) > 0,
        (None,) * number.size,
    )


def _with_names(node: Node, hosts: PlannedHosts, *, with_names: bool) -> PlannedHosts:
    """Return groups with the names of split ones, or of all."""
    rows = np.arange(hosts.number.size) if with_names else np.flatnonzero(hosts.is_split)
    if not rows.size:
        return hosts
    name = list(hosts.name)
    for first in range(0, rows.size, _READ_AT_ONCE):
        some = rows[first : first + _READ_AT_ONCE]
        found = node.store.names_of(Names.GROUP, hosts.number[some].tolist())
        for row, one in zip(some.tolist(), found, strict=True):
            name[row] = one
    return hosts._replace(name=tuple(name))


# ---------------------------------------------------------------- URLs


def url_patterns(of: str) -> PatternSet:
    """Return the pattern that a target means unless it names a kind.

    Raises
    ------
    ValueError
        If the pattern is not valid.
    """
    # A host without a path stands for all of its pages.
    return PatternSet([of if "/" in of else f"{of}/*"])


def _match_urls(
    node: Node, page: NDArray[np.int64], patterns: Sequence[str], kinds: Sequence[str]
) -> dict[str, FlagArray]:
    """Return which pages match URL patterns.

    Names of kinds, and patterns that are not valid, have no rows.
    """
    wanted: dict[str, PatternSet] = {}
    for of in patterns:
        if of not in kinds and of not in wanted:
            try:
                wanted[of] = url_patterns(of)
            except ValueError:
                continue  # the name of a kind of another partition, or an error of the user
    matches = {of: np.zeros(page.size, np.bool_) for of in wanted}
    if not wanted:
        return matches
    for first in range(0, page.size, _READ_AT_ONCE):
        rows = slice(first, first + _READ_AT_ONCE)
        urls = node.store.read_urls_of(page[rows])
        for of, pattern in wanted.items():
            matches[of][rows] = pattern.first_match(urls) >= 0
    return matches
