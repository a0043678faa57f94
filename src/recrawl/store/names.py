"""Names of groups, kinds and sources, and the numbers that stand for them."""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.store.keys import NAME, NUMBER, Writes, keys_of

__all__ = ["NAMES_KINDS_MAX", "NAME_BYTES_MAX", "Names", "names_of", "numbers_of", "put_names"]

NAME_BYTES_MAX = 4096
NAMES_KINDS_MAX = 8
"""Number of namespaces whose names a store can count."""


class Names(IntEnum):
    """Namespaces of names.  The values are on disk and never change."""

    GROUP = 0
    KIND = 1
    SOURCE = 2
    PATTERNS = 3
    DOMAIN = 4
    """The number of a domain is that of the group that keeps its credit."""


def _number_key(what: int, name: bytes) -> bytes:
    return NUMBER + bytes([what]) + name


def numbers_of(kv: KeyValues, what: int, keys: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers of names, -1 for unknown names."""
    values = kv.get_many([_number_key(what, key.encode()) for key in keys])
    numbers = [-1 if value is None else int.from_bytes(value, "big") for value in values]
    return np.array(numbers, np.int64)


def names_of(kv: KeyValues, what: int, numbers: Sequence[int]) -> list[str | None]:
    """Return the names that numbers stand for, None for unknown numbers."""
    keys = keys_of(NAME + bytes([what]), np.asarray(numbers, np.int64), 4)
    return [None if value is None else value.decode() for value in kv.get_many(keys)]


def put_names(
    kv: KeyValues,
    writes: Writes,
    what: NDArray[np.uint8],
    numbers: NDArray[np.int64],
    names: pa.StringArray,
) -> NDArray[np.int64]:
    """Collect the writes of names and numbers; return the count of new names per namespace.

    If a number had another name, it gets the new one; the old name still maps to the number.
    """
    keys = [
        _number_key(w, n.encode()) for w, n in zip(what.tolist(), names.to_pylist(), strict=True)
    ]
    n_new = np.zeros(NAMES_KINDS_MAX, np.int64)
    is_counted = set()
    for row, (key, old) in enumerate(zip(keys, kv.get_many(keys), strict=True)):
        if old is None and key not in is_counted:
            is_counted.add(key)
            n_new[what[row]] += 1
        number = int(numbers[row]).to_bytes(4, "big")
        writes.put(key, number)
        writes.put(NAME + key[1:2] + number, key[2:])
    return n_new
