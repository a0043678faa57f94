"""The audit log of a corpus: who changed its settings, keys and webhooks, when and from where.

Entries are lines of JSON in the folder of the corpus, in at most `AUDIT_FILES_MAX` files of
`AUDIT_FILE_BYTES_MAX` bytes: ``audit.jsonl`` is written, ``audit.1.jsonl`` is the one before it.
They name hosts, consumers, webhooks and feeds, but no pages.
"""

import getpass
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from recrawl.atomic_files import hold_lock

__all__ = [
    "AUDIT_FILES_MAX",
    "AUDIT_FILE_BYTES_MAX",
    "AuditEntry",
    "append_audit_entry",
    "audit_command",
    "read_audit_log",
]

AUDIT_FILE_BYTES_MAX = 4 << 20
"""Size of one file."""
AUDIT_FILES_MAX = 8
"""Number of files; the oldest is removed."""

_LOCK = ".audit.lock"
_TEXT_MAX = 256


class AuditEntry(NamedTuple):
    """One administrative action."""

    at_ms: int
    who: str
    """Name of the API key, or of the user of the command line."""
    what: str
    """Method and path of a request, or a command."""
    target: str = ""
    """Name of the host, the consumer, the webhook or the key that it was about."""
    n_rows: int | None = None
    """Number of pages that the request named."""
    status: int | None = None
    """HTTP status of the answer; None for a command, which is listed only if it succeeded."""
    key: str | None = None
    """Id of the API key."""
    client: str | None = None
    """Address of the client; None for a command."""
    request_id: str | None = None
    values: str = ""
    """Values that it set, such as ``delay=5s``; no secrets and no addresses of webhooks."""


def _path(folder: Path, number: int) -> Path:
    return folder / ("audit.jsonl" if number == 0 else f"audit.{number}.jsonl")


def append_audit_entry(folder: Path, entry: AuditEntry) -> None:
    """Append an entry; it survives a power cut when this returns.

    Parameters
    ----------
    folder
        Folder of the corpus.
    entry
        Action to append; long texts are cut.
    """
    fields = {
        name: value[:_TEXT_MAX] if isinstance(value, str) else value
        for name, value in entry._asdict().items()
        if value not in (None, "")
    }
    line = json.dumps(fields).encode() + b"\n"
    with hold_lock(folder / _LOCK):
        path = _path(folder, 0)
        if path.exists() and path.stat().st_size + len(line) > AUDIT_FILE_BYTES_MAX:
            for number in range(AUDIT_FILES_MAX - 1, 0, -1):
                if _path(folder, number - 1).exists():
                    _path(folder, number - 1).replace(_path(folder, number))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(descriptor, "r+b", buffering=0) as file:
            n_bytes = file.seek(0, os.SEEK_END)
            if n_bytes:
                file.seek(n_bytes - 1)
                # A process that was killed may have left a part of a line.
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)
            os.fsync(descriptor)


def audit_command(folder: Path, what: str, target: str = "") -> None:
    """Append an entry for a command that was run on this machine.

    Parameters
    ----------
    folder
        Folder of the corpus.
    what
        The command, without its arguments.
    target
        Name of the key or webhook that it was about.
    """
    try:
        who = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        who = f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"
    now_ms = time.time_ns() // 1_000_000
    append_audit_entry(folder, AuditEntry(now_ms, who, what, target))


def read_audit_log(folder: Path, *, after_ms: int = 0) -> Iterator[AuditEntry]:
    """Yield the entries of a corpus, oldest first; lines that cannot be read are left out.

    Parameters
    ----------
    folder
        Folder of the corpus.
    after_ms
        Time of the first entry, in milliseconds since 1970.
    """
    for number in range(AUDIT_FILES_MAX - 1, -1, -1):
        try:
            with _path(folder, number).open("rb") as file:
                lines = file.read(2 * AUDIT_FILE_BYTES_MAX).splitlines()
        except FileNotFoundError:
            continue
        for line in lines:
            entry = _entry_of(line)
            if entry is not None and entry.at_ms >= after_ms:
                yield entry


def _entry_of(line: bytes) -> AuditEntry | None:
    try:
        fields = json.loads(line)
        known = {name: fields[name] for name in AuditEntry._fields if name in fields}
        return AuditEntry(**known)._replace(at_ms=int(fields["at_ms"]))
    except (ValueError, TypeError, KeyError):
        return None
