"""The sums behind the value of a page with noisy signals, without their cancellations.

Signals' Lemma 4 gives ψ, the time between fetches, and w, the fresh part of it, as sums over the
number i of signals received; the value is V = w - e^{-αι} ψ.  Both sums nearly cancel where the
value is small.  Since V' = α e^{-αι} ψ (Lemma 2), V is also an integral with positive integrand,
and its i-th term, in units of 1/γ and with s = α × time, is

    δ_i(y) = ∫₀^y e^{-s} P(i+1, ρ s) ds,     ρ = γ/α,   y = αι - i·αβ,

so that  γ V = Σ_i (ν/γ)^i δ_i  and  γ ψ = Σ_i P(i+1, ρ y_i).  P is the regularised incomplete
gamma function, R^i in the paper.
"""

import math

from recrawl.core.exponentials import is_saturated, log_poisson, residual
from recrawl.core.kernel import kernel

# Under this many unsignalled changes expected the closed form loses eps/y of its digits; the
# expansion in y to third order is good to y³ = 1e-12 there.
_FEW_CHANGES = 1e-4


@kernel
def _upper_tail(i: int, x: float) -> float:
    """Return Q(i+1, x) = e^-x Σ_{j≤i} x^j/j!, summed downwards: x is well above i."""
    term = math.exp(log_poisson(i, x))
    total = term
    for j in range(i, 0, -1):
        term *= j / x
        total += term
        if term < 1e-17 * total:
            break
    return total


@kernel
def signal_term(i: int, y: float, ratio: float) -> float:
    """Return δ_i(y) for ``ratio`` = γ/α, good to about 1e-12 relative."""
    if not y > 0.0:
        return 0.0
    g = ratio * y  # γ x, signals expected
    a = g + y  # (α + γ) x
    if a < 12.0 + i + 4.0 * math.sqrt(i):
        # g^{i+1} e^-a Σ_{n≥1} (a^n - g^n)/(n+i+1)!: all terms are positive.  The difference
        # d_n = a^n - g^n obeys d_{n+1} = a d_n + g^n y; both are kept divided by (n+i+1)!/(i+2)!.
        log_factor = log_poisson(i + 1, g) - y if g > 0.0 else -math.inf
        if log_factor < -745.0:
            return 0.0
        difference = y
        power = g
        total = difference
        n = i + 2
        while difference > 1e-17 * total:
            n += 1
            difference = (a * difference + power * y) / n
            power *= g / n
            total += difference
        return math.exp(log_factor) / (i + 2) * total
    if y < _FEW_CHANGES:
        # ∫ s^k P(i+1, ρs) ds = y^{k+1}/(k+1) P(i+1, g) - (i+k+1)!/((k+1) i! ρ^{k+1}) P(i+k+2, g)
        p = residual(i, g)
        rising = (i + 1) / ratio
        zeroth = y * p - rising * residual(i + 1, g)
        rising *= (i + 2) / ratio
        first = (y * y * p - rising * residual(i + 2, g)) / 2.0
        rising *= (i + 3) / ratio
        second = (y * y * y * p - rising * residual(i + 3, g)) / 3.0
        return zeroth - first + second / 2.0
    # (ρ/(1+ρ))^{i+1} P(i+1, a) - e^{-y} P(i+1, g)
    u = (i + 1) * math.log1p(1.0 / ratio)
    if g < i + 1.0:
        return math.exp(-u) * (1.0 - _upper_tail(i, a)) - math.exp(-y) * residual(i, g)
    # Both P are near 1 and y may be small: the difference of the factors, and the upper tails.
    whole = -math.exp(-u) * math.expm1(u - y)
    if is_saturated(i, g):
        return whole
    return whole - (math.exp(-u) * _upper_tail(i, a) - math.exp(-y) * (1.0 - residual(i, g)))


@kernel
def n_certain_terms(n_terms: int, exponent: float, signal_exponent: float, ratio: float) -> int:
    """Return how many of the first terms have P(i+1, ρ y_i) = 1 to the last bit.

    Where γβ is large these are nearly all.
    """
    reach = ratio * exponent - 40.0 - 10.0 * math.sqrt(n_terms + 1.0)
    return max(0, min(n_terms, int(reach / (1.0 + ratio * signal_exponent))))


@kernel
def sum_certain_terms(n_terms: int, exponent: float, signal_exponent: float, ratio: float) -> float:
    """Return Σ_{i<n} (ν/γ)^i δ_i of terms with P = 1; ``ratio`` may be infinite."""
    # (ν/γ)^i δ_i = e^{-u-iL} - e^{-x} with x = αι, u = log(1 + 1/ρ), L = αβ + u
    if n_terms <= 0:
        return 0.0
    u = math.log1p(1.0 / ratio)
    step = signal_exponent + u
    if exponent > 2e-3:
        # A geometric sum, which cancels for a small exponent but is good to 3e-13 here.
        total = math.expm1(-n_terms * step) / math.expm1(-step)
        return math.exp(-u) * total - n_terms * math.exp(-exponent)
    # e^{-x} Σ (e^{z_i} - 1) with small z_i = x - u - iL, to fourth order, from their mean and
    # central moments, which are those of a discrete uniform distribution: good to 2e-13.
    mean = exponent - u - 0.5 * step * (n_terms - 1)
    square = step * step * (float(n_terms) * n_terms - 1.0) / 12.0
    fourth = square * (square * 1.8 - 0.2 * step * step)
    total = mean + (mean * mean + square) / 2.0 + mean * (mean * mean + 3.0 * square) / 6.0
    total += (mean * mean * (mean * mean + 6.0 * square) + fourth) / 24.0
    return math.exp(-exponent) * n_terms * total


@kernel
def sum_signal_terms(
    n_terms: int, exponent: float, signal_exponent: float, ratio: float
) -> tuple[float, float]:
    """Return γ V and γ ψ from the terms i < ``n_terms``, of which the last has y_i ≥ 0.

    ``exponent`` is αι, ``signal_exponent`` is αβ = -log(1 - precision): what one signal adds.
    """
    first = n_certain_terms(n_terms, exponent, signal_exponent, ratio)
    value = sum_certain_terms(first, exponent, signal_exponent, ratio)
    interval = float(first)
    false_share = math.exp(-first * signal_exponent)  # (ν/γ)^i
    false_factor = math.exp(-signal_exponent)
    value_done = False
    for i in range(first, n_terms):
        y = exponent - i * signal_exponent
        if y <= 0.0:
            break
        reached = residual(i, ratio * y)
        interval += reached
        if not value_done:
            term = false_share * signal_term(i, y, ratio)
            value += term
            value_done = term * (n_terms - i) < 1e-16 * value
        if value_done and reached * (n_terms - i) < 1e-16 * interval:
            break
        false_share *= false_factor
    return value, interval
