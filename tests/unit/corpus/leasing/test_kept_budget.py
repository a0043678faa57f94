"""Leases do not spend kept budget on fresh copies, and every face says what a lease returns."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from recrawl import Corpus, Order, Outcome
from recrawl.corpus import Why, explanation_words
from recrawl.shard import Reason
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
HOUR, DAY = 3_600, 86_400
URLS = [f"https://h{i % 5}.example/page/{i}" for i in range(20)]


def fetch(corpus: Corpus, n: int) -> list[Order]:
    orders = corpus.lease(n)
    corpus.report(Outcome(handle=order.handle, digest=b"same") for order in orders)
    return orders


def fetch_twice(corpus: Corpus, clock: ManualClock) -> None:
    """Fetch all pages twice: from then on copies that are almost certainly fresh wait."""
    for url in URLS * 2:
        clock.pass_seconds(1)
        corpus.report(Outcome(url=url, digest=b"same"))


def fetch_until_empty(corpus: Corpus, n: int, n_most: int = 1_000) -> list[Order]:
    """Lease and report as a spider does, until a lease is empty."""
    found: list[Order] = []
    while len(found) < n_most and (orders := fetch(corpus, n)):
        found += orders
    return found


@pytest.mark.parametrize("rate", ["100/day", "100/run"])
def test_a_spider_fetches_each_page_once(open_corpus: Open, clock: ManualClock, rate: str) -> None:
    corpus = open_corpus(budget={"rate": rate})
    corpus.add(URLS)
    assert sorted(order.url for order in fetch_until_empty(corpus, 10)) == sorted(URLS)
    fetch_twice(corpus, clock)
    assert fetch_until_empty(corpus, 10) == []
    # The rest of the budget is there when something changes.
    assert corpus.stats().credit == pytest.approx(80, abs=0.1)
    clock.pass_seconds(HOUR)
    corpus.signal(URLS[:3], source="sitemap")
    assert len(fetch(corpus, 10)) >= 1


@pytest.mark.parametrize("rate", ["100/day", "100/run"])
def test_all_faces_say_that_fresh_copies_wait(
    open_corpus: Open, clock: ManualClock, rate: str
) -> None:
    corpus = open_corpus(budget={"rate": rate})
    corpus.add(URLS)
    fetch_twice(corpus, clock)
    corpus.lease(1, run="another")  # sets the price
    fetch_twice(corpus, clock)
    clock.pass_seconds(60)
    shortfall = corpus.lease(5).shortfall
    assert shortfall is not None
    assert [(one.why, one.n_pages) for one in shortfall.reasons] == [(Why.NOT_YET, 20)]
    stats = corpus.stats()
    assert (stats.n_due, stats.n_early) == (0, 0)
    assert corpus.lease_urls(URLS).counts() == {Why.NOT_YET: 20}
    page = corpus.explain(URLS[0])
    assert page is not None
    assert page.why == Why.NOT_YET
    # Leases return the page from then on: now all faces say so.
    from_ms = page.state.early_from_ms or page.state.due_at_ms
    assert from_ms is not None
    assert shortfall.seconds == pytest.approx((from_ms - corpus.now_ms()) / 1000, rel=0.05)
    clock.pass_seconds(1.05 * (from_ms - corpus.now_ms()) / 1000)
    stats = corpus.stats()
    assert stats.n_due + stats.n_early == 20
    assert len(corpus.lease(20)) == 20


def test_a_page_below_the_price_is_leased_while_budget_is_left(
    open_corpus: Open, clock: ManualClock
) -> None:
    # About a fetch per page in three weeks.
    corpus = open_corpus(budget={"rate": "30/month"})
    corpus.add(URLS)
    assert len(fetch_until_empty(corpus, 10)) == 1
    fetch_twice(corpus, clock)
    clock.pass_seconds(DAY)
    fetch_until_empty(corpus, 10)
    fetch_twice(corpus, clock)
    clock.pass_seconds(5 * DAY)
    page = corpus.explain(URLS[0])
    assert page is not None
    assert page.why == Why.EARLY
    assert "A fetcher may get it before that" in explanation_words(page)
    stats = corpus.stats()
    assert stats.n_due == 0
    assert stats.n_early == 20
    # Given URLs come in the order of the spider, not the best first: the price decides.
    assert corpus.lease_urls(URLS).counts() == {Why.NOT_YET: 20}
    orders = corpus.lease(2)
    assert [order.reason for order in orders] == [Reason.SPARE, Reason.SPARE]


def test_full_budget_is_used_for_fresh_copies_too(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "100/day"})
    corpus.add(URLS)
    fetch_until_empty(corpus, 20)
    fetch_twice(corpus, clock)
    n_fetches = 0
    for _ in range(4 * 24):
        clock.pass_seconds(HOUR / 2)
        n_fetches += len(fetch_until_empty(corpus, 10))
    # Two days earn 200 fetches; about half of what can be kept stays unspent.
    assert 200 <= n_fetches <= 240
    credit = corpus.stats().credit
    assert credit is not None
    assert credit > 40


def test_a_nightly_job_spends_its_day(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "10/day"})
    corpus.add(URLS)
    for night in range(12):
        n_fetched = len(fetch(corpus, 50))
        assert n_fetched == 10, night
        clock.pass_seconds(DAY)


def test_without_a_budget_nothing_is_kept(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    for _ in range(3):
        assert len(fetch(corpus, 30)) == 20
        clock.pass_seconds(1)
