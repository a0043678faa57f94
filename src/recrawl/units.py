"""Format numbers, durations, shares and instants for people, the same way everywhere."""

import math
from datetime import UTC, datetime

__all__ = [
    "count_text",
    "exact_instant_text",
    "instant_text",
    "number_text",
    "seconds_text",
    "share_text",
]

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_MONTH, _YEAR = 365.25 / 12 * _DAY, 365.25 * _DAY
# From how many seconds on a unit is used, seconds per unit, and the unit's text.
_UNITS = (
    (2 * _YEAR, _YEAR, " years"),
    (3 * _MONTH, _MONTH, " months"),
    (2 * _DAY, _DAY, " days"),
    (2 * _HOUR, _HOUR, " h"),
    (2 * _MINUTE, _MINUTE, " min"),
    (1.0, 1.0, " s"),
)


def number_text(number: float) -> str:
    """Return a number with three significant digits, thousands separated by commas.

    Examples
    --------
    >>> number_text(418_800), number_text(30.4), number_text(0.0123), number_text(2.0)
    ('418,800', '30.4', '0.0123', '2')
    """
    if not math.isfinite(number):
        return "none" if math.isnan(number) else ("∞" if number > 0 else "-∞")
    if number == round(number) or abs(number) >= 1_000:
        return f"{round(number):,}"
    digits = max(2 - math.floor(math.log10(abs(number))), 0)
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")


def count_text(number: float, singular: str, plural: str | None = None) -> str:
    """Return a number followed by its noun in the singular or plural.

    Examples
    --------
    >>> count_text(1, "page"), count_text(12_340, "page"), count_text(2, "fetch", "fetches")
    ('1 page', '12,340 pages', '2 fetches')
    """
    return f"{number_text(number)} {singular if number == 1 else plural or singular + 's'}"


def seconds_text(seconds: float) -> str:
    """Return a duration in the unit that suits it, with about two digits.

    Examples
    --------
    >>> [seconds_text(s) for s in (0.25, 43_200, 86_400, 9 * 86_400, 3e7)]
    ['0.25 s', '12 h', '24 h', '9 days', '11 months']
    """
    if math.isnan(seconds):
        return "an unknown time"
    if math.isinf(seconds):
        return "for ever" if seconds > 0 else "never"
    size = abs(seconds)
    for least, unit, name in _UNITS:
        if size >= least:
            amount = seconds / unit
            digits = 1 if abs(amount) < 10 and round(amount, 1) != round(amount) else 0
            return f"{amount:,.{digits}f}{name}"
    return f"{seconds:.2g} s" if seconds else "0 s"


def share_text(share: float) -> str:
    """Return a share as a percentage, with more digits near 0 % and 100 %.

    Examples
    --------
    >>> share_text(0.71), share_text(0.996), share_text(0.98), share_text(0.0123), share_text(0.0)
    ('71 %', '99.6 %', '98 %', '1.2 %', '0 %')
    >>> share_text(0.999999)
    '> 99.99 %'
    """
    if not math.isfinite(share):
        return "unknown"
    left = min(abs(share), abs(1 - share))
    digits = 0 if left >= 0.05 or left < 1e-9 else 1 if left >= 0.002 else 2
    text = f"{100 * share:.{digits}f}"
    if left >= 1e-9 and text in ("100.00", "0.00"):
        return "> 99.99 %" if share > 0.5 else "< 0.01 %"
    return f"{text.rstrip('0').rstrip('.') if digits else text} %"


def instant_text(at_ms: float) -> str:
    """Return an instant in UTC as a date, with the time unless it is midnight.

    Examples
    --------
    >>> instant_text(1_765_413_001_000), instant_text(1_765_411_200_000)
    ('2025-12-11 00:30', '2025-12-11')
    """
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return "at no time"
    return at.strftime("%Y-%m-%d") if at_ms % 86_400_000 == 0 else at.strftime("%Y-%m-%d %H:%M")


def exact_instant_text(at_ms: float) -> str:
    """Return an instant with its second and its time zone, to compare it with others.

    Examples
    --------
    >>> exact_instant_text(1_765_413_001_000)
    '2025-12-11 00:30:01 UTC'
    """
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return "at no time"
