"""What robots.txt files say, as fetchers have told: for people who look at a host.

No decision depends on it, so it is in a file beside the log.  If the file is lost, fetchers write
it again within a day.
"""

import json
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from recrawl.atomic_files import replace_file
from recrawl.messages.robots import RobotsNote
from recrawl.urls.canonical import canonical
from recrawl.urls.groups import GroupBy, group_keys

__all__ = ["ROBOTS_NOTES_MAX", "RobotsNotes", "merge_robots_notes"]

logger = logging.getLogger(__name__)

ROBOTS_NOTES_MAX: Final = 20_000
"""Number of sites whose notes are kept; the one that was noted longest ago goes first."""

_FILE: Final = "run/robots"
_NOTES_PER_GROUP_MAX: Final = 20
# Larger files are not of ours.
_FILE_BYTES_MAX: Final = 256 << 20
_GROWTH_FACTOR: Final = 4
_FILE_BYTES_MIN: Final = 1 << 20


class RobotsNotes:
    """The notes of a corpus, by the host or domain that its pages are grouped by.

    Parameters
    ----------
    folder
        Folder of the corpus.
    group_by
        Grouping of pages: by host, by domain, or by key; with keys, hosts have no notes.
    is_reader
        Whether the file is only read.
    """

    def __init__(self, folder: Path, group_by: GroupBy, *, is_reader: bool = False) -> None:
        self._path = folder / _FILE
        self._by = group_by
        self._is_reader = is_reader
        self._lock = threading.Lock()
        self._notes: OrderedDict[str, tuple[str, RobotsNote]] = OrderedDict()
        self._origins: dict[str, list[str]] = {}
        self._is_loaded = False
        self._n_bytes = 0

    def add(self, notes: Iterable[RobotsNote]) -> None:
        """Keep notes; a newer one of a site replaces the one before.

        Notes of what is not a site are left out.
        """
        if self._by == "key":
            return
        given = list(notes)
        with self._lock:
            self._load()
            kept = self._keep(given)
            if kept and not self._is_reader:
                self._append(kept)

    def find(self, hosts: Sequence[str]) -> dict[str, list[RobotsNote]]:
        """Return the notes of hosts or domains, the newest of each first.

        Parameters
        ----------
        hosts
            Canonical names.
        """
        if self._by == "key":
            return {}
        with self._lock:
            self._load()
            found = {
                host: [self._notes[origin][1] for origin in self._origins[host]]
                for host in hosts
                if host in self._origins
            }
        return merge_robots_notes([found])

    def _keep(self, notes: Sequence[RobotsNote]) -> list[RobotsNote]:
        kept = []
        for note, group in zip(notes, self._groups_of(notes), strict=True):
            before = self._notes.get(note.origin)
            if group is None or (before is not None and before[1].asked_at_ms > note.asked_at_ms):
                continue
            self._drop(note.origin)
            self._notes[note.origin] = (group, note)
            own = self._origins.setdefault(group, [])
            own.append(note.origin)
            while len(own) > _NOTES_PER_GROUP_MAX:
                self._drop(own[0])
            kept.append(note)
        while len(self._notes) > ROBOTS_NOTES_MAX:
            self._drop(next(iter(self._notes)))
        return kept

    def _drop(self, origin: str) -> None:
        found = self._notes.pop(origin, None)
        if found is None:
            return
        own = self._origins[found[0]]
        own.remove(origin)
        if not own:
            del self._origins[found[0]]

    def _groups_of(self, notes: Sequence[RobotsNote]) -> list[str | None]:
        """Return the group of the pages of each site; None for what is not a site."""
        if not notes:
            return []
        urls = canonical([f"{note.origin}/" for note in notes]).url
        groups = group_keys(urls.fill_null("http://invalid/"), self._by).to_pylist()
        is_site = [url is not None and url.count("/") == 3 for url in urls.to_pylist()]
        return [group if good else None for group, good in zip(groups, is_site, strict=True)]

    # ------------------------------------------------------------------ the file

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        try:
            with self._path.open("rb") as file:
                data = file.read(_FILE_BYTES_MAX)
        except OSError:
            return
        self._n_bytes = len(data)
        notes = []
        for line in data.splitlines():
            # The last line may be cut, because the process was killed.
            with suppress(ValueError):
                notes.append(RobotsNote.of_dict(json.loads(line)))
        self._keep(notes)

    def _append(self, notes: Sequence[RobotsNote]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Before that, the lines of a killed process may have ended in the middle of one.
            lines = b"\n" + _lines_of(notes)
            with self._path.open("ab") as file:
                os.write(file.fileno(), lines)
            self._n_bytes += len(lines)
            if self._n_bytes > _FILE_BYTES_MIN:
                self._write_anew_if_large()
        except OSError as error:
            logger.warning("what robots.txt files say cannot be written to a file: %s", error)

    def _write_anew_if_large(self) -> None:
        lines = _lines_of([note for _, note in self._notes.values()])
        if self._n_bytes <= _GROWTH_FACTOR * len(lines):
            return
        with replace_file(self._path) as file:
            file.write(lines)
        self._n_bytes = len(lines)


def _lines_of(notes: Sequence[RobotsNote]) -> bytes:
    lines = (json.dumps(note._asdict(), separators=(",", ":")) for note in notes)
    return "".join(f"{line}\n" for line in lines).encode()


def merge_robots_notes(
    parts: Iterable[dict[str, list[RobotsNote]]],
) -> dict[str, list[RobotsNote]]:
    """Return the newest note of each site, by host; the newest of each host first.

    Parameters
    ----------
    parts
        Notes by host, of one worker each.
    """
    newest: dict[str, dict[str, RobotsNote]] = {}
    for part in parts:
        for host, notes in part.items():
            own = newest.setdefault(host, {})
            for note in notes:
                before = own.get(note.origin)
                if before is None or before.asked_at_ms < note.asked_at_ms:
                    own[note.origin] = note
    return {
        host: sorted(own.values(), key=lambda note: (-note.asked_at_ms, note.origin))
        for host, own in newest.items()
    }
