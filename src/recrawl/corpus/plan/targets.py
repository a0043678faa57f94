"""Targets, such as 95 % of some pages under 6 h: whether they can be met, and what they cost.

A copy meets a target while it is fresh, or stale for no longer than the target allows.  A target
is met if the given share of the copies does, weighted by importance and averaged over time.

To meet a target, its pages are treated as more important than the others, so that they are fetched
at a lower price.  The extra cost is taken from the other pages, whose price rises.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FlagArray, FloatArray
from recrawl.corpus.plan.monotone import Monotone
from recrawl.corpus.plan.priced_pages import PricedPages
from recrawl.node.config.values import duration_text, seconds

__all__ = [
    "TARGET_LENGTH_MAX",
    "CombinedAnswer",
    "Spending",
    "Target",
    "TargetAnswer",
    "TargetPages",
    "answer_combined",
    "answer_targets",
]

TARGET_LENGTH_MAX = 1_000
"""Largest number of characters of a target."""
_HOUR = 3_600.0
_TARGET = re.compile(
    r"(?P<number>\d+(?:\.\d+)?)\s*(?P<percent>%?)"
    r"(?:\s+of\s+(?P<of>\S+))?"
    r"(?:\s+(?:under|within|in)\s+(?P<late>[^\s].*?))?",
    re.IGNORECASE,
)

Verdict = Literal["met", "possible", "too dear", "out of reach", "no pages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The share of some pages' copies that should be fresh, or not stale for long."""

    share: float
    """Share from 0 to 1."""
    of: str | None = None
    """Pages: a pattern such as ``/product/*``, a host, or the name of a kind; None for all."""
    late_seconds: float = 0.0
    """Time that a copy may be stale and still count."""

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"share must be above 0 and below 1, got {self.share!r}")
        if not 0 <= self.late_seconds < math.inf:
            raise ValueError(f"late_seconds must be finite, got {self.late_seconds!r}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the target that a text describes.

        Examples
        --------
        >>> Target.parse("95% of /product/* under 6h")
        Target(share=0.95, of='/product/*', late_seconds=21600.0)
        >>> Target.parse("99 %")
        Target(share=0.99, of=None, late_seconds=0.0)
        """
        text = " ".join(text.split())  # many spaces would take the pattern very long
        if len(text) > TARGET_LENGTH_MAX:
            raise ValueError(f"a target has at most {TARGET_LENGTH_MAX} characters")
        found = _TARGET.fullmatch(text)
        hint = 'write it as "95 %", "99 % of example.com" or "95 % of /product/* under 6 h"'
        if found is None:
            raise ValueError(f"target {text!r} is not understood: {hint}")
        number = float(found["number"])
        share = number / 100 if found["percent"] or number > 1 else number
        if not 0 < share < 1:
            raise ValueError(f"target {text!r} must be above 0 % and below 100 %: {hint}")
        late = 0.0
        if found["late"]:
            try:
                late = seconds(found["late"].replace(" ", ""))
            except ValueError:
                late = math.inf
            if not late < math.inf:
                raise ValueError(f"target {text!r} has no time such as 6 h or 30 m: {hint}")
        return cls(share=share, of=found["of"], late_seconds=late)

    def __str__(self) -> str:
        of = f" of {self.of}" if self.of else ""
        late = f" under {duration_text(self.late_seconds)}" if self.late_seconds else ""
        return f"{100 * self.share:g} %{of}{late}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAnswer:
    """Whether a target can be met, and what it costs; amounts are per hour, in the plan's unit."""

    target: Target
    n_pages: int
    """Approximate number of its pages."""
    n_counted: int
    """Number of its pages in the sample."""
    verdict: Verdict
    """Met already; possible with this budget at the cost of other pages; too dear for it; out of
    reach of any budget; or without pages in the sample.  Without a budget, a target that some
    budget meets is possible."""
    share_now: float | None
    """Share that the budget reaches now; None without a budget."""
    share_max: float
    """Largest share that any budget reaches."""
    share_max_without_delays: float
    """The same without the delays of hosts."""
    spent_now_per_hour: float | None
    """Spending on these pages now."""
    needed_per_hour: float
    """Spending on these pages that meets the target; inf if out of reach."""
    needed_overall_per_hour: float
    """Total budget that meets the target if it is raised for all pages alike."""
    importance_factor: float | None
    """Factor for the importance of these pages that meets the target with this budget; None unless
    it is possible and not met."""
    others_freshness_now: float | None
    """Freshness of all other pages now, if there are any."""
    others_freshness_then: float | None
    """The same if the target is met with this budget."""


class TargetPages(NamedTuple):
    """The sampled pages of a target, and the share of time that each meets it at each price."""

    target: Target
    is_meant: FlagArray
    meets: NDArray[np.float64]
    """Share of the time in which a copy meets the target, for all pages and prices."""
    meets_max_without_delays: FloatArray
    """The same at the lowest price without delays of hosts."""


class Spending(NamedTuple):
    """The current spending, and its place among the prices."""

    budget_per_hour: float
    place: float


class CombinedAnswer(NamedTuple):
    """The answer for all targets at once."""

    is_possible: bool
    needed_per_hour: float
    """Spending on the pages of all targets; inf if one is out of reach."""
    others_freshness_now: float | None
    others_freshness_then: float | None


class _Sums:
    """Sums over pages at each price, as curves over the places of the prices."""

    def __init__(self, priced: PricedPages, *, in_cost: bool, is_weighted: bool) -> None:
        self._spent = priced.n_pages * (priced.cost if in_cost else 1.0)
        self._weight = priced.n_pages * (priced.importance if is_weighted else 1.0)
        self._priced = priced
        self._places = np.arange(priced.fetch_rate.shape[1], dtype=np.float64)

    def spending(self, rows: FlagArray) -> Monotone:
        """Return the spending per hour on some pages."""
        # Multiplying other rows by 0 is faster than copying the rows that count.
        each = _HOUR * ((self._spent * rows) @ self._priced.fetch_rate)
        return Monotone(self._places, np.maximum.accumulate(each))

    def met_share(self, rows: FlagArray, meets: NDArray[np.float64] | None = None) -> Monotone:
        """Return the share of some pages that is fresh, or that meets a target."""
        column = self._priced.freshness if meets is None else meets
        return Monotone(self._places, np.maximum.accumulate(self._mean(rows, column)))

    def met_share_max(self, rows: FlagArray, meets: FloatArray) -> float:
        return float(self._mean(rows, meets))

    def _mean(self, rows: FlagArray, column: FloatArray) -> FloatArray:
        weight = self._weight * rows
        if not weight.sum() > 0:
            weight = self._priced.n_pages * rows
        mean: FloatArray = weight @ column / max(weight.sum(), 1e-300)
        return mean


def answer_targets(
    wanted: Sequence[TargetPages],
    priced: PricedPages,
    price: FloatArray,
    current: Spending | None,
    *,
    in_cost: bool = False,
    is_weighted: bool = True,
) -> list[TargetAnswer]:
    """Return whether targets can be met, each by itself.

    Parameters
    ----------
    wanted
        Targets and their pages.
    priced, price
        Fetch rates and freshness of pages at falling prices.
    current
        Current spending; None without a budget.
    in_cost
        Whether amounts are costs instead of fetches.
    is_weighted
        Whether copies count by importance.
    """
    sums = _Sums(priced, in_cost=in_cost, is_weighted=is_weighted)
    return [_answer(one, sums, priced, price, current) for one in wanted]


def _answer(
    one: TargetPages,
    sums: _Sums,
    priced: PricedPages,
    price: FloatArray,
    current: Spending | None,
) -> TargetAnswer:
    rows = one.is_meant
    met, spent = sums.met_share(rows, one.meets), sums.spending(rows)
    end = float(price.size - 1)
    needed = met.place_of(one.target.share) if rows.any() else math.inf
    is_reached = needed < math.inf
    moved = _settle([(rows, needed)], sums, current) if current and is_reached else None
    place, others_now, others_then = moved or (None, None, None)
    factor = None
    if place is not None and current is not None and needed > current.place:
        factor = float(np.exp(_log_price(price, place) - _log_price(price, needed)))
    return TargetAnswer(
        target=one.target,
        n_pages=round(float(priced.n_pages[rows].sum())),
        n_counted=int(np.count_nonzero(rows)),
        verdict=_verdict(rows, needed, place, current),
        share_now=met(current.place) if current and rows.any() else None,
        share_max=met(end) if rows.any() else 0.0,
        share_max_without_delays=sums.met_share_max(rows, one.meets_max_without_delays),
        spent_now_per_hour=spent(current.place) if current else None,
        needed_per_hour=spent(needed) if is_reached else math.inf,
        needed_overall_per_hour=(
            sums.spending(np.ones_like(rows))(needed) if is_reached else math.inf
        ),
        importance_factor=factor,
        others_freshness_now=others_now,
        others_freshness_then=others_then,
    )


def _verdict(
    rows: FlagArray, needed: float, place: float | None, current: Spending | None
) -> Verdict:
    if not rows.any():
        return "no pages"
    if not needed < math.inf:
        return "out of reach"
    if current is None:
        return "possible"
    if needed <= current.place:
        return "met"
    return "too dear" if place is None else "possible"


def answer_combined(
    wanted: Sequence[TargetPages],
    priced: PricedPages,
    current: Spending,
    *,
    in_cost: bool = False,
    is_weighted: bool = True,
) -> CombinedAnswer:
    """Return whether all targets can be met at once with the budget; see `answer_targets`."""
    sums = _Sums(priced, in_cost=in_cost, is_weighted=is_weighted)
    needs = [
        (one.is_meant, sums.met_share(one.is_meant, one.meets).place_of(one.target.share))
        for one in wanted
        if one.is_meant.any()
    ]
    if len(needs) < len(wanted) or not all(needed < math.inf for _, needed in needs):
        return CombinedAnswer(False, math.inf, None, None)
    cost = sum(sums.spending(rows)(needed) for rows, needed in _levels(needs))
    place, now, then = _settle(needs, sums, current)
    return CombinedAnswer(place is not None, cost, now, then)


def _settle(
    needs: Sequence[tuple[FlagArray, float]], sums: _Sums, current: Spending
) -> tuple[float | None, float | None, float | None]:
    """Return the place of the other pages' price, and their freshness now and then.

    The pages of each target get what they need; all other pages share the price at which the rest
    of the budget is spent.  The place is None if the targets alone cost more than the budget.
    """
    levels = _levels(needs)
    others = ~np.any([rows for rows, _ in needs], axis=0)
    spent_others = sums.spending(others)
    spent = [(sums.spending(rows), needed) for rows, needed in levels]

    def cost(place: float) -> float:
        return spent_others(place) + sum(curve(max(place, needed)) for curve, needed in spent)

    has_others = bool(others.any())
    met = sums.met_share(others)
    now = met(current.place) if has_others else None
    least = sum(curve(needed) for curve, needed in spent)
    if least > current.budget_per_hour * (1 + 1e-9):
        return None, now, None
    low, high = 0.0, current.place
    if cost(high) <= current.budget_per_hour * (1 + 1e-9):
        return high, now, now
    if cost(low) > current.budget_per_hour:
        # The rest of the budget does not even pay for the limits of the other pages.
        left = (current.budget_per_hour - least) / max(cost(low) - least, 1e-300)
        return low, now, met(low) * left if has_others else None
    for _ in range(50):
        middle = 0.5 * (low + high)
        if cost(middle) < current.budget_per_hour:
            low = middle
        else:
            high = middle
    return low, now, met(low) if has_others else None


def _levels(needs: Sequence[tuple[FlagArray, float]]) -> list[tuple[FlagArray, float]]:
    """Return disjoint sets of pages, each with the furthest place that a target of it needs."""
    levels: list[tuple[FlagArray, float]] = []
    taken = np.zeros_like(needs[0][0])
    for rows, needed in sorted(needs, key=lambda need: -need[1]):
        own = rows & ~taken
        taken |= rows
        if own.any():
            levels.append((own, needed))
    return levels


def _log_price(price: FloatArray, place: float) -> float:
    return float(np.interp(place, np.arange(price.size), np.log(price)))
