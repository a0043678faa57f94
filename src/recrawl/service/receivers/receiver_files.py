"""Receivers of signed notices: their hosts and secrets, in a file of the corpus.

The file ``receivers.json`` has the secrets themselves, which are needed to check signatures; only
its owner can read it.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from recrawl.atomic_files import hold_lock, replace_json
from recrawl.service.protection.row_files import ROW_FILE_FORMAT, read_row_file
from recrawl.service.webhooks.signatures import make_webhook_secret

__all__ = [
    "RECEIVERS_MAX",
    "NoticeReceiver",
    "ReceiverRing",
    "add_receiver",
    "check_hosts",
    "covers_host",
    "list_receivers",
    "remove_receiver",
    "rotate_receiver_secret",
]

RECEIVERS_MAX = 1_000
"""Number of receivers of a corpus."""

_FILE = "receivers.json"
_LOCK = ".receivers.lock"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_HOST = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9._-]{0,252})?(:\d{1,5})?|\[[0-9a-f:.]+\](:\d{1,5})?")
_HOSTS_MAX = 100
_SECRETS_MAX = 5
_OVERLAP_SECONDS_MAX = 90 * 86_400.0


class NoticeReceiver(NamedTuple):
    """One sender of notices, such as the plugin of a content management system."""

    name: str
    hosts: tuple[str, ...]
    """Hosts whose pages it may announce; ``*.example.com`` stands for all below example.com."""
    secrets: tuple[tuple[str, int | None], ...]
    """Secrets that its requests may be signed with, each with the time at which it ends."""
    created_at_ms: int

    def valid_secrets(self, now_ms: int) -> list[str]:
        """Return the secrets that have not ended."""
        return [one for one, ends in self.secrets if ends is None or now_ms < ends]

    def covers(self, host: str) -> bool:
        """Return whether it may announce pages of a host."""
        return covers_host(self.hosts, host)

    def as_public(self) -> dict[str, Any]:
        """Return its fields without the secrets."""
        return {"name": self.name, "hosts": self.hosts, "created_at_ms": self.created_at_ms}


def covers_host(hosts: Iterable[str], host: str) -> bool:
    """Return whether a host is one of some hosts, of which ``*.`` stands for all below.

    Parameters
    ----------
    hosts
        Hosts such as ``shop.example`` or ``*.shop.example``.
    host
        Host of a page, in lower case and with its port.
    """
    return any(host.endswith(one[1:]) if one.startswith("*.") else host == one for one in hosts)


def check_hosts(hosts: Iterable[str]) -> tuple[str, ...]:
    """Return hosts in lower case and once each; raise if one is not a host, or there are too many.

    Parameters
    ----------
    hosts
        Hosts such as ``shop.example`` or ``*.shop.example``.
    """
    allowed = tuple(dict.fromkeys(host.lower() for host in hosts))
    if not 1 <= len(allowed) <= _HOSTS_MAX:
        raise ValueError(f"there must be 1 to {_HOSTS_MAX} hosts, got {len(allowed)}")
    for host in allowed:
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host!r} is not a host; write shop.example or *.shop.example")
    return allowed


def add_receiver(
    folder: Path, name: str, hosts: Iterable[str], *, now_ms: int
) -> tuple[NoticeReceiver, str]:
    """Add a receiver; return it and its secret.

    Parameters
    ----------
    folder
        Folder of the corpus.
    name
        Name of the receiver, which is in its path.
    hosts
        Hosts whose pages it may announce, such as ``shop.example`` or ``*.shop.example``.
    now_ms
        Current time, in milliseconds since 1970.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a name must be up to 32 small letters, digits, '_' and '-', and begin with a letter "
            f"or digit, got {name!r}"
        )
    allowed = check_hosts(hosts)
    secret = make_webhook_secret()
    receiver = NoticeReceiver(name, allowed, ((secret, None),), now_ms)
    with hold_lock(folder / _LOCK):
        found = list_receivers(folder)
        if any(one.name == name for one in found):
            raise ValueError(f"there is a receiver {name!r} already")
        if len(found) >= RECEIVERS_MAX:
            raise ValueError(f"a corpus has at most {RECEIVERS_MAX:,} receivers")
        _write(folder, [*found, receiver])
    return receiver, secret


def rotate_receiver_secret(
    folder: Path, name: str, *, now_ms: int, overlap_seconds: float = 86_400.0
) -> str:
    """Give a receiver a new secret and return it; the old one stays valid for some time.

    Parameters
    ----------
    folder
        Folder of the corpus.
    name
        Name of the receiver.
    now_ms
        Current time, in milliseconds since 1970.
    overlap_seconds
        Time for which the old secret stays valid.
    """
    if not 0 <= overlap_seconds <= _OVERLAP_SECONDS_MAX:
        raise ValueError(f"overlap must be at most 90 days, got {overlap_seconds:g} s")
    secret = make_webhook_secret()
    ends = now_ms + round(overlap_seconds * 1000)
    with hold_lock(folder / _LOCK):
        found = list_receivers(folder)
        if all(one.name != name for one in found):
            raise ValueError(f"there is no receiver {name!r}")
        for i, one in enumerate(found):
            if one.name == name:
                old = [
                    (text, ends if until is None else min(until, ends))
                    for text, until in one.secrets
                    if text in one.valid_secrets(now_ms)
                ]
                secrets = ((secret, None), *old[: _SECRETS_MAX - 1])
                found[i] = one._replace(secrets=secrets)
        _write(folder, found)
    return secret


def remove_receiver(folder: Path, name: str) -> bool:
    """Remove a receiver; return whether it existed."""
    with hold_lock(folder / _LOCK):
        found = list_receivers(folder)
        left = [one for one in found if one.name != name]
        if len(left) == len(found):
            return False
        _write(folder, left)
    return True


def list_receivers(folder: Path) -> list[NoticeReceiver]:
    """Return the receivers of a corpus, oldest first."""
    return read_row_file(folder / _FILE, "receivers", _receiver_of)


def _receiver_of(row: dict[str, Any]) -> NoticeReceiver:
    return NoticeReceiver(
        str(row["name"]),
        tuple(str(host) for host in row["hosts"]),
        tuple((str(text), None if ends is None else int(ends)) for text, ends in row["secrets"]),
        int(row["created_at_ms"]),
    )


def _write(folder: Path, receivers: list[NoticeReceiver]) -> None:
    content = {"format": ROW_FILE_FORMAT, "receivers": [one._asdict() for one in receivers]}
    replace_json(folder / _FILE, content, mode=0o600)


class ReceiverRing:
    """The receivers of one corpus, as a server checks them; a changed file is read again.

    Parameters
    ----------
    folder
        Folder of the corpus.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version: tuple[int, int] | None = None
        self._receivers: dict[str, NoticeReceiver] = {}

    def find(self, name: str) -> NoticeReceiver | None:
        """Return a receiver by its name; None if there is none now."""
        try:
            status = (self._folder / _FILE).stat()
            version = (status.st_mtime_ns, status.st_ino)
        except FileNotFoundError:
            version = (0, 0)
        if version != self._version:
            self._receivers = {one.name: one for one in list_receivers(self._folder)}
            self._version = version
        return self._receivers.get(name)
