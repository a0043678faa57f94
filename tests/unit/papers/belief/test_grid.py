"""The belief on a grid of rates, against a dense posterior."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.core.belief import GammaBelief, after_poll, mean_rate
from recrawl.papers.belief import GridBelief
from tests.reference.belief_posterior import DensePosterior

DAY = 86_400.0
Polls = tuple[np.ndarray, np.ndarray]


def polls_of(rng: np.random.Generator, rates: np.ndarray, n: int) -> list[Polls]:
    polls: list[Polls] = []
    for _ in range(n):
        elapsed = rng.lognormal(0, 1, rates.size) / rates
        polls.append((elapsed, rng.random(rates.size) < -np.expm1(-rates * elapsed)))
    return polls


def test_a_fine_grid_is_the_posterior(rng: np.random.Generator) -> None:
    """With and without signals, a grid step of 0.04 against one of 0.013 in log rate."""
    rates = rng.lognormal(np.log(0.01), 1.8, 40).clip(1e-5, 4)
    prior = GammaBelief.of(np.full(40, 0.45), np.full(40, 9.0))
    grid = GridBelief.from_gamma(prior, 600, rate_min=1e-9, rate_max=30)
    dense = DensePosterior(prior.shape, prior.seconds, np.arange(-60, np.log(30), 0.013))
    for elapsed, changed in polls_of(rng, rates, 30):
        false_chance = rng.choice([1.0, 0.6, 0.1], 40)
        grid = grid.after_poll(elapsed, changed, false_chance)
        dense.poll(elapsed, changed, false_chance)
        np.testing.assert_allclose(grid.mean_rate(), dense.mean(), rtol=1e-4)
    np.testing.assert_allclose(grid.probability().sum(axis=1), 1.0)


def test_thirty_two_points_do_while_beliefs_are_wide(rng: np.random.Generator) -> None:
    """Ten polls of pages like the prior's: within 2 % at the median, 10 % for nine in ten."""
    rates = rng.gamma(0.6, 1 / 0.6, 300) + 1e-3
    prior = GammaBelief.of(np.full(300, 0.6), np.full(300, 0.6))
    grid = GridBelief.from_gamma(prior)
    dense = DensePosterior(prior.shape, prior.seconds, np.arange(-60, np.log(60), 0.02))
    for elapsed, changed in polls_of(rng, rates, 10):
        grid = grid.after_poll(elapsed, changed)
        dense.poll(elapsed, changed)
    error = np.abs(grid.mean_rate() / dense.mean() - 1)
    assert np.median(error) < 0.02
    assert np.quantile(error, 0.9) < 0.1


@given(shape=st.floats(0.05, 300), seconds=st.floats(1e-3, 1e12), n_points=st.integers(32, 500))
def test_a_grid_has_the_mean_of_its_prior(shape: float, seconds: float, n_points: int) -> None:
    grid = GridBelief.from_gamma(GammaBelief.of(shape, seconds), n_points)
    assert float(grid.mean_rate()[0]) == pytest.approx(shape / seconds, rel=1e-3)
    assert np.exp(grid.log_weight).sum() == pytest.approx(1, rel=1e-3)


def test_one_unchanged_poll_is_that_of_the_gamma() -> None:
    prior = GammaBelief.of(0.8, 30 * DAY)
    grid = GridBelief.from_gamma(prior, 400, rate_min=1e-15).after_poll(12 * DAY, False)
    exact = mean_rate(after_poll(prior, 12 * DAY, False))
    assert float(grid.mean_rate()[0]) == pytest.approx(float(exact), rel=1e-4)


def test_a_change_at_once_weighs_rates_by_themselves() -> None:
    prior = GridBelief.from_gamma(GammaBelief.of(0.8, 30 * DAY), 400)
    at_once = prior.after_poll(1e-9, True)
    assert float(at_once.mean_rate()[0]) == pytest.approx(1.8 / (30 * DAY), rel=1e-3)
    np.testing.assert_array_equal(prior.after_poll(0.0, True).log_weight, prior.log_weight)


def test_pages_share_one_row_of_rates() -> None:
    grid = GridBelief.from_gamma(GammaBelief.of([0.3, 5.0], [1.0, 1e6]))
    assert grid.rates.shape == (32,)
    assert grid.log_weight.shape == (2, 32)
    after = grid.after_poll([1.0, 2.0], [True, False])
    assert after.rates is grid.rates
