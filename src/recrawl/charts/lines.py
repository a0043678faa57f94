"""Line charts: series over a common axis, labelled at their ends."""

from collections.abc import Sequence

from recrawl.charts.axes import Axis, FloatArray, Span, span_of
from recrawl.charts.frames import LABEL_GAP, Frame, Note, end_room, y_ticks
from recrawl.charts.series import Series, colours_of, ink_of
from recrawl.charts.svg_elements import LABEL_SIZE, TEXT_SIZE, TITLE_SIZE, number, svg, text
from recrawl.charts.text_layout import shorten_text, text_width

__all__ = ["line_chart"]

WIDTH_MIN, HEIGHT_MIN = 240, 160
_KEY_ROW, _KEY_ROWS_MAX = 18.0, 4


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x: Axis,
    y: Axis,
    notes: Sequence[Note] = (),
    width: int = 720,
    height: int = 400,
) -> str:
    """Return a line chart as an ``<svg>`` element, which is also a complete file.

    Lines are labelled at their ends or, if there are too many, in a key above the plot.  Numbers
    that are not finite, or not positive on a logarithmic axis, leave gaps.  Points that would be
    invisible are omitted.

    Parameters
    ----------
    series
        Series, in the order of their colours; the main one has the first colour.
    title
        Title above the chart, also read by screen readers.
    x, y
        Axes of the chart.
    notes
        Guide lines and labelled points; those outside the axes are omitted.
    width, height
        Size in pixels; the chart scales to the available space.

    Examples
    --------
    >>> line = Series(name="this corpus", x=[10, 20, 40], y=[0.7, 0.85, 0.94])
    >>> chart = line_chart([line], title="What a budget buys",
    ...                    x=Axis(label="fetches per hour", scale="log"),
    ...                    y=Axis(label="freshness", scale="share"))
    >>> chart.startswith("<svg"), chart.endswith("</svg>")
    (True, True)
    """
    if width < WIDTH_MIN or height < HEIGHT_MIN:
        raise ValueError(
            f"width and height must be at least {WIDTH_MIN} and {HEIGHT_MIN}, "
            f"got {width!r} and {height!r}"
        )
    chosen, top = list(series), 14.0
    parts = []
    if title:
        words = shorten_text(title, TITLE_SIZE * 1.1, width - 24)
        parts.append(text(words, 12, 24, kind="rc-title", hover=title))
        top = 44.0
    places = colours_of(chosen)
    n_named = sum(1 for each in chosen if each.name)
    has_key = n_named * LABEL_GAP > height - top - 56
    if has_key:
        top = _key(parts, chosen, places, width=width, top=top)
    if y.label:
        parts.append(text(shorten_text(y.label, TEXT_SIZE, width - 24), 12, top, kind="rc-text"))
        top += 14
    bottom = 30.0 + (18 if x.label else 0) + (16 if x.scale == "time" else 0)
    frame_height = max(height - top - bottom, 60.0)
    x_span = span_of(x, [each.columns[0] for each in chosen], n_ticks=8, is_rounded=False)
    y_span = span_of(y, columns_of(chosen, x_span), n_ticks=y_ticks(frame_height), is_rounded=True)
    left = 12.0 + axis_room(y_span, frame_height)
    room = 18.0 if has_key else end_room(chosen, width=width)
    frame = Frame(
        left=left,
        top=top,
        width=width - left - room,
        height=frame_height,
        x=x_span,
        y=y_span,
    )
    parts.extend(frame.grid())
    lines = frame.draw(chosen, places=places)
    parts.append(frame.series_svg(chosen, lines))
    if not has_key:
        parts.extend(frame.end_names(chosen, lines, places, room))
    parts.extend(frame.notes(notes, lines))
    if x.label:
        words = shorten_text(x.label, TEXT_SIZE, frame.width)
        parts.append(text(words, frame.right, height - 10, anchor="end"))
    return svg(parts, title=title, width=width, height=height)


def columns_of(series: Sequence[Series], x: Span) -> list[FloatArray]:
    """Return the vertical columns, bands included, within the ends of the x axis."""
    columns: list[FloatArray] = []
    for each in series:
        across, *upwards = each.columns
        places = x.places(across)
        is_seen = (places >= 0) & (places <= 1)
        columns.extend(column[is_seen] for column in upwards)
    return columns


def axis_room(span: Span, height: float) -> float:
    """Return the width of the tick labels of a vertical axis, including their distance."""
    ticks = span.ticks(y_ticks(height))
    return max((text_width(tick.text, TEXT_SIZE) for tick in ticks), default=0.0) + 10


def _key(
    parts: list[str], series: Sequence[Series], places: Sequence[int], *, width: int, top: float
) -> float:
    """Append a key in rows to ``parts``, and return the vertical coordinate below it."""
    x, y = 12.0, top
    is_any_main = any(each.is_main for each in series)
    for each, place in zip(series, places, strict=True):
        if not each.name:
            continue
        words = shorten_text(each.name, LABEL_SIZE, 0.4 * width)
        wide = 26 + text_width(words, LABEL_SIZE) + 16
        if x + wide > width and x > 12:
            x, y = 12.0, y + _KEY_ROW
            if y >= top + _KEY_ROWS_MAX * _KEY_ROW:
                y -= _KEY_ROW
                break
        ink = ink_of(each, place, is_any_main=is_any_main)
        path = f"M{number(x)} {number(y - 4)}h20"
        parts.append(f'<path class="rc-line {ink}" d="{path}"/>')
        parts.append(text(words, x + 26, y, kind="rc-note", hover=each.name))
        x += wide
    return y + _KEY_ROW + 4
