"""Read CDXJ, the index of pywb and Common Crawl: a sort key, a date and a JSON object a line."""

import json
import re
from collections.abc import Iterator

import pyarrow as pa

from recrawl.readers.head import Head
from recrawl.readers.instants import cdx_column
from recrawl.readers.lines import LineBlock, line_blocks
from recrawl.readers.reading import Format, Reading
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import OBSERVED
from recrawl.readers.tabular.columns import Rows
from recrawl.readers.tabular.fields import OBSERVED_FIELDS, batches_of

__all__ = ["CDXJ"]

_LINE = re.compile(r"(\S+) (\d{4,14}) (\{.*)")


def _suits(head: Head) -> bool:
    line = next((line for line in head.lines if not line.startswith(("!", "#"))), "")
    return _LINE.match(line) is not None


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    for block in line_blocks(reading.source, reading.refused):
        rows = _rows(block, reading.refused)
        yield from batches_of(rows, OBSERVED_FIELDS, OBSERVED, reading.refused)


def _rows(block: LineBlock, refused: Refused) -> Rows:
    lines: list[int] = []
    at: list[str | None] = []
    found: list[dict[str, object]] = []
    for line, text in enumerate(block.texts(refused), block.first_line):
        # Lines with an exclamation mark are metadata of the file.
        if not text or text.isspace() or text.startswith(("!", "#")):
            continue
        refused.n_rows += 1
        parts = text.split(" ", 2)
        try:
            fields = json.loads(parts[2]) if len(parts) == 3 else None
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            refused.refuse(line, "not a key, a date and a JSON object", text)
            continue
        lines.append(line)
        at.append(parts[1])
        if "url" not in fields:
            fields["url"] = _url_of_key(parts[0])
        found.append(fields)
    return Rows(
        lines=lines,
        columns={
            "at": cdx_column(at),
            "url": [fields["url"] for fields in found],
            "digest": [fields.get("digest") for fields in found],
            "status": [fields.get("status") for fields in found],
        },
    )


def _url_of_key(key: str) -> str:
    """Return the URL of a sort key, ``com,example)/path``; the scheme is not in it, so https."""
    host, bracket, path = key.partition(")")
    if not bracket:
        return key
    name, colon, port = host.partition(":")
    return f"https://{'.'.join(reversed(name.split(',')))}{colon}{port}{path or '/'}"


CDXJ = Format(
    name="cdxj",
    kind="observed",
    about="CDXJ of a web archive: a sort key, a date and a JSON object a line",
    suits=_suits,
    read=_read,
)
