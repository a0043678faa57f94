"""The posterior of a change rate by brute force: on a dense grid, or in fifty digits."""

from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def log_rates_around(shape: float, seconds: float, *, step: float = 0.02) -> Array:
    """Return log rates that hold all but e^-40 of a Gamma distribution and of its moments."""
    low = np.log(shape + 1) - 45 / min(shape, 1.0) - 12 / np.sqrt(shape + 1)
    high = np.log(shape + 60 + 12 * np.sqrt(shape))
    step = min(step, 0.05 / np.sqrt(shape + 1))
    return np.asarray(np.arange(low, high, step), np.longdouble) - np.log(seconds)


class DensePosterior:
    """Posteriors of many pages at many rates, evenly spaced in log rate.

    Sums over such a grid converge faster than any power of its step, as the density and all of
    its derivatives vanish at both ends.
    """

    def __init__(self, shape: Any, seconds: Any, log_rate: Array) -> None:
        a, b = (np.atleast_1d(np.asarray(x, log_rate.dtype))[:, None] for x in (shape, seconds))
        self.rate = np.exp(log_rate)
        self.log_weight = a * log_rate - b * self.rate

    def poll(self, elapsed: Any, changed: Any, false_chance: Any = 1.0) -> None:
        """Multiply by the likelihood of one poll a page: e^{-λt}, or 1 - q e^{-λt}."""
        t, is_changed, q = (np.atleast_1d(x)[:, None] for x in (elapsed, changed, false_chance))
        none = np.exp(-t * self.rate)
        with np.errstate(divide="ignore"):
            self.log_weight = self.log_weight + np.where(
                is_changed, np.log1p(-q * none), -t * self.rate
            )

    def last_change(self, age: float) -> None:
        """Multiply by the density of a last change ``age`` ago: λ e^{-λ age}."""
        self.log_weight = self.log_weight + np.log(self.rate) - age * self.rate

    @property
    def probability(self) -> Array:
        weight = np.exp(self.log_weight - self.log_weight.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def mean(self) -> Array:
        return np.asarray(self.probability @ self.rate)

    def variance(self) -> Array:
        centred = self.rate - self.mean()[:, None]
        return np.asarray((self.probability * centred**2).sum(axis=1))

    def chance_of_none(self, elapsed: float) -> Array:
        return np.asarray(self.probability @ np.exp(-self.rate * elapsed))

    def value(self, elapsed: Array) -> Array:
        """Return the mean of ∫₀ᵗ e^{-λs} ds - t e^{-λt} over each page's posterior."""
        x = elapsed[:, None] * self.rate
        values = (1 - np.exp(-x) * (1 + x)) / self.rate
        return np.asarray((self.probability * values).sum(axis=1))

    def due(self, price: Array, low: float, high: float) -> Array:
        """Return the age at which the value is ``price``, by bisection; ``high`` if none is."""
        lower, upper = np.full(price.shape, low), np.full(price.shape, high)
        while np.any(upper > lower * (1 + 1e-6)):
            middle = np.sqrt(lower * upper)
            below = self.value(middle) < price
            lower, upper = np.where(below, middle, lower), np.where(below, upper, middle)
        return upper


def exact_moments(
    shape: float, seconds: float, elapsed: float, false_chance: float
) -> tuple[float, float]:
    """Return mean and variance after a changed poll, by Gamma integrals in 60 digits."""
    with mpmath.workdps(60):
        a, b, t, q = (mpmath.mpf(x) for x in (shape, seconds, elapsed, false_chance))
        moments = [
            mpmath.gamma(a + k) * (b ** -(a + k) - q * (b + t) ** -(a + k)) for k in range(3)
        ]
        mean = moments[1] / moments[0]
        return float(mean), float(moments[2] / moments[0] - mean**2)
