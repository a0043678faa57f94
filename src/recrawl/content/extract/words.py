"""Split text into passages and words, and hash them, with whole-array operations.

A passage is a line of the extracted text: a paragraph, a list item, a heading, a table row.  It is
compared by its words: letters are folded to lower case, typography and punctuation are dropped, so
that a curly quote or a bullet is not a change.  Signs that carry a meaning stay: currencies,
mathematical signs, per cent, degrees, and a minus before a number.  Each sign of a script without
spaces, such as Chinese, counts as a word.
"""

import unicodedata
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

__all__ = ["SHINGLE_WORDS", "PassageColumns", "passage_hash", "split_passages"]

HashColumn: TypeAlias = NDArray[np.uint64]

SHINGLE_WORDS: Final = 4
"""Words of a shingle, the fragment that sketches sample."""
LONG_WORD_LENGTH: Final = 24
"""Words of at least this many signs are tokens rather than words; a shape masks them."""

_SEPARATOR, _NEWLINE, _IGNORED, _MINUS, _LETTER, _DIGIT, _IDEOGRAPH = range(7)
_BLOCK = 1 << 16
# Signs of other categories that carry a meaning, and those of the category Sm that decorate.
_MEANINGFUL = "%‰°★☆"
_DECORATION = "|~"
_U64 = np.uint64
_BASE = _U64(0x9E3779B97F4A7C15)
_MIX = _U64(0xD6E8FEB86659FD93)
_FACTORS = np.array([0x9FB21C651E98DF25, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=_U64)
_MASKED = _U64(0x27D4EB2F165667C5)


class PassageColumns(NamedTuple):
    """Passages of a text as columns: one row each, in the order of the text."""

    hashes: HashColumn
    """Hash (xxh3, 64 bits) of the words of each passage."""
    n_words: NDArray[np.int64]
    shapes: NDArray[np.uint32]
    """Hash of each passage with its numbers and tokens masked."""
    shingles: NDArray[np.uint32]
    """Hashes of the shingles of all passages, in order."""
    shingle_offsets: NDArray[np.int64]
    """Passage i has the shingles from ``shingle_offsets[i]`` to ``shingle_offsets[i + 1]``."""
    lines: NDArray[np.int64]
    """Number of the line of each passage in the text, from 0."""


@cache
def _tables() -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Return the kind of each code point of the basic plane, and what it is folded to."""
    kinds = np.empty(_BLOCK, dtype=np.uint8)
    folded = np.arange(_BLOCK, dtype=np.uint32)
    for code in range(_BLOCK):
        sign = chr(code)
        kinds[code] = _kind_of(sign)
        plain = unicodedata.normalize("NFKC", sign).lower()
        if len(plain) == 1 and ord(plain) < _BLOCK:
            folded[code] = ord(plain)
    # A full-width digit is a digit, a no-break space a space.
    kinds = np.where(kinds == _IGNORED, kinds, kinds[folded])
    kinds[_BLOCK - 1] = _LETTER  # stands for all code points beyond the basic plane
    return kinds, folded


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


@cache
def _powers() -> tuple[HashColumn, HashColumn, HashColumn, HashColumn]:
    """Return powers of the base below 2¹⁶ and at multiples of it, and their inverses modulo 2⁶⁴."""
    inverse = _U64(pow(int(_BASE), -1, 1 << 64))
    tables = []
    for base in (_BASE, inverse):
        low = np.full(_BLOCK, base, dtype=_U64)
        low[0] = 1
        low = np.cumprod(low, dtype=_U64)
        high = np.full(1024, low[-1:] * base, dtype=_U64)
        high[0] = 1
        tables += [low, np.cumprod(high, dtype=_U64)]
    return tables[0], tables[1], tables[2], tables[3]


def _mix(values: HashColumn) -> HashColumn:
    values = (values ^ (values >> _U64(32))) * _MIX
    return values ^ (values >> _U64(32))


def split_passages(text: str) -> PassageColumns:
    """Return the passages of a text: its lines that contain at least one word.

    Parameters
    ----------
    text
        Extracted text with one passage per line; at most 2²⁶ signs.
    """
    kinds, codes = _read_signs(text)
    is_word = kinds >= _LETTER
    before = np.empty_like(is_word)
    before[:1] = False
    before[1:] = is_word[:-1]
    is_ideograph = kinds == _IDEOGRAPH
    is_start = is_word & ~before
    has_ideographs = bool(is_ideograph.any())
    if has_ideographs:
        is_start |= is_ideograph
        is_start[1:] |= is_word[1:] & is_ideograph[:-1]
    starts = np.flatnonzero(is_start)
    if not starts.size:
        return _no_passages()
    newlines = np.flatnonzero(kinds == _NEWLINE)
    line_of_word = np.searchsorted(newlines, starts)
    is_first = np.empty(starts.size, dtype=bool)
    is_first[0] = True
    np.not_equal(line_of_word[1:], line_of_word[:-1], out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    n_words = np.diff(firsts, append=starts.size)

    ends = np.flatnonzero(is_word[:-1] & ~is_word[1:]) + 1
    if is_word[-1]:
        ends = np.append(ends, is_word.size)
    if has_ideographs:
        ends = np.minimum(
            ends[np.searchsorted(ends, starts, side="right")], np.append(starts[1:], is_word.size)
        )
    word_hashes = _hash_words(codes, starts, ends)
    passage_of_word = np.cumsum(is_first)
    is_token = np.logical_or.reduceat(kinds == _DIGIT, starts) | (ends - starts >= LONG_WORD_LENGTH)
    shingles, offsets = _hash_shingles(word_hashes, passage_of_word, firsts, n_words)
    return PassageColumns(
        _hash_passages(codes, is_word, before, kinds),
        n_words,
        _hash_shapes(word_hashes, is_token, passage_of_word, firsts),
        shingles,
        offsets,
        line_of_word[firsts],
    )


def _no_passages() -> PassageColumns:
    no_rows = np.empty(0, dtype=np.int64)
    no_hashes = np.empty(0, dtype=np.uint32)
    return PassageColumns(
        np.empty(0, dtype=_U64), no_rows, no_hashes, no_hashes, np.zeros(1, dtype=np.int64), no_rows
    )


def _read_signs(text: str) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Return the kind of each sign and the code point that it is folded to."""
    kind_table, fold_table = _tables()
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    places = np.minimum(codes, _BLOCK - 1)
    kinds = kind_table[places]
    is_ignored = kinds == _IGNORED
    if is_ignored.any():
        codes, places, kinds = codes[~is_ignored], places[~is_ignored], kinds[~is_ignored]
    folded = fold_table[places]
    beyond = codes >= _BLOCK
    if beyond.any():
        folded[beyond] = codes[beyond]
    minus = np.flatnonzero(kinds == _MINUS)
    if minus.size:
        # A minus counts before a digit unless it connects two words, as in 2020-2021.
        padded = np.concatenate([kinds[:1] * 0, kinds, kinds[:1] * 0])
        is_sign = (padded[minus + 2] == _DIGIT) & (padded[minus] < _MINUS)
        kinds[minus] = np.where(is_sign, _LETTER, _SEPARATOR)
        folded[minus] = ord("-")
    return kinds, folded


def _hash_words(
    codes: NDArray[np.uint32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> HashColumn:
    # The hash of the word s..e-1 is  Σ c_i·b^(i-s)  modulo 2⁶⁴, read from prefix sums of c_i·b^i.
    low, high, inverse_low, inverse_high = _powers()
    n = codes.size
    if n <= _BLOCK:
        powers = low[:n]
    else:
        n_blocks = -(-n // _BLOCK)
        powers = (high[:n_blocks, None] * low).reshape(-1)[:n]
    sums = np.empty(n + 1, dtype=_U64)
    sums[0] = 0
    np.cumsum(codes * powers, out=sums[1:])
    scale = inverse_low[starts & (_BLOCK - 1)] * inverse_high[starts >> 16]
    return _mix((sums[ends] - sums[starts]) * scale)


def _hash_shingles(
    word_hashes: HashColumn,
    passage_of_word: NDArray[np.int64],
    firsts: NDArray[np.int64],
    n_words: NDArray[np.int64],
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the shingles inside each passage; one shorter than a shingle has one."""
    sums = word_hashes.copy()
    is_inside = np.ones(0, dtype=bool)
    for k in range(1, SHINGLE_WORDS):
        if word_hashes.size <= k:
            is_inside = np.zeros(0, dtype=bool)
            break
        is_inside = passage_of_word[k:] == passage_of_word[:-k]
        sums[:-k] += np.where(is_inside, word_hashes[k:] * _FACTORS[k - 1], _U64(0))
    is_shingle = np.zeros(word_hashes.size, dtype=bool)
    is_shingle[: is_inside.size] = is_inside
    is_shingle[firsts] = True  # also of a passage with fewer words
    n_shingles = np.maximum(n_words - (SHINGLE_WORDS - 1), 1)
    offsets = np.zeros(firsts.size + 1, dtype=np.int64)
    np.cumsum(n_shingles, out=offsets[1:])
    return (_mix(sums[is_shingle]) >> _U64(32)).astype(np.uint32), offsets


def _hash_shapes(
    word_hashes: HashColumn,
    is_token: NDArray[np.bool_],
    passage_of_word: NDArray[np.int64],
    firsts: NDArray[np.int64],
) -> NDArray[np.uint32]:
    """Return the hash of each passage in which runs of numbers and tokens are one sign."""
    masked = np.where(is_token, _MASKED, word_hashes)
    pairs = masked.copy()
    pairs[1:] += (
        np.where(passage_of_word[1:] == passage_of_word[:-1], masked[:-1], _U64(0)) * _FACTORS[0]
    )
    pairs = _mix(pairs)
    is_repeated = is_token[1:] & is_token[:-1] & (passage_of_word[1:] == passage_of_word[:-1])
    pairs[1:][is_repeated] = 0
    return (_mix(np.add.reduceat(pairs, firsts)) >> _U64(32)).astype(np.uint32)


def _hash_passages(
    codes: NDArray[np.uint32],
    is_word: NDArray[np.bool_],
    before: NDArray[np.bool_],
    kinds: NDArray[np.uint8],
) -> HashColumn:
    is_newline = kinds == _NEWLINE
    is_kept = is_word | before | is_newline
    plain = np.where(is_word | is_newline, codes, np.uint32(32))[is_kept]
    lines = plain.tobytes().decode("utf-32-le", "ignore").encode().split(b"\n")
    digest = xxhash.xxh3_64_intdigest
    return np.array([digest(line) for line in map(bytes.strip, lines) if line], dtype=_U64)


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
    columns = split_passages(text.replace("\n", " "))
    return int(columns.hashes[0]) if columns.hashes.size else None
