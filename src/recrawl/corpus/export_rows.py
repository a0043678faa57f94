"""The columns of an export: days instead of seconds, text instead of bytes."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recrawl.core.arrays import FloatArray
from recrawl.core.belief import GammaBelief
from recrawl.core.belief.gamma import rate_quantile
from recrawl.corpus.inspect.page_table import page_batches
from recrawl.node.node import Node

__all__ = ["EXPORT_SCHEMA", "batches_to_export"]

_DAY = 86_400.0
_ROWS_PER_BATCH = 16_384
# Later instants become null, because other programs cannot read them as dates.
_AT_MS_MAX = 250_000_000_000_000

EXPORT_SCHEMA = pa.schema(
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
        pa.field("doc_id", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("key", pa.string()),
    ]
)
"""Columns of an export, one row per page; null for unknown, never or not set.

``change_period_days_low`` and ``_high`` bound the mean time between changes with 90 %
probability.  The belief about the change rate per day is a Gamma distribution with the parameters
``belief_shape`` (shape) and ``belief_days`` (rate).  ``digest`` is the newest one, in hexadecimal.
``due_at_ms`` holds as long as the price does not change.  ``metadata`` is a JSON object as text.
"""

# Exported columns that have another name in `PAGE_COLUMNS`.
_RENAMED = {
    "host": "group",
    "first_seen_at_ms": "added_at_ms",
    "max_age_seconds": "interval_seconds_max",
    "stale_for_seconds": "stale_seconds",
}
# Exported columns that are the same in `PAGE_COLUMNS`.
_UNCHANGED_COLUMNS = (
    *("url", "fetch_url", "kind", "status", "fetched_at_ms", "errors", "stale_probability"),
    *("moved_to", "doc_id", "metadata", "key"),
)


def _round_to_six_digits(values: FloatArray) -> pa.Array:
    """Return numbers rounded to six significant digits; they are stored with fewer."""
    with np.errstate(divide="ignore"):
        digits = 5 - np.floor(np.log10(np.abs(values)))
    scale = 10.0 ** np.clip(np.where(np.isfinite(digits), digits, 0.0), -300, 300)
    return pa.array(np.rint(values * scale) / scale)


def _text(values: pa.Array) -> pa.Array:
    return pa.array(
        [None if v is None else v.decode("latin-1") for v in values.to_pylist()], pa.string()
    )


def _export_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    def floats(name: str) -> FloatArray:
        return np.asarray(batch.column(name).to_numpy(zero_copy_only=False), np.float64)

    shape, seconds = floats("belief_shape"), floats("belief_seconds")
    belief = GammaBelief(shape[:, None], seconds[:, None])
    rate = np.maximum(rate_quantile(belief, np.array([[0.05, 0.95]])), 1e-30)
    shortest = batch.column("interval_seconds_min")
    due = batch.column("due_at_ms")
    digests = batch.column("digest").to_pylist()
    columns = {
        **{name: batch.column(name) for name in _UNCHANGED_COLUMNS},
        **{name: batch.column(source) for name, source in _RENAMED.items()},
        "importance": _round_to_six_digits(floats("importance")),
        "cost": _round_to_six_digits(floats("cost")),
        "change_rate_per_day": _round_to_six_digits(_DAY * floats("change_rate_per_second")),
        "change_period_days_low": _round_to_six_digits(1 / rate[:, 1] / _DAY),
        "change_period_days_high": _round_to_six_digits(1 / rate[:, 0] / _DAY),
        "belief_shape": _round_to_six_digits(shape),
        "belief_days": _round_to_six_digits(seconds / _DAY),
        "freshness_probability": _round_to_six_digits(floats("freshness_probability")),
        "due_at_ms": pc.if_else(pc.less(due, _AT_MS_MAX), due, None),
        "min_age_seconds": pc.if_else(pc.greater(shortest, 0.0), shortest, None),
        "etag": _text(batch.column("etag")),
        "last_modified": _text(batch.column("last_modified")),
        "digest": pa.array([None if d is None else d.hex() for d in digests], pa.string()),
    }
    return pa.record_batch(
        [columns[field.name].cast(field.type) for field in EXPORT_SCHEMA], EXPORT_SCHEMA
    )


def batches_to_export(nodes: Sequence[Node], now_ms: int) -> Iterator[pa.RecordBatch]:
    """Yield all pages of a corpus in batches with the columns of `EXPORT_SCHEMA`.

    Parameters
    ----------
    nodes
        Nodes of the corpus, one per partition.
    now_ms
        Current time, in milliseconds since 1970.
    """
    for batch in page_batches(nodes, None, _ROWS_PER_BATCH, now_ms):
        yield _export_batch(batch)
