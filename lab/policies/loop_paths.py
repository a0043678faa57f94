"""Loops poll by poll: many paths side by side, all as many polls long."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import ArrayLike, FloatArray
from recrawl.papers.change_rate import (
    PollHistories,
    PseudoObservations,
    irregular_change_rate,
    substitute_edges,
)

__all__ = ["Paths", "loop_paths"]


class Paths(NamedTuple):
    """Polls of many paths, and the period estimated after each: paths by polls."""

    elapsed: FloatArray
    changed: NDArray[np.bool_]
    period: FloatArray

    @property
    def is_never(self) -> NDArray[np.bool_]:
        """Whether no change had been found by the poll."""
        return ~np.logical_or.accumulate(self.changed, axis=1)

    @property
    def is_always(self) -> NDArray[np.bool_]:
        """Whether every poll so far had found a change."""
        return np.asarray(np.logical_and.accumulate(self.changed, axis=1))


def loop_paths(
    rng: np.random.Generator,
    change_rate: ArrayLike,
    first: ArrayLike,
    n_polls: int,
    *,
    fraction: float = 1.0,
    pseudo: PseudoObservations | None = None,
) -> Paths:
    """Poll pages that change at random, each interval a fraction of the estimate before it.

    Parameters
    ----------
    rng
        Draws whether polls find a change, which is all that depends on chance.
    change_rate, first
        Of each path: changes per second of the page, seconds to its first poll.
    n_polls
        Polls of each path.
    fraction, pseudo
        As of a `Loop`.

    References
    ----------
    Prior §4.1 (fig. 2), §5 (fig. 7)
    """
    rate, following = np.broadcast_arrays(
        np.asarray(change_rate, np.float64), np.asarray(first, np.float64)
    )
    n_paths = rate.size
    elapsed = np.empty((n_paths, n_polls))
    changed = np.empty((n_paths, n_polls), np.bool_)
    period = np.empty((n_paths, n_polls))
    for k in range(n_polls):
        elapsed[:, k] = following
        # P(no change) = e^{-λt}
        changed[:, k] = rng.random(n_paths) < -np.expm1(-rate * following)
        histories = PollHistories(
            elapsed[:, : k + 1].reshape(-1),
            changed[:, : k + 1].reshape(-1),
            np.arange(n_paths + 1) * (k + 1),
        )
        estimated, _ = irregular_change_rate(histories, pseudo=pseudo)
        period[:, k] = 1 / substitute_edges(histories, estimated)
        following = fraction * period[:, k]
    return Paths(elapsed, changed, period)
