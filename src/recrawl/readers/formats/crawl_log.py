"""Read crawl logs with one row per fetch, as JSON lines, CSV or Parquet."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from recrawl.readers.head import Head
from recrawl.readers.reading import Format, Reading
from recrawl.readers.schemas import OBSERVED
from recrawl.readers.tabular.columns import Names
from recrawl.readers.tabular.fields import OBSERVED_FIELDS, batches_of
from recrawl.readers.tabular.tables import table_rows

__all__ = ["CRAWL_LOG", "CRAWL_LOG_NAMES"]

_NAMES_SHOWN_MAX = 20
_NAME_CHARACTERS_MAX = 40

CRAWL_LOG_NAMES: Names = {
    "url": ("url", "original", "uri", "page", "page_url", "page_id"),
    "at": (
        *("at", "timestamp", "ts", "fetched_at", "fetched_at_ms", "time", "at_ms", "fetch_time"),
        "crawled_at",
    ),
    "digest": (
        *("digest", "hash", "content_hash", "checksum", "signature", "sha1", "sha256", "md5"),
        *("body_hash", "body_sha1", "body_sha256", "body_md5", "content_sha256", "content_md5"),
    ),
    "changed": ("changed", "is_changed", "has_changed"),
    "status": ("status", "statuscode", "status_code", "http_status"),
    "importance": ("importance", "weight"),
}


def _suits(head: Head) -> bool:
    columns = head.columns
    return not (
        columns.isdisjoint(CRAWL_LOG_NAMES["url"]) or columns.isdisjoint(CRAWL_LOG_NAMES["at"])
    )


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    columns = Head(reading.source, reading.options.columns).columns
    names = {*CRAWL_LOG_NAMES["digest"], *CRAWL_LOG_NAMES["changed"]}
    if columns and columns.isdisjoint(names):
        reading.refused.note(
            f"none of the fields is known as a digest or a changed flag: {_names_text(columns)}"
        )
    for rows in table_rows(reading, CRAWL_LOG_NAMES, required=("url", "at")):
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
