"""What every reader hands out: one schema for each kind of file."""

from typing import Literal

import pyarrow as pa

__all__ = [
    "BATCH_ROWS_MAX",
    "CHANGED",
    "LISTED",
    "OBSERVED",
    "SCHEMAS",
    "URL_BYTES_MAX",
    "WINDOWS",
    "Kind",
]

Kind = Literal["listed", "observed", "changed"]
"""Pages only, fetches of pages, or the moments at which pages changed."""

BATCH_ROWS_MAX = 65_536
"""Rows of a batch that a reader hands out."""

URL_BYTES_MAX = 0xFFFF
"""Bytes of a URL; a row with a longer one is refused."""

LISTED = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("importance", pa.float64()),
        pa.field("cost", pa.float64()),
        pa.field("last_modified_at_ms", pa.int64()),
    ]
)
"""One row per page."""

OBSERVED = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("at_ms", pa.int64(), nullable=False),
        pa.field("digest", pa.binary()),
        pa.field("changed", pa.bool_()),
        pa.field("status", pa.int16()),
        pa.field("importance", pa.float64()),
    ]
)
"""One row per fetch.

``changed`` is since the fetch before.  ``status`` is HTTP's; null where the fetch went well and
nothing more is known, 0 where there was no answer.
"""

CHANGED = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("at_ms", pa.int64(), nullable=False),
        pa.field("digest", pa.binary()),
    ]
)
"""One row per change, at its exact time; in the order of time for each page."""

WINDOWS = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("from_ms", pa.int64(), nullable=False),
        pa.field("until_ms", pa.int64(), nullable=False),
    ]
)
"""One row per page: from when until when all its changes are known."""

SCHEMAS: dict[Kind, pa.Schema] = {"listed": LISTED, "observed": OBSERVED, "changed": CHANGED}
