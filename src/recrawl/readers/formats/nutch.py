"""Read Nutch's crawldb, as written by ``nutch readdb -dump`` in text or CSV.

A crawldb keeps only the last state of a page: its signature, when it is due next (called *Fetch
time*), after which interval, and when it was last seen to change.  The last fetch was that
interval before the next, and each page gives two fetches at most: the one that saw its last
change, and the last one.
"""

import re
from collections.abc import Iterator, Mapping

import pyarrow as pa

from recrawl.readers.head import Head
from recrawl.readers.instants import INSTANT_MS_MIN, instant_ms
from recrawl.readers.lines import line_blocks
from recrawl.readers.reading import Format, Reading
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import OBSERVED
from recrawl.readers.tabular.columns import Names, Rows
from recrawl.readers.tabular.fields import OBSERVED_FIELDS, batches_of
from recrawl.readers.tabular.tables import table_rows

__all__ = ["NUTCH"]

_VERSION = "\tVersion:"
_FIELD = re.compile(r"([A-Z][A-Za-z ]{3,30}): ?(.*)$")
_NUMBER = re.compile(r"\d{1,12}")
_TABLE_NAMES: Names = {
    "url": ("url",),
    "Status": ("status name", "statusname", "status"),
    "Fetch time": ("fetch time", "fetchtime"),
    "Modified time": ("modified time", "modifiedtime"),
    "Retry interval": ("retry interval seconds", "retry interval", "retryinterval"),
    "Score": ("score",),
    "Signature": ("signature",),
}
# Statuses of pages that were fetched, as HTTP's.
_STATUS = {
    "db_fetched": 200,
    "db_notmodified": 304,
    "db_gone": 404,
    "db_redir_temp": 302,
    "db_redir_perm": 301,
    "db_duplicate": 200,
    "db_orphan": 200,
}
_WORD = re.compile(r"db_\w+")
_COLUMNS = ("url", "at", "digest", "changed", "status", "importance")
_FETCHES_AT_A_TIME = 16_384


def _suits(head: Head) -> bool:
    if {"url", "fetch time"} <= head.columns:
        return True
    return bool(_url_of(head.first))


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    head = Head(reading.source)
    records = _table_records(reading) if "fetch time" in head.columns else _text_records(reading)
    fetches = _Fetches()
    for line, record in records:
        fetches.add(line, record, reading.refused)
        if len(fetches.lines) >= _FETCHES_AT_A_TIME:
            yield from batches_of(fetches.take_rows(), OBSERVED_FIELDS, OBSERVED, reading.refused)
    yield from batches_of(fetches.take_rows(), OBSERVED_FIELDS, OBSERVED, reading.refused)


class _Fetches:
    """Fetches that were read but not yet yielded."""

    def __init__(self) -> None:
        self.lines: list[int] = []
        self.columns: dict[str, list[object]] = {name: [] for name in _COLUMNS}

    def add(self, line: int, record: Mapping[str, str], refused: Refused) -> None:
        refused.n_rows += 1
        word = _WORD.search(record.get("Status") or "")
        status = _STATUS.get(word[0]) if word is not None else None
        if status is None:
            refused.refuse(line, "not fetched yet", record.get("Status"))
            return
        due_ms = instant_ms(record.get("Fetch time"))
        interval = _NUMBER.match(record.get("Retry interval") or "")
        if due_ms is None or interval is None:
            refused.refuse(
                line, "the fetch time or the interval is missing", record.get("Fetch time")
            )
            return
        at_ms = due_ms - 1_000 * int(interval[0])
        if at_ms < INSTANT_MS_MIN:
            refused.refuse(
                line, "the interval reaches back to before 1990", record["Retry interval"]
            )
            return
        digest = record.get("Signature")
        digest = None if digest in {"null", ""} else digest
        modified_ms = instant_ms(record.get("Modified time"))
        score = record.get("Score")
        if modified_ms is not None and modified_ms < at_ms:
            refused.n_rows += 1
            self._append(line, (record["url"], modified_ms, digest, True, 200, score))
            self._append(line, (record["url"], at_ms, digest, False, status, score))
        else:
            self._append(line, (record["url"], at_ms, digest, None, status, score))

    def _append(self, line: int, cells: tuple[object, ...]) -> None:
        self.lines.append(line)
        for column, cell in zip(self.columns.values(), cells, strict=True):
            column.append(cell)

    def take_rows(self) -> Rows:
        """Return the fetches so far, and forget them."""
        rows = Rows(lines=self.lines, columns=self.columns)
        self.lines, self.columns = [], {name: [] for name in _COLUMNS}
        return rows


def _url_of(text: str) -> str:
    """Return the URL on the first line of a record; empty for any other line."""
    url, mark, version = text.rpartition(_VERSION)
    return url.strip() if mark and version.strip().isdecimal() else ""


def _text_records(reading: Reading) -> Iterator[tuple[int, dict[str, str]]]:
    refused = reading.refused
    record: dict[str, str] = {}
    first_line = 0
    for block in line_blocks(reading.source, refused):
        for line, text in enumerate(block.texts(refused), block.first_line):
            if url := _url_of(text):
                if record:
                    yield first_line, record
                record, first_line = {"url": url}, line
            elif not text or text[0].isspace():
                # Metadata, or the end of a record.
                continue
            elif (found := _FIELD.match(text)) and record:
                record.setdefault(found[1], found[2].strip())
            else:
                refused.n_rows += 1
                refused.refuse(line, "not a line of a crawldb dump", text)
    if record:
        yield first_line, record


def _table_records(reading: Reading) -> Iterator[tuple[int, dict[str, str]]]:
    for rows in table_rows(reading, _TABLE_NAMES):
        # The rows are counted again when they become fetches.
        reading.refused.n_rows -= len(rows)
        for row, line in enumerate(rows.lines):
            record = {
                name: str(column[row]) for name, column in rows.columns.items() if column[row]
            }
            yield line, {"url": "", **record}


NUTCH = Format(
    name="nutch",
    kind="observed",
    about="a dump of Nutch's crawldb (readdb -dump), text or CSV",
    suits=_suits,
    read=_read,
)
