"""What a few observations prove about the worth of a fetch: the bounds of one profile."""

from dataclasses import dataclass

import numpy as np

from lab.claim import Claim, Figures, Kind, Scale, Tables
from lab.drawing import COLOURS, OURS, panels
from lab.tables import Table
from recrawl.core.divergence import ChangeProfiles, add_observations, start_bases
from recrawl.papers.divergence import BoundBasedPolicy

__all__ = ["CLAIM"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The paper's example of a profile: fetched at 10, 12, 15 and 23."""

    base_at: float = 10.0
    fetched_at: tuple[float, ...] = (12.0, 15.0, 23.0)
    divergence: tuple[float, ...] = (0.2, 0.2, 0.3)


SETTINGS = {Scale.QUICK: Settings(), Scale.FULL: Settings()}


def measure(scale: Scale) -> Tables:
    """Return the observations of the profile, and the bounds at each of them."""
    settings = SETTINGS[scale]
    profiles = ChangeProfiles.empty(n_pages=1, n_bases=1)
    start_bases(profiles, 0, settings.base_at)
    rows = []
    for at, divergence in zip(settings.fetched_at, settings.divergence, strict=True):
        add_observations(profiles, 0, at, [divergence])
        age = at - settings.base_at
        bounds = BoundBasedPolicy().bounds(profiles, age)
        rows.append(
            {
                "age": age,
                "divergence": divergence,
                # U = t D - A, so the areas follow from the bounds on U.
                "area_min": age * divergence - float(bounds.upper[0]),
                "area_max": age * divergence - float(bounds.lower[0]),
                "value_min": float(bounds.lower[0]),
                "value_max": float(bounds.upper[0]),
            }
        )
    return {"profile": Table.of(rows)}


def draw(tables: Tables) -> Figures:
    """Draw the step functions, and the bounds on the worth of a fetch."""
    table = tables["profile"]
    age = np.concatenate([[0.0], table.floats("age")])
    divergence = np.concatenate([[0.0], table.floats("divergence")])
    figure, (left, right) = panels(2)
    upper = np.append(divergence[1:], divergence[-1])
    left.fill_between(age, upper, step="post", color="#f1d7d5", label="between the bounds")
    left.fill_between(age, divergence, step="post", color="#d3dfee", label="below both")
    left.step(age, upper, where="post", color=OURS, label="upper bound")
    left.step(age, divergence, where="post", color=COLOURS[0], label="lower bound")
    left.plot(age, divergence, "o", color="black", label="observed")
    left.set_xlabel("time since the base version")
    left.set_ylabel("divergence from the base version")
    area = (float(table.floats(name)[-1]) for name in ("area_min", "area_max"))
    left.set_title("Area under the curve: {:.1f} to {:.1f}".format(*area))
    left.set_ylim(0, 0.5)
    left.legend(loc="upper left", ncols=2)
    low, high = table.floats("value_min"), table.floats("value_max")
    right.vlines(table.floats("age"), low, high, color=OURS, lw=3)
    right.plot(table.floats("age"), high, "_", color=OURS, ms=14)
    right.plot(table.floats("age"), low, "_", color=OURS, ms=14)
    for x, a, b in zip(table.floats("age"), low, high, strict=True):
        text = f"{a:.1f} to\n{b:.1f}"
        right.annotate(text, (x, b), (0, 6), textcoords="offset points", ha="center")
    right.set_xlim(0, 15)
    right.set_ylim(0, 1.3 * float(high.max()))
    right.set_xlabel("time since the base version")
    right.set_ylabel("worth of a fetch, at least and at most")
    right.set_title("A threshold in between decides nothing")
    return {"": figure}


CLAIM = Claim(
    id="L-7",
    kind=Kind.FIGURE,
    paper="Longevity",
    figures="fig. 7",
    title="the bounds on one profile",
    says=(
        "Between two observations divergence may have jumped right after the first or right "
        "before the second; the areas under these two step functions bound the worth of a fetch."
    ),
    measure=measure,
    draw=draw,
    captions={
        "": (
            "The paper's own example of a profile, fetched at times 10, 12, 15 and 23 and found "
            ".2, .2 and .3 from the base.  Right: what a fetch was worth at least and at most at "
            "each of these times.  With a threshold above the range the policy doubles the period, "
            "with one below it halves it, with one within it waits as long again."
        )
    },
)
