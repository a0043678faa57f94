"""Times that depend on when a page is fetched: "3 hours ago", and names of days and months.

A relative time says when the page was fetched, not what it contains, so it is not part of a
passage.  Names of weekdays and months belong to dates, so shapes mask them like numbers.
"""

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel

__all__ = ["DATE_WORDS", "drop_relative_times"]

_UNITS = {
    "en": "seconds? secs? minutes? mins? hours? hrs? days? weeks?",
    "de": "Sekunden? Minuten? Stunden? Tag(?:en?)? Wochen?",
    "fr": "secondes? minutes? heures? jours? semaines?",
    "es": "segundos? minutos? min horas? días? semanas?",
    "pt": "segundos? minutos? min horas? dias? semanas?",
    "it": "second[io] minut[io] or[ae] giorn[io] settiman[ae]",
    "nl": "seconden? minuten? minuut uur uren dag(?:en)? weken week",
}


def _units(code: str) -> str:
    return "|".join(_UNITS[code].split())


TIME_MARK: Final = b"\x1f"
"""What stands for a relative time that was dropped; a separator of words."""
MARKERS_MAX: Final = 2_000
"""Relative times of a text that are looked for."""
WINDOW_BYTES: Final = 40
"""Bytes before and after the start of a marker in which its relative time is."""

# Relative times without a number count only after "updated": a text may be about yesterday.
_UPDATED = (
    r"(?<=pdated )(?:today|yesterday|(?:this|last) (?:week|month|year)"
    rf"|in the last (?:\d+ )?(?:{_units('en')}|months?|years?)"
    rf"|(?:over |about |almost )?(?:\d+|an?|one) (?:{_units('en')}|months?|years?) ago)\b"
)
# Whether a text can contain a relative time, and how it is written then.
_PATTERNS: Final = tuple(
    (marker.encode(), re.compile(pattern.encode(), re.IGNORECASE))
    for marker, pattern in (
        (" ago", rf"\b(?:\d+|an?|one) ?(?:{_units('en')}|[smhdw]) ago\b"),
        ("Updated ", _UPDATED),
        ("updated ", _UPDATED),
        ("vor ", rf"\bvor (?:\d+|eine[mr]) (?:{_units('de')})\b"),
        ("il y a ", rf"\bil y a (?:\d+|une?) (?:{_units('fr')})\b"),
        ("hace ", rf"\bhace (?:\d+|una?) (?:{_units('es')})\b"),
        ("há ", rf"há (?:\d+|uma?) (?:{_units('pt')})\b"),
        (" fa", rf"\b(?:\d+|un[ao']?) ?(?:{_units('it')}) fa\b"),
        (" geleden", rf"\b(?:\d+|een) (?:{_units('nl')}) geleden\b"),
        ("назад", r"\d+ (?:секунд|мин|час|ч|дн|день|дня|недел)[^ \n]{0,12} назад"),
        ("منذ ", r"منذ \d+ (?:ثانية|ثوان|دقيقة|دقائق|ساعة|ساعات|يوم|أيام|أسابيع|أسبوع)"),
        ("לפני ", r"לפני \d+ (?:שניות|דקות|שעות|ימים|שבועות)"),
        ("前", r"\d+ ?(?:秒|分钟|分鐘|分|小时|小時|時間|天|日|周|週間)前"),
        ("전", r"\d+ ?(?:초|분|시간|일|주) ?전"),
    )
)


# The first bytes of markers, at most eight, as numbers.
_BEGINNINGS = [marker[:8] for marker, _ in _PATTERNS]
_MARKERS: Final = np.array([int.from_bytes(m, "big") for m in _BEGINNINGS], dtype=np.uint64)
_SIZES: Final = np.array([len(m) for m in _BEGINNINGS], dtype=np.int64)


def _start_tables() -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint16]]:
    """Return three tables by which the first three bytes of markers are found.

    The first has a number for each byte that begins a marker, from 1 on.  The second has a row for
    each of these numbers, with the number of the marker that begins with this byte and another,
    also from 1 on: two markers never begin with the same two bytes.  The third has the third byte
    of each of these.
    """
    firsts = sorted({marker[0] for marker in _BEGINNINGS})
    numbers = np.zeros(256, dtype=np.uint8)
    numbers[firsts] = np.arange(1, len(firsts) + 1)
    markers = np.zeros((len(firsts) + 1, 256), dtype=np.uint8)
    for k, marker in enumerate(_BEGINNINGS):
        markers[numbers[marker[0]], marker[1]] = k + 1
    thirds = np.array([256, *(marker[2] for marker in _BEGINNINGS)], dtype=np.uint16)
    return numbers, markers, thirds


_START_TABLES: Final = _start_tables()


@table_kernel
def _is_letter(sign: int) -> bool:
    return 97 <= sign | 32 <= 122 or sign >= 128


@table_kernel
def _find_markers(
    text: NDArray[np.uint8],
    first_bytes: NDArray[np.uint8],
    second_bytes: NDArray[np.uint8],
    third_bytes: NDArray[np.uint16],
    markers: NDArray[np.uint64],
    sizes: NDArray[np.int64],
    places: NDArray[np.int64],
    numbers: NDArray[np.int64],
) -> int:
    """Write where markers are and which; return how many.  One of ASCII must be a whole word."""
    n = text.size
    n_found = 0
    for i in range(n - 2):
        # One condition that is nearly never true: a processor guesses single bytes wrongly.
        k = int(second_bytes[first_bytes[text[i]], text[i + 1]])
        if third_bytes[k] != text[i + 2]:
            continue
        k -= 1
        size = sizes[k]
        if i + size > n:
            continue
        found = np.uint64(0)
        for place in range(i, i + size):
            found = found << np.uint64(8) | np.uint64(text[place])
        if found != markers[k]:
            continue
        last = text[i + size - 1]
        if last < 128 and last != 32 and i + size < n and _is_letter(text[i + size]):
            continue  # as in " agony"
        first = text[i]
        if first < 128 and first != 32 and i > 0 and _is_letter(text[i - 1]):
            continue  # as in "favor "
        places[n_found] = i
        numbers[n_found] = k
        n_found += 1
        if n_found == places.size:
            break
    return n_found


def drop_relative_times(text: bytes) -> bytes:
    r"""Return a text in UTF-8 of the same size with a mark and spaces instead of relative times.

    A linear search finds the words by which relative times are recognised, such as "ago".  The
    expressions are only applied to a few bytes around them.

    Parameters
    ----------
    text
        Text in UTF-8.

    Examples
    --------
    >>> drop_relative_times("Ada, 3 hours ago".encode()).rstrip()
    b'Ada, \x1f'
    """
    places = np.empty(MARKERS_MAX, dtype=np.int64)
    numbers = np.empty(MARKERS_MAX, dtype=np.int64)
    signs = np.frombuffer(text, dtype=np.uint8)
    count = _find_markers(signs, *_START_TABLES, _MARKERS, _SIZES, places, numbers)
    if not count:
        return text
    changed = bytearray(text)
    for place, number in zip(places[:count].tolist(), numbers[:count].tolist(), strict=True):
        begin = max(place - WINDOW_BYTES, 0)
        for found in _PATTERNS[number][1].finditer(changed[begin : place + WINDOW_BYTES]):
            first, last = begin + found.start(), begin + found.end()
            changed[first:last] = TIME_MARK + b" " * (last - first - 1)
    return bytes(changed)


_DATE_TEXT = (
    "monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun "
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec "
    "montag dienstag mittwoch donnerstag freitag samstag sonntag "
    "januar februar märz mai juni juli oktober dezember okt dez "
    "lundi mardi mercredi jeudi vendredi samedi dimanche "
    "janvier février mars avril juin juillet août septembre octobre novembre décembre "
    "lunes martes miércoles jueves viernes sábado domingo "
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre"
)
DATE_WORDS: Final = tuple(dict.fromkeys(_DATE_TEXT.split()))
"""Names of weekdays and months, in lower case."""
