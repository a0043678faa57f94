"""A corpus some of whose partitions cannot be reached, as those of a cluster without an owner."""

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.cluster.api.row_parts import Columns, one_array, take_outcomes, take_rows
from recrawl.corpus import (
    Added,
    Corpus,
    CountedRows,
    LeasedUrls,
    Order,
    Outcome,
    Reported,
    RowStatus,
    Signalled,
)
from recrawl.messages.enums import Why
from recrawl.messages.leases import WHYS
from recrawl.node.orders import partition_of
from recrawl.node.routing import split_by_partition

__all__ = ["PartlyAway"]

Rows = NDArray[np.int64]


class PartlyAway:
    """Answers for a corpus; rows of some partitions are unavailable for a number of calls.

    Parameters
    ----------
    corpus
        Corpus that does the rows of the other partitions.
    away
        Partitions that are away.
    n_calls
        Number of calls after which they are back.
    names
        Names of the calls for which they are away; None for all.
    is_late
        Whether their rows are done all the same, as those of an owner that answers too late.
    """

    def __init__(
        self,
        corpus: Corpus,
        away: Collection[int],
        n_calls: float = math.inf,
        *,
        names: Collection[str] | None = None,
        is_late: bool = False,
    ) -> None:
        self.corpus = corpus
        self.away = list(away)
        self.n_calls = n_calls
        self.names = names
        self.is_late = is_late
        self.calls: list[tuple[str, int]] = []
        """Name and number of rows of each call."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.corpus, name)

    def partitions(self, urls: Any) -> Rows:
        partition = np.full(len(urls), -1, np.int64)
        n_partitions = self.corpus.nodes.n_partitions
        for batch in split_by_partition(urls, n_partitions, "host", key=None):
            partition[batch.rows] = batch.partition
        return partition

    def _run(
        self, name: str, partition: Rows, call: Callable[[Rows], Any]
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_], Any]:
        self.calls.append((name, partition.size))
        is_away = np.zeros(partition.size, np.bool_)
        if self.n_calls > 0 and (self.names is None or name in self.names):
            is_away = np.isin(partition, self.away)
            self.n_calls -= 1
        rows = np.arange(partition.size) if self.is_late else np.flatnonzero(~is_away)
        found = call(rows)
        status = np.full(partition.size, RowStatus.UNAVAILABLE, np.uint8)
        status[rows] = found.rows
        status[is_away] = RowStatus.UNAVAILABLE
        return status, is_away, found

    def _by_url(self, name: str, urls: Any, **columns: Any) -> NDArray[np.uint8]:
        given = one_array(urls)
        same = {key: columns.pop(key) for key in ("source", "request") if key in columns}
        own = Columns(len(given), **columns)
        status, _, _ = self._run(
            name,
            self.partitions(given),
            lambda rows: getattr(self.corpus, name)(
                take_rows(given, rows), **own.take(rows), **same
            ),
        )
        return status

    def _counted(self, name: str, urls: Any, **columns: Any) -> CountedRows:
        status = self._by_url(name, urls, **columns)
        return CountedRows(int((status == RowStatus.DONE).sum()), rows=status)

    def add(self, urls: Any, **columns: Any) -> Added:
        status = self._by_url("add", urls, **columns)
        kinds = (RowStatus.DONE, RowStatus.DUPLICATE, RowStatus.REFUSED)
        return Added(*(int((status == kind).sum()) for kind in kinds), rows=status)

    def set(self, urls: Any = None, *, pattern: str | None = None, **columns: Any) -> CountedRows:
        if urls is None:
            return self.corpus.set(pattern=pattern, **columns)
        return self._counted("set", urls, **columns)

    def remove(self, urls: Any = None, **columns: Any) -> CountedRows:
        return self._counted("remove", urls, **columns)

    def set_each(self, urls: Any, **columns: Any) -> CountedRows:
        return self._counted("set_each", urls, **columns)

    def fetch_now(self, urls: Any, **columns: Any) -> CountedRows:
        return self._counted("fetch_now", urls, **columns)

    def requests(self, urls: Any, n_requests: Any = 1, **columns: Any) -> CountedRows:
        return self._counted("requests", urls, n_requests=n_requests, **columns)

    def signal(self, urls: Any, **columns: Any) -> Signalled:
        status = self._by_url("signal", urls, **columns)
        n_unknown = int((status == RowStatus.UNKNOWN).sum())
        n_done = int((status == RowStatus.DONE).sum())
        return Signalled(n_done, n_unknown=n_unknown, rows=status)

    def lease_urls(self, urls: Any, **options: Any) -> LeasedUrls:
        given = one_array(urls)
        own = Columns(len(given), key=options.pop("key", None))
        order: list[Order | None] = [None] * len(given)
        why = np.full(len(given), WHYS.index(Why.UNAVAILABLE), np.uint8)
        wait = np.full(len(given), np.inf)

        def call(rows: Rows) -> CountedRows:
            found = self.corpus.lease_urls(take_rows(given, rows), **own.take(rows), **options)
            for row, one in zip(rows.tolist(), found.order, strict=True):
                order[row] = one
            why[rows], wait[rows] = found.why, found.seconds
            return CountedRows(rows.size, rows=np.zeros(rows.size, np.uint8))

        _, is_away, _ = self._run("lease_urls", self.partitions(given), call)
        for row in np.flatnonzero(is_away).tolist():
            order[row], why[row], wait[row] = None, WHYS.index(Why.UNAVAILABLE), np.inf
        return LeasedUrls(given, order, why, wait)

    def _by_handle(self, name: str, handles: Any, **options: Any) -> CountedRows:
        handle = np.asarray(handles, np.int64).reshape(-1)
        status, _, _ = self._run(
            name,
            partition_of(handle, self.corpus.format.generation),
            lambda rows: getattr(self.corpus, name)(handle[rows].tolist(), **options),
        )
        return CountedRows(int((status == RowStatus.DONE).sum()), rows=status)

    def extend(self, handles: Any, *, seconds: float) -> CountedRows:
        return self._by_handle("extend", handles, seconds=seconds)

    def release(self, handles: Any) -> CountedRows:
        return self._by_handle("release", handles)

    def report(self, outcomes: Any) -> Reported:
        if isinstance(outcomes, Outcome):
            outcomes = [outcomes]
        n_rows = len(outcomes)
        if isinstance(outcomes, pa.Table):
            handle = outcomes.column("handle").fill_null(0).to_numpy().astype(np.int64)
        else:
            handle = np.array([one.handle for one in outcomes], np.int64)
        partition = partition_of(handle, self.corpus.format.generation)
        rows = np.zeros(0, np.int64)

        def call(some: Rows) -> Reported:
            nonlocal rows
            rows = some
            return self.corpus.report(take_outcomes(outcomes, some))

        _, is_away, found = self._run("report", partition, call)
        flags: dict[str, Any] = {}
        for name in ("counted", "transition", "has_dropped", "wrong_answer", "is_known"):
            flags[name] = np.zeros(n_rows, getattr(found, name).dtype)
            flags[name][rows] = getattr(found, name)
            flags[name][is_away] = 0
        return Reported(**flags, is_unavailable=is_away)
