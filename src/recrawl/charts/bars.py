"""Bar charts: a few named values with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recrawl.charts.axes import Axis, Span, span_of
from recrawl.charts.lines import WIDTH_MIN
from recrawl.charts.svg_elements import TEXT_SIZE, TITLE_SIZE, number, svg, text
from recrawl.charts.text_layout import shorten_text, text_width
from recrawl.charts.ticks import number_label, share_label

__all__ = ["Bar", "bar_chart"]

BARS_MAX = 100
"""Most bars in a chart; further ones are omitted."""
_ROW = 28.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar."""

    name: str
    value: float
    low: float | None = None
    """Low end of the interval around the value."""
    high: float | None = None
    text: str | None = None
    """Text at the end of the bar; by default the value."""
    is_main: bool = False
    """Whether the bar is highlighted; the others are then muted."""


def bar_chart(bars: Sequence[Bar], *, title: str, x: Axis, width: int = 720) -> str:
    """Return bars from left to right, one below the other, as an ``<svg>`` element.

    Bars begin at zero, on a logarithmic axis at its low end.  A value that is not finite has no
    bar, only its name.

    Parameters
    ----------
    bars
        Bars, from the top.
    title
        Title above the chart, also read by screen readers.
    x
        Axis of the values.
    width
        Width in pixels; the height follows from the number of bars.

    Examples
    --------
    >>> bars = [Bar(name="every day", value=120), Bar(name="recrawl", value=41, is_main=True)]
    >>> chart = bar_chart(bars, title="Fetches for the same freshness", x=Axis(label="per hour"))
    >>> "every day" in chart
    True
    """
    if width < WIDTH_MIN:
        raise ValueError(f"width must be at least {WIDTH_MIN}, got {width!r}")
    bars = bars[:BARS_MAX]
    ends = [value for bar in bars for value in (bar.value, bar.low, bar.high) if value is not None]
    zero = [] if x.scale == "log" else [0.0]
    column = np.array([*ends, *zero], np.float64)
    span = span_of(x, [column], n_ticks=6, is_rounded=True)
    names = [text_width(" ".join(bar.name.split()), TEXT_SIZE) for bar in bars]
    left = 12 + min(max(names, default=0.0) + 12, 0.36 * width)
    values = [text_width(_value(bar, x), TEXT_SIZE) for bar in bars]
    right = width - min(max(values, default=0.0) + 20, 0.25 * width)
    top = 14.0
    parts = []
    if title:
        words = shorten_text(title, TITLE_SIZE * 1.1, width - 24)
        parts.append(text(words, 12, 24, kind="rc-title", hover=title))
        top = 44.0
    bottom = top + _ROW * len(bars) + 4
    for tick in span.ticks(max(int((right - left) // 72), 2)):
        at = left + (right - left) * span.place(tick.at)
        if tick.text:
            ends_at = f'y1="{number(top)}" y2="{number(bottom)}"'
            parts.append(f'<line class="rc-grid" x1="{number(at)}" x2="{number(at)}" {ends_at}/>')
            parts.append(text(tick.text, at, bottom + 16, anchor="middle"))
    is_any_main = any(bar.is_main for bar in bars)
    for i, bar in enumerate(bars):
        strength = " rc-muted" if is_any_main and not bar.is_main else ""
        parts.extend(
            _bar(bar, span, left=left, right=right, middle=top + _ROW * (i + 0.5), kind=strength)
        )
    zero_at = left + (right - left) * min(max(span.place(_base(span)), 0.0), 1.0)
    parts.append(
        f'<line class="rc-base" x1="{number(zero_at)}" x2="{number(zero_at)}" '
        f'y1="{number(top)}" y2="{number(bottom)}"/>'
    )
    height = bottom + 26
    if x.label:
        height += 18
        parts.append(text(shorten_text(x.label, TEXT_SIZE, right), right, height - 8, anchor="end"))
    return svg(parts, title=title, width=width, height=height)


def _base(span: Span) -> float:
    return span.low if span.axis.scale == "log" else min(max(0.0, span.low), span.high)


def _value(bar: Bar, axis: Axis) -> str:
    if bar.text is not None:
        return " ".join(bar.text.split())
    if not math.isfinite(bar.value):
        return ""
    return share_label(bar.value, decimals=1) if axis.scale == "share" else number_label(bar.value)


def _bar(bar: Bar, span: Span, *, left: float, right: float, middle: float, kind: str) -> list[str]:
    words = shorten_text(bar.name, TEXT_SIZE, left - 20)
    named = "rc-note rc-strong" if bar.is_main else "rc-note"
    parts = [text(words, left - 8, middle + 4, kind=named, anchor="end", hover=bar.name)]
    place = span.place(bar.value)
    if not math.isfinite(place):
        return parts
    wide = right - left
    start, end = (left + wide * min(max(p, 0.0), 1.0) for p in (span.place(_base(span)), place))
    colour = "rc-c5" if kind else "rc-c0"
    where = f'x="{number(min(start, end))}" y="{number(middle - 9)}"'
    size = f'width="{number(max(abs(end - start), 0.5))}" height="18" rx="2"'
    parts.append(f'<rect class="rc-fill {colour}{kind}" {where} {size}/>')
    furthest = max(start, end)
    if bar.low is not None and bar.high is not None:
        edges = np.clip(span.places(np.array([bar.low, bar.high])), 0, 1)
        if np.isfinite(edges).all():
            a, b = (left + wide * float(edge) for edge in edges)
            path = f"M{number(a)} {number(middle)}H{number(b)}"
            caps = "".join(f"M{number(at)} {number(middle - 4)}v8" for at in (a, b))
            parts.append(f'<path class="rc-whisker" d="{path}{caps}"/>')
            furthest = max(furthest, a, b)
    room = right + 0.25 * wide - furthest
    label = shorten_text(_value(bar, span.axis), TEXT_SIZE, max(room, 40.0))
    parts.append(text(label, furthest + 7, middle + 4, kind=named))
    return parts
