"""Histories as Longevity saw them: snapshots at regular times, between which nothing is fetched.

A policy may fetch a page at any snapshot, and is judged by what happens in between.  The paper
had to guess that from the snapshots (App. B); here all versions are known, so it is exact.
Whoever knows these four tables knows all that a policy can cause or see.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.text_histories import Counts, Floats, Histories

__all__ = ["Snapshots", "snapshots_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshots:
    """Windows of time in which each page has the same number of snapshots; time is in snapshots.

    Parameters
    ----------
    divergence
        Of snapshot b from snapshot a ≤ b.  [window, a, b]
    differs
        Whether the text of snapshot b is another than that of a.  [window, a, b]
    mean_divergence
        Of the page from the copy a, over the time from snapshot b to the next.  [window, a, b]
    stale_share
        Share of that time in which the text is another than that of the copy.  [window, a, b]
    cluster
        What each window is resampled with.
    page
        Of each window.
    """

    divergence: NDArray[np.float32]
    differs: NDArray[np.bool_]
    mean_divergence: NDArray[np.float32]
    stale_share: NDArray[np.float32]
    cluster: Counts
    page: Counts

    @property
    def n_windows(self) -> int:
        """Return the number of windows."""
        return int(self.cluster.size)

    @property
    def n_snapshots(self) -> int:
        """Return the number of snapshots of each window."""
        return int(self.divergence.shape[1])

    @property
    def is_static(self) -> NDArray[np.bool_]:
        """Whether all snapshots of a window have one text."""
        return np.asarray(~self.differs[:, 0, :].any(axis=1))

    @property
    def change_share(self) -> Floats:
        """Share of snapshots that differ from the one before."""
        k = np.arange(self.n_snapshots - 1)
        return np.asarray(self.differs[:, k, k + 1].mean(axis=1))

    def mean_curve(self) -> Floats:
        """Return the mean divergence of snapshots 0, 1, 2 and more apart, a row per window."""
        n = self.n_snapshots
        curve = np.zeros((self.n_windows, n))
        for apart in range(1, n):
            k = np.arange(n - apart)
            curve[:, apart] = self.divergence[:, k, k + apart].mean(axis=1)
        return curve


def snapshots_of(
    histories: Histories, *, n_snapshots: int, apart_seconds: float, n_windows_max: int = 1
) -> Snapshots:
    """Return windows of pages that were observed for long enough.

    Windows lie apart and evenly in the time for which a page was observed.

    Parameters
    ----------
    histories
        All versions.
    n_snapshots
        Of each window.
    apart_seconds
        Between two snapshots.
    n_windows_max
        Most windows of one page.
    """
    length = n_snapshots * apart_seconds
    tables: list[tuple[NDArray[np.float32], ...]] = []
    pages: list[int] = []
    for page in range(histories.n_pages):
        first, last = int(histories.offsets[page]), int(histories.offsets[page + 1])
        at = histories.at[first:last]
        span = float(histories.ends_at[page] - at[0])
        n_windows = min(n_windows_max, int(span / length * (1 + 1e-12)))
        gap = (span - n_windows * length) / (n_windows + 1)
        for k in range(n_windows):
            start = at[0] + gap + k * (length + gap)
            tables.append(
                _window(histories, first, at, start + apart_seconds * np.arange(n_snapshots + 1))
            )
            pages.append(page)
    if not pages:
        raise ValueError(f"no page was observed for {length} seconds")
    divergence, differs, mean, stale = (np.stack(table) for table in zip(*tables, strict=True))
    chosen = np.array(pages)
    return Snapshots(
        divergence=divergence,
        differs=differs > 0,
        mean_divergence=mean,
        stale_share=stale,
        cluster=np.unique(histories.cluster[chosen], return_inverse=True)[1],
        page=chosen,
    )


def _window(
    histories: Histories, first: int, at: Floats, edges: Floats
) -> tuple[NDArray[np.float32], ...]:
    """Return the tables of one window of the page whose versions begin at row ``first``."""
    seen = np.searchsorted(at, edges, side="right") - 1  # the version at each snapshot
    versions = np.arange(seen[0], seen[-1] + 1)
    begins, ends = at[versions], np.append(at[versions[1:]], np.inf)
    overlap = np.minimum(ends, edges[1:, None]) - np.maximum(begins, edges[:-1, None])
    share = np.maximum(overlap, 0.0) / np.diff(edges)[:, None]  # [snapshot, version]
    copies, copy_of = np.unique(seen[:-1], return_inverse=True)
    # Copies are compared with later versions only; each is a row of a triangle.
    one, other = np.nonzero(versions[None, :] > copies[:, None])
    rows, later = first + copies[one], first + versions[other]
    divergence = np.zeros((copies.size, versions.size))
    differs = np.zeros((copies.size, versions.size))
    divergence[one, other] = histories.compare(rows, later)
    differs[one, other] = histories.digest[rows] != histories.digest[later]
    # Before the copy there is nothing to compare it with: a > b stays 0.
    at_snapshots = seen[:-1] - seen[0]
    tables = (
        divergence[copy_of][:, at_snapshots],
        differs[copy_of][:, at_snapshots],
        divergence[copy_of] @ share.T,
        differs[copy_of] @ share.T,
    )
    return tuple(np.triu(table).astype(np.float32) for table in tables)
