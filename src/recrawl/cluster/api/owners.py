"""Where the partitions of a corpus are: which worker owns each, as one worker knows it."""

from collections.abc import Mapping
from typing import Protocol

from recrawl.cluster.membership import Members
from recrawl.messages.forwarding import Owner

__all__ = ["Owner", "Owners", "TableOfOwners", "owners_of"]


class Owners(Protocol):
    """Who owns which partition, as a worker knows it now."""

    @property
    def worker(self) -> str:
        """Name of the worker that asks."""
        ...

    def owner_of(self, partition: int) -> Owner | None:
        """Return the owner of a partition; None if none is known."""
        ...


class TableOfOwners:
    """An `Owners` with a table that is replaced as a whole, from any thread.

    Parameters
    ----------
    worker
        Name of the worker that asks.
    owners
        Owner of each partition, by number.
    """

    def __init__(self, worker: str, owners: Mapping[int, Owner] | None = None) -> None:
        self.worker = worker
        self._owners = dict(owners or {})

    def owner_of(self, partition: int) -> Owner | None:
        """Return the owner of a partition; None if none is known."""
        return self._owners.get(partition)

    def replace(self, owners: Mapping[int, Owner]) -> None:
        """Replace the table."""
        self._owners = dict(owners)


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
