"""Who takes part in the league: what people run today, what papers propose, and recrawl.

A rule of intervals knows no budget.  It takes part twice: with its clock slowed or sped up by the
factor at which it spends just the budget, each page fetched the moment it is due, and as it comes,
with as many fetches as it likes.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from lab.league_longevity import run_longevity
from lab.policies.cgm import CgmOptimal, CgmSqrt
from lab.policies.estimated import EstimatedGreedy, EstimatedNcis
from lab.policies.lambda_crawl import LambdaCrawl
from lab.policies.longevity_online import Bounds, CurveFit
from lab.policies.loop_runs import loop_log, loop_scale_for_budget
from lab.policies.loops import COST_LOOP, COST_PRIOR, Loop
from recrawl.backtest.contest import rules_in_use
from recrawl.core.price.due_table import DueTable
from recrawl.node.shipped_due_table import kept_due_table
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
    unlimited,
)
from recrawl.sim.policies.learned_curves import LearningCurves, WebContents

__all__ = ["ENTRIES", "FRAGMENTS", "OURS", "TUNED", "Entry", "our_policy"]

OURS = "recrawl"
FRAGMENTS = "recrawl, fragments"
TUNED = "best rule, tuned in hindsight"

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
    return kept_due_table()


def our_policy(budget: float) -> Policy:
    """Return the shard that ships, as it ships, with hosts that may be asked at any time."""
    return ShardPolicy(unlimited(), budget=budget, due_table=_due_table())


def _our_fragments(web: Web, budget: float) -> Policy:
    settings = unlimited(ShardSettings(objective="fragments"))
    shard = ShardPolicy(settings, budget=budget, due_table=_due_table())
    return LearningCurves(shard, WebContents(web))


def _planned(make: Callable[[Web, float], Policy]) -> Callable[[Track, Web, int], Account]:
    def run(track: Track, web: Web, budget: int) -> Account:
        return run_policy(track, web, make(web, track.budget(budget, web)), budget)

    return run


def _without_budget(make: Callable[[], Policy]) -> Callable[[Track, Web, int], Account]:
    return _planned(lambda _web, _budget: make())


# ---------------------------------------------------------------------- rules


def _wants(web: Web, rule: IntervalRule, scale: float, most: int) -> bool:
    """Return whether a rule makes more than ``most`` fetches."""
    compiled = compiled_rule(rule)
    if compiled is not None:
        return run_compiled(web, compiled, scale=scale, n_fetches_max=most) is None
    return run_freely(web, rule, scale=scale, n_parts=1, n_fetches_max=most).n_fetches > most


def _scale_for(web: Web, rule: IntervalRule, n_fetches: int, step: float) -> float:
    """Return the least factor, within a step, at which a rule makes no more than ``n_fetches``."""
    low, high = -1.0, 1.0
    while not _wants(web, rule, math.exp(low), n_fetches) and low > -_LOG_SCALE_MAX:
        low, high = low - 1.0, low
    while _wants(web, rule, math.exp(high), n_fetches) and high < _LOG_SCALE_MAX:
        low, high = high, high + 1.0
    while high - low > step:
        middle = 0.5 * (low + high)
        if _wants(web, rule, math.exp(middle), n_fetches):
            low = middle
        else:
            high = middle
    return math.exp(high)


def _run_rule(rule: IntervalRule, track: Track, web: Web, budget: int) -> Account:
    n_fetches = int(track.budget(budget, web) * web.horizon)
    # What is not compiled takes long.
    step = _STEP if compiled_rule(rule) is not None else 4 * _STEP
    scale = _scale_for(web, rule, n_fetches, step)
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


def _variants() -> Iterator[IntervalRule]:
    """Yield the rules in use and the tuned variants of Nutch's and StormCrawler's."""
    for rule in rules_in_use():
        yield from rule.variants


def _run_tuned(track: Track, web: Web, budget: int) -> Account:
    """Spend a budget by the variant that turns out best on just this web, at just this budget."""
    n_fetches = int(track.budget(budget, web) * web.horizon)
    rules = list(_variants())
    fresh = [_fresh_seconds(web, rule, n_fetches, _ROUGH_STEP) for rule in rules]
    # Some may have spent a little less than others: the best are compared again, and with them
    # the rules as they are, so that none of these is ever better.
    best = [rules[i] for i in np.argsort(fresh)[-_N_COMPARED_AGAIN:]]
    best += [rule.variants[0] for rule in rules_in_use() if len(rule.variants) == 1]
    again = [_fresh_seconds(web, rule, n_fetches, _STEP) for rule in best]
    return _run_rule(best[int(np.argmax(again))], track, web, budget)


def _fresh_seconds(web: Web, rule: IntervalRule, n_fetches: int, step: float) -> float:
    """Return what a rule of the compiled family makes of some fetches."""
    compiled = compiled_rule(rule)
    assert compiled is not None
    totals = run_compiled(web, compiled, scale=_scale_for(web, rule, n_fetches, step))
    assert totals is not None
    return float(web.importance @ totals.fresh_seconds)


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
    Entry(
        name=TUNED,
        about="of the fixed interval, Heritrix, and 32 variants of Nutch and StormCrawler "
        "the one that turns out best on this web at this budget, which nobody can know beforehand",
        run=_run_tuned,
    ),
    Entry(name="in turn", about="all pages in turn", run=_without_budget(Uniform)),
    Entry(
        name="by importance",
        about="as often as important",
        run=_without_budget(ProportionalToImportance),
        needs_importance=True,
    ),
    Entry(
        name="CGM √λ",
        about="Cho and Garcia-Molina: in proportion to the root of the estimated rate",
        run=_without_budget(CgmSqrt),
    ),
    Entry(
        name="CGM optimal",
        about="Cho and Garcia-Molina: best frequencies at the estimated rates, by importance",
        run=_without_budget(lambda: CgmOptimal(by_importance=True)),
    ),
    Entry(
        name="LambdaCrawl",
        about="Kolobov et al.: harmonic penalty, estimated rates, complete signals apart",
        run=_without_budget(LambdaCrawl),
    ),
    Entry(
        name="GREEDY, estimated",
        about="Signals' GREEDY at estimated rates",
        run=_without_budget(EstimatedGreedy),
    ),
    Entry(
        name="GREEDY-NCIS, estimated",
        about="Signals' GREEDY-NCIS at rates and qualities of signals estimated as in its App. E",
        run=_without_budget(EstimatedNcis),
    ),
    Entry(
        name="Cost loop",
        about="Cost's loop with its two pseudo-observations, a third of the estimated period; at "
        "equal fetches Prior's loop is the same",
        run=partial(_run_loop, COST_LOOP),
        as_it_comes=partial(_loop_as_it_comes, COST_LOOP),
    ),
    Entry(
        name="Prior loop",
        about="the same with the whole estimated period",
        as_it_comes=partial(_loop_as_it_comes, Loop(fraction=1.0, pseudo=COST_PRIOR)),
    ),
    Entry(
        name="Longevity, curve fit",
        about="Longevity's online policy by fitted curves, looking once a day",
        run=partial(run_longevity, CurveFit),
        needs_content=True,
    ),
    Entry(
        name="Longevity, bounds",
        about="Longevity's online policy by bounds, looking once a day",
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
