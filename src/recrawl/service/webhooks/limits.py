"""All limits of webhooks, in one place; docs/reference/webhooks.md lists them."""

import math
from dataclasses import dataclass, fields

from recrawl.service.limits import limit_field

__all__ = ["WebhookLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookLimits:
    """Limits of the webhooks of a corpus.

    `recrawl.service.limit_rows` says what each is for, and what happens beyond it.
    """

    webhooks_max: int = limit_field(100, "webhooks of a corpus", "no more are added")
    patterns_max: int = limit_field(100, "patterns or kinds of a webhook", "the webhook is refused")
    secrets_max: int = limit_field(
        4, "secrets of a webhook that are valid at a time", "none is added"
    )
    requests_max: int = limit_field(4, "requests of a webhook at a time", "further ones wait")
    events_max: int = limit_field(100, "events of a request", "the webhook is refused")
    request_bytes_max: int = limit_field(
        1 << 20, "size of a request of several events", "it is split"
    )
    event_bytes_max: int = limit_field(
        1 << 18, "size of an event", "it is sent without passages, then without metadata"
    )
    letters_max: int = limit_field(
        1_000, "changes that a webhook holds: sent, waiting, held back or dead", "reading stops"
    )
    letters_bytes_max: int = limit_field(
        32 << 20, "size of the changes that it holds", "reading stops"
    )
    attempts_max: int = limit_field(10, "attempts to send a change", "it becomes a dead letter")
    backoff_seconds: float = limit_field(5.0, "wait after the first failure of a change", "–")
    backoff_factor: float = limit_field(4.0, "growth of the wait with each further failure", "–")
    backoff_seconds_max: float = limit_field(
        21_600.0, "wait between two attempts", "it stays so long"
    )
    retry_after_seconds_max: float = limit_field(
        86_400.0, "wait that a receiver may ask for (Retry-After)", "it is cut"
    )
    failures_max: int = limit_field(
        5, "failures in a row", "the receiver counts as down: one request at a time, after a wait"
    )
    down_seconds_max: float = limit_field(
        300.0, "wait between two requests to a receiver that is down", "it stays so long"
    )
    reads_per_second_max: int = limit_field(
        50, "reads of the feed per second, by all webhooks of a corpus", "they are read later"
    )
    stores_per_second_max: int = limit_field(
        16, "stores per second of the state of all webhooks of a corpus", "they are stored later"
    )
    connect_seconds_max: float = limit_field(10.0, "time to connect", "the attempt has failed")
    request_seconds_max: float = limit_field(
        30.0, "time until the answer", "the attempt has failed"
    )
    answer_bytes_max: int = limit_field(
        16 << 10, "bytes read of an answer", "the connection is closed"
    )
    drain_seconds_max: float = limit_field(
        10.0, "time that running requests have when delivery stops", "they are cut off"
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            least = 1 if one.type is int or one.name == "backoff_factor" else 0
            if not (math.isfinite(value) and value >= least):
                raise ValueError(f"{one.name} must be at least {least}, got {value}")
