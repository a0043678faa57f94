"""Residuals of the exponential series, which every value of a Poisson page is made of.

They are differences that cancel for small arguments; each function here says how it avoids it.
"""

import math

from recrawl.core.kernel import kernel

# Below this argument 1 - (1 + x) e^-x is summed as a series; at it both forms are good to 5e-15.
_SERIES_BELOW = 0.25


@kernel
def mean_decay(x: float) -> float:
    """Return (1 - e^-x) / x, the mean of e^-s for s from 0 to ``x``; any sign, 1 at 0."""
    if abs(x) < 1e-5:
        return 1.0 - x * (0.5 - x / 6.0)
    return -math.expm1(-x) / x


@kernel
def mean_residual(x: float) -> float:
    """Return R¹(x) / x = (1 - (1 + x) e^-x) / x, which is 0 at 0."""
    if x < _SERIES_BELOW:
        # Σ_{k≥2} (-1)^k (k-1)/k! x^k, to x^12.
        s = 1 / 3991680 - x / 43545600
        s = 1 / 403200 - x * s
        s = 1 / 45360 - x * s
        s = 1 / 5760 - x * s
        s = 1 / 840 - x * s
        s = 1 / 144 - x * s
        s = 1 / 30 - x * s
        s = 1 / 8 - x * s
        s = 1 / 3 - x * s
        return x * (0.5 - x * s)
    return (1.0 - (1.0 + x) * math.exp(-x)) / x


@kernel
def residual_one(x: float) -> float:
    """Return R¹(x) = 1 - (1 + x) e^-x, the regularised incomplete gamma function P(2, x)."""
    return x * mean_residual(x)


@kernel
def log_poisson(i: float, x: float) -> float:
    """Return log(x^i e^-x / Γ(i+1)), good to 2e-14 where it is above -40 and ``i`` < 10⁴."""
    if i < 16:
        return i * math.log(x) - x - math.lgamma(i + 1.0)
    # Stirling's series for log i!, because i log x, x and log i! are large and nearly cancel.
    q = x / i
    deviation = (x - i) / i
    if 0.5 < q < 2.0:
        deviation -= math.log1p(deviation)
    else:
        deviation -= math.log(q)
    square = 1.0 / (float(i) * float(i))
    stirling = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / i
    return -i * deviation - stirling - 0.5 * math.log(2.0 * math.pi * i)


@kernel
def is_saturated(i: int, x: float) -> bool:
    """Return whether R^i(x) is 1 to the last bit."""
    return x > i + 40.0 + 10.0 * math.sqrt(i + 1.0)


@kernel
def residual(i: int, x: float) -> float:
    """Return R^i(x) = 1 - e^-x Σ_{j≤i} x^j/j!, the regularised incomplete gamma P(i+1, x).

    From the tail of the series, whose terms are all positive, while the head would cancel: good
    to 1e-13 relative for ``i`` up to 10⁴, where it is above 1e-20.
    """
    if not x > 0.0:
        return 0.0
    if i == 0:
        return -math.expm1(-x)
    if is_saturated(i, x):
        return 1.0
    log_first = log_poisson(i + 1, x)
    if x < i + 2.0:
        if log_first < -745.0:
            return 0.0
        term = math.exp(log_first)
        total = term
        n = i + 1
        while term > 1e-17 * total:
            n += 1
            term *= x / n
            total += term
        return total
    # The head is small here: sum it downwards from its largest term, x^i/i!.
    term = math.exp(log_first) * (i + 1) / x
    head = term
    for j in range(i, 0, -1):
        term *= j / x
        head += term
        if term < 1e-17 * head:
            break
    return 1.0 - head
