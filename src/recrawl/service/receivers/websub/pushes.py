"""Check what a hub pushes, and find the pages that it announces."""

import hmac
from collections import Counter
from typing import NamedTuple

from recrawl.service.problems import Problem
from recrawl.service.receivers.host_limits import HostLimits
from recrawl.service.receivers.notice_urls import host_of_page
from recrawl.service.receivers.receiver_files import covers_host
from recrawl.service.receivers.websub.subscription import FeedSubscription
from recrawl.signals import HintLimits, HintReader

__all__ = ["PushedPage", "is_signed", "read_push", "within_limits"]

_METHODS = ("sha1", "sha256", "sha384", "sha512")
_HEADER_MAX = 200
_ENTRIES_MAX = 1_000


class PushedPage(NamedTuple):
    """A page that a push announces."""

    url: str
    host: str
    claimed_at_ms: int
    """Time of the change, according to the feed; 0 if it does not say."""


def is_signed(secret: str, header: str, body: bytes) -> bool:
    """Return whether ``X-Hub-Signature`` is the HMAC of a body.

    Parameters
    ----------
    secret
        Secret of the subscription.
    header
        Value of the header: a method and a number in hexadecimal, such as ``sha256=0f…``.
    body
        Body of the request, byte by byte as it arrived.
    """
    method, equals, given = header[:_HEADER_MAX].strip().partition("=")
    if not equals or method.lower() not in _METHODS:
        return False
    expected = hmac.new(secret.encode(), body, method.lower()).hexdigest()
    return hmac.compare_digest(expected.encode(), given.strip().lower().encode())


def read_push(one: FeedSubscription, body: bytes, now_ms: int) -> list[PushedPage]:
    """Return the pages that a push announces, of those that its feed may announce.

    Parameters
    ----------
    one
        Subscription.
    body
        Feed, or the part of it that is new.
    now_ms
        Current time, in milliseconds since 1970.
    """
    found: dict[str, PushedPage] = {}
    limits = HintLimits(n_bytes_max=len(body), n_entries_max=_ENTRIES_MAX)
    for hints in HintReader([body], limits):
        for url, at_ms in zip(hints.url, hints.latest_ms.tolist(), strict=True):
            try:
                host = host_of_page(url)
            except Problem:
                continue
            if covers_host(one.hosts, host):
                claimed_at_ms = at_ms if at_ms <= now_ms else 0
                found.setdefault(url, PushedPage(url, host, claimed_at_ms))
    return list(found.values())


def within_limits(pages: list[PushedPage], hosts: HostLimits) -> list[PushedPage]:
    """Return the pages whose hosts may announce so many now.

    Parameters
    ----------
    pages
        Pages that a push announces.
    hosts
        Limits of how many URLs of each host may be announced; they are charged.
    """
    counts = Counter(page.host for page in pages)
    full = {host for host, n in counts.items() if hosts.take(host, n)}
    return [page for page in pages if page.host not in full]
