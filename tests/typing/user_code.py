"""Code as users write it; it is type-checked, and not run as a test."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import recrawl
from recrawl.core.belief import GammaBelief, after_poll, mean_rate
from recrawl.core.value import crawl_value
from recrawl.corpus import Orders, Signalled
from recrawl.errors import RecrawlError
from recrawl.papers.change_rate import PollHistories, irregular_change_rate

assert_type(recrawl.__version__, str)


def value_of_scalars_lists_and_arrays() -> None:
    assert_type(crawl_value(1e-5, 3_600.0), NDArray[np.float64])
    assert_type(crawl_value([1e-5, 2e-5], 3_600, importance=[1, 2]), NDArray[np.float64])
    assert_type(crawl_value(np.full(3, 1e-5), np.arange(3)), NDArray[np.float64])


def rate_from_a_log_of_fetches() -> None:
    polls = PollHistories.from_rows([0, 0, 1], [6, 4, 3], [True, False, True], n_pages=2)
    rate, converged = irregular_change_rate(polls)
    assert_type(rate, NDArray[np.float64])
    assert_type(converged, NDArray[np.bool_])


def belief_after_a_poll() -> None:
    belief = after_poll(GammaBelief.of(0.5, 1e6), 3_600.0, True)
    assert_type(belief, GammaBelief)
    assert_type(mean_rate(belief), NDArray[np.float64])


def catch_what_recrawl_raises() -> str | None:
    try:
        crawl_value(1e-5, 3_600.0)
    except RecrawlError as error:
        return str(error)
    return None


def keep_a_corpus(folder: str) -> None:
    with recrawl.open(folder) as corpus:
        assert_type(corpus, recrawl.Corpus)
        assert_type(corpus.add(["https://example.com/"]).n_added, int)
        orders = corpus.lease(10)
        assert_type(orders, Orders)
        assert_type(orders[:3], list[recrawl.Order])
        if orders.shortfall is not None:
            assert_type(orders.shortfall.seconds, float | None)
        reported = corpus.report(
            recrawl.Outcome(handle=order.handle, status=200, digest=b"") for order in orders
        )
        assert_type(reported.counted, NDArray[np.bool_])
        assert_type([change.url for change in corpus.changes()], list[str])
        assert_type(corpus.signal(["https://example.com/"], source="sitemap"), Signalled)


async def keep_a_corpus_with_asyncio(folder: str) -> None:
    config = recrawl.CorpusConfig.from_toml('[budget]\nrate = "30/h"\n')
    async with recrawl.AsyncCorpus(folder, config) as corpus:
        async for order in corpus.paced(for_seconds=1.0):
            assert_type(order, recrawl.Order)
