"""The policy that knows every rate: what learning costs is measured against it."""

import math

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.core.signal_quality import merged_source
from recrawl.core.value.noisy import value_and_interval_of
from recrawl.sim.policies.policy import KnownPages, Outcomes, largest
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
    """Write what fetching each page now is worth: -inf while its fetch is under way."""
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
    A delay of signals is not reckoned with.

    Parameters
    ----------
    web
        Whose parameters the oracle may see; never its future.
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
            self._signal_rate, self._precision = merged_source(
                rate, np.minimum(precision, 1 - 1e-9)
            )
        else:
            self._signal_rate = np.ascontiguousarray(rate.sum(axis=1))
            self._precision = np.ascontiguousarray(precision.sum(axis=1))

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin; pages without a copy are as old as can be."""
        self._weight = pages.importance / pages.cost
        n_pages = pages.importance.size
        self._fetched_at = np.full(n_pages, float(at) if pages.has_copies else -1e18)
        self._last_at = self._fetched_at.copy()
        self._signal_exponent = np.zeros(n_pages)
        self._out = np.empty(n_pages)

    def hear(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray  # noqa: ARG002
    ) -> None:  # fmt: skip
        """Age the pages by their signals, unless these speak of before the last fetch."""
        news = claimed_at > self._last_at[page]
        np.add.at(self._signal_exponent, page[news], self._ageing[page[news], source[news]])

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

    def learn(self, at: FloatArray, page: RowArray, outcomes: Outcomes) -> None:
        """Take note of when pages were fetched."""
        done = ~outcomes.error
        self._last_at[page[done]] = at[done]
        self._signal_exponent[page[done]] = 0.0
        self._fetched_at[page] = self._last_at[page]
