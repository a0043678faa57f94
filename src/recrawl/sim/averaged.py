"""The averaged value in full precision: what the shard's codes, tables and sweep are judged by."""

import math

import numpy as np

from recrawl.core._arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.core._kernel import kernel
from recrawl.core.belief.gamma import GammaBelief, after_change_of, rebased
from recrawl.core.belief.population import BROAD
from recrawl.core.value.averaged import averaged_value_of
from recrawl.shard.priors import WHOLE_PAGES, refitted, teaches_priors
from recrawl.sim.policies import KnownPages, Outcomes, largest

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


@kernel
def _observe(belief: GammaBelief, page: RowArray, elapsed: FloatArray, changed: FlagArray) -> None:
    for i in range(page.size):
        row = page[i]
        if changed[i]:
            belief.shape[row], belief.seconds[row] = after_change_of(
                belief.shape[row], belief.seconds[row], elapsed[i], 1.0
            )
        else:
            belief.seconds[row] += elapsed[i]


class AveragedArgmax:
    """Fetches the pages of greatest averaged value, computed for every page at every pick.

    The belief about each page and the prior of all are learned as the shard learns them, in
    float64, and signals are not heeded.

    Parameters
    ----------
    learning_bonus
        As of the shard's settings.
    """

    def __init__(self, learning_bonus: float = 0.5) -> None:
        self._bonus = learning_bonus

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with the broad prior for every page."""
        n_pages = pages.importance.size
        self._importance = pages.importance / pages.cost
        self._belief = GammaBelief(
            np.full(n_pages, float(BROAD.shape)), np.full(n_pages, float(BROAD.seconds))
        )
        self._prior = BROAD
        self._fetched_at = np.full(n_pages, at)
        self._is_polled = np.zeros(n_pages, np.bool_)
        self._is_under_way = np.zeros(n_pages, np.bool_)
        self._value = np.empty(n_pages)
        self._n_polls = 0
        self._n_learned = 0

    def hear(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Ignore signals."""

    def pick(self, at: float, n: int) -> RowArray:
        """Return the pages of greatest value."""
        elapsed = at - self._fetched_at
        _values(
            self._importance, self._belief, elapsed, self._bonus, self._is_under_way, self._value
        )
        pages = largest(self._value, n)
        self._is_under_way[pages] = True
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: Outcomes) -> None:
        """Update beliefs, and now and then the prior that they began with."""
        self._is_under_way[page] = False
        seen = ~outcomes.error & np.isfinite(outcomes.elapsed)
        _observe(self._belief, page[seen], outcomes.elapsed[seen], outcomes.changed[seen])
        self._fetched_at[page[~outcomes.error]] = at[~outcomes.error]
        self._is_polled[page[seen]] = True
        self._n_polls += int(np.count_nonzero(seen))
        if teaches_priors(self._n_polls, self._n_learned):
            self._n_learned = self._n_polls
            self._learn_prior()

    def _learn_prior(self) -> None:
        polled = self._is_polled
        belief = GammaBelief(self._belief.shape[polled], self._belief.seconds[polled])
        prior = refitted(belief, BROAD, WHOLE_PAGES)
        self._belief = rebased(self._belief, self._prior, prior)
        self._prior = prior
