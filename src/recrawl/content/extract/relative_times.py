"""Times that depend on when a page is fetched: "3 hours ago", and names of days and months.

A relative time says when the page was fetched, not what it contains, so it is not part of a
passage.  Names of weekdays and months belong to dates, so shapes mask them like numbers.
"""

import re
from typing import Final

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


# Whether a text can contain a relative time, and how it is written then.
_PATTERNS: Final = tuple(
    (marker.encode(), re.compile(pattern.encode(), re.IGNORECASE))
    for marker, pattern in (
        (" ago", rf"\b(?:\d+|an?|one) ?(?:{_units('en')}|[smhdw]) ago\b"),
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


def drop_relative_times(text: bytes) -> bytes:
    """Return a text in UTF-8 of the same size with spaces instead of relative times.

    Parameters
    ----------
    text
        Text in UTF-8.

    Examples
    --------
    >>> drop_relative_times("Ada, 3 hours ago".encode()).rstrip()
    b'Ada,'
    """
    for marker, pattern in _PATTERNS:
        if marker in text:
            text = pattern.sub(lambda found: b" " * len(found.group()), text)
    return text


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
