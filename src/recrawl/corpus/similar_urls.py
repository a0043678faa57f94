"""Find tracked pages with a URL similar to one that is not tracked, to suggest in an error."""

import difflib
import re
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.corpus.view import CorpusView
from recrawl.node.node import Node
from recrawl.node.routing import canonical_host
from recrawl.store import Names

__all__ = ["PAGES_SCANNED_MAX", "SIMILAR_MAX", "URLS_READ_MAX", "similar_urls"]

SIMILAR_MAX = 3
"""Largest number of URLs returned."""
PAGES_SCANNED_MAX = 100_000
"""In a corpus with more pages, only other spellings of the same URL are looked up."""
URLS_READ_MAX = 8_192
"""Largest number of URLs of a host whose beginning and end are compared."""
_CANDIDATES_MAX = 50
"""Number of URLs that begin and end most alike, which are compared as a whole."""
_MIDDLE_MAX = 200
"""Longest part between the common beginning and end that is compared, in bytes."""
_LIKENESS_MIN = 0.6
_URLS_PER_READ = 4_096
# Spellings of the beginning of a URL that do not count, the longest first.
_BEGINNINGS = ("https://www.", "http://www.", "https://", "http://")
_BEGINNING_BYTES = len("https://")
_BEGINNING = re.compile(r"^https?://(www\.)?")


class _Candidate(NamedTuple):
    likeness: float
    url: str


def similar_urls(corpus: CorpusView, url: str) -> list[str]:
    """Return URLs of tracked pages that are similar to this one, the most similar first.

    First other spellings: http for https, with and without www, a trailing slash, or the query.
    In a corpus that is not large, then URLs of the same host with a similar path.  Of a host with
    many pages, `URLS_READ_MAX` are looked at.

    Parameters
    ----------
    corpus
        Corpus to search.
    url
        URL that is not tracked.
    """
    parts = _split_url(url)
    if parts is None:
        return []
    # In a corpus grouped by key, a URL alone does not name a page.
    is_keyed = corpus.config.corpus.group_by == "key"
    found = [] if is_keyed else _tracked_urls(corpus, _variants(parts))
    n_pages = sum(node.shard.n_pages for node in corpus.nodes)
    if parts.hostname and len(found) < SIMILAR_MAX and n_pages <= PAGES_SCANNED_MAX:
        near = _closest(corpus, parts.hostname.removeprefix("www."), parts)
        found += [other for other in near if other not in found]
    return found[:SIMILAR_MAX]


def _split_url(url: str) -> SplitResult | None:
    """Return the parts of a URL, which may lack its scheme; None if it is not a URL."""
    try:
        return urlsplit(url if "//" in url else f"https://{url}")
    except ValueError:
        return None


def _variants(parts: SplitResult) -> list[str]:
    host = parts.netloc.removeprefix("www.")
    path = parts.path.rstrip("/")
    ways = product(("https", "http"), (host, f"www.{host}"), (path, f"{path}/"), (parts.query, ""))
    return [urlunsplit((scheme, netloc, way, query, "")) for scheme, netloc, way, query in ways]


def _tracked_urls(corpus: CorpusView, urls: list[str]) -> list[str]:
    """Return the canonical forms of those URLs that are tracked, in their order."""
    by_row: dict[int, str] = {}
    by = corpus.config.corpus.group_by
    # Partitions that are not open here are left out.
    row_status = np.zeros(len(urls), np.uint8)
    for node, rows, canon, _ in corpus.nodes.split(urls, by, row_status=row_status):
        with node.lock:
            page = node.store.pages_of(canon)
        for k in np.flatnonzero(page >= 0).tolist():
            by_row[int(rows[k])] = canon[k].as_py()
    return list(dict.fromkeys(by_row[row] for row in sorted(by_row)))


def _closest(corpus: CorpusView, host: str, parts: SplitResult) -> list[str]:
    """Return URLs of a host whose text is much like that of another URL, the most alike first."""
    asked = f"{host}{urlunsplit(('', '', parts.path or '/', parts.query, ''))}"
    # Under several keys, a URL occurs several times.
    outer: dict[str, float] = {}
    for urls in _urls_of_host(corpus, host):
        outer |= _outer_likeness(urls, asked.encode(), len(host.encode()))
        best = sorted(outer, key=outer.__getitem__, reverse=True)
        outer = {one: outer[one] for one in best[:_CANDIDATES_MAX]}
    compared = [_Candidate(_whole_likeness(asked.encode(), one), one) for one in outer]
    near = [one for one in compared if one.likeness >= _LIKENESS_MIN]
    return [one.url for one in sorted(near, key=lambda one: -one.likeness)]


def _urls_of_host(corpus: CorpusView, host: str) -> Iterator[pa.StringArray]:
    """Yield URLs of a host in batches, `URLS_READ_MAX` at most; there may be some of others."""
    by = corpus.config.corpus.group_by
    groups: list[str] = []
    if by != "key":
        try:
            groups = [canonical_host(name, by) for name in (host, f"www.{host}")]
        except ValueError:
            return
    n_left = URLS_READ_MAX
    for node in corpus.nodes:
        pages = None if by == "key" else _pages_of_groups(node, groups)
        for urls in _read_urls(node, pages):
            yield urls[:n_left]
            n_left -= len(urls)
            if n_left <= 0:
                return


def _pages_of_groups(node: Node, groups: list[str]) -> NDArray[np.int64]:
    numbers = node.store.numbers_of(Names.GROUP, groups)
    pages = node.shard.tables.pages
    n_slots = int(node.shard.tables.registers.n_slots[0])
    is_of_groups = np.isin(pages.group[:n_slots], numbers[numbers >= 0])
    slots = np.flatnonzero(is_of_groups)[:URLS_READ_MAX]
    page: NDArray[np.int64] = slots | pages.generation[slots].astype(np.int64) << 32
    return page[node.shard.has_pages(page)]


def _read_urls(node: Node, pages: NDArray[np.int64] | None) -> Iterator[pa.StringArray]:
    """Yield the URLs of some pages in batches; of all pages for None."""
    if pages is None:
        for _, urls in node.scan_urls():
            yield urls
        return
    for first in range(0, pages.size, _URLS_PER_READ):
        yield node.store.read_urls_of(pages[first : first + _URLS_PER_READ]).drop_null()


def _outer_likeness(urls: pa.StringArray, asked: bytes, n_host_bytes: int) -> dict[str, float]:
    """Return the URLs of a host that begin and end most as a text does, each with its likeness.

    Parameters
    ----------
    urls
        URLs of any hosts.
    asked
        Host, path and query of another URL.
    n_host_bytes
        Length of its host.
    """
    if not len(urls):
        return {}
    offsets = np.frombuffer(urls.buffers()[1], np.int32)[urls.offset :][: len(urls) + 1]
    text = np.frombuffer(urls.buffers()[2], np.uint8)
    end = offsets[1:].astype(np.int64)
    begin = offsets[:-1] + _beginning_lengths(urls)
    n_bytes = end - begin
    n_first = _n_equal(text, begin, n_bytes, asked, 1)
    of_host = np.flatnonzero(n_first > n_host_bytes)
    end, n_bytes, n_first = end[of_host], n_bytes[of_host], n_first[of_host]
    # The end does not overlap with the beginning.
    room = np.minimum(n_bytes, len(asked)) - n_first
    n_last = np.minimum(_n_equal(text, end - 1, room, asked[::-1], -1), room)
    n_equal = n_first + n_last + _BEGINNING_BYTES
    likeness = 2 * n_equal / (n_bytes + len(asked) + 2 * _BEGINNING_BYTES)
    best = np.argsort(-likeness, kind="stable")[: 2 * _CANDIDATES_MAX]
    names = urls.take(pa.array(of_host[best])).to_pylist()
    return dict(zip(names, likeness[best].tolist(), strict=True))


def _beginning_lengths(urls: pa.StringArray) -> NDArray[np.int64]:
    found = np.zeros(len(urls), np.int64)
    for text in reversed(_BEGINNINGS):
        found[pc.starts_with(urls, text).to_numpy(zero_copy_only=False)] = len(text)
    return found


def _n_equal(
    text: NDArray[np.uint8],
    at: NDArray[np.int64],
    n_bytes: NDArray[np.int64],
    asked: bytes,
    step: int,
) -> NDArray[np.int64]:
    """Return how many bytes of each row equal those of another text.

    Parameters
    ----------
    text
        Bytes of all rows.
    at
        Place of the first byte of each row.
    n_bytes
        Largest number of bytes of each row to compare.
    asked
        Bytes to compare with.
    step
        1 to go forwards, -1 to go backwards.
    """
    found = np.zeros(at.size, np.int64)
    rows = np.flatnonzero(n_bytes > 0)
    for i, byte in enumerate(asked):
        if not rows.size:
            break
        rows = rows[text[at[rows] + step * i] == byte]
        found[rows] = i + 1
        rows = rows[n_bytes[rows] > i + 1]
    return found


def _whole_likeness(asked: bytes, url: str) -> float:
    """Return the share of the bytes of two URLs that are equal and in the same order.

    Only what is between the common beginning and end is compared by difflib, which takes long.
    """
    other = _BEGINNING.sub("", url).encode()
    n_room = min(len(asked), len(other))
    n_first = next((i for i in range(n_room) if asked[i] != other[i]), n_room)
    n_room -= n_first
    n_last = next((i for i in range(n_room) if asked[-1 - i] != other[-1 - i]), n_room)
    n_equal = n_first + n_last + _BEGINNING_BYTES
    own, its = (one[n_first : len(one) - n_last].decode("latin-1") for one in (asked, other))
    if max(len(own), len(its)) <= _MIDDLE_MAX:
        matcher = difflib.SequenceMatcher(None, own, its, autojunk=False)
        n_equal += sum(block.size for block in matcher.get_matching_blocks())
    return 2 * n_equal / (len(asked) + len(other) + 2 * _BEGINNING_BYTES)
