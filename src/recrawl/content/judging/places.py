"""Places of a page in which passages never last: clocks, counters, tokens, rotating teasers.

A place has three names: the passage before it, the passage after it, and the shape of what stands
there (its text without numbers).  Whenever a passage is gone at the poll after the one at which it
appeared, its place collects a point; when one survives, the place loses a point.  With enough
points, what appears there does not count.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from recrawl.content.judging.host_memory import HostMemory
from recrawl.content.judging.page_memory import SLOTS_MAX, Slot

__all__ = ["VOLATILE_MIN", "PlaceKeys", "Places", "place_keys"]

PlaceKeys: TypeAlias = tuple[int, int, int]
"""Names of a place: by the passage before it, by the one after it, by its shape."""

VOLATILE_MIN: Final = 2
"""Points from which a place is volatile."""
HOST_WORDS_MAX: Final = 12
"""Words of a passage that does not count because its place is volatile on other pages."""
_POINTS_MAX: Final = 6
_WORDS_MAX: Final = 255
_MASK = 0xFFFFFFFF


def place_keys(order: Sequence[int], anchors: set[int], shapes: Sequence[int]) -> list[PlaceKeys]:
    """Return the three keys (32 bits) of the place of each passage.

    Parameters
    ----------
    order
        Hashes of passages in the order of the text.
    anchors
        Passages that both versions have and that are stable.
    shapes
        Shape of each passage.
    """
    n = len(order)
    before, after = [0] * n, [0] * n
    last = 0
    for i, passage in enumerate(order):
        before[i] = last
        if passage in anchors:
            last = passage & _MASK
    last = 0
    for i in range(n - 1, -1, -1):
        after[i] = last
        if order[i] in anchors:
            last = order[i] & _MASK
    # The three kinds of name have different last bits.
    return [
        ((first & ~3) | 1, (last & ~3) | 2, ((shape * 0x9E3779B1) & 0xFFFFFFFC) | 3)
        for first, last, shape in zip(before, after, shapes, strict=True)
    ]


class Places:
    """Places of a page, and what a poll shows about them.

    Parameters
    ----------
    slots
        Places before the poll.
    """

    def __init__(self, slots: Mapping[int, Slot]) -> None:
        self.slots = dict(slots)
        self.died: set[int] = set()
        """Passages that did not last, in places that are volatile now."""
        self.newly_volatile: list[int] = []
        """Keys of places that are volatile since this poll."""
        self._survivors: set[int] = set()
        self._deaths: list[tuple[int, PlaceKeys, int]] = []

    def add_survivor(self, keys: PlaceKeys) -> None:
        """Note that a passage which appeared at the last poll is still there."""
        self._survivors.update(keys)

    def add_death(self, passage: int, keys: PlaceKeys, n_words: int) -> None:
        """Note that a passage which appeared at the last poll is gone."""
        self._deaths.append((passage, keys, n_words))

    def learn(self) -> None:
        """Update the places with what was noted."""
        died: dict[int, int] = {}
        for _, keys, n_words in self._deaths:
            for key in keys:
                died[key] = max(died.get(key, 0), n_words)
        for key in self._survivors - died.keys():
            slot = self.slots.get(key)
            if slot is not None and slot.n_died > 1:
                self.slots[key] = Slot(slot.n_died - 1, slot.n_words)
            elif slot is not None:
                del self.slots[key]
        for key, n_words in died.items():
            slot = self.slots.pop(key, Slot(0, 0))
            n_died = min(slot.n_died + 1, _POINTS_MAX)
            self.slots[key] = Slot(n_died, min(max(slot.n_words, n_words), _WORDS_MAX))
            if n_died == VOLATILE_MIN and slot.n_died < VOLATILE_MIN:
                self.newly_volatile.append(key)
        self.died = {p for p, keys, _ in self._deaths if any(map(self._is_full, keys))}
        if len(self.slots) > SLOTS_MAX:
            # Places with few points go first, of equal ones those touched least recently.
            by_points = sorted(self.slots, key=lambda key: self.slots[key].n_died)
            for key in by_points[: len(self.slots) - SLOTS_MAX]:
                del self.slots[key]

    def _is_full(self, key: int) -> bool:
        slot = self.slots.get(key)
        return slot is not None and slot.n_died >= VOLATILE_MIN

    def is_volatile(self, keys: PlaceKeys, n_words: int, host: HostMemory) -> bool:
        """Return whether a passage that appears in a place does not count.

        Parameters
        ----------
        keys
            Names of the place.
        n_words
            Words of the passage: one much longer than those that stood there before counts.
        host
            Memory of the host, which knows places that are volatile on several pages.
        """
        for key in keys:
            slot = self.slots.get(key)
            is_full = slot is not None and slot.n_died >= VOLATILE_MIN
            if slot is not None and is_full and 4 * n_words <= 5 * slot.n_words + 8:
                return True
            if host.is_volatile(key) and n_words <= HOST_WORDS_MAX:
                return True
        return False
