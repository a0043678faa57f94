"""Read crawl logs with one row per fetch, as JSON lines, CSV or Parquet."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from recrawl.readers.head import Head
from recrawl.readers.reading import Format, Reading
from recrawl.readers.schemas import OBSERVED
from recrawl.readers.spellings import URL_SPELLINGS
from recrawl.readers.tabular.columns import KEY_NAMES, OWN_NAMES
from recrawl.readers.tabular.fields import OBSERVED_FIELDS, batches_of
from recrawl.readers.tabular.tables import table_rows

__all__ = ["CRAWL_LOG", "CRAWL_LOG_NAMES"]

_NAMES_SHOWN_MAX = 20
_NAME_CHARACTERS_MAX = 40

CRAWL_LOG_NAMES: dict[str, tuple[str, ...]] = {
    "url": ("url", "original", *URL_SPELLINGS[1:], "page_id"),
    "at": (
        *("at", "timestamp", "ts", "fetched_at", "fetched_at_ms", "time", "at_ms", "fetch_time"),
        *("crawled_at", "crawl_time", "crawl_date", "fetch_date"),
    ),
    "digest": (
        *("digest", "hash", "content_hash", "checksum", "signature", "sha1", "sha256", "md5"),
        *("body_hash", "body_sha1", "body_sha256", "body_md5", "content_sha256", "content_md5"),
    ),
    "changed": ("changed", "is_changed", "has_changed"),
    "status": ("status", "statuscode", "status_code", "http_status"),
    "importance": ("importance", "weight", "priority"),
    **OWN_NAMES,
}


def _suits(head: Head) -> bool:
    return head.has_any(CRAWL_LOG_NAMES["url"]) and head.has_any(CRAWL_LOG_NAMES["at"])


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    head = Head(reading.source, reading.options.columns)
    columns = head.columns
    names = (*CRAWL_LOG_NAMES["digest"], *CRAWL_LOG_NAMES["changed"])
    if columns and not head.has_any(names):
        reading.refused.note(
            f"none of the fields is known as a digest or a changed flag: {_names_text(columns)}"
        )
    own = CRAWL_LOG_NAMES | KEY_NAMES if reading.options.has_keys else CRAWL_LOG_NAMES
    for rows in table_rows(reading, own, required=("url", "at"), with_extra=True):
        yield from batches_of(rows, OBSERVED_FIELDS, OBSERVED, reading.refused)


def _names_text(columns: Iterable[str]) -> str:
    shown = [name[:_NAME_CHARACTERS_MAX] for name in sorted(columns)]
    more = ", …" if len(shown) > _NAMES_SHOWN_MAX else ""
    text = ", ".join(shown[:_NAMES_SHOWN_MAX]) + more
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


CRAWL_LOG = Format(
    name="crawl-log",
    kind="observed",
    about="a crawl log: url, at, digest or changed, status, importance; JSON lines, CSV, Parquet",
    suits=_suits,
    read=_read,
)
