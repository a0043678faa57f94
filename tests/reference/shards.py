"""A small shard for tests, with shorthand for events.

Columns that a test does not give have harmless defaults.  Times are seconds after `START`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from recrawl.core.price.due_table import DueCodes, DueTable, build_due_table
from recrawl.node.durability import recovery as recovery_module
from recrawl.shard import events as ev
from recrawl.shard import shard as shard_module
from recrawl.shard.settings import ShardSettings
from recrawl.shard.shard import Applied, Shard
from recrawl.shard.state.status import Verdict
from recrawl.shard.state.words import EPOCH_SECONDS, is_held, last_of

START_MS = 1_700_000_000_000
HOUR = 3600.0
DAY = 86_400.0


def ms(seconds: Any) -> Any:
    """Return an instant in milliseconds since 1970."""
    return START_MS + np.rint(np.asarray(seconds, np.float64) * 1000).astype(np.int64)


def shard_seconds(seconds: float) -> int:
    """Return an instant in shard seconds, the unit of a shard's columns."""
    return int(ms(seconds)) // 1000 - EPOCH_SECONDS


def _slot_of(page: Any) -> int:
    """Return the slot of one page, given as a number or as an array of one."""
    return int(ev.slot_of_page(page).item())


SMALL_CODES = DueCodes(
    shape_log2_step=1.3,
    n_shapes=8,
    recall=np.array([0.2, 0.8]),
    precision=np.array([0.2, 0.8]),
    scroll_items=(5,),
    log2_target_step=1.0,
    n_targets=37,
)


@cache
def small_due_table() -> DueTable:
    """Return a due table of few classes; interpreted kernels take ten seconds to build it."""
    return build_due_table(SMALL_CODES)


@contextmanager
def with_small_table() -> Iterator[None]:
    """Make shards use a due table of few classes, quickly built without compiled kernels."""
    table = small_due_table()
    with (
        mock.patch.object(shard_module, "_CODES", SMALL_CODES),
        mock.patch.object(shard_module, "_shared_due_table", return_value=table),
        mock.patch.object(recovery_module, "shipped_due_table", return_value=table),
    ):
        yield


class Story:
    """A shard, the log of all events applied to it, and shorthand for events."""

    def __init__(self, **settings: Any) -> None:
        polite = {"group_delay": 0.0, "group_in_flight_max": 1000}
        self.settings = ShardSettings(**{**polite, **settings})
        self.shard = Shard(self.settings)
        self.log: list[ev.Event] = []
        self.claim(1)

    def apply(self, event: ev.Event) -> Applied:
        self.log.append(event)
        return self.shard.apply(event)

    def claim(self, epoch: int, at: float = 0.0) -> Applied:
        return self.apply(ev.event_of(ev.Claimed, owner=epoch, epoch=epoch, at_ms=ms(at)))

    def tick(self, at: float, *, epoch: int | None = None, price: float = 1.0) -> Applied:
        epoch = self.shard.epoch if epoch is None else epoch
        return self.apply(ev.event_of(ev.Ticked, epoch=epoch, at_ms=ms(at), price=price))

    def add(self, n: int = 1, at: float = 0.0, **columns: Any) -> NDArray[np.int64]:
        page = self.shard.free_pages(n)
        given = {"group": 0, "kind": 0, "importance": 1.0, "cost": 1.0, **columns}
        applied = self.apply(ev.event_of(ev.PagesAdded, page=page, at_ms=ms(at), **given))
        assert applied.valid.all()
        return page

    def remove(self, page: Any) -> Applied:
        return self.apply(ev.event_of(ev.PagesRemoved, page=page))

    def order(
        self, page: Any, at: float | None = None, *, lasts: float = 300.0, **columns: Any
    ) -> NDArray[np.int64]:
        """Order pages whether they are due or not; return the order numbers."""
        page = np.atleast_1d(page)
        at_ms = self.shard.now_ms if at is None else ms(at)
        first = int(self.shard.tables.registers.next_order[0])
        order = first + np.arange(page.size)
        given = {
            "epoch": self.shard.epoch,
            "order": order,
            "expires_at_ms": at_ms + round(lasts * 1000),
            "reason": 0,
            **columns,
        }
        self.ordered = self.apply(ev.event_of(ev.Ordered, at_ms=at_ms, page=page, **given))
        return order

    def report(
        self, page: Any, verdict: Any = Verdict.UNCHANGED, at: Any = None, **columns: Any
    ) -> Applied:
        at_ms = self.shard.now_ms if at is None else ms(at)
        given = {
            "order": 0,
            "fetched_at_ms": at_ms,
            "divergence": np.nan,
            "last_modified_at_ms": 0,
            "status_class": 2,
            "retry_after_seconds": 0.0,
            **columns,
        }
        return self.apply(ev.event_of(ev.Outcomes, page=page, verdict=verdict, **given))

    def fetch(
        self, page: Any, verdict: Any = Verdict.UNCHANGED, at: float | None = None
    ) -> Applied:
        """Advance time, order pages and report at once."""
        if at is not None:
            self.tick(at)
        return self.report(page, verdict, order=self.order(page))

    def signal(self, page: Any, at: float | None = None, **columns: Any) -> Applied:
        at_ms = self.shard.now_ms if at is None else ms(at)
        given = {"source": 0, "claimed_at_ms": 0, **columns}
        return self.apply(ev.event_of(ev.Signals, page=page, at_ms=at_ms, **given))

    def budget(self, amount: float, period_seconds: float, **columns: Any) -> Applied:
        given = {"burst_seconds": 1.0, "unit": 0, "price_mode": 0, "price": 0.0, **columns}
        event = ev.event_of(ev.BudgetSet, amount=amount, period_seconds=period_seconds, **given)
        return self.apply(event)

    def set_group(self, group: int, **columns: Any) -> Applied:
        given = {
            "delay_ms": 0,
            "in_flight_max": 1,
            "burst": 1,
            "blocked_until_ms": 0,
            "is_closed": 0,
            **columns,
        }
        return self.apply(ev.event_of(ev.GroupsSet, group=group, **given))

    def set_settings(self, settings: ShardSettings) -> Applied:
        return self.apply(ev.event_of(ev.SettingsSet, settings=settings.to_json()))

    def register(self, name: str) -> Any:
        return getattr(self.shard.tables.registers, name)[0].item()

    def of_page(self, page: Any, column: str) -> Any:
        return getattr(self.shard.tables.pages, column)[_slot_of(page)].item()

    def is_held(self, page: Any) -> bool:
        return bool(is_held(self.shard.tables.pages.word[_slot_of(page)]))

    def last(self, page: Any) -> int:
        """Return the effective last fetch of a page in seconds after `START_MS`."""
        word = self.shard.tables.pages.word[_slot_of(page)]
        return int(last_of(word)) + EPOCH_SECONDS - START_MS // 1000

    def replay(self) -> Shard:
        """Return another shard with the same log applied."""
        shard = Shard(self.settings)
        shard.apply_all(self.log)
        return shard


def write_snapshot(snapshot: Any) -> tuple[str, NDArray[np.uint8]]:
    """Take the remaining pieces of a snapshot; return its manifest and bytes."""
    data = np.zeros(snapshot.n_bytes, np.uint8)
    for piece in snapshot:
        data[piece.offset : piece.offset + piece.data.size] = piece.data
    return snapshot.manifest, data
