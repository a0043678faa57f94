"""Which version of records a worker may write: one that every worker of the cluster reads.

While a cluster is upgraded, workers of two versions own partitions and follow those of each other.
So a worker writes the older version until all have been upgraded, and for some time longer: one
that is away for a moment may come back with the version that it had.
"""

from typing import Final

from recrawl.cluster.members.membership import Members

__all__ = ["UPGRADE_SECONDS", "VersionToWrite"]

UPGRADE_SECONDS: Final = 600.0
"""Time for which all workers must have read a newer version before one begins to write it."""


class VersionToWrite:
    """The version of records that one worker may write, as far as it knows.

    It begins with the first one, because a worker that starts does not know the others yet.

    Parameters
    ----------
    upgrade_seconds
        Time for which all workers must have read a newer version before it is written.
    """

    def __init__(self, upgrade_seconds: float = UPGRADE_SECONDS) -> None:
        self._upgrade_seconds = upgrade_seconds
        self._all_read_since: float | None = None
        self.number = 1
        """The version."""

    def update(self, members: Members, now: float) -> int:
        """Take note of the workers that take part; return the version.

        Parameters
        ----------
        members
            Workers that take part; if that is frozen, the version stays.
        now
            Time of a clock that never jumps, in seconds.
        """
        every = (*members.present, *members.leaving)
        if members.is_frozen or not every:
            return self.number
        read_by_all = min(one.reads_version for one in every)
        if read_by_all <= self.number:
            self.number, self._all_read_since = read_by_all, None
            return self.number
        if self._all_read_since is None:
            self._all_read_since = now
        is_written = any(one.writes_version >= read_by_all for one in every)
        if is_written or now - self._all_read_since >= self._upgrade_seconds:
            self.number, self._all_read_since = read_by_all, None
        return self.number
