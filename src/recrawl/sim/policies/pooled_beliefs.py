"""Beliefs about pages' change rates in full precision, with a prior learned from all pages."""

import numpy as np

from recrawl.core.arrays import FlagArray, FloatArray, RowArray
from recrawl.core.belief.gamma import GammaBelief, after_change_of, mean_rate, rebase_beliefs
from recrawl.core.belief.population import BROAD
from recrawl.core.kernel import kernel
from recrawl.shard.apply.priors import WHOLE_PAGES, is_refit_due, refit_prior
from recrawl.sim.policies.policy import FetchOutcomes

__all__ = ["PooledBeliefs"]


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


class PooledBeliefs:
    """Beliefs about change rates, with a prior learned as the shard learns it."""

    def __init__(self, n_pages: int) -> None:
        self.prior = BROAD
        self.belief = GammaBelief(
            np.full(n_pages, float(BROAD.shape)), np.full(n_pages, float(BROAD.seconds))
        )
        self._is_polled = np.zeros(n_pages, np.bool_)
        self._n_polls = 0
        self._n_learned = 0

    def observe(self, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Add fetches, except failed ones and the first fetch of a page."""
        seen = ~outcomes.error & np.isfinite(outcomes.elapsed)
        _observe(self.belief, page[seen], outcomes.elapsed[seen], outcomes.changed[seen])
        self._is_polled[page[seen]] = True
        self._n_polls += int(np.count_nonzero(seen))
        if is_refit_due(self._n_polls, self._n_learned):
            self._n_learned = self._n_polls
            polled = self._is_polled
            shown = GammaBelief(self.belief.shape[polled], self.belief.seconds[polled])
            learned = refit_prior(shown, BROAD, WHOLE_PAGES)
            self.belief = rebase_beliefs(self.belief, self.prior, learned)
            self.prior = learned

    def mean_rate(self) -> FloatArray:
        """Return each page's expected changes per second."""
        return mean_rate(self.belief)
