"""Read the pages that a sitemap or a feed names, and when each is said to have changed."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.signals.dates import parse_date
from recrawl.signals.inflating import inflate_pieces
from recrawl.signals.problems import ProblemCounts
from recrawl.signals.xml_entries import TEXT_CHARACTERS_MAX, Entries, XmlEntries

__all__ = [
    "SITEMAP_BYTES_MAX",
    "SITEMAP_ENTRIES_MAX",
    "DocumentKind",
    "HintLimits",
    "HintReader",
    "PageHints",
]

SITEMAP_BYTES_MAX: Final = 52_428_800
"""Bytes of an unpacked sitemap, by the protocol."""
SITEMAP_ENTRIES_MAX: Final = 50_000
"""Entries of a sitemap, by the protocol."""

_BATCH_ENTRIES = 8_192
_PIECE_BYTES = 1 << 16
_SCHEMES = ("http://", "https://")
_TTL_MINUTES_MAX = 60 * 24 * 366


class DocumentKind(IntEnum):
    """What a document is."""

    NOTHING = 0
    PAGES = 1
    INDEX = 2
    FEED = 3
    LINES = 4


class PageHints(NamedTuple):
    """Pages, or further sitemaps of an index, as columns.

    A change is claimed to lie between two moments; both are 0 where nothing is claimed.
    """

    url: list[str]
    earliest_ms: NDArray[np.int64]
    latest_ms: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class HintLimits:
    """How much of one document is read."""

    n_bytes_max: int = SITEMAP_BYTES_MAX
    """Unpacked bytes."""
    n_entries_max: int = SITEMAP_ENTRIES_MAX


DEFAULT_HINT_LIMITS = HintLimits()


class HintReader:
    """Reads one sitemap, index of sitemaps, feed or list of URLs.

    Iterate over it to get hints in batches, in bounded memory; then look at the other attributes.
    Nothing raises: what cannot be read is counted in ``problems``.

    Parameters
    ----------
    pieces
        Bytes of the document, in pieces of any size; gzip is unpacked.
    limits
        How much of the document is read.

    Examples
    --------
    >>> body = b'''<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
    ... <url><loc>https://example.com/a</loc><lastmod>2026-11-16T08:00:00Z</lastmod></url>
    ... <url><loc>https://example.com/b</loc><lastmod>yesterday</lastmod></url></urlset>'''
    >>> reader = HintReader([body])
    >>> [url for hints in reader for url in hints.url]
    ['https://example.com/a', 'https://example.com/b']
    >>> reader.kind.name, reader.problems.counts
    ('PAGES', {'bad_date': 1})
    """

    def __init__(self, pieces: Iterable[bytes], limits: HintLimits = DEFAULT_HINT_LIMITS) -> None:
        self._pieces = pieces
        self._limits = limits
        self._entries = XmlEntries()
        self.problems = ProblemCounts()
        self.kind = DocumentKind.NOTHING
        self.n_hints = 0

    @property
    def hub_urls(self) -> list[str]:
        """Hubs that push the changes of a feed (WebSub)."""
        return [target for relation, target in self._entries.links if relation == "hub"]

    @property
    def self_url(self) -> str | None:
        """URL that a feed gives as its own; None if it gives none."""
        own = (target for relation, target in self._entries.links if relation == "self")
        return next(own, None)

    @property
    def ttl_seconds(self) -> float | None:
        """Seconds for which a feed asks not to be fetched again; None if it does not."""
        try:
            minutes = float(self._entries.ttl_minutes)
        except ValueError:
            return None
        is_possible = math.isfinite(minutes) and 0 < minutes <= _TTL_MINUTES_MAX
        return 60 * minutes if is_possible else None

    def __iter__(self) -> Iterator[PageHints]:
        pieces = _small(
            inflate_pieces(self._pieces, self.problems, n_bytes_max=self._limits.n_bytes_max)
        )
        head = b""
        for piece in pieces:
            head += piece
            if len(head.strip()) >= 4:
                break
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        is_xml = start.startswith((b"<", b"\xff\xfe<\0", b"\xfe\xff\0<"))
        for hints in self._of_xml(head, pieces) if is_xml else self._of_lines(head, pieces):
            self.n_hints += len(hints.url)
            yield hints

    def _of_xml(self, head: bytes, pieces: Iterator[bytes]) -> Iterator[PageHints]:
        entries = self._entries
        # Bytes before the declaration are not allowed in XML, and common on the web.
        problem = entries.parse(head.lstrip())
        while problem is None:
            self._set_kind()
            yield from self._take(_BATCH_ENTRIES)
            if entries.n_entries > self._limits.n_entries_max:
                problem = "too_many"
                break
            piece = next(pieces, b"")
            problem = entries.parse(piece, is_last=not piece)
            if not piece:
                break
        if problem is not None:
            self.problems.add(problem)
        self._set_kind()
        yield from self._take(1)

    def _set_kind(self) -> None:
        match self._entries.root:
            case "urlset":
                self.kind = DocumentKind.PAGES
            case "sitemapindex":
                self.kind = DocumentKind.INDEX
            case "rss" | "RDF" | "feed":
                self.kind = DocumentKind.FEED

    def _take(self, n_min: int) -> Iterator[PageHints]:
        if self._entries.n_waiting >= n_min:
            room = self._limits.n_entries_max - self.n_hints
            line, url, date = self._entries.take()
            yield self._hints(Entries(line[:room], url[:room], date[:room]))

    def _of_lines(self, head: bytes, pieces: Iterator[bytes]) -> Iterator[PageHints]:
        urls: list[str] = []
        rest = head
        n_lines = 0
        while True:
            piece = next(pieces, b"")
            *lines, rest = (rest + piece).split(b"\n")
            if not piece:
                lines, rest = [*lines, rest], b""
            elif len(rest) > TEXT_CHARACTERS_MAX:
                # The rest of a line that is too long is dropped with its next pieces.
                rest = rest[: TEXT_CHARACTERS_MAX + 1]
            found = [line.decode("utf-8-sig", "replace").strip() for line in lines]
            urls += [url for url in found if url]
            n_lines += len(found)
            if n_lines > self._limits.n_entries_max:
                self.problems.add("too_many")
                piece = b""
            if urls and (not piece or len(urls) >= _BATCH_ENTRIES):
                urls = urls[: self._limits.n_entries_max - self.n_hints]
                hints = self._hints(Entries([0] * len(urls), urls, [""] * len(urls)))
                if hints.url:
                    self.kind = DocumentKind.LINES
                    yield hints
                urls = []
            if not piece:
                break
        if self.kind == DocumentKind.NOTHING:
            self.problems.counts.clear()
            self.problems.add("not_a_sitemap")

    def _hints(self, entries: Entries) -> PageHints:
        is_good = [_is_url(url) for url in entries.url]
        if n_bad := len(is_good) - sum(is_good):
            self.problems.add("bad_url", n_bad)
        url = [url for url, good in zip(entries.url, is_good, strict=True) if good]
        earliest = np.zeros(len(url), np.int64)
        latest = np.zeros(len(url), np.int64)
        dates = (date for date, good in zip(entries.date, is_good, strict=True) if good)
        for i, date in enumerate(dates):
            if not date:
                continue
            claimed = parse_date(date)
            if claimed is None:
                self.problems.add("bad_date")
            else:
                earliest[i], latest[i] = claimed
        return PageHints(url, earliest, latest)


def _is_url(text: str) -> bool:
    return (
        len(text) <= TEXT_CHARACTERS_MAX
        and text[:8].lower().startswith(_SCHEMES)
        and not any(character <= " " for character in text)
    )


def _small(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces of one size: limits are checked often enough, and the parser not called often.

    Some versions of expat read a long token from its start again with every piece.
    """
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= _PIECE_BYTES:
            yield bytes(held[:_PIECE_BYTES])
            del held[:_PIECE_BYTES]
    if held:
        yield bytes(held)
