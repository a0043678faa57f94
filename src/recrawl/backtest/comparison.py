"""Compare recrawl with other policies on one web: fetches saved, with intervals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from recrawl.backtest.policy_runs import (
    OURS,
    FetchRecorder,
    PageFetches,
    Point,
    PolicyRuns,
    Rule,
    budgets_for,
    our_policy,
    rule_fetches,
    rules_in_use,
    run_at_budget,
    run_ours,
    run_rule,
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

__all__ = ["Comparison", "FreshnessLevel", "LoggedResult", "PageExample", "compare_policies"]

# Freshness levels that the comparison reports.
_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
_MAIN_LEVEL = 0.9
_EXAMPLES_MAX = 4

Progress = Callable[[str, float], None]
"""Receives the name of the run that has just finished, and the share of all runs done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessLevel:
    """The fetches that each policy needs for one freshness."""

    freshness: float
    n_fetches: dict[str, Estimate]
    savings: dict[str, Estimate]
    """Share of each other policy's fetches that recrawl saves."""
    savings_against_best: Estimate
    """Savings against the policy that needs the fewest fetches for this freshness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedResult:
    """Freshness of the history's own fetches, and the fetches recrawl needs for the same."""

    n_fetches: int
    freshness: float
    needed: Estimate
    savings: Estimate
    freshness_of_ours: float
    """recrawl's freshness with as many fetches; nan outside the budgets that were run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageExample:
    """The fetches of one page at one budget, by recrawl and by the best other policy."""

    page: int
    changed_at: FloatArray
    ours: PageFetches
    rival: PageFetches
    rival_name: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """The result of a comparison of policies."""

    seconds: float
    n_pages: int
    n_changes: int
    budgets: FloatArray
    """Budgets that recrawl was run at, in fetches per second."""
    curves: tuple[Curves, ...]
    """Curves of all policies, recrawl's first."""
    levels: tuple[FreshnessLevel, ...]
    logged: LoggedResult | None
    examples: tuple[PageExample, ...]

    @property
    def ours(self) -> Curves:
        """Return recrawl's curve."""
        return self.curves[0]

    @property
    def known_levels(self) -> list[FreshnessLevel]:
        """Return the levels at which savings against the best other policy are known."""
        return [level for level in self.levels if level.savings_against_best.is_known]

    @property
    def main_level(self) -> FreshnessLevel | None:
        """Return the level for the headline: 90 %, or the middle one if that is not known."""
        known = self.known_levels
        if not known:
            return None
        main = [level for level in known if level.freshness == _MAIN_LEVEL]
        return main[0] if main else known[len(known) // 2]


def compare_policies(
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
    """Run recrawl and other policies on a web, and return the fetches each one needs.

    Parameters
    ----------
    web
        The web, every page of which has just been fetched.
    rate_per_second
        Estimated changes per second of each page, from which the budgets are chosen.
    gap_seconds
        Shortest time between fetches of a page that the history can judge.
    logged
        Result of the history's own fetches on the web.
    rules
        Rules to compare with; by default those of `rules_in_use`.
    policies
        Further policies: a name, and a function that makes one for a budget in fetches per
        second.
    budgets
        Budgets in fetches per second; by default from scarce to ample.
    n_draws, seed
        Number of bootstrap samples of pages for the intervals, and their random seed.
    progress
        Function that receives the name of each finished run and the share of the work done.
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
    runs = [run_ours(web, budgets.tolist(), meter)]
    runs += [run_rule(web, rule, budgets.tolist(), meter) for rule in rivals]
    for name, make in policies:
        points = []
        for budget in budgets.tolist():
            points.append(run_at_budget(web, make(budget), budget))
            meter(name)
        runs.append(PolicyRuns(name=name, points=tuple(points)))
    runs = [each for each in runs if each.points]
    draws = draws_of(web.group, n_draws=n_draws, seed=seed)

    def curves(each: PolicyRuns) -> Curves:
        return curves_of(each, importance=web.importance, seconds=web.horizon, draws=draws)

    all_curves = tuple(curves(each) for each in runs)
    own = None
    if logged is not None and n_logged:
        own = _logged_result(all_curves[0], curves(PolicyRuns(name="as logged", points=(logged,))))
    levels = _levels(all_curves)
    comparison = Comparison(
        seconds=web.horizon,
        n_pages=web.n_pages,
        n_changes=int(web.changes.at.size),
        budgets=budgets,
        curves=all_curves,
        levels=levels,
        logged=own,
        examples=(),
    )
    return replace(comparison, examples=_examples(web, comparison, rivals, rate_per_second))


class _Meter:
    """Reports progress; a run of recrawl or a policy counts as eight runs of a rule."""

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


def _levels(curves: tuple[Curves, ...]) -> tuple[FreshnessLevel, ...]:
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
            FreshnessLevel(
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


def _logged_result(ours: Curves, own: Curves) -> LoggedResult:
    freshness, n_fetches = own.freshness[:, 0], own.n_fetches[:, 0]
    needed = fetches_for(ours, freshness)
    return LoggedResult(
        n_fetches=round(float(n_fetches[0])),
        freshness=float(freshness[0]),
        needed=estimate_of(needed),
        savings=estimate_of(1 - needed / n_fetches),
        freshness_of_ours=float(freshness_at(ours, n_fetches[:1])[0]),
    )


def _examples(
    web: Web, comparison: Comparison, rules: Sequence[Rule], rate: FloatArray
) -> tuple[PageExample, ...]:
    """Return a few pages, from often to never changing, at the budget of the main level."""
    level = comparison.main_level
    pages = _example_pages(web, rate)
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
    recorder = FetchRecorder(pages)
    run_at_budget(web, our_policy(budget), budget, on_fetches=recorder)
    ours = recorder.fetches()
    theirs = rule_fetches(web, singles[name], n_fetches, pages)
    return tuple(
        PageExample(
            page=int(page),
            changed_at=web.changes.at[web.changes.offsets[page] : web.changes.offsets[page + 1]],
            ours=ours.of(int(page)),
            rival=theirs.of(int(page)),
            rival_name=name,
        )
        for page in pages
    )


def _example_pages(web: Web, rate: FloatArray) -> RowArray:
    """Return pages of different change rates, and last one page that never changes, if any."""
    counts = web.changes.counts()
    changing = np.flatnonzero(counts > 0)
    if changing.size == 0:
        return np.empty(0, np.int64)
    order = changing[np.argsort(-rate[changing], kind="stable")]
    at = np.unique(np.linspace(0.05, 0.9, _EXAMPLES_MAX - 1) * (order.size - 1)).astype(np.int64)
    still = np.flatnonzero(counts == 0)[:1]
    return np.concatenate([order[np.unique(at)], still])
