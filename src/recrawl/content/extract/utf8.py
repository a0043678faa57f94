"""Code points of text in UTF-8, for compiled passes over bytes."""

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel

__all__ = ["read_code", "write_code"]


@table_kernel
def read_code(text: NDArray[np.uint8], i: int) -> tuple[int, int]:
    """Return the code point at a place of a text in UTF-8, and the place after it.

    A byte that is not valid there counts as the replacement character.
    """
    n = text.size
    first = int(text[i])
    if first < 0x80:
        return first, i + 1
    if 0xC2 <= first < 0xE0 and i + 1 < n:
        second = int(text[i + 1]) ^ 0x80
        if second < 0x40:
            return (first & 0x1F) << 6 | second, i + 2
    elif 0xE0 <= first < 0xF0 and i + 2 < n:
        second = int(text[i + 1]) ^ 0x80
        third = int(text[i + 2]) ^ 0x80
        if second < 0x40 and third < 0x40:
            return (first & 0x0F) << 12 | second << 6 | third, i + 3
    elif 0xF0 <= first < 0xF5 and i + 3 < n:
        second = int(text[i + 1]) ^ 0x80
        third = int(text[i + 2]) ^ 0x80
        fourth = int(text[i + 3]) ^ 0x80
        if second < 0x40 and third < 0x40 and fourth < 0x40:
            return (first & 0x07) << 18 | second << 12 | third << 6 | fourth, i + 4
    return 0xFFFD, i + 1


@table_kernel
def write_code(out: NDArray[np.uint8], place: int, code: int) -> int:
    """Write a code point in UTF-8, and return the place after it."""
    if code < 0x80:
        out[place] = code
        return place + 1
    if code < 0x800:
        out[place] = 0xC0 | code >> 6
        out[place + 1] = 0x80 | code & 0x3F
        return place + 2
    if code < 0x10000:
        out[place] = 0xE0 | code >> 12
        out[place + 1] = 0x80 | code >> 6 & 0x3F
        out[place + 2] = 0x80 | code & 0x3F
        return place + 3
    out[place] = 0xF0 | code >> 18
    out[place + 1] = 0x80 | code >> 12 & 0x3F
    out[place + 2] = 0x80 | code >> 6 & 0x3F
    out[place + 3] = 0x80 | code & 0x3F
    return place + 4
