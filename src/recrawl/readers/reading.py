"""The interface of formats: options, state of one pass over a file, and the reader."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from recrawl.readers.head import Head
from recrawl.readers.inputs import Input
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import Kind

__all__ = ["IGNORED_MAX", "Format", "ReadOptions", "Reading"]

IGNORED_MAX = 100
"""Number of fields that are not read whose names are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options for what a file does not say itself."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Tables: our name of a column to its name in the file."""
    metadata: tuple[str, ...] = ()
    """Tables: fields to keep as metadata of the pages; ``("all",)`` for all that have no other
    meaning."""
    has_keys: bool = False
    """Tables: whether the field ``key`` is the key of the page's group."""
    base_url: str | None = None
    """Base URL of the paths of an access log or of the files of a repository."""
    paths: tuple[str, ...] = ()
    """Repositories: patterns of the files to read, such as ``docs/**/*.md``."""
    revision: str = "HEAD"
    """Repositories: branch whose history is read."""
    with_bots: bool = False
    """Access logs: whether requests of robots count."""
    start_ms: int | None = None
    """Histories in days since their beginning: time of that beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One pass over one file."""

    source: Input
    options: ReadOptions
    refused: Refused
    ignored: dict[str, None] = field(default_factory=dict)
    """Names of fields of a table that are not read, in their order, at most `IGNORED_MAX`."""
    fields: dict[str, str] = field(default_factory=dict)
    """Our names of the fields of a table that are read, with their names in the file."""
    windows: list[pa.RecordBatch] = field(default_factory=list)
    """Windows in which pages were observed; filled while changes are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format that can be read."""

    name: str
    kind: Kind
    about: str
    """Description in one line."""
    suits: Callable[[Head], bool]
    """Returns whether a file may have this format, by its beginning."""
    read: Callable[[Reading], Iterator[pa.RecordBatch]]
    """Yields batches; counts invalid rows, and raises only `recrawl.errors.ReadError`."""
