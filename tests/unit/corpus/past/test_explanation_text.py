"""Every state that a page can be in has its words."""

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
    """A page fetched 3 h ago that changes about every 9 days and comes due in 2."""
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


def history_of(verdicts: list[Verdict], *, is_whole: bool = True) -> PageHistory:
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
    told = words(sources=(SITEMAP,), forward=(signal,))
    assert told == (
        "Checked 3 h ago, unchanged; changes about every 9 days (5–16); 71 % likely still fresh; "
        "next due in about 2 days at today's price; a sitemap hint would bring it forward to now."
    )


def test_of_a_past_time_it_speaks_of_the_price_of_then() -> None:
    assert "at the price of then" in words(is_past=True)


def test_what_a_hint_brings_forward_to_a_later_time_is_said_so() -> None:
    signal = Forward(what="signal", source=3, due_at_ms=NOW + DAY)
    told = words(sources=(SITEMAP,), forward=(signal,))
    assert told.endswith("a sitemap hint would bring it forward to about 24 h from now.")


def test_what_hardly_brings_it_forward_is_not_said() -> None:
    signal = Forward(what="signal", source=3, due_at_ms=NOW + 2 * DAY - HOUR)
    half = Forward(what="half the price", source=None, due_at_ms=NOW + DAY)
    told = words(sources=(SITEMAP,), forward=(signal, half))
    assert told.endswith("at half the price it would be due in about 24 h.")


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (None, "Checked 3 h ago;"),
        (Transition.NEW, "Checked 3 h ago, for the first time;"),
        (Transition.CHANGED, "Checked 3 h ago, changed;"),
        (Transition.REVERTED, "Checked 3 h ago, back to an earlier version;"),
        (Transition.RETURNED, "Checked 3 h ago, there again after it was gone;"),
    ],
)
def test_what_the_last_fetch_found(outcome: Transition | None, told: str) -> None:
    assert words(last_outcome=outcome).startswith(told)


def test_never_fetched() -> None:
    told = words(
        status=PageStatus.NEW,
        fetched_at_ms=None,
        added_at_ms=NOW - 2 * HOUR,
        belief_shape=1.0,
        belief_seconds=30 * 86_400.0,
        why=Why.DUE,
        due_at_ms=NOW - HOUR,
    )
    assert told == (
        "Never fetched; added 2 h ago; nothing is known of its changes yet; "
        "pages like it change about every 30 days; due now."
    )


def test_never_seen_to_change_is_told_with_what_pages_like_it_do() -> None:
    told = words(belief_shape=1.0, belief_seconds=(30 + 12) * 86_400.0)
    assert "not seen to change in about 12 days; pages like it change about every 30 days" in told


def test_a_history_counts_the_polls() -> None:
    page = page_of(belief_shape=1.0, belief_seconds=(30 + 8) * 86_400.0)
    told = explanation_words(page, history_of([Verdict.UNCHANGED] * 3))
    assert "never seen to change in 3 polls over 8 days; pages like it change" in told


def test_a_history_that_is_not_whole_does_not_say_never() -> None:
    page = page_of(belief_shape=1.0, belief_seconds=(30 + 8) * 86_400.0)
    told = explanation_words(page, history_of([Verdict.UNCHANGED] * 3, is_whole=False))
    assert "never seen" not in told


def test_a_page_that_flaps() -> None:
    history = history_of([Verdict.CHANGED, Verdict.REVERTED, Verdict.UNCHANGED, Verdict.REVERTED])
    told = explanation_words(page_of(), history)
    assert "flaps between versions: in 2 of 4 polls it was back to an earlier one" in told


def test_what_is_not_known_of_the_last_fetch_is_taken_from_the_history() -> None:
    told = explanation_words(page_of(last_outcome=None), history_of([Verdict.CHANGED]))
    assert told.startswith("Checked 3 h ago, changed;")


def test_the_first_fetch_of_a_page_is_not_called_a_change() -> None:
    first = history_of([Verdict.CHANGED])
    first = replace(first, polls=(first.polls[0]._replace(transition=Transition.NEW),))
    told = explanation_words(page_of(last_outcome=None), first)
    assert told.startswith("Checked 3 h ago, for the first time;")


def test_a_page_seen_to_go_is_not_called_never_seen_to_change() -> None:
    gone = history_of([Verdict.UNCHANGED, Verdict.GONE])
    last = gone.polls[1]._replace(transition=Transition.GONE)
    told = explanation_words(
        page_of(status=PageStatus.GONE, belief_shape=1.0, belief_seconds=(30 + 8) * 86_400.0),
        replace(gone, polls=(gone.polls[0], last)),
    )
    assert "never seen to change" not in told


def test_announced_changes() -> None:
    told = words(sources=(SITEMAP,), signal_recall=0.8)
    assert "changes about every 9 days, and sitemap announces about 80 % of that" in told


def test_hints_since_the_fetch() -> None:
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
    told = words(sources=heard, freshness_probability=0.004)
    assert "less than 1 % likely still fresh after 2 hints of a change since" in told


def test_without_a_belief_only_the_rate_is_told() -> None:
    told = words(estimator="counts")
    assert "; changes about every 9 days; 71 %" in told


def test_in_flight() -> None:
    lease = Lease(
        order=1,
        ordered_at_ms=NOW - 5 * MINUTE,
        expires_at_ms=NOW + 10 * MINUTE,
        reason=Reason.CEILING,
    )
    told = words(why=Why.IN_FLIGHT, lease=lease)
    assert told.endswith(
        "a fetcher has had it for 5 min (its longest interval or a promise was up) and has "
        "10 min more to report."
    )


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words(reason: Reason) -> None:
    lease = Lease(order=1, ordered_at_ms=NOW - HOUR, expires_at_ms=NOW - 3 * MINUTE, reason=reason)
    told = words(why=Why.IN_FLIGHT, lease=lease)
    assert told.endswith("and should have reported 3 min ago.")


def test_in_flight_without_its_lease() -> None:
    assert words(why=Why.IN_FLIGHT).endswith("a fetcher has it.")


def test_backing_off() -> None:
    told = words(why=Why.BACKING_OFF, errors=3, not_before_ms=NOW + 40 * MINUTE)
    assert told.endswith("waits after 3 errors in a row; tried again in 40 min.")


def test_backing_off_of_a_page_that_is_gone() -> None:
    told = words(
        status=PageStatus.GONE, errors=2, why=Why.BACKING_OFF, not_before_ms=NOW + 40 * MINUTE
    )
    assert told.startswith("Gone when last checked 3 h ago, twice in a row;")
    assert told.endswith("waits after an error; tried again in 40 min.")


def test_gone() -> None:
    told = words(status=PageStatus.GONE, errors=1)
    assert told.startswith("Gone when last checked 3 h ago;")
    assert "71 % likely still so" in told


def test_moved() -> None:
    told = words(status=PageStatus.MOVED, moved_to="https://new.example/1")
    assert told.startswith("Checked 3 h ago: moved to https://new.example/1;")
    assert words(status=PageStatus.MOVED).startswith("Checked 3 h ago: moved elsewhere;")


def test_retired() -> None:
    told = words(status=PageStatus.RETIRED, errors=5, why=Why.RETIRED)
    assert told == (
        "Given up 3 h ago: it was not there 5 times in a row, and is fetched again only if it is "
        "added again."
    )


def test_disallowed() -> None:
    told = words(status=PageStatus.DISALLOWED, why=Why.BACKING_OFF, not_before_ms=NOW + 5 * DAY)
    assert told == "Closed by the site's rules; last fetched 3 h ago; looked at again in 5 days."


def test_disallowed_before_it_was_ever_fetched() -> None:
    told = words(
        status=PageStatus.DISALLOWED,
        fetched_at_ms=None,
        why=Why.BACKING_OFF,
        not_before_ms=NOW + 5 * DAY,
    )
    assert "closed by the site's rules when it was tried; looked at again in 5 days" in told


def test_floor() -> None:
    told = words(
        why=Why.FLOOR,
        interval_seconds_min=14_400.0,
        due_at_ms=NOW + HOUR,
        fetched_at_ms=NOW - 3 * HOUR,
    )
    assert told.endswith("next due in about 60 min when its shortest interval of 4 h is over.")


def test_ceiling() -> None:
    told = words(interval_seconds_max=86_400.0, due_at_ms=NOW + 21 * HOUR)
    assert told.endswith("next due in about 21 h by its longest interval of 24 h.")


def test_beyond_a_ceiling() -> None:
    told = words(why=Why.DUE, interval_seconds_max=3_600.0, due_at_ms=NOW - 2 * HOUR)
    assert told.endswith("due now by its longest interval of 60 min.")


def test_promise() -> None:
    # 1 - (b/(b+t-s))^a = p with a = 7, b = 63 days, s = 6 h, p = 0.05
    latest = 6 * 3_600 + 63 * 86_400 * (0.95 ** (-1 / 7) - 1)
    told = words(
        stale_seconds=6 * 3_600.0,
        stale_probability=0.05,
        due_at_ms=NOW - 3 * HOUR + round(latest * 1000),
    )
    assert told.endswith("by the promise that it is seldom stale for 6 h.")


def test_never_worth_a_fetch() -> None:
    assert words(why=Why.NEVER, due_at_ms=None).endswith("never worth a fetch at today's price.")


def test_of_no_importance() -> None:
    told = words(why=Why.NEVER, due_at_ms=None, importance=0.0)
    assert told.endswith("never fetched again: its importance is 0.")


def test_what_would_make_a_page_due_that_never_is() -> None:
    half = Forward(what="half the price", source=None, due_at_ms=NOW + DAY)
    told = words(why=Why.NEVER, due_at_ms=None, forward=(half,))
    assert told.endswith("at half the price it would be due in about 24 h.")


def test_due_for_some_time() -> None:
    told = words(why=Why.DUE, due_at_ms=NOW - 2 * HOUR)
    assert "worth a fetch for 2 h: it goes out when it is asked for and the budget allows" in told


def test_before_there_is_a_price() -> None:
    assert "nothing has been asked for yet" in words(why=Why.DUE, price=1e-300)
    told = words(why=Why.DUE, price=1e-300, budget=0.0)
    assert told.endswith("due as soon as a budget is set or a run begins.")


def test_without_a_budget_everything_is_worth_a_fetch() -> None:
    told = words(why=Why.DUE, price=1e-300, budget=None)
    assert told.endswith("due now: no budget is set, so everything is always worth a fetch.")


def host(**changes: Any) -> GroupView:
    fields = {name: getattr(HOST, name) for name in GroupView.__slots__}
    return GroupView(**(fields | changes))


def test_host_busy() -> None:
    told = words(why=Why.GROUP_BUSY, due_at_ms=NOW)
    assert told.endswith("due now; shop.example has 1 fetch in flight, as many as it may.")


def test_host_resting() -> None:
    told = words(why=Why.GROUP_RESTING, due_at_ms=NOW, group_ready_at_ms=NOW + 4_000)
    assert told.endswith("due now; shop.example rests between fetches and is free in 4 s.")


def test_host_blocked() -> None:
    blocked = host(errors=4, blocked_until_ms=NOW + 3 * HOUR)
    told = words(why=Why.GROUP_BLOCKED, due_at_ms=NOW, host=blocked)
    assert told.endswith("shop.example is not asked after 4 errors in a row; again in 3 h.")


def test_host_closed() -> None:
    told = words(why=Why.GROUP_CLOSED, due_at_ms=NOW, host=host(is_closed=True))
    assert told.endswith("shop.example is closed by its rules, or these could not be read.")


@pytest.mark.parametrize("why", list(Why))
@pytest.mark.parametrize("status", [s for s in PageStatus if s != PageStatus.FREE])
@pytest.mark.parametrize("is_fetched", [True, False])
def test_there_are_words_for_everything(why: Why, status: PageStatus, is_fetched: bool) -> None:
    told = words(
        why=why,
        status=status,
        fetched_at_ms=NOW - DAY if is_fetched else None,
        due_at_ms=None if why == Why.NEVER else NOW + HOUR,
    )
    assert told.endswith(".")
    assert ";;" not in told
    assert "None" not in told
    assert "inf" not in told
