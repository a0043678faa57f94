"""What workers of a cluster say to each other when they forward requests: headers and owners."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

__all__ = [
    "AUTHORIZATION_KIND",
    "BODY",
    "EXPECTED",
    "FIRST_ATTEMPT",
    "FORWARDED",
    "HELD_ONLY",
    "IN_PARTS",
    "REQUEST",
    "Forwarded",
    "Owner",
    "epochs_text",
    "forwarded_digest",
    "owner_rows",
    "read_epochs",
    "read_owner_rows",
    "read_request",
    "request_text",
]

AUTHORIZATION_KIND: Final = "Recrawl-Worker"
"""First word of the header Authorization of a forwarded request."""
FORWARDED: Final = "Recrawl-Forwarded"
"""Header with the name of the worker that forwards a request, percent-encoded."""
EXPECTED: Final = "Recrawl-Expected"
"""Header with the partitions and epochs that the receiver is expected to own: ``3:17,5:2``."""
REQUEST: Final = "Recrawl-Request"
"""Header with the key and the digest of the original request, if it may be repeated."""
HELD_ONLY: Final = "Recrawl-Held-Only"
"""Header of a lease that asks only for the orders that an earlier attempt got."""
IN_PARTS: Final = "Recrawl-In-Parts"
"""Header of a request about pages of split hosts that are not in their home partitions."""

FIRST_ATTEMPT: Final = "Recrawl-First-Attempt"
"""Header of a request whose idempotency key was never sent before.  A client that repeats a request
leaves it out.  Without it, a cluster asks all workers what an earlier attempt got."""
BODY: Final = "Recrawl-Body"
"""Header with the hash of the body, see `forwarded_digest`."""

_PARTITIONS_MAX: Final = 4_096
_REQUEST_LENGTH_MAX: Final = 2_048


class Owner(NamedTuple):
    """The worker that owns a partition."""

    worker: str
    address: str
    """URL of its server, such as ``http://10.0.0.7:8377``."""
    epoch: int
    """Epoch of its claim."""


class Forwarded(NamedTuple):
    """What a worker says of a request that it forwards."""

    sender: str
    request: tuple[bytes, bytes] | None = None
    """Key and digest of the original request; None if it has none."""
    is_held_only: bool = False
    """Whether a lease asks only for orders that it holds already."""
    body: str = ""
    """Hash of the body, see `forwarded_digest`."""
    in_parts: bool = False
    """Whether all its pages are elsewhere than in their home partitions."""


def forwarded_digest(body: bytes) -> str:
    """Return the hash of a body, which is part of what a worker signs."""
    return hashlib.sha256(body).hexdigest()


def epochs_text(epochs: Mapping[int, int]) -> str:
    """Return partitions with their epochs as the value of a header."""
    return ",".join(f"{partition}:{epoch}" for partition, epoch in epochs.items())


def read_epochs(text: str) -> dict[int, int]:
    """Return the epochs of partitions; raise `ValueError` if the header is malformed."""
    parts = text.split(",") if text else []
    if len(parts) > _PARTITIONS_MAX:
        raise ValueError(f"{EXPECTED} has at most {_PARTITIONS_MAX} partitions")
    found = {}
    for part in parts:
        partition, _, epoch = part.partition(":")
        found[int(partition)] = int(epoch)
    return found


def request_text(request: tuple[bytes, bytes]) -> str:
    """Return the key and the digest of a request as the value of a header."""
    key, digest = request
    return f"{key.hex()}.{digest.hex()}"


def read_request(text: str) -> tuple[bytes, bytes]:
    """Return the key and the digest of a request; raise `ValueError` if they are malformed."""
    key, _, digest = text.partition(".")
    if not key or not digest or len(text) > _REQUEST_LENGTH_MAX:
        raise ValueError(f"{REQUEST} must have a key and a digest")
    return bytes.fromhex(key), bytes.fromhex(digest)


def owner_rows(owners: Mapping[int, Owner | None]) -> list[dict[str, Any]]:
    """Return the owners of partitions as the rows of a problem document."""
    return [
        {"partition": partition, "worker": None, "address": None, "epoch": None}
        if owner is None
        else {"partition": partition, **owner._asdict()}
        for partition, owner in owners.items()
    ]


def read_owner_rows(rows: Iterable[Any]) -> dict[int, Owner | None]:
    """Return the owners in a problem document; raise if it is malformed.

    Raises
    ------
    ValueError, TypeError, KeyError
        If the rows are not those of `owner_rows`.
    """
    return {
        int(row["partition"]): None
        if row["worker"] is None
        else Owner(str(row["worker"]), str(row["address"]), int(row["epoch"]))
        for row in rows
    }
