"""Who takes part in the league: what people run today, what papers propose, and recrawl.

A rule of intervals knows no budget.  It takes part twice: with its clock slowed or sped up by the
factor at which it spends just the budget, each page fetched the moment it is due, and as it comes,
with as many fetches as it likes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from lab.league.longevity import run_longevity
from lab.policies.cgm import CgmOptimal, CgmSqrt
from lab.policies.estimated import EstimatedGreedy, EstimatedNcis
from lab.policies.lambda_crawl import LambdaCrawl
from lab.policies.longevity.online import Bounds, CurveFit
from lab.policies.loop_runs import loop_log, loop_scale_for_budget
from lab.policies.loops import COST_LOOP, COST_PRIOR, Loop
from recrawl.backtest.policy_runs import rules_in_use
from recrawl.core.arrays import FloatArray
from recrawl.core.price.due_table import DueTable
from recrawl.node.shipped_due_table import shipped_due_table
from recrawl.refreshbench import ORACLE, Track, run_policy
from recrawl.shard import ShardSettings
from recrawl.sim import (
    CC_NEWS,
    Account,
    Bookkeeper,
    ChangeRatio,
    FixedInterval,
    Heritrix,
    IntervalRule,
    NutchAdaptive,
    Oracle,
    Policy,
    ProportionalToImportance,
    ShardPolicy,
    StormCrawler,
    Uniform,
    Web,
    YaCy,
    compiled_rule,
    run_compiled,
    run_freely,
    unlimited_settings,
)
from recrawl.sim.policies.learned_curves import LearningCurves, WebContents

__all__ = [
    "ENTRIES",
    "FRAGMENTS",
    "OURS",
    "TUNED",
    "Entry",
    "importance_factors",
    "our_policy",
]

OURS = "recrawl"
FRAGMENTS = "recrawl, fragments"
TUNED = "best-tuned rule"

# An important page's waits are shorter, and those of others longer, by at most this factor.
_IMPORTANCE_MAX = 10.0
# How waits go with importance in the rules that are tuned in hindsight: not at all, with its root,
# in proportion.
_POWERS = (0.0, 0.5, 1.0)
# How near to the budget a rule's factor is found, as a step of its logarithm.
_STEP, _ROUGH_STEP = 0.002, 0.05
_N_COMPARED_AGAIN = 4
_LOG_SCALE_MAX = 30.0
# A rule that comes with shorter waits than this track is about is stopped.
_N_FETCHES_MAX = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One that takes part.

    Parameters
    ----------
    name, about
        As in the tables, and where it is from.
    run
        Spends one of a track's budgets on a web, if it can.
    as_it_comes
        Fetches as often as it likes; none for who knows budgets.
    needs_content, needs_importance
        Whether it takes part only where pages change in part, or differ in importance.
    """

    name: str
    about: str
    run: Callable[[Track, Web, int], Account] | None = None
    as_it_comes: Callable[[Track, Web], Account] | None = None
    needs_content: bool = False
    needs_importance: bool = False

    def is_in(self, track: Track) -> bool:
        """Return whether it takes part in a track; recorded pages are all as important."""
        if self.needs_importance and track.is_recorded:
            return False
        return track.has_content or not self.needs_content


@cache
def _due_table() -> DueTable:
    return shipped_due_table()


def our_policy(budget: float) -> Policy:
    """Return the shard that ships, as it ships, with hosts that may be asked at any time."""
    return ShardPolicy(unlimited_settings(), budget=budget, due_table=_due_table())


def _our_fragments(web: Web, budget: float) -> Policy:
    settings = unlimited_settings(ShardSettings(objective="fragments"))
    shard = ShardPolicy(settings, budget=budget, due_table=_due_table())
    return LearningCurves(shard, WebContents(web))


def _planned(make: Callable[[Web, float], Policy]) -> Callable[[Track, Web, int], Account]:
    def run(track: Track, web: Web, budget: int) -> Account:
        return run_policy(track, web, make(web, track.budget(budget, web)), budget)

    return run


def _without_budget(make: Callable[[], Policy]) -> Callable[[Track, Web, int], Account]:
    return _planned(lambda _web, _budget: make())


# ---------------------------------------------------------------------- rules


def importance_factors(web: Web, power: float) -> FloatArray:
    """Return the factor on the clock of a rule for each page, by its importance.

    A page of the mean importance keeps its waits.  At power 1 a page that is twice as important
    is fetched twice as often, all else equal: what an operator who knows importance would set,
    page by page, and within a factor of ten either way.
    """
    if power == 0.0:
        return np.ones(web.n_pages)
    relative = web.importance / (math.fsum(web.importance) / web.n_pages)
    clipped = np.clip(relative, 1 / _IMPORTANCE_MAX, _IMPORTANCE_MAX)
    # Not by a power, whose last bit is the processor's.
    return np.asarray(1 / (np.sqrt(clipped) if power == 0.5 else clipped))


def _wants(web: Web, rule: IntervalRule, scale: FloatArray, most: int) -> bool:
    """Return whether a rule makes more than ``most`` fetches."""
    compiled = compiled_rule(rule)
    if compiled is not None:
        return run_compiled(web, compiled, scale=scale, n_fetches_max=most) is None
    return run_freely(web, rule, scale=scale, n_parts=1, n_fetches_max=most).n_fetches > most


def _scale_for(
    web: Web, rule: IntervalRule, n_fetches: int, step: float, power: float
) -> FloatArray:
    """Return the factors of all pages, such that a rule makes no more than ``n_fetches``.

    They are the least that do, within a step, in the proportions of `importance_factors`.
    """
    factors = importance_factors(web, power)
    low, high = -1.0, 1.0
    while not _wants(web, rule, math.exp(low) * factors, n_fetches) and low > -_LOG_SCALE_MAX:
        low, high = low - 1.0, low
    while _wants(web, rule, math.exp(high) * factors, n_fetches) and high < _LOG_SCALE_MAX:
        low, high = high, high + 1.0
    while high - low > step:
        middle = 0.5 * (low + high)
        if _wants(web, rule, math.exp(middle) * factors, n_fetches):
            low = middle
        else:
            high = middle
    return np.asarray(math.exp(high) * factors)


def _run_rule(
    rule: IntervalRule, track: Track, web: Web, budget: int, *, power: float = 0.0
) -> Account:
    n_fetches = int(track.budget(budget, web) * web.horizon)
    # What is not compiled takes long.
    step = _STEP if compiled_rule(rule) is not None else 4 * _STEP
    scale = _scale_for(web, rule, n_fetches, step, power)
    limit = track.very_stale_seconds
    return run_freely(web, rule, scale=scale, n_parts=1, very_stale_seconds=limit)


def _rule_as_it_comes(rule: IntervalRule, track: Track, web: Web) -> Account:
    return run_freely(
        web,
        rule,
        n_parts=1,
        very_stale_seconds=track.very_stale_seconds,
        n_fetches_max=_N_FETCHES_MAX,
    )


def _rule(name: str, rule: IntervalRule, about: str) -> Entry:
    return Entry(
        name=name,
        about=about,
        run=partial(_run_rule, rule),
        as_it_comes=partial(_rule_as_it_comes, rule),
    )


def _rule_by_importance(name: str, rule: IntervalRule, about: str) -> Entry:
    return Entry(
        name=name,
        about=f"{about}, with each page's waits divided by its importance over the mean, by ten "
        "at most; only where pages differ in importance",
        run=partial(_run_rule, rule, power=1.0),
        needs_importance=True,
    )


class _Variant(NamedTuple):
    """A rule, and how its waits go with importance."""

    rule: IntervalRule
    power: float


def _powers(track: Track) -> tuple[float, ...]:
    """Return how waits may go with importance; recorded pages are all as important."""
    return _POWERS[:1] if track.is_recorded else _POWERS


def _run_tuned(track: Track, web: Web, budget: int) -> Account:
    """Spend a budget by the variant that turns out best on just this web, at just this budget."""
    n_fetches = int(track.budget(budget, web) * web.horizon)
    powers = _powers(track)
    # All are compared roughly, with waits that go with the root of importance if at all.
    rules = [variant for rule in rules_in_use() for variant in rule.variants]
    middle = powers[len(powers) // 2]
    fresh = [_fresh_seconds(web, _Variant(rule, middle), n_fetches, _ROUGH_STEP) for rule in rules]
    # Some may have spent a little less than others: the best are compared again, and with them
    # the rules as they are, so that none of these is ever better.
    finalists = [rules[i] for i in np.argsort(fresh)[-_N_COMPARED_AGAIN:]]
    finalists += [rule.variants[0] for rule in rules_in_use() if len(rule.variants) == 1]
    best = [_Variant(rule, power) for rule in dict.fromkeys(finalists) for power in powers]
    again = [_fresh_seconds(web, variant, n_fetches, _STEP) for variant in best]
    rule, power = best[int(np.argmax(again))]
    return _run_rule(rule, track, web, budget, power=power)


def _fresh_seconds(web: Web, variant: _Variant, n_fetches: int, step: float) -> float:
    """Return what a rule of the compiled family makes of some fetches."""
    rule, power = variant
    compiled = compiled_rule(rule)
    assert compiled is not None
    scale = _scale_for(web, rule, n_fetches, step, power)
    totals = run_compiled(web, compiled, scale=scale)
    assert totals is not None
    # Not by a product of vectors, whose last bit is the processor's.
    return math.fsum(web.importance * totals.fresh_seconds)


def _loop_account(loop: Loop, track: Track, web: Web, scale: float) -> Account:
    log = loop_log(web, loop, scale=scale, is_spread=True, n_rows_max=_N_FETCHES_MAX)
    page = np.repeat(np.arange(log.n_pages), np.diff(log.offsets))
    books = Bookkeeper(web, n_parts=1, very_stale_seconds=track.very_stale_seconds)
    books.record(page[log.is_fetch], log.ended_at[log.is_fetch])
    # Failed fetches changed nothing, but were paid for.
    failed = np.repeat(np.arange(log.n_pages), log.n_failed)
    books.record(failed, np.full(failed.size, web.horizon), np.ones(failed.size, np.int64))
    return books.close()


def _run_loop(loop: Loop, track: Track, web: Web, budget: int) -> Account:
    scale = loop_scale_for_budget(web, loop, track.budget(budget, web))
    return _loop_account(loop, track, web, scale)


def _loop_as_it_comes(loop: Loop, track: Track, web: Web) -> Account:
    return _loop_account(loop, track, web, 1.0)


ENTRIES = (
    Entry(
        name=OURS,
        about="the shipped shard with its defaults; starts knowing nothing",
        run=_planned(lambda _web, budget: our_policy(budget)),
    ),
    Entry(
        name=FRAGMENTS,
        about="the same with the objective *fragments*: judged by fragment staleness",
        run=_planned(_our_fragments),
        needs_content=True,
    ),
    _rule("Nutch adaptive", NutchAdaptive(), "Apache Nutch, `AdaptiveFetchSchedule`"),
    _rule("StormCrawler", StormCrawler(), "StormCrawler, `AdaptiveScheduler`"),
    _rule("CC-News", CC_NEWS, "Common Crawl's news crawl"),
    _rule("Heritrix", Heritrix(), "Heritrix, `WaitEvaluator`"),
    _rule("YaCy", YaCy(), "YaCy's date until which a page counts as fresh"),
    _rule("change ratio", ChangeRatio(), "seconds polled per change seen"),
    _rule("fixed interval", FixedInterval(), "every page as often: Nutch's default, a cron job"),
    _rule_by_importance("Nutch by importance", NutchAdaptive(), "Apache Nutch's rule"),
    _rule_by_importance("StormCrawler by importance", StormCrawler(), "StormCrawler's rule"),
    _rule_by_importance("fixed interval by importance", FixedInterval(), "the fixed interval"),
    Entry(
        name=TUNED,
        about="of the fixed interval, Heritrix, and 32 variants of Nutch and StormCrawler, each "
        "with waits that do not go with importance, go with its root, or go with it in full, the "
        "one that turns out best on this web at this budget, which nobody can know beforehand",
        run=_run_tuned,
    ),
    Entry(name="round robin", about="all pages in turn", run=_without_budget(Uniform)),
    Entry(
        name="importance alone",
        about="each page as often as it is important, whatever it does",
        run=_without_budget(ProportionalToImportance),
        needs_importance=True,
    ),
    Entry(
        name="root of the rate",
        about="Cho and Garcia-Molina (CGM): as often as the root of the estimated rate",
        run=_without_budget(CgmSqrt),
    ),
    Entry(
        name="optimal frequencies",
        about="Cho and Garcia-Molina (CGM): the best frequencies at estimated rates, by importance",
        run=_without_budget(lambda: CgmOptimal(by_importance=True)),
    ),
    Entry(
        name="LambdaCrawl",
        about="Kolobov et al.: harmonic penalty, estimated rates, complete signals apart",
        run=_without_budget(LambdaCrawl),
    ),
    Entry(
        name="greedy",
        about="GREEDY of Busa-Fekete et al. (Signals): what is worth most now, at estimated rates",
        run=_without_budget(EstimatedGreedy),
    ),
    Entry(
        name="greedy with signals",
        about="GREEDY-NCIS of Busa-Fekete et al. (Signals), at rates and qualities of signals "
        "estimated as in its App. E",
        run=_without_budget(EstimatedNcis),
    ),
    Entry(
        name="third of the period",
        about="the loop of Grimes, Ford and Tassone (Cost) with its two pseudo-observations: "
        "a third of the estimated period; at equal fetches the loop of Prior is the same",
        run=partial(_run_loop, COST_LOOP),
        as_it_comes=partial(_loop_as_it_comes, COST_LOOP),
    ),
    Entry(
        name="whole period",
        about="the same with the whole estimated period (Prior); only as it comes",
        as_it_comes=partial(_loop_as_it_comes, Loop(fraction=1.0, pseudo=COST_PRIOR)),
    ),
    Entry(
        name="content curves, fitted",
        about="Olston and Pandey (Longevity): online, by fitted curves, looking once a day",
        run=partial(run_longevity, CurveFit),
        needs_content=True,
    ),
    Entry(
        name="content curves, bounded",
        about="Olston and Pandey (Longevity): online, by bounds, looking once a day",
        run=partial(run_longevity, Bounds),
        needs_content=True,
    ),
    Entry(
        name=ORACLE,
        about="told what the track says, beforehand; recorded webs: told how often "
        "each page changed in all",
        run=_planned(lambda web, _budget: Oracle(web)),
    ),
)
"""All entries, in the order in which they are run."""
