"""Given URLs get an order, or the reason why not."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from recrawl import Corpus, Outcome
from recrawl.corpus import LeasedUrls, Why
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
HOUR, DAY = 3_600, 86_400
POLITE = {"delay": 10, "in_flight_max": 1, "burst": 1}
URLS = [f"https://h{i % 3}.example/page/{i}" for i in range(30)]


def whys(found: LeasedUrls) -> list[Why]:
    return [answer.why for answer in found]


@pytest.mark.parametrize("partitions", [1, 3])
def test_orders_are_those_of_any_lease(open_corpus: Open, partitions: int) -> None:
    corpus = open_corpus(corpus={"partitions": partitions})
    corpus.add(URLS[:20])
    found = corpus.lease_urls([URLS[3], URLS[25], "https://H1.example/page/1#top", "no url"])
    assert whys(found) == [Why.DUE, Why.NOT_TRACKED, Why.DUE, Why.INVALID_URL]
    assert [answer.order and answer.order.url for answer in found] == [
        *(URLS[3], None),
        *(URLS[1], None),
    ]
    assert found[2].url == "https://H1.example/page/1#top"
    assert found.counts() == {Why.DUE: 2, Why.NOT_TRACKED: 1, Why.INVALID_URL: 1}
    assert whys(corpus.lease_urls([URLS[3]])) == [Why.IN_FLIGHT]
    reported = corpus.report(Outcome(handle=o.handle, digest=b"a") for o in found.orders)
    assert reported.counted.all()
    state = corpus.explain(URLS[3])
    assert state is not None
    assert state.state.fetched_at_ms is not None


def test_orders_survive_a_restart(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    (answer,) = corpus.lease_urls(URLS[:1])
    corpus.close()
    corpus = open_corpus()
    (again,) = corpus.lease_urls(URLS[:1])
    assert again.why == Why.IN_FLIGHT
    assert again.seconds == pytest.approx(300)
    assert again.text == "a fetcher has it already; its lease ends in 5 min"
    assert answer.order is not None
    assert corpus.release([answer.order.handle]) == 1
    assert whys(corpus.lease_urls(URLS[:1])) == [Why.DUE]


def test_unknown_urls_can_be_added_in_the_same_call(open_corpus: Open) -> None:
    corpus = open_corpus()
    found = corpus.lease_urls([*URLS, "no url", URLS[0]], add=True)
    assert whys(found) == [Why.DUE] * 30 + [Why.INVALID_URL, Why.IN_FLIGHT]
    assert corpus.n_pages == 30


def test_the_budget_pays_for_given_urls(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "12/h"})
    corpus.add(URLS)
    found = corpus.lease_urls(URLS)
    assert found.counts() == {Why.DUE: 12, Why.BUDGET_SPENT: 18}
    assert whys(found)[:12] == [Why.DUE] * 12
    assert found[29].seconds == pytest.approx(300)
    assert corpus.lease(5) == []
    clock.pass_seconds(HOUR / 2)
    assert corpus.lease_urls(URLS).counts()[Why.DUE] == 6


def test_a_run_pays_for_given_urls(open_corpus: Open) -> None:
    corpus = open_corpus(budget={"rate": "5/run"})
    corpus.add(URLS)
    assert corpus.lease_urls(URLS[:3], run="a").counts() == {Why.DUE: 3}
    assert corpus.lease_urls(URLS[3:], run="a").counts() == {Why.DUE: 2, Why.RUN_SPENT: 25}
    assert len(corpus.lease(9, run="b")) == 5


def test_cost_is_paid_until_it_is_spent(open_corpus: Open) -> None:
    corpus = open_corpus(budget={"rate": "10/h", "unit": "cost"})
    corpus.add(URLS, cost=4)
    assert corpus.lease_urls(URLS).counts()[Why.DUE] == 3


def test_hosts_must_wait(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(politeness=POLITE)
    corpus.add(URLS)
    corpus.set_host("h2.example", is_closed=True)
    found = corpus.lease_urls(URLS[:6])
    assert whys(found)[:3] == [Why.DUE, Why.DUE, Why.GROUP_CLOSED]
    assert whys(found)[3:] == [Why.GROUP_BUSY, Why.GROUP_BUSY, Why.GROUP_CLOSED]
    corpus.report(Outcome(handle=order.handle, digest=b"a") for order in found.orders)
    clock.pass_seconds(3)
    (answer,) = corpus.lease_urls(URLS[3:4])
    assert (answer.why, answer.seconds) == (Why.GROUP_RESTING, 7.0)
    clock.pass_seconds(7)
    assert whys(corpus.lease_urls(URLS[3:4])) == [Why.DUE]


def test_several_of_a_host_at_once_are_spaced(open_corpus: Open) -> None:
    corpus = open_corpus(politeness={"delay": 10, "in_flight_max": 9, "burst": 2})
    corpus.add(URLS)
    found = corpus.lease_urls(URLS[::3])
    assert found.counts() == {Why.GROUP_RESTING: 8, Why.DUE: 2}


def test_a_page_is_ordered_when_it_is_worth_the_price(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(budget={"rate": "10/day"})
    corpus.add(URLS)
    for url in URLS:
        corpus.report(Outcome(url=url, digest=b"a"))
    clock.pass_seconds(60)
    found = corpus.lease_urls(URLS)
    assert found.counts() == {Why.NOT_YET: 30}
    wait = float(found.seconds.min())
    assert HOUR < wait < 60 * DAY
    n_ordered = 0
    for _ in range(30):
        clock.pass_seconds(DAY)
        found = corpus.lease_urls(URLS)
        n_ordered += len(found.orders)
        corpus.report(Outcome(handle=order.handle, digest=b"a") for order in found.orders)
    # Prior knowledge is uncertain, so spending is only near the budget of 300.
    assert 60 <= n_ordered <= 310


def test_min_age_errors_and_pages_given_up(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(pattern=[{"match": "/page/0", "min_age": "2h"}])
    corpus.add(URLS)
    corpus.report(Outcome(url=URLS[0], digest=b"a"))
    corpus.report(Outcome(url=URLS[1], status=503))
    for _ in range(20):
        clock.pass_seconds(DAY)
        corpus.report(Outcome(url=URLS[2], status=404))
    corpus.report([Outcome(url=URLS[0], digest=b"a"), Outcome(url=URLS[1], status=503)])
    clock.pass_seconds(1)
    found = corpus.lease_urls(URLS[:3])
    assert whys(found) == [Why.FLOOR, Why.BACKING_OFF, Why.RETIRED]
    assert found[0].seconds == pytest.approx(2 * HOUR, abs=2)


def test_outside_the_hours_of_the_budget(open_corpus: Open, clock: ManualClock) -> None:
    clock.wall = 1_718_445_600_000  # 2024-06-15 10:00 UTC
    corpus = open_corpus(budget={"rate": "10/day", "between": "01:00-05:00"})
    corpus.add(URLS)
    found = corpus.lease_urls(URLS[:2])
    assert [(a.why, a.seconds) for a in found] == [(Why.OUTSIDE_WINDOW, 15.0 * HOUR)] * 2


def test_answers_are_a_sequence_and_columns(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:2])
    found = corpus.lease_urls(np.array(URLS[:4]))
    assert len(found) == 4
    assert found[-1].url == URLS[3]
    assert [answer.url for answer in found[1:3]] == URLS[1:3]
    assert [order is None for order in found.order] == [False, False, True, True]
    assert found[3].as_dict() == {
        "url": URLS[3],
        "why": "not_tracked",
        "seconds": None,
        "text": "the URL is not tracked",
    }
    assert len(corpus.lease_urls([])) == 0
