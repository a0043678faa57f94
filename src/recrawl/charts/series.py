"""Series of a chart, drawn as lines, steps, points and bands."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recrawl.charts.axes import FloatArray
from recrawl.charts.svg_elements import N_COLOURS, number

__all__ = ["DrawnSeries", "Series", "draw_series"]

RUNS_MAX = 2_000
"""Most stretches between gaps that are drawn; of more, some are omitted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """One line of a chart, with gaps where x or y is not finite."""

    name: str
    """Label at the end of the line; may be empty."""
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    """The lower edge of a band around the line."""
    high: ArrayLike | None = None
    style: Literal["line", "step", "points", "dashed"] = "line"
    """Steps hold a value until the next."""
    is_main: bool = False
    """Whether the series is highlighted; the others are then muted."""

    def __post_init__(self) -> None:
        if self.style not in ("line", "step", "points", "dashed"):
            raise ValueError(
                f"style must be 'line', 'step', 'points' or 'dashed', got {self.style!r}"
            )
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high must be given together")
        names = ("x", "y", "low", "high")
        sizes = [column.size for column in self.columns]
        for name, size in zip(names, sizes, strict=False):
            if size != sizes[0]:
                raise ValueError(f"{name} must have as many rows as x, {sizes[0]}, got {size}")

    @property
    def columns(self) -> list[FloatArray]:
        """x, y and, where there is a band, low and high."""
        given = (self.x, self.y, self.low, self.high)
        return [
            np.asarray(column, np.float64).reshape(-1) for column in given if column is not None
        ]


class DrawnSeries(NamedTuple):
    """The SVG elements of a series."""

    band: str
    line: str
    points: FloatArray
    """Rows of x and y in the picture, thinned."""

    @property
    def end(self) -> tuple[float, float] | None:
        """Coordinates of the end of the line; None for an empty line."""
        return (float(self.points[-1, 0]), float(self.points[-1, 1])) if len(self.points) else None


def draw_series(
    series: Series, x: FloatArray, columns: FloatArray, *, ink: str, width: int
) -> DrawnSeries:
    """Draw a series, with at most a few points for each pixel of the width.

    Parameters
    ----------
    series
        Series to draw.
    x
        Horizontal coordinates of its rows.
    columns
        Vertical coordinates: a row for y, and rows for low and high if there is a band.
    ink
        CSS classes of the line; the first one sets the colour.
    width
        Width of the picture in pixels.
    """
    colour = ink.split(maxsplit=1)[0]
    lines: list[str] = []
    bands: list[str] = []
    kept: list[FloatArray] = []
    is_step = series.style == "step"
    for run in _runs(np.isfinite(x) & np.isfinite(columns[0])):
        rows = run[_visible_rows(x[run], columns[0, run], width)]
        kept.append(np.stack([x[rows], columns[0, rows]], axis=1))
        if series.style == "points" or rows.size == 1:
            lines.extend(_dot(a, b, colour) for a, b in kept[-1])
        else:
            lines.append(f'<path class="rc-line {ink}" d="{_path(kept[-1], is_step=is_step)}"/>')
    if len(columns) == 3:
        for run in _runs(np.isfinite(x) & np.isfinite(columns).all(axis=0)):
            rows = run[_visible_rows(x[run], columns[1, run], width)]
            # Single points have error bars instead of bands.
            each = rows[:, None] if series.style == "points" else [rows]
            bands.extend(
                _band(x[some], columns[1, some], columns[2, some], colour, is_step) for some in each
            )
    points = np.concatenate(kept) if kept else np.zeros((0, 2))
    return DrawnSeries("".join(bands), "".join(lines), points)


def colour_of(place: int, *, is_any_main: bool) -> str:
    """Return the CSS class of a colour; only the main series has the main colour."""
    if is_any_main and place >= N_COLOURS:
        return f"rc-c{1 + (place - N_COLOURS) % (N_COLOURS - 1)}"
    return f"rc-c{place % N_COLOURS}"


def ink_of(series: Series, place: int, *, is_any_main: bool) -> str:
    """Return the CSS classes of a series' line: colour, weight and dashes."""
    ink = [colour_of(place, is_any_main=is_any_main)]
    if is_any_main:
        ink.append("rc-main" if series.is_main else "rc-muted")
    if series.style == "dashed" or place >= N_COLOURS:
        ink.append("rc-dashed")
    return " ".join(ink)


def colours_of(series: list[Series]) -> list[int]:
    """Return the number of each series' colour; the main one has the first."""
    main = [i for i, each in enumerate(series) if each.is_main]
    rest = [i for i, each in enumerate(series) if not each.is_main]
    places = [0] * len(series)
    for place, i in enumerate(main + rest):
        places[i] = place
    return places


def _runs(is_there: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows of each stretch without a gap."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_there, [False]]).astype(np.int8)))
    starts, ends = edges[::2], edges[1::2]
    every = max(-(-starts.size // RUNS_MAX), 1)
    for start, end in zip(starts[::every], ends[::every], strict=True):
        yield np.arange(start, end)


def _visible_rows(x: FloatArray, y: FloatArray, width: int) -> np.ndarray:
    """Return the rows to draw: the first, lowest, highest and last one of each pixel column."""
    n = x.size
    if n <= 4 * width:
        return np.arange(n)
    column = np.floor(x).astype(np.int64)
    if np.any(np.diff(column) < 0):
        return np.unique(np.linspace(0, n - 1, 4 * width).astype(np.int64))
    starts = np.concatenate([[0], np.flatnonzero(np.diff(column)) + 1])
    ends = np.concatenate([starts[1:], [n]]) - 1
    of_row = np.repeat(np.arange(starts.size), ends - starts + 1)
    by_height = np.lexsort((y, of_row))
    return np.unique(np.concatenate([starts, ends, by_height[starts], by_height[ends]]))


def _path(points: FloatArray, *, is_step: bool) -> str:
    pairs = [(number(a), number(b)) for a, b in points]
    first = f"M{pairs[0][0]} {pairs[0][1]}"
    if is_step:
        return first + "".join(f"H{a}V{b}" for a, b in pairs[1:])
    return first + "L" + " ".join(f"{a} {b}" for a, b in pairs[1:])


def _dot(x: float, y: float, colour: str) -> str:
    where = f'cx="{number(x)}" cy="{number(y)}"'
    return f'<circle class="rc-fill rc-dot {colour}" {where} r="3.5"/>'


def _band(x: FloatArray, low: FloatArray, high: FloatArray, colour: str, is_step: bool) -> str:
    if x.size == 1:
        # A band of one row is drawn as an error bar.
        at, top, bottom = number(float(x[0])), number(float(high[0])), number(float(low[0]))
        return f'<path class="rc-line rc-muted {colour}" d="M{at} {top}V{bottom}"/>'
    if is_step:
        x, low, high = np.repeat(x, 2)[1:], np.repeat(low, 2)[:-1], np.repeat(high, 2)[:-1]
    there, back = np.stack([x, high], axis=1), np.stack([x, low], axis=1)[::-1]
    outline = _path(np.concatenate([there, back]), is_step=False)
    return f'<path class="rc-fill rc-band {colour}" d="{outline}Z"/>'
