"""The value of refetching a page now, under a belief about its change rate.

The value is linear in divergence, so under a belief it is the mean of the values at each rate.
So a little-known page is valued for what it might be.
"""

import math

from recrawl.core.arrays import ArrayLike, FloatArray, as_floats, by_rows
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.exponentials import log_poisson, mean_decay, residual
from recrawl.core.kernel import kernel
from recrawl.core.value.noisy import value_and_interval_of

__all__ = [
    "averaged_noisy_value",
    "averaged_noisy_value_of",
    "averaged_value",
    "averaged_value_of",
    "learning_bonus",
    "never_fetched_value",
]

# Below this log(1 + t/b) the closed form loses eps/log of its digits and the series converges in
# seven terms; both are good to 1e-13 there.
_SERIES_BELOW = 0.02
_N_SERIES = 7

# Points of the quadrature over the bulk of the belief, and how far below its peak (in log) the
# integrand may be left out on either side.
N_NODES = 24
_LOG_CUT = 16.0
# An age that stands for an infinite one, in units of the belief's seconds.
_ELAPSED_MAX = 1e100


@kernel
def averaged_value_of(shape: float, seconds: float, elapsed: float) -> float:
    """Return the averaged value of one page of importance 1, without signals."""
    # E over λ ~ Gamma(a, b) of R¹(λt)/λ, with l = log(1 + t/b):
    #
    #     U(t) = b/(a-1) (1 - (b/(b+t))^{a-1}) - t (b/(b+t))^a = b a l (φ((a-1)l) - φ(a l)),
    #
    # φ(x) = (1 - e^-x)/x, which holds at a = 1 too.
    growth = elapsed / seconds
    if growth > 1e300:
        return seconds / (shape - 1.0) if shape > 1.0 else math.inf
    # log1p takes three times as long as log, which is as good to 1e-15 here.
    log_growth = math.log(1.0 + growth) if growth > 0.1 else math.log1p(growth)
    x = shape * log_growth
    fresh = math.exp(-x)
    # The formula as it stands, where its terms do not cancel to less than a thousandth.
    over = shape - 1.0
    stale = growth * fresh
    value = 1.0 - fresh - stale - over * stale
    if abs(value) > 1e-3 * (1.0 + abs(over) * stale) and abs(over) > 1e-3:
        return seconds * value / over
    if log_growth > _SERIES_BELOW:
        return seconds * x * (mean_decay(x - log_growth) - mean_decay(x))
    # b Σ_{k≥1} a^-k R^k(al): for a sharp belief its first term is the plug-in value.  R^{k-1} is
    # R^k plus a positive term.
    tail = residual(_N_SERIES, x)
    term = math.exp(-x)  # x^k e^-x / k!
    for k in range(1, _N_SERIES + 1):
        term *= x / k
    total = 0.0
    for k in range(_N_SERIES, 0, -1):
        total = (total + tail) / shape
        tail += term
        term *= k / x if x > 0.0 else 0.0
    return seconds * total


@kernel
def _averaged_values(
    shape: FloatArray, seconds: FloatArray, elapsed: FloatArray, out: FloatArray
) -> None:
    for row in range(out.size):
        out[row] = averaged_value_of(shape[row], seconds[row], elapsed[row])


def averaged_value(
    belief: GammaBelief, elapsed: ArrayLike, *, importance: ArrayLike = 1.0
) -> FloatArray:
    """Return the value of refetching each page now, averaged over the belief about its rate.

    Parameters
    ----------
    belief
        Belief about the page's change rate.
    elapsed
        Seconds since the page was last fetched.
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    Two pages of the same expected rate, one change in 10 days.  Of the first little is known: it
    may well be static:

    >>> from recrawl.core.belief import GammaBelief
    >>> hour, day = 3_600.0, 86_400.0
    >>> belief = GammaBelief.with_mean_rate(0.1 / day, shape=[0.5, 50.0])
    >>> (averaged_value(belief, 30 * day) / hour).round()
    array([123., 192.])

    References
    ----------
    Longevity eq. 4 (its linearity in D)
    Signals §5.1 (no change-indicating signals, averaged)
    """
    return as_floats(importance) * by_rows(_averaged_values, belief.shape, belief.seconds, elapsed)


@kernel
def _log_rate_range(shape: float) -> tuple[float, float]:
    """Return the range of z = log(rate × seconds) in which e^{(a+1)z - e^z} matters.

    It has its peak at log(a+1) and falls by e^-16 at distances d with d - 1 + e^-d = c on the
    left and e^d - 1 - d = c on the right, c = 16/(a+1).
    """
    c = _LOG_CUT / (shape + 1.0)
    left = c + math.sqrt(2.0 * c)
    right = math.sqrt(2.0 * c)
    for _ in range(4):  # Newton; both start outside and both functions are convex
        left -= (left + math.expm1(-left) - c) / -math.expm1(-left)
        right -= (math.expm1(right) - right - c) / math.expm1(right)
    peak = math.log(shape + 1.0)
    return peak - left, peak + right


@kernel
def belief_log_rates(
    shape: float, seconds: float, elapsed: float, n_nodes: int
) -> tuple[float, float, int]:
    """Return the greatest log(rate × seconds), the step and the number of quadrature nodes.

    ``n_nodes`` of them cover rates at which a value is proportional to the rate; an old copy
    needs more below, where it is proportional to 1/rate down to about 1/``elapsed``.
    """
    low, high = _log_rate_range(shape)
    step = (high - low) / (n_nodes - 1)
    if shape > 3.0:
        low = _log_rate_range(shape - 2.0)[0]
    else:
        low = min(low, math.log(seconds / elapsed) - _LOG_CUT / (shape + 1.0))
    return high, step, int((high - low) / step) + 1


@kernel
def averaged_noisy_value_of(
    shape: float,
    seconds: float,
    signal_rate: float,
    signal_precision: float,
    effective_elapsed: float,
    n_nodes: int,
) -> tuple[float, float]:
    """Return the averaged value of one page of importance 1, with signals, and its slope."""
    # ∫ Gamma(α; a, b) V_α(t') dα by the trapezoid rule in log α, whose error falls
    # exponentially with the number of nodes (the integrand vanishes at both ends).  V' as in
    # Signals Lemma 2.
    if not effective_elapsed > 0.0:
        return 0.0, 0.0
    elapsed = min(effective_elapsed, _ELAPSED_MAX * seconds)
    high, step, n_rates = belief_log_rates(shape, seconds, elapsed, n_nodes)
    # The density of log α in terms of d = log(α b/a), without its large parts that cancel.
    log_norm = math.log(shape * step) + log_poisson(shape, shape)
    d_max = high - math.log(shape)
    total = 0.0
    slope = 0.0
    for k in range(n_rates):
        d = d_max - k * step
        rate = shape / seconds * math.exp(d)
        weight = math.exp(shape * (d - math.expm1(d)) + log_norm)
        exponent = rate * elapsed
        value, interval = value_and_interval_of(rate, signal_rate, signal_precision, exponent)
        total += weight * value
        slope += weight * rate * math.exp(-exponent) * interval
    return total, slope


@kernel
def _averaged_noisy_values(
    shape: FloatArray,
    seconds: FloatArray,
    signal_rate: FloatArray,
    signal_precision: FloatArray,
    effective_elapsed: FloatArray,
    n_nodes: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        if signal_rate[row] <= 0.0 or signal_precision[row] <= 0.0:
            out[row] = averaged_value_of(shape[row], seconds[row], effective_elapsed[row])
        else:
            out[row], _ = averaged_noisy_value_of(
                shape[row],
                seconds[row],
                signal_rate[row],
                signal_precision[row],
                effective_elapsed[row],
                int(n_nodes[row]),
            )


def averaged_noisy_value(
    belief: GammaBelief,
    signal_rate: ArrayLike,
    signal_precision: ArrayLike,
    effective_elapsed: ArrayLike,
    *,
    importance: ArrayLike = 1.0,
    n_nodes: int = N_NODES,
) -> FloatArray:
    """Return the value of refetching each page now, with signals and a belief about its rate.

    Parameters
    ----------
    belief
        Belief about the rate of unsignalled changes.
    signal_rate
        Signals per second, true and false.
    signal_precision
        Share of signals that announce a real change.
    effective_elapsed
        Seconds since the last fetch, aged by each signal with
        `recrawl.core.signal_quality.elapsed_after_signal`.
    importance
        Weight of the page, or requests per second for its copy.
    n_nodes
        Number of rates at which the value is computed; 24 are good to 0.5 % at worst for
        shapes above 0.2, and mostly to 0.01 %.

    References
    ----------
    Signals Theorem 1 (averaged over the belief)
    """
    return as_floats(importance) * by_rows(
        _averaged_noisy_values,
        belief.shape,
        belief.seconds,
        signal_rate,
        signal_precision,
        effective_elapsed,
        n_nodes,
    )


def never_fetched_value(
    belief: GammaBelief, horizon: ArrayLike, *, importance: ArrayLike = 1.0
) -> FloatArray:
    """Return the value of fetching pages for the first time.

    They are stale for certain; a fetch makes them fresh until they change, of which the next
    ``horizon`` seconds count.  In the unit of all values, so that discovery and refresh compete
    at one price.

    Examples
    --------
    >>> from recrawl.core.belief import GammaBelief
    >>> day = 86_400.0
    >>> value = never_fetched_value(GammaBelief.of(0.5, 25 * day), horizon=[30 * day, 365 * day])
    >>> (value / day).round(1)
    array([ 24.2, 147.5])
    """
    # ∫₀^H (b/(b+s))^a ds = b l φ((a-1) l),  l = log(1 + H/b)
    return as_floats(importance) * by_rows(
        _never_fetched_values, belief.shape, belief.seconds, horizon
    )


@kernel
def _never_fetched_values(
    shape: FloatArray, seconds: FloatArray, horizon: FloatArray, out: FloatArray
) -> None:
    for row in range(out.size):
        if horizon[row] > 1e300 * seconds[row]:
            out[row] = seconds[row] / (shape[row] - 1.0) if shape[row] > 1.0 else math.inf
            continue
        log_growth = math.log1p(horizon[row] / seconds[row])
        out[row] = seconds[row] * log_growth * mean_decay((shape[row] - 1.0) * log_growth)


def learning_bonus(belief: GammaBelief, weight: float) -> FloatArray:
    """Return the factor 1 + weight / shape by which a poll's information raises the value.

    1 / shape is the squared relative uncertainty of the rate, so the bonus fades as a page
    becomes known.  A weight of 1 to 2 suits scarce budgets best; 0 gives no bonus.
    """
    return 1.0 + weight / belief.shape
