"""The most probable of a few frequency classes of a page, when nothing finer is needed."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.core.poll_columns import as_rows
from recrawl.papers.change_rate.likelihood import log_changed

__all__ = ["ClassBeliefs", "FrequencyClasses"]


class ClassBeliefs(NamedTuple):
    """Log-probability of each class for each page: 8 bytes a page and class.

    One row per page, one column per class.  Logarithms, so that a class thought impossible after
    a thousand polls can still come back.
    """

    log_probability: FloatArray

    @property
    def probability(self) -> FloatArray:
        """Probability of each class, for each page."""
        return np.exp(self.log_probability)


@kernel
def _observe(
    log_probability: FloatArray,
    class_rates: FloatArray,
    rows: RowArray,
    elapsed: FloatArray,
    changed: FlagArray,
) -> None:
    # Bayes with the likelihoods of CGM App. C:  P(class | polls) ∝ P(class) · (1 - e^{-λt}) for
    # a changed poll,  · e^{-λt} for an unchanged one.
    for i in range(rows.size):
        if not elapsed[i] > 0.0:
            continue
        believed = log_probability[rows[i]]
        largest = -math.inf
        for k in range(class_rates.size):
            x = class_rates[k] * elapsed[i]
            believed[k] += log_changed(x) if changed[i] else -x
            largest = max(largest, believed[k])
        if largest == -math.inf:
            continue  # Impossible under every class of positive prior: nothing to normalise.
        total = 0.0
        for k in range(class_rates.size):
            total += math.exp(believed[k] - largest)
        for k in range(class_rates.size):
            believed[k] -= largest + math.log(total)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyClasses:
    """A few change rates to sort pages by, such as weekly and monthly.

    Parameters
    ----------
    change_rates
        Changes per second of each class; a class of rate 0 never changes, and one change rules
        it out for good.  At least one rate is more than 0.
    prior
        Share of pages in each class before any poll; sums to 1.  Equal shares by default.

    Examples
    --------
    A page not found changed for a month, and one found changed after a week:

    >>> day = 86_400.0
    >>> classes = FrequencyClasses(change_rates=(1 / (7 * day), 1 / (30 * day)))
    >>> beliefs = classes.prior_beliefs(n_pages=2)
    >>> classes.observe(beliefs, [0, 1], [30 * day, 7 * day], [False, True])
    >>> beliefs.probability.round(2)
    array([[0.04, 0.96],
           [0.75, 0.25]])
    >>> classes.most_probable(beliefs)
    array([1, 0])

    References
    ----------
    CGM §2
    CGM App. B (bayes)
    Prior §4.3 (with a class for each step of the period)
    """

    change_rates: tuple[float, ...]
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        rates = self.change_rates
        if not rates or not all(0 <= rate < np.inf for rate in rates) or not any(rates):
            raise ValueError(
                f"change_rates must be finite, not negative and not all 0, got {rates!r}"
            )
        if self.prior is not None and (
            len(self.prior) != len(rates) or min(self.prior) < 0 or abs(sum(self.prior) - 1) > 1e-9
        ):
            raise ValueError(f"prior must be {len(rates)} shares that sum to 1, got {self.prior!r}")

    def prior_beliefs(self, n_pages: int) -> ClassBeliefs:
        """Return the beliefs about pages never polled: the prior."""
        n_classes = len(self.change_rates)
        prior = np.full(n_classes, 1 / n_classes) if self.prior is None else self.prior
        with np.errstate(divide="ignore"):
            return ClassBeliefs(np.tile(np.log(prior), (n_pages, 1)))

    def observe(
        self, beliefs: ClassBeliefs, rows: ArrayLike, elapsed: ArrayLike, changed: ArrayLike
    ) -> None:
        """Add one poll per entry of ``rows``, which may repeat a page.

        Parameters
        ----------
        beliefs
            Beliefs, changed in place.
        rows
            Rows of the pages polled.
        elapsed
            Seconds since the previous poll; a poll after 0 seconds is ignored.
        changed
            Whether the poll found a change.
        """
        page = as_rows(rows, beliefs.log_probability.shape[0])
        seconds = np.ascontiguousarray(np.broadcast_to(elapsed, page.shape), dtype=np.float64)
        found = np.ascontiguousarray(np.broadcast_to(changed, page.shape), dtype=np.bool_)
        _observe(beliefs.log_probability, np.array(self.change_rates), page, seconds, found)

    def most_probable(self, beliefs: ClassBeliefs) -> CountArray:
        """Return the number of the most probable class of each page."""
        return np.asarray(np.argmax(beliefs.log_probability, axis=1), dtype=np.int64)

    def mean_rate(self, beliefs: ClassBeliefs) -> FloatArray:
        """Return each page's expected change rate, per second."""
        return np.asarray(beliefs.probability @ np.array(self.change_rates))
