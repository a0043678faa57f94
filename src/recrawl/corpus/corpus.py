"""A corpus: the tracked pages of one folder, and everything a program can do with them.

`Corpus` is the whole interface for one process; `recrawl.corpus.aio.AsyncCorpus` has the same
methods for asyncio.  A corpus sends each call to the partitions of the pages' hosts; the nodes do
the work.
"""

import logging
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from copy import copy
from dataclasses import fields, replace
from math import inf
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.corpus.budget_split import BudgetSplit, run_number
from recrawl.corpus.budget_view import BudgetView
from recrawl.corpus.feed.change_feed import PageChange, changes_after, parse_cursor
from recrawl.corpus.feed.consumer_files import ConsumerFiles
from recrawl.corpus.feed.consumers import (
    Consumer,
    KeptPlaces,
    consumer_place,
    is_ahead,
    list_consumers,
)
from recrawl.corpus.feed.logged_consumers import LoggedConsumers
from recrawl.corpus.inspect.explanation import PageExplanation, explain_page
from recrawl.corpus.inspect.page_table import (
    PageRows,
    page_batches,
    page_cursor,
    page_rows_after,
    parse_page_cursor,
)
from recrawl.corpus.inspect.stats import Stats, stats_of
from recrawl.corpus.leasing.old_handles import OldHandles
from recrawl.corpus.leasing.pages import Leasing, check_seconds
from recrawl.corpus.leasing.quotas import PartitionQuotas
from recrawl.corpus.leasing.repeated import RequestParts, is_repeated
from recrawl.corpus.leasing.reports import Reported, Reporting
from recrawl.corpus.leasing.shortfall import Orders, is_run_over, window_reason, window_text
from recrawl.corpus.leasing.small_calls import LeaseShare, new_small_calls
from recrawl.corpus.leasing.urls import LeasedUrls
from recrawl.corpus.monitoring.metrics import CorpusMetrics, read_metrics
from recrawl.corpus.monitoring.present import read_present
from recrawl.corpus.monitoring.robots_notes import RobotsNotes
from recrawl.corpus.monitoring.series import read_series, read_source_series
from recrawl.corpus.plan.curve import PAGES_PLANNED_MAX, Plan, plan_of_partitions
from recrawl.corpus.plan.planned_partition import read_nodes
from recrawl.corpus.view import Added, CountedRows, RowStatus, Signalled
from recrawl.corpus.wrong_answers import wrong_answer_counts
from recrawl.errors import (
    ConfigError,
    LedgerError,
    OwnershipLost,
    PageElsewhere,
    PositionLost,
    RecrawlError,
)
from recrawl.giving_way import LeasesUnderWay
from recrawl.ledger import Log
from recrawl.ledger.contract import check_partition
from recrawl.messages.partitions import OwnedPartition
from recrawl.messages.results import ChangedPart
from recrawl.messages.robots import RobotsNote
from recrawl.messages.samples import Sample, Samples, SourceSamples
from recrawl.node.clock import Clock, NodeTime, true_time
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.content.bodies import BodyReader
from recrawl.node.durability.corpus_format import CorpusFormat
from recrawl.node.durability.log_damage import write_log_ends
from recrawl.node.durability.log_opening.successor import find_successor
from recrawl.node.durability.partition_moves import PartitionMoves
from recrawl.node.durability.recovery import (
    Partition,
    identity_entry,
    recover_node,
    settings_event,
)
from recrawl.node.durability.scrubber import Scrubber, ScrubReport, read_scrub_report
from recrawl.node.durability.snapshotter import Snapshotter
from recrawl.node.durability.standbys import Standby, Standbys
from recrawl.node.node import Node, use_logged_price
from recrawl.node.numbering import AddedRows, Namer, PagesToAdd, add_together
from recrawl.node.open_nodes import NodeBatch, OpenNodes, commit_together, tick_together
from recrawl.node.orders import Order, Outcome, order_of, partition_of
from recrawl.node.records import RECORDS_VERSION, LogEntry, RequestKey, WrittenVersion
from recrawl.node.routing import (
    Urls,
    as_amounts,
    as_array,
    as_numbers,
    canonical_host,
    key_column,
    null_where_same,
    partition_of_key,
    partitions_of_host,
    split_by_partition,
    split_partitions_of,
)
from recrawl.node.settings.hosts import HostSettings, host_events
from recrawl.node.settings.pages import (
    PageSettings,
    set_pages,
    stop_tracking,
)
from recrawl.node.settings.pattern_changes import PART_SECONDS, ScanPlace, change_part
from recrawl.node.settings.patterns import apply_patterns
from recrawl.node.settings.urgent import OPERATOR, urgent_signals
from recrawl.node.shipped_due_table import shipped_due_table
from recrawl.node.split_hosts.exchange import SplitHosts
from recrawl.node.user_data import UserColumns, refused_rows, user_columns, without_refused
from recrawl.one_process import OneProcess, ProcessLock, forked_error
from recrawl.shard import (
    Applied,
    LeasesExtended,
    LeasesReleased,
    RequestsSeen,
    Signals,
    event_of,
)
from recrawl.shard.rehearsal import rehearse_decisions
from recrawl.store import ContentCounts, Names
from recrawl.urls import canonical, group_keys, split_page_names

if TYPE_CHECKING:
    from recrawl.corpus.backups.backup import BackupResult
    from recrawl.corpus.forgetting.forget import Forgotten
    from recrawl.corpus.holdout.experiment import HoldoutView
    from recrawl.corpus.import_crawl import CrawlImport
    from recrawl.corpus.inspect.beliefs import BelievedPages
    from recrawl.corpus.inspect.hosts import HostTable, HostView
    from recrawl.corpus.inspect.source_table import SourceRow, SourceTable
    from recrawl.corpus.past.page_history import PageHistory
    from recrawl.corpus.past.replay import OnRecord
    from recrawl.corpus.plan.corpus_plan import CorpusPlan
    from recrawl.corpus.plan.targets import Target
    from recrawl.messages.views import AuditTable, LastChange

__all__ = ["WAIT_SECONDS_MAX", "Added", "Corpus", "Reported"]

WAIT_SECONDS_MAX = 1.0
"""Longest time that `Corpus.paced` waits before it leases again."""

# A corpus of more pages takes so long to open that loading all kernels adds little.
# Records at the end of a log in which a change of the number of partitions is looked for, unless a
# partition is known to be closed.
_RECORDS_LOOKED_AT = 4
_REHEARSED_PAGES_MIN = 2_000_000
# Longest time for which closing a partition waits for calls that use it.
_USERS_SECONDS_MAX = 60.0

logger = logging.getLogger(__name__)


class Corpus:
    """The tracked pages of one folder.  Open one with `recrawl.open`.

    All methods may be called from several threads.

    Parameters
    ----------
    folder
        Folder of the corpus.
    nodes
        Nodes of the open partitions.
    partitions
        Log, store and snapshots of each open partition, by its number.
    log
        Log that the nodes share.
    config
        Configuration of the corpus.
    clock
        Time source.
    format
        Content of the FORMAT file.
    is_reader
        Whether the corpus is open only for reading.
    find_partition
        Function that returns log, store and snapshots of any partition.
    on_closed
        Function that is called when everything was closed.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[Node],
        partitions: Mapping[int, Partition],
        log: Log,
        config: CorpusConfig,
        clock: Clock,
        format: CorpusFormat,
        *,
        is_reader: bool = False,
        find_partition: Callable[[int], Partition],
        on_closed: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder = folder
        self._on_closed = on_closed
        self.format = format
        self.nodes = OpenNodes(nodes, format.partitions, format.generation)
        self._places: KeptPlaces = ConsumerFiles(folder, self.nodes)
        self.old_handles = OldHandles.load(folder) if format.generation else OldHandles.none()
        """Handles from before the number of partitions was changed."""
        self.config = config
        self._partitions_on_disk = dict(partitions)
        self._log = log
        self._clock = clock
        self._owner = secrets.randbits(63)
        last_ms = max((node.shard.now_ms for node in nodes), default=0)
        self.time = NodeTime(clock, last_ms, gap_seconds_max=config.clock.gap_max)
        self.is_for_parts = False
        """Whether pages of calls are elsewhere than in their home partitions, see `for_parts`."""
        self.split_hosts = SplitHosts(self.nodes)
        self._namers = {node.partition: self._namer(node) for node in nodes}
        self._snapshotter = Snapshotter(
            [(node, partitions[node.partition].snapshots) for node in nodes],
            config,
            clock,
        )
        self._scrubber = Scrubber(folder, format, config.scrub, clock)
        self._budget_split = BudgetSplit(self.nodes, config, clock)
        self.quotas = PartitionQuotas(self.nodes, self._budget_split, config, self.time)
        small_calls = new_small_calls()
        self._leasing = Leasing(
            self.nodes, self._budget_split, self.split_hosts, config, self.time, small_calls
        )
        self._bodies = BodyReader(config.content)
        self._reporting = Reporting(
            self.nodes,
            config,
            self.time,
            self._bodies,
            format.generation,
            small_calls,
            self.old_handles,
        )
        self._append_seconds_max = inf
        self._moves = PartitionMoves()
        self._split_lock = ProcessLock(threading.RLock())
        self._written = WrittenVersion()
        for node in nodes:
            node.written = self._written
        self._standbys = Standbys(find_partition, self._snapshotter, clock, self._written)
        self._begun_with: tuple[bool, CorpusConfig] = False, config
        self.is_reader = is_reader
        self._robots_notes = RobotsNotes(folder, config.corpus.group_by, is_reader=is_reader)
        self._fork_watch = _ForkWatch(self)

    # ------------------------------------------------------------------ opening and closing

    def begin(self, *, config_given: bool, before: CorpusConfig) -> None:
        """Claim the partitions and apply the configuration; `recrawl.open` calls this.

        Parameters
        ----------
        config_given
            Whether the caller or recrawl.toml gives a configuration.  Otherwise the previous one
            is used, and settings changed since then stay.
        before
            The previous configuration.
        """
        self._begun_with = config_given, before
        settings = self.config.shard_settings()
        for node in self.nodes:
            self._begin_node(node, self._namers[node.partition])
        if config_given:
            self._budget_split.set_budget(self.config)
        else:
            self._budget_split.continue_budget(self.config)
        if config_given:
            self._begin_holdout()
        self._record_log_ends(is_closed=False)
        if max((node.shard.n_pages for node in self.nodes), default=0) > _REHEARSED_PAGES_MIN:
            rehearse_decisions(settings, shipped_due_table())
        self._snapshotter.start()
        self._scrubber.start()

    def _begin_holdout(self) -> None:
        """Keep the counts of audits at the start of a hold-out."""
        holdout = self.config.holdout
        if holdout.share > 0 or (self.folder / "holdout.npz").exists():
            from recrawl.corpus.holdout.experiment import begin_holdout  # noqa: PLC0415

            begin_holdout(self.folder, self.nodes.all, holdout, self.time.now_ms())

    def _begin_node(self, node: Node, namer: Namer) -> None:
        """Claim a partition and apply the configuration to it."""
        config_given, before = self._begun_with
        settings = self.config.shard_settings()
        if node.position == 0:
            # Every log begins with the id of the corpus, and then the settings, so that a
            # replay starts with the same ones.
            node.submit([identity_entry(self.format, node.partition), settings_event(settings)])
        node.claim(self._owner, self.time)
        if config_given and node.shard.settings != settings:
            node.submit([settings_event(settings)])
        namer.number_kinds()
        node.shares = namer.shares()
        if config_given:
            apply_patterns(node, namer, self.config, before.patterns, before.holdout)
            namer.apply_host_settings()

    def open_partition(self, partition: int) -> None:
        """Open another partition, whose log is on Kafka, and claim it.

        From then on it is part of all calls.  Another process that had it open can no longer lease
        its pages.  Does nothing if it is open already.

        Parameters
        ----------
        partition
            Number of the partition.
        """
        check_partition(partition, self.nodes.n_partitions)
        self._check_can_move()
        with self._moves.move(partition):
            if partition in self.nodes:
                return
            is_prepared = partition in self._standbys
            if not is_prepared:
                self._standbys.add(self._standbys.recover(partition))
            node, files = self._standbys.find(partition)
            try:
                namer = self._claim_standby(node)
            except BaseException:
                if not is_prepared:
                    with suppress(RecrawlError):
                        self._standbys.close(partition)
                raise
            self._standbys.take(partition)
            self._partitions_on_disk[partition] = files
            self._namers[partition] = namer
            node.append_seconds_max = self._append_seconds_max
            self.nodes.put(node)
            self._split_budget_again(node)

    def _namer(self, node: Node) -> Namer:
        # A process with some of the partitions alone passes on no pages of split hosts.
        hosts = self.split_hosts
        return Namer(node, self.config, can_split=lambda: hosts.reaches_all_parts)

    def _claim_standby(self, node: Node) -> Namer:
        with node.lock:
            node.append_seconds_max = inf
            node.follow()
            if node.shard.now_ms > self.time.now_ms():
                self.time.restart(node.shard.now_ms)
            namer = self._namer(node)
            self._begin_node(node, namer)
            self.quotas.begin(node)
        return namer

    def stand_by(self, partition: int) -> None:
        """Keep a copy of a partition up to date without owning it.

        `open_partition` then takes as long as one append.  `follow_standby` must be called again
        and again.  A partition that is open here becomes a standby: calls under way are finished,
        and rows of later ones have the status UNAVAILABLE.  Does nothing if it is one already.

        Parameters
        ----------
        partition
            Number of the partition.
        """
        check_partition(partition, self.nodes.n_partitions)
        self._check_can_move()
        with self._moves.move(partition):
            if partition in self._standbys:
                return
            if partition in self.nodes:
                node, files = self.nodes[partition], self._partitions_on_disk[partition]
                node.raise_if_failed()
                self._take_out(partition)
                self._standbys.add(Standby(node, files), has_snapshots=True)
                self._split_budget_again(None)
                return
        # Not as a move: it may take minutes, and nobody who closes the corpus should wait for it.
        recovered = self._standbys.recover(partition)
        is_kept = False
        try:
            with self._moves.move(partition):
                if partition not in self.nodes and partition not in self._standbys:
                    self._standbys.add(recovered)
                    is_kept = True
        finally:
            if not is_kept:
                recovered.node.close()

    def follow_standby(self, partition: int) -> float:
        """Apply what the log of a standby has now; return the seconds that this took.

        Parameters
        ----------
        partition
            Number of the partition.

        Raises
        ------
        PartitionAway
            If it is no standby of this process.
        PositionLost
            If the log was truncated beyond what the standby has: close it and begin again.
        """
        return self._standbys.follow(partition)

    def close_standby(self, partition: int) -> None:
        """Give up the copy of a partition; does nothing if it is no standby.

        Parameters
        ----------
        partition
            Number of the partition.
        """
        with self._moves.move(partition):
            self._standbys.close(partition)

    def standby_lags(self) -> dict[int, float]:
        """Return by how many seconds each standby may be behind its log, by partition."""
        return self._standbys.lag_seconds()

    def set_records_version(self, version: int) -> None:
        """Append only records that processes with this version of records can read.

        Parameters
        ----------
        version
            Version of records; at most `recrawl.node.records.RECORDS_VERSION`.
        """
        if not 1 <= version <= RECORDS_VERSION:
            raise ValueError(f"version must be 1 to {RECORDS_VERSION}, got {version}")
        self._written.number = version

    def open_partitions(self) -> list[int]:
        """Return the numbers of the open partitions, without standbys."""
        return [node.partition for node in self.nodes]

    def owned_partitions(self) -> dict[int, OwnedPartition]:
        """Return the claim and the number of pages of each partition that this process owns.

        A partition that another process has claimed is not among them, once this process has read
        that claim, nor one that has stopped after an error.
        """
        return {
            node.partition: OwnedPartition(
                node.shard.epoch,
                node.shard.n_pages,
                self._snapshotter.age_seconds_of(node.partition),
            )
            for node in self.nodes
            if node.can_decide or (node.is_late and node.is_owner)
        }

    def has_moved(self) -> bool:
        """Return whether the number of partitions was changed: open the corpus again then.

        Only for a corpus on Kafka; others cannot change while they are open.
        """
        if self.format.ledger != "kafka":
            return False
        is_closed = any(node.shard.is_closed for node in (*self.nodes, *self._standbys.nodes))
        n_records = {"n_records": _RECORDS_LOOKED_AT} if not is_closed else {}
        return find_successor(self._log, **n_records) is not None

    def tick(self, partition: int) -> None:
        """Do what is due in an open partition: expired leases, new priors, claims of others.

        Calls do it as well; this is for a process that has none.  Does nothing if it was done less
        than a second ago.

        Parameters
        ----------
        partition
            Number of the partition.

        Raises
        ------
        PartitionAway
            If it is not open in this process.
        """
        with self.nodes.use(partition) as node:
            now_ms = self.time.now_ms()
            # Calls that are refused look like ticks, so a stopped node may have none that is due.
            if self.nodes.leaves_out_stopped and (node.has_stopped or node.is_tick_due(now_ms)):
                node.catch_up(now_ms)
            if not node.is_late:
                node.tick(self.time)
        self.split_hosts.step(self.time.now_ms())

    def close_partition(self, partition: int, *, snapshot: bool = True) -> None:
        """Close a partition, so that another process can open it.

        Calls under way are finished; rows of later ones have the status UNAVAILABLE.  A call that
        takes longer than a minute is not waited for.

        Parameters
        ----------
        partition
            Number of the partition.
        snapshot
            Whether to take a snapshot first, which makes the next opening faster.

        Raises
        ------
        PartitionAway
            If it is not open in this process.
        """
        self._check_can_move()
        with self._moves.move(partition):
            node = self.nodes[partition]
            if snapshot:
                with suppress(RecrawlError, OSError):  # the log has everything
                    self._snapshotter.take(partition)
            self._take_out(partition)
            with suppress(RecrawlError):  # another process may have claimed it
                node.log_price(self.time)
            self._snapshotter.remove(partition)
            self._split_budget_again(None)

    def _take_out(self, partition: int) -> None:
        """Take a partition out of all calls, after those that are under way."""
        node = self.nodes.remove(partition)
        self._leasing.finish_calls()
        if not self.nodes.wait_for_users(node, _USERS_SECONDS_MAX):
            logger.warning("partition %d is closed while calls use it", partition)
        del self._namers[partition], self._partitions_on_disk[partition]

    def _check_can_move(self) -> None:
        if self._moves.is_closed:
            raise RecrawlError("the corpus is closed")
        if self.is_reader:
            raise RecrawlError("the corpus is open for reading only; open it without read_only")
        if self.config.ledger.kind != "kafka":
            raise ConfigError(
                "partitions are opened and closed one by one only if the log is on Kafka "
                f'(ledger.kind = "kafka"), got ledger.kind = "{self.config.ledger.kind}"'
            )

    def _split_budget_again(self, opened: Node | None) -> None:
        try:
            with self._split_lock, self.nodes.use_all():
                self._budget_split.follow_partitions(opened)
        except RecrawlError as error:
            logger.warning("the budget is split among partitions later: %s", error)

    def _record_log_ends(self, *, is_closed: bool) -> None:
        """Record where the logs in the folder end, so that a loss of records is recognised."""
        ledger = self.config.ledger
        if ledger.kind == "rocksdb" and ledger.durability == "sync":
            ends = [node.ledger.end for node in self.nodes]
            write_log_ends(self.folder, ends, is_closed=is_closed)

    def close(self) -> None:
        """Close the corpus.  The effect of every call that has returned is already on disk."""
        if not self._moves.close():
            return
        self._scrubber.stop()
        self._snapshotter.stop()
        self._bodies.close()
        with ExitStack() as closing:
            # If closing one fails, the others are still closed.
            closing.callback(self._on_closed)
            closing.callback(self._log.close)
            closing.callback(self._standbys.close_all)
            for node in self.nodes:
                closing.callback(node.store.close)
            if not self.is_reader:
                for node in self.nodes:
                    # The disk may be full or the partition lost, which earlier calls have reported.
                    with suppress(RecrawlError):
                        node.log_price(self.time)
                self._snapshotter.take_last()
                self._record_log_ends(is_closed=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def snapshot(self) -> None:
        """Take a snapshot of every partition now; recrawl also takes them by itself."""
        if self.is_reader or self._moves.is_closed:
            state = "is closed" if self._moves.is_closed else "was opened with read_only=True"
            raise RecrawlError(f"a snapshot cannot be taken: the corpus {state}")
        self._snapshotter.take_all()

    def backup(self, dest: str | os.PathLike[str], *, keep: int = 7) -> "BackupResult":
        """Copy the corpus into a folder of backups, and check the copy.

        A corpus that is open for writing takes a snapshot first.  `recrawl.corpus.restore_corpus`
        restores a backup.

        Parameters
        ----------
        dest
            Folder of the backups, on another disk if possible; created if it does not exist.
        keep
            Number of backups to keep in ``dest``; older ones are removed.
        """
        from recrawl.corpus.backups.backup import back_up_corpus  # noqa: PLC0415

        if not self.is_reader:
            self.snapshot()
        return back_up_corpus(self.folder, dest, keep=keep, clock=self._clock)

    def last_scrub(self) -> ScrubReport | None:
        """Return what the last complete reading of all files found; None if there was none."""
        return read_scrub_report(self.folder)

    def reset_clock(self) -> float:
        """Move a corpus that is ahead of the system clock back; return by how many seconds.

        Times that were logged while the clock was wrong move back by as much, so that the age of
        each copy, lease and pause stays what it is; earlier times stay.

        Raises
        ------
        ClockError
            If the system clock was never set.
        """
        with self._lock_all():
            before_ms = self.time.now_ms()
            at_ms = true_time(self._clock)
            for node in self.nodes:
                if node.shard.now_ms > at_ms:
                    node.reset_clock(at_ms, self.time)
            self.time.restart(max((node.shard.now_ms for node in self.nodes), default=0))
            return max(before_ms - self.time.now_ms(), 0) / 1000

    def follow_clock(self) -> None:
        """Follow the system clock as it is now: it was wrong, and was set.

        Time in the logs of open partitions stays, and this process does not go back behind it.
        """
        self.time.restart(max((node.shard.now_ms for node in self.nodes), default=0))

    def refresh(self) -> None:
        """Read what other processes have logged since; for a corpus opened with ``read_only``."""
        for node in self.nodes:
            try:
                node.refresh()
                if self.is_reader:
                    use_logged_price(node.shard)
            except PositionLost:
                if not self.is_reader:
                    raise
                # The writer has deleted that part of the log: start again from a snapshot.
                node.store.close()
                partition = self._partitions_on_disk[node.partition]
                self.nodes.put(recover_node(partition, is_reader=True))

    @property
    def partitions(self) -> Mapping[int, Partition]:
        """The log, store and snapshots of each open partition, by its number."""
        return self._partitions_on_disk

    # ------------------------------------------------------------------ pages

    def for_parts(self) -> "Corpus":
        """Return this corpus for calls about pages that their home partitions have not.

        Each page is then in the partition that its hash says, although that is not the one of its
        host; see `RowStatus.ELSEWHERE`.  Workers of a cluster use it for each other's requests.
        Pages are listed of the partition of the cursor alone.
        """
        view = copy(self)
        view.is_for_parts = True
        view._reporting = self._reporting.for_parts(new_small_calls())
        return view

    def _partitions(self, urls: pa.StringArray) -> NDArray[np.int64]:
        by = self.config.corpus.group_by
        return self.nodes.find_partitions(urls, by, in_parts=self.is_for_parts)

    def _split(
        self,
        urls: Urls,
        key: Any,
        row_status: NDArray[np.uint8] | None,
        *,
        n_bytes_beside: NDArray[np.int64] | None = None,
    ) -> Iterator[NodeBatch]:
        by = self.config.corpus.group_by
        return self.nodes.split(
            urls,
            by,
            key=key,
            n_bytes_beside=n_bytes_beside,
            row_status=row_status,
            in_parts=self.is_for_parts,
        )

    def add(
        self,
        urls: Urls,
        *,
        importance: Any = None,
        cost: Any = None,
        doc_id: Any = None,
        metadata: Any = None,
        key: Any = None,
    ) -> Added:
        """Add pages to track.  Pages that are tracked already keep their importance and cost.

        Parameters
        ----------
        urls
            URLs to fetch.  A page is identified by the canonical form of its URL.
        importance, cost
            Importance and cost of a fetch relative to other pages: one number, or one per URL.
            By default what the page's pattern in the configuration says, or 1.
        doc_id
            Your own name of each page: text of at most 256 bytes.  None keeps what a tracked page
            has, an empty text removes it.
        metadata
            Your own data of each page: a JSON object of at most 8,192 bytes, as a dictionary or as
            text.  None keeps what a tracked page has, an empty object removes it.  recrawl
            returns doc_id and metadata with orders, changes and exports.
        key
            Key of each page's group, in a corpus grouped by key: one text, or one per URL.  The
            same URL under two keys is two pages.

        Notes
        -----
        A row whose URL, doc_id, metadata or key is not valid is counted as refused; `why_refused`
        gives the reasons.
        """
        urls = as_array(urls)
        n_urls = len(urls)
        own = user_columns(n_urls, doc_id=doc_id, metadata=metadata)
        urls = without_refused(urls, own)
        importances = as_amounts("importance", importance, n_urls)
        costs = as_amounts("cost", cost, n_urls)
        n_added = n_valid = n_limited = limited_until_ms = 0
        row_status = np.full(n_urls, RowStatus.REFUSED, np.uint8)
        n_bytes_beside = None if own is None else own.n_bytes
        split = self.nodes.split_together(
            urls,
            self.config.corpus.group_by,
            key=key,
            n_bytes_beside=n_bytes_beside,
            row_status=row_status,
            in_parts=self.is_for_parts,
        )
        for rows, added in self._add_batches(split, importances, costs, own):
            if added is None:
                row_status[rows] = RowStatus.ELSEWHERE
                continue
            if isinstance(added, OwnershipLost) and not self.nodes.are_all_elsewhere:
                row_status[rows] = RowStatus.UNAVAILABLE
                continue
            if isinstance(added, RecrawlError):
                self.nodes.check_may_leave_out(added)
                row_status[rows] = RowStatus.UNAVAILABLE
                continue
            n_added += int(np.count_nonzero(added.is_added))
            row_status[rows] = np.where(added.is_added, RowStatus.DONE, RowStatus.DUPLICATE)
            n_limited += added.n_limited
            limited_until_ms = max(limited_until_ms, added.limited_until_ms)
            n_valid += rows.size
        return Added(
            n_added,
            n_valid - n_added,
            n_urls - n_valid - _n_unavailable(row_status),
            n_limited=n_limited,
            limited_until_ms=limited_until_ms,
            rows=row_status,
        )

    def _add_batches(
        self,
        split: Iterable[Sequence[NodeBatch]],
        importances: NDArray[np.float32],
        costs: NDArray[np.float32],
        own: UserColumns | None,
    ) -> Iterator[tuple[NDArray[np.int64], AddedRows | RecrawlError | None]]:
        """Add pages, those of several partitions at a time; yield the rows and results of each.

        None for rows that belong to partitions which are not open here.
        """
        for batches in split:
            pages = []
            for node, rows, name, given in batches:
                keys, url = split_page_names(name)
                fetch_url = null_where_same(given, url)
                of_rows = None if own is None else own.take(rows)
                new = PagesToAdd(url, fetch_url, importances[rows], costs[rows], of_rows, keys)
                pages.append((self._namers[node.partition], new))
            results = add_together(pages, self.time)
            for batch, (namer, new), added in zip(batches, pages, results, strict=True):
                if isinstance(added, RecrawlError) or added.elsewhere is None:
                    yield batch.rows, added
                    continue
                here = np.setdiff1d(np.arange(batch.rows.size), added.elsewhere)
                yield batch.rows[here], added._replace(is_added=added.is_added[here])
                for some, result in self._add_elsewhere(namer.node, new, added.elsewhere):
                    yield batch.rows[some], result

    def _add_elsewhere(
        self, home: Node, new: PagesToAdd, elsewhere: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], AddedRows | RecrawlError | None]]:
        """Add the rows of split hosts whose pages do not belong to the home partition."""
        part = split_partitions_of(new.name, home.partition, self.nodes.n_partitions)[elsewhere]
        is_away = np.zeros(part.size, np.bool_)
        for node, some in self.nodes.split_rows(part, is_away):
            rows = elsewhere[some]
            try:
                yield rows, self._namers[node.partition].add(new.take(rows), self.time)
            except (OwnershipLost, LedgerError) as error:
                yield rows, error
        if is_away.any():
            yield elsewhere[is_away], None

    def why_refused(
        self, urls: Urls, *, doc_id: Any = None, metadata: Any = None, key: Any = None
    ) -> dict[int, str]:
        """Return the rows that `add` refuses, and the reason of each.

        Parameters
        ----------
        urls, doc_id, metadata, key
            Arguments of `add`.
        """
        urls = as_array(urls)
        own = user_columns(len(urls), doc_id=doc_id, metadata=metadata)
        keys = key_column(key, len(urls), self.config.corpus.group_by)
        return refused_rows(urls, own, keys)

    def remove(
        self, urls: Urls | None = None, *, pattern: str | None = None, key: Any = None
    ) -> CountedRows:
        """Stop tracking pages, given by URL or by pattern; return the number of pages removed.

        Parameters
        ----------
        urls
            URLs of the pages.
        pattern
            Pattern that the URLs match, such as ``/tag/*``; recrawl looks at all pages.
        key
            Key of the pages' groups, one or one per URL, in a corpus grouped by key.
        """
        if (urls is None) == (pattern is None):
            raise ValueError("remove takes either urls or a pattern")
        if pattern is not None:
            _check_no_key(key)
            return CountedRows(self.change_matching(pattern, seconds=float("inf")).n_pages)
        n_removed = 0
        given = as_array(urls if urls is not None else ())
        row_status = np.full(len(given), RowStatus.REFUSED, np.uint8)
        for node, rows, name, _ in self._split(given, key, row_status):
            with self.nodes.leave_out_stopped(rows, row_status):
                with node.lock:
                    page = node.store.pages_of(name)
                    n_removed += stop_tracking(node, np.unique(page))
                row_status[rows] = np.where(page >= 0, RowStatus.DONE, RowStatus.UNKNOWN)
        return CountedRows(n_removed, rows=row_status)

    def forget(
        self,
        urls: Urls | None = None,
        *,
        pattern: str | None = None,
        backups: Sequence[str | os.PathLike[str]] = (),
    ) -> "list[Forgotten]":
        """Erase pages from store, change feed, log, snapshots and backups.

        Without URLs and pattern, it completes earlier forgets.  This rewrites all files of the
        corpus, and removes the log from before, so `history` no longer reaches back.

        Parameters
        ----------
        urls
            URLs of the pages, tracked or not; in a corpus grouped by key, under all keys.
        pattern
            Pattern that the URLs match, such as ``/user/jane/*``.
        backups
            Folders of backups, whose backups are replaced by a new one.

        Returns
        -------
        list of Forgotten
            State of each forget: whether it is complete, and what remains.
        """
        from recrawl.corpus.forgetting.forget import Forgetting  # noqa: PLC0415

        if urls is not None and pattern is not None:
            raise ValueError("forget takes either urls or a pattern")
        for i in range(self.nodes.n_partitions):
            self.nodes[i].check_owner()  # all of them must be open here
        forgetting = Forgetting(
            self.folder, self.nodes.all, self._log, self._snapshotter, self._clock
        )
        folders = [Path(backup) for backup in backups]
        if pattern is not None:
            return [forgetting.forget_pattern(pattern, folders)]
        if urls is not None:
            known = canonical(as_array(urls)).url.drop_null()
            return [forgetting.forget_urls(known, folders)]
        return forgetting.finish(folders)

    def forget_states(self) -> "list[Forgotten]":
        """Return the state of every forget so far: whether it is complete, and what remains."""
        from recrawl.corpus.forgetting.forget import forget_states  # noqa: PLC0415

        return forget_states(self.folder, self._clock.wall_ms())

    def set(
        self,
        urls: Urls | None = None,
        *,
        pattern: str | None = None,
        key: Any = None,
        **settings: Any,
    ) -> CountedRows:
        """Change settings of pages, given by URL or by pattern; return the number of pages.

        Parameters
        ----------
        urls
            URLs of the pages.
        pattern
            Pattern that the URLs match, such as ``/product/*``; recrawl looks at all pages.
        key
            Key of the pages' groups, one or one per URL, in a corpus grouped by key.
        **settings
            ``importance``, ``cost``, ``kind`` (a name), ``min_age``, ``max_age``, ``stale_for``,
            ``stale_probability``, ``doc_id``, ``metadata``: see
            `recrawl.node.settings.pages.PageSettings`.
        """
        if (urls is None) == (pattern is None):
            raise ValueError("set takes either urls or a pattern")
        _check_settings(settings)
        if pattern is not None:
            _check_no_key(key)
            return CountedRows(
                self.change_matching(pattern, settings, seconds=float("inf")).n_pages
            )
        page_settings = PageSettings(**settings)
        n_set = 0
        given = as_array(urls if urls is not None else ())
        row_status = np.full(len(given), RowStatus.REFUSED, np.uint8)
        for node, rows, name, _ in self._split(given, key, row_status):
            with self.nodes.leave_out_stopped(rows, row_status):
                with node.lock:
                    found = node.store.pages_of(name)
                    page = np.unique(found)
                    n_set += set_pages(
                        node, self._namers[node.partition], page[page >= 0], page_settings
                    )
                row_status[rows] = np.where(found >= 0, RowStatus.DONE, RowStatus.UNKNOWN)
        return CountedRows(n_set, rows=row_status)

    def change_matching(
        self,
        pattern: str,
        settings: Mapping[str, Any] | None = None,
        *,
        cursor: str | None = None,
        seconds: float = PART_SECONDS,
    ) -> ChangedPart:
        """Change some of the pages whose URLs match a pattern; call it until none are left.

        A server uses it, so that no request takes longer than a client waits.  Calls that are
        repeated with the same cursor have the effect of one.

        Parameters
        ----------
        pattern
            Pattern that the URLs match, such as ``/product/*``.
        settings
            New settings as for `set`; None to stop tracking the pages.
        cursor
            Cursor of the call before; None to begin.
        seconds
            Time after which the call ends.
        """
        page_settings = None
        if settings is not None:
            _check_settings(settings)
            page_settings = PageSettings(**settings)

        def change(node: Node, page: NDArray[np.int64]) -> int:
            if page_settings is None:
                return stop_tracking(node, page)
            return set_pages(node, self._namers[node.partition], page, page_settings)

        n_partitions, generation = self.nodes.n_partitions, self.nodes.generation
        start = ScanPlace(*parse_page_cursor(cursor, n_partitions, generation))
        with self.nodes.use_all() as nodes:
            some = [node for node in nodes if node.partition >= start.partition]
            if self.is_for_parts:
                some = [self.nodes[start.partition]]
            part = change_part(some, pattern, change, start, seconds=seconds)
        place = None if part.following is None else page_cursor(*part.following, generation)
        return ChangedPart(part.n_pages, place)

    def set_each(
        self,
        urls: Urls,
        *,
        importance: Any = None,
        cost: Any = None,
        doc_id: Any = None,
        metadata: Any = None,
        key: Any = None,
    ) -> CountedRows:
        """Set the importance, the cost, the doc_id or the metadata of each page to its own value.

        Returns the number of pages that are tracked; other URLs are ignored.

        Parameters
        ----------
        urls
            URLs of the pages.
        importance, cost
            New values: one number, or one per URL.  None keeps the old values.
        doc_id, metadata
            Your own name and data of each page, as for `add`; rows with invalid ones are ignored.
        key
            Key of the pages' groups, one or one per URL, in a corpus grouped by key.
        """
        from recrawl.corpus.import_crawl import set_each  # noqa: PLC0415

        urls = as_array(urls)
        own = user_columns(len(urls), doc_id=doc_id, metadata=metadata)
        return set_each(
            self,
            without_refused(urls, own),
            own=own,
            key=key,
            importance=_numbers_or_none(importance, len(urls)),
            cost=_numbers_or_none(cost, len(urls)),
        )

    def set_host(
        self,
        host: str,
        *,
        delay: float | str | None = None,
        in_flight_max: int | None = None,
        burst: int | None = None,
        blocked_until_ms: int | None = None,
        is_closed: bool | None = None,
        is_unlimited: bool | None = None,
    ) -> None:
        """Set how often a host (or the domain or key that pages are grouped by) is fetched from.

        Arguments that are not given leave their setting unchanged.

        Parameters
        ----------
        host
            Host name, domain or key.  It may have no tracked pages yet.
        delay
            Time between two fetches: seconds, or text such as ``"5s"``.
        in_flight_max
            Number of fetches at the same time.
        burst
            Number of fetches that may follow each other without a delay, if ``in_flight_max``
            allows several.
        blocked_until_ms
            Time before which the host is not fetched from, in milliseconds since 1970.
        is_closed
            Whether nothing is fetched from the host, for instance because its robots.txt forbids
            it or could not be read.
        is_unlimited
            Whether pages added to the host are never limited as newcomers; see the section
            "protection" of the configuration.
        """
        settings = HostSettings(
            delay=delay,
            in_flight_max=in_flight_max,
            burst=burst,
            blocked_until_ms=blocked_until_ms,
            is_closed=is_closed,
            is_unlimited=is_unlimited,
        )
        host = canonical_host(host, self.config.corpus.group_by)
        i = partition_of_key(host, self.nodes.n_partitions)
        is_split = self.is_for_parts
        if not is_split:
            with self.nodes.use(i) as node, node.lock:
                number = int(self._namers[i].numbers(Names.GROUP, [host])[0])
                node.submit(host_events(node, number, settings))
                is_split = host in node.split_hosts()
        parts = partitions_of_host(host, self.nodes.n_partitions) if is_split else ()
        for part in parts:
            # The home partition tells the others, but not that a rest of theirs has ended.
            if part != i and part in self.nodes:
                with self.nodes.use(part) as node, node.lock:
                    number = int(node.split_hosts().get(host, -1))
                    if number >= 0 and node.can_decide:
                        node.submit(host_events(node, number, settings))

    def note_robots(self, notes: Iterable[RobotsNote]) -> None:
        """Keep what robots.txt files say, for people who look at a host; see `robots`.

        It changes nothing about what is fetched: that is the business of the fetcher.

        Parameters
        ----------
        notes
            Notes; a newer one of a site replaces the one before.
        """
        self._robots_notes.add(notes)

    def robots(self, hosts: Sequence[str]) -> dict[str, list[RobotsNote]]:
        """Return what robots.txt files of hosts say, as far as fetchers have told.

        ``recrawl run`` tells it.  Hosts of which nothing is known are missing, and so are all in a
        corpus that is grouped by key.

        Parameters
        ----------
        hosts
            Canonical names of hosts or domains, as `hosts` returns them.
        """
        return self._robots_notes.find(hosts)

    # ------------------------------------------------------------------ orders

    def set_budget(self, rate: str | None) -> None:
        """Set the budget: ``"30/h"``, ``"20000/day"``, ``"100/run"``, or None for unlimited.

        What has been spent stays spent: only the difference to the budget before is added to what
        may be spent at once.  It holds until it is set again, or until the corpus is opened with a
        configuration that gives another.
        """
        with self.nodes.use_all():
            self._budget_split.set_rate(rate)

    def lease(
        self,
        n: int,
        *,
        seconds: float | None = None,
        exact: bool = False,
        run: str | None = None,
        with_shortfall: bool = True,
        request: RequestKey | None = None,
    ) -> Orders:
        """Return up to ``n`` pages that are most worth fetching now, within budget and politeness.

        They are pages of the partitions that are open in this process.
        Each order is held for the caller until it is reported, released, or its lease expires.  If
        there are fewer than ``n``, the attribute ``shortfall`` of the list says why.

        Parameters
        ----------
        n
            Largest number of orders.
        seconds
            Length of the leases; the configured length by default.
        exact
            Whether to compare every page, also in a large corpus; useful for one large batch per
            night.
        run
            Name of the run that pays, if the budget is per run (``"500/run"``).  Every call with
            the same name shares its budget, also from other processes and after a restart.
            Today's date by default, in the time zone ``budget.time_zone``.
        with_shortfall
            Whether to find out why there are fewer than ``n``, which takes longer than the lease.
        request
            Key of the request, if it may be repeated: within a day, a lease with the same key
            returns the orders of the first one that are still held, and no others.

        Raises
        ------
        RequestKeyReused
            If another request had the same key.
        """
        return self._leasing.lease(
            n,
            seconds=seconds,
            exact=exact,
            run=run,
            with_shortfall=with_shortfall,
            request=request,
        )

    def lease_each(
        self,
        counts: Sequence[int],
        *,
        requests: Sequence[RequestKey | None] | None = None,
        seconds: float | None = None,
        exact: bool = False,
        run: str | None = None,
        with_shortfall: bool = True,
    ) -> list[Orders | Exception]:
        """Lease for several callers at once, with one sync of the log.

        A service that has many clients calls this, not its clients.

        Parameters
        ----------
        counts
            Largest number of orders of each caller; who comes first gets the best pages.
        requests
            Key of each caller's request, None for one that is not repeated, see `lease`.
        seconds, exact, run, with_shortfall
            Arguments of `lease`, the same for all callers.

        Returns
        -------
        list
            Orders of each caller; `RequestKeyReused` for one whose key another request had.
        """
        keys = [None] * len(counts) if requests is None else requests
        shares = [LeaseShare(n, key) for n, key in zip(counts, keys, strict=True)]
        return self._leasing.lease_each(
            shares, seconds=seconds, exact=exact, run=run, with_shortfall=with_shortfall
        )

    def lease_table(
        self,
        n: int,
        *,
        seconds: float | None = None,
        exact: bool = False,
        run: str | None = None,
    ) -> pa.Table:
        """Return up to ``n`` pages that are most worth fetching now, as an Arrow table.

        The orders are those of `lease`, without a Python object for each.  The columns are the
        fields of `Order`; ``reason`` has the name of the reason in lower case, and ``metadata`` is
        JSON text.  Use `lease` to find out why there are fewer than ``n``.

        Parameters
        ----------
        n
            Largest number of orders.
        seconds
            Length of the leases; the configured length by default.
        exact
            Whether to compare every page, see `lease`.
        run
            Name of the run that pays, see `lease`.
        """
        return self._leasing.lease_table(n, seconds=seconds, exact=exact, run=run)

    def lease_urls(
        self,
        urls: Urls,
        *,
        add: bool = False,
        seconds: float | None = None,
        run: str | None = None,
        key: Any = None,
        request: RequestKey | None = None,
    ) -> LeasedUrls:
        """Return an order for each URL that may be fetched now, or the reason why it may not.

        A page is ordered if it is worth the price, its host allows it and the budget pays; the
        first URLs come first.  Orders are those of `lease`: logged, paid from the budget, and held
        until they are reported, released or expire.  A spider that finds its own URLs asks before
        it requests them.

        Parameters
        ----------
        urls
            URLs of the pages.
        add
            Whether to track URLs that are not tracked yet.
        seconds
            Length of the leases; the configured length by default.
        run
            Name of the run that pays, see `lease`.
        key
            Key of the pages' groups, one or one per URL, in a corpus grouped by key.
        request
            Key of the request, if it may be repeated, see `lease`.
        """
        urls = as_array(urls)
        if add:
            self.add(urls, key=key)
        row_status = np.zeros(len(urls), np.uint8)
        batches = self._split(urls, key, row_status)
        return self._leasing.lease_urls(
            urls, batches, row_status, seconds=seconds, run=run, request=request
        )

    def run_name(self, run: str | None = None) -> str:
        """Return the name of the run that pays for leases: the one given, or today's date."""
        return self._leasing.run_name(run)

    @property
    def lease_asked_at_ms(self) -> int | None:
        """When somebody last asked this object for pages, whether it got any; None if never."""
        return self._leasing.asked_at_ms

    @property
    def leases_under_way(self) -> LeasesUnderWay:
        """The leases that run now; calls that can wait let them go first."""
        return self._leasing.under_way

    @property
    def is_budget_per_run(self) -> bool:
        """Whether the budget is per named run, such as ``"100/run"``."""
        return self._budget_split.is_per_run

    def paced(
        self,
        *,
        batch_max: int = 100,
        seconds: float | None = None,
        for_seconds: float = float("inf"),
        run: str | None = None,
    ) -> Iterator[Order]:
        """Yield pages to fetch as they come due and the budget allows, waiting in between.

        Ends after ``for_seconds``.  With a budget per run (``"500/run"``) it also ends when that is
        spent, or when no page can be fetched within the next ten minutes.

        Parameters
        ----------
        batch_max
            Largest number of orders that this iterator holds.
        seconds
            Length of each lease; the configured length by default.
        for_seconds
            Time after which the iterator ends.
        run
            Name of the run that pays, see `lease`.  The whole iteration is one run.
        """
        run = self.run_name(run)
        ends_ms = self._clock.running_ms() + for_seconds * 1000
        while self._clock.running_ms() < ends_ms:
            # Only a run ends when there is nothing to fetch soon.
            orders = self._leasing.lease(
                batch_max,
                seconds=seconds,
                exact=False,
                run=run,
                with_shortfall=self.is_budget_per_run,
            )
            unused = [order.handle for order in reversed(orders)]
            try:
                for order in orders:
                    unused.pop()
                    yield order
            finally:
                if unused:  # the caller has stopped iterating
                    self.release(unused)
            if not orders:
                wait = self.wait_seconds()
                if wait == float("inf") or is_run_over(orders):
                    return
                self._clock.sleep(min(wait, WAIT_SECONDS_MAX))

    def wait_seconds(self) -> float:
        """Return the seconds to wait before the next `lease` after one that returned nothing.

        Infinite when the budget of a run is spent.  Outside the hours of the budget
        (``budget.between``) it is the time until they begin.
        """
        return self._leasing.wait_seconds()

    def extend(self, handles: Sequence[int], *, seconds: float) -> CountedRows:
        """Hold orders until ``seconds`` from now; return the number that were still held."""
        check_seconds(seconds)
        expires_at_ms = self.time.now_ms() + round(seconds * 1000)
        return self._change_orders(
            handles,
            lambda order: event_of(LeasesExtended, order=order, expires_at_ms=expires_at_ms),
        )

    def release(self, handles: Sequence[int]) -> CountedRows:
        """Give back orders that were not fetched; return the number that were still held.

        Their pages can be leased again; the budget that they took stays spent.
        """
        return self._change_orders(handles, lambda order: event_of(LeasesReleased, order=order))

    def _change_orders(
        self, handles: Sequence[int], event_for: Callable[[NDArray[np.int64]], LogEntry]
    ) -> CountedRows:
        """Submit an event about orders to each of their partitions."""
        handle = self.old_handles.translate(np.asarray(handles, np.int64).reshape(-1))
        row_status = np.full(handle.size, RowStatus.UNKNOWN, np.uint8)
        partition = partition_of(handle, self.format.generation)
        is_unavailable = np.zeros(handle.size, np.bool_)
        with self.nodes.use_some(np.unique(partition).tolist()) as nodes:
            tick_together(nodes, self.time)
            begun = []
            with ExitStack() as committing:
                # Also after an error, because what is begun is logged.
                committing.callback(commit_together, nodes)
                for node, rows in self.nodes.split_rows(partition, is_unavailable):
                    with self.nodes.leave_out_stopped(rows, row_status):
                        now_ms = node.tick(self.time)
                        event = event_for(order_of(handle[rows]))
                        submission = node.begin([event], at_ms=now_ms)
                        begun.append((node, rows, submission))
                        if not node.can_send:
                            node.finish(submission)
            for node, rows, submission in begun:
                with self.nodes.leave_out_stopped(rows, row_status):
                    (applied,) = node.finish(submission)
                    row_status[rows[applied.valid]] = RowStatus.DONE
        row_status[is_unavailable] = RowStatus.UNAVAILABLE
        n_held = int(np.count_nonzero(row_status == RowStatus.DONE))
        return CountedRows(n_held, rows=row_status)

    def report(self, outcomes: Outcome | Iterable[Outcome] | pa.Table | pa.RecordBatch) -> Reported:
        """Report what fetches found, leased or not.  A second report of an order does not count.

        Parameters
        ----------
        outcomes
            An outcome, several, or a table with the fields of `Outcome` as columns.
        """
        return self._reporting.report([outcomes] if isinstance(outcomes, Outcome) else outcomes)

    # ------------------------------------------------------------------ signals and requests

    def signal(
        self,
        urls: Urls,
        *,
        source: str,
        at_ms: Any = 0,
        claimed_at_ms: Any = 0,
        key: Any = None,
        request: RequestKey | None = None,
    ) -> Signalled:
        """Signal that pages may have changed; return the number of signals that counted.

        Parameters
        ----------
        urls
            URLs of the pages; those not tracked are ignored.
        source
            Name of the source, such as ``"sitemap"``.  recrawl learns for each host how reliable
            it is.
        at_ms
            Time of the signal, in milliseconds since 1970; now by default.
        claimed_at_ms
            Time at which the page changed, according to the source; 0 if it does not say.  A
            signal with a time that was seen before is ignored.
        key
            Key of the pages' groups, one or one per URL, in a corpus grouped by key.
        request
            Key of the request, if it may be repeated: within a day, signals with the same key
            count once.

        Raises
        ------
        RequestKeyReused
            If another request had the same key.
        """
        if not source.isprintable() or not source:
            raise ValueError(f"source must be a name without control characters, got {source!r}")
        urls = as_array(urls)
        at, claimed = (
            as_numbers(at_ms, len(urls), np.int64),
            as_numbers(claimed_at_ms, len(urls), np.int64),
        )
        parts = RequestParts(self.nodes, request)
        row_status = np.full(len(urls), RowStatus.REFUSED, np.uint8)
        for node, rows, name, _ in self._split(urls, key, row_status):
            part = parts.take(node.partition)
            with self.nodes.leave_out_stopped(rows, row_status):
                now_ms = node.tick(self.time)
                page = node.store.pages_of(name)
                known = np.flatnonzero(page >= 0)
                row_status[rows] = RowStatus.UNKNOWN
                if known.size == 0:
                    continue
                row_status[rows[known]] = RowStatus.DUPLICATE
                names = name.take(pa.array(known))
                signalled_at = at[rows[known]]
                event = event_of(
                    Signals,
                    page=page[known],
                    source=self._namers[node.partition].source_numbers(names, source),
                    at_ms=np.where(signalled_at > 0, signalled_at, now_ms),
                    claimed_at_ms=claimed[rows[known]],
                )
                applied = _submit_once(node, event, part)
                if applied is not None:
                    row_status[rows[known[applied.valid]]] = RowStatus.DONE
        n_counted = int(np.count_nonzero(row_status == RowStatus.DONE))
        n_unknown = int(np.isin(row_status, (RowStatus.REFUSED, RowStatus.UNKNOWN)).sum())
        return Signalled(n_counted, n_unknown=n_unknown, rows=row_status)

    def fetch_now(self, urls: Urls, *, key: Any = None) -> CountedRows:
        """Have pages fetched as soon as possible, as if they had certainly changed.

        Their fetches must still be worth the price, and wait for their hosts and the budget.
        recrawl learns nothing from this: it is no evidence that the pages have changed.  Histories
        show it as a signal of the source `OPERATOR`.  Returns the number of pages that are fetched
        earlier by this.

        Parameters
        ----------
        urls
            URLs of the pages; those not tracked are ignored.
        key
            Key of the pages' groups, one or one per URL, in a corpus grouped by key.
        """
        urls = as_array(urls)
        row_status = np.full(len(urls), RowStatus.REFUSED, np.uint8)
        for node, rows, name, _ in self._split(urls, key, row_status):
            with self.nodes.leave_out_stopped(rows, row_status):
                now_ms = node.tick(self.time)
                with node.lock:
                    page = node.store.pages_of(name)
                    known = np.flatnonzero(page >= 0)
                    row_status[rows] = RowStatus.UNKNOWN
                    if known.size == 0:
                        continue
                    names = name.take(pa.array(known))
                    number = self._namers[node.partition].source_numbers(names, OPERATOR)
                    applied = node.submit(urgent_signals(page[known], number, now_ms))[1]
                done = np.where(applied.valid, RowStatus.DONE, RowStatus.DUPLICATE)
                row_status[rows[known]] = done
        return CountedRows(int(np.count_nonzero(row_status == RowStatus.DONE)), rows=row_status)

    def requests(
        self,
        urls: Urls,
        n_requests: Any = 1,
        *,
        at_ms: Any = 0,
        key: Any = None,
        request: RequestKey | None = None,
    ) -> CountedRows:
        """Report how often users requested pages; requested pages become more important.

        Returns the number of pages that are tracked.

        Parameters
        ----------
        urls
            URLs of the pages; those not tracked are ignored.
        n_requests
            Number of requests of each page since the previous report.
        at_ms
            End of the period that was counted, in milliseconds since 1970; now by default.
        key
            Key of the pages' groups, one or one per URL, in a corpus grouped by key.
        request
            Key of the request, if it may be repeated: within a day, reports with the same key
            count once.

        Raises
        ------
        RequestKeyReused
            If another request had the same key.
        """
        urls = as_array(urls)
        count = as_amounts("n_requests", n_requests, len(urls))
        at = as_numbers(at_ms, len(urls), np.int64)
        parts = RequestParts(self.nodes, request)
        row_status = np.full(len(urls), RowStatus.REFUSED, np.uint8)
        for node, rows, name, _ in self._split(urls, key, row_status):
            part = parts.take(node.partition)
            with self.nodes.leave_out_stopped(rows, row_status):
                now_ms = node.tick(self.time)
                page = node.store.pages_of(name)
                event = event_of(
                    RequestsSeen,
                    page=page,
                    n_requests=count[rows],
                    at_ms=np.where(at[rows] > 0, at[rows], now_ms),
                )
                applied = _submit_once(node, event, part)
                is_done = page >= 0 if applied is None else applied.valid
                done = RowStatus.DUPLICATE if applied is None else RowStatus.DONE
                row_status[rows] = np.where(is_done, done, RowStatus.UNKNOWN)
        n_counted = int(np.count_nonzero(row_status == RowStatus.DONE))
        return CountedRows(n_counted, rows=row_status)

    # ------------------------------------------------------------------ reading

    def now_ms(self) -> int:
        """Return the current time of the corpus, in milliseconds since 1970; it never goes back."""
        return self.time.now_ms()

    @property
    def n_pages(self) -> int:
        """The number of tracked pages of the open partitions."""
        return sum(node.shard.n_pages for node in self.nodes)

    def _check_any_open(self) -> None:
        if not self.nodes.all:
            raise RecrawlError("no partition of the corpus is open in this process")

    def _lock_all(self) -> ExitStack:
        stack = ExitStack()
        for node in stack.enter_context(self.nodes.use_all()):
            stack.enter_context(node.lock)
        return stack

    def explain(
        self,
        url: str,
        *,
        at_ms: int | None = None,
        on_record: "OnRecord | None" = None,
        key: str | None = None,
    ) -> PageExplanation | None:
        """Return everything known of a page and why it is or is not due; None if not tracked.

        A standby of the page's partition answers too, and says how far it may be behind.

        Parameters
        ----------
        url
            URL of the page.
        at_ms
            Earlier time to explain, in milliseconds since 1970: the log is replayed up to then.
            For a later time, the explanation assumes that nothing happens until then.  Now by
            default.
        on_record
            Called with 1 for each record of the log that is read.
        key
            Key of the page, in a corpus grouped by key.

        Raises
        ------
        TimeLost
            If the log no longer reaches back to ``at_ms``.
        """
        if at_ms is not None:
            from recrawl.corpus.past.replay import explain_page_at  # noqa: PLC0415

            with self.nodes.use_all():
                return explain_page_at(self, url, at_ms, on_record=on_record, key=key)
        by = self.config.corpus.group_by
        for home, _, name, _ in split_by_partition([url], self.nodes.n_partitions, by, key=key):
            (i,) = self._partitions(name).tolist()
            now_ms = self.time.now_ms()
            behind: float | None = None
            if i in self._standbys and i not in self.nodes:
                behind = self._standbys.lag_seconds().get(i, 0.0)
                node = self._standbys.find(i).node
                found = explain_page(node, name, now_ms)
                if found is None and not self.is_for_parts:
                    self._check_not_elsewhere(node, name)
            elif i != home and home in self.nodes and i not in self.nodes and not self.is_for_parts:
                raise PageElsewhere(f"partition {i} may have the page, which is not open here")
            else:
                with self.nodes.use(i) as node:
                    found = explain_page(node, name, now_ms)
            closed = window_reason(self.config, now_ms)
            return found and replace(
                found,
                window=window_text(self.config),
                window_wait_seconds=None if closed is None else closed.seconds,
                standby_seconds=behind,
            )
        return None

    def _check_not_elsewhere(self, home: Node, name: pa.StringArray) -> None:
        """Raise `PageElsewhere` if a page that its home has not may be in another partition."""
        (host,) = group_keys(name, self.config.corpus.group_by).to_pylist()
        if host in home.split_hosts():
            (part,) = split_partitions_of(name, home.partition, self.nodes.n_partitions).tolist()
            if part != home.partition:
                raise PageElsewhere(f"partition {part} may have the page")

    def history(
        self,
        url: str,
        *,
        until_ms: int | None = None,
        with_beliefs: bool = True,
        on_record: "OnRecord | None" = None,
        key: str | None = None,
        n_records_max: int | None = None,
    ) -> "PageHistory | None":
        """Return the fetches, signals and orders of a page from the log; None if not tracked.

        Parameters
        ----------
        url
            URL of the page.
        until_ms
            End of the history, in milliseconds since 1970; now by default.
        with_beliefs
            Whether to replay the log, which also gives the freshness, value and price at each
            moment.  Otherwise only records that may concern the page are read; that is faster, but
            does not show whether some outcomes counted.
        on_record
            Called with 1 for each record of the log that is read.
        key
            Key of the page, in a corpus grouped by key.
        n_records_max
            Largest number of records to read.  Of a longer log only the last ones are read, and
            the freshness is drawn with the present belief; None for no limit.
        """
        from recrawl.corpus.past.page_history import read_page_history  # noqa: PLC0415

        with self.nodes.use_all():
            return read_page_history(
                self,
                url,
                until_ms=until_ms,
                with_beliefs=with_beliefs,
                on_record=on_record,
                key=key,
                n_records_max=n_records_max,
            )

    def last_change(self, url: str, *, key: str | None = None) -> "LastChange | None":
        """Return the last change of a page and its passages, as far as the feed of changes has it.

        None if the page is not tracked, was never fetched, or its last change is no longer among
        the changes that are searched.

        Parameters
        ----------
        url
            URL of the page.
        key
            Key of the page, in a corpus grouped by key.
        """
        from recrawl.corpus.past.last_change import find_last_change  # noqa: PLC0415
        from recrawl.corpus.past.replay import locate_page  # noqa: PLC0415

        with self.nodes.use_all():
            place = locate_page(self, url, key)
            return place and find_last_change(self.nodes[place[0]], place[1])

    def n_log_records(self, url: str | None = None, *, key: str | None = None) -> int:
        """Return the number of records in the log, or in the partition of a page.

        0 for a page that is not tracked.  `explain` and `history` read at most as many.
        """
        if url is None:
            return sum(node.ledger.end - node.ledger.first for node in self.nodes)
        from recrawl.corpus.past.replay import locate_page  # noqa: PLC0415

        with self.nodes.use_all():
            place = locate_page(self, url, key)
            if place is None:
                return 0
            ledger = self.nodes[place[0]].ledger
            return ledger.end - ledger.first

    def similar_urls(self, url: str) -> list[str]:
        """Return up to three URLs of tracked pages that are spelled much like this one."""
        from recrawl.corpus.similar_urls import similar_urls  # noqa: PLC0415

        with self.nodes.use_all():
            return similar_urls(self, url)

    def sources(self) -> "SourceTable":
        """Return the sources of signals, and how reliable and how late each is on each host."""
        from recrawl.corpus.inspect.source_table import source_table  # noqa: PLC0415

        with self.nodes.use_all() as nodes:
            return source_table(nodes)

    def audited_freshness(self) -> "AuditTable":
        """Return audited and modelled freshness of all pages, by kind, and of the largest hosts.

        Audits are fetches of randomly chosen pages (``audit.share`` in the configuration).
        """
        from recrawl.corpus.inspect.audits import audit_table  # noqa: PLC0415

        self._check_any_open()
        with self.nodes.use_all() as nodes:
            return audit_table(nodes)

    def source(self, source: str, host: str) -> "SourceRow | None":
        """Return how reliable and how late a source of signals is on a host.

        None if it has never signalled a page of the host.

        Parameters
        ----------
        source
            Name of the source, as given to `signal`.
        host
            Host, or the domain or key that pages are grouped by.
        """
        from recrawl.corpus.inspect.source_table import find_source  # noqa: PLC0415

        host = canonical_host(host, self.config.corpus.group_by)
        with self.nodes.use(partition_of_key(host, self.nodes.n_partitions)) as node:
            return find_source(node, source, host)

    def n_pages_of_host(self, host: str) -> int:
        """Return the number of tracked pages of a host (or domain or key, as pages are grouped)."""
        from recrawl.corpus.inspect.hosts import pages_of_host  # noqa: PLC0415

        is_key = self.config.corpus.group_by == "key"
        with self.nodes.use_all() as nodes:
            return pages_of_host(nodes, host if is_key else host.lower())

    def host(self, host: str) -> "HostView":
        """Return how a host (or domain or key, as pages are grouped) is fetched from.

        A standby of the host's partition answers too, and says how far it may be behind.
        """
        from recrawl.corpus.inspect.hosts import host_view  # noqa: PLC0415

        host = canonical_host(host, self.config.corpus.group_by)
        i = partition_of_key(host, self.nodes.n_partitions)
        if self.is_for_parts:
            self._check_any_open()
            return host_view(self.nodes.all[0], host)._replace(n_pages=self.n_pages_of_host(host))
        if i in self._standbys and i not in self.nodes:
            behind = self._standbys.lag_seconds().get(i, 0.0)
            return host_view(self._standbys.find(i).node, host)._replace(standby_seconds=behind)
        with self.nodes.use(i) as node:
            found = host_view(node, host)
        return found._replace(n_pages=self.n_pages_of_host(host)) if found.is_split else found

    def hosts(self) -> "HostTable":
        """Return the hosts (or domains or keys) with the most pages, most first."""
        from recrawl.corpus.inspect.hosts import largest_hosts  # noqa: PLC0415

        with self.nodes.use_all() as nodes:
            return largest_hosts(nodes)

    def pages_of_host(
        self,
        host: str,
        *,
        prefix: str = "",
        cursor: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int = 100,
    ) -> PageRows:
        """Return some pages of a host (or domain or key), and the cursor to continue with.

        One call compares a limited number of URLs with the prefix, so it may return fewer pages
        than there are, or none: there are more as long as it returns a cursor.

        Parameters
        ----------
        host
            Host, or the domain or key that pages are grouped by.
        prefix
            Beginning of the URLs, or of what follows the host in them, such as ``/news/``.
        cursor
            Cursor of the pages before; None to begin.
        columns
            Columns as for `pages`.
        limit
            Largest number of pages.
        """
        from recrawl.corpus.inspect.host_pages import list_pages_of_host  # noqa: PLC0415

        return list_pages_of_host(
            self.nodes,
            canonical_host(host, self.config.corpus.group_by),
            prefix=prefix,
            cursor=cursor,
            columns=columns,
            limit=limit,
            now_ms=self.time.now_ms(),
        )

    def newcomers(self) -> dict[str, int]:
        """Return the hosts whose new pages have a limited share of the budget, most pages first.

        The number of such pages by host, at most a thousand hosts of each partition; see the
        section "protection" of the configuration.
        """
        from recrawl.corpus.inspect.hosts import newcomers_by_host  # noqa: PLC0415

        with self.nodes.use_all() as nodes:
            return newcomers_by_host(nodes, self.time.now_ms())

    def holdout(self, *, share: float | None = None, days: float = 28.0) -> "HoldoutView":
        """Return what the hold-out of the corpus shows so far, or the plan of one.

        Parameters
        ----------
        share
            Share of hosts to plan with; by default that of the configuration.
        days
            Days that the experiment lasts, for the smallest difference that it finds.
        """
        from recrawl.corpus.holdout.experiment import holdout_view  # noqa: PLC0415

        with self.nodes.use_all() as nodes:
            return holdout_view(
                self.folder,
                nodes,
                self.config.holdout,
                share=share,
                days=days,
                fetches_per_day=_fetches_per_day(self.config),
                audit_share=self.config.audit.share,
            )

    def similar_hosts(self, host: str) -> dict[str, int]:
        """Return the hosts with this name at any port, and the number of pages of each."""
        from recrawl.corpus.inspect.hosts import similar_hosts  # noqa: PLC0415

        with self.nodes.use_all() as nodes:
            return similar_hosts(nodes, host)

    def believed_pages(self, n_pages_max: int) -> "BelievedPages":
        """Return the estimated change rates of all pages, or of about ``n_pages_max``."""
        from recrawl.corpus.inspect.beliefs import believed_pages  # noqa: PLC0415

        return believed_pages([node.shard for node in self.nodes], n_pages_max=n_pages_max)

    def export_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all pages with the columns of `recrawl.corpus.EXPORT_SCHEMA`, in batches."""
        from recrawl.corpus.export_rows import batches_to_export  # noqa: PLC0415

        return batches_to_export(self.nodes.all, self.time.now_ms())

    def pages(
        self, columns: Sequence[str] | None = None, *, batch: int = 65_536
    ) -> Iterator[pa.RecordBatch]:
        """Yield all pages of the open partitions and what is known of each, in batches of rows.

        Parameters
        ----------
        columns
            Columns of `recrawl.corpus.inspect.page_table.PAGE_COLUMNS` to include; by default all.
        batch
            Largest number of rows in a batch.
        """
        return page_batches(self.nodes, columns, batch, self.time.now_ms())

    def pages_after(
        self,
        cursor: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int = 1_000,
    ) -> PageRows:
        """Return some pages after a cursor, and the cursor to continue with.

        A page that is tracked all the time, in a partition that is open, appears exactly once.

        Parameters
        ----------
        cursor
            Cursor of the rows before; None to begin.
        columns
            Columns as for `pages`.
        limit
            Largest number of rows.
        """
        with self.nodes.use_all():
            return page_rows_after(
                self.nodes,
                cursor,
                columns,
                limit,
                self.time.now_ms(),
                is_one_partition=self.is_for_parts,
            )

    def changes(
        self, after: str | None = None, *, consumer: str | None = None, limit: int = 1_000
    ) -> list[PageChange]:
        """Return the new, changed and gone pages after a cursor, oldest first.

        They are pages of the partitions that are open in this process; the cursor keeps its place
        in the others.

        Parameters
        ----------
        after
            Cursor of the last change that was seen.  It stays valid when the corpus is closed.
            None begins with the oldest change that is stored.
        consumer
            Name of a consumer, instead of ``after``: the changes after the place that it has
            committed with `commit_changes`.  A new one begins with the oldest change.
        limit
            Largest number of changes.

        Raises
        ------
        ChangesLost
            If the feed no longer has all changes after the consumer's place.
        """
        if consumer is None:
            with self.nodes.use_all():
                place = parse_cursor(after, self.nodes)
        elif after is not None:
            raise ValueError("changes takes either a cursor or a consumer")
        else:
            self._see_commits(consumer)
            with self.nodes.use_all():
                place = consumer_place(self._places, self.nodes, consumer)
        with self.nodes.use_all() as nodes:
            return changes_after(nodes, place, limit)

    def commit_changes(self, consumer: str, cursor: str, *, rewind: bool = False) -> str:
        """Record durably that a consumer has processed all changes up to a cursor.

        Works also for a corpus opened with ``read_only``.  Returns the cursor that holds now.

        Parameters
        ----------
        consumer
            Name of the consumer, of lower-case letters, digits, ``.``, ``_`` and ``-``.
        cursor
            Cursor of the last change that was processed; ``"oldest"`` for the oldest change that
            is stored, ``"newest"`` to skip all changes so far.
        rewind
            Whether the consumer may move back, to read changes again.  Otherwise a cursor before
            its place changes nothing.
        """
        self._see_commits(consumer)
        with self.nodes.use_all():
            place = self._places.commit(consumer, cursor, now_ms=self.now_ms(), rewind=rewind)
        return str(place)

    def consumers(self) -> list[Consumer]:
        """Return the consumers of the change feed, and how far behind each is."""
        with self.nodes.use_all():
            return list_consumers(
                self._places, self.nodes, kept=self.config.changes, now_ms=self.now_ms()
            )

    def remove_consumer(self, consumer: str) -> bool:
        """Remove a consumer of the change feed; return whether it existed."""
        with self.nodes.use_all():
            return self._places.delete(consumer)

    def keep_places_in_log(self) -> None:
        """Keep the places of consumers in the logs of the partitions, where other workers see them.

        Without it, they are in files of the folder.
        """
        self._places = LoggedConsumers(self.nodes)

    def leave_out_stopped(self, append_seconds_max: float) -> None:
        """Let calls go on without partitions whose log cannot be written.

        Their rows have the status UNAVAILABLE.  Call `tick` for each open partition every few
        seconds: only that makes such a partition go on.

        Parameters
        ----------
        append_seconds_max
            Time for which a call waits until a record is in the log of its partition.
        """
        self.nodes.leaves_out_stopped = True
        self._append_seconds_max = append_seconds_max
        for node in self.nodes:
            node.append_seconds_max = append_seconds_max

    def _see_commits(self, consumer: str) -> None:
        """Refresh a reader if another process has committed what this one has not seen yet."""
        if self.is_reader and is_ahead(self._places, self.nodes, consumer):
            self.refresh()

    def stats(self) -> Stats:
        """Return counts, budget, price and estimated freshness of the open partitions."""
        self._check_any_open()
        with self._lock_all():
            stats = stats_of(
                [node.shard for node in self.nodes],
                now_ms=self.time.now_ms(),
                cost_per_fetch=self.config.budget.cost_per_fetch,
            )
            counts = [node.store.content_counts or ContentCounts() for node in self.nodes]
            stats = self._stats_of_run(stats)
        wrong = wrong_answer_counts([one.n_wrong_answers for one in counts])
        closed = window_reason(self.config, stats.at_ms)
        return replace(
            stats,
            window=window_text(self.config),
            window_wait_seconds=None if closed is None else closed.seconds,
            clock_held_back_seconds=self.time.held_back_ms / 1000,
            n_texts=sum(one.n_observed for one in counts),
            n_baselines=sum(one.n_baselines for one in counts),
            n_template_changes=sum(one.n_template_changes for one in counts),
            n_wrong_answers=sum(wrong.values()),
            wrong_answers=dict(wrong),
        )

    def metrics(self) -> CorpusMetrics:
        """Return figures for monitoring, holding no lock for longer than a few milliseconds.

        Parts of them may be of slightly different moments; `stats` has all of the same one.
        Both are figures of the partitions that are open in this process.
        """
        with self.nodes.use_all() as nodes:
            if not nodes:
                raise RecrawlError("no partition of the corpus is open in this process")
            found = read_metrics(nodes, now_ms=self.time.now_ms())
        return replace(
            found,
            snapshot_age_seconds=self._snapshotter.age_seconds(),
            shared_snapshot_age_seconds=self._snapshotter.shared_age_seconds(),
            n_records_since_snapshot=self._snapshotter.n_records_since(),
        )

    def sample(self) -> Sample:
        """Return the present state: totals, partitions, largest hosts, kinds, sources, histograms.

        Holds no lock for longer than a few milliseconds.  What depends on single pages is estimated
        from some of them in a very large corpus.  Only the partitions that are open in this process
        are counted.
        """
        with self.nodes.use_all() as nodes:
            if not nodes:
                raise RecrawlError("no partition of the corpus is open in this process")
            return read_present(nodes, self.time.now_ms())

    def samples(
        self,
        *,
        step: str = "minute",
        since_ms: int | None = None,
        until_ms: int | None = None,
        host: str | None = None,
        kind: str | None = None,
    ) -> Samples:
        """Return figures over time, of the corpus, a host or a kind.

        The owner of each partition logs a sample once a minute while the corpus is used.  Minutes
        are kept for a day, hours for a month and days for ten years.

        Parameters
        ----------
        step
            "minute", "hour" or "day".
        since_ms, until_ms
            Rows that begin from ``since_ms`` on and before ``until_ms``, in milliseconds since
            1970; by default all.
        host
            Host, domain or key that pages are grouped by, to return its figures alone.
        kind
            Kind of pages to return the figures of; an empty text for pages without a kind.
        """
        with self.nodes.use_all() as nodes:
            return read_series(
                nodes,
                self.time.now_ms(),
                step=step,
                since_ms=since_ms,
                until_ms=until_ms,
                host=host,
                kind=kind,
            )

    def source_samples(
        self,
        source: str,
        host: str,
        *,
        step: str = "minute",
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> SourceSamples:
        """Return precision, recall, delay and volume of a source of signals over time.

        Parameters
        ----------
        source
            Name of the source.
        host
            Host, domain or key that pages are grouped by.
        step, since_ms, until_ms
            Arguments of `samples`.
        """
        with self.nodes.use_all() as nodes:
            return read_source_series(
                nodes,
                self.time.now_ms(),
                source,
                host,
                step=step,
                since_ms=since_ms,
                until_ms=until_ms,
            )

    def _stats_of_run(self, stats: Stats) -> Stats:
        """Return statistics with the name of today's run and what is left of its budget."""
        if stats.run_budget is None:
            return stats
        run = self.run_name(None)
        shards = [node.shard for node in self.nodes]
        spent = sum(shard.run_spending(run_number(run)) for shard in shards)
        left = max(stats.run_budget - spent, 0.0)
        text = BudgetView.of(shards, self.config.budget.cost_per_fetch).amount_text(left)
        return replace(stats, run=run, credit=left, credit_text=text)

    def plan(self) -> Plan:
        """Return the freshness that each budget buys for the open partitions of this corpus."""
        self._check_any_open()
        with self.nodes.use_all() as nodes:
            parts = read_nodes(nodes, PAGES_PLANNED_MAX)
        return plan_of_partitions(parts, now_ms=self.time.now_ms())

    def plan_targets(
        self,
        targets: "Sequence[str | Target]" = (),
        *,
        budget_per_hour: float | None = None,
        is_weighted: bool = True,
    ) -> "CorpusPlan":
        """Return what budgets buy, by kind of page and host, and what targets cost.

        All figures are of the partitions that are open in this process.

        Parameters
        ----------
        targets
            Targets such as ``"95 % of /product/* under 6 h"``.
        budget_per_hour
            Budget to compare with; the corpus's own by default.
        is_weighted
            Whether copies count by the importance of their pages.

        Raises
        ------
        ValueError
            If a target is not understood, or there are too many.
        """
        from recrawl.corpus.plan.corpus_plan import make_plan  # noqa: PLC0415
        from recrawl.corpus.plan.targets import Target  # noqa: PLC0415

        self._check_any_open()
        with self.nodes.use_all() as nodes:
            return make_plan(
                nodes,
                now_ms=self.time.now_ms(),
                targets=[Target.parse(one) if isinstance(one, str) else one for one in targets],
                budget_per_hour=budget_per_hour,
                cost_per_fetch=self.config.budget.cost_per_fetch,
                is_weighted=is_weighted,
                hours=window_text(self.config),
            )

    def pages_for_plan(
        self, n_pages_max: int, *, n_pages_total: int | None = None, patterns: Sequence[str] = ()
    ) -> bytes:
        """Return what another worker needs to know of the open partitions to make a plan.

        Parameters
        ----------
        n_pages_max
            Number of pages that the plan samples of all partitions together; 0 to learn only how
            many pages each partition has.
        n_pages_total
            Number of pages of all partitions together.
        patterns
            URL patterns, hosts and names of kinds that targets name.
        """
        from recrawl.corpus.plan.corpus_plan import check_target_patterns  # noqa: PLC0415
        from recrawl.corpus.plan.partition_bytes import encode_partitions  # noqa: PLC0415

        check_target_patterns(patterns)
        with self.nodes.use_all() as nodes:
            parts = read_nodes(
                nodes,
                min(n_pages_max, PAGES_PLANNED_MAX),
                n_pages_total=n_pages_total,
                patterns=patterns,
                with_names=True,
            )
        return encode_partitions(parts)

    def import_crawl(self) -> "CrawlImport":
        """Return an import of an earlier crawl's fetch log; use it with ``with``."""
        from recrawl.corpus.import_crawl import CrawlImport  # noqa: PLC0415

        return CrawlImport(self)


def _numbers_or_none(values: Any, n: int) -> NDArray[np.float64] | None:
    return None if values is None else as_numbers(values, n, np.float64)


def _n_unavailable(row_status: NDArray[np.uint8]) -> int:
    away = (RowStatus.UNAVAILABLE, RowStatus.ELSEWHERE)
    return int(np.count_nonzero(np.isin(row_status, away)))


def _submit_once(node: Node, event: LogEntry, request: RequestKey | None) -> Applied | None:
    """Submit an event; None if a request with the same key has done so before."""
    if request is None:
        return node.submit([event])[0]
    with node.lock:
        if is_repeated(node, request):
            return None
        return node.submit([event], request=request)[0]


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Raise if a name is not one of a setting."""
    known = [field.name for field in fields(PageSettings)]
    for name in settings:
        if name not in known:
            raise TypeError(f"set() has no setting {name!r}; choose from {', '.join(known)}")


def _check_no_key(key: Any) -> None:
    if key is not None:
        raise ValueError("key goes with urls; a pattern applies to the pages of all keys")


def _fetches_per_day(config: CorpusConfig) -> float | None:
    """Return the budget in fetches per day; None if it is unlimited, a cost, or per run."""
    rate = config.budget.rate
    if rate is None or rate.per_seconds is None or config.budget.is_in_cost:
        return None
    per_day = config.budget.amount / rate.per_seconds * 86_400.0
    return per_day if 0 < per_day < float("inf") else None


class _ForkWatch(OneProcess):
    """Makes every method of a corpus raise `ForkedError` in a child of its process."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = weakref.ref(corpus)
        self.remember_process()

    def enter_child(self) -> None:
        """Replace the methods of the corpus."""
        corpus = self._corpus()
        if corpus is not None:
            corpus.__class__ = _ForkedCorpus


class _ForkedCorpus(Corpus):
    """A corpus in a child of the process that opened it: only closing it does nothing."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "close"):
            return object.__getattribute__(self, name)
        watch: _ForkWatch = object.__getattribute__(self, "_fork_watch")
        raise forked_error(watch._process)

    def close(self) -> None:
        """Do nothing: the files belong to the other process."""

    def __enter__(self) -> Self:
        return self.__getattribute__("__enter__")  # type: ignore[no-any-return]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass
