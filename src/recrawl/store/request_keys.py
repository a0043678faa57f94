"""The keys that clients gave with their requests, so that a repeated request is recognised.

A key is kept for a day after its record, and only the newest keys are kept.  They are numbered in
the order of the log, so that the oldest can be found and removed.
"""

import struct
from typing import NamedTuple

from recrawl.kv import KeyValues
from recrawl.store.keys import META, REQUEST, REQUEST_NUMBER, Writes

__all__ = [
    "REQUESTS_MAX",
    "REQUEST_KEPT_MS",
    "AcceptedRequest",
    "NewRequest",
    "find_request",
    "put_requests",
]

REQUESTS_MAX = 100_000
"""Number of keys that a partition keeps."""
REQUEST_KEPT_MS = 86_400_000
"""Time for which a key is kept, in milliseconds."""

_COUNTS_KEY = META + b"requests"
_COUNTS = struct.Struct(">QQ")
_STORED = struct.Struct(">QQq")
_AT = struct.Struct(">q")


class NewRequest(NamedTuple):
    """The key of a request, and the record that contains its effect."""

    key: bytes
    digest: bytes
    position: int
    at_ms: int


class AcceptedRequest(NamedTuple):
    """A request that the log contains."""

    position: int
    """Position of the record that completed it."""
    digest: bytes
    """Digest of the request, which shows whether another request has the same key."""
    at_ms: int
    """Time of the partition when it was applied."""


def find_request(kv: KeyValues, key: bytes, now_ms: int) -> AcceptedRequest | None:
    """Return the request with a key; None if there was none within the time and number kept."""
    value = kv.get(REQUEST + key)
    return None if value is None else _usable(value, _counts(kv)[0], now_ms)


def _counts(kv: KeyValues) -> tuple[int, int]:
    """Return how many keys were ever added, and how many were removed."""
    n_added, n_removed = _COUNTS.unpack(kv.get(_COUNTS_KEY) or bytes(_COUNTS.size))
    return n_added, n_removed


def _usable(value: bytes, n_added: int, now_ms: int) -> AcceptedRequest | None:
    """Return a stored request unless it is too old or too many have been added since."""
    number, position, at_ms = _STORED.unpack_from(value)
    if number < n_added - REQUESTS_MAX or at_ms < now_ms - REQUEST_KEPT_MS:
        return None
    return AcceptedRequest(position, value[_STORED.size :], at_ms)


def put_requests(kv: KeyValues, writes: Writes, requests: list[NewRequest]) -> None:
    """Collect the writes of new keys, and of the removal of keys that are no longer kept.

    The first request with a key counts.  Whether an earlier one still counts depends only on the
    records, not on how they are grouped into writes.
    """
    n_added, n_removed = _counts(kv)
    new: dict[bytes, bytes] = {}
    for key, digest, position, at_ms in requests:
        before = new.get(key) or kv.get(REQUEST + key)
        if before is not None and _usable(before, n_added, at_ms) is not None:
            continue
        new[key] = _STORED.pack(n_added, position, at_ms) + digest
        writes.put(REQUEST_NUMBER + n_added.to_bytes(8, "big"), _AT.pack(at_ms) + key)
        n_added += 1
    for key, value in new.items():
        writes.put(REQUEST + key, value)
    n_removed = _remove_old(kv, writes, new, n_added, n_removed, requests[-1].at_ms)
    writes.put(_COUNTS_KEY, _COUNTS.pack(n_added, n_removed))


def _remove_old(
    kv: KeyValues,
    writes: Writes,
    new: dict[bytes, bytes],
    n_added: int,
    n_removed: int,
    now_ms: int,
) -> int:
    """Collect the removal of keys that are no longer kept; return how many were ever removed."""
    start = REQUEST_NUMBER + n_removed.to_bytes(8, "big")
    for number_key, value in kv.scan(start, REQUEST_NUMBER + b"\xff" * 9):
        number = int.from_bytes(number_key[1:], "big")
        (at_ms,) = _AT.unpack_from(value)
        if number >= n_added - REQUESTS_MAX and at_ms >= now_ms - REQUEST_KEPT_MS:
            break
        writes.deletes.append(number_key)
        key = value[_AT.size :]
        stored = kv.get(REQUEST + key)
        # The key may have been used again since.
        if key not in new and stored is not None and _STORED.unpack_from(stored)[0] == number:
            writes.deletes.append(REQUEST + key)
        n_removed = number + 1
    return n_removed
