"""An explanation in words: what was last seen of a page, what is believed, and what comes next.

One sentence of several parts, each true by itself.  What is not known is not said, or is said to
be unknown.
"""

import math
from collections.abc import Iterable

from recrawl.corpus.inspect.explanation import PageExplanation
from recrawl.corpus.past.page_history import PageHistory
from recrawl.shard import PageStatus, Reason, Transition, Verdict
from recrawl.shard.explain import Forward, Why
from recrawl.units import count_text, seconds_text

__all__ = ["chance_words", "explanation_words", "period_words", "since_words"]

_DAY = 86_400.0
# Units in full, where a sentence has room for them.
_UNITS_IN_FULL = {"h": "hours", "min": "minutes", "s": "seconds"}
# So long an interval is as good as never.
_NEVER_SECONDS = 200 * 365.25 * _DAY
# Evidence of less than this many changes is that of none: beliefs are rounded.
_CHANGES_MIN = 0.35
# Time watched that is worth a word, as a share of that which the prior counts for.
_WATCHED_SHARE_MIN = 0.02
# What would bring a page forward is said if it saves this share of the wait.
_FORWARD_SHARE_MIN = 0.1
# A page that has been due for so long waits for something.
_OVERDUE_SECONDS = 300.0
_MS = 1_000


# ---------------------------------------------------------------------------- numbers


def _in_units(seconds: float) -> tuple[str, str]:
    """Return a duration as a number and the name of its unit."""
    number, _, unit = seconds_text(seconds).partition(" ")
    return number, unit


def period_words(seconds: float) -> str:
    """Return how often something happens.

    Examples
    --------
    >>> [period_words(s) for s in (2_400, 86_400, 777_600, 3.2e7, 1e10)]
    ['every 40 minutes', 'every day', 'every 9 days', 'every 12 months', 'never']
    """
    if not seconds < _NEVER_SECONDS:
        return "never"
    if 0.95 * _DAY <= seconds <= 1.05 * _DAY:
        return "every day"
    number, unit = _in_units(seconds)
    return f"every {number} {_UNITS_IN_FULL.get(unit, unit)}"


def _range_words(low: float, high: float, around: float) -> str:
    """Return a range, without its unit where that is the one of what it is around."""
    if not high < _NEVER_SECONDS:
        return f"{seconds_text(low)} or more"
    (a, a_unit), (b, b_unit) = _in_units(low), _in_units(high)
    if a_unit == b_unit == _in_units(around)[1]:
        return f"{a}–{b}"
    return f"{a}–{b} {b_unit}" if a_unit == b_unit else f"{a} {a_unit} to {b} {b_unit}"


def chance_words(chance: float) -> str:
    """Return what a model gives as a chance: in whole percent, never 0 or 100 if not certain.

    Examples
    --------
    >>> [chance_words(p) for p in (0.0, 0.001, 0.714, 0.996, 1.0)]
    ['0 %', 'less than 1 %', '71 %', 'more than 99 %', '100 %']
    """
    if 0 < chance < 0.01:
        return "less than 1 %"
    return "more than 99 %" if 0.99 < chance < 1 else f"{100 * chance:.0f} %"


def since_words(at_ms: int, now_ms: int) -> str:
    """Return how long ago an instant is, or how far ahead.

    Examples
    --------
    >>> since_words(0, 10_800_000), since_words(0, 1), since_words(10_800_000, 0)
    ('3 h ago', 'just now', 'in 3 h')
    """
    seconds = (now_ms - at_ms) / _MS
    if abs(seconds) < 1:
        return "just now"
    return f"{seconds_text(seconds)} ago" if seconds > 0 else f"in {seconds_text(-seconds)}"


def _times(n: int) -> str:
    return {1: "once", 2: "twice"}.get(n, f"{n} times")


# ---------------------------------------------------------------------------- what was seen


_OUTCOMES = {
    Transition.NONE: "unchanged",
    Transition.NEW: "for the first time",
    Transition.CHANGED: "changed",
    Transition.REVERTED: "back to an earlier version",
    Transition.RETURNED: "there again after it was gone",
}


def _seen(page: PageExplanation, history: PageHistory | None) -> Iterable[str]:
    """Yield what the latest fetches found."""
    state = page.state
    if state.status == PageStatus.NEW or state.fetched_at_ms is None:
        yield f"Never fetched; added {since_words(state.added_at_ms, page.now_ms)}"
        if state.status == PageStatus.DISALLOWED:
            yield "closed by the site's rules when it was tried"
        return
    ago = since_words(state.fetched_at_ms, page.now_ms)
    match state.status:
        case PageStatus.GONE:
            often = f", {_times(state.errors)} in a row" if state.errors > 1 else ""
            yield f"Gone when last checked {ago}{often}"
        case PageStatus.MOVED:
            to = f" to {page.moved_to}" if page.moved_to else " elsewhere"
            yield f"Checked {ago}: moved{to}"
        case PageStatus.RETIRED:
            yield (
                f"Given up {ago}: it was not there {_times(max(state.errors, 1))} in a row, and "
                "is fetched again only if it is added again"
            )
        case PageStatus.DISALLOWED:
            yield f"Closed by the site's rules; last fetched {ago}"
        case _:
            outcome = _outcome_of(page, history)
            yield f"Checked {ago}, {outcome}" if outcome else f"Checked {ago}"
    if history is not None and history.n_reverted >= 2:
        yield (
            f"flaps between versions: in {history.n_reverted} of "
            f"{count_text(history.n_seen, 'poll')} it was back to an earlier one"
        )


def _outcome_of(page: PageExplanation, history: PageHistory | None) -> str | None:
    if page.last_outcome is not None:
        return _OUTCOMES.get(page.last_outcome)
    seen = history.seen if history is not None else ()
    if not seen:
        return None
    last = seen[-1]
    return _OUTCOMES.get(last.transition) if last.transition else _VERDICTS.get(last.verdict)


_VERDICTS = {
    Verdict.UNCHANGED: "unchanged",
    Verdict.CHANGED: "changed",
    Verdict.REVERTED: "back to an earlier version",
}


# ---------------------------------------------------------------------------- what is believed


def _changes(page: PageExplanation, history: PageHistory | None) -> Iterable[str]:
    """Yield how often the page changes, and how far that is known."""
    state = page.state
    if state.status in (PageStatus.RETIRED, PageStatus.DISALLOWED):
        return
    period = 1 / max(state.change_rate_per_second, 1e-30)
    if page.estimator != "gamma":
        if state.fetched_at_ms is not None:
            yield f"changes about {period_words(period)}"
        return
    prior = state.prior_seconds / max(state.prior_shape, 1e-30)
    like_it = f"pages like it change about {period_words(prior)}"
    n_changes = state.belief_shape - state.prior_shape
    watched = state.belief_seconds - state.prior_seconds
    if history is not None and history.is_whole and history.n_seen >= 2 and not history.n_changes:
        over = (history.seen[-1].fetched_at_ms - history.seen[0].fetched_at_ms) / _MS
        n_polls = count_text(history.n_seen, "poll")
        yield f"never seen to change in {n_polls} over {seconds_text(over)}; {like_it}"
        return
    if state.signal_recall < 0.05 and n_changes < _CHANGES_MIN:
        if watched < _WATCHED_SHARE_MIN * state.prior_seconds:
            yield f"nothing is known of its changes yet; {like_it}"
        else:
            yield f"not seen to change in about {seconds_text(watched)}; {like_it}"
        return
    low, high = state.change_period_seconds_low, state.change_period_seconds_high
    if state.signal_recall >= 0.05:
        # The interval is that of changes without a signal.
        by = ", ".join(dict.fromkeys(page.sources)) or "signals"
        share = chance_words(state.signal_recall)
        yield f"changes about {period_words(period)}, and {by} announces about {share} of that"
    else:
        yield f"changes about {period_words(period)} ({_range_words(low, high, period)})"


def _fresh(page: PageExplanation) -> Iterable[str]:
    state = page.state
    if state.fetched_at_ms is None:
        return
    if state.status in (PageStatus.ACTIVE, PageStatus.GONE, PageStatus.MOVED):
        fresh = chance_words(state.freshness_probability)
        hints = sum(view.signals_since_fetch for view in state.sources)
        heard = f" after {count_text(hints, 'hint')} of a change since" if hints else ""
        what = "still fresh" if state.status == PageStatus.ACTIVE else "still so"
        yield f"{fresh} likely {what}{heard}"


# ---------------------------------------------------------------------------- what comes next


def _next(page: PageExplanation) -> Iterable[str]:
    """Yield what it waits for."""
    state, now_ms = page.state, page.now_ms
    match state.why:
        case Why.RETIRED:
            return
        case Why.IN_FLIGHT:
            yield _in_flight(page)
        case Why.BACKING_OFF:
            yield _backing_off(page)
        case Why.FLOOR:
            yield f"next {_due_words(page)}"
        case Why.NEVER:
            if state.importance == 0:
                yield "never fetched again: its importance is 0"
            else:
                yield f"never worth a fetch {_at_the_price(page)}"
        case Why.NOT_YET:
            yield f"next {_due_words(page)}"
        case _:
            yield _due_now(page)
            waits = _group_waits(page, now_ms)
            if waits:
                yield waits


def _in_flight(page: PageExplanation) -> str:
    lease, now_ms = page.state.lease, page.now_ms
    if lease is None:
        return "a fetcher has it"
    since = seconds_text((now_ms - lease.ordered_at_ms) / _MS)
    left = (lease.expires_at_ms - now_ms) / _MS
    reason = _REASONS[lease.reason]
    if left >= 0:
        until = f"and has {seconds_text(left)} more to report"
    else:
        until = f"and should have reported {seconds_text(-left)} ago"
    return f"a fetcher has had it for {since} ({reason}) {until}"


_REASONS = {
    Reason.VALUE: "it was worth the price",
    Reason.CEILING: "its longest interval or a promise was up",
    Reason.DISCOVERY: "it had never been fetched",
    Reason.AUDIT: "it was chosen to measure freshness",
    Reason.SPARE: "the budget was not spent otherwise",
}


def _backing_off(page: PageExplanation) -> str:
    state = page.state
    again = since_words(state.not_before_ms or page.now_ms, page.now_ms)
    if state.status == PageStatus.DISALLOWED:
        return f"looked at again {again}"
    if state.errors > 0 and state.status in (PageStatus.ACTIVE, PageStatus.NEW):
        return f"waits after {count_text(state.errors, 'error')} in a row; tried again {again}"
    return f"waits after an error; tried again {again}"


def _bound_of(page: PageExplanation) -> str | None:
    """Return which limit of its own a page is due by, if it is one."""
    state = page.state
    if state.fetched_at_ms is None or state.due_at_ms is None:
        return None
    interval = (state.due_at_ms - state.fetched_at_ms) / _MS
    if math.isclose(interval, state.interval_seconds_max, rel_tol=1e-6, abs_tol=1.5):
        return f"by its longest interval of {seconds_text(state.interval_seconds_max)}"
    if state.stale_probability > 0:
        # As `recrawl.shard.due.bounds_of` has it.
        exponent = min(-math.log1p(-state.stale_probability) / state.belief_shape, 700.0)
        latest = state.stale_seconds + state.belief_seconds * math.expm1(exponent)
        if math.isclose(interval, latest, rel_tol=1e-6, abs_tol=1.5):
            return f"by the promise that it is seldom stale for {seconds_text(state.stale_seconds)}"
    if math.isclose(interval, state.interval_seconds_min, rel_tol=1e-6, abs_tol=1.5):
        return f"when its shortest interval of {seconds_text(interval)} is over"
    return None


def _at_the_price(page: PageExplanation) -> str:
    return "at the price of then" if page.is_past else "at today's price"


def _due_words(page: PageExplanation) -> str:
    """Return when a page comes due that is not, and by what."""
    state = page.state
    if state.due_at_ms is None:
        return f"never due {_at_the_price(page)}"
    seconds = (state.due_at_ms - page.now_ms) / _MS
    by = _bound_of(page) or _at_the_price(page)
    return f"due in about {seconds_text(seconds)} {by}"


def _due_now(page: PageExplanation) -> str:
    state = page.state
    if not page.has_price:
        if page.budget_per_second == 0:
            return "due as soon as a budget is set or a run begins"
        if page.budget_per_second is None:
            return "due now: no budget is set, so everything is always worth a fetch"
        return "due now: nothing has been asked for yet, so a fetch has no price"
    bound = _bound_of(page)
    if bound is not None:
        return f"due now {bound}"
    waited = 0.0 if state.due_at_ms is None else (page.now_ms - state.due_at_ms) / _MS
    is_known = state.fetched_at_ms is not None and state.status != PageStatus.NEW
    if is_known and waited > _OVERDUE_SECONDS and state.why == Why.DUE:
        return (
            f"worth a fetch for {seconds_text(waited)}: it goes out when it is asked for and the "
            "budget allows"
        )
    return "due now"


def _group_waits(page: PageExplanation, now_ms: int) -> str | None:
    """Return what the host of a page that is due waits for."""
    group, why = page.group_view, page.state.why
    match why:
        case Why.GROUP_BUSY:
            fetches = count_text(group.in_flight, "fetch", "fetches")
            return f"{group.name} has {fetches} in flight, as many as it may"
        case Why.GROUP_RESTING:
            ready = page.state.group_ready_at_ms or now_ms
            return f"{group.name} rests between fetches and is free {since_words(ready, now_ms)}"
        case Why.GROUP_BLOCKED:
            until = since_words(group.blocked_until_ms or now_ms, now_ms)
            after = f" after {count_text(group.errors, 'error')} in a row" if group.errors else ""
            return f"{group.name} is not asked{after}; again {until}"
        case Why.GROUP_CLOSED:
            return f"{group.name} is closed by its rules, or these could not be read"
    return None


def _forward(page: PageExplanation) -> str | None:
    """Return what would bring a page forward that is not due yet."""
    state = page.state
    if state.why not in (Why.NOT_YET, Why.NEVER):
        return None
    names = {view.source: name for view, name in zip(state.sources, page.sources, strict=True)}
    signals = [one for one in state.forward if one.source is not None and _helps(page, one)]
    if signals:
        best = min(signals, key=lambda one: one.due_at_ms or 0)
        seconds = ((best.due_at_ms or page.now_ms) - page.now_ms) / _MS
        to = "to now" if seconds < 1 else f"to about {seconds_text(seconds)} from now"
        hint = _a_hint(names.get(best.source or 0, ""))
        return f"{hint} would bring it forward {to}"
    for one in state.forward:
        if one.source is None and one.what == "half the price" and _helps(page, one):
            seconds = ((one.due_at_ms or page.now_ms) - page.now_ms) / _MS
            when = "now" if seconds < 1 else f"in about {seconds_text(seconds)}"
            return f"at half the price it would be due {when}"
    return None


def _a_hint(source: str) -> str:
    if not (source.isascii() and source.isalpha()):
        return f"a hint from {source}" if source else "a hint"
    return f"{'an' if source[0] in 'aeiouAEIOU' else 'a'} {source} hint"


def _helps(page: PageExplanation, one: Forward) -> bool:
    if one.due_at_ms is None:
        return False
    if page.state.due_at_ms is None:
        return True
    wait = page.state.due_at_ms - page.now_ms
    return page.state.due_at_ms - one.due_at_ms >= max(_FORWARD_SHARE_MIN * wait, _MS)


def explanation_words(page: PageExplanation, history: PageHistory | None = None) -> str:
    """Return a page's explanation as a sentence.

    Parameters
    ----------
    page
        As `Corpus.explain` gives it.
    history
        What happened to the page, for what only that tells: how often it was polled, and whether
        it flaps.
    """
    parts = [*_seen(page, history), *_changes(page, history), *_fresh(page), *_next(page)]
    forward = _forward(page)
    if forward is not None:
        parts.append(forward)
    return "; ".join(parts) + "."
