"""All limits of the service, in one place; docs/reference/service.md lists them."""

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

__all__ = ["LimitRow", "ServiceLimits", "limit_field", "limit_rows"]


def limit_field(default: float, about: str, beyond: str) -> Any:
    """Return a field of a class of limits.

    Parameters
    ----------
    default
        Limit unless another one is given.
    about
        Phrase that says what is limited.
    beyond
        Phrase that says what happens beyond it.
    """
    return field(default=default, metadata={"about": about, "beyond": beyond})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLimits:
    """Limits of a server.  `limit_rows` says what each is for, and what happens beyond it."""

    connections_max: int = limit_field(
        2_048, "connections at a time", "503, without a problem document"
    )
    header_bytes_max: int = limit_field(
        65_536, "size of a request's first line and headers", "431 headers-too-large"
    )
    header_seconds_max: float = limit_field(
        30.0, "time in which the headers must arrive", "the connection is closed"
    )
    body_bytes_max: int = limit_field(
        32 << 20, "size of a request's body, after decompression", "413 body-too-large"
    )
    held_bytes_max: int = limit_field(
        256 << 20, "size of all bodies that the server holds at a time", "429 too-busy"
    )
    body_seconds_max: float = limit_field(
        60.0, "time in which a body must arrive", "408 body-too-slow"
    )
    rows_max: int = limit_field(50_000, "rows of a request", "413 too-many-rows")
    orders_max: int = limit_field(10_000, "orders of a lease", "422 invalid-value")
    wait_seconds_max: float = limit_field(
        60.0, "time for which a request may wait", "422 invalid-value"
    )
    waiting_leases_max: int = limit_field(
        1_024, "leases of a corpus that wait at a time", "429 too-busy"
    )
    turns_max: int = limit_field(
        50_000, "turns at hosts of a corpus at a time", "turns are not granted"
    )
    turn_seconds_max: float = limit_field(
        30.0, "time after which a turn ends that is not renewed", "the turn is lost"
    )
    waiting_feeds_max: int = limit_field(
        256, "requests of a corpus that wait for changes at a time", "429 too-busy"
    )
    calls_max: int = limit_field(
        256, "calls of a corpus and of one kind that run or wait to run", "429 too-busy"
    )
    shown_calls_max: int = limit_field(
        32, "calls of a corpus for pages of the dashboard that run or wait to run", "429 too-busy"
    )
    listed_max: int = limit_field(10_000, "pages or changes in one answer", "422 invalid-value")
    reasons_max: int = limit_field(
        100, "refused rows whose reason an answer gives", "the first ones are given"
    )
    history_records_max: int = limit_field(
        5_000, "records of the log that are read for the history of a page", "422 invalid-value"
    )
    targets_max: int = limit_field(20, "targets of a plan", "422 invalid-value")
    idempotency_key_bytes_max: int = limit_field(
        255, "length of an idempotency key, in bytes", "422 invalid-value"
    )
    key_requests_per_second: float = limit_field(
        2_000.0,
        "requests of an API key in a second, unless it has a limit of its own",
        "429 too-many-requests",
    )
    key_rows_per_second: float = limit_field(
        1_000_000.0,
        "rows that an API key sends or gets in a second, unless it has a limit of its own",
        "429 too-many-requests",
    )
    keyless_requests_per_second: float = limit_field(
        50.0,
        "requests of an address in a second to paths that need no API key",
        "429 too-many-requests",
    )
    disk_free_bytes_min: int = limit_field(
        128 << 20, "free space on the disk of a corpus below which it is only read", "507 storage"
    )
    indexnow_urls_max: int = limit_field(10_000, "URLs of a notice of IndexNow", "400 invalid-body")
    indexnow_urls_per_hour: int = limit_field(
        10_000, "URLs that a host may announce by IndexNow in an hour", "429 too-busy"
    )
    notice_bytes_max: int = limit_field(
        4 << 20, "size of a signed notice or of what a hub pushes", "413 body-too-large"
    )
    notice_urls_max: int = limit_field(10_000, "URLs of a signed notice", "400 invalid-body")
    notice_urls_per_hour: int = limit_field(
        10_000,
        "URLs of a host that signed notices, or hubs, may announce in an hour",
        "429 too-busy",
    )
    drain_seconds_max: float = limit_field(
        30.0, "time that running requests have to end when the server stops", "they are cut off"
    )


class LimitRow(NamedTuple):
    """One limit, as the reference page shows it."""

    name: str
    value: float
    about: str
    beyond: str
    """What happens beyond it: the answer to a request, or something else."""


def limit_rows(limits: Any = None) -> list[LimitRow]:
    """Return all limits, with what each is for.

    Parameters
    ----------
    limits
        Object of a class of limits; those of a server unless given.
    """
    limits = ServiceLimits() if limits is None else limits
    return [
        LimitRow(one.name, getattr(limits, one.name), one.metadata["about"], one.metadata["beyond"])
        for one in fields(limits)
    ]
