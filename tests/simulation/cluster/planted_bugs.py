"""Bugs that the simulation has to find, each put into the real code for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from recrawl.cluster.budget.price import Agreement
from recrawl.cluster.budget.quotas import KEEP
from recrawl.cluster.members.membership import Membership
from recrawl.core.arrays import FloatArray
from recrawl.ledger.shared_snapshots import SharedSnapshots
from recrawl.node.node import Node
from recrawl.shard import Claimed, event_of

__all__ = ["PLANTED_BUGS", "plant_bug"]

_MOST_IN_USE: Final = Agreement._most_in_use


def _claim_without_reading_back(node: Node, owner: int, at_ms: int) -> None:
    epoch = node.shard.epoch + 1
    node.submit([event_of(Claimed, owner=owner, epoch=epoch, at_ms=at_ms)])
    node._owned_epoch = node.shard.epoch


def _count_records_as_obeyed(agreement: Agreement) -> FloatArray:
    most = _MOST_IN_USE(agreement)
    if agreement._term is not None:
        for i, quota in enumerate(agreement._term.record.per_second):
            most[i] = most[i] if quota == KEEP else quota
    return most


def _verify_nothing(*_: object, **__: object) -> int:
    return 0


def _always(*_: object) -> bool:
    return True


def _do_nothing(*_: object) -> None:
    pass


PLANTED_BUGS: Final[dict[str, tuple[Any, str, Callable[..., Any]]]] = {
    "claim without reading back": (Node, "_claim", _claim_without_reading_back),
    "truncate before verification": (SharedSnapshots, "verify", _verify_nothing),
    "count others as gone while cut off": (Membership, "_hears_itself", _always),
    "order after a lost claim": (Node, "check_owner", _do_nothing),
    "publish increases first": (Agreement, "_most_in_use", _count_records_as_obeyed),
}
"""Object, name and replacement of each bug, by what it does."""


@contextmanager
def plant_bug(name: str) -> Iterator[None]:
    """Replace a function by one with a bug."""
    owner, attribute, replacement = PLANTED_BUGS[name]
    with patch.object(owner, attribute, replacement):
        yield
