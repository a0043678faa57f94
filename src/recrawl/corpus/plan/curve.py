"""Freshness against budget, for the pages as they are known now.

A price determines for each page after what time it is fetched again, and so how often it is
fetched and for which share of the time its copy is fresh.  The sum over all pages, or over a
sample, is one point of the curve for each price; nothing is simulated.

A plan leaves out:

- Learning: future polls show how often pages change, so pages of which little is known now will be
  fresher than planned.
- Orders for discovery and audits, and shares of the budget reserved for patterns.
- The time that fetches themselves take: a host that allows one fetch at a time gets fewer than its
  delay allows.
- Pages that recrawl no longer fetches because they are gone, or because their host forbids it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.corpus.plan.monotone import Monotone
from recrawl.corpus.plan.planned_partition import PlannedPartition, page_quotas, read_shard
from recrawl.corpus.plan.priced_pages import PricedPages, SampledPages, weights_of
from recrawl.shard import Shard
from recrawl.shard.state.status import BudgetUnit

__all__ = [
    "PAGES_PLANNED_MAX",
    "KindPlan",
    "Plan",
    "PlanCurve",
    "curve_of",
    "kinds_by_name",
    "plan_at",
    "plan_of",
    "plan_of_partitions",
]

PAGES_PLANNED_MAX = 32_768
"""Maximum number of pages that a plan evaluates; of a larger corpus, it samples about as many."""
_HOUR = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCurve:
    """Spending and freshness, one row per price, in the order of rising budgets."""

    price: FloatArray
    """Price that the value of a fetch must reach."""
    fetches_per_hour: FloatArray
    cost_per_hour: FloatArray
    freshness: FloatArray
    """Share of copies that are fresh, on average over time."""
    weighted_freshness: FloatArray
    """The same, weighted by importance; unweighted if no page has any importance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPlan:
    """The part of a plan that is about one kind of page, at the prices of the whole plan."""

    kind: str
    n_pages: int
    importance: float
    """Total importance of these pages."""
    curve: PlanCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Freshness against budget for one corpus, as it is known at one moment.

    Budgets are per hour, in the unit of the corpus's budget: fetches or cost.  Freshness is
    weighted by importance by default.
    """

    at_ms: int
    n_pages: int
    n_counted: int
    """Number of pages that the plan evaluates: a sample, or all."""
    unit: Literal["fetches", "cost"]
    curve: PlanCurve
    kinds: tuple[KindPlan, ...]
    """Plans of the kinds that have pages."""

    @property
    def is_exact(self) -> bool:
        """Whether the plan evaluates all pages."""
        return self.n_counted == self.n_pages

    @property
    def budget_per_hour(self) -> FloatArray:
        """Spending at each price, in the corpus's unit."""
        curve = self.curve
        return curve.cost_per_hour if self.unit == "cost" else curve.fetches_per_hour

    def freshness_at(self, budget_per_hour: float, *, weighted: bool = True) -> float:
        """Return the freshness that a budget achieves if it is spent optimally.

        A budget below the first point of the curve, which max_age and staleness limits need,
        achieves a proportional part of its freshness.  A budget beyond the last point achieves the
        freshness of that point.
        """
        budget, freshness = self._rising_points(weighted)
        if budget.size == 0 or not budget_per_hour > 0:
            return 0.0
        if budget_per_hour <= budget[0]:
            return float(freshness[0] * budget_per_hour / budget[0])
        if budget_per_hour >= budget[-1] or budget.size < 2:
            return float(freshness[-1])
        return Monotone(np.log(budget), freshness)(math.log(budget_per_hour))

    def budget_for(self, freshness: float, *, weighted: bool = True) -> float:
        """Return the budget per hour that a freshness needs; inf beyond the end of the curve."""
        if not 0 <= freshness <= 1:
            raise ValueError(f"freshness must be from 0 to 1, got {freshness!r}")
        budget, reached = self._rising_points(weighted)
        if budget.size == 0 or freshness > reached[-1]:
            return math.inf
        if freshness <= reached[0]:
            return float(budget[0] * freshness / reached[0]) if reached[0] > 0 else 0.0
        return math.exp(Monotone(np.log(budget), reached).place_of(freshness))

    def price_at(self, budget_per_hour: float) -> float:
        """Return the price at which a budget is spent; outside the curve, that of the nearest end.

        See `recrawl.core.price` for what a price is.
        """
        budget = self.budget_per_hour
        is_positive = budget > 0
        if not (is_positive.any() and budget_per_hour > 0):
            return float(self.curve.price[0]) if self.curve.price.size else math.inf
        log_price = np.log(self.curve.price[is_positive])
        found = np.interp(math.log(budget_per_hour), np.log(budget[is_positive]), log_price)
        return math.exp(float(found))

    def _rising_points(self, weighted: bool) -> tuple[FloatArray, FloatArray]:
        """Return the points at which the budget exceeds all earlier ones, with rising freshness."""
        curve = self.curve
        budget = self.budget_per_hour
        freshness = curve.weighted_freshness if weighted else curve.freshness
        before = np.maximum.accumulate(np.concatenate([[0.0], budget[:-1]]))
        rises = budget > before * (1 + 1e-9)
        return budget[rises], np.maximum.accumulate(freshness[rises])


def plan_of(
    shards: Sequence[Shard],
    *,
    kinds: Mapping[int, str] | Sequence[Mapping[int, str]] = (),
    now_ms: int,
    n_budgets: int = 40,
    n_pages_max: int = PAGES_PLANNED_MAX,
) -> Plan:
    """Return freshness against budget for the pages of shards, as they are known now.

    The plan takes into account the belief about each page, its importance, cost, signals and
    limits, and the delays of groups.  It evaluates up to ``n_pages_max`` pages one by one, and a
    sample of a larger corpus (`recrawl.corpus.inspect.page_sample`).  It assumes regular intervals
    for a page with signals whose limits decide when it is fetched.  Under the objective
    "fragments", freshness is the correct share of the content.

    Parameters
    ----------
    shards
        Shards of one corpus, with budgets of one unit.
    kinds
        Names of kinds by their numbers, for all shards or for each.  A kind without a name is
        called by its number, and kind 0 "other".
    now_ms
        Current time in milliseconds since 1970; stored in the plan, and used for nothing else.
    n_budgets
        Number of points of the curves.
    n_pages_max
        Maximum number of pages to evaluate.

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
        raise ValueError("there must be at least one shard, got none")
    if n_budgets < 2:
        raise ValueError(f"n_budgets must be at least 2, got {n_budgets!r}")
    quotas = page_quotas([shard.n_pages for shard in shards], n_pages_max)
    parts = [
        read_shard(
            shard,
            quota,
            partition=i,
            kinds=kinds if isinstance(kinds, Mapping) else dict(kinds[i] if kinds else {}),
        )
        for i, (shard, quota) in enumerate(zip(shards, quotas, strict=True))
    ]
    return plan_of_partitions(parts, now_ms=now_ms, n_budgets=n_budgets)


def plan_of_partitions(
    parts: Sequence[PlannedPartition], *, now_ms: int, n_budgets: int = 40
) -> Plan:
    """Return the plan for the sampled pages of partitions; see `plan_of`."""
    pages = SampledPages(parts)
    price = pages.prices(n_budgets)
    return plan_at(pages, pages.at(price), price, now_ms=now_ms)


def plan_at(
    pages: SampledPages,
    priced: PricedPages,
    price: FloatArray,
    *,
    now_ms: int,
) -> Plan:
    """Return the plan for sampled pages at given prices; see `plan_of`."""
    names, kind = kinds_by_name(pages)
    units = {part.budget.unit for part in pages.parts}
    curve = curve_of(priced, price)
    parts = []
    for i, name in enumerate(names):
        rows = kind == i
        weight = priced.n_pages[rows]
        parts.append(
            KindPlan(
                kind=name,
                n_pages=round(float(weight.sum())),
                importance=float(weight @ priced.importance[rows]),
                curve=curve_of(PricedPages(*(column[rows] for column in priced)), price)
                if len(names) > 1
                else curve,
            )
        )
    return Plan(
        at_ms=now_ms,
        n_pages=round(float(priced.n_pages.sum())),
        n_counted=priced.n_pages.size,
        unit="cost" if units == {int(BudgetUnit.COST)} else "fetches",
        curve=curve,
        kinds=tuple(parts),
    )


def curve_of(priced: PricedPages, price: FloatArray) -> PlanCurve:
    """Return the total spending and freshness of pages at each price."""
    n, weight = priced.n_pages, weights_of(priced)
    fetches = priced.fetch_rate
    return PlanCurve(
        price=price,
        fetches_per_hour=_HOUR * (n @ fetches),
        cost_per_hour=_HOUR * ((n * priced.cost) @ fetches),
        freshness=n @ priced.freshness / max(n.sum(), 1e-300),
        weighted_freshness=weight @ priced.freshness / max(weight.sum(), 1e-300),
    )


def kinds_by_name(pages: SampledPages) -> tuple[list[str], CountArray]:
    """Return the names of kinds, and the index of each page's kind in them.

    The number of a kind may differ between partitions, its name does not.
    """
    places: dict[str, int] = {}
    kind = [np.empty(0, np.int64)]
    for part in pages.parts:
        names, of_page = part.kind_labels
        place = np.array([places.setdefault(name, len(places)) for name in names], np.int64)
        kind.append(place[of_page])
    return list(places), np.concatenate(kind)
