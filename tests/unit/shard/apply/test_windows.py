"""Split groups are ordered from only in windows, which end their leases."""

import numpy as np

from recrawl.shard import (
    Claimed,
    GroupsBlocked,
    GroupsSplit,
    LeasesExtended,
    PagesAdded,
    Shard,
    ShardSettings,
    Ticked,
    WindowsGranted,
    WindowsSet,
    event_of,
)
from recrawl.shard.due import LEASE_MS_MIN
from recrawl.shard.events import Event, decode_events, encode_events

NOW = 1_700_000_000_000
SETTINGS = ShardSettings(group_delay=1, group_in_flight_max=1, lease_seconds=600)


def split_shard(log: list[object] | None = None) -> Shard:
    """Return a shard whose only group is split, with some pages."""
    shard = Shard(SETTINGS)
    events: list[Event] = [
        event_of(Claimed, owner=7, epoch=1, at_ms=NOW),
        event_of(
            PagesAdded,
            page=shard.free_pages(5),
            group=0,
            kind=0,
            importance=1,
            cost=1,
            at_ms=NOW,
        ),
        event_of(GroupsSplit, epoch=1, group=0),
    ]
    for event in events:
        assert shard.apply(event).is_all_valid
    if log is not None:
        log += events
    return shard


def window(first: int, end: int, epoch: int = 1) -> WindowsSet:
    return event_of(WindowsSet, epoch=epoch, group=0, from_ms=NOW + first, until_ms=NOW + end)


def test_nothing_is_ordered_outside_the_window() -> None:
    shard = split_shard()
    assert shard.decide(NOW, 1).order.size == 0
    shard.apply(window(10_000, 30_000))
    assert shard.decide(NOW + 9_999, 1).order.size == 0
    assert shard.decide(NOW + 10_000, 1).order.size == 1
    assert shard.decide(NOW + 30_000 - LEASE_MS_MIN, 1).order.size == 1
    # The page that was chosen a moment ago is not handed out after the end.
    assert shard.decide(NOW + 30_001 - LEASE_MS_MIN, 1).order.size == 0
    assert shard.decide(NOW + 90_000, 1).order.size == 0


def test_leases_end_with_the_window() -> None:
    shard = split_shard()
    shard.apply(window(0, 30_000))
    orders = shard.decide(NOW + 1_000, 1)
    assert orders.expires_at_ms.tolist() == [NOW + 30_000]
    shard.apply(orders)
    longer = event_of(LeasesExtended, order=orders.order, expires_at_ms=NOW + 90_000)
    assert shard.apply(longer).is_all_valid
    assert shard.overdue(NOW + 30_000).order.tolist() == orders.order.tolist()


def test_windows_of_other_epochs_and_overlapping_grants_are_void() -> None:
    shard = split_shard()
    assert not shard.apply(window(0, 30_000, epoch=2)).valid.any()

    def grant(first: int, end: int) -> bool:
        event = event_of(
            WindowsGranted, epoch=1, group=0, part=1, from_ms=NOW + first, until_ms=NOW + end
        )
        return shard.apply(event).is_all_valid

    assert grant(0, 30_000)
    assert not grant(29_999, 40_000)
    assert not grant(50_000, 50_000)
    assert grant(30_000, 40_000)
    assert shard.tables.groups.granted_until[0] == NOW + 40_000


def test_a_rest_that_another_partition_found_only_gets_longer() -> None:
    shard = split_shard()
    shard.apply(window(0, 60_000))
    rest = event_of(GroupsBlocked, epoch=1, group=0, until_ms=NOW + 20_000)
    assert shard.apply(rest).is_all_valid
    assert shard.decide(NOW + 19_999, 1).order.size == 0
    shorter = event_of(GroupsBlocked, epoch=1, group=0, until_ms=NOW + 5_000)
    assert not shard.apply(shorter).valid.any()
    assert shard.decide(NOW + 20_000, 1).order.size == 1


def test_a_replay_and_a_new_owner_have_the_same_windows() -> None:
    log: list[object] = []
    shard = split_shard(log)
    for event in (window(0, 30_000), event_of(Ticked, epoch=1, at_ms=NOW + 1_000, price=0.0)):
        shard.apply(event)
        log.append(event)
    orders = shard.decide(NOW + 1_000, 1)
    shard.apply(orders)
    again = Shard(SETTINGS)
    again.apply_all(decode_events(encode_events([*log, orders])))  # type: ignore[list-item]
    assert again.digest() == shard.digest()
    again.apply(event_of(Claimed, owner=8, epoch=2, at_ms=NOW + 2_000))
    # The new owner is bound by the same window, and by the order in flight.
    assert again.decide(NOW + 3_000, 1).order.size == 0
    assert np.array_equal(again.split_groups, [0])
    assert again.tables.groups.window_until[0] == NOW + 30_000
