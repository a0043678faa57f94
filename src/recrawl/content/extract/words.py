"""Split text into passages and words, and hash them, in one pass.

A passage is a line of the extracted text: a paragraph, a list item, a heading, a table row.  It is
compared by its words: letters are folded to lower case, typography and punctuation are dropped, so
that a curly quote or a bullet is not a change.  Signs that carry a meaning stay: currencies,
mathematical signs, per cent, degrees, and a minus before a number.  Each sign of a script without
spaces, such as Chinese, counts as a word.  Random identifiers are dropped where two words stand
before them: words of at least 16 signs that mix letters and digits, and UUIDs, which servers put
into pages to trace requests.  A checksum that stands alone may be the content.  Relative times such
as "3 hours ago" are dropped as well.
"""

import unicodedata
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recrawl.content.extract.relative_times import DATE_WORDS, drop_relative_times
from recrawl.content.extract.utf8 import read_code, write_code
from recrawl.content.xxh3 import PADDING_BYTES, hash_parts
from recrawl.core.kernel import ignore_overflow, table_kernel

__all__ = [
    "SHINGLE_WORDS",
    "PassageColumns",
    "hash_shingles",
    "is_word_sign",
    "passage_hash",
    "share_found",
    "split_passages",
]

HashColumn: TypeAlias = NDArray[np.uint64]

SHINGLE_WORDS: Final = 4
"""Words of a shingle, the fragment that sketches sample."""
LONG_WORD_LENGTH: Final = 24
"""Words of at least this many signs are tokens rather than words; a shape masks them."""
IDENTIFIER_LENGTH: Final = 16
"""Words of at least this many signs that mix letters and digits are random identifiers."""
PASSAGES_READ_MAX: Final = 50_000
"""Passages up to which a text is split; the rest is compared by its bytes."""

_SEPARATOR, _NEWLINE, _IGNORED, _MINUS, _LETTER, _DIGIT, _IDEOGRAPH = range(7)
_BASIC_PLANE = 1 << 16
# Signs of other categories that carry a meaning, and those of the category Sm that decorate.
_MEANINGFUL = "%‰°★☆"
_DECORATION = "|~"


class PassageColumns(NamedTuple):
    """Passages of a text as columns: one row each, in the order of the text."""

    hashes: HashColumn
    """Hash (xxh3, 64 bits) of the words of each passage."""
    n_words: NDArray[np.uint16]
    """Words of each passage, at most 65 535."""
    shapes: NDArray[np.uint32]
    """Hash of each passage without its numbers, tokens and names of days and months; its lowest
    four bits say whether something was left out (1), whether nothing else is there (2), whether a
    sign of a currency is there (4), and whether a relative time was dropped (8)."""
    shingles: NDArray[np.uint32]
    """Hashes of the shingles of all passages, in order."""
    shingle_offsets: NDArray[np.int64]
    """Passage i has the shingles from ``shingle_offsets[i]`` to ``shingle_offsets[i + 1]``."""
    lines: NDArray[np.int64]
    """Number of the line of each passage in the text, from 0."""
    end: int
    """Place in the text up to which it was split: its size, unless it has too many passages."""


@cache
def _tables() -> tuple[NDArray[np.uint8], NDArray[np.uint32], NDArray[np.uint16]]:
    """Return the kind of each code point of the basic plane, and what it is folded to.

    The third table has what is needed of the signs of ASCII: what they are folded to; in bits 8 to
    10 whether they are digits (1), other signs (2), and not hexadecimal (4); in bit 12 whether they
    are a currency; in bit 15 whether they are part of a word.
    """
    kinds = np.empty(_BASIC_PLANE, dtype=np.uint8)
    folded = np.arange(_BASIC_PLANE, dtype=np.uint32)
    for code in range(_BASIC_PLANE):
        sign = chr(code)
        kinds[code] = _kind_of(sign)
        plain = unicodedata.normalize("NFKC", sign).lower()
        if len(plain) == 1 and ord(plain) < _BASIC_PLANE:
            folded[code] = ord(plain)
    # A full-width digit is a digit, a no-break space a space.
    kinds = np.where(kinds == _IGNORED, kinds, kinds[folded])
    kinds[_BASIC_PLANE - 1] = _LETTER  # stands for all code points beyond the basic plane
    flags = np.full(128, 6, dtype=np.uint16)
    flags[ord("0") : ord("9") + 1] = 1
    flags[ord("a") : ord("f") + 1] = 2
    ascii_signs = np.zeros(256, dtype=np.uint16)
    ascii_signs[:128] = folded[:128] | flags[folded[:128]] << 8
    ascii_signs[:128] |= np.where(kinds[:128] >= _LETTER, np.uint16(0x8000), np.uint16(0))
    ascii_signs[ord("$")] |= 0x1000
    return kinds, folded, ascii_signs


def _kind_of(sign: str) -> int:
    category = unicodedata.category(sign)
    if sign == "\n":
        return _NEWLINE
    if sign in "-−":
        return _MINUS
    if category in ("Cf", "Cs") or "\ufe00" <= sign <= "\ufe0f" or sign == "\ufffd":
        return _IGNORED
    if category == "Nd":
        return _DIGIT
    if "\u2e80" <= sign <= "\ua4cf" or "\uf900" <= sign <= "\ufaff" or "\u0e00" <= sign <= "\u0eff":
        return _IDEOGRAPH if category[0] in "LN" else _LETTER if category[0] == "M" else _SEPARATOR
    if category[0] in "LNM" or category in ("Sc", "Sm") or sign in _MEANINGFUL or sign == "_":
        return _SEPARATOR if sign in _DECORATION else _LETTER
    return _SEPARATOR


def is_word_sign(sign: str) -> bool:
    """Return whether a sign counts as a word, as those of scripts without spaces do.

    Parameters
    ----------
    sign
        Character of a text.
    """
    return _kind_of(sign) == _IDEOGRAPH


@table_kernel
def _mix(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return value ^ (value >> np.uint64(32))


# Slots of the table of date words; each word stands in the slot of its lowest bits.
_DATE_SLOTS: Final = 1 << 14


@cache
def _date_words() -> tuple[HashColumn, HashColumn]:
    """Return the hashes of names of weekdays and months, each in its slot, and a bit for each."""
    bits = np.zeros(64, dtype=np.uint64)
    table = np.zeros(_DATE_SLOTS, dtype=np.uint64)
    mask = (1 << 64) - 1
    for word in DATE_WORDS:
        value = 0
        for sign in word:
            value = (value * 0x9E3779B97F4A7C15 + ord(sign) + 1) & mask
        value = ((value ^ value >> 32) * 0xD6E8FEB86659FD93) & mask
        value ^= value >> 32
        table[value % _DATE_SLOTS] = value
        bits[value >> 58] |= np.uint64(1 << (value >> 52 & 63))
    return table, bits


@table_kernel
def _is_hex(sign: int) -> bool:
    return 48 <= sign <= 57 or 97 <= sign | 32 <= 102


@table_kernel
def _uuid_end(text: NDArray[np.uint8], i: int) -> int:
    """Return the end of the UUID whose first eight digits end at ``i``; 0 if there is none."""
    if i + 28 > text.size:
        return 0
    for k in range(28):
        is_dash = k % 5 == 0 and k < 16
        if is_dash != (text[i + k] == 45) or not (is_dash or _is_hex(int(text[i + k]))):
            return 0
    return i + 28


@table_kernel
def _split(  # noqa: PLR0912, PLR0913, PLR0915, PLR0917 - one pass keeps all of it at hand
    text: NDArray[np.uint8],
    kinds: NDArray[np.uint8],
    folded: NDArray[np.uint32],
    ascii_signs: NDArray[np.uint16],
    date_words: NDArray[np.uint64],
    date_bits: NDArray[np.uint64],
    out: NDArray[np.uint8],
    passage_ends: NDArray[np.int64],
    passage_words: NDArray[np.uint16],
    shapes: NDArray[np.uint32],
    lines: NDArray[np.int64],
    shingle_ends: NDArray[np.int64],
    shingles: NDArray[np.uint32],
) -> tuple[int, int]:
    """Write the columns; return the number of passages, and where in the text they end."""
    n = text.size
    factor_1 = np.uint64(0x9FB21C651E98DF25)
    factor_2 = np.uint64(0xC2B2AE3D27D4EB4F)
    factor_3 = np.uint64(0x165667B19E3779F9)
    nothing = np.uint64(0)
    n_out = 0
    n_passages = 0
    n_shingles = 0
    line = 0
    n_words = 0
    # The last three words of the passage, latest first, and the hash of its first three.
    word_1 = nothing
    word_2 = nothing
    word_3 = nothing
    first_words = nothing
    shape = nothing
    shape_flags = 2
    last_masked = nothing
    is_in_word = False
    was_gap = False
    value = nothing
    word_start = 0
    length = 0
    flags = 0
    last_kind = 0
    i = 0
    while i <= n:
        code = 10
        after = i + 1
        if i < n:
            code = int(text[i])
        if code < 0x80:
            kind = int(kinds[code])
        else:
            code, after = read_code(text, i)
            kind = int(kinds[min(code, 0xFFFF)])
        if kind == 2:
            i = after
            continue
        if kind == 3:
            # A minus counts before a digit unless it connects two words, as in 2020-2021.
            kind = 0
            if not is_in_word and after < n and 48 <= text[after] <= 57:
                kind = 4
            if is_in_word and length == 8 and flags & 4 == 0 and code == 45 and n_words >= 2:
                end = _uuid_end(text, i)
                if end > 0:
                    is_in_word = False
                    n_out = word_start
                    was_gap = True
                    last_kind = 0
                    i = end
                    continue
            code = 45
        is_word = kind >= 4
        if is_in_word and (not is_word or kind == 6 or last_kind == 6):
            # A word ends.
            is_in_word = False
            # An identifier after two words or more; one that stands alone may be the content.
            is_mixed = flags & 3 == 3 or flags & 7 == 2
            if length >= 16 and is_mixed and flags & 8 == 0 and n_words >= 2:
                n_out = word_start
                was_gap = True
            else:
                word = _mix(value)
                n_words += 1
                if n_words >= 4:
                    total = word_3 + word_2 * factor_1 + word_1 * factor_2 + word * factor_3
                    shingles[n_shingles] = np.uint32(_mix(total) >> np.uint64(32))
                    n_shingles += 1
                elif n_words == 1:
                    first_words = word
                elif n_words == 2:
                    first_words += word * factor_1
                else:
                    first_words += word * factor_2
                word_3 = word_2
                word_2 = word_1
                word_1 = word
                is_token = flags & 1 != 0 or length >= 24
                # One bit for each of 4 096 words is read first, since the table is large.
                bits = date_bits[np.int64(word >> np.uint64(58))]
                if (bits >> (word >> np.uint64(52) & np.uint64(63))) & np.uint64(1) != nothing:
                    is_token = is_token or date_words[np.int64(word & np.uint64(16383))] == word
                if is_token:
                    shape_flags |= 1
                else:
                    shape_flags &= 13
                    shape += _mix(word + last_masked * factor_1)
                    last_masked = word
        if is_word:
            if not is_in_word:
                is_in_word = True
                word_start = n_out
                if n_words > 0 and was_gap:
                    out[n_out] = 32
                    n_out += 1
                value = nothing
                length = 0
                flags = 0
            was_gap = False
            if code < 0x80:
                # Most words are ASCII: read on as long as they are.
                sign = ascii_signs[code]
                seen = np.uint16(0)
                length -= n_out
                while True:
                    out[n_out] = sign & 0xFF
                    n_out += 1
                    value = value * np.uint64(0x9E3779B97F4A7C15) + np.uint64((sign & 0xFF) + 1)
                    seen |= sign
                    if after >= n:
                        break
                    sign = ascii_signs[text[after]]
                    if sign < 0x8000:
                        break
                    after += 1
                length += n_out
                flags |= (int(seen) >> 8) & 15
                if seen & 0x1000:
                    shape_flags |= 4
                kind = 4
            else:
                if code < 0x10000:
                    code = int(folded[code])
                if 0xA2 <= code <= 0xA5 or 0x20A0 <= code <= 0x20CF:
                    shape_flags |= 4
                n_out = write_code(out, n_out, code)
                value = value * np.uint64(0x9E3779B97F4A7C15) + np.uint64(code + 1)
                length += 1
                if code < 0x80:
                    flags |= (int(ascii_signs[code]) >> 8) & 15
                else:
                    flags |= 13 if kind == 5 else 12
        else:
            was_gap = True
            if code == 31:
                shape_flags |= 8
            if kind == 1:
                if n_words > 0:
                    # A passage ends; one with fewer words than a shingle has one all the same.
                    if n_words < 4:
                        shingles[n_shingles] = np.uint32(_mix(first_words) >> np.uint64(32))
                        n_shingles += 1
                    passage_ends[n_passages] = n_out
                    passage_words[n_passages] = min(n_words, 0xFFFF)
                    masked = _mix(shape) >> np.uint64(32)
                    shapes[n_passages] = np.uint32(masked & ~np.uint64(15)) | np.uint32(shape_flags)
                    lines[n_passages] = line
                    shingle_ends[n_passages] = n_shingles
                    n_passages += 1
                    if n_passages == passage_ends.size:
                        return n_passages, min(after, n)
                n_words = 0
                shape = nothing
                shape_flags = 2
                last_masked = nothing
                was_gap = False
                line += 1
        last_kind = kind
        i = after
    return n_passages, n


_split_words = ignore_overflow(_split)


def split_passages(text: bytes) -> PassageColumns:
    """Return the passages of a text: its lines that contain at least one word.

    Parameters
    ----------
    text
        Text in UTF-8 with one passage per line.
    """
    out, ends, columns = _split_into_columns(text)
    return columns._replace(hashes=hash_parts(out, ends))


def hash_shingles(text: bytes) -> NDArray[np.uint32]:
    """Return the hashes of the shingles of a text.

    Parameters
    ----------
    text
        Text in UTF-8 with one passage per line.
    """
    return _split_into_columns(text)[2].shingles


def _split_into_columns(
    text: bytes,
) -> tuple[NDArray[np.uint8], NDArray[np.int64], PassageColumns]:
    """Return the folded words of all passages, where each ends, and the columns of passages.

    The words have room after the last passage, which `hash_parts` needs.  The column of hashes is
    left empty.
    """
    text = drop_relative_times(text)
    n = len(text)
    # A word of letters takes two bytes at least; a folded sign may take three instead of two.
    n_max = n // 2 + 2
    n_passages_max = min(text.count(b"\n") + 1, PASSAGES_READ_MAX)
    out = np.empty(n + n // 2 + PADDING_BYTES, dtype=np.uint8)
    ends = np.empty(n_passages_max, dtype=np.int64)
    words = np.empty(n_passages_max, dtype=np.uint16)
    shapes = np.empty(n_passages_max, dtype=np.uint32)
    lines = np.empty(n_passages_max, dtype=np.int64)
    offsets = np.empty(n_passages_max + 1, dtype=np.int64)
    offsets[0] = 0
    shingles = np.empty(n_max, dtype=np.uint32)
    count, end = _split_words(
        np.frombuffer(text, dtype=np.uint8),
        *_tables(),
        *_date_words(),
        out,
        ends,
        words,
        shapes,
        lines,
        offsets[1:],
        shingles,
    )
    columns = PassageColumns(
        np.empty(0, dtype=np.uint64),
        words[:count],
        shapes[:count],
        shingles[: offsets[count]].copy(),  # there is room for many more
        offsets[: count + 1],
        lines[:count],
        end,
    )
    return out, ends[:count], columns


@table_kernel
def _count_found(
    shingles: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    others: NDArray[np.uint32],
    table: NDArray[np.uint32],
    n_found: NDArray[np.int64],
) -> None:
    mask = table.size - 1
    for k in range(others.size):
        slot = int(others[k]) & mask
        while table[slot] != 0 and table[slot] != others[k]:
            slot = (slot + 1) & mask
        table[slot] = others[k]
    for row in range(n_found.size):
        for k in range(offsets[row], offsets[row + 1]):
            slot = int(shingles[k]) & mask
            while table[slot] != 0:
                if table[slot] == shingles[k]:
                    n_found[row] += 1
                    break
                slot = (slot + 1) & mask


def share_found(passages: PassageColumns, others: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Return for each passage the share of its shingles that are found in another text.

    Parameters
    ----------
    passages
        Passages that are looked for.
    others
        Hashes of the shingles of the other text.
    """
    n_found = np.zeros(passages.hashes.size, dtype=np.int64)
    size = 1 << max(4, (2 * others.size).bit_length())
    table = np.zeros(size, dtype=np.uint32)
    _count_found(passages.shingles, passages.shingle_offsets, others, table, n_found)
    return n_found / np.diff(passages.shingle_offsets)


def passage_hash(text: str) -> int | None:
    """Return the hash under which a passage appears in the change feed; None if it has no words.

    Parameters
    ----------
    text
        Passage, on one line.

    Examples
    --------
    Letter case, quotes and spaces do not count, words and signs do:

    >>> passage_hash("“Price”:  $5") == passage_hash("price: $5")
    True
    >>> passage_hash("Price: $5") == passage_hash("Price: €5")
    False
    """
    columns = split_passages(text.replace("\n", " ").encode("utf-8", "replace"))
    return int(columns.hashes[0]) if columns.hashes.size else None
