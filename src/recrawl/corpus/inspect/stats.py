"""The statistics of a corpus: counts, budget and price, and the estimated freshness."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray, RowArray
from recrawl.core.kernel import table_kernel
from recrawl.corpus.budget_view import BudgetView
from recrawl.corpus.inspect.decoded_words import (
    current_terms,
    fresh_chance,
    log2_of_codes,
    page_due,
    words_of,
)
from recrawl.corpus.inspect.page_sample import PageSample, sample_of
from recrawl.corpus.inspect.page_waits import early_from
from recrawl.messages.views import AuditedFreshness, Stats
from recrawl.node.config.rates import Money
from recrawl.shard import Shard
from recrawl.shard.due import Terms
from recrawl.shard.early import Early
from recrawl.shard.source_quality import has_ignored_sources
from recrawl.shard.state.codes import evident_last_of
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.status import LeaseStage, PageStatus, PriceMode
from recrawl.shard.state.tables import Links, Pages, Sources
from recrawl.shard.state.words import EPOCH_SECONDS

__all__ = [
    "PAGES_SUMMED_MAX",
    "AuditedFreshness",
    "DemandCurve",
    "Stats",
    "demand_curve",
    "n_leases_held",
    "page_totals",
    "stats_of",
    "wilson_interval",
]

PAGES_SUMMED_MAX = 1 << 18
"""Largest number of pages whose freshness is added up one by one; of more, a sample of about this
many."""
_Z = 1.959963984540054  # 95 % of a normal distribution are within this many deviations
_NO_FETCH = 2**32 - 1
_NOT_FETCHED = (PageStatus.FREE, PageStatus.DISALLOWED, PageStatus.RETIRED)
# Slots computed together, so that their intermediate arrays stay in the processor's cache.
_SLOTS_AT_ONCE = 1 << 16


class DemandCurve(NamedTuple):
    """Spending per second at each price, in the order of rising prices."""

    price: FloatArray
    spent_per_second: FloatArray


def wilson_interval(n_true: int, n: int) -> tuple[float, float]:
    """Return a 95 % interval for a share, given ``n_true`` of ``n`` observations; 0 to 1 for none.

    Examples
    --------
    >>> low, high = wilson_interval(94, 100)
    >>> round(low, 3), round(high, 3)
    (0.875, 0.972)

    References
    ----------
    E. B. Wilson. Probable inference, the law of succession, and statistical inference. JASA 22,
    1927.
    """
    if n == 0:
        return 0.0, 1.0
    share = n_true / n
    middle = share + _Z * _Z / (2 * n)
    spread = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    scale = 1 + _Z * _Z / n
    return max((middle - spread) / scale, 0.0), min((middle + spread) / scale, 1.0)


def _audited_freshness(n_audited: int, n_fresh: int) -> AuditedFreshness:
    low, high = wilson_interval(n_fresh, n_audited)
    return AuditedFreshness(
        n_audited=n_audited,
        n_fresh=n_fresh,
        ratio=n_fresh / n_audited if n_audited else None,
        ratio_low=low,
        ratio_high=high,
    )


def _statuses(shards: Sequence[Shard]) -> tuple[dict[str, int], int | None]:
    """Return the number of pages by status, and the time of the oldest fetch."""
    n_by_status = np.zeros(max(PageStatus) + 1, np.int64)
    is_fetched = np.ones(n_by_status.size, np.bool_)
    is_fetched[list(_NOT_FETCHED)] = False
    oldest = _NO_FETCH
    for shard in shards:
        pages, n_slots = shard.tables.pages, int(shard.tables.registers.n_slots[0])
        for first in range(0, n_slots, _SLOTS_AT_ONCE):
            part = slice(first, min(first + _SLOTS_AT_ONCE, n_slots))
            status = pages.status[part]
            n_by_status += np.bincount(status, minlength=n_by_status.size)
            # 0 means never; uint32 wraps to its maximum.
            since = pages.fetched_at[part] - np.uint32(1)
            oldest = min(oldest, int(since.min(where=is_fetched[status], initial=_NO_FETCH)))
    counts = {
        status.name.lower(): int(n_by_status[status])
        for status in PageStatus
        if status != PageStatus.FREE
    }
    return counts, None if oldest == _NO_FETCH else (oldest + 1 + EPOCH_SECONDS) * 1000


@table_kernel
def _write_evident_last(
    pages: Pages, links: Links, sources: Sources, rules: Rules, slot: RowArray, out: FloatArray
) -> None:
    for i in range(slot.size):
        out[i] = evident_last_of(pages, links, sources, rules, slot[i])


def _evident_last(shard: Shard, slot: RowArray, last: FloatArray) -> FloatArray:
    """Return from when on copies may have changed, given their effective last fetches."""
    tables = shard.tables
    if not has_ignored_sources(tables.sources):
        return last
    is_moved = last < tables.pages.fetched_at[slot]
    moved, found = slot[is_moved], np.empty(np.count_nonzero(is_moved))
    _write_evident_last(tables.pages, tables.links, tables.sources, shard.rules, moved, found)
    last = last.copy()
    last[is_moved] = found
    return last


def page_totals(
    shard: Shard, sample: PageSample, now_ms: int, terms: Terms | None = None
) -> NDArray[np.float64]:
    """Return sums: pages, importance, fresh pages, fresh importance, due pages, early pages.

    Parameters
    ----------
    shard
        Shard of the pages.
    sample
        Pages to add up.
    now_ms
        Current time, in milliseconds since 1970.
    terms
        Result of `current_terms`, which takes longer than a small sample.
    """
    pages, limits = shard.tables.pages, shard.tables.limits
    now = max(now_ms, shard.now_ms) / 1000 - EPOCH_SECONDS
    price = shard.price_at(max(now_ms, shard.now_ms))
    log2_price = math.log2(max(price, 1e-300))
    terms = terms or current_terms(shard)
    totals = np.zeros(6)
    for first in range(0, sample.slot.size, _SLOTS_AT_ONCE):
        rows = slice(first, first + _SLOTS_AT_ONCE)
        slot, n = sample.slot[rows], sample.n_pages[rows]
        words = words_of(pages.word[slot])
        log2_cost = log2_of_codes(np.maximum(pages.cost[slot], 1))
        importance = np.exp2(words.log2_weight + log2_cost) * (pages.importance[slot] > 0)
        evident = words._replace(last=_evident_last(shard, slot, words.last))
        fresh = fresh_chance(evident, terms.table.shapes, now) * (pages.fetched_at[slot] > 0)
        is_due = page_due(pages, limits, slot, words, terms, log2_price) <= now
        is_early = early_from(shard, slot, words, terms, shard.early) <= now
        if not price and shard.early == Early.STALE:
            is_due &= is_early
        is_due &= ~words.is_held
        is_early &= ~words.is_held & ~is_due
        totals += [
            n.sum(),
            n @ importance,
            n @ fresh,
            n @ (importance * fresh),
            n @ is_due,
            n @ is_early,
        ]
    return totals


def _if_finite(amount: float) -> float | None:
    return amount if math.isfinite(amount) else None


def n_leases_held(shard: Shard, now_ms: int) -> int:
    """Return the number of leases that have not run out."""
    leases = shard.tables.leases
    is_held = (leases.stage == LeaseStage.IN_FLIGHT) & (leases.expires_at > now_ms)
    return int(np.count_nonzero(is_held))


def stats_of(
    shards: Sequence[Shard],
    *,
    now_ms: int,
    n_pages_max: int = PAGES_SUMMED_MAX,
    cost_per_fetch: Money | None = None,
) -> Stats:
    """Return the statistics of shards, taken together.

    Parameters
    ----------
    shards
        Shards of one corpus.
    now_ms
        Current time, in milliseconds since 1970.
    n_pages_max
        Largest number of pages whose freshness is added up; of more, a sample.
    cost_per_fetch
        Price of a fetch, if the budget is money.
    """
    if not shards:
        raise ValueError("there must be at least one shard, got none")
    n_pages = sum(shard.n_pages for shard in shards)
    samples = [
        sample_of(shard.tables, max(-(-n_pages_max * shard.n_pages // max(n_pages, 1)), 1))
        for shard in shards
    ]
    parts = [page_totals(s, sample, now_ms) for s, sample in zip(shards, samples, strict=True)]
    n, importance, fresh, weighted, n_due, n_early = np.sum(parts, axis=0).tolist()
    registers = [shard.tables.registers for shard in shards]

    def total(name: str) -> int:
        return sum(int(getattr(r, name)[0]) for r in registers)

    by_status, oldest = _statuses(shards)
    budget = BudgetView.of(shards, cost_per_fetch, now_ms)
    return Stats(
        at_ms=now_ms,
        n_pages=n_pages,
        pages_by_status=by_status,
        n_groups=sum(int(np.count_nonzero(s.tables.groups.n_pages)) for s in shards),
        in_flight=sum(n_leases_held(shard, now_ms) for shard in shards),
        n_leases=sum(
            int(np.count_nonzero(s.tables.leases.stage != LeaseStage.EMPTY)) for s in shards
        ),
        n_ordered=total("n_ordered"),
        n_outcomes=total("n_outcomes"),
        n_polls=total("n_polls"),
        n_changed=total("n_changed"),
        memory_changes=_if_finite(sum(s.memory_changes for s in shards) / len(shards)),
        n_signals=total("n_signals"),
        n_void=total("n_void"),
        audited=_audited_freshness(total("n_audited"), total("n_audited_fresh")),
        freshness_modelled=fresh / max(n, 1.0),
        weighted_freshness_modelled=weighted / importance if importance > 0 else 0.0,
        is_sampled=not all(sample.is_all for sample in samples),
        n_due=round(n_due),
        n_early=round(n_early),
        backlog=sum(shard.picker.backlog for shard in shards),
        budget=budget.text,
        budget_unit=budget.unit,
        budget_per_second=budget.per_second,
        budget_period_seconds=budget.period_seconds,
        run_budget=budget.run_budget,
        cost_per_fetch=None if budget.cost_per_fetch is None else str(budget.cost_per_fetch),
        credit=budget.credit,
        credit_text=None
        if budget.credit is None
        else budget.amount_text(math.floor(max(budget.credit, 0.0) + 1e-6)),
        price=sum(s.price_at(now_ms) * max(s.n_pages, 1) for s in shards)
        / sum(max(s.n_pages, 1) for s in shards),
        price_is_fixed=all(r.price_mode[0] == PriceMode.FIXED for r in registers),
        oldest_fetch_at_ms=oldest,
    )


def demand_curve(shards: Sequence[Shard]) -> DemandCurve:
    """Return what shards would spend together at prices around their own.

    The curve is empty before the first decision.
    """
    curves = [shard.demand_curve() for shard in shards]
    curves = [(price, spent) for price, spent in curves if price.size]
    if not curves:
        return DemandCurve(np.empty(0), np.empty(0))
    # Only prices that all curves cover.
    price = np.unique(np.concatenate([price for price, _ in curves]))
    low = max(float(price[0]) for price, _ in curves)
    high = min(float(price[-1]) for price, _ in curves)
    price = price[(price >= low) & (price <= high)]
    spent = sum(
        (np.interp(np.log(price), np.log(own), each) for own, each in curves),
        start=np.zeros(price.size),
    )
    return DemandCurve(price, spent)
