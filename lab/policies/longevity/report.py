"""How Longevity's claims are judged and drawn, alike in all of them."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from lab.claim import Check
from lab.drawing import colour_of
from lab.policies.longevity.curves import points_of
from lab.tables import Table

__all__ = ["draw_lines", "is_ahead", "numbers", "thousandths"]


def numbers(values: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """Return differences in staleness as short text, in thousandths."""
    return ", ".join(f"{1000 * float(value):+.1f}" for value in values)


def thousandths(values: Sequence[float]) -> str:
    """Return sizes as they stand in a sentence: "3 and 5"."""
    *first, last = (f"{1000 * abs(value):.0f}" for value in values)
    return f"{', '.join(first)} and {last}" if first else last


def is_ahead(
    table: Table, what: str, *, is_sure: bool = True, is_judged: bool = True, **rows: str
) -> Check:
    """Check that a policy is less stale than its rival at all costs in the rows of a table.

    Parameters
    ----------
    table
        From `lab.policies.longevity.curves.compared_rows`.
    what
        Is checked, in words.
    is_sure
        Whether the upper ends of the 95 % intervals must be below 0, or only the differences.
    is_judged
        See `lab.claim.Check`.
    rows
        Columns and values that choose the rows.
    """
    chosen = table.where(**rows)
    costs = ", ".join(f"{cost:g}" for cost in chosen.floats("refresh_cost"))
    difference, high = chosen.floats("difference"), chosen.floats("high")
    found = f"{numbers(difference)} (upper ends {numbers(high)}) thousandths at cost {costs}"
    wanted = "upper ends below 0" if is_sure else "all below 0"
    holds = bool(difference.size and np.all((high if is_sure else difference) < 0))
    return Check(what=what, found=found, wanted=wanted, holds=holds, is_judged=is_judged)


def draw_lines(
    panel: Axes,
    table: Table,
    corpus: str,
    policies: Sequence[str],
    *,
    main: str,
    cost_max: float,
    dashed: Sequence[str] = (),
) -> None:
    """Draw staleness against refresh cost, one line a policy; ``main`` in our colour.

    What no policy can avoid is most of the staleness, so the axis does not begin at 0.
    """
    least, most = np.inf, 0.0
    for policy in policies:
        cost, missed = points_of(table, corpus, policy)
        keep = cost <= cost_max
        # One point beyond, so that lines run up to the frame.
        keep[np.flatnonzero(~keep)[:1]] = True
        least, most = min(least, float(missed[keep].min())), max(most, float(missed[keep].max()))
        panel.plot(
            cost[keep],
            missed[keep],
            "--" if policy in dashed else "-",
            color=colour_of(policy, list(policies), main),
            label=policy,
        )
    panel.set_xlim(0, cost_max)
    panel.set_ylim(0.85 * least, 1.02 * most)
    panel.set_xlabel("refreshes per snapshot and page")
    panel.set_ylabel("fragment staleness")
