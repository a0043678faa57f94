"""What a worker tells the others every second."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import urlsplit

from recrawl.messages.partitions import OwnedPartition

__all__ = ["HEARTBEAT_BYTES_MAX", "NAME_LENGTH_MAX", "Heartbeat", "check_address", "check_name"]

HEARTBEAT_BYTES_MAX: Final = 256 << 10
"""Largest size of a heartbeat; a longer message is not read."""
NAME_LENGTH_MAX: Final = 128
"""Largest number of characters of a worker's name."""
_TEXT_LENGTH_MAX: Final = 512
_NUMBER_MAX: Final = 1 << 62
_KEY_IDS_MAX: Final = 16
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A sign of life of a worker.

    Parameters
    ----------
    worker
        Name of the worker, which stays the same when it is started again.
    instance
        Random text of this start of the worker.
    started_at_ms
        Time of this start, in milliseconds since 1970.
    address
        URL at which other workers reach it.
    zone
        Name of the place where its machine is; empty if it has none.
    version
        Version of recrawl.
    owned
        Partitions that it owns, by number.
    standby_seconds
        Seconds by which its copies of other partitions are behind their logs, by number.
    can_own
        Whether it can own partitions; a worker whose disk is full cannot.
    is_leaving
        Whether it is about to end: other workers should claim its partitions.
    reads_version
        Newest version of the log's records that it can read.
    writes_version
        Version of the records that it appends.
    reads_log
        Whether it can read all logs; False if it has met records that a newer version wrote.
    sent_at_ms
        Time at which it was sent, by the clock of the machine; 0 if the version does not say.
    clock_ahead_seconds
        Seconds by which this clock is ahead of most others, if it differs from them; then it owns
        partitions only if no other worker can.
    key_ids
        Names of the cluster keys that it accepts; empty if the version does not say.
    has_other_keys
        Whether most others have none of its cluster keys; then it owns partitions only if no other
        worker can.
    """

    worker: str
    instance: str
    started_at_ms: int
    address: str = ""
    zone: str = ""
    version: str = ""
    owned: Mapping[int, OwnedPartition] = field(default_factory=dict)
    standby_seconds: Mapping[int, float] = field(default_factory=dict)
    can_own: bool = True
    is_leaving: bool = False
    reads_version: int = 1
    writes_version: int = 1
    reads_log: bool = True
    sent_at_ms: int = 0
    clock_ahead_seconds: float = 0.0
    key_ids: tuple[str, ...] = ()
    has_other_keys: bool = False

    @property
    def start(self) -> tuple[int, str]:
        """What tells two starts of a worker apart; the later one is greater."""
        return self.started_at_ms, self.instance

    def to_bytes(self) -> bytes:
        """Return the heartbeat as a message."""
        fields = {
            "format": _FORMAT,
            "worker": self.worker,
            "instance": self.instance,
            "started_at_ms": self.started_at_ms,
            "address": self.address,
            "zone": self.zone,
            "version": self.version,
            "owned": {str(i): _owned_row(one) for i, one in self.owned.items()},
            "standby_seconds": {
                str(i): round(seconds, 3) for i, seconds in self.standby_seconds.items()
            },
            "can_own": self.can_own,
            "is_leaving": self.is_leaving,
            "reads_version": self.reads_version,
            "writes_version": self.writes_version,
            "reads_log": self.reads_log,
            "sent_at_ms": self.sent_at_ms,
            "clock_ahead_seconds": round(self.clock_ahead_seconds, 3),
            "key_ids": list(self.key_ids),
            "has_other_keys": self.has_other_keys,
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, message: bytes) -> Self | None:
        """Return the heartbeat in a message; None if it is none that this version understands."""
        if len(message) > HEARTBEAT_BYTES_MAX:
            return None
        try:
            found = json.loads(message)
            if not isinstance(found, dict) or found.get("format") != _FORMAT:
                return None
            heartbeat = cls(
                worker=check_name(found["worker"]),
                instance=_text(found["instance"]),
                started_at_ms=_number(found["started_at_ms"]),
                address=_address(found.get("address", "")),
                zone=_text(found.get("zone", "")),
                version=_text(found.get("version", "")),
                owned={
                    int(i): OwnedPartition(_number(epoch), _number(n_pages), *map(float, rest[:1]))
                    for i, (epoch, n_pages, *rest) in _table(found.get("owned", {})).items()
                },
                standby_seconds={
                    int(i): float(seconds)
                    for i, seconds in _table(found.get("standby_seconds", {})).items()
                },
                can_own=found.get("can_own") is not False,
                is_leaving=found.get("is_leaving") is True,
                reads_version=max(int(found.get("reads_version", 1)), 1),
                writes_version=max(int(found.get("writes_version", 1)), 1),
                reads_log=found.get("reads_log") is not False,
                sent_at_ms=_number(found.get("sent_at_ms", 0)),
                clock_ahead_seconds=float(found.get("clock_ahead_seconds", 0.0)),
                key_ids=tuple(map(_text, found.get("key_ids", ())[:_KEY_IDS_MAX])),
                has_other_keys=found.get("has_other_keys") is True,
            )
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return None
        return heartbeat


def check_name(name: Any) -> str:
    """Return the name of a worker; raise `ValueError` if it is empty, too long or not printable."""
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        raise ValueError(
            f"the name of a worker must be printable text of 1 to {NAME_LENGTH_MAX} characters, "
            f"got {name!r:.200}"
        )
    return name


def check_address(address: str) -> str:
    """Return the address of a worker; raise `ValueError` if it is not the URL of a server."""
    if len(address) > _TEXT_LENGTH_MAX or not _is_server(address):
        raise ValueError(
            "the address of a worker must be the URL of its server, such as "
            f"http://10.1.0.7:8377/, got {address!r:.200}"
        )
    return address


def _is_server(address: str) -> bool:
    # urlsplit leaves out line breaks.
    if not (address.isascii() and address.isprintable()) or set(address) & set(" @?#"):
        return False
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _address(found: Any) -> str:
    """Return an address; an empty text for one at which nobody can be reached."""
    address = _text(found)
    try:
        return check_address(address) if address else ""
    except ValueError:
        return ""


def _owned_row(one: OwnedPartition) -> list[float]:
    row: list[float] = [one.epoch, one.n_pages]
    return row if one.snapshot_seconds is None else [*row, round(one.snapshot_seconds, 1)]


def _text(found: Any) -> str:
    if not isinstance(found, str) or len(found) > _TEXT_LENGTH_MAX:
        raise ValueError("not a short text")
    return found


def _number(found: Any) -> int:
    number = int(found)
    if not 0 <= number <= _NUMBER_MAX:
        raise ValueError("not a number in its range")
    return number


def _table(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise TypeError("not a table")
    return found
