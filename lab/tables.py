"""Numbers that were measured, kept as CSV: pages and pictures are made of nothing else."""

import csv
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cell", "Table", "digest_of", "markdown_table", "read_tables", "write_tables"]

Cell = str | float | int | bool
_SIGNIFICANT = 7


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Named columns of equal length, as text, the way they stand in a CSV file.

    What is judged and drawn is always read back from text, so that it is what the file says.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Cell]]) -> "Table":
        """Return a table of rows that all have the same names, in the same order."""
        listed = list(rows)
        if not listed:
            raise ValueError("rows must not be empty")
        names = tuple(listed[0])
        for row in listed:
            if tuple(row) != names:
                raise ValueError(f"rows must have the columns {names}, got {tuple(row)}")
        return cls(names, tuple(tuple(_text(row[name]) for name in names) for row in listed))

    @classmethod
    def of_columns(cls, columns: Mapping[str, Sequence[Cell] | NDArray[np.generic]]) -> "Table":
        """Return a table of columns of equal length."""
        lists = [np.asarray(column).tolist() for column in columns.values()]
        names = tuple(columns)
        return cls.of(dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True))

    def texts(self, name: str) -> list[str]:
        """Return a column as text."""
        k = self.names.index(name)
        return [row[k] for row in self.rows]

    def floats(self, name: str) -> NDArray[np.float64]:
        """Return a column of numbers; what is empty is nan."""
        return np.array([float(text) if text else np.nan for text in self.texts(name)])

    def where(self, **wanted: Cell) -> "Table":
        """Return the rows in which columns have these values."""
        keys = [(self.names.index(name), _text(value)) for name, value in wanted.items()]
        kept = tuple(row for row in self.rows if all(row[k] == value for k, value in keys))
        return Table(self.names, kept)

    def value(self, name: str, **wanted: Cell) -> float:
        """Return the number in the one row in which columns have these values."""
        found = self.where(**wanted).floats(name)
        if found.size != 1:
            raise ValueError(f"{wanted} must name one row, got {found.size}")
        return float(found[0])

    def distinct(self, name: str) -> list[str]:
        """Return the different values of a column, in order of their first row."""
        return list(dict.fromkeys(self.texts(name)))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)


def _text(cell: Cell) -> str:
    if isinstance(cell, bool | np.bool_):
        return "yes" if cell else "no"
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if isinstance(cell, float | np.floating):
        return "" if np.isnan(cell) else f"{float(cell):.{_SIGNIFICANT}g}"
    return str(cell)


def write_tables(folder: Path, tables: Mapping[str, Table]) -> None:
    """Write each table as ``<name>.csv``; other CSV files in the folder go."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.csv"):
        if path.stem not in tables:
            path.unlink()
    for name, table in tables.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table.names)
            writer.writerows(table.rows)


def read_tables(folder: Path) -> dict[str, Table]:
    """Return the tables of a folder by name."""
    tables = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            names, *rows = csv.reader(file)
        tables[path.stem] = Table(tuple(names), tuple(tuple(row) for row in rows))
    return tables


def digest_of(tables: Mapping[str, Table]) -> str:
    """Return what changes whenever a number of the tables does."""
    digest = hashlib.sha256()
    for name in sorted(tables):
        digest.update(repr((name, tables[name].names, tables[name].rows)).encode())
    return digest.hexdigest()[:16]


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]
