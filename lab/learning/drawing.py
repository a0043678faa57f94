"""Figures of what learning buys: ratios to the oracle over time, and gains with intervals."""

import itertools
from collections.abc import Mapping

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.drawing import COLOURS, OURS, panels, svg_of
from lab.learning.levels import LEVELS, WEBS
from lab.learning.plan import EDGES
from lab.learning.summary import ratios, series_of
from lab.tables import Table, digest_of

__all__ = ["learning_figures"]

_CURVES = (
    *("plug-in", "plug-in, pooled", "averaged", "averaged, pooled"),
    *("signals ignored", "signals half believed", "signals told", "shipped"),
)
_COLOUR = {
    **dict(zip([level for level in _CURVES if level != "shipped"], COLOURS, strict=False)),
    "shipped": OURS,
}
_NAMES = {"first": "first 2000 h", "late": "last quarter"}


def _curve(panel: Axes, runs: Table, series: dict[str, str]) -> None:
    hours = int(series["hours"])
    edges = [edge for edge in EDGES if edge <= hours]
    middle = [0.5 * (a + b) for a, b in itertools.pairwise(edges)]
    run = runs.where(**series).distinct("level")
    for level in _CURVES:
        if level not in run:
            continue
        share = [
            float(ratios(runs, series, level, between).mean())
            for between in itertools.pairwise(edges)
        ]
        is_ours = level == "shipped"
        panel.plot(
            middle,
            share,
            marker="o" if is_ours else "",
            color=_COLOUR[level],
            linewidth=2.2 if is_ours else 1.3,
            zorder=3 if is_ours else 2,
            label=LEVELS[level].title,
        )
    panel.axhline(1.0, color="#444444", linewidth=0.9, linestyle="--")
    panel.set_xscale("log")
    panel.set_xticks([50, 100, 200, 500, 1_000, 2_000, 5_000])
    panel.set_xticklabels(["50", "100", "200", "500", "1000", "2000", "5000"])
    panel.minorticks_off()
    panel.set_xlim(45, 9_000)
    panel.locator_params(axis="y", nbins=7, steps=[1, 2, 5, 10])
    panel.yaxis.set_major_formatter("{x:.3f}")
    panel.set_title(f"{WEBS[series['web']].title}, {series['fetches_per_hour']} fetches/h")
    panel.set_xlabel("hours since the start")
    panel.set_ylabel("freshness / oracle's")


def _curves(runs: Table) -> Figure:
    chosen = [
        series
        for series in series_of(runs)
        if len(runs.where(**series, level="oracle"))
        and (
            len(runs.where(**series, level="averaged"))
            or len(runs.where(**series, level="signals told"))
        )
    ]
    n_rows = -(-len(chosen) // 2)
    figure, axes = panels(2, n_rows, width=9.6, height=3.3)
    for panel, series in zip(axes, chosen, strict=False):
        _curve(panel, runs, series)
    shown: dict[str, Artist] = {}
    for panel in axes:
        handles, labels = panel.get_legend_handles_labels()
        shown.update(zip(labels, handles, strict=True))
    rest = axes[len(chosen) :]
    for panel in rest:
        panel.axis("off")
    if rest:
        rest[0].legend(
            list(shown.values()), list(shown), loc="center left", fontsize=10, frameon=False
        )
    else:
        figure.legend(
            list(shown.values()), list(shown), loc="outside lower center", ncols=3, frameon=False
        )
    return figure


def _place(row: Mapping[str, str]) -> str:
    return f"{WEBS[row['web']].title}, {row['fetches_per_hour']}/h"


def _dots(panel: Axes, rows: list[dict[str, str]], title: str, n_lines: float) -> None:
    """Draw a line for each row; steps in bold, the webs they were taken on below."""
    places: list[float] = []
    labels: list[str] = []
    at = 0.0
    before = ""
    for row in rows:
        if row["step"] != before:
            at += 1.5
            panel.text(
                0.0,
                at - 0.85,
                row["step"],
                transform=panel.get_yaxis_transform(),
                fontsize=9,
                fontweight="bold",
                va="center",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
            )
            before = row["step"]
        for window, shift, colour, marker in (
            ("first", -0.14, COLOURS[0], "o"),
            ("late", 0.14, OURS, "D"),
        ):
            mean = float(row[f"{window}_points"])
            reach = float(row[f"{window}_high"]) - mean
            panel.errorbar(
                mean,
                at + shift,
                xerr=reach,
                fmt=marker,
                color=colour,
                markersize=4.2,
                elinewidth=1.3,
                label=_NAMES[window] if not places else None,
            )
        places.append(at)
        labels.append(_place(row))
        at += 1.0
    panel.axvline(0.0, color="#444444", linewidth=0.9)
    panel.locator_params(axis="x", nbins=6)
    panel.set_yticks(places)
    panel.set_yticklabels(labels, fontsize=8.5)
    panel.set_ylim(n_lines, -0.1)
    panel.grid(visible=False, axis="y")
    panel.set_title(title)
    panel.set_xlabel("points of freshness (95 % interval)")


def _gains(steps: Table, parts: dict[str, str]) -> Figure:
    rows = [dict(zip(steps.names, row, strict=True)) for row in steps.rows]
    groups = [[row for row in rows if row["part"] == part] for part in parts]
    n_lines = max(len(group) + 1.5 * len({row["step"] for row in group}) for group in groups)
    figure, axes = panels(len(parts), width=11.0, height=1.2 + 0.21 * n_lines)
    for panel, group, title in zip(axes, groups, parts.values(), strict=True):
        _dots(panel, group, title, n_lines)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


def learning_figures(tables: Mapping[str, Table]) -> dict[str, str]:
    """Return the figures as SVG by the name of their file."""
    figures = {
        "learning-curves.svg": _curves(tables["runs"]),
        "learning-gains.svg": _gains(
            tables["steps"], {"rates": "Learning rates", "signals": "Learning from signals"}
        ),
        "learning-upkeep.svg": _gains(
            tables["steps"], {"forgetting": "Forgetting", "audits": "Audits"}
        ),
    }
    data = {"data": digest_of(tables)}
    return {name: svg_of(figure, data) for name, figure in figures.items()}
