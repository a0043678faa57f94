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
from typing import Literal

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.corpus.plan.monotone import Monotone
from recrawl.corpus.plan.priced_pages import LookedAt, PricedPages, weights_of
from recrawl.shard import Shard
from recrawl.shard.state.status import BudgetUnit

__all__ = [
    "PAGES_COUNTED_MAX",
    "KindPlan",
    "Plan",
    "PlanCurve",
    "curve_of",
    "named_kinds",
    "plan_at",
    "plan_of",
]

PAGES_COUNTED_MAX = 32_768
"""Up to so many pages a plan looks at each; of more it looks at about as many."""
_HOUR = 3_600.0


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
    """The same, each copy weighted by its importance; the same where none has any."""


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
        return Monotone(np.log(budget), freshness)(math.log(budget_per_hour))

    def budget_for(self, freshness: float, *, weighted: bool = True) -> float:
        """Return the budget per hour that buys a freshness; inf beyond the end of the curve."""
        if not 0 <= freshness <= 1:
            raise ValueError(f"freshness must be from 0 to 1, got {freshness!r}")
        budget, reached = self._rising(weighted)
        if budget.size == 0 or freshness > reached[-1]:
            return math.inf
        if freshness <= reached[0]:
            return float(budget[0] * freshness / reached[0]) if reached[0] > 0 else 0.0
        return math.exp(Monotone(np.log(budget), reached).place_of(freshness))

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
    corpus so many pages are looked at that a hash chooses (`recrawl.corpus.inspect.page_sample`).
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
    looked_at = LookedAt(shards, n_pages_max)
    price = looked_at.prices(n_budgets)
    return plan_at(looked_at, looked_at.at(price), price, kinds=kinds, now_ms=now_ms)


def plan_at(
    looked_at: LookedAt,
    priced: PricedPages,
    price: FloatArray,
    *,
    kinds: Mapping[int, str] | Sequence[Mapping[int, str]] = (),
    now_ms: int,
) -> Plan:
    """Return the plan that what becomes of pages at prices makes; see `plan_of`."""
    names, kind = named_kinds(looked_at, priced.kind, kinds)
    units = {int(shard.tables.registers.budget_unit[0]) for shard in looked_at.shards}
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
    """Return what pages cost and how fresh they are at each price, together."""
    n, weight = priced.n_pages, weights_of(priced)
    fetches = priced.fetch_rate
    return PlanCurve(
        price=price,
        fetches_per_hour=_HOUR * (n @ fetches),
        cost_per_hour=_HOUR * ((n * priced.cost) @ fetches),
        freshness=n @ priced.freshness / max(n.sum(), 1e-300),
        weighted_freshness=weight @ priced.freshness / max(weight.sum(), 1e-300),
    )


def named_kinds(
    looked_at: LookedAt,
    number: CountArray,
    kinds: Mapping[int, str] | Sequence[Mapping[int, str]],
) -> tuple[list[str], CountArray]:
    """Return the names of kinds, and each page's place in them: shards have their own numbers."""
    places: dict[str, int] = {}
    kind = np.empty_like(number)
    start = 0
    for i, slot in enumerate(looked_at.slots):
        known = kinds if isinstance(kinds, Mapping) else dict(kinds[i] if kinds else {})
        own, of_page = np.unique(number[start : start + slot.size], return_inverse=True)
        names = [known.get(int(k)) or (str(k) if k else "other") for k in own]
        place = np.array([places.setdefault(name, len(places)) for name in names], np.int64)
        kind[start : start + slot.size] = place[of_page]
        start += slot.size
    return list(places), kind
