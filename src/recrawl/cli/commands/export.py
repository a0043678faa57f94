"""``recrawl export``: all pages and what is known of each, as JSON lines, CSV or Parquet."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from recrawl.cli.support.corpora import corpus_option, open_to_read
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.presenting import Output
from recrawl.units import count_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["command"]


class _JsonLines:
    """Rows as lines of JSON."""

    def __init__(self, file: BinaryIO, schema: "pa.Schema") -> None:
        del schema
        self._file = file

    def write(self, batch: "pa.RecordBatch") -> None:
        lines = [json.dumps(row, ensure_ascii=False) for row in batch.to_pylist()]
        self._file.write(("\n".join(lines) + "\n").encode("utf-8", "replace"))

    def close(self) -> None:
        self._file.flush()


def _writer(format_name: str, file: BinaryIO, schema: "pa.Schema") -> Any:
    match format_name:
        case "csv":
            from pyarrow.csv import CSVWriter  # noqa: PLC0415

            return CSVWriter(file, schema)
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
        # A device or a pipe stays what it is: /dev/null is not to become a file of pages.
        with path.open("wb") as file:
            yield file
        return
    # Whole or not at all; a link stays one.
    path = path.resolve() if path.is_symlink() else path
    draft = path.with_name(f".{path.name}.part")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@example_command(
    "export",
    examples=(
        Example("recrawl export > pages.jsonl"),
        Example("recrawl export --format csv -o pages.csv"),
        Example("recrawl export | head -n 1"),
    ),
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["jsonl", "csv", "parquet"]),
    help="jsonl unless given, or as the name of FILE ends.",
)
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to; stdout unless given.",
)
@corpus_option
def command(format_name: str | None, path: Path | None, folder: Path) -> None:
    """Print all pages and what is known of each.

    A row has the page's importance, when it was last fetched, how often it is believed to change
    and within which bounds, how likely its copy is fresh, when it is due, and its validators.
    `recrawl import` reads it again, but for how often pages change: that is learned anew.
    """
    suffix = "" if path is None else path.suffix.lower().lstrip(".")
    format_name = format_name or (suffix if suffix in ("csv", "parquet") else "jsonl")
    if format_name == "parquet" and path is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for reading; name a file with -o FILE.")
    if path is not None and not path.absolute().parent.is_dir():
        raise click.UsageError(f"there is no folder {path.parent} to write {path.name} to.")
    out = Output(is_json=False)
    n_pages = 0
    with open_to_read(folder) as corpus:
        from recrawl.corpus.export_rows import PAGE_ROWS, page_rows  # noqa: PLC0415

        total = sum(node.shard.n_pages for node in corpus.nodes)
        with (
            _destination(path) as file,
            out.progress("exporting", total, unit="pages") as advance,
        ):
            writer = _writer(format_name, file, PAGE_ROWS)
            for batch in page_rows(corpus):
                writer.write(batch)
                n_pages += batch.num_rows
                advance(batch.num_rows)
            writer.close()
    if path is not None:
        out.note(f"{count_text(n_pages, 'page')} written to {path}.")
