"""Messages about split hosts: what their parts need, and what their home partitions grant."""

import hashlib
import json
from typing import Any, Final

from recrawl.ledger.contract import N_PARTITIONS_MAX
from recrawl.node.split_hosts.windows import HostGrants, HostRules, PartNeeds, Window

__all__ = [
    "GRANTS_KEY",
    "NEEDS_KEY",
    "grants_message",
    "needs_message",
    "read_grants",
    "read_needs",
]

NEEDS_KEY: Final = "host-needs/"
"""What the key of a part's needs begins with; a hash of the host and the partition follow."""
GRANTS_KEY: Final = "host-grants/"
"""What the key of a host's grants begins with; a hash of the host follows."""
_FORMAT: Final = 1
# A host has at most 3,000 bytes, which JSON may write as six characters each.
_BYTES_MAX: Final = 32 << 10
_HOST_BYTES_MAX: Final = 3_000
_WINDOWS_MAX: Final = 64
# Windows are granted for a minute, and a rest may be for ever.
_MS_MAX: Final = 1 << 62
_NUMBER_MAX: Final = 1 << 62
_SMALL_MAX: Final = (1 << 32) - 1


def _hash(host: str) -> str:
    """Return a text of bounded length for a host, which may be long and have any letters."""
    return hashlib.blake2b(host.encode(), digest_size=16).hexdigest()


def needs_message(needs: PartNeeds) -> tuple[str, bytes]:
    """Return key and message that say what a part needs."""
    return f"{NEEDS_KEY}{_hash(needs.host)}/{needs.part}", _to_bytes(needs._asdict())


def grants_message(grants: HostGrants) -> tuple[str, bytes]:
    """Return key and message with what a home partition grants."""
    return GRANTS_KEY + _hash(grants.host), _to_bytes(grants._asdict())


def read_needs(key: str, message: bytes) -> PartNeeds | None:
    """Return what a part needs; None if the message is broken or of another version."""
    try:
        found = _fields(message)
        needs = PartNeeds(
            _host(found["host"]),
            _number(found["part"], N_PARTITIONS_MAX),
            _number(found["epoch"], _NUMBER_MAX),
            _number(found["n_due"], _NUMBER_MAX),
            _number(found["blocked_until_ms"], _MS_MAX),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return needs if key == needs_message(needs)[0] else None


def read_grants(key: str, message: bytes) -> HostGrants | None:
    """Return what a home partition grants; None if the message is broken or of another version."""
    try:
        found = _fields(message)
        windows = found["windows"]
        if not isinstance(windows, list) or len(windows) > _WINDOWS_MAX:
            return None
        delay_ms, in_flight_max, burst = (_number(one, _SMALL_MAX) for one in found["rules"])
        grants = HostGrants(
            _host(found["host"]),
            _number(found["home"], N_PARTITIONS_MAX),
            _number(found["epoch"], _NUMBER_MAX),
            _number(found["number"], _NUMBER_MAX),
            HostRules(delay_ms, in_flight_max, burst),
            _number(found["void_until_ms"], _MS_MAX),
            tuple(map(_window, windows)),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return grants if key == grants_message(grants)[0] else None


def _window(found: Any) -> Window:
    part, from_ms, until_ms = found
    window = Window(
        _number(part, N_PARTITIONS_MAX), _number(from_ms, _MS_MAX), _number(until_ms, _MS_MAX)
    )
    if window.from_ms >= window.until_ms:
        raise ValueError("not a window")
    return window


def _to_bytes(fields: dict[str, Any]) -> bytes:
    return json.dumps({"format": _FORMAT, **fields}, separators=(",", ":")).encode()


def _fields(message: bytes) -> dict[str, Any]:
    if len(message) > _BYTES_MAX:
        raise ValueError("too long")
    found = json.loads(message)
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ValueError("of another version")
    return found


def _host(found: Any) -> str:
    if not isinstance(found, str) or not 0 < len(found.encode()) <= _HOST_BYTES_MAX:
        raise ValueError("not a host")
    return found


def _number(found: Any, most: int) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= most:
        raise ValueError("not a number in its range")
    return found
