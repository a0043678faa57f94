"""Importance learned from requests, and freshness as requests see it.

The owner of a cache sees every request for a copy, so how much a page matters can be counted.
Counts are discounted, because demand moves, and start from a prior, because most pages are
requested rarely.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import scipy  # submodules load on first use, which saves importers a second
from numpy.typing import NDArray

from recrawl.core.arrays import ArrayLike, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.core.poll_columns import as_rows

__all__ = [
    "RequestCounts",
    "RequestImportance",
    "ShareBounds",
    "decayed_counts_of",
    "expected_request_freshness",
    "observed_request_freshness",
]

InstantArray: TypeAlias = NDArray[np.int64]


class RequestCounts(NamedTuple):
    """State of `RequestImportance`: 24 bytes a page.

    ``requests`` and ``seconds`` are discounted to the instant ``counted_at``, in seconds since
    any epoch: the requests seen, and the time during which requests were counted.
    """

    requests: FloatArray
    seconds: FloatArray
    counted_at: InstantArray

    @classmethod
    def zeros(cls, at: ArrayLike, n_pages: int) -> Self:
        """Return the counts of pages whose requests are counted from the instant ``at`` on."""
        since = np.array(np.broadcast_to(at, n_pages), dtype=np.int64)
        return cls(np.zeros(n_pages), np.zeros(n_pages), since)


@kernel
def decayed_counts_of(
    requests: float, seconds: float, elapsed: float, time_constant: float
) -> tuple[float, float]:
    """Return discounted requests and seconds of counting after some more seconds of counting."""
    # dn/dt = -n/τ and ds/dt = 1 - s/τ:  time passes, and the past fades.
    kept = math.exp(-elapsed / time_constant)
    return requests * kept, seconds * kept - time_constant * math.expm1(-elapsed / time_constant)


@kernel
def _write_decayed(
    requests: FloatArray,
    seconds: FloatArray,
    elapsed: FloatArray,
    time_constant: float,
    out: tuple[FloatArray, FloatArray],
) -> None:
    for row in range(requests.size):
        out[0][row], out[1][row] = decayed_counts_of(
            requests[row], seconds[row], elapsed[row], time_constant
        )


@kernel
def _observe(
    requests: FloatArray,
    seconds: FloatArray,
    counted_at: InstantArray,
    rows: RowArray,
    at: InstantArray,
    n_requests: FloatArray,
    time_constant: float,
) -> None:
    for i in range(rows.size):
        row = rows[i]
        elapsed = float(at[i] - counted_at[row])
        if elapsed >= 0.0:
            n, seconds[row] = decayed_counts_of(requests[row], seconds[row], elapsed, time_constant)
            requests[row] = n + n_requests[i]
            counted_at[row] = at[i]
        else:
            # A late report: discount it to the instant of the counts that it is added to.
            requests[row] += decayed_counts_of(n_requests[i], 0.0, -elapsed, time_constant)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestImportance:
    """Importance as requests per second, learned online.

    The mean of a Gamma belief: the prior counts like ``prior_seconds`` of counting at the prior
    rate, and evidence fades with a half-life.  A page that is not requested falls below its prior
    rate, but no further than one half-life without requests justifies.

    Parameters
    ----------
    half_life
        Seconds after which a request counts half; inf for no forgetting.
    prior_seconds
        Seconds of counting that the prior is worth.

    Examples
    --------
    Two pages counted for a day, the first requested 48 times, with a prior of one request a day
    that is worth a day:

    >>> day = 86_400
    >>> importance = RequestImportance(half_life=30 * day, prior_seconds=day)
    >>> counts = RequestCounts.zeros(0, n_pages=2)
    >>> importance.observe(counts, rows=[0], at=[day], n_requests=[48])
    >>> (importance.rate(counts, now=day, prior_rate=1 / day) * day).round(1)
    array([24.6,  0.5])

    References
    ----------
    Signals App. E (request rate)
    """

    half_life: float
    prior_seconds: float

    def __post_init__(self) -> None:
        if not self.half_life > 0:
            raise ValueError(f"half_life must be positive, got {self.half_life!r}")
        if not 0 < self.prior_seconds < np.inf:
            raise ValueError(
                f"prior_seconds must be positive and finite, got {self.prior_seconds!r}"
            )

    @property
    def _time_constant(self) -> float:
        # A half-life beyond any clock stands for none, so that kernels need no second formula.
        return min(self.half_life, 1e18) / math.log(2)

    def observe(
        self, counts: RequestCounts, rows: ArrayLike, at: ArrayLike, n_requests: ArrayLike = 1.0
    ) -> None:
        """Add requests, in any order; ``rows`` may repeat a page.

        Parameters
        ----------
        counts
            Counts, changed in place.
        rows
            Rows of the pages requested.
        at
            Instants of the requests, integer seconds of the epoch of ``counts``.
        n_requests
            Number of requests at each instant.
        """
        page = as_rows(rows, counts.requests.size)
        instants = np.ascontiguousarray(np.broadcast_to(at, page.shape), dtype=np.int64)
        number = np.ascontiguousarray(np.broadcast_to(n_requests, page.shape), dtype=np.float64)
        _observe(*counts, page, instants, number, self._time_constant)

    def _discount(self, counts: RequestCounts, now: int) -> tuple[FloatArray, FloatArray]:
        """Return requests and seconds discounted to ``now``."""
        elapsed = (now - counts.counted_at).astype(np.float64)
        if np.any(elapsed < 0):
            raise ValueError(f"now must not be before the last request, got {now!r}")
        decayed = np.empty_like(counts.requests), np.empty_like(counts.seconds)
        _write_decayed(counts.requests, counts.seconds, elapsed, self._time_constant, decayed)
        return decayed

    def rate(self, counts: RequestCounts, *, now: int, prior_rate: ArrayLike) -> FloatArray:
        """Return the importance of each page at ``now``, in requests per second.

        Parameters
        ----------
        counts
            Counts of requests.
        now
            Instant, not before the last request.
        prior_rate
            Requests per second expected of a page before any is seen: one for all, or one for
            each page, such as its host's from `host_rate`.
        """
        # Gamma(a, b) prior with mean a/b, b = prior_seconds: posterior mean (a + n) / (b + t).
        requests, seconds = self._discount(counts, now)
        prior = np.asarray(prior_rate, dtype=np.float64)
        return np.asarray((prior * self.prior_seconds + requests) / (self.prior_seconds + seconds))

    def host_rate(
        self, counts: RequestCounts, *, now: int, hosts: ArrayLike, n_hosts: int, prior_rate: float
    ) -> FloatArray:
        """Return the mean request rate of each host's pages, shrunk to ``prior_rate``.

        A host of many pages speaks for itself; one of few stays near the prior.  With the page's
        own requests among those of its host, ``host_rate(...)[hosts]`` serves as ``prior_rate``
        of `rate`.

        Parameters
        ----------
        counts
            Counts of requests.
        now
            Instant, not before the last request.
        hosts
            Number of each page's host, 0 to ``n_hosts - 1``.
        n_hosts
            Number of hosts.
        prior_rate
            Requests per second expected of a page of a host never seen.
        """
        requests, seconds = self._discount(counts, now)
        host = np.asarray(hosts, dtype=np.int64)
        n = np.bincount(host, requests, minlength=n_hosts)
        t = np.bincount(host, seconds, minlength=n_hosts)
        return np.asarray((prior_rate * self.prior_seconds + n) / (self.prior_seconds + t))


class ShareBounds(NamedTuple):
    """A share of requests, 0 to 1, and bounds for what it is a sample of."""

    share: FloatArray
    lower: FloatArray
    upper: FloatArray


def observed_request_freshness(
    n_fresh: ArrayLike, n_requests: ArrayLike, *, confidence: float = 0.95
) -> ShareBounds:
    """Return the share of requests that met a fresh copy, with Wilson's bounds.

    Parameters
    ----------
    n_fresh
        Requests known to have met a fresh copy.
    n_requests
        Requests for which it is known; where 0, the share is nan and the bounds are 0 and 1.
    confidence
        Approximate probability that the bounds contain the true share.  Requests are taken as
        independent; many for one page between two fetches are not, and the bounds are then too
        narrow.

    Examples
    --------
    >>> share, lower, upper = observed_request_freshness(940, 1000)
    >>> share, lower.round(3), upper.round(3)
    (array(0.94), np.float64(0.924), np.float64(0.953))

    References
    ----------
    Signals §3 (objective)
    """
    # Wilson (1927): the shares p with |p̂ - p| ≤ z sqrt(p (1 - p) / n).
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    fresh, n = np.broadcast_arrays(
        np.asarray(n_fresh, dtype=np.float64), np.asarray(n_requests, dtype=np.float64)
    )
    if not np.all((fresh >= 0) & (fresh <= n)):
        raise ValueError("n_fresh must be 0 to n_requests")
    squared = float(scipy.special.ndtri((1 + confidence) / 2)) ** 2
    stale = n - fresh
    middle = (fresh + squared / 2) / (n + squared)
    half = np.sqrt(squared * (fresh * stale / np.maximum(n, 1) + squared / 4)) / (n + squared)
    share = np.full(n.shape, np.nan)
    np.divide(fresh, n, out=share, where=n > 0)
    return ShareBounds(share, np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0))


def expected_request_freshness(importance: ArrayLike, freshness: ArrayLike) -> float:
    """Return the share of requests expected to meet a fresh copy.

    Parameters
    ----------
    importance
        Requests per second for each page, or any weights.
    freshness
        Chance that each page's copy is fresh.

    Examples
    --------
    >>> expected_request_freshness([3.0, 1.0], [0.9, 0.5])
    0.8

    References
    ----------
    Signals §3 (objective)
    """
    # Signals §3:  O(π) = Σ_i μ̃_i P(fresh_i),  μ̃_i = μ_i / Σ μ.
    weight, fresh = np.broadcast_arrays(
        np.asarray(importance, dtype=np.float64), np.asarray(freshness, dtype=np.float64)
    )
    total = float(weight.sum())
    if not 0 < total < np.inf:
        raise ValueError(f"importance must have a positive, finite sum, got {total!r}")
    return float((weight * fresh).sum()) / total
