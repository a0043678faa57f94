"""Single fragments of recorded pages, followed through snapshots.

A sketch holds the smallest hashes of a version.  Below the least of the largest hashes that a
page's incomplete sketches hold, every sketch of the page has all fragments, so that one that is
missing there is gone.  Above, it may only have been pushed out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.text_histories import Counts, TextHistories

__all__ = ["Presence", "presence_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Presence:
    """A sample of the fragments of one page in one window.

    Parameters
    ----------
    is_present
        In the order in which fragments first appear.  [fragment, snapshot]
    is_update
        Whether each snapshot's text differs from that of the one before.  [snapshot]
    """

    is_present: NDArray[np.bool_]
    is_update: NDArray[np.bool_]

    @property
    def change_share(self) -> float:
        """Share of snapshots that differ from the one before."""
        return float(self.is_update[1:].mean())

    def runs(self) -> tuple[Counts, Counts]:
        """Return the first snapshot of each stay of a fragment and the one after its last.

        A stay that was under way at the first snapshot or at the last is left out, for nobody
        knows how long it was.
        """
        n = self.is_present.shape[1]
        padded = np.pad(self.is_present, ((0, 0), (1, 1))).astype(np.int8)
        moves = np.diff(padded, axis=1)
        begins = np.nonzero(moves == 1)[1]
        ends = np.nonzero(moves == -1)[1]
        whole = (begins > 0) & (ends < n)
        return begins[whole], ends[whole]

    def updates_survived(self) -> Counts:
        """Return with which update of the page after its first each whole stay ended (K)."""
        begins, ends = self.runs()
        updates = np.concatenate([[0], np.cumsum(self.is_update)])
        # Updates after the one that brought it, up to and with the one that took it away.
        return np.asarray(updates[ends + 1] - updates[begins + 1])


def presence_of(
    texts: TextHistories, page: int, *, start: float, n_snapshots: int, apart_seconds: float
) -> Presence:
    """Return the fragments of a page at regular snapshots from ``start``."""
    first, last = int(texts.offsets[page]), int(texts.offsets[page + 1])
    at = start + apart_seconds * np.arange(n_snapshots)
    rows = first + np.searchsorted(texts.at[first:last], at, side="right") - 1
    sketches = texts.sketches
    kept = [sketches.hashes[sketches.offsets[r] : sketches.offsets[r + 1]] for r in rows]
    is_whole = [h.size == sketches.n_fragments[r] for h, r in zip(kept, rows, strict=True)]
    limit = min(
        (int(h[-1]) for h, whole in zip(kept, is_whole, strict=True) if not whole),
        default=np.iinfo(np.uint32).max,
    )
    kept = [h[h <= limit] for h in kept]
    fragments = np.unique(np.concatenate(kept))
    is_present = np.stack([np.isin(fragments, h, assume_unique=True) for h in kept], axis=1)
    order = np.argsort(is_present.argmax(axis=1), kind="stable")
    digest = texts.digest[rows]
    is_update = np.concatenate([[False], digest[1:] != digest[:-1]])
    return Presence(is_present=is_present[order], is_update=is_update)
