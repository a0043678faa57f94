"""Time goes back without changing the ages of what happened while the clock was wrong."""

import re

import numpy as np
from numpy.typing import NDArray

from recrawl.shard import Claimed, ClockReset, Outcomes, PagesAdded, Shard, Signals, event_of
from recrawl.shard.apply.clock_reset import INSTANTS, NOT_INSTANTS
from recrawl.shard.events import PagesRemoved
from recrawl.shard.state.tables import TABLES
from recrawl.shard.state.words import EPOCH_SECONDS

NOW = 1_700_000_000_000
YEARS = 20 * 365 * 86_400_000
LIKE_AN_INSTANT = re.compile(r"(^now|_at|_until|_before|_seen)$")


def test_every_column_that_holds_an_instant_moves() -> None:
    """A new column of instants must be added to `INSTANTS`, or to `NOT_INSTANTS`."""
    found = {
        (table, column)
        for table, kind in TABLES.items()
        for column in kind.__annotations__
        if LIKE_AN_INSTANT.search(column)
    }
    moved = {
        (table, column)
        for table, units in INSTANTS.items()
        for columns in units.values()
        for column in columns
    }
    assert found == moved | NOT_INSTANTS


def shard_with_pages(*at_ms: int) -> Shard:
    """Return a shard to which a page was added at each of these instants."""
    shard = Shard()
    for i, at in enumerate(at_ms):
        shard.apply(event_of(Claimed, owner=1, epoch=i + 1, at_ms=at))
        page = shard.free_pages(1)
        added = event_of(PagesAdded, page=page, group=0, kind=0, importance=1, cost=1, at_ms=at)
        assert shard.apply(added).valid.all()
    return shard


def reset(shard: Shard, at_ms: int, epoch: int | None = None) -> bool:
    epoch = shard.epoch if epoch is None else epoch
    return bool(shard.apply(event_of(ClockReset, epoch=epoch, at_ms=at_ms)).valid.all())


def fetch(shard: Shard, page: int, at_ms: int) -> None:
    event = event_of(
        Outcomes,
        page=page,
        order=0,
        fetched_at_ms=at_ms,
        verdict=1,
        divergence=np.nan,
        last_modified_at_ms=0,
        status_class=2,
        retry_after_seconds=0,
    )
    assert shard.apply(event).valid.all()


def effective_last(shard: Shard) -> NDArray[np.int64]:
    n_slots = int(shard.tables.registers.n_slots[0])
    return (shard.tables.pages.word[:n_slots] & np.uint64(0x7FFFFFFF)).astype(np.int64)


def test_later_instants_move_back_and_earlier_ones_stay() -> None:
    shard = shard_with_pages(NOW, NOW + YEARS)
    fetch(shard, 0, NOW)
    fetch(shard, 1, NOW + YEARS)
    last = effective_last(shard)
    assert reset(shard, NOW + 1000)
    assert shard.now_ms == NOW + 1000
    second = NOW // 1000 - EPOCH_SECONDS
    assert shard.tables.pages.fetched_at[:2].tolist() == [second, second + 1]
    assert shard.tables.pages.first_seen[:2].tolist() == [second, second + 1]
    moved = (YEARS - 1000) // 1000
    assert effective_last(shard).tolist() == [last[0], last[1] - moved]


def test_a_page_that_was_never_fetched_keeps_the_value_of_its_first_fetch() -> None:
    shard = shard_with_pages(NOW + YEARS)
    age = shard.now_ms // 1000 - EPOCH_SECONDS - effective_last(shard)[0]
    assert reset(shard, NOW)
    assert NOW // 1000 - EPOCH_SECONDS - effective_last(shard)[0] == age


def test_signals_and_free_slots_survive() -> None:
    shard = shard_with_pages(NOW + YEARS, NOW + YEARS, NOW + YEARS)
    signal = event_of(Signals, page=2, source=0, at_ms=NOW + YEARS, claimed_at_ms=NOW + YEARS)
    assert shard.apply(signal).valid.all()
    assert shard.apply(event_of(PagesRemoved, page=[0, 1])).valid.all()
    free = shard.free_pages(3)
    assert reset(shard, NOW)
    assert shard.free_pages(3).tolist() == free.tolist()
    second = NOW // 1000 - EPOCH_SECONDS
    assert shard.tables.pages.heard_at[2] == second
    assert shard.tables.pages.claimed_at[2] == second


def test_a_reset_to_a_later_time_or_by_an_earlier_owner_is_void() -> None:
    shard = shard_with_pages(NOW, NOW)
    before = shard.digest()
    assert not reset(shard, NOW)
    assert not reset(shard, 0)
    assert not reset(shard, NOW - 1000, epoch=1)
    shard.tables.registers.n_void[0] = 0
    assert shard.digest() == before
