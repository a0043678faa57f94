"""Lease pages of all partitions: those that are most worth fetching, or given ones."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from threading import RLock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.corpus.budget_split import BudgetSplit, run_number, todays_run
from recrawl.corpus.leasing.repeated import RequestParts, held_orders
from recrawl.corpus.leasing.shares import SharedOrders
from recrawl.corpus.leasing.shortfall import (
    Orders,
    Shortfall,
    ShortfallReason,
    find_shortfall,
    window_reason,
)
from recrawl.corpus.leasing.small_calls import LeaseShare, SmallCalls, SmallLease, Wanted
from recrawl.corpus.leasing.together import (
    NodeAnswers,
    first_share,
    order_in_turn,
    order_rows_of,
)
from recrawl.corpus.leasing.urls import LeasedUrls, lease_urls, refuse_urls
from recrawl.errors import RecrawlError, RequestKeyReused
from recrawl.giving_way import LeasesUnderWay
from recrawl.merged_calls import MergedCalls
from recrawl.messages.leases import LEASE_SECONDS_MAX
from recrawl.node.clock import NodeTime
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.open_nodes import NodeBatch, OpenNodes
from recrawl.node.orders import OrderRows
from recrawl.node.records import RequestKey
from recrawl.node.split_hosts.exchange import SplitHosts
from recrawl.one_process import ProcessLock
from recrawl.shard.picker.reserve import FEW_ORDERS_MAX

__all__ = ["Leasing", "check_seconds"]

# Number of orders after which no other caller's are decided together with them.
_MERGED_ORDERS_MAX = 1_000
# Time until the next attempt while no partition is open.
_WAIT_SECONDS = 1.0


class Leasing:
    """Leases of a corpus.

    Parameters
    ----------
    nodes
        Nodes of the open partitions.
    budget_split
        Budget of the corpus, split among them.
    split_hosts
        Hosts whose pages are in several of them.
    config
        Configuration of the corpus.
    time
        Time of the corpus.
    small_calls
        Queue of small leases and reports.
    """

    def __init__(
        self,
        nodes: OpenNodes,
        budget_split: BudgetSplit,
        split_hosts: SplitHosts,
        config: CorpusConfig,
        time: NodeTime,
        small_calls: SmallCalls,
    ) -> None:
        self._nodes = nodes
        self._budget_split = budget_split
        self._split_hosts = split_hosts
        self._config = config
        self._time = time
        self._next_node = 0
        n_rows_max = min(_MERGED_ORDERS_MAX, config.shard_settings().orders_max)
        self._small_calls = small_calls
        self._large_calls = MergedCalls(self.lease_all, n_rows_max)
        # From looking for a key in the log to logging it.
        self._keys_lock = ProcessLock(RLock())
        self.under_way = LeasesUnderWay()
        """Leases that run now."""
        self.asked_at_ms: int | None = None
        """When somebody last asked for pages; None if nobody has."""

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
        (found,) = self.lease_each(
            [LeaseShare(n, request)],
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
        shares: Sequence[LeaseShare],
        *,
        seconds: float | None,
        exact: bool,
        run: str | None,
        with_shortfall: bool = True,
    ) -> list[Orders | Exception]:
        """Return the orders of each caller, or its error; see `Corpus.lease_each`.

        Parameters
        ----------
        shares
            Number of orders and key of each caller.
        seconds, exact, run, with_shortfall
            Arguments of `lease`.
        """
        check_seconds(seconds)
        self.asked_at_ms = now_ms = self._time.now_ms()
        closed = window_reason(self._config, now_ms)
        if closed is not None:
            return [Orders((), _shortfall_of(n, closed) if n > 0 else None) for n, _ in shares]
        found = self._find(shares, seconds=seconds, exact=exact, run=run)
        shortfall: Shortfall | None = None
        each: list[Orders | Exception] = []
        for (n, _), rows in zip(shares, found, strict=True):
            if isinstance(rows, Exception):
                each.append(rows)
            elif len(rows) >= n or not with_shortfall:
                each.append(Orders(rows))
            else:
                shortfall = shortfall or self._find_shortfall(run, n, len(rows))
                own = replace(shortfall, n_requested=n, n_leased=len(rows))
                each.append(Orders(rows, own))
        return each

    def _find_shortfall(self, run: str | None, n: int, n_leased: int) -> Shortfall:
        name = self.run_name(run)
        with self._nodes.use_all(), self._budget_split.use_run(name):
            return find_shortfall(
                self._nodes.all,
                self._config,
                run=name,
                n_requested=n,
                n_leased=n_leased,
                now_ms=self._time.now_ms(),
            )

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
        self.asked_at_ms = now_ms = self._time.now_ms()
        if window_reason(self._config, now_ms) is not None:
            return OrderRows.none().table()
        (found,) = self._find([LeaseShare(n)], seconds=seconds, exact=exact, run=run)
        assert isinstance(found, OrderRows)  # only a request with a key has an error of its own
        return found.table()

    def _find(
        self,
        shares: Sequence[LeaseShare],
        *,
        seconds: float | None,
        exact: bool,
        run: str | None,
    ) -> list[OrderRows | Exception]:
        if run is None and self._budget_split.is_per_run:
            run = self.run_name(None)
        if run is not None:
            run_number(run)  # raises for a name that is not possible
        call = SmallLease(self, Wanted(run, seconds, exact), shares)
        n = sum(max(share.n, 0) for share in shares)
        calls = self._small_calls if n <= FEW_ORDERS_MAX and not exact else self._large_calls
        with self.under_way:
            found: list[OrderRows | Exception] = calls.call(call, n_rows=n, kind=call.wanted)
        return found

    def lease_all(self, calls: Sequence[SmallLease]) -> list[list[OrderRows | Exception]]:
        """Lease for several callers at once; those who came first get their orders first."""
        wanted, shares = calls[0].wanted, calls[0].shares
        if len(calls) == len(shares) == len(self._nodes.all) == 1 and shares[0].request is None:
            return [self._lease_alone(wanted, shares[0].n)]
        found = iter(
            self._lease_shares(calls[0].wanted, [one for call in calls for one in call[2]])
        )
        return [[next(found) for _ in call.shares] for call in calls]

    def _lease_alone(self, wanted: Wanted, n: int) -> list[OrderRows | Exception]:
        """Lease for one caller without a key from the only partition, with fewer steps."""
        run, seconds, exact = wanted
        if n <= 0:
            return [OrderRows.none()]
        (node,) = self._nodes.all
        with nullcontext() if run is None else self._budget_split.use_run(run):
            # A second time is of no use: all of the budget is in this partition.
            ordered = node.order(n, self._time, lease_seconds=seconds, exact=exact)
        return [order_rows_of(node, ordered) if ordered.order.size else OrderRows.none()]

    def _lease_shares(
        self, wanted: Wanted, shares: Sequence[LeaseShare]
    ) -> list[OrderRows | Exception]:
        if all(share.request is None for share in shares):
            without = SharedOrders([share.n for share in shares])
            return [*self._find_orders(wanted, without)]
        with self._keys_lock:
            return self._lease_keyed(wanted, shares)

    def _lease_keyed(
        self, wanted: Wanted, shares: Sequence[LeaseShare]
    ) -> list[OrderRows | Exception]:
        """Lease for callers of whom some repeat a request: they get the orders that they hold."""
        found: dict[int, OrderRows | Exception] = {}
        parts: dict[int, RequestParts | None] = {}
        keys: set[bytes] = set()
        now_ms = self._time.now_ms()
        for i, (_, request) in enumerate(shares):
            parts[i] = None
            if request is None:
                continue
            try:
                own = RequestParts(self._nodes, request)
                held = held_orders(self._nodes, request, now_ms)
            except (RequestKeyReused, ValueError) as error:
                found[i] = error
                continue
            if held is not None:
                found[i] = held
            elif request.key not in keys:
                keys.add(request.key)
                parts[i] = own
            else:
                del parts[i]  # the same request twice: the second is asked for after the first
        new = [i for i in parts if i not in found]
        if new:
            shared = SharedOrders([shares[i].n for i in new], [parts[i] for i in new])
            found.update(zip(new, self._find_orders(wanted, shared), strict=True))
        for i in range(len(shares)):
            if i not in found:
                (found[i],) = self._lease_keyed(wanted, shares[i : i + 1])
        return [found[i] for i in range(len(shares))]

    def _find_orders(self, wanted: Wanted, shared: SharedOrders) -> list[OrderRows]:
        run = wanted.run
        with nullcontext() if run is None else self._budget_split.use_run(run):
            self._from_partitions(wanted, shared)
            if shared.n_left and self._budget_split.split_rest():
                self._from_partitions(wanted, shared)
        return shared.orders()

    def _from_partitions(self, wanted: Wanted, shared: SharedOrders) -> None:
        nodes = self._nodes.all
        if not nodes:
            return
        self._budget_split.rebalance()
        self._split_hosts.step(self._time.now_ms())
        n = shared.n_left
        if n <= 0:
            return
        share = first_share(n, len(nodes))
        n_asked = -(-n // share)
        first = (self._next_node + 1) % len(nodes)
        # The next lease begins where this one ends, or with the next partition if it asks all.
        self._next_node = first + (n_asked - 1 if n_asked < len(nodes) else 0)
        turn = [*nodes[first:], *nodes[:first]]
        # First an equal part from each partition, then the rest from those that have more.
        answers = NodeAnswers(warns_of_stopped=not self._nodes.leaves_out_stopped)
        for each in (share, n):
            order_in_turn(turn, each, wanted, shared, self._time, answers)
        answers.raise_if_all_failed()

    def lease_urls(
        self,
        urls: pa.StringArray,
        batches: Iterable[NodeBatch],
        row_status: NDArray[np.uint8],
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
        row_status
            `RowStatus` of each URL, which the batches set to UNAVAILABLE.
        seconds
            Length of the leases; the configured length if None.
        run
            Name of the run that pays; today's date if None.
        request
            Key of the request, if it may be repeated.
        """
        check_seconds(seconds)
        name = self.run_name(run)
        self.asked_at_ms = now_ms = self._time.now_ms()
        closed = window_reason(self._config, now_ms)
        if closed is not None:
            return refuse_urls(urls, closed)
        with self.under_way, self._nodes.use_all(), self._budget_split.use_run(name):
            self._budget_split.rebalance()
            self._split_hosts.step(self._time.now_ms())
            return lease_urls(
                batches,
                urls,
                row_status,
                nodes=self._nodes,
                config=self._config,
                time=self._time,
                run=name,
                seconds=seconds,
                parts=RequestParts(self._nodes, request),
            )

    def finish_calls(self) -> None:
        """Wait until all leases and small reports that are under way now have ended."""
        nothing = SmallLease(self, Wanted(None, None, exact=False), ())
        for calls in (self._small_calls, self._large_calls):
            with suppress(RecrawlError):  # an error of others that are done together with it
                calls.call(nothing, n_rows=0, kind=nothing.wanted)  # after all calls before it

    def wait_seconds(self) -> float:
        """Return the seconds until the next lease may return an order, see `Corpus`."""
        waits = [node.wait_seconds() for node in self._nodes]
        wait = min(waits, default=_WAIT_SECONDS)
        closed = window_reason(self._config, self._time.now_ms())
        return wait if closed is None or closed.seconds is None else max(wait, closed.seconds)


def _shortfall_of(n: int, reason: ShortfallReason) -> Shortfall:
    return Shortfall(n_requested=n, n_leased=0, reasons=(reason,), is_sampled=False)


def check_seconds(seconds: float | None) -> None:
    """Raise ValueError unless a length of leases is possible."""
    if seconds is not None and not 0 < seconds <= LEASE_SECONDS_MAX:
        raise ValueError(f"seconds must be above 0 and at most a year, got {seconds!r}")
