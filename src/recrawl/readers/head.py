"""The beginning of a file, from which its format is guessed."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from recrawl.errors import ReadError
from recrawl.readers.inputs import HEAD_BYTES_MAX, Input

__all__ = ["Head", "delimiter_of", "header_cells"]

_LINES_MAX = 50
_PARQUET = b"PAR1"
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

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names of columns in lower case, and ours for those the user named; empty for no table."""
        names = self._columns()
        return names | {ours for ours, name in self.renamed.items() if name.lower() in names}

    def _columns(self) -> frozenset[str]:
        if self.is_parquet:
            return frozenset(self._parquet_columns())
        if self.first_object is not None:
            return frozenset(name.lower() for name in self.first_object)
        cells = [cell.lower() for cell in header_cells(self.first)]
        return frozenset(cells) if len(cells) > 1 or cells == ["url"] else frozenset()

    def _parquet_columns(self) -> list[str]:
        try:
            with self.source.open_seekable() as file:
                return [name.lower() for name in pq.read_schema(file).names]
        except (OSError, ValueError, pa.ArrowException, ReadError):
            return []


def delimiter_of(line: str) -> str:
    """Return the most likely delimiter of a table, from its first line."""
    return max(DELIMITERS, key=line.count)


def header_cells(line: str) -> list[str]:
    """Return the cells of a table's first line; an empty list if it is not a CSV row."""
    try:
        cells = next(csv.reader([line], delimiter=delimiter_of(line)), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in cells]
