"""The value of a page with noisy signals after many of them, in closed form.

ψ solves the renewal equation ψ'(s) = 1 - γ(ψ(s) - ψ(s - β)).  Its Laplace transform
1/(s (s + γ(1 - e^{-sβ}))) has a double pole at 0, which is a line, and simple poles ρ_k/β with
ρ + b = b e^{-ρ}, b = γβ, which decay:

    ψ(ι)/β = b c₁²/2 + c₁ n + 2 Re Σ_{k≥1} e^{ρ_k n} / (ρ_k (1 + b + ρ_k)),   c₁ = 1/(1+b), n = ι/β

The line alone is the O(1) form of the value; with its poles it is exact, at a cost that does
not grow with n, where the sum of Signals' Lemma 4 has ⌊ι/β⌋ terms, which is unbounded.
"""

import cmath
import math

from recrawl.core.exponentials import residual_one
from recrawl.core.kernel import kernel

# More poles than this are needed only where b is in the hundreds; the sum is then short.
N_POLES_MAX = 256


@kernel
def n_poles_needed(b: float, n: float) -> int:
    """Return how many poles leave less than 1e-14 of the value after ``n`` signals' worth.

    ρ_k is near 2πik, so |e^{-ρ_k}| = |1 + ρ_k/b| is about √(1 + (2πk/b)²).
    """
    if n < 0.1:
        return N_POLES_MAX + 1
    return int(min(b / (2.0 * math.pi) * math.sqrt(math.expm1(66.0 / n)), 1e9)) + 4


@kernel
def _pole(k: int, b: float) -> complex:
    """Return ρ_k = W_k(b e^b) - b, W_k the k-th branch of Lambert's function, by Newton."""
    target = b + math.log(b) + 2j * math.pi * k  # w + log w = log(b e^b) + 2πik
    w = target - cmath.log(target)
    for _ in range(50):
        step = (w + cmath.log(w) - target) / (1.0 + 1.0 / w)
        w -= step
        if abs(step) < 1e-15 * abs(w):
            break
    return w - b


@kernel
def line_shortfall(signal_exponent: float, b: float) -> float:
    """Return α(1/Δ - c₀ - c₁/α): what the line alone misses of the value at infinity.

    It is of order (αβ)², the difference of terms of order 1; hence written without them.
    """
    ell = signal_exponent
    # e = 1 - precision/(αβ) and e - αβ/2, from precision = 1 - e^{-αβ}
    if ell < 0.03:
        series = 1 / 24 - ell * (1 / 120 - ell * (1 / 720 - ell / 5040))
        e_minus = -ell * ell * (1 / 6 - ell * series)
        e = 0.5 * ell + e_minus
    else:
        e = 1.0 + math.expm1(-ell) / ell
        e_minus = e - 0.5 * ell
    return (
        b / (1.0 + b) * (e_minus * (1.0 + b) + 0.5 * ell * b * e) / ((1.0 + b) * (1.0 + b - b * e))
    )


@kernel
def renewal_line(exponent: float, signal_exponent: float, b: float) -> tuple[float, float]:
    """Return α V and α ψ by the line, for exponent αι beyond the first few αβ."""
    c1 = 1.0 / (1.0 + b)
    c0 = 0.5 * signal_exponent * b * c1 * c1
    value = (
        c0 * -math.expm1(-exponent)
        + c1 * residual_one(exponent)
        + line_shortfall(signal_exponent, b)
    )
    return value, c0 + c1 * exponent


@kernel
def renewal_exact(
    exponent: float, signal_exponent: float, b: float, n_poles: int
) -> tuple[float, float]:
    """Return α V and α ψ by the line and its first ``n_poles`` pairs of poles."""
    value, interval = renewal_line(exponent, signal_exponent, b)
    n = exponent / signal_exponent
    if n > 1e15:
        return value, interval
    fade = math.exp(-exponent) * signal_exponent
    for k in range(1, n_poles + 1):
        rho = _pole(k, b)
        part = cmath.exp(rho * n) / (rho * (1.0 + b + rho))
        interval += 2.0 * signal_exponent * part.real
        value -= 2.0 * fade * (part * (signal_exponent / (signal_exponent - rho))).real
        if abs(part) < 1e-17 * n:
            break
    return value, interval
