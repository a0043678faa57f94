"""What commands are told to read: URLs as arguments, files, or stdin, as streams of rows."""

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import click

from recrawl.cli.support.presenting import Output
from recrawl.units import count_text, share_text

if TYPE_CHECKING:
    import pyarrow as pa

    from recrawl.readers import Source

__all__ = [
    "REASONS_SHOWN_MAX",
    "InputFile",
    "Inputs",
    "begin_of",
    "column_option",
    "format_option",
    "input_file",
    "inputs_argument",
    "is_url",
    "opened",
    "progressing",
    "refused_row",
    "say_refused",
    "split_inputs",
]

REASONS_SHOWN_MAX = 3
STDIN_BYTES_FEW = 1 << 16
"""Of stdin, read before anything else, to know whether there is more."""

_COMPRESSED = (".gz", ".bz2", ".zst", ".zstd", ".parquet")
_INFLATION = 10

inputs_argument = click.argument("inputs", nargs=-1, metavar="[FILE|URL|-]...")
"""Files, URLs and ``-`` for stdin, passed as ``inputs``."""

format_option = click.option(
    "--format", "format_name", metavar="NAME", help="Of the files; guessed unless given."
)
column_option = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=FIELD",
    help="Which of a file's own fields holds what: url=loc.  May be repeated.",
)


def is_url(text: str) -> bool:
    """Return whether an argument is a URL rather than a file."""
    return text.lower().startswith(("http://", "https://"))


class InputFile(NamedTuple):
    """A file to read, or stdin."""

    name: str
    """As it was typed."""
    source: Path | BinaryIO
    n_bytes: int | None
    """About, once decompressed; None if that may be much."""


class Inputs(NamedTuple):
    """What a command was told to read."""

    urls: list[str]
    files: list[InputFile]

    @property
    def n_bytes(self) -> int | None:
        """Bytes of all of it, about; None if that may be much."""
        sizes = [file.n_bytes for file in self.files]
        known = [size for size in sizes if size is not None]
        return sum(known) + sum(map(len, self.urls)) if len(known) == len(sizes) else None


class _Begun(io.RawIOBase):
    """A stream of which the beginning has been read already."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._head:
            n = len(self._head) if size < 0 else size
            data, self._head = self._head[:n], self._head[n:]
            return data
        return self._rest.read(size)

    def peek(self) -> bytes:
        """Return the beginning, which stays to be read."""
        return self._head


def begin_of(file: InputFile) -> bytes:
    """Return how stdin begins; nothing of a file."""
    if isinstance(file.source, io.BytesIO):
        return file.source.getvalue()
    return file.source.peek() if isinstance(file.source, _Begun) else b""


def _stdin() -> InputFile:
    """Return stdin, read far enough to know whether there is little of it."""
    head = sys.stdin.buffer.read(STDIN_BYTES_FEW)
    if len(head) < STDIN_BYTES_FEW:
        return InputFile("-", io.BytesIO(head), len(head))
    return InputFile("-", cast(BinaryIO, _Begun(head, sys.stdin.buffer)), None)


def input_file(name: str) -> InputFile:
    """Return a file by its name, stdin for ``-``; wrong usage if it is not there."""
    if name == "-":
        return _stdin()
    path = Path(name)
    if not path.exists():
        raise click.UsageError(
            f"{name} is no file; a URL begins with http:// or https://.",
            click.get_current_context(silent=True),
        )
    if not path.is_file():
        return InputFile(name, path, None)
    factor = _INFLATION if path.suffix.lower() in _COMPRESSED else 1
    return InputFile(name, path, path.stat().st_size * factor)


def split_inputs(inputs: Sequence[str]) -> Inputs:
    """Return the URLs and the files among arguments; stdin where there is nothing else."""
    if not inputs and sys.stdin.isatty():
        raise click.UsageError(
            "nothing to read; name files or URLs, or pipe something in.",
            click.get_current_context(silent=True),
        )
    urls = [one for one in inputs if is_url(one)]
    names = [one for one in inputs if not is_url(one)] if inputs else ["-"]
    return Inputs(urls, [input_file(name) for name in names])


def opened(
    file: InputFile,
    *,
    format_name: str | None = None,
    columns: Sequence[str] = (),
    **settings: Any,
) -> "Source":
    """Open a file for its rows.

    Parameters
    ----------
    file
        Of `split_inputs` or `input_file`.
    format_name
        Of the file; guessed unless given.
    columns
        ``name=field`` each.
    **settings
        Of `recrawl.readers.open_source`.
    """
    from recrawl.readers import open_source  # noqa: PLC0415

    fields = dict(_pair(text) for text in columns)
    try:
        return open_source(file.source, format=format_name, columns=fields, **settings)
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from error


def _pair(text: str) -> tuple[str, str]:
    name, mark, field = text.partition("=")
    if not (mark and name and field):
        raise click.UsageError(f"--column must be NAME=FIELD, got {text!r}.")
    return name, field


def progressing(source: "Source", file: InputFile, out: Output) -> "Iterator[pa.RecordBatch]":
    """Yield the batches of a source, and show how far it is where that is seen."""
    shown = "stdin" if file.name == "-" else Path(file.name).name
    n_bytes = 0
    with out.progress(f"reading {shown}", source.n_bytes, unit="bytes") as advance:
        for batch in source.batches():
            yield batch
            advance(source.n_bytes_read - n_bytes)
            n_bytes = source.n_bytes_read


def refused_row(source: "Source") -> dict[str, Any]:
    """Return what was refused of a file, as a program wants it."""
    refused = source.refused
    return {
        "n_rows": refused.n_rows,
        "n_rows_refused": refused.n_refused,
        "refused_by_reason": dict(refused.by_reason),
    }


def say_refused(source: "Source", name: str, out: Output) -> None:
    """Say on stderr what was refused of a file, and why of the first few."""
    refused = source.refused
    for note in refused.notes:
        out.note(f"{name}: {note}")
    if refused.is_cut_short:
        out.note(f"{name}: not read to its end: {refused.cut_short_reason}")
    if not refused.n_refused:
        return
    share = share_text(refused.n_refused / max(refused.n_rows, 1))
    out.note(f"{name}: {count_text(refused.n_refused, 'row')} refused ({share}):")
    for row in refused.examples[:REASONS_SHOWN_MAX]:
        out.note(f"  {row}")
    if refused.n_refused > REASONS_SHOWN_MAX:
        out.note("  …")


def listed_batch(urls: Sequence[str]) -> "pa.RecordBatch":
    """Return URLs as a batch of the schema that lists of pages have."""
    import pyarrow as pa  # noqa: PLC0415

    from recrawl.readers import LISTED  # noqa: PLC0415

    nulls = [pa.nulls(len(urls), field.type) for field in list(LISTED)[1:]]
    return pa.record_batch([pa.array(urls, pa.string()), *nulls], schema=LISTED)


def named_urls(
    told: Inputs, format_name: str | None, columns: tuple[str, ...], out: Output
) -> "Iterator[pa.Array]":
    """Yield the URLs that arguments and files name."""
    if told.urls:
        yield listed_batch(told.urls).column("url")
    for file in told.files:
        source = opened(file, format_name=format_name, columns=columns)
        for batch in progressing(source, file, out):
            yield batch.column("url")
        say_refused(source, file.name, out)
