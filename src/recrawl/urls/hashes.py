"""Keyed 64-bit hashes of URLs, to look pages up, not to identify them.

The hash is SipHash-1-3 of the bytes of the URL, under a secret key of 128 bits.  Without the key
nobody can craft URLs that share a hash.  Hashes are written to disk, so they never change.  64 bits
do collide (10⁹ URLs: about one pair in 37 such corpora), so every lookup by hash must also compare
the URL.

References
----------
J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012, §2.
"""

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel
from recrawl.urls._arrow_text import ByteArray, SpanArray, text_of

__all__ = ["HashArray", "hash_urls", "sip_hash", "sip_key"]

HashArray: TypeAlias = NDArray[np.uint64]

KEY_BITS = 128
_LOW_64 = 2**64 - 1
_Words: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


def hash_urls(urls: pa.StringArray, key: int) -> HashArray:
    """Return a hash of each URL's bytes.

    Parameters
    ----------
    urls
        URLs, without nulls.
    key
        Secret of up to 128 bits, drawn once per corpus.

    Examples
    --------
    >>> import pyarrow as pa
    >>> hash_urls(pa.array(["https://shop.example/"]), key=1)
    array([11467955665874116356], dtype=uint64)
    """
    if urls.null_count:
        raise ValueError(f"urls must have no nulls, got {urls.null_count}")
    low, high = sip_key(key)
    text = text_of(urls)
    out = np.empty(len(urls), np.uint64)
    # Additions wrap around; without the JIT numpy would warn of that.
    with np.errstate(over="ignore"):
        _hash_rows(text.data, text.offset, low, high, out)
    return out


def sip_key(key: int) -> tuple[np.uint64, np.uint64]:
    """Return a key as its low and high words."""
    if not 0 <= key < 1 << KEY_BITS:
        raise ValueError(f"key must be from 0 to 2**{KEY_BITS} - 1, got {key}")
    return np.uint64(key & _LOW_64), np.uint64(key >> 64)


@table_kernel
def _rotate_left(word: np.uint64, n_bits: int) -> np.uint64:
    return (word << np.uint64(n_bits)) | (word >> np.uint64(64 - n_bits))


@table_kernel
def _round(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> _Words:
    """SipRound, §2.3, figure 2.1."""
    v0 += v1
    v2 += v3
    v1 = _rotate_left(v1, 13) ^ v0
    v3 = _rotate_left(v3, 16) ^ v2
    v0 = _rotate_left(v0, 32)
    v2 += v1
    v0 += v3
    v1 = _rotate_left(v1, 17) ^ v2
    v3 = _rotate_left(v3, 21) ^ v0
    v2 = _rotate_left(v2, 32)
    return v0, v1, v2, v3


@table_kernel
def _word_at(data: ByteArray, place: np.uint64) -> np.uint64:
    """Return eight bytes as a little-endian word; compiled to a single load.

    Unsigned indices avoid numba's check for negative ones, which would prevent that.
    """
    return (
        np.uint64(data[place])
        | (np.uint64(data[place + np.uint64(1)]) << np.uint64(8))
        | (np.uint64(data[place + np.uint64(2)]) << np.uint64(16))
        | (np.uint64(data[place + np.uint64(3)]) << np.uint64(24))
        | (np.uint64(data[place + np.uint64(4)]) << np.uint64(32))
        | (np.uint64(data[place + np.uint64(5)]) << np.uint64(40))
        | (np.uint64(data[place + np.uint64(6)]) << np.uint64(48))
        | (np.uint64(data[place + np.uint64(7)]) << np.uint64(56))
    )


@table_kernel
def sip_hash(data: ByteArray, start: int, end: int, low: np.uint64, high: np.uint64) -> np.uint64:
    """Return SipHash-1-3 of the bytes from start to end."""
    v0 = low ^ np.uint64(0x736F6D6570736575)
    v1 = high ^ np.uint64(0x646F72616E646F6D)
    v2 = low ^ np.uint64(0x6C7967656E657261)
    v3 = high ^ np.uint64(0x7465646279746573)
    n_words = (end - start) >> 3
    for k in range(n_words):
        word = _word_at(data, np.uint64(start + 8 * k))
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 ^= word
    last = np.uint64(end - start) << np.uint64(56)
    for k in range(start + 8 * n_words, end):
        last |= np.uint64(data[k]) << np.uint64(8 * ((k - start) & 7))
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ last)
    v0 ^= last
    v2 ^= np.uint64(0xFF)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@table_kernel
def _hash_rows(
    data: ByteArray, offset: SpanArray, low: np.uint64, high: np.uint64, out: HashArray
) -> None:
    for i in range(out.size):
        out[i] = sip_hash(data, offset[i], offset[i + 1], low, high)
