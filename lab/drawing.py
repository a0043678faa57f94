"""How the lab's figures look: one hand for all, drawn with matplotlib, kept as SVG."""

import io
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["COLOURS", "OURS", "colour_of", "look", "panels", "svg_of"]

OURS = "#b3261e"
"""recrawl, and in the papers' figures the policy that the claim is about."""

COLOURS = ("#1f5fa8", "#2e7d32", "#8e5ea2", "#c77c11", "#00838f", "#6d4c41", "#546e7a", "#ad1457")
"""All others, in the order in which they are named."""

_LOOK: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "svg.fonttype": "none",
    "svg.hashsalt": "recrawl",
    "path.simplify": True,
}


def look() -> AbstractContextManager[None]:
    """Return the context in which figures are drawn."""
    return mpl.rc_context(_LOOK)


def panels(
    n_columns: int = 1, n_rows: int = 1, *, width: float | None = None, height: float = 3.4
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, row by row; inches, ``height`` of one row."""
    with look():
        figure = Figure(
            figsize=(width or (6.4 if n_columns == 1 else 4.2 * n_columns), height * n_rows),
            layout="constrained",
        )
        axes = figure.subplots(n_rows, n_columns, squeeze=False)
    return figure, [panel for row in axes for panel in row]


def colour_of(name: str, names: list[str], main: str = "") -> str:
    """Return the colour of one of several series; ``main`` has ours."""
    if name == main:
        return OURS
    others = [other for other in names if other != main]
    return COLOURS[others.index(name) % len(COLOURS)]


def svg_of(figure: Figure, data: Mapping[str, str]) -> str:
    """Return a figure as SVG text with words about its data in front."""
    text = io.StringIO()
    with look():
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    # Digits that no eye can see are most of the file; those of labels stay.
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), svg)
    svg = "\n".join(line.rstrip() for line in svg.splitlines())
    said = " ".join(f"{key}={value}" for key, value in data.items())
    return f"<!-- {said} -->\n{svg}\n"
