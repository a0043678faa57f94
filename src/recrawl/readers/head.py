"""The beginning of a file, from which its format is guessed."""

import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from recrawl.errors import ReadError
from recrawl.readers.inputs import HEAD_BYTES_MAX, Input
from recrawl.readers.spellings import URL_SPELLINGS, simple_name, simple_names

__all__ = ["Head", "delimiter_of", "header_cells"]

_LINES_MAX = 50
_PARQUET = b"PAR1"
_URL = re.compile("https?://", re.IGNORECASE)
# A file with one of these names on its first line is a table with a single column.
_LONE_NAMES = {*simple_names(URL_SPELLINGS)}
DELIMITERS = (",", "\t", ";", "|")


@dataclass(frozen=True)
class Head:
    """The beginning of a file, parsed in several ways."""

    source: Input
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Columns that the user named: our name to the name in the file."""

    @property
    def name(self) -> str:
        """The file's name in lower case, without the suffix of its compression."""
        return self.source.plain_name

    @property
    def folder(self) -> Path | None:
        """The path, if it is a folder."""
        return self.source.path if self.source.is_folder else None

    @property
    def data(self) -> bytes:
        """The first bytes, decompressed."""
        return self.source.head

    @property
    def is_parquet(self) -> bool:
        """Whether it is a Parquet file."""
        return self.data.startswith(_PARQUET)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The first lines that are not blank."""
        data = self.data.removeprefix(b"\xef\xbb\xbf")
        text = data.decode("utf-8", "replace").split("\n")
        if len(data) >= HEAD_BYTES_MAX and len(text) > 1:
            del text[-1]
        lines = (line.removesuffix("\r") for line in text)
        return tuple(line for line in lines if line.strip())[:_LINES_MAX]

    @cached_property
    def first(self) -> str:
        """The first line that is neither blank nor a comment."""
        return next((line for line in self.lines if not line.startswith("#")), "")

    @cached_property
    def first_object(self) -> dict[str, object] | None:
        """The first line as a JSON object; None if it is not one."""
        text = self.first.strip().removeprefix("[").rstrip(",")
        if not text.startswith("{"):
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def has_any(self, names: Iterable[str]) -> bool:
        """Return whether a table has a column with one of these names, in any spelling."""
        wanted = simple_names(names)
        return not {simple_name(name) for name in self.columns}.isdisjoint(wanted)

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names of columns in lower case, and ours for those the user named; empty for no table."""
        names = self._columns()
        known = simple_names(names)
        return names | {ours for ours, name in self.renamed.items() if simple_name(name) in known}

    @cached_property
    def field_names(self) -> list[str]:
        """Names of columns as in the file and in its order; empty for no table."""
        if self.is_parquet:
            return self._parquet_columns()
        if self.first_object is not None:
            return list(self.first_object)
        return header_cells(self.first)

    @cached_property
    def url_field(self) -> str | None:
        """Name of the first field whose value in the first row is a URL; None if there is none."""
        if self.first_object is not None:
            cells: list[object] = list(self.first_object.values())
        else:
            index = next((i for i, line in enumerate(self.lines) if line == self.first), 0)
            second = self.lines[index + 1] if index + 1 < len(self.lines) else ""
            cells = [*header_cells(second, delimiter_of(self.first))]
        named = zip(self.field_names, cells, strict=False)
        return next((name for name, cell in named if _URL.match(str(cell).strip())), None)

    def _columns(self) -> frozenset[str]:
        if self.is_parquet:
            return frozenset(name.lower() for name in self._parquet_columns())
        if self.first_object is not None:
            return frozenset(name.lower() for name in self.first_object)
        cells = [cell.lower() for cell in header_cells(self.first)]
        is_header = len(cells) > 1 or {*simple_names(cells)} <= _LONE_NAMES | {
            simple_name(name) for name in self.renamed.values()
        }
        return frozenset(cells) if is_header else frozenset()

    def _parquet_columns(self) -> list[str]:
        try:
            with self.source.open_seekable() as file:
                return list(pq.read_schema(file).names)
        except (OSError, ValueError, pa.ArrowException, ReadError):
            return []


def delimiter_of(line: str) -> str:
    """Return the most likely delimiter of a table, from its first line."""
    return max(DELIMITERS, key=line.count)


def header_cells(line: str, delimiter: str | None = None) -> list[str]:
    """Return the cells of a table's first line; an empty list if it is not a CSV row."""
    try:
        cells = next(csv.reader([line], delimiter=delimiter or delimiter_of(line)), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in cells]
