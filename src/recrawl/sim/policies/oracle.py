"""A policy that knows every change rate, to measure the cost of learning against."""

import math

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.core.signal_quality import merge_sources
from recrawl.core.value.noisy import value_and_interval_of
from recrawl.sim.policies.policy import FetchOutcomes, KnownPages, largest
from recrawl.sim.web.webs import Web

__all__ = ["Oracle"]


@kernel
def _values(
    at: float,
    weight: FloatArray,
    unsignalled_rate: FloatArray,
    signal_rate: FloatArray,
    precision: FloatArray,
    fetched_at: FloatArray,
    signal_exponent: FloatArray,
    out: FloatArray,
) -> None:
    """Write the value of fetching each page now: -inf while its fetch is under way."""
    for page in range(out.size):
        if fetched_at[page] == math.inf:
            out[page] = -math.inf
            continue
        exponent = unsignalled_rate[page] * (at - fetched_at[page]) + signal_exponent[page]
        value, _ = value_and_interval_of(
            unsignalled_rate[page], signal_rate[page], precision[page], exponent
        )
        out[page] = weight[page] * value


class Oracle:
    """Fetches the page of greatest value per cost, knowing change rates, recall and precision.

    The value is exact for Poisson changes at constant rates and one source of signals; several
    sources are merged into one for it, though each signal ages its page by its own precision.
    Delays of signals are ignored.

    Parameters
    ----------
    web
        The web, of which the oracle reads the parameters, but never future changes.
    """

    def __init__(self, web: Web) -> None:
        true_rate = web.recall * web.change_rate[:, np.newaxis]
        rate = true_rate + web.false_rate
        precision = np.divide(true_rate, rate, out=np.zeros_like(rate), where=rate > 0)
        announced = np.minimum((1.0 - web.recall).prod(axis=1), 1.0)
        self._unsignalled_rate = announced * web.change_rate
        with np.errstate(divide="ignore"):
            self._ageing = -np.log1p(-precision)
        n_sources = web.recall.shape[1]
        if n_sources > 1:
            self._signal_rate, self._precision = merge_sources(
                rate, np.minimum(precision, 1 - 1e-9)
            )
        else:
            self._signal_rate = np.ascontiguousarray(rate.sum(axis=1))
            self._precision = np.ascontiguousarray(precision.sum(axis=1))

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin; pages without a copy count as very old."""
        self._weight = pages.importance / pages.cost
        n_pages = pages.importance.size
        self._fetched_at = np.full(n_pages, float(at) if pages.has_copies else -1e18)
        self._last_at = self._fetched_at.copy()
        self._signal_exponent = np.zeros(n_pages)
        self._out = np.empty(n_pages)

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray  # noqa: ARG002
    ) -> None:  # fmt: skip
        """Age pages by their signals, except signals of changes before the last fetch."""
        is_new = claimed_at > self._last_at[page]
        np.add.at(self._signal_exponent, page[is_new], self._ageing[page[is_new], source[is_new]])

    def pick(self, at: float, n: int) -> RowArray:
        """Return the pages of greatest value."""
        _values(
            at,
            self._weight,
            self._unsignalled_rate,
            self._signal_rate,
            self._precision,
            self._fetched_at,
            self._signal_exponent,
            self._out,
        )
        pages = largest(self._out, n)
        self._fetched_at[pages] = np.inf
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Record when pages were fetched."""
        done = ~outcomes.error
        self._last_at[page[done]] = at[done]
        self._signal_exponent[page[done]] = 0.0
        self._fetched_at[page] = self._last_at[page]
