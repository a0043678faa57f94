"""Find the passages of a page that belong to its main text."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from recrawl.content.extract.attributes import find_sign, is_space
from recrawl.content.extract.words import PassageColumns, hash_shingles, share_found
from recrawl.core.kernel import ignore_overflow, table_kernel

__all__ = ["find_main"]

SHARE_MIN: Final = 0.5
"""Share of its shingles that a passage must have in the main text to belong to it."""
OTHERS_SHARE_MAX: Final = 0.05
"""Share of the main text whose lines may not be lines of the page before shingles are compared."""


@table_kernel
def _hash_part(
    signs: NDArray[np.uint8], words: NDArray[np.uint64], start: int, end: int
) -> np.uint64:
    """Return a hash of a part of a text, with zeros in its lowest two bits."""
    value = np.uint64(end - start)
    i = start
    while i < end:
        k = i >> 3
        word = np.uint64(0)
        if i + 8 <= end and k + 1 < words.size:
            shift = np.uint64((i & 7) << 3)
            word = words[k] >> shift
            if shift != np.uint64(0):
                word |= words[k + 1] << (np.uint64(64) - shift)
        else:
            for place in range(i, min(i + 8, end)):
                word |= np.uint64(signs[place]) << np.uint64((place - i) << 3)
        value = (value ^ word) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(29)
        i += 8
    value *= np.uint64(0xD6E8FEB86659FD93)
    return np.uint64((value >> np.uint64(2)) << np.uint64(2))


@table_kernel
def _find_line(value: np.uint64, lines: NDArray[np.uint64]) -> int:
    """Return the slot of a line, or the one that is free for it."""
    slot = np.int64(value >> np.uint64(40)) & (lines.size - 1)
    while lines[slot] != np.uint64(0) and (lines[slot] ^ value) >> np.uint64(2) != np.uint64(0):
        slot = (slot + 1) & (lines.size - 1)
    return int(slot)


@table_kernel
def _compare_lines(
    text: NDArray[np.uint8],
    text_words: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    main: NDArray[np.uint8],
    main_words: NDArray[np.uint64],
    lines: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
    is_main: NDArray[np.bool_],
    others: NDArray[np.uint8],
) -> tuple[int, int]:
    """Mark the passages whose lines are lines of the main text; collect the other lines of it.

    Returns the size of the other lines without and with line breaks; -1 if the table of lines is
    too small.  Its lowest two bits say whether each is a line of the page (1), of the main text (2)
    or of both (3).
    """
    start = 0
    number = 0
    for row in range(numbers.size):
        while number < numbers[row]:
            start = find_sign(text, text_words, start, 10) + 1
            number += 1
        end = find_sign(text, text_words, start, 10)
        hashes[row] = _hash_part(text, text_words, start, end)
        lines[_find_line(hashes[row], lines)] = hashes[row] | np.uint64(1)
        start = end + 1
        number += 1
    n_free = lines.size // 2 - numbers.size
    n_others = 0
    n_written = 0
    start = 0
    while start < main.size:
        end = find_sign(main, main_words, start, 10)
        first = start
        last = end
        while first < last and is_space(main[first]):
            first += 1
        while last > first and is_space(main[last - 1]):
            last -= 1
        start = end + 1
        if first == last:
            continue
        value = _hash_part(main, main_words, first, last)
        slot = _find_line(value, lines)
        if lines[slot] == np.uint64(0):
            n_free -= 1
            if n_free <= 0:
                return -1, 0
            lines[slot] = value | np.uint64(2)
            n_others += last - first
            for place in range(first, last):
                others[n_written] = main[place]
                n_written += 1
            others[n_written] = 10
            n_written += 1
        else:
            lines[slot] |= np.uint64(2)
    for row in range(numbers.size):
        is_main[row] = lines[_find_line(hashes[row], lines)] & np.uint64(3) == np.uint64(3)
    return n_others, n_written


_mark_lines = ignore_overflow(_compare_lines)


def find_main(columns: PassageColumns, text: bytes, main_text: bytes) -> NDArray[np.bool_]:
    """Return which passages are part of the main text.

    Lines are compared as they are, by hashes of 62 bits, which is fast.  resiliparse divides some
    blocks into other lines; their shingles of words are compared.

    Parameters
    ----------
    columns
        Passages of the page.
    text
        Text of the page, one passage per line, without repeated white space.
    main_text
        Main text of the page as resiliparse finds it, in UTF-8.
    """
    n_passages = columns.lines.size
    found = np.empty(n_passages, dtype=bool)
    others = np.empty(len(main_text) + 1, dtype=np.uint8)
    n_slots = 1 << (4 * n_passages + 256).bit_length()
    n_others = n_written = -1
    while n_others < 0:
        # Most lines of the main text are lines of the page, so the table is seldom too small.
        n_others, n_written = _mark_lines(
            np.frombuffer(text, dtype=np.uint8),
            np.frombuffer(text, dtype=np.uint64, count=len(text) >> 3),
            columns.lines,
            np.frombuffer(main_text, dtype=np.uint8),
            np.frombuffer(main_text, dtype=np.uint64, count=len(main_text) >> 3),
            np.zeros(n_slots, dtype=np.uint64),
            np.empty(n_passages, dtype=np.uint64),
            found,
            others,
        )
        n_slots *= 16
    if n_others > OTHERS_SHARE_MAX * len(main_text):
        found |= share_found(columns, hash_shingles(others[:n_written].tobytes())) >= SHARE_MIN
    return found
