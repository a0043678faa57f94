"""LambdaCrawl, as near as the simulation allows: what a large search engine published in 2019."""

import math

import numpy as np

from lab.policies.polling import PollLog, Refits, Turns, estimated_rates
from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.sim.policies.policy import FetchOutcomes, KnownPages

__all__ = ["LambdaCrawl", "lambda_crawl_rates"]

# A group's signals count as complete from this share of changes announced, of signals that were
# right, and with so many polls that found a change to judge by.
_RECALL_MIN = 0.9
_PRECISION_MIN = 0.7
_CHANGES_MIN = 20


def lambda_crawl_rates(
    change_rate: FloatArray, importance: FloatArray, is_announced: FlagArray, budget: float
) -> FloatArray:
    """Return the fetches per second of each page at which the penalty is least.

    The penalty of a page is importance × E[H(n)], with n the changes since its copy was made and
    H(n) = 1 + 1/2 + … + 1/n.  Unlike freshness it grows with every change missed, so no page is
    given up for being fast.

    Parameters
    ----------
    change_rate
        Changes per second.
    importance
        Weight of each page, divided by the cost of a fetch.
    is_announced
        Whether all its changes are known at once: then it is fetched after a share of them.
    budget
        Fetches per second of all pages.

    Examples
    --------
    >>> rate = np.array([0.1, 1.0, 10.0, 1.0])
    >>> announced = np.array([False, False, False, True])
    >>> lambda_crawl_rates(rate, np.ones(4), announced, budget=4.0).round(2)
    array([0.39, 0.97, 1.64, 1.  ])
    """
    # Kolobov et al. 2019.  Fetched at Poisson times of rate ρ, n is geometric and
    # E[H(n)] = ln(1 + Δ/ρ); equal slopes -μΔ/(ρ(ρ+Δ)) = -λ give
    #
    #     ρ = (√(Δ² + 4μΔ/λ) - Δ) / 2.
    #
    # Fetched after a share p of its announced changes, E[H(n)] = -ln p for pΔ fetches per second:
    # μ/p = λΔ gives pΔ = min(Δ, μ/λ).
    announced = np.where(is_announced, change_rate, 0.0)
    if np.all(is_announced) and announced.sum() <= budget:
        return announced

    def rates(log_price: float) -> FloatArray:
        ratio = importance * math.exp(-log_price)
        # The root's other form, without a difference.
        root = np.sqrt(change_rate**2 + 4 * ratio * change_rate)
        polled = 2 * ratio * change_rate / (root + change_rate)
        return np.where(is_announced, np.minimum(change_rate, ratio), polled)

    low = high = math.log(importance.sum() / budget)
    while rates(low).sum() < budget and low > -700:
        low -= 1.0
    while rates(high).sum() > budget and high < 700:
        high += 1.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rates(middle).sum() > budget else (low, middle)
    return rates(high)


class LambdaCrawl:
    """Fetches at LambdaCrawl's rates for estimated change rates, some pages when announced.

    Like the paper: its penalty and its optimum with importance; pages whose changes are
    all announced apart from the others; rates estimated from the policy's own polls, anew
    whenever as many have come in as there are pages.

    Unlike it: fetches are evenly spaced, not at Poisson times, which is to its advantage; which
    pages have complete signals is found out by counting, pooled by group, where the paper is told;
    a share p of announced changes is every 1/p-th, not a draw; limits of hosts are not reckoned
    with; it begins with a few polls in turn where the paper has a log to start from.

    Parameters
    ----------
    n_warm_up
        Polls of each page before the first estimate.
    heeds_signals
        Whether groups with good signals are fetched when announced.

    References
    ----------
    A. Kolobov et al. Staying up to date with online content changes using reinforcement learning
    for scheduling. NeurIPS 2019.
    """

    def __init__(self, n_warm_up: int = 3, *, heeds_signals: bool = True) -> None:
        self._n_warm_up = n_warm_up
        self._heeds_signals = heeds_signals

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with equal turns."""
        n_pages = pages.importance.size
        self._worth = pages.importance / pages.cost
        self._group = pages.group
        self._log = PollLog(n_pages)
        self._turns = Turns(n_pages, at)
        self._refits = Refits(n_pages, at)
        self._started_at = at
        self._fetched_at = np.full(n_pages, at)
        self._n_signals = np.zeros(n_pages)
        self._n_signals_ever = np.zeros(n_pages)
        # Of pages whose changes are announced: the share to be fetched, and how much of a fetch
        # has come together.
        self._share = np.zeros(n_pages)
        self._credit = np.zeros(n_pages)
        self._wanted: dict[int, None] = {}

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray  # noqa: ARG002
    ) -> None:  # fmt: skip
        """Count signals, and want pages whose changes are announced."""
        page = page[claimed_at > self._fetched_at[page]]
        np.add.at(self._n_signals, page, 1.0)
        np.add.at(self._n_signals_ever, page, 1.0)
        announced = page[self._share[page] > 0]
        if announced.size:
            np.add.at(self._credit, announced, self._share[announced])
            for wanted in announced[self._credit[announced] >= 1 - 1e-9].tolist():
                self._wanted[wanted] = None

    def pick(self, at: float, n: int) -> RowArray:
        """Return pages that were announced, oldest first, then those whose turn it is."""
        self._refits.ask(n)
        announced = self._turns.take(np.array(list(self._wanted)[:n], np.int64))
        for page in announced.tolist():
            del self._wanted[page]
        if announced.size == n:
            return announced
        return np.concatenate([announced, self._turns.pick(at, n - announced.size)])

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Add to the log, and now and then estimate anew."""
        self._turns.end(at, page)
        self._log.add(at, page, outcomes, self._n_signals[page])
        done = ~outcomes.error
        self._fetched_at[page[done]] = at[done]
        self._n_signals[page[done]] = 0.0
        self._credit[page[done]] = 0.0
        n_polls = self._log.n_polls
        is_warm = n_polls >= self._n_warm_up * self._log.n_pages
        if is_warm and self._refits.is_due(n_polls):
            self._schedule(self._refits.begin(n_polls, float(at[-1])), float(at[-1]))

    def _schedule(self, budget: float, at: float) -> None:
        rate = estimated_rates(self._log, "irregular")
        is_announced = self._has_complete_signals() & (self._n_signals_ever > 0)
        signal_rate = self._n_signals_ever / (at - self._started_at)
        rate = np.where(is_announced, signal_rate, rate)
        fetch_rate = lambda_crawl_rates(rate, self._worth, is_announced, budget)
        self._share = np.where(is_announced, fetch_rate / rate, 0.0)
        self._turns.weight = np.where(is_announced, 0.0, fetch_rate)

    def _has_complete_signals(self) -> FlagArray:
        """Return whether each page is of a group whose signals announce nearly all changes."""
        if not self._heeds_signals:
            return np.zeros(self._log.n_pages, np.bool_)
        group = self._group[self._log.page]
        n_groups = int(self._group.max()) + 1
        is_signalled = self._log.n_signals > 0
        changed = self._log.changed

        def per_group(flags: FlagArray) -> CountArray:
            return np.bincount(group[flags], minlength=n_groups)

        n_both = per_group(is_signalled & changed)
        n_changed = per_group(changed)
        is_complete = (
            (n_changed >= _CHANGES_MIN)
            & (n_both >= _RECALL_MIN * n_changed)
            & (n_both >= _PRECISION_MIN * per_group(is_signalled))
        )
        return np.asarray(is_complete[self._group])
