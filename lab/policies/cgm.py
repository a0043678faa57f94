"""Cho and Garcia-Molina's crawlers: uniform polls to learn rates, then fetches by the estimates."""

import math

import numpy as np

from lab.policies.polling import Estimator, PollLog, Refits, Turns, estimated_rates
from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.core.signal_quality import SignalRates
from recrawl.papers.price import continuous_optimum
from recrawl.sim.policies.policy import FetchOutcomes, KnownPages

__all__ = ["CgmOptimal", "CgmSqrt"]


class _TakingTurns:
    """What both policies do: take turns, learn from polls, and now and then weigh pages anew."""

    def __init__(self, estimator: Estimator, n_warm_up: int, *, by_importance: bool) -> None:
        self._estimator = estimator
        self._n_warm_up = n_warm_up
        self._by_importance = by_importance

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with equal turns."""
        n_pages = pages.importance.size
        self._importance = pages.importance if self._by_importance else np.ones(n_pages)
        self._cost = pages.cost if self._by_importance else np.ones(n_pages)
        self._log = PollLog(n_pages)
        self._turns = Turns(n_pages, at)
        self._refits = Refits(n_pages, at)

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Ignore signals."""

    def pick(self, at: float, n: int) -> RowArray:
        """Return the pages whose turn it is."""
        self._refits.ask(n)
        return self._turns.pick(at, n)

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Add to the log, and now and then estimate anew."""
        self._turns.end(at, page)
        self._log.add(at, page, outcomes)
        n_polls = self._log.n_polls
        is_warm = n_polls >= self._n_warm_up * self._log.n_pages
        if is_warm and self._refits.is_due(n_polls):
            budget = self._refits.begin(n_polls, float(at[-1]))
            self._turns.weight = self._weights(budget)

    def _weights(self, budget: float) -> FloatArray:
        """Return how often each page is to be fetched, up to a factor."""
        raise NotImplementedError


class CgmSqrt(_TakingTurns):
    """Fetches each page in proportion to the square root of its estimated change rate.

    First every page is polled a few times in turn.  Then rates are estimated, and again whenever
    as many polls have come in as there are pages; the paper estimates once.  Signals are ignored.

    Parameters
    ----------
    estimator
        The paper compares "naive" and "improved".
    n_warm_up
        Polls of each page before the first estimate.
    by_importance
        Whether the square root is of importance × rate / cost, which would be right if all pages
        were fetched far oftener than they change; the paper knows no importance.
    revisits_unchanged
        Whether pages that never changed go on to be fetched; see `estimated_rates`.

    References
    ----------
    CGM §6.4
    """

    def __init__(
        self,
        estimator: Estimator = "improved",
        n_warm_up: int = 5,
        *,
        by_importance: bool = False,
        revisits_unchanged: bool = True,
    ) -> None:
        super().__init__(estimator, n_warm_up, by_importance=by_importance)
        self._revisits_unchanged = revisits_unchanged

    def _weights(self, budget: float) -> FloatArray:  # noqa: ARG002
        rate = estimated_rates(
            self._log, self._estimator, revisits_unchanged=self._revisits_unchanged
        )
        return np.sqrt(self._importance / self._cost * rate)


class CgmOptimal(_TakingTurns):
    """Fetches at the frequencies that would be best for freshness, were the estimates true.

    Longevity's rival: Cho and Garcia-Molina's optimal frequencies with their estimates.  Pages
    thought too fast to follow are not fetched again, so nothing more is learned of them.

    Longevity lets the intervals of the warm-up grow linearly.  Where all pages start together
    and share a budget that is the same as taking turns, which is done here.

    Parameters
    ----------
    estimator
        Of the rates.
    n_warm_up
        Polls of each page before the first estimate.
    by_importance
        Whether freshness counts by importance, and fetches by their cost.

    References
    ----------
    Longevity §5.3 (the CGM policy)
    """

    def __init__(
        self,
        estimator: Estimator = "irregular",
        n_warm_up: int = 5,
        *,
        by_importance: bool = False,
    ) -> None:
        super().__init__(estimator, n_warm_up, by_importance=by_importance)

    def _weights(self, budget: float) -> FloatArray:
        rate = estimated_rates(self._log, self._estimator)
        best = continuous_optimum(
            SignalRates.of(rate, 0.0, 0.0),
            # The budget is of fetches, the optimum's of costs.
            budget * float(self._cost.mean()),
            importance=self._importance,
            cost=self._cost,
            tolerance=1e-4,
        )
        weight = best.fetch_rate
        return weight if 0.0 < weight.sum() < math.inf else np.ones_like(weight)
