"""How long a shard remembers evidence: surprises shorten its memory."""

import math
from dataclasses import replace

import numpy as np
import pytest

from recrawl.shard import Shard, ShardSettings
from recrawl.shard import events as ev
from recrawl.shard.state.status import Verdict
from tests.reference.shards import DAY, HOUR, Story


def poll_hourly(
    n_polls: int, verdicts: list[Verdict], **settings: object
) -> tuple[Story, np.ndarray]:
    """Return a story with a page polled every hour, with these verdicts in turn."""
    story = Story(**settings)
    page = story.add()
    story.fetch(page, at=1)
    for k in range(n_polls):
        story.fetch(page, verdicts[k % len(verdicts)], at=(k + 1) * HOUR)
    return story, page


BURSTS = [Verdict.CHANGED] * 8 + [Verdict.UNCHANGED] * 40


def change_settings(story: Story, **settings: object) -> None:
    chosen = replace(story.shard.settings, **settings)  # type: ignore[arg-type]
    story.apply(ev.event_of(ev.SettingsSet, settings=chosen.to_json()))


def test_bursts_shorten_memory_to_its_minimum() -> None:
    story, _ = poll_hourly(2_000, BURSTS)
    assert story.shard.memory_changes == pytest.approx(3.0, rel=0.1)
    assert story.replay().memory_changes == story.shard.memory_changes


def test_a_page_that_never_changes_leaves_memory_as_it_is() -> None:
    story, _ = poll_hourly(300, [Verdict.UNCHANGED])
    assert story.shard.memory_changes > 195


def test_a_fixed_memory_is_not_learned() -> None:
    story, _ = poll_hourly(500, BURSTS, memory_changes_min=50.0, memory_changes_max=50.0)
    assert story.shard.memory_changes == 50.0
    story, _ = poll_hourly(500, BURSTS, memory_changes_max=math.inf)
    assert story.shard.memory_changes == math.inf


def test_memory_is_never_shorter_than_settings_say() -> None:
    story, _ = poll_hourly(2_000, BURSTS)
    change_settings(story, memory_changes_max=20.0, memory_changes_min=10.0)
    assert story.shard.memory_changes == pytest.approx(10.0)


def test_polls_of_pages_with_signals_leave_memory_as_it_is() -> None:
    story, page = poll_hourly(3, [Verdict.CHANGED])
    assert story.of_page(page[0], "surprise") != 0
    before = story.register("memory_lost")
    story.tick(4 * HOUR)
    story.signal(page)
    story.fetch(page, Verdict.CHANGED, at=5 * HOUR)
    assert story.of_page(page[0], "surprise") == 0
    assert story.register("memory_lost") == before


def test_a_reused_slot_has_no_surprise() -> None:
    story, page = poll_hourly(3, [Verdict.CHANGED])
    story.apply(ev.event_of(ev.PagesRemoved, page=page))
    again = story.add(at=DAY)
    assert ev.slot_of_page(again) == ev.slot_of_page(page)
    assert story.of_page(again[0], "surprise") == 0


def test_counts_have_no_memory_of_surprises() -> None:
    story, page = poll_hourly(3, [Verdict.CHANGED])
    change_settings(story, estimator="counts")
    assert story.shard.memory_changes == math.inf
    assert story.of_page(page[0], "surprise") == 0
    story.fetch(page, Verdict.CHANGED, at=10 * HOUR)
    change_settings(story, estimator="gamma")
    assert story.of_page(page[0], "surprise") == 0
    assert story.shard.memory_changes <= 200.0


def test_settings_without_memory_forget_by_time_alone() -> None:
    stored = {"belief_half_life": 60.0}
    assert ShardSettings.from_stored(stored).memory_changes_max == math.inf
    now = ShardSettings(memory_changes_max=40.0)
    assert ShardSettings.from_json(now.to_json()) == now
    assert Shard(ShardSettings.from_stored(stored)).memory_changes == math.inf


@pytest.mark.parametrize(("least", "most"), [(0.0, 10.0), (11.0, 10.0), (math.nan, 10.0)])
def test_impossible_limits_of_memory_are_rejected(least: float, most: float) -> None:
    with pytest.raises(ValueError, match=r"memory_changes_min must|negative"):
        ShardSettings(memory_changes_min=least, memory_changes_max=most)
