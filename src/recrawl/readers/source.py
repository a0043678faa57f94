"""A file of somebody else's as a stream of batches: the way in to all readers."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from recrawl.readers.head import Head
from recrawl.readers.inputs import Input
from recrawl.readers.known_formats import format_named, guessed_format
from recrawl.readers.reading import Format, Reading, ReadOptions
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import SCHEMAS, WINDOWS, Kind

__all__ = ["Source", "open_source"]


class Source:
    """A file that is read once, from its beginning to its end; made by `open_source`."""

    def __init__(self, reading: Reading, known: Format) -> None:
        self._reading = reading
        self._format = known
        self._is_begun = False
        self._is_ended = False

    @property
    def name(self) -> str:
        """Of the file, as it was given."""
        return self._reading.source.name

    @property
    def format(self) -> str:
        """The name of the format it is read as."""
        return self._format.name

    @property
    def kind(self) -> Kind:
        """What its rows are: pages, fetches or changes."""
        return self._format.kind

    @property
    def schema(self) -> pa.Schema:
        """Of its batches."""
        return SCHEMAS[self.kind]

    @property
    def refused(self) -> Refused:
        """What was read and what was left out, so far."""
        return self._reading.refused

    @property
    def n_bytes(self) -> int | None:
        """Of the file, compressed as it is; None where that is not known."""
        return self._reading.source.n_bytes

    @property
    def n_bytes_read(self) -> int:
        """Of the file so far."""
        return self._reading.source.n_bytes_read

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that can be taken; this can be asked for once.

        Rows that cannot be taken are counted in `refused`; a file that breaks off is read until
        there, and `refused` says so.

        Raises
        ------
        recrawl.errors.ReadError
            If nothing of the file can be read.
        """
        if self._is_begun:
            raise ValueError("a source can be read once; open it again")
        self._is_begun = True
        return self._batches()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._format.read(self._reading)
        self._is_ended = True

    def close(self) -> None:
        """Let go of a pipe that was never read; batches that are drawn to the end do so."""
        self._reading.source.close()

    def windows(self) -> pa.Table:
        """Return when each page was watched: ``url``, ``from_ms`` and ``until_ms``.

        Only of a source of changes, and once all batches were drawn.
        """
        if self.kind != "changed":
            raise ValueError(
                f"kind must be 'changed' for a source to have windows, got {self.kind!r}"
            )
        if not self._is_ended:
            raise ValueError("windows are known once all batches were drawn")
        return pa.Table.from_batches(self._reading.windows, schema=WINDOWS)


def open_source(
    path: Path | str | BinaryIO,
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    base_url: str | None = None,
    paths: Sequence[str] = (),
    revision: str = "HEAD",
    with_bots: bool = False,
    start_ms: int | None = None,
) -> Source:
    r"""Open a file, a folder or a stream of any format that is known.

    Files compressed with gzip, bzip2 or zstd are decompressed as they are read.

    Parameters
    ----------
    path
        Of a file or folder, or a stream of bytes, which is read once and left open.
    format
        The name of a format, one of `FORMATS`; guessed from the file's beginning where it is
        None.
    columns
        Of a table: our names of columns to its own, ``{"at": "ts"}``.
    base_url
        Where paths belong: those of an access log, and of the files of a repository.
    paths
        Of a repository: patterns of the files to read, such as ``docs/**/*.md``; none means all.
    revision
        Of a repository: the branch whose history is read.
    with_bots
        Of an access log: whether requests of robots count.
    start_ms
        Of a history in days since its beginning: when that was.

    Raises
    ------
    recrawl.errors.UnknownFormat
        If the file suits no format.
    recrawl.errors.ReadError
        If it is not there, or broken at its beginning.

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
        base_url=base_url,
        paths=tuple(paths),
        revision=revision,
        with_bots=with_bots,
        start_ms=start_ms,
    )
    source = Input(path)
    known = (
        guessed_format(Head(source, options.columns)) if format is None else format_named(format)
    )
    return Source(Reading(source=source, options=options, refused=Refused()), known)
