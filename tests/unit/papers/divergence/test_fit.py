"""Fits of churn and scroll curves: exact curves are found, and scipy finds none closer."""

import os

import numpy as np
import pytest
from scipy.optimize import least_squares

from recrawl.core.divergence import CombinedProfiles, churn_divergence, scroll_divergence
from recrawl.papers.divergence import CurveKind, fit_curves

# The fit is a search, slow without compilation.
N_PAGES = 3 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 100


def profiles_of(ages: np.ndarray, divergences: np.ndarray) -> CombinedProfiles:
    n_points = np.full(ages.shape[0], ages.shape[1])
    return CombinedProfiles(n_points, ages, divergences)


def some_ages(rng: np.random.Generator, n_points: int = 14) -> np.ndarray:
    """Ages over two decades and a half about 1."""
    return np.sort(np.exp(rng.uniform(-3, 2, (N_PAGES, n_points))), axis=1)


def test_finds_a_churn_curve(rng: np.random.Generator) -> None:
    ages = some_ages(rng)
    ceiling, rate = rng.uniform(0.05, 1, (N_PAGES, 1)), rng.uniform(0.5, 3, (N_PAGES, 1))
    fit = fit_curves(profiles_of(ages, churn_divergence(rate, ages, ceiling=ceiling)))
    assert np.all(fit.kind == CurveKind.CHURN)
    assert fit.is_converged.all()
    np.testing.assert_allclose(fit.ceiling, ceiling[:, 0], rtol=1e-5)
    np.testing.assert_allclose(fit.rate, rate[:, 0], rtol=1e-5)
    np.testing.assert_allclose(fit.misfit, 0, atol=1e-6)


@pytest.mark.parametrize("n_items", [2, 10, 40])
def test_finds_a_scroll_curve(rng: np.random.Generator, n_items: int) -> None:
    ages = np.tile(np.geomspace(0.05, 7, 14), (N_PAGES, 1))
    static, rate = rng.uniform(0, 30, (N_PAGES, 1)), n_items * rng.uniform(0.5, 3, (N_PAGES, 1))
    curve = scroll_divergence(rate, ages, n_items=n_items, static_items=static)
    fit = fit_curves(profiles_of(ages, curve), n_items_tried=(2, 10, 40))
    assert np.all(fit.n_items == n_items)
    assert np.all(fit.kind == CurveKind.SCROLL)
    assert np.all(fit.misfit < fit.misfit_of_churn)
    np.testing.assert_allclose(fit.rate, rate[:, 0], rtol=1e-4)
    np.testing.assert_allclose(fit.static_items, static[:, 0], atol=1e-3 * n_items)
    elapsed = ages[:, 3]
    np.testing.assert_allclose(fit.divergence(elapsed), curve[:, 3], atol=1e-6)


def test_scipy_finds_no_closer_churn_curve(rng: np.random.Generator) -> None:
    """From the true curve and from the fit, on noisy observations; to 1e-4.

    The fit stops at rates that are level from the first age on.
    """
    ages = some_ages(rng)[:20]
    rates = rng.uniform(0.2, 5, (ages.shape[0], 1))
    ceilings = rng.uniform(0.1, 0.9, (ages.shape[0], 1))
    noise = 0.05 * rng.standard_normal(ages.shape)
    noisy = churn_divergence(rates, ages, ceiling=ceilings) + noise
    seen = np.clip(noisy, 0, 1)
    fit = fit_curves(profiles_of(ages, seen), n_items_tried=())
    for page in range(ages.shape[0]):

        def errors(theta: np.ndarray, page: int = page) -> np.ndarray:
            curve = theta[0] * -np.expm1(-np.exp(theta[1]) * ages[page])
            return np.asarray(curve - seen[page])

        true = (ceilings[page, 0], rates[page, 0])
        for ceiling, rate in (true, (fit.ceiling[page], fit.rate[page])):
            theta = [min(ceiling, 1 - 1e-9), np.log(rate)]
            best = least_squares(errors, theta, bounds=([0, -20], [1, 20]))
            closest = np.sqrt(np.mean(best.fun**2))
            assert fit.misfit[page] <= closest * (1 + 1e-4)


def test_keeps_churn_where_both_fit_alike() -> None:
    """A line: every curve is one at first, and the ceiling may be as high as it can be."""
    ages = np.array([[1.0, 2.0, 3.0, 4.0]])
    fit = fit_curves(profiles_of(ages, 1e-4 * ages))
    assert fit.kind[0] == CurveKind.CHURN
    assert fit.ceiling[0] * fit.rate[0] == pytest.approx(1e-4, rel=1e-3)


def test_a_page_never_seen_to_diverge_stays_as_it_is() -> None:
    fit = fit_curves(profiles_of(np.array([[1.0, 2.0]]), np.zeros((1, 2))))
    assert fit.ceiling[0] == 0.0
    assert fit.is_converged[0]
    assert fit.divergence(1e9)[0] < 1e-90


def test_one_point_does_not_decide() -> None:
    fit = fit_curves(profiles_of(np.array([[2.0]]), np.array([[0.5]])))
    assert not fit.is_converged[0]
    assert fit.divergence(2.0)[0] == pytest.approx(0.5)


def test_a_page_that_is_level_from_the_start_does_not_tell_its_rate() -> None:
    fit = fit_curves(profiles_of(np.array([[1.0, 2.0, 4.0]]), np.full((1, 3), 0.3)))
    assert not fit.is_converged[0]
    assert fit.ceiling[0] == pytest.approx(0.3, rel=1e-3)


def test_without_observations_there_is_no_curve() -> None:
    fit = fit_curves(CombinedProfiles(np.array([0]), np.zeros((1, 4)), np.zeros((1, 4))))
    assert not fit.is_converged[0]
    assert np.isnan(fit.misfit[0])


def test_does_not_depend_on_the_unit_of_time(rng: np.random.Generator) -> None:
    ages = some_ages(rng)[:5]
    seen = np.clip(np.sort(rng.uniform(0, 0.8, ages.shape), axis=1), 0, 1)
    fit, in_days = (fit_curves(profiles_of(ages * unit, seen)) for unit in (1.0, 1 / 86_400))
    np.testing.assert_allclose(in_days.rate, fit.rate * 86_400, rtol=1e-5)
    np.testing.assert_allclose(in_days.ceiling, fit.ceiling, rtol=1e-5)
    np.testing.assert_array_equal(in_days.n_items, fit.n_items)


def test_refuses_to_scroll_over_one_item() -> None:
    with pytest.raises(ValueError, match="n_items_tried must be at least 2 each"):
        fit_curves(profiles_of(np.ones((1, 1)), np.ones((1, 1))), n_items_tried=(1, 2))
