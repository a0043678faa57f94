"""The hosts of all partitions of a plan.

A very large host has pages in several partitions, and one delay for all of them together: its
parts are one host here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.corpus.plan.planned_partition import PlannedPartition

__all__ = ["MergedHosts"]


class MergedHosts:
    """The hosts of sampled pages, whichever partitions their pages are in.

    Parameters
    ----------
    parts
        Partitions of a plan.  Their pages in sequence are the rows of columns, and their groups in
        sequence those of hosts.
    """

    def __init__(self, parts: Sequence[PlannedPartition]) -> None:
        starts = np.cumsum([0, *(part.hosts.number.size for part in parts)])
        n_groups = int(starts[-1])
        pairs = zip(parts, starts.tolist(), strict=False)
        self._group_of_page = _join([part.group.astype(np.int64) + first for part, first in pairs])
        self._n_counted = np.bincount(self._group_of_page, minlength=n_groups)
        n_pages = _join([part.hosts.n_pages.astype(np.int64) for part in parts])
        self._pages_per_counted: FloatArray = n_pages / np.maximum(self._n_counted, 1)
        self._host_of_group, self.first_group = _merge_parts(parts, starts)
        """Group of each host in the first partition that has pages of it."""
        self.n_pages = np.bincount(self._host_of_group, n_pages, self.size)
        self.n_counted = np.bincount(self._host_of_group, self._n_counted, self.size)
        # A part hears of a new delay later than the home of its host: the longest one holds.
        delay_ms = np.zeros(self.size)
        np.maximum.at(delay_ms, self._host_of_group, _join([part.hosts.delay_ms for part in parts]))
        is_closed = np.zeros(self.size, np.bool_)
        np.logical_or.at(
            is_closed, self._host_of_group, _join([part.hosts.is_closed for part in parts]) > 0
        )
        self.delay_seconds: FloatArray = delay_ms / 1_000
        with np.errstate(divide="ignore"):
            self.allowed_rate: FloatArray = np.where(is_closed, 0.0, 1_000.0 / delay_ms)
        """Fetches per second that the delay allows: infinite without one, 0 for a closed host."""
        self._starts = starts

    @property
    def size(self) -> int:
        """Number of hosts."""
        return int(self.first_group.size)

    @property
    def of_page(self) -> CountArray:
        """The host of each page."""
        return self._host_of_group[self._group_of_page]

    def place_of(self, host: int) -> tuple[int, int]:
        """Return the place of the first partition that has pages of a host, and its row there."""
        group = int(self.first_group[host])
        part = int(np.searchsorted(self._starts, group, side="right")) - 1
        return part, group - int(self._starts[part])

    def total(self, column: FloatArray) -> FloatArray:
        """Return the sum of a column over all pages of each host, estimated from sampled ones."""
        of_groups = np.bincount(self._group_of_page, column, self._n_counted.size)
        sums = np.bincount(self._host_of_group, self._pages_per_counted * of_groups, self.size)
        return sums.astype(np.float64)

    def totals(self, columns: FloatArray, host: RowArray) -> tuple[RowArray, RowArray, FloatArray]:
        """Return the rows of some hosts, the place of the host of each, and sums as `total` has.

        Parameters
        ----------
        columns
            Values of pages (rows) at prices (columns).
        host
            Some hosts.
        """
        place = np.full(self.size, -1)
        place[host] = np.arange(host.size)
        group = np.flatnonzero(place[self._host_of_group] >= 0)
        place_of_group = np.full(self._host_of_group.size, -1)
        place_of_group[group] = np.arange(group.size)
        of_group = place_of_group[self._group_of_page]
        rows = np.flatnonzero(of_group >= 0)
        of_groups = np.zeros((group.size, columns.shape[1]))
        np.add.at(of_groups, of_group[rows], columns[rows])
        of_groups *= self._pages_per_counted[group][:, None]
        sums = np.zeros((host.size, columns.shape[1]))
        host_of_group = place[self._host_of_group[group]]
        np.add.at(sums, host_of_group, of_groups)
        return rows, host_of_group[of_group[rows]], sums


def _merge_parts(
    parts: Sequence[PlannedPartition], starts: CountArray
) -> tuple[CountArray, CountArray]:
    """Return the host of each group, and the first group of each host."""
    first = np.arange(int(starts[-1]))
    known: dict[str, int] = {}
    for part, start in zip(parts, starts.tolist(), strict=False):
        for row in np.flatnonzero(part.hosts.is_split).tolist():
            name = part.hosts.name[row]
            if name is not None:
                first[start + row] = known.setdefault(name, start + row)
    first_group, host = np.unique(first, return_inverse=True)
    return host, first_group


def _join(columns: Sequence[NDArray[Any]]) -> CountArray:
    joined: CountArray = np.concatenate([np.empty(0, np.int64), *columns])
    return joined
