"""When each API key was last used, written rarely to a small file beside the keys."""

import asyncio
import json
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from recrawl.atomic_files import replace_file

__all__ = ["KeyUse", "KeyUses", "read_key_uses"]

_FILE = "api-key-use.json"
_FILE_BYTES_MAX = 1 << 20
_WRITTEN_EVERY_MS = 300_000


class KeyUse(NamedTuple):
    """The last use of a key."""

    at_ms: int
    client: str
    """Address that it came from."""


def read_key_uses(folder: Path) -> dict[str, KeyUse]:
    """Return the last use of each key by its id, up to five minutes old.

    Parameters
    ----------
    folder
        Folder of the corpus.
    """
    try:
        with (folder / _FILE).open("rb") as file:
            content = json.loads(file.read(_FILE_BYTES_MAX))
        return {
            str(key_id): KeyUse(int(row["at_ms"]), str(row["client"]))
            for key_id, row in content["used"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # the file is a help for people, and is written again


class KeyUses:
    """The last uses of the keys of one corpus, while a server runs.

    Parameters
    ----------
    folder
        Folder of the corpus.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written = read_key_uses(folder)
        self._latest = dict(self._written)

    def note(self, key_id: str, at_ms: int, client: str) -> None:
        """Remember that a key was used; takes no time.

        Parameters
        ----------
        key_id
            Id of a key of the corpus.
        at_ms
            Time of the request, in milliseconds since 1970.
        client
            Address of the client.
        """
        self._latest[key_id] = KeyUse(at_ms, client)

    async def save(self, key_ids: Collection[str], *, is_last: bool = False) -> None:
        """Write the file if a use in it is more than five minutes older than the latest.

        Parameters
        ----------
        key_ids
            Ids of the keys that the corpus still has; the uses of others are dropped.
        is_last
            Whether to write every new use, because the server stops.
        """
        self._latest = {one: use for one, use in self._latest.items() if one in key_ids}
        latest = self._latest.copy()
        least_ms = 1 if is_last else _WRITTEN_EVERY_MS
        is_old = any(
            one not in self._written or use.at_ms - self._written[one].at_ms >= least_ms
            for one, use in latest.items()
        )
        if is_old:
            with suppress(OSError):  # the disk is full; the next time is soon enough
                await asyncio.to_thread(_write, self._folder, latest)
                self._written = latest


def _write(folder: Path, uses: dict[str, KeyUse]) -> None:
    used = {one: use._asdict() for one, use in uses.items()}
    with replace_file(folder / _FILE, mode=0o600) as file:
        file.write(json.dumps({"format": 1, "used": used}).encode())
