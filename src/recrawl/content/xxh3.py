"""Hash many short texts at once with xxh3 (64 bits), as the package xxhash does it for one.

A page has some hundred passages; calling a function of Python for each takes longer than hashing
them.  The algorithm is that of the specification, with seed 0 and the default secret.
"""

from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from recrawl.core.kernel import IS_COMPILED, ignore_overflow, table_kernel

__all__ = ["PADDING_BYTES", "hash_parts"]

PADDING_BYTES: Final = 16
"""Bytes after the last part that a text must have, since eight bytes are read at once."""

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


@cache
def _secret() -> NDArray[np.uint64]:
    """Return the eight bytes at each place of the secret as a number."""
    size = len(_SECRET) - 7
    return np.array(
        [int.from_bytes(_SECRET[k : k + 8], "little") for k in range(size)], dtype=np.uint64
    )


@table_kernel
def _read_word(words: NDArray[np.uint64], place: int) -> np.uint64:
    """Return the eight bytes at any place."""
    k = place >> 3
    shift = np.uint64((place & 7) << 3)
    # Shifting by 64 is not defined, so the upper part is shifted twice.
    upper = (words[k + 1] << (np.uint64(63) - shift)) << np.uint64(1)
    return np.uint64((words[k] >> shift) | upper)


@table_kernel
def _fold(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return both halves of the product of 128 bits, combined."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    low_low = (a & low) * (b & low)
    high_low = (a >> half) * (b & low)
    low_high = (a & low) * (b >> half)
    high_high = (a >> half) * (b >> half)
    cross = (low_low >> half) + (high_low & low) + low_high
    upper = (high_low >> half) + (cross >> half) + high_high
    return upper ^ ((cross << half) | (low_low & low))


@table_kernel
def _avalanche(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(37))) * np.uint64(0x165667919E3779F9)
    return value ^ (value >> np.uint64(32))


@table_kernel
def _mix_16(
    words: NDArray[np.uint64], place: int, secret: NDArray[np.uint64], key: int
) -> np.uint64:
    return _fold(
        _read_word(words, place) ^ secret[key], _read_word(words, place + 8) ^ secret[key + 8]
    )


@table_kernel
def _rotate(value: np.uint64, n_bits: int) -> np.uint64:
    return (value << np.uint64(n_bits)) | (value >> np.uint64(64 - n_bits))


@table_kernel
def _swap_bytes(value: np.uint64) -> np.uint64:
    mask = np.uint64(0x00FF00FF00FF00FF)
    value = ((value >> np.uint64(8)) & mask) | ((value & mask) << np.uint64(8))
    mask = np.uint64(0x0000FFFF0000FFFF)
    value = ((value >> np.uint64(16)) & mask) | ((value & mask) << np.uint64(16))
    return (value >> np.uint64(32)) | (value << np.uint64(32))


@table_kernel
def _hash_to_16(
    words: NDArray[np.uint64], start: int, size: int, secret: NDArray[np.uint64]
) -> np.uint64:
    low = np.uint64(0xFFFFFFFF)
    if size > 8:
        first = _read_word(words, start) ^ (secret[24] ^ secret[32])
        last = _read_word(words, start + size - 8) ^ (secret[40] ^ secret[48])
        return _avalanche(np.uint64(size) + _swap_bytes(first) + last + _fold(first, last))
    if size >= 4:
        first = _read_word(words, start) & low
        last = _read_word(words, start + size - 4) & low
        value = (last + (first << np.uint64(32))) ^ (secret[8] ^ secret[16])
        value ^= _rotate(value, 49) ^ _rotate(value, 24)
        value *= np.uint64(0x9FB21C651E98DF25)
        value ^= (value >> np.uint64(35)) + np.uint64(size)
        value *= np.uint64(0x9FB21C651E98DF25)
        return np.uint64(value ^ (value >> np.uint64(28)))
    if size > 0:
        byte = np.uint64(255)
        first = _read_word(words, start) & byte
        middle = _read_word(words, start + (size >> 1)) & byte
        last = _read_word(words, start + size - 1) & byte
        value = (first << np.uint64(16)) | (middle << np.uint64(24)) | last
        value |= np.uint64(size << 8)
        value ^= (secret[0] & low) ^ (secret[4] & low)
    else:
        value = secret[56] ^ secret[64]
    value = (value ^ (value >> np.uint64(33))) * np.uint64(0xC2B2AE3D27D4EB4F)
    value = (value ^ (value >> np.uint64(29))) * np.uint64(0x165667B19E3779F9)
    return np.uint64(value ^ (value >> np.uint64(32)))


@table_kernel
def _hash_to_240(
    words: NDArray[np.uint64], start: int, size: int, secret: NDArray[np.uint64]
) -> np.uint64:
    value = np.uint64(size) * np.uint64(0x9E3779B185EBCA87)
    end = start + size
    if size <= 128:
        n_pairs = (size - 1) >> 5
        for k in range(n_pairs + 1):
            value += _mix_16(words, start + 16 * k, secret, 32 * k)
            value += _mix_16(words, end - 16 * (k + 1), secret, 32 * k + 16)
        return _avalanche(value)
    for k in range(8):
        value += _mix_16(words, start + 16 * k, secret, 16 * k)
    value = _avalanche(value)
    for k in range(8, size >> 4):
        value += _mix_16(words, start + 16 * k, secret, 16 * (k - 8) + 3)
    value += _mix_16(words, end - 16, secret, 119)
    return _avalanche(value)


@table_kernel
def _add_stripe(
    words: NDArray[np.uint64],
    place: int,
    secret: NDArray[np.uint64],
    key: int,
    sums: NDArray[np.uint64],
) -> None:
    for k in range(8):
        word = _read_word(words, place + 8 * k)
        keyed = word ^ secret[key + 8 * k]
        sums[k ^ 1] += word
        sums[k] += (keyed & np.uint64(0xFFFFFFFF)) * (keyed >> np.uint64(32))


@table_kernel
def _hash_long(
    words: NDArray[np.uint64],
    start: int,
    size: int,
    secret: NDArray[np.uint64],
    sums: NDArray[np.uint64],
) -> np.uint64:
    sums[0] = np.uint64(0xC2B2AE3D)
    sums[1] = np.uint64(0x9E3779B185EBCA87)
    sums[2] = np.uint64(0xC2B2AE3D27D4EB4F)
    sums[3] = np.uint64(0x165667B19E3779F9)
    sums[4] = np.uint64(0x85EBCA77C2B2AE63)
    sums[5] = np.uint64(0x85EBCA77)
    sums[6] = np.uint64(0x27D4EB2F165667C5)
    sums[7] = np.uint64(0x9E3779B1)
    n_stripes = (size - 1) >> 6
    for stripe in range(n_stripes):
        _add_stripe(words, start + 64 * stripe, secret, 8 * (stripe & 15), sums)
        if stripe & 15 == 15:
            for k in range(8):
                value = sums[k] ^ (sums[k] >> np.uint64(47)) ^ secret[128 + 8 * k]
                sums[k] = value * np.uint64(0x9E3779B1)
    _add_stripe(words, start + size - 64, secret, 121, sums)
    value = np.uint64(size) * np.uint64(0x9E3779B185EBCA87)
    for k in range(4):
        value += _fold(sums[2 * k] ^ secret[11 + 16 * k], sums[2 * k + 1] ^ secret[19 + 16 * k])
    return _avalanche(value)


@table_kernel
def _hash_parts(
    words: NDArray[np.uint64],
    ends: NDArray[np.int64],
    secret: NDArray[np.uint64],
    sums: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
) -> None:
    start = 0
    for row in range(ends.size):
        size = ends[row] - start
        if size <= 16:
            hashes[row] = _hash_to_16(words, start, size, secret)
        elif size <= 240:
            hashes[row] = _hash_to_240(words, start, size, secret)
        else:
            hashes[row] = _hash_long(words, start, size, secret, sums)
        start = ends[row]


_hash_rows = ignore_overflow(_hash_parts)


def hash_parts(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hash (xxh3, 64 bits) of each part of a text.

    Parameters
    ----------
    text
        Bytes, with at least `PADDING_BYTES` after the last part.
    ends
        Place where each part ends; the first begins at 0, and each at the end of the one before.

    Examples
    --------
    >>> text = np.frombuffer(b"green tea" + bytes(PADDING_BYTES), dtype=np.uint8)
    >>> hash_parts(text, np.array([5, 9])).tolist() == [
    ...     xxhash.xxh3_64_intdigest(b"green"), xxhash.xxh3_64_intdigest(b" tea")
    ... ]
    True
    """
    if not IS_COMPILED:
        view = memoryview(text.tobytes())
        digest = xxhash.xxh3_64_intdigest
        bounds = [0, *ends.tolist()]
        return np.array([digest(view[a:b]) for a, b in pairwise(bounds)], dtype=np.uint64)
    hashes = np.empty(ends.size, dtype=np.uint64)
    words = text[: text.size & ~7].view(np.uint64)
    _hash_rows(words, ends, _secret(), np.empty(8, dtype=np.uint64), hashes)
    return hashes
