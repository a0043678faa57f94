"""Patience with what polls teach: it grows with the corpus's polls, and each shard has its own."""

import numpy as np
import pytest

from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.rules import has_patience, patience
from tests.reference.shards import HOUR, Story


def test_there_is_no_patience_before_pages_have_been_polled() -> None:
    assert patience(0, 0) == 0
    assert patience(0, 100) == 0
    assert patience(30, 100) == 0


@pytest.mark.parametrize(("polls_per_page", "expected"), [(0.5, 1), (1, 2), (4, 8), (1_000, 32)])
def test_patience_grows_with_the_polls_of_a_page(polls_per_page: float, expected: float) -> None:
    assert patience(round(1_000 * polls_per_page), 1_000) == expected


def test_patience_never_falls_as_polls_come_in_and_has_few_steps() -> None:
    found = [patience(n, 50) for n in range(3_000)]
    assert np.all(np.diff(found) >= 0)
    assert len(set(found)) == 7


def test_only_beliefs_can_be_taught() -> None:
    assert has_patience(ShardSettings(learning="gradient"))
    assert not has_patience(ShardSettings(learning="gradient", estimator="plug_in"))
    assert not has_patience(ShardSettings(learning="bonus"))


def test_what_one_shard_learns_does_not_move_the_due_times_of_another() -> None:
    taught, other = Story(learning="gradient"), Story(learning="gradient")
    page = taught.add(2)
    for n in range(1, 9):
        taught.fetch(page, at=n * HOUR)
    taught.shard.decide(taught.shard.now_ms, 1)
    due, due_of_other = taught.shard.terms.table.due, other.shard.terms.table.due
    assert np.all(due[:, 0] <= due_of_other[:, 0])
    assert np.any(due[:, 0] < due_of_other[:, 0])
    np.testing.assert_array_equal(due[:, 1:], due_of_other[:, 1:])


def test_a_shard_of_the_same_log_has_the_same_patience() -> None:
    story = Story(learning="gradient")
    page = story.add(2)
    for n in range(1, 5):
        story.fetch(page, at=n * HOUR)
    again = story.replayed()
    first = story.shard.explain(int(page[0]), story.shard.now_ms)
    second = again.explain(int(page[0]), again.now_ms)
    assert first == second
