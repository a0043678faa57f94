"""How long real pages stay the same, beside the exponential that the paper's model needs."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.change_days import CACHE, TRACES, ChangeDays, cache_hours, trace_days
from lab.claim import Claim, Kind, Scale, Tables
from lab.drawing import COLOURS, OURS, panels
from lab.tables import Cell, Table

__all__ = ["CLAIM"]

ALL, GENERAL = "all git histories", "general web, hourly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Pages by their mean interval over four months, as in the paper; gaps over whole histories.

    ``periods`` has mean intervals in days; pages within a tenth of them are taken.
    """

    n_days: int = 126
    periods: tuple[int, ...] = (10, 20)
    gap_days_max: int = 80
    n_gaps_min: int = 10
    kinds: tuple[str, ...] = ("docs", "package", "scraped", "terms-text", "lists")
    n_draws: int = 10
    seed: int = 1


SETTINGS = {Scale.QUICK: Settings(n_draws=1), Scale.FULL: Settings()}


def _interval_rows(history: ChangeDays, settings: Settings) -> list[dict[str, Cell]]:
    """Return the shares of intervals by their days, of pages of the paper's mean intervals."""
    counts = {period: np.zeros(settings.gap_days_max) for period in settings.periods}
    for k in range(settings.n_draws):
        stretches = history.stretches(settings.n_days, settings.seed + k)
        same = stretches.page[1:] == stretches.page[:-1]
        page, gap = stretches.page[1:][same], np.diff(stretches.day)[same]
        n_changes = np.maximum(stretches.n_changes, 1)
        for period in settings.periods:
            is_near = np.abs(settings.n_days / n_changes / period - 1) <= 0.1
            near = is_near[page] & (gap <= settings.gap_days_max)
            counts[period] += np.bincount(gap[near] - 1, minlength=settings.gap_days_max)
    rows: list[dict[str, Cell]] = []
    for period, count in counts.items():
        # Bins of a fifth of the mean interval.
        width = period // 5
        shares = count.reshape(-1, width).sum(axis=1) / count.sum()
        for b, share in enumerate(shares.tolist()):
            first = b * width
            predicted = float(np.exp(-first / period) - np.exp(-(first + width) / period))
            row: dict[str, Cell] = {"period_days": period, "gap_days": first + 0.5 * width}
            rows.append({**row, "share": share, "predicted": predicted, "n": int(count.sum())})
    return rows


def _survival_rows(
    name: str, history: ChangeDays, settings: Settings, kind: str = ""
) -> list[dict[str, Cell]]:
    """Return the share of gaps longer than a multiple of their page's mean, each page alike."""
    page, gap = history.gaps()
    n_gaps = np.bincount(page, minlength=history.n_pages)
    total = np.bincount(page, gap, minlength=history.n_pages)
    is_used = n_gaps >= settings.n_gaps_min
    if kind:
        is_used &= history.kind == history.kinds.index(kind)
    used = is_used[page]
    page, gap = page[used], gap[used]
    multiple = gap * n_gaps[page] / total[page]
    weight = 1.0 / n_gaps[page]
    n_pages = int(np.count_nonzero(is_used))
    rows: list[dict[str, Cell]] = []
    for at in np.linspace(0.0, 5.0, 41).tolist():
        longer = float(weight[multiple > at].sum()) / n_pages
        rows.append({"pages": name, "n_pages": n_pages, "multiple": at, "longer": longer})
    return rows


def measure(scale: Scale) -> dict[str, Table]:
    """Return the paper's histogram, and how long gaps are in units of their page's mean."""
    settings = SETTINGS[scale]
    history = trace_days()
    survival = _survival_rows(ALL, history, settings)
    for kind in settings.kinds:
        survival += _survival_rows(kind, history, settings, kind)
    survival += _survival_rows(GENERAL, cache_hours(), settings)
    return {
        "intervals": Table.of(_interval_rows(history, settings)),
        "survival": Table.of(survival),
    }


def _draw_period(panel: Axes, rows: Table, period: str) -> None:
    gap, share = rows.floats("gap_days"), rows.floats("share")
    panel.plot(gap, rows.floats("predicted"), "--", color="black", label="Poisson process")
    seen = share > 0
    panel.plot(gap[seen], share[seen], "o", color=OURS, label="git histories")
    panel.set_yscale("log")
    panel.set_ylim(3e-5, 0.6)
    panel.set_title(f"A change every {period} days")
    panel.set_xlabel("days between changes")
    panel.set_ylabel("share of intervals")
    panel.legend(loc="upper right")


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw the two histograms of the paper, and gaps in units of their page's mean."""
    intervals, survival = tables["intervals"], tables["survival"]
    figure, axes = panels(3)
    for panel, period in zip(axes, intervals.distinct("period_days"), strict=False):
        _draw_period(panel, intervals.where(period_days=period), period)
    panel = axes[2]
    names = survival.distinct("pages")
    for name, colour in zip(names, (OURS, *COLOURS), strict=False):
        rows = survival.where(pages=name)
        width = 2.2 if name == ALL else 1.1
        longer = np.where(rows.floats("longer") > 0, rows.floats("longer"), np.nan)
        panel.plot(rows.floats("multiple"), longer, color=colour, lw=width, label=name)
    at = rows.floats("multiple")
    panel.plot(at, np.exp(-at), "--", color="black", label="Poisson process")
    panel.set_yscale("log")
    panel.set_ylim(3e-3, 1.0)
    panel.set_title("All pages of ten intervals or more")
    panel.set_xlabel("interval, in means of its page")
    panel.set_ylabel("share of longer ones")
    panel.legend(loc="lower left", fontsize=8)
    return {"": figure}


CLAIM = Claim(
    id="G-1",
    kind=Kind.FIGURE,
    paper="CGM",
    figures="fig. 1",
    title="intervals between changes of real pages",
    says=(
        "Pages that change every 10 and every 20 days on average have intervals between changes "
        "that a Poisson process predicts very well."
    ),
    measure=measure,
    draw=draw,
    captions={
        "": (
            "Left and middle as in the paper: four months of pages with a mean interval of 10 and "
            "of 20 days, seen daily.  Right, whole histories: intervals in units of their page's "
            "mean, each page weighing the same; above the dashed line at the right end, and below "
            "it at the left, are bursts and long rests."
        )
    },
    remark=(
        "Over four months intervals are near exponential, but for more of the shortest and for "
        "weekly and monthly habits (7, 14 and 30 days).  Over whole "
        "histories of years both short and long ones are commoner than a constant rate would have "
        "them, because rates drift and edits come in bursts."
    ),
    needs=(TRACES, CACHE),
)
