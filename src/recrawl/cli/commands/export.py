"""``recrawl export``: export all pages and what recrawl knows about each."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from recrawl.atomic_files import replace_file
from recrawl.cli.support.corpus_access import corpus_option, open_to_read
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.exported_files import UNSAFE_CELL, change_texts
from recrawl.cli.support.output import Output
from recrawl.safe_text import escape_json, protect_cell
from recrawl.units import count_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["command"]


# Common formats that a user may expect and recrawl does not write.
_WRONG_SUFFIXES = ("xlsx", "xls", "ods", "tsv", "gz", "zst", "xml", "sqlite", "db")


class _JsonLines:
    """Writer of rows as lines of JSON."""

    def __init__(self, file: BinaryIO, schema: "pa.Schema") -> None:
        del schema
        self._file = file

    def write(self, batch: "pa.RecordBatch") -> None:
        rows = batch.to_pylist()
        for row in rows:
            if row["metadata"] is not None:
                row["metadata"] = json.loads(row["metadata"])
        lines = [escape_json(json.dumps(row, ensure_ascii=False)) for row in rows]
        self._file.write(("\n".join(lines) + "\n").encode("utf-8", "replace"))

    def close(self) -> None:
        self._file.flush()


class _CsvRows:
    """Writer of rows as CSV, in which no cell is a formula or controls what shows it."""

    def __init__(self, file: BinaryIO, schema: "pa.Schema") -> None:
        from pyarrow.csv import CSVWriter  # noqa: PLC0415

        self._rows = CSVWriter(file, schema)

    def write(self, batch: "pa.RecordBatch") -> None:
        self._rows.write(change_texts(batch, UNSAFE_CELL, protect_cell))

    def close(self) -> None:
        self._rows.close()


def _writer(format_name: str, file: BinaryIO, schema: "pa.Schema") -> Any:
    match format_name:
        case "csv":
            return _CsvRows(file, schema)
        case "parquet":
            from pyarrow.parquet import ParquetWriter  # noqa: PLC0415

            return ParquetWriter(file, schema, compression="zstd")
    return _JsonLines(file, schema)


@contextmanager
def _destination(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if path.exists() and not path.is_file():
        # A device or a pipe, such as /dev/null, must not be replaced by a file.
        with path.open("wb") as file:
            yield file
        return
    with replace_file(path) as file:
        yield file


@example_command(
    "export",
    examples=(
        CommandExample("recrawl export > pages.jsonl"),
        CommandExample("recrawl export -o pages.csv"),
        CommandExample("recrawl export | head -n 1"),
    ),
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["jsonl", "csv", "parquet"]),
    help="Format of the output.  Default: by the name of FILE, or jsonl.",
)
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write; stdout by default.",
)
@corpus_option
def command(format_name: str | None, path: Path | None, folder: Path) -> None:
    """Export all pages and what recrawl knows about each.

    A row has the importance of the page, its last fetch, the estimated change rate with an
    interval, the probability that the copy is fresh, the time when it is due, and its etag and
    last_modified.  `recrawl import` can read the file, but not the change rates: recrawl learns
    them again.

    In CSV, text that a spreadsheet would compute, such as =1+1, has a ' before it, and text with
    control characters or marks of direction is escaped; `recrawl import` restores both.
    """
    suffix = "" if path is None else path.suffix.lower().lstrip(".")
    if format_name is None and suffix in _WRONG_SUFFIXES:
        raise click.UsageError(
            f"{path} would not be a .{suffix} file; name it .jsonl, .csv or .parquet, or choose "
            "with --format."
        )
    format_name = format_name or (suffix if suffix in ("csv", "parquet") else "jsonl")
    if format_name == "parquet" and path is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is binary; name a file with -o FILE.")
    if path is not None and not path.absolute().parent.is_dir():
        raise click.UsageError(f"there is no folder {path.parent} to write {path.name} to.")
    out = Output(is_json=False)
    n_pages = 0
    with open_to_read(folder) as corpus:
        from recrawl.corpus import EXPORT_SCHEMA  # noqa: PLC0415

        with (
            _destination(path) as file,
            out.progress("exporting", corpus.n_pages, unit="pages") as advance,
        ):
            writer = _writer(format_name, file, EXPORT_SCHEMA)
            for batch in corpus.export_batches():
                writer.write(batch)
                n_pages += batch.num_rows
                advance(batch.num_rows)
            writer.close()
    if path is not None:
        out.note(f"{count_text(n_pages, 'page')} written to {path} ({format_name}).")
