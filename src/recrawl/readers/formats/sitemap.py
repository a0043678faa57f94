"""Read sitemaps and feeds from files: pages and when they were last modified."""

from collections.abc import Iterator

import pyarrow as pa

from recrawl.errors import ReadError
from recrawl.readers.head import Head
from recrawl.readers.instants import instant_ms
from recrawl.readers.reading import Format, Reading
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import LISTED
from recrawl.readers.tabular.columns import Rows
from recrawl.readers.tabular.fields import LISTED_FIELDS, batches_of
from recrawl.signals.hints import SITEMAP_BYTES_MAX, SITEMAP_ENTRIES_MAX
from recrawl.signals.xml_entries import (
    DEPTH_MAX,
    ENTRY_OF_ROOT,
    TOKEN_BYTES_MAX,
    Entries,
    XmlEntries,
)

__all__ = ["SITEMAP"]

_BATCH_ROWS = 8_192
_PIECE_BYTES = 1 << 16
_CHILDREN_SHOWN = 5


def _rows(entries: Entries, refused: Refused) -> Rows:
    """Return entries as rows; invalid dates become null."""
    dates = [instant_ms(date) for date in entries.date]
    if any(date and ms is None for date, ms in zip(entries.date, dates, strict=True)):
        refused.note("invalid dates of last modification were ignored")
    return Rows(lines=entries.line, columns={"url": entries.url, "last_modified": dates})


def _stop_text(code: str, entries: XmlEntries) -> str:
    """Return in words why a document could not be read to its end."""
    match code:
        case "not_a_sitemap":
            return f"its root element <{entries.root[:40]}> is neither a sitemap nor a feed"
        case "too_deep":
            return f"elements are nested more than {DEPTH_MAX} deep"
        case "too_long":
            return f"it has a tag or a comment of more than {TOKEN_BYTES_MAX:,} bytes"
        case "entities":
            return "it declares entities, which are not supported"
    return f"its XML is broken: {entries.error}"


def _suits(head: Head) -> bool:
    text = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"\xff\xfe<\0", b"\xfe\xff\0<")):
        return True
    if not text.startswith(b"<"):
        return False
    return any(f"<{root}".encode() in text or f":{root}".encode() in text for root in ENTRY_OF_ROOT)


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    refused = reading.refused
    entries = XmlEntries()
    n_bytes = 0
    for piece, is_last in _pieces(reading):
        n_bytes += len(piece)
        stop = entries.parse(piece, is_last=is_last)
        if entries.root == "sitemapindex":
            if stop or is_last or entries.n_waiting >= _BATCH_ROWS:
                raise ReadError(_index_text(reading.source.name, entries.take().url))
            continue
        if stop is not None:
            text = _stop_text(stop, entries)
            if entries.n_entries == 0:
                raise ReadError(f"{reading.source.name} is not a sitemap: {text}")
            refused.cut_short(text)
        if entries.n_waiting and (stop or is_last or entries.n_waiting >= _BATCH_ROWS):
            refused.n_rows += entries.n_waiting
            rows = _rows(entries.take(), refused)
            yield from batches_of(rows, LISTED_FIELDS, LISTED, refused)
        if stop is not None:
            break
    if n_bytes > SITEMAP_BYTES_MAX:
        refused.note(f"larger than the {SITEMAP_BYTES_MAX >> 20} MiB allowed for a sitemap")
    if (n_urls := entries.n_entries) > SITEMAP_ENTRIES_MAX:
        limit = f"{SITEMAP_ENTRIES_MAX:,}"
        refused.note(f"{n_urls:,} URLs, more than the {limit} allowed for a sitemap")


def _pieces(reading: Reading) -> Iterator[tuple[bytes, bool]]:
    for block in reading.source.blocks(reading.refused):
        for begin in range(0, len(block), _PIECE_BYTES):
            yield block[begin : begin + _PIECE_BYTES], False
    yield b"", True


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
