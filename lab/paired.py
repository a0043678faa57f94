"""Differences on the same webs, whose spread says how much of them is chance.

Sums are rounded once, at their end, so that what is kept to some digits has the same last digit on
every processor: what a mean of decimals rounds to is often decided by its very last bit.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Difference", "mean", "paired", "standard_error", "weighted_mean"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Of two policies on the same webs: mean and its standard error."""

    mean: float
    standard_error: float


def mean(values: Floats) -> float:
    """Return the mean; nan of nothing."""
    return math.fsum(values) / values.size if values.size else math.nan


def weighted_mean(values: Floats, weights: Floats | NDArray[np.int64]) -> float:
    """Return the mean of values that count in proportion to their weights."""
    return math.fsum(values * weights) / math.fsum(weights)


def standard_error(values: Floats) -> float:
    """Return the standard error of the mean; nan of fewer than two."""
    if values.size < 2:
        return math.nan
    squares = math.fsum((values - mean(values)) ** 2)
    return math.sqrt(squares / (values.size - 1) / values.size)


def paired(values: Floats, others: Floats | float = 0.0) -> Difference:
    """Return how much more the first are than the others, web by web."""
    differences = np.asarray(values - others)
    return Difference(mean=mean(differences), standard_error=standard_error(differences))
