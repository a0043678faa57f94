"""Grow the tables of a shard, always to the same sizes for the same log."""

import math

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel
from recrawl.shard.events import LimitsSet
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.codes import LOG2_CODE_ONE, link_row_of
from recrawl.shard.state.tables import (
    AUDIT_COLUMNS,
    GROUP_HAS_POLICY,
    RESULT_COLUMNS,
    RUNS_MAX,
    Groups,
    Leases,
    Limits,
    Links,
    Pages,
    Priors,
    Registers,
    Runs,
    Sources,
    Tables,
    grow_table,
    zeros,
)

__all__ = [
    "empty_tables",
    "set_first_priors",
    "set_group_defaults",
    "set_politeness",
    "with_groups",
    "with_kinds",
    "with_leases",
    "with_limits",
    "with_limits_row",
    "with_links",
    "with_pages",
    "with_sources",
]

_ROWS_AT_FIRST = 64
_COUNTED = (*AUDIT_COLUMNS, *RESULT_COLUMNS, "spent")


def empty_tables(settings: ShardSettings) -> Tables:
    """Return the state of a new shard."""
    n = _ROWS_AT_FIRST
    limits = zeros(Limits, n)
    limits.interval_max[0] = math.inf
    registers = zeros(Registers, 1)
    registers.first_order[0] = registers.next_order[0] = 1
    registers.n_limits[0] = 1
    registers.budget[0] = registers.credit[0] = registers.credit_max[0] = math.inf
    priors = zeros(Priors, 1)
    set_first_priors(priors, settings)
    priors.weight[0] = LOG2_CODE_ONE
    tables = Tables(
        zeros(Pages, n),
        zeros(Links, n),
        zeros(Groups, n),
        zeros(Sources, n),
        zeros(Leases, n),
        limits,
        priors,
        zeros(Runs, RUNS_MAX),
        registers,
    )
    set_group_defaults(tables.groups, settings, 0)
    return tables


def set_first_priors(priors: Priors, settings: ShardSettings) -> None:
    """Set the priors of a shard that has learned nothing yet."""
    for shape, seconds in ((priors.shape, priors.seconds), (priors.old_shape, priors.old_seconds)):
        shape[0] = settings.prior_shape
        seconds[0] = settings.prior_shape * settings.prior_period


def set_group_defaults(
    groups: Groups, settings: ShardSettings, first: int, now_ms: int = 0
) -> None:
    """Apply the default politeness to groups from ``first`` on without a policy of their own."""
    rows = first + np.flatnonzero((groups.flags[first:] & GROUP_HAS_POLICY) == 0)
    delay_ms = round(settings.group_delay * 1000)
    most, burst = min(settings.group_in_flight_max, 65_535), min(settings.group_burst, 65_535)
    set_politeness(groups, rows, np.int64(delay_ms), np.int64(most), np.int64(burst), now_ms)


def set_politeness(
    groups: Groups,
    rows: "NDArray[np.int64]",
    delay_ms: "NDArray[np.int64] | np.int64",
    in_flight_max: "NDArray[np.int64] | np.int64",
    burst: "NDArray[np.int64] | np.int64",
    now_ms: int,
) -> None:
    """Set the politeness of groups; a new delay counts from the last fetch of each group.

    Where the time of that fetch is unknown, because several could or can be in flight, a changed
    delay counts from now.
    """
    ready_at, before = groups.ready_at[rows], groups.delay_ms[rows].astype(np.int64)
    most_before = groups.in_flight_max[rows]
    is_one_by_one = (most_before <= 1) & (in_flight_max <= 1)
    is_changed = (
        (before != delay_ms) | (most_before != in_flight_max) | (groups.burst[rows] != burst)
    )
    from_now = now_ms + delay_ms * np.where(in_flight_max > 1, burst, 1)
    moved = np.where(is_one_by_one, ready_at + delay_ms - before, from_now)
    groups.ready_at[rows] = np.where(is_changed & (ready_at > 0), moved, ready_at)
    groups.delay_ms[rows] = delay_ms
    groups.in_flight_max[rows] = in_flight_max
    groups.burst[rows] = burst


def with_pages(tables: Tables, n_slots: int) -> Tables:
    """Return tables with room for ``n_slots`` slots."""
    return tables._replace(pages=grow_table(tables.pages, n_slots))


def with_groups(tables: Tables, n_groups: int, settings: ShardSettings) -> Tables:
    """Return tables with room for ``n_groups`` groups."""
    size = tables.groups.flags.size
    if n_groups <= size:
        return tables
    groups = grow_table(tables.groups, n_groups)
    set_group_defaults(groups, settings, size)
    return tables._replace(groups=groups)


def with_sources(tables: Tables, n_sources: int) -> Tables:
    """Return tables with room for ``n_sources`` sources."""
    return tables._replace(sources=grow_table(tables.sources, n_sources))


def with_kinds(tables: Tables, n_kinds: int) -> Tables:
    """Return tables with priors for ``n_kinds`` kinds.

    A new kind has the prior of kind 0 and weight 1.
    """
    size = tables.priors.shape.size
    if n_kinds <= size:
        return tables
    priors = grow_table(tables.priors, n_kinds)
    for name, column in priors._asdict().items():
        column[size:] = 0 if name in _COUNTED else column[0]
    priors.weight[size:] = LOG2_CODE_ONE
    return tables._replace(priors=priors)


@table_kernel
def _place_leases(old: Leases, new: Leases, first: int, end: int) -> None:
    for order in range(first, end):
        a = order & (old.page.size - 1)
        b = order & (new.page.size - 1)
        new.page[b] = old.page[a]
        new.ordered_at[b] = old.ordered_at[a]
        new.expires_at[b] = old.expires_at[a]
        new.stage[b] = old.stage[a]
        new.reason[b] = old.reason[a]
        new.group[b] = old.group[a]


def has_room_for_leases(tables: Tables, n_more: int) -> bool:
    """Return whether the ring of leases has room for ``n_more`` orders."""
    n_held = int(tables.registers.next_order[0]) - int(tables.registers.first_order[0])
    return n_held + n_more <= tables.leases.page.size


def with_leases(tables: Tables, n_more: int) -> Tables:
    """Return tables whose ring of leases has room for ``n_more`` orders."""
    if has_room_for_leases(tables, n_more):
        return tables
    first, end = int(tables.registers.first_order[0]), int(tables.registers.next_order[0])
    needed = end - first + n_more
    larger = zeros(Leases, 1 << (needed - 1).bit_length())
    _place_leases(tables.leases, larger, first, end)
    return tables._replace(leases=larger)


@table_kernel
def _place_links(old: Links, new: Links, pages: Pages) -> int:
    """Copy the links that their pages still use; return their number."""
    n = 0
    for row in range(old.key.size):
        if old.key[row] == np.uint64(0):
            continue
        name = old.key[row] - np.uint64(1)
        slot = int(np.int64(name >> np.uint64(3)))
        k = int(np.int64(name & np.uint64(7)))
        if k >= pages.n_sources[slot]:
            continue
        place = link_row_of(new, slot, k)
        new.key[place] = old.key[row]
        new.source[place] = old.source[row]
        new.n_signals[place] = old.n_signals[row]
        new.signal_count[place] = old.signal_count[row]
        new.claimed_at[place] = old.claimed_at[row]
        n += 1
    return n


def with_links(tables: Tables, n_more: int) -> Tables:
    """Return tables with room for ``n_more`` links, at most half of the rows in use."""
    needed = 2 * (int(tables.registers.n_links[0]) + n_more)
    if needed <= tables.links.key.size:
        return tables
    larger = zeros(Links, 1 << (needed - 1).bit_length())
    tables.registers.n_links[0] = _place_links(tables.links, larger, tables.pages)
    return tables._replace(links=larger)


def with_limits_row(tables: Tables, row: int, limits: tuple[float, ...]) -> Tables:
    """Return tables that hold limits in a row; the registers do not count it yet."""
    tables = tables._replace(limits=grow_table(tables.limits, row + 1))
    for column, number in zip(tables.limits, limits, strict=True):
        column[row] = number
    return tables


def with_limits(
    tables: Tables, event: LimitsSet, limits_max: int
) -> tuple[Tables, NDArray[np.int64]]:
    """Return tables that hold the limits of an event, and the row of each; -1 for none.

    Impossible limits (a longest interval below the shortest, a probability of 1) have no row, nor
    have those beyond ``limits_max``.
    """
    sets = np.stack(event[1:], axis=1)
    distinct, of_row = np.unique(sets, axis=0, return_inverse=True)
    n_known = int(tables.registers.n_limits[0])
    known = {tuple(row): i for i, row in enumerate(np.stack(tables.limits, axis=1)[:n_known])}
    rows = np.full(len(distinct), -1, np.int64)
    for i, (low, high, stale_for, probability) in enumerate(distinct):
        key = (low, high, stale_for, probability)
        if not (0 <= low <= high and stale_for >= 0 and 0 <= probability < 1):
            continue
        if key not in known:
            if n_known > limits_max - 1:
                continue
            tables = with_limits_row(tables, n_known, key)
            known[key] = n_known
            n_known += 1
        rows[i] = known[key]
    tables.registers.n_limits[0] = n_known
    return tables, rows[of_row.reshape(-1)]
