"""Counts and histories of polls: order, gathering, what is not counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.papers.change_rate import PollCounts, PollHistories, count_polls

polls = st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1e6), st.booleans()), max_size=30)


@given(polls=polls)
def test_histories_keep_each_page_s_polls_in_order(polls: list[tuple[int, float, bool]]) -> None:
    rows, elapsed, changed = zip(*polls, strict=True) if polls else ((), (), ())
    histories = PollHistories.from_rows(rows, elapsed, changed, n_pages=5)
    assert histories.n_pages == 5
    for row in range(5):
        here = slice(histories.offsets[row], histories.offsets[row + 1])
        kept = list(zip(histories.elapsed[here], histories.changed[here], strict=True))
        assert kept == [(t, c) for r, t, c in polls if r == row]


@given(polls=polls)
def test_a_batch_of_polls_counts_as_the_same_polls_one_by_one(
    polls: list[tuple[int, float, bool]],
) -> None:
    batched, single = PollCounts.zeros(5), PollCounts.zeros(5)
    rows, elapsed, changed = zip(*polls, strict=True) if polls else ((), (), ())
    count_polls(batched, rows, elapsed, changed)
    for row, seconds, found in polls:
        count_polls(single, [row], seconds, found)
    for one, other in zip(batched, single, strict=True):
        np.testing.assert_array_equal(one, other)
    histories = PollHistories.from_rows(rows, elapsed, changed, n_pages=5)
    gathered = histories.counts()
    np.testing.assert_array_equal(gathered.n_polls, batched.n_polls)
    np.testing.assert_array_equal(gathered.n_changed, batched.n_changed)
    np.testing.assert_array_equal(gathered.polled_seconds, batched.polled_seconds)


def test_a_poll_of_no_time_is_not_counted() -> None:
    counts = PollCounts.zeros(1)
    count_polls(counts, [0, 0], [0.0, 5.0], [True, False])
    assert (counts.n_polls[0], counts.n_changed[0], counts.polled_seconds[0]) == (1, 0, 5.0)


def test_counts_take_16_bytes_a_page() -> None:
    assert sum(column.itemsize for column in PollCounts.zeros(3)) == 16


@pytest.mark.parametrize(
    ("rows", "elapsed", "message"),
    [
        ([0, 2], [1.0, 1.0], "rows must be 0 to 1, got 0 to 2"),
        ([-1, 0], [1.0, 1.0], "rows must be 0 to 1, got -1 to 0"),
        ([[0, 1]], [1.0, 1.0], "rows must be one column"),
        ([0], [1.0, 1.0], "must have equal lengths"),
        ([0, 1], [1.0, -1.0], "elapsed must be finite and not negative"),
        ([0, 1], [1.0, np.nan], "elapsed must be finite and not negative"),
    ],
)
def test_polls_that_make_no_sense_are_refused(
    rows: list[int], elapsed: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PollHistories.from_rows(rows, elapsed, [True, False], n_pages=2)
