"""The shipped shard on snapshots: what it does where Longevity's policies are compared."""

import numpy as np
from numpy.typing import NDArray

from lab.policies.longevity.snapshots import Snapshots
from lab.text_histories import Counts, Floats
from recrawl.shard import ShardSettings
from recrawl.sim import FetchOutcomes, KnownPages
from recrawl.sim.policies.learned_curves import LearningCurves
from recrawl.sim.policies.shard_policy import ShardPolicy, unlimited_settings

__all__ = ["fetched_by_shard"]

_APART_SECONDS = 2 * 86_400.0


class _SnapshotContents:
    """Snapshots as a policy that learns curves reads them; a version is a snapshot's number."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._divergence = snapshots.divergence

    def read(self, page: Counts, at: Floats) -> Counts:  # noqa: ARG002
        return np.rint(at / _APART_SECONDS).astype(np.int64)

    def divergence(self, page: Counts, copy: Counts, version: Counts) -> Floats:
        return self._divergence[page, copy, version].astype(np.float64)


def fetched_by_shard(snapshots: Snapshots, share: float) -> NDArray[np.bool_]:
    """Return which pages the shard fetches when, an equal ``share`` of them at each snapshot.

    It is given the objective *fragments*, a broad prior, and a budget instead of a price.
    """
    n_windows, n = snapshots.n_windows, snapshots.n_snapshots
    settings = unlimited_settings(ShardSettings(objective="fragments"))
    policy = LearningCurves(ShardPolicy(settings), _SnapshotContents(snapshots))
    ones, none = np.ones(n_windows), np.zeros(n_windows, np.int64)
    policy.start(KnownPages(ones, ones, none, none, has_copies=True), 0.0)
    fetched = np.zeros((n_windows, n), np.bool_)
    copy = np.zeros(n_windows, np.int64)
    n_wanted = np.diff(np.floor(share * n_windows * np.arange(n)), prepend=0.0).astype(np.int64)
    for b in range(1, n):
        if n_wanted[b] == 0:
            continue
        rows = policy.pick(b * _APART_SECONDS, int(n_wanted[b]))
        no, undated = np.zeros(rows.size, np.bool_), np.full(rows.size, np.nan)
        outcomes = FetchOutcomes(
            snapshots.differs[rows, copy[rows], b],
            _APART_SECONDS * (b - copy[rows]).astype(np.float64),
            undated,
            no,
            no,
            snapshots.divergence[rows, copy[rows], b].astype(np.float64),
        )
        policy.learn(np.full(rows.size, b * _APART_SECONDS), rows, outcomes)
        fetched[rows, b] = True
        copy[rows] = b
    return fetched
