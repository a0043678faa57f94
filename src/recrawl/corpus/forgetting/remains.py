"""What is left of forgotten pages on disk: files from before that still exist or are still open."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Remainder", "data_files", "files_left", "folders_aside", "is_left", "open_elsewhere"]

# Files of RocksDB that hold keys and values.  A snapshot's columns hold no text of a page.
_DATA_SUFFIXES = (".sst", ".log", ".blob")
_PARTS = ("log", "store", "snapshots")
# Copies that a repair keeps: `store/0.broken`, `damaged-…`, and drafts of interrupted repairs.
_ASIDE = ("store/*.broken", "store/*.draft", "damaged-*", "repair-draft", "log.copy", "log.*")


class Remainder(NamedTuple):
    """Something that may still hold forgotten pages."""

    kind: str
    """Kind of remainder: "file", "process", "kafka", "storage" or "backup"."""
    where: str
    """Path, number of a process, or topic."""
    why: str
    number: int = 0
    """Inode of a file, position in a topic, or number of the newest backup to remove."""
    until_ms: int = 0
    """Instant at which it is gone, as far as recrawl knows; 0 if it can look."""


def data_files(folder: Path) -> dict[str, int]:
    """Return the inodes of all files of a corpus that may hold URLs, by path in the corpus."""
    found: dict[str, int] = {}
    for part in _PARTS:
        for path in (folder / part).rglob("*"):
            if path.suffix in _DATA_SUFFIXES:
                try:
                    found[path.relative_to(folder).as_posix()] = path.stat().st_ino
                except FileNotFoundError:
                    continue  # merged into another file meanwhile
    return found


def files_left(folder: Path, before: dict[str, int]) -> Iterator[Remainder]:
    """Yield the files from before that still exist, except those in folders kept aside."""
    for path, inode in before.items():
        remainder = Remainder("file", path, "written before, and not replaced yet", inode)
        is_aside = any(part.endswith((".broken", ".draft")) for part in Path(path).parts)
        if not is_aside and is_left(folder, remainder):
            yield remainder


def folders_aside(folder: Path) -> Iterator[Remainder]:
    """Yield the folders with files that a repair has put aside."""
    for pattern in _ASIDE:
        for path in sorted(folder.glob(pattern)):
            if path.is_dir():
                why = "kept by a repair; delete it if you no longer need it"
                yield Remainder("file", path.relative_to(folder).as_posix(), why)


def is_left(folder: Path, remainder: Remainder) -> bool:
    """Return whether a file or folder still exists."""
    try:
        status = (folder / remainder.where).stat()
    except OSError:
        return False
    return remainder.number in (0, status.st_ino)


def open_elsewhere(folder: Path) -> Iterator[Remainder]:
    """Yield other processes of this user that still have deleted files of a corpus open."""
    own = str(os.getpid())
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == own:
            continue
        try:
            links = [os.readlink(path) for path in (process / "fd").iterdir()]
        except OSError:
            continue  # it has ended, or belongs to another user
        for link in links:
            name = link.removesuffix(" (deleted)")
            if name != link and name.startswith(f"{folder}/") and name.endswith(_DATA_SUFFIXES):
                why = "this process still has deleted files open; they are gone when it ends"
                yield Remainder("process", process.name, why)
                break
