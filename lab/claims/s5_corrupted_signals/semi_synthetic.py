"""The web of Signals' §6.7: one page in twenty has good signals, and a fourth of the importance."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.greedy import Told
from recrawl.sim import SignalSource, Web, make_web

__all__ = ["Population", "corrupted", "told_quality"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Pages as in the data set that the paper samples, which is not at hand; a step is a day.

    Change rates are log-normal, cut off where a page would not have changed in the fourteen weeks
    that were recorded.  Importance is Zipf's in random order; the pages with good signals weigh
    more.  Precision and recall have the distribution functions 1 - (1-x)^k, which have the
    thresholds of GREEDY-CIS+ as their 95 % quantiles: the paper says that these are met by just
    the pages that draw from the upper 5 %.

    Parameters
    ----------
    n_pages
        Of the whole web.
    good_share, good_importance_share
        Of pages with good signals among all.
    rate_median, rate_sigma, rate_min, rate_max
        Changes per step.
    importance_exponent
        Of Zipf's law.
    precision_95, recall_95
        Quantiles: the pages with good signals are above, the others below.
    is_silent
        Whether all other pages have no signals instead, and are known to have none.
    """

    n_pages: int
    good_share: float = 0.05
    good_importance_share: float = 0.264
    rate_median: float = 0.1
    rate_sigma: float = 1.3
    rate_min: float = 1 / 98
    rate_max: float = 3.0
    importance_exponent: float = 0.8
    precision_95: float = 0.7
    recall_95: float = 0.6
    is_silent: bool = False

    def web(self, seed: int, horizon: float) -> Web:
        """Return a web; its first pages are the ones with good signals."""
        rng = np.random.default_rng(seed)
        n = self.n_pages
        is_good = np.arange(n) < round(self.good_share * n)
        rate = self.rate_median * np.exp(self.rate_sigma * rng.standard_normal(n))
        rate = np.clip(rate, self.rate_min, self.rate_max)
        importance = rng.permutation(np.arange(1.0, n + 1) ** -self.importance_exponent)
        share = np.where(is_good, self.good_importance_share, 1.0 - self.good_importance_share)
        importance *= share / np.where(
            is_good, importance[is_good].sum(), importance[~is_good].sum()
        )
        precision, recall = (
            _drawn(rng.random(n), is_good, self.good_share, top)
            for top in (self.precision_95, self.recall_95)
        )
        if self.is_silent:
            recall = np.where(is_good, recall, 0.0)
        source = SignalSource.with_precision(change_rate=rate, precision=precision, recall=recall)
        return make_web(seed, horizon, rate, importance=importance, sources=[source])


def _drawn(uniform: Floats, is_good: NDArray[np.bool_], good_share: float, top: float) -> Floats:
    """Return draws of the upper tail for some pages and of all below it for the others."""
    share = np.where(is_good, 1.0 - good_share * uniform, (1.0 - good_share) * uniform)
    power = math.log(good_share) / math.log(1.0 - top)
    # Not quite 0 and 1: a precision of 0 has no rate of false signals.
    return np.asarray(np.clip(1.0 - (1.0 - share) ** (1.0 / power), 1e-3, 1.0 - 1e-6))


def told_quality(web: Web, precision: Floats, recall: Floats) -> Told:
    """Return what a policy believes that is told this precision and recall."""
    source = SignalSource.with_precision(
        change_rate=web.change_rate, precision=precision, recall=recall
    )
    return Told(
        change_rate=web.change_rate,
        recall=np.asarray(recall),
        false_rate=np.asarray(source.false_rate),
    )


def corrupted(web: Web, share: float, seed: int) -> Told:
    """Return what a policy believes that is told numbers mixed with noise.

    Of a page without signals everybody knows that it has none.

    References
    ----------
    Signals §6.7, with recall corrupted as precision is: (1-p)·recall + p·ξ.
    """
    truth = Told.truth(web)
    rng = np.random.default_rng(seed)
    noise = rng.random((2, web.n_pages))
    has_signals = truth.recall > 0
    precision = (1.0 - share) * truth.precision + share * noise[0]
    recall = (1.0 - share) * truth.recall + share * noise[1]
    return told_quality(
        web, np.where(has_signals, precision, 1.0), np.where(has_signals, recall, 0.0)
    )
