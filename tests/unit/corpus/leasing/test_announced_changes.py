"""Orders have validators, unless signals say that the page has changed."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from recrawl import Corpus, Order, Outcome
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
DAY = 86_400
URLS = [f"https://h{i}.example/" for i in range(4)]
ETAG, LAST_MODIFIED = b'"1"', b"Thu, 01 Jan 2026 00:00:00 GMT"


def outcome(digest: bytes, *, url: str | None = None, handle: int = 0) -> Outcome:
    return Outcome(url=url, handle=handle, digest=digest, etag=ETAG, last_modified=LAST_MODIFIED)


def lease_all(corpus: Corpus) -> dict[str, Order]:
    """Return an order for each page, by its URL."""
    return {order.url: order for order in corpus.lease_urls(URLS).orders}


def has_validators(order: Order) -> bool:
    both = order.etag, order.last_modified
    assert both in ((ETAG, LAST_MODIFIED), (None, None))
    return both != (None, None)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_page_that_a_reliable_source_says_has_changed_is_fetched_as_a_whole(
    open_corpus: Open, clock: ManualClock, partitions: int
) -> None:
    corpus = open_corpus(corpus={"partitions": partitions}, signals={"precision": 0.9})
    corpus.add(URLS)
    corpus.report(outcome(b"a", url=url) for url in URLS)
    clock.pass_seconds(DAY)
    corpus.signal(URLS[:1], source="sitemap")
    orders = lease_all(corpus)
    assert [has_validators(orders[url]) for url in URLS] == [False, True, True, True]
    # The next order is conditional again: the fetch has answered the signal.
    corpus.report(outcome(b"b", handle=orders[url].handle) for url in URLS)
    clock.pass_seconds(DAY)
    assert [has_validators(order) for order in lease_all(corpus).values()] == [True] * 4


def test_a_source_that_was_wrong_is_not_believed(open_corpus: Open, clock: ManualClock) -> None:
    """The second call has tested 16 of its signals, all false."""
    urls = [f"https://one.example/{i}" for i in range(20)]
    polite = {"delay": 0, "in_flight_max": 20, "burst": 20}
    corpus = open_corpus(politeness=polite)
    corpus.add(urls)
    corpus.report(outcome(b"a", url=url) for url in urls)
    for is_conditional in (False, True):
        clock.pass_seconds(300 * DAY)
        corpus.signal(urls, source="sitemap")
        orders = corpus.lease(20)
        assert {has_validators(order) for order in orders} == {is_conditional}
        assert len(orders) > 16
        corpus.report(outcome(b"a", handle=order.handle) for order in orders)
