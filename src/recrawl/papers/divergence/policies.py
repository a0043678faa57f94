"""Longevity's two online policies: periods from fitted curves, and from bounds without a model."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, RowArray
from recrawl.core.divergence.profile import ChangeProfiles, SmallCountArray, SmallFloatArray
from recrawl.core.kernel import kernel

__all__ = ["BoundBasedPolicy", "CurveFittingPolicy", "Periods", "ValueBounds", "risk_cap"]


def risk_cap(
    price: ArrayLike,
    *,
    risk: ArrayLike,
    importance: ArrayLike = 1.0,
    divergence_max: ArrayLike = 1.0,
) -> FloatArray:
    """Return the longest period that risks no more than ``risk`` times the price.

    However wrong the model, a copy loses at most ``importance * divergence_max`` a second.

    Parameters
    ----------
    price
        Value that a fetch must reach (Longevity's utility threshold T).
    risk
        Largest loss between two fetches, as a multiple of the price (ρ), at least 1.
    importance
        Weight of the page, or requests per second for its copy.
    divergence_max
        Largest possible divergence; 1 for the share of fragments that differ.

    Returns
    -------
    FloatArray
        Seconds.

    Examples
    --------
    >>> risk_cap(3_600.0, risk=10.0, importance=[1.0, 4.0])
    array([36000.,  9000.])

    References
    ----------
    Longevity §4.5
    """
    loss_rate = np.asarray(importance, dtype=np.float64) * np.asarray(divergence_max)
    return np.asarray(np.asarray(risk) * np.asarray(price) / loss_rate)


def _check_risk(risk: float) -> None:
    if not risk >= 1.0:
        raise ValueError(f"risk must be at least 1, got {risk!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFittingPolicy:
    """Longevity's curve-fitting policy: after a learning phase, wait until the value is the price.

    Parameters
    ----------
    learning_seconds
        Longest period per fetch made so far (Longevity's l): the first periods are at most l,
        2l, 3l and so on, so that there is something to fit.
    risk
        Largest loss between two fetches, as a multiple of the price (ρ), at least 1.

    Examples
    --------
    The third fetch of a page that its curve says is due every 30 days:

    >>> day = 86_400.0
    >>> policy = CurveFittingPolicy(learning_seconds=2 * day)
    >>> policy.period(due=30 * day, n_fetches=3, price=5 * day) / day
    np.float64(6.0)

    References
    ----------
    Longevity §4.2 (learning phase)
    Longevity §4.5
    """

    learning_seconds: float
    risk: float = 10.0

    def __post_init__(self) -> None:
        if not self.learning_seconds > 0.0:
            raise ValueError(f"learning_seconds must be positive, got {self.learning_seconds!r}")
        _check_risk(self.risk)

    def period(
        self,
        due: ArrayLike,
        n_fetches: ArrayLike,
        price: ArrayLike,
        *,
        importance: ArrayLike = 1.0,
    ) -> FloatArray:
        """Return how long to wait before the next fetch of each page, in seconds.

        Parameters
        ----------
        due
            Elapsed time at which the fitted curve's value reaches the price, from
            `recrawl.papers.value.longevity.fitted_due`; may be inf.
        n_fetches
            Number of fetches of the page so far.
        price
            Value that a fetch must reach.
        importance
            Weight of the page.
        """
        learning = self.learning_seconds * np.maximum(np.asarray(n_fetches), 1)
        cap = risk_cap(price, risk=self.risk, importance=importance)
        return np.asarray(np.minimum(np.minimum(due, learning), cap))


class ValueBounds(NamedTuple):
    """Bounds on the value of a fetch, for importance 1: 16 bytes a page."""

    lower: FloatArray
    upper: FloatArray


class Periods(NamedTuple):
    """State of the bound-based policy beside the profiles: 16 bytes a page."""

    period: FloatArray
    """Seconds to wait before the next fetch."""
    reference_at: FloatArray
    """Start of the current iteration, in seconds.  The version fetched then is a base."""


@kernel
def _divergence_bounds(
    ages: SmallFloatArray, divergences: SmallFloatArray, n: int, age: float
) -> tuple[float, float]:
    """Return bounds of one profile's divergence at an age, equal at an observation."""
    # Longevity fig. 7: between two observations the divergence may have jumped right after the
    # first or right before the second.  Real divergence may fall a little; so least and largest.
    before = 0.0
    for i in range(n):
        if ages[i] == age:
            return float(divergences[i]), float(divergences[i])
        if ages[i] > age:
            after = float(divergences[i])
            return min(before, after), max(before, after)
        before = float(divergences[i])
    return before, 1.0


@kernel
def _mean_bounds(
    ages: SmallFloatArray,
    divergences: SmallFloatArray,
    counts: SmallCountArray,
    age: float,
    furthest: float,
) -> tuple[float, float]:
    """Return the mean bounds at ``age`` of the profiles that reach it."""
    lower = 0.0
    upper = 0.0
    n_reaching = 0
    for slot in range(counts.size):
        n = int(counts[slot])
        # Beyond all observations those that came furthest stand in, with bounds up to 1.
        if n > 0 and ages[slot, n - 1] >= min(age, furthest):
            least, most = _divergence_bounds(ages[slot], divergences[slot], n, age)
            lower += least
            upper += most
            n_reaching += 1
    if n_reaching == 0:
        return 0.0, 1.0
    return lower / n_reaching, upper / n_reaching


@kernel
def _value_bounds(
    ages: SmallFloatArray, divergences: SmallFloatArray, counts: SmallCountArray, elapsed: float
) -> tuple[float, float]:
    # Longevity §4.3:  with the bounds of the h profiles averaged, A_min and A_max the areas under
    # them over [0, t - t_R] and D_min, D_max the bounds at its end,
    #
    #     U_min = (t - t_R) D_min - A_max,       U_max = (t - t_R) D_max - A_min.
    #
    # D_min = D_max where a profile has an observation at the end, as that of t_R has.
    n_slots = counts.size
    next_index = np.zeros(n_slots, np.int64)
    furthest = 0.0
    for slot in range(n_slots):
        if counts[slot] > 0:
            furthest = max(furthest, float(ages[slot, counts[slot] - 1]))
    start = 0.0
    area_min = 0.0
    area_max = 0.0
    while start < elapsed:
        # Up to the next observation of any profile nothing changes.
        end = elapsed
        for slot in range(n_slots):
            while next_index[slot] < counts[slot] and ages[slot, next_index[slot]] <= start:
                next_index[slot] += 1
            if next_index[slot] < counts[slot]:
                end = min(end, float(ages[slot, next_index[slot]]))
        lower, upper = _mean_bounds(ages, divergences, counts, 0.5 * (start + end), furthest)
        area_min += (end - start) * lower
        area_max += (end - start) * upper
        start = end
    lower, upper = _mean_bounds(ages, divergences, counts, elapsed, furthest)
    return max(elapsed * lower - area_max, 0.0), max(elapsed * upper - area_min, 0.0)


@kernel
def _all_value_bounds(
    n_observed: SmallCountArray,
    ages: SmallFloatArray,
    divergences: SmallFloatArray,
    rows: RowArray,
    elapsed: FloatArray,
    out: FloatArray,
) -> None:
    for k in range(rows.size):
        row = rows[k]
        # Ages are kept as float32: compare with what is kept.
        window = float(np.float32(elapsed[k]))
        out[0, k], out[1, k] = _value_bounds(ages[row], divergences[row], n_observed[row], window)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundBasedPolicy:
    """Double or halve the period by what the observations prove, with no model of the page.

    The only assumption about the divergence between two observations is that it lies between
    theirs.  Each age is averaged over the profiles that reach it, so that profiles younger than
    the requested time count up to their last observation and no further.  Beyond the last
    observation of all, the divergence is at least what it was then and at most 1.

    A period is how long to wait before the next fetch; the time that the bounds are about starts
    at the reference time, which may lie several fetches back.  Keep the version fetched then as a
    base: pass ``keep_at=periods.reference_at`` to `recrawl.core.divergence.profile.start_bases`.

    Parameters
    ----------
    risk
        Largest loss between two fetches, as a multiple of the price (ρ), at least 1.

    Examples
    --------
    A page first fetched at 0, with a period of 10, and found .3 different at 10:

    >>> from recrawl.core.divergence.profile import ChangeProfiles, add_observations, start_bases
    >>> profiles = ChangeProfiles.empty(n_pages=1, n_bases=2)
    >>> _ = start_bases(profiles, 0, at=0.0)
    >>> add_observations(profiles, 0, 10.0, [0.3, np.nan])
    >>> policy = BoundBasedPolicy()
    >>> before = Periods(np.array([10.0]), np.array([0.0]))
    >>> bounds = policy.bounds(profiles, elapsed=10.0 - before.reference_at)
    >>> bounds.lower, bounds.upper.round(3)
    (array([0.]), array([3.]))

    A fetch is worth 3 at most.  At a price of 5 that is too early, so the period doubles; at a
    price of 2 the bounds do not tell:

    >>> policy.step(before, at=10.0, bounds=bounds, price=5.0).period
    array([20.])
    >>> policy.step(before, at=10.0, bounds=bounds, price=2.0).period
    array([10.])

    References
    ----------
    Longevity §4.3, fig. 7
    Longevity §4.5
    """

    risk: float = 10.0

    def __post_init__(self) -> None:
        _check_risk(self.risk)

    def bounds(
        self, profiles: ChangeProfiles, elapsed: ArrayLike, rows: ArrayLike | None = None
    ) -> ValueBounds:
        """Return bounds on the value of a fetch ``elapsed`` after the one before.

        Parameters
        ----------
        profiles
            Profiles of all pages, including the last fetch.
        elapsed
            Seconds from each page's reference time to its last fetch.
        rows
            Rows of the requested pages; all if not given.
        """
        n_pages = profiles.base_at.shape[0]
        row_column = np.arange(n_pages) if rows is None else np.asarray(rows, dtype=np.int64)
        row_column = np.atleast_1d(row_column)
        window = np.broadcast_to(np.asarray(elapsed, dtype=np.float64), row_column.shape)
        out = np.empty((2, row_column.size))
        _all_value_bounds(
            profiles.n_observed,
            profiles.ages,
            profiles.divergences,
            row_column,
            np.array(window),
            out,
        )
        return ValueBounds(out[0], out[1])

    def step(
        self,
        periods: Periods,
        at: ArrayLike,
        bounds: ValueBounds,
        price: ArrayLike,
        *,
        importance: ArrayLike = 1.0,
    ) -> Periods:
        """Return the periods after a fetch of each page.

        Worth less than the price for certain: the next period is twice the time since the
        reference time.  Worth it for certain: a new iteration begins, with half the period.
        Neither: the period stays.

        The paper leaves open when an iteration ends that never finds a fetch worth its price, as
        of a page that was replaced before it was first seen again.  Here it ends after the
        longest period that the risk allows, so that no version stands for the page for ever; where
        the bounds did not decide, the next iteration looks twice as often.

        Parameters
        ----------
        periods
            Periods before the fetch.
        at
            Times of the fetches, in seconds.
        bounds
            Result of `bounds`, including this fetch.
        price
            Value that a fetch must reach.
        importance
            Weight of the page.
        """
        now = np.asarray(at, dtype=np.float64)
        threshold = np.asarray(price) / np.asarray(importance, dtype=np.float64)
        elapsed = now - periods.reference_at
        cap = risk_cap(price, risk=self.risk, importance=importance)
        is_early = (bounds.upper < threshold) & (elapsed > 0.0)
        # No period may be longer than the cap, so what a base shows beyond it decides nothing.
        is_over = (bounds.lower >= threshold) | (elapsed >= cap)
        period = np.where(is_over, 0.5 * periods.period, periods.period)
        period = np.where(is_early, 2.0 * elapsed, period)
        return Periods(np.minimum(period, cap), np.where(is_over, now, periods.reference_at))
