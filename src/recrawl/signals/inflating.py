"""Unpack gzip within limits, piece by piece."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from recrawl.signals.problems import ProblemCounts

__all__ = ["INFLATED_RATIO_MAX", "inflate_pieces"]

INFLATED_RATIO_MAX: Final = 200
"""Bytes that one packed byte may become; a sitemap of equal URLs reaches about 50."""

_GZIP_START = b"\x1f\x8b"
_PIECE_BYTES = 1 << 16
# The ratio counts only beyond this size: a short text of equal characters is harmless.
_FREE_BYTES = 1 << 20
_GZIP_WINDOW = 31


def inflate_pieces(
    pieces: Iterable[bytes], problems: ProblemCounts, *, n_bytes_max: int
) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked if it is gzip, until a limit is reached.

    Parameters
    ----------
    pieces
        Bytes of the file, in pieces of any size.
    problems
        Counts to add problems to.
    n_bytes_max
        Most unpacked bytes to yield.
    """
    n_packed = n_out = 0
    unpacker: zlib._Decompress | None = None
    is_first = True
    for piece in _with_start(pieces):
        n_packed += len(piece)
        if is_first and piece.startswith(_GZIP_START):
            unpacker = zlib.decompressobj(_GZIP_WINDOW)
        is_first = False
        for out in (piece,) if unpacker is None else _unpack(unpacker, piece, problems):
            room = n_bytes_max - n_out
            if len(out) > room:
                problems.add("too_large")
                yield out[:room]
                return
            n_out += len(out)
            if unpacker is not None and n_out > max(INFLATED_RATIO_MAX * n_packed, _FREE_BYTES):
                problems.add("inflates_too_much")
                return
            yield out
        if problems.counts.get("broken_gzip"):
            return
        if unpacker is not None and unpacker.eof:
            # What follows the end is ignored, as browsers do.
            if unpacker.unused_data.startswith(_GZIP_START):
                problems.add("several_members")
            return
    if unpacker is not None and not unpacker.eof:
        problems.add("broken_gzip")


def _with_start(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces, of which the first is long enough to show whether the file is gzip."""
    held = b""
    is_first = True
    for piece in pieces:
        held += piece
        if is_first and len(held) < len(_GZIP_START):
            continue
        is_first = False
        yield held
        held = b""
    if held:
        yield held


def _unpack(unpacker: "zlib._Decompress", piece: bytes, problems: ProblemCounts) -> Iterator[bytes]:
    data = piece
    while data and not unpacker.eof:
        try:
            out = unpacker.decompress(data, _PIECE_BYTES)
        except zlib.error:
            problems.add("broken_gzip")
            return
        if not out and not unpacker.unconsumed_tail:
            return
        if out:
            yield out
        data = unpacker.unconsumed_tail
