"""What recrawl sees of one body: its passages as columns, and facts about the page."""

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recrawl.content.answer_hints import HINT_WORDS_MAX, find_hints
from recrawl.core.divergence import pack_sketch
from recrawl.core.kernel import table_kernel

__all__ = [
    "EXTRACTOR_VERSION",
    "PASSAGES_MAX",
    "PROBLEMS",
    "SHAPE_FLAGS",
    "SKETCH_HASHES_MAX",
    "ContentKind",
    "Observation",
    "ShapeFlag",
]

EXTRACTOR_VERSION: Final = 1
"""Number of the way in which passages are made.  Increase it whenever the same body would yield
other passages: the next poll of a page then sets a new baseline instead of reporting a change."""

PASSAGES_MAX: Final = 512
"""Passages of an observation; neighbours are merged where a body has more."""

SKETCH_HASHES_MAX: Final = 128
"""Hashes of a sketch (m): its divergence has a standard error of at most .044."""

OPENING_BYTES: Final = 16_000
"""Size of the start of a text that is kept for hints of a wrong answer."""
OPENING_WORDS_MAX: Final = HINT_WORDS_MAX
"""Words of a page up to which the start of its text is kept."""

_SKETCH_SCHEME = 1

PROBLEMS: Final = {
    "too_large": "the body is larger than the limit, so a part of it is compared by its bytes",
    "not_parsed_too_large": "the page is larger than the limit, so its main text is not known",
    "too_many_tags": "the page has more tags than the limit, so its main text is not known",
    "too_deep": "elements are nested deeper than the limit, so the main text is not known",
    "too_many_attributes": "a tag has more attributes than the limit, so the main text is "
    "not known",
    "bad_bytes": "some bytes are not valid in the character set",
    "not_parsed": "the body could not be parsed as what it claims to be",
    "no_extra": "the package that reads this kind of body is not installed",
    "nothing_selected": "no element matches the selectors, so the whole page counts",
    "bad_selector": "a CSS selector could not be used and is ignored",
    "timed_out": "reading the body took too long, so it is compared by bytes",
    "crashed": "the process that read the body ended, so it is compared by bytes",
}
"""Codes of problems and what they mean."""


class ContentKind(IntEnum):
    """How a body was read."""

    HTML = 1
    TEXT = 2
    JSON = 3
    XML = 4
    FEED = 5
    PDF = 6
    BYTES = 7


class ShapeFlag(IntFlag):
    """What a shape says of its passage."""

    NUMBERS = 1
    """Numbers, dates or tokens are in it, and left out."""
    NUMBERS_ALONE = 2
    """Nothing else is in it."""
    MONEY = 4
    """The sign of a currency is in it."""
    TIME = 8
    """A relative time such as "3 hours ago" was in it, and dropped."""


SHAPE_FLAGS: Final = 15
"""Bits of a shape that are flags; the others are a hash."""


def _no_hashes() -> NDArray[np.uint32]:
    return np.empty(0, dtype=np.uint32)


def _no_offsets() -> NDArray[np.int64]:
    return np.zeros(1, dtype=np.int64)


@table_kernel
def _drop_repeats(hashes: NDArray[np.uint32]) -> int:
    """Move the distinct hashes of an ascending column to its start; return how many there are."""
    n = 0
    for k in range(hashes.size):
        if n == 0 or hashes[k] != hashes[n - 1]:
            hashes[n] = hashes[k]
            n += 1
    return n


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observation:
    """What recrawl sees of one body.

    The columns ``passages``, ``is_main``, ``n_words``, ``shapes`` and ``paths`` have one row for
    each passage, in the order of the text.

    Parameters
    ----------
    kind
        How the body was read.
    extractor
        `EXTRACTOR_VERSION` of the code that made this observation.
    body_digest
        Digest of the raw body, 16 bytes.
    n_bytes
        Size of the raw body.
    charset
        Name of the character set, empty for bytes.
    passages
        Hash of each passage.
    is_main
        Whether each passage belongs to the main text rather than to menus, footers and the like.
    n_words
        Words of each passage, at most 65 535.
    shapes
        Hash of each passage without its numbers and tokens: a clock keeps its shape.  The
        lowest four bits are those of `ShapeFlag`.
    paths
        Key of the elements around each passage, such as the rows of a certain table; no rows if the
        body has no elements.
    shingles, shingle_offsets
        Hashes of the 4-word shingles, and where those of each passage begin.
    level
        How coarse the passages are: 0 for one hash per passage; each level merges twice as many
        neighbours.  `recrawl.content.merge_passages` brings an observation to a higher level.
    is_coarse
        Whether the body was too large or too complex to be read exactly.
    is_closed
        Whether the end tag of an HTML page is there, so that it was not cut.
    title, language, canonical_url, robots
        Facts from the head of an HTML page, empty if it has none.
    n_links
        Links of an HTML page.
    opening
        Start of the text of a short HTML page, in which hints of a wrong answer are looked for.
    links
        Targets of links as written, if asked for.
    texts
        Text of each passage, if asked for.
    ignored_texts
        Texts that the settings exclude, each with the reason, if asked for.
    problems
        Codes of `PROBLEMS`.
    """

    kind: ContentKind
    extractor: int = EXTRACTOR_VERSION
    body_digest: bytes = bytes(16)
    n_bytes: int = 0
    charset: str = ""
    passages: NDArray[np.uint64]
    is_main: NDArray[np.bool_]
    n_words: NDArray[np.uint16]
    shapes: NDArray[np.uint32]
    paths: NDArray[np.uint32] = field(default_factory=_no_hashes)
    shingles: NDArray[np.uint32] = field(default_factory=_no_hashes)
    shingle_offsets: NDArray[np.int64] = field(default_factory=_no_offsets)
    level: int = 0
    is_coarse: bool = False
    is_closed: bool = False
    title: str = ""
    language: str = ""
    canonical_url: str = ""
    robots: str = ""
    n_links: int = 0
    opening: str = ""
    links: tuple[str, ...] | None = None
    texts: tuple[str, ...] | None = None
    ignored_texts: tuple[tuple[str, str], ...] | None = None
    problems: tuple[str, ...] = ()

    @property
    def hints(self) -> int:
        """Bits of `AnswerHint`: whether the answer reads like an error page or a login wall.

        They are found when they are asked for: a page whose text did not change needs none.
        """
        if self.kind != ContentKind.HTML:
            return 0
        return find_hints(self.title, self.opening, int(self.n_words.sum()))

    @property
    def sketch(self) -> bytes:
        """Sketch of all text, in the format of ``Outcome.sketch``."""
        return self.sketch_of(None)

    def sketch_of(self, is_counted: NDArray[np.bool_] | None) -> bytes:
        """Return the sketch of some passages, in the format of ``Outcome.sketch``.

        Parameters
        ----------
        is_counted
            Whether each passage belongs to the sketch; None for all.
        """
        if is_counted is None or is_counted.all():
            hashes = self.shingles.copy()
        else:
            sizes = self.shingle_offsets[1:] - self.shingle_offsets[:-1]
            hashes = self.shingles[np.repeat(is_counted, sizes)]
        hashes.sort()
        n_distinct = _drop_repeats(hashes)
        return pack_sketch(
            hashes[: min(n_distinct, SKETCH_HASHES_MAX)],
            n_fragments=n_distinct,
            scheme=_SKETCH_SCHEME,
        )
