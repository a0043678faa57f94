"""Pages take turns by weight, and estimates are the core's of what the log holds."""

import numpy as np
import pytest

from lab.policies.polling import PollLog, Refits, Turns, estimated_rates
from recrawl.papers.change_rate import PollHistories, irregular_change_rate
from recrawl.sim import FetchOutcomes

PAGES = np.array([0, 0, 1, 0, 1, 2])
ELAPSED = np.array([5.0, 7.0, 9.0, 2.0, 4.0, 3.0])
CHANGED = np.array([True, False, False, True, False, True])


def outcomes_of(elapsed: np.ndarray, changed: np.ndarray, **columns: np.ndarray) -> FetchOutcomes:
    n = elapsed.size
    none = {
        "last_modified_at": np.full(n, np.nan),
        "error": np.zeros(n, np.bool_),
        "reverted": np.zeros(n, np.bool_),
        "divergence": np.zeros(n),
    }
    return FetchOutcomes(changed=changed, elapsed=elapsed, **{**none, **columns})


@pytest.fixture
def log() -> PollLog:
    log = PollLog(4)
    log.add(np.arange(6.0), PAGES, outcomes_of(ELAPSED, CHANGED))
    return log


def test_pages_are_picked_in_proportion_to_their_weight_and_evenly() -> None:
    turns = Turns(60, 0.0)
    turns.weight = np.repeat([1.0, 2.0, 5.0], 20)
    order = []
    for at in np.arange(1.0, 16_001.0):
        page = turns.pick(at, 1)
        turns.end(np.array([at]), page)
        order.append(int(page[0]))
    counts = np.bincount(order).reshape(3, 20)
    np.testing.assert_allclose(counts.sum(axis=1) / 2_000, [1.0, 2.0, 5.0], rtol=0.03)
    gaps = np.diff(np.flatnonzero(np.array(order) == 59))[-200:]  # once turns have settled
    assert gaps.max() - gaps.min() <= 0.1 * gaps.mean()


def test_a_page_under_way_and_one_without_weight_are_not_picked() -> None:
    turns = Turns(3, 0.0)
    turns.weight = np.array([0.0, 1.0, 1.0])
    assert turns.pick(1.0, 1).tolist() == [1]
    assert turns.pick(2.0, 3).tolist() == [2]
    assert turns.pick(3.0, 3).size == 0
    assert turns.take(np.array([0, 1])).tolist() == [0]
    turns.end(np.array([4.0]), np.array([1]))
    assert turns.pick(5.0, 3).tolist() == [1]


def test_failed_and_first_fetches_are_not_logged(log: PollLog) -> None:
    outcomes = outcomes_of(
        np.array([np.inf, 4.0]), np.array([False, True]), error=np.array([False, True])
    )
    log.add(np.zeros(2), np.array([3, 0]), outcomes)
    assert log.n_polls == PAGES.size


def test_the_log_grows() -> None:
    log = PollLog(2)
    n = 3_000
    page = np.arange(n) % 2
    log.add(
        np.arange(n, dtype=np.float64), page, outcomes_of(np.arange(n, dtype=np.float64), page == 0)
    )
    log.add(np.zeros(1), np.array([1]), outcomes_of(np.array([0.5]), np.array([True])))
    assert log.n_polls == n + 1
    np.testing.assert_array_equal(log.elapsed[:n], np.arange(n))
    assert log.page[-1] == 1
    assert log.changed[-1]


def test_estimates_are_those_of_the_core(log: PollLog) -> None:
    naive = estimated_rates(log, "naive", revisits_unchanged=False)
    np.testing.assert_allclose(naive[:3], [2 / 14, 0.0, 1 / 3])
    improved = estimated_rates(log, "improved", revisits_unchanged=False)
    np.testing.assert_allclose(improved[0], np.log(3.5 / 1.5) * 3 / 14)
    histories = PollHistories.from_rows(PAGES, ELAPSED, CHANGED, n_pages=4)
    irregular = estimated_rates(log, "irregular")
    most_likely, _ = irregular_change_rate(histories)
    np.testing.assert_allclose(irregular[0], most_likely[0], rtol=1e-6)
    assert irregular[1] == pytest.approx(1 / 13)  # never changed: the time polled is its period
    assert irregular[2] == pytest.approx(1 / 3)  # always changed: its shortest interval
    assert irregular[3] == pytest.approx(3 / 30)  # never polled: as the others


def test_dates_are_used_where_a_page_always_has_one() -> None:
    log = PollLog(2)
    at = np.array([10.0, 10.0, 20.0, 20.0])
    page = np.array([0, 1, 0, 1])
    dates = np.array([8.0, 8.0, 8.0, np.nan])
    changed = np.array([True, True, False, True])
    outcomes = outcomes_of(np.full(4, 10.0), changed, last_modified_at=dates)
    log.add(at, page, outcomes)
    dated = estimated_rates(log, "last_modified")
    irregular = estimated_rates(log, "irregular")
    assert dated[0] != irregular[0]
    # One change in two polls, 2 + 10 seconds unchanged: X' = 0 - .5 / log(.5).
    assert dated[0] == pytest.approx(0.5 / np.log(2) / 12)
    assert dated[1] == irregular[1]


def test_refits_are_due_by_the_number_of_polls_and_return_the_budget() -> None:
    refits = Refits(100, 0.0)
    for _ in range(50):
        refits.ask(4)
    assert not refits.is_due(99)
    assert refits.is_due(100)
    assert refits.begin(100, 20.0) == pytest.approx(10.0)
    assert not refits.is_due(199)
    refits.ask(30)
    assert refits.begin(10_000, 50.0) == pytest.approx(1.0)
    assert not refits.is_due(10_150)
    assert refits.is_due(10_200)
