"""The oracle of the month spends its budget, obeys robots.txt and uses hints."""

import numpy as np

from benchmarks.month_oracle import IGNORANCES, OracleRun, _documents, _Oracle, run_oracle
from recrawl.testing.web import (
    FeedKind,
    HostTraits,
    LocalWeb,
    RobotsKind,
    SitemapDates,
    SitemapForm,
    WebPage,
    mean_freshness,
)

_START_MS = 1_767_225_600_000
_N_DAYS = 4.0
_FETCHES_PER_DAY = 30.0


def make_web(dates: SitemapDates) -> tuple[LocalWeb, list[WebPage]]:
    hosts = [
        HostTraits(
            name=f"{kind}.example",
            page_kind=kind,
            n_pages=20,
            rate_spread=1.0,
            sitemap_dates=dates,
            robots=RobotsKind.DISALLOW_SOME,
        )
        for kind in ("weather", "product")
    ]
    web = LocalWeb(hosts, started_at_ms=_START_MS)
    return web, list(web.reachable_pages())


def freshness(web: LocalWeb, pages: list[WebPage], run: OracleRun) -> float:
    until_ms = _START_MS + round(_N_DAYS * 86_400_000)
    return mean_freshness(web, run.copies, from_ms=_START_MS, until_ms=until_ms, pages=pages)


def test_true_dates_are_worth_their_fetches_and_false_ones_are_not_read() -> None:
    web, pages = make_web(SitemapDates.RIGHT)
    with_dates = run_oracle(web, pages, _FETCHES_PER_DAY, _N_DAYS)
    without = run_oracle(web, pages, _FETCHES_PER_DAY, _N_DAYS, has_signals=False)
    assert with_dates.n_documents > 0
    assert freshness(web, pages, with_dates) > freshness(web, pages, without) + 0.02

    web, pages = make_web(SitemapDates.WRONG)
    with_false_dates = run_oracle(web, pages, _FETCHES_PER_DAY, _N_DAYS)
    assert with_false_dates.n_documents == 0


def test_it_spends_its_budget_on_pages_that_are_allowed() -> None:
    web, pages = make_web(SitemapDates.STALE)
    run = run_oracle(web, pages, _FETCHES_PER_DAY, _N_DAYS)
    assert run.n_fetches == round(_FETCHES_PER_DAY * _N_DAYS)
    assert run.n_fetches == len(run.copies) + run.n_documents + run.n_failures
    assert 0 < run.n_failures < 0.2 * run.n_fetches
    paths = {web.hosts[copy.host].path(copy.page) for copy in run.copies}
    assert not any(path.startswith("/private/") for path in paths)


def test_a_feed_tells_it_only_of_the_pages_that_it_lists() -> None:
    # Most pages change in the same instant, and the feed lists ten.
    traits = HostTraits(
        name="a.example",
        page_kind="legal_terms",
        n_pages=60,
        shocks_per_day=1.0,
        shock_share=0.9,
        sitemap=SitemapForm.MISSING,
        feed=FeedKind.RSS,
    )
    web = LocalWeb([traits], started_at_ms=_START_MS)
    pages = list(web.reachable_pages())
    (feed,) = _documents(web, pages, _N_DAYS * 86_400)
    oracle = _Oracle(web, pages, np.ones(len(pages)), [feed])
    oracle.fetched_at[:] = oracle.known_until[:] = 0.0
    oracle.has_changed[:] = False
    oracle.read(feed, 86_400 * _N_DAYS)
    assert np.count_nonzero(oracle.has_changed) == 10
    # Of the others it knows nothing new.
    assert np.count_nonzero(oracle.known_until > 0) == 0


def test_knowledge_is_worth_something() -> None:
    web, pages = make_web(SitemapDates.RIGHT)
    whole = freshness(web, pages, run_oracle(web, pages, _FETCHES_PER_DAY, _N_DAYS))
    for lack in IGNORANCES:
        run = run_oracle(web, pages, _FETCHES_PER_DAY, _N_DAYS, without=(lack,))
        assert 0.5 * whole < freshness(web, pages, run) < whole, lack
