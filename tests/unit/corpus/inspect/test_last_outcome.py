"""The result of the latest fetch of a page is found in the feed of changes."""

from collections.abc import Callable
from typing import Any

import pytest

from recrawl import Outcome
from recrawl.corpus import Corpus
from recrawl.corpus.inspect import explanation as module
from recrawl.shard import Transition
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URL = "https://a.example/1"
OTHERS = [f"https://b.example/{i}" for i in range(30)]


@pytest.fixture
def corpus(open_corpus: Open) -> Corpus:
    corpus = open_corpus()
    corpus.add([URL, *OTHERS])
    return corpus


def fetch(corpus: Corpus, clock: ManualClock, url: str = URL, **found: Any) -> None:
    clock.pass_seconds(3_600)
    corpus.lease(1)
    clock.pass_seconds(5)
    corpus.report(Outcome(url=url, **found))


def outcome(corpus: Corpus) -> Transition | None:
    page = corpus.explain(URL)
    assert page is not None
    return page.last_outcome


def test_each_outcome_is_found(corpus: Corpus, clock: ManualClock) -> None:
    outcomes = []
    for found in (b"a", b"a", b"b", b"a"):
        fetch(corpus, clock, digest=found)
        outcomes.append(outcome(corpus))
    fetch(corpus, clock, status=404)
    outcomes.append(outcome(corpus))
    fetch(corpus, clock, digest=b"a")
    outcomes.append(outcome(corpus))
    assert outcomes == [
        Transition.NEW,
        Transition.NONE,
        Transition.CHANGED,
        Transition.REVERTED,
        Transition.GONE,
        Transition.RETURNED,
    ]


def test_other_pages_make_no_difference(corpus: Corpus, clock: ManualClock) -> None:
    fetch(corpus, clock, digest=b"a")
    for i, url in enumerate(OTHERS):
        fetch(corpus, clock, url, digest=b"%d" % i)
    fetch(corpus, clock, digest=b"b")
    for i, url in enumerate(OTHERS):
        fetch(corpus, clock, url, digest=b"new %d" % i)
    assert outcome(corpus) == Transition.CHANGED
    fetch(corpus, clock, digest=b"b")
    assert outcome(corpus) == Transition.NONE


def test_before_the_first_fetch_there_is_none(corpus: Corpus) -> None:
    assert outcome(corpus) is None


def test_an_error_does_not_count_as_a_fetch_of_the_page(corpus: Corpus, clock: ManualClock) -> None:
    fetch(corpus, clock, digest=b"a")
    fetch(corpus, clock, status=500)
    assert outcome(corpus) == Transition.NEW


def test_a_fetch_from_before_the_feed_has_an_unknown_outcome(
    corpus: Corpus, clock: ManualClock
) -> None:
    fetch(corpus, clock, digest=b"a")
    for url in OTHERS:
        fetch(corpus, clock, url, digest=b"x")
    corpus.nodes[0].store.trim_changes(before_ms=clock.wall_ms() - 10_000_000)
    assert outcome(corpus) is None


def test_an_imported_fetch_has_an_unknown_outcome(corpus: Corpus, clock: ManualClock) -> None:
    clock.pass_seconds(86_400)
    corpus.lease(1)
    corpus.report(Outcome(url=URL, digest=b"a", fetched_at_ms=clock.wall_ms() - 50 * 86_400_000))
    assert outcome(corpus) is None


def test_after_too_many_changes_the_outcome_is_unknown(
    corpus: Corpus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHANGES_PER_READ", 5)
    monkeypatch.setattr(module, "CHANGES_READ_MAX", 10)
    fetch(corpus, clock, digest=b"a")
    fetch(corpus, clock, digest=b"a")
    clock.pass_seconds(60)
    corpus.report([Outcome(url=url, digest=b"x") for url in OTHERS])
    assert outcome(corpus) is None
