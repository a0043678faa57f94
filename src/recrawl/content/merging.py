"""Merge neighbouring passages of long bodies, so that an observation stays small."""

from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recrawl.content.observation import PASSAGES_MAX, SHAPE_FLAGS, Observation

__all__ = ["LEVEL_MAX", "merge_passages", "merge_to_limit"]

LEVEL_MAX: Final = 16
"""Level at which 2¹⁶ passages are one on average."""

_U32 = np.uint32
_U64 = np.uint64
_LOW = _U64(0xFFFF)


def merge_passages(observation: Observation, level: int) -> Observation:
    """Return the observation with neighbouring passages merged, about 2 for 1 with each level.

    A merged passage begins where the hash of a passage ends in ``level`` zero bits, so a change
    touches only the merged passages around it.  Its hash is the sum of the hashes in it, except for
    the last 16 bits, which are those of the first: merging twice gives the same as merging once,
    and two observations of different levels can be compared at the higher one.

    Parameters
    ----------
    observation
        Observation of a level at most ``level``.
    level
        Level of the result, from 0 to `LEVEL_MAX`.
    """
    if level <= observation.level:
        return observation
    is_start = (observation.passages & _U64((1 << min(level, LEVEL_MAX)) - 1)) == 0
    return _merge(observation, is_start, level)


def merge_to_limit(observation: Observation, n_max: int = PASSAGES_MAX) -> Observation:
    """Return the observation at the lowest level with at most ``n_max`` passages.

    Parameters
    ----------
    observation
        Observation with any number of passages.
    n_max
        Number of passages that the result has at most.
    """
    n = observation.passages.size
    if n <= n_max:
        return observation
    low = observation.passages & _LOW
    for level in range(observation.level + 1, LEVEL_MAX + 1):
        is_start = (low & _U64((1 << level) - 1)) == 0
        if np.count_nonzero(is_start) < n_max:
            return _merge(observation, is_start, level)
    # The same passage is repeated again and again, and happens to be one that begins a group.
    is_start = np.zeros(n, dtype=bool)
    is_start[: n_max - 1] = True
    is_start[n_max - 1] = True
    return _merge(observation, is_start, LEVEL_MAX)


def _merge(observation: Observation, is_start: NDArray[np.bool_], level: int) -> Observation:
    if not is_start.size:
        return replace(observation, level=level)
    is_start[0] = True
    starts = np.flatnonzero(is_start)
    hashes = observation.passages
    sums = np.add.reduceat(hashes >> _U64(16), starts) << _U64(16)
    words = observation.n_words.astype(np.int64)
    n_words = np.add.reduceat(words, starts)
    n_main = np.add.reduceat(words * observation.is_main, starts)
    texts = observation.texts
    if texts is not None:
        bounds = [*starts.tolist(), hashes.size]
        texts = tuple("\n".join(texts[first:last]) for first, last in pairwise(bounds))
    return replace(
        observation,
        passages=sums | (hashes[starts] & _LOW),
        is_main=n_main * 2 >= np.maximum(n_words, 1),
        n_words=np.minimum(n_words, 0xFFFF).astype(np.uint16),
        # Something was masked in almost every group of passages, and not everything.
        shapes=np.add.reduceat(observation.shapes & ~_U32(SHAPE_FLAGS), starts, dtype=np.uint32)
        | _U32(1),
        paths=observation.paths[starts] if observation.paths.size else observation.paths,
        shingle_offsets=np.append(
            observation.shingle_offsets[starts], observation.shingle_offsets[-1]
        ),
        level=level,
        is_coarse=True,
        texts=texts,
    )
