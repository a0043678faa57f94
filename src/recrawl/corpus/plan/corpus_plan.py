"""A plan for a whole corpus: freshness against budget by kind and host, and targets.

`recrawl.corpus.plan.curve` knows kinds, hosts and pages only by number.  This module reads their
names from the store; it reads URLs only of sampled pages, and only for a target with a URL pattern.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from recrawl.core.arrays import FlagArray, FloatArray
from recrawl.corpus.budget_view import BudgetView
from recrawl.corpus.inspect.kinds import kind_names
from recrawl.corpus.plan.curve import PAGES_PLANNED_MAX, Plan, curve_of, kinds_by_name, plan_at
from recrawl.corpus.plan.hosts import HostPlans, host_plans
from recrawl.corpus.plan.monotone import Monotone
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
from recrawl.shard import Shard
from recrawl.shard.state.status import PriceMode
from recrawl.store import Names
from recrawl.urls import PatternSet

__all__ = ["HOSTS_MAX", "TARGETS_MAX", "CorpusPlan", "make_plan"]

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
    if len(targets) > TARGETS_MAX:
        raise ValueError(f"there must be at most {TARGETS_MAX} targets, got {len(targets)}")
    with ExitStack() as held:
        for node in nodes:
            held.enter_context(node.lock)
        kinds = [kind_names(node) for node in nodes]
        sampled = SampledPages([node.shard for node in nodes], n_pages_max)
        price = sampled.prices(_N_PRICES)
        priced = sampled.at(price)
        plan = plan_at(sampled, priced, price, kinds=kinds, now_ms=now_ms)
        matcher = _TargetMatcher(nodes, sampled, priced, kinds)
        budget, place = _current_spending(plan, sampled.shards, budget_per_hour)
        in_cost = plan.unit == "cost"
        budget_view = BudgetView.of(sampled.shards, cost_per_fetch)
        # An invalid pattern is rejected here, before the targets' long computations.
        target_rows = [matcher.rows_of(target) for target in targets]
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
        hosts = host_plans(sampled, priced, price, place, names=_GroupNames(nodes), n_max=n_hosts)
        ceilings = sampled.ceilings()
        uncapped = curve_of(sampled.at(price[-1:], is_capped=False), price[-1:])
    curve = plan.curve.weighted_freshness if is_weighted else plan.curve.freshness
    without_delays = uncapped.weighted_freshness if is_weighted else uncapped.freshness
    at_place = Monotone(np.arange(price.size, dtype=np.float64), np.maximum.accumulate(curve))
    return CorpusPlan(
        plan=plan,
        budget_per_hour=budget,
        period_seconds=budget_view.period_seconds,
        cost_per_fetch=budget_view.cost_per_fetch,
        freshness=None if budget is None else plan.freshness_at(budget, weighted=is_weighted),
        freshness_looked_at=at_place(place),
        freshness_max=float(curve.max(initial=0.0)),
        freshness_max_without_delays=float(without_delays[0]),
        price=float(np.exp(np.interp(place, np.arange(price.size), np.log(price)))),
        place=place,
        ceilings=ceilings,
        hosts=hosts,
        targets=tuple(answered),
        together=at_once,
        is_weighted=is_weighted,
        n_polls=sum(int(node.shard.tables.registers.n_polls[0]) for node in nodes),
        hours=hours,
    )


class _GroupNames:
    """Reads the names of groups from the store."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    def __call__(self, part: int, numbers: Sequence[int]) -> Sequence[str | None]:
        return self._nodes[part].store.names_of(Names.GROUP, numbers)


class _TargetMatcher:
    """Finds the sampled pages to which a target applies."""

    def __init__(
        self,
        nodes: Sequence[Node],
        sampled: SampledPages,
        priced: PricedPages,
        kinds: Sequence[Mapping[int, str]],
    ) -> None:
        self._nodes, self._sampled = nodes, sampled
        self._n = priced.n_pages.size
        self._kinds, self._kind = kinds_by_name(sampled, priced.kind, kinds)
        self._urls: list[pa.StringArray] | None = None

    def rows_of(self, target: Target) -> FlagArray:
        """Return the rows of a target: those of the kind it names, or that its pattern matches."""
        if target.of is None:
            return np.ones(self._n, np.bool_)
        if target.of in self._kinds:
            is_kind: FlagArray = self._kind == self._kinds.index(target.of)
            return is_kind
        # A host without a path stands for all of its pages.
        text = target.of if "/" in target.of else f"{target.of}/*"
        patterns = PatternSet([text])
        found = [patterns.first_match(url) >= 0 for url in self._read_urls()]
        return np.concatenate([*found, np.zeros(0, np.bool_)])

    def _read_urls(self) -> list[pa.StringArray]:
        if self._urls is None:
            self._urls = []
            for node, slot in zip(self._nodes, self._sampled.slots, strict=True):
                generation = node.shard.tables.pages.generation[slot].astype(np.int64)
                self._urls.append(node.store.urls_of(slot | generation << 32))
        return self._urls


def _current_spending(
    plan: Plan, shards: Sequence[Shard], asked: float | None
) -> tuple[float | None, float]:
    """Return the spending per hour, and the index of its price; a fraction between two prices.

    ``asked`` is a budget per hour; by default the shards' own, which is per second.  Without
    either, return None and the index at which 95 % of the copies are fresh.
    """
    price, budget = plan.curve.price, plan.budget_per_hour
    end = float(price.size - 1)
    places = np.arange(price.size, dtype=np.float64)
    spent = Monotone(places, np.maximum.accumulate(budget))
    registers = [shard.tables.registers for shard in shards]
    per_second = sum(float(each.budget[0]) for each in registers)
    per_hour = asked
    if asked is None and 0 < per_second < math.inf:
        per_hour = per_second * _HOUR
    if asked is None and all(each.price_mode[0] == PriceMode.FIXED for each in registers):
        fixed = max(float(np.mean([each.fixed_price[0] for each in registers])), 1e-300)
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
