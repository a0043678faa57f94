"""Signals' Lemma 4 and Theorem 1 as printed, in as many digits as their cancellation needs."""

import mpmath
from mpmath import mp

from tests.reference.renewal_steps import Renewal


def _residual(i: int, x: mpmath.mpf) -> mpmath.mpf:
    """Return R^i(x) = (e^x - Σ_{j≤i} x^j/j!) / e^x."""
    term = total = mpmath.mpf(1)
    for j in range(1, i + 1):
        term = term * x / j
        total += term
    return 1 - total * mpmath.exp(-x)


def sums(
    unsignalled_change_rate: float,
    signal_rate: float,
    signal_precision: float,
    effective_elapsed: float,
    *,
    n_terms: int | None = None,
    n_signals: int = 0,
    digits: int = 60,
) -> Renewal:
    """Return V, ψ and w from the first ``n_terms`` terms, by default from all.

    ``n_signals`` add their age to the effective elapsed time, without rounding.
    """
    with mp.workdps(digits):
        alpha, gamma = mpmath.mpf(unsignalled_change_rate), mpmath.mpf(signal_rate)
        precision = mpmath.mpf(signal_precision)
        nu = (1 - precision) * gamma
        delta = alpha + precision * gamma
        beta = -mpmath.log(nu / gamma) / alpha
        iota = mpmath.mpf(effective_elapsed) + n_signals * beta
        last = int(mpmath.floor(iota / beta))
        if n_terms is not None:
            last = min(last, n_terms - 1)
        psi = w = mpmath.mpf(0)
        for i in range(last + 1):
            x = iota - i * beta
            psi += _residual(i, gamma * x) / gamma
            w += nu**i / (delta + nu) ** (i + 1) * _residual(i, (alpha + gamma) * x)
        value = w - mpmath.exp(-alpha * iota) * psi
        return Renewal(float(value), float(psi), float(w))
