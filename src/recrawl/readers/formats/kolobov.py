"""Read the data set of Kolobov et al. (NeurIPS 2019): 14 weeks of daily polls of 18 million pages.

The folder has ``urlid_offset_history.txt`` and, optionally, ``url_urlid_hostid.txt`` and
``urlid_imp.txt``, all separated by tabs.  The reader keeps each page's number, URL and importance
in memory, about 100 bytes a page.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recrawl.core.arrays import FloatArray
from recrawl.errors import ReadError
from recrawl.readers.head import Head
from recrawl.readers.inputs import Input
from recrawl.readers.lines import line_blocks
from recrawl.readers.reading import Format, Reading
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import OBSERVED
from recrawl.readers.tabular.cells import as_strings
from recrawl.readers.tabular.columns import Rows
from recrawl.readers.tabular.fields import OBSERVED_FIELDS, batches_of

__all__ = ["KOLOBOV", "KOLOBOV_PAGES_MAX"]

KOLOBOV_PAGES_MAX = 50_000_000
"""Most pages whose URL and importance are kept; the others are named by their number."""

HISTORY = "urlid_offset_history.txt"
_URLS = "url_urlid_hostid.txt"
_IMPORTANCE = "urlid_imp.txt"
_DAY_MS = 86_400_000
# The data set is from 2017; it has no exact dates.
_START_MS = 1_483_228_800_000
_ID_MAX = 1 << 62
_DAYS_MAX = 36_500.0


class _PageValues(NamedTuple):
    """A value for each of some pages, in the order of their numbers."""

    number: np.ndarray
    value: pa.Array

    def of(self, numbers: np.ndarray) -> pa.Array:
        """Return the values of some pages; null where there is none."""
        if not self.number.size:
            return pa.nulls(numbers.size, self.value.type)
        place = np.searchsorted(self.number, numbers)
        place[place == self.number.size] = 0
        return self.value.take(pa.array(place, mask=self.number[place] != numbers))


def _suits(head: Head) -> bool:
    return head.folder is not None and (head.folder / HISTORY).is_file()


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    folder = reading.source.path
    if folder is None or not (folder / HISTORY).is_file():
        raise ReadError(f"{reading.source.name} has no {HISTORY}; give the folder that has it")
    refused = reading.refused
    urls = _read_page_values(folder / _URLS, 1, 0, pa.string(), refused)
    importances = _read_page_values(folder / _IMPORTANCE, 0, 1, pa.float64(), refused)
    start_ms = _START_MS if reading.options.start_ms is None else reading.options.start_ms
    if reading.options.start_ms is None:
        refused.note("days are counted from 2017-01-01, because the data set has no dates")
    if not len(urls.value):
        refused.note(f"pages are named by their number, because there is no {_URLS}")
    for block in line_blocks(Input(folder / HISTORY), refused):
        lines: list[int] = []
        number: list[int] = []
        days: list[float] = []
        changed: list[bool | None] = []
        for line, text in enumerate(block.texts(refused), block.first_line):
            if not text or text.isspace():
                continue
            refused.n_rows += 1
            polls = _polls(text)
            if polls is None:
                refused.refuse(line, "not a number, an offset and a list of [days, changed]", text)
                continue
            refused.n_rows += len(polls.days) - 1
            lines += [line] * len(polls.days)
            number += [polls.number] * len(polls.days)
            days += polls.days
            changed += polls.changed
        if not lines:
            continue
        page = np.array(number, np.int64)
        url = pc.coalesce(urls.of(page), pa.array(page).cast(pa.string()))
        at_ms = start_ms + np.rint(np.array(days) * _DAY_MS).astype(np.int64)
        rows = Rows(
            lines=lines,
            columns={
                "url": url,
                "at": pa.array(at_ms),
                "changed": pa.array(changed, pa.bool_()),
                "importance": importances.of(page),
            },
        )
        yield from batches_of(rows, OBSERVED_FIELDS, OBSERVED, refused)


class _Polls(NamedTuple):
    """A line of the history."""

    number: int
    days: list[float]
    changed: list[bool | None]


def _polls(text: str) -> _Polls | None:
    cells = text.split("\t", 2)
    try:
        number, day = int(cells[0]), float(cells[1])
        history = json.loads(cells[2])
    except (ValueError, IndexError, RecursionError):
        return None
    if not 0 <= number < _ID_MAX or not isinstance(history, list):
        return None
    days = [day]
    changed: list[bool | None] = [None]
    for poll in history:
        match poll:
            case [float() | int() as elapsed, 0 | 1 as flag] if 0 <= elapsed <= _DAYS_MAX:
                day += elapsed
                days.append(day)
                changed.append(bool(flag))
            case _:
                return None
    return _Polls(number, days, changed) if days[0] >= 0 and day <= _DAYS_MAX else None


def _read_page_values(
    path: Path, number_cell: int, value_cell: int, kind: pa.DataType, refused: Refused
) -> _PageValues:
    """Read a file with one value for each page; invalid lines are skipped."""
    numbers: list[np.ndarray] = []
    values: list[pa.Array] = []
    n_pages, n_bad = 0, 0
    n_cells = max(number_cell, value_cell) + 1
    for block in line_blocks(Input(path), refused) if path.is_file() else ():
        number: list[int] = []
        value: list[str] = []
        for text in block.texts(refused):
            cells = text.split("\t")
            digits = cells[number_cell] if len(cells) >= n_cells else ""
            if digits.isdecimal() and digits.isascii() and len(digits) < 19:
                number.append(int(digits))
                value.append(cells[value_cell])
            elif text:
                n_bad += 1
        numbers.append(np.array(number, np.int64))
        values.append(as_strings(value) if pa.types.is_string(kind) else _floats(value))
        n_pages += len(number)
        if n_pages > KOLOBOV_PAGES_MAX:
            refused.note(f"only the first {KOLOBOV_PAGES_MAX:,} pages of {path.name} were taken")
            break
    if n_bad:
        refused.note(f"{n_bad:,} lines of {path.name} could not be read")
    if not numbers:
        return _PageValues(np.empty(0, np.int64), pa.array([], kind))
    number_of = np.concatenate(numbers)
    # URLs may exceed the 2 GiB of an ordinary string array.
    large = pa.large_string() if pa.types.is_string(kind) else kind
    value_of = pa.chunked_array([chunk.cast(large) for chunk in values]).combine_chunks()
    order = np.argsort(number_of, kind="stable")
    return _PageValues(number_of[order], value_of.take(pa.array(order)))


def _floats(texts: list[str]) -> pa.Array:
    numbers: FloatArray = np.full(len(texts), np.nan)
    for place, text in enumerate(texts):
        try:
            numbers[place] = float(text)
        except ValueError:
            continue
    return pa.array(numbers, mask=~(np.isfinite(numbers) & (numbers >= 0)))


KOLOBOV = Format(
    name="kolobov",
    kind="observed",
    about="the data set of Kolobov et al. (2019): a folder with urlid_offset_history.txt",
    suits=_suits,
    read=_read,
)
