"""Divide the state of shards anew: from the tables of all old shards make those of a new one.

A group moves with its pages, its leases and its sources of signals, and all of these keep what is
known of them.  Only what a shard knows of all its pages together is divided or put together, in
proportion to pages: counters, credit, and the priors and audits of kinds of pages.

A very large group that is split over partitions is the exception: its pages, with their leases, are
divided anew.  Its parts may order nothing before new windows are granted, and these begin after the
last window of before.

Everything here is a function of its arguments.  Names are not known here: the caller says which
group, source and kind gets which number.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel
from recrawl.shard import growth
from recrawl.shard.apply.budget import credit_at, run_spending
from recrawl.shard.apply.pages import rebase, rebuild_words
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.codes import LOG2_CODE_ONE, link_row_of
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.status import LeaseStage, PageStatus
from recrawl.shard.state.tables import (
    AUDIT_COLUMNS,
    GROUP_SPLIT,
    RESULT_COLUMNS,
    RUNS_MAX,
    Leases,
    Links,
    Pages,
    Priors,
    Tables,
    zeros,
)
from recrawl.shard.state.words import number_of

__all__ = [
    "REMOVED_PAGE",
    "NewNumbers",
    "NewShard",
    "OldShard",
    "SplitGroup",
    "divide_slots",
    "make_shard",
    "moved_pages",
    "reorder_slots",
]

I64 = NDArray[np.int64]

REMOVED_PAGE = 256 << 32
"""Number that no page has: no generation of a slot reaches it."""
# Registers that count something of all pages, and are divided in proportion to pages.
_COUNTS = (
    "n_ordered",
    "n_outcomes",
    "n_polls",
    "n_changed",
    "n_signals",
    "n_audited",
    "n_audited_fresh",
    "n_void",
    "growth_pages",
    "n_newcomers_ordered",
)

# What the home partition of a split group says for all its parts.
_SPLIT_RULES = ("delay_ms", "in_flight_max", "burst", "flags")
# Counts and sums of a group's results; those of all parts of a split group add up.
_GROUP_RESULTS = (*AUDIT_COLUMNS, *RESULT_COLUMNS, "spent")


class SplitGroup(NamedTuple):
    """A group of an old shard whose pages are in several partitions."""

    group: int
    """Number in the old shard."""
    numbers: I64
    """New number in each new partition, -1 where it has none."""
    home: int
    """New home partition."""
    is_home: bool
    """Whether the old shard is that of the old home partition."""


class OldShard(NamedTuple):
    """A shard to be divided, and the new numbers of what is in it."""

    tables: Tables
    partition: I64
    """New partition of each group, -1 for one that is split."""
    group: I64
    """New number of each group, in its new partition."""
    source: I64
    """New number of each source, in the new partition of its group."""
    source_partition: I64
    """New partition of each source, which is that of its group; -1 for those of split groups."""
    kind: I64
    """New number of each kind."""
    split_groups: tuple[SplitGroup, ...] = ()
    split_sources: tuple[tuple[int, I64], ...] = ()
    """Sources of split groups, each with its new number in each new partition, or -1."""
    slot_partition: I64 | None = None
    """New partition of each slot that has a page of a split group; None if there are none."""

    def partitions_of(self, slot: I64) -> I64:
        """Return the new partitions of slots that have pages."""
        partition: I64 = self.partition[self.tables.pages.group[slot]]
        if self.slot_partition is None:
            return partition
        return np.where(partition < 0, self.slot_partition[slot], partition)

    def groups_in(self, partition: int) -> I64:
        """Return the new number of each group, as seen from one new partition."""
        number = self.group.copy() if self.split_groups else self.group
        for one in self.split_groups:
            number[one.group] = one.numbers[partition]
        return number

    def sources_in(self, partition: int) -> I64:
        """Return the new number of each source, as seen from one new partition."""
        number = self.source.copy() if self.split_sources else self.source
        for source, numbers in self.split_sources:
            number[source] = numbers[partition]
        return number


class NewNumbers(NamedTuple):
    """How many groups, sources and kinds a new shard has, and which groups share a domain."""

    n_groups: int
    n_sources: int
    n_kinds: int
    keeper: I64
    """Group that keeps the credit of each group's domain: often the group itself."""


class NewShard(NamedTuple):
    """The state of a new shard, and where its rows come from."""

    tables: Tables
    slots: list[I64]
    """Slots in each old shard whose pages are here, in the order of the new slots."""
    orders: list[tuple[I64, I64]]
    """Numbers of orders in each old shard, and their numbers here."""


def divide_slots(old: OldShard, n_partitions: int) -> list[I64]:
    """Return the slots of an old shard whose pages belong to each new partition."""
    pages, n_slots = old.tables.pages, int(old.tables.registers.n_slots[0])
    used = np.flatnonzero(pages.status[:n_slots] != PageStatus.FREE)
    partition = old.partitions_of(used)
    order = np.argsort(partition, kind="stable")
    ends = np.searchsorted(partition[order], np.arange(n_partitions + 1))
    return [used[order[ends[i] : ends[i + 1]]] for i in range(n_partitions)]


def make_shard(
    olds: Sequence[OldShard],
    divided: Sequence[Sequence[I64]],
    partition: int,
    numbers: NewNumbers,
    settings: ShardSettings,
    rules: Rules,
) -> NewShard:
    """Return the state of one new shard.

    Parameters
    ----------
    olds
        All old shards.
    divided
        Result of `divide_slots` for each of them.
    partition
        Number of the new partition.
    numbers
        Numbers of groups, sources and kinds in the new shard.
    settings, rules
        Settings of the new shard.
    """
    slots = [parts[partition] for parts in divided]
    shares = [_share_of(parts, partition) for parts in divided]
    n_slots = sum(part.size for part in slots)
    tables = growth.empty_tables(settings)
    tables = growth.with_pages(tables, n_slots)
    tables = growth.with_groups(tables, numbers.n_groups, settings)
    tables = growth.with_sources(tables, numbers.n_sources)
    tables = growth.with_kinds(tables, numbers.n_kinds)
    registers = tables.registers
    registers.now[0] = max(int(old.tables.registers.now[0]) for old in olds)
    _fill_registers(tables, olds, shares)
    registers.n_slots[0] = registers.n_pages[0] = registers.rebased_to[0] = n_slots
    new_slots = []
    first = 0
    for old, part in zip(olds, slots, strict=True):
        new_slot = np.full(int(old.tables.registers.n_slots[0]), -1, np.int64)
        new_slot[part] = first + np.arange(part.size)
        new_slots.append(new_slot)
        tables = _copy_pages(tables, old, part, first, partition)
        first += part.size
    for old, new_slot in zip(olds, new_slots, strict=True):
        tables = _copy_links(tables, old, new_slot, partition)
    _copy_sources(tables, olds, partition)
    _copy_groups(tables, olds, slots, partition, numbers)
    tables, orders = _copy_leases(tables, olds, new_slots, partition)
    _join_split_groups(tables, olds, partition, is_split=len(divided[0]) > 1)
    _copy_runs(tables, olds, shares)
    _join_priors(tables, olds, slots, rules)
    _rebuild_split_words(tables, olds, partition, rules)
    _divide_kind_counts(tables, olds, shares)
    if any(old.tables.registers.n_to_reage[0] > 0 for old in olds):
        registers.n_to_reage[0] = n_slots
    return NewShard(tables, slots, orders)


def reorder_slots(tables: Tables, new_slot: I64) -> Tables:
    """Return the state of a new shard with its pages in other slots.

    Parameters
    ----------
    tables
        State of the shard, whose pages have no generation yet.
    new_slot
        New slot of each page.
    """
    if (new_slot == np.arange(new_slot.size)).all():
        return tables
    pages, leases = tables.pages, tables.leases
    moved = zeros(Pages, pages.word.size)
    for before, after in _columns(pages, moved):
        after[new_slot] = before[: new_slot.size]
    links = zeros(Links, tables.links.key.size)
    source = np.arange(tables.sources.flags.size)
    _place_links(tables.links, links, pages, new_slot, source)
    is_there = (leases.stage != LeaseStage.EMPTY) & (leases.page < REMOVED_PAGE)
    lease_page = leases.page.copy()
    lease_page[is_there] = new_slot[lease_page[is_there]]
    return tables._replace(pages=moved, links=links, leases=leases._replace(page=lease_page))


class _Share(NamedTuple):
    """The share of an old shard's pages that a new one gets: those from ``first`` to ``end``."""

    first: int
    end: int
    total: int

    def count(self, number: int) -> int:
        """Return the share of a count; the shares of all new shards add up to it exactly."""
        return number * self.end // self.total - number * self.first // self.total

    def amount(self, number: float) -> float:
        """Return the share of an amount."""
        if not np.isfinite(number) or self.end - self.first == self.total:
            return number
        return number * (self.end - self.first) / self.total


def _share_of(parts: Sequence[I64], partition: int) -> _Share:
    sizes = [part.size for part in parts]
    if sum(sizes) == 0:
        return _Share(partition, partition + 1, len(sizes))
    first = sum(sizes[:partition])
    return _Share(first, first + sizes[partition], sum(sizes))


def _columns(
    before: tuple[NDArray[Any], ...], after: tuple[NDArray[Any], ...]
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Return the columns of two tables, side by side."""
    return zip(before, after, strict=True)


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return a weighted mean; the value itself if all are equal, the plain mean without weights."""
    used = [(v, w) for v, w in zip(values, weights, strict=True) if w > 0]
    used = used or [(value, 1.0) for value in values]
    if all(value == used[0][0] for value, _ in used):
        return used[0][0]
    return sum(v * w for v, w in used) / sum(w for _, w in used)


def _fill_registers(tables: Tables, olds: Sequence[OldShard], shares: Sequence[_Share]) -> None:
    """Set what a shard knows of all its pages together, from the shares of the old shards."""
    new, rows = tables.registers, [old.tables.registers for old in olds]
    now_ms = int(new.now[0])
    for name in ("price_mode", "fixed_price", "budget_unit", "budget_period", "run_budget"):
        getattr(new, name)[0] = getattr(rows[0], name)[0]
    for name in _COUNTS:
        counts = [int(getattr(row, name)[0]) for row in rows]
        total = sum(share.count(n) for share, n in zip(shares, counts, strict=True))
        getattr(new, name)[0] = total
    n_pages = [share.end - share.first for share in shares]
    new.price[0] = _mean([float(row.price[0]) for row in rows], n_pages)
    n_polls = [share.count(int(row.n_polls[0])) for share, row in zip(shares, rows, strict=True)]
    new.memory_lost[0] = _mean([float(row.memory_lost[0]) for row in rows], n_polls)
    for name in ("growth_until", "newcomers_until", "credited_at"):
        getattr(new, name)[0] = max(int(getattr(row, name)[0]) for row in rows)
    amounts = {
        "audited_modelled": [float(row.audited_modelled[0]) for row in rows],
        "audited_variance": [float(row.audited_variance[0]) for row in rows],
        "newcomer_credit": [float(row.newcomer_credit[0]) for row in rows],
        "budget": [float(row.budget[0]) for row in rows],
        "credit_max": [float(row.credit_max[0]) for row in rows],
        "credit": [credit_at(row, now_ms) for row in rows],
    }
    for name, values in amounts.items():
        parts = [share.amount(value) for share, value in zip(shares, values, strict=True)]
        getattr(new, name)[0] = sum(parts)
    if new.run_budget[0] > 0:
        new.credit[0] = new.credit_max[0] = 0.0
    elif 0 < new.budget[0] < np.inf:
        new.credit_max[0] = max(float(new.credit_max[0]), 1.0)
    if new.credited_at[0] > 0:
        new.credited_at[0] = now_ms


def _copy_pages(tables: Tables, old: OldShard, part: I64, first: int, partition: int) -> Tables:
    """Copy the rows of pages into the slots from ``first`` on."""
    source, target, end = old.tables.pages, tables.pages, first + part.size
    for before, after in _columns(source, target):
        after[first:end] = before[part]
    target.generation[first:end] = 0
    if part.size == 0:
        return tables
    target.group[first:end] = old.groups_in(partition)[source.group[part]]
    target.kind[first:end] = old.kind[source.kind[part]]
    has_source = source.n_sources[part] > 0
    numbers = np.where(has_source, source.source[part], 0)
    if has_source.any():
        numbers = np.where(has_source, old.sources_in(partition)[numbers], 0)
    target.source[first:end] = numbers
    tables, row = _copy_limits(tables, old.tables, source.limits[part])
    tables.pages.limits[first:end] = row
    return tables


def _copy_limits(
    tables: Tables, old: Tables, row: NDArray[np.uint16]
) -> tuple[Tables, NDArray[np.uint16]]:
    """Return tables with the limits in some rows of old ones, and the new row of each."""
    n_known = int(tables.registers.n_limits[0])
    rows = np.stack(tables.limits, axis=1)[:n_known].tolist()
    known = {tuple(key): i for i, key in enumerate(rows)}
    used, which = np.unique(row, return_inverse=True)
    new = np.zeros(used.size, np.uint16)
    for i, one in enumerate(used.tolist()):
        key = tuple(float(column[one]) for column in old.limits)
        if key not in known:
            tables = growth.with_limits_row(tables, n_known, key)
            known[key] = n_known
            n_known += 1
        new[i] = known[key]
    tables.registers.n_limits[0] = n_known
    return tables, new[which.reshape(-1)]


@table_kernel
def _place_links(old: Links, new: Links, pages: Pages, new_slot: I64, source: I64) -> int:
    """Copy the links of pages that move here; return their number."""
    n = 0
    for row in range(old.key.size):
        if old.key[row] == np.uint64(0):
            continue
        name = old.key[row] - np.uint64(1)
        slot = int(np.int64(name >> np.uint64(3)))
        k = int(np.int64(name & np.uint64(7)))
        if new_slot[slot] < 0 or k >= pages.n_sources[slot]:
            continue
        place = link_row_of(new, new_slot[slot], k)
        new.key[place] = np.uint64(1) + np.uint64(new_slot[slot]) * np.uint64(8) + np.uint64(k)
        new.source[place] = source[number_of(old.source[row])]
        new.n_signals[place] = old.n_signals[row]
        new.signal_count[place] = old.signal_count[row]
        new.claimed_at[place] = old.claimed_at[row]
        n += 1
    return n


def _copy_links(tables: Tables, old: OldShard, new_slot: I64, partition: int) -> Tables:
    """Return tables with the further sources of pages."""
    n_links = int(old.tables.registers.n_links[0])
    if n_links == 0 or not (new_slot >= 0).any():
        return tables
    tables = growth.with_links(tables, n_links)
    source = old.sources_in(partition)
    n = _place_links(old.tables.links, tables.links, old.tables.pages, new_slot, source)
    tables.registers.n_links[0] += n
    return tables


def _copy_sources(tables: Tables, olds: Sequence[OldShard], partition: int) -> None:
    """Copy the sources of groups that move here.

    Of a source of a split group, each old part knows something else: the most tested one counts.
    """
    most_tested = np.full(tables.sources.flags.size, -1.0)
    for old in olds:
        before = old.tables.sources
        is_here = old.source_partition[: before.flags.size] == partition
        for source, numbers in old.split_sources:
            if source < is_here.size:
                is_here[source] = numbers[partition] >= 0
        rows = np.flatnonzero(is_here)
        new = old.sources_in(partition)[rows]
        is_better = before.n_tested[rows] > most_tested[new]
        rows, new = rows[is_better], new[is_better]
        most_tested[new] = before.n_tested[rows]
        for source_column, target in _columns(before, tables.sources):
            target[new] = source_column[rows]


def _copy_groups(
    tables: Tables,
    olds: Sequence[OldShard],
    slots: Sequence[I64],
    partition: int,
    numbers: NewNumbers,
) -> None:
    """Copy groups, and put together what is known of their domains.

    Of split groups only the number of pages is set here.
    """
    groups, n_ordered = tables.groups, int(tables.registers.n_ordered[0])
    domain_pages = np.zeros(numbers.n_groups, np.int64)
    growth_pages = np.zeros(numbers.n_groups)
    credit = np.zeros(numbers.n_groups)
    growth_until = np.zeros(numbers.n_groups, np.int64)
    elapsed = np.full(numbers.n_groups, np.iinfo(np.int64).max)
    for old, part in zip(olds, slots, strict=True):
        before = old.tables.groups
        rows = np.flatnonzero(old.partition[: before.flags.size] == partition)
        new = old.group[rows]
        for source, target in _columns(before, groups):
            target[new] = source[rows]
        n_pages = before.n_pages[rows].astype(np.int64)
        is_whole = np.ones(rows.size, np.bool_)
        if here := [one for one in old.split_groups if one.numbers[partition] >= 0]:
            in_part = np.bincount(old.tables.pages.group[part], minlength=before.flags.size)
            split = np.array([one.group for one in here], np.int64)
            rows, new = np.append(rows, split), np.append(new, old.groups_in(partition)[split])
            n_pages = np.append(n_pages, in_part[split])
            np.add.at(groups.n_pages, new[-split.size :], in_part[split].astype(np.uint32))
            is_whole = np.append(is_whole, [one.home == partition for one in here])
        keeper = numbers.keeper[new]
        old_keeper = np.where(
            before.domain[rows] > 0, before.domain[rows].astype(np.int64) - 1, rows
        )
        np.add.at(domain_pages, keeper, n_pages)
        # A domain without pages moves with the group that keeps its credit.
        of_domain = before.domain_pages[old_keeper].astype(np.int64)
        is_alone = (rows == old_keeper) & is_whole
        share = np.where(of_domain > 0, n_pages / np.maximum(of_domain, 1), is_alone)
        np.add.at(growth_pages, keeper, before.growth_pages[old_keeper] * share)
        np.add.at(credit, keeper, before.newcomer_credit[old_keeper] * share)
        moved = share > 0
        np.maximum.at(growth_until, keeper[moved], before.growth_until[old_keeper[moved]])
        since = int(old.tables.registers.n_ordered[0]) - before.credited_order[old_keeper]
        np.minimum.at(elapsed, keeper[moved], since[moved])
    n = numbers.n_groups
    is_kept = numbers.keeper == np.arange(n)
    groups.domain[:n] = np.where(is_kept, 0, numbers.keeper + 1)
    groups.domain_pages[:n] = domain_pages
    groups.growth_pages[:n] = np.rint(growth_pages)
    groups.newcomer_credit[:n] = credit
    groups.growth_until[:n] = growth_until
    elapsed[elapsed == np.iinfo(np.int64).max] = 0
    groups.credited_order[:n] = np.where(is_kept, n_ordered - elapsed, 0)


def _join_split_groups(
    tables: Tables, olds: Sequence[OldShard], partition: int, *, is_split: bool
) -> None:
    """Put together what the old parts of split groups know of them, after leases were copied.

    Nothing may be ordered here until a window is granted, if the group is still split.  It begins
    after all windows of before, and with them all leases have ended.
    """
    parts: dict[int, list[tuple[OldShard, SplitGroup]]] = {}
    for old in olds:
        for one in old.split_groups:
            if one.numbers[partition] >= 0:
                parts.setdefault(int(one.numbers[partition]), []).append((old, one))
    groups, leases = tables.groups, tables.leases
    in_flight = leases.group[leases.stage == LeaseStage.IN_FLIGHT]
    for new, found in parts.items():
        is_home = found[0][1].home == partition
        # The home partition has the delay and the limits that hold for all parts.
        old, one = next((part for part in found if part[1].is_home), found[0])
        rows = [(part.tables.groups, split.group) for part, split in found]
        for name in _SPLIT_RULES:
            getattr(groups, name)[new] = getattr(old.tables.groups, name)[one.group]
        for name in ("ready_at", "blocked_until", "n_errors"):
            getattr(groups, name)[new] = max(getattr(before, name)[i] for before, i in rows)
        if is_home:
            for name in _GROUP_RESULTS:
                getattr(groups, name)[new] = sum(getattr(before, name)[i] for before, i in rows)
        groups.in_flight[new] = np.count_nonzero(in_flight == new)
        if not is_split:
            groups.flags[new] &= ~np.uint8(GROUP_SPLIT)
            continue
        groups.flags[new] |= GROUP_SPLIT
        # An empty window: leases in flight end with it, and may be extended until then.
        end = max(int(before.window_until[i]) for before, i in rows)
        groups.window_at[new] = groups.window_until[new] = end
        if is_home:
            granted = max(int(before.granted_until[i]) for before, i in rows)
            groups.granted_until[new] = max(granted, end)


def _copy_leases(
    tables: Tables, olds: Sequence[OldShard], new_slots: Sequence[I64], partition: int
) -> tuple[Tables, list[tuple[I64, I64]]]:
    """Return tables with the orders that are remembered, and their old and new numbers.

    They are numbered in the order in which they were made, as a shard expects.
    """
    found: list[tuple[I64, dict[str, NDArray[Any]]]] = []
    lease_ms = []
    for old, new_slot in zip(olds, new_slots, strict=True):
        leases, registers = old.tables.leases, old.tables.registers
        order = np.arange(int(registers.first_order[0]), int(registers.next_order[0]))
        row = order & (leases.page.size - 1)
        group = leases.group[row].astype(np.int64)
        is_here = (leases.stage[row] != LeaseStage.EMPTY) & (group < old.partition.size)
        is_here[is_here] = _lease_partitions(old, row[is_here]) == partition
        order, row = order[is_here], row[is_here]
        columns = {name: column[row] for name, column in leases._asdict().items()}
        columns["group"] = old.groups_in(partition)[columns["group"]]
        columns["page"] = moved_pages(columns["page"], old.tables.pages, new_slot)
        found.append((order, columns))
        if registers.lease_ms_min[0] > 0:
            lease_ms.append(int(registers.lease_ms_min[0]))
    all_columns = {
        name: np.concatenate([columns[name] for _, columns in found]) for name in Leases._fields
    }
    n = all_columns["page"].size
    by_age = np.argsort(all_columns["ordered_at"], kind="stable")
    new_order = np.empty(n, np.int64)
    new_order[by_age] = 1 + np.arange(n)
    tables = growth.with_leases(tables, n)
    registers, leases = tables.registers, tables.leases
    row = new_order & (leases.page.size - 1)
    for name, column in leases._asdict().items():
        column[row] = all_columns[name]
    registers.next_order[0] = 1 + n
    registers.in_flight[0] = np.count_nonzero(all_columns["stage"] == LeaseStage.IN_FLIGHT)
    registers.lease_ms_min[0] = min(lease_ms, default=0)
    ends = np.cumsum([order.size for order, _ in found])[:-1]
    parts = np.split(new_order, ends)
    return tables, [(order, part) for (order, _), part in zip(found, parts, strict=True)]


def _lease_partitions(old: OldShard, row: I64) -> I64:
    """Return the new partition of leases, given by rows: that of the page, if the group is split.

    If the page is no longer there, that is the home partition of the group.
    """
    leases, pages = old.tables.leases, old.tables.pages
    group = leases.group[row]
    partition: I64 = old.partition[group]
    for one in old.split_groups:
        own = np.flatnonzero(group == one.group)
        slot = leases.page[row[own]] & 0xFFFFFFFF
        is_there = pages.generation[slot] == leases.page[row[own]] >> 32
        is_there &= (pages.status[slot] != PageStatus.FREE) & (pages.group[slot] == one.group)
        partition[own] = one.home
        partition[own[is_there]] = old.partitions_of(slot[is_there])
    return partition


def moved_pages(page: I64, pages: Pages, new_slot: I64) -> I64:
    """Return the new numbers of pages; those of removed pages become a number that no page has."""
    slot = page & 0xFFFFFFFF
    is_there = (page >= 0) & (slot < new_slot.size)
    slot = np.where(is_there, slot, 0)
    if new_slot.size:
        is_there &= (pages.generation[slot] == page >> 32) & (new_slot[slot] >= 0)
    moved = new_slot[slot] if new_slot.size else slot
    return np.where(is_there, moved, REMOVED_PAGE)


def _copy_runs(tables: Tables, olds: Sequence[OldShard], shares: Sequence[_Share]) -> None:
    """Set the spending of named runs; the present run ends, and goes on when it is chosen again."""
    spent: dict[int, float] = {}
    used_at: dict[int, int] = {}
    for old, share in zip(olds, shares, strict=True):
        runs, registers = old.tables.runs, old.tables.registers
        for run, at in zip(runs.run.tolist(), runs.used_at.tolist(), strict=True):
            if run:
                spending = run_spending(registers, runs, run)
                spent[run] = spent.get(run, 0.0) + share.amount(spending)
                used_at[run] = max(used_at.get(run, 0), at)
    newest = sorted(used_at, key=lambda run: (-used_at[run], run))[:RUNS_MAX]
    for row, run in enumerate(newest):
        tables.runs.run[row], tables.runs.spent[row] = run, spent[run]
        tables.runs.used_at[row] = used_at[run]


def _join_priors(
    tables: Tables, olds: Sequence[OldShard], slots: Sequence[I64], rules: Rules
) -> None:
    """Set the priors and weights of kinds, and move the beliefs of pages to these priors."""
    priors, registers = tables.priors, tables.registers
    n_kinds = priors.shape.size
    own = [_priors_by_new_kind(old, n_kinds) for old in olds]
    n_pages = np.zeros((len(olds), n_kinds))
    first = 0
    for i, part in enumerate(slots):
        kinds = tables.pages.kind[first : first + part.size]
        n_pages[i] = np.bincount(kinds, minlength=n_kinds)
        first += part.size
    for kind in range(n_kinds):
        weights = n_pages[:, kind].tolist()
        rate = _mean([float(one.shape[kind] / one.seconds[kind]) for one in own], weights)
        shape = _mean([float(one.shape[kind]) for one in own], weights)
        seconds = {float(one.seconds[kind]) for one, w in zip(own, weights, strict=True) if w > 0}
        priors.shape[kind] = shape
        priors.seconds[kind] = seconds.pop() if len(seconds) == 1 else shape / rate
        priors.weight[kind] = round(_mean([int(one.weight[kind]) for one in own], weights))
    first = 0
    for old, part, before in zip(olds, slots, own, strict=True):
        middle = int(np.searchsorted(part, int(old.tables.registers.rebased_to[0])))
        ranges = [
            (first, first + middle, before.shape, before.seconds),
            (first + middle, first + part.size, before.old_shape, before.old_seconds),
        ]
        for begin, end, shape_column, seconds_column in ranges:
            kinds = np.unique(tables.pages.kind[begin:end])
            is_same = (shape_column == priors.shape) & (seconds_column == priors.seconds)
            if not is_same[kinds].all():
                priors.old_shape[:], priors.old_seconds[:] = shape_column, seconds_column
                registers.rebased_to[0] = begin
                rebase(
                    tables.pages,
                    tables.links,
                    tables.sources,
                    priors,
                    registers,
                    rules,
                    end - begin,
                )
            elif not (before.weight == priors.weight)[kinds].all():
                rebuild_words(
                    tables.pages,
                    tables.links,
                    tables.sources,
                    priors,
                    registers,
                    rules,
                    np.arange(begin, end),
                )
        first += part.size
    priors.old_shape[:], priors.old_seconds[:] = priors.shape, priors.seconds
    registers.rebased_to[0] = registers.n_slots[0]


def _rebuild_split_words(
    tables: Tables, olds: Sequence[OldShard], partition: int, rules: Rules
) -> None:
    """Weigh the signals of pages of split groups anew: a source may be another part's now."""
    if not any(old.split_sources for old in olds):
        return
    split = {int(one.numbers[partition]) for old in olds for one in old.split_groups}
    pages, registers = tables.pages, tables.registers
    n_slots = int(registers.n_slots[0])
    is_split = np.isin(pages.group[:n_slots], [*split]) & (pages.n_sources[:n_slots] > 0)
    slot = np.flatnonzero(is_split)
    rebuild_words(pages, tables.links, tables.sources, tables.priors, registers, rules, slot)


def _divide_kind_counts(tables: Tables, olds: Sequence[OldShard], shares: Sequence[_Share]) -> None:
    """Set the audits and results of each kind, in proportion to all pages."""
    priors = tables.priors
    for old, share in zip(olds, shares, strict=True):
        before = old.tables.priors
        for row in range(min(old.kind.size, before.shape.size)):
            kind = old.kind[row]
            priors.n_audited[kind] += share.count(int(before.n_audited[row]))
            priors.n_audited_fresh[kind] += share.count(int(before.n_audited_fresh[row]))
            priors.audited_modelled[kind] += share.amount(float(before.audited_modelled[row]))
            priors.audited_variance[kind] += share.amount(float(before.audited_variance[row]))
            priors.spent[kind] += share.amount(float(before.spent[row]))
            for name in RESULT_COLUMNS:
                n_before = int(getattr(before, name)[row])
                getattr(priors, name)[kind] += share.count(n_before)


def _priors_by_new_kind(old: OldShard, n_kinds: int) -> Priors:
    """Return the priors of an old shard by the new numbers of kinds."""
    before = old.tables.priors
    found = zeros(Priors, n_kinds)
    for source, target in _columns(before, found):
        target[:] = source[0]  # as for a new kind
    found.weight[:] = LOG2_CODE_ONE
    found.weight[0] = before.weight[0]
    known = np.arange(min(old.kind.size, before.shape.size))
    for source, target in _columns(before, found):
        target[old.kind[known]] = source[known]
    return found
