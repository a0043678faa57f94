"""What a budget buys: freshness against fetches per hour, for the pages as they are known now.

A price says for each page after which time it is fetched again, hence how often it is fetched and
which share of the time its copy is fresh.  Added up over all pages, or over some that stand for
all, that is a point of a curve for each price: nothing has to be simulated.

What is left out:

- What polls will yet teach.  Copies of pages of which little is known will be kept better than
  the plan says.
- Orders set apart for discovery and audit, and shares of the budget kept for patterns.
- The time that fetches themselves take: a group that allows one at a time sells fewer than its
  delay says.
- Pages that are given up or closed by their site's rules, which have no part in the plan.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from recrawl.core._arrays import CountArray, FloatArray, RowArray
from recrawl.core._kernel import table_kernel
from recrawl.core.belief.codes import BeliefCodes, decoded
from recrawl.core.price.due_table import due_periods_of, interval_periods_of
from recrawl.core.price.promise import latest_elapsed
from recrawl.core.price.teaching_rows import own_copy, write_teaching
from recrawl.core.value.averaged import averaged_value_of
from recrawl.runtime.page_sample import PageSample, sample_of
from recrawl.shard import Shard
from recrawl.shard.codes import log2_of_code
from recrawl.shard.due import Terms
from recrawl.shard.rules import Rules, has_patience, patience
from recrawl.shard.status import BudgetUnit
from recrawl.shard.tables import Pages, Tables
from recrawl.shard.words import class_of, log2_period_of, log2_weight_of, number_of, shape_of

__all__ = ["PAGES_COUNTED_MAX", "KindPlan", "Plan", "PlanCurve", "plan_of"]

PAGES_COUNTED_MAX = 32_768
"""Up to so many pages a plan looks at each; of more it looks at about as many."""
# Pages and prices that the range of the curve is found with, and the freshness it runs from and to.
_PAGES_FOR_RANGE = 2_000
_PRICES_FOR_RANGE = 96
_FRESHNESS_MIN, _FRESHNESS_MAX = 0.01, 0.995
_LOG2_TARGET_MIN, _LOG2_TARGET_MAX = -26.0, 20.0
_HOUR = 3_600.0
_CLOSED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCurve:
    """What is spent and how fresh copies are, one row per price, in the order of rising budgets."""

    price: FloatArray
    """What a fetch must be worth."""
    fetches_per_hour: FloatArray
    cost_per_hour: FloatArray
    freshness: FloatArray
    """Share of copies that are fresh, on average over time."""
    weighted_freshness: FloatArray
    """The same, each copy weighted by its importance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPlan:
    """The part of a plan that is about one kind of page; the prices are the whole plan's."""

    kind: str
    n_pages: int
    importance: float
    """Of all these pages together."""
    curve: PlanCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Freshness against budget for one corpus, as it is known at one moment.

    Budgets are per hour, in the unit of the corpus's own: fetches, or cost.  Freshness is weighted
    by importance unless said otherwise.
    """

    at_ms: int
    n_pages: int
    n_counted: int
    """Pages looked at: all of them, or some that stand for all."""
    unit: Literal["fetches", "cost"]
    curve: PlanCurve
    kinds: tuple[KindPlan, ...]
    """Only those that have pages."""

    @property
    def is_exact(self) -> bool:
        """Whether every page was looked at."""
        return self.n_counted == self.n_pages

    @property
    def budget_per_hour(self) -> FloatArray:
        """What is spent at each price, in the corpus's unit."""
        curve = self.curve
        return curve.cost_per_hour if self.unit == "cost" else curve.fetches_per_hour

    def freshness_at(self, budget_per_hour: float, *, weighted: bool = True) -> float:
        """Return the freshness that a budget buys, spent as well as can be.

        Below what ceilings and promises cost, in proportion to what is spent; beyond the end of
        the curve, that of its end.
        """
        budget, freshness = self._rising(weighted)
        if budget.size == 0 or not budget_per_hour > 0:
            return 0.0
        if budget_per_hour <= budget[0]:
            return float(freshness[0] * budget_per_hour / budget[0])
        if budget_per_hour >= budget[-1] or budget.size < 2:
            return float(freshness[-1])
        curve = PchipInterpolator(np.log(budget), freshness)
        return float(curve(math.log(budget_per_hour)))

    def budget_for(self, freshness: float, *, weighted: bool = True) -> float:
        """Return the budget per hour that buys a freshness; inf beyond the end of the curve."""
        if not 0 <= freshness <= 1:
            raise ValueError(f"freshness must be from 0 to 1, got {freshness!r}")
        budget, reached = self._rising(weighted)
        if budget.size == 0 or freshness > reached[-1]:
            return math.inf
        if freshness <= reached[0]:
            return float(budget[0] * freshness / reached[0]) if reached[0] > 0 else 0.0
        low, high = math.log(budget[0]), math.log(budget[-1])
        for _ in range(60):
            middle = 0.5 * (low + high)
            if self.freshness_at(math.exp(middle), weighted=weighted) < freshness:
                low = middle
            else:
                high = middle
        return math.exp(high)

    def price_at(self, budget_per_hour: float) -> float:
        """Return the price at which a budget is spent; that of the nearest end outside the curve.

        See `recrawl.core.price` for what a price is.
        """
        budget = self.budget_per_hour
        spends = budget > 0
        if not (spends.any() and budget_per_hour > 0):
            return float(self.curve.price[0]) if self.curve.price.size else math.inf
        log_price = np.log(self.curve.price[spends])
        found = np.interp(math.log(budget_per_hour), np.log(budget[spends]), log_price)
        return math.exp(float(found))

    def _rising(self, weighted: bool) -> tuple[FloatArray, FloatArray]:
        """Return the points at which both the budget and the freshness are above all before."""
        curve = self.curve
        budget = self.budget_per_hour
        freshness = curve.weighted_freshness if weighted else curve.freshness
        before = np.maximum.accumulate(np.concatenate([[0.0], budget[:-1]]))
        rises = budget > before * (1 + 1e-9)
        return budget[rises], np.maximum.accumulate(freshness[rises])


class _Counted(NamedTuple):
    """Pages looked at, one row each, and what becomes of them at each price (columns)."""

    n_pages: FloatArray
    importance: FloatArray
    cost: FloatArray
    kind: CountArray
    fetch_rate: NDArray[np.float64]
    """Per second."""
    freshness: NDArray[np.float64]


@table_kernel
def _fresh_share_of(shape: float, age: float) -> float:
    """Return which share of the time up to an age, in mean periods, a copy is fresh."""
    # Mean of S(s) = (1 + s/a)^-a up to t.  U(t) = ∫S - t S(t), so it is U/t + S(t).
    if not age < math.inf:
        return 0.0
    if age <= 0.0:
        return 1.0
    fresh = math.exp(-shape * math.log1p(age / shape))
    return min(averaged_value_of(shape, shape, age) / age + fresh, 1.0)


@table_kernel
def _point_of(
    word: np.uint64, rules: Rules, terms: Terms, log2_price: float, low: float, high: float
) -> tuple[float, float]:
    """Return how often a page is fetched at a price, per second, and which share it is fresh.

    ``low`` and ``high`` are the seconds between which its limits put the interval.
    """
    table = terms.table
    shape_code, class_code = shape_of(word), class_of(word)
    shape = float(table.shapes[shape_code])
    log2_period = log2_period_of(word)
    period = math.exp2(log2_period)
    log2_target = log2_price - log2_weight_of(word) - log2_period - terms.log2_bonus[shape_code]
    age = due_periods_of(table, shape_code, class_code, log2_target)
    n_levels = rules.precision.size
    if class_code == 0 or class_code > rules.recall.size * n_levels:
        age = max(min(age, high / period), low / period)
        if not age < math.inf:
            return 0.0, 0.0
        return 1.0 / (age * period), _fresh_share_of(shape, age)
    interval = interval_periods_of(table, shape_code, class_code, log2_target)
    bounded = max(min(interval, high / period), low / period)
    if bounded != interval:
        # Fetched at that interval with signals or without, and all changes count.
        recall = rules.recall[(class_code - 1) // n_levels]
        return 1.0 / (bounded * period), _fresh_share_of(shape, bounded / (1.0 - recall))
    if not interval < math.inf:
        return 0.0, 0.0
    # Signals Theorem 1: fresh for w = V + P(fresh at the fetch) ψ of every ψ.
    fresh = math.exp(-shape * math.log1p(age / shape))
    share = math.exp2(log2_target + terms.log2_bonus[shape_code]) / interval + fresh
    return 1.0 / (interval * period), min(share, 1.0)


@table_kernel
def _points(
    pages: Pages,
    rules: Rules,
    terms: Terms,
    slot: RowArray,
    bounds: FloatArray,
    log2_price: FloatArray,
    fetch_rate: FloatArray,
    freshness: FloatArray,
) -> None:
    for i in range(slot.size):
        for k in range(log2_price.size):
            fetch_rate[i, k], freshness[i, k] = _point_of(
                pages.word[slot[i]], rules, terms, log2_price[k], bounds[i, 0], bounds[i, 1]
            )


@table_kernel
def _weights(
    pages: Pages, slot: RowArray, importance: FloatArray, cost: FloatArray, scale: FloatArray
) -> None:
    """Write importance, cost, and log2 of weight × period, which prices go with."""
    for i in range(slot.size):
        word = pages.word[slot[i]]
        log2_cost = log2_of_code(max(number_of(pages.cost[slot[i]]), 1))
        cost[i] = math.exp2(log2_cost)
        # With what requests add, and less what cannot go wrong, as the word has it.
        importance[i] = math.exp2(log2_weight_of(word) + log2_cost)
        if pages.importance[slot[i]] == 0:
            importance[i] = 0.0
        scale[i] = log2_weight_of(word) + log2_period_of(word)


def _bounds(tables: Tables, slot: RowArray) -> FloatArray:
    """Return the shortest and the longest interval that limits and promises leave to pages."""
    row = tables.pages.limits[slot]
    limits = tables.limits
    bounds: FloatArray = np.stack([limits.interval_min[row], limits.interval_max[row]], axis=1)
    promised = np.flatnonzero(limits.stale_probability[row] > 0)
    if promised.size:
        of = slot[promised]
        codes = BeliefCodes(tables.pages.belief_shape[of], tables.pages.belief_seconds[of])
        latest = latest_elapsed(
            decoded(codes),
            stale_for=limits.stale_for[row[promised]],
            probability=limits.stale_probability[row[promised]],
        )
        bounds[promised, 1] = np.minimum(bounds[promised, 1], latest)
    return bounds


def _terms_of(shard: Shard) -> Terms:
    """Return what turns words into due times, with the patience that deciding now would have."""
    if not has_patience(shard.settings):
        return shard.terms
    table = own_copy(shard.terms.table)
    write_teaching(table, patience(int(shard.tables.registers.n_polls[0]), shard.n_pages))
    return shard.terms._replace(table=table)


class _Part:
    """One shard's pages that are looked at."""

    def __init__(self, shard: Shard, sample: PageSample) -> None:
        self._shard = shard
        self._sample = sample
        self._terms = _terms_of(shard)
        self._bounds = _bounds(shard.tables, sample.slot)
        self._importance, self._cost, self.scale = (np.empty(sample.slot.size) for _ in range(3))
        pages = shard.tables.pages
        _weights(pages, sample.slot, self._importance, self._cost, self.scale)

    def at(self, price: FloatArray, *, n_max: int | None = None) -> _Counted:
        """Return what becomes of pages at each price, or of some of them."""
        n = self._sample.slot.size
        rows = np.arange(0, n, max(n // n_max, 1)) if n_max else np.arange(n)
        slot = self._sample.slot[rows]
        fetch_rate, freshness = np.empty((2, rows.size, price.size))
        tables, rules = self._shard.tables, self._shard.rules
        log2_price = np.log2(price)
        bounds = np.ascontiguousarray(self._bounds[rows])
        _points(tables.pages, rules, self._terms, slot, bounds, log2_price, fetch_rate, freshness)
        counted = _Counted(
            self._sample.n_pages[rows] * n / max(rows.size, 1),
            self._importance[rows],
            self._cost[rows],
            tables.pages.kind[slot].astype(np.int64),
            fetch_rate,
            freshness,
        )
        if n_max is None:
            _cap_groups(tables, slot, counted)
        return counted


def _cap_groups(tables: Tables, slot: RowArray, counted: _Counted) -> None:
    """Let groups sell no more than their delay allows: to their own best pages.

    From the price down at which a group sells as much as it may, its pages stay as they are at
    that price.
    """
    groups = tables.groups
    group, of_page = np.unique(tables.pages.group[slot], return_inverse=True)
    with np.errstate(divide="ignore"):
        most = 1_000.0 / groups.delay_ms[group]
    most[(groups.flags[group] & _CLOSED) > 0] = 0.0
    demand = np.zeros((group.size, counted.fetch_rate.shape[1]))
    np.add.at(demand, of_page, counted.fetch_rate)
    demand *= (groups.n_pages[group] / np.bincount(of_page))[:, None]
    is_full = np.max(demand, axis=1, initial=0.0) > most
    rows = np.flatnonzero(is_full[of_page])
    # Prices fall from column to column; from column k on the group asks for more than it may have.
    of = of_page[rows]
    k = np.argmax(demand[of] > most[of, None], axis=1)
    share = (most[of] - _before(demand, of, k)) / (demand[of, k] - _before(demand, of, k))
    is_beyond = np.arange(demand.shape[1]) >= k[:, None]
    for column in (counted.fetch_rate, counted.freshness):
        before = _before(column, rows, k)
        last = before + share * (column[rows, k] - before)
        column[rows] = np.where(is_beyond, last[:, None], column[rows])


def _before(column: FloatArray, rows: RowArray, k: RowArray) -> FloatArray:
    """Return what stands before column k, 0 before the first: ceilings alone ask for too much."""
    before: FloatArray = np.where(k > 0, column[rows, np.maximum(k - 1, 0)], 0.0)
    return before


def _curve_of(counted: _Counted, price: FloatArray) -> PlanCurve:
    n, weight = counted.n_pages, counted.n_pages * counted.importance
    fetches = counted.fetch_rate
    return PlanCurve(
        price=price,
        fetches_per_hour=_HOUR * (n @ fetches),
        cost_per_hour=_HOUR * ((n * counted.cost) @ fetches),
        freshness=n @ counted.freshness / max(n.sum(), 1e-300),
        weighted_freshness=weight @ counted.freshness / max(weight.sum(), 1e-300),
    )


def _prices(parts: Sequence[_Part], n: int) -> FloatArray:
    """Return falling prices between which freshness goes from almost none to almost all."""
    scales = np.concatenate([part.scale for part in parts])
    if scales.size == 0:
        return np.exp2(np.linspace(_LOG2_TARGET_MAX, _LOG2_TARGET_MIN, n))
    low, high = scales.min() + _LOG2_TARGET_MIN, scales.max() + _LOG2_TARGET_MAX
    price = np.exp2(np.linspace(high, low, _PRICES_FOR_RANGE))
    counted = [part.at(price, n_max=_PAGES_FOR_RANGE) for part in parts]
    curve = _curve_of(_joined(counted), price)
    both = (curve.freshness, curve.weighted_freshness)
    first = min(int(np.argmax(freshness >= _FRESHNESS_MIN)) for freshness in both)
    last = max(int(np.argmax(freshness >= _FRESHNESS_MAX)) for freshness in both)
    ends = price[max(first - 1, 0)], price[last if last > 0 else -1]
    return np.geomspace(*ends, n)


def _joined(counted: Sequence[_Counted]) -> _Counted:
    return _Counted(*(np.concatenate(columns) for columns in zip(*counted, strict=True)))


def plan_of(
    shards: Sequence[Shard],
    *,
    kinds: Mapping[int, str] | Sequence[Mapping[int, str]] = (),
    now_ms: int,
    n_budgets: int = 40,
    n_pages_max: int = PAGES_COUNTED_MAX,
) -> Plan:
    """Return freshness against budget for the pages of shards, as they are known now.

    Exact up to ``n_pages_max`` pages, given what is believed of each: belief, importance, cost,
    signals, floors, ceilings and promises count, and so do the delays of groups.  Of a larger
    corpus so many pages are looked at that a hash chooses (`recrawl.runtime.page_sample`).
    A page with signals whose limits keep it from being fetched when it is worth the price counts
    as one fetched at regular intervals.  Under the objective "fragments" freshness is the share
    of what may go wrong in copies that is right.

    Parameters
    ----------
    shards
        Of one corpus, with budgets of one unit.
    kinds
        Names of kinds by their numbers, for all shards or for each.  A kind without a name goes by
        its number, kind 0 as "other".
    now_ms
        When this is, in milliseconds since 1970: put on record, nothing depends on it.
    n_budgets
        Points of the curves.
    n_pages_max
        Pages looked at.

    Examples
    --------
    >>> from recrawl.shard import PagesAdded, Shard, event_of
    >>> shard = Shard()
    >>> new = event_of(PagesAdded, page=shard.free_pages(50), group=range(50), kind=0,
    ...                importance=1, cost=1, at_ms=0)
    >>> _ = shard.apply(new)
    >>> plan = plan_of([shard], now_ms=0)
    >>> plan.n_pages, round(plan.freshness_at(plan.budget_for(0.9)), 6)
    (50, 0.9)
    """
    if not shards:
        raise ValueError("shards must be at least one, got none")
    if n_budgets < 2:
        raise ValueError(f"n_budgets must be at least 2, got {n_budgets!r}")
    total = max(sum(shard.n_pages for shard in shards), 1)
    quotas = [max(-(-n_pages_max * shard.n_pages // total), 1) for shard in shards]
    parts = [
        _Part(shard, sample_of(shard.tables, quota))
        for shard, quota in zip(shards, quotas, strict=True)
    ]
    price = _prices(parts, n_budgets)
    pieces = [part.at(price) for part in parts]
    names = _name_kinds(pieces, kinds)
    counted = _joined(pieces)
    units = {int(shard.tables.registers.budget_unit[0]) for shard in shards}
    return Plan(
        at_ms=now_ms,
        n_pages=round(float(counted.n_pages.sum())),
        n_counted=counted.n_pages.size,
        unit="cost" if units == {int(BudgetUnit.COST)} else "fetches",
        curve=_curve_of(counted, price),
        kinds=tuple(_kind_plan(counted, price, i, name) for i, name in enumerate(names)),
    )


def _name_kinds(
    pieces: Sequence[_Counted], kinds: Mapping[int, str] | Sequence[Mapping[int, str]]
) -> list[str]:
    """Return the names of kinds; their numbers become places in it, as shards have their own."""
    numbers: dict[str, int] = {}
    for i, piece in enumerate(pieces):
        known = kinds if isinstance(kinds, Mapping) else dict(kinds[i] if kinds else {})
        own, of_page = np.unique(piece.kind, return_inverse=True)
        names = [known.get(int(k)) or (str(k) if k else "other") for k in own]
        number = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
        piece.kind[:] = number[of_page]
    return list(numbers)


def _kind_plan(counted: _Counted, price: FloatArray, kind: int, name: str) -> KindPlan:
    rows = counted.kind == kind
    part = _Counted(*(column[rows] for column in counted))
    return KindPlan(
        kind=name,
        n_pages=round(float(part.n_pages.sum())),
        importance=float(part.n_pages @ part.importance),
        curve=_curve_of(part, price),
    )
