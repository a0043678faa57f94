"""How workers of a cluster recognise each other: signatures with keys that they share.

All workers read the same file of keys, for instance a mounted secret.  A worker signs what it
forwards with a message authentication code: method, path, body, its own name, that of the receiver
and the time are part of it, so that a signature is of no use for another request, at another worker
or a minute later.  The keys themselves are never sent, and are in no topic.

To rotate the keys, a new one is put at the end of the file.  Receivers accept the newest two at
once; senders use a new one only after some minutes, when every worker has the new file.
"""

import hmac
import re
import secrets
import time
from pathlib import Path
from typing import Final, NamedTuple

from recrawl.atomic_files import replace_file
from recrawl.errors import AccessDenied, ConfigError

__all__ = [
    "SETTLE_SECONDS",
    "VALID_SECONDS",
    "ClusterKey",
    "ClusterKeys",
    "parse_keys",
    "rotate_cluster_keys",
]

VALID_SECONDS: Final = 60.0
"""Largest difference between the clock of the sender and that of the receiver."""
SETTLE_SECONDS: Final = 300.0
"""Age from which senders use a key: by then every worker has read it."""
_ACCEPTED_MAX: Final = 2
_KEYS_MAX: Final = 16
_FILE_BYTES_MAX: Final = 16 << 10
_RELOAD_SECONDS: Final = 1.0
_SECRET_BYTES: Final = 32
_KEY: Final = re.compile(r"([0-9a-f]{8}) (\d{1,15}) ([0-9a-f]{64})")
_TOKEN: Final = re.compile(r"v1\.([0-9a-f]{8})\.(\d{1,15})\.([0-9a-f]{64})")


class ClusterKey(NamedTuple):
    """A key that the workers of a cluster share."""

    id: str
    created_at_ms: int
    secret: bytes

    def line(self) -> str:
        """Return the key as a line of the file."""
        return f"{self.id} {self.created_at_ms} {self.secret.hex()}"


def parse_keys(text: str, path: Path | None = None) -> list[ClusterKey]:
    """Return the keys of a file, newest first.

    Parameters
    ----------
    text
        Content of the file.
    path
        The file, for messages.

    Raises
    ------
    ConfigError
        If a line is not a key, or there are none or too many.
    """
    name = "the file of cluster keys" if path is None else str(path)
    todo = (
        "Copy the file of a worker that runs; or delete it, and `recrawl cluster rotate-keys "
        f"{path or 'FILE'}` makes a new one, which all workers need."
    )
    keys = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _KEY.fullmatch(line.strip())
        if found is None:  # the line itself may be a secret
            raise ConfigError(f"line {number} of {name} is not a cluster key.\n{todo}")
        keys.append(ClusterKey(found[1], int(found[2]), bytes.fromhex(found[3])))
    if not 0 < len(keys) <= _KEYS_MAX:
        raise ConfigError(f"{name} must have 1 to {_KEYS_MAX} keys, got {len(keys)}.\n{todo}")
    return sorted(keys, key=lambda key: key.created_at_ms, reverse=True)


def rotate_cluster_keys(path: Path, now_ms: int) -> ClusterKey:
    """Add a key to a file, which is created if it does not exist; the newest two remain.

    Wait until every worker has the file, at least `SETTLE_SECONDS`, before the next time.

    Parameters
    ----------
    path
        File of keys; all workers must get the new content.
    now_ms
        Current time, in milliseconds since 1970.
    """
    old = parse_keys(path.read_text(), path) if path.exists() else []
    new = ClusterKey(secrets.token_hex(4), now_ms, secrets.token_bytes(_SECRET_BYTES))
    kept = sorted([new, *old[: _ACCEPTED_MAX - 1]], key=lambda key: key.created_at_ms)
    with replace_file(path, is_durable=True, mode=0o600) as file:
        file.write("".join(f"{key.line()}\n" for key in kept).encode())
    return new


class ClusterKeys:
    """The keys in a file, which is read again when it changes.

    Parameters
    ----------
    path
        File of keys.

    Raises
    ------
    ConfigError
        If the file cannot be read or has no keys.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._looked_at = time.monotonic()
        self._version: object = None
        self._keys: list[ClusterKey] = []
        self._read()

    def _read(self) -> None:
        try:
            found = self._path.stat()
            version = (found.st_mtime_ns, found.st_size, found.st_ino)
            if version == self._version:
                return
            if found.st_size > _FILE_BYTES_MAX:
                raise ConfigError(f"{self._path} is too large for a file of cluster keys")
            self._keys = parse_keys(self._path.read_text("ascii"), self._path)
            self._version = version
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"the cluster keys in {self._path} cannot be read: {error}.\n`recrawl cluster "
                "rotate-keys FILE` makes such a file."
            ) from error

    def _newest(self) -> list[ClusterKey]:
        now = time.monotonic()
        if now - self._looked_at >= _RELOAD_SECONDS:
            self._looked_at = now
            try:
                self._read()
            except ConfigError:
                if not self._keys:
                    raise  # otherwise the file is being replaced, and the last keys are good
        return self._keys[:_ACCEPTED_MAX]

    def accepted_ids(self) -> tuple[str, ...]:
        """Return the names of the keys with which others may sign now; they are no secrets."""
        return tuple(key.id for key in self._newest())

    def sign(self, message: str, now_ms: int) -> str:
        """Return a token that proves that a worker has sent a message.

        Parameters
        ----------
        message
            Text to sign.
        now_ms
            Current time, in milliseconds since 1970.
        """
        keys = self._newest()
        settled_ms = now_ms - round(SETTLE_SECONDS * 1000)
        key = next((one for one in keys if one.created_at_ms <= settled_ms), keys[-1])
        return f"v1.{key.id}.{now_ms}.{_code(key, now_ms, message)}"

    def check(self, token: str, message: str, now_ms: int) -> None:
        """Raise unless a worker has signed a message just now.

        Parameters
        ----------
        token
            Token that came with the message.
        message
            Text that must have been signed.
        now_ms
            Current time, in milliseconds since 1970.

        Raises
        ------
        AccessDenied
            If the token is malformed, of another key, too old, or for another message.
        """
        found = _TOKEN.fullmatch(token)
        if found is None:
            raise AccessDenied("the signature of the worker is malformed")
        key_id, signed_at_ms, code = found[1], int(found[2]), found[3]
        key = next((one for one in self._newest() if one.id == key_id), None)
        if key is None:
            raise AccessDenied(f"this worker does not accept the cluster key {key_id}")
        # Compared before the time, so that only workers learn whether their clocks differ.
        if not hmac.compare_digest(code, _code(key, signed_at_ms, message)):
            raise AccessDenied("the signature of the worker is not valid for this request")
        if abs(now_ms - signed_at_ms) > VALID_SECONDS * 1000:
            raise AccessDenied(
                f"the request was signed {abs(now_ms - signed_at_ms) / 1000:.0f} s away from the "
                "time of this worker: the clocks differ, or it was delayed"
            )


def _code(key: ClusterKey, signed_at_ms: int, message: str) -> str:
    data = f"recrawl worker v1\n{signed_at_ms}\n{message}".encode()
    return hmac.new(key.secret, data, "sha256").hexdigest()
