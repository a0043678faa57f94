"""A plan for a whole corpus: the curve, with the names of kinds and hosts, and targets.

`recrawl.corpus.plan.curve` knows pages only by number.  This module reads names from the store:
those of kinds and hosts and, where a target is about a URL pattern, the URLs of sampled pages.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from recrawl.core.arrays import FlagArray, FloatArray
from recrawl.corpus.plan.curve import PAGES_COUNTED_MAX, Plan, curve_of, named_kinds, plan_at
from recrawl.corpus.plan.hosts import HostPlans, host_plans
from recrawl.corpus.plan.monotone import Monotone
from recrawl.corpus.plan.priced_pages import Ceilings, LookedAt, PricedPages
from recrawl.corpus.plan.targets import (
    Standing,
    Target,
    TargetAnswer,
    TargetPages,
    Together,
    answers,
    together,
)
from recrawl.node.node import Node
from recrawl.shard import Shard
from recrawl.shard.state.status import PriceMode
from recrawl.store import Names
from recrawl.urls import PatternSet

__all__ = ["HOSTS_MAX", "TARGETS_MAX", "CorpusPlan", "planned"]

HOSTS_MAX = 20
"""Hosts in each list of a plan."""
TARGETS_MAX = 100
"""Targets that one plan answers."""
_N_PRICES = 32
# Where a target is not reached at the lowest price: how many more are tried, and how far down.
_N_LOWER, _LOWEST = 16, 2.0**-30
_HOUR = 3_600.0
# Of a corpus without a budget: hosts are looked at where so many copies are fresh.
_FRESHNESS_LOOKED_AT = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusPlan:
    """What budgets buy for a corpus; amounts are per hour, in the plan's unit."""

    plan: Plan
    budget_per_hour: float | None
    """What is spent now, or was asked about; None for a corpus without a budget per time."""
    freshness: float | None
    """That it buys."""
    freshness_looked_at: float
    """At which kinds and hosts are compared: what the budget buys, or 95 % without one."""
    freshness_max: float
    """At the end of the plan's curve, beyond which almost nothing is gained."""
    freshness_max_without_delays: float
    """The same, if hosts could be asked without delay."""
    price: float
    """At which kinds and hosts are compared."""
    place: float
    """Where among the prices of the plan's curve that is, as a number of columns."""
    ceilings: Ceilings
    """What pages ask for whatever a fetch is worth: it goes before all else."""
    hosts: HostPlans
    targets: tuple[TargetAnswer, ...]
    together: Together | None
    """Of two or more targets, with a budget."""
    is_weighted: bool

    @property
    def ceilings_per_hour(self) -> float:
        """What longest intervals and promises ask for."""
        in_cost = self.plan.unit == "cost"
        return self.ceilings.cost_per_hour if in_cost else self.ceilings.fetches_per_hour

    @property
    def is_held_by_delays(self) -> bool:
        """Whether hosts' delays, not the budget, keep copies from being fresher in the end."""
        return self.freshness_max < self.freshness_max_without_delays - 0.002

    @property
    def is_answered_yes(self) -> bool:
        """Whether every target is met or possible, and all of them together."""
        each = all(answer.verdict in ("met", "possible") for answer in self.targets)
        return each and (self.together is None or self.together.is_possible)


def planned(
    nodes: Sequence[Node],
    *,
    now_ms: int,
    targets: Sequence[Target] = (),
    budget_per_hour: float | None = None,
    is_weighted: bool = True,
    n_hosts: int = HOSTS_MAX,
    n_pages_max: int = PAGES_COUNTED_MAX,
) -> CorpusPlan:
    """Return what budgets buy for a corpus, by kind and host, and whether targets can be met.

    Parameters
    ----------
    nodes
        Of the corpus.
    now_ms
        When this is: put on record.
    targets
        To be answered.
    budget_per_hour
        To compare with; by default what the corpus has.
    is_weighted
        Whether copies count by their importance in what is said of freshness and targets.  Hosts
        are always compared so.
    n_hosts, n_pages_max
        How many hosts to name and pages to look at.

    Raises
    ------
    ValueError
        If a target is about a pattern that is none, or there are too many targets.
    """
    if len(targets) > TARGETS_MAX:
        raise ValueError(f"targets must be at most {TARGETS_MAX} in number, got {len(targets)}")
    with ExitStack() as held:
        for node in nodes:
            held.enter_context(node.lock)
        kinds = [_names_of_kinds(node) for node in nodes]
        looked_at = LookedAt([node.shard for node in nodes], n_pages_max)
        price = looked_at.prices(_N_PRICES)
        priced = looked_at.at(price)
        plan = plan_at(looked_at, priced, price, kinds=kinds, now_ms=now_ms)
        rows = _Rows(nodes, looked_at, priced, kinds)
        budget, place = _standing(plan, looked_at.shards, budget_per_hour)
        in_cost = plan.unit == "cost"
        # Rows first, so that a pattern that is none is refused before anything else.
        meant = [rows.of(target) for target in targets]
        wanted, priced_low, price_low = _wanted(targets, meant, looked_at, priced, price)
        standing = None if budget is None else Standing(budget, place)
        answered = answers(
            wanted, priced_low, price_low, standing, in_cost=in_cost, is_weighted=is_weighted
        )
        at_once = None
        if len(wanted) > 1 and standing is not None:
            at_once = together(
                wanted, priced_low, standing, in_cost=in_cost, is_weighted=is_weighted
            )
        hosts = host_plans(looked_at, priced, price, place, names=_GroupNames(nodes), n_max=n_hosts)
        ceilings = looked_at.ceilings()
        last = curve_of(looked_at.at(price[-1:], is_capped=False), price[-1:])
    curve = plan.curve.weighted_freshness if is_weighted else plan.curve.freshness
    free = float((last.weighted_freshness if is_weighted else last.freshness)[0])
    at_place = Monotone(np.arange(price.size, dtype=np.float64), np.maximum.accumulate(curve))
    return CorpusPlan(
        plan=plan,
        budget_per_hour=budget,
        freshness=None if budget is None else plan.freshness_at(budget, weighted=is_weighted),
        freshness_looked_at=at_place(place),
        freshness_max=float(curve.max(initial=0.0)),
        freshness_max_without_delays=free,
        price=float(np.exp(np.interp(place, np.arange(price.size), np.log(price)))),
        place=place,
        ceilings=ceilings,
        hosts=hosts,
        targets=tuple(answered),
        together=at_once,
        is_weighted=is_weighted,
    )


def _names_of_kinds(node: Node) -> dict[int, str]:
    numbers = range(1, node.store.n_named(Names.KIND) + 1)
    names = node.store.names_of(Names.KIND, numbers)
    return {number: name or "" for number, name in zip(numbers, names, strict=True)}


class _GroupNames:
    """The names of groups, from the store."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    def __call__(self, part: int, numbers: Sequence[int]) -> Sequence[str | None]:
        return self._nodes[part].store.names_of(Names.GROUP, numbers)


class _Rows:
    """Which of the pages looked at a target is about."""

    def __init__(
        self,
        nodes: Sequence[Node],
        looked_at: LookedAt,
        priced: PricedPages,
        kinds: Sequence[Mapping[int, str]],
    ) -> None:
        self._nodes, self._looked_at = nodes, looked_at
        self._n = priced.n_pages.size
        self._kinds, self._kind = named_kinds(looked_at, priced.kind, kinds)
        self._urls: list[pa.StringArray] | None = None

    def of(self, target: Target) -> FlagArray:
        """Return which rows are meant: a kind by its name, else what a pattern matches."""
        if target.of is None:
            return np.ones(self._n, np.bool_)
        if target.of in self._kinds:
            is_kind: FlagArray = self._kind == self._kinds.index(target.of)
            return is_kind
        # A host alone is all of its pages.
        text = target.of if "/" in target.of else f"{target.of}/*"
        patterns = PatternSet([text])
        found = [patterns.first_match(url) >= 0 for url in self._read_urls()]
        return np.concatenate([*found, np.zeros(0, np.bool_)])

    def _read_urls(self) -> list[pa.StringArray]:
        if self._urls is None:
            self._urls = []
            for node, slot in zip(self._nodes, self._looked_at.slots, strict=True):
                generation = node.shard.tables.pages.generation[slot].astype(np.int64)
                self._urls.append(node.store.urls_of(slot | generation << 32))
        return self._urls


def _standing(
    plan: Plan, shards: Sequence[Shard], asked: float | None
) -> tuple[float | None, float]:
    """Return what is spent per hour, and at which place among the prices.

    Without a budget: none, and the place at which most copies are fresh.
    """
    price, budget = plan.curve.price, plan.budget_per_hour
    end = float(price.size - 1)
    places = np.arange(price.size, dtype=np.float64)
    spent = Monotone(places, np.maximum.accumulate(budget))
    registers = [shard.tables.registers for shard in shards]
    has = sum(float(one.budget[0]) for one in registers)
    given = asked if asked is not None else has if 0 < has < math.inf else None
    if asked is None and all(one.price_mode[0] == PriceMode.FIXED for one in registers):
        fixed = max(float(np.mean([one.fixed_price[0] for one in registers])), 1e-300)
        place = float(np.interp(-math.log(fixed), -np.log(price), places))
        if given is None or spent(place) <= given * _HOUR:
            return spent(place), place
    if given is None:
        fresh = np.maximum.accumulate(plan.curve.weighted_freshness)
        return None, min(Monotone(places, fresh).place_of(_FRESHNESS_LOOKED_AT), end)
    per_hour = given if asked is not None else given * _HOUR
    return per_hour, min(spent.place_of(per_hour), end)


def _wanted(
    targets: Sequence[Target],
    meant: Sequence[FlagArray],
    looked_at: LookedAt,
    priced: PricedPages,
    price: FloatArray,
) -> tuple[list[TargetPages], PricedPages, FloatArray]:
    """Return targets with their pages, at prices low enough to meet them where that can be."""
    if not targets:
        return [], priced, price
    found = _kept(targets, meant, looked_at, priced, price)
    if all(_is_reached(one, priced) for one in found):
        return found, priced, price
    lower = np.geomspace(price[-1], price[-1] * _LOWEST, _N_LOWER + 1)[1:]
    price = np.concatenate([price, lower])
    priced = looked_at.at(price)
    return _kept(targets, meant, looked_at, priced, price), priced, price


def _kept(
    targets: Sequence[Target],
    meant: Sequence[FlagArray],
    looked_at: LookedAt,
    priced: PricedPages,
    price: FloatArray,
) -> list[TargetPages]:
    """Return how well each target's pages do at each price, with delays and without."""
    kept: dict[float, FloatArray] = {0.0: priced.freshness}
    free: dict[float, FloatArray] = {}
    for late in {target.late_seconds for target in targets}:
        if late not in kept:
            kept[late] = looked_at.at(price, late_seconds=late).freshness
        free[late] = looked_at.at(price[-1:], late_seconds=late, is_capped=False).freshness[:, 0]
    return [
        TargetPages(target, rows, kept[target.late_seconds], free[target.late_seconds])
        for target, rows in zip(targets, meant, strict=True)
    ]


def _is_reached(one: TargetPages, priced: PricedPages) -> bool:
    """Return whether a target is met at the lowest price, copies weighted or not."""
    rows = one.is_meant
    if not rows.any():
        return True
    n, last = priced.n_pages[rows], one.kept[rows, -1]
    shares = [n @ last / n.sum()]
    weight = n * priced.importance[rows]
    if weight.sum() > 0:
        shares.append(weight @ last / weight.sum())
    return bool(min(shares) >= one.target.share)
