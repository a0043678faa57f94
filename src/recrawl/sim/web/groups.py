"""Sizes and crawl delays of the groups (hosts) of a simulated web."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from recrawl.core.arrays import FloatArray, RowArray
from recrawl.sim.web.draws import Stream, uniforms

__all__ = ["GroupSizes", "group_delays"]

# Crawl delays in seconds and their cumulative shares of groups: plausible, not measured.
_DELAYS = np.array([1.0, 2.0, 5.0, 10.0, 30.0])
_DELAY_SHARES = np.array([0.5, 0.75, 0.9, 0.98, 1.0])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSizes:
    """Sizes of groups by a truncated power law: most groups are small, most pages in large ones.

    The defaults are those of a large crawl: 53 pages on average, 7 at the median.

    Parameters
    ----------
    mean, median
        Mean and median number of pages of a group.
    size_max
        Number of pages of the largest group.

    Examples
    --------
    >>> group = GroupSizes().assign_groups(seed=0, n_pages=100_000)
    >>> bool((np.diff(group) >= 0).all()), bool(group[-1] > 500)
    (True, True)
    """

    mean: float = 53.0
    median: float = 7.0
    size_max: int = 100_000

    def __post_init__(self) -> None:
        if not 1 < self.median < self.mean < self.size_max:
            raise ValueError(
                "1 < median < mean < size_max must hold, got "
                f"{self.median!r}, {self.mean!r}, {self.size_max!r}"
            )

    def exponent_and_scale(self) -> tuple[float, float]:
        """Return α and s of P(size > n) = (1 + n/s)^-α, up to ``size_max``."""
        # A size is n = 1 + floor(x).  Half of the sizes are below the median if
        # P(x > median - ½) = ½, and their mean is about ½ more than the mean of min(x, M):
        #
        #     s (2^{1/α} - 1) = median - ½,      s/(α-1) (1 - (1 + M/s)^{1-α}) = mean - ½.
        middle = self.median - 0.5

        def excess(alpha: float) -> float:
            scale = middle / (2.0 ** (1.0 / alpha) - 1.0)
            log_range = math.log1p(self.size_max / scale)
            x = (1.0 - alpha) * log_range
            integral = scale * log_range * (math.expm1(x) / x if abs(x) > 1e-9 else 1.0)
            return float(integral - (self.mean - 0.5))

        alpha = brentq(excess, 0.3, 20.0)
        return alpha, middle / (2.0 ** (1.0 / alpha) - 1.0)

    def sizes(self, *, seed: int, n_groups: int) -> RowArray:
        """Return the number of pages of each of the first ``n_groups`` groups."""
        alpha, scale = self.exponent_and_scale()
        u = uniforms(seed, Stream.GROUP_SIZE, n_groups)
        size = 1.0 + np.floor(scale * (u ** (-1.0 / alpha) - 1.0))
        return np.minimum(size, self.size_max).astype(np.int64)

    def assign_groups(self, *, seed: int, n_pages: int) -> RowArray:
        """Return the group of each page.

        Pages fill the groups in order, so a page keeps its group when ``n_pages`` grows.
        """
        n_groups = max(16, int(2 * n_pages / self.mean))
        while True:
            ends = np.cumsum(self.sizes(seed=seed, n_groups=n_groups))
            if ends[-1] >= n_pages:
                return np.searchsorted(ends, np.arange(n_pages), side="right").astype(np.int64)
            n_groups *= 2


def group_delays(seed: int, n_groups: int) -> FloatArray:
    """Return each group's delay between fetches, from 1 to 30 seconds."""
    return _DELAYS[np.searchsorted(_DELAY_SHARES, uniforms(seed, Stream.GROUP_DELAY, n_groups))]
