"""URLs of pages that are kept and look like one that is not: what somebody may have meant."""

import difflib
from itertools import product
from urllib.parse import SplitResult, urlsplit, urlunsplit

import numpy as np

from recrawl.corpus.corpus import Corpus
from recrawl.node.routing import routed

__all__ = ["NEAR_MAX", "PAGES_SCANNED_MAX", "near_urls"]

NEAR_MAX = 3
"""URLs returned at most."""
PAGES_SCANNED_MAX = 100_000
"""In a larger corpus only other ways to write the same URL are looked up."""
_LIKENESS_MIN = 0.6


def near_urls(corpus: Corpus, url: str) -> list[str]:
    """Return URLs of pages that are kept and look like this one, the nearest first.

    With http for https, with and without www, a last slash, or a query; and in a corpus that is
    not large, others of the same host with a path much like it.
    """
    parts = _split(url)
    if parts is None:
        return []
    found = _kept(corpus, _variants(parts))
    n_pages = sum(node.shard.n_pages for node in corpus.nodes)
    if len(found) < NEAR_MAX and n_pages <= PAGES_SCANNED_MAX:
        others = [other for other in _of_host(corpus, parts.hostname or "") if other not in found]
        found += difflib.get_close_matches(url, others, NEAR_MAX, _LIKENESS_MIN)
    return found[:NEAR_MAX]


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL, which may lack its scheme; None if it has none."""
    try:
        return urlsplit(url if "//" in url else f"https://{url}")
    except ValueError:
        return None


def _variants(parts: SplitResult) -> list[str]:
    host = parts.netloc.removeprefix("www.")
    path = parts.path.rstrip("/")
    ways = product(("https", "http"), (host, f"www.{host}"), (path, f"{path}/"), (parts.query, ""))
    return [urlunsplit((scheme, netloc, way, query, "")) for scheme, netloc, way, query in ways]


def _kept(corpus: Corpus, urls: list[str]) -> list[str]:
    """Return those of the URLs that are kept, in their order, as they are known."""
    by_row: dict[int, str] = {}
    for i, rows, canon, _ in routed(urls, len(corpus.nodes), corpus.config.corpus.group_by):
        node = corpus.nodes[i]
        with node.lock:
            page = node.store.pages_of(canon)
        for k in np.flatnonzero(page >= 0).tolist():
            by_row[int(rows[k])] = canon[k].as_py()
    return list(dict.fromkeys(by_row[row] for row in sorted(by_row)))


def _of_host(corpus: Corpus, host: str) -> list[str]:
    names = {host.removeprefix("www."), f"www.{host.removeprefix('www.')}"}
    return [
        url
        for node in corpus.nodes
        for _, urls in node.scan_urls()
        for url in urls.to_pylist()
        if (parts := _split(url)) is not None and parts.hostname in names
    ]
