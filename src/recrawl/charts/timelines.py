"""Timelines: lanes of marks, and below them panels of lines over the same time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recrawl.charts.axes import Axis, Span, span_of
from recrawl.charts.frames import Frame, end_room, y_ticks
from recrawl.charts.lines import WIDTH_MIN, axis_room, columns_of
from recrawl.charts.series import Series, colours_of
from recrawl.charts.svg_elements import TEXT_SIZE, TITLE_SIZE, number, svg, text
from recrawl.charts.text_layout import escape_text, shorten_text, text_width

__all__ = ["MARK_KINDS", "Lane", "Panel", "timeline"]

TimeArray: TypeAlias = NDArray[np.int64]

MARK_KINDS = ("poll", "changed", "error", "signal", "gone", "order")
"""Kinds of marks with their own shape; others are small rings."""
LANES_MAX = 40
"""Most lanes in a timeline; further ones are omitted."""
_LANE, _PANEL, _PANEL_GAP = 26.0, 110.0, 38.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lane:
    """A row of marks."""

    name: str
    at_ms: ArrayLike
    """Instants of the marks, in milliseconds since 1970."""
    what: Sequence[str]
    """The kind of each mark: one of `MARK_KINDS`, or a short word of your own."""
    text: Sequence[str] | None = None
    """Text of each mark, shown with its kind and time when the pointer is on it."""

    def __post_init__(self) -> None:
        n = self.times.size
        for name in ("what", "text"):
            column = getattr(self, name)
            if column is not None and len(column) != n:
                raise ValueError(f"{name} must have as many rows as at_ms, {n}, got {len(column)}")

    @property
    def times(self) -> TimeArray:
        """Instants of the marks as a column."""
        return np.asarray(self.at_ms, np.int64).reshape(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lines below the lanes; their x is milliseconds since 1970."""

    title: str
    y: Axis
    series: Sequence[Series]


def timeline(
    lanes: Sequence[Lane],
    *,
    title: str,
    start_ms: int,
    end_ms: int,
    panels: Sequence[Panel] = (),
    now_ms: int | None = None,
    width: int = 900,
) -> str:
    """Return a timeline as an ``<svg>`` element, which is also a complete file.

    Parameters
    ----------
    lanes
        Rows of marks, from the top.  Marks of one kind in one pixel are drawn as one.
    title
        Title above the timeline, also read by screen readers.
    start_ms, end_ms
        Ends of the time axis; marks outside are omitted.
    panels
        Lines over the same time, below the lanes.
    now_ms
        Position of the line labelled "now"; the future, right of it, is shaded.
    width
        Width in pixels; the height follows from the lanes and panels.
    """
    if width < WIDTH_MIN:
        raise ValueError(f"width must be at least {WIDTH_MIN}, got {width!r}")
    time = span_of(
        Axis(scale="time", low=float(start_ms), high=float(end_ms)), (), n_ticks=8, is_rounded=False
    )
    lanes = lanes[:LANES_MAX]
    spans = [
        span_of(panel.y, columns_of(panel.series, time), n_ticks=y_ticks(_PANEL), is_rounded=True)
        for panel in panels
    ]
    names = [text_width(" ".join(lane.name.split()), TEXT_SIZE) + 12 for lane in lanes]
    rooms = [axis_room(span, _PANEL) for span in spans]
    left = 12 + min(max([*names, *rooms], default=0.0), 0.3 * width)
    right = width - max([end_room(panel.series, width=width) for panel in panels], default=24.0)
    parts = []
    top = 14.0
    if title:
        words = shorten_text(title, TITLE_SIZE * 1.1, width - 24)
        parts.append(text(words, 12, 24, kind="rc-title", hover=title))
        top = 40.0
    top = _key(parts, lanes, left=left, width=width, top=top)
    first = top
    marks = []
    for lane in lanes:
        marks.extend(_lane(lane, time, left=left, right=right, middle=top + _LANE / 2))
        top += _LANE
    frames: list[Frame] = []
    for span in spans:
        top += _PANEL_GAP if frames or lanes else 18
        frames.append(Frame(left=left, top=top, width=right - left, height=_PANEL, x=time, y=span))
        top += _PANEL
    bottom = Frame(left=left, top=first, width=right - left, height=top - first, x=time, y=time)
    parts.extend(_now(bottom, now_ms))
    parts.extend(marks)
    for i, (panel, frame) in enumerate(zip(panels, frames, strict=True)):
        parts.extend(_panel(panel, frame, room=width - right, is_last=i == len(panels) - 1))
    if not frames:
        parts.extend(bottom.grid(has_y=False))
    return svg(parts, title=title, width=width, height=top + 44)


def _panel(panel: Panel, frame: Frame, *, room: float, is_last: bool) -> list[str]:
    series = list(panel.series)
    parts = []
    if panel.title:
        words = shorten_text(panel.title, TEXT_SIZE, frame.width)
        parts.append(text(words, frame.left, frame.top - 9, kind="rc-note", hover=panel.title))
    parts.extend(frame.grid(is_x_named=is_last))
    places = colours_of(series)
    lines = frame.draw(series, places=places)
    parts.append(frame.series_svg(series, lines))
    parts.extend(frame.end_names(series, lines, places, room))
    return parts


def _now(frame: Frame, now_ms: int | None) -> list[str]:
    """Return the line labelled "now", and the shade of the future."""
    if now_ms is None or not 0 <= frame.x.place(float(now_ms)) <= 1:
        return []
    at = float(frame.across(np.array([float(now_ms)]))[0])
    high = f'y="{number(frame.top)}" height="{number(frame.height)}"'
    wide = f'x="{number(at)}" width="{number(frame.right - at)}"'
    ends = f'x1="{number(at)}" x2="{number(at)}" y1="{number(frame.top - 4)}"'
    return [
        f'<rect class="rc-shade" opacity=".45" {wide} {high}/>',
        f'<line class="rc-guide" {ends} y2="{number(frame.bottom)}"/>',
        text("now", at, frame.top - 8, kind="rc-note", anchor="middle"),
    ]


def _lane(lane: Lane, time: Span, *, left: float, right: float, middle: float) -> list[str]:
    """Return a lane's name, line and marks; marks of one kind in one pixel are merged."""
    words = shorten_text(lane.name, TEXT_SIZE, left - 20)
    parts = [
        text(words, left - 8, middle + 4, anchor="end", hover=lane.name),
        f'<line class="rc-grid" x1="{number(left)}" x2="{number(right)}" '
        f'y1="{number(middle)}" y2="{number(middle)}"/>',
    ]
    places = time.places(lane.times.astype(np.float64))
    together: dict[tuple[int, str], list[int]] = {}
    for row in np.flatnonzero((places >= 0) & (places <= 1)):
        pixel = int((right - left) * places[row])
        together.setdefault((pixel, str(lane.what[int(row)])), []).append(int(row))
    # Frequent kinds first, so that rare marks are on top.
    counts = Counter(kind for _, kind in together)
    for (pixel, kind), rows in sorted(together.items(), key=lambda item: -counts[item[0][1]]):
        hover = _hover(lane, kind, rows)
        parts.append(f"<g>{_title(hover)}{_mark(kind, left + pixel, middle)}</g>")
    return parts


def _hover(lane: Lane, kind: str, rows: list[int]) -> str:
    first, last = (_instant(int(lane.times[row])) for row in (rows[0], rows[-1]))
    if len(rows) > 1:
        return f"{len(rows)} × {kind}, {first} to {last}"
    more = f": {lane.text[rows[0]]}" if lane.text is not None and lane.text[rows[0]] else ""
    return f"{kind}, {first}{more}"


def _instant(at_ms: int) -> str:
    return str(np.datetime64(at_ms, "ms").astype("datetime64[s]")).replace("T", " ") + " UTC"


def _title(hover: str) -> str:
    return f"<title>{escape_text(hover)}</title>"


def _mark(kind: str, x: float, y: float) -> str:
    """Return the shape of a mark; kinds differ in shape, not only in colour."""
    at = f"M{number(x)} {number(y)}"
    match kind:
        case "poll":
            return f'<path class="rc-mark rc-quiet" d="{at}m0 -5v10"/>'
        case "changed":
            return f'<path class="rc-fill rc-dot rc-c0" d="{at}{_ring_path(5)}"/>'
        case "error":
            return f'<path class="rc-line rc-mark rc-c1" d="{at}m-4 -4l8 8m0 -8l-8 8"/>'
        case "signal":
            return f'<path class="rc-fill rc-dot rc-c4" d="{at}m0 -6l5.5 10h-11z"/>'
        case "gone":
            return f'<path class="rc-fill rc-dot rc-c1" d="{at}m-4.5 -4.5h9v9h-9z"/>'
        case "order":
            return f'<path class="rc-line rc-mark rc-c2" d="{at}m-3.5 -5l6 5l-6 5"/>'
        case _:
            return f'<path class="rc-line rc-c3" d="{at}{_ring_path(3.5)}"/>'


def _ring_path(radius: float) -> str:
    half = f"a{radius:g} {radius:g} 0 1 0 "
    return f"m{-radius:g} 0{half}{2 * radius:g} 0{half}{-2 * radius:g} 0z"


def _key(parts: list[str], lanes: Sequence[Lane], *, left: float, width: int, top: float) -> float:
    """Append the key of marks to ``parts``, and return the vertical coordinate of the lanes."""
    kinds = list(dict.fromkeys(str(kind) for lane in lanes for kind in lane.what))
    known = [kind for kind in MARK_KINDS if kind in kinds]
    x = left
    for kind in (known + [kind for kind in kinds if kind not in known])[:8]:
        words = shorten_text(kind, TEXT_SIZE, 120)
        wide = 14 + text_width(words, TEXT_SIZE) + 18
        if x + wide > width:
            break
        parts.append(_mark(kind, x + 4, top + 6))
        parts.append(text(words, x + 14, top + 10))
        x += wide
    return top + 34 if kinds else top + 12
