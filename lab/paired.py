"""Differences on the same webs, whose spread says how much of them is chance."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Difference", "paired"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Of two policies on the same webs: mean and its standard error."""

    mean: float
    standard_error: float


def paired(values: Floats, others: Floats | float = 0.0) -> Difference:
    """Return how much more the first are than the others, web by web."""
    differences = np.asarray(values - others)
    error = differences.std(ddof=1) / np.sqrt(differences.size)
    return Difference(mean=float(differences.mean()), standard_error=float(error))
