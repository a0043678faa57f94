"""Limits of what a crawl finds by itself, and counts of what it found."""

import math
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Final

from recrawl.errors import ConfigError

__all__ = ["REFUSALS", "DiscoveryCounts", "DiscoverySettings"]


REFUSALS: Final = {
    "other_site": "the page belongs to another site",
    "bad_url": "the URL is not valid",
    "too_many_pages": "its site has as many pages as the limit allows",
    "too_fast": "its site brings new pages faster than its share of the budget allows, so "
    "the page is added later",
    "too_many_documents": "its site has as many sitemaps and feeds as the limit allows",
    "too_deep": "it is too many links, or too many indexes, away from the start",
    "too_long": "its path has too many parts, or it has too many parameters",
    "repeated_parts": "parts of its path repeat, as relative links in a loop make them",
    "endless_numbers": "too many pages whose URLs differ only in numbers link to each other, "
    "as in a calendar without end",
    "query_combinations": "its path has too many combinations of parameters",
}
"""Names of the reasons for which a URL is not added, with a sentence for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverySettings:
    """How far a crawl looks for pages.

    Parameters
    ----------
    sends_signals
        Whether sitemaps and feeds are compared with their version before, and changes signalled.
    follows_links
        Whether pages of the same site that links lead to are added.
    documents_per_site_max
        Number of sitemaps and feeds of one site.
    entries_per_document_max
        Number of entries that are read of one sitemap or feed.
    pages_per_site_max
        Number of pages of one site that its sitemaps and feeds may add.
    index_depth_max
        Number of indexes above a sitemap.
    first_documents_max
        Number of sitemaps of a site that are read before the first page is fetched.
    ask_seconds_max
        Time for reading the first sitemaps of all sites; the others are read during the crawl.
    gather_seconds
        Time for which sites are waited for together, so that a large one does not crowd out the
        others.  Afterwards the answer of each counts as soon as it is there.
    link_depth_max
        Number of links between a page and the start.
    linked_pages_per_site_max
        Number of pages of one site that links may add.
    """

    sends_signals: bool = True
    follows_links: bool = False
    documents_per_site_max: int = 100
    entries_per_document_max: int = 50_000
    pages_per_site_max: int = 100_000
    index_depth_max: int = 3
    first_documents_max: int = 5
    ask_seconds_max: float = 60.0
    gather_seconds: float = 3.0
    link_depth_max: int = 8
    linked_pages_per_site_max: int = 10_000

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not isinstance(value, bool) and not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"{one.name} must not be negative, got {value}")


@dataclass(slots=True)
class DiscoveryCounts:
    """What a crawl has found so far.

    Parameters
    ----------
    n_documents
        Number of sitemaps and feeds found.
    n_pages
        Number of pages that were found, some of them perhaps known before.
    n_signals
        Number of signals sent.
    n_signals_held_back
        Number of dates that moved together with nearly all others of their sitemap, and were not
        sent because such dates have not proved right.
    refused
        Number of URLs that were not added, by the names in `REFUSALS`.
    """

    n_documents: int = 0
    n_pages: int = 0
    n_signals: int = 0
    n_signals_held_back: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def refuse(self, reason: str, n: int = 1) -> None:
        """Count URLs that are not added, by a name in `REFUSALS`."""
        assert reason in REFUSALS, reason
        if n:
            self.refused[reason] += n
