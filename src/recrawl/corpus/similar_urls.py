"""Find tracked pages with a URL similar to one that is not tracked, to suggest in an error."""

import difflib
from itertools import product
from urllib.parse import SplitResult, urlsplit, urlunsplit

import numpy as np

from recrawl.corpus.view import CorpusView

__all__ = ["PAGES_SCANNED_MAX", "SIMILAR_MAX", "similar_urls"]

SIMILAR_MAX = 3
"""Largest number of URLs returned."""
PAGES_SCANNED_MAX = 100_000
"""In a corpus with more pages, only other spellings of the same URL are looked up."""
_LIKENESS_MIN = 0.6


def similar_urls(corpus: CorpusView, url: str) -> list[str]:
    """Return URLs of tracked pages that are similar to this one, the most similar first.

    First other spellings: http for https, with and without www, a trailing slash, or the query.
    In a corpus that is not large, then URLs of the same host with a similar path.

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
    if len(found) < SIMILAR_MAX and n_pages <= PAGES_SCANNED_MAX:
        # Under several keys, a URL occurs several times.
        urls = dict.fromkeys(_urls_of_host(corpus, parts.hostname or ""))
        others = [other for other in urls if other not in found]
        found += difflib.get_close_matches(url, others, SIMILAR_MAX, _LIKENESS_MIN)
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


def _urls_of_host(corpus: CorpusView, host: str) -> list[str]:
    names = {host.removeprefix("www."), f"www.{host.removeprefix('www.')}"}
    return [
        url
        for node in corpus.nodes
        for _, urls in node.scan_urls()
        for url in urls.to_pylist()
        if (parts := _split_url(url)) is not None and parts.hostname in names
    ]
