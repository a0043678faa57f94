"""The renewal equation of a page with noisy signals, solved numerically piece by piece.

At the threshold ι on effective elapsed time, the time ψ between fetches obeys
ψ'(s) = 1 - γ(ψ(s) - ψ(s - β)) with ψ = 0 for s ≤ 0: from each moment the next is either reached by
waiting, or passed over by a signal.  The value is V = ∫ α e^{-αs} ψ(s) ds, the fresh time is
w = ∫ e^{-αs} ψ'(s) ds.  Within a piece between multiples of β the solution is smooth, so that
Chebyshev collocation of it converges to rounding error.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

N_NODES = 32
# Decay per sub-piece: 32 nodes represent e^{-x} for x from 0 to 4 to rounding error.
_DECAY_MAX = 4.0


class Renewal(NamedTuple):
    """Value, expected interval and expected fresh time, for importance 1."""

    value: float
    interval: float
    fresh_time: float


@cache
def _collocation() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes on 0 to 1, the integrals from 0 of their cardinal functions, and weights."""
    nodes = (1 - np.cos(np.pi * np.arange(N_NODES) / (N_NODES - 1))) / 2
    to_coefficients = np.linalg.inv(chebyshev.chebvander(2 * nodes - 1, N_NODES - 1))
    integrals = chebyshev.chebint(to_coefficients, lbnd=-1, axis=0) / 2
    values = chebyshev.chebvander(2 * nodes - 1, N_NODES) @ integrals
    values[0] = 0.0
    return nodes, values, values[-1]


def _at(values: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the polynomial through ``values`` at the nodes, at ``places`` on 0 to 1."""
    nodes, _, _ = _collocation()
    coefficients = np.linalg.solve(chebyshev.chebvander(2 * nodes - 1, N_NODES - 1), values)
    return chebyshev.chebval(2 * places - 1, coefficients)


def solve(
    unsignalled_change_rate: float,
    signal_rate: float,
    signal_precision: float,
    effective_elapsed: float,
) -> Renewal:
    """Return what the renewal equation gives at one threshold."""
    alpha, gamma = unsignalled_change_rate, signal_rate
    age = -np.log1p(-signal_precision) / alpha  # β
    piece = min(age, effective_elapsed)
    n_parts = max(1, int(np.ceil((alpha + gamma) * piece / _DECAY_MAX)))
    h = piece / n_parts
    nodes, integrals, weights = _collocation()
    propagate = np.linalg.inv(np.eye(N_NODES) + gamma * h * integrals)
    n_pieces = int(np.ceil(effective_elapsed / age))
    delayed = np.zeros((n_parts, N_NODES))
    start = 0.0
    value = fresh_time = 0.0
    for k in range(n_pieces):
        current = np.empty((n_parts, N_NODES))
        for part in range(n_parts):
            at = k * age + part * h
            length = min(h, effective_elapsed - at)
            if length <= 0:
                break
            interval = propagate @ (start + h * integrals @ (1 + gamma * delayed[part]))
            current[part] = interval
            before = delayed[part]
            start = float(interval[-1])
            if length < h * (1 - 1e-12):
                places = nodes * (length / h)
                interval, before = _at(interval, places), _at(before, places)
            fresh = np.exp(-alpha * (at + length * nodes))
            value += length * float(weights @ (alpha * fresh * interval))
            slope = 1 - gamma * (interval - before)
            fresh_time += length * float(weights @ (fresh * slope))
            last = float(interval[-1])
        delayed = current
    return Renewal(value, last, fresh_time)
