"""What a crawl finds by itself: sitemaps, feeds and links, and how good their hints are."""

from recrawl.run.discovery.finder import Discovery
from recrawl.run.discovery.hint_documents import apply_polls
from recrawl.run.discovery.limits import REFUSALS, DiscoveryCounts, DiscoverySettings
from recrawl.run.discovery.links import PageLinks, read_links
from recrawl.run.discovery.traps import TrapCounts, family_of, remove_session, why_trapped

__all__ = [
    "REFUSALS",
    "Discovery",
    "DiscoveryCounts",
    "DiscoverySettings",
    "PageLinks",
    "TrapCounts",
    "apply_polls",
    "family_of",
    "read_links",
    "remove_session",
    "why_trapped",
]
