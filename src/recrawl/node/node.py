"""A node: one partition of a corpus, whose changes are in the log before they take effect.

    append to the log  →  apply to the shard  →  write to the store what is too big for memory

A node never acts on anything that is not in the log.  It appends its own decisions to the log, and
applies them like all other events, at their positions in the log.  If another node has claimed the
partition meanwhile, the decisions of this node are void, for every node that reads the log.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.errors import (
    IdentityError,
    LedgerError,
    OwnershipLost,
    PartitionAway,
    PartitionClosed,
    PositionLost,
    RecrawlError,
)
from recrawl.ledger import AppendedSpan, Ledger, ParallelLedger, PendingAppend, Record
from recrawl.ledger.contract import check_records
from recrawl.node.clock import NodeTime
from recrawl.node.few_reported import FewPagesReported
from recrawl.node.longevity.population import population_bytes, propose_population
from recrawl.node.orders import ORDERS_MAX
from recrawl.node.records import (
    BASELINE_FLAG,
    JUDGED_FLAG,
    MEMORY_CHANGE_FLAG,
    RECORDS_VERSION,
    SAME_CONTENT_FLAG,
    TEMPLATE_FLAG,
    ConsumersPlaced,
    CorpusIdentified,
    CurvePriorSet,
    HandlesMoved,
    LayoutReplaced,
    LogEntry,
    NamesNumbered,
    PagesAddedWithUrls,
    PagesReported,
    RequestKey,
    StateSampled,
    TextsJudged,
    UserDataSet,
    WrittenVersion,
    entry_of,
    keyed_record,
    record_of,
    request_of,
)
from recrawl.node.sampling.buckets import add_sample, last_sampled_ms
from recrawl.node.sampling.encoding import pack_sample, tables_of, unpack_sample
from recrawl.node.sampling.present import PAGES_LOGGED_MAX, read_state
from recrawl.one_process import ProcessLock
from recrawl.shard import (
    Applied,
    Claimed,
    ClockReset,
    Closed,
    Outcomes,
    PagesRemoved,
    Shard,
    event_of,
    events,
)
from recrawl.shard.announced import find_announced
from recrawl.shard.state.status import LeaseStage, PageStatus, PriceMode, Verdict, Why
from recrawl.store import AcceptedRequest, Names, Store, StoreBatch
from recrawl.units import seconds_text
from recrawl.urls import page_names

__all__ = [
    "SAMPLE_MS",
    "BegunOrders",
    "Node",
    "SentGroup",
    "Submission",
    "apply_entry",
    "use_logged_price",
]

logger = logging.getLogger(__name__)

# Maximum number of rows in a group commit, so that no caller waits for all others.
_GROUP_ROWS_MAX = 200_000
# Slots per batch of a scan over all URLs.
_ROWS_PER_SCAN = 16_384
# A replay writes to the store after this many rows.
_REPLAYED_ROWS_PER_WRITE = 50_000
# Interval of checks while the budget allows a fetch, but no page is due or every host is busy.
_IDLE_SECONDS = 0.1
# Up to so many records are looked up in less time than it takes to find out which exist.
_LOOKED_UP_MAX = 16
# Minimum time between two logged ticks.
_TICK_MS = 1_000
# An entry for which time matters, and that is so much later than the last one, is logged with the
# time before it.
_LATE_MS = 50
# Longest time between two attempts to go on after a failed append.
_RESUME_SECONDS_MAX = 60.0
# Interval of checks whether kinds of pages spend their shares of the budget.
_WEIGH_MS = 60_000
SAMPLE_MS = 60_000
"""The state of a partition is sampled once in each span of so many milliseconds."""
# Part of a minute in which partitions are sampled, and the golden section of it, which spreads any
# number of partitions evenly.
_SAMPLE_PHASES_MS = 48_000
_SAMPLE_PHASE_STEP_MS = 29_666

_NO_TRANSITION = np.zeros(0, np.uint8)
# Positions of reasons in ``tuple(Why)``.
_ORDERED = tuple(Why).index(Why.DUE)
_HELD = tuple(Why).index(Why.IN_FLIGHT)


def _sample_phase_ms(partition: int) -> int:
    """Return how many milliseconds after the beginning of a minute a partition is sampled.

    Partitions with consecutive numbers are far apart, and none is near the end of the minute.
    """
    return partition * _SAMPLE_PHASE_STEP_MS % _SAMPLE_PHASES_MS


def _n_rows(entry: LogEntry) -> int:
    match entry:
        case PagesAddedWithUrls(added):
            return int(added.page.size)
        case PagesReported(outcomes) | FewPagesReported(outcomes):
            return int(outcomes.page.size)
    return int(entry[0].size)


def apply_entry(shard: Shard, entry: LogEntry) -> Applied:
    """Apply one log entry to a shard; return which rows were valid, and their transitions.

    This does not change the store, which a replay in memory does not need.
    """
    if isinstance(entry, events.Ordered):
        return shard.apply(entry)  # before the others, because every lease logs one
    match entry:
        case PagesAddedWithUrls(added, epoch):
            if not (epoch == shard.epoch).all():
                return Applied(np.zeros(epoch.size, np.bool_), _NO_TRANSITION)
            return shard.apply(added)
        case HandlesMoved(numbers) | LayoutReplaced(numbers):
            return Applied(np.zeros(numbers.size, np.bool_), _NO_TRANSITION)
        case CorpusIdentified(partition):
            return Applied(np.ones(partition.size, np.bool_), _NO_TRANSITION)
        case (
            NamesNumbered(epoch)
            | CurvePriorSet(epoch)
            | ConsumersPlaced(epoch)
            | StateSampled(epoch)
        ):
            return Applied(epoch == shard.epoch, _NO_TRANSITION)
        case UserDataSet(page):
            if shard.is_closed:
                return Applied(np.zeros(page.size, np.bool_), _NO_TRANSITION)
            return Applied(shard.has_pages(page), _NO_TRANSITION)
        case PagesReported(outcomes) | FewPagesReported(outcomes):
            return shard.apply(outcomes)
    return shard.apply(entry)


def _add_pages_to_batch(
    entry: PagesAddedWithUrls, rows: NDArray[np.bool_], batch: StoreBatch
) -> None:
    """Add the pages of valid rows, and the data that their user gave, to the next write."""
    page, (url, fetch_url, *own) = entry.added.page, entry[2:]
    url = page_names(entry.key, url)
    if not rows.all():
        mask = pa.array(rows)
        page, url, fetch_url = page[rows], url.filter(mask), fetch_url.filter(mask)
        own = [None if column is None else column.filter(mask) for column in own]
    batch.add_pages(page, url, fetch_url)
    doc_id, metadata, _ = (pa.nulls(page.size, pa.string()) if c is None else c for c in own)
    has_any = np.flatnonzero(pc.or_(doc_id.is_valid(), metadata.is_valid()))
    if has_any.size:
        given = pa.array(has_any)
        batch.set_user_data(page[has_any], doc_id.take(given), metadata.take(given))


class Submission:
    """The log entries of one caller, and the result of committing them."""

    __slots__ = ("applied", "entries", "error", "is_done", "n_before", "records")

    def __init__(
        self,
        entries: Sequence[LogEntry],
        request: RequestKey | None = None,
        version: int = RECORDS_VERSION,
        *,
        n_before: int = 0,
    ) -> None:
        self.entries = entries
        self.n_before = n_before  # entries before those of the caller
        self.records = [record_of(entry, version) for entry in entries]
        if request is not None:
            # The last one: if the log has it, it has the others as well.
            self.records[-1] = keyed_record(self.records[-1], request)
        check_records(self.records)  # before the commit, where an error would affect other callers
        self.applied: list[Applied] = []
        self.error: BaseException | None = None
        self.is_done = False


def _end(
    group: Sequence[Submission],
    error: BaseException | None = None,
    *,
    applied: Sequence[Applied] = (),
) -> None:
    """Note what became of submissions that were committed together."""
    first = 0
    for submission in group:
        end = first + len(submission.entries)
        submission.applied, submission.error = [*applied[first:end]], error
        submission.is_done, first = True, end


class SentGroup(NamedTuple):
    """Submissions whose append is under way."""

    submissions: Sequence[Submission]
    entries: Sequence[LogEntry]
    records: Sequence[Record]
    append: PendingAppend


class _LateAppend(NamedTuple):
    """An append for which nobody waits any more, and what to apply when it is in the log."""

    append: PendingAppend
    entries: Sequence[LogEntry]
    records: Sequence[Record]


class BegunOrders(NamedTuple):
    """Orders that are decided and not yet logged; see `Node.begin_orders`."""

    proposal: events.Ordered
    submissions: Sequence[Submission]
    sent: SentGroup | None


class Node:
    """A shard, its log and its store.

    Several threads may call it: what they submit at the same time goes to the log in one append.
    Every change holds ``lock``; code that reads the shard must hold it too.

    Parameters
    ----------
    shard, ledger, store
        Shard, log and store of the partition.
    position
        Position of the first record in the log that has not been applied to the shard.
    partition
        Number of the partition, for messages.
    is_reader
        Whether the node only follows the log: it appends nothing and does not write to the store.
    is_shared
        Whether other nodes may append to the log: every tick reads their records.
    generation
        Layout generation of the corpus, for handles and cursors.
    reopen_ledger
        Function that returns a new ledger of the partition after an append has failed; without it,
        only opening the corpus again helps.
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
        generation: int = 0,
        reopen_ledger: Callable[[], Ledger] | None = None,
    ) -> None:
        self.shard = shard
        self.ledger = ledger
        self.store = store
        self.position = position
        self.partition = partition
        self.is_reader = is_reader
        self.is_shared = is_shared
        self.generation = generation
        self.lock = ProcessLock(threading.RLock())
        self.log_bytes = 0
        """Bytes appended or replayed since the node was opened."""
        self.n_by_verdict = np.zeros(len(Verdict), np.int64)
        """Number of outcomes that this node has logged since it was opened, by verdict."""
        self._pending: deque[Submission] = deque()
        self._owned_epoch = 0
        self._ticked_ms = self._weighed_ms = 0
        self._sampled_ms: int | None = None
        self._has_ordered = False
        self.shares: Mapping[int, float] = {}
        """Share of the budget of each kind of page that has one."""
        self._split_hosts: dict[str, int] = {}
        self.append_seconds_max = inf
        """Time for which a call waits for an append.  After that the partition has stopped, and all
        calls fail at once until the append has ended.  Finite only if somebody calls `resume`."""
        self._late: _LateAppend | None = None
        self._failed: BaseException | None = None
        self._reopen_ledger = reopen_ledger
        self._can_resume = False
        self._resume_at_ms = 0
        self._n_resumes = 0
        self.is_closed = False
        self.written = WrittenVersion()
        """Version of the records that this node appends."""

    def close(self) -> None:
        """Commit what waits, and close the store; later calls raise `PartitionAway`."""
        with self.lock:
            while self._pending:
                self._commit_group()
            self.is_closed = True
            self._late = None
            self._failed, self._can_resume = PartitionAway(self.partition), False
            self.store.close()

    def check_open(self) -> None:
        """Raise `PartitionAway` if the node was closed; hold ``lock``."""
        if self.is_closed:
            raise PartitionAway(self.partition)

    # ------------------------------------------------------------------ following the log

    def follow(self, until: int | None = None) -> int:
        """Apply the records of the log after the node's position; return the number of records.

        Parameters
        ----------
        until
            Position at which to stop; by default the end of the log.
        """
        with self.lock:
            self.check_open()
            self._check_not_late()
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
                    # The store may lack records that the shard has applied.
                    self._failed, self._can_resume = error, False
                    raise
            return self.position - first

    def _replay(self, found: Sequence[tuple[int, Record]]) -> None:
        """Apply records that were read from the log."""
        batch, n_rows = self.store.batch(), 0
        for position, record in found:
            entry = entry_of(record)
            self._apply(position, entry, batch, request_of(record))
            self.log_bytes += len(record.data)
            n_rows += _n_rows(entry)
            if n_rows >= _REPLAYED_ROWS_PER_WRITE:
                self._write(batch)
                batch, n_rows = self.store.batch(), 0
        self._write(batch)

    def _write(self, batch: StoreBatch) -> None:
        if self.is_reader or self.position <= self.store.position:
            return
        if batch.is_empty:
            self.store.skip_to(self.position)
        else:
            self.store.write(batch, self.position)

    def _apply(
        self, position: int, entry: LogEntry, batch: StoreBatch, request: RequestKey | None
    ) -> Applied:
        """Apply a log entry to the shard, and to the store unless it has applied it already."""
        is_new = position >= self.store.position and not self.is_reader
        self.position = position + 1
        applied = apply_entry(self.shard, entry)
        if is_new:
            self._add_to_batch(position, entry, applied, batch)
            # A record without effect, for instance of an earlier owner, completes no request.
            if request is not None and applied.valid.any():
                batch.add_request(*request, position, self.shard.now_ms)
        return applied

    def _add_to_batch(
        self, position: int, entry: LogEntry, applied: Applied, batch: StoreBatch
    ) -> None:
        """Add what the store keeps of an applied entry to the next write."""
        if isinstance(entry, events.Ordered):
            return  # before the others, because every lease logs one
        rows = applied.valid
        match entry:
            case PagesAddedWithUrls():
                if rows.any():
                    _add_pages_to_batch(entry, rows, batch)
            case UserDataSet(page, doc_id, metadata):
                mask = pa.array(rows)
                batch.set_user_data(page[rows], doc_id.filter(mask), metadata.filter(mask))
            case NamesNumbered() | CurvePriorSet() | ConsumersPlaced() | StateSampled():
                if rows.all():
                    self._add_decision_to_batch(entry, batch)
            case PagesReported():
                outcomes, *content, texts = entry
                mask = pa.array(rows)
                valid = content if rows.all() else [column.filter(mask) for column in content]
                is_same = None
                if texts is not None:
                    is_same = (texts.flags[rows] & SAME_CONTENT_FLAG) > 0
                batch.add_content(outcomes.page[rows], *valid, is_same=is_same)
                if texts is not None:
                    self._add_texts_to_batch(outcomes.page, texts, rows, batch)
                self._add_to_feed(position, outcomes, applied, batch, texts)
            case FewPagesReported(outcomes, contents):
                if applied.is_all_valid:
                    batch.add_contents(outcomes.page, contents)
                elif rows.any():
                    valid_rows = np.flatnonzero(rows).tolist()
                    batch.add_contents(outcomes.page[rows], [contents[i] for i in valid_rows])
                self._add_to_feed(position, outcomes, applied, batch)
            case Outcomes():
                self._add_to_feed(position, entry, applied, batch)
            case PagesRemoved():
                batch.remove_pages(entry.page[rows])

    def _add_decision_to_batch(
        self,
        entry: NamesNumbered | CurvePriorSet | ConsumersPlaced | StateSampled,
        batch: StoreBatch,
    ) -> None:
        """Add a decision of the owner that concerns only the store to the next write."""
        match entry:
            case NamesNumbered(_, what, number, key):
                batch.add_names(what, number, key)
            case CurvePriorSet():
                batch.set_curve_prior(population_bytes(entry))
            case ConsumersPlaced(_, name, place):
                batch.set_consumers(name.to_pylist(), place.to_pylist())
            case StateSampled(_, at_ms, tables):
                sampled = unpack_sample(tables[0].as_py())
                add_sample(self.store, batch, int(at_ms[0]), sampled)

    def _add_texts_to_batch(
        self,
        page: NDArray[np.int64],
        texts: TextsJudged,
        valid: NDArray[np.bool_],
        batch: StoreBatch,
    ) -> None:
        """Add what texts showed of pages and their groups to the next write."""
        rows = np.flatnonzero(valid & ((texts.flags & JUDGED_FLAG) > 0))
        if rows.size == 0:
            return
        taken = pa.array(rows)
        flags, wrong_answer = texts.flags[rows], texts.wrong_answer[rows]
        memory = texts.memory.take(taken).to_pylist()
        is_difference = (flags & MEMORY_CHANGE_FLAG) > 0
        batch.add_page_content(
            page[rows], memory, wrong_answer, self.shard.now_ms, is_difference=is_difference
        )
        group = self.shard.tables.pages.group[events.slot_of_page(page[rows])].tolist()
        updates = [
            (number, update)
            for number, update in zip(group, texts.host_update.take(taken).to_pylist(), strict=True)
            if update is not None
        ]
        batch.add_host_updates(updates)
        batch.count_content(
            wrong_answer,
            int(np.count_nonzero(flags & BASELINE_FLAG)),
            int(np.count_nonzero(flags & TEMPLATE_FLAG)),
        )

    def _add_to_feed(
        self,
        position: int,
        outcomes: Outcomes,
        applied: Applied,
        batch: StoreBatch,
        texts: TextsJudged | None = None,
    ) -> None:
        """Add the transitions that outcomes caused to the feed of changes."""
        (rows,) = applied.transition.nonzero()  # void rows have no transition
        if rows.size:
            at_ms = np.full(rows.size, self.shard.now_ms, np.int64)
            transition = applied.transition[rows]
            passages = None if texts is None else texts.passages.take(pa.array(rows)).to_pylist()
            batch.add_changes(position, outcomes.page[rows], transition, at_ms, passages=passages)

    # ------------------------------------------------------------------ claiming and committing

    def claim(self, owner: int, time: NodeTime) -> None:
        """Take over the partition: later decisions of its previous owner are void."""
        with self.lock:
            self.follow()
            self._claim(owner, time.now_ms())

    def _claim(self, owner: int, at_ms: int) -> None:
        epoch = self.shard.epoch + 1
        self.submit([event_of(Claimed, owner=owner, epoch=epoch, at_ms=at_ms)])
        # Another node may have claimed it at the same moment; the last claim in the log wins.
        if int(self.shard.tables.registers.owner[0]) != owner:
            raise OwnershipLost(f"partition {self.partition} was claimed by another node")
        self._owned_epoch = self.shard.epoch
        self._sampled_ms = None  # another owner may have logged samples meanwhile

    def end_log(self, owner: int, generation: int, n_partitions: int) -> None:
        """Claim the partition, and end its log: its pages move to other partitions.

        Time stays as it is: nothing expires on the way.

        Parameters
        ----------
        owner
            Number of the claim.
        generation, n_partitions
            Layout generation and number of the partitions that the pages move to.

        Raises
        ------
        OwnershipLost
            If another node has claimed the partition at the same moment.
        """
        with self.lock:
            self.follow()
            self._claim(owner, self.shard.now_ms)
            columns = {"generation": generation, "n_partitions": n_partitions}
            self.submit([event_of(Closed, epoch=self.shard.epoch, **columns)])
            if not self.shard.is_closed:
                raise OwnershipLost(f"partition {self.partition} was claimed by another node")

    @property
    def is_owner(self) -> bool:
        """Whether this node has claimed the partition, and has read no later claim in the log."""
        return self._owned_epoch == self.shard.epoch

    @property
    def has_lost_claim(self) -> bool:
        """Whether this node owned the partition, and has read a later claim in the log."""
        return self._owned_epoch > 0 and not self.is_owner

    @property
    def can_decide(self) -> bool:
        """Whether this node owns the partition, and has not stopped."""
        return self.is_owner and not self.has_stopped

    @property
    def has_stopped(self) -> bool:
        """Whether an append has failed or is late: calls that change something are refused."""
        return self._failed is not None or self._late is not None

    @property
    def is_late(self) -> bool:
        """Whether the brokers have not answered an append in time: it may still succeed."""
        return self._late is not None

    def _check_not_late(self) -> None:
        if self._late is not None:
            raise LedgerError(
                f"partition {self.partition} waits until the brokers have its last records"
            )

    def check_owner(self) -> None:
        """Raise `OwnershipLost` unless this node owns the partition.

        Every decision must check this first, because it carries the epoch of the shard, which may
        belong to another owner.
        """
        self._check_writer()
        if not self.is_owner:
            raise OwnershipLost(
                f"partition {self.partition} was claimed by another node with epoch "
                f"{self.shard.epoch}; this one had {self._owned_epoch}"
            )

    def _check_writer(self) -> None:
        if self.is_reader:
            raise RecrawlError("the corpus is open for reading only; open it without read_only")
        self._check_log_goes_on()

    def _check_log_goes_on(self) -> None:
        """Raise `PartitionClosed` if the log has ended: what comes after that is void."""
        if self.shard.is_closed:
            raise PartitionClosed(self.partition)

    def raise_if_failed(self) -> None:
        """Raise if the shard is behind the log, after an error or a late append."""
        self._check_not_late()
        if self._failed is not None:
            self.check_open()
            advice = "it tries again by itself" if self._can_resume else "open the corpus again"
            raise LedgerError(
                f"partition {self.partition} stopped after an error; {advice}: {self._failed}"
            ) from self._failed

    def resume(self, now_ms: int) -> None:
        """Go on after a late or failed append, if its time has come.

        Parameters
        ----------
        now_ms
            Time in milliseconds since 1970.
        """
        with self.lock:
            self._finish_late()
            if not self._is_resume_due(now_ms):
                return
        try:
            # Without the lock: as long as the partition has no leader, this takes a minute.
            self.ledger.end  # noqa: B018 - whether the brokers answer
        except LedgerError as error:
            with self.lock:
                if self._is_resume_due(now_ms):  # another thread may have made it go on meanwhile
                    self._resume_later(error, now_ms)
            return
        with self.lock:
            self._resume(now_ms)

    def catch_up(self, now_ms: int) -> None:
        """Do what may wait long for the brokers; for a thread that waits for this node alone.

        Other threads can use the node meanwhile: they are refused at once if it has stopped.

        Parameters
        ----------
        now_ms
            Time in milliseconds since 1970.
        """
        self.resume(now_ms)
        if self.is_shared and not self.is_owner and not self.has_stopped:
            self.ledger.end  # noqa: B018 - `follow` waits under the lock, but not for a leader now
            self.follow()

    def _finish_late(self) -> None:
        """Apply a late append if the brokers have answered; whoever waited for it has gone."""
        late = self._late
        if late is None or not self._wait_for(late.append, 0.0):
            return
        self._late = None
        try:
            self._apply_appended(late.append.finish, late.entries, late.records)
        except RecrawlError as error:
            logger.warning("partition %d: a late append has failed: %s", self.partition, error)
        else:
            logger.warning("partition %d goes on: the brokers have its records", self.partition)

    def _is_resume_due(self, now_ms: int) -> bool:
        can_resume = self._can_resume and self._reopen_ledger is not None
        return self._failed is not None and can_resume and now_ms >= self._resume_at_ms

    def _resume_later(self, error: LedgerError, now_ms: int) -> None:
        seconds = min(2.0**self._n_resumes, _RESUME_SECONDS_MAX)
        self._n_resumes += 1
        self._resume_at_ms = now_ms + round(1000 * seconds)
        self._failed = self._failed or error
        logger.warning(
            "partition %d waits for its log, and tries again after %s: %s",
            self.partition,
            seconds_text(seconds),
            error,
        )

    def _resume(self, now_ms: int) -> None:
        """Go on after a failed append, if its time has come; otherwise stay as it is.

        The records may be in the log or not, and the shard has applied none of them: reading the
        log tells.  Those that appear even later carry an epoch that a new claim makes void.
        """
        if not self._is_resume_due(now_ms) or self._reopen_ledger is None:
            return
        try:
            self.ledger = self._reopen_ledger()
            self.follow()
            self._failed = None
            if self.is_owner and self._owned_epoch:
                self._claim_again()
        except (IdentityError, PositionLost) as error:
            # The topic was created again, or has lost records.
            self._failed, self._can_resume = error, False
        except LedgerError as error:
            self._resume_later(error, now_ms)
        else:
            self._n_resumes = 0
            logger.warning("partition %d goes on after an error", self.partition)

    def _claim_again(self) -> None:
        # A claim that is late would count as that of another node.
        patience, self.append_seconds_max = self.append_seconds_max, inf
        try:
            self._claim(int(self.shard.tables.registers.owner[0]), self.shard.now_ms)
        finally:
            self.append_seconds_max = patience

    def submit(
        self, entries: Sequence[LogEntry], *, request: RequestKey | None = None
    ) -> list[Applied]:
        """Append entries to the log, then apply them; return the result of each.

        The thread that gets the lock commits the entries of all waiting threads.

        Parameters
        ----------
        entries
            Entries to append.
        request
            Key of the client's request that they complete, which `find_request` finds for a day.
            Hold ``lock`` from that look-up to this call, so that no request is applied twice.
        """
        return self.finish(self.begin(entries, request=request))

    def begin(
        self,
        entries: Sequence[LogEntry],
        *,
        request: RequestKey | None = None,
        at_ms: int | None = None,
    ) -> Submission:
        """Put entries into the next append to the log, whoever makes it; see `submit`.

        The caller must `finish` them, and may do other work on the node before, such as ordering
        pages: what that logs goes into the same append.

        Parameters
        ----------
        entries
            Entries to append.
        request
            Key of the client's request, see `submit`.
        at_ms
            Time of entries that start the delay of a host, in milliseconds since 1970; the owner
            logs it before them.  Otherwise they have the time of the last tick or order, which may
            be a second earlier.
        """
        self.store.check_process()
        if request is not None and not entries:
            raise ValueError("a request with a key must have at least one entry")
        is_late = at_ms is not None and at_ms - self.shard.now_ms >= _LATE_MS and self.is_owner
        if is_late and at_ms is not None:
            entries = [self.shard.tick(at_ms), *entries]
        submission = Submission(entries, request, self.written.number, n_before=int(is_late))
        self._pending.append(submission)
        return submission

    def finish(self, submission: Submission) -> list[Applied]:
        """Wait until entries are logged and applied, or do it; return the result of each."""
        if not submission.is_done:
            with self.lock:
                while not submission.is_done:
                    self._commit_group()
        if submission.error is not None:
            raise submission.error
        n_before = submission.n_before
        return submission.applied[n_before:] if n_before else submission.applied

    def send(self) -> SentGroup | None:
        """Begin to append what waits, so that the appends of several nodes are under way together.

        Hold ``lock`` from here until `complete`.  Returns None if the ledger cannot do that, if
        nothing waits, or if the append fails at once; `finish` does the rest in all cases.
        """
        if not self.can_send or not self._pending:
            return None
        group = self._take_group()
        entries = [entry for submission in group for entry in submission.entries]
        records = [record for submission in group for record in submission.records]
        try:
            self.raise_if_failed()
            self._check_writer()
            return SentGroup(group, entries, records, self._begin_append(records))
        except BaseException as error:
            _end(group, error)
            return None

    @property
    def can_send(self) -> bool:
        """Whether appends can be under way together with those of other nodes."""
        # Not by `isinstance`, which takes long for a protocol.
        return hasattr(self.ledger, "begin_append")

    def complete(self, sent: SentGroup) -> None:
        """Wait until what was sent is in the log, and apply it; errors are those of `finish`."""
        try:
            _end(
                sent.submissions,
                applied=self._apply_sent(sent.append, sent.entries, sent.records),
            )
        except BaseException as error:
            _end(sent.submissions, error)

    def _take_group(self) -> list[Submission]:
        group: list[Submission] = []
        n_rows = 0
        while self._pending and n_rows < _GROUP_ROWS_MAX:
            submission = self._pending.popleft()
            group.append(submission)
            n_rows += sum(_n_rows(entry) for entry in submission.entries)
        return group

    def _commit_group(self) -> None:
        if len(self._pending) == 1:
            self._commit_one(self._pending.popleft())
            return
        group = self._take_group()
        try:
            applied = self._commit(
                [entry for submission in group for entry in submission.entries],
                [record for submission in group for record in submission.records],
            )
            _end(group, applied=applied)
        except BaseException as error:
            _end(group, error)

    def _commit_one(self, submission: Submission) -> None:
        try:
            submission.applied = self._commit(submission.entries, submission.records)
        except BaseException as error:
            submission.error = error
        submission.is_done = True

    def _commit(self, entries: Sequence[LogEntry], records: Sequence[Record]) -> list[Applied]:
        self.raise_if_failed()
        self._check_writer()
        if not entries:
            return []
        if self.append_seconds_max < inf and self.can_send:
            return self._apply_sent(self._begin_append(records), entries, records)
        return self._apply_appended(lambda: self.ledger.append(records), entries, records)

    def _stop_after(self, error: BaseException) -> None:
        """Refuse calls after a failed append; `resume` reads the log again if it can be opened."""
        self._failed, self._can_resume = error, self._reopen_ledger is not None

    def _begin_append(self, records: Sequence[Record]) -> PendingAppend:
        try:
            return cast(ParallelLedger, self.ledger).begin_append(records)
        except BaseException as error:
            self._stop_after(error)
            raise

    def _apply_sent(
        self, append: PendingAppend, entries: Sequence[LogEntry], records: Sequence[Record]
    ) -> list[Applied]:
        """Wait until entries are in the log, and apply them; raise if that takes too long."""
        if self.append_seconds_max < inf and not self._wait_for(append, self.append_seconds_max):
            self._late = _LateAppend(append, entries, records)
            logger.warning(
                "partition %d waits for the brokers, which have not answered within %s",
                self.partition,
                seconds_text(self.append_seconds_max),
            )
            self._check_not_late()
        return self._apply_appended(append.finish, entries, records)

    def _wait_for(self, append: PendingAppend, seconds_max: float) -> bool:
        """Return whether an append has ended in time; an error leaves the node failed."""
        try:
            return append.wait(seconds_max)
        except BaseException as error:
            # The records may be in the log, and a repeated call must find them before it is done.
            self._late = None
            self._stop_after(error)
            raise

    def _apply_appended(
        self,
        append: Callable[[], AppendedSpan],
        entries: Sequence[LogEntry],
        records: Sequence[Record],
    ) -> list[Applied]:
        """Append entries to the log, then apply them; an error leaves the node failed."""
        try:
            positions = append().positions
        except BaseException as error:
            self._stop_after(error)
            raise
        try:
            applied, is_void = self._apply_at(positions, entries, records)
        except BaseException as error:
            self._failed, self._can_resume = error, False
            raise
        if is_void:
            # They came after the end of the log, so nobody may believe that they were accepted.
            self._check_log_goes_on()
        return applied

    def _apply_at(
        self, positions: Sequence[int], entries: Sequence[LogEntry], records: Sequence[Record]
    ) -> tuple[list[Applied], bool]:
        """Apply entries at their positions in the log, and records of other writers in between.

        Returns the result of each, and whether the log had ended before one of them.
        """
        applied, is_void = [], False
        batch = self.store.batch()
        for position, entry, record in zip(positions, entries, records, strict=True):
            if self.position < position:
                self._write(batch)
                self.follow(position)
                batch = self.store.batch()
            is_void |= self.shard.is_closed
            applied.append(self._apply(position, entry, batch, request_of(record)))
            self.log_bytes += len(record.data)
            self._count_verdicts(entry, applied[-1])
        self._write(batch)
        return applied, is_void

    def _count_verdicts(self, entry: LogEntry, applied: Applied) -> None:
        match entry:
            case PagesReported(outcomes) | FewPagesReported(outcomes):
                pass
            case Outcomes():
                outcomes = entry
            case _:
                return
        verdict = outcomes.verdict[applied.valid]
        self.n_by_verdict += np.bincount(verdict, minlength=self.n_by_verdict.size)

    def find_request(self, key: bytes) -> AcceptedRequest | None:
        """Return the request that a client made with a key within a day; None if there is none."""
        with self.lock:
            return self.store.find_request(key, self.shard.now_ms)

    # ------------------------------------------------------------------ ticks and orders

    def tick(self, time: NodeTime) -> int:
        """Log a tick, expired leases, new priors and new weights of kinds; return the current time.

        Does nothing if the last tick is less than a second old.
        """
        now_ms = time.now_ms()
        if not self.is_tick_due(now_ms):
            return now_ms
        with self.lock:
            begun = self.begin_tick(now_ms)
            if begun is not None:
                self.finish_tick(begun)
        return now_ms

    def is_tick_due(self, now_ms: int) -> bool:
        """Return whether the last tick is a second old, or a late append may have ended."""
        return now_ms - self._ticked_ms >= _TICK_MS or self._late is not None

    def begin_tick(self, now_ms: int) -> Submission | None:
        """Begin what `tick` does; hold ``lock`` from here to `finish_tick`.

        Returns None if there is nothing to log, for instance because another thread has logged a
        tick meanwhile.
        """
        if not self.is_tick_due(now_ms):
            return None
        since_ms, self._ticked_ms = now_ms - self._ticked_ms, now_ms
        self._finish_late()
        waits = self.append_seconds_max == inf
        if self._failed is not None and waits:
            self._resume(now_ms)
        self.raise_if_failed()
        if self.is_shared and not self.is_owner and waits:
            # An owner finds the records of others when it appends its tick after them.
            self.follow()
        if not self.is_owner:
            return None  # only the owner logs ticks; any node may report outcomes
        proposals: list[LogEntry] = [self.shard.tick(now_ms)]
        expired = self.shard.overdue(now_ms)
        if expired.order.size:
            proposals.append(expired)
        learned = self.shard.learn_priors()
        if learned is not None:
            proposals.append(learned)
        population = propose_population(self.shard, self.store)
        if population is not None:
            proposals.append(population)
        if now_ms - self._weighed_ms >= _WEIGH_MS:
            weighed = self.shard.weigh_kinds(self.shares, now_ms)
            if weighed is not None:
                proposals.append(weighed)
            self._weighed_ms = now_ms
        if self._is_sample_due(now_ms, since_ms):
            proposals.append(self._read_sample(now_ms))
        return self.begin(proposals)

    def _is_sample_due(self, now_ms: int, since_ms: int) -> bool:
        """Return whether a minute has begun since the last sample.

        The first minute of a new partition has none.  While a partition ticks often, it has its own
        moment of a minute, because a call that uses all partitions would wait for all samples.

        Parameters
        ----------
        now_ms
            Current time, in milliseconds since 1970.
        since_ms
            Time since the last tick.
        """
        if self._sampled_ms is None:
            last_ms = last_sampled_ms(self.store)
            is_new = last_ms is None and self.shard.n_pages == 0
            self._sampled_ms = now_ms if is_new else last_ms or 0
        minute, last = now_ms // SAMPLE_MS, self._sampled_ms // SAMPLE_MS
        # Otherwise this may be the last tick of the minute; and time may have been set back since.
        ticks_often = 0 <= since_ms <= SAMPLE_MS - _SAMPLE_PHASES_MS
        if minute == last + 1 and ticks_often:
            return now_ms % SAMPLE_MS >= _sample_phase_ms(self.partition)
        return minute != last

    def _read_sample(self, now_ms: int) -> StateSampled:
        """Return the present state of the partition as an entry of its log."""
        self._sampled_ms = now_ms
        state = read_state(self.shard, self.lock, now_ms, n_pages_max=PAGES_LOGGED_MAX)
        return StateSampled(
            np.array([self.shard.epoch], np.int64),
            np.array([now_ms], np.int64),
            pa.array([pack_sample(tables_of(state))], pa.binary()),
        )

    def finish_tick(self, begun: Submission) -> None:
        """Wait until a tick is logged and applied, or do it."""
        self.finish(begun)
        self.store.save_position()

    def reset_clock(self, at_ms: int, time: NodeTime) -> None:
        """Log that time goes back to ``at_ms``, because the system clock was wrong before."""
        with self.lock:
            self.check_owner()
            # Instants move back by as much as the shard's time, so this must be the present one.
            tick = self.shard.tick(time.now_ms())
            self.submit([tick, event_of(ClockReset, epoch=self.shard.epoch, at_ms=at_ms)])
            self._ticked_ms = self._weighed_ms = 0

    def _n_orders_left(self) -> int:
        """Return how many order numbers are left; raise `RecrawlError` if there are none."""
        n_left = ORDERS_MAX - int(self.shard.tables.registers.next_order[0])
        if n_left <= 0:
            raise RecrawlError(
                f"partition {self.partition} has given out all {ORDERS_MAX:,} order numbers"
            )
        return n_left

    def order(
        self,
        n: int,
        time: NodeTime,
        *,
        lease_seconds: float | None = None,
        exact: bool = False,
        request: RequestKey | None = None,
    ) -> events.Ordered:
        """Decide on up to ``n`` orders, log them, and return those that are valid."""
        ordered, _ = self.order_each(
            n,
            time,
            lease_seconds=lease_seconds,
            exact=exact,
            split=lambda n_rows: [(n_rows, request)],
        )
        return ordered

    def order_each(
        self,
        n: int,
        time: NodeTime,
        *,
        split: Callable[[int], Sequence[tuple[int, RequestKey | None]]],
        lease_seconds: float | None = None,
        exact: bool = False,
    ) -> tuple[events.Ordered, list[int]]:
        """Decide on up to ``n`` orders for several requests, and log them in one append.

        Parameters
        ----------
        n
            Largest number of orders.
        time
            Time of the corpus.
        split
            Function that returns, for a number of orders, how many of them are for each request,
            and its key, see `submit`.
        lease_seconds
            Length of the leases; the configured length by default.
        exact
            Whether to compare every page.

        Returns
        -------
        ordered
            Orders that are valid.
        counts
            How many of them are for each request; empty if there are no orders.
        """
        with self.lock:
            now_ms = self.tick(time)
            begun = self.begin_orders(
                n, now_ms, lease_seconds=lease_seconds, exact=exact, split=split
            )
            return self.finish_orders(begun)

    def begin_orders(
        self,
        n: int,
        now_ms: int,
        *,
        split: Callable[[int], Sequence[tuple[int, RequestKey | None]]],
        lease_seconds: float | None = None,
        exact: bool = False,
        sends: bool = False,
    ) -> BegunOrders:
        """Decide on orders; hold ``lock`` from here to `finish_orders`.

        Parameters
        ----------
        n, split, lease_seconds, exact
            Arguments of `order_each`.
        now_ms
            Current time, after a `tick`.
        sends
            Whether to begin the append, because other nodes order at the same time; see `send`.
        """
        self.check_owner()
        self.raise_if_failed()
        n = min(n, self._n_orders_left())
        proposal = self.shard.decide(
            now_ms, n, lease_seconds=lease_seconds, exact=exact, keeps_budget=True
        )
        begun: list[Submission] = []
        first = 0
        for n_rows, request in split(proposal.order.size) if proposal.order.size else ():
            part = slice(first, first + n_rows)
            first += n_rows
            piece = proposal
            if n_rows < proposal.order.size:
                piece = events.Ordered._make(column[part] for column in proposal)
            begun.append(self.begin([piece], request=request))
        return BegunOrders(proposal, begun, self.send() if sends else None)

    def finish_orders(self, begun: BegunOrders) -> tuple[events.Ordered, list[int]]:
        """Log orders that are decided; return what `order_each` does."""
        proposal = begun.proposal
        if begun.sent is not None:
            self.complete(begun.sent)
        if not begun.submissions:
            return proposal, []
        valid = [self.finish(submission)[0].valid for submission in begun.submissions]
        self._has_ordered = True
        ahead = self.shard.take_pages_ahead()
        wanted = np.append(proposal.page, ahead) if ahead.size else proposal.page
        self._note_new_pages(wanted)
        if ahead.size:
            # At once, because reading them one by one takes several times as long.
            self.store.read_ahead(wanted)
        counts = [int(np.count_nonzero(piece)) for piece in valid]
        if sum(counts) == proposal.order.size:
            return proposal, counts
        return events.select_rows(proposal, np.concatenate(valid)), counts

    def _note_new_pages(self, page: NDArray[np.int64]) -> None:
        """Tell the store which pages had no outcome yet, so that it looks for no records."""
        if page.size <= _LOOKED_UP_MAX:
            return
        pages, slot = self.shard.tables.pages, events.slot_of_page(page)
        # Each outcome changes one of the two: a failure is counted until the first success.
        is_new = (pages.status[slot] == PageStatus.NEW) & (pages.errors[slot] == 0)
        self.store.expect_no_records(page[is_new])

    def order_given(
        self,
        page: NDArray[np.int64],
        time: NodeTime,
        *,
        lease_seconds: float | None = None,
        request: RequestKey | None = None,
    ) -> tuple[events.Ordered, NDArray[np.uint8]]:
        """Order given pages as far as possible; return the orders, and the reason of each page.

        Parameters
        ----------
        page
            Numbers of the pages, -1 for none.
        time
            Time of the corpus.
        lease_seconds
            Length of the leases; the configured length by default.
        request
            Key of the client's request, see `submit`.
        """
        with self.lock:
            now_ms = self.tick(time)
            self.check_owner()
            if page.size > self._n_orders_left():
                raise RecrawlError(f"partition {self.partition} has too few order numbers left")
            proposal, why = self.shard.decide_given(now_ms, page, lease_seconds=lease_seconds)
            if proposal.order.size == 0:
                return proposal, why
            (applied,) = self.submit([proposal], request=request)
            self._has_ordered = True
            # Another fetcher has an order that turned out void.
            rows = np.flatnonzero(why == _ORDERED)
            why[rows[~applied.valid]] = _HELD
            return events.select_rows(proposal, applied.valid), why

    def find_announced(self, page: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which pages have changed by their signals; see `recrawl.shard.announced`."""
        with self.lock:
            return find_announced(self.shard.tables, self.shard.rules, page)

    def log_price(self, time: NodeTime) -> None:
        """Log the current price, so that the next process that opens the corpus starts with it."""
        with self.lock:
            if not self._has_ordered or self.is_reader:
                return
            self._has_ordered = False
            if self.shard.picker.price != float(self.shard.tables.registers.price[0]):
                self.submit([self.shard.tick(max(time.now_ms(), self.shard.now_ms))])

    # ------------------------------------------------------------------ reading

    def refresh(self) -> None:
        """Apply the records that other processes have logged."""
        with self.lock:
            if self.is_reader:
                self.store.catch_up()
            self.follow()

    def wait_seconds(self) -> float:
        """Return the seconds until the next call of `order` may return an order."""
        with self.lock:
            registers = self.shard.tables.registers
            missing = 1.0 - self.shard.credit(self.shard.now_ms)
            if missing <= 0 or (registers.run_budget[0] > 0 and registers.run[0] == 0):
                return _IDLE_SECONDS
            rate = float(registers.budget[0])
            return max(missing / rate, _IDLE_SECONDS) if rate > 0 else float("inf")

    def split_hosts(self) -> Mapping[str, int]:
        """Return the names of the groups of which other partitions have pages, and their numbers.

        Hold ``lock``, or look at nothing else.
        """
        groups = self.shard.split_groups
        if groups.size != len(self._split_hosts):
            with self.lock:
                numbers = self.shard.split_groups.tolist()
                names = self.store.names_of(Names.GROUP, numbers)
                self._split_hosts = {
                    name: number
                    for name, number in zip(names, numbers, strict=True)
                    if name is not None
                }
        return self._split_hosts

    def scan_urls(self) -> Iterator[tuple[NDArray[np.int64], pa.StringArray]]:
        """Yield all pages and their URLs in batches; other threads may work between two batches."""
        slot: int | None = 0
        while slot is not None:
            page, url, slot = self.scan_urls_from(slot)
            if page.size:
                yield page, url

    def scan_urls_from(self, slot: int) -> tuple[NDArray[np.int64], pa.StringArray, int | None]:
        """Return a batch of pages, their URLs, and the slot of the next batch; None if no more."""
        page, url = self.store.scan_urls(slot, _ROWS_PER_SCAN)
        following = slot + _ROWS_PER_SCAN
        has_more = following < int(self.shard.tables.registers.n_slots[0])
        return page, url, following if has_more else None

    def pages_of_orders(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the pages of orders, -1 for orders that never existed or are no longer known."""
        registers, leases = self.shard.tables.registers, self.shard.tables.leases
        is_known = (order >= registers.first_order[0]) & (order < registers.next_order[0])
        page: NDArray[np.int64] = np.where(
            is_known, leases.page[order & (leases.page.size - 1)], -1
        )
        return page

    def open_orders_of(self, page: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the order in flight of each page, 0 for a page without one."""
        registers, leases = self.shard.tables.registers, self.shard.tables.leases
        order = np.zeros(page.size, np.int64)
        if registers.in_flight[0] == 0:
            return order
        row = np.flatnonzero(leases.stage == LeaseStage.IN_FLIGHT)
        row = row[np.argsort(leases.page[row])]
        # The ring buffer has the orders from the first to the next, each at its lowest bits.
        first, next_order = registers.first_order[0], registers.next_order[0]
        number = first + ((row - first) & (leases.page.size - 1))
        row, number = row[number < next_order], number[number < next_order]
        if row.size:
            held = leases.page[row]
            place = np.minimum(np.searchsorted(held, page), row.size - 1)
            is_held = held[place] == page
            order[is_held] = number[place[is_held]]
        return order


def use_logged_price(shard: Shard) -> None:
    """Give a shard that only follows the log the price that the owner has logged."""
    registers = shard.tables.registers
    price = float(registers.price[0])
    if price == 0 and registers.price_mode[0] == PriceMode.FIXED:
        price = float(registers.fixed_price[0])
    shard.picker.set_price(price)
