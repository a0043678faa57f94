"""Parse instants in common formats into milliseconds since 1970.

A number is in seconds, milliseconds, microseconds or nanoseconds.  From 1990 to 2100 these ranges
do not overlap, so the size of the number determines the unit.  A time without a zone is UTC.
"""

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.core.arrays import FlagArray

__all__ = [
    "INSTANT_MS_MAX",
    "INSTANT_MS_MIN",
    "cdx_column",
    "cdx_instant_ms",
    "cdx_instants_ms",
    "instant_ms",
    "instants_ms_of_numbers",
]

INSTANT_MS_MIN = 631_152_000_000
"""The beginning of 1990; earlier times are invalid."""
INSTANT_MS_MAX = 4_102_444_800_000
"""The beginning of 2100; later times are invalid."""

# Seconds, milliseconds, microseconds and nanoseconds per millisecond.
_PER_MS = (1e-3, 1.0, 1e3, 1e6)
_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?")
# The format of java.util.Date and of C's asctime: Tue Oct 29 08:56:40 UTC 2013.
_UNIX_DATE = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d) (?:([A-Z][\w+:-]*) )?(\d{4})"
)
_TEXT_CHARACTERS_MAX = 64
_DIGITS = 14
# Digits that complete a shorter CDX date.
_REST_OF_DATE = "00000101000000"


def instant_ms(value: object) -> int | None:
    """Return an instant in milliseconds since 1970; None if ``value`` is not one.

    Accepts numbers, numbers as text, ISO 8601 and W3C dates (also without their last parts),
    dates of mail and HTTP, the date format of Java, and the fourteen digits of CDX.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return _of_number(value)
    if isinstance(value, datetime):
        return _of_datetime(value)
    if isinstance(value, str) and len(value) <= _TEXT_CHARACTERS_MAX:
        return _of_text(value.strip())
    return None


def _of_number(value: float) -> int | None:
    if not -1e19 < value < 1e19:
        return None
    for per_ms in _PER_MS:
        ms = value / per_ms
        if INSTANT_MS_MIN <= ms < INSTANT_MS_MAX:
            return round(ms)
    return None


def _of_datetime(value: datetime) -> int | None:
    try:
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        ms = math.floor(aware.timestamp() * 1_000 + 0.5)
    except (OverflowError, ValueError):
        return None
    return ms if INSTANT_MS_MIN <= ms < INSTANT_MS_MAX else None


def _of_text(text: str) -> int | None:
    if not text.isascii():
        return None
    if text.isdigit():
        ms = _of_number(int(text)) if len(text) < 20 else None
        return cdx_instant_ms(text) if ms is None else ms
    try:
        return _of_datetime(datetime.fromisoformat(text))
    except ValueError:
        pass
    if found := _YEAR_OR_MONTH.fullmatch(text):
        return cdx_instant_ms("".join(part or "" for part in found.groups()))
    if found := _UNIX_DATE.fullmatch(text):
        month, day, time, zone, year = found.groups()
        text = f"{day} {month} {year} {time} {zone or 'UTC'}"
    elif text[0:1].isalpha() is False and _is_number(text):
        return _of_number(float(text))
    try:
        return _of_datetime(parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def cdx_instant_ms(text: str) -> int | None:
    """Return the instant of a CDX date of 4 to 14 digits, ``yyyyMMddhhmmss``."""
    if not (4 <= len(text) <= _DIGITS and text.isascii() and text.isdigit()):
        return None
    digits = text + _REST_OF_DATE[len(text) :]
    if len(text) % 2:
        # An odd digit is half a month, day or hour; padding it would give a wrong date.
        return cdx_instant_ms(text[:-1])
    try:
        return _of_datetime(
            datetime(
                int(digits[:4]),
                int(digits[4:6]),
                int(digits[6:8]),
                int(digits[8:10]),
                int(digits[10:12]),
                int(digits[12:]),
                tzinfo=UTC,
            )
        )
    except ValueError:
        return None


def cdx_instants_ms(dates: pa.BinaryArray) -> tuple[NDArray[np.int64], FlagArray]:
    """Return the instants of CDX dates, and which of the dates are valid."""
    length = pc.binary_length(dates).to_numpy(zero_copy_only=False)
    is_whole = length == _DIGITS
    out = np.zeros(len(dates), np.int64)
    is_instant = np.zeros(len(dates), bool)
    if is_whole.all() and len(dates):
        out, is_instant = _of_whole_dates(_characters(dates))
    elif is_whole.any():
        rows = np.flatnonzero(is_whole)
        out[rows], is_instant[rows] = _of_whole_dates(_characters(dates.take(pa.array(rows))))
    for row in np.flatnonzero(~is_whole).tolist():
        text = dates[row].as_py()
        ms = cdx_instant_ms(text.decode("latin-1")) if text is not None else None
        if ms is not None:
            out[row], is_instant[row] = ms, True
    return out, is_instant


def cdx_column(dates: list[str | None]) -> pa.Array | list[object]:
    """Return CDX dates as instants; invalid ones stay as text, for the error message."""
    array = pa.array(
        [None if date is None else date.encode("utf-8", "replace") for date in dates], pa.binary()
    )
    ms, is_instant = cdx_instants_ms(array)
    if is_instant.all():
        return pa.array(ms)
    return [
        at_ms if is_valid else date
        for at_ms, is_valid, date in zip(ms.tolist(), is_instant.tolist(), dates, strict=True)
    ]


def _characters(dates: pa.BinaryArray) -> NDArray[np.uint8]:
    """Return the bytes of fourteen-byte strings, one row each."""
    offsets = np.frombuffer(dates.buffers()[1], np.int32)[dates.offset :][: len(dates) + 1]
    data = np.frombuffer(dates.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    return data.reshape(-1, _DIGITS)


def _of_whole_dates(characters: NDArray[np.uint8]) -> tuple[NDArray[np.int64], FlagArray]:
    digit = characters.T.astype(np.int64) - ord("0")
    is_instant = ((digit >= 0) & (digit <= 9)).all(axis=0)
    year = digit[0] * 1_000 + digit[1] * 100 + digit[2] * 10 + digit[3]
    month, day, hour, minute, second = (
        digit[place] * 10 + digit[place + 1] for place in range(4, _DIGITS, 2)
    )
    is_instant &= (year >= 1990) & (year < 2100) & (month >= 1) & (month <= 12) & (day >= 1)
    is_instant &= (hour < 24) & (minute < 60) & (second < 60)
    month_number = np.where(is_instant, (year - 1970) * 12 + month - 1, 0)
    first = month_number.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    next_first = (month_number + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    is_instant &= day <= next_first - first
    seconds = (first + day - 1) * 86_400 + hour * 3_600 + minute * 60 + second
    return np.where(is_instant, seconds * 1_000, 0), is_instant


def instants_ms_of_numbers(
    values: NDArray[np.int64] | NDArray[np.float64],
) -> tuple[NDArray[np.int64], FlagArray]:
    """Return the instants of numbers, and which of the numbers are valid."""
    out = np.zeros(values.size, np.int64)
    is_instant = np.zeros(values.size, bool)
    for per_ms in _PER_MS:
        low, high = INSTANT_MS_MIN * per_ms, INSTANT_MS_MAX * per_ms
        with np.errstate(invalid="ignore"):
            in_range = (values >= low) & (values < high)
        if in_range.any():
            numbers = values[in_range]
            if values.dtype.kind == "f" or per_ms < 1:
                out[in_range] = np.rint(numbers.astype(np.float64) / per_ms).astype(np.int64)
            else:
                out[in_range] = numbers // int(per_ms)
            is_instant |= in_range
    return out, is_instant
