"""Notice that the precision of a source has fallen or risen, after a few judged signals.

A belief that remembers a thousand signals is accurate, and slow: it would take a thousand lies to
halve it.  So each judged interval also adds to the evidence for two alternatives, that signals are
now false four times less often, or true four times less often.  The evidence for each is a sum of
log-likelihood ratios that is never below 0 (a CUSUM test).  Where it exceeds a limit, the
alternative becomes the belief, with the weight of a few signals.
"""

import math

from recrawl.core.kernel import kernel

__all__ = ["SHIFT_FACTOR", "SHIFT_WEIGHT", "shift_evidence_of"]

SHIFT_FACTOR = 4.0
"""Factor by which signals are true or false less often after a shift."""
SHIFT_WEIGHT = 16.0
"""Number of signals that the belief after a shift counts for, with its prior."""

# Most evidence of one interval: its signals are about one copy, and not independent.
_EVIDENCE_MAX = 2.0


@kernel
def _log_chance_of(log_false: float, log_freshness: float, changed: bool) -> float:
    """Return the log-likelihood of an outcome if signals are all false with a given chance."""
    log_unchanged = log_false + log_freshness
    if not changed:
        return log_unchanged
    return math.log(max(-math.expm1(log_unchanged), 1e-12))


@kernel
def shift_evidence_of(
    evidence: float,
    precision: float,
    shifted: float,
    n_signals: int,
    log_freshness: float,
    changed: bool,
) -> float:
    """Return the evidence for a shift after one more judged interval.

    Parameters
    ----------
    evidence
        Evidence before, at least 0.
    precision, shifted
        Precision of the source as learned, and the alternative.
    n_signals
        Number of its signals in the interval.
    log_freshness
        Log of the chance that nothing changed except what these signals announce.
    changed
        Whether the fetch at the end of the interval found a change.

    Examples
    --------
    A false signal says more about a source that was nearly always right:

    >>> round(shift_evidence_of(0.0, 0.9, 0.225, 1, -0.01, False), 2)
    2.0
    >>> round(shift_evidence_of(0.0, 0.5, 0.125, 1, -0.01, False), 2)
    0.56
    >>> round(shift_evidence_of(0.56, 0.5, 0.125, 1, -0.01, True), 2)
    0.0
    """
    log_false = n_signals * math.log1p(-min(precision, 0.999))
    log_shifted = n_signals * math.log1p(-min(shifted, 0.999))
    ratio = _log_chance_of(log_shifted, log_freshness, changed) - _log_chance_of(
        log_false, log_freshness, changed
    )
    return max(evidence + min(max(ratio, -_EVIDENCE_MAX), _EVIDENCE_MAX), 0.0)
