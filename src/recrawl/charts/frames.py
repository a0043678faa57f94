"""Frames: the plot area of a chart with its grid, ticks, lines and labels.

Line charts have one frame, timelines one per panel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recrawl.charts.axes import FloatArray, Span
from recrawl.charts.label_placement import Box, best_place, push_apart
from recrawl.charts.series import DrawnSeries, Series, colour_of, draw_series, ink_of
from recrawl.charts.svg_elements import LABEL_SIZE, TEXT_SIZE, number, text
from recrawl.charts.text_layout import shorten_text, text_width

__all__ = ["Frame", "Note"]

LABEL_GAP = 15.0
# Lines may extend beyond the plot by half their width or the radius of a dot.
_BLEED = 4.0
# Distance of line labels from the right edge of the plot.
_LABEL_AT = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A label in a chart: at a guide line if x or y is given, at a point if both are."""

    text: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The position of a plot in a picture, in pixels, and its two axes."""

    left: float
    top: float
    width: float
    height: float
    x: Span
    y: Span

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.top + self.height

    def across(self, values: FloatArray) -> FloatArray:
        """Return the horizontal coordinates of values of x."""
        return self.left + self.width * self.x.places(values)

    def down(self, values: FloatArray) -> FloatArray:
        """Return the vertical coordinates of values of y."""
        return self.bottom - self.height * self.y.places(values)

    def grid(self, *, is_x_named: bool = True, has_y: bool = True) -> list[str]:
        """Return the grid lines, ticks and tick labels of both axes."""
        parts = []
        for tick in self.y.ticks(y_ticks(self.height)) if has_y else []:
            at = float(self.down(np.array([tick.at]))[0])
            if tick.text:
                parts.append(_rule(self.left, at, self.right, at, "rc-grid"))
                parts.append(text(tick.text, self.left - 8, at + 4, anchor="end"))
        marks = [t for t in self.x.ticks(self._x_ticks()) if 0 <= self.x.place(t.at) <= 1]
        named_until = -np.inf
        for tick in marks:
            at = float(self.across(np.array([tick.at]))[0])
            if is_x_named:
                long = 5 if tick.text else 3
                parts.append(_rule(at, self.bottom, at, self.bottom + long, "rc-base"))
            if not (is_x_named and tick.text):
                continue
            half = text_width(tick.text, TEXT_SIZE) / 2
            if at - half < named_until + 6:
                continue
            named_until = at + half
            parts.append(text(tick.text, at, self.bottom + 19, anchor="middle"))
            if tick.context:
                parts.append(text(tick.context, at, self.bottom + 34, anchor="middle"))
        parts.append(_rule(self.left, self.bottom, self.right, self.bottom, "rc-base"))
        return parts

    def draw(self, series: Sequence[Series], *, places: Sequence[int]) -> list[DrawnSeries]:
        """Draw series, in their order."""
        is_any_main = any(each.is_main for each in series)
        out = []
        for each, place in zip(series, places, strict=True):
            across, *upwards = each.columns
            ink = ink_of(each, place, is_any_main=is_any_main)
            lines = np.stack([self.down(column) for column in upwards])
            out.append(
                draw_series(each, self.across(across), lines, ink=ink, width=int(self.width))
            )
        return out

    def series_svg(self, series: Sequence[Series], lines: Sequence[DrawnSeries]) -> str:
        """Return the drawn series, clipped to the frame: bands below, the main line on top."""
        left, top = self.left - _BLEED, self.top - _BLEED
        width, height = self.width + 2 * _BLEED, self.height + 2 * _BLEED
        size = f'width="{number(width)}" height="{number(height)}"'
        box = f"{number(left)} {number(top)} {number(width)} {number(height)}"
        order = sorted(range(len(series)), key=lambda i: series[i].is_main)
        return (
            # A nested svg clips without an id, which would collide between charts of a page.
            f'<svg x="{number(left)}" y="{number(top)}" {size} viewBox="{box}" overflow="hidden">'
            + "".join(lines[i].band for i in order)
            + "".join(lines[i].line for i in order)
            + "</svg>"
        )

    def end_names(
        self,
        series: Sequence[Series],
        lines: Sequence[DrawnSeries],
        places: Sequence[int],
        room: float,
    ) -> list[str]:
        """Return the labels of lines, right of the plot at the height of their ends."""
        is_any_main = any(each.is_main for each in series)
        named = [i for i, each in enumerate(series) if each.name and lines[i].end is not None]
        ends = [lines[i].end or (0.0, 0.0) for i in named]
        heights = [min(max(y, self.top), self.bottom) for _, y in ends]
        low, high = self.top + 2, self.bottom - 2
        at = push_apart(heights, gap=LABEL_GAP, low=low, high=high)
        parts = []
        x = self.right + _LABEL_AT
        for i, (end, _), height, y in zip(named, ends, heights, at, strict=True):
            if abs(y - height) > 5 or self.right - end > 12:
                start = min(end + 3, self.right)
                path = f"M{number(start)} {number(height)}H{number(self.right)}L{number(x - 2)} "
                parts.append(f'<path class="rc-leader" d="{path}{number(y)}"/>')
            colour = colour_of(places[i], is_any_main=is_any_main)
            kind = f"rc-label rc-fill {colour}"
            kind += " rc-strong" if series[i].is_main else ""
            words = shorten_text(series[i].name, LABEL_SIZE, room - _LABEL_AT)
            parts.append(text(words, x, y + 4, kind=kind, hover=series[i].name))
        return parts

    def notes(self, notes: Sequence[Note], lines: Sequence[DrawnSeries]) -> list[str]:
        """Return guide lines and labelled points, their words where they cover least."""
        points = np.concatenate([_dense(line.points) for line in lines] or [np.zeros((0, 2))])
        where = [(note, *self._where(note)) for note in notes]
        where = [(note, x, y) for note, x, y in where if self._is_inside(x, y)]
        # Words lie on no guide line either, and their own is beside them.
        points = np.concatenate([points, *(self._guide(x, y) for _, x, y in where)])
        taken: list[Box] = []
        parts = []
        for note, x, y in where:
            if y is None and x is not None:
                parts.append(_rule(x, self.top, x, self.bottom, "rc-guide"))
            elif x is None and y is not None:
                parts.append(_rule(self.left, y, self.right, y, "rc-guide"))
            else:
                at = f'cx="{number(x or 0)}" cy="{number(y or 0)}"'
                parts.append(f'<circle class="rc-spot rc-dot" {at} r="4.5"/>')
            words = shorten_text(note.text, TEXT_SIZE, self.width - 16)
            boxes = self._boxes(x, y, text_width(words, TEXT_SIZE))
            box = boxes[best_place(boxes, points=points, taken=taken)]
            taken.append(box)
            parts.extend(_tie(x, y, box))
            parts.append(text(words, box.left, box.bottom - 4, kind="rc-note", hover=note.text))
        return parts

    def _where(self, note: Note) -> tuple[float | None, float | None]:
        """Return the coordinates of a note in the picture; nan if it has none."""
        x = None if note.x is None else float(self.across(np.array([note.x]))[0])
        y = None if note.y is None else float(self.down(np.array([note.y]))[0])
        return x, y

    def _guide(self, x: float | None, y: float | None) -> FloatArray:
        """Return points along a guide line or around a spot, which labels should not cover."""
        if x is None:
            ends = np.array([[self.left, y], [self.right, y]], np.float64)
        elif y is None:
            ends = np.array([[x, self.top], [x, self.bottom]], np.float64)
        else:
            ends = np.array([[x - 4, y], [x + 4, y]], np.float64)
        return _dense(ends)

    def _boxes(self, x: float | None, y: float | None, width: float) -> list[Box]:
        """Return possible positions of a note's text, the preferred ones first."""
        high = TEXT_SIZE + 5
        if x is None:
            tops = (y or 0.0) - high, (y or 0.0) + 2
            centred = self.left + (self.width - width) / 2
            lefts = (self.left + 6, self.right - width - 6, centred)
            corners = [(left, top) for top in tops for left in lefts]
        elif y is None:
            rows = [self.top + 2 + k * high for k in range(3)] + [self.bottom - high - 2]
            corners = [(left, top) for top in rows for left in (x + 6, x - width - 6)]
        else:
            # Beside the spot, then above and below it at growing distances.
            corners = [(x + 9, y - high / 2), (x - width - 9, y - high / 2)]
            for away in (6, 18, 34, 54):
                for top in (y + away, y - high - away):
                    corners += [(left, top) for left in (x + 4, x - width - 4, x - width / 2)]
                    corners += [(min(x + 4, self.right - width - 3), top)]
        boxes = []
        for left, top in corners:
            inside = min(max(left, self.left + 2), self.right - width - 2)
            level = min(max(top, self.top), self.bottom - high)
            boxes.append(Box(inside, level, inside + width, level + high))
        # A box moved into the frame may cover its own spot, so it is used only as a last resort.
        unmoved = [
            box
            for box, (left, top) in zip(boxes, corners, strict=True)
            if abs(box.left - left) < 1 and abs(box.top - top) < 1
        ]
        return unmoved or boxes

    def _is_inside(self, x: float | None, y: float | None) -> bool:
        if x is None and y is None:
            return False
        is_in_x = x is None or self.left - 1 <= x <= self.right + 1
        return is_in_x and (y is None or self.top - 1 <= y <= self.bottom + 1)

    def _x_ticks(self) -> int:
        each = 76 if self.x.axis.scale == "time" else 64
        return max(int(self.width // each), 2)


def y_ticks(height: float) -> int:
    """Return the largest number of ticks of a vertical axis of this height."""
    return max(min(int(height // 34), 8), 3)


def end_room(series: Sequence[Series], *, width: float) -> float:
    """Return the width of the line labels, at most 30 % of the picture."""
    widest = 0.0
    for each in series:
        if each.name:
            bold = 1.06 if each.is_main else 1.0
            widest = max(widest, text_width(" ".join(each.name.split()), LABEL_SIZE) * bold)
    return min(widest + _LABEL_AT + 6, 0.3 * width) if widest else 24.0


def _tie(x: float | None, y: float | None, box: Box) -> list[str]:
    """Return the line from a spot to its label, unless the label is beside it."""
    if x is None or y is None:
        return []
    near_x = min(max(x, box.left), box.right)
    near_y = min(max(y, box.top + 3), box.bottom - 3)
    if np.hypot(near_x - x, near_y - y) < 14:
        return []
    return [_rule(x, y, near_x, near_y, "rc-leader")]


def _rule(x0: float, y0: float, x1: float, y1: float, kind: str) -> str:
    ends = f'x1="{number(x0)}" y1="{number(y0)}" x2="{number(x1)}" y2="{number(y1)}"'
    return f'<line class="{kind}" {ends}/>'


def _dense(points: FloatArray) -> FloatArray:
    """Return points along a line a few pixels apart, to detect overlap with labels."""
    if len(points) < 2:
        return points
    lengths = np.hypot(*np.diff(points, axis=0).T)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    at = np.linspace(0.0, along[-1], min(int(along[-1] / 4) + 2, 2_000))
    dense: FloatArray = np.stack([np.interp(at, along, points[:, k]) for k in (0, 1)], axis=1)
    return dense
