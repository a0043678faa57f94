"""Read StormCrawler's status index, exported as JSON lines from Elasticsearch or OpenSearch.

The index keeps only the last state of a page, so each page gives at most two fetches: the one that
found its last change, if an adaptive scheduler recorded it, and the last one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from recrawl.readers.head import Head
from recrawl.readers.instants import instant_ms
from recrawl.readers.lines import line_blocks
from recrawl.readers.reading import Format, Reading
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import OBSERVED
from recrawl.readers.tabular.columns import Rows
from recrawl.readers.tabular.fields import OBSERVED_FIELDS, batches_of
from recrawl.readers.tabular.tables import json_objects

__all__ = ["STORMCRAWLER"]

# HTTP status for each status of the index, if the code itself is not stored.
_STATUS = {"FETCHED": 200, "REDIRECTION": 301, "ERROR": 404, "FETCH_ERROR": 0}
_NOT_YET = "DISCOVERED"


def _suits(head: Head) -> bool:
    found = head.first_object
    if found is None:
        return False
    inner = found.get("_source", found)
    return (
        isinstance(inner, dict)
        and {"url", "status"} <= inner.keys()
        and ("nextFetchDate" in inner or "metadata" in inner)
    )


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    for block in line_blocks(reading.source, reading.refused):
        lines, objects = json_objects(block, reading.refused)
        rows = _rows(lines, objects, reading.refused)
        yield from batches_of(rows, OBSERVED_FIELDS, OBSERVED, reading.refused)


def _rows(lines: list[int], objects: list[dict[str, Any]], refused: Refused) -> Rows:
    kept: list[int] = []
    columns: dict[str, list[object]] = {
        name: [] for name in ("url", "at", "digest", "changed", "status")
    }

    def append(line: int, *cells: object) -> None:
        kept.append(line)
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)

    for line, document in zip(lines, objects, strict=True):
        found = document.get("_source", document)
        if not isinstance(found, dict):
            refused.refuse(line, "not a document of a status index", document)
            continue
        metadata = found.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        state = found.get("status")
        at = _first(metadata, "lastProcessedDate")
        if state == _NOT_YET or at is None:
            refused.refuse(line, "not fetched yet", state)
            continue
        url = found.get("url", document.get("_id"))
        status = _first(metadata, "fetch.statusCode")
        if status is None:
            status = _STATUS.get(state) if isinstance(state, str) else None
        digest = _first(metadata, "signature")
        changed_ms = instant_ms(_first(metadata, "signatureChangeDate"))
        at_ms = instant_ms(at)
        if changed_ms is not None and at_ms is not None and changed_ms < at_ms:
            refused.n_rows += 1
            append(line, url, changed_ms, digest, True, 200)
            append(line, url, at_ms, digest, False, status)
        else:
            append(line, url, at, digest, None, status)
    return Rows(lines=kept, columns=columns)


def _first(metadata: Mapping[str, Any], name: str) -> object:
    """Return the first value of a key; a dot in a key is escaped, or a level of nesting."""
    value = metadata.get(name, metadata.get(name.replace(".", "%2E")))
    if value is None and "." in name:
        outer, _, rest = name.partition(".")
        inner = metadata.get(outer)
        return _first(inner, rest) if isinstance(inner, dict) else None
    while isinstance(value, list):
        value = value[0] if value else None
    return value


STORMCRAWLER = Format(
    name="stormcrawler",
    kind="observed",
    about="StormCrawler's status index, exported as JSON lines",
    suits=_suits,
    read=_read,
)
