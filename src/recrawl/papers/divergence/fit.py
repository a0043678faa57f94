"""Least-squares fits of churn and scroll curves to a page's observations."""

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, CountArray, FlagArray, FloatArray
from recrawl.core.divergence.curves import scroll_divergence
from recrawl.core.divergence.profile import CombinedProfiles
from recrawl.core.kernel import kernel

__all__ = ["N_ITEMS_TRIED", "CurveKind", "FittedCurves", "fit_curves"]

N_ITEMS_TRIED = (2, 3, 5, 10, 20, 40)
"""Numbers of items K that `fit_curves` tries for scroll curves.  Neighbouring curves differ by
1 % or so."""

# The search scans this many rates, evenly in the logarithm, and narrows the best by golden section
# to 1e-7 of a step; the sums of squares have no features narrower than a factor of 2 or so.
_N_SCANNED = 32
_N_NARROWED = 34
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_CEILING_ITERATIONS_MAX = 8
_CEILING_MIN = 1e-100
# A curve of more items must be closer by this root mean square: less is rounding.
_CLOSER_BY = 1e-6


class CurveKind(IntEnum):
    """Kind of curve that a page's divergence follows."""

    CHURN = 0
    SCROLL = 1


class FittedCurves(NamedTuple):
    """A divergence curve for each page: 41 bytes a page."""

    ceiling: FloatArray
    """Divergence after a long time, 0 to 1; for scroll 2K / (S + 2K)."""
    rate: FloatArray
    """Per second: of the divergence (churn), or of new items (scroll)."""
    n_items: CountArray
    """K of a scroll curve; 1 for churn, which a scroll page of one item is."""
    misfit: FloatArray
    """Root mean square of observed minus fitted divergence; nan without observations."""
    misfit_of_churn: FloatArray
    """Misfit of the best churn curve."""
    is_converged: FlagArray
    """Whether the observations determine the curve: not with fewer than two ages, or level ones."""

    @property
    def kind(self) -> CountArray:
        """`CurveKind` of each curve."""
        return np.where(self.n_items > 1, np.int64(CurveKind.SCROLL), np.int64(CurveKind.CHURN))

    @property
    def static_items(self) -> FloatArray:
        """Size of the static part beside the items, in items (S)."""
        # A ceiling of 0 means that all is static; avoid a division by 0.
        ceiling = np.maximum(self.ceiling, _CEILING_MIN)
        return np.asarray(2.0 * self.n_items * (1.0 / ceiling - 1.0))

    def divergence(self, elapsed: ArrayLike) -> FloatArray:
        """Return the expected divergence of each page's copy after ``elapsed`` seconds."""
        return scroll_divergence(
            self.rate, elapsed, n_items=self.n_items, static_items=self.static_items
        )


@kernel
def _fill_masses(ages: FloatArray, rate: float, masses: FloatArray) -> None:
    """Write P(j updates) for j < K, and P(K or more) for j = K, at each age."""
    n_items = masses.shape[1] - 1
    for i in range(ages.size):
        x = rate * ages[i]
        mass = math.exp(-x)
        left = -math.expm1(-x)
        masses[i, 0] = mass
        for j in range(1, n_items):
            mass *= x / j
            masses[i, j] = mass
            left -= mass
        masses[i, n_items] = max(left, 0.0)


@kernel
def _best_ceiling(
    ages: FloatArray,
    divergences: FloatArray,
    rate: float,
    masses: FloatArray,
    levels: FloatArray,
) -> tuple[float, float]:
    """Return the sum of squares of the best curve of this rate, and its ceiling."""
    # With the ceiling c = 2K/(S + 2K) in place of S, the divergence after j ≤ K updates is
    #
    #     h_j = 2j / (S + K + j) = 2jc / (2K - (K-j) c),     dh_j/dc = 4jK / (2K - (K-j) c)²,
    #
    # close to linear in c, and for K = 1, churn, h_1 = c: Gauss-Newton takes a few steps.
    n_items = masses.shape[1] - 1
    _fill_masses(ages, rate, masses)
    ceiling = 0.5
    total = 0.0
    for _ in range(_CEILING_ITERATIONS_MAX):
        for j in range(1, n_items + 1):
            below = 2.0 * n_items - (n_items - j) * ceiling
            levels[0, j] = 2.0 * j * ceiling / below
            levels[1, j] = 4.0 * j * n_items / (below * below)
        total = 0.0
        gradient = 0.0
        curvature = 0.0
        for i in range(ages.size):
            fitted = 0.0
            slope = 0.0
            for j in range(1, n_items + 1):
                fitted += masses[i, j] * levels[0, j]
                slope += masses[i, j] * levels[1, j]
            error = divergences[i] - fitted
            total += error * error
            gradient += error * slope
            curvature += slope * slope
        moved = gradient / curvature if curvature > 0.0 else 0.0
        new = min(max(ceiling + moved, 0.0), 1.0)
        if abs(new - ceiling) < 1e-9:
            break
        ceiling = new
    return total, ceiling


@kernel
def _fit_one(
    ages: FloatArray, divergences: FloatArray, masses: FloatArray, levels: FloatArray
) -> tuple[float, float, float, bool]:
    """Return sum of squares, ceiling, rate and whether the rate is determined, for one K."""
    n_items = masses.shape[1] - 1
    # From a curve that moves a millionth in the time seen to one level from the first age on.
    low = math.log(1e-6 * n_items / ages[-1])
    high = math.log((n_items + 5.0 * math.sqrt(n_items) + 4.0) / ages[0])
    step = (high - low) / (_N_SCANNED - 1)
    least = math.inf
    best = 0
    for k in range(_N_SCANNED):
        total, _ = _best_ceiling(ages, divergences, math.exp(low + k * step), masses, levels)
        if total < least:
            least = total
            best = k
    left = low + max(best - 1, 0) * step
    right = low + min(best + 1, _N_SCANNED - 1) * step
    a = right - _GOLDEN * (right - left)
    b = left + _GOLDEN * (right - left)
    at_a, _ = _best_ceiling(ages, divergences, math.exp(a), masses, levels)
    at_b, _ = _best_ceiling(ages, divergences, math.exp(b), masses, levels)
    for _ in range(_N_NARROWED):
        if at_a <= at_b:
            right, b, at_b = b, a, at_a
            a = right - _GOLDEN * (right - left)
            at_a, _ = _best_ceiling(ages, divergences, math.exp(a), masses, levels)
        else:
            left, a, at_a = a, b, at_b
            b = left + _GOLDEN * (right - left)
            at_b, _ = _best_ceiling(ages, divergences, math.exp(b), masses, levels)
    middle = (left + right) / 2.0
    total, ceiling = _best_ceiling(ages, divergences, math.exp(middle), masses, levels)
    return total, ceiling, math.exp(middle), middle < high - 0.01 * step


@kernel
def _fit_all(
    n_points: CountArray,
    ages: FloatArray,
    divergences: FloatArray,
    n_items_tried: CountArray,
    n_items: CountArray,
    out: FloatArray,
) -> None:
    for page in range(n_points.size):
        n = n_points[page]
        t = ages[page, :n]
        y = divergences[page, :n]
        n_items[page] = 1
        if n == 0:
            out[2, page] = math.nan
            out[3, page] = math.nan
            continue
        if not y.max() > 0.0:
            # Never seen to diverge: the ceiling is taken as 0.
            out[4, page] = 1.0 if n > 1 else 0.0
            continue
        if n == 1:
            # One point has a curve through it for every ceiling above; take 1.
            out[0, page] = 1.0
            out[1, page] = -math.log1p(-min(y[0], 1.0 - 1e-6)) / t[0]
            continue
        closest = math.inf
        for k in range(n_items_tried.size):
            n_tried = n_items_tried[k]
            masses = np.empty((n, n_tried + 1))
            levels = np.zeros((2, n_tried + 1))
            total, ceiling, rate, is_determined = _fit_one(t, y, masses, levels)
            misfit = math.sqrt(total / n)
            if k == 0:
                out[3, page] = misfit
            if misfit < closest - _CLOSER_BY:
                closest = misfit
                n_items[page] = n_tried
                out[0, page] = ceiling
                out[1, page] = rate
                out[2, page] = misfit
                out[4, page] = 1.0 if is_determined else 0.0


def fit_curves(
    profiles: CombinedProfiles, *, n_items_tried: Sequence[int] = N_ITEMS_TRIED
) -> FittedCurves:
    """Return the churn or scroll curve closest to each page's profile, by least squares.

    The rate is scanned over all that the ages can tell, then narrowed; the ceiling follows by a
    few steps of Gauss-Newton.  No start is needed, and the same points give the same curve.

    A page with few observations gets a curve through them.  Where a prior is at hand,
    `recrawl.core.divergence.online_fit` is the better choice.

    Parameters
    ----------
    profiles
        Combined profiles of each page, from `recrawl.core.divergence.profile.combine_profiles`.
    n_items_tried
        Sizes of scroll curves to try beside churn, each at least 2.

    Examples
    --------
    A page found more and more different over 40 days, up to about a half:

    >>> profile = CombinedProfiles(
    ...     np.array([5]), np.array([[2.0, 5.0, 10.0, 20.0, 40.0]]),
    ...     np.array([[0.09, 0.20, 0.31, 0.43, 0.48]]),
    ... )
    >>> curves = fit_curves(profile)
    >>> CurveKind(curves.kind[0]).name, curves.ceiling.round(2), curves.rate.round(2)
    ('CHURN', array([0.49]), array([0.1]))

    References
    ----------
    Longevity §4.2 (curve fit, step 2)
    """
    if any(n < 2 for n in n_items_tried):
        raise ValueError(f"n_items_tried must be at least 2 each, got {n_items_tried!r}")
    n_pages = profiles.n_points.size
    n_items = np.empty(n_pages, np.int64)
    out = np.zeros((5, n_pages))
    tried = np.array([1, *n_items_tried], dtype=np.int64)
    _fit_all(*profiles, tried, n_items, out)
    return FittedCurves(out[0], out[1], n_items, out[2], out[3], out[4] > 0.0)
