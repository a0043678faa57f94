"""The trend test: that it is a score test, how often it is wrong, how often it is right."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm, ranksums

from recrawl.papers.change_rate import PollHistories, irregular_change_rate, trend_test

DAY = 86_400.0


def simulate_pages(
    rng: np.random.Generator, n_pages: int, n_polls: int, spread: float, trend: float
) -> PollHistories:
    """Pages of 0.7 changes per poll on average, whose rate grows by e^trend over the history."""
    elapsed = 0.7 * rng.lognormal(0, spread, (n_pages, n_polls))
    end = np.cumsum(elapsed, axis=1)
    total = end[:, -1:]
    slope = trend / total
    # The integral of e^{slope (s - total/2)} over each poll.
    grown = np.exp(slope * (end - total / 2)) - np.exp(slope * (end - elapsed - total / 2))
    expected = grown / slope if trend else elapsed
    changed = rng.random(elapsed.shape) < -np.expm1(-expected)
    offsets = np.arange(n_pages + 1) * n_polls
    return PollHistories(elapsed.ravel(), changed.ravel(), offsets)


@given(data=st.data())
def test_is_the_rank_sum_test_for_regular_polls(data: st.DataObject) -> None:
    changed = np.array(data.draw(st.lists(st.booleans(), min_size=10, max_size=60)))
    when = np.arange(changed.size)
    z = trend_test(PollHistories.of_one_page(np.full(changed.size, DAY), changed)).z_score[0]
    if min(changed.sum(), (~changed).sum()) < 5:
        assert np.isnan(z)
    else:
        assert z == pytest.approx(ranksums(when[changed], when[~changed]).statistic, abs=1e-9)


def test_is_the_slope_of_the_likelihood_at_no_trend() -> None:
    """The score is that of a rate that grows within polls, too: by differences and quadrature."""
    elapsed = np.array([3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    changed = np.array([1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0], bool)
    histories = PollHistories.of_one_page(elapsed, changed)
    rate = irregular_change_rate(histories).change_rate[0]
    end = np.cumsum(elapsed)

    def log_likelihood(trend: float) -> float:
        total = 0.0
        for begin, until, found in zip(end - elapsed, end, changed, strict=True):
            x = quad(lambda s: rate * math.exp(trend * (s - 26)), begin, until, epsabs=1e-13)[0]
            total += math.log(-math.expm1(-x)) if found else -x
        return total

    step = 1e-4
    slope = (log_likelihood(step) - log_likelihood(-step)) / (2 * step)
    test = trend_test(histories)
    # trend = slope / variance and z = slope / sqrt(variance).
    assert test.z_score[0] ** 2 / test.trend[0] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize(("n", "k"), [(10, 5), (12, 5), (12, 7), (14, 6)])
def test_size_is_near_five_per_cent_from_five_polls_of_each_kind(n: int, k: int) -> None:
    """Regular polls, exactly: all orders of k changes among n polls are equally likely."""
    orders = np.array(
        [np.isin(np.arange(n), chosen) for chosen in itertools.combinations(range(n), k)]
    )
    histories = PollHistories(np.ones(orders.size), orders.ravel(), np.arange(len(orders) + 1) * n)
    test = trend_test(histories)
    assert 0.04 <= np.mean(test.p_value < 0.05) <= 0.056
    assert test.z_score.mean() == pytest.approx(0, abs=1e-12)
    assert test.z_score.var() == pytest.approx(1, rel=1e-9)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_rejects_few_constant_pages_polled_irregularly(
    spread: float, rng: np.random.Generator
) -> None:
    """20 000 pages of 40 polls: 4 to 5.5 % are rejected at the 5 % level.

    Beyond that range by 5 standard errors of a share of 5 % (fails 1 in 1.7 million).
    """
    n_pages = 20_000
    test = trend_test(simulate_pages(rng, n_pages, 40, spread, 0.0))
    assert not np.isnan(test.p_value).any()
    margin = 5 * math.sqrt(0.05 * 0.95 / n_pages)
    assert 0.04 - margin < np.mean(test.p_value < 0.05) < 0.055 + margin
    assert abs(test.z_score.mean()) < 5 / math.sqrt(n_pages) + 0.01


@pytest.mark.slow_without_jit
def test_finds_a_rate_that_grows_sevenfold_and_says_by_how_much(rng: np.random.Generator) -> None:
    """Pages of 200 polls, a trend of 2: 99.9 % are found; a trend of 1: 77 %; of 50 polls: 26 %.

    Of 2000 pages each, within 1 % and 5 standard errors (fails 1 in 1.7 million).
    """
    for trend, n_polls, power in ((2.0, 200, 0.999), (1.0, 200, 0.77), (1.0, 50, 0.26)):
        histories = simulate_pages(rng, 2_000, n_polls, 0.8, trend)
        test = trend_test(histories)
        found = np.mean(test.p_value < 0.05)
        assert abs(found - power) < 0.01 + 5 * math.sqrt(power * (1 - power) / 2_000)
        length = histories.elapsed.reshape(2_000, n_polls).sum(axis=1)
        assert np.median(test.trend * length) == pytest.approx(trend, rel=0.12)


def test_too_few_polls_of_a_kind_are_not_tested() -> None:
    changed = [True] * 4 + [False] * 30
    histories = PollHistories.of_one_page(np.ones(34), changed)
    assert all(np.isnan(result[0]) for result in trend_test(histories))
    assert trend_test(histories, n_each_min=4).z_score[0] < -2
    never = PollHistories.from_rows([1], [1.0], [True], n_pages=3)
    assert np.isnan(trend_test(never).p_value).all()


@given(scale=st.floats(1e-3, 1e6))
def test_unit_and_direction_of_time(scale: float) -> None:
    elapsed = np.array([3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    changed = np.array([1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0], bool)
    here = trend_test(PollHistories.of_one_page(elapsed, changed))
    there = trend_test(PollHistories.of_one_page(elapsed * scale, changed))
    backwards = trend_test(PollHistories.of_one_page(elapsed[::-1], changed[::-1]))
    np.testing.assert_allclose(there.z_score, here.z_score, rtol=1e-8)
    np.testing.assert_allclose(there.trend * scale, here.trend, rtol=1e-8)
    np.testing.assert_allclose(backwards.z_score, -here.z_score, rtol=1e-8)
    np.testing.assert_allclose(here.p_value, 2 * norm.sf(np.abs(here.z_score)))


def test_polls_after_0_seconds_change_nothing() -> None:
    changed = np.array([1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0], bool)
    elapsed = np.ones(12)
    plain = trend_test(PollHistories.of_one_page(elapsed, changed))
    padded = trend_test(
        PollHistories.of_one_page(np.insert(elapsed, 5, 0.0), np.insert(changed, 5, True))
    )
    np.testing.assert_allclose(padded.z_score, plain.z_score, rtol=1e-12)


def test_a_minimum_of_0_polls_is_rejected() -> None:
    with pytest.raises(ValueError, match="n_each_min must be at least 1, got 0"):
        trend_test(PollHistories.of_one_page([1.0], [True]), n_each_min=0)
