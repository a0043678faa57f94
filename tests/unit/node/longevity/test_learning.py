"""A corpus learns from the content of fetches how much of each page a change replaces."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recrawl
from recrawl import Corpus, Outcome
from recrawl.core.divergence import pack_sketch
from recrawl.corpus.past.explanation_text import explanation_words
from recrawl.node.longevity.population import population_of
from recrawl.node.longevity.stored_profiles import PROFILE_BYTES, read_profiles
from recrawl.node.records import CurvePriorSet, PagesReported, entry_of
from recrawl.shard import CurvesSet
from recrawl.testing.stores import contents_of
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]

DAY = 86_400.0
N_WORDS = 200
# The tests read the whole log, so no snapshot may shorten it.
FRESHNESS: dict[str, Any] = {"snapshots": {"every": "500w", "keep": 1000}}
FRAGMENTS: dict[str, Any] = {"corpus": {"objective": "fragments"}, **FRESHNESS}
# Words that each page replaces between two polls.
REPLACED = {"https://still.example/": 0, "https://edited.example/": 4, "https://new.example/": 200}


class Site:
    """Pages of which some words are replaced every day."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._words = {url: self._draw(N_WORDS) for url in REPLACED}

    def _draw(self, n: int) -> Any:
        return self._rng.integers(0, 2**32, n, dtype=np.uint32)

    def next_day(self) -> None:
        """Replace some words of each page."""
        for url, n in REPLACED.items():
            self._words[url][self._rng.permutation(N_WORDS)[:n]] = self._draw(n)

    def outcome(self, url: str, **given: Any) -> Outcome:
        """Return the outcome of fetching a page."""
        hashes = np.unique(self._words[url])
        given.setdefault("sketch", pack_sketch(hashes[:64], n_fragments=hashes.size))
        return Outcome(url=url, digest=hashes.tobytes(), **given)


def poll_daily(corpus: Corpus, clock: ManualClock, site: Site, n_days: int, **given: Any) -> None:
    """Fetch every page once a day."""
    for _ in range(n_days):
        clock.pass_seconds(DAY)
        site.next_day()
        counted = corpus.report([site.outcome(url, **given) for url in REPLACED]).counted
        assert counted.all()


def profile_of(corpus: Corpus, url: str) -> bytes | None:
    """Return the stored profile of a page."""
    store = corpus.nodes[0].store
    page = store.pages_of(recrawl.urls.canonical([url]).url)
    return store.records_of(page).profile[0]


def entries_of(corpus: Corpus) -> list[Any]:
    """Return all entries of the log."""
    ledger = corpus.nodes[0].ledger
    found, position = [], 0
    while rows := ledger.read(position):
        found += [entry_of(record) for _, record in rows]
        position = rows[-1][0] + 1
    return found


def test_curves_are_learned_from_sketches_logged_and_explained(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(**FRAGMENTS)
    corpus.add(list(REPLACED))
    poll_daily(corpus, clock, Site(), 25)
    still, edited, new = (corpus.explain(url) for url in REPLACED)
    assert edited is not None
    assert new is not None
    assert new.state.ratio > 4 * edited.state.ratio
    assert new.longevity is not None
    assert edited.longevity is not None
    assert new.longevity.replaced_share > 0.8
    assert edited.longevity.replaced_share < 0.1
    assert edited.longevity.n_changes == 24
    assert new.longevity.half_life_seconds is not None
    assert edited.longevity.half_life_seconds is not None
    assert edited.longevity.half_life_seconds > 4 * new.longevity.half_life_seconds
    words = explanation_words(edited)
    assert "A change replaces about 2 % of its text. In the long run about " in words
    assert edited.as_dict()["longevity"]["n_changes"] == 24
    assert still is not None
    assert still.longevity is None
    entries = entries_of(corpus)
    assert any(isinstance(entry, CurvesSet) for entry in entries)
    assert any(isinstance(entry, CurvePriorSet) for entry in entries)
    reported = [entry for entry in entries if isinstance(entry, PagesReported)]
    divergence = reported[-1].outcomes.divergence
    assert divergence.tolist() == pytest.approx([0.0, 0.04, 1.0], abs=0.04)


def test_a_replay_of_the_log_gives_the_same_curves_and_profiles(
    open_corpus: Open, clock: ManualClock, tmp_path: Path
) -> None:
    corpus = open_corpus(**FRAGMENTS)
    corpus.add(list(REPLACED))
    poll_daily(corpus, clock, Site(), 20)
    node = corpus.nodes[0]
    n_slots = int(node.shard.tables.registers.n_slots[0])
    pages = node.shard.tables.pages
    before = [column[:n_slots].tolist() for column in (pages.ceiling, pages.ratio, pages.word)]
    stored, population = contents_of(node.store, n_slots), population_of(node.store)
    assert population[1] >= 50
    n_entries = len(entries_of(corpus))
    corpus.close()
    for name in ("store", "snapshots"):
        for folder in list((tmp_path / "corpus").rglob(name)):
            shutil.rmtree(folder)
    node = open_corpus(**FRAGMENTS).nodes[0]
    pages = node.shard.tables.pages
    after = [column[:n_slots].tolist() for column in (pages.ceiling, pages.ratio, pages.word)]
    assert after == before
    assert population_of(node.store) == population
    again = contents_of(node.store, n_slots)
    assert again["pages"] == stored["pages"]
    assert again["position"] >= n_entries


def test_outcomes_of_one_page_together_teach_the_same_as_in_turn(
    open_corpus: Open, clock: ManualClock
) -> None:
    together, in_turn = open_corpus("a", **FRAGMENTS), open_corpus("b", **FRAGMENTS)
    site = Site()
    outcomes = []
    for corpus in (together, in_turn):
        corpus.add(list(REPLACED))
    for _ in range(9):
        clock.pass_seconds(DAY)
        site.next_day()
        outcomes += [site.outcome(url, fetched_at_ms=clock.wall_ms()) for url in REPLACED]
    clock.pass_seconds(60)
    assert together.report(outcomes).counted.all()
    for outcome in outcomes:
        assert in_turn.report(outcome).counted.all()
    for url in REPLACED:
        one, other = (read_profiles([profile_of(c, url)]) for c in (together, in_turn))
        np.testing.assert_array_equal(one.base, other.base)
        assert one.evidence.totals.divergence == other.evidence.totals.divergence
        # In one call, the belief is that before the call.
        assert one.evidence.totals.n_changed == other.evidence.totals.n_changed


def test_an_outcome_that_does_not_count_teaches_nothing(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(**FRAGMENTS)
    corpus.add(list(REPLACED))
    site = Site()
    poll_daily(corpus, clock, site, 5)
    clock.pass_seconds(DAY)
    site.next_day()
    url = "https://new.example/"
    order = corpus.lease_urls([url]).orders[0]
    outcome = site.outcome(url)
    by_handle = Outcome(handle=order.handle, digest=outcome.digest, sketch=outcome.sketch)
    assert corpus.report(by_handle).counted.all()
    profile, n_entries = profile_of(corpus, url), len(entries_of(corpus))
    clock.pass_seconds(DAY)
    late = site.outcome(url, fetched_at_ms=clock.wall_ms() - round(3 * DAY * 1000))
    for repeated in (by_handle, late):
        assert not corpus.report(repeated).counted.any()
    assert profile_of(corpus, url) == profile
    later = entries_of(corpus)[n_entries:]
    assert not any(isinstance(entry, CurvesSet) for entry in later)


def test_a_reported_divergence_counts_without_a_sketch(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(**FRAGMENTS)
    urls = ["https://a.example/", "https://b.example/", "https://c.example/"]
    corpus.add(urls)
    for day in range(12):
        clock.pass_seconds(DAY)
        corpus.report(
            Outcome(url=url, digest=b"%d" % day, divergence=divergence)
            for url, divergence in zip(urls, (0.02, 0.8, 7.0), strict=True)
        )
    little, much, wrong = (corpus.explain(url) for url in urls)
    assert little is not None
    assert much is not None
    assert wrong is not None
    assert much.state.ratio > 4 * little.state.ratio
    assert much.longevity is not None
    assert much.longevity.n_changes == 11
    # A divergence beyond 1 is not one.
    assert wrong.longevity is None


def test_a_page_that_is_not_modified_still_has_its_version(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(**FRAGMENTS)
    corpus.add(list(REPLACED))
    site = Site()
    poll_daily(corpus, clock, site, 4)
    url = "https://new.example/"
    for _ in range(2):
        clock.pass_seconds(DAY)
        assert corpus.report(Outcome(url=url, status=304)).counted.all()
    profiles = read_profiles([profile_of(corpus, url)]).evidence.profiles
    # The first version was seen to be gone on each of the five days after it.
    assert profiles.n_observed[0, 0] == 5
    assert profiles.divergences[0, 0, :5].tolist() == pytest.approx([1.0] * 5)
    # The version of the fourth day was seen again, without a difference.
    assert profiles.divergences[0, 1, :2].tolist() == [0.0, 0.0]


def test_for_freshness_only_totals_are_kept(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(**FRESHNESS)
    corpus.add(list(REPLACED))
    poll_daily(corpus, clock, Site(), 12)
    profile = profile_of(corpus, "https://edited.example/")
    assert profile is not None
    assert len(profile) == 14
    assert profile_of(corpus, "https://still.example/") is None
    assert not any(isinstance(entry, CurvesSet | CurvePriorSet) for entry in entries_of(corpus))
    explained = corpus.explain("https://new.example/")
    assert explained is not None
    assert "A change replaces about 100 % of" in explanation_words(explained)
    assert "In the long run" not in explanation_words(explained)


def test_without_content_nothing_is_logged_beside_the_outcomes(
    open_corpus: Open, clock: ManualClock
) -> None:
    for folder, sections in (("a", FRESHNESS), ("b", FRAGMENTS)):
        corpus = open_corpus(folder, **sections)
        corpus.add(list(REPLACED))
        poll_daily(corpus, clock, Site(), 20, sketch=None)
        assert profile_of(corpus, "https://new.example/") is None
        assert not any(isinstance(e, CurvesSet | CurvePriorSet) for e in entries_of(corpus))


def test_bytes_that_are_no_sketch_are_stored_and_not_compared(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(**FRAGMENTS)
    corpus.add(list(REPLACED))
    poll_daily(corpus, clock, Site(), 5, sketch=b"mine")
    store = corpus.nodes[0].store
    page = store.pages_of(recrawl.urls.canonical(["https://new.example/"]).url)
    assert store.records_of(page).sketch == [b"mine"]
    assert profile_of(corpus, "https://new.example/") is None


def test_a_large_report_is_split_into_records_that_fit(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(**FRAGMENTS)
    n_pages = 3 * (2 << 20) // PROFILE_BYTES
    urls = [f"https://h{i % 50}.example/{i}" for i in range(n_pages)]
    corpus.add(urls)
    clock.pass_seconds(DAY)
    sketch = pack_sketch(np.arange(64), n_fragments=64)
    outcomes = [Outcome(url=url, digest=b"1", sketch=sketch) for url in urls]
    assert corpus.report(outcomes).counted.all()
    reported = [entry for entry in entries_of(corpus) if isinstance(entry, PagesReported)]
    assert len(reported) >= 3


def body_of(paragraphs: list[str]) -> bytes:
    """Return a page with these paragraphs."""
    text = "".join(f"<p>{one}</p>" for one in paragraphs)
    return f"<html><body><main>{text}</main></body></html>".encode()


def test_curves_are_learned_from_bodies_alone(open_corpus: Open, clock: ManualClock) -> None:
    rng = np.random.default_rng(2)
    vocabulary = ["".join(rng.choice(list("abcdefghijklmnop"), 6)) for _ in range(300)]

    def paragraph() -> str:
        return " ".join(rng.choice(vocabulary, 20)) + "."

    corpus = open_corpus(**FRAGMENTS)
    # Paragraphs that each page replaces between two polls.
    replaced = {"https://edited.example/": 1, "https://new.example/": 12}
    paragraphs = {url: [paragraph() for _ in range(12)] for url in replaced}
    corpus.add(list(replaced))
    for day in range(14):
        clock.pass_seconds(DAY)
        for url, n in replaced.items():
            for i in range(n):
                paragraphs[url][(day + i) % 12] = paragraph()
        counted = corpus.report(
            Outcome(url=url, body=body_of(paragraphs[url]), content_type="text/html")
            for url in replaced
        ).counted
        assert counted.all()
    edited, new = (corpus.explain(url) for url in replaced)
    assert edited is not None
    assert new is not None
    assert edited.longevity is not None
    assert new.longevity is not None
    assert edited.longevity.replaced_share < 0.25
    assert new.longevity.replaced_share > 0.7
    assert new.state.ratio > 2 * edited.state.ratio
    assert "In the long run about" in explanation_words(new)
