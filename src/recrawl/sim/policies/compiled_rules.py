"""Compiled interval rules, fast enough to run hundreds of variants in seconds.

The rules of Nutch, StormCrawler and Heritrix and the fixed interval all multiply the interval by a
factor after each fetch, so one kernel runs them all.  It runs one page after another from start to
end, and fetches a page exactly when it is due.  Tests compare it with `recrawl.sim.run_freely`.
"""

from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.core.kernel import kernel
from recrawl.sim.policies.interval_rules import (
    FixedInterval,
    Heritrix,
    IntervalRule,
    NutchAdaptive,
    StormCrawler,
)
from recrawl.sim.web.content import version_at_start
from recrawl.sim.web.failures import fails_at
from recrawl.sim.web.webs import Web, version_after

__all__ = ["PageTotals", "compiled_rule", "run_compiled"]

# Fractional parts of multiples of the golden ratio spread the first fetches evenly.
_GOLDEN = 0.6180339887498949


class CompiledRule(NamedTuple):
    """Numbers that describe a rule to the kernel; see `compiled_rule`."""

    first: float
    retry: float
    restarts: bool
    factor_unchanged: float
    factor_changed: float
    towards_min: float  # share of ``seconds_min`` added to the interval of a changed page
    seconds_min: float
    seconds_max: float
    sync: float  # share of the version's age subtracted from the wait
    grows_with_age: bool  # the interval of an unchanged page is at least its version's age
    is_in_minutes: bool  # intervals are whole minutes


class PageTotals(NamedTuple):
    """Number of fetches of each page, and seconds for which its copy was fresh."""

    fetches: CountArray
    fresh_seconds: FloatArray


def compiled_rule(rule: IntervalRule) -> CompiledRule | None:
    """Return the numbers that describe a rule; None if the kernel cannot run it."""
    # All numbers are floats: the kernel would be compiled again for each mixture of types.
    unchanged, changed, towards_min = 1.0, 1.0, 0.0
    seconds_min, seconds_max, sync = 0.0, np.inf, 0.0
    if isinstance(rule, NutchAdaptive):
        unchanged, changed, sync = 1 + rule.increase, 1 - rule.decrease, rule.sync
        seconds_min, seconds_max = rule.seconds_min, rule.seconds_max
    elif isinstance(rule, StormCrawler):
        unchanged, changed, towards_min = 1 + rule.increase, 1 - rule.decrease, rule.decrease
        seconds_min, seconds_max = rule.seconds_min, rule.seconds_max
    elif isinstance(rule, Heritrix):
        unchanged, changed = rule.unchanged_factor, 1 / rule.changed_factor
        seconds_min, seconds_max = rule.seconds_min, rule.seconds_max
    elif not isinstance(rule, FixedInterval):
        return None
    return CompiledRule(
        first=float(rule.first_seconds),
        retry=float(rule.retry_seconds),
        restarts=bool(rule.restarts_after_error),
        factor_unchanged=float(unchanged),
        factor_changed=float(changed),
        towards_min=float(towards_min),
        seconds_min=float(seconds_min),
        seconds_max=float(seconds_max),
        sync=float(sync),
        grows_with_age=isinstance(rule, NutchAdaptive),
        is_in_minutes=isinstance(rule, StormCrawler),
    )


@kernel
def _next(
    rule: CompiledRule, interval: float, changed: bool, version_age: float
) -> tuple[float, float]:
    """Return a rule's next interval and the wait that follows from it."""
    if rule.is_in_minutes:
        if changed:
            shrunk = rule.factor_changed * (interval / 60.0)
            minutes = np.trunc(shrunk + rule.towards_min * (rule.seconds_min / 60.0))
        else:
            minutes = np.trunc(interval / 60.0 * rule.factor_unchanged)
            minutes = min(minutes, rule.seconds_max / 60.0)
        return 60.0 * minutes, 60.0 * minutes
    grown = interval * (rule.factor_changed if changed else rule.factor_unchanged)
    if not rule.grows_with_age:
        grown = min(max(grown, rule.seconds_min), rule.seconds_max)
        return grown, grown
    age = 0.0 if changed else np.floor(version_age)
    grown = float(np.round(min(max(grown, age, rule.seconds_min), rule.seconds_max)))
    return grown, max(grown - rule.sync * age, 0.0)


@kernel
def _run_pages(
    web: Web,
    rule: CompiledRule,
    scales: FloatArray,
    n_fetches_max: int,
    fetches: CountArray,
    fresh_seconds: FloatArray,
) -> None:
    horizon = web.horizon
    n_made = 0
    for page in range(web.importance.size):
        scale = scales[page]
        last_row = web.changes.offsets[page + 1]
        row = web.changes.offsets[page]
        interval = rule.first
        due = scale * rule.first * ((0.5 + page * _GOLDEN) % 1.0)
        fetched = seen = 0.0
        copy = version_at_start()
        at, fresh = 0.0, 0.0  # seconds fresh up to the instant ``at``
        while True:
            end = min(due, horizon)
            # Add up the fresh time from one change to the next.
            while row < last_row and web.changes.at[row] <= end:
                if version_after(web, page, row) == copy:
                    fresh += web.changes.at[row] - at
                at = web.changes.at[row]
                row += 1
            version = version_after(web, page, row)
            if version == copy:
                fresh += end - at
            at = end
            if due > horizon or n_made > n_fetches_max:
                break
            n_made += 1
            fetches[page] += 1
            if fails_at(web.errors, page, due) or fails_at(web.outages, web.group[page], due):
                if rule.restarts:
                    interval = rule.first
                due += scale * rule.retry
                continue
            changed = version != copy
            if changed:
                seen = due
            dated = web.has_date[page] and row > web.changes.offsets[page]
            age = due - (web.changes.at[row - 1] if dated else seen)
            copy = version
            fetched = due
            interval, wait = _next(rule, interval, changed, age / max(scale, 1.0))
            due = fetched + scale * wait
        fresh_seconds[page] = fresh


def run_compiled(
    web: Web,
    rule: CompiledRule,
    *,
    scale: float | FloatArray = 1.0,
    n_fetches_max: int | None = None,
) -> PageTotals | None:
    """Run a rule on a web from start to end, fetching each page exactly when it is due.

    Parameters
    ----------
    web
        Web at whose start every page has just been fetched.
    rule, scale
        Rule, and the factor on its waits, one for all pages or one for each; see
        `recrawl.sim.IntervalPolicy`.
    n_fetches_max
        Largest number of fetches; the result is None if the rule needs more.
    """
    most = np.iinfo(np.int64).max - 1 if n_fetches_max is None else n_fetches_max
    totals = PageTotals(np.zeros(web.n_pages, np.int64), np.zeros(web.n_pages))
    scales = np.full(web.n_pages, 1.0) * scale
    _run_pages(web, rule, scales, most, totals.fetches, totals.fresh_seconds)
    return None if totals.fetches.sum() > most else totals
