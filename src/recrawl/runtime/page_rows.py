"""All pages of a corpus and what is known of each, as a stream of Arrow batches."""

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.core._arrays import FloatArray, RowArray
from recrawl.core._kernel import table_kernel
from recrawl.core.belief import GammaBelief
from recrawl.core.belief.codes import BeliefCodes, decoded
from recrawl.core.belief.gamma import rate_quantile
from recrawl.runtime.corpus import Corpus
from recrawl.runtime.node import Node
from recrawl.shard.codes import log2_of_code, rate_of, signal_totals_of
from recrawl.shard.due import Terms, page_due_of
from recrawl.shard.rules import Rules
from recrawl.shard.status import PageStatus
from recrawl.shard.tables import Tables
from recrawl.shard.words import (
    EPOCH_SECONDS,
    last_of,
    log2_period_of,
    number_of,
    shape_of,
)
from recrawl.store import Names
from recrawl.store.keys import slot_of

__all__ = ["PAGE_ROWS", "page_rows"]

_DAY = 86_400.0

PAGE_ROWS = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("fetch_url", pa.string(), nullable=False),
        pa.field("host", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("importance", pa.float64(), nullable=False),
        pa.field("cost", pa.float64(), nullable=False),
        pa.field("first_seen_at_ms", pa.int64(), nullable=False),
        pa.field("fetched_at_ms", pa.int64()),
        pa.field("change_rate_per_day", pa.float64(), nullable=False),
        pa.field("change_period_days_low", pa.float64(), nullable=False),
        pa.field("change_period_days_high", pa.float64(), nullable=False),
        pa.field("belief_shape", pa.float64(), nullable=False),
        pa.field("belief_days", pa.float64(), nullable=False),
        pa.field("freshness_probability", pa.float64(), nullable=False),
        pa.field("due_at_ms", pa.int64()),
        pa.field("errors", pa.int64(), nullable=False),
        pa.field("min_age_seconds", pa.float64()),
        pa.field("max_age_seconds", pa.float64()),
        pa.field("stale_for_seconds", pa.float64()),
        pa.field("stale_probability", pa.float64()),
        pa.field("etag", pa.string()),
        pa.field("last_modified", pa.string()),
        pa.field("digest", pa.string()),
        pa.field("moved_to", pa.string()),
    ]
)
"""One row per page; null where something is not known, never comes or does not hold.

``change_period_days_low`` and ``_high`` are where the mean time between changes is with 90 %
probability; ``belief_shape`` and ``belief_days`` are the Gamma belief of the rate per day itself.
``digest`` is the newest, in hexadecimal.  ``due_at_ms`` is at today's price.
"""


@table_kernel
def _look(
    tables: Tables,
    rules: Rules,
    terms: Terms,
    log2_price: float,
    now: float,
    slots: RowArray,
    out: FloatArray,
) -> None:
    """Write due instants, freshness, change rates, importance and cost, a row of ``out`` each."""
    pages = tables.pages
    for i in range(slots.size):
        slot = slots[i]
        word = pages.word[slot]
        out[0, i] = page_due_of(pages, tables.limits, slot, terms, log2_price)
        if pages.fetched_at[slot] > 0:
            shape = float(terms.table.shapes[shape_of(word)])
            age = max(now - float(last_of(word)), 0.0) * math.exp2(-log2_period_of(word))
            out[1, i] = math.exp(-shape * math.log1p(age / shape))
        true_rate = signal_totals_of(pages, tables.links, tables.sources, rules, slot, now)[0]
        out[2, i] = rate_of(pages, rules, slot)[0] + true_rate
        for row, code in ((3, pages.importance[slot]), (4, pages.cost[slot])):
            out[row, i] = math.exp2(log2_of_code(number_of(code))) if code > 0 else 0.0


def _rounded(values: FloatArray) -> pa.Array:
    """Return numbers to the six digits that they are good for at most."""
    with np.errstate(divide="ignore"):
        digits = 5 - np.floor(np.log10(np.abs(values)))
    scale = 10.0 ** np.clip(np.where(np.isfinite(digits), digits, 0.0), -300, 300)
    return pa.array(np.rint(values * scale) / scale)


def _ms(seconds: NDArray[np.float64]) -> pa.Array:
    """Return instants of the shard's in milliseconds since 1970, null for never."""
    is_ever = np.isfinite(seconds) & (seconds > 0)
    # Beyond any date that others could read.
    is_ever &= seconds < 2.0**40
    at = (np.where(is_ever, seconds, 0.0) + EPOCH_SECONDS) * 1000
    return pa.array(np.rint(at).astype(np.int64), mask=~is_ever)


def _where(values: FloatArray, is_held: NDArray[np.bool_]) -> pa.Array:
    return pa.array(values.astype(np.float64), mask=~is_held)


def _names(node: Node, what: Names, numbers: NDArray[np.int64]) -> pa.Array:
    known, row = np.unique(numbers, return_inverse=True)
    names = node.store.names_of(what, known.tolist())
    return pa.array(names, pa.string()).take(pa.array(row))


def _text(values: list[bytes | None]) -> pa.Array:
    return pa.array([None if v is None else v.decode("latin-1") for v in values], pa.string())


def _rows_of(
    node: Node, page: NDArray[np.int64], url: pa.StringArray, now_ms: int
) -> pa.RecordBatch:
    shard, tables = node.shard, node.shard.tables
    pages, limits, slot = tables.pages, tables.limits, slot_of(page)
    look = np.zeros((5, slot.size))
    log2_price = math.log2(max(shard.picker.price, 1e-300))
    now = now_ms / 1000 - EPOCH_SECONDS
    _look(tables, shard.rules, shard.terms, log2_price, now, slot, look)
    belief = decoded(BeliefCodes(pages.belief_shape[slot], pages.belief_seconds[slot]))
    each = GammaBelief(belief.shape[:, None], belief.seconds[:, None])
    rate = np.maximum(rate_quantile(each, np.array([[0.05, 0.95]])), 1e-30)
    row = pages.limits[slot]
    stale = limits.stale_probability[row].astype(np.float64)
    record = node.store.records_of(page)
    status = np.array([status.name.lower() for status in PageStatus])[pages.status[slot]]
    columns = [
        url,
        node.store.fetch_urls_of(page, url),
        _names(node, Names.GROUP, pages.group[slot].astype(np.int64)),
        _names(node, Names.KIND, pages.kind[slot].astype(np.int64)),
        pa.array(status.tolist(), pa.string()),
        _rounded(look[3]),
        _rounded(look[4]),
        _ms(pages.first_seen[slot].astype(np.float64)).fill_null(0),
        _ms(pages.fetched_at[slot].astype(np.float64)),
        _rounded(look[2] * _DAY),
        _rounded(1 / rate[:, 1] / _DAY),
        _rounded(1 / rate[:, 0] / _DAY),
        _rounded(belief.shape),
        _rounded(belief.seconds / _DAY),
        _rounded(look[1]),
        _ms(look[0]),
        pa.array(pages.errors[slot].astype(np.int64)),
        _where(limits.interval_min[row], limits.interval_min[row] > 0),
        _where(limits.interval_max[row], np.isfinite(limits.interval_max[row])),
        _where(limits.stale_for[row], stale > 0),
        _where(stale, stale > 0),
        _text(record.etag),
        _text(record.last_modified),
        pa.array([known[0].hex() if known else None for known in record.digests], pa.string()),
        pa.array(record.moved_to, pa.string()),
    ]
    return pa.record_batch(columns, schema=PAGE_ROWS)


def page_rows(corpus: Corpus) -> Iterator[pa.RecordBatch]:
    """Yield all pages of a corpus, with the columns of `PAGE_ROWS`, some thousand at a time."""
    for node in corpus.nodes:
        now_ms = max(corpus.time.now_ms(), node.shard.now_ms)
        for page, url in node.scan_urls():
            with node.lock:
                yield _rows_of(node, page, url, now_ms)
