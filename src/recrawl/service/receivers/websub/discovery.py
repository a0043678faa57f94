"""Find the hub of a feed, and the URL that the feed gives as its own."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeAlias
from urllib.parse import urljoin

from recrawl.fetch.target_urls import parse_target
from recrawl.signals import HintLimits, HintReader, read_link_header

__all__ = ["FeedHubs", "FetchFeed", "FetchedFeed", "find_hubs"]

_URL_MAX = 2_048
_HUBS_MAX = 10
_LIMITS = HintLimits(n_bytes_max=4 << 20, n_entries_max=1_000)


class FetchedFeed(NamedTuple):
    """A feed as it was fetched."""

    url: str
    """URL that gave the answer, after redirects."""
    headers: Mapping[str, str]
    """Headers of the answer, with lower-case names."""
    body: bytes


FetchFeed: TypeAlias = Callable[[str], Awaitable[FetchedFeed | None]]
"""Function that fetches a feed from a public address; None if that is not possible."""


class FeedHubs(NamedTuple):
    """The hubs of a feed, and the topic to subscribe to."""

    hubs: tuple[str, ...]
    """URLs of hubs, those with https first."""
    topic: str


def find_hubs(feed: FetchedFeed) -> FeedHubs | None:
    """Return the hubs of a feed: from its ``Link`` headers, else from the feed; None without any.

    Parameters
    ----------
    feed
        Feed as it was fetched.
    """
    links = read_link_header([feed.headers.get("link", "")])
    hubs = [one.url for one in links if "hub" in one.relations]
    own = next((one.url for one in links if "self" in one.relations), None)
    if not hubs or own is None:
        reader = HintReader([feed.body], _LIMITS)
        for _ in reader:  # the links of a feed are known when it was read
            pass
        hubs, own = hubs or reader.hub_urls, own or reader.self_url
    usable = [url for url in (_absolute(feed.url, hub) for hub in hubs[:_HUBS_MAX]) if url]
    topic = _absolute(feed.url, own or feed.url)
    if not usable or topic is None:
        return None
    return FeedHubs(tuple(sorted(usable, key=lambda url: not url.startswith("https:"))), topic)


def _absolute(base: str, url: str) -> str | None:
    """Return a URL that may be sent to a hub; None if it is not one."""
    try:
        found = urljoin(base, url.strip())
    except ValueError:
        return None
    is_usable = len(found) <= _URL_MAX and parse_target(found) is not None
    return found if is_usable else None
