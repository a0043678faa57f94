"""How long a belief remembers old polls, learned from its prediction errors.

Some pages keep to their rate for years.  Others change in bursts, by the hour of the day or with
the news, and ten changes later their rate is another.  Prediction errors tell which.  The
*surprise* of a poll is its outcome, 1 for a change and 0 for none, minus the probability of a
change that was believed before.  If beliefs are right, consecutive surprises of a page are
uncorrelated, however the times of polls were chosen.  If they are positively correlated, recent
polls deserve more weight than they have, and the memory is shortened until the correlation is
gone; otherwise it grows again.

Memory is counted in changes of a page, so that one number suits pages that change by the minute
and by the year.
"""

import math

from recrawl.core.kernel import kernel

__all__ = ["CORRELATION_TOLERATED", "kept_share_of", "memory_lost_of", "surprise_of"]

CORRELATION_TOLERATED = 0.1
"""Correlation of a page's surprises that is attributed to other faults of the model, such as rates
that are not Gamma distributed.  Pages that change at random show less than half of it; hourly
polls of news pages with a long memory show up to five times as much."""

_OCTAVES_PER_CORRELATION = 0.05


@kernel
def surprise_of(fresh_chance: float, changed: bool) -> float:
    """Return a poll's surprise, -1 to 1, given the believed probability of no change.

    Examples
    --------
    >>> surprise_of(0.75, True), surprise_of(0.75, False)
    (0.75, -0.25)
    """
    return fresh_chance if changed else fresh_chance - 1.0


@kernel
def memory_lost_of(lost: float, surprise: float, surprise_before: float, lost_max: float) -> float:
    """Return the number of octaves by which a memory is shortened, after one more poll.

    Parameters
    ----------
    lost
        Octaves lost before the poll.
    surprise, surprise_before
        Surprises of this poll and of the previous poll of the same page.
    lost_max
        Largest number of octaves that can be lost.

    Examples
    --------
    Two surprises of the same sign shorten the memory, two of opposite signs lengthen it:

    >>> memory_lost_of(2.0, 0.8, 0.5, 6.0) > 2.0 > memory_lost_of(2.0, 0.8, -0.5, 6.0)
    True
    """
    # A stochastic approximation of the memory at which Σ r r' = 0.1 Σ r²: small steps, whose noise
    # cancels over some hundred polls.
    correlation = surprise * surprise_before - CORRELATION_TOLERATED * surprise * surprise
    return min(max(lost + _OCTAVES_PER_CORRELATION * correlation, 0.0), lost_max)


@kernel
def kept_share_of(
    elapsed: float, expected_changes: float, half_life: float, memory_changes: float
) -> float:
    """Return the share of evidence that is left after some time in which changes were expected.

    Parameters
    ----------
    elapsed
        Seconds that have passed.
    expected_changes
        Number of changes expected in that time.
    half_life
        Seconds after which evidence counts half.
    memory_changes
        Number of changes after which evidence counts half.

    Examples
    --------
    >>> float(kept_share_of(10.0, 3.0, 10.0, 3.0))
    0.25
    """
    return math.exp2(-elapsed / half_life - expected_changes / memory_changes)
