"""What recrawl remembers of the text of each group of pages, such as a host's template.

The memory is bytes that `recrawl.content` reads and writes.  Outcomes of pages only log updates of
it, because two outcomes may be judged at the same time.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.store.keys import HOST_MEMORY, Writes, keys_of

__all__ = [
    "HOST_MEMORY_BYTES_STORED_MAX",
    "UpdateHostMemory",
    "clear_host_memories",
    "put_host_updates",
    "stored_host_memories",
]

HOST_MEMORY_BYTES_STORED_MAX = 1 << 20
"""Limit of the memory of a group; a longer one is not kept."""

UpdateHostMemory: TypeAlias = Callable[[bytes | None, Sequence[bytes]], bytes]
"""Function that applies updates, in their order, to a memory, None for an empty one."""


def stored_host_memories(kv: KeyValues, group: NDArray[np.int64]) -> list[bytes | None]:
    """Return the memories of groups, None for groups without one."""
    return kv.get_many(keys_of(HOST_MEMORY, np.asarray(group, np.int64), 4))


def put_host_updates(
    kv: KeyValues, writes: Writes, updates: Sequence[tuple[int, bytes]], update: UpdateHostMemory
) -> None:
    """Collect the writes that apply updates to the memories of groups, in the given order."""
    by_group: dict[int, list[bytes]] = {}
    for group, change in updates:
        by_group.setdefault(group, []).append(change)
    numbers = np.fromiter(by_group, np.int64, len(by_group))
    stored = stored_host_memories(kv, numbers)
    keys = keys_of(HOST_MEMORY, numbers, 4)
    for key, memory, changes in zip(keys, stored, by_group.values(), strict=True):
        updated = update(memory, changes)
        if len(updated) <= HOST_MEMORY_BYTES_STORED_MAX:
            writes.put(key, updated)


def clear_host_memories(kv: KeyValues, group: NDArray[np.int64]) -> None:
    """Delete the memories of groups, whose templates recrawl then learns again."""
    kv.write([], [], deletes=keys_of(HOST_MEMORY, np.unique(np.asarray(group, np.int64)), 4))
