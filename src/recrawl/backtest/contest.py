"""Policies let loose on the same web at many budgets, each page's part of the result kept.

Rules that people run today know no budget.  They are run on a clock that is slower or faster by a
factor, for as many factors as it takes to cover the budgets, each page fetched just when its wait
is over: nobody could run them to their better advantage.  recrawl starts knowing nothing, asks for
its fetches in batches as a nightly job would, and all it learns it pays for.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.price.due_table import DueTable
from recrawl.node.shipped_due_table import kept_due_table
from recrawl.sim import (
    Account,
    FixedInterval,
    Heritrix,
    IntervalRule,
    NutchAdaptive,
    OnFetches,
    Outcomes,
    Policy,
    ShardPolicy,
    StormCrawler,
    Web,
    compiled_rule,
    run_compiled,
    run_freely,
    simulate,
)

__all__ = [
    "OURS",
    "Fetches",
    "Point",
    "Rule",
    "Standing",
    "Watch",
    "budgets_for",
    "our_policy",
    "rules_in_use",
    "run_ours",
    "run_policy",
    "run_rule",
    "watched_rule",
]

OURS = "recrawl"
# Batches in which a budget is spent; more would be fairer still to recrawl, and take longer.
_N_PICKS_MAX = 2_500
# How much further than the budgets rules are run, so that curves can be compared at the ends.
_BEYOND = 1.6
# By how much a rule's waits are divided from one point to the next; those of its variants; and
# when to give up dividing them by less.
_STEP, _TUNED_STEP, _STEP_MIN = 2.0, 3.0, 1.02
_STEPS_MAX = 24

Progress = Callable[[str], None]


class Point(NamedTuple):
    """What a policy made of one budget, page by page."""

    fetches: CountArray
    fresh_seconds: FloatArray

    @classmethod
    def of(cls, account: Account) -> "Point":
        """Return the part of an account that is kept."""
        return cls(fetches=account.page_fetches, fresh_seconds=account.page_fresh_seconds)

    @property
    def n_fetches(self) -> int:
        """Return all fetches made."""
        return int(self.fetches.sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """One policy's points, each a way to spend more or fewer fetches; any order, good and bad."""

    name: str
    points: tuple[Point, ...]
    is_tuned: bool = False
    """Whether they are of many settings, to be mixed at will: some pages under one, some under
    another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A way to fetch that people use, and its variants if it is to be tuned."""

    name: str
    variants: tuple[IntervalRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fetches:
    """The fetches of chosen pages: for pictures."""

    page: RowArray
    at: FloatArray
    changed: FlagArray

    def of(self, page: int) -> "Fetches":
        """Return those of one page, in order."""
        rows = np.flatnonzero(self.page == page)
        rows = rows[np.argsort(self.at[rows], kind="stable")]
        return Fetches(page=self.page[rows], at=self.at[rows], changed=self.changed[rows])


class Watch:
    """Keeps the fetches of chosen pages while a policy runs."""

    def __init__(self, pages: RowArray) -> None:
        self._pages = pages
        self._parts: list[tuple[RowArray, FloatArray, FlagArray]] = []

    def __call__(self, page: RowArray, at: FloatArray, outcomes: Outcomes) -> None:
        """Take note of fetches."""
        rows = np.isin(page, self._pages)
        if rows.any():
            self._parts.append((page[rows], at[rows], outcomes.changed[rows]))

    def fetches(self) -> Fetches:
        """Return those of the chosen pages."""
        none = (np.empty(0, np.int64), np.empty(0), np.empty(0, np.bool_))
        parts = self._parts or [none]
        page, at, changed = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Fetches(page=page, at=at, changed=changed)


def rules_in_use() -> tuple[Rule, ...]:
    """Return the policies that recrawl is compared with.

    The two adaptive crawlers come twice: with their own numbers, and with those numbers that turn
    out best for each budget, which nobody can know beforehand.
    """
    nutch, storm = NutchAdaptive(), StormCrawler()
    nutch_tuned, storm_tuned = [nutch], [storm]
    for up in (0.2, 0.5, 1.5):
        for share in (0.1, 0.3, 0.5, 0.7, 0.9):
            # Waits settle where (1 + up)^(1 - share) (1 - down)^share = 1: between their bounds
            # such a rule aims at a share of fetches that find a change.
            down = 1 - (1 + up) ** -((1 - share) / share)
            storm_tuned.append(replace(storm, increase=up, decrease=down))
            nutch_tuned.append(replace(nutch, increase=up, decrease=down, sync=0.0))
    return (
        Rule(name="fixed interval", variants=(FixedInterval(),)),
        Rule(name="Nutch adaptive", variants=(nutch,)),
        Rule(name="StormCrawler adaptive", variants=(storm,)),
        Rule(name="Heritrix adaptive", variants=(Heritrix(),)),
        Rule(name="Nutch, best tuned", variants=tuple(nutch_tuned)),
        Rule(name="StormCrawler, best tuned", variants=tuple(storm_tuned)),
    )


def budgets_for(
    rate_per_second: FloatArray,
    importance: FloatArray,
    horizon: float,
    *,
    gap_seconds: float = 0.0,
    n_fetches: int = 0,
    n_budgets: int = 8,
) -> FloatArray:
    """Return budgets from scarce to ample, in fetches per second of all pages together.

    Scarce is where pages fetched in turn would be fresh for a third of what is to be gained, or
    be fetched twice in all; ample where all but 3 % of it is, or where a page is fetched every
    ``gap_seconds``: of shorter times a history of fetches can tell nothing.  Where ``n_fetches``
    were made, so many are among the budgets, if they are not scarce.
    """
    weight = importance / importance.sum()
    changing = rate_per_second > 0

    def stale_share(interval: float) -> float:
        exposure = rate_per_second[changing] * interval
        return float((weight[changing] * (1 + np.expm1(-exposure) / exposure)).sum())

    intervals = np.geomspace(horizon / 2, max(horizon / 20_000, gap_seconds, 1e-3), 200)
    stale = np.array([stale_share(interval) for interval in intervals])
    most = float(weight[changing].sum())
    longest = intervals[np.argmax(stale <= 0.66 * most)] if (stale <= 0.66 * most).any() else None
    shortest = intervals[np.argmax(stale <= 0.03 * most)] if (stale <= 0.03 * most).any() else None
    low = rate_per_second.size / (longest or intervals[0])
    high = max(rate_per_second.size / (shortest or intervals[-1]), n_fetches / horizon)
    return np.geomspace(low, max(high, 1.01 * low), n_budgets)


def run_policy(
    web: Web, policy: Policy, budget: float, *, on_fetches: OnFetches | None = None
) -> Point:
    """Return what a policy that knows of budgets makes of one."""
    n_fetches = budget * web.horizon
    n_per_pick = max(round(n_fetches / _N_PICKS_MAX), 1)
    # No pick asks for more than a tenth of the pages: they could not be told apart in time.
    n_per_pick = min(n_per_pick, max(web.n_pages // 10, 1))
    return Point.of(
        simulate(web, policy, budget, n_per_pick=n_per_pick, n_parts=1, on_fetches=on_fetches)
    )


@cache
def _due_table() -> DueTable:
    return kept_due_table()


def our_policy(budget: float) -> Policy:
    """Return the shard that ships, with the table that ships, for a budget."""
    return ShardPolicy(budget=budget, due_table=_due_table())


def run_ours(web: Web, budgets: Sequence[float], progress: Progress | None = None) -> Standing:
    """Return what the shipped shard makes of each budget, learning from nothing."""
    points = []
    for budget in budgets:
        points.append(run_policy(web, our_policy(budget), budget))
        if progress is not None:
            progress(OURS)
    return Standing(name=OURS, points=tuple(points))


def run_rule(
    web: Web, rule: Rule, budgets: Sequence[float], progress: Progress | None = None
) -> Standing:
    """Return what a rule makes of factors on its waits that cover the budgets."""
    n_low, n_high = (web.horizon * n for n in (min(budgets) / _BEYOND, max(budgets) * _BEYOND))
    points: list[Point] = []
    for number, variant in enumerate(rule.variants):
        step = _STEP if number == 0 else _TUNED_STEP
        points += _at_all_scales(web, variant, n_low, n_high, step)
        if progress is not None:
            progress(rule.name)
    is_tuned = len(rule.variants) > 1
    return Standing(name=rule.name, points=tuple(points), is_tuned=is_tuned)


def _at(web: Web, rule: IntervalRule, scale: float, n_fetches_max: float) -> Point | None:
    most = int(n_fetches_max)
    compiled = compiled_rule(rule)
    if compiled is not None:
        totals = run_compiled(web, compiled, scale=scale, n_fetches_max=most)
        return None if totals is None else Point(*totals)
    account = run_freely(web, rule, scale=scale, n_parts=1, n_fetches_max=most)
    return None if account.n_fetches > most else Point.of(account)


def _at_all_scales(
    web: Web, rule: IntervalRule, n_low: float, n_high: float, step: float
) -> list[Point]:
    """Return a rule's points from few fetches to many, its waits divided from one to the next."""
    # Waits beyond the horizon mean no fetch at all; begin where they are as long as it, or, where
    # a rule's waits shrink far, where even those are.
    scale = web.horizon / rule.first_seconds
    most = 1.5 * n_high + 1
    for _ in range(_STEPS_MAX):
        point = _at(web, rule, scale, most)
        if point is not None and point.n_fetches <= n_low:
            break
        scale *= step
    points: list[Point] = []
    for _ in range(2 * _STEPS_MAX):
        point = _at(web, rule, scale, most)
        if point is None:
            # Too far at once: some rules leap from hardly any fetches to too many.
            if step < _STEP_MIN:
                break
            scale *= step
            step = math.sqrt(step)
        else:
            if point.n_fetches <= n_low:
                points = []
            points.append(point)
            if point.n_fetches > n_high:
                break
        scale /= step
    return points


def watched_rule(web: Web, rule: Rule, n_fetches: float, pages: RowArray) -> Fetches:
    """Return a rule's fetches of chosen pages, its waits such that it makes so many in all."""
    variant = rule.variants[0]
    low, high = -40.0, 40.0
    for _ in range(24):
        middle = 0.5 * (low + high)
        point = _at(web, variant, 2.0**middle, n_fetches)
        low, high = (middle, high) if point is None else (low, middle)
    watch = Watch(pages)
    run_freely(web, variant, scale=2.0**high, n_parts=1, on_fetches=watch)
    return watch.fetches()
