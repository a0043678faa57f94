"""How templates write numbers, shares, times and addresses."""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup, escape

from recrawl.charts import number_label, share_label
from recrawl.safe_text import escape_controls
from recrawl.units import count_text, number_text, seconds_text

__all__ = ["FILTERS"]

_NOTHING: Final = "–"
_TEXT_MAX: Final = 2_000
_CHART_TITLE: Final = re.compile(r'^<svg [^>]*aria-label="([^"<>]*)"')
_COMMAND: Final = re.compile(r"`([^`<>]{1,200})`")
_AGO: Final = (
    (90.0, 1.0, "s"),
    (90 * 60.0, 60.0, "min"),
    (36 * 3_600.0, 3_600.0, "h"),
    (math.inf, 86_400.0, "days"),
)


def _number(value: float | None) -> str:
    """Return a whole or decimal number in full, such as 1,234,567."""
    return _NOTHING if value is None or not math.isfinite(value) else number_text(value)


def _short(value: float | None) -> str:
    """Return a number with three digits, such as 1.23M."""
    return _NOTHING if value is None else number_label(value)


def _share(value: float | None, decimals: int = 1) -> str:
    """Return a share in percent."""
    return _NOTHING if value is None else share_label(value, decimals=decimals)


def _share_known(value: float | None) -> str:
    """Return a share in percent, or that it is not known yet."""
    return "not known yet" if value is None else share_label(value, decimals=1)


def _chance(value: float) -> str:
    """Return a probability in whole percent; 0 and 100 only if certain."""
    if 0 < value < 0.01:
        return "< 1 %"
    return "> 99 %" if 0.99 < value < 1 else share_label(value, decimals=0)


def _points(value: float | None) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    if value is None or not math.isfinite(value):
        return _NOTHING
    return f"{100 * value:+.1f}".replace("-", "−")


def _duration(seconds: float | None) -> str:
    return _NOTHING if seconds is None or not math.isfinite(seconds) else seconds_text(seconds)


def _instant(at_ms: float | None) -> str:
    """Return a time such as 2026-03-01 14:05:09, in UTC."""
    try:
        return _NOTHING if at_ms is None else f"{_date_of(at_ms):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return _NOTHING


def _machine_instant(at_ms: float) -> str:
    """Return a time as the attribute ``datetime`` of HTML has it."""
    try:
        return f"{_date_of(at_ms):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return ""


def _date_of(at_ms: float) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _ago(at_ms: float | None, now_ms: float) -> str:
    """Return how long ago a time is, such as 5 min ago, or in 5 min."""
    if at_ms is None:
        return "never"
    seconds = (now_ms - at_ms) / 1000
    size = abs(seconds)
    if size < 1:
        return "now"
    unit, name = next((unit, name) for below, unit, name in _AGO if size < below)
    n = math.floor(size / unit)
    amount = "1 day" if (n, name) == (1, "days") else f"{number_text(n)} {name}"
    return f"{amount} ago" if seconds > 0 else f"in {amount}"


def _per_time(per_second: float | None, unit: str) -> str:
    """Return a budget such as 2,000 fetches/h."""
    if per_second is None or math.isinf(per_second):
        return "unlimited"
    if not per_second:
        return "per run"
    hours, name = (1.0, "h") if per_second * 3_600 >= 10 else (24.0, "day")
    amount = per_second * 3_600 * hours
    word = "fetches" if unit == "fetches" else "of cost"
    return f"{number_text(float(f'{amount:.4g}'))} {word}/{name}"


def _plain(text: Any) -> str:
    """Return a text of the web with control and direction characters made visible, and not long."""
    shown = escape_controls(str(text))
    return shown if len(shown) <= _TEXT_MAX else shown[:_TEXT_MAX] + "…"


def _prose(text: Any) -> Markup:
    """Return a sentence of ours, which may name texts of the web, with its `commands` marked."""
    # What is put into the sentence is escaped.
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(_plain(text)))))


def _is_web_address(text: Any) -> bool:
    """Return whether a text may be the target of a link."""
    return str(text).lower().startswith(("https://", "http://"))


def _path_part(text: Any) -> str:
    """Return a text as one part of a path, or a value of a query."""
    return quote(str(text), safe="")


def _chart_title(svg: Markup) -> Markup:
    """Return the title of a chart of `recrawl.charts`, which is escaped already."""
    found = _CHART_TITLE.search(svg)
    return Markup(found[1] if found else "")


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "number": _number,
    "short": _short,
    "share": _share,
    "share_known": _share_known,
    "chance": _chance,
    "points": _points,
    "duration": _duration,
    "instant": _instant,
    "machine_instant": _machine_instant,
    "ago": _ago,
    "per_time": _per_time,
    "plain": _plain,
    "prose": _prose,
    "is_web_address": _is_web_address,
    "path_part": _path_part,
    "count": count_text,
    "chart_title": _chart_title,
}
"""Filters of templates by name."""
