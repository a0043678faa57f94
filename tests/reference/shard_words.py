"""Compare page words that two processors computed from the same log."""

import numpy as np


def check_words(mine: np.ndarray, other: np.ndarray) -> None:
    """Compare words: equal flags, codes within one, instants within one step of a code."""
    flags = np.uint64(0x8000000080000000)
    assert np.array_equal(mine & flags, other & flags)
    for shift, size in ((32, 8), (40, 8), (58, 5)):
        mask = np.uint64((1 << size) - 1)
        a, b = ((word >> np.uint64(shift) & mask).astype(int) for word in (mine, other))
        assert np.abs(a - b).max() <= 1
    a, b = ((word & np.uint64(0x7FFFFFFF)).astype(int) for word in (mine, other))
    assert np.mean(a == b) > 0.99
