"""A new source moves few pages forward until fetches have tested its signals."""

from typing import Any

import numpy as np
import pytest

from recrawl.shard import events as ev
from recrawl.shard.state.status import Verdict
from tests.reference.shards import DAY, Story


def fetched(n_pages: int = 100, **settings: Any) -> Story:
    """Return a shard whose pages were all fetched at day 1, now at day 2."""
    story = Story(**settings)
    pages = story.add(n_pages)
    story.fetch(pages, at=1.0)
    story.fetch(pages, at=DAY)
    story.tick(2 * DAY)
    return story


def n_aged(story: Story, pages: Any) -> int:
    """Return the number of pages that signals moved forward."""
    return sum(story.last(page) < DAY for page in pages)


def test_only_a_few_signals_of_a_new_source_count_before_fetches_have_tested_it() -> None:
    story = fetched()
    pages = np.arange(100)
    story.signal(pages)
    assert n_aged(story, pages) == 16
    story.tick(2 * DAY + 1)
    story.signal(pages)
    assert n_aged(story, pages) == 16, "the other pages still wait"


def test_all_signals_count_once_the_source_has_been_right() -> None:
    story = fetched()
    pages = np.arange(100)
    story.signal(pages)
    aged = [page for page in pages if story.last(page) < DAY]
    for k in range(3):
        story.fetch(aged, Verdict.CHANGED, at=2 * DAY + 100 * k + 1)
        story.tick(2 * DAY + 100 * k + 50)
        story.signal(aged)
    story.tick(2 * DAY + 1_000)
    waiting = np.setdiff1d(pages, aged)
    assert n_aged(story, waiting) == waiting.size
    assert story.replay().digest() == story.shard.digest()


def test_signals_hardly_count_once_the_source_has_been_wrong() -> None:
    story = fetched()
    pages = np.arange(100)
    story.signal(pages)
    aged = np.array([page for page in pages if story.last(page) < DAY])
    first = DAY - story.last(aged[0])
    story.fetch(aged, Verdict.UNCHANGED, at=2 * DAY + 10)
    story.tick(2 * DAY + 20)
    waiting = np.setdiff1d(pages, aged)
    moved = np.array([DAY - story.last(page) for page in waiting])
    assert 0 < moved.max() < first / 4


def test_pages_are_younger_again_when_their_source_turns_out_to_be_wrong() -> None:
    story = fetched(200)
    pages = np.arange(200)
    story.signal(pages[:16])
    for k in range(4):
        story.fetch(pages[:16], Verdict.CHANGED, at=2 * DAY + 100 * k + 1)
        story.tick(2 * DAY + 100 * k + 50)
        story.signal(pages[:16])
    story.tick(2 * DAY + 500)
    story.signal(pages[100:])
    trusted = DAY - story.last(150)
    assert trusted > 0
    for k in range(10):
        story.fetch(pages[:16], Verdict.UNCHANGED, at=2 * DAY + 1_000 + 100 * k)
        story.tick(2 * DAY + 1_000 + 100 * k + 50)
        story.signal(pages[:16])
    story.tick(2 * DAY + 3_000)
    assert 0 < DAY - story.last(150) < trusted / 2
    assert story.replay().digest() == story.shard.digest()


def test_a_flood_of_false_signals_about_one_page_counts_little() -> None:
    story = fetched()
    story.signal(np.arange(100))
    aged = np.array([page for page in range(100) if story.last(page) < DAY])
    for k in range(6):
        story.fetch(aged, Verdict.UNCHANGED, at=2 * DAY + 100 * k + 10)
        story.tick(2 * DAY + 100 * k + 20)
        story.signal(aged)
    for k in range(400):
        story.tick(3 * DAY + k)
        story.signal([99])
    explanation = story.shard.explain(99)
    assert explanation is not None
    assert explanation.sources[0].signals_since_fetch > 400
    assert explanation.freshness_probability > 0.7


def test_a_source_of_given_precision_needs_no_tests() -> None:
    story = fetched()
    story.apply(ev.event_of(ev.SourcesSet, source=0, precision=0.5, delay_seconds=np.nan))
    story.signal(np.arange(100))
    assert n_aged(story, np.arange(100)) == 100


@pytest.mark.parametrize("most", [float("inf"), 1_000.0])
def test_the_limit_can_be_lifted(most: float) -> None:
    story = fetched(untested_signals_max=most)
    story.signal(np.arange(100))
    assert n_aged(story, np.arange(100)) == 100
