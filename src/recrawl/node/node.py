"""One partition, durable: a shard whose every change is in the log before it counts.

    append to the log  →  apply to the shard  →  write what is too big for memory to the store

A node never acts on what the log does not hold.  Whatever it decides is proposed, appended and
then applied like everybody else's events, at the place where the log put it: if somebody else
has meanwhile claimed the partition, its own decisions come out void, here as everywhere.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import LedgerError, OwnershipLost, RecrawlError
from recrawl.ledger import Ledger, Record
from recrawl.ledger.contract import check_records
from recrawl.node.clock import NodeTime
from recrawl.node.records import (
    Happening,
    Named,
    PagesNamed,
    PagesReported,
    happening_of,
    record_of,
)
from recrawl.shard import (
    Applied,
    Claimed,
    Outcomes,
    PagesRemoved,
    Shard,
    Transition,
    event_of,
    events,
)
from recrawl.shard.state.status import PriceMode
from recrawl.store import Store, StoreBatch

__all__ = ["Node", "follow_price"]

# A group commit takes no more than this, so that no caller waits for all others.
_GROUP_ROWS_MAX = 200_000
# Pages whose URLs are looked at together, where all of them are.
_ROWS_PER_SCAN = 16_384
# While reading the log, what the store is to hold is written after so many rows.
_REPLAYED_ROWS_PER_WRITE = 50_000
# How often to look when only a page that comes due, or a host's delay, is waited for.
_IDLE_SECONDS = 0.1
# Ticks are logged no more often than this.
_TICK_MS = 1_000
# How often it is looked whether kinds of pages spend their shares of the budget.
_WEIGH_MS = 60_000

_NO_TRANSITION = np.zeros(0, np.uint8)


def _n_rows(happening: Happening) -> int:
    match happening:
        case PagesNamed(added):
            return int(added.page.size)
        case PagesReported(outcomes):
            return int(outcomes.page.size)
    return int(happening[0].size)


class _Ticket:
    """What one caller wants committed, and what came of it."""

    __slots__ = ("applied", "error", "happenings", "is_done", "records")

    def __init__(self, happenings: Sequence[Happening]) -> None:
        self.happenings = happenings
        self.records = [record_of(one) for one in happenings]
        check_records(self.records)  # here, where it fails nobody else
        self.applied: list[Applied] = []
        self.error: BaseException | None = None
        self.is_done = False


class Node:
    """A shard, its log and its store, at one position.

    Safe to call from several threads: what they submit at the same time goes to the log in one
    append.  ``lock`` is held while anything changes; reading the shard needs it too.

    Parameters
    ----------
    shard, ledger, store
        Of the partition, the shard at ``position``.
    position
        Of the log: all before it has been applied to the shard.
    partition
        Its number, for messages.
    is_reader
        Only follows the log: appends nothing, and leaves the store to its owner.
    is_shared
        Others may append to the log, too: it is looked at with every tick.
    """

    def __init__(
        self,
        *,
        shard: Shard,
        ledger: Ledger,
        store: Store,
        position: int,
        partition: int = 0,
        is_reader: bool = False,
        is_shared: bool = False,
    ) -> None:
        self.shard = shard
        self.ledger = ledger
        self.store = store
        self.position = position
        self.partition = partition
        self.is_reader = is_reader
        self.is_shared = is_shared
        self.lock = threading.RLock()
        self.log_bytes = 0
        """Appended or replayed since the node was opened."""
        self._pending: deque[_Ticket] = deque()
        self._owned_epoch = 0
        self._ticked_ms = self._weighed_ms = 0
        self._has_ordered = False
        self.shares: Mapping[int, float] = {}
        """Of the budget, that kinds of pages are to have."""
        self._failed: BaseException | None = None

    # ------------------------------------------------------------------ following the log

    def follow(self, until: int | None = None) -> int:
        """Apply what the log holds beyond the node's position; return how many records.

        Parameters
        ----------
        until
            A position at which to stop; the log's end unless given.
        """
        with self.lock:
            first = self.position
            while until is None or self.position < until:
                found = self.ledger.read(self.position)
                if until is not None:
                    found = [row for row in found if row[0] < until]
                if not found:
                    break
                try:
                    self._replay(found)
                except BaseException as error:
                    self._failed = error  # some of it may be in the shard and not in the store
                    raise
            return self.position - first

    def _replay(self, found: Sequence[tuple[int, Record]]) -> None:
        """Apply records that were read from the log."""
        batch, n_rows = self.store.batch(), 0
        for position, record in found:
            happening = happening_of(record)
            self._apply(position, happening, batch)
            self.log_bytes += len(record.data)
            n_rows += _n_rows(happening)
            if n_rows >= _REPLAYED_ROWS_PER_WRITE:
                self._write(batch)
                batch, n_rows = self.store.batch(), 0
        self._write(batch)

    def _write(self, batch: StoreBatch) -> None:
        if not self.is_reader and self.position > self.store.position:
            self.store.write(batch, self.position)

    def _apply(self, position: int, happening: Happening, batch: StoreBatch) -> Applied:
        """Apply one record's happening: to the shard, and to the store where that is behind."""
        is_new = position >= self.store.position and not self.is_reader
        shard = self.shard
        self.position = position + 1
        match happening:
            case PagesNamed(added, epoch, url, fetch_url):
                if not (epoch == shard.epoch).all():
                    return Applied(np.zeros(epoch.size, np.bool_), _NO_TRANSITION)
                applied = shard.apply(added)
                if is_new:
                    rows = applied.valid
                    if rows.all():
                        batch.add_pages(added.page, url, fetch_url)
                    else:
                        mask = pa.array(rows)
                        batch.add_pages(added.page[rows], url.filter(mask), fetch_url.filter(mask))
                return applied
            case Named(epoch, what, number, key):
                valid = epoch == shard.epoch
                if is_new and valid.all():
                    batch.name(what, number, key)
                return Applied(valid, _NO_TRANSITION)
            case PagesReported():
                outcomes, *content = happening
                applied = shard.apply(outcomes)
                if is_new:
                    rows = applied.valid
                    mask = pa.array(rows)
                    kept = content if rows.all() else [column.filter(mask) for column in content]
                    batch.see_content(outcomes.page[rows], *kept)
                    self._feed(position, outcomes, applied, batch)
                return applied
            case Outcomes():
                applied = shard.apply(happening)
                if is_new:
                    self._feed(position, happening, applied, batch)
                return applied
            case PagesRemoved():
                applied = shard.apply(happening)
                if is_new:
                    batch.remove_pages(happening.page[applied.valid])
                return applied
        return shard.apply(happening)

    def _feed(self, position: int, outcomes: Outcomes, applied: Applied, batch: StoreBatch) -> None:
        """Put what outcomes meant into the feed of changes."""
        rows = np.flatnonzero(applied.valid & (applied.transition != Transition.NONE))
        if rows.size:
            at_ms = np.full(rows.size, self.shard.now_ms, np.int64)
            transition = applied.transition[rows]
            batch.add_changes(position, outcomes.page[rows], transition, at_ms)

    # ------------------------------------------------------------------ changing

    def claim(self, owner: int, time: NodeTime) -> None:
        """Take over the partition: decisions of whoever had it before are void from here on."""
        with self.lock:
            self.follow()
            epoch = self.shard.epoch + 1
            at_ms = time.now_ms()
            self.submit([event_of(Claimed, owner=owner, epoch=epoch, at_ms=at_ms)])
            # Somebody may have claimed it at the same moment; the log says who was last.
            if int(self.shard.tables.registers.owner[0]) != owner:
                raise OwnershipLost(f"partition {self.partition} was claimed by another node")
            self._owned_epoch = self.shard.epoch

    @property
    def is_owner(self) -> bool:
        """Whether no later claim has been seen."""
        return self._owned_epoch == self.shard.epoch

    def check_owner(self) -> None:
        """Raise unless the partition is this node's.

        Before every decision: what is decided carries the shard's epoch, which may be another's.
        """
        self._check_writer()
        if not self.is_owner:
            raise OwnershipLost(
                f"partition {self.partition} was claimed by another node with epoch "
                f"{self.shard.epoch}; this one had {self._owned_epoch}"
            )

    def _check_writer(self) -> None:
        if self.is_reader:
            raise RecrawlError("the corpus is open for reading")

    def check_sound(self) -> None:
        """Raise if the log may hold what the shard has not seen: only replaying tells."""
        if self._failed is not None:
            raise LedgerError(
                f"partition {self.partition} stopped after an error; open the corpus again: "
                f"{self._failed}"
            ) from self._failed

    def submit(self, happenings: Sequence[Happening]) -> list[Applied]:
        """Make happenings durable, then apply them; return what each did.

        Whoever gets the lock commits for everybody who waits.
        """
        ticket = _Ticket(happenings)
        self._pending.append(ticket)
        with self.lock:
            while not ticket.is_done:
                self._commit_group()
        if ticket.error is not None:
            raise ticket.error
        return ticket.applied

    def _commit_group(self) -> None:
        group: list[_Ticket] = []
        n_rows = 0
        while self._pending and n_rows < _GROUP_ROWS_MAX:
            ticket = self._pending.popleft()
            group.append(ticket)
            n_rows += sum(_n_rows(happening) for happening in ticket.happenings)
        try:
            applied = self._commit(
                [one for ticket in group for one in ticket.happenings],
                [record for ticket in group for record in ticket.records],
            )
            for ticket in group:
                n = len(ticket.happenings)
                ticket.applied, applied = applied[:n], applied[n:]
        except BaseException as error:
            for ticket in group:
                ticket.error = error
        for ticket in group:
            ticket.is_done = True

    def _commit(self, happenings: Sequence[Happening], records: Sequence[Record]) -> list[Applied]:
        self.check_sound()
        self._check_writer()
        if not happenings:
            return []
        try:
            positions = self.ledger.append(records).positions
            return self._applied_at(positions, happenings, records)
        except BaseException as error:
            self._failed = error
            raise

    def _applied_at(
        self, positions: Sequence[int], happenings: Sequence[Happening], records: Sequence[Record]
    ) -> list[Applied]:
        """Apply happenings at the positions that the log gave them, and others' between them."""
        applied = []
        batch = self.store.batch()
        for position, happening, record in zip(positions, happenings, records, strict=True):
            if self.position < position:
                self._write(batch)
                self.follow(position)
                batch = self.store.batch()
            applied.append(self._apply(position, happening, batch))
            self.log_bytes += len(record.data)
        self._write(batch)
        return applied

    # ------------------------------------------------------------------ deciding

    def tick(self, time: NodeTime) -> int:
        """Let time pass in the log: leases run out, priors are learned; return the time."""
        now_ms = time.now_ms()
        if now_ms - self._ticked_ms < _TICK_MS:
            return now_ms
        with self.lock:
            if now_ms - self._ticked_ms < _TICK_MS:
                return now_ms  # somebody else has meanwhile
            self._ticked_ms = now_ms
            if self.is_shared:
                self.follow()
            if not self.is_owner:
                return now_ms  # what fetchers found is a fact, whoever brings it
            proposals: list[Happening] = [self.shard.tick(now_ms)]
            expired = self.shard.overdue(now_ms)
            if expired.order.size:
                proposals.append(expired)
            learned = self.shard.learn_priors()
            if learned is not None:
                proposals.append(learned)
            if now_ms - self._weighed_ms >= _WEIGH_MS:
                weighed = self.shard.weigh_kinds(self.shares, now_ms)
                if weighed is not None:
                    proposals.append(weighed)
                self._weighed_ms = now_ms
            self.submit(proposals)
        return now_ms

    def order(
        self, n: int, time: NodeTime, *, lease_seconds: float | None = None, exact: bool = False
    ) -> events.Ordered:
        """Decide on up to ``n`` orders and return those that the log made valid."""
        with self.lock:
            now_ms = self.tick(time)
            self.check_owner()
            proposal = self.shard.decide(now_ms, n, lease_seconds=lease_seconds, exact=exact)
            if proposal.order.size == 0:
                return proposal
            (applied,) = self.submit([proposal])
            self._has_ordered = True
            return events.rows_of(proposal, applied.valid)

    def note_price(self, time: NodeTime) -> None:
        """Put the price that deciding has found on record, for whoever opens the corpus next."""
        with self.lock:
            if not self._has_ordered or self.is_reader:
                return
            self._has_ordered = False
            if self.shard.picker.price != float(self.shard.tables.registers.price[0]):
                self.submit([self.shard.tick(max(time.now_ms(), self.shard.now_ms))])

    # ------------------------------------------------------------------ reading

    def refresh(self) -> None:
        """See what others have logged: for a reader, and for an owner that others write to."""
        with self.lock:
            if self.is_reader:
                self.store.catch_up()
            self.follow()

    def wait_seconds(self) -> float:
        """Return how long to wait until asking for an order may bring one."""
        with self.lock:
            registers = self.shard.tables.registers
            missing = 1.0 - self.shard.credit(self.shard.now_ms)
            if missing <= 0:
                return _IDLE_SECONDS
            rate = float(registers.budget[0])
            return max(missing / rate, _IDLE_SECONDS) if rate > 0 else float("inf")

    def scan_urls(self) -> Iterator[tuple[NDArray[np.int64], pa.StringArray]]:
        """Yield all pages and their URLs, in batches; others go on between two of them."""
        slot = 0
        while slot < int(self.shard.tables.registers.n_slots[0]):
            page, url = self.store.scan_urls(slot, _ROWS_PER_SCAN)
            slot += _ROWS_PER_SCAN
            if page.size:
                yield page, url

    def pages_of_orders(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the pages that orders are for; -1 where the order is forgotten or never was."""
        registers, leases = self.shard.tables.registers, self.shard.tables.leases
        is_known = (order >= registers.first_order[0]) & (order < registers.next_order[0])
        page: NDArray[np.int64] = np.where(
            is_known, leases.page[order & (leases.page.size - 1)], -1
        )
        return page


def follow_price(shard: Shard) -> None:
    """Make a shard that only follows the log use the price in the log."""
    registers = shard.tables.registers
    price = float(registers.price[0])
    if price == 0 and registers.price_mode[0] == PriceMode.FIXED:
        price = float(registers.fixed_price[0])
    shard.picker.set_price(price)
