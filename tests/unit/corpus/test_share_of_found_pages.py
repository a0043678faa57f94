"""A trap and a huge site stay within their share of the fetches while a corpus is being filled.

The loop is that of a fetcher that follows links: it leases, reports, and adds what it has found.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from recrawl.corpus import Corpus, Outcome, explanation_words
from recrawl.shard.explain import Why
from tests.manual_clock import ManualClock

N_ORDINARY = 24
PER_LEASE = 12
LEASES = 25


def found_on_trap(url: str) -> list[str]:
    """Return the links of a page of a calendar without end."""
    return [f"{url.rstrip('/')}/{day}" for day in range(10)]


def found_on_huge_site(url: str) -> list[str]:
    """Return the entries of a sitemap that is read with the first page."""
    return [f"{url}{page}" for page in range(300)] if urlsplit(url).path == "/" else []


def crawl(
    corpus: Corpus, clock: ManualClock, found: Mapping[str, Callable[[str], list[str]]]
) -> Counter[str]:
    """Crawl for a few days; return the number of fetches by host."""
    n_fetches: Counter[str] = Counter()
    for _ in range(LEASES):
        clock.pass_seconds(6 * 3600.0)
        orders = corpus.lease(PER_LEASE)
        for order in orders:
            host = urlsplit(order.url).hostname or ""
            n_fetches[host] += 1
            text = f"<p>The page {order.url} as of fetch {n_fetches[host]} of its host."
            corpus.report(Outcome(handle=order.handle, body=text.encode()))
            if host in found:
                corpus.add(found[host](order.url))
    return n_fetches


def open_with_sites(open_corpus: Callable[..., Corpus], n_ordinary: int, *others: str) -> Corpus:
    corpus = open_corpus(budget={"rate": f"{4 * PER_LEASE}/d", "burst": "6h"})
    urls = [
        f"http://ordinary-{host}.example/{page}" for host in range(n_ordinary) for page in range(8)
    ]
    corpus.add([*urls, *(f"http://{host}/" for host in others)])
    return corpus


@pytest.mark.slow_without_jit
def test_traps_and_huge_sites_have_a_share_while_a_corpus_is_filled(
    open_corpus: Callable[..., Corpus], clock: ManualClock
) -> None:
    corpus = open_with_sites(open_corpus, N_ORDINARY, "trap.example", "huge.example")
    found = {"trap.example": found_on_trap, "huge.example": found_on_huge_site}
    n_fetches = crawl(corpus, clock, found)
    total = sum(n_fetches.values())
    assert total > 0.9 * LEASES * PER_LEASE
    assert corpus.n_pages_of_host("trap.example") > 50
    # A domain brings its first page and 20 others freely, and has saved up eight fetches.
    for host in found:
        assert 0.03 * total < n_fetches[host] <= 0.05 * total + 1 + 20 + 8, host
    page = corpus.explain("http://huge.example/299")
    assert page is not None
    assert page.state.why == Why.SHARE_SPENT
    text = explanation_words(page)
    assert "huge.example has used its share of the budget for new pages" in text


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("n_ordinary", [0, 1])
def test_a_site_that_is_nearly_alone_gets_everything(
    open_corpus: Callable[..., Corpus], clock: ManualClock, n_ordinary: int
) -> None:
    corpus = open_with_sites(open_corpus, n_ordinary, "huge.example")
    n_fetches: Any = crawl(corpus, clock, {"huge.example": found_on_huge_site})
    assert n_fetches["huge.example"] >= 0.9 * LEASES * PER_LEASE - 8
    assert corpus.newcomers() == {}
