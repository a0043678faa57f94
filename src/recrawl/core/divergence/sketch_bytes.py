"""Sketches as bytes: the form in which fetchers report them and stores keep them."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, FlagArray, FloatArray, RowArray
from recrawl.core.divergence.sketch import Sketches, compare_sketches

__all__ = [
    "SKETCH_HEAD_BYTES",
    "ReadSketches",
    "compare_read_sketches",
    "pack_sketch",
    "read_sketches",
]

# Version of the layout, scheme, zero, number of fragments; then the hashes.
_HEAD = struct.Struct("<BBHI")
SKETCH_HEAD_BYTES = _HEAD.size
_LAYOUT = 1


def pack_sketch(hashes: ArrayLike, *, n_fragments: int, scheme: int = 0) -> bytes:
    r"""Return a sketch as bytes.

    The bytes are 1 (the layout), the scheme, two zeros, the number of fragments in four bytes, then
    four bytes for each hash; all little-endian.

    Parameters
    ----------
    hashes
        The smallest hashes of the version's fragments, ascending and distinct, 32 bits each.
    n_fragments
        Number of distinct fragments of the version.
    scheme
        Number of the way in which the sketch was made (which text, shingles and hash), 0 to 255.
        Sketches of different schemes are never compared.

    Raises
    ------
    ValueError
        If the hashes are not ascending, or there are more of them than fragments.

    Examples
    --------
    >>> pack_sketch([2, 5], n_fragments=9).hex(" ", 4)
    '01000000 09000000 02000000 05000000'
    """
    row = np.asarray(hashes, dtype=np.uint32)
    if (row[1:] <= row[:-1]).any() or n_fragments < row.size:
        Sketches.of([row], n_fragments)  # raises
    if not 0 <= scheme <= 255:
        raise ValueError(f"scheme must be from 0 to 255, got {scheme!r}")
    n_known = min(n_fragments, 0xFFFFFFFF)
    return _HEAD.pack(_LAYOUT, scheme, 0, n_known) + row.astype("<u4", copy=False).tobytes()


class ReadSketches(NamedTuple):
    """Sketches read from bytes, one row for each."""

    sketches: Sketches
    scheme: np.ndarray[tuple[int], np.dtype[np.int16]]
    """Scheme of each sketch; -1 where there is none that can be read."""

    @property
    def is_known(self) -> FlagArray:
        """Whether there is a sketch."""
        return self.scheme >= 0

    def take(self, rows: RowArray) -> "ReadSketches":
        """Return the sketches of some rows."""
        sketches = self.sketches
        sizes = np.diff(sketches.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        place = np.repeat(sketches.offsets[rows] - offsets[:-1], sizes) + np.arange(offsets[-1])
        taken = Sketches(sketches.hashes[place], offsets, sketches.n_fragments[rows])
        return ReadSketches(taken, self.scheme[rows])


def read_sketches(values: Sequence[bytes | None], n_hashes_max: int | None = None) -> ReadSketches:
    """Return sketches from their bytes; bytes that are not a sketch count as none.

    A row without a sketch has an empty one of a version with one fragment, which compares as
    unknown (nan).

    Parameters
    ----------
    values
        Bytes from `pack_sketch`, or None.
    n_hashes_max
        Number of smallest hashes to keep of each; all if not given.

    Examples
    --------
    >>> read = read_sketches([pack_sketch([2, 5], n_fragments=9), None, b"no sketch"])
    >>> read.is_known
    array([ True, False, False])
    """
    n_rows = len(values)
    scheme = np.full(n_rows, -1, np.int16)
    n_fragments = np.ones(n_rows, np.int64)
    rows: list[np.ndarray[tuple[int], np.dtype[np.uint32]]] = []
    sizes = np.zeros(n_rows, np.int64)
    for i, value in enumerate(values):
        if not value or len(value) < SKETCH_HEAD_BYTES or len(value) % 4:
            continue
        layout, of_scheme, zero, n = _HEAD.unpack_from(value)
        hashes = np.frombuffer(value, "<u4", offset=SKETCH_HEAD_BYTES)
        is_sketch = layout == _LAYOUT and zero == 0 and n >= hashes.size
        if not is_sketch or np.any(hashes[1:] <= hashes[:-1]):
            continue
        row = hashes[:n_hashes_max].astype(np.uint32, copy=False)
        rows.append(row)
        scheme[i], n_fragments[i], sizes[i] = of_scheme, n, row.size
    joined = np.concatenate(rows) if rows else np.empty(0, np.uint32)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return ReadSketches(Sketches(joined, offsets, n_fragments), scheme)


def compare_read_sketches(first: ReadSketches, second: ReadSketches) -> FloatArray:
    """Return the divergence of each sketch of ``second`` from one of ``first``.

    If there are k times as many in ``second``, each one of ``first`` is compared with k of them in
    turn.  nan where one of the two is missing, or they were made by different schemes.

    Examples
    --------
    >>> one = read_sketches([pack_sketch([2, 5, 9], n_fragments=3)])
    >>> two = read_sketches([pack_sketch([2, 5, 7], n_fragments=3), None])
    >>> compare_read_sketches(one, two)
    array([0.5, nan])
    """
    n_first, n_second = first.scheme.size, second.scheme.size
    if n_first == 0 or n_second == 0:
        return np.full(n_second, np.nan)
    row = np.repeat(np.arange(n_first), n_second // n_first)
    one, other = first.sketches, second.sketches
    joined = Sketches(
        np.concatenate([one.hashes, other.hashes]),
        np.concatenate([one.offsets, one.hashes.size + other.offsets[1:]]),
        np.concatenate([one.n_fragments, other.n_fragments]),
    )
    divergence = compare_sketches(joined, row, n_first + np.arange(n_second)).divergence
    is_comparable = (first.scheme[row] == second.scheme) & second.is_known
    return np.where(is_comparable, divergence, np.nan)
