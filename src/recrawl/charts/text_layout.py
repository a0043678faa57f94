"""Escape, measure and shorten text for pictures and pages, without access to fonts."""

import html
import re

from recrawl.safe_text import escape_controls

__all__ = ["escape_text", "shorten_text", "text_width"]

# Characters that XML 1.0 does not allow, even escaped; lone surrogates are among them.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Narrow and wide characters; widths are estimated on the wide side of common fonts.
_NARROW, _WIDE = frozenset("iIjl.,:;'|!()[]/ \u202f"), frozenset("mwMW@%—…")


def escape_text(text: object) -> str:
    """Escape text for XML, HTML and their attributes; control characters become visible."""
    visible = escape_controls(str(text), keep_newlines=True)
    return html.escape(_FORBIDDEN.sub("\ufffd", visible), quote=True)


def text_width(text: str, size: float) -> float:
    """Return the approximate width of a text, in the unit of the font size."""
    ems = 0.0
    for character in text:
        if character in _NARROW:
            ems += 0.34
        elif character in _WIDE:
            ems += 0.92
        elif character.isupper():
            ems += 0.7
        else:
            ems += 0.6 if ord(character) < 0x2E80 else 1.0
    return ems * size


def shorten_text(text: str, size: float, width_max: float) -> str:
    """Return a text on one line; one that is too wide is shortened in the middle."""
    text = " ".join(str(text).split())
    if text_width(text, size) <= width_max:
        return text
    # Both ends of a URL are more informative than its first part alone.
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if text_width(_with_gap(text, middle), size) <= width_max:
            low = middle
        else:
            high = middle - 1
    return _with_gap(text, low)


def _with_gap(text: str, n_kept: int) -> str:
    tail = n_kept * 2 // 5
    return text[: n_kept - tail].rstrip() + "…" + (text[-tail:].lstrip() if tail else "")
