"""A plan for a whole corpus: freshness against budget by kind and host, and targets.

`make_plan` reads what it needs of the partitions of this process, a few milliseconds at a time, and
computes the rest without their locks.  `plan_partitions` does the same for partitions that were
read elsewhere, as in a cluster.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import FlagArray, FloatArray
from recrawl.corpus.plan.curve import PAGES_PLANNED_MAX, Plan, curve_of, kinds_by_name, plan_at
from recrawl.corpus.plan.hosts import GroupNames, HostPlans, host_plans
from recrawl.corpus.plan.monotone import Monotone
from recrawl.corpus.plan.planned_partition import PlannedPartition, read_nodes, url_patterns
from recrawl.corpus.plan.priced_pages import Ceilings, PricedPages, SampledPages
from recrawl.corpus.plan.targets import (
    CombinedAnswer,
    Spending,
    Target,
    TargetAnswer,
    TargetPages,
    answer_combined,
    answer_targets,
)
from recrawl.node.config.rates import Money
from recrawl.node.node import Node
from recrawl.shard.state.status import PriceMode
from recrawl.store import Names

__all__ = [
    "HOSTS_MAX",
    "TARGETS_MAX",
    "CorpusPlan",
    "PlanCoverage",
    "check_target_patterns",
    "check_targets",
    "make_plan",
    "patterns_of",
    "plan_partitions",
]

HOSTS_MAX = 20
"""Largest number of hosts in each list of a plan."""
TARGETS_MAX = 100
"""Largest number of targets of one plan."""
_N_PRICES = 32
# Where the plan's lowest price does not meet a target: number of lower prices to try, and the
# lowest of them as a factor on it.
_N_LOWER, _LOWEST = 16, 2.0**-30
_HOUR = 3_600.0
# Without a budget, kinds and hosts are compared at the price that gives this freshness.
_FRESHNESS_COMPARED = 0.95


class PlanCoverage(NamedTuple):
    """Which part of a corpus a plan covers."""

    n_partitions: int
    """Number of partitions of the corpus."""
    n_away: int = 0
    """Number of partitions that could not be reached, and are not in the plan."""
    share: float = 1.0
    """Share of the pages that the plan covers.  Partitions of which nothing is known are taken to
    be as large as the others on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusPlan:
    """What budgets achieve for a corpus; amounts are per hour, in the plan's unit."""

    plan: Plan
    budget_per_hour: float | None
    """Budget of the plan: the one given, or else the corpus's; None if it has none per time."""
    period_seconds: float | None
    """Unit of time in which the user gave the budget, such as 86,400 for a day; None if unknown."""
    cost_per_fetch: Money | None
    """Price of a fetch, if the budget of the corpus is money."""
    freshness: float | None
    """Freshness that this budget achieves."""
    freshness_looked_at: float
    """Freshness at which kinds and hosts are compared: the budget's, or 95 % without one."""
    freshness_max: float
    """Freshness at the end of the plan's curve, where more budget gains almost nothing."""
    freshness_max_without_delays: float
    """The same without the delays of hosts."""
    price: float
    """Price at which kinds and hosts are compared."""
    place: float
    """Index of that price among the prices of the plan's curve; a fraction between two prices."""
    ceilings: Ceilings
    """Fetches that max_age and staleness limits need; these have priority over all others."""
    hosts: HostPlans
    targets: tuple[TargetAnswer, ...]
    together: CombinedAnswer | None
    """Answer for all targets at once; None for fewer than two, or without a budget."""
    is_weighted: bool
    n_polls: int
    """Number of fetches so far that showed whether a page had changed."""
    hours: str | None = None
    """Hours of the day in which pages may be leased, as text; None for all.  The plan assumes that
    fetches are possible at any hour."""
    coverage: PlanCoverage
    """Which part of the corpus the plan covers: all of it, unless a cluster lacks partitions."""

    @property
    def ceilings_per_hour(self) -> float:
        """Budget that max_age and staleness limits need."""
        in_cost = self.plan.unit == "cost"
        return self.ceilings.cost_per_hour if in_cost else self.ceilings.fetches_per_hour

    @property
    def is_held_by_delays(self) -> bool:
        """Whether delays of hosts, not the budget, limit the freshness."""
        return self.freshness_max < self.freshness_max_without_delays - 0.002

    @property
    def is_answered_yes(self) -> bool:
        """Whether every target is met or possible, also all of them together."""
        each = all(answer.verdict in ("met", "possible") for answer in self.targets)
        return each and (self.together is None or self.together.is_possible)


def make_plan(
    nodes: Sequence[Node],
    *,
    now_ms: int,
    targets: Sequence[Target] = (),
    budget_per_hour: float | None = None,
    cost_per_fetch: Money | None = None,
    is_weighted: bool = True,
    n_hosts: int = HOSTS_MAX,
    n_pages_max: int = PAGES_PLANNED_MAX,
    hours: str | None = None,
) -> CorpusPlan:
    """Return what budgets achieve for a corpus, by kind and host, and whether targets can be met.

    Parameters
    ----------
    nodes
        Nodes of the corpus, one per partition.
    now_ms
        Current time in milliseconds since 1970, which the plan stores.
    targets
        Targets to check.
    cost_per_fetch
        Configured price of a fetch.
    budget_per_hour
        Budget of the plan; the corpus's own by default.
    is_weighted
        Whether freshness and targets weight copies by importance.  The plans of hosts always do.
    n_hosts, n_pages_max
        Largest number of hosts to list, and of pages to sample.
    hours
        Hours of the day in which pages may be leased, as text; None for all.

    Raises
    ------
    ValueError
        If the pattern of a target is not valid, or there are too many targets.
    """
    check_targets(targets)
    parts = read_nodes(nodes, n_pages_max, patterns=patterns_of(targets))
    return plan_partitions(
        parts,
        now_ms=now_ms,
        targets=targets,
        budget_per_hour=budget_per_hour,
        cost_per_fetch=cost_per_fetch,
        is_weighted=is_weighted,
        n_hosts=n_hosts,
        hours=hours,
        names=_GroupNames(nodes),
    )


def check_targets(targets: Sequence[Target]) -> None:
    """Raise `ValueError` if there are too many targets."""
    if len(targets) > TARGETS_MAX:
        raise ValueError(f"there must be at most {TARGETS_MAX} targets, got {len(targets)}")


def check_target_patterns(patterns: Sequence[str]) -> None:
    """Raise `ValueError` if there are more patterns than targets may name."""
    if len(patterns) > TARGETS_MAX:
        raise ValueError(f"there must be at most {TARGETS_MAX} patterns, got {len(patterns)}")


def patterns_of(targets: Sequence[Target]) -> list[str]:
    """Return the URL patterns, hosts and kinds that targets name, each once."""
    return list(dict.fromkeys(target.of for target in targets if target.of is not None))


def plan_partitions(
    parts: Sequence[PlannedPartition],
    *,
    now_ms: int,
    targets: Sequence[Target] = (),
    budget_per_hour: float | None = None,
    cost_per_fetch: Money | None = None,
    is_weighted: bool = True,
    n_hosts: int = HOSTS_MAX,
    hours: str | None = None,
    names: GroupNames | None = None,
    coverage: PlanCoverage | None = None,
) -> CorpusPlan:
    """Return what `make_plan` returns, from what was read of partitions.

    Parameters
    ----------
    parts
        Partitions, at least one, with the matches of the patterns of all targets.
    now_ms, targets, budget_per_hour, cost_per_fetch, is_weighted, n_hosts, hours
        Arguments of `make_plan`.
    names
        Function that returns the names of groups that the partitions came without.
    coverage
        Share of the corpus that these partitions are; all of it by default.

    Raises
    ------
    ValueError
        If the pattern of a target is not valid, or there are too many targets.
    """
    check_targets(targets)
    sampled = SampledPages(parts)
    matcher = _TargetMatcher(sampled)
    # An invalid pattern is rejected here, before the long computations.
    target_rows = [matcher.rows_of(target) for target in targets]
    price = sampled.prices(_N_PRICES)
    priced = sampled.at(price)
    plan = plan_at(sampled, priced, price, now_ms=now_ms)
    budget, place = _current_spending(plan, parts, budget_per_hour)
    in_cost = plan.unit == "cost"
    wanted, priced_low, price_low = _targets_with_pages(
        targets, target_rows, sampled, priced, price
    )
    current = None if budget is None else Spending(budget, place)
    answered = answer_targets(
        wanted, priced_low, price_low, current, in_cost=in_cost, is_weighted=is_weighted
    )
    at_once = None
    if len(wanted) > 1 and current is not None:
        at_once = answer_combined(
            wanted, priced_low, current, in_cost=in_cost, is_weighted=is_weighted
        )
    hosts = host_plans(sampled, priced, price, place, names=names, n_max=n_hosts)
    uncapped = curve_of(sampled.at(price[-1:], is_capped=False), price[-1:])
    curve = plan.curve.weighted_freshness if is_weighted else plan.curve.freshness
    without_delays = uncapped.weighted_freshness if is_weighted else uncapped.freshness
    at_place = Monotone(np.arange(price.size, dtype=np.float64), np.maximum.accumulate(curve))
    return CorpusPlan(
        plan=plan,
        budget_per_hour=budget,
        period_seconds=parts[0].budget.period_seconds or None,
        cost_per_fetch=cost_per_fetch if in_cost else None,
        freshness=None if budget is None else plan.freshness_at(budget, weighted=is_weighted),
        freshness_looked_at=at_place(place),
        freshness_max=float(curve.max(initial=0.0)),
        freshness_max_without_delays=float(without_delays[0]),
        price=float(np.exp(np.interp(place, np.arange(price.size), np.log(price)))),
        place=place,
        ceilings=sampled.ceilings(),
        hosts=hosts,
        targets=tuple(answered),
        together=at_once,
        is_weighted=is_weighted,
        n_polls=sum(part.n_polls for part in parts),
        hours=hours,
        coverage=coverage or PlanCoverage(len(parts)),
    )


class _GroupNames:
    """Reads the names of groups from the store."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    def __call__(self, part: int, numbers: Sequence[int]) -> Sequence[str | None]:
        return self._nodes[part].store.names_of(Names.GROUP, numbers)


class _TargetMatcher:
    """Finds the sampled pages to which a target applies."""

    def __init__(self, sampled: SampledPages) -> None:
        self._parts = sampled.parts
        self._kinds, self._kind = kinds_by_name(sampled)

    def rows_of(self, target: Target) -> FlagArray:
        """Return the rows of a target: those of the kind it names, or that its pattern matches."""
        if target.of is None:
            return np.ones(self._kind.size, np.bool_)
        if target.of in self._kinds:
            is_kind: FlagArray = self._kind == self._kinds.index(target.of)
            return is_kind
        url_patterns(target.of)  # raises if it is not valid, and so was left out
        found = [part.matches[target.of] for part in self._parts]
        return np.concatenate([*found, np.zeros(0, np.bool_)])


def _current_spending(
    plan: Plan, parts: Sequence[PlannedPartition], asked: float | None
) -> tuple[float | None, float]:
    """Return the spending per hour, and the index of its price; a fraction between two prices.

    ``asked`` is a budget per hour; by default that of the partitions, which is per second.  Without
    either, return None and the index at which 95 % of the copies are fresh.
    """
    price, budget = plan.curve.price, plan.budget_per_hour
    end = float(price.size - 1)
    places = np.arange(price.size, dtype=np.float64)
    spent = Monotone(places, np.maximum.accumulate(budget))
    budgets = [part.budget for part in parts]
    per_second = sum(each.per_second for each in budgets)
    per_hour = asked
    if asked is None and 0 < per_second < math.inf:
        per_hour = per_second * _HOUR
    if asked is None and all(each.price_mode == PriceMode.FIXED for each in budgets):
        fixed = max(float(np.mean([each.fixed_price for each in budgets])), 1e-300)
        place = float(np.interp(-math.log(fixed), -np.log(price), places))
        if per_hour is None or spent(place) <= per_hour:
            return spent(place), place
    if per_hour is None:
        fresh = np.maximum.accumulate(plan.curve.weighted_freshness)
        return None, min(Monotone(places, fresh).place_of(_FRESHNESS_COMPARED), end)
    return per_hour, min(spent.place_of(per_hour), end)


def _targets_with_pages(
    targets: Sequence[Target],
    target_rows: Sequence[FlagArray],
    sampled: SampledPages,
    priced: PricedPages,
    price: FloatArray,
) -> tuple[list[TargetPages], PricedPages, FloatArray]:
    """Return targets with their pages, at prices low enough to meet them if possible."""
    if not targets:
        return [], priced, price
    found = _target_pages(targets, target_rows, sampled, priced, price)
    if all(_is_met(pages, priced) for pages in found):
        return found, priced, price
    lower = np.geomspace(price[-1], price[-1] * _LOWEST, _N_LOWER + 1)[1:]
    price = np.concatenate([price, lower])
    priced = sampled.at(price)
    return _target_pages(targets, target_rows, sampled, priced, price), priced, price


def _target_pages(
    targets: Sequence[Target],
    target_rows: Sequence[FlagArray],
    sampled: SampledPages,
    priced: PricedPages,
    price: FloatArray,
) -> list[TargetPages]:
    """Return the share of copies that meet each target at each price, with and without delays."""
    meets: dict[float, FloatArray] = {0.0: priced.freshness}
    without_delays: dict[float, FloatArray] = {}
    for late in {target.late_seconds for target in targets}:
        if late not in meets:
            meets[late] = sampled.at(price, late_seconds=late).freshness
        uncapped = sampled.at(price[-1:], late_seconds=late, is_capped=False)
        without_delays[late] = uncapped.freshness[:, 0]
    return [
        TargetPages(target, rows, meets[target.late_seconds], without_delays[target.late_seconds])
        for target, rows in zip(targets, target_rows, strict=True)
    ]


def _is_met(pages: TargetPages, priced: PricedPages) -> bool:
    """Return whether a target is met at the lowest price, weighted and unweighted."""
    rows = pages.is_meant
    if not rows.any():
        return True
    n, last = priced.n_pages[rows], pages.meets[rows, -1]
    shares = [n @ last / n.sum()]
    weight = n * priced.importance[rows]
    if weight.sum() > 0:
        shares.append(weight @ last / weight.sum())
    return bool(min(shares) >= pages.target.share)
