"""A lease says why it has fewer pages than requested."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pytest

from recrawl import Corpus, Outcome
from recrawl.corpus import Shortfall, Why, explanation_words
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
HOUR, DAY = 3_600, 86_400
POLITE = {"delay": 10, "in_flight_max": 1, "burst": 1}
URLS = [f"https://h{i % 3}.example/page/{i}" for i in range(30)]


def shortfall(corpus: Corpus, n: int, **arguments: Any) -> Shortfall:
    found = corpus.lease(n, **arguments).shortfall
    assert found is not None
    assert found.n_requested == n
    assert found.as_dict()["text"] == found.text
    return found


def whys(found: Shortfall) -> list[tuple[Why, int | None]]:
    return [(reason.why, reason.n_pages) for reason in found.reasons]


def test_a_whole_lease_has_no_shortfall(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    assert corpus.lease(30).shortfall is None


def test_a_corpus_without_pages(open_corpus: Open) -> None:
    found = shortfall(open_corpus(), 5)
    assert whys(found) == [(Why.NO_PAGES, None)]
    assert found.seconds is None


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_spent_budget(open_corpus: Open, clock: ManualClock, partitions: int) -> None:
    corpus = open_corpus(corpus={"partitions": partitions}, budget={"rate": "12/h"})
    corpus.add(URLS)
    found = shortfall(corpus, 30)
    assert [reason.why for reason in found.reasons] == [Why.BUDGET_SPENT]
    assert 10 <= found.n_leased <= 12
    # Each partition earns its own share.
    assert found.seconds == pytest.approx(300 * partitions, rel=0.2)
    if partitions == 1:
        assert found.text == (
            "12 of 30 pages: the budget of 12 fetches/h is spent for now, the next fetch is "
            "possible in 5 min."
        )
    clock.pass_seconds(HOUR / 2)
    assert shortfall(corpus, 16).n_leased > 1


def test_explain_says_that_the_budget_is_spent(open_corpus: Open) -> None:
    corpus = open_corpus(budget={"rate": "12/h"})
    corpus.add(URLS)
    leased = {order.url for order in corpus.lease(30)}
    page = corpus.explain(next(url for url in URLS if url not in leased))
    assert page is not None
    assert page.as_dict()["budget_wait_seconds"] == pytest.approx(300)
    text = "The budget is spent for now; the next fetch is possible in 5 min."
    assert text in explanation_words(page)


def test_the_wait_for_all_missing_pages_is_named(open_corpus: Open) -> None:
    corpus = open_corpus(budget={"rate": "12/h"})
    corpus.add(URLS)
    corpus.lease(8)
    assert "is possible in 5 min and 6 in 30 min" in shortfall(corpus, 10).text


def test_a_spent_run_and_a_budget_of_0(open_corpus: Open) -> None:
    corpus = open_corpus(budget={"rate": "7/run"})
    corpus.add(URLS)
    found = shortfall(corpus, 9, run="night")
    assert whys(found) == [(Why.RUN_SPENT, None)]
    assert found.text == ("7 of 9 pages: the budget of 7 fetches/run is spent in the run 'night'.")
    corpus.set_budget("0/h")
    assert whys(shortfall(corpus, 9)) == [(Why.NO_BUDGET, None)]


def test_hosts_that_wait_and_pages_that_are_leased(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(politeness=POLITE)
    corpus.add(URLS)
    orders = corpus.lease(2)
    found = shortfall(corpus, 5)
    assert found.n_leased == 1
    assert whys(found) == [(Why.GROUP_BUSY, 27), (Why.IN_FLIGHT, 2)]
    assert found.seconds == pytest.approx(300)
    corpus.report(Outcome(handle=order.handle, digest=b"a") for order in orders)
    clock.pass_seconds(4)
    found = shortfall(corpus, 5)
    assert whys(found)[:2] == [(Why.GROUP_RESTING, 20), (Why.GROUP_BUSY, 9)]
    assert found.seconds == pytest.approx(6)
    assert (
        "20 pages are on hosts that wait between fetches (the next in 6 s; see politeness.delay"
        in found.text
    )


def test_closed_and_paused_hosts_and_errors(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([*URLS, "https://e.example/"])
    corpus.set_host("h0.example", is_closed=True)
    corpus.set_host("h1.example", blocked_until_ms=clock.wall_ms() + 60_000)
    corpus.report(Outcome(url="https://e.example/", status=503))
    found = shortfall(corpus, 50)
    assert found.n_leased == 10
    assert set(whys(found)) == {
        (Why.GROUP_CLOSED, 10),
        (Why.GROUP_BLOCKED, 10),
        (Why.BACKING_OFF, 1),
    }


def test_pages_not_worth_a_fixed_price(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"price": 3_600})
    corpus.add(URLS)
    corpus.report(Outcome(url=url, digest=b"a") for url in URLS)
    clock.pass_seconds(1)
    found = shortfall(corpus, 5)
    assert whys(found) == [(Why.NOT_YET, 30)]
    assert found.seconds is not None
    clock.pass_seconds(found.seconds + 2)
    assert len(corpus.lease(5)) > 0


def test_one_lease_has_a_largest_size(open_corpus: Open) -> None:
    corpus = open_corpus(picker={"orders_max": 8})
    corpus.add(URLS)
    found = shortfall(corpus, 20)
    assert (found.n_leased, found.reasons[0].why) == (8, Why.LEASE_FULL)


def test_all_pages_are_in_the_lease(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    assert "all other pages are in this lease" in shortfall(corpus, 40).text


# ---------------------------------------------------------------------- time windows


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_outside_its_hours_nothing_is_leased_and_the_budget_is_saved_up(
    open_corpus: Open, clock: ManualClock
) -> None:
    clock.wall = at("2024-06-15T10:00")
    corpus = open_corpus(
        budget={"rate": "24/day", "between": "01:00-05:00", "time_zone": "Europe/Berlin"}
    )
    corpus.add([f"https://h.example/{i}" for i in range(200)])
    found = shortfall(corpus, 100)
    assert whys(found) == [(Why.OUTSIDE_WINDOW, None)]
    assert found.seconds == 13 * HOUR
    assert corpus.wait_seconds() == 13 * HOUR
    assert "only between 01:00-05:00 (Europe/Berlin), next in 13 h" in found.text
    clock.pass_seconds(13 * HOUR)
    assert len(corpus.lease(100)) == 24
    clock.pass_seconds(4 * HOUR)
    assert whys(shortfall(corpus, 100)) == [(Why.OUTSIDE_WINDOW, None)]
    clock.pass_seconds(20 * HOUR)
    assert len(corpus.lease(100)) == 24


def test_paced_waits_for_the_window(open_corpus: Open, clock: ManualClock) -> None:
    clock.wall = at("2024-06-15T00:59:30")
    corpus = open_corpus(budget={"rate": "3/run", "between": ["01:00-05:00"]})
    corpus.add(URLS)
    assert len(list(corpus.paced())) == 3
    assert clock.wall_ms() >= at("2024-06-15T01:00")
