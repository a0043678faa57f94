"""Where the passages of two versions of a page stand."""

from typing import Final

from recrawl.content.judging.answer import JudgedAnswer
from recrawl.content.judging.page_memory import AGES, PageMemory, PassageFlag
from recrawl.content.judging.places import Gap, find_gaps, gap_keys
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
        self.gone = {key & ~AGES for key in page.gone}
        """Keys of passages that the page had a short time ago."""

    def find_places(self) -> None:
        """Find out where each passage stands, and which are replaced by one with other numbers."""
        version, page = self.answer.version, self.page
        anchors = {p for p in self.kept if not self.old_flags[p] & _LOOSE}
        self.old_gap: dict[int, Gap] = dict(
            zip(self.old, find_gaps(self.old, anchors), strict=True)
        )
        self.new_gap: dict[int, Gap] = dict(
            zip(version.passages, find_gaps(version.passages, anchors), strict=True)
        )
        self.old_shape: dict[int, int] = dict(zip(self.old, page.shapes.tolist(), strict=True))
        self.new_shape: dict[int, int] = dict(zip(version.passages, version.shapes, strict=True))
        self.old_path: dict[int, int] = dict(zip(self.old, page.paths.tolist(), strict=True))
        self.new_path: dict[int, int] = dict(zip(version.passages, version.paths, strict=True))
        self.old_paths = set(self.old_path.values())
        self.host_paths = self._paths_of_host()
        self.template_ends: set[int] = set()
        if self.answer.knows_host:
            ends = [p for p in anchors if p in self.answer.template]
            self.template_ends = {gap_keys(p)[0] for p in (0, *ends)}
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

    def _pair(self, new: int, old: int) -> None:
        self.renumbered[new] = old
        self.renumbered[old] = new

    def _paths_of_host(self) -> set[int]:
        """Return the paths whose passages are mostly those of other pages as well."""
        if not self.answer.knows_host:
            return set()
        host = self.answer.host
        is_small = host.n_pages < SMALL_HOST_PAGES
        counts: dict[int, list[int]] = {}
        for p in self.old:
            n_others = host.n_others(p, is_counted=self.page.in_sample)
            count = counts.setdefault(self.old_path[p], [0, 0])
            count[0] += 1
            count[1] += n_others > 0 if is_small else n_others
        share = SMALL_HOST_PATH_SHARE if is_small else HOST_PATH_SHARE * host.n_pages
        return {path for path, (n, n_shared) in counts.items() if path and n_shared >= share * n}

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
        return is_new and self.new_gap[passage][0] in self.template_ends

    def is_new_design(self) -> bool:
        """Return whether most passages stand in other elements, or much of the template is gone."""
        template = self.answer.template
        n_gone = sum(p in template for p in self.removed)
        n_new = sum(self.is_shared(p) for p in self.added)
        n_parts = sum(p in template for p in self.old)
        is_template = max(n_gone, n_new) >= max(
            DESIGN_PASSAGES_MIN, DESIGN_TEMPLATE_SHARE * n_parts
        )
        n_moved = sum(self.old_path[p] != self.new_path[p] for p in self.kept)
        is_moved = n_moved >= DESIGN_PASSAGES_MIN and 2 * n_moved >= len(self.kept)
        return is_moved or is_template
