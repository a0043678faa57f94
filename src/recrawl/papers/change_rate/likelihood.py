"""The likelihood of one poll and its derivatives, which every estimator from polls is made of.

A page of change rate λ polled after t is found changed with probability 1 - e^-x and unchanged
with e^-x, where x = λt is the number of changes expected since the previous poll.
"""

import math

from recrawl.core.kernel import kernel

# Below this x / (e^x - 1) is summed as a series, above it e^x - 1 is good to 2e-15.
_SERIES_BELOW = 0.1
# e^x is nearly out of range above this, and x / (e^x - 1) below 1e-300.
_NEGLIGIBLE_ABOVE = 700.0


@kernel
def changed_score(x: float) -> float:
    """Return x / (e^x - 1), the derivative of log(1 - e^-x) by log λ; 1 at 0.

    Good to 3e-15.  An exponential costs half of what expm1 does, and this is the inner loop.
    """
    if x < _SERIES_BELOW:
        # Σ B_k x^k / k! with the Bernoulli numbers B_k; the next term is below 3e-17.
        y = x * x
        return 1.0 - 0.5 * x + y * (1 / 12 - y * (1 / 720 - y * (1 / 30240 - y / 1209600)))
    if x > _NEGLIGIBLE_ABOVE:
        return 0.0
    return x / (math.exp(x) - 1.0)


@kernel
def poll_information(x: float) -> float:
    """Return x² / (e^x - 1), the Fisher information of one poll about log λ.

    The score is x / (e^x - 1) with probability 1 - e^-x and -x otherwise: its mean is 0 and its
    variance x² e^-x / (1 - e^-x).
    """
    return x * changed_score(x)


@kernel
def log_changed(x: float) -> float:
    """Return log(1 - e^-x), the log-likelihood of a changed poll; -inf at 0."""
    if x <= 0.0:
        return -math.inf
    if x < 0.6931471805599453:
        return math.log(-math.expm1(-x))
    return math.log1p(-math.exp(-x))
