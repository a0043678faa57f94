"""Where a corpus stands: counts, budget and price, and how fresh its copies are by the model."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core._arrays import CountArray, FloatArray
from recrawl.core._kernel import table_kernel
from recrawl.runtime.page_sample import PageSample, sample_of
from recrawl.shard import Shard
from recrawl.shard.codes import log2_of_code
from recrawl.shard.due import Terms, page_due_of
from recrawl.shard.status import BudgetUnit, LeaseStage, PageStatus, PriceMode
from recrawl.shard.tables import F64, Limits, Pages, Tables
from recrawl.shard.words import (
    EPOCH_SECONDS,
    is_held,
    last_of,
    log2_period_of,
    log2_weight_of,
    number_of,
    shape_of,
)

__all__ = [
    "PAGES_COUNTED_MAX",
    "AuditedFreshness",
    "Demand",
    "Stats",
    "demand_curve",
    "stats_of",
    "wilson_interval",
]

PAGES_COUNTED_MAX = 1_000_000
"""Up to so many pages freshness and what is due are added up page by page; of more, about so many
that a hash chooses stand for all."""
_Z = 1.959963984540054  # 95 % of a normal distribution are within so many deviations
_NO_FETCH = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedFreshness:
    """How many copies chosen by hash were found fresh, with a 95 % interval (Wilson's)."""

    n_audited: int
    n_fresh: int
    ratio: float | None
    """None before the first audit."""
    ratio_low: float
    ratio_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A corpus, or a part of it, at one moment; counts of orders and events are since its start."""

    at_ms: int
    n_pages: int
    pages_by_status: dict[str, int]
    """By name of `recrawl.shard.PageStatus` in lower case; slots that are free are left out."""
    n_groups: int
    """Groups with pages."""
    in_flight: int
    n_leases: int
    """Orders remembered: in flight, or ended so recently that a late report would count."""
    n_ordered: int
    n_outcomes: int
    n_polls: int
    """Outcomes that showed whether a page had changed."""
    n_changed: int
    n_signals: int
    n_void: int
    """Rows of events that counted for nothing."""
    audited: AuditedFreshness
    freshness_modelled: float
    """Share of copies believed fresh; a page never fetched has none."""
    weighted_freshness_modelled: float
    """The same, each copy weighted by its importance."""
    is_sampled: bool
    """Whether freshness and what is due are from some pages that stand for all."""
    n_due: int
    """Pages worth the price now, or beyond a ceiling of their own, that nobody has in flight."""
    backlog: int
    """Of those, as many as could be ordered at once, as far as the picker keeps count."""
    budget_unit: Literal["fetches", "cost"]
    budget_per_second: float | None
    """None without a budget; 0 where there is one for this run only."""
    credit: float | None
    """What may be spent at once; None for as much as one likes."""
    price: float
    """What a fetch must be worth; of several shards, the mean by pages."""
    price_is_fixed: bool
    oldest_fetch_at_ms: int | None
    """Of pages that are kept and fetched."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries and numbers, as for JSON."""
        return asdict(self)


class Demand(NamedTuple):
    """What would be spent per second at each price, prices rising."""

    price: FloatArray
    spent_per_second: FloatArray


@table_kernel
def _count_pages(
    pages: Pages, n_slots: int, n_by_status: CountArray, oldest_fetch: CountArray
) -> None:
    for slot in range(n_slots):
        status = pages.status[slot]
        n_by_status[status] += 1
        fetched = pages.fetched_at[slot]
        if fetched > 0 and _is_fetched(status) and fetched < oldest_fetch[0]:
            oldest_fetch[0] = fetched


_LEFT_ALONE = (int(PageStatus.FREE), int(PageStatus.DISALLOWED), int(PageStatus.RETIRED))


@table_kernel
def _is_fetched(status: int) -> bool:
    return status not in _LEFT_ALONE


@table_kernel
def _add_freshness(
    pages: Pages,
    limits: Limits,
    terms: Terms,
    log2_price: float,
    now: float,
    sample: PageSample,
    totals: F64,
) -> None:
    """Add pages, their importance, each of it that is fresh, and pages that are due."""
    for i in range(sample.slot.size):
        slot = sample.slot[i]
        n = sample.n_pages[i]
        word = pages.word[slot]
        importance = 0.0
        if pages.importance[slot] > 0:
            log2_cost = log2_of_code(max(number_of(pages.cost[slot]), 1))
            importance = math.exp2(log2_weight_of(word) + log2_cost)
        fresh = 0.0
        if pages.fetched_at[slot] > 0:
            shape = float(terms.table.shapes[shape_of(word)])
            age = max(now - float(last_of(word)), 0.0) * math.exp2(-log2_period_of(word))
            fresh = math.exp(-shape * math.log1p(age / shape))
        totals[0] += n
        totals[1] += n * importance
        totals[2] += n * fresh
        totals[3] += n * importance * fresh
        if not is_held(word) and page_due_of(pages, limits, slot, terms, log2_price) <= now:
            totals[4] += n


def wilson_interval(n_true: int, n: int) -> tuple[float, float]:
    """Return a 95 % interval for a share of which ``n_true`` of ``n`` were seen; 0 to 1 of none.

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


def _audited(n_audited: int, n_fresh: int) -> AuditedFreshness:
    low, high = wilson_interval(n_fresh, n_audited)
    return AuditedFreshness(
        n_audited=n_audited,
        n_fresh=n_fresh,
        ratio=n_fresh / n_audited if n_audited else None,
        ratio_low=low,
        ratio_high=high,
    )


def _statuses(shards: Sequence[Shard]) -> tuple[dict[str, int], int | None]:
    """Return how many pages have each status, and when the oldest fetch was."""
    n_by_status = np.zeros(max(PageStatus) + 1, np.int64)
    oldest = np.array([_NO_FETCH], np.int64)
    for shard in shards:
        tables = shard.tables
        _count_pages(tables.pages, int(tables.registers.n_slots[0]), n_by_status, oldest)
    counts = {
        status.name.lower(): int(n_by_status[status])
        for status in PageStatus
        if status != PageStatus.FREE
    }
    at = int(oldest[0])
    return counts, None if at == _NO_FETCH else (at + EPOCH_SECONDS) * 1000


def _price_of(shard: Shard) -> float:
    registers = shard.tables.registers
    if registers.price_mode[0] == PriceMode.FIXED:
        return float(registers.fixed_price[0])
    # The picker's is newer than the latest tick's; before its first decision it has that.
    return shard.picker.price


def _totals(shard: Shard, sample: PageSample, now_ms: int) -> NDArray[np.float64]:
    tables: Tables = shard.tables
    now = max(now_ms, shard.now_ms) / 1000 - EPOCH_SECONDS
    log2_price = math.log2(max(_price_of(shard), 1e-300))
    totals = np.zeros(5)
    _add_freshness(tables.pages, tables.limits, shard.terms, log2_price, now, sample, totals)
    return totals


def _if_finite(amount: float) -> float | None:
    return amount if math.isfinite(amount) else None


def stats_of(
    shards: Sequence[Shard], *, now_ms: int, n_pages_max: int = PAGES_COUNTED_MAX
) -> Stats:
    """Return where shards stand, taken together.

    Parameters
    ----------
    shards
        Of one corpus.
    now_ms
        When this is, in milliseconds since 1970.
    n_pages_max
        Pages that freshness is added up of; of more, so many stand for all.
    """
    if not shards:
        raise ValueError("shards must be at least one, got none")
    n_pages = sum(shard.n_pages for shard in shards)
    samples = [
        sample_of(shard.tables, max(-(-n_pages_max * shard.n_pages // max(n_pages, 1)), 1))
        for shard in shards
    ]
    parts = [_totals(s, sample, now_ms) for s, sample in zip(shards, samples, strict=True)]
    n, importance, fresh, weighted, n_due = np.sum(parts, axis=0).tolist()
    registers = [shard.tables.registers for shard in shards]

    def total(name: str) -> int:
        return sum(int(getattr(r, name)[0]) for r in registers)

    by_status, oldest = _statuses(shards)
    in_cost = all(r.budget_unit[0] == BudgetUnit.COST for r in registers)
    return Stats(
        at_ms=now_ms,
        n_pages=n_pages,
        pages_by_status=by_status,
        n_groups=sum(int(np.count_nonzero(s.tables.groups.n_pages)) for s in shards),
        in_flight=total("in_flight"),
        n_leases=sum(
            int(np.count_nonzero(s.tables.leases.stage != LeaseStage.EMPTY)) for s in shards
        ),
        n_ordered=total("n_ordered"),
        n_outcomes=total("n_outcomes"),
        n_polls=total("n_polls"),
        n_changed=total("n_changed"),
        n_signals=total("n_signals"),
        n_void=total("n_void"),
        audited=_audited(total("n_audited"), total("n_audited_fresh")),
        freshness_modelled=fresh / max(n, 1.0),
        weighted_freshness_modelled=weighted / importance if importance > 0 else 0.0,
        is_sampled=not all(sample.is_all for sample in samples),
        n_due=round(n_due),
        backlog=sum(shard.picker.backlog for shard in shards),
        budget_unit="cost" if in_cost else "fetches",
        budget_per_second=_if_finite(sum(float(r.budget[0]) for r in registers)),
        credit=_if_finite(sum(shard.credit(now_ms) for shard in shards)),
        price=sum(_price_of(s) * max(s.n_pages, 1) for s in shards)
        / sum(max(s.n_pages, 1) for s in shards),
        price_is_fixed=all(r.price_mode[0] == PriceMode.FIXED for r in registers),
        oldest_fetch_at_ms=oldest,
    )


def demand_curve(shards: Sequence[Shard]) -> Demand:
    """Return what shards would spend together at prices around their own.

    Empty before the first decision.  See `recrawl.shard.Shard` for what a shard alone says.
    """
    curves = [shard.picker.demand_curve() for shard in shards]
    curves = [(price, spent) for price, spent in curves if price.size]
    if not curves:
        return Demand(np.empty(0), np.empty(0))
    # Where all curves have something to say; one shard's is as it is.
    price = np.unique(np.concatenate([price for price, _ in curves]))
    low = max(float(price[0]) for price, _ in curves)
    high = min(float(price[-1]) for price, _ in curves)
    price = price[(price >= low) & (price <= high)]
    spent = sum(
        (np.interp(np.log(price), np.log(own), each) for own, each in curves),
        start=np.zeros(price.size),
    )
    return Demand(price, spent)
