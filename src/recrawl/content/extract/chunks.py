"""Compare what is too long to be read by words: chunks of bytes as passages."""

from itertools import pairwise
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from recrawl.content.extract.words import PassageColumns

__all__ = ["chunk_bytes"]

CHUNK_BITS: Final = 12
"""Chunks of bytes have 2¹² bytes on average."""
_BLOCK_BYTES = 1 << 20


def chunk_bytes(data: memoryview) -> PassageColumns:
    """Return chunks of bytes as passages; they begin where the content says, not at fixed places.

    Parameters
    ----------
    data
        Bytes of any length.
    """
    cuts = [0, *_cuts(data), len(data)]
    bounds = [(a, b) for a, b in pairwise(cuts) if b > a]
    digest = xxhash.xxh3_64_intdigest
    hashes = np.array([digest(data[a:b]) for a, b in bounds], dtype=np.uint64)
    sizes = np.array([b - a for a, b in bounds], dtype=np.int64)
    shingles = (hashes >> np.uint64(32)).astype(np.uint32)
    return PassageColumns(
        hashes,
        np.clip(sizes // 6, 1, 0xFFFF).astype(np.uint16),
        shingles.copy(),
        shingles,
        np.arange(hashes.size + 1, dtype=np.int64),
        np.zeros(hashes.size, dtype=np.int64),
        len(data),
    )


def _cuts(data: memoryview) -> list[int]:
    """Return the places after which a chunk begins: where four bytes have a rare hash."""
    found: list[NDArray[np.int64]] = []
    signs = np.frombuffer(data, dtype=np.uint8)
    for begin in range(0, signs.size, _BLOCK_BYTES):
        block = signs[begin : begin + _BLOCK_BYTES + 3].astype(np.uint32)
        if block.size < 4:
            break
        window = block[:-3] << 24 | block[1:-2] << 16 | block[2:-1] << 8 | block[3:]
        window *= np.uint32(0x9E3779B1)
        found.append(np.flatnonzero(window >> np.uint32(32 - CHUNK_BITS) == 0) + begin + 4)
    if not found:
        return []
    places = np.concatenate(found)
    # A repeated pattern would cut at every place.
    gaps = np.diff(places, prepend=0) >= 1 << (CHUNK_BITS - 4)
    return [int(place) for place in places[gaps] if place < len(data)]
