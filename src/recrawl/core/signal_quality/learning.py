"""Learn the precision and the delay of each source of signals, from all of its pages together."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, CountArray, FlagArray, FloatArray, as_columns
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.kernel import kernel
from recrawl.core.poll_columns import as_rows

__all__ = [
    "DelayLearner",
    "PrecisionLearner",
    "SourceCounts",
    "SourceDelays",
    "log_false_chance_of",
    "precision_after_change_of",
    "precision_after_fetch",
    "signal_rate",
]


class SourceCounts(NamedTuple):
    """Evidence about the precision of sources: 16 bytes a source.

    The evidence counts as much as ``total`` signals that were checked one by one, of which ``true``
    announced a change.  A poll long after a signal shows less than a poll right after it, so the
    total is below the number of signals.  Both counts are discounted with time.
    """

    true: FloatArray
    total: FloatArray

    @classmethod
    def zeros(cls, n_sources: int) -> "SourceCounts":
        """Return the counts of sources without evidence."""
        return cls(np.zeros(n_sources), np.zeros(n_sources))


@kernel
def log_false_chance_of(true: float, total: float, n_signals: int) -> float:
    """Return the log of the chance that signals of one interval are all false.

    The belief about the precision is Beta(``true``, ``total`` - ``true``).  While a source is
    little known, its signals are likely to be all true or all false, so each further signal adds
    less evidence.
    """
    # E(1-p)^n = Π_{j<n} (b+j)/(s+j) = Π_{j<n} (1 - a/(s+j))
    log_chance = 0.0
    for j in range(n_signals):
        log_chance += math.log1p(-true / (total + j))
    return log_chance


@kernel
def precision_after_change_of(
    true: float, total: float, n_signals: int, log_freshness: float
) -> tuple[float, float]:
    """Return the belief about a precision after an interval in which the page changed.

    The belief is Beta(``true``, ``total`` - ``true``), before and after.  ``log_freshness`` is the
    log of the chance that nothing changed except what this source's signals announce.
    """
    # The likelihood of a change is 1 - F(1-p)^n.  With s = a+b and
    #
    #     A₀ = F·E(1-p)^n = F Π_{j<n} (b+j)/(s+j),   A₁ = A₀ s/(s+n),   A₂ = A₁ (s+1)/(s+n+1),
    #
    # and E_k = 1 - A_k, the posterior of Beta(a, b) has the mean m₁ = (a/s) E₁/E₀ and
    # m₂/m₁ = (a+1)/(s+1) E₂/E₁.  The Beta with the same two moments has s' = (m₁-m₂)/(m₂-m₁²),
    # which is written below without differences of nearly equal numbers.
    false = total - true
    log_chance = log_freshness + log_false_chance_of(true, total, n_signals)
    a1 = math.exp(log_chance) * total / (total + n_signals)
    e0 = -math.expm1(log_chance)
    e1 = e0 + math.exp(log_chance) * n_signals / (total + n_signals)
    rise = a1 * n_signals / (total + n_signals + 1.0)  # E₂ - E₁
    spread = false * e0 * (e1 + rise) - true * (total + 1.0) / total * rise * (n_signals + 1.0 - a1)
    new_total = total * e0 * (false * e1 - (true + 1.0) * rise) / spread
    return new_total * (true / total) * e1 / e0, new_total


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionLearner:
    """Learns the precision of sources from polls of pages whose change rates are not known.

    The belief about a precision is a Beta distribution.  A poll that finds no change proves
    all signals of the interval false, and the updated belief is exact.  A change that a poll finds
    may have come without a signal, and the exact posterior is then no Beta distribution; the
    updated belief is the one with the same mean and variance.

    Parameters
    ----------
    prior_precision
        Precision assumed for a source whose signals were never checked.
    prior_weight
        Number of signals that this assumption counts for.
    half_life
        Seconds after which evidence counts half; infinite for no discount.
    """

    prior_precision: float = 0.5
    prior_weight: float = 2.0
    half_life: float = math.inf

    def __post_init__(self) -> None:
        if not 0 < self.prior_precision < 1:
            raise ValueError(
                f"prior_precision must be between 0 and 1, got {self.prior_precision!r}"
            )
        if not 0 < self.prior_weight < math.inf:
            raise ValueError(f"prior_weight must be positive, got {self.prior_weight!r}")
        if not self.half_life > 0:
            raise ValueError(f"half_life must be positive, got {self.half_life!r}")

    def precision(self, counts: SourceCounts) -> FloatArray:
        """Return the expected precision of each source."""
        prior_true = self.prior_precision * self.prior_weight
        return (counts.true + prior_true) / (counts.total + self.prior_weight)

    def observe(
        self,
        counts: SourceCounts,
        source: ArrayLike,
        belief: GammaBelief,
        elapsed: ArrayLike,
        n_signals: ArrayLike,
        changed: ArrayLike,
        others_false_chance: ArrayLike = 1.0,
    ) -> None:
        """Add polls to ``counts`` in place, one after the other.

        Parameters
        ----------
        counts
            Counts to update, one row per source.
        source
            Row of the source of the signals, for each poll.
        belief
            Belief about each page before its poll.
        elapsed
            Seconds since the previous poll.
        n_signals
            Number of the source's signals in that time, except those that came so soon after the
            previous poll that they may announce a change which that poll already found.
        changed
            Whether the poll found a change.
        others_false_chance
            Probability that all other signals of the interval were false: those of other sources,
            and those that came too soon (`precision_after_fetch`).

        Examples
        --------
        Of ten signals, each checked by a poll within the hour, seven announced a change:

        >>> learner, counts = PrecisionLearner(), SourceCounts.zeros(n_sources=1)
        >>> belief = GammaBelief.of(0.5, 25 * 86_400.0)
        >>> learner.observe(counts, 0, belief, 3_600.0, 1, [True] * 7 + [False] * 3)
        >>> learner.precision(counts).round(2)
        array([0.67])
        """
        shape, columns = as_columns(
            belief.shape, belief.seconds, elapsed, n_signals, others_false_chance, changed
        )
        _observe(
            counts,
            as_rows(np.array(np.broadcast_to(source, shape)).reshape(-1), counts.true.size),
            np.stack(columns[:-1]),
            columns[-1] != 0,
            self.prior_precision * self.prior_weight,
            self.prior_weight,
        )

    def fade(self, counts: SourceCounts, elapsed: float) -> None:
        """Discount ``counts`` in place, for ``elapsed`` seconds that have passed."""
        _fade(counts, elapsed, self.half_life)


def _fade(columns: tuple[FloatArray, ...], elapsed: float, half_life: float) -> None:
    kept = math.exp2(-elapsed / half_life)
    for column in columns:
        np.multiply(column, kept, out=column)


@kernel
def _observe(
    counts: SourceCounts,
    source: CountArray,
    polls: FloatArray,
    changed: FlagArray,
    prior_true: float,
    prior_weight: float,
) -> None:
    for i in range(source.size):
        shape, seconds, elapsed, n_signals, others_false_chance = polls[:, i]
        if n_signals <= 0.0:
            continue
        s = source[i]
        if changed[i] and others_false_chance > 0.0:
            log_freshness = math.log(others_false_chance) - shape * math.log1p(elapsed / seconds)
            true, total = precision_after_change_of(
                counts.true[s] + prior_true,
                counts.total[s] + prior_weight,
                int(n_signals),
                log_freshness,
            )
            counts.true[s] = true - prior_true
            counts.total[s] = total - prior_weight
        elif not changed[i]:
            counts.total[s] += n_signals


class SourceDelays(NamedTuple):
    """Total delay and number of the timed signals of sources, discounted: 16 bytes a source."""

    seconds: FloatArray
    n_signals: FloatArray

    @classmethod
    def zeros(cls, n_sources: int) -> "SourceDelays":
        """Return the delays of sources without evidence."""
        return cls(np.zeros(n_sources), np.zeros(n_sources))


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayLearner:
    """Learns how long after a change each source's signals arrive.

    The delay of a signal is known if the signal claims a time of change (a sitemap's lastmod), or
    if a fetch shows when the page changed (Last-Modified).

    Parameters
    ----------
    prior_delay
        Delay in seconds, assumed for a source without any known delay.
    prior_weight
        Number of signals that this assumption counts for.
    half_life
        Seconds after which evidence counts half; infinite for no discount.
    """

    prior_delay: float = 3_600.0
    prior_weight: float = 2.0
    half_life: float = math.inf

    def __post_init__(self) -> None:
        if not 0 <= self.prior_delay < math.inf:
            raise ValueError(f"prior_delay must not be negative, got {self.prior_delay!r}")
        if not 0 < self.prior_weight < math.inf:
            raise ValueError(f"prior_weight must be positive, got {self.prior_weight!r}")
        if not self.half_life > 0:
            raise ValueError(f"half_life must be positive, got {self.half_life!r}")

    def mean_delay(self, delays: SourceDelays) -> FloatArray:
        """Return each source's expected delay, in seconds."""
        return (delays.seconds + self.prior_delay * self.prior_weight) / (
            delays.n_signals + self.prior_weight
        )

    def observe(self, delays: SourceDelays, source: ArrayLike, delay: ArrayLike) -> None:
        """Add delays, in seconds, to ``delays`` in place; negative delays count as 0."""
        rows = as_rows(np.atleast_1d(source), delays.seconds.size)
        np.add.at(delays.seconds, rows, np.maximum(delay, 0.0))
        np.add.at(delays.n_signals, rows, 1.0)

    def fade(self, delays: SourceDelays, elapsed: float) -> None:
        """Discount ``delays`` in place, for ``elapsed`` seconds that have passed."""
        _fade(delays, elapsed, self.half_life)


def precision_after_fetch(
    precision: ArrayLike, since_fetch: ArrayLike, mean_delay: ArrayLike
) -> FloatArray:
    """Return the precision of a signal that arrives ``since_fetch`` seconds after a fetch.

    A late signal may announce a change that the fetch has already found.  With exponential delays
    the chance that it announces a later one is 1 - e^{-s/delay}.

    Examples
    --------
    >>> precision_after_fetch(0.8, [0.0, 600.0, 36_000.0], mean_delay=3_600.0).round(2)
    array([0.  , 0.12, 0.8 ])

    References
    ----------
    Signals App. C (delayed signals; down-weighted here, discarded there)
    """
    since = np.asarray(since_fetch, dtype=np.float64)
    delay = np.asarray(mean_delay, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        is_later_chance = np.where(delay > 0, -np.expm1(-since / delay), 1.0)
    return np.asarray(precision) * is_later_chance


def signal_rate(
    n_signals: ArrayLike, seconds: ArrayLike, prior_rate: ArrayLike, prior_seconds: ArrayLike
) -> FloatArray:
    """Return a page's signals per second, shrunk towards the rate of similar pages.

    Parameters
    ----------
    n_signals
        Number of signals counted.
    seconds
        Seconds during which they were counted.
    prior_rate
        Signals per second of similar pages.
    prior_seconds
        Seconds of counting that the prior rate counts for.

    References
    ----------
    Signals App. E (γ from the overall frequency of signals)
    """
    prior_seconds = np.asarray(prior_seconds, dtype=np.float64)
    rate: FloatArray = (np.asarray(n_signals) + np.asarray(prior_rate) * prior_seconds) / (
        np.asarray(seconds) + prior_seconds
    )
    return rate
