"""When a page comes due: the age at which its value reaches the price."""

import math

from recrawl.core.arrays import ArrayLike, FloatArray, by_rows, target_value
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.exponentials import mean_decay, mean_residual
from recrawl.core.kernel import kernel
from recrawl.core.value.averaged import N_NODES, averaged_noisy_value_of, averaged_value_of
from recrawl.core.value.noisy import value_and_interval_of
from recrawl.core.value.renewal_line import renewal_value_of

__all__ = [
    "averaged_due_elapsed",
    "averaged_due_elapsed_of",
    "averaged_noisy_due_elapsed",
    "due_elapsed",
    "due_elapsed_of",
    "noisy_due_elapsed",
    "noisy_due_elapsed_of",
]

_N_STEPS_MAX = 80
# Newton doubles the digits: a last step of 1e-6 leaves 1e-12.
_LAST_STEP = 1e-6
# A page not worth the price at this many times the seconds of its belief never will be.
_AGE_NEVER = 1e9


@kernel
def _next_guess(
    x: float, value: float, slope: float, target: float, low: float, high: float
) -> tuple[float, float, float, bool]:
    """Return a better age at which ``value`` is ``target``, its bracket, and whether to stop.

    Newton in log-log, where values are nearly straight lines (slope 2 falling to 0); bisection
    where that leaves the bracket.  ``slope`` is the derivative of the value at ``x``.
    """
    if value < target:
        low = x
    else:
        high = x
    relative_slope = x * slope / value
    if value > 0.0 and relative_slope > 1e-300:
        step = math.log(target / value) / relative_slope
        guess = x * math.exp(min(max(step, -3.0), 3.0))
        if low <= guess <= high:
            return guess, low, high, abs(step) < _LAST_STEP
    if math.isinf(high):
        return 2.0 * x, low, high, False
    return 0.5 * (low + high), low, high, high - low < 1e-14 * high


@kernel
def due_elapsed_of(change_rate: float, target: float) -> float:
    """Return the age at which a page of importance 1 is worth ``target``; inf if never."""
    # R¹(x) = y with x = λt, y = λ·target.  For the upper half x - log(1+x) = -log(1-y), which
    # is convex and started from above; for the lower one log-log Newton from x = √(2y).
    if target <= 0.0:
        return 0.0
    if not change_rate > 0.0:
        return math.inf
    y = change_rate * target
    if y >= 1.0:
        return math.inf
    if y < 1e-30:
        return math.sqrt(2.0 * target / change_rate)
    if y > 0.5:
        goal = -math.log1p(-y)
        x = math.sqrt(2.0 * goal) + goal
        for _ in range(_N_STEPS_MAX):
            step = (x - math.log1p(x) - goal) * (1.0 + x) / x
            x -= step
            if abs(step) < _LAST_STEP * x:
                break
        return x / change_rate
    x = math.sqrt(2.0 * y)
    for _ in range(_N_STEPS_MAX):
        value = x * mean_residual(x)
        step = math.log(y / value) * value / (x * x * math.exp(-x))
        x *= math.exp(step)
        if abs(step) < _LAST_STEP:
            break
    return x / change_rate


@kernel
def _due_elapsed(change_rate: FloatArray, target: FloatArray, out: FloatArray) -> None:
    for row in range(out.size):
        out[row] = due_elapsed_of(change_rate[row], target[row])


def due_elapsed(
    change_rate: ArrayLike, price: ArrayLike, *, importance: ArrayLike = 1.0
) -> FloatArray:
    """Return the seconds after a fetch at which each page is worth the price again.

    The best interval at that price when the change rate is known; infinite where the page
    changes too fast to be worth following (importance / change rate ≤ price), or never changes.

    Parameters
    ----------
    change_rate
        Changes per second.
    price
        Value a fetch must exceed.
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    A fetch costs as much as an hour of staleness.  Pages that change every day, every 30 days
    and every half hour:

    >>> import numpy as np
    >>> hour = 3_600.0
    >>> rates = np.array([1 / 24, 1 / 720, 2]) / hour
    >>> (due_elapsed(rates, price=hour) / hour).round(1)
    array([ 7.7, 38.6,  inf])

    References
    ----------
    Cost §3.2 (the optimal interval: e^r = (1+r)/(1 - Cc/(CsΔ)))
    Longevity §4.2 (the period with U = T)
    """
    target = target_value(price, importance)
    return by_rows(_due_elapsed, change_rate, target)


@kernel
def _renewal_due_elapsed_of(
    alpha: float, signal_rate: float, precision: float, target: float
) -> float:
    """Return the threshold with V = ``target`` by the O(1) form of V: within a few per cent."""
    limit = 1.0 / (alpha + precision * signal_rate)
    age = -math.log1p(-precision) / alpha if precision < 1.0 else math.inf  # β
    line_slope = 1.0 / (1.0 + signal_rate * age)
    offset = 0.5 * age * line_slope * (1.0 - line_slope) if age < math.inf else 0.0  # c₀
    # ψ(ι) ≤ ι, so V is below the value without signals and ι beyond its threshold.
    x = due_elapsed_of(alpha, target)
    if not x < math.inf:
        x = -math.log1p(-target / limit) / alpha
    low, high = 0.0, math.inf
    for _ in range(_N_STEPS_MAX):
        value = renewal_value_of(
            alpha, signal_rate, x, age, limit, offset + line_slope / alpha, line_slope
        )
        interval = x * mean_decay(signal_rate * x) if x < age else offset + line_slope * x
        last = x
        slope = alpha * math.exp(-alpha * x) * interval
        x, low, high, _ = _next_guess(x, value, slope, target, low, high)
        if abs(x - last) < 0.01 * x or alpha * x > 40.0:
            break
    return x


@kernel
def noisy_due_elapsed_of(
    unsignalled_change_rate: float,
    signal_rate: float,
    signal_precision: float,
    target: float,
    start: float,
) -> tuple[float, bool]:
    """Return the threshold ι with V(ι) = ``target``, and whether the search converged.

    ``start`` is a guess, or 0 for none.
    """
    alpha = unsignalled_change_rate
    if target <= 0.0:
        return 0.0, True
    if signal_rate <= 0.0 or signal_precision <= 0.0:
        return due_elapsed_of(alpha, target), True
    if alpha <= 0.0 or target * (alpha + signal_precision * signal_rate) >= 1.0:
        return math.inf, True
    x = start
    if not 0.0 < start < math.inf:
        x = _renewal_due_elapsed_of(alpha, signal_rate, signal_precision, target)
    low, high = 0.0, math.inf
    for _ in range(_N_STEPS_MAX):
        value, interval = value_and_interval_of(alpha, signal_rate, signal_precision, alpha * x)
        # Signals Lemma 2: V' = α e^{-αι} ψ
        slope = alpha * math.exp(-alpha * x) * interval
        x, low, high, is_last = _next_guess(x, value, slope, target, low, high)
        if is_last:
            return x, True
        if alpha * x > 700.0:
            return math.inf, True  # the price is within a rounding error of the limit
    return x, high - low <= 1e-9 * x


@kernel
def _noisy_due_elapsed(
    alpha: FloatArray,
    signal_rate: FloatArray,
    precision: FloatArray,
    target: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        x, converged = noisy_due_elapsed_of(
            alpha[row], signal_rate[row], precision[row], target[row], 0.0
        )
        out[row] = x if converged else math.nan


def noisy_due_elapsed(
    unsignalled_change_rate: ArrayLike,
    signal_rate: ArrayLike,
    signal_precision: ArrayLike,
    price: ArrayLike,
    *,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return the effective elapsed time at which each page with signals is worth the price.

    Infinite where it never is, and where signals announce every change, so that time alone ages
    no page; nan should the search not converge.

    Parameters
    ----------
    unsignalled_change_rate
        Changes per second that no signal announces (α).
    signal_rate
        Signals per second, true and false (γ).
    signal_precision
        Share of signals that announce a real change.
    price
        Value that a fetch must reach (Λ).
    importance
        Weight of the page, or requests per second for its copy.

    References
    ----------
    Signals Theorem 1 (V(ι) = Λ), Lemma 1, Lemma 2
    """
    target = target_value(price, importance)
    return by_rows(
        _noisy_due_elapsed, unsignalled_change_rate, signal_rate, signal_precision, target
    )


@kernel
def averaged_due_elapsed_of(shape: float, seconds: float, target: float) -> float:
    """Return the age at which a page of importance 1 is worth ``target``; inf if never."""
    if target <= 0.0:
        return 0.0
    if shape > 1.0 and target * (shape - 1.0) >= seconds:
        return math.inf
    # U' = t D'(t) with D' = (a/b)(1 + t/b)^{-a-1}; U ≤ a t²/(2b), so this is a start from below.
    x = math.sqrt(2.0 * target * seconds / shape)
    low, high = 0.0, math.inf
    for _ in range(4 * _N_STEPS_MAX):
        value = averaged_value_of(shape, seconds, x)
        slope = x * shape / seconds * math.exp(-(shape + 1.0) * math.log1p(x / seconds))
        x, low, high, is_last = _next_guess(x, value, slope, target, low, high)
        if is_last:
            return x
        if x > 1e300:
            return math.inf
    return x


@kernel
def _averaged_due_elapsed(
    shape: FloatArray, seconds: FloatArray, target: FloatArray, out: FloatArray
) -> None:
    for row in range(out.size):
        out[row] = averaged_due_elapsed_of(shape[row], seconds[row], target[row])


def averaged_due_elapsed(
    belief: GammaBelief, price: ArrayLike, *, importance: ArrayLike = 1.0
) -> FloatArray:
    """Return the seconds after a fetch at which each page is worth the price, as believed now.

    Examples
    --------
    >>> from recrawl.core.belief import GammaBelief
    >>> hour, day = 3_600.0, 86_400.0
    >>> belief = GammaBelief.with_mean_rate(0.1 / day, shape=[0.5, 50.0])
    >>> (averaged_due_elapsed(belief, price=hour) / hour).round(1)
    array([24. , 22.6])

    References
    ----------
    Longevity §4.2 (the period with U = T, averaged over the belief)
    """
    target = target_value(price, importance)
    return by_rows(_averaged_due_elapsed, belief.shape, belief.seconds, target)


@kernel
def _averaged_noisy_due_elapsed(
    shape: FloatArray,
    seconds: FloatArray,
    signal_rate: FloatArray,
    precision: FloatArray,
    target: FloatArray,
    n_nodes: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        x = averaged_due_elapsed_of(shape[row], seconds[row], target[row])
        if signal_rate[row] <= 0.0 or precision[row] <= 0.0 or not x < math.inf or x <= 0.0:
            out[row] = x
            continue
        low, high = 0.0, math.inf
        for _ in range(_N_STEPS_MAX):
            value, slope = averaged_noisy_value_of(
                shape[row], seconds[row], signal_rate[row], precision[row], x, int(n_nodes[row])
            )
            x, low, high, is_last = _next_guess(x, value, slope, target[row], low, high)
            if is_last:
                break
            if x > _AGE_NEVER * seconds[row]:
                x = math.inf  # its value tends to less than the price
                break
        out[row] = x


def averaged_noisy_due_elapsed(
    belief: GammaBelief,
    signal_rate: ArrayLike,
    signal_precision: ArrayLike,
    price: ArrayLike,
    *,
    importance: ArrayLike = 1.0,
    n_nodes: int = N_NODES,
) -> FloatArray:
    """Return the effective elapsed time at which pages with signals are worth the price.

    The rate of unsignalled changes is only believed.  For many pages use
    `recrawl.core.price.DueTable`.

    References
    ----------
    Signals Theorem 1 (averaged over the belief)
    """
    target = target_value(price, importance)
    return by_rows(
        _averaged_noisy_due_elapsed,
        belief.shape,
        belief.seconds,
        signal_rate,
        signal_precision,
        target,
        n_nodes,
    )
