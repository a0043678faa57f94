"""Online policies over a range of prices, as lines of staleness against refresh cost."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lab.policies.longevity.curves import CostCurve
from lab.policies.longevity.online import OnlinePolicy, WarmUp, run_online
from lab.policies.longevity.policies import spent_of
from lab.policies.longevity.shard import fetched_by_shard
from lab.policies.longevity.snapshots import Snapshots
from lab.text_histories import Floats

__all__ = ["Schedules", "online_schedules", "shard_schedules"]

Flags = NDArray[np.bool_]


class Schedules:
    """What a policy fetches at each price, to be accounted for over any part of the time.

    Parameters
    ----------
    snapshots
        What happened.
    threshold
        Price or budget of each run.
    fetched
        Of each run.  [window, snapshot]
    """

    def __init__(self, snapshots: Snapshots, threshold: Floats, fetched: list[Flags]) -> None:
        self._snapshots = snapshots
        self._threshold = threshold
        self._fetched = fetched

    def curve(self, *, first: int = 0, last: int = 0) -> CostCurve:
        """Return the line of the policy over a part of the snapshots."""
        spent = [spent_of(self._snapshots, mask, first=first, last=last) for mask in self._fetched]
        return CostCurve(threshold=self._threshold, spent=spent)


def online_schedules(
    snapshots: Snapshots,
    policy: Callable[[], OnlinePolicy],
    prices: Floats,
    *,
    seen: NDArray[np.float32] | None = None,
    warm_up: WarmUp | None = None,
) -> Schedules:
    """Run a policy of its own kind at each price; see `run_online`."""
    fetched = [
        run_online(snapshots, policy(), float(price), seen=seen, warm_up=warm_up)
        for price in prices
    ]
    return Schedules(snapshots, prices, fetched)


def shard_schedules(snapshots: Snapshots, shares: Floats) -> Schedules:
    """Run the shipped shard with budgets of so many fetches per snapshot and page."""
    return Schedules(
        snapshots, shares, [fetched_by_shard(snapshots, float(share)) for share in shares]
    )
