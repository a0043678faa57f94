"""How long polls are remembered: as long as the last one does not say more than all before it.

Some pages keep to their rate for years; others change in bursts, by the hour of the day, or with
the news, and what was true of them ten changes ago is not now.  How long is told by surprises.  A
poll's surprise is what it found, 1 for a change and 0 for none, less the chance of a change that
was believed before.  If beliefs are right, one surprise says nothing of the next, however the
instants of polls were chosen.  If surprises echo, a change more likely than believed right after
a change, and less likely after none, then the recent past deserves more weight than it has, and
memory is shortened until they echo no more; else it grows again.

Memory is counted in changes of a page, so that one number suits pages that change by the minute
and by the year.
"""

import math

from recrawl.core.kernel import kernel

__all__ = ["ECHO_TOLERATED", "kept_share_of", "memory_lost_of", "surprise_of"]

ECHO_TOLERATED = 0.1
"""Correlation of a page's surprises that is put down to other faults of the model, such as rates
that are not Gamma distributed.  Pages that change at random show less than half of it; hourly
polls of news pages with a long memory show up to five times as much."""

_OCTAVES_PER_ECHO = 0.05


@kernel
def surprise_of(fresh_chance: float, changed: bool) -> float:
    """Return a poll's surprise, -1 to 1, given the chance that was believed of finding no change.

    Examples
    --------
    >>> surprise_of(0.75, True), surprise_of(0.75, False)
    (0.75, -0.25)
    """
    return fresh_chance if changed else fresh_chance - 1.0


@kernel
def memory_lost_of(lost: float, surprise: float, surprise_before: float, lost_max: float) -> float:
    """Return by how many octaves a memory is shortened, after one more poll of some page.

    Parameters
    ----------
    lost
        Before that.
    surprise, surprise_before
        Of the poll, and of the one before it of the same page.
    lost_max
        At most.

    Examples
    --------
    A surprise that echoes the last one shortens memory, one that does not lengthens it:

    >>> memory_lost_of(2.0, 0.8, 0.5, 6.0) > 2.0 > memory_lost_of(2.0, 0.8, -0.5, 6.0)
    True
    """
    # A stochastic approximation of the memory at which Σ r r' = 0.1 Σ r²: small steps, whose noise
    # cancels over some hundred polls.
    echo = surprise * surprise_before - ECHO_TOLERATED * surprise * surprise
    return min(max(lost + _OCTAVES_PER_ECHO * echo, 0.0), lost_max)


@kernel
def kept_share_of(
    elapsed: float, expected_changes: float, half_life: float, memory_changes: float
) -> float:
    """Return the share of evidence that is left after some time in which changes were expected.

    Parameters
    ----------
    elapsed
        Seconds.
    expected_changes
        In that time, as believed.
    half_life
        Seconds after which evidence counts half.
    memory_changes
        Changes after which it counts half.

    Examples
    --------
    >>> float(kept_share_of(10.0, 3.0, 10.0, 3.0))
    0.25
    """
    return math.exp2(-elapsed / half_life - expected_changes / memory_changes)
