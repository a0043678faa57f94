"""The two-poll prior: its density and the fit of one, against quadrature and brute force."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import gamma

from recrawl.papers.change_rate import PseudoObservations, fit_pseudo_observations
from recrawl.papers.change_rate.pseudo_observations import Variable, _squared_norm

HOUR = 3_600.0
COST = PseudoObservations(changed_after=1 * HOUR, unchanged_after=57 * HOUR)
VARIABLES: tuple[Variable, ...] = ("log_rate", "rate", "period")


def test_the_pair_of_cost_has_a_mode_of_57_5_hours_and_a_mean_of_28_7() -> None:
    """Cost §4.4: which of the two is meant must be said."""
    assert 1 / COST.mode_rate / HOUR == pytest.approx(57.4986, abs=5e-5)
    assert COST.mean_rate * HOUR == pytest.approx(0.0348, abs=5e-5)
    assert 1 / COST.mean_rate / HOUR == pytest.approx(28.7, abs=0.05)


def test_the_pair_of_cost_is_nearly_a_gamma_of_shape_2() -> None:
    """Gamma(2, 57.5 h): densities differ by less than 0.1 % of the highest one."""
    rate = np.linspace(0, 0.3, 500) / HOUR
    near = gamma(2, scale=1 / (57.5 * HOUR)).pdf(rate)
    assert np.abs(COST.density(rate) - near).max() < 1e-3 * near.max()


@pytest.mark.parametrize("ratio", [1e-3, 0.3, 1.0, 50.0])
def test_the_density_is_one(ratio: float) -> None:
    pseudo = PseudoObservations(changed_after=ratio, unchanged_after=1.0)
    moments = [
        sum(
            quad(lambda x, k=k: x**k * float(pseudo.density(x)), a, b, epsabs=1e-13)[0]
            for a, b in ((0, 0.1), (0.1, 1), (1, 10), (10, 60))
        )
        for k in range(3)
    ]
    assert moments[0] == pytest.approx(1, rel=1e-9)
    assert pseudo.mean_rate == pytest.approx(moments[1], rel=1e-9)
    assert pseudo.rate_deviation == pytest.approx(math.sqrt(moments[2] - moments[1] ** 2), rel=1e-8)
    rates = np.linspace(0.5, 2, 5) * pseudo.mode_rate
    assert np.argmax(pseudo.density(rates)) == np.argmin(np.abs(rates - pseudo.mode_rate))


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("ratio", [1e-3, 0.7, 100.0])
def test_the_norm_of_the_density_is_its_integral(variable: Variable, ratio: float) -> None:
    """∫ q² for the density q of the log rate, of the rate and of the period."""
    pseudo = PseudoObservations(changed_after=2 * ratio, unchanged_after=2.0)

    def squared_density(s: float) -> float:
        rate = {"rate": s, "log_rate": math.exp(min(s, 9)), "period": 1 / (s or 1)}[variable]
        jacobian = {"rate": 1.0, "log_rate": rate, "period": rate**2}[variable]
        return (float(pseudo.density(rate)) * jacobian) ** 2

    ends = {
        "rate": (0, 0.01, 0.1, 1, 30),
        "log_rate": (-40, -10, -3, 0, 4),
        "period": (1e-3, 0.1, 1, 10, 1e3, 1e6),
    }[variable]
    integral = math.fsum(
        quad(squared_density, a, b, epsabs=0, epsrel=1e-11, limit=500)[0] for a, b in pairwise(ends)
    )
    norm = _squared_norm(pseudo.changed_after, pseudo.unchanged_after, variable)
    assert norm == pytest.approx(integral, rel=1e-7)


def population(pseudo: PseudoObservations, n: int) -> np.ndarray:
    """Return ``n`` rates spread as the density says, by its quantiles."""
    c, u = pseudo.changed_after, pseudo.unchanged_after

    def cumulative(rate: float) -> float:
        # ∫ of e^{-λu} - e^{-λ(u+c)}, normalised.
        return 1 - ((u + c) * math.exp(-rate * u) - u * math.exp(-rate * (u + c))) / c

    shares = (np.arange(n) + 0.5) / n
    return np.array([brentq(lambda x, s=s: cumulative(x) - s, 0, 60 / u) for s in shares])


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_fit_finds_the_pair_a_population_was_made_of(variable: Variable) -> None:
    """1000 rates, so that the sample is the population to a per mille."""
    made = PseudoObservations(changed_after=120 * HOUR, unchanged_after=40 * HOUR)
    fitted, converged = fit_pseudo_observations(population(made, 1_000), variable=variable)
    assert converged
    assert fitted.changed_after == pytest.approx(made.changed_after, rel=0.05)
    assert fitted.unchanged_after == pytest.approx(made.unchanged_after, rel=0.02)


def test_no_pair_of_a_grid_is_closer() -> None:
    """L2 between densities of the log rate, up to what does not depend on the pair."""
    rates = np.exp(np.linspace(-1.3, 1.3, 60)) / (80 * HOUR)
    fitted, _ = fit_pseudo_observations(rates)

    def distance(pseudo: PseudoObservations) -> float:
        y = np.linspace(math.log(1e-9), math.log(1e-1), 20_001)
        q = pseudo.density(np.exp(y)) * np.exp(y)
        norm = float(np.sum((q[1:] ** 2 + q[:-1] ** 2) / 2) * (y[1] - y[0]))
        return norm - 2 * float(np.mean(pseudo.density(rates) * rates))

    best = distance(fitted)
    for u in np.geomspace(10, 500, 25) * HOUR:
        for ratio in np.geomspace(0.01, 100, 25):
            other = PseudoObservations(changed_after=ratio * u, unchanged_after=u)
            assert best <= distance(other) + 1e-9


def test_populations_too_narrow_or_too_wide_are_reported() -> None:
    """Between Gamma(2) and an exponential lies all that a pair can be."""
    narrow = np.exp(np.linspace(-0.2, 0.2, 30))
    wide = np.exp(np.linspace(-5, 5, 30))
    assert not fit_pseudo_observations(narrow).converged
    assert not fit_pseudo_observations(wide).converged


@given(scale=st.floats(1e-6, 1e6))
def test_does_not_depend_on_the_unit_of_time(scale: float) -> None:
    rates = np.exp(np.linspace(-1.3, 1.3, 20))
    here, _ = fit_pseudo_observations(rates)
    there, _ = fit_pseudo_observations(rates / scale)
    assert there.changed_after == pytest.approx(here.changed_after * scale, rel=1e-4)
    assert there.unchanged_after == pytest.approx(here.unchanged_after * scale, rel=1e-4)


def test_a_weight_of_two_is_two_pages() -> None:
    rates = np.array([0.5, 1.0, 3.0])
    weighted, _ = fit_pseudo_observations(rates, weights=[1, 2, 1])
    repeated, _ = fit_pseudo_observations([0.5, 1.0, 1.0, 3.0])
    assert weighted.unchanged_after == pytest.approx(repeated.unchanged_after, rel=1e-6)


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="changed_after must be positive and finite, got 0"):
        PseudoObservations(changed_after=0, unchanged_after=1)
    with pytest.raises(ValueError, match="change_rate must be one or more positive"):
        fit_pseudo_observations([1.0, 0.0])
    with pytest.raises(ValueError, match="variable must be one of"):
        fit_pseudo_observations([1.0], variable="speed")  # type: ignore[arg-type]
