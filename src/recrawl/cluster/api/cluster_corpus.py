"""The corpus of a cluster, as each worker serves it: the methods of `Corpus` over all workers.

A `ClusterCorpus` has the partitions that are open in this process, and sends what belongs to other
workers to them.  The service uses it like a `Corpus`; requests that other workers forward go to the
`Corpus` itself, and so are never forwarded again.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recrawl.client import AsyncClient
from recrawl.client.details import ServiceDetails
from recrawl.cluster.api.merged_views import (
    ChangesOfWorker,
    merge_changes,
    merge_source_tables,
    merge_stats,
)
from recrawl.cluster.api.owners import Owners
from recrawl.cluster.api.row_parts import (
    Columns,
    Rows,
    count_everywhere,
    count_rows,
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
    Reported,
    RequestKey,
    RowStatus,
    Signalled,
)
from recrawl.corpus.inspect.change_feed import CorpusCursor, is_from_before
from recrawl.corpus.inspect.page_table import page_cursor, parse_page_cursor
from recrawl.errors import (
    NotInCluster,
    PartitionAway,
    RecrawlError,
    ServiceError,
    ServiceUnavailable,
)
from recrawl.messages.cluster_metrics import ClusterMetrics
from recrawl.messages.enums import Why
from recrawl.messages.leases import WHYS
from recrawl.messages.turns import TurnEnd, TurnsAnswer, TurnStart
from recrawl.messages.views import HostView, PageChange, PageRows, SourceTable, Stats
from recrawl.node.orders import Order, partition_of
from recrawl.node.routing import (
    Urls,
    as_array,
    batch_ranges,
    canonical_host,
    partition_of_key,
    partitions_of,
    split_by_partition,
)
from recrawl.shard import RunBudgetSet
from recrawl.urls import page_names

__all__ = ["ClusterCorpus"]

# A request with a key is split into these batches whoever owns the rows, and each is one record in
# the log of each partition.  So a repeated request finds the records of the first one.
_ROWS_PER_BATCH: Final = 8_192
_UNAVAILABLE: Final = int(RowStatus.UNAVAILABLE)
_AWAY: Final = WHYS.index(Why.UNAVAILABLE)
_AWAY_SECONDS: Final = 1.0
_NO_CONSUMERS: Final = (
    "a cluster keeps no places of consumers; keep the cursor of the last change yourself"
)


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
        self._read_metrics = read_metrics
        self.config = local.config
        self.folder = local.folder
        self._split_calls = SplitCalls(local, owners, calls)
        self._calls = calls
        self._leases = SharedLeases(self._split_calls, self.release)
        self._n_partitions = local.nodes.n_partitions
        self._by = local.config.corpus.group_by

    def close(self) -> None:
        """Close the connections to other workers, then the partitions of this process."""
        self._calls.close()
        self._leases.close()
        self.local.close()

    # ------------------------------------------------------------------ where rows are

    def _partitions(self, urls: Any, key: Any) -> Rows:
        """Return the partition of each URL; -1 for one that is not valid."""
        partition = np.full(len(urls), -1, np.int64)
        for batch in split_by_partition(urls, self._n_partitions, self._by, key=key):
            partition[batch.rows] = batch.partition
        return partition

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
        found = self._split_calls.run(
            self._partitions(urls, key),
            lambda rows: self.local.add(take_rows(urls, rows), **columns.take(rows)),
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
            found = self._split_calls.run(
                self._all(),
                lambda _: self.local.remove(urls, pattern=pattern, key=key),
                lambda client, _: client.remove(urls, pattern=pattern, key=key),
            )
            return count_everywhere(found)
        given = one_array(urls)
        columns = Columns(len(given), key=key)
        found = self._split_calls.run(
            self._partitions(given, key),
            lambda rows: self.local.remove(take_rows(given, rows), **columns.take(rows)),
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
            found = self._split_calls.run(
                self._all(),
                lambda _: self.local.set(urls, pattern=pattern, key=key, **settings),
                lambda client, _: client.set(urls, pattern=pattern, key=key, **settings),
            )
            return count_everywhere(found)
        given = one_array(urls)
        columns = Columns(len(given), key=key)
        found = self._split_calls.run(
            self._partitions(given, key),
            lambda rows: self.local.set(take_rows(given, rows), **columns.take(rows), **settings),
            lambda client, rows: client.set(
                take_rows(given, rows), **columns.take(rows), **settings
            ),
        )
        return count_rows(found, len(given))

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
        found = self._split_calls.run(
            self._partitions(urls, key),
            lambda rows: self.local.set_each(take_rows(urls, rows), **columns.take(rows)),
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
        partition = self._partitions(as_array([url]), None if key is None else [key])
        if partition[0] < 0:
            return None
        found: SplitResult[Any] = self._split_calls.run(
            partition,
            lambda _: self.local.explain(url, key=key),
            lambda client, _: client.explain(url, key=key),
        )
        page: PageExplanation | ServiceDetails | None
        if found.parts:
            page = found.parts[0][1]
            return page
        page = self._ask_standby(
            int(partition[0]),
            lambda: self.local.explain(url, key=key),
            lambda client: client.explain(url, key=key),
        )
        return page

    def _ask_standby(
        self,
        partition: int,
        local_call: Callable[[], Any],
        remote_call: Callable[[AsyncClient], Awaitable[Any]],
    ) -> Any:
        """Return what a standby of a partition answers; raise `PartitionAway` if none does."""
        if partition in self.local.standby_lags():
            return local_call()
        for worker in self._split_calls.owners.standbys_of(partition):
            if worker.worker == self._split_calls.owners.worker:
                continue
            try:
                return self._calls.run(self._calls.call(worker, remote_call)).result()
            except ServiceError:
                continue
        raise PartitionAway(partition)

    def similar_urls(self, url: str) -> list[str]:
        """Return up to three URLs of tracked pages of this process that are spelled much alike."""
        return self.local.similar_urls(url)

    # ------------------------------------------------------------------ hosts

    def host(self, host: str) -> HostView:
        """Return how a host (or domain or key, as pages are grouped) is fetched from.

        If the owner cannot be reached, a standby answers and says how far it may be behind.
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
        return view

    def set_host(self, host: str, **settings: Any) -> None:
        """Set how often a host (or the domain or key that pages are grouped by) is fetched from."""
        partition = self._of_host(host)
        found = self._split_calls.run(
            partition,
            lambda _: self.local.set_host(host, **settings),
            lambda client, _: client.set_host(host, **settings),
        )
        only_result(found, partition)

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
                rows: Rows, batch: Rows = batch, own: RequestKey | None = own
            ) -> LeasedUrls:
                some = batch[rows]
                return self.local.lease_urls(
                    take_rows(urls, some), request=own, **columns.take(some), **options
                )

            def lease_there(client: AsyncClient, rows: Rows, batch: Rows = batch) -> Any:
                some = batch[rows]
                return client.lease_urls(take_rows(urls, some), **columns.take(some), **options)

            found = self._split_calls.run(partition[batch], lease_here, lease_there, request=own)
            for rows, part in found.parts:
                for row, one in zip(batch[rows].tolist(), part.order, strict=True):
                    order[row] = one
                why[batch[rows]], wait[batch[rows]] = part.why, part.seconds
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
        found = self._split_calls.run(
            partition,
            lambda rows: self.local.report(take_outcomes(outcomes, rows)),
            lambda client, rows: client.report(take_outcomes(outcomes, rows)),
        )
        if len(found.parts) == 1 and not found.away.size:
            return found.parts[0][1]
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
            urls, keys = names_of_outcomes(outcomes, named)
            partition[named] = self._partitions(urls, keys if self._by == "key" else None)
        return partition

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
                rows: Rows, batch: Rows = batch, own: RequestKey | None = own
            ) -> Signalled:
                some = batch[rows]
                return self.local.signal(
                    take_rows(urls, some), source=source, request=own, **columns.take(some)
                )

            def signal_there(client: AsyncClient, rows: Rows, batch: Rows = batch) -> Any:
                some = batch[rows]
                return client.signal(take_rows(urls, some), source=source, **columns.take(some))

            found = self._split_calls.run(partition[batch], signal_here, signal_there, request=own)
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
                rows: Rows, batch: Rows = batch, own: RequestKey | None = own
            ) -> CountedRows:
                some = batch[rows]
                return self.local.requests(take_rows(urls, some), request=own, **columns.take(some))

            def count_there(client: AsyncClient, rows: Rows, batch: Rows = batch) -> Any:
                some = batch[rows]
                return client.requests(take_rows(urls, some), **columns.take(some))

            found = self._split_calls.run(partition[batch], count_here, count_there, request=own)
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

    def sources(self) -> SourceTable:
        """Return the sources of signals, and how reliable and how late each is on each host."""
        found = self._split_calls.run(
            self._all(),
            lambda _: self.local.sources(),
            lambda client, _: client.sources(),
        )
        return merge_source_tables([part for _, part in found.parts])

    def changes(
        self, after: str | None = None, *, consumer: str | None = None, limit: int = 1_000
    ) -> list[PageChange]:
        """Return the new, changed and gone pages after a cursor, oldest first.

        The cursor keeps its place in partitions that cannot be reached now.
        """
        if consumer is not None:
            raise NotInCluster(_NO_CONSUMERS)
        place = self._place_in_feed(after)
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
        # The name of a page tells its partition: a worker goes on with the next one that it has.
        named = None if columns is None else list(dict.fromkeys((*columns, "url", "key")))
        for i in range(start, self._n_partitions):
            found = self._list_pages(i, page_cursor(i, slot, generation), named, limit)
            if not found.parts:
                raise PartitionAway(i)
            batch, following = found.parts[0][1]
            slot = 0
            if batch.num_rows and self._partition_of_row(batch) == i:
                is_same = following is not None and (
                    parse_page_cursor(following, self._n_partitions, generation)[0] == i
                )
                if not is_same:
                    is_last = i + 1 == self._n_partitions
                    following = None if is_last else page_cursor(i + 1, 0, generation)
                return PageRows(batch if columns is None else batch.select(columns), following)
        nothing = batch.slice(0, 0)
        return PageRows(nothing if columns is None else nothing.select(columns), None)

    def _list_pages(
        self, partition: int, cursor: str, columns: Sequence[str] | None, limit: int
    ) -> SplitResult[PageRows]:
        return self._split_calls.run(
            np.array([partition]),
            lambda _: self.local.pages_after(cursor, columns=columns, limit=limit),
            lambda client, _: client.pages_after(cursor, columns=columns, limit=limit),
        )

    def _partition_of_row(self, batch: pa.RecordBatch) -> int:
        """Return the partition of the first page of a batch."""
        url = batch.column("url").slice(0, 1).cast(pa.string())
        key = batch.column("key").slice(0, 1).cast(pa.string())
        name = page_names(key if self._by == "key" else None, url)
        return int(partitions_of(name, self._n_partitions, self._by)[0])

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

    # ------------------------------------------------------------------ not in a cluster

    def plan_targets(self, *_: Any, **__: Any) -> Any:
        """Raise: the plans of several workers cannot be added up."""
        raise NotInCluster("a cluster makes no plans; open a copy of the corpus for one")

    def consumers(self) -> list[Any]:
        """Return no consumers: a cluster keeps no places in the change feed."""
        return []

    def commit_changes(self, *_: Any, **__: Any) -> Any:
        """Raise: places in the change feed are kept by those who read it."""
        raise NotInCluster(_NO_CONSUMERS)

    remove_consumer = commit_changes

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
            raise NotInCluster("a cluster has no budget per run; give one per hour or day")
        self.local.set_budget(rate)
