"""A policy with the averaged value in full precision, as a reference for the shard."""

import math

import numpy as np

from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.kernel import kernel
from recrawl.core.value.averaged import averaged_value_of
from recrawl.sim.policies.policy import FetchOutcomes, KnownPages, largest
from recrawl.sim.policies.pooled_beliefs import PooledBeliefs

__all__ = ["AveragedArgmax"]


@kernel
def _values(
    importance: FloatArray,
    belief: GammaBelief,
    elapsed: FloatArray,
    bonus: float,
    is_under_way: FlagArray,
    out: FloatArray,
) -> None:
    for page in range(out.size):
        if is_under_way[page]:
            out[page] = -math.inf
            continue
        value = averaged_value_of(belief.shape[page], belief.seconds[page], elapsed[page])
        out[page] = importance[page] * value * (1.0 + bonus / belief.shape[page])


class AveragedArgmax:
    """Fetches the pages of greatest averaged value, computed for every page at every pick.

    The belief about each page and the prior are learned as the shard learns them, in float64.
    Signals are ignored.

    Parameters
    ----------
    learning_bonus
        Learning bonus, as in the shard's settings.
    """

    def __init__(self, learning_bonus: float = 0.5) -> None:
        self._bonus = learning_bonus

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with the broad prior for every page."""
        n_pages = pages.importance.size
        self._importance = pages.importance / pages.cost
        self._beliefs = PooledBeliefs(n_pages)
        self._fetched_at = np.full(n_pages, at)
        self._is_under_way = np.zeros(n_pages, np.bool_)
        self._value = np.empty(n_pages)

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Ignore signals."""

    def pick(self, at: float, n: int) -> RowArray:
        """Return the pages of greatest value."""
        elapsed = at - self._fetched_at
        belief = self._beliefs.belief
        _values(self._importance, belief, elapsed, self._bonus, self._is_under_way, self._value)
        pages = largest(self._value, n)
        self._is_under_way[pages] = True
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Update beliefs, and from time to time the prior."""
        self._is_under_way[page] = False
        self._beliefs.observe(page, outcomes)
        self._fetched_at[page[~outcomes.error]] = at[~outcomes.error]
