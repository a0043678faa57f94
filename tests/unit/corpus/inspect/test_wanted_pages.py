"""A person who has a page fetched now says nothing about the page."""

from collections.abc import Callable

import pytest

import recrawl
from recrawl.corpus import Corpus, Outcome, PageExplanation, explanation_words
from recrawl.node.settings.urgent import OPERATOR
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URL, OTHER = "https://a.example/1", "https://a.example/2"


def explain(corpus: Corpus, url: str) -> PageExplanation:
    page = corpus.explain(url)
    assert page is not None
    return page


def fetch_alike(corpus: Corpus, clock: ManualClock, *, wants: str | None) -> None:
    """Fetch two pages at the same times with the same results; want one of them before each."""
    corpus.add([URL, OTHER])
    for i in range(6):
        clock.pass_seconds(7_200)
        digest = bytes([i // 2])
        if wants is not None:
            corpus.fetch_now([wants])
            clock.pass_seconds(5)
        corpus.report([Outcome(url=url, digest=digest) for url in (URL, OTHER)])


def test_a_wish_makes_a_page_due_and_is_no_evidence(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "100/h"})
    fetch_alike(corpus, clock, wants=URL)
    wanted, other = explain(corpus, URL), explain(corpus, OTHER)
    # Codes of beliefs are rounded by chance, differently for each page.
    assert wanted.state.change_rate_per_second == pytest.approx(
        other.state.change_rate_per_second, rel=0.1
    )
    assert wanted.state.signal_recall == other.state.signal_recall == 0
    assert (wanted.sources, wanted.state.sources) == ((), ())
    assert corpus.sources().rows == []
    assert corpus.sample().sources == []
    assert (corpus.sources().n_sources, corpus.sample().n_sources) == (0, 0)
    # In another corpus nobody wanted it; beliefs there are rounded as here.
    twin = open_corpus("twin", budget={"rate": "100/h"})
    clock_then = clock.wall_ms()
    fetch_alike(twin, clock, wants=None)
    assert clock.wall_ms() > clock_then
    assert explain(twin, URL).state.change_rate_per_second == pytest.approx(
        wanted.state.change_rate_per_second, rel=0.05
    )


def test_a_wish_lasts_until_the_fetch(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "100/h"})
    fetch_alike(corpus, clock, wants=None)
    clock.pass_seconds(60)
    before = explain(corpus, URL)
    corpus.fetch_now([URL])
    asked_at_ms = clock.wall_ms()
    clock.pass_seconds(30)
    page = explain(corpus, URL)
    assert page.wanted_at_ms == asked_at_ms
    assert page.state.value > 2 * before.state.value
    assert page.state.freshness_probability == pytest.approx(
        before.state.freshness_probability, abs=0.02
    )
    # All faces show the same freshness.
    pages, _ = corpus.pages_of_host("a.example", columns=("url", "freshness_probability"))
    shown = dict(zip(*pages.to_pydict().values(), strict=True))
    assert shown[URL] == pytest.approx(page.state.freshness_probability, abs=1e-9)
    means = [corpus.stats().freshness_modelled, corpus.sample().total.freshness]
    assert means == pytest.approx([sum(shown.values()) / 2] * 2, abs=1e-6)
    assert "Somebody asked 30 s ago to have it fetched now." in explanation_words(page)
    assert all(one.source is None for one in page.state.forward)
    assert corpus.lease(1)[0].url == URL
    corpus.report([Outcome(url=URL, digest=b"z")])
    assert explain(corpus, URL).wanted_at_ms is None
    history = corpus.history(URL)
    assert history is not None
    assert [one.source for one in history.signals] == [OPERATOR]


def test_a_wish_survives_a_replay_of_the_log(
    open_corpus: Open, clock: ManualClock, tmp_path: object
) -> None:
    corpus = open_corpus(budget={"rate": "100/h"})
    fetch_alike(corpus, clock, wants=None)
    corpus.fetch_now([URL])
    corpus.signal([OTHER], source="sitemap")
    before = explain(corpus, URL), explain(corpus, OTHER), corpus.sample()
    config, folder = corpus.config, tmp_path / "corpus"  # type: ignore[operator]
    corpus.close()
    with recrawl.open(folder, config, clock=clock) as again:
        assert (explain(again, URL), explain(again, OTHER), again.sample()) == before


def test_a_corpus_in_which_wishes_were_evidence_forgets_that(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(budget={"rate": "100/h"})
    fetch_alike(corpus, clock, wants=None)
    clock.pass_seconds(60)
    corpus.signal([URL], source=OPERATOR)  # as a signal like any other
    assert [row.source for row in corpus.sources().rows] == [OPERATOR]
    clock.pass_seconds(60)
    corpus.fetch_now([URL])
    assert corpus.sources().rows == []
    assert explain(corpus, URL).state.signal_recall == 0
