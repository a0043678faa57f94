"""How much two versions of a page differ, read from small samples of their fragments."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import ArrayLike, CountArray, FloatArray, RowArray, by_rows
from recrawl.core.kernel import kernel

HashArray: TypeAlias = NDArray[np.uint32]

__all__ = [
    "HashArray",
    "SketchComparison",
    "Sketches",
    "compare_pair",
    "compare_sketches",
    "unseen_probability",
]


class Sketches(NamedTuple):
    """Bottom-m sketches of many versions, as ragged columns: 4 bytes a hash, 16 a version.

    A fragment is a k-word shingle, known by a 32-bit hash.  A version's sketch is its m smallest
    hashes: a random sample of its fragments, and the same sample for every version that has
    them.  A version of at most m fragments has them all in its sketch.

    Version i holds ``hashes[offsets[i]:offsets[i + 1]]``, ascending and distinct, of its
    ``n_fragments[i]`` distinct fragments.
    """

    hashes: HashArray
    offsets: CountArray
    n_fragments: CountArray

    @classmethod
    def of(cls, sketches: Sequence[ArrayLike], n_fragments: ArrayLike) -> Self:
        """Return the columns of a list of sketches, each ascending, and their versions' sizes.

        Raises
        ------
        ValueError
            If a sketch is not ascending, or holds more hashes than its version has fragments.
        """
        rows = [np.asarray(sketch, dtype=np.uint32) for sketch in sketches]
        sizes = np.array([row.size for row in rows], dtype=np.int64)
        counts = np.broadcast_to(np.asarray(n_fragments, dtype=np.int64), sizes.shape).copy()
        for row in rows:
            if np.any(row[1:] <= row[:-1]):
                raise ValueError(f"a sketch must be ascending and distinct, got {row!r}")
        if np.any(counts < sizes):
            raise ValueError(
                f"n_fragments must be at least the size of the sketch, got {counts!r} "
                f"for sketches of {sizes!r}"
            )
        hashes = np.concatenate(rows) if rows else np.empty(0, np.uint32)
        return cls(hashes, np.concatenate([[0], np.cumsum(sizes)]), counts)


class SketchComparison(NamedTuple):
    """How much the versions of each pair differ: 16 bytes a pair."""

    divergence: FloatArray
    """One minus the Jaccard similarity of the two sets of fragments, 0 to 1."""
    standard_error: FloatArray
    """Standard error of ``divergence``; 0 where sketches hold all fragments or it is 0 or 1."""


@kernel
def _count_shared(first: HashArray, second: HashArray, n_max: int) -> tuple[int, int]:
    """Return how many of the ``n_max`` smallest hashes of the union both have, and the total."""
    i = 0
    j = 0
    n_seen = 0
    n_shared = 0
    while n_seen < n_max and (i < first.size or j < second.size):
        if j == second.size or (i < first.size and first[i] < second[j]):
            i += 1
        elif i == first.size or second[j] < first[i]:
            j += 1
        else:
            n_shared += 1
            i += 1
            j += 1
        n_seen += 1
    return n_shared, n_seen


@kernel
def _compare(
    first: HashArray, second: HashArray, n_first: int, n_second: int
) -> tuple[float, float]:
    # Longevity eq. 3:  D = 1 - |F(P) ∩ F(P')| / |F(P) ∪ F(P')|, estimated as §5.2 says from the
    # minimal hashes.  The m smallest hashes of the *union* are known, because each sketch has
    # the m smallest of its own set: they are a sample of the union without replacement, and the
    # share of them found in both sketches is unbiased for J = 1 - D.  (The share of m in both
    # sketches, or the Jaccard similarity of the sketches themselves, is not.)
    #
    # Its variance is that of m draws without replacement from N = |F(P) ∪ F(P')|,
    #
    #     J (1 - J) / m · (N - m) / (N - 1),       N = (|F(P)| + |F(P')|) / (1 + J).
    #
    first_is_whole = first.size == n_first
    second_is_whole = second.size == n_second
    n_known = first.size + second.size
    if not first_is_whole:
        n_known = first.size
    if not second_is_whole:
        n_known = min(n_known, second.size)
    n_shared, n_seen = _count_shared(first, second, n_known)
    if n_seen == 0:
        # Two empty versions are equal; an empty sketch of a version that is not shows nothing.
        if first_is_whole and second_is_whole:
            return 0.0, 0.0
        return math.nan, math.nan
    similarity = n_shared / n_seen
    n_union = max((n_first + n_second) / (1.0 + similarity), float(n_seen))
    if (first_is_whole and second_is_whole) or n_union <= 1.0:
        return 1.0 - similarity, 0.0
    variance = similarity * (1.0 - similarity) / n_seen * (n_union - n_seen) / (n_union - 1.0)
    return 1.0 - similarity, math.sqrt(variance)


@kernel
def _compare_rows(
    hashes: HashArray,
    offsets: CountArray,
    n_fragments: CountArray,
    pairs: RowArray,
    out: FloatArray,
) -> None:
    for k in range(out.shape[1]):
        i = pairs[0, k]
        j = pairs[1, k]
        out[0, k], out[1, k] = _compare(
            hashes[offsets[i] : offsets[i + 1]],
            hashes[offsets[j] : offsets[j + 1]],
            n_fragments[i],
            n_fragments[j],
        )


def compare_sketches(sketches: Sketches, first: ArrayLike, second: ArrayLike) -> SketchComparison:
    """Return the divergence of pairs of versions, with its standard error.

    The divergence is exact where both sketches hold every fragment of their version, else an
    unbiased estimate with a standard error of at most √(1/4m): .031 for sketches of 256.  A
    change too small for the sketch reads as 0 (`unseen_probability`), so use a digest of
    the text to find out whether a page changed.  Sketches of unequal m compare at the smaller.

    Parameters
    ----------
    sketches
        Sketches of all versions.
    first, second
        Rows in ``sketches`` of the versions to compare; broadcast against each other.

    Examples
    --------
    Two short versions share two of four fragments.  The third is known only by the smallest
    three of its 100 hashes:

    >>> sketches = Sketches.of([[2, 5, 9], [2, 5, 7], [2, 5, 9]], n_fragments=[3, 3, 100])
    >>> comparison = compare_sketches(sketches, first=0, second=[1, 2])
    >>> comparison.divergence
    array([0.5, 0. ])

    References
    ----------
    Longevity §2.1.1, eq. 3
    Longevity §5.2 (minimal hashes as summaries)
    """
    rows = np.broadcast_arrays(
        np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    )
    n_versions = sketches.n_fragments.size
    pairs = np.stack([row.reshape(-1) for row in rows])
    if pairs.size and (pairs.min() < 0 or pairs.max() >= n_versions):
        raise IndexError(f"rows must be from 0 to {n_versions - 1}, got {pairs!r}")
    out = np.empty(pairs.shape)
    _compare_rows(*sketches, pairs, out)
    return SketchComparison(*out.reshape((2, *rows[0].shape)))


def compare_pair(
    first: ArrayLike, second: ArrayLike, *, n_first: int, n_second: int
) -> tuple[float, float]:
    """Return the divergence of two versions from their sketches, and its standard error.

    Parameters
    ----------
    first, second
        Ascending distinct hashes, the smallest of each version.
    n_first, n_second
        Distinct fragments of each version.

    Examples
    --------
    >>> compare_pair([2, 5, 9], [2, 5, 7], n_first=3, n_second=3)
    (0.5, 0.0)

    References
    ----------
    Longevity §2.1.1, eq. 3
    """
    comparison = compare_sketches(Sketches.of([first, second], [n_first, n_second]), 0, 1)
    return float(comparison.divergence), float(comparison.standard_error)


@kernel
def _unseen_probability(n_changed: float, n_union: float, sketch_size: float) -> float:
    # None of the m smallest of N fragments is among the d that changed, hypergeometric:
    #
    #     C(N-d, m) / C(N, m) = Π_{i<m} (N - d - i) / (N - i),     the same with d and m exchanged.
    #
    n_draws = min(n_changed, sketch_size)
    n_marked = max(n_changed, sketch_size)
    probability = 1.0
    i = 0.0
    while i < n_draws:
        if n_union - n_marked - i <= 0.0:
            return 0.0
        probability *= (n_union - n_marked - i) / (n_union - i)
        i += 1.0
    return probability


@kernel
def _unseen_probabilities(
    n_changed: FloatArray, n_union: FloatArray, sketch_size: FloatArray, out: FloatArray
) -> None:
    for row in range(out.size):
        out[row] = _unseen_probability(n_changed[row], n_union[row], sketch_size[row])


def unseen_probability(
    n_changed: ArrayLike, n_union: ArrayLike, *, sketch_size: ArrayLike
) -> FloatArray:
    """Return the probability that two versions differ and their sketches do not.

    Parameters
    ----------
    n_changed
        Fragments found in one of the two versions only.
    n_union
        Fragments found in either version.
    sketch_size
        Hashes kept of each version (m).

    Examples
    --------
    A page of 500 fragments gains 5 more, a change of one per cent.  Eight hashes miss it nearly
    always, 128 in one case of four, and 512 never, for they hold all fragments:

    >>> unseen_probability(5, 505, sketch_size=[8, 128, 512]).round(2)
    array([0.92, 0.23, 0.  ])

    References
    ----------
    Longevity §5.2 (why few hashes suffice to schedule, not to detect)
    """
    return by_rows(_unseen_probabilities, n_changed, n_union, sketch_size)
