"""What is too big for memory: URLs, names, validators, recent digests and the feed of changes."""

from recrawl.store.batch import StoreBatch
from recrawl.store.changes import Change, Cursor
from recrawl.store.names import Names
from recrawl.store.records import (
    DIGEST_BYTES,
    DIGESTS_MAX,
    ETAG_BYTES_MAX,
    LAST_MODIFIED_BYTES_MAX,
    MOVED_TO_BYTES_MAX,
    PROFILE_BYTES_MAX,
    SKETCH_BYTES_MAX,
    Records,
)
from recrawl.store.store import CHANGES_MAX, FORMAT, Store
from recrawl.store.texts import URL_TEXT_BYTES_MAX

__all__ = [
    "CHANGES_MAX",
    "DIGESTS_MAX",
    "DIGEST_BYTES",
    "ETAG_BYTES_MAX",
    "FORMAT",
    "LAST_MODIFIED_BYTES_MAX",
    "MOVED_TO_BYTES_MAX",
    "PROFILE_BYTES_MAX",
    "SKETCH_BYTES_MAX",
    "URL_TEXT_BYTES_MAX",
    "Change",
    "Cursor",
    "Names",
    "Records",
    "Store",
    "StoreBatch",
]
