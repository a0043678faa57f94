"""The belief on a grid of rates: exact up to the grid, 32 numbers a page, the Gamma's reference."""

from typing import NamedTuple

import numpy as np
import scipy  # submodules load on first use, which saves importers a second

from recrawl.core.arrays import ArrayLike, FloatArray
from recrawl.core.belief.gamma import GammaBelief

__all__ = ["GridBelief"]


class GridBelief(NamedTuple):
    """Posterior weights on a grid of change rates: 256 bytes a page at 32 points.

    ``rates`` has one row of points for all pages; ``log_weight`` one row per page.
    """

    rates: FloatArray
    log_weight: FloatArray

    @classmethod
    def from_gamma(
        cls,
        prior: GammaBelief,
        n_points: int = 32,
        *,
        rate_min: float | None = None,
        rate_max: float | None = None,
    ) -> "GridBelief":
        """Return Gamma beliefs on a grid, evenly spaced in log rate.

        Parameters
        ----------
        prior
            Prior belief, one for all pages or one per page.
        n_points
            Number of rates on the grid.  Thirty-two are good to a few per cent while
            beliefs are wide; the mean is only as good as the step once they are narrower than it.
        rate_min, rate_max
            Ends of the grid, per second.  By default they span the rates of typical pages of the
            prior, and not those of pages that stay unchanged far longer.

        Examples
        --------
        >>> day = 86_400.0
        >>> grid = GridBelief.from_gamma(GammaBelief.with_mean_rate(0.01 / day, shape=0.5))
        >>> grid = grid.after_poll(day, True).after_poll(day, False)
        >>> (grid.mean_rate() * day).round(3)
        array([0.029])
        """
        shape = np.atleast_1d(prior.shape)
        seconds = np.atleast_1d(prior.seconds)
        # The density of *changes*, rate^{a+1} e^{-b rate} in log rate, has its peak at (a+1)/b and
        # falls below e^-12 of it at a distance d with d - 1 + e^-d = 12/(a+1), or a little less.
        cut = 12 / (shape + 1)
        low = np.min((shape + 1) / seconds * np.exp(-cut - np.minimum(np.sqrt(2 * cut), 1.0)))
        high = np.max((shape + 8 * np.sqrt(shape) + 16) / seconds)
        rates = np.geomspace(
            low if rate_min is None else rate_min, high if rate_max is None else rate_max, n_points
        )
        # The density in log rate, (b rate)^a e^{-b rate} / Γ(a), times equal steps.  The lowest
        # rate stands for all below it too, whose share is not negligible under wide priors.
        step = np.log(rates[1] / rates[0])
        scaled = seconds[:, None] * rates
        log_weight = (
            shape[:, None] * np.log(scaled) - scaled - scipy.special.gammaln(shape)[:, None]
        )
        log_weight += np.log(step)
        with np.errstate(divide="ignore"):
            below = np.log(scipy.special.gammainc(shape, scaled[:, 0] * np.exp(-step / 2)))
        log_weight[:, 0] = np.logaddexp(log_weight[:, 0], below)
        return cls(rates, log_weight)

    def probability(self) -> FloatArray:
        """Return each page's probability of each rate."""
        weight = np.exp(self.log_weight - self.log_weight.max(axis=1, keepdims=True))
        probability: FloatArray = weight / weight.sum(axis=1, keepdims=True)
        return probability

    def after_poll(
        self, elapsed: ArrayLike, changed: ArrayLike, false_chance: ArrayLike = 1.0
    ) -> "GridBelief":
        """Return the belief after one poll of each page; the columns as in `after_poll`.

        References
        ----------
        Prior §4.3 (the prior applied on a discretised axis)
        """
        exposure = np.multiply.outer(np.atleast_1d(elapsed), self.rates)
        q = np.atleast_1d(false_chance)[:, None]
        chance = (1 - q) - q * np.expm1(-exposure)
        # A poll after 0 seconds says nothing.
        log_changed = np.log(np.where(chance > 0, chance, 1.0))
        likelihood = np.where(np.atleast_1d(changed)[:, None], log_changed, -exposure)
        return GridBelief(self.rates, self.log_weight + likelihood)

    def mean_rate(self) -> FloatArray:
        """Return each page's expected rate, per second."""
        return self.probability() @ self.rates
