"""A price as a page of importance 1 meets it."""

import numpy as np

from recrawl.core._arrays import ArrayLike, FloatArray, as_floats


def target_value(price: ArrayLike, importance: ArrayLike) -> FloatArray:
    """Return the value that a page of importance 1 must reach; inf where importance is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return as_floats(price) / as_floats(importance)
