"""Read CDX, the index of web archives, as text, CSV or the JSON arrays of a server.

Arrow splits the lines, a block at a time; lines with an unusual number of fields are split one by
one.  A CDX file of any size is read in the memory of a few blocks.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from recrawl.readers.head import Head
from recrawl.readers.instants import cdx_column, cdx_instants_ms
from recrawl.readers.lines import LineBlock, line_blocks
from recrawl.readers.reading import Format, Reading
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import OBSERVED, URL_BYTES_MAX
from recrawl.readers.tabular.cells import digest_cells, status_cells
from recrawl.readers.tabular.columns import Names, Rows
from recrawl.readers.tabular.fields import OBSERVED_FIELDS, batches_of, slice_batch
from recrawl.readers.tabular.tables import table_rows

__all__ = ["CDX", "CDX_FIELDS_MAX"]

CDX_FIELDS_MAX = 64
"""Most fields of a line."""

# https://archive.org/web/researcher/cdx_legend.php: b date, a original URL, s response code,
# k and c new and old style checksum.  Without a header the first six are N b a m s k.
_PLACES = {"at": 1, "url": 2, "status": 4, "digest": 5}
_LETTERS = {"at": "b", "url": "a", "status": "s", "digest": "kc"}
# Bytes of a block from which the usual number of fields is counted.
_SAMPLE_BYTES = 1 << 14
_HEADER = re.compile(r"(.)CDX((?:\1\S)+)\s*$")
_LINE = re.compile(r"\S+ \d{4,14} \S+ \S+ \S+ \S+( \S+)*\s*$")
_TABLE_NAMES: Names = {
    "url": ("original", "url"),
    "at": ("timestamp",),
    "digest": ("digest",),
    "status": ("statuscode", "status"),
}
_TOO_FEW = "too few fields for a line of CDX"


def _suits(head: Head) -> bool:
    if _HEADER.match(head.first) or _is_array(head):
        return True
    if {"urlkey", "timestamp"} <= head.columns:
        return head.first_object is None and not head.is_parquet
    return _LINE.match(head.first) is not None


def _is_array(head: Head) -> bool:
    return head.first.replace(" ", "").startswith('[["')


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    head = Head(reading.source)
    if _is_array(head):
        return _read_arrays(reading)
    if not _HEADER.match(head.first) and "timestamp" in head.columns:
        return _read_table(reading)
    return _read_text(reading)


def _read_table(reading: Reading) -> Iterator[pa.RecordBatch]:
    for rows in table_rows(reading, _TABLE_NAMES, required=("url", "at")):
        yield from batches_of(rows, OBSERVED_FIELDS, OBSERVED, reading.refused)


# ------------------------------------------------------------------------------------ text


def _read_text(reading: Reading) -> Iterator[pa.RecordBatch]:
    refused = reading.refused
    delimiter, places = " ", _PLACES
    for block in line_blocks(reading.source, refused):
        data, first_line = block.data, block.first_line
        # Every part of an index may begin with a header.
        while data[1:4] == b"CDX":
            line_end = data.find(b"\n") + 1 or len(data)
            header = _HEADER.match(data[:line_end].decode("latin-1"))
            if header is None:
                break
            delimiter, places = header[1], _places_of(header[2].split(header[1])[1:])
            data, first_line = data[line_end:], first_line + 1
        if not data:
            continue
        yield from _text_batches(
            LineBlock(first_line=first_line, data=data), delimiter, places, refused
        )


def _places_of(letters: Sequence[str]) -> dict[str, int]:
    places = {}
    for name, wanted in _LETTERS.items():
        place = next((letters.index(letter) for letter in wanted if letter in letters), None)
        if place is not None:
            places[name] = place
    return places


def _text_batches(
    block: LineBlock, delimiter: str, places: dict[str, int], refused: Refused
) -> Iterator[pa.RecordBatch]:
    """Yield the captures of lines: most of them at once, irregular ones one by one."""
    block = block.as_utf8(refused)
    split = _split(block.data, delimiter, places)
    if split is None:
        yield from _slow_batches(_numbered_texts(block, refused), delimiter, places, refused)
        return
    n = len(split.columns["url"])
    lines = np.arange(block.first_line, block.first_line + n + len(split.odd))
    lines = np.delete(lines, split.odd)
    url = split.columns["url"].cast(pa.string())
    length = pc.binary_length(url).to_numpy(zero_copy_only=False)
    at_ms, is_instant = cdx_instants_ms(split.columns["at"])
    given = {
        name: split.columns.get(name, pa.nulls(n, pa.binary())) for name in ("digest", "status")
    }
    digest, is_wrong_digest = digest_cells(_without_dash(given["digest"]))
    status, is_wrong_status = _statuses(given["status"])
    # Blank lines are not rows.
    at_length = pc.binary_length(split.columns["at"]).to_numpy(zero_copy_only=False)
    is_taken = (length > 0) | (at_length > 0)
    refused.n_rows += int(is_taken.sum())
    for is_bad, reason, got in (
        (length == 0, "no URL", split.columns["at"]),
        (length > URL_BYTES_MAX, "the URL is not text of at most 65,535 bytes", url),
        (~is_instant, "the time is invalid or outside 1990 to 2100", split.columns["at"]),
        (is_wrong_digest, "the digest is not text of at most 1,024 bytes", given["digest"]),
        (is_wrong_status, "the status is not an HTTP status", given["status"]),
    ):
        bad = np.flatnonzero(is_bad & is_taken).tolist()
        if bad:
            refused.refuse_many(((int(lines[row]), got[row].as_py()) for row in bad), reason)
            is_taken[bad] = False
    batch = pa.RecordBatch.from_arrays(
        [
            url,
            pa.array(at_ms),
            digest,
            pa.nulls(n, pa.bool_()),
            status,
            pa.nulls(n, pa.float64()),
            *(pa.nulls(n, pa.string()) for _ in ("doc_id", "metadata", "key")),
        ],
        schema=OBSERVED,
    )
    if not is_taken.all():
        batch = batch.filter(pa.array(is_taken))
    yield from slice_batch(batch)
    if split.odd:
        rest = [
            (block.first_line + row, text) for row, text in _texts_at(block, split.odd, refused)
        ]
        yield from _slow_batches(rest, delimiter, places, refused)


class _Split(NamedTuple):
    """Lines split into fields."""

    columns: dict[str, pa.BinaryArray]
    """Fields of the lines with the usual number of fields."""
    odd: list[int]
    """Numbers of the lines with another number of fields."""


def _split(data: bytes, delimiter: str, places: dict[str, int]) -> _Split | None:
    """Return the fields of lines as columns; None if Arrow cannot split them."""
    counts = [line.count(delimiter.encode()) for line in data[:_SAMPLE_BYTES].split(b"\n")[:-1]]
    n_fields = max(counts, key=counts.count, default=0) + 1
    has_all = max(places.get("at", n_fields), places.get("url", n_fields)) < n_fields
    if not (delimiter.isascii() and has_all and n_fields <= CDX_FIELDS_MAX):
        return None
    names = [str(place) for place in range(n_fields)]
    wanted = {name: str(place) for name, place in places.items() if place < n_fields}
    odd: list[int] = []

    def skip(row: Any) -> str:
        odd.append(row.number - 1)
        return "skip"

    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            read_options=pyarrow.csv.ReadOptions(
                column_names=names, use_threads=False, block_size=len(data) + 1
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=delimiter,
                quote_char=False,
                double_quote=False,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()),
                include_columns=list(dict.fromkeys(wanted.values())),
                check_utf8=False,
            ),
        )
    except (pa.ArrowException, OSError, ValueError):
        return None
    n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if table.num_rows + len(odd) != n_lines:
        # Arrow also ends lines at a bare carriage return.
        return None
    columns = {name: table[theirs].combine_chunks() for name, theirs in wanted.items()}
    return _Split(columns, odd)


def _texts_at(block: LineBlock, rows: list[int], refused: Refused) -> list[tuple[int, str]]:
    texts = block.texts(refused)
    return [(row, texts[row]) for row in rows]


def _numbered_texts(block: LineBlock, refused: Refused) -> Iterable[tuple[int, str]]:
    return enumerate(block.texts(refused), block.first_line)


def _without_dash(texts: pa.BinaryArray) -> pa.BinaryArray:
    is_dash = pc.equal(texts, b"-")
    return pc.if_else(is_dash, pa.scalar(None, pa.binary()), texts)


def _statuses(texts: pa.BinaryArray) -> tuple[pa.Array, Any]:
    """Convert statuses; there are few distinct ones, so each is converted once."""
    encoded = texts.dictionary_encode()
    words = [word.decode("latin-1") for word in encoded.dictionary.to_pylist()]
    values, is_wrong = status_cells(words)
    index = encoded.indices
    place = pc.fill_null(index, 0).to_numpy(zero_copy_only=False)
    is_null = index.is_null().to_numpy(zero_copy_only=False)
    wrong = is_wrong[place] & ~is_null if words else np.zeros(len(texts), bool)
    return values.take(index), wrong


def _slow_batches(
    numbered: Iterable[tuple[int, str]],
    delimiter: str,
    places: dict[str, int],
    refused: Refused,
) -> Iterator[pa.RecordBatch]:
    lines: list[int] = []
    columns: dict[str, list[str | None]] = {name: [] for name in _PLACES}
    n_min = max((places[name] for name in ("at", "url") if name in places), default=0) + 1
    for line, text in numbered:
        if not text or text.isspace() or _HEADER.match(text):
            continue
        refused.n_rows += 1
        fields = text.split(delimiter, CDX_FIELDS_MAX)
        if len(fields) < max(n_min, 4):
            refused.refuse(line, _TOO_FEW, text)
            continue
        lines.append(line)
        for name, column in columns.items():
            place = places.get(name, len(fields))
            column.append(fields[place] if place < len(fields) else None)
    given = columns | {"at": cdx_column(columns["at"])}
    yield from batches_of(Rows(lines=lines, columns=given), OBSERVED_FIELDS, OBSERVED, refused)


# ---------------------------------------------------------------------------------- arrays


def _read_arrays(reading: Reading) -> Iterator[pa.RecordBatch]:
    """Read the JSON of a CDX server: one array per line, the first one with names."""
    refused = reading.refused
    places: dict[str, int] | None = None
    for block in line_blocks(reading.source, refused):
        lines: list[int] = []
        columns: dict[str, list[object]] = {name: [] for name in _TABLE_NAMES}
        for line, text in enumerate(block.texts(refused), block.first_line):
            for row in _arrays_of(text, line, refused):
                if places is None:
                    places = _places_by_name(row)
                    continue
                refused.n_rows += 1
                lines.append(line)
                for name, column in columns.items():
                    place = places.get(name, len(row))
                    column.append(row[place] if place < len(row) else None)
        dates = [date if isinstance(date, str) else None for date in columns["at"]]
        given = columns | {"at": cdx_column(dates)}
        yield from batches_of(Rows(lines=lines, columns=given), OBSERVED_FIELDS, OBSERVED, refused)


def _places_by_name(header: list[Any]) -> dict[str, int]:
    names = [str(name).lower() for name in header[:CDX_FIELDS_MAX]]
    return {
        ours: names.index(next(name for name in known if name in names))
        for ours, known in _TABLE_NAMES.items()
        if any(name in names for name in known)
    }


def _arrays_of(text: str, line: int, refused: Refused) -> list[list[Any]]:
    """Return the arrays on a line of an array of arrays."""
    text = text.strip().rstrip(",")
    if text in {"", "[", "]", "[]"}:
        return []
    candidates = (text, text.removeprefix("["), text.removesuffix("]"))
    for candidate in candidates:
        try:
            found = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, list):
            if found and all(isinstance(row, list) for row in found):
                return found
            return [found] if found else []
    refused.n_rows += 1
    refused.refuse(line, "not a JSON array", text)
    return []


CDX = Format(
    name="cdx",
    kind="observed",
    about="CDX of a web archive, with or without a header line; also as CSV or JSON arrays",
    suits=_suits,
    read=_read,
)
