"""The prior of a corpus: its likelihood, its maximum, shrinkage and the step of EM."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.optimize import minimize

from recrawl.core.belief import (
    BROAD,
    GammaBelief,
    PopulationPrior,
    after_poll,
    mean_rate,
    rate_likelihoods,
    refit_from_beliefs,
)

DAY = 86_400.0
Polls = tuple[np.ndarray, np.ndarray, np.ndarray]


def short_histories(rng: np.random.Generator, rates: np.ndarray, n_polls: int) -> Polls:
    """Return page, elapsed and changed of irregular polls, a week apart or so."""
    page = np.repeat(np.arange(rates.size), n_polls)
    elapsed = rng.lognormal(np.log(7 * DAY), 1.0, page.size)
    return page, elapsed, rng.random(page.size) < -np.expm1(-rates[page] * elapsed)


def test_likelihoods_are_products_over_polls() -> None:
    rates = [1e-7, 1e-5, 1e-3]
    page, elapsed, changed = [2, 0, 2, 2], [1e5, 2e5, 3e5, 4e5], [1, 0, 0, 1]
    out = rate_likelihoods(page, elapsed, changed, 4, rates)
    for k, rate in enumerate(rates):
        none = [math.exp(-rate * t) for t in elapsed]
        assert out[0, k] == pytest.approx(math.log(none[1]))
        expected = math.log((1 - none[0]) * none[2] * (1 - none[3]))
        assert out[2, k] == pytest.approx(expected, rel=1e-9)
    np.testing.assert_array_equal(out[[1, 3]], 0.0)


def test_a_change_at_once_is_as_likely_as_the_rate_is_high() -> None:
    """And a poll after 0 seconds says nothing."""
    out = rate_likelihoods([0, 0, 1], [1e-9, 1e-9, 0.0], [True, False, True], 2, [1e-6, 1e-4])
    np.testing.assert_allclose(np.diff(out[0]), np.log(100.0))
    assert not out[1].any()


def test_the_whole_is_where_the_marginal_likelihood_is_greatest(rng: np.random.Generator) -> None:
    """Against integrals over the rate for 60 pages; the hold of the broad prior is weak."""
    rates = rng.gamma(0.6, 1 / (0.6 * 20 * DAY), 60)
    page, elapsed, changed = short_histories(rng, rates, 6)
    prior = PopulationPrior()
    fitted = prior.fit_whole(rate_likelihoods(page, elapsed, changed, 60, prior.rates()))
    z = np.arange(-60.0, 10.0, 0.05) - np.log(DAY)
    likelihood = np.exp(rate_likelihoods(page, elapsed, changed, 60, np.exp(z)))

    def loss(parameters: np.ndarray) -> float:
        shape, mean = np.exp(parameters)
        density = stats.gamma(shape, scale=mean / shape).pdf(np.exp(z)) * np.exp(z)
        marginal = integrate.trapezoid(likelihood * density, z, axis=1)
        held = (np.log(mean * 50 * DAY) / 3.0) ** 2 + np.log(shape / 0.5) ** 2
        return float(-np.log(marginal).sum() + 0.5 * held)

    best = np.exp(minimize(loss, np.log([0.5, 1 / (50 * DAY)]), method="Nelder-Mead").x)
    assert float(fitted.shape) == pytest.approx(best[0], rel=0.03)
    assert float(mean_rate(fitted)) == pytest.approx(best[1], rel=0.03)


def test_no_history_gives_the_broad_prior() -> None:
    empty: list[float] = []
    prior = PopulationPrior().fit(empty, empty, empty, kind=[0, 0, 1])
    np.testing.assert_allclose(prior.shape, float(BROAD.shape), rtol=1e-3)
    np.testing.assert_allclose(mean_rate(prior), float(mean_rate(BROAD)), rtol=1e-3)


def test_a_kind_without_polls_gets_the_prior_of_the_whole(rng: np.random.Generator) -> None:
    rates = rng.gamma(0.5, 1 / (0.5 * 5 * DAY), 500)
    page, elapsed, changed = short_histories(rng, rates, 4)
    learner = PopulationPrior()
    kind = np.concatenate([np.zeros(500, int), [2, 2]])
    prior = learner.fit(page, elapsed, changed, kind)
    whole = learner.fit_whole(rate_likelihoods(page, elapsed, changed, 502, learner.rates()))
    assert prior.shape.size == 3
    np.testing.assert_allclose(prior.shape[1:], float(whole.shape), rtol=1e-3)
    np.testing.assert_allclose(prior.seconds[1:], float(whole.seconds), rtol=1e-3)


def test_the_fewer_its_pages_the_nearer_a_kind_is_to_the_whole() -> None:
    """A kind ten times as lively, seen in 1, 3, 10, 30 and 300 of 3 000 pages."""
    sizes = (1, 3, 10, 30, 300)
    kind = np.repeat(np.arange(6), [3000 - sum(sizes), *sizes])
    # Quantiles, not draws: every size then shows the same distribution.
    order = np.concatenate([(np.arange(n) + 0.5) / n for n in np.bincount(kind)])
    periods = np.where(kind == 0, 40 * DAY, 4 * DAY)
    rates = stats.gamma(0.7).ppf(order) / (0.7 * periods)
    # As many changes as expected, so that small kinds have no random error.
    page = np.repeat(np.arange(kind.size), 10)
    changed = (np.arange(page.size) % 10 + 0.5) / 10 < -np.expm1(-rates[page] * 5 * DAY)
    prior = PopulationPrior().fit(page, np.full(page.size, 5 * DAY), changed, kind)
    means = mean_rate(prior)
    assert np.all(np.diff(means[1:]) > 0)
    assert means[1] < 4 * means[0]
    assert means[5] == pytest.approx(1 / (4 * DAY), rel=0.3)


def test_a_spread_of_nothing_leaves_one_prior(rng: np.random.Generator) -> None:
    rates = np.repeat([1e-7, 1e-5], 50)
    page, elapsed, changed = short_histories(rng, rates, 8)
    tied = PopulationPrior(mean_spread=1e-4, shape_spread=1e-4)
    prior = tied.fit(page, elapsed, changed, kind=np.repeat([0, 1], 50))
    assert mean_rate(prior)[1] == pytest.approx(mean_rate(prior)[0], rel=0.01)


def test_does_not_depend_on_the_order_of_polls(rng: np.random.Generator) -> None:
    rates = rng.gamma(0.5, 1 / (0.5 * 5 * DAY), 50)
    page, elapsed, changed = short_histories(rng, rates, 4)
    kind = np.arange(50) % 3
    shuffled = rng.permutation(page.size)
    np.testing.assert_allclose(
        PopulationPrior().fit(page, elapsed, changed, kind),
        PopulationPrior().fit(page[shuffled], elapsed[shuffled], changed[shuffled], kind),
        rtol=1e-6,
    )


def test_bad_ranges_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rate_min and rate_max must be positive.* got 1 and 1"):
        PopulationPrior(rate_min=1, rate_max=1)
    with pytest.raises(ValueError, match="n_rates must be at least 8, got 7"):
        PopulationPrior(n_rates=7)


@pytest.mark.parametrize("spread", [0.01, 1.0, 3.0])
def test_a_refit_is_the_maximum_of_the_expected_likelihood(spread: float) -> None:
    """The M step of EM: Σ w E[log Gamma(α; a, b)], maximised numerically."""
    rng = np.random.default_rng(5)
    belief = GammaBelief.of(rng.lognormal(0, spread, 30).clip(0.05), rng.lognormal(8, spread, 30))
    weight = rng.integers(1, 9, 30)
    # Moments by quantiles: 20 001 equally likely rates of each page.
    u = (np.arange(20_001) + 0.5) / 20_001
    rates = stats.gamma(belief.shape[:, None], scale=1 / belief.seconds[:, None]).ppf(u)
    mean = float(np.average(rates.mean(axis=1), weights=weight))
    log_mean = float(np.average(np.log(rates).mean(axis=1), weights=weight))

    def loss(parameters: np.ndarray) -> float:
        shape, seconds = np.exp(parameters)
        log_density = shape * np.log(seconds) - math.lgamma(shape)
        return float(-(log_density + (shape - 1) * log_mean - seconds * mean))

    options: Any = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 5_000}
    best = minimize(loss, [0.0, -math.log(mean)], method="Nelder-Mead", options=options)
    fitted = refit_from_beliefs(belief, weight)
    assert float(fitted.shape) == pytest.approx(math.exp(best.x[0]), rel=2e-3)
    assert float(mean_rate(fitted)) == pytest.approx(mean, rel=2e-3)


def test_a_corpus_of_one_belief_is_that_belief() -> None:
    for shape, seconds in itertools.product((0.02, 0.5, 1.0, 40.0, 1e4), (1.0, 1e9)):
        belief = GammaBelief.of([shape, shape], seconds)
        np.testing.assert_allclose(refit_from_beliefs(belief), [shape, seconds], rtol=1e-8)


def test_weights_stand_for_pages() -> None:
    belief = GammaBelief.of([0.4, 3.0], [1e5, 2e4])
    tripled = GammaBelief.of([0.4, 0.4, 0.4, 3.0], [1e5, 1e5, 1e5, 2e4])
    np.testing.assert_allclose(refit_from_beliefs(belief, [3, 1]), refit_from_beliefs(tripled))


@pytest.mark.slow_without_jit
def test_refits_from_beliefs_climb_to_the_prior_of_the_polls(rng: np.random.Generator) -> None:
    """EM with beliefs learned anew from each prior ends where the histories' own fit does."""
    rates = rng.gamma(0.5, 1 / (0.5 * 30 * DAY), 4000)
    page, elapsed, changed = short_histories(rng, rates, 10)
    learner = PopulationPrior()
    fitted = learner.fit_whole(rate_likelihoods(page, elapsed, changed, 4000, learner.rates()))
    prior = GammaBelief.of(0.5, 0.5 * DAY)
    for _ in range(40):
        belief = prior
        for t, found in zip(elapsed.reshape(4000, 10).T, changed.reshape(4000, 10).T, strict=True):
            belief = after_poll(belief, t, found)
        prior = refit_from_beliefs(belief)
    assert float(prior.shape) == pytest.approx(float(fitted.shape), rel=0.06)
    assert float(mean_rate(prior)) == pytest.approx(float(mean_rate(fitted)), rel=0.03)
