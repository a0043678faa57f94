"""Two kinds of heap stored in arrays: pairing heaps of pages, and binary heaps of groups.

Pages are only added, and removed from the top, for which a pairing heap suffices: ``child`` and
``sibling`` are its links, and the greatest ``key`` is on top.  Groups also change their rank and
are removed from the middle, so they are in a binary heap: ``heap`` holds their rows, and ``place``
the index in ``heap`` of each row.
"""

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel

__all__ = ["heap_add", "heap_move", "heap_remove", "meld", "nth_greatest", "remove_top"]

I32 = NDArray[np.int32]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


@table_kernel
def meld(key: F32, child: I32, sibling: I32, a: int, b: int) -> int:
    """Merge two pairing heaps and return the top; -1 is an empty heap."""
    if a < 0:
        return b
    if b < 0:
        return a
    if key[b] > key[a]:
        a, b = b, a
    sibling[b] = child[a]
    child[a] = b
    return a


@table_kernel
def remove_top(key: F32, child: I32, sibling: I32, top: int) -> int:
    """Remove the top of a pairing heap and return the new top; -1 for an empty heap."""
    # Meld children in pairs from left to right, then the pairs from right to left.
    e = int(child[top])
    pairs = -1
    while e >= 0:
        second = int(sibling[e])
        following = -1
        sibling[e] = -1
        if second >= 0:
            following = int(sibling[second])
            sibling[second] = -1
        pair = meld(key, child, sibling, e, second)
        sibling[pair] = pairs
        pairs = pair
        e = following
    rest = -1
    while pairs >= 0:
        following = int(sibling[pairs])
        sibling[pairs] = -1
        rest = meld(key, child, sibling, rest, pairs)
        pairs = following
    child[top] = -1
    return rest


@table_kernel
def _raise(heap: I32, rank: F64, place: I32, i: int) -> None:
    """Sift up the row at index ``i``."""
    row = heap[i]
    while i > 0:
        parent = (i - 1) >> 1
        if rank[heap[parent]] >= rank[row]:
            break
        heap[i] = heap[parent]
        place[heap[i]] = i
        i = parent
    heap[i] = row
    place[row] = i


@table_kernel
def _lower(heap: I32, size: int, rank: F64, place: I32, i: int) -> None:
    """Sift down the row at index ``i``."""
    row = heap[i]
    while True:
        larger = 2 * i + 1
        if larger >= size:
            break
        if larger + 1 < size and rank[heap[larger + 1]] > rank[heap[larger]]:
            larger += 1
        if rank[heap[larger]] <= rank[row]:
            break
        heap[i] = heap[larger]
        place[heap[i]] = i
        i = larger
    heap[i] = row
    place[row] = i


@table_kernel
def heap_add(heap: I32, size: int, rank: F64, place: I32, row: int) -> None:
    """Add a row to a binary heap of ``size`` rows, greatest rank on top."""
    heap[size] = row
    _raise(heap, rank, place, size)


@table_kernel
def heap_remove(heap: I32, size: int, rank: F64, place: I32, row: int) -> None:
    """Remove a row from a binary heap of ``size`` rows."""
    i = int(place[row])
    last = heap[size - 1]
    if last != row:
        heap[i] = last
        place[last] = i
        _raise(heap, rank, place, i)
        _lower(heap, size - 1, rank, place, int(place[last]))


@table_kernel
def heap_move(heap: I32, size: int, rank: F64, place: I32, row: int) -> None:
    """Restore the heap order after the rank of a row has changed."""
    _raise(heap, rank, place, int(place[row]))
    _lower(heap, size, rank, place, int(place[row]))


@table_kernel
def nth_greatest(key: F32, size: int, n: int) -> float:
    """Return the ``n``-th greatest of the first ``size`` keys, which it reorders.

    It requires 1 ≤ n ≤ size.
    """
    low, high = 0, size - 1
    while low < high:
        # Hoare's partition around the middle key: greater keys to the left.
        pivot = key[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while key[i] > pivot:
                i += 1
            while key[j] < pivot:
                j -= 1
            if i <= j:
                key[i], key[j] = key[j], key[i]
                i += 1
                j -= 1
        if n - 1 <= j:
            high = j
        elif n - 1 >= i:
            low = i
        else:
            break
    return float(key[n - 1])
