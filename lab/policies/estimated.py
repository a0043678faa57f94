"""Signals' policies with estimates put in place of the rates that they assume to be known."""

import math
from typing import Literal

import numpy as np

from lab.policies.loops import COST_PRIOR
from lab.policies.polling import PollLog, Refits
from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.core.value.no_signals import crawl_value_of
from recrawl.core.value.noisy import value_and_interval_of
from recrawl.papers.change_rate import PseudoObservations, irregular_change_rate
from recrawl.papers.signal_quality import SignalledPolls, fit_signals
from recrawl.sim.policies.policy import FetchOutcomes, KnownPages, largest
from recrawl.sim.policies.pooled_beliefs import PooledBeliefs

__all__ = ["EstimatedGreedy", "EstimatedNcis"]

# A precision of 1 leaves no doubt of a signal, which no number of polls can warrant.
_PRECISION_MAX = 0.999


@kernel
def _greedy_values(
    at: float,
    weight: FloatArray,
    change_rate: FloatArray,
    tried_at: FloatArray,
    is_under_way: FlagArray,
    out: FloatArray,
) -> None:
    for page in range(out.size):
        if is_under_way[page]:
            out[page] = -math.inf
        else:
            out[page] = weight[page] * crawl_value_of(change_rate[page], at - tried_at[page])


@kernel
def _noisy_values(
    at: float,
    weight: FloatArray,
    rates: tuple[FloatArray, FloatArray, FloatArray],
    tried_at: FloatArray,
    n_signals: FloatArray,
    is_under_way: FlagArray,
    out: FloatArray,
) -> None:
    alpha, gamma, precision = rates
    for page in range(out.size):
        if is_under_way[page]:
            out[page] = -math.inf
            continue
        exponent = alpha[page] * (at - tried_at[page])
        if n_signals[page] > 0.0:
            exponent -= n_signals[page] * math.log1p(-precision[page])
        value, _ = value_and_interval_of(alpha[page], gamma[page], precision[page], exponent)
        out[page] = weight[page] * value


class EstimatedGreedy:
    """Signals' GREEDY with one estimate of each page's rate in place of the truth.

    What who implements the paper without knowing rates would do.  Signals are ignored.

    Parameters
    ----------
    estimate
        "mean": of a Gamma belief whose prior all pages teach, at once after each poll.
        "most likely": CGM's irregular estimate with pseudo-observations, anew whenever a tenth
        as many polls have come in as there are pages.
    pseudo
        The pseudo-observations of the latter.

    References
    ----------
    Signals §5 (GREEDY), Cost §4.4 (the pair)
    """

    def __init__(
        self,
        estimate: Literal["mean", "most likely"] = "mean",
        *,
        pseudo: PseudoObservations = COST_PRIOR,
    ) -> None:
        self._estimate = estimate
        self._pseudo = pseudo

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with the same estimate for every page."""
        n_pages = pages.importance.size
        self._weight = pages.importance / pages.cost
        self._tried_at = np.full(n_pages, at)
        self._is_under_way = np.zeros(n_pages, np.bool_)
        self._value = np.empty(n_pages)
        self._beliefs = PooledBeliefs(n_pages)
        self._log = PollLog(n_pages)
        self._refits = Refits(max(n_pages // 10, 1), at)
        self._rate = np.full(n_pages, self._pseudo.mode_rate)
        if self._estimate == "mean":
            self._rate = self._beliefs.mean_rate()

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Ignore signals."""

    def pick(self, at: float, n: int) -> RowArray:
        """Return the pages of greatest value."""
        _greedy_values(
            at, self._weight, self._rate, self._tried_at, self._is_under_way, self._value
        )
        pages = largest(self._value, n)
        self._is_under_way[pages] = True
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Estimate anew."""
        self._is_under_way[page] = False
        self._tried_at[page] = at
        if self._estimate == "mean":
            self._beliefs.observe(page, outcomes)
            self._rate = self._beliefs.mean_rate()
            return
        self._log.add(at, page, outcomes)
        if self._refits.is_due(self._log.n_polls):
            self._refits.begin(self._log.n_polls, float(at[-1]))
            self._rate = irregular_change_rate(
                self._log.histories(), pseudo=self._pseudo, tolerance=1e-4
            ).change_rate


class EstimatedNcis:
    """Signals' GREEDY-NCIS with parameters fitted to each page's own polls, as its App. E has it.

    The rate of unsignalled changes and the precision of a page's signals are fitted whenever as
    many polls have come in as there are pages; the rate of signals is counted.  All sources count
    as one.  So that the fits stay finite each page is given four more polls: a changed and an
    unchanged one without signals, after what the pages' mean rate suggests, and a changed and an
    unchanged one right after a signal; the paper does not say what it does.

    References
    ----------
    Signals §5.1 (GREEDY-NCIS), App. E
    """

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with the same estimate for every page, and signals of no worth."""
        n_pages = pages.importance.size
        self._weight = pages.importance / pages.cost
        self._started_at = at
        self._tried_at = np.full(n_pages, at)
        self._fetched_at = np.full(n_pages, at)
        self._n_signals = np.zeros(n_pages)
        self._n_signals_ever = np.zeros(n_pages)
        self._is_under_way = np.zeros(n_pages, np.bool_)
        self._value = np.empty(n_pages)
        self._beliefs = PooledBeliefs(n_pages)
        self._log = PollLog(n_pages)
        self._refits = Refits(n_pages, at)
        self._rates = (self._beliefs.mean_rate(), np.zeros(n_pages), np.zeros(n_pages))

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray  # noqa: ARG002
    ) -> None:  # fmt: skip
        """Count signals, unless they speak of before the last fetch."""
        page = page[claimed_at > self._fetched_at[page]]
        np.add.at(self._n_signals, page, 1.0)
        np.add.at(self._n_signals_ever, page, 1.0)

    def pick(self, at: float, n: int) -> RowArray:
        """Return the pages of greatest value."""
        _noisy_values(
            at,
            self._weight,
            self._rates,
            self._tried_at,
            self._n_signals,
            self._is_under_way,
            self._value,
        )
        pages = largest(self._value, n)
        self._is_under_way[pages] = True
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Add to the log, and now and then fit anew."""
        self._is_under_way[page] = False
        self._tried_at[page] = at
        self._log.add(at, page, outcomes, self._n_signals[page])
        self._beliefs.observe(page, outcomes)
        done = ~outcomes.error
        self._fetched_at[page[done]] = at[done]
        self._n_signals[page[done]] = 0.0
        if self._refits.is_due(self._log.n_polls):
            self._refits.begin(self._log.n_polls, float(at[-1]))
            fit = fit_signals(self._supplemented(self._log.signalled()))
            signal_rate = self._n_signals_ever / (float(at[-1]) - self._started_at)
            precision = np.minimum(fit.precision, _PRECISION_MAX)
            self._rates = (fit.unsignalled_change_rate, signal_rate, precision)

    def _supplemented(self, polls: SignalledPolls) -> SignalledPolls:
        """Return the polls with four more of each page."""
        # A change at once and none for 2/m stand for two changes in that time: a mean rate of m.
        unchanged = 2 * float(self._beliefs.prior.seconds / self._beliefs.prior.shape)
        n_pages = polls.offsets.size - 1
        before = np.repeat(polls.offsets[1:], 4)

        def with_four(column: FloatArray, four: tuple[float, ...]) -> FloatArray:
            return np.insert(column, before, np.tile(four, n_pages))

        return SignalledPolls(
            polls.offsets + 4 * np.arange(n_pages + 1),
            with_four(polls.elapsed, (unchanged / 57, unchanged, 0.0, 0.0)),
            with_four(polls.n_signals, (0.0, 0.0, 1.0, 1.0)),
            np.insert(polls.changed, before, np.tile((True, False, True, False), n_pages)),
        )
