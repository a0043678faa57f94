"""The exact value of refetching a page now when noisy signals announce some of its changes."""

import math

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, as_columns, as_floats, by_rows
from recrawl.core.exponentials import mean_decay
from recrawl.core.kernel import kernel
from recrawl.core.value.no_signals import crawl_value_of
from recrawl.core.value.renewal import N_POLES_MAX, n_poles_needed, renewal_exact
from recrawl.core.value.signal_terms import signal_term, sum_certain_terms, sum_signal_terms

__all__ = [
    "approximate_noisy_value",
    "expected_fetch_interval",
    "expected_fresh_time",
    "noiseless_value",
    "noisy_value",
    "value_and_interval_of",
]

# Up to this many signals' worth of elapsed time the sum of Lemma 4 is taken; beyond it the sum or
# the poles of its renewal equation, whichever are fewer.  Neither are many: of n terms all but
# n/γβ are certain and summed at once, and the poles number γβ/√n.
_N_TERMS_DIRECT = 6
# Beyond this many the poles are cut off at N_POLES_MAX.  ψ is then so near its line that the
# others are worth 1e-9 of it.
_N_TERMS_MAX = 1e6
# With e^-40 of copies fresh a page is worth its limit to the last bit, whatever ψ is.
_EXPONENT_STALE = 40.0
# Signals that age a page by this share of the time between them do not matter.
_AGEING_MIN = 1e-17
# From this many signals per unsignalled change on, there are none of the latter.
_RATIO_MAX = 1e150


@kernel
def value_and_interval_of(
    unsignalled_change_rate: float,
    signal_rate: float,
    signal_precision: float,
    exponent: float,
) -> tuple[float, float]:
    """Return the exact value V and the expected interval ψ between fetches, for importance 1.

    ``exponent`` is -log P(fresh) = αι, with ι the effective elapsed time: α times the seconds
    elapsed, and -log(1 - precision) more for each signal.
    """
    # Signals Theorem 1 and Lemma 4, with P(i+1, x) = R^i(x), f = 1/ψ:
    #
    #     V(ι) = Σ_{i ≤ ι/β} [ ν^i/(Δ+ν)^{i+1} R^i((α+γ)(ι-iβ)) - e^{-αι}/γ R^i(γ(ι-iβ)) ]
    #     ψ(ι) = Σ_{i ≤ ι/β} R^i(γ(ι-iβ)) / γ
    #
    alpha = unsignalled_change_rate
    gamma = signal_rate
    precision = signal_precision
    if not exponent > 0.0:
        return 0.0 * exponent, 0.0 * exponent
    if gamma <= 0.0 or precision <= 0.0:
        if alpha <= 0.0:
            return 0.0, math.inf
        elapsed = exponent / alpha
        return crawl_value_of(alpha, elapsed), elapsed
    ratio = gamma / alpha if alpha > 0.0 else math.inf
    if precision >= 1.0:
        # β = ∞: only the first term; after a signal the exponent is ∞.
        if math.isinf(exponent):
            return 1.0 / (alpha + gamma), 1.0 / gamma
        return (
            signal_term(0, exponent, ratio) / gamma,
            exponent / alpha * mean_decay(ratio * exponent),
        )
    if math.isinf(exponent):
        return 1.0 / (alpha + precision * gamma), math.inf
    ell = -math.log1p(-precision)  # αβ
    b = ratio * ell  # γβ
    if math.isnan(b):
        return math.nan, math.nan
    if b < _AGEING_MIN:
        elapsed = exponent / alpha
        return crawl_value_of(alpha, elapsed), elapsed
    n = exponent / ell
    if ratio > _RATIO_MAX:
        # Only signals age the page: ψ is the time until so many of them.
        n_certain = math.ceil(min(n, 1e15) * (1.0 - 1e-12))
        value = sum_certain_terms(n_certain, exponent, ell, math.inf)
        return value / gamma, n_certain / gamma
    if n > _N_TERMS_DIRECT:
        n_poles = n_poles_needed(b, n)
        n_terms = (n + 40.0 + 10.0 * math.sqrt(n)) / (1.0 + b)
        # A term costs more the later it comes, a pole about as much as two early terms.
        if n_poles <= min(n_terms, n) * (0.4 + 0.008 * n) or n > _N_TERMS_MAX:
            value, interval = renewal_exact(exponent, ell, b, min(n_poles, N_POLES_MAX))
            return value / alpha, interval / alpha
    value, interval = sum_signal_terms(int(n) + 1, exponent, ell, ratio)
    return value / gamma, interval / gamma


@kernel
def _evaluate_rows(
    unsignalled_change_rate: FloatArray,
    signal_rate: FloatArray,
    signal_precision: FloatArray,
    elapsed: FloatArray,
    n_signals: FloatArray,
    out: FloatArray,
) -> None:
    """Write value, interval and fresh time into the rows of ``out``."""
    for row in range(out.shape[1]):
        alpha = unsignalled_change_rate[row]
        precision = signal_precision[row]
        exponent = alpha * elapsed[row]
        if n_signals[row] > 0.0:
            exponent -= n_signals[row] * math.log1p(-precision) if precision < 1.0 else -math.inf
        value, interval = value_and_interval_of(alpha, signal_rate[row], precision, exponent)
        if alpha == 0.0 and n_signals[row] == 0.0:
            # Every change is announced: fresh until the first signal, which is worth β = ∞.
            rate = signal_rate[row] if precision > 0.0 else 0.0
            value, interval = 0.0, elapsed[row] * mean_decay(rate * elapsed[row])
            exponent = 0.0
        out[0, row] = value
        out[1, row] = interval
        out[2, row] = value + (math.exp(-exponent) * interval if exponent < 745.0 else 0.0)


def _evaluate(*quantities: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    shape, (alpha, gamma, precision, elapsed, n_signals) = as_columns(*quantities)
    out = np.empty((3, alpha.size))
    _evaluate_rows(alpha, gamma, precision, elapsed, n_signals, out)
    return out[0].reshape(shape), out[1].reshape(shape), out[2].reshape(shape)


def noisy_value(
    unsignalled_change_rate: ArrayLike,
    signal_rate: ArrayLike,
    signal_precision: ArrayLike,
    elapsed: ArrayLike,
    n_signals: ArrayLike = 0,
    *,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return the value of refetching each page now, given its signals since the last fetch.

    Exact (1e-9 and better) whatever the number of signals, and in every limit: no signals, only
    true or only false ones, all changes announced.

    Parameters
    ----------
    unsignalled_change_rate
        Changes per second that no signal announces (α).
    signal_rate
        Signals per second, true and false (γ).
    signal_precision
        Share of signals that announce a real change.
    elapsed
        Seconds since the page was last fetched.
    n_signals
        Number of signals received since then.
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    A page that changes 1.4 times a day; a signal a day, right 9 times in 10, announces most.
    Twelve hours after a fetch it is worth little, and much as soon as a signal arrives:

    >>> hour, day = 3_600.0, 86_400.0
    >>> (noisy_value(0.5 / day, 1 / day, 0.9, 12 * hour, [0, 1]) / hour).round(1)
    array([ 1.1, 14.2])

    References
    ----------
    Signals Theorem 1, Lemma 4, §5.1 (noisy change-indicating signals), Lemma 2
    """
    value, _, _ = _evaluate(
        unsignalled_change_rate, signal_rate, signal_precision, elapsed, n_signals
    )
    return as_floats(importance) * value


def expected_fetch_interval(
    unsignalled_change_rate: ArrayLike,
    signal_rate: ArrayLike,
    signal_precision: ArrayLike,
    effective_elapsed: ArrayLike,
) -> FloatArray:
    """Return ψ: the mean seconds between fetches that happen at this effective elapsed time.

    Parameters
    ----------
    unsignalled_change_rate
        Changes per second that no signal announces (α).
    signal_rate
        Signals per second, true and false (γ).
    signal_precision
        Share of signals that announce a real change.
    effective_elapsed
        The threshold ι in seconds: a page is fetched when its effective elapsed time reaches it.

    Examples
    --------
    Signals make fetches come sooner than the threshold:

    >>> expected_fetch_interval(0.4, 0.9, 2 / 3, [0.5, 6.0]).round(3)
    array([0.403, 1.996])

    References
    ----------
    Signals Lemma 4, eq. 7, Theorem 1 (f = 1/ψ)
    """
    _, interval, _ = _evaluate(
        unsignalled_change_rate, signal_rate, signal_precision, effective_elapsed, 0
    )
    return interval


def expected_fresh_time(
    unsignalled_change_rate: ArrayLike,
    signal_rate: ArrayLike,
    signal_precision: ArrayLike,
    effective_elapsed: ArrayLike,
) -> FloatArray:
    """Return w: the mean seconds a copy is fresh between fetches at this effective elapsed time.

    Parameters
    ----------
    unsignalled_change_rate
        Changes per second that no signal announces (α).
    signal_rate
        Signals per second, true and false (γ).
    signal_precision
        Share of signals that announce a real change.
    effective_elapsed
        The threshold ι in seconds: a page is fetched when its effective elapsed time reaches it.

    Examples
    --------
    >>> expected_fresh_time(0.4, 0.9, 2 / 3, [0.5, 6.0]).round(3)
    array([0.368, 0.934])

    References
    ----------
    Signals Lemma 4, eq. 6, Lemma 3
    """
    _, _, fresh_time = _evaluate(
        unsignalled_change_rate, signal_rate, signal_precision, effective_elapsed, 0
    )
    return fresh_time


def noiseless_value(
    unsignalled_change_rate: ArrayLike,
    signal_rate: ArrayLike,
    elapsed: ArrayLike,
    is_signalled: ArrayLike,
    *,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return the value of refetching each page now when signals are never false.

    Parameters
    ----------
    unsignalled_change_rate
        Changes per second that no signal announces (α).
    signal_rate
        Signals per second, all true (γ).
    elapsed
        Seconds since the page was last fetched.
    is_signalled
        Whether a signal has arrived since: the page is then stale for certain.
    importance
        Weight of the page, or requests per second for its copy.

    References
    ----------
    Signals §5.1 (no false positives)
    """
    return noisy_value(
        unsignalled_change_rate,
        signal_rate,
        1.0,
        elapsed,
        as_floats(is_signalled),
        importance=importance,
    )


@kernel
def _approximate_values(
    unsignalled_change_rate: FloatArray,
    signal_rate: FloatArray,
    signal_precision: FloatArray,
    effective_elapsed: FloatArray,
    n_terms: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        alpha = unsignalled_change_rate[row]
        gamma = signal_rate[row]
        precision = signal_precision[row]
        exponent = alpha * effective_elapsed[row]
        if exponent <= 0.0:
            out[row] = 0.0
        elif gamma <= 0.0 or precision <= 0.0:
            out[row] = crawl_value_of(alpha, effective_elapsed[row])
        elif precision >= 1.0:
            out[row] = signal_term(0, exponent, gamma / alpha) / gamma
        else:
            ell = -math.log1p(-precision)
            terms = int(min(n_terms[row], exponent / ell + 1.0))
            out[row] = sum_signal_terms(terms, exponent, ell, gamma / alpha)[0] / gamma


def approximate_noisy_value(
    unsignalled_change_rate: ArrayLike,
    signal_rate: ArrayLike,
    signal_precision: ArrayLike,
    effective_elapsed: ArrayLike,
    n_terms: int,
    *,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return APPROX-j, the noisy value cut off after ``n_terms`` terms.

    It undervalues pages whose signals are weak or many: the terms left out are unbounded in
    number.  `renewal_value` costs less and is right there.

    References
    ----------
    Signals App. A.1, §5.1 (approximations of Greedy_NCIS)
    """
    return as_floats(importance) * by_rows(
        _approximate_values,
        unsignalled_change_rate,
        signal_rate,
        signal_precision,
        effective_elapsed,
        n_terms,
    )
