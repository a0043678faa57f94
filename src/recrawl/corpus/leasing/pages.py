"""Lease pages of all partitions: those that are most worth fetching, or given ones."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from itertools import accumulate

import pyarrow as pa

from recrawl.corpus.budget_split import BudgetSplit, run_number, todays_run
from recrawl.corpus.leasing.repeated import RequestParts, held_orders
from recrawl.corpus.leasing.shortfall import (
    Orders,
    Shortfall,
    ShortfallReason,
    find_shortfall,
    window_reason,
)
from recrawl.corpus.leasing.small_calls import SmallCalls, SmallLease, Wanted
from recrawl.corpus.leasing.urls import LeasedUrls, lease_urls, refuse_urls
from recrawl.merged_calls import MergedCalls
from recrawl.messages.leases import LEASE_SECONDS_MAX
from recrawl.node.clock import NodeTime
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.node import Node
from recrawl.node.orders import OrderRows, orders_of
from recrawl.node.records import RequestKey
from recrawl.node.routing import UrlBatch
from recrawl.shard.picker.reserve import FEW_ORDERS_MAX

__all__ = ["Leasing", "check_seconds"]

# Number of orders after which no other caller's are decided together with them.
_MERGED_ORDERS_MAX = 1_000


class Leasing:
    """Leases of a corpus.

    Parameters
    ----------
    nodes
        Nodes of all partitions.
    budget_split
        Budget of the corpus, split among them.
    config
        Configuration of the corpus.
    time
        Time of the corpus.
    small_calls
        Queue of small leases and reports.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        budget_split: BudgetSplit,
        config: CorpusConfig,
        time: NodeTime,
        small_calls: SmallCalls,
    ) -> None:
        self._nodes = nodes
        self._budget_split = budget_split
        self._config = config
        self._time = time
        self._next_node = 0
        n_rows_max = min(_MERGED_ORDERS_MAX, nodes[0].shard.settings.orders_max)
        self._small_calls = small_calls
        self._large_calls = MergedCalls(self.lease_all, n_rows_max)

    def run_name(self, run: str | None) -> str:
        """Return the name of the run that pays: the one given, or today's date."""
        return todays_run(self._config, self._time.now_ms()) if run is None else run

    def lease(
        self,
        n: int,
        *,
        seconds: float | None,
        exact: bool,
        run: str | None,
        with_shortfall: bool = True,
        request: RequestKey | None = None,
    ) -> Orders:
        """Return up to ``n`` orders, see `Corpus.lease`.

        Parameters
        ----------
        n
            Largest number of orders.
        seconds
            Length of the leases; the configured length if None.
        exact
            Whether to compare every page.
        run
            Name of the run that pays; today's date if None.
        with_shortfall
            Whether to say why there are fewer than ``n``.
        request
            Key of the request, if it may be repeated.
        """
        check_seconds(seconds)
        closed = window_reason(self._config, self._time.now_ms())
        if closed is not None:
            return Orders((), _shortfall_of(n, closed) if n > 0 else None)
        found = self._find(n, seconds=seconds, exact=exact, run=run, request=request)
        if len(found) >= n or not with_shortfall:
            return Orders(found)
        name = self.run_name(run)
        with self._budget_split.use_run(name):
            shortfall = find_shortfall(
                self._nodes,
                self._config,
                run=name,
                n_requested=n,
                n_leased=len(found),
                now_ms=self._time.now_ms(),
            )
        return Orders(found, shortfall)

    def lease_table(
        self, n: int, *, seconds: float | None, exact: bool, run: str | None
    ) -> pa.Table:
        """Return up to ``n`` orders as an Arrow table, see `Corpus.lease_table`.

        Parameters
        ----------
        n, seconds, exact, run
            Arguments of `lease`.
        """
        check_seconds(seconds)
        if window_reason(self._config, self._time.now_ms()) is not None:
            return OrderRows.none().table()
        return self._find(n, seconds=seconds, exact=exact, run=run).table()

    def _find(
        self,
        n: int,
        *,
        seconds: float | None,
        exact: bool,
        run: str | None,
        request: RequestKey | None = None,
    ) -> OrderRows:
        if run is None and self._budget_split.is_per_run:
            run = self.run_name(None)
        if run is not None:
            run_number(run)  # raises for a name that is not possible
        call = SmallLease(self, Wanted(run, seconds, exact), max(n, 0), request)
        is_small = call.n <= FEW_ORDERS_MAX and not exact and request is None
        calls = self._small_calls if is_small else self._large_calls
        # A request with a key is served alone.
        kind = call.wanted if request is None else object()
        found: OrderRows = calls.call(call, n_rows=call.n, kind=kind)
        return found

    def lease_all(self, calls: Sequence[SmallLease]) -> list[OrderRows]:
        """Lease for several callers at once; those who came first get their orders first."""
        run, seconds, exact = calls[0].wanted
        request = calls[0].request
        parts = RequestParts(self._nodes, request)
        if request is not None:
            held = held_orders(self._nodes, request, self._time.now_ms())
            if held is not None:
                return [held]
        counts = [call.n for call in calls]
        n = sum(counts)
        with nullcontext() if run is None else self._budget_split.use_run(run):
            found = self._from_partitions(n, seconds, exact, parts)
            if len(found) < n and self._budget_split.split_rest():
                found += self._from_partitions(n - len(found), seconds, exact, parts)
        if len(calls) == 1:
            return [found]
        ends = accumulate(counts)
        return [found[end - count : end] for end, count in zip(ends, counts, strict=True)]

    def _from_partitions(
        self, n: int, seconds: float | None, exact: bool, parts: RequestParts
    ) -> OrderRows:
        if len(self._nodes) == 1:
            return self._from_partition(0, n, seconds, exact, parts) if n > 0 else OrderRows.none()
        self._budget_split.rebalance()
        self._next_node = (self._next_node + 1) % len(self._nodes)
        turn = [*range(self._next_node, len(self._nodes)), *range(self._next_node)]
        found = OrderRows.none()
        # First an equal part from each partition, then the rest from those that have more.
        for share in (-(-n // len(turn)), n):
            for i in turn:
                wanted = min(share, n - len(found))
                if wanted > 0:
                    found += self._from_partition(i, wanted, seconds, exact, parts)
        return found

    def _from_partition(
        self, i: int, n: int, seconds: float | None, exact: bool, parts: RequestParts
    ) -> OrderRows:
        node = self._nodes[i]
        ordered = node.order(
            n, self._time, lease_seconds=seconds, exact=exact, request=parts.take(i)
        )
        if ordered.order.size == 0:
            return OrderRows.none()
        is_announced = node.find_announced(ordered.page)
        return orders_of(node.store, i, ordered, is_announced, node.generation)

    def lease_urls(
        self,
        urls: pa.StringArray,
        batches: Iterable[UrlBatch],
        *,
        seconds: float | None,
        run: str | None,
        request: RequestKey | None = None,
    ) -> LeasedUrls:
        """Return an order or a reason for each URL, see `Corpus.lease_urls`.

        Parameters
        ----------
        urls
            URLs as they were given.
        batches
            Valid ones among them, by partition.
        seconds
            Length of the leases; the configured length if None.
        run
            Name of the run that pays; today's date if None.
        request
            Key of the request, if it may be repeated.
        """
        check_seconds(seconds)
        name = self.run_name(run)
        closed = window_reason(self._config, self._time.now_ms())
        if closed is not None:
            return refuse_urls(urls, closed)
        with self._budget_split.use_run(name):
            self._budget_split.rebalance()
            return lease_urls(
                self._nodes,
                batches,
                urls,
                config=self._config,
                time=self._time,
                run=name,
                seconds=seconds,
                parts=RequestParts(self._nodes, request),
            )

    def wait_seconds(self) -> float:
        """Return the seconds until the next lease may return an order, see `Corpus`."""
        wait = min(node.wait_seconds() for node in self._nodes)
        closed = window_reason(self._config, self._time.now_ms())
        return wait if closed is None or closed.seconds is None else max(wait, closed.seconds)


def _shortfall_of(n: int, reason: ShortfallReason) -> Shortfall:
    return Shortfall(n_requested=n, n_leased=0, reasons=(reason,), is_sampled=False)


def check_seconds(seconds: float | None) -> None:
    """Raise ValueError unless a length of leases is possible."""
    if seconds is not None and not 0 < seconds <= LEASE_SECONDS_MAX:
        raise ValueError(f"seconds must be above 0 and at most a year, got {seconds!r}")
