"""The passages of an answer as they are compared."""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from recrawl.content.extract.words import passage_hash
from recrawl.content.judging.page_memory import TextChoice
from recrawl.content.observation import Observation

__all__ = ["Version", "choose_text", "version_digest"]

COPIES_MAX: Final = 7
"""Copies of a passage on the same page that are compared."""
MAIN_WORDS_MIN: Final = 40
"""Words of a main text that can stand for the page."""
MAIN_SHARE_MIN: Final = 0.4
"""Share of all words from which the main text stands for the page."""
MAIN_SHARE_KEPT: Final = 0.25
"""Share below which a page that was compared by its main text is compared by all text."""
TITLES_CACHED: Final = 2_048
"""Titles of pages whose hashes are kept in memory."""

_TITLE_PARTS: Final = re.compile(r"\s+[-–—|·•»›:]\s+|\s*[|»›]\s*")
_MASK32 = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF
_COPY = 0x9E3779B97F4A7C15


@dataclass(slots=True)
class Version:
    """The passages of an observation in the order of the text.

    A passage that stands there twice has a second row with a hash of its own, so that it matters
    how often a state or a price is on the page.  Rows that are copies are never reported.
    """

    rows: NDArray[np.int64]
    """Row of the observation of each passage."""
    hashes: NDArray[np.uint64]
    n_words: NDArray[np.uint8]
    is_in_main: NDArray[np.bool_]
    shape_column: NDArray[np.uint16]
    path_column: NDArray[np.uint16]
    passages: list[int]
    words: list[int]
    is_main: list[bool]
    shapes: list[int]
    paths: list[int]
    copies: set[int]

    @classmethod
    def of(cls, observation: Observation) -> "Version":
        """Return the passages of an observation."""
        passages = observation.passages.tolist()
        n_words, is_main = observation.n_words, observation.is_main | _repeats_title(observation)
        shapes, paths = observation.shapes, observation.paths
        if not paths.size:
            paths = np.zeros(len(passages), dtype=np.uint32)
        copies: set[int] = set()
        if len(set(passages)) == len(passages):
            rows, hashes = np.arange(len(passages)), observation.passages
        else:
            passages, rows, copies = _number_copies(passages)
            hashes = np.array(passages, dtype=np.uint64)
            n_words, is_main = n_words[rows], is_main[rows]
            shapes, paths = shapes[rows], paths[rows]
        words = np.minimum(n_words, 255).astype(np.uint8)
        # The lower 16 bits of shapes and paths are compared.
        shape_column, path_column = shapes.astype(np.uint16), paths.astype(np.uint16)
        return cls(
            rows,
            hashes,
            words,
            is_main,
            shape_column,
            path_column,
            passages,
            words.tolist(),
            is_main.tolist(),
            shape_column.tolist(),
            path_column.tolist(),
            copies,
        )

    def shape_key(self) -> int:
        """Return a digest (32 bits) of the text with its numbers masked, as a clock has them."""
        shapes = self.shape_column.astype("<u2", copy=False)
        return xxhash.xxh3_64_intdigest(shapes.tobytes()) & _MASK32


def _number_copies(hashes: list[int]) -> tuple[list[int], NDArray[np.int64], set[int]]:
    """Return the passages with hashes of their own for copies, their rows, and the copies."""
    n = len(hashes)
    first_row = dict(zip(reversed(hashes), range(n - 1, -1, -1), strict=True))
    passages = hashes.copy()
    copies: set[int] = set()
    n_seen: dict[int, int] = {}
    left_out = []
    for row, passage in enumerate(hashes):
        if first_row[passage] == row:
            continue
        k = n_seen.get(passage, 0) + 1
        n_seen[passage] = k
        key = (passage + k * _COPY) & _MASK64
        if k > COPIES_MAX or key in first_row or key in copies:
            left_out.append(row)
        else:
            copies.add(key)
            passages[row] = key
    rows = np.arange(n)
    if left_out:
        rows = np.delete(rows, left_out)
        passages = [passages[row] for row in rows.tolist()]
    return passages, rows, copies


@lru_cache(maxsize=TITLES_CACHED)
def _title_hashes(title: str) -> frozenset[int | None]:
    """Return the hashes of a title and its parts; a page has the same title at every poll."""
    parts = {title, *_TITLE_PARTS.split(title)}
    return frozenset(passage_hash(part) for part in parts if part)


def _repeats_title(observation: Observation) -> NDArray[np.bool_]:
    """Return whether each passage is the title or a part of it: such a heading is main text."""
    # A passage has at most as many words as characters, so most need not be compared.
    n_words_max = len(observation.title)
    rows = np.flatnonzero(~observation.is_main & (observation.n_words <= n_words_max))
    is_title = np.zeros(observation.passages.size, dtype=bool)
    if rows.size:
        known = _title_hashes(observation.title)
        is_title[rows] = [passage in known for passage in observation.passages[rows].tolist()]
    return is_title


def choose_text(version: Version, before: TextChoice | None) -> TextChoice:
    """Return whether the main text stands for the page; a page keeps its choice in between.

    Parameters
    ----------
    version
        Passages of the answer.
    before
        Choice of the page so far, None if it has none.
    """
    n_words = sum(version.words)
    n_main = sum(compress(version.words, version.is_main))
    share = MAIN_SHARE_KEPT if before == TextChoice.MAIN else MAIN_SHARE_MIN
    is_enough = n_main >= MAIN_WORDS_MIN and n_main >= share * n_words
    return TextChoice.MAIN if is_enough else TextChoice.ALL


def version_digest(passages: list[int] | NDArray[np.uint64]) -> bytes:
    """Return the digest of a version, whatever the order of its passages.

    Parameters
    ----------
    passages
        Hashes of the passages that count.
    """
    hashes = np.sort(np.array(passages, dtype="<u8"))
    return xxhash.xxh3_128_digest(hashes.tobytes())
