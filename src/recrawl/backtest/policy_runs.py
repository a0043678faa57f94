"""Run policies on the same web at many budgets, and keep the result of each page.

Rules of other crawlers have no budget.  Each runs several times, with all its waits multiplied
by another factor, so that its numbers of fetches cover the budgets.  Each page is fetched
exactly when its wait is over, which is the best case for a rule.  recrawl starts without any
knowledge of the pages and gets its fetches in batches, as a nightly job would.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.price.due_table import DueTable
from recrawl.node.shipped_due_table import shipped_due_table
from recrawl.sim import (
    Account,
    FetchOutcomes,
    FixedInterval,
    Heritrix,
    IntervalRule,
    NutchAdaptive,
    OnFetches,
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
    "FetchRecorder",
    "PageFetches",
    "Point",
    "PolicyRuns",
    "Rule",
    "budgets_for",
    "our_policy",
    "rule_fetches",
    "rules_in_use",
    "run_at_budget",
    "run_ours",
    "run_rule",
]

OURS = "recrawl"
# Batches in which a budget is spent; more would suit recrawl better, but take longer.
_N_PICKS_MAX = 2_500
# Rules run beyond the budgets by this factor, so that curves can be compared at the ends.
_BUDGET_MARGIN = 1.6
# Factor by which a rule's waits shrink from one point to the next, the factor for its variants,
# and the smallest factor to try.
_STEP, _TUNED_STEP, _STEP_MIN = 2.0, 3.0, 1.02
_STEPS_MAX = 24

Progress = Callable[[str], None]


class Point(NamedTuple):
    """The result of one run of a policy: fetches and fresh time of each page."""

    fetches: CountArray
    fresh_seconds: FloatArray

    @classmethod
    def of(cls, account: Account) -> "Point":
        """Return the per-page columns of an account."""
        return cls(fetches=account.page_fetches, fresh_seconds=account.page_fresh_seconds)

    @property
    def n_fetches(self) -> int:
        """Number of fetches of all pages."""
        return int(self.fetches.sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyRuns:
    """The runs of one policy, with more or fewer fetches each, in any order."""

    name: str
    points: tuple[Point, ...]
    is_tuned: bool = False
    """Whether the runs have different settings.  A comparison may then mix them: some pages with
    one setting, some with another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A scheduling rule of another crawler, and its variants if it is tuned."""

    name: str
    variants: tuple[IntervalRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageFetches:
    """Fetches of a few pages, one row per fetch, for charts."""

    page: RowArray
    at: FloatArray
    changed: FlagArray

    def of(self, page: int) -> "PageFetches":
        """Return the fetches of one page, in order of time."""
        rows = np.flatnonzero(self.page == page)
        rows = rows[np.argsort(self.at[rows], kind="stable")]
        return PageFetches(page=self.page[rows], at=self.at[rows], changed=self.changed[rows])


class FetchRecorder:
    """Records the fetches of some pages while a policy runs."""

    def __init__(self, pages: RowArray) -> None:
        self._pages = pages
        self._parts: list[tuple[RowArray, FloatArray, FlagArray]] = []

    def __call__(self, page: RowArray, at: FloatArray, outcomes: FetchOutcomes) -> None:
        """Record fetches; see `recrawl.sim.OnFetches`."""
        rows = np.isin(page, self._pages)
        if rows.any():
            self._parts.append((page[rows], at[rows], outcomes.changed[rows]))

    def fetches(self) -> PageFetches:
        """Return the fetches recorded so far."""
        none = (np.empty(0, np.int64), np.empty(0), np.empty(0, np.bool_))
        parts = self._parts or [none]
        page, at, changed = (np.concatenate(column) for column in zip(*parts, strict=True))
        return PageFetches(page=page, at=at, changed=changed)


def rules_in_use() -> tuple[Rule, ...]:
    """Return the policies that recrawl is compared with.

    Nutch's and StormCrawler's adaptive rules appear twice: with their default settings, and with
    the settings that turn out best for each budget, which nobody can know beforehand.
    """
    nutch, storm = NutchAdaptive(), StormCrawler()
    nutch_tuned, storm_tuned = [nutch], [storm]
    for up in (0.2, 0.5, 1.5):
        for share in (0.1, 0.3, 0.5, 0.7, 0.9):
            # Waits settle where (1 + up)^(1 - share) (1 - down)^share = 1, so between its bounds
            # the rule makes this share of fetches find a change.
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

    The lowest budget is the one at which fetching all pages in turn gives a third of the possible
    gain in freshness, or fetches each page twice.  The highest one gives all but 3 % of the gain,
    or fetches each page every ``gap_seconds``: a history of fetches says nothing about shorter
    times.  The highest budget makes at least ``n_fetches`` over the horizon.
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


def run_at_budget(
    web: Web, policy: Policy, budget: float, *, on_fetches: OnFetches | None = None
) -> Point:
    """Run a policy at a budget, and return the result."""
    n_fetches = budget * web.horizon
    n_per_pick = max(round(n_fetches / _N_PICKS_MAX), 1)
    # At most a tenth of the pages per pick; larger batches would blur the order of fetches.
    n_per_pick = min(n_per_pick, max(web.n_pages // 10, 1))
    return Point.of(
        simulate(web, policy, budget, n_per_pick=n_per_pick, n_parts=1, on_fetches=on_fetches)
    )


@cache
def _due_table() -> DueTable:
    return shipped_due_table()


def our_policy(budget: float) -> Policy:
    """Return recrawl's shard with its default settings, for a budget."""
    return ShardPolicy(budget=budget, due_table=_due_table())


def run_ours(web: Web, budgets: Sequence[float], progress: Progress | None = None) -> PolicyRuns:
    """Run recrawl's shard at each budget, without any knowledge at the start."""
    points = []
    for budget in budgets:
        points.append(run_at_budget(web, our_policy(budget), budget))
        if progress is not None:
            progress(OURS)
    return PolicyRuns(name=OURS, points=tuple(points))


def run_rule(
    web: Web, rule: Rule, budgets: Sequence[float], progress: Progress | None = None
) -> PolicyRuns:
    """Run a rule with waits scaled by several factors, so that its fetches cover the budgets."""
    n_low, n_high = (
        web.horizon * n for n in (min(budgets) / _BUDGET_MARGIN, max(budgets) * _BUDGET_MARGIN)
    )
    points: list[Point] = []
    for number, variant in enumerate(rule.variants):
        step = _STEP if number == 0 else _TUNED_STEP
        points += _run_at_all_scales(web, variant, n_low, n_high, step)
        if progress is not None:
            progress(rule.name)
    is_tuned = len(rule.variants) > 1
    return PolicyRuns(name=rule.name, points=tuple(points), is_tuned=is_tuned)


def _run_scaled(web: Web, rule: IntervalRule, scale: float, n_fetches_max: float) -> Point | None:
    """Run a rule with its waits multiplied by ``scale``; None if it makes too many fetches."""
    most = int(n_fetches_max)
    compiled = compiled_rule(rule)
    if compiled is not None:
        totals = run_compiled(web, compiled, scale=scale, n_fetches_max=most)
        return None if totals is None else Point(*totals)
    account = run_freely(web, rule, scale=scale, n_parts=1, n_fetches_max=most)
    return None if account.n_fetches > most else Point.of(account)


def _run_at_all_scales(
    web: Web, rule: IntervalRule, n_low: float, n_high: float, step: float
) -> list[Point]:
    """Return a rule's points from few fetches to many, with shorter waits from one to the next."""
    # Waits beyond the horizon mean no fetch at all.  Begin with the first wait as long as the
    # horizon, or longer if the rule's waits shrink so fast that it makes too many fetches.
    scale = web.horizon / rule.first_seconds
    most = 1.5 * n_high + 1
    for _ in range(_STEPS_MAX):
        point = _run_scaled(web, rule, scale, most)
        if point is not None and point.n_fetches <= n_low:
            break
        scale *= step
    points: list[Point] = []
    for _ in range(2 * _STEPS_MAX):
        point = _run_scaled(web, rule, scale, most)
        if point is None:
            # The step was too large: some rules jump from hardly any fetches to too many.
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


def rule_fetches(web: Web, rule: Rule, n_fetches: float, pages: RowArray) -> PageFetches:
    """Return a rule's fetches of some pages, its waits scaled to about ``n_fetches`` in total."""
    variant = rule.variants[0]
    low, high = -40.0, 40.0
    for _ in range(24):
        middle = 0.5 * (low + high)
        point = _run_scaled(web, variant, 2.0**middle, n_fetches)
        low, high = (middle, high) if point is None else (low, middle)
    recorder = FetchRecorder(pages)
    run_freely(web, variant, scale=2.0**high, n_parts=1, on_fetches=recorder)
    return recorder.fetches()
