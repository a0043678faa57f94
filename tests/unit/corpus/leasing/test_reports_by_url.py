"""A report by URL answers the order of its page, so that the page and its host are free again."""

from collections.abc import Callable
from typing import TypeAlias

from recrawl.corpus import Corpus, Outcome
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
PAGES = ["https://a.example/1", "https://a.example/2"]
POLITE = {"delay": 0, "in_flight_max": 1, "burst": 1}


def test_a_report_by_url_ends_the_lease_of_its_page(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(politeness=POLITE)
    corpus.add(PAGES)
    (order,) = corpus.lease(2)
    assert corpus.lease(2) == []  # the host allows one at a time
    clock.pass_seconds(5)
    assert corpus.report(Outcome(url=order.url, digest=b"1")).counted.all()
    assert corpus.stats().in_flight == 0
    (other,) = corpus.lease(2)
    assert other.url != order.url
    # The order has been answered.
    clock.pass_seconds(5)
    assert not corpus.report(Outcome(handle=order.handle, digest=b"2")).counted.any()
    assert corpus.report(Outcome(handle=other.handle, digest=b"2")).counted.all()


def test_a_failed_fetch_by_url_ends_the_lease_too(open_corpus: Open) -> None:
    corpus = open_corpus(politeness=POLITE)
    corpus.add(PAGES)
    (order,) = corpus.lease(2)
    assert corpus.report(Outcome(url=order.url, status=503)).counted.all()
    assert corpus.stats().in_flight == 0


def test_a_fetch_before_the_order_leaves_the_lease(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(politeness=POLITE)
    corpus.add(PAGES)
    before_ms = corpus.now_ms()
    clock.pass_seconds(60)
    (order,) = corpus.lease(2)
    clock.pass_seconds(5)
    early = Outcome(url=order.url, digest=b"1", fetched_at_ms=before_ms)
    assert corpus.report(early).counted.all()
    assert corpus.stats().in_flight == 1
    assert corpus.report(Outcome(handle=order.handle, digest=b"1")).counted.all()


def test_the_first_of_several_answers_ends_the_lease(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(PAGES)
    orders = corpus.lease(2)
    clock.pass_seconds(60)
    now_ms = corpus.now_ms()
    first, second = orders
    found = [
        Outcome(url=first.url, digest=b"1", fetched_at_ms=now_ms - 30_000),
        Outcome(url=first.url, digest=b"2", fetched_at_ms=now_ms - 20_000),
        Outcome(handle=first.handle, digest=b"3", fetched_at_ms=now_ms - 10_000),
        Outcome(handle=second.handle, digest=b"1", fetched_at_ms=now_ms - 30_000),
        Outcome(url=second.url, digest=b"2", fetched_at_ms=now_ms - 20_000),
    ]
    assert corpus.report(found).counted.tolist() == [True, True, False, True, True]
    assert corpus.stats().in_flight == 0


def test_reports_of_pages_without_an_order_are_as_before(open_corpus: Open) -> None:
    corpus = open_corpus(politeness=POLITE)
    corpus.add(PAGES)
    (order,) = corpus.lease(1)
    (other,) = set(PAGES) - {order.url}
    assert corpus.report(Outcome(url=other, digest=b"1")).counted.all()
    assert corpus.stats().in_flight == 1
