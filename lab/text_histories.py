"""Versions of real pages with sketches of their text, so that any two can be compared.

The file has one row per version: page, repository, time, digest of the words, number of distinct
four-word shingles, and their 256 smallest hashes.  It is recorded data, not part of this
repository (`lab.recorded`).
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lab.recorded import data_folder
from recrawl.core.divergence import Sketches, compare_sketches
from recrawl.sim import Web
from recrawl.sim.policies.learned_curves import WebContents

__all__ = [
    "TEXT_HISTORIES",
    "Counts",
    "Floats",
    "Histories",
    "TextHistories",
    "histories_of_web",
    "read_text_histories",
]

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]

TEXT_HISTORIES = "text_histories.parquet"
"""Name of the file in the folder of recorded data."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histories:
    """All versions of pages: those of page i are rows ``offsets[i]`` to ``offsets[i + 1]``.

    Parameters
    ----------
    offsets
        Where each page's rows begin; one more than pages.
    at
        When each version came, seconds, ascending within a page.
    digest
        Equal for versions of equal text.
    cluster
        What each page is resampled with: its repository, or the page itself.
    ends_at
        Until when each page was observed, seconds.
    compare
        Returns the divergences of versions from versions of the same pages, both by row.
    """

    offsets: Counts
    at: Floats
    digest: NDArray[np.uint64]
    cluster: Counts
    ends_at: Floats
    compare: Callable[[Counts, Counts], Floats]

    @property
    def n_pages(self) -> int:
        """Return the number of pages."""
        return self.offsets.size - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextHistories:
    """The recorded versions, without those that have no text.

    A version without text is a fetch that failed; as in the paper, the one before stands for it.

    Parameters
    ----------
    offsets, at, digest, cluster
        As of `Histories`.
    sketches
        Of all versions, by row.
    """

    offsets: Counts
    at: Floats
    digest: NDArray[np.uint64]
    cluster: Counts
    sketches: Sketches

    def histories(self, sketch_size: int | None = None) -> Histories:
        """Return the versions, compared by their ``sketch_size`` smallest hashes; all if none."""
        sketches = self.sketches if sketch_size is None else smaller(self.sketches, sketch_size)

        def compare(first: Counts, second: Counts) -> Floats:
            divergence = compare_sketches(sketches, first, second).divergence
            return np.where(self.digest[first] == self.digest[second], 0.0, divergence)

        return Histories(
            offsets=self.offsets,
            at=self.at,
            digest=self.digest,
            cluster=self.cluster,
            # The last version ends the record: nobody says for how long it stood.
            ends_at=self.at[self.offsets[1:] - 1],
            compare=compare,
        )

    def of_pages(self, pages: Counts) -> "TextHistories":
        """Return some of the pages, in the order given."""
        counts = np.diff(self.offsets)[pages]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        rows = _ranges(self.offsets[pages], counts)
        return TextHistories(
            offsets=offsets,
            at=self.at[rows],
            digest=self.digest[rows],
            cluster=self.cluster[pages],
            sketches=_sketches_of_rows(self.sketches, rows),
        )


def _ranges(start: Counts, count: Counts) -> Counts:
    """Return ``count[0]`` numbers from ``start[0]`` on, then those from ``start[1]`` and so on."""
    ends = np.cumsum(count)
    return np.repeat(start - (ends - count), count) + np.arange(ends[-1] if ends.size else 0)


def _sketches_of_rows(sketches: Sketches, rows: Counts) -> Sketches:
    sizes = np.diff(sketches.offsets)[rows]
    hashes = sketches.hashes[_ranges(sketches.offsets[rows], sizes)]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Sketches(hashes, offsets, sketches.n_fragments[rows])


def smaller(sketches: Sketches, size: int) -> Sketches:
    """Return the sketches that keep at most ``size`` hashes of each version."""
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size!r}")
    sizes = np.minimum(np.diff(sketches.offsets), size)
    hashes = sketches.hashes[_ranges(sketches.offsets[:-1], sizes)]
    return Sketches(hashes, np.concatenate([[0], np.cumsum(sizes)]), sketches.n_fragments)


def read_text_histories(path: Path | None = None) -> TextHistories:
    """Read the file of versions, by default from the folder of recorded data."""
    parquet = importlib.import_module("pyarrow.parquet")
    columns = ["page", "repo", "time", "digest", "shingles", "sketch"]
    table = parquet.read_table(path or data_folder() / TEXT_HISTORIES, columns=columns)
    lists = table["sketch"].combine_chunks()
    n_fragments = table["shingles"].to_numpy().astype(np.int64)
    has_text = np.flatnonzero(n_fragments > 0)
    # A version without text has no hashes, so those of the others lie end to end all the same.
    offsets = lists.offsets.to_numpy().astype(np.int64)
    sketches = Sketches(
        lists.values.to_numpy().astype(np.uint32, copy=False),
        np.append(offsets[has_text], offsets[-1]),
        n_fragments[has_text],
    )
    page = table["page"].to_numpy()[has_text]
    first = np.flatnonzero(np.diff(page, prepend=-1))
    repository = table["repo"].combine_chunks().dictionary_encode().indices.to_numpy()
    return TextHistories(
        offsets=np.append(first, page.size),
        at=table["time"].to_numpy().astype(np.float64)[has_text],
        digest=table["digest"].to_numpy()[has_text],
        cluster=repository[has_text[first]].astype(np.int64),
        sketches=sketches,
    )


def histories_of_web(web: Web) -> Histories:
    """Return the versions of a simulated web whose changes are all new; a page is a cluster."""
    pages = np.arange(web.n_pages)
    n_versions = web.changes.counts() + 1
    offsets = np.concatenate([[0], np.cumsum(n_versions)])
    owner = np.repeat(pages, n_versions)
    contents = WebContents(web)

    def compare(first: Counts, second: Counts) -> Floats:
        page = owner[first]
        return contents.divergence(page, first - offsets[page], second - offsets[page])

    at = np.insert(web.changes.at, web.changes.offsets[:-1], 0.0)
    return Histories(
        offsets=offsets,
        at=at,
        digest=np.arange(at.size, dtype=np.uint64),
        cluster=pages,
        ends_at=np.full(web.n_pages, web.horizon),
        compare=compare,
    )
