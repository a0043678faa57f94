"""Readers of files of other programs: lists of pages, logs of fetches, histories of changes.

Every reader yields Arrow batches with one of three schemas, in bounded memory, and counts invalid
rows instead of raising.
"""

from recrawl.readers.known_formats import FORMATS
from recrawl.readers.reading import Format
from recrawl.readers.refused import Refused, RefusedRow
from recrawl.readers.schemas import CHANGED, LISTED, OBSERVED, WINDOWS, Kind
from recrawl.readers.source import Source, open_source

__all__ = [
    "CHANGED",
    "FORMATS",
    "LISTED",
    "OBSERVED",
    "WINDOWS",
    "Format",
    "Kind",
    "Refused",
    "RefusedRow",
    "Source",
    "open_source",
]
