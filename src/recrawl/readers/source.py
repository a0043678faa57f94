"""Open a file of any known format as a stream of batches."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from recrawl.readers.head import Head
from recrawl.readers.inputs import Input
from recrawl.readers.known_formats import format_by_name, guess_format
from recrawl.readers.reading import IGNORED_MAX, Format, Reading, ReadOptions
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import SCHEMAS, WINDOWS, Kind

__all__ = ["Source", "open_source"]


class Source:
    """A file that is read once from beginning to end; opened by `open_source`."""

    def __init__(self, reading: Reading, known: Format) -> None:
        self._reading = reading
        self._format = known
        self._is_started = False
        self._is_ended = False

    @property
    def name(self) -> str:
        """Name of the file, as given."""
        return self._reading.source.name

    @property
    def format(self) -> str:
        """Name of the file's format."""
        return self._format.name

    @property
    def kind(self) -> Kind:
        """Kind of the rows: ``listed`` (pages), ``observed`` (fetches) or ``changed`` (changes)."""
        return self._format.kind

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches."""
        return SCHEMAS[self.kind]

    @property
    def refused(self) -> Refused:
        """Counts of rows read and refused so far."""
        return self._reading.refused

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the fields of a table, at most `IGNORED_MAX`; empty for another format."""
        head = Head(self._reading.source, self._reading.options.columns)
        return tuple(head.field_names[:IGNORED_MAX]) if head.columns else ()

    @property
    def ignored_fields(self) -> tuple[str, ...]:
        """Names of the fields of a table that were not read so far, at most `IGNORED_MAX`."""
        return tuple(self._reading.ignored)

    @property
    def fields(self) -> dict[str, str]:
        """Our names of the fields of a table that were read so far, with those in the file."""
        return dict(self._reading.fields)

    @property
    def n_bytes(self) -> int | None:
        """Size of the file, compressed; None if unknown."""
        return self._reading.source.n_bytes

    @property
    def n_bytes_read(self) -> int:
        """Compressed bytes read so far."""
        return self._reading.source.n_bytes_read

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the valid rows in batches; a source can be read only once.

        Invalid rows are counted in `refused`.  A damaged file is read up to the damage, which
        `refused` reports.

        Raises
        ------
        recrawl.errors.ReadError
            If nothing of the file can be read.
        """
        if self._is_started:
            raise ValueError("a source can be read only once; open it again")
        self._is_started = True
        return self._batches()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._format.read(self._reading)
        self._is_ended = True

    def close(self) -> None:
        """Close the source; needed only for a pipe whose batches are not all read."""
        self._reading.source.close()

    def windows(self) -> pa.Table:
        """Return when each page was observed: ``url``, ``from_ms`` and ``until_ms``.

        Call this only for a source of changes, after reading all batches.
        """
        if self.kind != "changed":
            raise ValueError(
                f"kind must be 'changed' for a source to have windows, got {self.kind!r}"
            )
        if not self._is_ended:
            raise ValueError("windows are known only after all batches have been read")
        return pa.Table.from_batches(self._reading.windows, schema=WINDOWS)


def open_source(
    path: Path | str | BinaryIO,
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    metadata: Sequence[str] = (),
    has_keys: bool = False,
    base_url: str | None = None,
    paths: Sequence[str] = (),
    revision: str = "HEAD",
    with_bots: bool = False,
    start_ms: int | None = None,
) -> Source:
    r"""Open a file, a folder or a stream of any known format.

    Files compressed with gzip, bzip2 or zstd are decompressed as they are read.

    Parameters
    ----------
    path
        Path of a file or folder, or a stream of bytes, which is read once and left open.
    format
        Name of a format, one of `FORMATS`; by default guessed from the file's beginning.
    columns
        Columns of a table: recrawl's names, mapped to the names in the file, as ``{"at": "ts"}``.
    metadata
        Fields of a table to keep as ``metadata`` of the pages, or ``["all"]`` for all fields that
        have no other meaning.  Without it `Source.ignored_fields` names them.
    has_keys
        Whether the field ``key`` of a table is the key of the page's group.
    base_url
        Base URL of the paths of an access log or of the files of a repository.
    paths
        Patterns of the files of a repository to read, such as ``docs/**/*.md``; empty for all.
    revision
        Branch of a repository whose history is read.
    with_bots
        Whether to read the requests of robots in an access log, too.
    start_ms
        Time of day 0, for a format that counts days, in milliseconds since 1970.

    Raises
    ------
    recrawl.errors.UnknownFormat
        If the file matches no format.
    recrawl.errors.ReadError
        If the file does not exist, or is damaged at its beginning.

    Examples
    --------
    >>> import io
    >>> log = io.BytesIO(b'{"url": "https://a.example/", "at": 1700000000, "changed": true}\n')
    >>> source = open_source(log)
    >>> source.format, source.kind
    ('crawl-log', 'observed')
    >>> next(source.batches())["at_ms"].to_pylist()
    [1700000000000]
    """
    options = ReadOptions(
        columns=dict(columns or {}),
        metadata=tuple(metadata),
        has_keys=has_keys,
        base_url=base_url,
        paths=tuple(paths),
        revision=revision,
        with_bots=with_bots,
        start_ms=start_ms,
    )
    source = Input(path)
    file_format = (
        guess_format(Head(source, options.columns)) if format is None else format_by_name(format)
    )
    return Source(Reading(source=source, options=options, refused=Refused()), file_format)
