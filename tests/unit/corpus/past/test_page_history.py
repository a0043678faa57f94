"""The history of a page is read from the log."""

from collections.abc import Callable

import numpy as np
import pytest

from recrawl import Outcome
from recrawl.corpus import Corpus
from recrawl.corpus.past import page_history as module
from recrawl.corpus.past.page_history import PageHistory, is_change, read_page_history
from recrawl.shard import Reason, Transition, Verdict
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
HOUR = 3_600
URL, OTHER = "https://a.example/1", "https://a.example/2"


@pytest.fixture
def corpus(open_corpus: Open) -> Corpus:
    corpus = open_corpus(
        snapshots={"every": "52w", "keep": 1}, budget={"rate": "100/h", "burst": "1h"}
    )
    corpus.add([URL, OTHER])
    return corpus


def fetch(corpus: Corpus, clock: ManualClock, hours: float, **found: object) -> int:
    """Report a fetch of the page after some hours; return when that was."""
    clock.pass_seconds(hours * HOUR)
    corpus.lease(1)  # time goes on with what is asked for
    clock.pass_seconds(2)
    corpus.report(Outcome(url=URL, **found))  # type: ignore[arg-type]
    return clock.wall_ms()


def of(corpus: Corpus, *, with_beliefs: bool = True, until_ms: int | None = None) -> PageHistory:
    history = read_page_history(corpus, URL, with_beliefs=with_beliefs, until_ms=until_ms)
    assert history is not None
    return history


@pytest.mark.parametrize("with_beliefs", [True, False])
def test_polls_have_their_results(corpus: Corpus, clock: ManualClock, with_beliefs: bool) -> None:
    fetch(corpus, clock, 1, digest=b"a")
    fetch(corpus, clock, 1, digest=b"a")
    fetch(corpus, clock, 1, digest=b"b")
    fetch(corpus, clock, 1, digest=b"a")
    fetch(corpus, clock, 1, status=503)
    fetch(corpus, clock, 1, status=404)
    history = of(corpus, with_beliefs=with_beliefs)
    assert [poll.verdict for poll in history.polls] == [
        Verdict.CHANGED,
        Verdict.UNCHANGED,
        Verdict.CHANGED,
        Verdict.REVERTED,
        Verdict.TRANSIENT_ERROR,
        Verdict.GONE,
    ]
    assert history.n_seen == 5
    assert history.n_reverted == 1
    assert history.is_whole
    assert history.earlier == ()
    meant = [poll.transition for poll in history.polls]
    assert meant[0] == Transition.NEW
    assert meant[-1] == Transition.GONE
    assert history.n_changes == 2


def test_signals_have_the_name_of_their_source(corpus: Corpus, clock: ManualClock) -> None:
    fetch(corpus, clock, 1, digest=b"a")
    for source in ("sitemap", "ping", "sitemap"):
        clock.pass_seconds(60)
        corpus.signal([URL, OTHER], source=source)
    history = of(corpus)
    assert [signal.source for signal in history.signals] == ["sitemap", "ping", "sitemap"]
    assert np.diff([signal.at_ms for signal in history.signals]).tolist() == [60_000, 60_000]


def test_orders_have_their_reason(corpus: Corpus, clock: ManualClock) -> None:
    clock.pass_seconds(HOUR)
    orders = corpus.lease(2)
    assert len(orders) == 2
    (order,) = of(corpus).orders
    assert order.at_ms == clock.wall_ms()
    assert order.reason in (Reason.DISCOVERY, Reason.VALUE)


@pytest.mark.parametrize("with_beliefs", [True, False])
def test_a_page_that_goes_and_returns_has_changed_twice(
    corpus: Corpus, clock: ManualClock, with_beliefs: bool
) -> None:
    fetch(corpus, clock, 1, digest=b"a")
    fetch(corpus, clock, 1, status=404)
    fetch(corpus, clock, 1, status=404)
    fetch(corpus, clock, 1, digest=b"a")
    fetch(corpus, clock, 1, digest=b"a")
    history = of(corpus, with_beliefs=with_beliefs)
    assert [poll.transition for poll in history.polls] == [
        Transition.NEW,
        Transition.GONE,
        Transition.NONE,
        Transition.RETURNED,
        Transition.NONE,
    ]
    assert history.n_changes == 2


@pytest.mark.parametrize("with_beliefs", [True, False])
def test_a_fetch_is_never_later_than_its_report_nor_earlier_than_its_order(
    corpus: Corpus, clock: ManualClock, with_beliefs: bool
) -> None:
    clock.pass_seconds(HOUR)
    (order,) = (o for o in corpus.lease(2) if o.url == URL)
    early = clock.wall_ms() - 30 * HOUR * 1000
    clock.pass_seconds(5)
    corpus.report(Outcome(handle=order.handle, digest=b"a", fetched_at_ms=early))
    ahead = clock.wall_ms() + 30 * HOUR * 1000
    fetch(corpus, clock, 1, digest=b"a", fetched_at_ms=ahead)
    history = of(corpus, with_beliefs=with_beliefs)
    first, second = history.polls
    assert first.fetched_at_ms == history.orders[0].at_ms
    assert second.fetched_at_ms == second.at_ms


def test_whether_the_first_report_of_a_truncated_log_counts_is_unknown(
    corpus: Corpus, clock: ManualClock
) -> None:
    clock.pass_seconds(HOUR)
    (order,) = (o for o in corpus.lease(2) if o.url == URL)
    corpus.snapshot()
    clock.pass_seconds(5)
    for _ in range(2):
        corpus.report(Outcome(handle=order.handle, digest=b"a"))
    history = of(corpus, with_beliefs=False)
    assert [poll.is_counted for poll in history.polls] == [None, False]


@pytest.mark.parametrize("with_beliefs", [True, False])
def test_a_report_of_a_released_order_does_not_count(
    corpus: Corpus, clock: ManualClock, with_beliefs: bool
) -> None:
    clock.pass_seconds(HOUR)
    (order,) = (o for o in corpus.lease(2) if o.url == URL)
    corpus.release([order.handle])
    clock.pass_seconds(5)
    corpus.report(Outcome(handle=order.handle, digest=b"a"))
    history = of(corpus, with_beliefs=with_beliefs)
    assert [poll.is_counted for poll in history.polls] == [False]


@pytest.mark.parametrize("with_beliefs", [True, False])
def test_a_second_report_is_listed_but_does_not_count(
    corpus: Corpus, clock: ManualClock, with_beliefs: bool
) -> None:
    clock.pass_seconds(HOUR)
    (order,) = (o for o in corpus.lease(2) if o.url == URL)
    clock.pass_seconds(5)
    corpus.report(Outcome(handle=order.handle, digest=b"a"))
    corpus.report(Outcome(handle=order.handle, digest=b"a"))
    polls = of(corpus, with_beliefs=with_beliefs).polls
    assert [poll.is_counted for poll in polls] == [True, False]


def test_beliefs_fall_between_polls_and_rise_with_them(corpus: Corpus, clock: ManualClock) -> None:
    fetch(corpus, clock, 1, digest=b"a")
    at = [fetch(corpus, clock, 48, digest=b"%d" % i) for i in range(4)]
    clock.pass_seconds(48 * HOUR)
    history = of(corpus)
    believed = history.believed
    assert believed is not None
    assert (np.diff(believed.at_ms) >= 0).all()
    for poll in at:
        before = believed.freshness[believed.at_ms < poll][-1]
        after = believed.freshness[believed.at_ms >= poll].max()
        assert before < 0.99 < after
    assert history.until_ms == clock.wall_ms() == believed.at_ms[-1]


def test_the_last_belief_is_what_the_corpus_says_now(corpus: Corpus, clock: ManualClock) -> None:
    for i in range(5):
        fetch(corpus, clock, 30, digest=b"%d" % i)
    clock.pass_seconds(HOUR)
    corpus.lease(1)
    history, page = of(corpus), corpus.explain(URL)
    assert page is not None
    assert history.believed is not None
    assert history.believed.freshness[-1] == page.state.freshness_probability
    assert history.believed.value[-1] == page.state.value


def test_beliefs_continue_until_the_value_reaches_the_price(
    corpus: Corpus, clock: ManualClock
) -> None:
    for i in range(6):
        fetch(corpus, clock, 30, digest=b"%d" % (i // 3))
    history = of(corpus)
    ahead = history.ahead
    assert ahead is not None
    assert ahead.at_ms[0] == history.until_ms
    assert (np.diff(ahead.freshness) <= 0).all()
    assert (np.diff(ahead.value) >= 0).all()
    page = corpus.explain(URL)
    assert page is not None
    assert history.due_at_ms == page.state.due_at_ms
    assert PageHistory.from_dict({"url": URL, **history.as_dict()}).due_at_ms == history.due_at_ms
    assert of(corpus, until_ms=history.until_ms - 1).due_at_ms is None


def test_a_history_can_end_at_an_earlier_time(corpus: Corpus, clock: ManualClock) -> None:
    first = fetch(corpus, clock, 1, digest=b"a")
    fetch(corpus, clock, 10, digest=b"b")
    history = of(corpus, until_ms=first + 60_000)
    assert len(history.polls) == 1
    assert history.until_ms == first + 60_000


def test_changes_from_before_a_truncated_log_come_from_the_feed(
    corpus: Corpus, clock: ManualClock
) -> None:
    fetch(corpus, clock, 1, digest=b"a")
    fetch(corpus, clock, 1, digest=b"b")
    corpus.snapshot()
    cut_ms = corpus.nodes[0].shard.now_ms
    fetch(corpus, clock, 1, digest=b"c")
    history = of(corpus)
    assert not history.is_whole
    assert history.from_ms == cut_ms
    assert [change.transition for change in history.earlier] == [
        Transition.NEW,
        Transition.CHANGED,
    ]
    assert [poll.verdict for poll in history.polls] == [Verdict.CHANGED]


def test_old_events_are_dropped_beyond_the_limit(
    corpus: Corpus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVENTS_MAX", 3)
    for i in range(5):
        fetch(corpus, clock, 1, digest=b"%d" % i)
    history = of(corpus, with_beliefs=False)
    assert len(history.polls) == 3
    assert not history.is_whole


def test_a_page_that_is_not_tracked_has_no_history(corpus: Corpus) -> None:
    assert read_page_history(corpus, "https://a.example/3") is None


def test_the_callback_counts_every_record(corpus: Corpus, clock: ManualClock) -> None:
    fetch(corpus, clock, 1, digest=b"a")
    for with_beliefs in (True, False):
        counts: list[int] = []
        read_page_history(corpus, URL, with_beliefs=with_beliefs, on_record=counts.append)
        assert sum(counts) == corpus.nodes[0].position


def test_as_dict_has_plain_values(corpus: Corpus, clock: ManualClock) -> None:
    fetch(corpus, clock, 1, digest=b"a")
    corpus.signal([URL], source="feed")
    plain = of(corpus).as_dict()
    assert plain["polls"][0]["verdict"] == "changed"
    assert plain["polls"][0]["transition"] == "new"
    assert plain["signals"][0]["source"] == "feed"
    assert set(plain["believed"]) == {"at_ms", "freshness", "value", "price"}
    assert of(corpus, with_beliefs=False).as_dict()["believed"] is None


def test_only_the_end_of_a_long_log_is_read_if_a_limit_says_so(
    corpus: Corpus, clock: ManualClock
) -> None:
    for hour in range(6):
        fetch(corpus, clock, 1, digest=b"%d" % (hour // 2))
    whole = of(corpus)
    n_records = corpus.n_log_records(URL)
    same = read_page_history(corpus, URL, n_records_max=n_records)
    assert same is not None
    assert same.polls == whole.polls
    assert not same.is_belief_present
    cut = read_page_history(corpus, URL, n_records_max=n_records // 2)
    assert cut is not None
    assert cut.is_belief_present
    assert not cut.is_whole
    assert 0 < len(cut.polls) < len(whole.polls)
    times = [poll.fetched_at_ms for poll in cut.polls]
    assert times == [poll.fetched_at_ms for poll in whole.polls][-len(times) :]
    assert whole.from_ms < cut.from_ms <= times[0]
    assert cut.believed is not None
    assert np.nanmax(cut.believed.freshness) == 1
    assert np.nanmin(cut.believed.freshness) < 1
    assert cut.ahead is not None
    for history in (whole, cut):
        again = PageHistory.from_dict({"url": URL, **history.as_dict()})
        assert [is_change(poll) for poll in again.polls] == [
            is_change(poll) for poll in history.polls
        ]
        assert again.as_dict()["orders"] == history.as_dict()["orders"]
