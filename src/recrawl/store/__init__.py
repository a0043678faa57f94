"""Data that is too big for memory: URLs, names, fetch records, data of users, the change feed."""

from typing import TYPE_CHECKING

from recrawl.deprecated_names import find_moved_names
from recrawl.store.batch import StoreBatch
from recrawl.store.changes import Cursor, StoredChange
from recrawl.store.content.counts import ContentCounts
from recrawl.store.content.host_memories import HOST_MEMORY_BYTES_STORED_MAX, UpdateHostMemory
from recrawl.store.content.page_memories import PAGE_MEMORY_BYTES_STORED_MAX, PageContents
from recrawl.store.content.passages import (
    ADDED_TEXT_BYTES_MAX,
    PassageChanges,
    pack_passages,
    unpack_passages,
)
from recrawl.store.erasure import IsForgotten
from recrawl.store.fetch_records import (
    DIGEST_BYTES,
    DIGESTS_MAX,
    ETAG_BYTES_MAX,
    LAST_MODIFIED_BYTES_MAX,
    MOVED_TO_BYTES_MAX,
    PROFILE_BYTES_MAX,
    SKETCH_BYTES_MAX,
    Records,
)
from recrawl.store.names import Names
from recrawl.store.page_urls import URL_TEXT_BYTES_MAX
from recrawl.store.request_keys import REQUEST_KEPT_MS, REQUESTS_MAX, AcceptedRequest
from recrawl.store.store import CHANGES_MAX, FORMAT, Store
from recrawl.store.user_data import (
    DOC_ID_BYTES_MAX,
    METADATA_BYTES_MAX,
    UserData,
    metadata_object,
)

__all__ = [
    "ADDED_TEXT_BYTES_MAX",
    "CHANGES_MAX",
    "DIGESTS_MAX",
    "DIGEST_BYTES",
    "DOC_ID_BYTES_MAX",
    "ETAG_BYTES_MAX",
    "FORMAT",
    "HOST_MEMORY_BYTES_STORED_MAX",
    "LAST_MODIFIED_BYTES_MAX",
    "METADATA_BYTES_MAX",
    "MOVED_TO_BYTES_MAX",
    "PAGE_MEMORY_BYTES_STORED_MAX",
    "PROFILE_BYTES_MAX",
    "REQUESTS_MAX",
    "REQUEST_KEPT_MS",
    "SKETCH_BYTES_MAX",
    "URL_TEXT_BYTES_MAX",
    "AcceptedRequest",
    "ContentCounts",
    "Cursor",
    "IsForgotten",
    "Names",
    "PageContents",
    "PassageChanges",
    "Records",
    "Store",
    "StoreBatch",
    "StoredChange",
    "UpdateHostMemory",
    "UserData",
    "metadata_object",
    "pack_passages",
    "unpack_passages",
]

# Names of recrawl 0.1.0.
_MOVED = {
    "Change": "recrawl.store.StoredChange",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
