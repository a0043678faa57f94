"""Dates of sitemaps, feeds and headers, kept as the interval that they may mean.

A sitemap may say only on which day, in which month or in which year a page changed.  The change may
have been at any moment of that time, and a date without a zone may be of any zone on earth.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import NamedTuple

__all__ = ["DATE_CHARACTERS_MAX", "ClaimedTime", "parse_date"]

DATE_CHARACTERS_MAX = 64
"""Characters of a date; a longer text is not one."""

_MS_MIN = 631_152_000_000  # the beginning of 1990
_MS_MAX = 4_102_444_800_000  # the beginning of 2100
_DAY_MS = 86_400_000
# A day begins first at UTC+14 and ends last at UTC-12.
_FIRST_ZONE_MS = 14 * 3_600_000
_LAST_ZONE_MS = 12 * 3_600_000
_W3C = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"\s?(Z|z|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)
_MINUTE_MS = 60_000


class ClaimedTime(NamedTuple):
    """When a change is said to have happened: from the first to the last possible moment."""

    earliest_ms: int
    latest_ms: int

    @property
    def precision_ms(self) -> int:
        """Length of the interval, in milliseconds."""
        return self.latest_ms - self.earliest_ms


def parse_date(text: str) -> ClaimedTime | None:
    """Return the interval that a date means; None if the text is not a date.

    Accepts the W3C profile of ISO 8601 with any of its parts, and the dates of mail, RSS and HTTP.
    Dates before 1990 or from 2100 on are not accepted.

    Parameters
    ----------
    text
        Date as written in a sitemap, a feed or a header.

    Examples
    --------
    >>> day = parse_date("2026-11-16")
    >>> day.precision_ms / 3_600_000  # hours: a day, of any zone
    50.0
    >>> parse_date("2026-11-16T09:30:00Z").precision_ms
    1000
    >>> parse_date("next Monday") is None
    True
    """
    text = text.strip()
    if not text or len(text) > DATE_CHARACTERS_MAX or not text.isascii():
        return None
    found = _W3C.fullmatch(text)
    try:
        span = _of_parts(found) if found else _of_mail_date(text)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return span if span.earliest_ms >= _MS_MIN and span.latest_ms <= _MS_MAX else None


def _of_parts(found: re.Match[str]) -> ClaimedTime:
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    if hour is None:
        return _of_days(int(year), month, day)
    # 24:00 is the end of a day, which Python does not accept.
    is_midnight = hour == "24" and minute == "00" and not int(second or 0)
    # The same for the last second of a leap second.
    seconds = min(int(second or 0), 59)
    at = datetime(int(year), int(month), int(day), 0 if is_midnight else int(hour), int(minute))
    at += timedelta(days=is_midnight, seconds=seconds)
    digits = (fraction or "")[:3]
    step_ms = _MINUTE_MS if second is None else 1000 // 10 ** len(digits)
    ms = _ms(at.replace(tzinfo=_zone(zone))) + int(digits.ljust(3, "0") or 0)
    if zone is None:
        return ClaimedTime(ms - _FIRST_ZONE_MS, ms + step_ms + _LAST_ZONE_MS)
    return ClaimedTime(ms, ms + step_ms)


def _of_days(year: int, month: str | None, day: str | None) -> ClaimedTime:
    first = datetime(year, int(month or 1), int(day or 1), tzinfo=UTC)
    if day is not None:
        length_ms = _DAY_MS
    elif month is not None:
        after = datetime(year + int(month) // 12, int(month) % 12 + 1, 1, tzinfo=UTC)
        length_ms = _ms(after) - _ms(first)
    else:
        length_ms = _ms(datetime(year + 1, 1, 1, tzinfo=UTC)) - _ms(first)
    ms = _ms(first)
    return ClaimedTime(ms - _FIRST_ZONE_MS, ms + length_ms + _LAST_ZONE_MS)


def _of_mail_date(text: str) -> ClaimedTime:
    at = parsedate_to_datetime(text)
    # A mail date in UTC may come without a zone ("-0000").
    ms = _ms(at if at.tzinfo is not None else at.replace(tzinfo=UTC))
    return ClaimedTime(ms, ms + 1000)


def _zone(text: str | None) -> timezone:
    if text is None or text in "Zz":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
