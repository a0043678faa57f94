"""Times, durations and rates as people type them in options."""

import re
from contextlib import suppress
from datetime import UTC, datetime

import click

__all__ = [
    "checked_duration_option",
    "duration_option",
    "instant_of",
    "instant_option",
    "rate_option",
    "rate_problem",
]

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
    """Return the time that a text describes, in milliseconds since 1970.

    Parameters
    ----------
    text
        Time in ISO 8601, in UTC unless it has an offset; or "3 days ago", "now", "yesterday".
    now_ms
        Current time, in milliseconds since 1970.

    Raises
    ------
    ValueError
        If the text is not a time.

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
            f"{text!r} is not a time; write 2026-03-01, 2026-03-01T14:30 or '3 days ago'."
        ) from None


def instant_option(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Read the value of an option as a time; a callback of click."""
    if value is None:
        return None
    try:
        return instant_of(value, round(datetime.now(UTC).timestamp() * 1000))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def duration_option(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Read the value of an option as a duration in seconds; a callback of click."""
    from recrawl.node.config.values import seconds  # noqa: PLC0415

    if value is None:
        return None
    number: float | str = value
    with suppress(ValueError):
        number = float(value)
    try:
        duration = seconds(number)
        if duration >= 0:
            return duration
    except ValueError:
        pass
    raise click.BadParameter(
        f"{value!r} is not a duration; write 90s, 15m, 6h, 2d or 1w.", ctx, param
    )


def checked_duration_option(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> float | str | None:
    """Check that the value of an option is a duration; return text with a unit unchanged."""
    seconds = duration_option(ctx, param, value)
    return seconds if value is None or value[-1:].isdigit() else value


def rate_option(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check that the value of an option is a rate such as 30/h; a callback of click."""
    if value is not None and (problem := rate_problem(value)):
        raise click.BadParameter(problem, ctx, param)
    return value


def money_option(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check that the value of an option is money such as 0.0005 EUR; a callback of click."""
    from recrawl.node.config.values import Money  # noqa: PLC0415

    if value is not None:
        try:
            return str(Money.of(value))
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
    return None


def rate_problem(text: str) -> str | None:
    """Return the error message for a text that is not a rate such as 30/h; None if it is one."""
    from recrawl.node.config.values import Rate  # noqa: PLC0415

    try:
        Rate.of(text)
    except ValueError:
        return (
            f"{text!r} is not a rate; write 5/s, 30/h, 20000/day, 500/month, 100/run, "
            "'50 EUR/month' or unlimited."
        )
    return None
