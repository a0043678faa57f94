"""Calendar weeks of a log: from Monday 00:00 UTC, named as in ISO 8601."""

from datetime import UTC, datetime

__all__ = ["WEEK_MS", "week_name", "week_start"]

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
"""Milliseconds of a week."""
# 1970-01-01 was a Thursday.
_FIRST_MONDAY_MS = 4 * DAY_MS


def week_start(at_ms: int) -> int:
    """Return the start of the week of an instant.

    Examples
    --------
    >>> week_name(week_start(1_735_691_209_000)), week_start(345_600_000)
    ('2025-W01', 345600000)
    """
    return (at_ms - _FIRST_MONDAY_MS) // WEEK_MS * WEEK_MS + _FIRST_MONDAY_MS


def week_name(start_ms: int) -> str:
    """Return the name of the week that starts at an instant, such as "2026-W07"."""
    year, week, _ = datetime.fromtimestamp(start_ms / 1000, UTC).isocalendar()
    return f"{year}-W{week:02d}"
