"""The fetcher keeps the promises of the protocol, and is polite in ways of its own."""

import pytest

from recrawl.fetch import HttpFetcher
from recrawl.testing.fetchers import FETCHER_CHECKS, FetcherCheck


@pytest.mark.parametrize("check", FETCHER_CHECKS, ids=lambda check: check.__name__)
def test_the_promises_of_a_fetcher(check: FetcherCheck) -> None:
    check(HttpFetcher)
