"""Read lists of pages: a URL a line, or a table with importance and cost."""

import re
from collections.abc import Iterator

import pyarrow as pa

from recrawl.readers.head import Head, header_cells
from recrawl.readers.lines import line_blocks
from recrawl.readers.reading import Format, Reading
from recrawl.readers.schemas import LISTED
from recrawl.readers.spellings import URL_SPELLINGS
from recrawl.readers.tabular.cells import number_cells
from recrawl.readers.tabular.columns import KEY_NAMES, OWN_NAMES, Rows
from recrawl.readers.tabular.fields import LISTED_FIELDS, batches_of
from recrawl.readers.tabular.tables import table_rows

__all__ = ["URL_LIST", "URL_TABLE"]

URL_NAMES: dict[str, tuple[str, ...]] = {
    "url": URL_SPELLINGS,
    "importance": ("importance", "weight", "priority", "requests", "score"),
    "cost": ("cost",),
    "last_modified": (
        *("last_modified", "lastmod", "last_modified_at", "last_modified_at_ms"),
        *("modified", "modified_at", "last_updated", "updated_at"),
    ),
    **OWN_NAMES,
}
_HEADLESS = ("url", "importance", "cost")

_LIST_SUFFIXES = (".txt", ".lst", ".urls")
_NAME = re.compile(r"[\w-]+(\.[\w-]+)+(:\d+)?(/\S*)?$")
_URL = re.compile(r"https?:[/\\]{2}\S", re.IGNORECASE)


def _is_list(head: Head) -> bool:
    first = head.first.strip()
    if _URL.match(first):
        return True
    # A name without a scheme counts only in a file with the suffix of a text file.
    return head.name.endswith(_LIST_SUFFIXES) and _NAME.match(first) is not None


def _is_table(head: Head) -> bool:
    if head.has_any(URL_NAMES["url"]):
        return True
    # A URL and one or two numbers: a table without a header.
    url, *numbers = header_cells(head.first) or [""]
    if not (_URL.match(url) and 1 <= len(numbers) < len(_HEADLESS)):
        return False
    return not number_cells(numbers).is_wrong.any()


def _read_list(reading: Reading) -> Iterator[pa.RecordBatch]:
    refused = reading.refused
    for block in line_blocks(reading.source, refused):
        lines: list[int] = []
        urls: list[str] = []
        for line, text in enumerate(block.texts(refused), block.first_line):
            url = text.strip()
            if url and not url.startswith("#"):
                lines.append(line)
                urls.append(url)
        refused.n_rows += len(urls)
        yield from batches_of(
            Rows(lines=lines, columns={"url": urls}), LISTED_FIELDS, LISTED, refused
        )


def _read_table(reading: Reading) -> Iterator[pa.RecordBatch]:
    names = URL_NAMES | KEY_NAMES if reading.options.has_keys else URL_NAMES
    for rows in table_rows(reading, names, headless=_HEADLESS, with_extra=True):
        yield from batches_of(rows, LISTED_FIELDS, LISTED, reading.refused)


URL_LIST = Format(
    name="list",
    kind="listed",
    about="a URL a line; lines that begin with # are comments",
    suits=_is_list,
    read=_read_list,
)

URL_TABLE = Format(
    name="url-table",
    kind="listed",
    about="url, and importance, cost, last_modified, doc_id, metadata if known; JSON lines, CSV, "
    "Parquet",
    suits=_is_table,
    read=_read_table,
)
