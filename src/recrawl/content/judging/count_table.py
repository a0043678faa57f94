"""A table of counts by key that stays bytes until single keys are asked for."""

from collections import Counter
from collections.abc import Iterable
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["COUNT_MAX", "CountTable"]

COUNT_MAX: Final = 255
"""Limit of a count."""

_NO_KEYS: Final = np.empty(0, dtype="<u4")
_LOWER: Final = np.uint64(0xFFFFFFFF)
_NO_COUNTS: Final = np.empty(0, dtype=np.uint8)


class CountTable:
    """Counts (8 bits) by key (32 bits), in the order in which keys were added.

    A memory is read far more often than it is changed, and then mostly for its frequent keys, so
    the table is read into a dictionary only when single keys are asked for.

    Parameters
    ----------
    keys, counts
        Columns of the table.
    """

    __slots__ = ("_by_key", "_counts", "_keys")

    def __init__(
        self, keys: NDArray[np.uint32] = _NO_KEYS, counts: NDArray[np.uint8] = _NO_COUNTS
    ) -> None:
        self._keys = keys
        self._counts = counts
        self._by_key: Counter[int] | None = None

    @property
    def by_key(self) -> Counter[int]:
        """The counts as a dictionary; a change of it changes the table."""
        if self._by_key is None:
            self._by_key = Counter(
                dict(zip(self._keys.tolist(), self._counts.tolist(), strict=True))
            )
        return self._by_key

    def __len__(self) -> int:
        return self._keys.size if self._by_key is None else len(self._by_key)

    def frequent_among(self, keys: Iterable[int], n_min: float) -> set[int]:
        """Return those of some keys that have at least a certain count.

        Parameters
        ----------
        keys
            Numbers whose lower 32 bits are keys.
        n_min
            Count of a frequent key, above 0.
        """
        if self._by_key is None:
            frequent = set(self._keys[self._counts >= n_min].tolist())
            return {key for key in keys if key & 0xFFFFFFFF in frequent} if frequent else set()
        numbers = list(keys)
        lower = (np.array(numbers, dtype=np.uint64) & _LOWER).tolist()
        counts = map(self._by_key.get, lower, repeat(0))
        return {key for key, count in zip(numbers, counts, strict=True) if count >= n_min}

    def copy(self) -> "CountTable":
        """Return a table that can be changed without changing this one."""
        table = CountTable(self._keys, self._counts)
        if self._by_key is not None:
            table._by_key = self._by_key.copy()
        return table

    def to_bytes(self) -> bytes:
        """Return the keys and then the counts as bytes."""
        if self._by_key is None:
            return self._keys.tobytes() + self._counts.tobytes()
        n = len(self._by_key)
        return (
            np.fromiter(self._by_key, "<u4", n).tobytes()
            + np.fromiter(self._by_key.values(), np.uint8, n).tobytes()
        )
