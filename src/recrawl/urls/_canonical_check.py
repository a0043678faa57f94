"""Find URLs that are already canonical, with a kernel that reads each byte once.

Nearly all URLs of a crawl are canonical already.  The kernel says yes only if the URL Standard's
parser and serialiser would return the same bytes, and otherwise leaves the URL to the parser.  A
wrong "no" costs microseconds; a wrong "yes" would give a page two keys.  The tests compare the
kernel with the parser.
"""

import numpy as np

from recrawl.core.arrays import FlagArray
from recrawl.core.kernel import table_kernel
from recrawl.urls._arrow_text import ByteArray, SpanArray, Text

__all__ = ["are_canonical", "host_start"]

_HOST = 1
_PATH = 2
_QUERY = 4
_GRAPHIC = "".join(chr(code) for code in range(0x21, 0x7F))


def _classes() -> ByteArray:
    """Return for each byte the parts of a URL in which it may occur.

    Excluded from paths and queries are the path and special-query percent-encode sets of
    https://url.spec.whatwg.org/#percent-encoded-bytes (as of 2025-03-04, when ``^`` was added to
    the path's), characters that end a path or a query, and in paths the backslash, which counts as
    a slash.  Hosts have only letters, digits, ``-`` and ``_``; dots are checked separately.
    """
    classes = np.zeros(256, np.uint8)
    for characters, place in (
        ("abcdefghijklmnopqrstuvwxyz0123456789-_", _HOST),
        (set(_GRAPHIC) - set('"#<>?^`{}\\'), _PATH),
        (set(_GRAPHIC) - set("\"#<>'"), _QUERY),
    ):
        for character in characters:
            classes[ord(character)] |= place
    return classes


_CLASSES = _classes()
# Unsigned indices avoid numba's check for negative ones, which would double the time.
_ONE = np.uint64(1)
_SLASH, _DOT, _PERCENT, _QUESTION, _COLON = (ord(sign) for sign in "/.%?:")


@table_kernel
def host_start(data: ByteArray, start: int, end: int) -> int:
    """Return the index of the host after ``http://`` or ``https://``, or -1."""
    if end - start < 8 or data[start] != 104:  # h
        return -1
    if data[start + 1] != 116 or data[start + 2] != 116 or data[start + 3] != 112:  # ttp
        return -1
    place = start + 4
    if data[place] == 115:  # s
        place += 1
    if data[place] != _COLON or data[place + 1] != _SLASH or data[place + 2] != _SLASH:
        return -1
    return place + 3


@table_kernel
def _plain_host_end(data: ByteArray, start: int, end: int, classes: ByteArray) -> int:
    """Return the index where a plain host ends and the path begins, or -1.

    Plain: labels of lower-case letters, digits, ``-`` and ``_``, none empty, the last beginning
    with a letter, since a number there makes it an IPv4 address.  IDNA labels (``xn--``) need no
    special treatment: since 2026-06-25 the standard only lowercases ASCII hosts.
    """
    place = np.uint64(start)
    stop = np.uint64(end)
    label = place
    while place < stop:
        byte = data[place]
        if not classes[byte] & _HOST:
            if place == label:
                return -1
            if byte == _SLASH:
                return int(np.int64(place)) if 97 <= data[label] <= 122 else -1  # a to z
            if byte != _DOT:
                return -1
            label = place + _ONE
        place += _ONE
    return -1


@table_kernel
def _may_be_dots(data: ByteArray, start: np.uint64, end: np.uint64) -> bool:
    """Return whether the path segment at start may be ``.`` or ``..``, encoded or not."""
    if start == end:
        return False
    if data[start] == _DOT:
        if start + _ONE == end:
            return True
        after = data[start + _ONE]
        return bool(
            after == _DOT or after == _SLASH or after == _QUESTION or after == _PERCENT  # noqa: PLR1714
        )
    return bool(
        data[start] == _PERCENT
        and start + np.uint64(2) < end
        and data[start + _ONE] == 50  # 2
        and (data[start + np.uint64(2)] | 32) == 101  # e, E
    )


@table_kernel
def _is_plain_rest(data: ByteArray, start: int, end: int, classes: ByteArray) -> bool:
    """Return whether path and query, from the first slash on, would be serialised unchanged."""
    place = np.uint64(start)
    stop = np.uint64(end)
    while place < stop and classes[data[place]] & _PATH:
        place += _ONE
        if data[place - _ONE] == _SLASH and _may_be_dots(data, place, stop):
            return False
    if place == stop:
        return True
    if data[place] != _QUESTION:
        return False
    place += _ONE
    while place < stop and classes[data[place]] & _QUERY:
        place += _ONE
    return bool(place == stop)


@table_kernel
def _find_plain(
    data: ByteArray, offset: SpanArray, n_bytes_max: int, classes: ByteArray, out: FlagArray
) -> None:
    for i in range(out.size):
        start = int(offset[i])
        end = int(offset[i + 1])
        out[i] = False
        if end - start > n_bytes_max:
            continue
        host = host_start(data, start, end)
        if host < 0:
            continue
        path = _plain_host_end(data, host, end, classes)
        out[i] = path >= 0 and _is_plain_rest(data, path, end, classes)


def are_canonical(text: Text, n_bytes_max: int) -> FlagArray:
    """Return for each row whether it is canonical and has at most ``n_bytes_max`` bytes."""
    out = np.empty(text.offset.size - 1, np.bool_)
    _find_plain(text.data, text.offset, n_bytes_max, _CLASSES, out)
    return out
