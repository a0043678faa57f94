"""One price for all partitions of a corpus, whichever workers own them.

The owner of each partition says what the partition spends now, and what it would spend at each
price.  The owner of partition 0 computes the price at which all of them together spend the budget,
and publishes what each may spend at it: its quota.  All of this goes through the control topic.

The sum of what partitions spend never exceeds the budget, whatever messages are late, lost or
repeated and whoever ends in between.  These rules make it so:

- What a partition spends is in its own log, so it outlives its owner, and only the owner changes
  it.  A partition without an owner counts with the most that it may use.
- One record has all quotas.  It has the epoch of the claim of partition 0 and a number, and nobody
  obeys a record after a later one.
- A new owner obeys no record until it has read its own first message.  By then it has read every
  record that an earlier owner has acknowledged.
- Who comes to own partition 0 first publishes a record without quotas, and reads it back.  From
  then on no record of its predecessors is obeyed, so it has read all that ever are.
- A partition may use the most of what it said last and of all records that it has not acknowledged.
  An increase is published only if the sum of these, with the increase, stays within the budget.  So
  a decrease is acknowledged before somebody else gets what it has left.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from typing import Final, NamedTuple

import numpy as np

from recrawl.cluster.budget.quotas import (
    BUDGET_KEY,
    DEMAND_KEY,
    KEEP,
    QUOTAS_KEY,
    BudgetMessage,
    DemandMessage,
    QuotaMessage,
    RecordId,
)
from recrawl.core.arrays import FloatArray
from recrawl.core.price.common_price import split_at_common_price
from recrawl.messages.budgets import Budget, Demand, Quota, QuotaInUse

__all__ = ["Agreement", "Split", "split_budget"]

_NO_RECORD: Final = RecordId(-1, -1)
# Of a partition that has said nothing.
_NO_DEMAND: Final = Demand(-1)
# Time after which a message is sent again that has not been read back.
_RESEND_SECONDS: Final = 1.0
# Time after which an owner says again what its partition needs; sooner if that is not known yet.
_DEMAND_SECONDS: Final = 30.0
_FIRST_DEMAND_SECONDS: Final = 5.0
# Longest wait for acknowledgements before those that have come are used.
_ACKNOWLEDGE_SECONDS: Final = 1.0
# A split stays as it is while no quota would change by more than this share.
_MOVE_MIN: Final = 0.02
# Share of the budget that is split by pages: without fetches, demand would stay unknown.
_BY_PAGES: Final = 0.02
# Quotas closer together than this share of the budget are equal.
_EQUAL: Final = 1e-9
# Number of records that are told apart; older ones are merged.
_RECORDS_MAX: Final = 32


class Split(NamedTuple):
    """A budget that is split among partitions."""

    price: float
    """Common price; nan if it is not known."""
    per_second: FloatArray
    """What each partition should spend."""


def split_budget(per_second: float, demands: list[Demand]) -> Split:
    """Split a budget at the common price of partitions.

    Partitions without a demand curve get their share by pages.

    Parameters
    ----------
    per_second
        Budget of all partitions together.
    demands
        Demand of each partition; with -1 pages if it is not known.
    """
    if not isfinite(per_second):
        return Split(nan, np.full(len(demands), per_second))
    n_pages = np.array([demand.n_pages for demand in demands], np.float64) + 1.0
    is_said = n_pages > 0
    n_pages[~is_said] = n_pages[is_said].mean() if is_said.any() else 1.0
    share = n_pages / n_pages.sum()
    known = [i for i, demand in enumerate(demands) if len(demand.price) > 1]
    price = nan
    if known:
        curves = [(np.array(demands[i].price), np.array(demands[i].spent)) for i in known]
        part = float(share[known].sum())
        common = split_at_common_price(per_second * part, curves)
        if common is not None:
            price = common.price
            by_pages = share[known]
            share[known] = (1 - _BY_PAGES) * part * common.share + _BY_PAGES * by_pages
    return Split(price, per_second * share)


@dataclass(slots=True)
class _Partition:
    """What a partition has said last."""

    stamp: tuple[int, int] = (-1, -1)
    """Epoch and serial of the message."""
    per_second: float | None = None
    heard: RecordId = _NO_RECORD
    demand: Demand = _NO_DEMAND


@dataclass(slots=True)
class _Owned:
    """A partition that this worker owns."""

    epoch: int
    serial: int = -1
    """Serial of the last message that was sent."""
    sent_at: float = -inf
    sent: tuple[float, RecordId] | None = None
    """What the last message said."""
    is_known: bool = False
    """Whether a message of this epoch has been read back."""
    is_read: bool = False
    """Whether the last message has been read back."""
    heard: RecordId = _NO_RECORD
    demand: Demand = _NO_DEMAND


@dataclass(slots=True)
class _Term:
    """The time in which this worker owns partition 0."""

    epoch: int
    record: QuotaMessage
    """Last record that was published."""
    sent_at: float
    is_read: bool = False
    """Whether it has been read back."""
    split: Split | None = None
    split_at: float = -inf
    split_of: tuple[Budget, int, int] | None = None
    """Budget that was split, and the number of partitions whose demand and curve was known."""


@dataclass(slots=True)
class _Told:
    """A budget that this worker was told by an operator, until it has been read back."""

    message: BudgetMessage
    sent_at: float = -inf


@dataclass(slots=True)
class _Record:
    """The most that a record, or several that were merged, lets each partition use."""

    id: RecordId
    most: FloatArray = field(repr=False)


class Agreement:
    """One worker's part in agreeing on quotas.

    It has no clock and does no I/O.  A worker opens a corpus without partitions, and then::

        agreement = Agreement(n_partitions, corpus.quotas.configured)
        corpus.quotas.follow(lambda: agreement.budget, agreement.set_budget)

    From then on it may open partitions.  In a loop, a few times a second::

        for key, message in log.read():
            agreement.hear(key, message)
        corpus.quotas.set(agreement.quotas(), agreement.budget)
        for key, message in agreement.step(now, corpus.quotas.in_use(), corpus.quotas.demands):
            log.publish(key, message)

    `hear`, `step` and `set_budget` must not run at the same time.

    The quotas must be in the logs of their partitions, or have failed, before ``step`` is called:
    it takes what partitions use for an acknowledgement.  A partition whose last append failed, or
    has not ended, is not in use until its owner has claimed it again, or knows what its log says.

    Parameters
    ----------
    n_partitions
        Number of partitions of the corpus.
    configured
        Budget to begin with, if the control topic has none.
    split_seconds
        Time between two looks at the split, unless the budget changes.
    """

    def __init__(
        self,
        n_partitions: int,
        configured: Budget | None = None,
        *,
        split_seconds: float = 30.0,
    ) -> None:
        self._split_seconds = split_seconds
        self._configured = configured or Budget(inf)
        self._budget: BudgetMessage | None = None
        self._told: _Told | None = None
        self._partitions = [_Partition() for _ in range(n_partitions)]
        self._owned: dict[int, _Owned] = {}
        self._serial = 0
        # The last record that was read, and the greatest id that was read anywhere.
        self._latest: QuotaMessage | None = None
        self._latest_id = _NO_RECORD
        # The last record that was made here, which may not have been read yet.
        self._made_id = _NO_RECORD
        self._records: list[_Record] = []
        self._term: _Term | None = None

    # ------------------------------------------------------------------ state

    @property
    def budget(self) -> Budget:
        """The budget that the present quotas are parts of."""
        return self._latest.budget if self._latest is not None else self._wanted_budget

    @property
    def record(self) -> QuotaMessage | None:
        """The last record of quotas that was read; None before the first."""
        return self._latest

    @property
    def is_coordinator(self) -> bool:
        """Whether this worker computes the quotas."""
        return self._term is not None and self._latest_id.epoch <= self._term.epoch

    @property
    def is_budget_pending(self) -> bool:
        """Whether a budget that was set here has not been read back yet."""
        return self._told is not None

    @property
    def _wanted_budget(self) -> Budget:
        return self._configured if self._budget is None else self._budget.budget

    def set_budget(self, budget: Budget) -> None:
        """Set the budget of the whole corpus; the next `step` publishes it."""
        revision = 0 if self._budget is None else self._budget.revision
        if self._told is not None:
            revision = max(revision, self._told.message.revision)
        self._told = _Told(BudgetMessage(revision=revision + 1, budget=budget))

    def quotas(self) -> dict[int, Quota]:
        """Return the quotas that partitions of this worker are to have."""
        record = self._latest
        if record is None or record.id != self._latest_id:
            return {}
        return {
            i: Quota(owned.epoch, record.per_second[i])
            for i, owned in self._owned.items()
            if owned.is_known and record.per_second[i] != KEEP
        }

    # ------------------------------------------------------------------ reading

    def hear(self, key: str, message: bytes) -> None:
        """Take note of a message, in the order of the control topic; ignore those of others.

        Parameters
        ----------
        key
            Key of the message.
        message
            Value of the message.
        """
        if key == QUOTAS_KEY:
            quotas = QuotaMessage.from_bytes(message)
            if quotas is not None and len(quotas.most) == len(self._partitions):
                self._hear_quotas(quotas)
        elif key == BUDGET_KEY:
            budget = BudgetMessage.from_bytes(message)
            if budget is not None:
                self._hear_budget(budget)
        elif key.startswith(DEMAND_KEY):
            demand = DemandMessage.from_bytes(message)
            if demand is not None and demand.key == key:
                self._hear_demand(demand)

    def say_again(self) -> None:
        """Take note that the control topic has lost all messages: say again what holds.

        What others say of it meanwhile is older, or newer, and both have numbers that tell.
        """
        if self._budget is not None and self._told is None:
            self._told = _Told(self._budget)
        for owned in self._owned.values():
            owned.is_read = False
        if self._term is not None:
            self._term.is_read = False

    def _hear_budget(self, found: BudgetMessage) -> None:
        if self._budget is None or found.order > self._budget.order:
            self._budget = found
        elif found.order < self._budget.order and self._told is None and self._term is not None:
            # Brokers that compact the topic would keep this one instead of the one that holds.
            self._told = _Told(self._budget)
        if self._told is not None and found.order >= self._told.message.order:
            self._told = None

    def _hear_quotas(self, found: QuotaMessage) -> None:
        term = self._term
        if found.id < self._latest_id:
            # Brokers that compact the topic would keep this one instead of the last.
            if term is not None and term.record.id == self._latest_id:
                term.is_read = False
            return
        self._latest, self._latest_id = found, found.id
        self._add_record(found)
        if term is not None and found.id == term.record.id:
            term.is_read = True

    def _hear_demand(self, found: DemandMessage) -> None:
        if not 0 <= found.partition < len(self._partitions):
            return
        known, owned = self._partitions[found.partition], self._owned.get(found.partition)
        if (found.epoch, found.serial) <= known.stamp:
            # Brokers that compact the topic would keep this one instead of the last.
            if owned is not None and known.stamp == (owned.epoch, owned.serial):
                owned.is_read = (found.epoch, found.serial) == known.stamp
            return
        known.stamp = found.epoch, found.serial
        known.per_second, known.heard = found.per_second, found.heard
        known.demand = found.demand
        self._latest_id = max(self._latest_id, found.heard)
        if owned is not None and owned.epoch == found.epoch:
            owned.is_known = True
            owned.is_read = found.serial == owned.serial

    def _add_record(self, found: QuotaMessage) -> None:
        most = np.maximum(found.most, found.per_second)
        if not self._records or found.id > self._records[-1].id:
            self._records.append(_Record(found.id, most))
        heard_by_all = min(one.heard for one in self._partitions)
        while len(self._records) > 1 and self._records[0].id <= heard_by_all:
            del self._records[0]
        if len(self._records) > _RECORDS_MAX:
            first, second = self._records[:2]
            second.most = np.maximum(first.most, second.most)
            del self._records[0]

    def _most_in_use(self) -> FloatArray:
        """Return the most that each partition may use, now or after reading what is published."""
        said = [one.per_second for one in self._partitions]
        # Who has said nothing may use anything, unless a record says how much.
        unknown = 0.0 if self._records else inf
        most = np.array([unknown if one is None else one for one in said])
        for record in self._records:
            is_open = np.array([one.heard < record.id for one in self._partitions])
            most[is_open] = np.maximum(most[is_open], record.most[is_open])
        return most

    # ------------------------------------------------------------------ owners

    def step(
        self,
        now: float,
        in_use: Mapping[int, QuotaInUse],
        demands: Callable[[], Mapping[int, Demand]],
    ) -> list[tuple[str, bytes]]:
        """Return the messages to publish.

        Parameters
        ----------
        now
            Time in seconds, of a clock that never jumps.
        in_use
            Quota of each partition that this worker owns, by the partition's log.
        demands
            Function that returns the demand of these partitions; called every half minute.
        """
        self._follow_owned(in_use)
        messages = self._acknowledgements(now, in_use, demands)
        if self._told is not None and now - self._told.sent_at >= _RESEND_SECONDS:
            self._told.sent_at = now
            messages.append((BUDGET_KEY, self._told.message.to_bytes()))
        self._follow_term(now, in_use.get(0))
        if self._term is not None and self.is_coordinator:
            messages += self._coordinate(self._term, now)
        return messages

    def _follow_owned(self, in_use: Mapping[int, QuotaInUse]) -> None:
        for i in [i for i in self._owned if i not in in_use]:
            del self._owned[i]
        for i, quota in in_use.items():
            owned = self._owned.get(i)
            if owned is None or owned.epoch != quota.epoch:
                owned = self._owned[i] = _Owned(quota.epoch, demand=self._partitions[i].demand)
            record = self._latest
            if not owned.is_known or record is None or record.id != self._latest_id:
                continue
            if record.per_second[i] in {KEEP, quota.per_second}:
                owned.heard = record.id

    def _acknowledgements(
        self,
        now: float,
        in_use: Mapping[int, QuotaInUse],
        demands: Callable[[], Mapping[int, Demand]],
    ) -> list[tuple[str, bytes]]:
        to_send, is_refreshed = [], False
        for i, quota in in_use.items():
            owned = self._owned[i]
            waited = now - owned.sent_at
            is_known = len(owned.demand.price) > 1
            is_old = waited >= (_DEMAND_SECONDS if is_known else _FIRST_DEMAND_SECONDS)
            is_lost = not owned.is_read and waited >= _RESEND_SECONDS
            if is_old or is_lost or owned.sent != (quota.per_second, owned.heard):
                to_send.append(i)
                is_refreshed |= is_old
        if is_refreshed:
            for i, demand in demands().items():
                if i in self._owned:
                    self._owned[i].demand = demand
        return [self._acknowledgement(now, i, in_use[i].per_second) for i in to_send]

    def _acknowledgement(self, now: float, partition: int, in_use: float) -> tuple[str, bytes]:
        owned = self._owned[partition]
        self._serial += 1
        owned.serial, owned.sent_at, owned.is_read = self._serial, now, False
        owned.sent = in_use, owned.heard
        message = DemandMessage(
            partition=partition,
            epoch=owned.epoch,
            serial=owned.serial,
            per_second=in_use,
            heard=owned.heard,
            demand=owned.demand,
        )
        return message.key, message.to_bytes()

    # ------------------------------------------------------------------ owner of partition 0

    def _follow_term(self, now: float, first: QuotaInUse | None) -> None:
        if first is None:
            self._term = None
        elif self._term is None or self._term.epoch != first.epoch:
            nothing = np.full(len(self._partitions), KEEP)
            fence = self._new_record(self._first_id(first.epoch), self.budget, nan, nothing)
            self._term = _Term(first.epoch, fence, now - _RESEND_SECONDS)

    def _first_id(self, epoch: int) -> RecordId:
        """Return the id of the first record of a term.

        Partition 0 may have waited for its log and go on in the same epoch.  Nobody would obey a
        number again that was used before.
        """
        last = max(self._latest_id, self._made_id)
        return RecordId(epoch, last.number + 1 if last.epoch == epoch else 0)

    def _new_record(
        self, record_id: RecordId, budget: Budget, price: float, per_second: FloatArray
    ) -> QuotaMessage:
        self._made_id = record_id
        return QuotaMessage(
            id=record_id,
            budget=budget,
            price=price,
            per_second=tuple(per_second.tolist()),
            most=tuple(np.maximum(self._most_in_use(), per_second).tolist()),
        )

    def _coordinate(self, term: _Term, now: float) -> list[tuple[str, bytes]]:
        """Return the records to publish."""
        messages = []
        if term.is_read:
            if self._budget is None and self._told is None:
                # All that was ever published has been read, and there is none.
                self._told = _Told(BudgetMessage(revision=0, budget=self._configured))
            self._advance(term, now)
        if not term.is_read and now - term.sent_at >= _RESEND_SECONDS:
            term.sent_at = now
            messages.append((QUOTAS_KEY, term.record.to_bytes()))
        return messages

    def _advance(self, term: _Term, now: float) -> None:
        """Make the next record if one is needed, and those that count have read the last."""
        are_all_heard = all(one.heard >= term.record.id for one in self._partitions)
        if not are_all_heard and now - term.sent_at < _ACKNOWLEDGE_SECONDS:
            return
        budget = self._wanted_budget
        self._split_again(term, budget, now)
        assert term.split is not None
        quotas = self._next_quotas(term, budget.per_second)
        number = term.record.id.number + 1
        room = _EQUAL * budget.per_second if isfinite(budget.per_second) else 0.0
        is_same = _are_equal(quotas, np.array(term.record.per_second), room)
        if number > 1 and is_same and budget == term.record.budget:
            return
        record_id = RecordId(term.epoch, number)
        term.record = self._new_record(record_id, budget, term.split.price, quotas)
        self._add_record(term.record)
        term.is_read, term.sent_at = False, now - _RESEND_SECONDS

    def _split_again(self, term: _Term, budget: Budget, now: float) -> None:
        """Look whether the budget is split as it should be, and change the split if it is not."""
        demands = [one.demand for one in self._partitions]
        # Partitions of which nothing, or no curve, is known change the split when they speak.
        split_of = (
            budget,
            sum(one.n_pages >= 0 for one in demands),
            sum(len(one.price) > 1 for one in demands),
        )
        if term.split_of == split_of and now - term.split_at < self._split_seconds:
            return
        term.split_at = now
        split = split_budget(budget.per_second, demands)
        if term.split is not None and term.split_of == split_of and isfinite(budget.per_second):
            before = term.split.per_second
            room = _MOVE_MIN * (before + 0.1 * budget.per_second / before.size)
            if (np.abs(split.per_second - before) <= room).all():
                return
        term.split, term.split_of = split, split_of

    def _next_quotas(self, term: _Term, per_second: float) -> FloatArray:
        """Return quotas on the way to the split, as far as acknowledgements allow."""
        assert term.split is not None
        wanted, before = term.split.per_second, np.array(term.record.per_second)
        if per_second == inf:
            return wanted
        most = self._most_in_use()
        # What the others use is not certain: a quota could be more than that, or less.
        is_certain = np.array([one.heard >= term.record.id for one in self._partitions])
        is_unknown = (most == inf) & ~is_certain
        used = float(most[~is_unknown].sum())
        is_over = used > per_second * (1 + _EQUAL)
        if is_unknown.any() and not is_over:
            return before
        if is_over:
            return np.where(is_certain & (wanted < most), wanted, before)
        more = np.maximum(wanted - most, 0.0)
        share = min(max((per_second - used) / float(more.sum()), 0.0), 1.0) if more.any() else 0.0
        return np.where(wanted > most, most + share * more, wanted)


def _are_equal(quotas: FloatArray, others: FloatArray, room: float) -> bool:
    return all(
        one == other or abs(one - other) <= room for one, other in zip(quotas, others, strict=True)
    )
