"""How far each source of signals can be trusted, learned online from all of its pages together."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, CountArray, FlagArray, FloatArray, as_columns
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.kernel import kernel
from recrawl.core.poll_columns import as_rows

__all__ = [
    "PooledPrecision",
    "SourceCounts",
    "SourceDelay",
    "SourceDelays",
    "log_false_chance_of",
    "precision_after_change_of",
    "precision_after_fetch",
    "signal_rate",
]


class SourceCounts(NamedTuple):
    """What polls have shown of a source's signals: 16 bytes a source.

    As much as ``total`` signals would that were checked one by one, ``true`` of which announced
    a change.  A poll long after a signal shows less than one at once, so the total is below the
    number of signals.  Both are discounted.
    """

    true: FloatArray
    total: FloatArray

    @classmethod
    def zeros(cls, n_sources: int) -> "SourceCounts":
        """Return the counts of sources never heard of."""
        return cls(np.zeros(n_sources), np.zeros(n_sources))


@kernel
def log_false_chance_of(true: float, total: float, n_signals: int) -> float:
    """Return the log of the chance that signals of one interval are all false.

    The precision is believed to be Beta(``true``, ``total`` - ``true``).  Signals of a source of
    which little is known are likely to be false together: each that follows another says less.
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

    It is Beta(``true``, ``total`` - ``true``), before and after.  ``log_freshness`` is the log of
    the chance of no change but those that this source's signals announce.
    """
    # The likelihood of a change is 1 - F(1-p)^n.  With s = a+b and
    #
    #     A₀ = F·E(1-p)^n = F Π_{j<n} (b+j)/(s+j),   A₁ = A₀ s/(s+n),   A₂ = A₁ (s+1)/(s+n+1),
    #
    # and E_k = 1 - A_k, the posterior of Beta(a, b) has the mean m₁ = (a/s) E₁/E₀ and
    # m₂/m₁ = (a+1)/(s+1) E₂/E₁.  The Beta with the same two moments has s' = (m₁-m₂)/(m₂-m₁²),
    # in which the differences that cancel are taken out by hand.
    false = total - true
    log_chance = log_freshness + log_false_chance_of(true, total, n_signals)
    a1 = math.exp(log_chance) * total / (total + n_signals)
    e0 = -math.expm1(log_chance)
    e1 = e0 + math.exp(log_chance) * n_signals / (total + n_signals)
    share = a1 * n_signals / (total + n_signals + 1.0)  # E₂ - E₁
    spread = false * e0 * (e1 + share) - true * (total + 1.0) / total * share * (
        n_signals + 1.0 - a1
    )
    new_total = total * e0 * (false * e1 - (true + 1.0) * share) / spread
    return new_total * (true / total) * e1 / e0, new_total


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledPrecision:
    """Learns the precision of sources from polls of pages whose change rates are not known.

    What is believed of a precision is a Beta distribution.  A poll that finds no change proves
    the interval's signals false, which is exact.  After one that finds a change, which the page's
    own unsignalled changes may explain, it is the Beta distribution with the mean and variance
    of the exact posterior.

    Parameters
    ----------
    prior_precision
        Assumed of a source never checked.
    prior_weight
        How many signals that assumption counts for.
    half_life
        Seconds after which old evidence counts half; infinite to never forget.
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
        """Return each source's precision as believed now."""
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
            One row per source.
        source
            The source whose signals are looked at.
        belief
            Of each page before its poll.
        elapsed
            Seconds since the poll before.
        n_signals
            The source's signals in that time, without those so soon after the poll before that
            they may speak of a change which that one saw.
        changed
            Whether the poll found a change.
        others_false_chance
            The chance that all other signals of the interval were false: those of other sources,
            and those that came too soon (`precision_after_fetch`).

        Examples
        --------
        Of ten signals, each checked by a poll within the hour, seven announced a change:

        >>> learner, counts = PooledPrecision(), SourceCounts.zeros(n_sources=1)
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
        """Discount all evidence in ``counts`` for ``elapsed`` seconds gone by, in place."""
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
    """How late a source's signals were: 16 bytes a source, both columns discounted."""

    seconds: FloatArray
    n_signals: FloatArray

    @classmethod
    def zeros(cls, n_sources: int) -> "SourceDelays":
        """Return the delays of sources never heard of."""
        return cls(np.zeros(n_sources), np.zeros(n_sources))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDelay:
    """Learns how long after a change each source's signals arrive.

    A delay is seen where a signal claims a time (a sitemap's lastmod), or where a fetch shows
    when the page changed (Last-Modified).

    Parameters
    ----------
    prior_delay
        Seconds, assumed of a source never timed.
    prior_weight
        How many signals that assumption counts for.
    half_life
        Seconds after which old evidence counts half; infinite to never forget.
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
        """Add delays, in seconds, to ``delays`` in place; a negative one counts as none."""
        rows = as_rows(np.atleast_1d(source), delays.seconds.size)
        np.add.at(delays.seconds, rows, np.maximum(delay, 0.0))
        np.add.at(delays.n_signals, rows, 1.0)

    def fade(self, delays: SourceDelays, elapsed: float) -> None:
        """Discount all evidence in ``delays`` for ``elapsed`` seconds gone by, in place."""
        _fade(delays, elapsed, self.half_life)


def precision_after_fetch(
    precision: ArrayLike, since_fetch: ArrayLike, mean_delay: ArrayLike
) -> FloatArray:
    """Return the precision of a signal that arrives ``since_fetch`` seconds after a fetch.

    A late signal may speak of a change that the fetch has already seen.  With exponential delays
    the chance that it does not is 1 - e^{-s/delay}.

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
        speaks_of_now = np.where(delay > 0, -np.expm1(-since / delay), 1.0)
    return np.asarray(precision) * speaks_of_now


def signal_rate(
    n_signals: ArrayLike, seconds: ArrayLike, prior_rate: ArrayLike, prior_seconds: ArrayLike
) -> FloatArray:
    """Return a page's signals per second: counted, with its host's rate for a start.

    Parameters
    ----------
    n_signals
        Signals counted.
    seconds
        The time they were counted in.
    prior_rate
        Signals per second of such pages.
    prior_seconds
        How many seconds of counting that is worth.

    References
    ----------
    Signals App. E (γ from the overall frequency of signals)
    """
    prior_seconds = np.asarray(prior_seconds, dtype=np.float64)
    rate: FloatArray = (np.asarray(n_signals) + np.asarray(prior_rate) * prior_seconds) / (
        np.asarray(seconds) + prior_seconds
    )
    return rate
