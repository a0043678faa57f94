"""The value of a page averaged over a Gamma belief about its rate, by dense integration."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def rates_and_weights(
    shape: float, seconds: float, n_pieces: int = 250
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return rates and their probabilities: Gauss-Legendre on many pieces of log rate.

    From 1e-18 of the belief's probability at the lower end to as much at the upper one.
    """
    spread = 1 / np.sqrt(shape)
    if shape < 3:
        low = max((np.log(1e-18) + gammaln(shape + 1)) / shape, -120)
    else:
        low = np.log(shape) - 12 * spread
    high = np.log(shape + 1) + min(12 * spread, np.log(1 + 60 / (shape + 1)) + 9 * spread)
    edges = np.linspace(low, high, n_pieces + 1)
    half = np.diff(edges) / 2
    z = ((edges[:-1] + half)[:, None] + half[:, None] * _NODES).ravel()
    density = np.exp(shape * z - np.exp(z) - gammaln(shape))
    return np.exp(z) / seconds, (half[:, None] * _WEIGHTS).ravel() * density


def average(
    shape: float, seconds: float, of: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> float:
    """Return the mean over the belief of a function of the rate."""
    rates, weights = rates_and_weights(shape, seconds)
    return float(weights @ of(rates))
