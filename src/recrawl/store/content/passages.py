"""The passages of a change as bytes: hashes of those kept, added and removed, and added texts."""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recrawl.messages.views import PassageChanges

__all__ = ["ADDED_TEXT_BYTES_MAX", "PassageChanges", "pack_passages", "unpack_passages"]

ADDED_TEXT_BYTES_MAX = 1 << 18
"""Limit of the texts of a change's added passages together, in bytes of UTF-8."""

_FORMAT = 1
# Layout: format, whether there are texts, number of hashes kept, added and removed; the hashes;
# then the length of each added text, and the texts.
_HEAD = struct.Struct("<BBHHH")
_N_MAX = 0xFFFF
_HASH = np.dtype("<u8")
_LENGTH = np.dtype("<u4")
_NO_TEXT = 0xFFFFFFFF


def pack_passages(
    kept: NDArray[np.uint64],
    added: NDArray[np.uint64],
    removed: NDArray[np.uint64],
    added_text: Sequence[str] | None = None,
) -> bytes:
    """Return passages as bytes; texts beyond `ADDED_TEXT_BYTES_MAX` in all are left out."""
    kept, added, removed = (one[:_N_MAX].astype(_HASH) for one in (kept, added, removed))
    sizes = kept.size, added.size, removed.size
    parts = [_HEAD.pack(_FORMAT, added_text is not None, *sizes)]
    parts += [one.tobytes() for one in (kept, added, removed)]
    if added_text is not None:
        lengths = np.full(added.size, _NO_TEXT, _LENGTH)
        texts, n_left = [], ADDED_TEXT_BYTES_MAX
        for i, text in enumerate(added_text[: added.size]):
            data = text.encode("utf-8", "replace")
            if len(data) <= n_left:
                lengths[i] = len(data)
                texts.append(data)
                n_left -= len(data)
        parts += [lengths.tobytes(), *texts]
    return b"".join(parts)


def unpack_passages(data: bytes) -> PassageChanges:
    """Return the passages in bytes of `pack_passages`."""
    form, has_text, *sizes = _HEAD.unpack_from(data)
    if form != _FORMAT:
        return PassageChanges((), (), ())
    begin = _HEAD.size
    hashes = np.frombuffer(data, _HASH, sum(sizes), begin).tolist()
    n_kept, n_both = sizes[0], sizes[0] + sizes[1]
    kept, added, removed = map(tuple, (hashes[:n_kept], hashes[n_kept:n_both], hashes[n_both:]))
    begin += len(hashes) * _HASH.itemsize
    if not has_text:
        return PassageChanges(kept, added, removed)
    lengths = np.frombuffer(data, _LENGTH, sizes[1], begin).tolist()
    begin += sizes[1] * _LENGTH.itemsize
    texts: list[str | None] = []
    for length in lengths:
        if length == _NO_TEXT:
            texts.append(None)
            continue
        texts.append(data[begin : begin + length].decode("utf-8", "replace"))
        begin += length
    return PassageChanges(kept, added, removed, tuple(texts))
