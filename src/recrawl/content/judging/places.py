"""Places of a page in which passages never last: clocks, counters, tokens, rotating teasers.

A passage that is replaced by one that differs only in its numbers has a place by its shape.  Any
other has a place by the passage before it, and one by the passage after it.  Whenever a passage is
gone at the poll after the one at which it appeared, its place collects a point; when one survives,
the place loses a point.  With enough points, what replaces a passage there does not count.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from recrawl.content.judging.host_memory import HostMemory
from recrawl.content.judging.page_memory import SLOTS_MAX, Slot

__all__ = ["VOLATILE_MIN", "Gap", "Places", "find_gaps", "flapping_key", "shape_key"]

Gap: TypeAlias = tuple[int, int]
"""Keys of the space between two stable passages: by the one before, by the one after."""

VOLATILE_MIN: Final = 2
"""Points from which a place is volatile."""
HOST_WORDS_MAX: Final = 40
"""Words of a passage that does not count because its place is volatile on other pages."""
_POINTS_MAX: Final = 6
_WORDS_MAX: Final = 255
_MASK = 0xFFFFFFFF
_UPPER = 0xFFFFFFFC


def find_gaps(order: Sequence[int], anchors: set[int]) -> list[Gap]:
    """Return the gap in which each passage stands.

    Parameters
    ----------
    order
        Hashes of passages in the order of the text.
    anchors
        Passages that both versions have and that are stable.
    """
    before, last = [], 0
    for passage in order:
        before.append(last & _UPPER | 1)
        if passage in anchors:
            last = passage & _MASK
    after, last = [], 0
    for passage in reversed(order):
        after.append(last & _UPPER | 2)
        if passage in anchors:
            last = passage & _MASK
    return list(zip(before, reversed(after), strict=True))


def shape_key(shape: int) -> int:
    """Return the key of the places of a shape (16 bits)."""
    return (shape * 0x9E3779B1) & _UPPER | 3


def flapping_key(passage: int) -> int:
    """Return the key of a passage that comes and goes."""
    return passage & _UPPER


class Places:
    """Places of a page, and what a poll shows about them.

    Parameters
    ----------
    slots
        Places before the poll.
    host
        Memory of the host, which knows places that are volatile on several pages.
    """

    def __init__(self, slots: Mapping[int, Slot], host: HostMemory) -> None:
        self.slots = dict(slots)
        self.host = host
        self.reports: list[int] = []
        """Keys of places in which a passage did not last, for the first time."""
        self.doubts: list[int] = []
        """Keys of places that the host takes for volatile and in which a passage lasted."""

    def learn(
        self,
        died: Sequence[tuple[int, Gap, int]],
        survived: Sequence[tuple[int, Gap]],
        shapes_by_gap: Mapping[Gap, set[int]],
    ) -> None:
        """Update the places with what a poll shows.

        Parameters
        ----------
        died
            Shape, gap and words of each passage that appeared at the last poll and is gone.
        survived
            Shape and gap of each passage that appeared at the last poll and is still there.
        shapes_by_gap
            Shapes of the new passages in each gap.
        """
        points: dict[int, int] = {}
        for shape, gap, n_words in died:
            is_number = shape in shapes_by_gap.get(gap, ())
            for key in (shape_key(shape),) if is_number else gap:
                points[key] = max(points.get(key, 0), n_words)
        lasted = {key for shape, gap in survived for key in (*gap, shape_key(shape))}
        for key in lasted - points.keys():
            slot = self.slots.get(key)
            if slot is not None and slot.n_died > 1:
                self.slots[key] = Slot(slot.n_died - 1, slot.n_words)
            elif slot is not None:
                del self.slots[key]
            if key in self.host.places:
                self.doubts.append(key)
        for key, n_words in points.items():
            slot = self.slots.pop(key, Slot(0, 0))
            n_died = min(slot.n_died + 1, _POINTS_MAX)
            self.slots[key] = Slot(n_died, min(max(slot.n_words, n_words), _WORDS_MAX))
            if not slot.n_died:
                self.reports.append(key)
        if len(self.slots) > SLOTS_MAX:
            # Places with few points go first, of equal ones those touched least recently.
            by_points = sorted(self.slots, key=lambda key: self.slots[key].n_died)
            for key in by_points[: len(self.slots) - SLOTS_MAX]:
                del self.slots[key]

    def is_volatile(self, key: int, n_words: int) -> bool:
        """Return whether what appears in a place does not count.

        Parameters
        ----------
        key
            Key of the place.
        n_words
            Words of the passage: one much longer than those that stood there before counts.
        """
        slot = self.slots.get(key)
        if slot is not None and slot.n_died >= VOLATILE_MIN:
            return 4 * n_words <= 5 * slot.n_words + 8
        return n_words <= HOST_WORDS_MAX and self.host.is_volatile(key)
