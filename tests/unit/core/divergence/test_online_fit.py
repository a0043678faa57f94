"""The most probable curve, against a search of the posterior density by scipy."""

import math
import os

import numpy as np
import pytest
from scipy.optimize import minimize

from recrawl.core.divergence import (
    ChangeProfiles,
    DivergencePrior,
    add_observations,
    churn_divergence,
    start_bases,
)

N_PAGES = 10 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 200


def profiles_of(ages: np.ndarray, divergences: np.ndarray) -> ChangeProfiles:
    profiles = ChangeProfiles.empty(ages.shape[0], n_bases=1, n_observations=ages.shape[1])
    start_bases(profiles, np.arange(ages.shape[0]), 0.0)
    for k in range(ages.shape[1]):
        add_observations(profiles, np.arange(ages.shape[0]), ages[:, k], divergences[:, k : k + 1])
    return profiles


def minus_log_posterior(
    theta: np.ndarray,
    ages: np.ndarray,
    seen: np.ndarray,
    change_rate: float,
    prior: DivergencePrior,
) -> float:
    """Written from the model: Gaussian observations, Gaussian priors of logit and log."""
    logit, log_rate = theta
    ceiling = 1 / (1 + math.exp(-logit))
    curve = ceiling - ceiling * np.exp(-math.exp(log_rate) * ages)
    size = prior.sketch_size or math.inf
    variance = prior.noise_floor**2 + seen * (1 - seen) / size
    logit_median = math.log(prior.ceiling_median) - math.log(1 - prior.ceiling_median)
    log_median = math.log(prior.ratio_median * change_rate)
    return float(
        0.5 * np.sum((seen - curve) ** 2 / variance)
        + 0.5 * ((logit - logit_median) / prior.logit_ceiling_sd) ** 2
        + 0.5 * ((log_rate - log_median) / prior.log_ratio_sd) ** 2
    )


@pytest.mark.parametrize(
    "prior",
    [
        DivergencePrior(),
        DivergencePrior(noise_floor=0.01, sketch_size=None),
        DivergencePrior(ratio_median=1.0, log_ratio_sd=0.3, ceiling_median=0.2, sketch_size=8),
    ],
    ids=["default", "sharp", "churn"],
)
def test_no_curve_is_more_probable(prior: DivergencePrior, rng: np.random.Generator) -> None:
    """Of noisy pages: every search ends, and scipy from there finds nothing better."""
    ages = np.cumsum(rng.exponential(1.0, (N_PAGES, 8)), axis=1)
    rate, ceiling = np.exp(rng.uniform(-4, 1, (N_PAGES, 1))), rng.uniform(0.02, 1, (N_PAGES, 1))
    noise = 0.05 * rng.standard_normal(ages.shape)
    seen = np.clip(churn_divergence(rate, ages, ceiling=ceiling) + noise, 0, 1)
    fit = prior.fit(profiles_of(ages, seen), change_rate=1.0)
    assert fit.is_converged.all()
    for page in range(min(N_PAGES, 40)):
        start = [math.log(fit.ceiling[page] / (1 - fit.ceiling[page])), math.log(fit.rate[page])]
        arguments = (ages[page], seen[page], 1.0, prior)
        best = minimize(minus_log_posterior, start, args=arguments, method="Nelder-Mead")
        assert minus_log_posterior(np.array(start), *arguments) <= best.fun + 1e-6


def test_no_curve_far_away_is_more_probable(rng: np.random.Generator) -> None:
    """Of 8 pages with random observations, over a grid of four deviations of the prior."""
    prior = DivergencePrior(noise_floor=0.03)
    ages = np.cumsum(rng.exponential(1.0, (8, 6)), axis=1)
    seen = rng.uniform(0, 1, ages.shape)
    fit = prior.fit(profiles_of(ages, seen), change_rate=1.0)
    for page in range(8):
        arguments = (ages[page], seen[page], 1.0, prior)
        logit = math.log(fit.ceiling[page] / (1 - fit.ceiling[page]))
        found = minus_log_posterior(np.array([logit, math.log(fit.rate[page])]), *arguments)
        elsewhere = min(
            minus_log_posterior(np.array([u, v]), *arguments)
            for u in np.linspace(-7.5, 8.5, 41)
            for v in np.linspace(-9.2, 3.8, 41)
        )
        assert found <= elsewhere + 1e-6


def test_without_observations_it_is_the_prior() -> None:
    prior = DivergencePrior()
    fit = prior.fit(ChangeProfiles.empty(2), change_rate=[1.0, 1e-6])
    np.testing.assert_allclose(fit.rate, [0.07, 0.07e-6], rtol=1e-9)
    np.testing.assert_allclose(fit.ceiling, 0.62, rtol=1e-9)
    np.testing.assert_allclose(fit.log_rate_sd, prior.log_ratio_sd, rtol=1e-9)


def test_the_prior_is_that_of_real_pages() -> None:
    """p10, median and p90 of divergence rate / change rate: .013, .07, .84 with a log-normal.

    It is not quite one: its 10th and 90th percentiles are .009 and .57.
    """
    prior = DivergencePrior()
    spread = math.log(0.84 / 0.013) / (2 * 1.2816)
    assert prior.log_ratio_sd == pytest.approx(spread, abs=0.005)


def test_many_observations_outweigh_the_prior() -> None:
    ages = np.geomspace(0.01, 30, 200)[None, :]
    curve = churn_divergence(0.9, ages, ceiling=0.3)
    fit = DivergencePrior(noise_floor=0.02).fit(profiles_of(ages, curve), change_rate=1.0)
    assert fit.rate[0] == pytest.approx(0.9, rel=0.03)
    assert fit.ceiling[0] == pytest.approx(0.3, rel=0.01)
    assert fit.log_rate_sd[0] < 0.1
    assert fit.log_ceiling_sd[0] < 0.05


def test_uncertainty_is_the_spread_of_fits(rng: np.random.Generator) -> None:
    """Repeated noise on one curve: the spread of log rate within 30 % of what is said (6 sigma)."""
    ages = np.tile(np.geomspace(0.3, 30, 40), (N_PAGES, 1))
    noise = 0.05 * rng.standard_normal(ages.shape)
    curve = churn_divergence(0.3, ages, ceiling=0.5) + noise
    prior = DivergencePrior(
        noise_floor=0.05, sketch_size=None, log_ratio_sd=50, logit_ceiling_sd=50
    )
    fit = prior.fit(profiles_of(ages, curve), change_rate=1.0)
    tolerance = 6 / math.sqrt(2 * N_PAGES)
    assert np.std(np.log(fit.rate)) == pytest.approx(np.median(fit.log_rate_sd), rel=tolerance)
    assert np.std(np.log(fit.ceiling)) == pytest.approx(
        np.median(fit.log_ceiling_sd), rel=tolerance
    )


def test_rows_are_fitted_as_all_pages_are(rng: np.random.Generator) -> None:
    ages = np.cumsum(rng.exponential(1.0, (6, 5)), axis=1)
    profiles = profiles_of(ages, np.sort(rng.uniform(0, 1, ages.shape), axis=1))
    change_rate = rng.uniform(0.1, 2, 6)
    everything = DivergencePrior().fit(profiles, change_rate)
    some = DivergencePrior().fit(profiles, change_rate[[4, 1]], rows=[4, 1])
    for column, other in zip(everything, some, strict=True):
        np.testing.assert_array_equal(column[[4, 1]], other)


def test_does_not_depend_on_the_unit_of_time(rng: np.random.Generator) -> None:
    ages = np.cumsum(rng.exponential(1.0, (20, 6)), axis=1)
    seen = np.sort(rng.uniform(0, 1, ages.shape), axis=1)
    fit = DivergencePrior().fit(profiles_of(ages, seen), 0.5)
    in_days = DivergencePrior().fit(profiles_of(ages / 86_400, seen), 0.5 * 86_400)
    np.testing.assert_allclose(in_days.rate, fit.rate * 86_400, rtol=1e-4)
    np.testing.assert_allclose(in_days.ceiling, fit.ceiling, rtol=1e-4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ratio_median": 0.0}, "ratio_median must be positive and finite, got 0.0"),
        ({"ceiling_median": 1.0}, "ceiling_median must be between 0 and 1, got 1.0"),
        ({"sketch_size": 0}, "sketch_size must be at least 1, got 0"),
    ],
)
def test_rejects_invalid_priors(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DivergencePrior(**parameters)  # type: ignore[arg-type]


def test_refuses_a_page_that_never_changes() -> None:
    with pytest.raises(ValueError, match="change_rate must be positive, got"):
        DivergencePrior().fit(ChangeProfiles.empty(1), change_rate=0.0)
