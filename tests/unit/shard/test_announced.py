"""Signals that are more likely true than false announce a change."""

import math

import numpy as np
import pytest

from recrawl.shard import events as ev
from recrawl.shard.announced import find_announced
from recrawl.shard.state.status import Verdict
from tests.reference.shards import HOUR, Story


def story_of(*precision: float) -> tuple[Story, np.ndarray]:
    """Return four fetched pages, and sources of the given precision."""
    story = Story(sources_max=4)
    page = story.add(4)
    for source, one in enumerate(precision):
        story.apply(
            ev.event_of(ev.SourcesSet, source=source, precision=one, delay_seconds=math.nan)
        )
    story.fetch(page, at=HOUR)
    story.tick(2 * HOUR)
    return story, page


def announced(story: Story, page: np.ndarray) -> list[bool]:
    found: list[bool] = find_announced(story.shard.tables, story.shard.rules, page).tolist()
    return found


@pytest.mark.parametrize(("precision", "is_announced"), [(0.9, True), (0.5, True), (0.45, False)])
def test_one_signal_must_be_more_likely_true_than_false(
    precision: float, is_announced: bool
) -> None:
    story, page = story_of(precision)
    assert announced(story, page) == [False] * 4
    story.signal(page[1:3])
    assert announced(story, page) == [False, is_announced, is_announced, False]
    assert announced(story, page[::-1][:2]) == [False, is_announced]


def test_all_signals_of_a_page_count_together() -> None:
    """Two signals of precision 0.4 are both false with chance 0.36; three of 0.1, with 0.73."""
    story, page = story_of(0.4, 0.4, 0.1)
    for source in (0, 1):
        story.signal(page[:1], source=source)
    story.signal(page[1:2], source=1)
    for k in range(3):
        story.tick(2 * HOUR + k + 1)
        story.signal(page[2:3], source=2)
    assert announced(story, page) == [True, False, False, False]


def test_a_source_is_tested_first_whatever_its_precision() -> None:
    """After 16 false signals it is not believed any more."""
    story, page = story_of()
    for k in range(2, 7):
        story.tick(k * HOUR)
        story.signal(page)
        assert announced(story, page) == [k < 6] * 4
        story.fetch(page, at=k * HOUR + 60, verdict=np.full(4, Verdict.UNCHANGED))


def test_a_fetch_answers_the_signals() -> None:
    story, page = story_of(0.9)
    story.signal(page)
    story.fetch(page[:2], at=3 * HOUR)
    assert announced(story, page) == [False, False, True, True]


def test_a_page_that_is_not_there_is_not_announced() -> None:
    story, page = story_of(0.9)
    story.signal(page)
    story.apply(ev.event_of(ev.PagesRemoved, page=page[:1]))
    assert announced(story, np.array([page[0], -1, 1 << 20, page[1]])) == [*[False] * 3, True]
    assert announced(story, page[:0]) == []
