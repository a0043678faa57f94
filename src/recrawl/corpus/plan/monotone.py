"""A smooth curve through points that rises wherever the points rise.

scipy has the same interpolation, but takes a third of a second to import.
"""

import numpy as np

from recrawl.core.arrays import FloatArray

__all__ = ["Monotone"]


class Monotone:
    """A piecewise cubic curve through points, which never overshoots them.

    Parameters
    ----------
    x
        Rising places, at least two.
    y
        Heights at these places.

    Examples
    --------
    >>> import numpy as np
    >>> curve = Monotone(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 1.0]))
    >>> [float(curve(x)) for x in (0.5, 1.5, 9.0)]
    [0.6875, 1.0, 1.0]

    References
    ----------
    F. N. Fritsch, J. Butland. A method for constructing local monotone piecewise cubic
    interpolants. SIAM J. Sci. Stat. Comput. 5, 1984.
    """

    def __init__(self, x: FloatArray, y: FloatArray) -> None:
        if x.size < 2 or x.shape != y.shape or not (np.diff(x) > 0).all():
            raise ValueError("x must rise, have at least 2 rows and as many as y")
        self._x, self._y = x, y
        self._slope = _slopes(np.diff(x), np.diff(y) / np.diff(x))

    def __call__(self, at: float) -> float:
        """Return the height at a place; outside, that of the nearest end."""
        x, y, slope = self._x, self._y, self._slope
        at = min(max(at, float(x[0])), float(x[-1]))
        i = min(int(np.searchsorted(x, at, side="right")) - 1, x.size - 2)
        width = float(x[i + 1] - x[i])
        t = (at - float(x[i])) / width
        low, high = float(y[i]), float(y[i + 1])
        bend = t * (1 - t) * width
        level = low + (high - low) * t * t * (3 - 2 * t)
        return level + bend * ((1 - t) * float(slope[i]) - t * float(slope[i + 1]))

    def place_of(self, height: float) -> float:
        """Return the first place at which a rising curve is as high as this; inf if nowhere."""
        y = self._y
        if not height <= y[-1]:
            return float("inf")
        if height <= y[0]:
            return float(self._x[0])
        i = int(np.argmax(y >= height))
        low, high = float(self._x[i - 1]), float(self._x[i])
        for _ in range(60):
            middle = 0.5 * (low + high)
            if self(middle) < height:
                low = middle
            else:
                high = middle
        return high


def _slopes(width: FloatArray, rise: FloatArray) -> FloatArray:
    """Return the slope at each point: 0 at peaks, else a mean of those beside it."""
    if rise.size == 1:
        return np.repeat(rise, 2)
    before, after = rise[:-1], rise[1:]
    w1, w2 = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
    is_monotone = before * after > 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = (w1 + w2) / (w1 / before + w2 / after)
    inner = np.where(is_monotone, mean, 0.0)
    first = _end_slope(width[0], width[1], rise[0], rise[1])
    last = _end_slope(width[-1], width[-2], rise[-1], rise[-2])
    return np.concatenate([[first], inner, [last]])


def _end_slope(width: float, next_width: float, rise: float, next_rise: float) -> float:
    """Return the slope at an end, from a parabola through three points, kept from overshooting."""
    slope = ((2 * width + next_width) * rise - width * next_rise) / (width + next_width)
    if slope * rise <= 0:
        return 0.0
    return 3 * rise if rise * next_rise <= 0 and abs(slope) > abs(3 * rise) else slope
