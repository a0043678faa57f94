"""Estimate how many fetches one policy needs to reach the freshness of another.

Confidence intervals come from the bootstrap: pages are sampled with replacement (whole hosts, if
there are many), and every curve is summed again over each sample.  No policy has to run again: at a
fixed price, or with a rule for intervals, the result of one page does not depend on the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recrawl.backtest.policy_runs import PolicyRuns
from recrawl.core.arrays import FloatArray, RowArray

__all__ = [
    "N_DRAWS",
    "Curves",
    "Estimate",
    "best_of",
    "better_points",
    "curves_of",
    "draws_of",
    "estimate_of",
    "fetches_along",
    "fetches_for",
    "freshness_at",
]

N_DRAWS = 400
"""Number of bootstrap samples."""
# Fewest hosts for which whole hosts are sampled.
_CLUSTERS_MIN = 40
# Smallest stale share, so that its logarithm is finite.
_STALE_MIN = 1e-9
# Points between two settings of a policy, each a mixture of them.
_MIXTURES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A quantity with its 95 % interval; nan where it is unknown."""

    value: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether the quantity and its interval are known."""
        return bool(np.isfinite([self.value, self.low, self.high]).all())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curves:
    """Fetches and freshness of a policy's runs (columns), for each sample of pages (rows).

    Row 0 is for the original pages.
    """

    name: str
    n_fetches: NDArray[np.float64]
    freshness: NDArray[np.float64]
    is_tuned: bool = False
    """See `PolicyRuns`."""


def draws_of(cluster: RowArray, *, n_draws: int = N_DRAWS, seed: int = 0) -> NDArray[np.float32]:
    """Return how often each page is in each bootstrap sample; row 0 has every page once.

    With at least 40 hosts, whole hosts are sampled, because pages of one host change together.
    With fewer hosts, single pages are sampled.
    """
    rng = np.random.default_rng(seed)
    _, unit = np.unique(cluster, return_inverse=True)
    n_units = int(unit.max()) + 1 if unit.size else 0
    if n_units < _CLUSTERS_MIN:
        unit, n_units = np.arange(cluster.size), cluster.size
    weights = np.ones((n_draws + 1, cluster.size), np.float32)
    for row in range(1, n_draws + 1):
        drawn = np.bincount(rng.integers(0, n_units, n_units), minlength=n_units)
        weights[row] = drawn[unit]
    return weights


def curves_of(
    runs: PolicyRuns,
    *,
    importance: FloatArray,
    seconds: float,
    draws: NDArray[np.float32],
) -> Curves:
    """Return a policy's curves for all samples of pages."""
    weight = importance / importance.sum()
    fetches = np.stack([point.fetches for point in runs.points]).astype(np.float64)
    fresh = np.stack([point.fresh_seconds for point in runs.points]) * (weight / seconds)
    drawn = draws.astype(np.float64)
    weight_drawn = drawn @ weight
    # A sample without any page of positive importance has no freshness.
    weight_drawn[weight_drawn <= 0] = np.nan
    return Curves(
        name=runs.name,
        n_fetches=drawn @ fetches.T,
        freshness=(drawn @ fresh.T) / weight_drawn[:, None],
        is_tuned=runs.is_tuned,
    )


def fetches_for(curves: Curves, freshness: FloatArray) -> FloatArray:
    """Return the fewest fetches that reach a freshness, for each sample; nan outside the runs.

    Between two runs the log of fetches is linear in the log of the stale share, as it is for
    pages that change at random and are fetched often.
    """
    rows = range(freshness.size)
    return np.concatenate([_fetches_for_row(curves, row, freshness[row : row + 1]) for row in rows])


def fetches_along(curves: Curves, freshness: FloatArray) -> FloatArray:
    """Return the fewest fetches that reach each freshness, for the original pages."""
    return _fetches_for_row(curves, 0, freshness)


def _fetches_for_row(curves: Curves, row: int, freshness: FloatArray) -> FloatArray:
    log_n, log_stale = _efficient_points(curves, row)
    if log_n.size == 0:
        return np.full(freshness.size, np.nan)
    wanted = np.log(np.maximum(1 - freshness, _STALE_MIN))
    needed = np.exp(np.interp(-wanted, -log_stale, log_n))
    return np.where((log_stale[-1] <= wanted) & (wanted <= log_stale[0]), needed, np.nan)


def freshness_at(curves: Curves, n_fetches: FloatArray) -> FloatArray:
    """Return the freshness for a number of fetches, for each sample; nan outside the runs."""
    freshness = np.full(n_fetches.size, np.nan)
    wanted = np.log(n_fetches)
    for row in range(n_fetches.size):
        log_n, log_stale = _efficient_points(curves, row)
        if log_n.size and log_n[0] <= wanted[row] <= log_n[-1]:
            freshness[row] = -np.expm1(np.interp(wanted[row], log_n, log_stale))
    return freshness


def better_points(curves: Curves, row: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return fetches and freshness of the points fresher than all with fewer fetches."""
    log_n, log_stale = _efficient_points(curves, row)
    return np.exp(log_n), -np.expm1(log_stale)


def _efficient_points(curves: Curves, row: int) -> tuple[FloatArray, FloatArray]:
    """Return log fetches and log stale share of points fresher than all with fewer fetches."""
    n_fetches, freshness = curves.n_fetches[row], curves.freshness[row]
    order = np.argsort(n_fetches, kind="stable")
    n_fetches, freshness = n_fetches[order], freshness[order]
    before = np.maximum.accumulate(np.concatenate([[-np.inf], freshness[:-1]]))
    better = (freshness > before) & (n_fetches > 0)
    n_fetches, freshness = n_fetches[better], freshness[better]
    if curves.is_tuned and n_fetches.size:
        n_fetches, freshness = _mix_settings(n_fetches, freshness)
    return np.log(n_fetches), np.log(np.maximum(1 - freshness, _STALE_MIN))


def _mix_settings(n_fetches: FloatArray, freshness: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the points of the upper hull, with mixtures of neighbours between them."""
    hull = _upper_hull(n_fetches, freshness)
    place = np.linspace(0, len(hull) - 1, (len(hull) - 1) * _MIXTURES + 1)
    at = np.arange(len(hull))
    return np.interp(place, at, n_fetches[hull]), np.interp(place, at, freshness[hull])


def _upper_hull(x: FloatArray, y: FloatArray) -> list[int]:
    """Return the indices of points that no mixture of two others beats; ``x`` is ascending."""
    hull: list[int] = []
    for i in range(x.size):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) > (y[i] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return hull


def estimate_of(draws: FloatArray) -> Estimate:
    """Return the value for the original pages, with the 95 % interval of the samples.

    The interval is nan if more than one sample in twenty is nan.
    """
    known = draws[1:][np.isfinite(draws[1:])]
    if not np.isfinite(draws[0]) or known.size < 0.95 * (draws.size - 1) or known.size == 0:
        return Estimate(value=float(draws[0]), low=float("nan"), high=float("nan"))
    low, high = np.quantile(known, [0.025, 0.975])
    return Estimate(value=float(draws[0]), low=float(low), high=float(high))


def best_of(needed: Sequence[FloatArray]) -> FloatArray:
    """Return the fewest fetches that any policy needs, for each sample; nan if all are nan."""
    return np.asarray(np.fmin.reduce(np.stack(needed), axis=0))
