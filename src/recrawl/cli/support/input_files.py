"""Inputs of commands: URLs as arguments, files and stdin, read as batches of rows."""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar, cast

import click

from recrawl.cli.support.output import Output
from recrawl.units import count_text, share_text

if TYPE_CHECKING:
    import pyarrow as pa

    from recrawl.corpus import Corpus
    from recrawl.readers import Source

__all__ = [
    "CRAWL_FORMATS",
    "LIST_FORMATS",
    "REASONS_SHOWN_MAX",
    "InputFile",
    "Inputs",
    "batches_with_progress",
    "column_option",
    "first_bytes",
    "format_option",
    "has_keys",
    "input_file",
    "input_pages",
    "inputs_argument",
    "is_url",
    "key_argument",
    "key_option",
    "metadata_fields",
    "metadata_option",
    "named_columns",
    "open_input",
    "refused_counts",
    "sampled_pages_option",
    "show_refused",
    "split_inputs",
]

_F = TypeVar("_F", bound=Callable[..., Any])

REASONS_SHOWN_MAX = 3
STDIN_BYTES_FEW = 1 << 16
"""Bytes of stdin that are read first, to find out whether there is more."""

_COMPRESSED = (".gz", ".bz2", ".zst", ".zstd", ".parquet")
_INFLATION = 10

inputs_argument = click.argument("inputs", nargs=-1, metavar="[FILE|URL|-]...")
"""Files, URLs and ``-`` for stdin, passed as ``inputs``."""

LIST_FORMATS = ("csv", "jsonl", "parquet", "list", "sitemap")
"""Formats of lists of pages, as options name them."""
CRAWL_FORMATS = (
    "csv",
    "jsonl",
    "parquet",
    "cdx",
    "cdxj",
    "nutch",
    "stormcrawler",
)
"""Formats of logs of fetches, as options name them."""
_TABLES = ("csv", "jsonl", "parquet")


def format_option(*names: str) -> Callable[[_F], _F]:
    """Return a ``--format`` option for these formats."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if value is not None and value not in names:
            from recrawl.readers import FORMATS  # noqa: PLC0415

            if value not in FORMATS:
                raise click.BadParameter(
                    f"must be one of {', '.join(names)}, got {value!r}.", ctx, param
                )
        return value

    return click.option(
        "--format",
        "format_name",
        metavar="NAME",
        callback=check,
        help=f"Format of the files: {', '.join(names)}.  Default: guessed.",
    )


column_option = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=FIELD",
    help="If a column has another name: url=link reads url from the column link.  May be repeated.",
)


sampled_pages_option = click.option(
    "--pages",
    "n_pages_max",
    type=click.IntRange(20, 200_000),
    default=20_000,
    show_default=True,
    metavar="N",
    help="Sample at most N pages.",
)


key_option = click.option(
    "--key",
    metavar="KEY",
    help='Key of the pages, in a corpus with group_by = "key".  A file may have a field key, too.',
)

metadata_option = click.option(
    "--metadata",
    "metadata",
    metavar="FIELDS",
    help="Fields to keep as metadata of the pages, such as team,language, or all.",
)


def metadata_fields(text: str | None) -> tuple[str, ...]:
    """Return the names of fields in the value of ``--metadata``."""
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    if text is not None and not names:
        raise click.UsageError("--metadata needs names of fields, such as team,language, or all.")
    return ("all",) if "all" in names else names


def is_url(text: str) -> bool:
    """Return whether an argument is a URL rather than a file."""
    return text.lower().startswith(("http://", "https://"))


class InputFile(NamedTuple):
    """A file to read, or stdin."""

    name: str
    """Name as the user typed it."""
    source: Path | BinaryIO
    n_bytes: int | None
    """Approximate size once decompressed; None if it may be large."""


class Inputs(NamedTuple):
    """URLs and files that a command reads."""

    urls: list[str]
    files: list[InputFile]

    @property
    def n_bytes(self) -> int | None:
        """Approximate size of all inputs in bytes; None if it may be large."""
        sizes = [file.n_bytes for file in self.files]
        known = [size for size in sizes if size is not None]
        return sum(known) + sum(map(len, self.urls)) if len(known) == len(sizes) else None


class _PeekedStream(io.RawIOBase):
    """A stream whose first bytes can be read twice."""

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
        """Return the first bytes, without consuming them."""
        return self._head


def first_bytes(file: InputFile) -> bytes:
    """Return the first bytes of stdin, without consuming them; no bytes for a file."""
    if isinstance(file.source, io.BytesIO):
        return file.source.getvalue()
    return file.source.peek() if isinstance(file.source, _PeekedStream) else b""


def _stdin() -> InputFile:
    """Return stdin, of which the first bytes are read to find out whether it is small."""
    head = sys.stdin.buffer.read(STDIN_BYTES_FEW)
    if len(head) < STDIN_BYTES_FEW:
        return InputFile("-", io.BytesIO(head), len(head))
    return InputFile("-", cast(BinaryIO, _PeekedStream(head, sys.stdin.buffer)), None)


def input_file(name: str) -> InputFile:
    """Return a file by its name, or stdin for ``-``; raise a usage error if it does not exist."""
    if name == "-":
        return _stdin()
    path = Path(name)
    if not path.exists():
        raise click.UsageError(f"there is no file {name}.", click.get_current_context(silent=True))
    if not path.is_file():
        return InputFile(name, path, None)
    factor = _INFLATION if path.suffix.lower() in _COMPRESSED else 1
    return InputFile(name, path, path.stat().st_size * factor)


def split_inputs(inputs: Sequence[str]) -> Inputs:
    """Return the URLs and the files among arguments; stdin if there are no arguments."""
    context = click.get_current_context(silent=True)
    if not inputs and sys.stdin.isatty():
        raise click.UsageError("nothing to read; name files or URLs, or pipe them in.", context)
    urls = [text for text in inputs if is_url(text)]
    names = [text for text in inputs if not is_url(text)] if inputs else ["-"]
    for name in names:
        if Path(name).is_dir():
            raise click.UsageError(f"{name} is a folder; name a file of URLs.", context)
        if name != "-" and not Path(name).exists():
            raise click.UsageError(
                f"there is no file {name}.  If it is a page, write https://{name}.", context
            )
    return Inputs(urls, [input_file(name) for name in names])


def open_input(
    file: InputFile,
    *,
    format_name: str | None = None,
    columns: Sequence[str] = (),
    **settings: Any,
) -> "Source":
    """Open a file to read its rows.

    Parameters
    ----------
    file
        File from `split_inputs` or `input_file`.
    format_name
        Name of its format; guessed by default.
    columns
        Names of columns, as ``name=field``.
    **settings
        Further arguments of `recrawl.readers.open_source`.
    """
    from recrawl.readers import open_source  # noqa: PLC0415

    fields = named_columns(columns)
    if format_name in _TABLES:
        # The readers tell tables apart by their beginning and columns.
        format_name = None
    try:
        return open_source(file.source, format=format_name, columns=fields, **settings)
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from error


def named_columns(columns: Sequence[str]) -> dict[str, str]:
    """Return the fields of a table by recrawl's names, from values of ``--column``."""
    return dict(_pair(text) for text in columns)


def _pair(text: str) -> tuple[str, str]:
    name, mark, field = text.partition("=")
    if not (mark and name and field):
        raise click.UsageError(f"--column must be NAME=FIELD, such as url=link, got {text!r}.")
    return name, field


def batches_with_progress(
    source: "Source", file: InputFile, out: Output
) -> "Iterator[pa.RecordBatch]":
    """Yield the batches of a source, and show a progress bar."""
    name = "stdin" if file.name == "-" else Path(file.name).name
    n_bytes = 0
    with out.progress(f"reading {name}", source.n_bytes, unit="bytes") as advance:
        for batch in source.batches():
            yield batch
            advance(source.n_bytes_read - n_bytes)
            n_bytes = source.n_bytes_read


def refused_counts(source: "Source") -> dict[str, Any]:
    """Return the numbers of rows of a file that were refused, by reason, as a row of output."""
    refused = source.refused
    return {
        "n_rows": refused.n_rows,
        "n_rows_refused": refused.n_refused,
        "refused_by_reason": dict(refused.by_reason),
    }


def show_refused(source: "Source", name: str, out: Output) -> None:
    """Print to stderr how many rows of a file were refused, and why, for the first few."""
    refused = source.refused
    for note in refused.notes:
        out.note(f"{name}: {note}")
    if refused.n_replaced:
        lines = count_text(refused.n_replaced, "line")
        out.note(
            f"{name}: {lines} with bytes that are not UTF-8, which were read as �.  Convert the "
            "file to UTF-8 if names or URLs are wrong."
        )
    if refused.is_cut_short:
        out.note(f"{name}: reading stopped before the end: {refused.cut_short_reason}")
    if not refused.n_refused:
        return
    share = share_text(refused.n_refused / max(refused.n_rows, 1))
    out.note(f"{name}: {count_text(refused.n_refused, 'row')} refused ({share}):")
    for row in refused.examples[:REASONS_SHOWN_MAX]:
        out.note(f"  {row}")
    if refused.n_refused > REASONS_SHOWN_MAX:
        out.note("  …")


_IGNORED_SHOWN_MAX = 10


def show_fields(source: "Source", name: str, out: Output) -> None:
    """Print to stderr as what the fields of a table were read, if they have other names."""
    read = [
        f"{theirs[:40]} as {ours}"
        for ours, theirs in source.fields.items()
        if theirs.lower() != ours
    ]
    if read:
        out.note(f"{name}: read the field {', '.join(read)}.  Change that with --column.")


def show_ignored(source: "Source", name: str, out: Output) -> None:
    """Print to stderr which fields of a table are ignored, and how to keep them."""
    fields = source.ignored_fields
    if not fields:
        return
    shown = ", ".join(field[:40] for field in fields[:_IGNORED_SHOWN_MAX])
    more = f" and {len(fields) - _IGNORED_SHOWN_MAX} more" * (len(fields) > _IGNORED_SHOWN_MAX)
    plain = [field for field in fields if "," not in field and field.isprintable()]
    example = ",".join(plain[:2]) or "all"
    quoted = example if example.replace(",", "").isidentifier() else f'"{example}"'
    out.note(
        f"{name}: ignored the fields {shown}{more}.  Keep them as metadata of the pages with "
        f"--metadata {quoted}, or --metadata all."
    )


def url_batch(urls: Sequence[str]) -> "pa.RecordBatch":
    """Return URLs as a batch with the schema of lists of pages."""
    import pyarrow as pa  # noqa: PLC0415

    from recrawl.readers import LISTED  # noqa: PLC0415

    nulls = [pa.nulls(len(urls), field.type) for field in list(LISTED)[1:]]
    return pa.record_batch([pa.array(urls, pa.string()), *nulls], schema=LISTED)


def input_urls(
    inputs: Inputs, format_name: str | None, columns: tuple[str, ...], out: Output
) -> "Iterator[pa.Array]":
    """Yield the URLs among the arguments, then those in the files."""
    if inputs.urls:
        yield url_batch(inputs.urls).column("url")
    for file in inputs.files:
        source = open_input(file, format_name=format_name, columns=columns)
        for batch in batches_with_progress(source, file, out):
            yield batch.column("url")
        show_refused(source, file.name, out)


def key_argument(
    corpus: "Corpus", key: str | None, column: "pa.Array | None" = None
) -> dict[str, Any]:
    """Return the argument ``key`` of methods of a corpus; empty for a corpus without keys.

    Parameters
    ----------
    corpus
        Open corpus.
    key
        Value of ``--key``, for pages without a key of their own.
    column
        Keys in a file, one for each page; null where there is none.
    """
    if column is None or not has_keys(corpus) or column.null_count == len(column):
        return {} if key is None else {"key": key}
    return {"key": column if key is None else column.fill_null(key)}


def has_keys(corpus: "Corpus") -> bool:
    """Return whether the pages of a corpus are grouped by key."""
    return corpus.config.corpus.group_by == "key"


def input_pages(
    corpus: "Corpus",
    inputs: Inputs,
    key: str | None,
    out: Output,
    *,
    format_name: str | None = None,
    columns: tuple[str, ...] = (),
) -> "Iterator[tuple[pa.Array, dict[str, Any]]]":
    """Yield the URLs among the arguments, then those in the files, with their argument ``key``."""
    if inputs.urls:
        yield url_batch(inputs.urls).column("url"), key_argument(corpus, key)
    for file in inputs.files:
        source = open_input(
            file, format_name=format_name, columns=columns, has_keys=has_keys(corpus)
        )
        for batch in batches_with_progress(source, file, out):
            has_key = "key" in batch.schema.names
            column = batch.column("key") if has_key else None
            yield batch.column("url"), key_argument(corpus, key, column)
        show_refused(source, file.name, out)
