"""Change rates of pages that send a last-modified date."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.core.poll_columns import as_rows
from recrawl.papers.change_rate.polls import SmallCountArray

__all__ = ["LastModifiedChangeRate", "LastModifiedCounts", "last_modified_change_rate"]


class LastModifiedCounts(NamedTuple):
    """State of `LastModifiedChangeRate`, CGM's N, X and T: 16 bytes a page."""

    n_polls: SmallCountArray
    n_changed: SmallCountArray
    unchanged_seconds: FloatArray

    @classmethod
    def zeros(cls, n_pages: int) -> Self:
        """Return the counts of pages never polled (CGM's ``Init``)."""
        return cls(np.zeros(n_pages, np.uint32), np.zeros(n_pages, np.uint32), np.zeros(n_pages))


@kernel
def _observe(
    n_polls: SmallCountArray,
    n_changed: SmallCountArray,
    unchanged_seconds: FloatArray,
    rows: RowArray,
    elapsed: FloatArray,
    age: FloatArray,
) -> None:
    # CGM fig. 10, Update(T_i, I_i):  N += 1;  if T_i < I_i:  X += 1, T += T_i;  else T += I_i.
    for i in range(rows.size):
        if elapsed[i] > 0.0:
            n_polls[rows[i]] += 1
            if age[i] < elapsed[i]:
                n_changed[rows[i]] += 1
                unchanged_seconds[rows[i]] += max(age[i], 0.0)
            else:
                unchanged_seconds[rows[i]] += elapsed[i]


def last_modified_change_rate(
    n_polls: ArrayLike, n_changed: ArrayLike, unchanged_seconds: ArrayLike
) -> FloatArray:
    """Return the rate from the times that pages had stood unchanged when they were polled.

    At regular intervals the bias is less than 2 % at any rate and any number of polls from two
    on.  At irregular intervals the rate comes out too high, most where polls are few: by up to
    20 % after two polls of which one waited three times as long as the other, by 7 % after ten
    polls of which half waited ten times as long.  (The paper calls this bias negligible.)  A
    single poll gives 0 whatever it found.  With two polls the variance is infinite.

    Where intervals I of a page differ much and polls are few, divide by the bias of a page that
    seldom changes: the sum of log(S/(S - I)) over its n intervals, with S their sum, divided by
    n log(n/(n - 1)).  Or use `irregular_change_rate`, which needs no dates.

    Parameters
    ----------
    n_polls
        Polls made.
    n_changed
        Number of polls that found a change since the previous poll.
    unchanged_seconds
        Sum over polls of the time since the last change, or since the previous poll if that is
        shorter; where it is 0 the rate is nan.

    Examples
    --------
    Two of five daily polls found a change, 6 and 18 hours old:

    >>> hour = 3_600.0
    >>> rate = last_modified_change_rate(5, 2, (6 + 18 + 3 * 24) * hour)
    >>> (rate * 24 * hour).round(3)
    np.float64(0.446)

    References
    ----------
    CGM §5, fig. 13
    """
    # CGM fig. 13:  X' = (X - 1) - X / (N log(1 - X/N)),  λ̂ = X' / T,  with the limits
    # X' = 0 at X = 0 and X' = N - 1 at X = N (footnotes 5 and 12).
    n = np.asarray(n_polls, dtype=np.float64)
    x = np.asarray(n_changed, dtype=np.float64)
    total = np.asarray(unchanged_seconds, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = x / n
        inner = x - 1 - share / np.log1p(-share)
        corrected = np.where(x == 0, 0.0, np.where(x == n, n - 1, inner))
        return np.asarray(np.where(total > 0, corrected / total, np.nan))


@dataclass(frozen=True, slots=True, kw_only=True)
class LastModifiedChangeRate:
    """Change rates learned online from polls of pages with a trustworthy last-modified date.

    Few polls at irregular intervals make the rate too high, by 20 % and more; see
    `last_modified_change_rate`.

    Only a fraction of servers tell the truth here; a date that moves with every request, or
    never, makes the rate worthless.

    Parameters
    ----------
    prior_rate
        Changes per second assumed of pages polled less than twice.

    Examples
    --------
    >>> counts = LastModifiedCounts.zeros(n_pages=2)
    >>> estimator = LastModifiedChangeRate(prior_rate=1e-6)
    >>> day = 86_400.0
    >>> estimator.observe(counts, [0, 0, 0], elapsed=day, age=np.array([0.25, 3, 0.5]) * day)
    >>> (estimator.change_rate(counts) * day).round(2)
    array([0.92, 0.09])

    References
    ----------
    CGM §5, fig. 10, fig. 13
    """

    prior_rate: float

    def __post_init__(self) -> None:
        if not 0 < self.prior_rate < np.inf:
            raise ValueError(f"prior_rate must be positive and finite, got {self.prior_rate!r}")

    def observe(
        self, counts: LastModifiedCounts, rows: ArrayLike, elapsed: ArrayLike, age: ArrayLike
    ) -> None:
        """Add one poll per entry of ``rows``, which may repeat a page (CGM's ``Update``).

        Parameters
        ----------
        counts
            Counts, changed in place.
        rows
            Rows of the pages polled.
        elapsed
            Seconds since the previous poll; a poll after 0 seconds is not counted.
        age
            Seconds since the page last changed; one in the future counts as 0.
        """
        page = as_rows(rows, counts.n_polls.size)
        seconds, ages = (
            np.ascontiguousarray(np.broadcast_to(q, page.shape), dtype=np.float64)
            for q in (elapsed, age)
        )
        _observe(*counts, page, seconds, ages)

    def change_rate(self, counts: LastModifiedCounts) -> FloatArray:
        """Return each page's rate, in changes per second (CGM's ``Estimate``)."""
        rate = last_modified_change_rate(*counts)
        return np.where((counts.n_polls > 1) & ~np.isnan(rate), rate, self.prior_rate)
