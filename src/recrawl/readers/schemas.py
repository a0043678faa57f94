"""Schemas of the batches that readers yield, one for each kind of file."""

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
"""Kinds of rows: pages, fetches of pages, or changes of pages."""

BATCH_ROWS_MAX = 65_536
"""Most rows of a batch."""

URL_BYTES_MAX = 0xFFFF
"""Most bytes of a URL; a row with a longer one is refused."""

LISTED = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("importance", pa.float64()),
        pa.field("cost", pa.float64()),
        pa.field("last_modified_at_ms", pa.int64()),
        pa.field("doc_id", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("key", pa.string()),
    ]
)
"""One row per page.

``doc_id`` and ``metadata`` (a JSON object as text) are the user's own, ``key`` names the group of
the page in a corpus that is grouped by key.
"""

OBSERVED = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("at_ms", pa.int64(), nullable=False),
        pa.field("digest", pa.binary()),
        pa.field("changed", pa.bool_()),
        pa.field("status", pa.int16()),
        pa.field("importance", pa.float64()),
        pa.field("doc_id", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("key", pa.string()),
    ]
)
"""One row per fetch.

``changed`` is relative to the previous fetch.  ``status`` is the HTTP status: null for a success of
unknown status, 0 if there was no answer.
"""

CHANGED = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("at_ms", pa.int64(), nullable=False),
        pa.field("digest", pa.binary()),
    ]
)
"""One row per change at its exact time, in order of time for each page."""

WINDOWS = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("from_ms", pa.int64(), nullable=False),
        pa.field("until_ms", pa.int64(), nullable=False),
    ]
)
"""One row per page: the window in which all its changes are known."""

SCHEMAS: dict[Kind, pa.Schema] = {"listed": LISTED, "observed": OBSERVED, "changed": CHANGED}
