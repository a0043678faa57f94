"""Lease given URLs: an order for each page that may be fetched now, or the reason why not."""

import math
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.corpus.inspect.page_waits import WHYS, waits_of
from recrawl.corpus.leasing.repeated import RequestParts, held_rows, is_repeated
from recrawl.corpus.leasing.shortfall import ShortfallReason, budget_reason
from recrawl.messages.leases import LeasedUrl, LeasedUrls
from recrawl.messages.results import RowStatus
from recrawl.node.clock import NodeTime
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.open_nodes import NodeBatch, OpenNodes
from recrawl.node.orders import Order, orders_of
from recrawl.shard import Ordered, Shard
from recrawl.shard.early import Early
from recrawl.shard.events import select_rows
from recrawl.shard.state.status import Why

__all__ = ["LeasedUrl", "LeasedUrls", "lease_urls", "refuse_urls"]

_CODE = {why: code for code, why in enumerate(WHYS)}
_ORDERED = _CODE[Why.DUE]
# Reasons that do not depend on the state of a page.
_NOT_OF_PAGE = (Why.DUE, Why.BUDGET_SPENT, Why.LEASE_FULL, Why.NOT_TRACKED, Why.INVALID_URL)


def refuse_urls(urls: pa.StringArray, reason: ShortfallReason) -> LeasedUrls:
    """Return answers that refuse all URLs for one reason."""
    n = len(urls)
    seconds = math.inf if reason.seconds is None else reason.seconds
    return LeasedUrls(
        urls, [None] * n, np.full(n, _CODE[reason.why], np.uint8), np.full(n, seconds)
    )


def lease_urls(
    batches: Iterable[NodeBatch],
    urls: pa.StringArray,
    row_status: NDArray[np.uint8],
    *,
    nodes: OpenNodes,
    config: CorpusConfig,
    time: NodeTime,
    run: str,
    seconds: float | None,
    parts: RequestParts,
) -> LeasedUrls:
    """Return an order or a reason for each URL.

    Parameters
    ----------
    batches
        Valid URLs by partition.
    urls
        All URLs, as they were given.
    row_status
        `RowStatus` of each URL: UNAVAILABLE once the batches have found its partition not open, and
        ELSEWHERE if another part of a split host has the page: that may be asked at once.
    nodes
        Nodes of the open partitions.
    config
        Configuration of the corpus.
    time
        Time of the corpus.
    run
        Name of the run that pays.
    seconds
        Length of the leases; the configured length if None.
    parts
        Keys of the parts of the request.
    """
    order: list[Order | None] = [None] * len(urls)
    why = np.full(len(urls), _CODE[Why.INVALID_URL], np.uint8)
    until = np.full(len(urls), np.inf)
    for node, rows, url, _ in batches:
        part = parts.take(node.partition)
        with nodes.leave_out_stopped(rows, row_status):
            with node.lock:
                page = node.store.pages_of(url)
                if part is not None and is_repeated(node, part):
                    ordered = held_rows(node, part, time.now_ms())
                    codes = _codes_again(node.shard, page, ordered, time.now_ms())
                    ordered = _in_order_of(page[codes == _ORDERED], ordered)
                else:
                    ordered, codes = node.order_given(
                        page, time, lease_seconds=seconds, request=part
                    )
                until[rows] = _seconds_until(node.shard, page, codes, time.now_ms())
                spent = codes == _CODE[Why.BUDGET_SPENT]
                reason = budget_reason([node.shard], config, run, 1) if spent.any() else None
            if reason is not None:
                codes[spent] = _CODE[reason.why]
                until[rows[spent]] = math.inf if reason.seconds is None else reason.seconds
            why[rows] = codes
            is_announced = node.find_announced(ordered.page)
            granted = orders_of(node.store, node.partition, ordered, is_announced, node.generation)
            for row, one in zip(rows[codes == _ORDERED].tolist(), granted, strict=True):
                order[row] = one
    why[np.isin(row_status, (RowStatus.UNAVAILABLE, RowStatus.ELSEWHERE))] = _CODE[Why.UNAVAILABLE]
    until[row_status == RowStatus.ELSEWHERE] = 0.0
    return LeasedUrls(urls, order, why, until)


def _codes_again(
    shard: Shard, page: NDArray[np.int64], held: Ordered, now_ms: int
) -> NDArray[np.uint8]:
    """Return the reasons of pages for a repeated request: only pages still held are ordered."""
    codes = np.full(page.size, _CODE[Why.NOT_TRACKED], np.uint8)
    known = np.flatnonzero(page >= 0)
    if known.size:
        waits = waits_of(shard, page[known] & 0xFFFFFFFF, now_ms, early=Early.NONE)
        codes[known] = waits.why
    codes[codes == _ORDERED] = _CODE[Why.NOT_YET]
    _, first = np.unique(page, return_index=True)
    is_first = np.zeros(page.size, np.bool_)
    is_first[first] = True
    codes[is_first & np.isin(page, held.page)] = _ORDERED
    return codes


def _in_order_of(page: NDArray[np.int64], ordered: Ordered) -> Ordered:
    """Return the orders of pages, in the order of the pages."""
    by_page = np.argsort(ordered.page)
    rows = by_page[np.searchsorted(ordered.page[by_page], page)]
    return select_rows(ordered, rows)


def _seconds_until(
    shard: Shard, page: NDArray[np.int64], codes: NDArray[np.uint8], now_ms: int
) -> FloatArray:
    """Return the seconds until the reasons of pages end; infinite if unknown."""
    seconds = np.full(page.size, np.inf)
    of_page = np.flatnonzero(~np.isin(codes, [_CODE[why] for why in _NOT_OF_PAGE]))
    if of_page.size:
        waits = waits_of(shard, page[of_page] & 0xFFFFFFFF, now_ms, early=Early.NONE)
        is_same = waits.why == codes[of_page]
        left = np.maximum(waits.until_ms - now_ms, 0.0) / 1000
        seconds[of_page] = np.where(is_same, left, np.inf)
    seconds[codes == _ORDERED] = 0.0
    return seconds
