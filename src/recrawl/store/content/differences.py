"""Bytes written as their difference from similar bytes, such as a page's memory before a poll.

A difference is a zlib stream with the similar bytes as its dictionary, so it names them by their
checksum: applied to other bytes it is refused, never misread.
"""

import zlib

__all__ = ["pack_difference", "unpack_difference"]

_LEVEL = 1
# A window of 16 KiB covers the longest memory of a page; a small one is set up quickly.
_WINDOW_BITS = 14
_MEMORY_LEVEL = 4


def pack_difference(new: bytes, old: bytes) -> bytes:
    """Return bytes from which `unpack_difference` makes ``new`` again.

    Parameters
    ----------
    new
        Bytes to write.
    old
        Similar bytes, which the reader has, too; they may be empty.

    Examples
    --------
    >>> old = bytes(range(200))
    >>> new = old[:100] + b"text" + old[100:]
    >>> len(pack_difference(new, old)) < 40
    True
    >>> unpack_difference(pack_difference(new, old), old, n_bytes_max=1_000) == new
    True
    """
    packer = zlib.compressobj(
        _LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, old
    )
    return packer.compress(new) + packer.flush()


def unpack_difference(data: bytes, old: bytes, *, n_bytes_max: int) -> bytes | None:
    """Return the bytes in a difference; None if it is of other bytes, damaged or too long.

    Parameters
    ----------
    data
        Bytes of `pack_difference`.
    old
        Bytes from which they differ.
    n_bytes_max
        Largest length of the result.
    """
    unpacker = zlib.decompressobj(_WINDOW_BITS, old)
    try:
        new = unpacker.decompress(data, n_bytes_max + 1)
    except zlib.error:
        return None
    return new if unpacker.eof and len(new) <= n_bytes_max else None
