"""The belief about a page's change rate: a Gamma distribution, updated in closed form."""

import math
from typing import NamedTuple

import numpy as np
import scipy  # submodules load on first use, which saves importers a second

from recrawl.core.arrays import ArrayLike, FlagArray, FloatArray, RowArray, as_columns, as_floats
from recrawl.core.kernel import kernel
from recrawl.core.poll_columns import as_poll_columns, check_elapsed

__all__ = [
    "GammaBelief",
    "after_change_of",
    "after_last_modified",
    "after_poll",
    "after_polls",
    "expected_freshness",
    "fade_beliefs",
    "mean_rate",
    "rate_quantile",
    "rebase_beliefs",
    "very_stale_probability",
]


class GammaBelief(NamedTuple):
    """Belief about the rate of unsignalled changes (α): Gamma(shape, rate ``seconds``).

    Read it as "``shape`` changes seen in ``seconds`` seconds": the mean rate is shape / seconds,
    and 1 / shape is its squared relative uncertainty.  Where a page has no signals, α is its
    whole change rate.  16 bytes a page as columns of float64; `recrawl.core.belief.codes` stores
    it in four.
    """

    shape: FloatArray
    seconds: FloatArray

    @classmethod
    def of(cls, shape: ArrayLike, seconds: ArrayLike) -> "GammaBelief":
        """Return a belief with these parameters, broadcast against each other."""
        if not (np.all(as_floats(shape) > 0) and np.all(as_floats(seconds) > 0)):
            raise ValueError("shape and seconds must be positive")
        return cls(*(np.array(a, dtype=np.float64) for a in np.broadcast_arrays(shape, seconds)))

    @classmethod
    def with_mean_rate(cls, mean_rate: ArrayLike, shape: ArrayLike) -> "GammaBelief":
        """Return a belief of this mean, in changes per second, and shape."""
        return cls.of(shape, np.asarray(shape) / np.asarray(mean_rate))


@kernel
def after_change_of(
    shape: float, seconds: float, elapsed: float, false_chance: float
) -> tuple[float, float]:
    """Return the belief after a poll that found a change; the kernel behind `after_poll`."""
    # The likelihood of a change is 1 - q e^{-αt}.  With r = b/(b+t) and E_k = 1 - q r^{a+k}, the
    # posterior of Gamma(a, b) has
    #
    #     mean m₁ = (a/b) E₁/E₀,     m₂ = (a(a+1)/b²) E₂/E₀,
    #
    # and E₂E₀ - E₁² = -q r^a (1-r)², so its squared relative deviation m₂/m₁² - 1, which is 1/a of
    # the Gamma with the same mean and variance, has no cancellation:
    #
    #     1/a' = 1/a - (a+1)/a · q r^a (1-r)² / E₁²,        b' = a'/m₁
    #
    growth = elapsed / seconds
    keep = 1.0 / (1.0 + growth)  # r
    # log1p and expm1 take three times as long as log and exp, which are as good to 1e-14 where
    # there is nothing to cancel.
    exponent = shape * (math.log(1.0 + growth) if growth > 0.1 else math.log1p(growth))
    unchanged = false_chance * math.exp(-exponent)  # q r^a
    if exponent > 0.1:
        e0 = 1.0 - unchanged
        e1 = 1.0 - unchanged * keep
    else:
        e0 = (1.0 - false_chance) - false_chance * math.expm1(-exponent)
        e1 = e0 + unchanged * (growth * keep)
    if not e0 > 0.0:
        # The limit t → 0 of the above: one more change.  But two fetches within one
        # second say nothing about the rate.
        return (shape + 1.0 if elapsed > 0.0 else shape), seconds
    share = growth * keep / e1  # (1-r)/E₁
    new_shape = shape / (1.0 - (shape + 1.0) * unchanged * share * share)
    return new_shape, new_shape * seconds * e0 / (shape * e1)


@kernel
def _observe_polls(
    shape: FloatArray,
    seconds: FloatArray,
    elapsed: FloatArray,
    changed: FloatArray,
    false_chance: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(shape.size):
        if changed[row] != 0.0:
            out[0, row], out[1, row] = after_change_of(
                shape[row], seconds[row], elapsed[row], false_chance[row]
            )
        else:
            out[0, row] = shape[row]
            out[1, row] = seconds[row] + elapsed[row]


def after_poll(
    belief: GammaBelief, elapsed: ArrayLike, changed: ArrayLike, false_chance: ArrayLike = 1.0
) -> GammaBelief:
    """Return the belief after one poll of each page.

    An unchanged poll adds its time to ``seconds``, which is exact.  A changed poll gives the Gamma
    distribution with the mean and variance of the exact posterior.

    Parameters
    ----------
    belief
        Belief before the poll.
    elapsed
        Seconds since the previous poll; a poll after 0 seconds changes nothing.
    changed
        Whether this poll found the page changed.
    false_chance
        Probability that all signals of the interval were false, (1 - precision) to the power of
        their number; 1 without signals.

    Examples
    --------
    A page of a kind that changes every 100 days or so is found changed after one day, then
    unchanged after another:

    >>> day = 86_400.0
    >>> belief = GammaBelief.with_mean_rate(0.01 / day, shape=0.5)
    >>> belief = after_poll(belief, day, True)
    >>> belief = after_poll(belief, day, False)
    >>> round(float(mean_rate(belief) * day), 3)
    0.029

    References
    ----------
    CGM App. B (Bayesian estimation, here with a Gamma prior on the rate)
    """
    shape, (a, b, t, is_changed, q) = as_columns(
        belief.shape, belief.seconds, elapsed, changed, false_chance
    )
    check_elapsed(t)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError("false_chance must be between 0 and 1")
    out = np.empty((2, a.size))
    _observe_polls(a, b, t, is_changed, q, out)
    return GammaBelief(*out.reshape((2, *shape)))


@kernel
def _observe_in_turn(
    belief: GammaBelief,
    rows: RowArray,
    elapsed: FloatArray,
    changed: FlagArray,
    false_chance: FloatArray,
) -> None:
    for i in range(rows.size):
        row = rows[i]
        if changed[i]:
            belief.shape[row], belief.seconds[row] = after_change_of(
                belief.shape[row], belief.seconds[row], elapsed[i], false_chance[i]
            )
        else:
            belief.seconds[row] += elapsed[i]


def after_polls(
    belief: GammaBelief,
    rows: ArrayLike,
    elapsed: ArrayLike,
    changed: ArrayLike,
    false_chance: ArrayLike = 1.0,
) -> GammaBelief:
    """Return the beliefs after a log of polls, in which each page may occur any number of times.

    Parameters
    ----------
    belief
        Belief about each page before its first poll.
    rows
        Row of the page of each poll, in order of time.
    elapsed, changed, false_chance
        Columns as for `after_poll`, one entry per poll.

    Examples
    --------
    >>> day = 86_400.0
    >>> belief = GammaBelief.with_mean_rate(np.full(2, 0.01 / day), shape=0.5)
    >>> belief = after_polls(belief, [0, 0, 1], [day, day, 3 * day], [True, False, False])
    >>> (mean_rate(belief) * day).round(4)
    array([0.0291, 0.0094])

    References
    ----------
    CGM App. B (Bayesian estimation, here with a Gamma prior on the rate)
    """
    page, seconds, found = as_poll_columns(rows, elapsed, changed, belief.shape.size)
    after = GammaBelief(belief.shape.copy(), belief.seconds.copy())
    chance = np.ascontiguousarray(np.broadcast_to(as_floats(false_chance), page.shape))
    _observe_in_turn(after, page, seconds, found, chance)
    return after


def after_last_modified(
    belief: GammaBelief, elapsed: ArrayLike, age: ArrayLike, is_signalled: ArrayLike = False
) -> GammaBelief:
    """Return the belief after a poll that shows a reliable last-modified date.

    The likelihood is exact: no change for the last ``age`` seconds, and one then, unless the
    page did not change since the previous poll (``age`` ≥ ``elapsed``).

    Parameters
    ----------
    belief
        Belief before the poll.
    elapsed
        Seconds since the previous poll.
    age
        Seconds since the page's last change.
    is_signalled
        Whether a signal announced that change, which then does not count as unsignalled.

    References
    ----------
    CGM §5, Lemma 5.1 (the information of its last-modified estimator, used fully)
    """
    elapsed, age = np.asarray(elapsed), np.asarray(age)
    counts = (age < elapsed) & ~np.asarray(is_signalled, dtype=np.bool_)
    return GammaBelief.of(belief.shape + counts, belief.seconds + np.minimum(age, elapsed))


def fade_beliefs(
    belief: GammaBelief,
    prior: GammaBelief,
    elapsed: ArrayLike,
    half_life: ArrayLike,
    memory_changes: ArrayLike = np.inf,
) -> GammaBelief:
    """Return the belief with its evidence beyond the prior's halved every ``half_life`` seconds.

    Pages change their habits, so old polls say less about the current rate.

    Parameters
    ----------
    belief, prior
        Belief to fade, and the prior that it fades to.
    elapsed
        Seconds that have passed.
    half_life
        Seconds after which evidence counts half.
    memory_changes
        Number of expected changes after which evidence counts half; see
        `recrawl.core.belief.memory`.
    """
    seconds = as_floats(elapsed)
    expected = mean_rate(belief) * seconds
    kept = np.exp2(-seconds / as_floats(half_life) - expected / as_floats(memory_changes))
    return GammaBelief.of(
        prior.shape + (belief.shape - prior.shape) * kept,
        prior.seconds + (belief.seconds - prior.seconds) * kept,
    )


def rebase_beliefs(
    belief: GammaBelief, old_prior: GammaBelief, new_prior: GammaBelief
) -> GammaBelief:
    """Return the belief that the same evidence would have led to from another prior.

    Exact for unchanged polls and last-modified dates, close for changed ones.  Changes that a
    signal may have announced can take seconds away from a belief; they then take the same share
    of the new prior's.
    """
    gained = belief.seconds - old_prior.seconds
    kept = np.minimum(belief.seconds / old_prior.seconds, 1.0)
    return GammaBelief.of(
        np.maximum(belief.shape - old_prior.shape, 0.0) + new_prior.shape,
        np.maximum(gained, 0.0) + kept * new_prior.seconds,
    )


def mean_rate(belief: GammaBelief) -> FloatArray:
    """Return the expected rate of unsignalled changes, per second."""
    return belief.shape / belief.seconds


def rate_quantile(belief: GammaBelief, probability: ArrayLike) -> FloatArray:
    """Return the quantile of the rate, per second, at this probability."""
    quantile: FloatArray = (
        scipy.special.gammaincinv(belief.shape, as_floats(probability)) / belief.seconds
    )
    return quantile


def expected_freshness(belief: GammaBelief, elapsed: ArrayLike) -> FloatArray:
    """Return the probability that a copy fetched ``elapsed`` seconds ago is still fresh.

    With signals, pass the effective elapsed time.

    Examples
    --------
    >>> day = 86_400.0
    >>> expected_freshness(GammaBelief.of(2.0, 20 * day), [0, day, 10 * day]).round(3)
    array([1.   , 0.907, 0.444])

    References
    ----------
    Signals eq. 1 (averaged over the belief)
    """
    # E e^{-αt} over α ~ Gamma(a, b) is (b/(b+t))^a.
    freshness: FloatArray = np.exp(-belief.shape * np.log1p(np.asarray(elapsed) / belief.seconds))
    return freshness


def very_stale_probability(
    belief: GammaBelief, elapsed: ArrayLike, stale_for: ArrayLike
) -> FloatArray:
    """Return the probability that a copy has been stale for longer than ``stale_for`` seconds.

    References
    ----------
    Cost §5.3 (very stale pages, answered per page)
    """
    exposed = np.maximum(as_floats(elapsed) - as_floats(stale_for), 0.0)
    probability: FloatArray = -np.expm1(-belief.shape * np.log1p(exposed / belief.seconds))
    return probability
