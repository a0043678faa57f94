"""The value of a page with noisy signals in O(1), fast enough for the scheduler.

The value is approximated: by its first exact terms while the effective time ι since the last fetch
is short, then by the line that the function ψ of `recrawl.core.value.renewal` tends to.
"""

import math
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, as_columns, as_floats
from recrawl.core.exponentials import mean_decay
from recrawl.core.kernel import kernel
from recrawl.core.value.no_signals import crawl_value_of
from recrawl.core.value.renewal import renewal_line
from recrawl.core.value.signal_terms import signal_term, sum_signal_terms

__all__ = [
    "RenewalLine",
    "renewal_value",
    "renewal_value_of",
    "renewal_values",
    "several_terms_value_of",
    "several_terms_values",
]


class RenewalLine(NamedTuple):
    """Precomputed terms of the O(1) value of pages: four columns, 32 bytes a page.

    ``signal_age`` is β, the seconds of ageing that one signal is worth; ``limit`` is 1/Δ, the value
    at infinity.  ψ tends to the line c₀ + c₁ι; ``intercept`` is c₀ + c₁/α, and ``slope`` is c₁.
    """

    signal_age: FloatArray
    limit: FloatArray
    intercept: FloatArray
    slope: FloatArray

    @classmethod
    def of(
        cls,
        unsignalled_change_rate: ArrayLike,
        signal_rate: ArrayLike,
        signal_precision: ArrayLike,
    ) -> "RenewalLine":
        """Return the lines of pages with these rates; α must be positive."""
        alpha = as_floats(unsignalled_change_rate)
        gamma = as_floats(signal_rate)
        precision = as_floats(signal_precision)
        with np.errstate(divide="ignore", invalid="ignore"):
            age = np.where(gamma > 0, -np.log1p(-precision) / alpha, np.inf)
            b = gamma * age
            slope = 1 / (1 + b)
            # A page whose signals are all true has only the first term; its line is not used.
            intercept = np.where(np.isfinite(age), slope**2 * age * b / 2, 0.0) + slope / alpha
        return cls(*np.broadcast_arrays(age, 1 / (alpha + precision * gamma), intercept, slope))


@kernel
def renewal_value_of(
    unsignalled_change_rate: float,
    signal_rate: float,
    effective_elapsed: float,
    signal_age: float,
    limit: float,
    intercept: float,
    slope: float,
) -> float:
    """Return the O(1) value of one page of importance 1; the kernel behind `renewal_value`."""
    # While ι < β, the first term of Signals' Lemma 4 is exact.  Beyond, ψ is replaced by the line
    # that it tends to, c₀ + c₁ι with c₁ = 1/(1+γβ) and c₀ = c₁²γβ²/2.  From V' = α e^{-αι} ψ and
    # V(∞) = 1/Δ follows:
    #
    #     V(ι) = 1/Δ - e^{-αι} (c₀ + c₁ι + c₁/α)
    #
    alpha = unsignalled_change_rate
    gamma = signal_rate
    exponent = alpha * effective_elapsed
    fresh = math.exp(-exponent)
    if effective_elapsed >= signal_age:
        if exponent < 0.01:
            # The difference of 1/Δ and the line would lose all digits here.
            return renewal_line(exponent, alpha * signal_age, gamma * signal_age)[0] / alpha
        if fresh == 0.0:
            return limit
        return limit - fresh * (intercept + slope * effective_elapsed)
    signals = gamma * effective_elapsed
    if exponent + signals < 0.1 or exponent < 1e-6:
        if gamma <= 0.0:
            return crawl_value_of(alpha, effective_elapsed)
        return signal_term(0, exponent, gamma / alpha) / gamma
    unsignalled = math.exp(-signals)
    if signals < 1e-3:
        interval = effective_elapsed * mean_decay(signals)
    else:
        interval = (1.0 - unsignalled) / gamma
    return (1.0 - fresh * unsignalled) / (alpha + gamma) - fresh * interval


@kernel
def renewal_values(
    unsignalled_change_rate: FloatArray,
    signal_rate: FloatArray,
    effective_elapsed: FloatArray,
    line: RenewalLine,
    out: FloatArray,
) -> None:
    """Write the O(1) value of each page of importance 1 into ``out``."""
    for row in range(out.size):
        out[row] = renewal_value_of(
            unsignalled_change_rate[row],
            signal_rate[row],
            effective_elapsed[row],
            line.signal_age[row],
            line.limit[row],
            line.intercept[row],
            line.slope[row],
        )


@kernel
def several_terms_value_of(
    unsignalled_change_rate: float,
    signal_rate: float,
    effective_elapsed: float,
    signal_age: float,
    limit: float,
    intercept: float,
    slope: float,
    n_terms: int,
) -> float:
    """Return the value from ``n_terms`` exact terms, or from the line where more are needed."""
    # Terms of Lemma 4 as in `renewal_value_of`.  Since (ν/γ)^i = e^{-αiβ}, every exponential of
    # every term is a product of e^{-αι}, e^{-γι} and powers of e^{γβ}.
    alpha = unsignalled_change_rate
    gamma = signal_rate
    exponent = alpha * effective_elapsed
    if effective_elapsed >= n_terms * signal_age:
        if exponent < 0.01:
            return renewal_line(exponent, alpha * signal_age, gamma * signal_age)[0] / alpha
        return limit - math.exp(-exponent) * (intercept + slope * effective_elapsed)
    if gamma <= 0.0:
        return crawl_value_of(alpha, effective_elapsed)
    if exponent + gamma * effective_elapsed < 0.7 or gamma * effective_elapsed < 1e-3:
        # The closed form would lose digits by cancellation here.
        terms = int(effective_elapsed / signal_age) + 1
        return sum_signal_terms(terms, exponent, alpha * signal_age, gamma / alpha)[0] / gamma
    both = alpha + gamma
    fresh = math.exp(-exponent)
    silent = math.exp(-gamma * effective_elapsed)  # e^{-γ(ι-iβ)}
    per_signal = math.exp(gamma * signal_age)
    share = 1.0 / both  # γ^i/(α+γ)^{i+1}
    false_share = 1.0  # (ν/γ)^i
    false_factor = math.exp(-alpha * signal_age)
    value = 0.0
    x = effective_elapsed
    i = 0
    while x >= 0.0 and i < n_terms:
        a = both * x
        g = gamma * x
        a_term = g_term = a_sum = g_sum = 1.0
        for j in range(1, i + 1):
            a_term *= a / j
            g_term *= g / j
            a_sum += a_term
            g_sum += g_term
        value += share * (false_share - fresh * silent * a_sum)
        value -= fresh * (1.0 - silent * g_sum) / gamma
        share *= gamma / both
        false_share *= false_factor
        silent *= per_signal
        x -= signal_age
        i += 1
    return value


@kernel
def several_terms_values(
    unsignalled_change_rate: FloatArray,
    signal_rate: FloatArray,
    effective_elapsed: FloatArray,
    line: RenewalLine,
    n_terms: int,
    out: FloatArray,
) -> None:
    """Write the value of each page of importance 1, by several exact terms, into ``out``."""
    for row in range(out.size):
        out[row] = several_terms_value_of(
            unsignalled_change_rate[row],
            signal_rate[row],
            effective_elapsed[row],
            line.signal_age[row],
            line.limit[row],
            line.intercept[row],
            line.slope[row],
            n_terms,
        )


def renewal_value(
    unsignalled_change_rate: ArrayLike,
    signal_rate: ArrayLike,
    signal_precision: ArrayLike,
    effective_elapsed: ArrayLike,
    *,
    importance: ArrayLike = 1.0,
    n_terms: int = 1,
) -> FloatArray:
    """Return the value of pages with noisy signals: ``n_terms`` exact terms, then the line.

    With one term it is within 0.3 % of the exact value on average and 9 % at worst, which costs
    0.004 % of freshness; with eight, within 0.2 % at worst.  The rate of unsignalled changes
    must be positive.

    References
    ----------
    Signals Theorem 1 (its limit for many signals)
    """
    shape, (alpha, gamma, precision, elapsed) = as_columns(
        unsignalled_change_rate, signal_rate, signal_precision, effective_elapsed
    )
    out = np.empty(alpha.size)
    line = RenewalLine.of(alpha, gamma, precision)
    if n_terms == 1:
        renewal_values(alpha, gamma, elapsed, line, out)
    else:
        several_terms_values(alpha, gamma, elapsed, line, n_terms, out)
    return as_floats(importance) * out.reshape(shape)
