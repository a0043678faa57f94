"""Targets, such as 95 % of some pages under 6 h: whether they can be met, and what they cost.

A copy meets a target while it is fresh, or stale for no longer than the target says.  A target is
met when, weighted by importance and on average over time, so large a share of the copies does.

A target is met by treating its pages as more important than the others, so that they are fetched
at a lower price.  What that costs, less what is spent on them anyway, is taken from the others,
whose price rises.
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
from recrawl.node.config.values import period, seconds

__all__ = ["Standing", "Target", "TargetAnswer", "TargetPages", "Together", "answers", "together"]

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
    """Which share of which copies is to be fresh, or not stale for long."""

    share: float
    """0 to 1."""
    of: str | None = None
    """The pages: a pattern such as ``/product/*``, a host, or the name of a kind; None for all."""
    late_seconds: float = 0.0
    """How long a copy may be stale and still count."""

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"share must be above 0 and below 1, got {self.share!r}")
        if not 0 <= self.late_seconds < math.inf:
            raise ValueError(f"late_seconds must be finite, got {self.late_seconds!r}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the target that a text says.

        Examples
        --------
        >>> Target.parse("95% of /product/* under 6h")
        Target(share=0.95, of='/product/*', late_seconds=21600.0)
        >>> Target.parse("99 %")
        Target(share=0.99, of=None, late_seconds=0.0)
        """
        found = _TARGET.fullmatch(text.strip())
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
                raise ValueError(f"target {text!r} names no time such as 6 h or 30 m: {hint}")
        return cls(share=share, of=found["of"], late_seconds=late)

    def __str__(self) -> str:
        of = f" of {self.of}" if self.of else ""
        late = f" under {period(self.late_seconds)}" if self.late_seconds else ""
        return f"{100 * self.share:g} %{of}{late}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAnswer:
    """Whether a target can be met, and what it costs; amounts are per hour, in the plan's unit."""

    target: Target
    n_pages: int
    """About how many it is about."""
    n_counted: int
    """Of those, how many were looked at."""
    verdict: Verdict
    """Met already; possible with this budget, at the cost of the others; too dear for it; out of
    reach of any; or about no page that was looked at.  Without a budget, what is within reach of
    some is possible."""
    share_now: float | None
    """What the budget reaches as it is; None without one."""
    share_max: float
    """What is reached at most, whatever is spent."""
    share_max_without_delays: float
    """The same, if hosts could be asked without delay."""
    spent_now_per_hour: float | None
    """On these pages."""
    needed_per_hour: float
    """On these pages, to meet the target; inf if out of reach."""
    needed_overall_per_hour: float
    """On all pages, if the budget were raised for all of them alike until the target is met."""
    importance_factor: float | None
    """By which to multiply the importance of these pages to meet it with this budget; None unless
    it is possible and not met."""
    others_freshness_now: float | None
    """Of all other pages, if there are any."""
    others_freshness_then: float | None
    """The same when the target is met with this budget."""


class TargetPages(NamedTuple):
    """A target's pages among those looked at, and how well they do at each price."""

    target: Target
    is_meant: FlagArray
    kept: NDArray[np.float64]
    """Each page's share of the time, for all pages and prices."""
    kept_max_without_delays: FloatArray
    """The same at the lowest price, if there were no delays."""


class Standing(NamedTuple):
    """What is spent now, and at which of the prices."""

    budget_per_hour: float
    place: float


class Together(NamedTuple):
    """All targets at once."""

    is_possible: bool
    needed_per_hour: float
    """On the pages of all targets; inf if one is out of reach."""
    others_freshness_now: float | None
    others_freshness_then: float | None


class _Ledger:
    """Sums over pages at each price, as curves over the prices' places."""

    def __init__(self, priced: PricedPages, *, in_cost: bool, is_weighted: bool) -> None:
        self._spent = priced.n_pages * (priced.cost if in_cost else 1.0)
        self._weight = priced.n_pages * (priced.importance if is_weighted else 1.0)
        self._priced = priced
        self._places = np.arange(priced.fetch_rate.shape[1], dtype=np.float64)

    def spent(self, rows: FlagArray) -> Monotone:
        """Return what some pages cost per hour."""
        # Others count for nothing, rather than being left out: a copy of all rows costs more.
        each = _HOUR * ((self._spent * rows) @ self._priced.fetch_rate)
        return Monotone(self._places, np.maximum.accumulate(each))

    def kept(self, rows: FlagArray, kept: NDArray[np.float64] | None = None) -> Monotone:
        """Return how many of them do well: are fresh, unless something else is given."""
        column = self._priced.freshness if kept is None else kept
        return Monotone(self._places, np.maximum.accumulate(self._mean(rows, column)))

    def kept_at_most(self, rows: FlagArray, kept: FloatArray) -> float:
        return float(self._mean(rows, kept))

    def _mean(self, rows: FlagArray, column: FloatArray) -> FloatArray:
        weight = self._weight * rows
        if not weight.sum() > 0:
            weight = self._priced.n_pages * rows
        mean: FloatArray = weight @ column / max(weight.sum(), 1e-300)
        return mean


def answers(
    wanted: Sequence[TargetPages],
    priced: PricedPages,
    price: FloatArray,
    standing: Standing | None,
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
        What becomes of pages at falling prices.
    standing
        What is spent now; None without a budget.
    in_cost
        Whether amounts are costs rather than fetches.
    is_weighted
        Whether copies count by their importance.
    """
    ledger = _Ledger(priced, in_cost=in_cost, is_weighted=is_weighted)
    return [_answer(one, ledger, priced, price, standing) for one in wanted]


def _answer(
    one: TargetPages,
    ledger: _Ledger,
    priced: PricedPages,
    price: FloatArray,
    standing: Standing | None,
) -> TargetAnswer:
    rows = one.is_meant
    kept, spent = ledger.kept(rows, one.kept), ledger.spent(rows)
    end = float(price.size - 1)
    needed = kept.place_of(one.target.share) if rows.any() else math.inf
    is_reached = needed < math.inf
    moved = _settled([(rows, needed)], ledger, standing) if standing and is_reached else None
    place, others_now, others_then = moved or (None, None, None)
    factor = None
    if place is not None and standing is not None and needed > standing.place:
        factor = float(np.exp(_log_price(price, place) - _log_price(price, needed)))
    return TargetAnswer(
        target=one.target,
        n_pages=round(float(priced.n_pages[rows].sum())),
        n_counted=int(np.count_nonzero(rows)),
        verdict=_verdict(rows, needed, place, standing),
        share_now=kept(standing.place) if standing and rows.any() else None,
        share_max=kept(end) if rows.any() else 0.0,
        share_max_without_delays=ledger.kept_at_most(rows, one.kept_max_without_delays),
        spent_now_per_hour=spent(standing.place) if standing else None,
        needed_per_hour=spent(needed) if is_reached else math.inf,
        needed_overall_per_hour=(
            ledger.spent(np.ones_like(rows))(needed) if is_reached else math.inf
        ),
        importance_factor=factor,
        others_freshness_now=others_now,
        others_freshness_then=others_then,
    )


def _verdict(
    rows: FlagArray, needed: float, place: float | None, standing: Standing | None
) -> Verdict:
    if not rows.any():
        return "no pages"
    if not needed < math.inf:
        return "out of reach"
    if standing is None:
        return "possible"
    if needed <= standing.place:
        return "met"
    return "too dear" if place is None else "possible"


def together(
    wanted: Sequence[TargetPages],
    priced: PricedPages,
    standing: Standing,
    *,
    in_cost: bool = False,
    is_weighted: bool = True,
) -> Together:
    """Return whether all targets can be met at once with the budget; see `answers`."""
    ledger = _Ledger(priced, in_cost=in_cost, is_weighted=is_weighted)
    needs = [
        (one.is_meant, ledger.kept(one.is_meant, one.kept).place_of(one.target.share))
        for one in wanted
        if one.is_meant.any()
    ]
    if len(needs) < len(wanted) or not all(needed < math.inf for _, needed in needs):
        return Together(False, math.inf, None, None)
    cost = sum(ledger.spent(rows)(needed) for rows, needed in _levels(needs))
    place, now, then = _settled(needs, ledger, standing)
    return Together(place is not None, cost, now, then)


def _settled(
    needs: Sequence[tuple[FlagArray, float]], ledger: _Ledger, standing: Standing
) -> tuple[float | None, float | None, float | None]:
    """Return where the price of the others comes to lie, and how fresh they are now and then.

    Each target's pages are at least as well off as they need; everybody else shares a price at
    which the budget is spent.  None for the place if the targets alone cost more.
    """
    levels = _levels(needs)
    others = ~np.any([rows for rows, _ in needs], axis=0)
    spent_others = ledger.spent(others)
    spent = [(ledger.spent(rows), needed) for rows, needed in levels]

    def cost(place: float) -> float:
        return spent_others(place) + sum(curve(max(place, needed)) for curve, needed in spent)

    has_others = bool(others.any())
    kept = ledger.kept(others)
    now = kept(standing.place) if has_others else None
    least = sum(curve(needed) for curve, needed in spent)
    if least > standing.budget_per_hour * (1 + 1e-9):
        return None, now, None
    low, high = 0.0, standing.place
    if cost(high) <= standing.budget_per_hour * (1 + 1e-9):
        return high, now, now
    if cost(low) > standing.budget_per_hour:
        # What is left does not even pay for the ceilings of the others.
        left = (standing.budget_per_hour - least) / max(cost(low) - least, 1e-300)
        return low, now, kept(low) * left if has_others else None
    for _ in range(50):
        middle = 0.5 * (low + high)
        if cost(middle) < standing.budget_per_hour:
            low = middle
        else:
            high = middle
    return low, now, kept(low) if has_others else None


def _levels(needs: Sequence[tuple[FlagArray, float]]) -> list[tuple[FlagArray, float]]:
    """Return each page in one set only, with the furthest place that any of its targets needs."""
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
