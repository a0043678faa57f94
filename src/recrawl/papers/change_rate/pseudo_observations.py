"""A prior for change rates in the form of two polls that were never made.

One poll that found a change and one that found none are added to every page.  They keep the
estimate from irregular polls away from 0 and infinity, and pull it towards the rates of the
population.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from scipy.optimize import minimize

from recrawl.core.arrays import ArrayLike, FloatArray

__all__ = ["PseudoObservationFit", "PseudoObservations", "fit_pseudo_observations"]

Variable: TypeAlias = Literal["log_rate", "rate", "period"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PseudoObservations:
    """Two polls assumed for every page: one found a change, one did not.

    Their likelihood, normalised to a density of the rate, is the density of the sum of two
    exponential variables with means 1/u and 1/(u+c).  It lies between Gamma(2, u), for c much
    shorter than u, and an exponential, for c much longer.  A population with many near-static
    pages (Gamma with a shape below 1) is wider than the density of any pair.

    Parameters
    ----------
    changed_after
        Seconds between fetches in the poll that found a change (c).
    unchanged_after
        Seconds between fetches in the poll that found none (u).

    Examples
    --------
    The pair of the Cost paper.  Its most likely rate is one change in 57.5 h, its mean rate one
    in 28.7 h:

    >>> hour = 3_600.0
    >>> prior = PseudoObservations(changed_after=1 * hour, unchanged_after=57 * hour)
    >>> round(1 / prior.mode_rate / hour, 1), round(prior.mean_rate * hour, 4)
    (57.5, 0.0348)

    References
    ----------
    Prior §4.4
    Cost §4.4
    """

    changed_after: float
    unchanged_after: float

    def __post_init__(self) -> None:
        for name in ("changed_after", "unchanged_after"):
            seconds = getattr(self, name)
            if not 0 < seconds < np.inf:
                raise ValueError(f"{name} must be positive and finite, got {seconds!r}")

    @property
    def mode_rate(self) -> float:
        """Most likely change rate, per second: the estimate from these two polls alone."""
        # CGM eq. 2 with one interval of each kind:  c / (e^{λc} - 1) = u.
        return math.log1p(self.changed_after / self.unchanged_after) / self.changed_after

    @property
    def mean_rate(self) -> float:
        """Mean of the density of the rate, per second."""
        return 1 / self.unchanged_after + 1 / (self.unchanged_after + self.changed_after)

    @property
    def rate_deviation(self) -> float:
        """Standard deviation of the density of the rate, per second."""
        return math.hypot(1 / self.unchanged_after, 1 / (self.unchanged_after + self.changed_after))

    def density(self, change_rate: ArrayLike) -> FloatArray:
        """Return the normalised density of the change rate, in seconds."""
        # (1 - e^{-λc}) e^{-λu} / Z,   Z = 1/u - 1/(u+c) = c / (u (u+c)).
        rate = np.asarray(change_rate, dtype=np.float64)
        c, u = self.changed_after, self.unchanged_after
        return np.asarray(-np.expm1(-rate * c) * np.exp(-rate * u) * (u * (u + c) / c))


class PseudoObservationFit(NamedTuple):
    """A fitted pair, and whether the search ended inside its bounds.

    ``converged`` is False where the population is narrower than Gamma(2) or wider than an
    exponential: the best pair then lies at a bound of the ratio of the two times.
    """

    pseudo: PseudoObservations
    converged: bool


# Beyond these ratios c/u a pair cannot be told from Gamma(2) or an exponential.
_RATIO_MIN, _RATIO_MAX = 1e-3, 1e3


def _squared_norm(c: float, u: float, variable: Variable) -> float:
    # ∫ q² of the density q of the variable: ∫ p(λ)² λ^k dλ with k = 1, 0, 2 for log λ, λ, 1/λ.
    # These closed forms in b = 2u + c avoid the differences of 1/(2u)^{k+1}, 1/b^{k+1} and
    # 1/(2u+2c)^{k+1}, which cancel for c ≪ u.
    b = 2 * u + c
    if variable == "log_rate":
        return (3 - (c / b) ** 2) / 8
    if variable == "rate":
        return u * (u + c) / (2 * b)
    return (6 * b**4 - 3 * b**2 * c**2 + c**4) / (16 * b**3 * u * (u + c))


def fit_pseudo_observations(
    change_rate: ArrayLike, *, weights: ArrayLike = 1.0, variable: Variable = "log_rate"
) -> PseudoObservationFit:
    """Return the pair of pseudo-observations closest to a population of change rates.

    The distance is the L2 distance between densities, as in the paper.  It depends on the variable
    of these densities: if it is the rate, fast pages hardly count; if it is the period, slow pages
    hardly count; if it is the logarithm of the rate, all pages count and the unit of time does not
    matter.

    The distance to a sample needs no binning: up to a constant it is ∫q² - 2 E[q(sample)], and
    ∫q² has a closed form.  It is smooth in its two parameters, so Nelder-Mead from the best points
    of a grid finds the same minimum every time; the paper's simulated annealing gives another
    result in each run.

    Parameters
    ----------
    change_rate
        Changes per second of a sample of pages, each more than 0.
    weights
        Weight of each page.
    variable
        Variable whose densities are compared.

    Examples
    --------
    >>> hour = 3_600.0
    >>> periods = np.array([25, 40, 50, 80, 120, 200]) * hour
    >>> pseudo, converged = fit_pseudo_observations(1 / periods)
    >>> round(pseudo.changed_after / hour), round(pseudo.unchanged_after / hour), converged
    (112, 71, True)

    References
    ----------
    Prior §4.4
    """
    if variable not in get_args(Variable):
        raise ValueError(f"variable must be one of {get_args(Variable)}, got {variable!r}")
    rate, weight = np.broadcast_arrays(
        np.asarray(change_rate, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    )
    if not rate.size or not np.all((rate > 0) & (rate < np.inf)):
        raise ValueError("change_rate must be one or more positive, finite rates")
    weight = weight / weight.sum()
    # Rescale time so that the mean log rate is 0, because the grid of starts is fixed.
    scale = math.exp(-float(np.sum(weight * np.log(rate))))
    scaled = rate * scale
    jacobian = scaled ** {"log_rate": 1, "rate": 0, "period": 2}[variable]

    def pair(point: FloatArray) -> PseudoObservations:
        u = math.exp(point[0])
        ratio = min(max(math.exp(point[1]), _RATIO_MIN), _RATIO_MAX)
        return PseudoObservations(changed_after=ratio * u, unchanged_after=u)

    def distance(point: FloatArray) -> float:
        pseudo = pair(point)
        cross = float(np.sum(weight * jacobian * pseudo.density(scaled)))
        return _squared_norm(pseudo.changed_after, pseudo.unchanged_after, variable) - 2 * cross

    best = _minimum_from_many_starts(distance)
    found = pair(best)
    ratio = found.changed_after / found.unchanged_after
    return PseudoObservationFit(
        PseudoObservations(
            changed_after=found.changed_after * scale,
            unchanged_after=found.unchanged_after * scale,
        ),
        _RATIO_MIN * 1.01 < ratio < _RATIO_MAX / 1.01,
    )


def _minimum_from_many_starts(distance: Callable[[FloatArray], float]) -> FloatArray:
    """Return the best point of a grid over log u and log c/u, refined by Nelder-Mead."""
    starts = [
        np.array([log_unchanged, log_ratio])
        for log_unchanged in np.linspace(-4.0, 4.0, 17)
        for log_ratio in np.linspace(math.log(_RATIO_MIN), math.log(_RATIO_MAX), 9)
    ]
    starts.sort(key=distance)
    searches = [
        minimize(
            distance,
            start,
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 2_000},
        )
        for start in starts[:3]
    ]
    return np.asarray(min(searches, key=lambda search: float(search.fun)).x)
