"""Time and fresh time until the effective elapsed time crosses a threshold, as integrals.

N signals by time t age a page to t + βN.  The threshold ι is not yet crossed at t if
N < (ι - t)/β, so ψ = ∫ P(N(t) < (ι - t)/β) dt; and w is the same integral of E e^{-α(t + βN)}, in
which a false signal's share 1 - p of the Poisson mean remains and e^{-Δt} comes out.  Only a few
standard deviations about the mean crossing need to be integrated numerically, so the threshold
may be worth millions of signals.
"""

import numpy as np
from scipy.special import gammaincc

from tests.reference.renewal_steps import Renewal

_N_DEVIATIONS = 9.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def _integral(mean_rate: float, decay: float, age: float, threshold: float) -> float:
    """Return ∫ e^{-decay t} P(Poisson(mean_rate t) < (threshold - t)/age) dt."""
    drift = 1 + mean_rate * age
    middle = threshold / drift
    deviation = np.sqrt(mean_rate * middle) * age / drift
    first = max(0.0, middle - _N_DEVIATIONS * deviation - 60 * age / drift)
    last = min(threshold, middle + _N_DEVIATIONS * deviation + 60 * age / drift)
    jumps = threshold - age * np.arange(
        np.ceil((threshold - last) / age), np.floor((threshold - first) / age) + 1
    )
    # Between two jumps the probability falls over the deviation of a Poisson number of signals.
    scale = 1 / (decay + mean_rate / max(1.0, np.sqrt(mean_rate * middle)))
    n_between = max(1, int(np.ceil(min(age, last - first) / scale)))
    edges = np.unique(np.concatenate(([first, last], jumps[(jumps > first) & (jumps < last)])))
    share = np.arange(n_between) / n_between
    edges = np.append((edges[:-1, None] + np.diff(edges)[:, None] * share).ravel(), edges[-1])
    half = np.diff(edges) / 2
    t = (edges[:-1] + half)[:, None] + half[:, None] * _NODES
    n_max = np.ceil((threshold - t) / age) - 1
    uncrossed = gammaincc(n_max + 1, mean_rate * t)
    head = first if decay == 0 else -np.expm1(-decay * first) / decay
    return float(head + (half[:, None] * _WEIGHTS * np.exp(-decay * t) * uncrossed).sum())


def solve(
    unsignalled_change_rate: float,
    signal_rate: float,
    signal_precision: float,
    effective_elapsed: float,
) -> Renewal:
    """Return V = w - e^{-αι} ψ, ψ and w at one threshold; V cancels where it is small."""
    alpha, gamma, precision = unsignalled_change_rate, signal_rate, signal_precision
    age = -np.log1p(-precision) / alpha
    interval = _integral(gamma, 0.0, age, effective_elapsed)
    fresh_time = _integral(
        (1 - precision) * gamma, alpha + precision * gamma, age, effective_elapsed
    )
    value = fresh_time - np.exp(-alpha * effective_elapsed) * interval
    return Renewal(value, interval, fresh_time)
