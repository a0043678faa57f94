"""The explanation of a page in sentences: last fetch, changes, freshness, and what happens next.

Each sentence is true by itself.  What recrawl does not know is left out, or said to be unknown.
"""

import math
from collections.abc import Iterable

from recrawl.core.price.promise import first_change_quantile_of
from recrawl.corpus.inspect.explanation import PageExplanation
from recrawl.corpus.inspect.page_waits import reason_text
from recrawl.corpus.past.page_history import PageHistory
from recrawl.corpus.wrong_answers import wrong_answer_words
from recrawl.shard import PageStatus, Reason, Transition, Verdict
from recrawl.shard.explain import Forward, Why
from recrawl.units import count_text, seconds_text

__all__ = ["chance_words", "explanation_words", "period_words", "since_words"]

_DAY = 86_400.0
# Units spelled out, where a sentence has room for them.
_UNITS_IN_FULL = {"h": "hours", "min": "minutes", "s": "seconds"}
# A longer interval is called never.
_NEVER_SECONDS = 200 * 365.25 * _DAY
# Beliefs are rounded, so evidence of fewer changes than this counts as none.
_CHANGES_MIN = 0.35
# The time observed is mentioned from this share of the prior's weight on.
_WATCHED_SHARE_MIN = 0.02
# What would make a page due earlier is mentioned if it saves this share of the wait.
_FORWARD_SHARE_MIN = 0.1
# From this many seconds on, the text says for how long a page has been due.
_OVERDUE_SECONDS = 300.0
_MS = 1_000


# ---------------------------------------------------------------------------- numbers


def _in_units(seconds: float) -> tuple[str, str]:
    """Return a duration as a number and the name of its unit."""
    number, _, unit = seconds_text(seconds).partition(" ")
    return number, unit


def period_words(seconds: float) -> str:
    """Return a mean time between events in words.

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
    """Return a range; without its unit if the value it surrounds has the same unit."""
    if not high < _NEVER_SECONDS:
        return f"{seconds_text(low)} or more"
    (a, a_unit), (b, b_unit) = _in_units(low), _in_units(high)
    if a_unit == b_unit == _in_units(around)[1]:
        return f"{a}–{b}"
    return f"{a}–{b} {b_unit}" if a_unit == b_unit else f"{a} {a_unit} to {b} {b_unit}"


def chance_words(chance: float) -> str:
    """Return an estimated probability in whole percent; 0 and 100 only if certain.

    Examples
    --------
    >>> [chance_words(p) for p in (0.0, 0.001, 0.714, 0.996, 1.0)]
    ['0 %', 'less than 1 %', '71 %', 'more than 99 %', '100 %']
    """
    if 0 < chance < 0.01:
        return "less than 1 %"
    return "more than 99 %" if 0.99 < chance < 1 else f"{100 * chance:.0f} %"


def since_words(at_ms: int, now_ms: int) -> str:
    """Return how long ago an instant was, or in how long it will be.

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


# ---------------------------------------------------------------------------- last fetch


_OUTCOMES = {
    Transition.NONE: "unchanged",
    Transition.NEW: "the first fetch",
    Transition.CHANGED: "changed",
    Transition.REVERTED: "back to an earlier version",
    Transition.RETURNED: "there again after it was gone",
}
_VERDICTS = {
    Verdict.UNCHANGED: "unchanged",
    Verdict.CHANGED: "changed",
    Verdict.REVERTED: "back to an earlier version",
}


def _last_fetch_sentences(page: PageExplanation, history: PageHistory | None) -> Iterable[str]:
    """Yield what the latest fetches found."""
    state = page.state
    if state.status == PageStatus.NEW or state.fetched_at_ms is None:
        tried = f" {count_text(state.errors, 'fetch', 'fetches')} failed;" if state.errors else ""
        had = "No fetch has succeeded yet;" if tried else "Never fetched;"
        yield f"{had}{tried} added {since_words(state.added_at_ms, page.now_ms)}."
        if state.status == PageStatus.DISALLOWED:
            yield "The site's rules (robots.txt) do not allow it."
        yield from _wrong_answer_sentences(page)
        return
    ago = since_words(state.fetched_at_ms, page.now_ms)
    match state.status:
        case PageStatus.GONE:
            often = f", {_times(state.errors)} in a row" if state.errors > 1 else ""
            yield f"Gone when last fetched {ago}{often}."
        case PageStatus.MOVED:
            to = f" to {page.moved_to}" if page.moved_to else " elsewhere"
            yield f"Last fetched {ago}: moved{to}."
        case PageStatus.RETIRED:
            often = _times(max(state.errors, 1))
            yield f"Given up {ago}: the page was gone {often} in a row."
            yield "Add it again to have it fetched again."
        case PageStatus.DISALLOWED:
            yield f"The site's rules (robots.txt) do not allow it; last fetched {ago}."
        case _:
            outcome = _outcome_of(page, history)
            yield f"Last fetched {ago}: {outcome}." if outcome else f"Last fetched {ago}."
    yield from _wrong_answer_sentences(page)
    if history is not None and history.n_reverted >= 2:
        yield (
            f"It flips between versions: {history.n_reverted} of "
            f"{count_text(history.n_seen, 'fetch', 'fetches')} found an earlier one again."
        )


def _wrong_answer_sentences(page: PageExplanation) -> Iterable[str]:
    """Yield what came instead of the page."""
    if page.wrong_answer is None or page.wrong_answer_at_ms is None:
        return
    ago = since_words(page.wrong_answer_at_ms, page.now_ms)
    what = wrong_answer_words(page.wrong_answer)
    if _is_last_answer_wrong(page):
        often = f", {_times(page.n_wrong_answers)} so far" if page.n_wrong_answers > 1 else ""
        yield f"The last answer, {ago}, was not the page but {what}{often}."
    else:
        n = count_text(page.n_wrong_answers, "answer")
        was = "was" if page.n_wrong_answers == 1 else "were"
        yield f"Earlier {n} {was} not the page, the last one {ago}: {what}."


def _is_last_answer_wrong(page: PageExplanation) -> bool:
    at_ms, fetched_at_ms = page.wrong_answer_at_ms, page.state.fetched_at_ms
    return at_ms is not None and (fetched_at_ms is None or at_ms > fetched_at_ms)


def _outcome_of(page: PageExplanation, history: PageHistory | None) -> str | None:
    if page.last_outcome is not None:
        return _OUTCOMES.get(page.last_outcome)
    seen = history.seen if history is not None else ()
    if not seen:
        return None
    last = seen[-1]
    return _OUTCOMES.get(last.transition) if last.transition else _VERDICTS.get(last.verdict)


# ---------------------------------------------------------------------------- changes, freshness


def _rate_words(period: float) -> str:
    return f"about {period_words(period)}" if period < _NEVER_SECONDS else "almost never"


def _change_sentences(page: PageExplanation, history: PageHistory | None) -> Iterable[str]:
    """Yield how often the page changes, and how much is known about that."""
    state = page.state
    if state.status in (PageStatus.RETIRED, PageStatus.DISALLOWED):
        return
    period = 1 / max(state.change_rate_per_second, 1e-30)
    if page.estimator != "gamma":
        if state.fetched_at_ms is not None:
            yield f"It changes {_rate_words(period)}."
        return
    prior = state.prior_seconds / max(state.prior_shape, 1e-30)
    others = f"similar pages change {_rate_words(prior)}"
    if page.prior_is_default:
        others = f"recrawl assumes {_rate_words(prior)} until it has seen more"
    n_changes = state.belief_shape - state.prior_shape
    watched = state.belief_seconds - state.prior_seconds
    if history is not None and history.is_whole and history.n_seen >= 2 and not history.n_changes:
        over = (history.seen[-1].fetched_at_ms - history.seen[0].fetched_at_ms) / _MS
        fetches = count_text(history.n_seen, "fetch", "fetches")
        yield f"No change in {fetches} over {seconds_text(over)}; {others}."
        return
    if state.signal_recall < 0.05 and n_changes < _CHANGES_MIN:
        if watched < _WATCHED_SHARE_MIN * state.prior_seconds:
            yield f"Nothing is known about its changes yet; {others}."
        else:
            yield f"No change seen in about {seconds_text(watched)}; {others}."
        return
    low, high = state.change_period_seconds_low, state.change_period_seconds_high
    if state.signal_recall >= 0.05:
        # No range here: the known one is of changes that no signal announces.
        names = ", ".join(dict.fromkeys(page.sources))
        signals = f"signals ({names})" if names else "signals"
        share = chance_words(state.signal_recall)
        yield f"It changes {_rate_words(period)}; {signals} announce about {share} of the changes."
    else:
        yield f"It changes {_rate_words(period)} ({_range_words(low, high, period)})."


def _longevity_sentences(page: PageExplanation) -> Iterable[str]:
    """Yield how much of the page a change replaces, and how long its text lasts."""
    found = page.longevity
    if found is None or page.state.status in (PageStatus.RETIRED, PageStatus.DISALLOWED):
        return
    yield f"A change replaces about {chance_words(found.replaced_share)} of its text."
    if found.long_run_share is None or found.half_life_seconds is None:
        return
    share = chance_words(found.long_run_share)
    if found.half_life_seconds < _NEVER_SECONDS:
        time = seconds_text(found.half_life_seconds)
        yield f"In the long run about {share} of the text is replaced, half of that within {time}."


def _freshness_sentences(page: PageExplanation) -> Iterable[str]:
    state = page.state
    if state.fetched_at_ms is None:
        return
    chance = chance_words(state.freshness_probability)
    n_signals = sum(view.signals_since_fetch for view in state.sources)
    since = f", after {count_text(n_signals, 'signal')} since the fetch" if n_signals else ""
    match state.status:
        case PageStatus.ACTIVE:
            yield f"The copy is {chance} likely still fresh{since}."
        case PageStatus.GONE:
            yield f"It is {chance} likely still gone{since}."
        case PageStatus.MOVED:
            yield f"It is {chance} likely still moved{since}."


# ---------------------------------------------------------------------------- what comes next


def _next_fetch_sentences(page: PageExplanation) -> Iterable[str]:
    """Yield when the page is fetched next, or what it waits for."""
    state, now_ms = page.state, page.now_ms
    if page.wanted_at_ms is not None and state.why != Why.RETIRED:
        yield f"Somebody asked {since_words(page.wanted_at_ms, now_ms)} to have it fetched now."
        if state.why == Why.NOT_YET:
            yield "Even so, a fetch is worth less than the price; give it more importance."
    match state.why:
        case Why.RETIRED:
            return
        case Why.IN_FLIGHT:
            yield _in_flight_sentence(page)
        case Why.BACKING_OFF:
            yield _retry_sentence(page)
        case Why.FLOOR | Why.NOT_YET:
            yield _due_later_sentence(page)
        case Why.NEVER:
            if state.importance == 0:
                yield "It is never fetched again, because its importance is 0."
            else:
                yield _due_later_sentence(page)
        case _:
            # A page that is not due either waits for its host before it is leased early.
            is_later = state.due_at_ms is None or state.due_at_ms > now_ms
            is_early = state.why != Why.DUE and is_later
            yield _early_sentence(page) if is_early else _due_now_sentence(page)
            if state.why in (Why.DUE, Why.EARLY) and page.budget_wait_seconds is not None:
                text = reason_text(Why.BUDGET_SPENT, page.budget_wait_seconds)
                yield f"{text[0].upper()}{text[1:]}."
            if page.window_wait_seconds is not None:
                yield (
                    f"Fetchers get pages only between {page.window}: next in "
                    f"{seconds_text(page.window_wait_seconds)}."
                )
            if state.newcomer_until_ms is not None and state.why != Why.SHARE_SPENT:
                yield _newcomer_sentence(page)
            waits = _host_sentence(page, now_ms)
            if waits:
                yield waits


def _in_flight_sentence(page: PageExplanation) -> str:
    lease, now_ms = page.state.lease, page.now_ms
    if lease is None:
        return "A fetcher has leased it."
    since = seconds_text((now_ms - lease.ordered_at_ms) / _MS)
    left = (lease.expires_at_ms - now_ms) / _MS
    reason = _REASONS[lease.reason]
    if left >= 0:
        until = f"has {seconds_text(left)} left to report"
    else:
        until = f"should have reported {seconds_text(-left)} ago"
    return f"A fetcher leased it {since} ago ({reason}) and {until}."


_REASONS = {
    Reason.VALUE: "a fetch was worth the price",
    Reason.CEILING: "its max_age or staleness limit was reached",
    Reason.DISCOVERY: "it had never been fetched",
    Reason.AUDIT: "chosen at random to measure freshness",
    Reason.SPARE: "the budget had a fetch to spare",
}


def _retry_sentence(page: PageExplanation) -> str:
    state = page.state
    again = since_words(max(state.not_before_ms or 0, page.now_ms), page.now_ms)
    again = "now" if again == "just now" else again
    if state.errors > 0 and state.status in (PageStatus.ACTIVE, PageStatus.NEW):
        what = "failed fetch" if _is_last_answer_wrong(page) else "error"
        many = "failed fetches" if what == "failed fetch" else "errors"
        n = count_text(state.errors, what, many)
        return f"It waits after {n} in a row: tried again {again}."
    if state.status in (PageStatus.ACTIVE, PageStatus.NEW):
        return f"It waits after an error: tried again {again}."
    return f"It is tried again {again}."


def _limit_words(page: PageExplanation) -> str | None:
    """Return the limit of the page itself that decides when it is due; None if none does."""
    state = page.state
    if state.fetched_at_ms is None or state.due_at_ms is None:
        return None
    interval = (state.due_at_ms - state.fetched_at_ms) / _MS
    if math.isclose(interval, state.interval_seconds_max, rel_tol=1e-6, abs_tol=1.5):
        age = seconds_text(state.interval_seconds_max)
        return f"because its copy may be at most {age} old (max_age)"
    if state.stale_probability > 0:
        latest = state.stale_seconds + first_change_quantile_of(
            state.belief_shape, state.belief_seconds, state.stale_probability
        )
        if math.isclose(interval, latest, rel_tol=1e-6, abs_tol=1.5):
            time = seconds_text(state.stale_seconds)
            return f"because its copy may be outdated for at most {time} (stale_for)"
    if math.isclose(interval, state.interval_seconds_min, rel_tol=1e-6, abs_tol=1.5):
        return f"because it is fetched at most once in {seconds_text(interval)} (min_age)"
    return None


def _price_words(page: PageExplanation) -> str:
    if page.is_past:
        return "at the price of that time"
    if not page.has_price:
        return "when its copy may have changed"
    return "at the current price"


def _due_later_sentence(page: PageExplanation) -> str:
    """Return when a page that is not due yet comes due, and what decides that."""
    state = page.state
    if state.due_at_ms is None:
        return f"It never comes due {_price_words(page)}: no fetch of it is worth that much."
    seconds = (state.due_at_ms - page.now_ms) / _MS
    text = f"It is due in about {seconds_text(seconds)} {_limit_words(page) or _price_words(page)}."
    early = state.early_from_ms
    if state.why == Why.NOT_YET and early is not None and early > page.now_ms:
        text += (
            f" In {seconds_text((early - page.now_ms) / _MS)} its copy is less certainly fresh: "
            "from then on a fetcher gets it earlier if the budget allows more fetches than pages "
            "are due."
        )
    return text


def _newcomer_sentence(page: PageExplanation) -> str:
    until = since_words(page.state.newcomer_until_ms or page.now_ms, page.now_ms)
    return (
        "It is a newcomer, because its domain added many pages at once: newcomers share a limited "
        f"part of the budget, this one until {until}."
    )


def _early_sentence(page: PageExplanation) -> str:
    """Return that a lease returns a page before it is due."""
    return (
        f"{_due_later_sentence(page)} A fetcher may get it before that, after the pages that are "
        "due, because the budget allows more fetches than pages are due."
    )


def _due_now_sentence(page: PageExplanation) -> str:
    state = page.state
    if not page.has_price:
        if page.budget_per_second == 0:
            return "It is due as soon as a budget is set or a run begins."
        if page.budget_per_second is None:
            return "It is due now: no budget is set, so every page always is."
        return "It is due now: there is no price before the first lease, so every page is."
    limit = _limit_words(page)
    if limit is not None and "min_age" not in limit:  # one that has passed delays nothing
        return f"It is due now {limit}."
    waited = 0.0 if state.due_at_ms is None else (page.now_ms - state.due_at_ms) / _MS
    is_known = state.fetched_at_ms is not None and state.status != PageStatus.NEW
    if is_known and waited > _OVERDUE_SECONDS and state.why == Why.DUE:
        return (
            f"It has been due for {seconds_text(waited)}: a fetcher gets it when it leases pages "
            "and the budget allows."
        )
    return "It is due now."


def _host_sentence(page: PageExplanation, now_ms: int) -> str | None:
    """Return what the host of a page that is due waits for."""
    group, why = page.group_view, page.state.why
    match why:
        case Why.GROUP_BUSY:
            fetches = count_text(group.in_flight, "fetch", "fetches")
            return f"Its host {group.name} has {fetches} in flight, the most it may have."
        case Why.GROUP_RESTING:
            ready = page.state.group_ready_at_ms or now_ms
            again = since_words(max(ready, now_ms), now_ms)
            again = "now" if again == "just now" else again
            return (
                f"Its host {group.name} may be fetched from again {again}, because of the delay "
                "between two fetches."
            )
        case Why.PART_WAITS:
            begin = page.state.group_ready_at_ms
            turn = "comes later" if begin is None else f"begins {since_words(begin, now_ms)}"
            return (
                f"Its host {group.name} is split over several partitions, which take turns at "
                f"fetching; the turn of this one {turn}."
            )
        case Why.GROUP_BLOCKED:
            until = since_words(group.blocked_until_ms or now_ms, now_ms)
            after = f" after {count_text(group.errors, 'error')} in a row" if group.errors else ""
            return f"Its host {group.name} is paused{after}; fetched from again {until}."
        case Why.GROUP_CLOSED:
            return (
                f"Its host {group.name} is closed, by you or because of its robots.txt: "
                f"`recrawl set --host {group.name} --open` opens it."
            )
        case Why.SHARE_SPENT:
            until = since_words(page.state.newcomer_until_ms or now_ms, now_ms)
            return (
                f"It is waiting: its host {group.name} has used its share of the budget for new "
                f"pages, because its domain added many at once.  The page is limited until {until};"
                f" `recrawl set --host {group.name} --unlimited` lifts the limit."
            )
    return None


def _earlier_sentence(page: PageExplanation) -> str | None:
    """Return what would make a page due earlier; None if nothing would by much."""
    state = page.state
    if state.why not in (Why.NOT_YET, Why.NEVER):
        return None
    names = {view.source: name for view, name in zip(state.sources, page.sources, strict=True)}
    signals = [one for one in state.forward if one.source is not None and _helps(page, one)]
    if signals:
        best = min(signals, key=lambda one: one.due_at_ms or 0)
        signal = _a_signal(names.get(best.source or 0, ""))
        return f"{signal} would make it due {_when_words(page, best)}."
    for one in state.forward:
        if one.source is None and one.what == "half the price" and _helps(page, one):
            when = _when_words(page, one)
            return f"At half the price, which a larger budget may bring, it would be due {when}."
    return None


def _when_words(page: PageExplanation, one: Forward) -> str:
    seconds = ((one.due_at_ms or page.now_ms) - page.now_ms) / _MS
    return "now" if seconds < 1 else f"in about {seconds_text(seconds)}"


def _a_signal(source: str) -> str:
    if not (source.isascii() and source.isalpha()):
        return f"A signal from {source}" if source else "A signal"
    return f"{'An' if source[0] in 'aeiouAEIOU' else 'A'} {source} signal"


def _helps(page: PageExplanation, one: Forward) -> bool:
    if one.due_at_ms is None:
        return False
    if page.state.due_at_ms is None:
        return True
    wait = page.state.due_at_ms - page.now_ms
    return page.state.due_at_ms - one.due_at_ms >= max(_FORWARD_SHARE_MIN * wait, _MS)


def explanation_words(page: PageExplanation, history: PageHistory | None = None) -> str:
    """Return the explanation of a page as a few sentences.

    Parameters
    ----------
    page
        Explanation, as `Corpus.explain` returns it.
    history
        History of the page, as `Corpus.history` returns it.  It adds the number of fetches, and
        whether the page flips between versions.
    """
    sentences = [
        *_last_fetch_sentences(page, history),
        *_change_sentences(page, history),
        *_longevity_sentences(page),
        *_freshness_sentences(page),
        *_next_fetch_sentences(page),
    ]
    earlier = _earlier_sentence(page)
    if earlier is not None:
        sentences.append(earlier)
    if page.standby_seconds is not None:
        behind = seconds_text(page.standby_seconds)
        sentences.append(f"A standby of the partition says this; it may be {behind} behind.")
    return " ".join(sentences)
