"""The learning horizon: it grows with the corpus's polls, and each shard has its own."""

import numpy as np
import pytest

from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.rules import has_learning_horizon, learning_horizon
from tests.reference.shards import HOUR, Story


def test_the_learning_horizon_is_zero_before_pages_are_polled() -> None:
    assert learning_horizon(0, 0) == 0
    assert learning_horizon(0, 100) == 0
    assert learning_horizon(30, 100) == 0


@pytest.mark.parametrize(("polls_per_page", "expected"), [(0.5, 1), (1, 2), (4, 8), (1_000, 32)])
def test_the_learning_horizon_grows_with_the_polls_of_a_page(
    polls_per_page: float, expected: float
) -> None:
    assert learning_horizon(round(1_000 * polls_per_page), 1_000) == expected


def test_the_learning_horizon_never_falls_and_has_few_steps() -> None:
    found = [learning_horizon(n, 50) for n in range(3_000)]
    assert np.all(np.diff(found) >= 0)
    assert len(set(found)) == 7


def test_only_the_gamma_estimator_has_a_learning_horizon() -> None:
    assert has_learning_horizon(ShardSettings(learning="gradient"))
    assert not has_learning_horizon(ShardSettings(learning="gradient", estimator="plug_in"))
    assert not has_learning_horizon(ShardSettings(learning="bonus"))


def test_learning_of_one_shard_does_not_move_due_times_of_another() -> None:
    learning, other = Story(learning="gradient"), Story(learning="gradient")
    page = learning.add(2)
    for n in range(1, 9):
        learning.fetch(page, at=n * HOUR)
    learning.shard.decide(learning.shard.now_ms, 1)
    due, due_of_other = learning.shard.terms.table.due, other.shard.terms.table.due
    assert np.all(due[:, 0] <= due_of_other[:, 0])
    assert np.any(due[:, 0] < due_of_other[:, 0])
    np.testing.assert_array_equal(due[:, 1:], due_of_other[:, 1:])


def test_shards_of_the_same_log_have_the_same_learning_horizon() -> None:
    story = Story(learning="gradient")
    page = story.add(2)
    for n in range(1, 5):
        story.fetch(page, at=n * HOUR)
    again = story.replay()
    first = story.shard.explain(int(page[0]), story.shard.now_ms)
    second = again.explain(int(page[0]), again.now_ms)
    assert first == second
