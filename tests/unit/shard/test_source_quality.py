"""What a shard says about the quality of sources: estimates and intervals."""

import math

import numpy as np
import pytest

from recrawl.shard import events as ev
from recrawl.shard import learned_quality
from recrawl.shard.state.status import Verdict
from tests.reference.shards import DAY, HOUR, Story


def judged(n_rounds: int, *, seconds: float = HOUR, **settings: object) -> Story:
    """Return four pages with signals at intervals of ``seconds``, of which every second is true."""
    story = Story(**settings)
    page = story.add(4)
    story.fetch(page, at=1)
    for k in range(1, n_rounds + 1):
        story.tick(seconds * (k + 1))
        story.signal(page)
        verdict = [Verdict.CHANGED if (k + i) % 2 else Verdict.UNCHANGED for i in range(4)]
        story.fetch(page, at=seconds * (k + 1) + 60, verdict=np.array(verdict))
    return story


def test_the_interval_holds_the_estimate_and_narrows() -> None:
    widths = []
    for n_rounds in (3, 30):
        story = judged(n_rounds)
        found = learned_quality(story.shard.tables, story.shard.rules)
        assert found.source.tolist() == [0]
        for estimate in (found.precision, found.recall):
            assert 0.0 <= estimate.low[0] <= estimate.mean[0] <= estimate.high[0] <= 1.0
        widths.append(found.precision.high[0] - found.precision.low[0])
    assert widths[1] < 0.5 * widths[0]
    assert found.precision.mean[0] == pytest.approx(0.5, abs=0.05)


def test_the_recall_is_known_once_polls_have_shown_unsignalled_changes_or_none() -> None:
    """All changes came with a signal; two days show nothing about changes every 50 days."""
    widths = []
    for seconds in (HOUR, 10 * DAY):
        story = judged(40, seconds=seconds)
        recall = learned_quality(story.shard.tables, story.shard.rules).recall
        widths.append(recall.high[0] - recall.low[0])
    assert widths[1] < 0.5 < widths[0]
    assert recall.mean[0] > 0.7


def test_a_given_precision_is_certain() -> None:
    story = judged(3)
    story.apply(ev.event_of(ev.SourcesSet, source=0, precision=0.7, delay_seconds=math.nan))
    found = learned_quality(story.shard.tables, story.shard.rules).precision
    assert found.low[0] == found.mean[0] == found.high[0] == pytest.approx(0.7)


def test_counts_say_nothing_about_the_recall() -> None:
    story = judged(3, estimator="counts")
    found = learned_quality(story.shard.tables, story.shard.rules)
    assert np.isnan(found.recall.mean).all()
    assert not np.isnan(found.precision.mean).any()


def test_a_shard_without_signals_has_no_sources() -> None:
    story = Story()
    assert learned_quality(story.shard.tables, story.shard.rules).source.size == 0
