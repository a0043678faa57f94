"""Violations of robots.txt, delays and Retry-After, found in the log of the server."""

from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from recrawl.testing.web.local_web import LocalWeb, RequestKind
from recrawl.testing.web.request_log import LoggedRequest, RequestLog
from recrawl.testing.web.robots import is_allowed, robots_delay_seconds
from recrawl.testing.web.traits import HostTraits, RobotsKind

__all__ = ["Violation", "ViolationKind", "find_violations"]

ROBOTS_AGE_SECONDS_MAX = 25 * 3_600.0
"""Default age of a robots.txt that a crawler may still obey: 24 hours, and one to fetch it."""


class ViolationKind(StrEnum):
    """What a request violates."""

    DISALLOWED = "disallowed"  # robots.txt disallows the path
    ROBOTS_UNREAD = "robots_unread"  # the host has not yet answered for its robots.txt
    DELAY = "delay"  # too soon after the request before
    RETRY_AFTER = "retry_after"  # the host has asked for more time
    AT_ONCE = "at_once"  # the host had not yet answered the request before


class Violation(NamedTuple):
    """A request that a polite crawler would not have made."""

    kind: ViolationKind
    request: LoggedRequest
    reason: str


def find_violations(
    web: LocalWeb,
    log: RequestLog,
    *,
    delay_seconds: float = 0.0,
    n_at_once_max: int = 1,
    robots_age_seconds_max: float = ROBOTS_AGE_SECONDS_MAX,
    tolerance_seconds: float = 0.0,
) -> list[Violation]:
    """Return the requests that a polite crawler would not have made.

    Parameters
    ----------
    web
        Hosts and their rules.
    log
        Log of the server.
    delay_seconds
        Time between two requests to a host that the crawler promises, where robots.txt does not
        ask for more.
    n_at_once_max
        Most requests to one host that may be open at the same time.
    robots_age_seconds_max
        Age of a robots.txt that the crawler may still obey.
    tolerance_seconds
        Time by which a request may be too early, for clocks of two processes; 0 in stepped time.
    """
    found: list[Violation] = []
    for host, requests in log.by_host().items():
        if host in web.hosts:
            traits = web.hosts[host].traits
            found += _robots_violations(web, traits, requests, robots_age_seconds_max)
            found += _delay_violations(traits, requests, delay_seconds, tolerance_seconds)
            found += _retry_violations(requests, tolerance_seconds)
            found += _parallel_violations(requests, n_at_once_max, tolerance_seconds)
    return sorted(found, key=lambda violation: violation.request.at_ms)


def _robots_known_ms(traits: HostTraits, requests: list[LoggedRequest]) -> float:
    """Return when the crawler first knew what the robots.txt of a host says."""
    for request in requests:
        if request.kind is not RequestKind.ROBOTS or request.fault or request.status >= 500:
            continue
        if traits.robots is RobotsKind.REDIRECT and request.status >= 300:
            continue
        return request.ended_at_ms
    return float("inf")


def _robots_violations(
    web: LocalWeb, traits: HostTraits, requests: list[LoggedRequest], age_seconds_max: float
) -> Iterator[Violation]:
    known_ms = _robots_known_ms(traits, requests)
    for request in requests:
        if request.kind is RequestKind.ROBOTS:
            continue
        if request.at_ms < known_ms:
            reason = "robots.txt was not yet read"
            yield Violation(ViolationKind.ROBOTS_UNREAD, request, reason)
            continue
        # A sitemap that robots.txt names may be read, whatever the rules say.
        if request.kind is RequestKind.SITEMAP:
            continue
        since = web.since_start_seconds(request.at_ms)
        before = max(since - age_seconds_max, 0.0)
        if not is_allowed(traits, request.path, since) and not is_allowed(
            traits, request.path, before
        ):
            reason = f"robots.txt of kind {traits.robots} disallows {request.path}"
            yield Violation(ViolationKind.DISALLOWED, request, reason)


def _delay_violations(
    traits: HostTraits,
    requests: list[LoggedRequest],
    delay_seconds: float,
    tolerance_seconds: float,
) -> Iterator[Violation]:
    known_ms = _robots_known_ms(traits, requests)
    for before, request in pairwise(requests):
        wanted = delay_seconds
        if request.at_ms >= known_ms:
            wanted = max(wanted, robots_delay_seconds(traits))
        gap = (request.at_ms - before.at_ms) / 1_000
        if gap + tolerance_seconds < wanted:
            reason = f"{gap:g} s after the request before, instead of {wanted:g} s"
            yield Violation(ViolationKind.DELAY, request, reason)


def _retry_violations(
    requests: list[LoggedRequest], tolerance_seconds: float
) -> Iterator[Violation]:
    until_ms = 0.0
    # An answer counts from its end: until then the crawler cannot know what it says.
    answers = sorted(
        (row.ended_at_ms, row.at_ms + 1_000 * row.retry_after_seconds)
        for row in requests
        if row.retry_after_seconds is not None
    )
    row = 0
    for request in requests:
        while row < len(answers) and answers[row][0] <= request.at_ms:
            until_ms = max(until_ms, answers[row][1])
            row += 1
        early_ms = until_ms - request.at_ms
        if early_ms > 1_000 * tolerance_seconds:
            reason = f"{early_ms / 1_000:g} s before the end of Retry-After"
            yield Violation(ViolationKind.RETRY_AFTER, request, reason)


def _parallel_violations(
    requests: list[LoggedRequest], n_at_once_max: int, tolerance_seconds: float
) -> Iterator[Violation]:
    open_until: list[float] = []
    for request in requests:
        at_ms = request.at_ms + 1_000 * tolerance_seconds
        open_until = [end for end in open_until if end > at_ms]
        if len(open_until) >= n_at_once_max:
            reason = f"{len(open_until)} requests were still open"
            yield Violation(ViolationKind.AT_ONCE, request, reason)
        open_until.append(request.ended_at_ms)
