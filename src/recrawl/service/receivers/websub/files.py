"""The subscriptions of a corpus, in the file ``websub.json`` of its folder.

The command line adds and removes subscriptions while a server runs, so every change reads the file
again and replaces it, under a lock.  Only its owner can read it, because it has secrets.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from recrawl.atomic_files import hold_lock, replace_json
from recrawl.service.problems import Problem
from recrawl.service.protection.row_files import ROW_FILE_FORMAT, read_row_file
from recrawl.service.receivers.notice_urls import host_of_page
from recrawl.service.receivers.receiver_files import check_hosts
from recrawl.service.receivers.websub.subscription import (
    FeedSubscription,
    HubMode,
    make_subscription,
)

__all__ = [
    "SUBSCRIPTIONS_MAX",
    "SubscriptionFile",
    "list_feed_subscriptions",
    "subscribe_feed",
    "unsubscribe_feed",
]

SUBSCRIPTIONS_MAX = 1_000
"""Number of feeds that a corpus is subscribed to."""

_FILE = "websub.json"
_LOCK = ".websub.lock"
_NAMES = frozenset(one.name for one in fields(FeedSubscription))


def subscribe_feed(
    folder: Path, feed: str, *, hosts: Iterable[str] = (), now_ms: int
) -> FeedSubscription:
    """Subscribe a corpus to a feed; a server with WebSub asks its hub within a second.

    Parameters
    ----------
    folder
        Folder of the corpus.
    feed
        URL of the feed, which must name its hub.
    hosts
        Hosts whose pages the feed may announce; the feed's own host unless given.
    now_ms
        Current time, in milliseconds since 1970.
    """
    try:
        own = host_of_page(feed)
    except Problem as error:
        raise ValueError(error.detail) from None
    allowed = check_hosts(tuple(hosts) or (own,))
    one = make_subscription(feed, allowed, now_ms)
    with hold_lock(folder / _LOCK):
        found = list_feed_subscriptions(folder)
        if any(other.feed == feed and other.is_wanted for other in found):
            raise ValueError(f"the corpus is subscribed to {feed} already")
        if len(found) >= SUBSCRIPTIONS_MAX:
            raise ValueError(f"a corpus has at most {SUBSCRIPTIONS_MAX:,} subscriptions")
        _write(folder, [*found, one])
    return one


def unsubscribe_feed(folder: Path, feed: str, *, now_ms: int) -> bool:
    """End the subscription to a feed; return whether there was one.

    The server asks the hub to end it, and ignores from now on what the hub sends.

    Parameters
    ----------
    folder
        Folder of the corpus.
    feed
        URL of the feed.
    now_ms
        Current time, in milliseconds since 1970.
    """
    with hold_lock(folder / _LOCK):
        found = list_feed_subscriptions(folder)
        ending = [
            replace(one, is_wanted=False, next_at_ms=now_ms, n_failures=0)
            if one.feed == feed and one.is_wanted
            else one
            for one in found
        ]
        if ending == found:
            return False
        _write(folder, ending)
    return True


def list_feed_subscriptions(folder: Path) -> list[FeedSubscription]:
    """Return the subscriptions of a corpus, oldest first."""
    return read_row_file(folder / _FILE, "subscriptions", _subscription_of)


def _subscription_of(row: dict[str, Any]) -> FeedSubscription:
    known = {name: value for name, value in row.items() if name in _NAMES}
    requested = known.pop("requested", None)
    hosts = tuple(str(host) for host in known.pop("hosts"))
    return FeedSubscription(
        **known, hosts=hosts, requested=None if requested is None else HubMode(requested)
    )


def _write(folder: Path, subscriptions: list[FeedSubscription]) -> None:
    rows = [asdict(one) for one in subscriptions]
    replace_json(folder / _FILE, {"format": ROW_FILE_FORMAT, "subscriptions": rows}, mode=0o600)


class SubscriptionFile:
    """The subscriptions of one corpus, as a server uses them; a changed file is read again.

    Parameters
    ----------
    folder
        Folder of the corpus.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version: tuple[int, int] | None = None
        self._found: dict[str, FeedSubscription] = {}

    def read(self) -> dict[str, FeedSubscription]:
        """Return all subscriptions by their tokens."""
        try:
            status = (self._folder / _FILE).stat()
            version = (status.st_mtime_ns, status.st_ino)
        except FileNotFoundError:
            version = (0, 0)
        if version != self._version:
            self._found = {one.token: one for one in list_feed_subscriptions(self._folder)}
            self._version = version
        return self._found

    def change(
        self, token: str, function: Callable[[FeedSubscription], FeedSubscription | None]
    ) -> FeedSubscription | None:
        """Change or remove a subscription; return it, None if it no longer exists.

        Parameters
        ----------
        token
            Token of the subscription.
        function
            Function that returns the changed subscription; None to remove it.
        """
        with hold_lock(self._folder / _LOCK):
            found = {one.token: one for one in list_feed_subscriptions(self._folder)}
            if token not in found:
                return None
            changed = function(found[token])
            if changed is None:
                del found[token]
            else:
                found[token] = changed
            _write(self._folder, list(found.values()))
        return changed
