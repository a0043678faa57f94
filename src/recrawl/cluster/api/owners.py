"""Where the partitions of a corpus are: which worker owns each, as one worker knows it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from recrawl.cluster.members.membership import Members
from recrawl.messages.forwarding import Owner

__all__ = ["Owner", "Owners", "TableOfOwners", "owners_of", "standbys_of"]


class Owners(Protocol):
    """Who owns which partition, as a worker knows it now."""

    @property
    def worker(self) -> str:
        """Name of the worker that asks."""
        ...

    def owner_of(self, partition: int) -> Owner | None:
        """Return the owner of a partition; None if none is known."""
        ...

    def standbys_of(self, partition: int) -> Sequence[Owner]:
        """Return the workers with a copy of a partition, the one least behind first."""
        ...


class TableOfOwners:
    """An `Owners` with a table that is replaced as a whole, from any thread.

    Parameters
    ----------
    worker
        Name of the worker that asks.
    owners
        Owner of each partition, by number.
    standbys
        Workers with a copy of each partition, by number.
    """

    def __init__(
        self,
        worker: str,
        owners: Mapping[int, Owner] | None = None,
        standbys: Mapping[int, Sequence[Owner]] | None = None,
    ) -> None:
        self.worker = worker
        self._owners = dict(owners or {})
        self._standbys = dict(standbys or {})

    def owner_of(self, partition: int) -> Owner | None:
        """Return the owner of a partition; None if none is known."""
        return self._owners.get(partition)

    def standbys_of(self, partition: int) -> Sequence[Owner]:
        """Return the workers with a copy of a partition, the one least behind first."""
        return self._standbys.get(partition, ())

    def replace(
        self, owners: Mapping[int, Owner], standbys: Mapping[int, Sequence[Owner]] | None = None
    ) -> None:
        """Replace the tables of owners and of standbys."""
        self._owners = dict(owners)
        self._standbys = dict(standbys or {})


def owners_of(members: Members) -> dict[int, Owner]:
    """Return the owner of each partition by the heartbeats of workers; the last claim counts.

    Parameters
    ----------
    members
        Workers that take part.
    """
    owners: dict[int, Owner] = {}
    for heartbeat in (*members.present, *members.leaving):
        for partition, owned in heartbeat.owned.items():
            known = owners.get(partition)
            if heartbeat.address and (known is None or owned.epoch > known.epoch):
                owners[partition] = Owner(heartbeat.worker, heartbeat.address, owned.epoch)
    return owners


def standbys_of(members: Members) -> dict[int, list[Owner]]:
    """Return the workers with a copy of each partition, the one least behind first.

    Parameters
    ----------
    members
        Workers that take part.
    """
    found: dict[int, list[tuple[float, Owner]]] = {}
    for heartbeat in members.present:
        for partition, seconds in heartbeat.standby_seconds.items():
            if heartbeat.address:
                worker = Owner(heartbeat.worker, heartbeat.address, 0)
                found.setdefault(partition, []).append((seconds, worker))
    return {i: [worker for _, worker in sorted(workers)] for i, workers in found.items()}
