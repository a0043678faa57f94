"""Change rates of pages polled at irregular intervals, by maximum likelihood."""

import math
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, FlagArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.papers.change_rate.likelihood import changed_score, poll_information
from recrawl.papers.change_rate.polls import PollHistories
from recrawl.papers.change_rate.pseudo_observations import PseudoObservations

__all__ = [
    "RateFit",
    "irregular_change_rate",
    "irregular_relative_error",
    "substitute_edges",
]


class RateFit(NamedTuple):
    """Change rates, and whether each search converged."""

    change_rate: FloatArray
    converged: FlagArray


@kernel
def most_likely_rate(
    changed_after: FloatArray,
    n_changed: int,
    changed_seconds: float,
    unchanged_seconds: float,
    tolerance: float,
    n_steps_max: int,
) -> tuple[float, bool]:
    """Solve CGM's equation 2 for one page; the kernel behind `irregular_change_rate`.

    ``changed_after`` holds at least ``n_changed`` intervals, which sum to ``changed_seconds``;
    both sums are positive.
    """
    # CGM §4.3, eq. 2:  Σ_i t_ci / (e^{λ t_ci} - 1) = Σ_j t_uj,  or with x_i = λ t_ci and
    # h(x) = x / (e^x - 1):  Σ h(x_i) / λ = U.  The left side falls from ∞ to 0: one root.
    #
    # 1/λ bounds each term from above.  It is convex in t_ci, so that all intervals at their mean
    # S/m bound the sum from below, and for those the equation is solved in closed form:
    #
    #     log(1 + S/U) · m/S  ≤  λ  ≤  m/U
    #
    lower = math.log1p(changed_seconds / unchanged_seconds) * n_changed / changed_seconds
    upper = n_changed / unchanged_seconds
    rate = lower
    for _ in range(n_steps_max):
        # With g = log(Σ h / λU) as a function of log λ, and v = h + x:  dh = h(1 - v) and
        # dv = v(1 - h), hence g' = -Σhv / Σh and g'' = Σhv(h + v - 1) / Σh - g'².
        score = 0.0
        slope = 0.0
        curve = 0.0
        for i in range(n_changed):
            x = rate * changed_after[i]
            h = changed_score(x)
            v = h + x
            score += h
            slope += h * v
            curve += h * v * (h + v - 1.0)
        if score == 0.0:
            # So far above the root that every term vanishes.
            upper = rate
            rate = math.sqrt(lower) * math.sqrt(upper)
            continue
        gap = math.log(score / (rate * unchanged_seconds))
        slope = -slope / score
        curve = curve / score - slope * slope
        if gap > 0.0:
            lower = max(lower, rate)
        else:
            upper = min(upper, rate)
        # Halley's step, third order; Newton's where its denominator is small.
        denominator = slope * slope - 0.5 * gap * curve
        if denominator < 0.5 * slope * slope:
            denominator = slope * slope
        step = -gap * slope / denominator
        if abs(step) <= tolerance:
            return rate * math.exp(step), True
        rate *= math.exp(min(max(step, -50.0), 50.0))
        if not lower < rate < upper:
            rate = math.sqrt(lower) * math.sqrt(upper)
    return rate, False


@kernel
def _most_likely_rates(
    elapsed: FloatArray,
    changed: FlagArray,
    offsets: RowArray,
    pseudo: tuple[float, float],
    tolerance: float,
    n_steps_max: int,
    rate: FloatArray,
    converged: FlagArray,
) -> None:
    n_max = 0
    for row in range(rate.size):
        n_max = max(n_max, offsets[row + 1] - offsets[row])
    changed_after = np.empty(n_max + 1)
    pseudo_changed, pseudo_unchanged = pseudo
    for row in range(rate.size):
        changed_after[0] = pseudo_changed
        n_changed = 1 if pseudo_changed > 0.0 else 0
        changed_seconds = pseudo_changed
        unchanged_seconds = pseudo_unchanged
        for i in range(offsets[row], offsets[row + 1]):
            if changed[i]:
                # A change after 0 seconds says nothing; the next one overwrites it.
                changed_after[n_changed] = elapsed[i]
                n_changed += elapsed[i] > 0.0
                changed_seconds += elapsed[i]
            else:
                unchanged_seconds += elapsed[i]
        if n_changed == 0:
            rate[row] = 0.0 if unchanged_seconds > 0.0 else math.nan
            converged[row] = unchanged_seconds > 0.0
        elif not unchanged_seconds > 0.0:
            rate[row] = math.inf
            converged[row] = True
        else:
            rate[row], converged[row] = most_likely_rate(
                changed_after,
                n_changed,
                changed_seconds,
                unchanged_seconds,
                tolerance,
                n_steps_max,
            )


def irregular_change_rate(
    histories: PollHistories,
    *,
    pseudo: PseudoObservations | None = None,
    tolerance: float = 1e-12,
    n_steps_max: int = 100,
) -> RateFit:
    """Return the change rate under which each page's polls are most likely.

    A page found changed at every poll has the rate infinity, a page never found changed has 0, a
    page never polled has nan.  Pseudo-observations make all of them finite;
    `substitute_edges` replaces the first two.

    Parameters
    ----------
    histories
        Poll histories.  Polls after 0 seconds are ignored.
    pseudo
        Two polls assumed of every page besides its own.
    tolerance
        Relative size of the last step; the error left is far smaller, as steps shrink to the
        third power.  1e-4 is enough for scheduling and saves a third of the time.
    n_steps_max
        Steps after which a page is given up and reported as not converged.

    Returns
    -------
    RateFit
        Changes per second, and whether each search converged (False for pages never polled).

    Examples
    --------
    Four polls in 20 hours, of which the first and the third found a change:

    >>> hour = 3_600.0
    >>> histories = PollHistories.of_one_page(
    ...     np.array([6, 4, 3, 7]) * hour, [True, False, True, False]
    ... )
    >>> rate, converged = irregular_change_rate(histories)
    >>> (rate * 20 * hour).round(2), converged
    (array([2.67]), array([ True]))

    References
    ----------
    CGM §4.3, eq. 2, Example 5, App. C (maximised, not minimised)
    Prior §3.3, eq. 2
    Cost §4.3, eq. 2
    """
    if not tolerance >= 1e-14:
        raise ValueError(f"tolerance must be at least 1e-14, got {tolerance!r}")
    rate = np.empty(histories.n_pages)
    converged = np.empty(histories.n_pages, np.bool_)
    _most_likely_rates(
        *histories, _pseudo_intervals(pseudo), tolerance, n_steps_max, rate, converged
    )
    return RateFit(rate, converged)


def _pseudo_intervals(pseudo: PseudoObservations | None) -> tuple[float, float]:
    return (0.0, 0.0) if pseudo is None else (pseudo.changed_after, pseudo.unchanged_after)


@kernel
def _substitute_edges(
    elapsed: FloatArray, offsets: RowArray, rate: FloatArray, out: FloatArray
) -> None:
    for row in range(rate.size):
        out[row] = rate[row]
        shortest = math.inf
        total = 0.0
        for i in range(offsets[row], offsets[row + 1]):
            total += elapsed[i]
            if elapsed[i] > 0.0:
                shortest = min(shortest, elapsed[i])
        if rate[row] == 0.0 and total > 0.0:
            out[row] = 1.0 / total
        elif rate[row] == math.inf:
            out[row] = 1.0 / shortest


def substitute_edges(histories: PollHistories, change_rate: ArrayLike) -> FloatArray:
    """Replace rates of 0 and infinity by the substitutes of Prior and Cost.

    A page never found changed is given the time it was polled for as its period, a page always
    found changed its shortest interval.  Neither is an estimate; they keep a schedule going.

    Parameters
    ----------
    histories
        Poll histories.
    change_rate
        Rates from `irregular_change_rate`, per second.

    Examples
    --------
    >>> histories = PollHistories.from_rows(
    ...     [0, 0, 1, 1], [30.0, 70.0, 20.0, 50.0], [False, False, True, True], n_pages=2
    ... )
    >>> rate, _ = irregular_change_rate(histories)
    >>> rate, 1 / substitute_edges(histories, rate)
    (array([ 0., inf]), array([100.,  20.]))

    References
    ----------
    Prior §3.3 (edge substitutes)
    Cost §4.3 (edge substitutes)
    """
    rate = np.ascontiguousarray(change_rate, dtype=np.float64)
    out = np.empty(histories.n_pages)
    _substitute_edges(histories.elapsed, histories.offsets, rate, out)
    return out


@kernel
def _information(
    elapsed: FloatArray,
    offsets: RowArray,
    pseudo: tuple[float, float],
    rate: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(rate.size):
        total = poll_information(rate[row] * pseudo[0]) + poll_information(rate[row] * pseudo[1])
        for i in range(offsets[row], offsets[row + 1]):
            total += poll_information(rate[row] * elapsed[i])
        out[row] = total


def irregular_relative_error(
    histories: PollHistories, change_rate: ArrayLike, *, pseudo: PseudoObservations | None = None
) -> FloatArray:
    """Return the standard error of the logarithm of each rate, from the Fisher information.

    It is the relative error of the rate, and inf where it is undefined (rates of 0 and
    infinity, pages never polled).

    Parameters
    ----------
    histories
        Poll histories.
    change_rate
        Rates from `irregular_change_rate`, per second.
    pseudo
        Pseudo-observations used for these rates; they count as information.

    Examples
    --------
    >>> histories = PollHistories.of_one_page([6.0, 4.0, 3.0, 7.0], [1, 0, 1, 0])
    >>> rate, _ = irregular_change_rate(histories)
    >>> irregular_relative_error(histories, rate).round(2)
    array([0.74])
    """
    # I(log λ) = Σ_j x_j² / (e^{x_j} - 1),  x_j = λ t_j, over all polls, changed or not.
    rate = np.ascontiguousarray(change_rate, dtype=np.float64)
    finite = np.where((rate > 0) & (rate < np.inf), rate, 0.0)
    information = np.empty(histories.n_pages)
    _information(
        histories.elapsed, histories.offsets, _pseudo_intervals(pseudo), finite, information
    )
    with np.errstate(divide="ignore"):
        return 1 / np.sqrt(information)
