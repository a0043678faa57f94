"""recrawl and its rivals on one web, and what follows from it: savings, with intervals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from recrawl.backtest.contest import (
    OURS,
    Fetches,
    Point,
    Rule,
    Standing,
    Watch,
    budgets_for,
    our_policy,
    rules_in_use,
    run_ours,
    run_policy,
    run_rule,
    watched_rule,
)
from recrawl.backtest.savings import (
    Curves,
    Estimate,
    best_of,
    curves_of,
    draws_of,
    estimate_of,
    fetches_for,
    freshness_at,
)
from recrawl.core.arrays import FloatArray, RowArray
from recrawl.sim import Policy, Web

__all__ = ["Comparison", "Example", "Level", "Logged", "compared"]

# Freshness that people ask for.
_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
_LEVEL_ASKED_FOR = 0.9
_EXAMPLES_MAX = 4

Progress = Callable[[str, float], None]
"""Is told what is being run, and which share of all is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What one freshness costs, with each policy."""

    freshness: float
    n_fetches: dict[str, Estimate]
    savings: dict[str, Estimate]
    """Of recrawl against each other policy: the share of its fetches that can be done without."""
    savings_against_best: Estimate
    """Against whichever of them needs fewest for this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What the history's own fetches achieved, and what recrawl needs for the same."""

    n_fetches: int
    freshness: float
    needed: Estimate
    savings: Estimate
    freshness_of_ours: float
    """What recrawl makes of as many fetches; nan if it was not asked."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Example:
    """What became of one page at one budget, under recrawl and under the best rival."""

    page: int
    changed_at: FloatArray
    ours: Fetches
    rival: Fetches
    rival_name: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """All that came out."""

    seconds: float
    n_pages: int
    n_changes: int
    budgets: FloatArray
    """Fetches per second that recrawl was given."""
    curves: tuple[Curves, ...]
    """recrawl's first."""
    levels: tuple[Level, ...]
    logged: Logged | None
    examples: tuple[Example, ...]

    @property
    def ours(self) -> Curves:
        """Return recrawl's curve."""
        return self.curves[0]

    @property
    def known_levels(self) -> list[Level]:
        """Return the levels at which savings against the best rival can be told."""
        return [level for level in self.levels if level.savings_against_best.is_known]

    @property
    def main_level(self) -> Level | None:
        """Return the level to speak of first, 90 % or what lies in the middle."""
        known = self.known_levels
        if not known:
            return None
        asked = [level for level in known if level.freshness == _LEVEL_ASKED_FOR]
        return asked[0] if asked else known[len(known) // 2]


def compared(
    web: Web,
    rate_per_second: FloatArray,
    *,
    gap_seconds: float = 0.0,
    logged: Point | None = None,
    rules: Sequence[Rule] | None = None,
    policies: Sequence[tuple[str, Callable[[float], Policy]]] = (),
    budgets: FloatArray | None = None,
    n_draws: int = 400,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Run everybody on a web, and return what came out.

    Parameters
    ----------
    web
        On which every page has just been fetched.
    rate_per_second
        How often pages are believed to change, from which budgets are chosen.
    gap_seconds
        Of shorter times between fetches nothing can be said.
    logged
        What somebody's own fetches achieved on the web.
    rules
        Rivals; those in use by default.
    policies
        Further rivals: a name, and what makes one for a budget in fetches per second.
    budgets
        In fetches per second; from scarce to ample by default.
    n_draws, seed
        Of pages, for intervals.
    progress
        Is told how far it is.
    """
    rivals = rules_in_use() if rules is None else tuple(rules)
    n_logged = 0 if logged is None else logged.n_fetches
    if budgets is None:
        budgets = budgets_for(
            rate_per_second,
            web.importance,
            web.horizon,
            gap_seconds=gap_seconds,
            n_fetches=n_logged,
        )
    meter = _Meter(progress, rivals, len(policies), len(budgets))
    standings = [run_ours(web, budgets.tolist(), meter)]
    standings += [run_rule(web, rule, budgets.tolist(), meter) for rule in rivals]
    for name, make in policies:
        points = []
        for budget in budgets.tolist():
            points.append(run_policy(web, make(budget), budget))
            meter(name)
        standings.append(Standing(name=name, points=tuple(points)))
    standings = [standing for standing in standings if standing.points]
    draws = draws_of(web.group, n_draws=n_draws, seed=seed)

    def curves(standing: Standing) -> Curves:
        return curves_of(standing, importance=web.importance, seconds=web.horizon, draws=draws)

    found = tuple(curves(standing) for standing in standings)
    own = None
    if logged is not None and n_logged:
        own = _logged(found[0], curves(Standing(name="as logged", points=(logged,))))
    levels = _levels(found)
    comparison = Comparison(
        seconds=web.horizon,
        n_pages=web.n_pages,
        n_changes=int(web.changes.at.size),
        budgets=budgets,
        curves=found,
        levels=levels,
        logged=own,
        examples=(),
    )
    return replace(comparison, examples=_examples(web, comparison, rivals, rate_per_second))


class _Meter:
    """Counts runs, of which recrawl's take longest."""

    def __init__(
        self, progress: Progress | None, rules: Sequence[Rule], n_policies: int, n_budgets: int
    ) -> None:
        self._progress = progress
        self._slow = {rule.name: 1.0 for rule in rules}
        self._total = 8.0 * n_budgets * (1 + n_policies) + sum(len(r.variants) for r in rules)
        self._done = 0.0

    def __call__(self, name: str) -> None:
        self._done += self._slow.get(name, 8.0)
        if self._progress is not None:
            self._progress(name, min(self._done / self._total, 1.0))


def _levels(curves: tuple[Curves, ...]) -> tuple[Level, ...]:
    ours, rivals = curves[0], curves[1:]
    levels = []
    for freshness in _LEVELS:
        wanted = np.full(ours.n_fetches.shape[0], freshness)
        needed = fetches_for(ours, wanted)
        if not np.isfinite(needed[0]):
            continue
        rival_needs = {rival.name: fetches_for(rival, wanted) for rival in rivals}
        best = best_of(list(rival_needs.values())) if rivals else np.full(needed.size, np.nan)
        savings = {name: estimate_of(1 - needed / theirs) for name, theirs in rival_needs.items()}
        levels.append(
            Level(
                freshness=freshness,
                n_fetches={
                    OURS: estimate_of(needed),
                    **{name: estimate_of(theirs) for name, theirs in rival_needs.items()},
                },
                savings=savings,
                savings_against_best=estimate_of(1 - needed / best),
            )
        )
    return tuple(levels)


def _logged(ours: Curves, own: Curves) -> Logged:
    freshness, n_fetches = own.freshness[:, 0], own.n_fetches[:, 0]
    needed = fetches_for(ours, freshness)
    return Logged(
        n_fetches=round(float(n_fetches[0])),
        freshness=float(freshness[0]),
        needed=estimate_of(needed),
        savings=estimate_of(1 - needed / n_fetches),
        freshness_of_ours=float(freshness_at(ours, n_fetches[:1])[0]),
    )


def _examples(
    web: Web, comparison: Comparison, rules: Sequence[Rule], rate: FloatArray
) -> tuple[Example, ...]:
    """Return some pages, from lively to still, at the budget of the main level."""
    level = comparison.main_level
    pages = _chosen(web, rate)
    singles = {rule.name: rule for rule in rules if len(rule.variants) == 1}
    if level is None or pages.size == 0 or not singles:
        return ()
    known = {n: level.n_fetches[n].value for n in singles if n in level.n_fetches}
    known = {name: needed for name, needed in known.items() if math.isfinite(needed)}
    if not known:
        return ()
    name = min(known, key=lambda each: known[each])
    n_fetches = level.n_fetches[OURS].value
    budget = n_fetches / web.horizon
    watch = Watch(pages)
    run_policy(web, our_policy(budget), budget, on_fetches=watch)
    ours = watch.fetches()
    theirs = watched_rule(web, singles[name], n_fetches, pages)
    return tuple(
        Example(
            page=int(page),
            changed_at=web.changes.at[web.changes.offsets[page] : web.changes.offsets[page + 1]],
            ours=ours.of(int(page)),
            rival=theirs.of(int(page)),
            rival_name=name,
        )
        for page in pages
    )


def _chosen(web: Web, rate: FloatArray) -> RowArray:
    """Return pages that differ in how often they change, and do so at all but for the last."""
    counts = web.changes.counts()
    changing = np.flatnonzero(counts > 0)
    if changing.size == 0:
        return np.empty(0, np.int64)
    order = changing[np.argsort(-rate[changing], kind="stable")]
    at = np.unique(np.linspace(0.05, 0.9, _EXAMPLES_MAX - 1) * (order.size - 1)).astype(np.int64)
    still = np.flatnonzero(counts == 0)[:1]
    return np.concatenate([order[np.unique(at)], still])
