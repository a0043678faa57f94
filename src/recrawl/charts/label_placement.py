"""Place labels so that they do not overlap."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recrawl.charts.axes import FloatArray

__all__ = ["Box", "best_place", "push_apart"]


class Box(NamedTuple):
    """A rectangle in a picture; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: "Box") -> float:
        """Return the area that two boxes share."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(width, 0.0) * max(height, 0.0)


def push_apart(wanted: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Return positions at least ``gap`` apart, as near to the wanted ones as possible.

    The sum of squared moves is minimal: labels that are too near move as one block around their
    mean.  Their order is kept.  If there are too many labels for the room, they overlap evenly.
    """
    n = len(wanted)
    if n == 0:
        return []
    gap = min(gap, (high - low) / max(n - 1, 1))
    order = sorted(range(n), key=lambda i: (wanted[i], i))
    # Position i minus i gaps must not decrease with i.  Under this constraint, the pool-adjacent-
    # violators algorithm (Ayer et al. 1955) minimises the sum of squares.
    blocks: list[tuple[float, int]] = []
    for rank, i in enumerate(order):
        total, size = wanted[i] - rank * gap, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / size:
            before, n_before = blocks.pop()
            total, size = total + before, size + n_before
        blocks.append((total, size))
    places = [0.0] * n
    rank = 0
    for total, size in blocks:
        for _ in range(size):
            level = min(max(total / size, low), high - (n - 1) * gap)
            places[order[rank]] = level + rank * gap
            rank += 1
    return places


def best_place(candidates: Sequence[Box], *, points: FloatArray, taken: Sequence[Box]) -> int:
    """Return the index of the box that covers the fewest points and the least area of ``taken``.

    ``points`` are rows of x and y; of equally good boxes the first is returned.
    """
    cover = []
    for box in candidates:
        is_in = np.zeros(0, np.bool_)
        if points.size:
            x, y = points[:, 0], points[:, 1]
            is_in = (x >= box.left) & (x <= box.right) & (y >= box.top) & (y <= box.bottom)
        cover.append(float(is_in.sum()) + sum(box.overlap(other) for other in taken))
    return int(np.argmin(cover)) if cover else 0
