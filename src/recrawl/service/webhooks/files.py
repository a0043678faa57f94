"""The files of webhooks in the folder of a corpus: subscriptions, letters, and requests about them.

======================  ==============================================================
``NAME.json``           a webhook with its secrets
``ID.letters``          changes that wait, are held back or are dead
``ID.requests``         dead letters that somebody wants to be sent again or given up
======================  ==============================================================

Only their owner can read them.  Each replaces the one before it atomically and is synced, and a
lock makes processes take turns.  The process that delivers is the only one that writes letters;
every process can read them.
"""

import json
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from recrawl.atomic_files import create_folder, hold_lock, replace_json, sync_to_disk
from recrawl.errors import StorageError
from recrawl.service.webhooks.limits import WebhookLimits
from recrawl.service.webhooks.outbox import Letter
from recrawl.service.webhooks.signatures import make_webhook_secret
from recrawl.service.webhooks.subscription import Webhook, WebhookSecret, check_webhook

__all__ = [
    "LetterRequests",
    "WebhookFiles",
    "add_webhook",
    "change_webhook",
    "drop_letters",
    "list_letters",
    "list_webhooks",
    "remove_webhook",
    "rotate_webhook_secret",
    "send_letters_again",
]

_FORMAT = 1
_FOLDER = "webhooks"
_LOCK = ".lock"
_WEBHOOK, _LETTERS, _REQUESTS = ".json", ".letters", ".requests"
_OWNER_ONLY = 0o600
_FILE_BYTES_MAX = 1 << 20
_LETTER_FILE_BYTES_MAX = 256 << 20
_IDS_MAX = 10_000


class LetterRequests(NamedTuple):
    """Dead letters that somebody wants to be sent again or given up; None stands for all."""

    send_again: list[str] | None
    drop: list[str] | None


class WebhookFiles:
    """The files of all webhooks of a corpus.

    Parameters
    ----------
    corpus_folder
        Folder of the corpus.
    limits
        Limits of webhooks.
    """

    def __init__(self, corpus_folder: Path, limits: WebhookLimits | None = None) -> None:
        self.folder = corpus_folder / _FOLDER
        self.limits = limits or WebhookLimits()

    # ------------------------------------------------------------------ webhooks

    def versions(self) -> dict[str, tuple[int, int]]:
        """Return what changes with each file: its time and number, by its name."""
        found = {}
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith((_WEBHOOK, _REQUESTS)) and not entry.name.startswith("."):
                    with suppress(FileNotFoundError):
                        status = entry.stat()
                        found[entry.name] = status.st_mtime_ns, status.st_ino
        return found

    def names(self) -> list[str]:
        """Return the names of all webhooks."""
        found = (name for name in self.versions() if name.endswith(_WEBHOOK))
        return sorted(name.removesuffix(_WEBHOOK) for name in found)

    def read(self, name: str) -> Webhook | None:
        """Return a webhook by its name; None if there is none."""
        if name not in self.names():  # also keeps paths out
            return None
        content = _read_json(self.folder / f"{name}{_WEBHOOK}", _FILE_BYTES_MAX)
        if content is None:
            return None
        try:
            return Webhook.from_json(content["webhook"])
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"the webhook {name} cannot be read: {error!r}") from error

    def require(self, name: str) -> Webhook:
        """Return a webhook by its name; raise `ValueError` if there is none."""
        webhook = self.read(name)
        if webhook is None:
            raise ValueError(f"there is no webhook {name[:80]!r}")
        return webhook

    def add(self, webhook: Webhook) -> None:
        """Store a new webhook; raise `ValueError` if its name is taken, or there are too many."""
        check_webhook(webhook, self.limits)
        create_folder(self.folder)
        self.folder.chmod(0o700)
        with hold_lock(self.folder / _LOCK):
            names = self.names()
            # An empty file counts as none.
            if webhook.name in names and self.read(webhook.name) is not None:
                raise ValueError(f"there is a webhook {webhook.name} already")
            if len(names) >= self.limits.webhooks_max:
                raise ValueError(
                    f"a corpus has at most {self.limits.webhooks_max} webhooks; remove one that "
                    "is not used"
                )
            self._write_webhook(webhook)

    def change(self, name: str, webhook_id: str | None = None, **settings: Any) -> Webhook:
        """Change settings of a webhook, and return it.

        Parameters
        ----------
        name
            Name of the webhook.
        webhook_id
            Id that the webhook must have; any if not given.
        **settings
            Fields of `Webhook` and their new values.
        """
        unknown = {"name", "id"} & settings.keys()
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))} of a webhook cannot be changed")
        with self._lock():
            before = self.require(name)
            if webhook_id not in (None, before.id):
                raise ValueError(f"the webhook {name} was replaced by another one")
            webhook = check_webhook(replace(before, **settings), self.limits)
            if webhook != before:
                self._write_webhook(webhook)
            return webhook

    def rotate(
        self, name: str, *, secret: str | None, overlap_seconds: float, now_ms: int
    ) -> Webhook:
        """Give a webhook a new secret, and return it."""
        with self._lock():
            webhook = self.require(name).rotate(secret, overlap_seconds, now_ms, self.limits)
            self._write_webhook(check_webhook(webhook, self.limits))
            return webhook

    def remove(self, name: str) -> bool:
        """Remove a webhook and its letters; return whether it existed."""
        if not self.folder.is_dir():
            return False
        with self._lock():
            webhook = self.read(name)
            if webhook is None:
                return False
            for path in (f"{name}{_WEBHOOK}", *self._names_of(webhook.id)):
                (self.folder / path).unlink(missing_ok=True)
            sync_to_disk(self.folder)
        return True

    def remove_leftovers(self) -> None:
        """Remove the letters of webhooks that no longer exist."""
        if not self.folder.is_dir():
            return
        with self._lock():
            webhooks = [self.read(name) for name in self.names()]
            kept = {one.id for one in webhooks if one is not None}
            for path in self.folder.iterdir():
                if path.suffix in (_LETTERS, _REQUESTS) and path.stem not in kept:
                    path.unlink(missing_ok=True)

    def _names_of(self, webhook_id: str) -> tuple[str, str]:
        return f"{webhook_id}{_LETTERS}", f"{webhook_id}{_REQUESTS}"

    def _write_webhook(self, webhook: Webhook) -> None:
        self._write(f"{webhook.name}{_WEBHOOK}", {"webhook": webhook.as_json()})

    def _lock(self) -> Any:
        create_folder(self.folder)
        return hold_lock(self.folder / _LOCK)

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        replace_json(self.folder / name, {"format": _FORMAT, **content}, mode=_OWNER_ONLY)

    # ------------------------------------------------------------------ letters

    def read_letters(self, webhook_id: str) -> list[Letter]:
        """Return the stored letters of a webhook."""
        path = self.folder / f"{webhook_id}{_LETTERS}"
        content = _read_json(path, _LETTER_FILE_BYTES_MAX)
        try:
            return [] if content is None else [Letter.from_json(row) for row in content["letters"]]
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{path} cannot be read: {error!r}") from error

    def write_letters(self, webhook_id: str, letters: Sequence[Mapping[str, Any]]) -> None:
        """Store all letters of a webhook durably, given as JSON."""
        self._write(f"{webhook_id}{_LETTERS}", {"letters": letters})

    def request(
        self, name: str, *, send_again: Collection[str] | None, drop: Collection[str] | None
    ) -> None:
        """Ask the process that delivers to send dead letters again, or to give them up.

        Parameters
        ----------
        name
            Name of the webhook.
        send_again, drop
            Ids of letters; None for all, also for those that an earlier request named.
        """
        with self._lock():
            webhook = self.require(name)
            before = self._read_requests(webhook.id) or LetterRequests([], [])
            wanted = LetterRequests(_join(before.send_again, send_again), _join(before.drop, drop))
            self._write(self._names_of(webhook.id)[1], wanted._asdict())

    def take_requests(self, webhook_id: str) -> LetterRequests | None:
        """Return the requests about a webhook's letters; None if there are none."""
        return self._read_requests(webhook_id)

    def finish_requests(self, webhook_id: str, done: LetterRequests) -> None:
        """Remove requests after what they asked for was stored, unless others have come since."""
        with self._lock():
            if self._read_requests(webhook_id) == done:
                (self.folder / self._names_of(webhook_id)[1]).unlink(missing_ok=True)

    def _read_requests(self, webhook_id: str) -> LetterRequests | None:
        path = self.folder / self._names_of(webhook_id)[1]
        try:
            content = _read_json(path, _FILE_BYTES_MAX)
            return (
                None if content is None else LetterRequests(content["send_again"], content["drop"])
            )
        except (StorageError, KeyError):
            return None  # a file that cannot be read asks for nothing


def _join(before: Collection[str] | None, more: Collection[str] | None) -> list[str] | None:
    if before is None or more is None:
        return None
    joined = sorted({*before, *map(str, more)})
    if len(joined) > _IDS_MAX:
        raise ValueError(f"a request names at most {_IDS_MAX:,} letters, got {len(joined):,}")
    return joined


def _read_json(path: Path, n_bytes_max: int) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            data = file.read(n_bytes_max)
        content = json.loads(data) if data else None
        if content is not None and int(content["format"]) > _FORMAT:
            raise StorageError(f"{path} was written by a newer version of recrawl")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path} cannot be read: {error!r}") from error
    found: dict[str, Any] | None = content
    return found


# ---------------------------------------------------------------------- functions for users


def add_webhook(
    folder: Path,
    name: str,
    url: str,
    *,
    now_ms: int,
    secret: str | None = None,
    limits: WebhookLimits | None = None,
    **settings: Any,
) -> tuple[Webhook, str]:
    """Subscribe an address to the changes of a corpus; return the webhook and its secret.

    A process that delivers begins within a second.

    Parameters
    ----------
    folder
        Folder of the corpus.
    name
        Name of the webhook, of lower-case letters, digits, ``.``, ``_`` and ``-``.
    url
        Address that receives the requests.
    now_ms
        Current time, in milliseconds since 1970.
    secret
        Secret to sign with, ``whsec_`` and base64; a random one unless given.
    limits
        Limits of webhooks.
    **settings
        Further fields of `Webhook`: what, patterns, kinds, divergence_min, with_passages,
        events_max, holds_back, start.
    """
    secret = make_webhook_secret() if secret is None else secret
    for one in ("what", "patterns", "kinds"):
        if one in settings:
            settings[one] = tuple(settings[one])
    webhook = Webhook(
        name=name,
        id=secrets.token_hex(6),
        url=url,
        secrets=(WebhookSecret(secret),),
        created_at_ms=now_ms,
        **settings,
    )
    WebhookFiles(folder, limits).add(webhook)
    return webhook, secret


def list_webhooks(folder: Path) -> list[Webhook]:
    """Return the webhooks of a corpus, by name."""
    return list(_read_each(WebhookFiles(folder)))


def _read_each(files: WebhookFiles) -> Iterator[Webhook]:
    for name in files.names():
        webhook = files.read(name)
        if webhook is not None:  # removed meanwhile
            yield webhook


def change_webhook(
    folder: Path, name: str, *, limits: WebhookLimits | None = None, **settings: Any
) -> Webhook:
    """Change settings of a webhook, such as ``disabled=None`` to enable it; return it.

    Parameters
    ----------
    folder
        Folder of the corpus.
    name
        Name of the webhook.
    limits
        Limits of webhooks.
    **settings
        Fields of `Webhook` and their new values.
    """
    for one in ("what", "patterns", "kinds"):
        if one in settings:
            settings[one] = tuple(settings[one])
    return WebhookFiles(folder, limits).change(name, **settings)


def rotate_webhook_secret(
    folder: Path,
    name: str,
    *,
    now_ms: int,
    secret: str | None = None,
    overlap_seconds: float = 86_400.0,
    limits: WebhookLimits | None = None,
) -> str:
    """Give a webhook a new secret and return it; the old one stays valid for some time.

    Parameters
    ----------
    folder
        Folder of the corpus.
    name
        Name of the webhook.
    now_ms
        Current time, in milliseconds since 1970.
    secret
        New secret; a random one unless given.
    overlap_seconds
        Time for which requests are signed with both secrets.
    limits
        Limits of webhooks.
    """
    webhook = WebhookFiles(folder, limits).rotate(
        name, secret=secret, overlap_seconds=overlap_seconds, now_ms=now_ms
    )
    return webhook.secrets[0].secret


def remove_webhook(folder: Path, name: str) -> bool:
    """Remove a webhook and its letters; return whether it existed."""
    return WebhookFiles(folder).remove(name)


def list_letters(folder: Path, name: str) -> list[Letter]:
    """Return the stored letters of a webhook, oldest first: waiting, held back and dead.

    A process that delivers stores them within a second.
    """
    files = WebhookFiles(folder)
    return files.read_letters(files.require(name).id)


def send_letters_again(folder: Path, name: str, ids: Collection[str] | None = None) -> None:
    """Ask the process that delivers to send dead letters again.

    Parameters
    ----------
    folder
        Folder of the corpus.
    name
        Name of the webhook.
    ids
        Ids of letters; None for all dead ones.
    """
    WebhookFiles(folder).request(name, send_again=ids, drop=())


def drop_letters(folder: Path, name: str, ids: Collection[str] | None = None) -> None:
    """Ask the process that delivers to give up dead letters, so that later changes go on.

    Parameters
    ----------
    folder
        Folder of the corpus.
    name
        Name of the webhook.
    ids
        Ids of letters; None for all dead ones.
    """
    WebhookFiles(folder).request(name, send_again=(), drop=ids)
