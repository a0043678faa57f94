"""Prior fig. 2: without a prior the first estimates are substitutes, not estimates."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from lab.claim import Check, Claim, Kind, Scale, Tables
from lab.drawing import COLOURS, OURS, panels
from lab.paired import standard_error
from lab.policies.loop_paths import loop_paths
from lab.tables import Table

__all__ = ["CLAIM", "SETTINGS", "Settings", "draw", "judge", "measure"]

HOUR = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of Prior's figure 2; 50 first intervals, each repeated for the shares."""

    period_hours: float = 24.0
    first_max_hours: float = 700.0
    n_first: int = 50
    n_polls: int = 50
    fraction: float = 0.8
    n_repeats: int = 20
    seed: int = 202


SETTINGS = {Scale.QUICK: Settings(), Scale.FULL: Settings(n_repeats=400)}
_N_DRAWN = 50
_N_EPOCHS_DRAWN = 20  # of 50: nothing more happens


def measure(scale: Scale) -> Tables:
    """Return fifty paths, and the share of edge cases at each epoch and first interval."""
    settings = SETTINGS[scale]
    firsts = settings.first_max_hours * np.arange(1, settings.n_first + 1) / settings.n_first
    paths = loop_paths(
        np.random.default_rng(settings.seed),
        1 / (settings.period_hours * HOUR),
        np.tile(firsts, settings.n_repeats) * HOUR,
        settings.n_polls,
        fraction=settings.fraction,
    )
    never, always = paths.is_never, paths.is_always
    hours = paths.period / HOUR
    drawn = [
        {
            "first_hours": float(firsts[row]),
            "epoch": epoch + 1,
            "period_hours": round(float(hours[row, epoch]), 1),
            "edge": "never" if never[row, epoch] else "always" if always[row, epoch] else "",
        }
        for row in range(min(_N_DRAWN, settings.n_first))
        for epoch in range(settings.n_polls)
    ]
    off = np.abs(hours / settings.period_hours - 1)
    by_epoch = Table.of_columns(
        {
            "epoch": np.arange(1, settings.n_polls + 1),
            "never": never.mean(axis=0),
            "always": always.mean(axis=0),
            "median_off": np.median(off, axis=0),
        }
    )
    n_edges = (never | always).sum(axis=1).reshape(settings.n_repeats, -1)
    by_first = Table.of_columns(
        {
            "first_hours": firsts,
            "mean_edge_epochs": n_edges.mean(axis=0),
            "standard_error": [standard_error(repeats) for repeats in n_edges.T],
        }
    )
    return {"paths": Table.of(drawn), "by_epoch": by_epoch, "by_first": by_first}


def judge(tables: Tables) -> tuple[Check, ...]:
    """Count edge cases among the first epochs, and over first intervals."""
    by_epoch, by_first = tables["by_epoch"], tables["by_first"]
    edge = by_epoch.floats("never") + by_epoch.floats("always")
    checks = [
        Check(
            what=f"share of edge cases in the first {n} epochs",
            found=f"{edge[:n].mean():.0%}",
            wanted="more than half",
            holds=bool(edge[:n].mean() > 0.5),
        )
        for n in (10, 15)
    ]
    mean = by_first.floats("mean_edge_epochs")
    short, long = float(mean[:5].mean()), float(mean[-5:].mean())
    checks.append(
        Check(
            what="epochs in an edge case, first interval up to 70 h and from 630 h",
            found=f"{short:.1f} and {long:.1f}",
            wanted="grow with the first interval, by half or more",
            holds=long >= 1.5 * short,
        )
    )
    return tuple(checks)


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw Prior's figure 2, and the share of edge cases."""
    figure, (lines, shares) = panels(2, width=9.6)
    paths = tables["paths"]
    shown = paths.floats("epoch") <= _N_EPOCHS_DRAWN
    epoch, hours = (paths.floats(name)[shown] for name in ("epoch", "period_hours"))
    edge = np.array(paths.texts("edge"))[shown]
    n_epochs = int(epoch.max())
    starts = np.arange(0, epoch.size, n_epochs)
    # One line for all paths, broken between them, is a third of the file that fifty are.
    x = np.insert(epoch, starts[1:], np.nan)
    lines.plot(x, np.insert(hours, starts[1:], np.nan), color="#c9ccd1", linewidth=0.5)
    for name, colour, label in (
        ("never", COLOURS[0], "no change found yet"),
        ("always", OURS, "a change at every poll"),
    ):
        of = edge == name
        lines.plot(epoch[of], hours[of], ".", color=colour, label=label, markersize=4)
    lines.axhline(24, color="#444444", linewidth=0.9, linestyle=":")
    lines.set_xticks(range(0, _N_EPOCHS_DRAWN + 1, 5))
    lines.set(yscale="log", xlabel="epoch", ylabel="estimated period, hours")
    lines.set(title="Fifty paths from first intervals of 14 to 700 h")
    lines.legend()
    by_epoch = tables["by_epoch"]
    x = by_epoch.floats("epoch")
    both = [100 * by_epoch.floats(name) for name in ("always", "never")]
    labels = ["a change at every poll", "no change found yet"]
    shares.stackplot(x, both, colors=[OURS, COLOURS[0]], labels=labels, alpha=0.85)
    shares.axhline(50, color="#444444", linewidth=0.9, linestyle=":")
    shares.set(xlabel="epoch", ylabel="% of estimates", ylim=(0, 100), xlim=(1, 25))
    shares.set(title="Edge cases by epoch")
    shares.legend()
    return {"": figure}


CLAIM = Claim(
    id="P-2",
    kind=Kind.ORDER,
    paper="Prior",
    figures="fig. 2",
    title="the first estimates without a prior are mostly edge cases",
    says=(
        "A page of period 24 h, 50 first intervals from 0 to 700 h, each next interval 80 % of "
        "the estimate, substitutes where no poll or every poll found a change: most of the first "
        "10 to 15 epochs are edge cases, and the polls needed depend on the first interval."
    ),
    tolerance=(
        "More than half of the estimates of the first 10 epochs, and of the first 15, are edge "
        "cases; first intervals from 630 h have half as many again as those up to 70 h, or more."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
    captions={
        "": (
            "Left Prior's figure 2 with its colours: blue where no poll had found a change, red "
            "where every one had; the dotted line is the true period. From first intervals this "
            "long nearly all edge cases are of the second kind. Right the share of both, "
            "over many repetitions."
        )
    },
)
