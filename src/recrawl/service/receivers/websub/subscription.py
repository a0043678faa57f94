"""A subscription to a feed at its hub, and what happens to it; without a clock or a network."""

import secrets
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

__all__ = [
    "FeedSubscription",
    "HubMode",
    "add_failure",
    "begin_request",
    "end_lease",
    "make_subscription",
    "next_step",
    "note_denial",
    "note_verified",
]

LEASE_SECONDS = 10 * 86_400
"""Length of the lease that hubs are asked for."""

_LEASE_MS_MAX = 30 * 86_400_000
_RENEWED_AT = 0.7
"""Share of a lease after which it is renewed."""
_RENEWED_MS_MIN = 300_000
_VERIFIED_WITHIN_MS = 3_600_000
"""Time in which a hub must verify a request."""
_PAUSE_MS, _PAUSE_MS_MAX = 300_000, 86_400_000
_UNSUBSCRIBED_TRIES = 3
_PROBLEM_MAX = 200


class HubMode(StrEnum):
    """What a hub is asked for."""

    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedSubscription:
    """One subscription.  ``begin_request`` and the other functions return it changed."""

    token: str
    """Part of its callback, which cannot be guessed."""
    feed: str
    """URL of the feed, as it was given."""
    hosts: tuple[str, ...]
    """Hosts whose pages it may announce."""
    secret: str
    """Secret that signs what the hub sends."""
    added_at_ms: int
    is_wanted: bool = True
    """Whether it is to be kept; False while it is being ended."""
    hub: str = ""
    topic: str = ""
    """URL that the feed gives as its own, to which the hub is subscribed."""
    requested: HubMode | None = None
    """What the hub was asked for last."""
    requested_at_ms: int = 0
    verified_at_ms: int = 0
    """Time at which the hub has last verified that the request is ours."""
    lease_ends_at_ms: int = 0
    next_at_ms: int = 0
    """Time of the next request to the hub."""
    n_failures: int = 0
    problem: str = ""
    pushed_at_ms: int = 0
    """Time of a recent push; written at most every hour."""

    def is_active(self, now_ms: int) -> bool:
        """Return whether the hub may send changes now."""
        return self.is_wanted and now_ms < self.lease_ends_at_ms

    def expects(self, mode: str, topic: str, now_ms: int) -> bool:
        """Return whether a verification belongs to a request that was made not long ago."""
        is_recent = now_ms - self.requested_at_ms <= _VERIFIED_WITHIN_MS
        return mode == self.requested and topic == self.topic and is_recent


def make_subscription(feed: str, hosts: tuple[str, ...], now_ms: int) -> FeedSubscription:
    """Return a new subscription, with a random token and secret.

    Parameters
    ----------
    feed
        URL of the feed.
    hosts
        Hosts whose pages it may announce.
    now_ms
        Current time, in milliseconds since 1970.
    """
    return FeedSubscription(
        token=secrets.token_urlsafe(32),
        feed=feed,
        hosts=hosts,
        secret=secrets.token_hex(32),
        added_at_ms=now_ms,
    )


def next_step(one: FeedSubscription, now_ms: int) -> Literal["wait", "drop"] | HubMode:
    """Return what to do with a subscription now.

    Parameters
    ----------
    one
        Subscription.
    now_ms
        Current time, in milliseconds since 1970.
    """
    if one.is_wanted:
        return HubMode.SUBSCRIBE if now_ms >= one.next_at_ms else "wait"
    # A hub that does not answer is left alone: its lease ends by itself.
    if now_ms >= one.lease_ends_at_ms or one.n_failures >= _UNSUBSCRIBED_TRIES:
        return "drop"
    return HubMode.UNSUBSCRIBE if now_ms >= one.next_at_ms else "wait"


def begin_request(
    one: FeedSubscription, mode: HubMode, hub: str, topic: str, now_ms: int
) -> FeedSubscription:
    """Return a subscription whose hub is asked for something; it is stored before the request.

    Parameters
    ----------
    one
        Subscription.
    mode
        Kind of the request.
    hub
        URL of the hub.
    topic
        URL that the feed gives as its own.
    now_ms
        Current time, in milliseconds since 1970.
    """
    is_unanswered = one.requested is mode and one.verified_at_ms < one.requested_at_ms
    n_failures = one.n_failures + is_unanswered
    pause_ms = max(_VERIFIED_WITHIN_MS, _pause_ms(n_failures))
    return replace(
        one,
        hub=hub,
        topic=topic,
        requested=mode,
        requested_at_ms=now_ms,
        next_at_ms=now_ms + pause_ms,
        n_failures=n_failures,
        problem="the hub has not verified the last request" if is_unanswered else one.problem,
    )


def note_verified(one: FeedSubscription, lease_seconds: int, now_ms: int) -> FeedSubscription:
    """Return a subscription that its hub has verified.

    Parameters
    ----------
    one
        Subscription.
    lease_seconds
        Length of the lease that the hub grants.
    now_ms
        Current time, in milliseconds since 1970.
    """
    lease_ms = min(lease_seconds * 1000, _LEASE_MS_MAX)
    return replace(
        one,
        verified_at_ms=now_ms,
        lease_ends_at_ms=now_ms + lease_ms,
        next_at_ms=now_ms + max(round(lease_ms * _RENEWED_AT), _RENEWED_MS_MIN),
        n_failures=0,
        problem="",
    )


def end_lease(one: FeedSubscription, now_ms: int) -> FeedSubscription:
    """Return a subscription that its hub has ended, as it was asked to.

    Parameters
    ----------
    one
        Subscription.
    now_ms
        Current time, in milliseconds since 1970.
    """
    return replace(one, verified_at_ms=now_ms, lease_ends_at_ms=now_ms)


def note_denial(one: FeedSubscription, reason: str, now_ms: int) -> FeedSubscription:
    """Return a subscription that its hub has refused or ended; it is tried again after a day.

    Parameters
    ----------
    one
        Subscription.
    reason
        Reason that the hub gives.
    now_ms
        Current time, in milliseconds since 1970.
    """
    problem = f"the hub refuses the subscription: {reason}" if reason else "the hub refuses it"
    return replace(
        one,
        requested=None,
        lease_ends_at_ms=min(one.lease_ends_at_ms, now_ms),
        next_at_ms=now_ms + _PAUSE_MS_MAX,
        problem=problem[:_PROBLEM_MAX],
    )


def add_failure(one: FeedSubscription, problem: str, now_ms: int) -> FeedSubscription:
    """Return a subscription whose feed or hub could not be reached; it is tried again later.

    Parameters
    ----------
    one
        Subscription.
    problem
        Sentence for people.
    now_ms
        Current time, in milliseconds since 1970.
    """
    n_failures = one.n_failures + 1
    return replace(
        one,
        n_failures=n_failures,
        next_at_ms=now_ms + _pause_ms(n_failures),
        problem=problem[:_PROBLEM_MAX],
    )


def _pause_ms(n_failures: int) -> int:
    return min(_PAUSE_MS << min(max(n_failures - 1, 0), 20), _PAUSE_MS_MAX)
