"""What one reading of a file needs and leaves behind; every format's reader is given one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from recrawl.readers.head import Head
from recrawl.readers.inputs import Input
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import Kind

__all__ = ["Format", "ReadOptions", "Reading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a file does not say of itself."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Of a table: our name of a column to its name there."""
    base_url: str | None = None
    """Where paths belong: those of an access log, and of the files of a repository."""
    paths: tuple[str, ...] = ()
    """Of a repository: only files that one of these patterns matches, ``docs/**/*.md``."""
    revision: str = "HEAD"
    """Of a repository: the branch whose history is read."""
    with_bots: bool = False
    """Of an access log: whether requests of robots count."""
    start_ms: int | None = None
    """Of a history in days since its beginning: when that was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One pass over one file."""

    source: Input
    options: ReadOptions
    refused: Refused
    windows: list[pa.RecordBatch] = field(default_factory=list)
    """When pages were watched, filled as changes are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format that can be read."""

    name: str
    kind: Kind
    about: str
    """One line for people."""
    suits: Callable[[Head], bool]
    """Whether a file may be of this format, by its beginning."""
    read: Callable[[Reading], Iterator[pa.RecordBatch]]
    """Yield batches; bad rows are counted, and only `recrawl.errors.ReadError` is raised."""
