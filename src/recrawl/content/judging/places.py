"""Places of a page in which passages never last: clocks, counters, tokens, rotating teasers.

What counts is how long a passage lasts that has just appeared.  A new headline in a list is still
there at the next poll; a teaser that is drawn at random, or a counter, is not.  So a place is
volatile if passages that appear in it are gone at the next poll, again and again.

A passage belongs to several places at once, and each learns separately:

- The elements around it (its path), if its words differ from those before it.
- The numbers in these elements, and the numbers of passages with the same other words, if it is
  replaced by one that differs only in numbers.
- The list of numbers in these elements, such as a counter beside each entry: counters that grow
  slowly last for a while each, but some of them differ at every poll.
- The space between two stable passages, for texts without elements.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from recrawl.content.judging.host_memory import HostMemory
from recrawl.content.judging.page_memory import SLOTS_MAX, Slot

__all__ = [
    "Gap",
    "PassageGaps",
    "Places",
    "Seen",
    "flapping_key",
    "gap_keys",
    "list_key",
    "numbers_key",
    "path_key",
    "shape_key",
]

Gap: TypeAlias = tuple[int, int]
"""Keys of the space between two stable passages: by the one before, by the one after."""

DIED_MIN: Final = 2
"""Polls at which passages of a place did not last before it is volatile."""
WORDS_SHARE_MIN: Final = 0.5
"""Share of the passages in a place that do not last, from which it is volatile."""
NUMBERS_SHARE_MIN: Final = 0.3
"""The same for numbers: a counter may stay the same for a while."""
LIST_SHARE_MIN: Final = 0.25
"""Share of the numbers of a list that differ from poll to poll, from which they are counters."""
LIST_LENGTH_MIN: Final = 4
"""Numbers of a list."""
LIST_DIED_MIN: Final = 2
"""Numbers of a list that differ at a poll, at least."""
VOLATILE_WORDS_MAX: Final = 30
"""Words of a passage that does not count because its place is volatile: clocks and teasers are
short, and paragraphs that are replaced often are content all the same."""
_MEMORY_POLLS: Final = 4
_DIED_MAX: Final = 15
_WORDS_MAX: Final = 255
_SHARE_ONE: Final = 255
_MASK = 0xFFFFFFFF
_KEYS_CACHED: Final = 1 << 14
_BEFORE, _AFTER, _PATH, _NUMBERS, _SHAPE, _FLAPPING, _LIST = range(1, 8)
_KIND_BITS = 7
_SHARE_MIN = {_NUMBERS: NUMBERS_SHARE_MIN, _SHAPE: NUMBERS_SHARE_MIN, _LIST: LIST_SHARE_MIN}


@lru_cache(maxsize=_KEYS_CACHED)
def _key(kind: int, value: int) -> int:
    mixed = value * 0x9E3779B97F4A7C15 + kind
    return ((mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 >> 24) & (_MASK ^ _KIND_BITS) | kind


class PassageGaps:
    """The gaps between stable passages in which the passages of a version stand.

    Parameters
    ----------
    order
        Hashes of passages in the order of the text.
    anchors
        Passages that both versions have and that are stable.
    """

    def __init__(self, order: Sequence[int], anchors: Set[int]) -> None:
        self._order = order
        self._anchor_rows = [row for row, passage in enumerate(order) if passage in anchors]
        self._row_of = dict(zip(order, range(len(order)), strict=True))

    def __getitem__(self, passage: int) -> Gap:
        row, rows = self._row_of[passage], self._anchor_rows
        k = bisect_left(rows, row)
        before = self._order[rows[k - 1]] if k else 0
        k += k < len(rows) and rows[k] == row
        after = self._order[rows[k]] if k < len(rows) else 0
        return gap_keys(before)[0], gap_keys(after)[1]


def gap_keys(passage: int) -> Gap:
    """Return the keys of the space after a stable passage, and of that before it."""
    upper = passage & (_MASK ^ _KIND_BITS)
    return upper | _BEFORE, upper | _AFTER


def path_key(path: int) -> int:
    """Return the key of the words inside elements with a path (16 bits)."""
    return _key(_PATH, path)


def numbers_key(path: int) -> int:
    """Return the key of the numbers inside elements with a path (16 bits)."""
    return _key(_NUMBERS, path)


def shape_key(path: int, shape: int) -> int:
    """Return the key of the numbers of passages with a path and a shape (16 bits each)."""
    return _key(_SHAPE, path << 16 | shape)


def list_key(path: int) -> int:
    """Return the key of the list of numbers inside elements with a path (16 bits)."""
    return _key(_LIST, path)


def flapping_key(passage: int) -> int:
    """Return the key of a passage that comes and goes."""
    return passage & (_MASK ^ _KIND_BITS) | _FLAPPING


class Seen(NamedTuple):
    """What a poll shows of a passage that appeared at the poll before."""

    keys: tuple[int, ...]
    """Keys of its places."""
    has_died: bool
    n_words: int


class Places:
    """Places of a page, and what a poll shows about them.

    Parameters
    ----------
    slots
        Places before the poll.
    host
        Memory of the host, which knows places that are volatile on several pages.
    is_first
        Whether two answers of the page are compared for the first time.
    """

    def __init__(self, slots: Mapping[int, Slot], host: HostMemory, *, is_first: bool) -> None:
        self.slots = dict(slots)
        self.host = host
        self.is_first = is_first
        self.reports: list[int] = []
        """Keys of places that are found to be volatile now."""
        self.doubts: list[int] = []
        """Keys of places that the host takes for volatile and in which a passage lasted."""

    def learn(self, seen: Iterable[Seen]) -> None:
        """Update the places with what a poll shows.

        Parameters
        ----------
        seen
            Passages that appeared at the poll before.
        """
        counts: dict[int, list[int]] = {}
        for keys, has_died, n_words in seen:
            for key in keys:
                count = counts.setdefault(key, [0, 0, 0])
                count[0] += 1
                if has_died:
                    count[1] += 1
                    count[2] = max(count[2], n_words)
        for key, (n_seen, n_died, n_words) in counts.items():
            is_list = key & _KIND_BITS == _LIST
            if is_list and n_seen < LIST_LENGTH_MIN:
                continue
            # One other number in a short list is an edit; counters differ at several entries.
            is_edit = is_list and n_died < LIST_DIED_MIN
            self._update(key, 0.0 if is_edit else n_died / n_seen, n_words)
        if len(self.slots) > SLOTS_MAX:
            # Places where little died go first, of equal ones those touched least recently.
            by_share = sorted(self.slots, key=lambda key: self.slots[key].share)
            for key in by_share[: len(self.slots) - SLOTS_MAX]:
                del self.slots[key]

    def rename(self, names: Iterable[tuple[int, int, int]]) -> None:
        """Let places keep what is known of them when their elements have other names.

        Parameters
        ----------
        names
            Old path, new path and shape of passages.
        """
        for old, new, shape in names:
            for before, now in (
                (path_key(old), path_key(new)),
                (numbers_key(old), numbers_key(new)),
                (list_key(old), list_key(new)),
                (shape_key(old, shape), shape_key(new, shape)),
            ):
                if before in self.slots:
                    self.slots[now] = self.slots.pop(before)

    def rename_numbers(self, names: Iterable[tuple[int, int, int, int]]) -> None:
        """Let numbers keep what their page and its host know of them in elements of another name.

        The host would have to learn the new names from many pages, and count a clock or a counter
        as a change of each of them.

        Parameters
        ----------
        names
            Old path, new path, shape and words of passages that differ only in their numbers.
        """
        for old, new, shape, n_words in names:
            before, now = shape_key(old, shape), shape_key(new, shape)
            if self.is_volatile(before, n_words) or self.host.is_volatile(numbers_key(old)):
                self.slots[now] = Slot(DIED_MIN, _SHARE_ONE, min(n_words, _WORDS_MAX))
            elif before in self.slots:
                self.slots[now] = self.slots.pop(before)

    def _update(self, key: int, share: float, n_words: int) -> None:
        slot = self.slots.get(key)
        if share == 0 and key in self.host.places:
            self.doubts.append(key)
        if slot is None:
            if share == 0:
                return
            slot = Slot(0, 0, 0)
            weight = 1.0
        else:
            weight = 1 / min(slot.n_died + 1, _MEMORY_POLLS)
            del self.slots[key]  # to stand last: touched most recently
        now = slot.share + round((_SHARE_ONE * share - slot.share) * weight)
        n_died = min(slot.n_died + (share > 0), _DIED_MAX)
        if now >= _SHARE_ONE // 10:
            self.slots[key] = Slot(n_died, now, min(max(slot.n_words, n_words), _WORDS_MAX))
        share_min = _SHARE_MIN.get(key & _KIND_BITS, WORDS_SHARE_MIN)
        is_told_now = n_died == (1 if self.is_first else DIED_MIN) and n_died > slot.n_died
        if is_told_now and now >= _SHARE_ONE * share_min:
            self.reports.append(key)

    def is_volatile(self, key: int, n_words: int, *, n_died_min: int = DIED_MIN) -> bool:
        """Return whether what appears in a place does not count.

        Parameters
        ----------
        key
            Key of the place.
        n_words
            Words of the passage: one much longer than those that stood there before counts.
        n_died_min
            Polls at which passages did not last, at least.
        """
        if n_words > VOLATILE_WORDS_MAX:
            return False
        slot = self.slots.get(key)
        kind = key & _KIND_BITS
        share_min = _SHARE_MIN.get(kind, WORDS_SHARE_MIN)
        if slot is not None and slot.n_died >= n_died_min and slot.share >= _SHARE_ONE * share_min:
            return 4 * n_words <= 5 * slot.n_words + 8
        if n_died_min > DIED_MIN:
            return False
        return self.host.is_volatile(key)
