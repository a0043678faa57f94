"""Names and the numbers that stand for them: groups, kinds of pages, sources of signals."""

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
"""Kinds of names that a store has room to count."""


class Names(IntEnum):
    """What names are of.  The numbers are on disk and never change."""

    GROUP = 0
    KIND = 1
    SOURCE = 2
    PATTERNS = 3


def _number_key(what: int, name: bytes) -> bytes:
    return NUMBER + bytes([what]) + name


def numbers_of(kv: KeyValues, what: int, keys: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers of names, -1 where there is none."""
    found = kv.get_many([_number_key(what, key.encode()) for key in keys])
    numbers = [-1 if value is None else int.from_bytes(value, "big") for value in found]
    return np.array(numbers, np.int64)


def names_of(kv: KeyValues, what: int, numbers: Sequence[int]) -> list[str | None]:
    """Return the names that numbers stand for, None where there is none."""
    wanted = np.asarray(numbers, np.int64)
    found = kv.get_many(keys_of(NAME + bytes([what]), wanted, 4))
    return [None if value is None else value.decode() for value in found]


def put_names(
    kv: KeyValues,
    writes: Writes,
    what: NDArray[np.uint8],
    numbers: NDArray[np.int64],
    names: pa.StringArray,
) -> NDArray[np.int64]:
    """Add names and numbers; return how many of each kind are new.

    A number that had another name gets the new one; the old name keeps its number.
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
