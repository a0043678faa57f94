"""The explanation of a page has the right sentences for every state that a page can be in."""

from dataclasses import replace
from typing import Any

import pytest

from recrawl.corpus.inspect.explanation import GroupView, PageExplanation
from recrawl.corpus.past.explanation_text import explanation_words
from recrawl.corpus.past.page_history import PageHistory, Poll
from recrawl.shard import PageStatus, Reason, Transition, Verdict
from recrawl.shard.explain import Explanation, Forward, Lease, SourceView, Why

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOW = 1_700_000_000_000

SITEMAP = SourceView(
    source=3,
    precision=0.9,
    is_given=False,
    is_judged=True,
    delay_seconds=60.0,
    signals_since_fetch=0,
    signals_ever=12.0,
    claimed_at_ms=None,
)
HOST = GroupView(
    name="shop.example",
    n_pages=10,
    delay_seconds=1.0,
    in_flight=1,
    in_flight_max=1,
    errors=0,
    blocked_until_ms=None,
    is_closed=False,
)


def state_of(**changes: Any) -> Explanation:
    """Return a page fetched 3 h ago that changes about every 9 days and comes due in 2."""
    seconds = 9 * 86_400.0
    fields: dict[str, Any] = {
        "page": 0,
        "status": PageStatus.ACTIVE,
        "kind": 0,
        "group": 0,
        "added_at_ms": NOW - 60 * DAY,
        "fetched_at_ms": NOW - 3 * HOUR,
        "effective_fetched_at_ms": NOW - 3 * HOUR,
        "errors": 0,
        "not_before_ms": None,
        "lease": None,
        "belief_shape": 7.0,
        "belief_seconds": 7 * seconds,
        "prior_shape": 1.0,
        "prior_seconds": 30 * 86_400.0,
        "unsignalled_change_rate_per_second": 1 / seconds,
        "change_rate_per_second": 1 / seconds,
        "change_period_seconds_low": 5 * 86_400.0,
        "change_period_seconds_high": 16 * 86_400.0,
        "signal_recall": 0.0,
        "sources": (),
        "freshness_probability": 0.714,
        "importance": 1.0,
        "kind_weight": 1.0,
        "cost": 1.0,
        "ceiling": 1.0,
        "ratio": 1.0,
        "scroll_items": 0,
        "interval_seconds_min": 0.0,
        "interval_seconds_max": float("inf"),
        "stale_seconds": 0.0,
        "stale_probability": 0.0,
        "value": 100.0,
        "price": 1000.0,
        "due_at_ms": NOW + 2 * DAY,
        "group_ready_at_ms": NOW,
        "why": Why.NOT_YET,
        "forward": (),
    }
    return Explanation(**(fields | changes))


def page_of(
    *,
    last_outcome: Transition | None = Transition.NONE,
    host: GroupView = HOST,
    estimator: str = "gamma",
    budget: float | None = 0.01,
    moved_to: str | None = None,
    is_past: bool = False,
    **changes: Any,
) -> PageExplanation:
    state = state_of(**changes)
    return PageExplanation(
        url="https://shop.example/1",
        fetch_url="https://shop.example/1",
        group=host.name,
        group_view=host,
        kind=None,
        sources=tuple("sitemap" for _ in state.sources),
        etag=None,
        last_modified=None,
        moved_to=moved_to,
        last_outcome=last_outcome,
        estimator=estimator,
        budget_per_second=budget,
        is_past=is_past,
        now_ms=NOW,
        state=state,
    )


def words(**changes: Any) -> str:
    return explanation_words(page_of(**changes))


def history_with(verdicts: list[Verdict], *, is_whole: bool = True) -> PageHistory:
    polls = [
        Poll(
            NOW - (len(verdicts) - i) * 4 * DAY, NOW - (len(verdicts) - i) * 4 * DAY, v, None, True
        )
        for i, v in enumerate(verdicts)
    ]
    return PageHistory(
        url="https://shop.example/1",
        from_ms=NOW - 60 * DAY,
        until_ms=NOW,
        is_whole=is_whole,
        polls=tuple(polls),
        signals=(),
        orders=(),
        earlier=(),
        believed=None,
        ahead=None,
    )


def test_an_ordinary_page() -> None:
    signal = Forward(what="signal", source=3, due_at_ms=NOW)
    text = words(sources=(SITEMAP,), forward=(signal,))
    assert text == (
        "Last fetched 3 h ago: unchanged. It changes about every 9 days (5–16). "
        "The copy is 71 % likely still fresh. It is due in about 2 days at the current price. "
        "A sitemap signal would make it due now."
    )


def test_an_explanation_of_an_earlier_time_names_the_price_of_that_time() -> None:
    assert "at the price of that time" in words(is_past=True)


def test_a_signal_may_make_a_page_due_earlier_but_not_now() -> None:
    signal = Forward(what="signal", source=3, due_at_ms=NOW + DAY)
    text = words(sources=(SITEMAP,), forward=(signal,))
    assert text.endswith("A sitemap signal would make it due in about 24 h.")


def test_a_signal_that_would_hardly_help_is_not_mentioned() -> None:
    signal = Forward(what="signal", source=3, due_at_ms=NOW + 2 * DAY - HOUR)
    half = Forward(what="half the price", source=None, due_at_ms=NOW + DAY)
    text = words(sources=(SITEMAP,), forward=(signal, half))
    assert text.endswith(
        "At half the price, which a larger budget may bring, it would be due in about 24 h."
    )


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (None, "Last fetched 3 h ago."),
        (Transition.NEW, "Last fetched 3 h ago: the first fetch."),
        (Transition.CHANGED, "Last fetched 3 h ago: changed."),
        (Transition.REVERTED, "Last fetched 3 h ago: back to an earlier version."),
        (Transition.RETURNED, "Last fetched 3 h ago: there again after it was gone."),
    ],
)
def test_what_the_last_fetch_found(outcome: Transition | None, text: str) -> None:
    assert words(last_outcome=outcome).startswith(text)


def test_never_fetched() -> None:
    text = words(
        status=PageStatus.NEW,
        fetched_at_ms=None,
        added_at_ms=NOW - 2 * HOUR,
        belief_shape=1.0,
        belief_seconds=30 * 86_400.0,
        why=Why.DUE,
        due_at_ms=NOW - HOUR,
    )
    assert text == (
        "Never fetched; added 2 h ago. Nothing is known about its changes yet; "
        "similar pages change about every 30 days. It is due now."
    )


def test_a_page_without_a_change_is_compared_with_similar_pages() -> None:
    text = words(belief_shape=1.0, belief_seconds=(30 + 12) * 86_400.0)
    assert "No change seen in about 12 days; similar pages change about every 30 days." in text


def test_a_history_gives_the_number_of_fetches() -> None:
    page = page_of(belief_shape=1.0, belief_seconds=(30 + 8) * 86_400.0)
    text = explanation_words(page, history_with([Verdict.UNCHANGED] * 3))
    assert "No change in 3 fetches over 8 days; similar pages change" in text


def test_an_incomplete_history_does_not_count_fetches() -> None:
    page = page_of(belief_shape=1.0, belief_seconds=(30 + 8) * 86_400.0)
    text = explanation_words(page, history_with([Verdict.UNCHANGED] * 3, is_whole=False))
    assert "fetches over" not in text


def test_a_page_that_flips_between_versions() -> None:
    history = history_with([Verdict.CHANGED, Verdict.REVERTED, Verdict.UNCHANGED, Verdict.REVERTED])
    text = explanation_words(page_of(), history)
    assert "It flips between versions: 2 of 4 fetches found an earlier one again." in text


def test_an_unknown_last_outcome_is_taken_from_the_history() -> None:
    text = explanation_words(page_of(last_outcome=None), history_with([Verdict.CHANGED]))
    assert text.startswith("Last fetched 3 h ago: changed.")


def test_the_first_fetch_of_a_page_is_not_called_a_change() -> None:
    first = history_with([Verdict.CHANGED])
    first = replace(first, polls=(first.polls[0]._replace(transition=Transition.NEW),))
    text = explanation_words(page_of(last_outcome=None), first)
    assert text.startswith("Last fetched 3 h ago: the first fetch.")


def test_a_page_that_went_away_has_changed() -> None:
    gone = history_with([Verdict.UNCHANGED, Verdict.GONE])
    last = gone.polls[1]._replace(transition=Transition.GONE)
    text = explanation_words(
        page_of(status=PageStatus.GONE, belief_shape=1.0, belief_seconds=(30 + 8) * 86_400.0),
        replace(gone, polls=(gone.polls[0], last)),
    )
    assert "No change in" not in text


def test_announced_changes() -> None:
    text = words(sources=(SITEMAP,), signal_recall=0.8)
    assert (
        "It changes about every 9 days; signals (sitemap) announce about 80 % of the changes."
        in text
    )


def test_signals_since_the_fetch() -> None:
    heard = (
        SourceView(
            source=3,
            precision=0.9,
            is_given=False,
            is_judged=True,
            delay_seconds=60.0,
            signals_since_fetch=2,
            signals_ever=12.0,
            claimed_at_ms=None,
        ),
    )
    text = words(sources=heard, freshness_probability=0.004)
    assert "The copy is less than 1 % likely still fresh, after 2 signals since the fetch." in text


def test_without_a_belief_there_is_only_the_rate() -> None:
    text = words(estimator="counts")
    assert ". It changes about every 9 days. The copy is 71 %" in text


def test_in_flight() -> None:
    lease = Lease(
        order=1,
        ordered_at_ms=NOW - 5 * MINUTE,
        expires_at_ms=NOW + 10 * MINUTE,
        reason=Reason.CEILING,
    )
    text = words(why=Why.IN_FLIGHT, lease=lease)
    assert text.endswith(
        "A fetcher leased it 5 min ago (its max_age or staleness limit was reached) and has "
        "10 min left to report."
    )


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words(reason: Reason) -> None:
    lease = Lease(order=1, ordered_at_ms=NOW - HOUR, expires_at_ms=NOW - 3 * MINUTE, reason=reason)
    text = words(why=Why.IN_FLIGHT, lease=lease)
    assert text.endswith("and should have reported 3 min ago.")


def test_in_flight_without_a_known_lease() -> None:
    assert words(why=Why.IN_FLIGHT).endswith("A fetcher has leased it.")


def test_backing_off() -> None:
    text = words(why=Why.BACKING_OFF, errors=3, not_before_ms=NOW + 40 * MINUTE)
    assert text.endswith("It waits after 3 errors in a row: tried again in 40 min.")


def test_backing_off_of_a_page_that_is_gone() -> None:
    text = words(
        status=PageStatus.GONE, errors=2, why=Why.BACKING_OFF, not_before_ms=NOW + 40 * MINUTE
    )
    assert text.startswith("Gone when last fetched 3 h ago, twice in a row.")
    assert text.endswith("It is tried again in 40 min.")


def test_gone() -> None:
    text = words(status=PageStatus.GONE, errors=1)
    assert text.startswith("Gone when last fetched 3 h ago.")
    assert "It is 71 % likely still gone." in text


def test_moved() -> None:
    text = words(status=PageStatus.MOVED, moved_to="https://new.example/1")
    assert text.startswith("Last fetched 3 h ago: moved to https://new.example/1.")
    assert words(status=PageStatus.MOVED).startswith("Last fetched 3 h ago: moved elsewhere.")


def test_retired() -> None:
    text = words(status=PageStatus.RETIRED, errors=5, why=Why.RETIRED)
    assert text == (
        "Given up 3 h ago: the page was gone 5 times in a row. Add it again to have it fetched "
        "again."
    )


def test_disallowed() -> None:
    text = words(status=PageStatus.DISALLOWED, why=Why.BACKING_OFF, not_before_ms=NOW + 5 * DAY)
    assert text == (
        "The site's rules (robots.txt) do not allow it; last fetched 3 h ago. "
        "It is tried again in 5 days."
    )


def test_disallowed_before_it_was_ever_fetched() -> None:
    text = words(
        status=PageStatus.DISALLOWED,
        fetched_at_ms=None,
        why=Why.BACKING_OFF,
        not_before_ms=NOW + 5 * DAY,
    )
    assert "The site's rules (robots.txt) do not allow it. It is tried again in 5 days." in text


def test_min_age() -> None:
    text = words(
        why=Why.FLOOR,
        interval_seconds_min=14_400.0,
        due_at_ms=NOW + HOUR,
        fetched_at_ms=NOW - 3 * HOUR,
    )
    assert text.endswith(
        "It is due in about 60 min because it is fetched at most once in 4 h (min_age)."
    )


def test_max_age() -> None:
    text = words(interval_seconds_max=86_400.0, due_at_ms=NOW + 21 * HOUR)
    assert text.endswith(
        "It is due in about 21 h because its copy may be at most 24 h old (max_age)."
    )


def test_beyond_max_age() -> None:
    text = words(why=Why.DUE, interval_seconds_max=3_600.0, due_at_ms=NOW - 2 * HOUR)
    assert text.endswith("It is due now because its copy may be at most 60 min old (max_age).")


def test_staleness_limit() -> None:
    # 1 - (b/(b+t-s))^a = p with a = 7, b = 63 days, s = 6 h, p = 0.05
    latest = 6 * 3_600 + 63 * 86_400 * (0.95 ** (-1 / 7) - 1)
    text = words(
        stale_seconds=6 * 3_600.0,
        stale_probability=0.05,
        due_at_ms=NOW - 3 * HOUR + round(latest * 1000),
    )
    assert text.endswith("because its copy may be outdated for at most 6 h (stale_for).")


def test_never_worth_a_fetch() -> None:
    text = words(why=Why.NEVER, due_at_ms=None, budget=None)
    assert text.endswith(
        "It never comes due at the current price: no fetch of it is worth that much."
    )


def test_a_page_of_importance_0_is_never_fetched() -> None:
    text = words(why=Why.NEVER, due_at_ms=None, importance=0.0)
    assert text.endswith("It is never fetched again, because its importance is 0.")


def test_half_the_price_may_make_a_page_due_that_never_is() -> None:
    half = Forward(what="half the price", source=None, due_at_ms=NOW + DAY)
    text = words(why=Why.NEVER, due_at_ms=None, forward=(half,))
    assert text.endswith(
        "At half the price, which a larger budget may bring, it would be due in about 24 h."
    )


def test_due_for_some_time() -> None:
    text = words(why=Why.DUE, due_at_ms=NOW - 2 * HOUR)
    assert (
        "It has been due for 2 h: a fetcher gets it when it leases pages and the budget allows."
        in text
    )


def test_before_there_is_a_price() -> None:
    assert "there is no price before the first lease" in words(why=Why.DUE, price=1e-300)
    text = words(why=Why.DUE, price=1e-300, budget=0.0)
    assert text.endswith("It is due as soon as a budget is set or a run begins.")


def test_without_a_budget_every_page_is_due() -> None:
    text = words(why=Why.DUE, price=1e-300, budget=None)
    assert text.endswith("It is due now: no budget is set, so every page always is.")


def host(**changes: Any) -> GroupView:
    fields = {name: getattr(HOST, name) for name in GroupView.__slots__}
    return GroupView(**(fields | changes))


def test_host_busy() -> None:
    text = words(why=Why.GROUP_BUSY, due_at_ms=NOW)
    assert text.endswith(
        "It is due now. Its host shop.example has 1 fetch in flight, the most it may have."
    )


def test_host_between_two_fetches() -> None:
    text = words(why=Why.GROUP_RESTING, due_at_ms=NOW, group_ready_at_ms=NOW + 4_000)
    assert text.endswith(
        "It is due now. Its host shop.example may be fetched from again in 4 s, because of the "
        "delay between two fetches."
    )


def test_host_blocked() -> None:
    blocked = host(errors=4, blocked_until_ms=NOW + 3 * HOUR)
    text = words(why=Why.GROUP_BLOCKED, due_at_ms=NOW, host=blocked)
    assert text.endswith(
        "Its host shop.example is paused after 4 errors in a row; fetched from again in 3 h."
    )


def test_host_closed() -> None:
    text = words(why=Why.GROUP_CLOSED, due_at_ms=NOW, host=host(is_closed=True))
    assert text.endswith(
        "Its host shop.example is closed, by you or because of its robots.txt: "
        "`recrawl set --host shop.example --open` opens it."
    )


@pytest.mark.parametrize("why", list(Why))
@pytest.mark.parametrize("status", [s for s in PageStatus if s != PageStatus.FREE])
@pytest.mark.parametrize("is_fetched", [True, False])
def test_every_state_has_an_explanation(why: Why, status: PageStatus, is_fetched: bool) -> None:
    text = words(
        why=why,
        status=status,
        fetched_at_ms=NOW - DAY if is_fetched else None,
        due_at_ms=None if why == Why.NEVER else NOW + HOUR,
    )
    assert text.endswith(".")
    assert ".." not in text
    assert "None" not in text
    assert "inf" not in text
