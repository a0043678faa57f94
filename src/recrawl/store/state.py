"""How far a store has come, in the one small value that every write replaces."""

import struct
from typing import NamedTuple, Self

from recrawl.store.names import NAMES_KINDS_MAX

__all__ = ["State"]

_LAYOUT = struct.Struct(f">QQQQQI{NAMES_KINDS_MAX}I")


class State(NamedTuple):
    """How far a store has come."""

    position: int = 0
    """Of the log: from there on it knows nothing."""
    n_slots: int = 0
    """Slots that have ever been used."""
    n_changes: int = 0
    """Changes that have ever been told."""
    n_trimmed: int = 0
    """Of those, the ones that are kept no more."""
    first_change: tuple[int, int] = (0, 0)
    """Position and row of the first change that is kept."""
    n_named: tuple[int, ...] = (0,) * NAMES_KINDS_MAX
    """Names, by what they are of."""

    def encoded(self) -> bytes:
        """Return it as bytes."""
        *numbers, first_change, n_named = self
        return _LAYOUT.pack(*numbers, *first_change, *n_named)

    @classmethod
    def decoded(cls, value: bytes) -> Self:
        """Return it from bytes."""
        position, n_slots, n_changes, n_trimmed, *rest = _LAYOUT.unpack(value)
        first_change = rest[0], rest[1]
        return cls(position, n_slots, n_changes, n_trimmed, first_change, tuple(rest[2:]))
