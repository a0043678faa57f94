"""Read sitemaps and feeds: pages and when they were last modified.

expat parses the file as it is read.  A file that declares entities is refused, because a few lines
of them can expand to gigabytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

import pyarrow as pa

from recrawl.errors import ReadError
from recrawl.readers.head import Head
from recrawl.readers.instants import instant_ms
from recrawl.readers.reading import Format, Reading
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import LISTED, URL_BYTES_MAX
from recrawl.readers.tabular.columns import Rows
from recrawl.readers.tabular.fields import LISTED_FIELDS, batches_of

__all__ = ["SITEMAP", "SITEMAP_BYTES_MAX", "SITEMAP_URLS_MAX", "TOKEN_BYTES_MAX"]

SITEMAP_BYTES_MAX = 50 << 20
"""Most bytes of a sitemap, by sitemaps.org; a larger one is read with a note."""
SITEMAP_URLS_MAX = 50_000
"""Most URLs of a sitemap, by sitemaps.org; one with more is read with a note."""

TOKEN_BYTES_MAX = 1 << 20
"""Most bytes of a tag or a comment, which expat keeps in memory until it ends."""

_BATCH_ROWS = 8_192
_PIECE_BYTES = 1 << 16
_DEPTH_MAX = 100
_CHILDREN_SHOWN = 5
# The element of a page, by the root element of the document.
_ENTRY = {"urlset": "url", "rss": "item", "feed": "entry", "RDF": "item", "sitemapindex": "sitemap"}
_LINKS = frozenset({"loc", "link"})
_DATES = {"lastmod": 0, "updated": 1, "pubDate": 2, "date": 3, "published": 4}


class _Refusal(Exception):  # noqa: N818 - not an error, but the end of a parse
    """Ends a parse, with the reason."""


@dataclass(slots=True)
class _Pages:
    """Pages of a document so far, filled by the handlers of expat."""

    parser: expat.XMLParserType
    root: str = ""
    path: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    n_text: int = 0
    url: str = ""
    date: str = ""
    date_rank: int = 99
    line: int = 0
    lines: list[int] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = _local(name)
        if not self.path:
            self.root = name
            if name not in _ENTRY:
                raise _Refusal(f"its root element <{name[:40]}> is neither a sitemap nor a feed")
        self.path.append(name)
        if len(self.path) > _DEPTH_MAX:
            raise _Refusal(f"elements are nested more than {_DEPTH_MAX} deep")
        self.text, self.n_text = [], 0
        if name == _ENTRY[self.root]:
            self.url, self.date, self.date_rank = "", "", 99
            self.line = self.parser.CurrentLineNumber
        elif (
            self.is_entry_child(name)
            and name == "link"
            and attributes.get("rel", "alternate") == "alternate"
            and not self.url
        ):
            self.url = attributes.get("href", "")

    def is_entry_child(self, name: str) -> bool:
        return len(self.path) > 1 and self.path[-2] == _ENTRY[self.root] and self.path[-1] == name

    def characters(self, text: str) -> None:
        self.n_text += len(text)
        # One character more than allowed, so that a long URL is refused and not truncated.
        if self.n_text <= URL_BYTES_MAX + 1 + len(text):
            self.text.append(text)

    def end(self, name: str) -> None:
        name = _local(name)
        if self.is_entry_child(name):
            text = "".join(self.text).strip()
            if name in _LINKS and text:
                self.url = text
            elif _DATES.get(name, 99) < self.date_rank and text:
                self.date, self.date_rank = text, _DATES[name]
        elif name == _ENTRY[self.root] and self.path[-1] == name:
            self.lines.append(self.line)
            self.urls.append(self.url)
            self.dates.append(self.date)
        self.path.pop()
        self.text, self.n_text = [], 0

    def take_rows(self, refused: Refused) -> Rows:
        """Return the pages so far, and forget them; invalid dates become null."""
        dates = [instant_ms(date) for date in self.dates]
        if any(date and ms is None for date, ms in zip(self.dates, dates, strict=True)):
            refused.note("invalid dates of last modification were ignored")
        rows = Rows(lines=self.lines, columns={"url": self.urls, "last_modified": dates})
        self.lines, self.urls, self.dates = [], [], []
        return rows


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _suits(head: Head) -> bool:
    text = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"\xff\xfe<\0", b"\xfe\xff\0<")):
        return True
    if not text.startswith(b"<"):
        return False
    return any(f"<{root}".encode() in text or f":{root}".encode() in text for root in _ENTRY)


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    refused = reading.refused
    parser = expat.ParserCreate(namespace_separator=" ")
    pages = _Pages(parser)
    parser.buffer_text = True
    parser.StartElementHandler = pages.start
    parser.EndElementHandler = pages.end
    parser.CharacterDataHandler = pages.characters
    parser.EntityDeclHandler = _refuse_entities
    n_bytes, n_urls = 0, 0
    for piece, is_last in _pieces(reading):
        n_bytes += len(piece)
        stop = _parse(parser, piece, is_last)
        if stop is None and n_bytes - max(parser.CurrentByteIndex, 0) > TOKEN_BYTES_MAX:
            stop = f"it has a tag or a comment of more than {TOKEN_BYTES_MAX:,} bytes"
        if pages.root == "sitemapindex":
            if stop or is_last or len(pages.urls) >= _BATCH_ROWS:
                raise ReadError(_index_text(reading.source.name, pages.urls))
            continue
        if stop is not None:
            if n_urls == 0 and not pages.urls:
                raise ReadError(f"{reading.source.name} is not a sitemap: {stop}")
            refused.cut_short(stop)
        if pages.urls and (stop or is_last or len(pages.urls) >= _BATCH_ROWS):
            n_urls += len(pages.urls)
            refused.n_rows += len(pages.urls)
            yield from batches_of(pages.take_rows(refused), LISTED_FIELDS, LISTED, refused)
        if stop is not None:
            break
    if n_bytes > SITEMAP_BYTES_MAX:
        refused.note(f"larger than the {SITEMAP_BYTES_MAX >> 20} MiB allowed for a sitemap")
    if n_urls > SITEMAP_URLS_MAX:
        refused.note(f"{n_urls:,} URLs, more than the {SITEMAP_URLS_MAX:,} allowed for a sitemap")


def _pieces(reading: Reading) -> Iterator[tuple[bytes, bool]]:
    for block in reading.source.blocks(reading.refused):
        for begin in range(0, len(block), _PIECE_BYTES):
            yield block[begin : begin + _PIECE_BYTES], False
    yield b"", True


def _parse(parser: expat.XMLParserType, piece: bytes, is_last: bool) -> str | None:
    """Parse a piece; return the reason if the parse failed."""
    try:
        parser.Parse(piece, is_last)
    except _Refusal as refusal:
        return str(refusal)
    except (expat.ExpatError, ValueError, LookupError) as error:
        return f"its XML is broken: {error}"
    return None


def _refuse_entities(*_: object) -> None:
    raise _Refusal("it declares entities, which are not supported")


def _index_text(name: str, urls: list[str]) -> str:
    shown = ", ".join(url[:200] for url in urls[:_CHILDREN_SHOWN])
    more = f" and {len(urls) - _CHILDREN_SHOWN:,} more" if len(urls) > _CHILDREN_SHOWN else ""
    return (
        f"{name} is an index of sitemaps and lists no pages itself; "
        f"download the sitemaps it names and read those: {shown or 'none'}{more}"
    )


SITEMAP = Format(
    name="sitemap",
    kind="listed",
    about="a sitemap, an RSS or an Atom feed",
    suits=_suits,
    read=_read,
)
