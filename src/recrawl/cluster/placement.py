"""Which worker owns which partition, and which one stands by: a function of who takes part.

Every worker computes the same placement from the same workers, so nobody has to be asked.  A
partition prefers workers in an order that a hash of both names gives (rendezvous hashing): if a
worker leaves, its partitions move and hardly any others.  Each worker takes at most a little more
than its share of the pages (bounded loads), so that the preferences do not pile up.

Thaler and Ravishankar, "Using name-based mappings to increase hit rates" (1998), for the hash;
Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads" (2018), for the bound.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["Place", "PlacementRules", "page_weight", "place_partitions"]

# Factor on an equal share of the weight, which is the most that a worker takes.
_OVERLOAD: Final = 1.1
_LIGHT_PAGES: Final = 1 << 17


class Place(NamedTuple):
    """Who works on a partition."""

    owner: str | None
    """Name of the worker that owns it; None if there is no worker."""
    standby: str | None
    """Name of the worker that owns it if the owner leaves; None if there is no other."""


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """What operators have decided.

    Parameters
    ----------
    pins
        Workers that partitions belong to while they take part, by number of the partition.
    drained
        Workers that get no partition as long as there is another.
    """

    pins: Mapping[int, str] = field(default_factory=dict)
    drained: Collection[str] = ()


_NO_RULES: Final = PlacementRules()


def page_weight(n_pages: int) -> int:
    """Return the weight of a partition for its number of pages: the power of two below it.

    Rounded, because workers learn the numbers at different moments, and should agree all the same.
    Small partitions weigh the same: what they cost does not depend on their pages, and they should
    not move whenever some are added.
    """
    return 1 << max(n_pages, _LIGHT_PAGES).bit_length() - 1


def place_partitions(
    weights: Sequence[int], workers: Collection[str], rules: PlacementRules = _NO_RULES
) -> list[Place]:
    """Return the place of each partition.

    Parameters
    ----------
    weights
        Weight of each partition, see `page_weight`.
    workers
        Names of the workers that take part.
    rules
        Decisions of operators.

    Notes
    -----
    The standby of a partition is the worker that the same function selects without the owner.  So
    when the owner leaves, every one of its partitions goes to its standby.
    """
    owners = _owners(weights, workers, rules)
    without = {
        gone: _owners(weights, [one for one in workers if one != gone], rules)
        for gone in {owner for owner in owners if owner is not None}
    }
    return [
        Place(owner, None if owner is None else without[owner][i]) for i, owner in enumerate(owners)
    ]


def _owners(
    weights: Sequence[int], workers: Collection[str], rules: PlacementRules
) -> list[str | None]:
    able = sorted(set(workers) - set(rules.drained)) or sorted(set(workers))
    owners: list[str | None] = [None] * len(weights)
    if not able:
        return owners
    load = dict.fromkeys(able, 0)
    share_max = _OVERLOAD * sum(weights) / len(able)
    pinned = {i: worker for i, worker in rules.pins.items() if worker in load}
    # Heavy ones first: a light one fits in what they leave.  Pinned ones before all others.
    for i in sorted(range(len(weights)), key=lambda i: (i not in pinned, -weights[i], i)):
        fitting = [
            one
            for one in _workers_by_affinity(i, tuple(able))
            if load[one] + weights[i] <= share_max
        ]
        if i in pinned:
            owner = pinned[i]
        elif fitting:
            owner = fitting[0]
        else:  # heavier than a share, or nobody has room for it
            owner = min(able, key=lambda one: (load[one], -_affinity(i, one), one))
        owners[i] = owner
        load[owner] += weights[i]
    return owners


@lru_cache(maxsize=65_536)
def _workers_by_affinity(partition: int, workers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(workers, key=lambda one: (-_affinity(partition, one), one)))


@lru_cache(maxsize=65_536)
def _affinity(partition: int, worker: str) -> int:
    """Return how much a partition prefers a worker; the same in every process and version."""
    name = worker.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(b"%d/" % partition + name, digest_size=8).digest()
    return int.from_bytes(digest, "big")
