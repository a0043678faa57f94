"""How much of one page its changes replace, and how long its text lasts."""

import math
from dataclasses import dataclass

from recrawl.node.longevity.stored_profiles import read_profiles
from recrawl.shard.explain import Explanation

__all__ = ["PageLongevity", "longevity_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLongevity:
    """How much of a page its changes replace, as fetches have shown."""

    n_changes: int
    """Number of fetches that found a change and showed how large it was."""
    replaced_share: float
    """Share of the text that the changes between two fetches replace, on average, 0 to 1."""
    long_run_share: float | None
    """Share of the text that is replaced in the long run; None unless the objective is
    "fragments"."""
    half_life_seconds: float | None
    """Time after which half of that is replaced; None like ``long_run_share``."""


def _replaced_share(divergence: float) -> float:
    """Return the share of a page whose replacement gives this divergence."""
    # A page of which a share c is replaced has 1 - c in common and 1 + c in the union of both
    # versions: D = 2c / (1 + c).
    return divergence / (2.0 - divergence)


def longevity_of(
    state: Explanation, profile: bytes | None, *, has_curve: bool
) -> PageLongevity | None:
    """Return how much of a page its changes replace; None if no fetch has shown that.

    Parameters
    ----------
    state
        Explanation of the page by the shard.
    profile
        Stored profile of the page.
    has_curve
        Whether the shard schedules by the curve that was learned of the page.
    """
    if profile is None:
        return None
    totals = read_profiles([profile]).evidence.totals
    n_changed = float(totals.n_changed[0])
    if n_changed == 0.0:
        return None
    found = PageLongevity(
        n_changes=round(n_changed),
        replaced_share=_replaced_share(min(float(totals.divergence[0]) / n_changed, 1.0)),
        long_run_share=None,
        half_life_seconds=None,
    )
    if not has_curve:
        return found
    # The divergence c (1 - e^{-ρλt}) has reached a half of its ceiling c after ln 2 / ρλ.
    rate = state.ratio * state.unsignalled_change_rate_per_second
    return PageLongevity(
        n_changes=found.n_changes,
        replaced_share=found.replaced_share,
        long_run_share=_replaced_share(state.ceiling),
        half_life_seconds=math.log(2.0) / max(rate, 1e-30),
    )
