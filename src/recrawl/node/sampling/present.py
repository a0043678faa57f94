"""Read the present state of a partition: totals, its largest hosts, kinds and sources.

The lock of the node is held only for a few milliseconds at a time, however large the partition is.
"""

from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.giving_way import give_way
from recrawl.messages.samples import (
    COUNTS,
    HOSTS_SAMPLED_MAX,
    KINDS_SAMPLED_MAX,
    RESULTS,
    SOURCES_SAMPLED_MAX,
    STATES,
)
from recrawl.shard import Shard
from recrawl.shard.figures import PAGES_SUMMED_MAX, sum_pages
from recrawl.shard.source_quality import evidence_sources, learned_quality
from recrawl.shard.state.status import LeaseStage
from recrawl.shard.state.tables import Sources
from recrawl.shard.state.trust import delay_of

__all__ = [
    "FIGURES",
    "PAGES_LOGGED_MAX",
    "SOURCE_FIGURES",
    "NumberedRows",
    "PartitionState",
    "read_state",
]

FIGURES: Final = (*STATES, *COUNTS)
"""Columns of totals, hosts and kinds."""
SOURCE_FIGURES: Final = ("n_signals", "precision", "recall", "delay_seconds", "n_judged")
"""Columns of sources."""
PAGES_LOGGED_MAX: Final = min(1 << 16, PAGES_SUMMED_MAX)
"""Largest number of pages that a logged sample looks at: the node does nothing else meanwhile."""


class NumberedRows(NamedTuple):
    """Figures of groups, kinds or sources of a partition, by their numbers."""

    number: NDArray[np.int64]
    figures: FloatArray
    """One row for each number, one column for each figure."""


class PartitionState(NamedTuple):
    """The state of a partition at one moment; counts are from its creation on."""

    at_ms: int
    price: float
    budget_per_second: float
    """Budget of the partition; inf if unlimited, 0 if it is per run."""
    in_flight: int
    n_signals: int
    n_hosts: int
    n_sources: int
    total: FloatArray
    """One value for each of `FIGURES`."""
    hosts: NumberedRows
    kinds: NumberedRows
    sources: NumberedRows
    histograms: FloatArray
    """One row for each of `recrawl.messages.samples.HISTOGRAMS`."""


def _largest(sizes: NDArray[Any], n_max: int) -> NDArray[np.int64]:
    """Return the rows of the largest sizes above 0, largest first, equal ones by number."""
    rows = np.flatnonzero(sizes)
    if rows.size > n_max:
        rows = rows[sizes[rows] >= np.partition(sizes[rows], -n_max)[-n_max]]
    return rows[np.argsort(-sizes[rows].astype(np.float64), kind="stable")][:n_max]


def _counts_of(table: Any, rows: NDArray[np.int64]) -> FloatArray:
    """Return the counts of groups or kinds, one column for each of `COUNTS`."""
    names = [f"n_{name}" if name in RESULTS else name for name in COUNTS]
    return np.column_stack([getattr(table, name)[rows].astype(np.float64) for name in names])


def _source_figures(
    shard: Shard, numbers: NDArray[np.int64], n_slots_max: int
) -> tuple[NumberedRows, int]:
    """Return the figures of chosen sources, and the number of all that have signalled."""
    sources: Sources = shard.tables.sources
    quality = learned_quality(shard.tables, shard.rules, n_slots_max=n_slots_max)
    place = np.searchsorted(quality.source, numbers)
    columns = [
        sources.n_signals[numbers],
        quality.precision.mean[place],
        quality.recall.mean[place],
        np.array([delay_of(sources, number, shard.rules) for number in numbers.tolist()]),
        np.maximum(sources.total[numbers], 0.0),
    ]
    return NumberedRows(numbers, np.column_stack(columns)), quality.source.size


def _read_sources(shard: Shard, n_slots_max: int) -> tuple[NumberedRows, int]:
    sources = evidence_sources(shard.tables.sources)
    numbers = sources[_largest(shard.tables.sources.n_signals[sources], SOURCES_SAMPLED_MAX)]
    if not numbers.size:
        return NumberedRows(numbers, np.zeros((0, len(SOURCE_FIGURES)))), 0
    return _source_figures(shard, numbers, n_slots_max)


def read_state(
    shard: Shard,
    lock: AbstractContextManager[Any],
    now_ms: int,
    *,
    n_pages_max: int = PAGES_SUMMED_MAX,
) -> PartitionState:
    """Return the present state of a partition.

    Parameters
    ----------
    shard
        Shard of the partition.
    lock
        Lock of its node, which is held for each piece.
    now_ms
        Present time, in milliseconds since 1970.
    n_pages_max
        Largest number of pages to look at; of more, a sample.
    """
    give_way()
    with lock:
        n_pages = shard.tables.groups.n_pages.copy()
    n_hosts = int(np.count_nonzero(n_pages))
    groups = _largest(n_pages, HOSTS_SAMPLED_MAX)
    with lock:
        # Another part of the pages each minute, so that means over an hour are of nearly all.
        pieces = sum_pages(
            shard,
            groups,
            now_ms,
            terms=shard.current_terms(),
            n_pages_max=n_pages_max,
            seed=now_ms // 60_000,
        )
    sums = None
    while sums is None:
        give_way()
        with lock:
            sums = next(pieces)
    with lock:
        sources, n_sources = _read_sources(shard, n_pages_max)
    with lock:
        tables = shard.tables
        registers, leases = tables.registers, tables.leases
        is_held = (leases.stage == LeaseStage.IN_FLIGHT) & (leases.expires_at > now_ms)
        every = np.arange(min(sums.kinds.shape[0], tables.priors.shape.size))
        by_kind = _counts_of(tables.priors, every)
        total = np.concatenate([sums.total, by_kind.sum(axis=0)])
        total[FIGURES.index("n_pages")] = registers.n_pages[0]
        for name in ("n_audited", "n_audited_fresh", "audited_modelled", "audited_variance"):
            # Audits before they were counted by kind are here, too.
            total[FIGURES.index(name)] = getattr(registers, name)[0]
        hosts = np.hstack([sums.hosts[:-1], _counts_of(tables.groups, groups)])
        hosts[:, FIGURES.index("n_pages")] = tables.groups.n_pages[groups]
        kinds = _largest(np.maximum(sums.kinds[:, 0], by_kind.sum(axis=1)), KINDS_SAMPLED_MAX)
        return PartitionState(
            now_ms,
            shard.price_at(max(now_ms, shard.now_ms)),
            float(registers.budget[0]),
            int(np.count_nonzero(is_held)),
            int(registers.n_signals[0]),
            n_hosts,
            n_sources,
            total,
            NumberedRows(groups, hosts),
            NumberedRows(kinds, np.hstack([sums.kinds[kinds], by_kind[kinds]])),
            sources,
            sums.histograms,
        )
