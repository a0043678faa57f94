"""Change rates of pages polled at regular intervals, from two counts and a time."""

from dataclasses import dataclass

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray
from recrawl.papers.change_rate.polls import PollCounts, count_polls

__all__ = [
    "PolledChangeRate",
    "beta_change_rate",
    "naive_change_rate",
    "regular_change_rate",
]


def naive_change_rate(n_changed: ArrayLike, polled_seconds: ArrayLike) -> FloatArray:
    """Return changes found per second polled, X / T.

    However many changes happened between two polls, one is found, so fast pages come out too
    slow, and more polls do not help: at two changes per poll the estimate is 43 % of the rate.

    Parameters
    ----------
    n_changed
        Polls that found a change.
    polled_seconds
        Seconds covered by all polls; where it is 0 the rate is nan.

    Examples
    --------
    Six of ten daily polls found a change:

    >>> day = 86_400.0
    >>> naive_change_rate(6, 10 * day) * day
    np.float64(0.6)

    References
    ----------
    CGM §4.1 (naive estimator)
    Prior §3.2
    Cost §4.2
    """
    # CGM §4.1:  λ̂ = X / T.
    x = np.asarray(n_changed, dtype=np.float64)
    total = np.asarray(polled_seconds, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(total > 0, x / total, np.nan))


def _rate_from_counts(
    n_polls: ArrayLike,
    n_changed: ArrayLike,
    interval: ArrayLike,
    prior_changed: float,
    prior_unchanged: float,
) -> FloatArray:
    # -log((n - X + b) / (n + a + b)) / I with a changed and b unchanged polls assumed, written
    # with log1p so that few changes in many polls lose no digits.
    n = np.asarray(n_polls, dtype=np.float64)
    x = np.asarray(n_changed, dtype=np.float64)
    ratio = np.log1p((x + prior_changed) / (n - x + prior_unchanged))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(ratio / np.asarray(interval, dtype=np.float64))


def regular_change_rate(
    n_polls: ArrayLike, n_changed: ArrayLike, interval: ArrayLike
) -> FloatArray:
    """Return the rate of pages polled every ``interval``, nearly unbiased and always finite.

    Good while a page changes up to about twice per poll; `unbiased_limit` says how far.  Uneven
    intervals enter through their mean, which biases the rate downwards: `irregular_change_rate`
    is for them.

    Parameters
    ----------
    n_polls
        Polls made.
    n_changed
        Polls that found a change.
    interval
        Seconds between polls.

    Examples
    --------
    Six of ten daily polls found a change; a page that had changed at every one of them:

    >>> day = 86_400.0
    >>> (regular_change_rate(10, [6, 10], day) * day).round(3)
    array([0.847, 3.045])

    References
    ----------
    CGM §4.2 (improved estimator)
    Prior §3.3, eq. 1
    Cost §4.3, eq. 1
    """
    # CGM §4.2:  r̂ = -log((n - X + 0.5) / (n + 0.5)),  λ̂ = r̂ / I.
    return _rate_from_counts(n_polls, n_changed, interval, 0.0, 0.5)


def beta_change_rate(
    n_polls: ArrayLike,
    n_changed: ArrayLike,
    interval: ArrayLike,
    *,
    prior_changed: float = 1.0,
    prior_unchanged: float = 1.0,
) -> FloatArray:
    """Return the rate at the mean of a Beta posterior for the chance that a poll finds a change.

    The prior acts like polls made before the first one.  With none changed and half a poll
    unchanged it is `regular_change_rate`; with one of each, the default, the chance of a change
    is thought uniform on 0 to 1.

    Parameters
    ----------
    n_polls
        Polls made.
    n_changed
        Polls that found a change.
    interval
        Seconds between polls.
    prior_changed
        First parameter of the Beta prior: changed polls assumed; 0 or more.
    prior_unchanged
        Second parameter: unchanged polls assumed; more than 0.

    Examples
    --------
    >>> beta_change_rate(10, [0, 6, 10], 1.0).round(3)
    array([0.087, 0.875, 2.485])

    References
    ----------
    CGM App. B (beta prior)
    """
    # CGM App. B:  θ = 1 - e^{-r} has posterior mean (X + α) / (n + α + β), hence
    # r̂ = -log((n - X + β) / (n + α + β)).
    if not 0 <= prior_changed < np.inf:
        raise ValueError(f"prior_changed must be 0 or more and finite, got {prior_changed!r}")
    if not 0 < prior_unchanged < np.inf:
        raise ValueError(f"prior_unchanged must be positive and finite, got {prior_unchanged!r}")
    return _rate_from_counts(n_polls, n_changed, interval, prior_changed, prior_unchanged)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledChangeRate:
    """Change rates learned online from polls at regular intervals, with counts for memory.

    A poll shows at most one change however many happened.  With x of n polls changed, at
    interval I,

        rate = -log((n - x + ½) / (n + ½)) / I

    is nearly unbiased, and finite when x = n.  Uneven intervals enter through their mean.

    Parameters
    ----------
    prior_rate
        Changes per second assumed of a page never polled.

    Examples
    --------
    >>> counts = PollCounts.zeros(n_pages=2)
    >>> estimator = PolledChangeRate(prior_rate=1e-6)
    >>> day = 86_400.0
    >>> estimator.observe(counts, [0, 0, 0], [day, day, day], [True, False, True])
    >>> (estimator.change_rate(counts) * day).round(2)
    array([0.85, 0.09])

    References
    ----------
    CGM §4.2 (improved estimator)
    """

    prior_rate: float

    def __post_init__(self) -> None:
        if not 0 < self.prior_rate < np.inf:
            raise ValueError(f"prior_rate must be positive and finite, got {self.prior_rate!r}")

    def observe(
        self, counts: PollCounts, rows: ArrayLike, elapsed: ArrayLike, changed: ArrayLike
    ) -> None:
        """Add one poll per entry of ``rows``, which may repeat a page."""
        count_polls(counts, rows, elapsed, changed)

    def change_rate(self, counts: PollCounts) -> FloatArray:
        """Return each page's rate, in changes per second."""
        with np.errstate(invalid="ignore"):
            interval = counts.polled_seconds / counts.n_polls
        rate = regular_change_rate(counts.n_polls, counts.n_changed, interval)
        return np.where(counts.n_polls > 0, rate, self.prior_rate)
