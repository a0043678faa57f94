"""API keys of a corpus: made once, stored as hashes, checked on every request.

A key is ``rk_`` with its id, 256 random bits and a checksum.  The checksum tells a mistyped key
from a wrong one, and lets other programs find keys that were published by mistake.  The file
``api-keys.json`` in the folder of the corpus has the hash of each key, never the key itself.

A key is replaced by `rotate_key`: the new one has the same name and allows the same, and the old
one stays valid for a while, so that clients can change over one by one.

A corpus that never had a key is open to all programs of its machine.  With its first key it is
closed, and it stays closed when the last key is revoked, until `open_without_keys` opens it.
"""

import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from recrawl.atomic_files import hold_lock, replace_json
from recrawl.service.protection.key_use import KeyUses
from recrawl.service.protection.row_files import ROW_FILE_FORMAT, read_row_content

__all__ = [
    "KEYS_MAX",
    "ApiKey",
    "KeyRing",
    "Scope",
    "create_key",
    "is_well_formed",
    "list_keys",
    "needs_key",
    "open_without_keys",
    "revoke_key",
    "rotate_key",
]

KEYS_MAX = 1_000
"""Number of keys of a corpus."""

_FILE = "api-keys.json"
_LOCK = ".api-keys.lock"
_KEY = re.compile(r"rk_([a-z0-9]{10})_([A-Za-z0-9-]{43})_([0-9a-f]{8})")
_NAME_MAX = 100
_RATE_MIN, _RATE_MAX = 0.01, 1e9
_OVERLAP_SECONDS_MAX = 90 * 86_400.0
_EXPIRED_KEPT_MS = 30 * 86_400_000
"""Time for which a key that has expired is still listed."""


class Scope(StrEnum):
    """What a key allows."""

    READ = "read"
    """Read pages, statistics, plans, settings and changes."""
    LEASE = "lease"
    """Lease pages, and extend and release orders."""
    REPORT = "report"
    """Report outcomes and requests, and add pages."""
    SIGNAL = "signal"
    """Signal that pages may have changed."""
    ADMIN = "admin"
    """Remove pages, change settings, and everything that the other scopes allow."""


class ApiKey(NamedTuple):
    """A key as it is stored: its hash, and what it allows."""

    id: str
    name: str
    """What the key is for, in the words of its user."""
    scopes: tuple[Scope, ...]
    created_at_ms: int
    expires_at_ms: int | None
    """Time after which it is no longer valid; None for never."""
    hash: str
    replaced_by: str | None = None
    """Id of the key that replaces it; None unless it was rotated."""
    requests_per_second: float | None = None
    """Limit of its requests; None for that of the server."""
    rows_per_second: float | None = None
    """Limit of the rows that it sends and gets; None for that of the server."""

    def is_valid(self, now_ms: int) -> bool:
        """Return whether the key has not expired."""
        return self.expires_at_ms is None or now_ms < self.expires_at_ms

    def allows(self, scope: Scope) -> bool:
        """Return whether the key has a scope; `Scope.ADMIN` includes all."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _hash(key: str) -> str:
    # A fast hash is enough: the key has 256 random bits, so it cannot be guessed.
    return hashlib.sha256(key.encode()).hexdigest()


def is_well_formed(key: str) -> bool:
    """Return whether a text is a key without typing errors, of any corpus."""
    return _id_of(key) is not None


def _id_of(key: str) -> str | None:
    found = _KEY.fullmatch(key)
    if found is None or _checksum(f"rk_{found[1]}_{found[2]}") != found[3]:
        return None
    return found[1]


def create_key(
    folder: Path,
    scopes: Iterable[str],
    *,
    name: str = "",
    now_ms: int,
    expires_at_ms: int | None = None,
    requests_per_second: float | None = None,
    rows_per_second: float | None = None,
) -> tuple[str, ApiKey]:
    """Create a key of a corpus; return the key, which is not stored, and what is stored.

    Parameters
    ----------
    folder
        Folder of the corpus.
    scopes
        Names of scopes: read, lease, report, signal, admin.
    name
        Note on what the key is for.
    now_ms
        Current time, in milliseconds since 1970.
    expires_at_ms
        Time after which the key is no longer valid; None for never.
    requests_per_second
        Limit of its requests; None for that of the server.
    rows_per_second
        Limit of the rows that it sends and gets; None for that of the server.
    """
    allowed = tuple(dict.fromkeys(Scope(scope) for scope in scopes))
    if not allowed:
        raise ValueError("a key needs at least one scope")
    if len(name) > _NAME_MAX or not name.isprintable():
        raise ValueError(f"name must have at most {_NAME_MAX} printable characters, got {name!r}")
    _check_expiry(expires_at_ms, now_ms)
    _check_rate("requests_per_second", requests_per_second)
    _check_rate("rows_per_second", rows_per_second)
    key, key_id = _random_key()
    stored = ApiKey(
        key_id,
        name,
        allowed,
        now_ms,
        expires_at_ms,
        _hash(key),
        requests_per_second=requests_per_second,
        rows_per_second=rows_per_second,
    )
    with hold_lock(folder / _LOCK):
        _write(folder, [*_room_for_one(list_keys(folder), now_ms), stored])
    return key, stored


def _check_expiry(expires_at_ms: int | None, now_ms: int) -> None:
    if expires_at_ms is not None and expires_at_ms <= now_ms:
        raise ValueError("a key must expire in the future")


def _check_rate(name: str, rate: float | None) -> None:
    if rate is not None and not _RATE_MIN <= rate <= _RATE_MAX:
        raise ValueError(f"{name} must be from {_RATE_MIN:g} to {_RATE_MAX:g}, got {rate:g}")


def _random_key() -> tuple[str, str]:
    """Return a new key and its id."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    key_id = "".join(secrets.choice(letters) for _ in range(10))
    text = f"rk_{key_id}_{secrets.token_urlsafe(32).replace('_', '-')}"
    return f"{text}_{_checksum(text)}", key_id


def _room_for_one(keys: list[ApiKey], now_ms: int) -> list[ApiKey]:
    """Return the keys without those that expired long ago; raise if there are too many."""
    kept = [key for key in keys if key.is_valid(now_ms - _EXPIRED_KEPT_MS)]
    if len(kept) >= KEYS_MAX:
        raise ValueError(f"a corpus has at most {KEYS_MAX} keys; revoke one that is not used")
    return kept


def rotate_key(
    folder: Path,
    name: str,
    *,
    overlap_seconds: float = 3_600.0,
    now_ms: int,
    expires_at_ms: int | None = None,
) -> tuple[str, ApiKey, ApiKey]:
    """Replace a key; return the new key, what is stored of it, and what is stored of the old one.

    The new key has the name, the scopes and the limits of the old one.

    Parameters
    ----------
    folder
        Folder of the corpus.
    name
        Name of the key, or its id.
    overlap_seconds
        Time for which the old key stays valid, unless it expires earlier.
    now_ms
        Current time, in milliseconds since 1970.
    expires_at_ms
        Time after which the new key is no longer valid.  If None, it is valid for as long as the
        old one was meant to be.

    Raises
    ------
    ValueError
        If there is no such key, or several with this name.
    """
    if not 0 <= overlap_seconds <= _OVERLAP_SECONDS_MAX:
        raise ValueError(f"overlap must be at most 90 days, got {overlap_seconds:g} s")
    _check_expiry(expires_at_ms, now_ms)
    with hold_lock(folder / _LOCK):
        keys = _room_for_one(list_keys(folder), now_ms)
        old = _find_key(keys, name, now_ms)
        if expires_at_ms is None and old.expires_at_ms is not None:
            expires_at_ms = now_ms + old.expires_at_ms - old.created_at_ms
        key, key_id = _random_key()
        new = old._replace(
            id=key_id, created_at_ms=now_ms, expires_at_ms=expires_at_ms, hash=_hash(key)
        )
        ends = now_ms + round(overlap_seconds * 1000)
        if old.expires_at_ms is not None:
            ends = min(ends, old.expires_at_ms)
        replaced = old._replace(expires_at_ms=ends, replaced_by=key_id)
        _write(folder, [*(replaced if one.id == old.id else one for one in keys), new])
    return key, new, replaced


def _find_key(keys: list[ApiKey], name: str, now_ms: int) -> ApiKey:
    """Return the valid key with a name or an id, which no other one replaces."""
    present = [key for key in keys if key.is_valid(now_ms) and key.replaced_by is None]
    found = [key for key in present if key.id == name] or [
        key for key in present if key.name == name
    ]
    if not found:
        raise ValueError(f"there is no valid key {name!r}; `recrawl keys list` shows them")
    if len(found) > 1:
        ids = ", ".join(key.id for key in found[:10])
        raise ValueError(f"{len(found)} keys are called {name!r}; give the id of one: {ids}")
    return found[0]


def revoke_key(folder: Path, key_id: str) -> bool:
    """Remove a key, given by its id; return whether it existed."""
    with hold_lock(folder / _LOCK):
        keys = list_keys(folder)
        left = [key for key in keys if key.id != key_id]
        if len(left) == len(keys):
            return False
        _write(folder, left)
    return True


def list_keys(folder: Path) -> list[ApiKey]:
    """Return the keys of a corpus, oldest first."""
    return _read(folder)[0]


def needs_key(folder: Path) -> bool:
    """Return whether a corpus is closed without a key: it has keys, or had some.

    Parameters
    ----------
    folder
        Folder of the corpus.
    """
    return _read(folder)[1]


def open_without_keys(folder: Path) -> None:
    """Let all programs of this machine use a corpus whose last key was revoked.

    Parameters
    ----------
    folder
        Folder of the corpus.

    Raises
    ------
    ValueError
        If it has keys.
    """
    with hold_lock(folder / _LOCK):
        keys = list_keys(folder)
        if keys:
            raise ValueError(
                f"the corpus has API keys ({len(keys):,}); revoke them first with "
                "`recrawl keys revoke ID`"
            )
        _write(folder, [], is_open=True)


def _read(folder: Path) -> tuple[list[ApiKey], bool]:
    """Return the keys of a corpus, and whether it is closed without one."""
    keys, others = read_row_content(folder / _FILE, "keys", _key_of)
    # Every file was written for a key, unless it says otherwise.
    return keys, bool(keys) or (bool(others) and others.get("is_open") is not True)


def _key_of(row: dict[str, Any]) -> ApiKey:
    expires = row["expires_at_ms"]
    return ApiKey(
        str(row["id"]),
        str(row["name"]),
        tuple(Scope(scope) for scope in row["scopes"]),
        int(row["created_at_ms"]),
        None if expires is None else int(expires),
        str(row["hash"]),
        row.get("replaced_by"),
        _rate_of(row.get("requests_per_second")),
        _rate_of(row.get("rows_per_second")),
    )


def _rate_of(value: Any) -> float | None:
    return None if value is None else float(value)


def _write(folder: Path, keys: list[ApiKey], *, is_open: bool = False) -> None:
    rows = [key._asdict() for key in keys]
    content = {"format": ROW_FILE_FORMAT, "is_open": is_open, "keys": rows}
    replace_json(folder / _FILE, content, mode=0o600)


class KeyRing:
    """The keys of one corpus, as a server checks them; a changed file is read again.

    Parameters
    ----------
    folder
        Folder of the corpus.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._folder = folder
        self._version: tuple[int, int] | None = None
        self._keys: dict[str, ApiKey] = {}
        self._needs_key = False
        self.uses = KeyUses(folder)
        """When each key was last used."""
        self.reload()

    def reload(self) -> None:
        """Read the file again if it has changed."""
        try:
            found = self._path.stat()
            version = (found.st_mtime_ns, found.st_ino)
        except FileNotFoundError:
            version = (0, 0)
        if version != self._version:
            keys, needs_key = _read(self._folder)
            self._keys = {key.id: key for key in keys}
            # A file that is lost while a server runs must not open the corpus.
            self._needs_key = needs_key or (self._needs_key and version == (0, 0))
            self._version = version

    @property
    def is_open(self) -> bool:
        """Whether the corpus can be used without a key, from its own machine."""
        return not self._needs_key

    def __len__(self) -> int:
        return len(self._keys)

    async def save_uses(self, *, is_last: bool = False) -> None:
        """Write when keys were last used, if that is due or the server stops."""
        await self.uses.save(self._keys, is_last=is_last)

    def find(self, key: str, now_ms: int) -> ApiKey | None:
        """Return the stored key that a client's key is; None if it is not valid."""
        stored = self.recognise(key)
        return stored if stored is not None and stored.is_valid(now_ms) else None

    def find_id(self, key_id: str, now_ms: int) -> ApiKey | None:
        """Return the stored key with an id; None if there is none, or it is not valid."""
        stored = self._keys.get(key_id)
        return stored if stored is not None and stored.is_valid(now_ms) else None

    def recognise(self, key: str) -> ApiKey | None:
        """Return the stored key that a client's key is, also if it has expired."""
        key_id = _id_of(key)
        stored = None if key_id is None else self._keys.get(key_id)
        # The comparison takes the same time whatever the difference is.
        is_same = hmac.compare_digest(_hash(key), "" if stored is None else stored.hash)
        return stored if is_same else None
