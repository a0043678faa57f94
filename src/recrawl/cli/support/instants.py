"""Instants and lengths of time as people type them: a date, how long ago, seconds."""

import re
from datetime import UTC, datetime

import click

__all__ = ["instant_of", "instant_option", "seconds_or_text"]

_SECONDS = {
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3_600.0,
    "hour": 3_600.0,
    "d": 86_400.0,
    "day": 86_400.0,
    "w": 604_800.0,
    "week": 604_800.0,
    "month": 30.4375 * 86_400.0,
    "year": 365.25 * 86_400.0,
}
_AGO_SECONDS_MAX = 6e10  # three thousand years
_AGO = re.compile(r"(?P<n>\d+(?:\.\d+)?|an?)\s*(?P<unit>[a-z]+?)s?\s+ago", re.IGNORECASE)


def instant_of(text: str, now_ms: int) -> int:
    """Return the instant that a text means, in milliseconds since 1970.

    Parameters
    ----------
    text
        ISO 8601, in UTC unless it says otherwise; or "3 days ago", "now", "yesterday".
    now_ms
        When this is.

    Raises
    ------
    ValueError
        If it means none.

    Examples
    --------
    >>> instant_of("1970-01-02", 0), instant_of("1970-01-01T01:00+01:00", 0)
    (86400000, 0)
    >>> instant_of("3 days ago", 864_000_000), instant_of("an hour ago", 3_600_000)
    (604800000, 0)
    """
    words = text.strip()
    if words.lower() in ("now", "yesterday"):
        return now_ms - (86_400_000 if words.lower() == "yesterday" else 0)
    ago = _AGO.fullmatch(words)
    unit = None if ago is None else _SECONDS.get(ago["unit"].lower() or "s")
    try:
        if ago is not None and unit is not None:
            n = 1.0 if ago["n"].lower().startswith("a") else float(ago["n"])
            if n * unit > _AGO_SECONDS_MAX:
                raise OverflowError
            return now_ms - round(n * unit * 1000)
        at = datetime.fromisoformat(words)
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(
            f"a time must be as 2026-03-01, 2026-03-01T14:30 or '3 days ago', got {text!r}"
        ) from None


def instant_option(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Return what an option was given as an instant: a callback for one of text."""
    if value is None:
        return None
    try:
        return instant_of(value, round(datetime.now(UTC).timestamp() * 1000))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def seconds_or_text(text: str) -> float | str:
    """Return a length of time as settings have it: seconds, if it is a bare number.

    Examples
    --------
    >>> seconds_or_text("90"), seconds_or_text("6h")
    (90.0, '6h')
    """
    try:
        return float(text)
    except ValueError:
        return text
