"""Pages with several sources of signals, simulated until their effective age is reached."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Intervals(NamedTuple):
    """Of each simulated interval between fetches: its length, and its expected fresh part."""

    length: NDArray[np.float64]
    fresh: NDArray[np.float64]


def simulate(
    rng: np.random.Generator,
    n_intervals: int,
    unsignalled_change_rate: float,
    signal_rates: ArrayLike,
    precisions: ArrayLike,
    effective_elapsed: float,
) -> Intervals:
    """Wait for signals of all sources, each of which ages the page, until the threshold is passed.

    Given the signals so far a page is fresh with probability e^{-α × effective elapsed time}.
    """
    alpha = unsignalled_change_rate
    rates = np.asarray(signal_rates, dtype=np.float64)
    ages = -np.log1p(-np.asarray(precisions)) / alpha
    length, fresh, age = (np.zeros(n_intervals) for _ in range(3))
    running = np.arange(n_intervals)
    while running.size:
        wait = rng.exponential(1 / rates.sum(), running.size)
        left = effective_elapsed - age[running]
        wait = np.minimum(wait, left)
        fresh[running] += np.exp(-alpha * age[running]) * -np.expm1(-alpha * wait) / alpha
        length[running] += wait
        signal = rng.choice(rates.size, running.size, p=rates / rates.sum())
        age[running] += wait + ages[signal]
        running = running[(wait < left) & (age[running] < effective_elapsed)]
    return Intervals(length, fresh)
