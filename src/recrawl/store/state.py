"""The state of a store: one small value that every write replaces."""

import struct
from typing import NamedTuple, Self

from recrawl.store.names import NAMES_KINDS_MAX

__all__ = ["State"]

_LAYOUT = struct.Struct(f">QQQQQI{NAMES_KINDS_MAX}I")


class State(NamedTuple):
    """Position and counters of a store."""

    position: int = 0
    """Position of the log up to which records have been applied."""
    n_slots: int = 0
    """Number of slots that have ever been used."""
    n_changes: int = 0
    """Number of all changes ever added to the feed."""
    n_trimmed: int = 0
    """Number of changes that have been removed from the feed."""
    first_change: tuple[int, int] = (0, 0)
    """Position and row of the first change in the feed."""
    n_names: tuple[int, ...] = (0,) * NAMES_KINDS_MAX
    """Number of names in each namespace."""

    def encode(self) -> bytes:
        """Return the state as bytes."""
        *numbers, first_change, n_names = self
        return _LAYOUT.pack(*numbers, *first_change, *n_names)

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Return the state in bytes."""
        position, n_slots, n_changes, n_trimmed, *rest = _LAYOUT.unpack(value)
        first_change = rest[0], rest[1]
        return cls(position, n_slots, n_changes, n_trimmed, first_change, tuple(rest[2:]))
