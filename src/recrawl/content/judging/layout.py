"""Where the passages of two versions of a page stand."""

from collections import Counter
from functools import cached_property
from operator import ne
from typing import Final

from recrawl.content.judging.answer import JudgedAnswer
from recrawl.content.judging.page_memory import AGES, PageMemory, PassageFlag
from recrawl.content.judging.places import PassageGaps, gap_keys
from recrawl.content.observation import SHAPE_FLAGS, ShapeFlag

__all__ = ["PassageLayout"]

SHARED_PAGES_MIN: Final = 2
"""Other pages that have a passage which is not the page's own."""
SHARED_SHARE: Final = 0.15
"""Share of the pages of the host that have such a passage."""
SMALL_HOST_PAGES: Final = 8
"""Pages of a host up to which little is known of what its pages share."""
SMALL_HOST_PATH_SHARE: Final = 0.5
"""Share of the passages of a list that another page of a small host has, if pages share it."""
HOST_PATH_SHARE: Final = 0.4
"""Share of the pages of the host that have a passage of a list which pages share, on average."""
DESIGN_TEMPLATE_SHARE: Final = 0.25
"""Share of the template of a page that is gone when it has a new design."""
DESIGN_PASSAGES_MIN: Final = 5
"""Passages that stand in other elements, or parts of the template that are gone, when a page has a
new design."""

_LOOSE = int(PassageFlag.VOLATILE | PassageFlag.RETURNED)
_VARIABLE = int(ShapeFlag.NUMBERS | ShapeFlag.TIME)


class PassageLayout:
    """The passages of an answer and of the page's last version, and where each stands.

    Parameters
    ----------
    answer
        Answer beside the memories.
    page
        Memory of the page.
    """

    def __init__(self, answer: JudgedAnswer, page: PageMemory) -> None:
        self.answer = answer
        self.page = page
        version = answer.version
        self.old = page.passages.tolist()
        self.old_flags: dict[int, int] = dict(zip(self.old, page.flags.tolist(), strict=True))
        self.old_words: dict[int, int] = dict(zip(self.old, page.words.tolist(), strict=True))
        now = set(version.passages)
        self.kept = {passage for passage in self.old if passage in now}
        self.added = [p for p in version.passages if p not in self.old_flags]
        self.removed = [p for p in self.old if p not in now]
        self.gone = {key & ~AGES: key & AGES for key in page.gone}
        """Keys of passages that the page had a short time ago: changes since then."""

        self.old_shape: dict[int, int] = dict(zip(self.old, page.shapes.tolist(), strict=True))
        self.new_shape: dict[int, int] = dict(zip(version.passages, version.shapes, strict=True))
        self.old_path: dict[int, int] = dict(zip(self.old, page.paths.tolist(), strict=True))
        self.new_path: dict[int, int] = dict(zip(version.passages, version.paths, strict=True))

    def find_places(self) -> None:
        """Find out where each passage stands, and which are replaced by one with other numbers."""
        version = self.answer.version
        anchors = {p for p in self.kept if not self.old_flags[p] & _LOOSE}
        self.old_gap = PassageGaps(self.old, anchors)
        self.new_gap = PassageGaps(version.passages, anchors)
        self._follow_moves()
        self.old_paths = set(self.old_path.values())
        self._template_anchors = anchors & self.answer.template
        self.renumbered: dict[int, int] = {}
        """Passages that differ only in numbers: the old one of each new one, and back."""
        waiting: dict[tuple[int, int], list[int]] = {}  # by path, and shape without flags
        for p in self.removed:
            if self.old_shape[p] & _VARIABLE:
                place = self.old_path[p], self.old_shape[p] & ~SHAPE_FLAGS
                waiting.setdefault(place, []).append(p)
        for p in self.added:
            if not self.new_shape[p] & _VARIABLE:
                continue
            others = waiting.get((self.new_path[p], self.new_shape[p] & ~SHAPE_FLAGS))
            if others:
                self._pair(p, others.pop(0))
        # Elements whose classes have other names: the shape alone tells.
        moved: dict[int, list[int]] = {}
        for (_, shape), others in waiting.items():
            moved.setdefault(shape, []).extend(others)
        for p in self.added:
            others = moved.get(self.new_shape[p] & ~SHAPE_FLAGS, [])
            if p not in self.renumbered and len(others) == 1 and self.new_shape[p] & _VARIABLE:
                self._pair(p, others.pop())

    def _follow_moves(self) -> None:
        """Let old passages stand in the elements to which most of their neighbours have moved."""
        paths = map(self.old_path.get, self.kept), map(self.new_path.get, self.kept)
        self.n_moved: int = sum(map(ne, *paths))
        self.new_names: dict[int, int] = {}
        """Paths of elements that have another name in a new design, by their old path."""
        self.renamed_paths: set[int] = set()
        if not self.has_moved:
            return
        votes: dict[int, Counter[int]] = {}
        for p in self.kept:
            if not self.old_flags[p] & _LOOSE:
                votes.setdefault(self.old_path[p], Counter())[self.new_path[p]] += 1
        for path, names in votes.items():
            name, n = names.most_common(1)[0]
            if path and name and 2 * n > names.total():
                self.new_names[path] = name
        self.renamed_paths = set(self.new_names.values())
        self.old_path = {p: self.new_names.get(path, path) for p, path in self.old_path.items()}

    @property
    def has_moved(self) -> bool:
        """Whether most passages stand in other elements than before."""
        return self.n_moved >= DESIGN_PASSAGES_MIN and 2 * self.n_moved >= len(self.kept)

    def _pair(self, new: int, old: int) -> None:
        self.renumbered[new] = old
        self.renumbered[old] = new

    @cached_property
    def host_paths(self) -> set[int]:
        """Paths whose passages are mostly those of other pages as well."""
        if not self.answer.knows_host:
            return set()
        host = self.answer.host
        is_small = host.n_pages < SMALL_HOST_PAGES
        is_counted = self.page.in_sample
        n_others = host.n_others_of(self.page.passages, is_counted=is_counted)
        if is_small:
            n_others = [n > 0 for n in n_others]
        n_shared: dict[int, int] = {}
        for path, n in zip(self.old_path.values(), n_others, strict=True):
            n_shared[path] = n_shared.get(path, 0) + n
        share = SMALL_HOST_PATH_SHARE if is_small else HOST_PATH_SHARE * host.n_pages
        n_of = Counter(self.old_path.values())
        return {path for path, n in n_shared.items() if path and n >= share * n_of[path]}

    def is_shared(self, passage: int) -> bool:
        """Return whether other pages of the host have a passage.

        Parameters
        ----------
        passage
            Hash of the passage.
        """
        host = self.answer.host
        n_shared = max(SHARED_PAGES_MIN, SHARED_SHARE * host.n_pages)
        is_counted = self.page.in_sample and passage in self.old_flags
        return self.answer.knows_host and host.n_others(passage, is_counted=is_counted) >= n_shared

    @cached_property
    def _template_ends(self) -> set[int]:
        """PassageGaps that begin after a stable part of the template, or where the page begins."""
        if not self.answer.knows_host:
            return set()
        return {gap_keys(p)[0] for p in (0, *self._template_anchors)}

    def is_announcement(self, passage: int) -> bool:
        """Return whether a passage stands in new elements after a part of the template.

        All pages of a host may show it soon.

        Parameters
        ----------
        passage
            Hash of a new passage.
        """
        path = self.new_path[passage]
        is_new = bool(path) and path not in self.old_paths
        return is_new and self.new_gap[passage][0] in self._template_ends

    def is_new_design(self) -> bool:
        """Return whether most passages stand in other elements, or much of the template is gone."""
        template = self.answer.template
        n_gone = sum(map(template.__contains__, self.removed))
        n_new = sum(self.is_shared(p) for p in self.added)
        n_parts = sum(map(template.__contains__, self.old))
        is_template = max(n_gone, n_new) >= max(
            DESIGN_PASSAGES_MIN, DESIGN_TEMPLATE_SHARE * n_parts
        )
        return self.has_moved or is_template
