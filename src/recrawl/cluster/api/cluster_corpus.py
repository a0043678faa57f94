"""The corpus of a cluster, as each worker serves it: the methods of `Corpus` over all workers.

A `ClusterCorpus` has the partitions that are open in this process, and sends what belongs to other
workers to them.  The service uses it like a `Corpus`; requests that other workers forward go to the
`Corpus` itself, and so are never forwarded again.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recrawl.client import AsyncClient
from recrawl.client.details import ServiceDetails
from recrawl.cluster.api.merged_views import (
    ChangesOfWorker,
    merge_changes,
    merge_consumers,
    merge_coverage,
    merge_cursors,
    merge_host_tables,
    merge_source_tables,
    merge_stats,
)
from recrawl.cluster.api.owners import Owners
from recrawl.cluster.api.row_parts import (
    Columns,
    Rows,
    check_no_key,
    check_none_away,
    count_rows,
    elsewhere_rows,
    names_of_outcomes,
    one_array,
    only_result,
    plain_list,
    status_of_rows,
    take_outcomes,
    take_rows,
)
from recrawl.cluster.api.shared_leases import SharedLeases
from recrawl.cluster.api.split_calls import SplitCalls, SplitResult
from recrawl.cluster.api.worker_calls import WorkerCalls
from recrawl.corpus import (
    Added,
    Corpus,
    CorpusConfig,
    CorpusMetrics,
    CountedRows,
    LeasedUrls,
    Orders,
    Outcome,
    PageExplanation,
    PageHistory,
    Reported,
    RequestKey,
    RowStatus,
    Signalled,
)
from recrawl.corpus.doctor.overview_part import (
    OverviewPart,
    merge_overview_parts,
    read_overview_part,
)
from recrawl.corpus.feed.change_feed import CorpusCursor, is_from_before
from recrawl.corpus.feed.consumers import check_consumer_name
from recrawl.corpus.inspect.audits import merge_audit_tables
from recrawl.corpus.inspect.page_table import page_cursor, parse_page_cursor
from recrawl.corpus.leasing.shortfall import window_text
from recrawl.corpus.monitoring.present import merge_samples
from recrawl.corpus.monitoring.robots_notes import merge_robots_notes
from recrawl.corpus.monitoring.series import merge_series, merge_source_series
from recrawl.corpus.plan.corpus_plan import (
    CorpusPlan,
    check_targets,
    patterns_of,
    plan_partitions,
)
from recrawl.corpus.plan.curve import PAGES_PLANNED_MAX
from recrawl.corpus.plan.planned_partition import PlannedPartition, read_nodes
from recrawl.corpus.plan.targets import Target
from recrawl.errors import (
    ChangesLost,
    NotInCluster,
    PageElsewhere,
    PartitionAway,
    RecrawlError,
    ServiceError,
    ServiceUnavailable,
)
from recrawl.messages.cluster_metrics import ClusterMetrics
from recrawl.messages.enums import Why
from recrawl.messages.leases import WHYS
from recrawl.messages.results import ChangedPart
from recrawl.messages.robots import RobotsNote
from recrawl.messages.samples import Sample, Samples, SourceSamples
from recrawl.messages.turns import TurnEnd, TurnsAnswer, TurnStart
from recrawl.messages.views import (
    AuditTable,
    Consumer,
    HostTable,
    HostView,
    LastChange,
    PageChange,
    PageRows,
    SourceTable,
    Stats,
)
from recrawl.node.orders import Order, partition_of
from recrawl.node.routing import (
    Urls,
    as_array,
    batch_ranges,
    canonical_host,
    partition_of_key,
    partitions_of_host,
    split_by_partition,
    split_partitions_of,
)
from recrawl.node.settings.pattern_changes import PART_SECONDS
from recrawl.node.shipped_due_table import shipped_due_table
from recrawl.shard import RunBudgetSet

__all__ = ["ClusterCorpus"]

logger = logging.getLogger(__name__)

# A request with a key is split into these batches whoever owns the rows, and each is one record in
# the log of each partition.  So a repeated request finds the records of the first one.
_ROWS_PER_BATCH: Final = 8_192
_UNAVAILABLE: Final = int(RowStatus.UNAVAILABLE)
_AWAY: Final = WHYS.index(Why.UNAVAILABLE)
_AWAY_SECONDS: Final = 1.0


class ClusterCorpus:
    """A corpus whose partitions are open on several workers.

    Each method does what the one of `recrawl.Corpus` with its name does.  Rows whose owner cannot
    be reached, or does not answer in time, have the status UNAVAILABLE.

    Parameters
    ----------
    local
        Corpus with the partitions that are open in this process.
    owners
        Owners of partitions, as this worker knows them.
    calls
        Requests to other workers.
    read_metrics
        Function that returns the figures of the cluster; None while the worker starts.
    """

    def __init__(
        self,
        local: Corpus,
        owners: Owners,
        calls: WorkerCalls,
        read_metrics: Callable[[], ClusterMetrics | None] = lambda: None,
    ) -> None:
        self.local = local
        local.keep_places_in_log()  # of which any worker may be the next owner
        local.leave_out_stopped(calls.settings.own_append_seconds_max)
        self._read_metrics = read_metrics
        self.config = local.config
        self.folder = local.folder
        self._local_parts = local.for_parts()
        self._split_calls = SplitCalls(local, owners, calls)
        self._calls = calls
        self._leases = SharedLeases(self._split_calls, self.release)
        self._n_partitions = local.nodes.n_partitions
        self._by = local.config.corpus.group_by

    def close(self) -> None:
        """Close the connections to other workers, then the partitions of this process."""
        with ExitStack() as closing:  # the last is called first, and each also after an error
            closing.callback(self.local.close)
            closing.callback(self._leases.close)
            closing.callback(self._split_calls.close)
            closing.callback(self._calls.close)

    # ------------------------------------------------------------------ where rows are

    def _partitions(self, urls: Any, key: Any) -> Rows:
        """Return the partition of each URL; -1 for one that is not valid."""
        partition = np.full(len(urls), -1, np.int64)
        for batch in split_by_partition(urls, self._n_partitions, self._by, key=key):
            partition[batch.rows] = batch.partition
        return partition

    def _run_by_url(
        self,
        partition: Rows,
        names_of: Callable[[Rows], tuple[Any, Any]],
        local_call: Callable[[Corpus, Rows, RequestKey | None], Any],
        remote_call: Callable[[AsyncClient, Rows], Awaitable[Any]],
        request: RequestKey | None = None,
    ) -> SplitResult[Any]:
        """Make a call about pages: in their home partitions, and then where these say.

        The home partition of a split host says which of its pages are elsewhere; the hash of a
        page says where.  Results of these rows come later, and replace the first ones.

        Parameters
        ----------
        partition
            Home partition of each row, or that of its order.
        names_of
            Function that returns the URLs and the keys of some rows.
        local_call
            Function that makes the call for some rows with a corpus of this process.
        remote_call
            Function that makes it for some rows with a client of another worker.
        request
            Key of the request, if it may be repeated.
        """
        found: SplitResult[Any] = self._split_calls.run(
            partition,
            lambda rows: local_call(self.local, rows, request),
            remote_call,
            request=request,
        )
        elsewhere = elsewhere_rows(found)
        if not elsewhere.size:
            return found
        if request is None:
            return self._run_in_other_parts(found, elsewhere, names_of, local_call, remote_call)
        # A partition may have logged other rows with the key of the request already, and those of
        # another home partition when it is repeated.
        for home in np.unique(partition[elsewhere]).tolist():
            rows = elsewhere[partition[elsewhere] == home]
            own = request._replace(key=request.key + b" parts %d" % home)
            found = self._run_in_other_parts(found, rows, names_of, local_call, remote_call, own)
        return found

    def _run_in_other_parts(
        self,
        found: SplitResult[Any],
        elsewhere: Rows,
        names_of: Callable[[Rows], tuple[Any, Any]],
        local_call: Callable[[Corpus, Rows, RequestKey | None], Any],
        remote_call: Callable[[AsyncClient, Rows], Awaitable[Any]],
        request: RequestKey | None = None,
    ) -> SplitResult[Any]:
        """Make a call about pages that are not in their home partitions; add it to the others.

        Parameters
        ----------
        found
            Results of the call so far.
        elsewhere
            Rows that the home partitions do not have.
        names_of, local_call, remote_call
            See `_run_by_url`.
        request
            Key of these rows, if they may be repeated.
        """
        try:
            parts: SplitResult[Any] = self._split_calls.run(
                self._parts(*names_of(elsewhere)),
                lambda rows: local_call(self._local_parts, elsewhere[rows], request),
                lambda client, rows: remote_call(client, elsewhere[rows]),
                request=request,
                in_parts=True,
            )
        except RecrawlError as error:
            if isinstance(error, ValueError):
                raise
            logger.warning("parts of split hosts cannot be reached: %s", error)
            return SplitResult(found.parts, np.union1d(found.away, elsewhere))
        return SplitResult(
            [*found.parts, *((elsewhere[rows], one) for rows, one in parts.parts)],
            np.union1d(found.away, elsewhere[parts.away]),
        )

    def _names_of(
        self, urls: pa.Array, columns: Columns, batch: Rows
    ) -> Callable[[Rows], tuple[Any, Any]]:
        """Return a function that returns the URLs and the keys of some rows of a batch."""
        return lambda rows: (
            take_rows(urls, batch[rows]),
            columns.take(batch[rows]).get("key"),
        )

    def _parts(self, urls: Any, key: Any) -> Rows:
        """Return the partition of each page of a split host that its home partition has not."""
        part = np.full(len(urls), -1, np.int64)
        for batch in split_by_partition(urls, self._n_partitions, self._by, key=key):
            part[batch.rows] = split_partitions_of(batch.name, batch.partition, self._n_partitions)
        return part

    def _all(self) -> Rows:
        return np.arange(self._n_partitions, dtype=np.int64)

    def _owned_by_others(self, partition: Rows) -> bool:
        return any(i not in self.local.nodes for i in np.unique(partition[partition >= 0]))

    def _of_host(self, host: str) -> Rows:
        name = canonical_host(host, self._by)
        return np.array([partition_of_key(name, self._n_partitions)])

    # ------------------------------------------------------------------ pages

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
        """Add pages to track."""
        urls = one_array(urls)
        columns = Columns(
            len(urls), importance=importance, cost=cost, doc_id=doc_id, metadata=metadata, key=key
        )
        found = self._run_by_url(
            self._partitions(urls, key),
            lambda rows: (take_rows(urls, rows), columns.take(rows).get("key")),
            lambda corpus, rows, _: corpus.add(take_rows(urls, rows), **columns.take(rows)),
            lambda client, rows: client.add(take_rows(urls, rows), **columns.take(rows)),
        )
        return Added(
            *(sum(part[i] for _, part in found.parts) for i in range(3)),
            n_limited=sum(part.n_limited for _, part in found.parts),
            limited_until_ms=max((part.limited_until_ms for _, part in found.parts), default=0),
            rows=status_of_rows(found, len(urls)),
        )

    def remove(
        self, urls: Urls | None = None, *, pattern: str | None = None, key: Any = None
    ) -> CountedRows:
        """Stop tracking pages, given by URL or by pattern; return the number of pages removed."""
        if (urls is None) == (pattern is None):
            raise ValueError("remove takes either urls or a pattern")
        if urls is None:
            check_no_key(key)
            return self._change_all_matching(str(pattern), None)
        given = one_array(urls)
        columns = Columns(len(given), key=key)
        found = self._run_by_url(
            self._partitions(given, key),
            lambda rows: (take_rows(given, rows), columns.take(rows).get("key")),
            lambda corpus, rows, _: corpus.remove(take_rows(given, rows), **columns.take(rows)),
            lambda client, rows: client.remove(take_rows(given, rows), **columns.take(rows)),
        )
        return count_rows(found, len(given))

    def set(
        self,
        urls: Urls | None = None,
        *,
        pattern: str | None = None,
        key: Any = None,
        **settings: Any,
    ) -> CountedRows:
        """Change settings of pages, given by URL or by pattern; return the number of pages."""
        if (urls is None) == (pattern is None):
            raise ValueError("set takes either urls or a pattern")
        if urls is None:
            check_no_key(key)
            return self._change_all_matching(str(pattern), settings)
        given = one_array(urls)
        columns = Columns(len(given), key=key)
        found = self._run_by_url(
            self._partitions(given, key),
            lambda rows: (take_rows(given, rows), columns.take(rows).get("key")),
            lambda corpus, rows, _: corpus.set(
                take_rows(given, rows), **columns.take(rows), **settings
            ),
            lambda client, rows: client.set(
                take_rows(given, rows), **columns.take(rows), **settings
            ),
        )
        return count_rows(found, len(given))

    def _change_all_matching(self, pattern: str, settings: Mapping[str, Any] | None) -> CountedRows:
        """Change all pages whose URLs match a pattern; raise in the end if partitions were away."""
        n_pages = 0
        away = []
        for i in range(self._n_partitions):
            slot: int | None = 0
            while slot is not None:
                part = self._change_in_partition(pattern, settings, i, slot)
                if part is None:
                    away.append(i)
                    break
                n_pages, slot = n_pages + part.n_pages, self._slot_of(part.cursor)
        check_none_away(n_pages, away)
        return CountedRows(n_pages)

    def change_matching(
        self,
        pattern: str,
        settings: Mapping[str, Any] | None = None,
        *,
        cursor: str | None = None,
    ) -> ChangedPart:
        """Change some pages whose URLs match a pattern; see `Corpus.change_matching`.

        Raises
        ------
        PartitionAway
            If the partition of the cursor cannot be reached now; the cursor stays valid.
        """
        generation = self.local.format.generation
        start, first = parse_page_cursor(cursor, self._n_partitions, generation)
        ends_at = time.monotonic() + PART_SECONDS
        n_pages = 0
        for i in range(start, self._n_partitions):
            slot: int | None = first if i == start else 0
            while slot is not None:
                has_begun = i > start or slot > first
                place = page_cursor(i, slot, generation)
                if has_begun and time.monotonic() >= ends_at:
                    return ChangedPart(n_pages, place)
                part = self._change_in_partition(pattern, settings, i, slot)
                if part is None:
                    if has_begun:
                        return ChangedPart(n_pages, place)
                    raise PartitionAway(i)
                n_pages, slot = n_pages + part.n_pages, self._slot_of(part.cursor)
        return ChangedPart(n_pages, None)

    def _slot_of(self, cursor: str | None) -> int | None:
        if cursor is None:
            return None
        return parse_page_cursor(cursor, self._n_partitions, self.local.format.generation)[1]

    def _change_in_partition(
        self, pattern: str, settings: Mapping[str, Any] | None, partition: int, slot: int
    ) -> ChangedPart | None:
        """Change some pages of one partition; None if it cannot be reached now."""
        cursor = page_cursor(partition, slot, self.local.format.generation)
        found: SplitResult[ChangedPart] = self._split_calls.run(
            np.array([partition]),
            lambda _: self._local_parts.change_matching(pattern, settings, cursor=cursor),
            lambda client, _: client.change_matching(pattern, settings, cursor),
            in_parts=True,
        )
        return found.parts[0][1] if found.parts else None

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
        """Set the importance, the cost, the doc_id or the metadata of each page."""
        urls = one_array(urls)
        columns = Columns(
            len(urls), importance=importance, cost=cost, doc_id=doc_id, metadata=metadata, key=key
        )
        found = self._run_by_url(
            self._partitions(urls, key),
            lambda rows: (take_rows(urls, rows), columns.take(rows).get("key")),
            lambda corpus, rows, _: corpus.set_each(take_rows(urls, rows), **columns.take(rows)),
            lambda client, rows: client.set_each(take_rows(urls, rows), **columns.take(rows)),
        )
        return count_rows(found, len(urls))

    def why_refused(
        self, urls: Urls, *, doc_id: Any = None, metadata: Any = None, key: Any = None
    ) -> dict[int, str]:
        """Return the rows that `add` refuses, and the reason of each."""
        return self.local.why_refused(urls, doc_id=doc_id, metadata=metadata, key=key)

    def explain(
        self, url: str, *, key: str | None = None
    ) -> PageExplanation | ServiceDetails | None:
        """Return everything known of a page and why it is or is not due; None if not tracked.

        If the owner cannot be reached, a standby answers and says how far it may be behind.
        """
        found: PageExplanation | ServiceDetails | None = self._read_page(
            url,
            key,
            lambda corpus: corpus.explain(url, key=key),
            lambda client: client.explain(url, key=key),
        )
        return found

    def _read_page(
        self,
        url: str,
        key: str | None,
        local_call: Callable[[Corpus], Any],
        remote_call: Callable[[AsyncClient], Awaitable[Any]],
    ) -> Any:
        """Return what the owner of a page's partition answers, or a standby; None if not a URL.

        Parameters
        ----------
        url, key
            URL and key of the page.
        local_call
            Function that makes the call with a corpus of this process.
        remote_call
            Function that makes it with a client of another worker.
        """
        named = as_array([url]), None if key is None else [key]
        partition = self._partitions(*named)
        if partition[0] < 0:
            return None
        try:
            return self._read_page_in(self.local, partition, local_call, remote_call)
        except PageElsewhere:
            parts = self._parts(*named)
            return self._read_page_in(self._local_parts, parts, local_call, remote_call)

    def _read_page_in(
        self,
        local: Corpus,
        partition: Rows,
        local_call: Callable[[Corpus], Any],
        remote_call: Callable[[AsyncClient], Awaitable[Any]],
    ) -> Any:
        """Return what the owner of a partition answers about a page, or a standby of it."""
        in_parts = local.is_for_parts
        found: SplitResult[Any] = self._split_calls.run(
            partition,
            lambda _: local_call(local),
            lambda client, _: remote_call(client),
            in_parts=in_parts,
        )
        if found.parts:
            page = found.parts[0][1]
        else:
            page = self._ask_standby(
                int(partition[0]), lambda: local_call(local), remote_call, in_parts=in_parts
            )
        if isinstance(page, PageElsewhere):
            raise page
        return page

    def history(
        self,
        url: str,
        *,
        with_beliefs: bool = True,
        key: str | None = None,
        n_records_max: int | None = None,
    ) -> PageHistory | None:
        """Return the fetches, signals and orders of a page from the log; None if not tracked."""
        options: dict[str, Any] = {
            "with_beliefs": with_beliefs,
            "key": key,
            "n_records_max": n_records_max,
        }
        found: PageHistory | ServiceDetails | None = self._read_page(
            url,
            key,
            lambda corpus: corpus.history(url, **options),
            lambda client: client.history(url, **options),
        )
        if isinstance(found, ServiceDetails):
            return PageHistory.from_dict(found.as_dict())
        return found

    def last_change(self, url: str, *, key: str | None = None) -> LastChange | None:
        """Return the last change of a page and its passages, as far as the feed has it."""
        found: LastChange | None = self._read_page(
            url,
            key,
            lambda corpus: corpus.last_change(url, key=key),
            lambda client: client.last_change(url, key=key),
        )
        return found

    def fetch_now(self, urls: Urls, *, key: Any = None) -> CountedRows:
        """Have pages fetched as soon as possible, as if they had certainly changed."""
        given = one_array(urls)
        columns = Columns(len(given), key=key)
        found = self._run_by_url(
            self._partitions(given, key),
            lambda rows: (take_rows(given, rows), columns.take(rows).get("key")),
            lambda corpus, rows, _: corpus.fetch_now(take_rows(given, rows), **columns.take(rows)),
            lambda client, rows: client.fetch_now(take_rows(given, rows), **columns.take(rows)),
        )
        return count_rows(found, len(given))

    def _ask_standby(
        self,
        partition: int,
        local_call: Callable[[], Any],
        remote_call: Callable[[AsyncClient], Awaitable[Any]],
        *,
        in_parts: bool = False,
    ) -> Any:
        """Return what a standby of a partition answers; raise `PartitionAway` if none does."""
        if partition in self.local.standby_lags():
            return local_call()
        for worker in self._split_calls.owners.standbys_of(partition):
            if worker.worker == self._split_calls.owners.worker:
                continue
            try:
                call = self._calls.call(worker, remote_call, in_parts=in_parts)
                return self._calls.run(call).result()
            except ServiceError:
                continue
        raise PartitionAway(partition)

    def similar_urls(self, url: str) -> list[str]:
        """Return up to three URLs of tracked pages of this process that are spelled much alike."""
        return self.local.similar_urls(url)

    # ------------------------------------------------------------------ hosts

    def hosts(self) -> HostTable:
        """Return the hosts with the most pages, of all partitions within reach."""
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.hosts(),
            lambda client, _: client.hosts(),
        )
        return merge_host_tables([part for _, part in found.parts])

    def pages_of_host(
        self,
        host: str,
        *,
        prefix: str = "",
        cursor: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int = 100,
    ) -> PageRows:
        """Return some pages of a host, and the cursor to continue with.

        Raises
        ------
        PartitionAway
            If the partition of the cursor cannot be reached now; the cursor stays valid.
        """
        partition = self._of_host(host)
        if cursor is not None:
            generation = self.local.format.generation
            partition[0], _ = parse_page_cursor(cursor, self._n_partitions, generation)
        options: dict[str, Any] = {
            "prefix": prefix,
            "cursor": cursor,
            "columns": columns,
            "limit": limit,
        }
        found = self._split_calls.run(
            partition,
            lambda _: self.local.pages_of_host(host, **options),
            lambda client, _: client.pages_of_host(host, **options),
        )
        rows: PageRows = only_result(found, partition)
        return rows

    def host(self, host: str) -> HostView:
        """Return how a host (or domain or key, as pages are grouped) is fetched from.

        If the owner cannot be reached, a standby answers and says how far it may be behind.  The
        number of pages of a split host is that of the partitions within reach.
        """
        partition = self._of_host(host)
        found = self._split_calls.run(
            partition,
            lambda _: self.local.host(host),
            lambda client, _: client.host(host),
        )
        view: HostView
        if found.parts:
            view = found.parts[0][1]
        else:
            view = self._ask_standby(
                int(partition[0]),
                lambda: self.local.host(host),
                lambda client: client.host(host),
            )
        return self._with_pages_of_parts(view) if view.is_split else view

    def _with_pages_of_parts(self, view: HostView) -> HostView:
        """Return how a split host is fetched from, with the pages of workers without its home."""
        found, _ = self._run_in_parts(
            view.host,
            lambda corpus: corpus.host(view.host),
            lambda client: client.host(view.host),
        )
        return view._replace(n_pages=view.n_pages + sum(one.n_pages for one in found))

    def _run_in_parts(
        self,
        host: str,
        local_call: Callable[[Corpus], Any],
        remote_call: Callable[[AsyncClient], Awaitable[Any]],
    ) -> tuple[list[Any], list[int]]:
        """Make a call about a split host to all workers that have parts of it, but not its home.

        Returns their results, and the partitions that cannot be reached now.
        """
        partition = np.array(partitions_of_host(host, self._n_partitions))  # the home first
        owners, away = self._split_calls.split(partition)
        others = [one.rows for one in owners if 0 not in one.rows]
        if not others:
            return [], partition[away].tolist()
        asked = np.concatenate(others)
        try:
            found: SplitResult[Any] = self._split_calls.run(
                partition[asked],
                lambda _: local_call(self._local_parts),
                lambda client, _: remote_call(client),
                in_parts=True,
            )
        except RecrawlError as error:
            logger.warning("the parts of a split host cannot be reached: %s", error)
            return [], partition[np.union1d(away, asked)].tolist()
        away = np.union1d(away, asked[found.away])
        return [one for _, one in found.parts], partition[away].tolist()

    def set_host(self, host: str, **settings: Any) -> None:
        """Set how often a host (or the domain or key that pages are grouped by) is fetched from."""
        partition = self._of_host(host)
        found = self._split_calls.run(
            partition,
            lambda _: self.local.set_host(host, **settings),
            lambda client, _: client.set_host(host, **settings),
        )
        only_result(found, partition)
        # All else goes to the parts with the grants of the home partition.
        if "blocked_until_ms" in settings and self.host(host).is_split:
            _, away = self._run_in_parts(
                canonical_host(host, self._by),
                lambda corpus: corpus.set_host(host, **settings),
                lambda client: client.set_host(host, **settings),
            )
            if away:
                some = ", ".join(map(str, away[:20]))
                raise ServiceUnavailable(
                    f"the host is split, and its parts in the partitions {some} cannot be reached "
                    "now: it is blocked only in the others; send the request again"
                )

    def note_robots(self, notes: Iterable[RobotsNote]) -> None:
        """Keep what robots.txt files say at this worker; `robots` asks all of them."""
        self.local.note_robots(notes)

    def robots(self, hosts: Sequence[str]) -> dict[str, list[RobotsNote]]:
        """Return what robots.txt files of hosts say, as far as fetchers have told any worker."""
        # This worker has notes also while it has no partitions.
        found = self._split_calls.run(
            self._all(),
            lambda _: {},
            lambda client, _: client.robots(hosts),
        )
        others: list[dict[str, list[RobotsNote]]] = [part for _, part in found.parts]
        return merge_robots_notes([self.local.robots(hosts), *others])

    def n_pages_of_host(self, host: str) -> int:
        """Return the number of tracked pages of a host (or domain or key, as pages are grouped)."""
        return self.host(host).n_pages

    # ------------------------------------------------------------------ orders

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
        """Return up to ``n`` pages that are most worth fetching now, of all workers."""
        (found,) = self.lease_each(
            [n],
            requests=[request],
            seconds=seconds,
            exact=exact,
            run=run,
            with_shortfall=with_shortfall,
        )
        if isinstance(found, Exception):
            raise found
        return found

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
        """Lease for several callers at once."""
        return self._leases.lease_each(
            counts,
            [None] * len(counts) if requests is None else requests,
            seconds=seconds,
            exact=exact,
            run=run,
            with_shortfall=with_shortfall,
        )

    def wait_seconds(self) -> float:
        """Return the seconds to wait before the next `lease` after one that returned nothing."""
        return self.local.wait_seconds()

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
        """Return an order for each URL that may be fetched now, or the reason why it may not."""
        urls = one_array(urls)
        columns = Columns(len(urls), key=key)
        order: list[Order | None] = [None] * len(urls)
        why = np.full(len(urls), _AWAY, np.uint8)
        wait = np.full(len(urls), np.inf)
        partition = self._partitions(urls, key)
        options: dict[str, Any] = {"add": add, "seconds": seconds, "run": run}
        for batch, own in self._batches(urls, key, request):

            def lease_here(
                corpus: Corpus, rows: Rows, own: RequestKey | None, batch: Rows = batch
            ) -> LeasedUrls:
                some = batch[rows]
                return corpus.lease_urls(
                    take_rows(urls, some), request=own, **columns.take(some), **options
                )

            def lease_there(client: AsyncClient, rows: Rows, batch: Rows = batch) -> Any:
                some = batch[rows]
                return client.lease_urls(take_rows(urls, some), **columns.take(some), **options)

            names_of = self._names_of(urls, columns, batch)
            found = self._run_by_url(partition[batch], names_of, lease_here, lease_there, own)
            for rows, part in found.parts:
                for row, one in zip(batch[rows].tolist(), part.order, strict=True):
                    order[row] = one
                why[batch[rows]], wait[batch[rows]] = part.why, part.seconds
        wait[why == _AWAY] = np.inf
        return LeasedUrls(urls, order, why, wait)

    def extend(self, handles: Sequence[int], *, seconds: float) -> CountedRows:
        """Hold orders until ``seconds`` from now; return the number that were still held."""
        handle = np.asarray(handles, np.int64).reshape(-1)
        found = self._split_calls.run(
            self._of_handles(handle),
            lambda rows: self.local.extend(handle[rows].tolist(), seconds=seconds),
            lambda client, rows: client.extend(handle[rows].tolist(), seconds=seconds),
        )
        return count_rows(found, handle.size)

    def release(self, handles: Sequence[int]) -> CountedRows:
        """Give back orders that were not fetched; return the number that were still held."""
        handle = np.asarray(handles, np.int64).reshape(-1)
        found = self._split_calls.run(
            self._of_handles(handle),
            lambda rows: self.local.release(handle[rows].tolist()),
            lambda client, rows: client.release(handle[rows].tolist()),
        )
        return count_rows(found, handle.size)

    def _of_handles(self, handle: Rows) -> Rows:
        handle = self.local.old_handles.translate(handle)
        partition = partition_of(handle, self.local.format.generation)
        return np.where(partition < self._n_partitions, partition, -1)

    def report(self, outcomes: Any) -> Reported:
        """Report what fetches found, leased or not.  A second report of an order does not count."""
        if isinstance(outcomes, pa.RecordBatch):
            outcomes = pa.Table.from_batches([outcomes])
        if isinstance(outcomes, Outcome):
            outcomes = [outcomes]
        if not isinstance(outcomes, pa.Table):
            outcomes = list(outcomes)
        n_rows = len(outcomes)
        partition = self._of_outcomes(outcomes)
        found = self._run_by_url(
            partition,
            lambda rows: self._urls_and_keys(outcomes, rows),
            lambda corpus, rows, _: corpus.report(take_outcomes(outcomes, rows)),
            lambda client, rows: client.report(take_outcomes(outcomes, rows)),
        )
        if len(found.parts) == 1 and not found.away.size:
            reported: Reported = found.parts[0][1]
            return reported
        flags: dict[str, Any] = {
            name: np.zeros(n_rows, kind)
            for name, kind in (
                ("counted", np.bool_),
                ("transition", np.uint8),
                ("has_dropped", np.bool_),
                ("wrong_answer", np.uint8),
                ("is_known", np.bool_),
                ("is_unavailable", np.bool_),
            )
        }
        for rows, part in found.parts:
            for name, column in flags.items():
                column[rows] = getattr(part, name)
        flags["is_unavailable"][found.away] = True
        return Reported(**flags)

    def _of_outcomes(self, outcomes: "list[Outcome] | pa.Table") -> Rows:
        """Return the partition of each outcome, by its order or by its URL."""
        n_rows = len(outcomes)
        if isinstance(outcomes, list):
            handle = np.array([one.handle for one in outcomes], np.int64)
        elif "handle" in outcomes.schema.names:
            handle = outcomes.column("handle").fill_null(0).to_numpy().astype(np.int64)
        else:
            handle = np.zeros(n_rows, np.int64)
        partition = self._of_handles(handle)
        named = np.flatnonzero(handle == 0)
        if named.size:
            partition[named] = self._partitions(*self._urls_and_keys(outcomes, named))
        return partition

    def _urls_and_keys(self, outcomes: "list[Outcome] | pa.Table", rows: Rows) -> tuple[Any, Any]:
        urls, keys = names_of_outcomes(outcomes, rows)
        return urls, keys if self._by == "key" else None

    # ------------------------------------------------------------------ signals and requests

    def _batches(
        self, urls: pa.Array, key: Any, request: RequestKey | None
    ) -> Iterator[tuple[Rows, RequestKey | None]]:
        """Yield the rows of batches that are the same whoever owns them, each with its key."""
        n_bytes = pc.binary_length(urls).fill_null(0).to_numpy(zero_copy_only=False)
        if key is not None:
            texts = [key] * len(urls) if isinstance(key, str) else plain_list(key)
            n_bytes = n_bytes + np.array([len((one or "").encode()) for one in texts], np.int64)
        number = 0
        for first, end in batch_ranges(n_bytes):
            for start in range(first, end, _ROWS_PER_BATCH):
                rows = np.arange(start, min(start + _ROWS_PER_BATCH, end), dtype=np.int64)
                own = request
                if request is not None and number:
                    own = request._replace(key=request.key + b" batch %d" % number)
                yield rows, own
                number += 1

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
        """Signal that pages may have changed; return the number of signals that counted."""
        urls = one_array(urls)
        columns = Columns(len(urls), at_ms=at_ms, claimed_at_ms=claimed_at_ms, key=key)
        status = np.full(len(urls), _UNAVAILABLE, np.uint8)
        partition = self._partitions(urls, key)
        for batch, own in self._batches(urls, key, request):

            def signal_here(
                corpus: Corpus, rows: Rows, own: RequestKey | None, batch: Rows = batch
            ) -> Signalled:
                some = batch[rows]
                return corpus.signal(
                    take_rows(urls, some), source=source, request=own, **columns.take(some)
                )

            def signal_there(client: AsyncClient, rows: Rows, batch: Rows = batch) -> Any:
                some = batch[rows]
                return client.signal(take_rows(urls, some), source=source, **columns.take(some))

            names_of = self._names_of(urls, columns, batch)
            found = self._run_by_url(partition[batch], names_of, signal_here, signal_there, own)
            status[batch] = status_of_rows(found, batch.size)
        is_unknown = np.isin(status, (RowStatus.UNKNOWN, RowStatus.REFUSED))
        return Signalled(
            int(np.count_nonzero(status == RowStatus.DONE)),
            n_unknown=int(np.count_nonzero(is_unknown)),
            rows=status,
        )

    def requests(
        self,
        urls: Urls,
        n_requests: Any = 1,
        *,
        at_ms: Any = 0,
        key: Any = None,
        request: RequestKey | None = None,
    ) -> CountedRows:
        """Report how often users requested pages; requested pages become more important."""
        urls = one_array(urls)
        columns = Columns(len(urls), n_requests=n_requests, at_ms=at_ms, key=key)
        status = np.full(len(urls), _UNAVAILABLE, np.uint8)
        partition = self._partitions(urls, key)
        for batch, own in self._batches(urls, key, request):

            def count_here(
                corpus: Corpus, rows: Rows, own: RequestKey | None, batch: Rows = batch
            ) -> CountedRows:
                some = batch[rows]
                return corpus.requests(take_rows(urls, some), request=own, **columns.take(some))

            def count_there(client: AsyncClient, rows: Rows, batch: Rows = batch) -> Any:
                some = batch[rows]
                return client.requests(take_rows(urls, some), **columns.take(some))

            names_of = self._names_of(urls, columns, batch)
            found = self._run_by_url(partition[batch], names_of, count_here, count_there, own)
            status[batch] = status_of_rows(found, batch.size)
        return CountedRows(int(np.count_nonzero(status == RowStatus.DONE)), rows=status)

    # ------------------------------------------------------------------ reading

    def stats(self) -> Stats:
        """Return counts, budget, price and estimated freshness of all partitions within reach."""
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.stats(),
            lambda client, _: client.stats(),
        )
        if not found.parts:
            raise ServiceUnavailable("no partition of the corpus can be reached now")
        return merge_stats(
            [(rows.size, part) for rows, part in found.parts],
            cost_per_fetch=self.config.budget.cost_per_fetch,
            n_away=found.away.size,
        )

    def sample(self) -> Sample:
        """Return the present state of all partitions within reach; see `Corpus.sample`."""
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.sample(),
            lambda client, _: client.sample(),
        )
        if not found.parts:
            raise ServiceUnavailable("no partition of the corpus can be reached now")
        return merge_samples([part for _, part in found.parts], n_away=found.away.size)

    def overview_part(self, n_changes: int, *, n_due: float | None = None) -> OverviewPart:
        """Return the latest changes and the problems of all workers within reach."""
        found: SplitResult[OverviewPart] = self._split_calls.run(
            self._all(),
            lambda _: read_overview_part(self.local, n_changes, n_due),
            lambda client, _: client.overview_part(n_changes, n_due=n_due),
        )
        parts = [(self._worker_of(rows), part) for rows, part in found.parts]
        away = [self._worker_of(found.away[[i]]) for i in range(found.away.size)]
        return merge_overview_parts(parts, n_changes, [name for name in away if name])

    def _worker_of(self, partitions: Rows) -> str:
        """Return the name of the worker that has some partitions; empty if nobody has them."""
        number = int(partitions[0])
        if number in self.local.nodes:
            return self._calls.sender
        owner = self._split_calls.owners.owner_of(number)
        return "" if owner is None else owner.worker

    def samples(
        self,
        *,
        step: str = "minute",
        since_ms: int | None = None,
        until_ms: int | None = None,
        host: str | None = None,
        kind: str | None = None,
    ) -> Samples:
        """Return figures over time of all partitions within reach; see `Corpus.samples`."""
        span: dict[str, Any] = {"step": step, "since_ms": since_ms, "until_ms": until_ms}
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.samples(**span, host=host, kind=kind),
            lambda client, _: client.samples(**span, host=host, kind=kind),
        )
        parts = [part for _, part in found.parts]
        return merge_series(parts, step=step, n_away=found.away.size)

    def source_samples(
        self,
        source: str,
        host: str,
        *,
        step: str = "minute",
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> SourceSamples:
        """Return what was known of a source over time; see `Corpus.source_samples`."""
        span: dict[str, Any] = {"step": step, "since_ms": since_ms, "until_ms": until_ms}
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.source_samples(source, host, **span),
            lambda client, _: client.source_samples(source, host, **span),
        )
        return merge_source_series([part for _, part in found.parts], step=step)

    def sources(self) -> SourceTable:
        """Return the sources of signals, and how reliable and how late each is on each host."""
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.sources(),
            lambda client, _: client.sources(),
        )
        return merge_source_tables([part for _, part in found.parts])

    def audited_freshness(self) -> AuditTable:
        """Return audited and modelled freshness of all partitions within reach."""
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.audited_freshness(),
            lambda client, _: client.audited_freshness(),
        )
        return merge_audit_tables([part for _, part in found.parts])

    def changes(
        self, after: str | None = None, *, consumer: str | None = None, limit: int = 1_000
    ) -> list[PageChange]:
        """Return the new, changed and gone pages after a cursor, oldest first.

        The cursor keeps its place in partitions that cannot be reached now.

        Raises
        ------
        ChangesLost
            If the feed no longer has all changes after the consumer's place.
        ServiceUnavailable
            If the place of a consumer cannot be read now, because a partition is away.
        """
        if consumer is None:
            place = self._place_in_feed(after)
        elif after is not None:
            raise ValueError("changes takes either a cursor or a consumer")
        else:
            place = self._place_of_consumer(consumer)
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.changes(place, limit=limit),
            lambda client, _: client.changes(place, limit=limit),
        )
        parts = [ChangesOfWorker(rows.tolist(), part) for rows, part in found.parts]
        return merge_changes(place, parts, limit)

    def _place_in_feed(self, after: str | None) -> str:
        """Return a cursor of the present partitions.

        One from before their number was changed leads to the oldest change here: only the owner of
        a partition knows where it leads to there.
        """
        generation = self.local.format.generation
        if is_from_before(after, generation):
            after = None
        return str(CorpusCursor.parse(after, self._n_partitions, generation))

    def _place_of_consumer(self, name: str) -> str:
        check_consumer_name(name)
        known = {one.name: one for one in self.consumers()}.get(name)
        if known is None:
            return self._place_in_feed(None)
        if known.problem is not None:
            raise ChangesLost(known.problem)
        return known.cursor

    def commit_changes(self, consumer: str, cursor: str, *, rewind: bool = False) -> str:
        """Record durably that a consumer has processed all changes up to a cursor.

        The owner of each partition logs the place in it.  Returns the cursor that holds now.

        Raises
        ------
        ServiceUnavailable
            If some partitions are away: the place holds in the others.  Commit again.
        """
        check_consumer_name(consumer)
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.commit_changes(consumer, cursor, rewind=rewind),
            lambda client, _: client.commit_changes(consumer, cursor, rewind=rewind),
        )
        _check_none_away(found, "the place was committed in the others only")
        parts = ((rows.tolist(), part) for rows, part in found.parts)
        return merge_cursors(self._place_in_feed(None), parts)

    def consumers(self) -> list[Consumer]:
        """Return the consumers of the change feed, and how far behind each is.

        Raises
        ------
        ServiceUnavailable
            If some partitions are away, whose places are not known.
        """
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.consumers(),
            lambda client, _: client.consumers(),
        )
        _check_none_away(found, "so the places of consumers are not known")
        parts = [(rows.tolist(), part) for rows, part in found.parts]
        return merge_consumers(self._place_in_feed(None), parts)

    def remove_consumer(self, consumer: str) -> bool:
        """Remove a consumer of the change feed; return whether it existed."""
        check_consumer_name(consumer)
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.remove_consumer(consumer),
            lambda client, _: client.remove_consumer(consumer),
        )
        _check_none_away(found, "the consumer was removed from the others only")
        return any(part for _, part in found.parts)

    def pages_after(
        self,
        cursor: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int = 1_000,
    ) -> PageRows:
        """Return some pages after a cursor, and the cursor to continue with.

        Raises
        ------
        PartitionAway
            If the partition of the cursor cannot be reached now; the cursor stays valid.
        """
        generation = self.local.format.generation
        start, slot = parse_page_cursor(cursor, self._n_partitions, generation)
        for i in range(start, self._n_partitions):
            found = self._list_pages(i, page_cursor(i, slot, generation), columns, limit)
            if not found.parts:
                raise PartitionAway(i)
            batch, following = found.parts[0][1]
            slot = 0
            if batch.num_rows:
                if following is None and i + 1 < self._n_partitions:
                    following = page_cursor(i + 1, 0, generation)
                return PageRows(batch, following)
        return PageRows(batch, None)

    def _list_pages(
        self, partition: int, cursor: str, columns: Sequence[str] | None, limit: int
    ) -> SplitResult[PageRows]:
        """List pages of one partition alone: a worker would go on with the next one it has."""
        return self._split_calls.run(
            np.array([partition]),
            lambda _: self._local_parts.pages_after(cursor, columns=columns, limit=limit),
            lambda client, _: client.pages_after(cursor, columns=columns, limit=limit),
            in_parts=True,
        )

    # ------------------------------------------------------------------ turns at hosts

    def is_turn_here(self, host: str) -> bool:
        """Return whether this process grants the turns at a host."""
        return partition_of_key(host, self._n_partitions) in self.local.nodes

    def take_turns(
        self,
        *,
        begin: Mapping[str, str],
        renew: Mapping[str, str],
        end: Sequence[TurnEnd],
    ) -> TurnsAnswer:
        """Take turns at hosts of which other workers grant them, see `AsyncClient.take_turns`.

        A turn of which the owner cannot be reached is not granted, and one that cannot be renewed
        is lost.
        """
        turns = [*begin, *renew, *(one.turn for one in end)]
        hosts = [*begin.values(), *renew.values(), *(one.host for one in end)]
        partition = np.array([partition_of_key(host, self._n_partitions) for host in hosts])
        n_begun, n_renewed = len(begin), len(begin) + len(renew)

        def take(client: AsyncClient, rows: Rows) -> Any:
            some = rows.tolist()
            return client.take_turns(
                begin={turns[row]: hosts[row] for row in some if row < n_begun},
                renew={turns[row]: hosts[row] for row in some if n_begun <= row < n_renewed},
                end=[end[row - n_renewed] for row in some if row >= n_renewed],
            )

        def take_none(_: Rows) -> TurnsAnswer:
            return TurnsAnswer({}, {})  # a partition has moved here just now: ask again

        found = self._split_calls.run(partition, take_none, take)
        begun: dict[str, TurnStart] = dict.fromkeys(begin, TurnStart(False, _AWAY_SECONDS))
        renewed: dict[str, float] = {}
        for _, part in found.parts:
            begun |= part.begun
            renewed |= part.renewed
        return TurnsAnswer(begun, renewed)

    # ------------------------------------------------------------------ this process alone

    def now_ms(self) -> int:
        """Return the current time of this worker, in milliseconds since 1970."""
        return self.local.now_ms()

    def metrics(self) -> CorpusMetrics | None:
        """Return figures for monitoring of the partitions of this process: each has its own.

        None if none is open here, as in a worker that has just started.
        """
        try:
            return self.local.metrics()
        except RecrawlError:
            if not self.local.nodes.all:
                return None
            raise

    def cluster_metrics(self) -> ClusterMetrics | None:
        """Return figures of the cluster, as this worker knows them; None while it starts."""
        return self._read_metrics()

    # ------------------------------------------------------------------ budgets

    def plan_targets(
        self,
        targets: Sequence[str | Target] = (),
        *,
        budget_per_hour: float | None = None,
        is_weighted: bool = True,
    ) -> CorpusPlan:
        """Return what budgets buy, by kind of page and host, and what targets cost.

        Each owner sends a sample of its pages, and the plan is made once, of all of them.  It says
        which share of the pages it covers, if some partitions cannot be reached.

        Raises
        ------
        ValueError
            If a target is not understood, or there are too many.
        ServiceUnavailable
            If no partition can be reached.
        """
        wanted = [Target.parse(one) if isinstance(one, str) else one for one in targets]
        check_targets(wanted)
        known = {part.partition: part.n_pages for part in self._pages_for_plan(0)}
        parts = self._pages_for_plan(
            PAGES_PLANNED_MAX, n_pages_total=sum(known.values()), patterns=patterns_of(wanted)
        )
        if not parts:
            raise ServiceUnavailable("no partition of the corpus can be reached now")
        return plan_partitions(
            parts,
            now_ms=self.now_ms(),
            targets=wanted,
            budget_per_hour=budget_per_hour,
            cost_per_fetch=self.config.budget.cost_per_fetch,
            is_weighted=is_weighted,
            hours=window_text(self.config),
            coverage=merge_coverage(parts, known, self._n_partitions),
        )

    def _pages_for_plan(
        self, n_pages_max: int, *, n_pages_total: int | None = None, patterns: Sequence[str] = ()
    ) -> list[PlannedPartition]:
        """Return what a plan needs to know of all partitions within reach, in their order."""
        open_here = self.local.nodes.all
        table = open_here[0].shard.terms.table if open_here else shipped_due_table()

        def read_here(_: Rows) -> list[PlannedPartition]:
            with self.local.nodes.use_all() as nodes:
                return read_nodes(
                    nodes,
                    n_pages_max,
                    n_pages_total=n_pages_total,
                    patterns=patterns,
                    with_names=True,
                )

        found: SplitResult[list[PlannedPartition]] = self._split_calls.run(
            self._all(),
            read_here,
            lambda client, _: client.pages_for_plan(
                n_pages_max, table=table, n_pages_total=n_pages_total, patterns=patterns
            ),
            seconds_max=self._calls.settings.plan_seconds_max if n_pages_max else None,
        )
        # A worker also answers for partitions that it has claimed just now, or is about to lose.
        own = {
            part.partition: part
            for rows, parts in found.parts
            for part in parts
            if part.partition in rows
        }
        return [own[partition] for partition in sorted(own)]

    def set_budget(self, rate: str | None) -> None:
        """Set the budget of all workers together; they agree on it within seconds.

        Parameters
        ----------
        rate
            Fetches or cost per time; None for unlimited.
        """
        given = {"rate": "unlimited" if rate is None else rate}
        event = CorpusConfig.from_dict({"budget": given}).budget_event()
        if isinstance(event, RunBudgetSet):
            raise NotInCluster(
                f"a cluster has no budget per run, got {rate!r}: its workers share a rate, and "
                "cannot divide an amount among partitions before they know which need it.  "
                'Give a rate, such as "500/day"'
            )
        self.local.set_budget(rate)


def _check_none_away(found: SplitResult[Any], what_holds: str) -> None:
    """Raise `ServiceUnavailable` if some partitions cannot be reached now."""
    if found.away.size:
        some = ", ".join(map(str, found.away[:20].tolist()))
        raise ServiceUnavailable(
            f"the partitions {some} cannot be reached now, {what_holds}; send the request again"
        )
