"""Mean and deviation of estimates in many digits, and Lemma D.1 taken literally."""

import math

import mpmath
import numpy as np
from scipy.integrate import quad


def regular_moments(
    r: float, n: int, prior_changed: float, prior_unchanged: float
) -> tuple[float, float]:
    """Return mean and deviation of -log((n - X + b) / (n + a + b)), X binomial, in 50 digits."""
    with mpmath.workdps(50):
        unchanged = mpmath.exp(-mpmath.mpf(r))
        denominator = n + mpmath.mpf(prior_changed) + mpmath.mpf(prior_unchanged)
        first, second = mpmath.mpf(0), mpmath.mpf(0)
        for x in range(n + 1):
            weight = mpmath.binomial(n, x) * (1 - unchanged) ** x * unchanged ** (n - x)
            estimate = -mpmath.log((n - x + mpmath.mpf(prior_unchanged)) / denominator)
            first += weight * estimate
            second += weight * estimate**2
        return float(first), float(mpmath.sqrt(second - first**2))


def sum_of_uniforms_density(k: int, t: float) -> float:
    """Return the density at ``t`` of a sum of ``k`` uniforms on 0 to 1 (Irwin and Hall)."""
    terms = [(-1) ** j * math.comb(k, j) * (t - j) ** (k - 1) for j in range(int(t) + 1)]
    return math.fsum(terms) / math.factorial(k - 1) if 0 <= t <= k else 0.0


def age_sum_density(k: int, r: float, t: float) -> float:
    """Return the density at ``t`` intervals of the ages found by ``k`` changed polls.

    An age has density r e^{-rt} / (1 - e^{-r}) on 0 to 1, a tilted uniform; a sum of tilted
    uniforms is a tilted sum of uniforms.
    """
    return sum_of_uniforms_density(k, t) * r**k * math.exp(-r * t) / (1 - math.exp(-r)) ** k


def last_modified_power(r: float, n: int, numerator: np.ndarray, power: int) -> float:
    """Return the mean of (numerator[X] / T)^power, by CGM's Lemma D.1 term by term."""
    total = 0.0
    for k in range(1, n + 1):
        chance = math.comb(n, k) * (1 - math.exp(-r)) ** k * math.exp(-r * (n - k))

        def integrand(t: float, k: int = k) -> float:
            return age_sum_density(k, r, t) / (n - k + t) ** power

        pieces = [quad(integrand, j, j + 1, epsabs=0, epsrel=1e-11)[0] for j in range(k)]
        total += chance * float(numerator[k]) ** power * math.fsum(pieces)
    return total
