"""The knowledge gradient: the value of a poll's information, for which pages come due earlier.

By its value alone a page that seems too fast for its price is polled so late that every poll
finds a change, which cannot tell "just too fast" from "far too fast".  The knowledge gradient is
what a poll is worth beyond that: how much better the page could be kept, on average, once the
outcome of the poll is known.
"""

import math

from recrawl.core.arrays import ArrayLike, FloatArray, by_rows, target_value
from recrawl.core.belief.gamma import GammaBelief, after_change_of
from recrawl.core.kernel import kernel
from recrawl.core.price.due import averaged_due_elapsed_of
from recrawl.core.value.averaged import averaged_value_of

__all__ = [
    "best_net_freshness",
    "best_net_freshness_of",
    "knowledge_gradient",
    "knowledge_gradient_of",
    "learning_due_elapsed",
    "learning_due_elapsed_of",
]

# Ages tried per octave; the knowledge gradient varies over octaves.
_AGES_PER_OCTAVE = 8
_N_HALVINGS = 12
# Fetched more often than every `target` seconds a page costs more than it is worth.  Learning its
# rate may cost more for a while, but not more than five times that.
_SOONEST = 0.2
# Beyond this many times the seconds of a belief no age is tried.
_AGE_MAX = 1e7
# Where the knowledge gradient adds less than this share of the target it is left out.
_NEGLIGIBLE = 1e-3


@kernel
def best_net_freshness_of(shape: float, seconds: float, target: float) -> float:
    """Return the mean freshness of a page of importance 1 less ``target`` for each fetch.

    Per second, at the best interval; 0 for a page that is best left alone.
    """
    # J = max over τ of (∫₀^τ F(s) ds - ν) / τ.  At the best τ it equals F(τ), which is to say that
    # the value ∫₀^τ (F(s) - F(τ)) ds is ν.  So J = F(τ) = (1 + τ/b)^-a with V(τ) = ν.
    due = averaged_due_elapsed_of(shape, seconds, target)
    return math.exp(-shape * math.log1p(due / seconds))


@kernel
def knowledge_gradient_of(
    shape: float, seconds: float, elapsed: float, target: float, best: float
) -> float:
    """Return the expected gain of a poll in best net freshness, which was ``best`` before it."""
    # KG = (1-F) J(a', b') + F J(a, b+t) - J(a, b),  F = (b/(b+t))^a the chance of no change.  The
    # belief (a', b') after a change has the right mean and variance only: KG comes out several
    # times too large where polls are short, and below 0 in places.
    fresh = math.exp(-shape * math.log1p(elapsed / seconds))
    changed_shape, changed_seconds = after_change_of(shape, seconds, elapsed, 1.0)
    if_changed = best_net_freshness_of(changed_shape, changed_seconds, target)
    if_fresh = best_net_freshness_of(shape, seconds + elapsed, target)
    return max((1.0 - fresh) * if_changed + fresh * if_fresh - best, 0.0)


@kernel
def _shortfall_of(
    shape: float,
    seconds: float,
    elapsed: float,
    target: float,
    best: float,
    learning_horizon: float,
) -> float:
    """Return what value and knowledge gradient fall short of ``target``, as a share of it."""
    short = 1.0 - averaged_value_of(shape, seconds, elapsed) / target
    # A page found changed has no better prospects than before, so F (1 - J) bounds the gain.
    fresh = math.exp(-shape * math.log1p(elapsed / seconds))
    if short <= 0.0 or learning_horizon * fresh * (1.0 - best) < short:
        return short
    return short - learning_horizon * knowledge_gradient_of(shape, seconds, elapsed, target, best)


@kernel
def learning_due_elapsed_of(
    shape: float, seconds: float, target: float, learning_horizon: float
) -> float:
    """Return the first age at which value and information reach ``target``; inf if never.

    The knowledge gradient counts for ``learning_horizon`` × ``target`` seconds.
    """
    # V(t) + κν KG(t) ≥ ν.  KG rises and falls with t, so its first crossing is bracketed by steps.
    due = averaged_due_elapsed_of(shape, seconds, target)
    best = math.exp(-shape * math.log1p(due / seconds))
    high = _SOONEST * target
    if learning_horizon * (1.0 - best) < _NEGLIGIBLE or high >= due:
        return due
    growth = math.exp2(1.0 / _AGES_PER_OCTAVE)
    low = 0.0
    while _shortfall_of(shape, seconds, high, target, best, learning_horizon) > 0.0:
        low = high
        high *= growth
        if high >= due or high > _AGE_MAX * seconds:
            high = due
            break
    if low == 0.0 or math.isinf(high):
        return high
    for _ in range(_N_HALVINGS):
        middle = math.sqrt(low * high)
        if _shortfall_of(shape, seconds, middle, target, best, learning_horizon) > 0.0:
            low = middle
        else:
            high = middle
    return high


@kernel
def _best_net_freshnesses(
    shape: FloatArray, seconds: FloatArray, target: FloatArray, out: FloatArray
) -> None:
    for row in range(out.size):
        out[row] = best_net_freshness_of(shape[row], seconds[row], target[row])


@kernel
def _knowledge_gradients(
    shape: FloatArray, seconds: FloatArray, elapsed: FloatArray, target: FloatArray, out: FloatArray
) -> None:
    for row in range(out.size):
        best = best_net_freshness_of(shape[row], seconds[row], target[row])
        out[row] = knowledge_gradient_of(shape[row], seconds[row], elapsed[row], target[row], best)


@kernel
def _learning_due_elapsed(
    shape: FloatArray,
    seconds: FloatArray,
    target: FloatArray,
    learning_horizon: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        out[row] = learning_due_elapsed_of(
            shape[row], seconds[row], target[row], learning_horizon[row]
        )


def best_net_freshness(
    belief: GammaBelief, price: ArrayLike, *, importance: ArrayLike = 1.0
) -> FloatArray:
    """Return the freshness that each page can have, less what its fetches cost at the price.

    In units of its importance, per second; under the current belief, at the best interval.

    Examples
    --------
    Pages that change every day and every half hour or so, at a price of an hour's staleness:

    >>> from recrawl.core.belief import GammaBelief
    >>> hour = 3_600.0
    >>> belief = GammaBelief.with_mean_rate([1 / 24 / hour, 2 / hour], shape=50.0)
    >>> best_net_freshness(belief, price=hour).round(2)
    array([0.73, 0.  ])
    """
    target = target_value(price, importance)
    return by_rows(_best_net_freshnesses, belief.shape, belief.seconds, target)


def knowledge_gradient(
    belief: GammaBelief, elapsed: ArrayLike, price: ArrayLike, *, importance: ArrayLike = 1.0
) -> FloatArray:
    """Return the expected gain of a poll now in `best_net_freshness`.

    Beliefs after a change are Gamma distributions matched in mean and variance, so the result
    exceeds that of exact posteriors, by a factor that may reach ten and more.

    Parameters
    ----------
    belief
        Belief about the page's change rate.
    elapsed
        Seconds since the page was last fetched.
    price
        Value a fetch must exceed.
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    A page that seems to change every 2 hours, at a price of 4: not worth following, but that is
    not certain.  Polls after 2 hours may show it, polls after a day find a change anyway:

    >>> from recrawl.core.belief import GammaBelief
    >>> hour = 3_600.0
    >>> belief = GammaBelief.with_mean_rate(0.5 / hour, shape=2.0)
    >>> knowledge_gradient(belief, [0.5 * hour, 2 * hour, 24 * hour], price=4 * hour).round(3)
    array([0.003, 0.015, 0.008])
    """
    target = target_value(price, importance)
    return by_rows(_knowledge_gradients, belief.shape, belief.seconds, elapsed, target)


def learning_due_elapsed(
    belief: GammaBelief,
    price: ArrayLike,
    *,
    learning_horizon: ArrayLike,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return the seconds after a fetch at which value and information reach the price.

    Parameters
    ----------
    belief
        Belief about the page's change rate.
    price
        Value a fetch must exceed.
    learning_horizon
        Time for which the knowledge gradient counts, in units of price / importance.  Should be
        small while there is much else to learn; with 0 only the value counts.
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    The page of `knowledge_gradient` at prices of 3 and 4 hours, with longer and longer horizons:

    >>> from recrawl.core.belief import GammaBelief
    >>> hour = 3_600.0
    >>> belief = GammaBelief.with_mean_rate(0.5 / hour, shape=2.0)
    >>> (learning_due_elapsed(belief, 3 * hour, learning_horizon=[0, 8, 16, 32]) / hour).round(1)
    array([25.9, 22.9, 19.7, 11.5])
    >>> (learning_due_elapsed(belief, 4 * hour, learning_horizon=[0, 8, 16, 32]) / hour).round(1)
    array([inf, inf, inf, 4.8])
    """
    target = target_value(price, importance)
    return by_rows(_learning_due_elapsed, belief.shape, belief.seconds, target, learning_horizon)
