"""Open the files of a corpus at one moment, while another process may write to it.

An open file stays readable after the writer has deleted it, so nothing is locked and nothing is
written to the folder of the corpus.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from recrawl.errors import BackupError

__all__ = ["CapturedFile", "capture_database", "capture_files", "capture_tree"]

# Files of a database that another opening creates anew.  Opening and closing LOCK would also give
# up the lock if this process holds it.
_NOT_COPIED = ("LOCK", "LOG")
_ATTEMPTS_MAX = 100


class CapturedFile(NamedTuple):
    """A file of a corpus that was opened for reading."""

    path: str
    """Path in the folder of the corpus, with slashes."""
    descriptor: int
    n_bytes: int
    """Number of bytes to copy; the writer may append more."""


class _Gone(Exception):  # noqa: N818 - a condition, handled here
    """The writer has replaced files meanwhile."""


@contextmanager
def capture_files(folder: Path, names: tuple[str, ...]) -> Iterator[list[CapturedFile]]:
    """Open those of some files that exist."""
    with _close_at_end() as captured:
        for name in names:
            if (folder / name).is_file():
                captured.append(_open(folder / name, name))
        yield captured


@contextmanager
def capture_tree(folder: Path, path: str) -> Iterator[list[CapturedFile]]:
    """Open all files below a folder that no longer change.

    Parameters
    ----------
    folder
        Folder of the files.
    path
        Path of that folder in the corpus.

    Raises
    ------
    FileNotFoundError
        If the folder, or a file in it, has been removed.
    """
    with _close_at_end() as captured:
        for parent, _, names in os.walk(folder, onerror=_raise):
            for name in sorted(names):
                if name not in _NOT_COPIED:
                    file = Path(parent) / name
                    captured.append(_open(file, f"{path}/{file.relative_to(folder).as_posix()}"))
        if not captured:
            raise FileNotFoundError(f"{folder} has no files")
        yield captured


@contextmanager
def capture_database(folder: Path, path: str) -> Iterator[list[CapturedFile]]:
    """Open the files of a RocksDB database that together are one state of it.

    The manifest lists the sorted files; writes that are in none of them are in write-ahead logs.
    A file is deleted only after a new entry of the manifest.  So if the manifest is the same before
    and after all files were opened, none of those it needs is missing.  The last write in a
    write-ahead log may be incomplete, which the next opening takes for a crash.

    Parameters
    ----------
    folder
        Folder of the database.
    path
        Path of that folder in the corpus.

    Raises
    ------
    BackupError
        If the folder holds no database, or changes too fast.
    """
    for _ in range(_ATTEMPTS_MAX):
        try:
            captured = _try_database(folder, path)
        except _Gone:
            continue
        try:
            yield captured
        finally:
            for file in captured:
                os.close(file.descriptor)
        return
    raise BackupError(f"{folder} changes faster than it can be read; try again")


def _try_database(folder: Path, path: str) -> list[CapturedFile]:
    captured: list[CapturedFile] = []
    try:
        before = _manifest_of(folder)
        for file in sorted(folder.iterdir()):
            name = file.name
            is_old_manifest = name.startswith("MANIFEST-") and name != before[0]
            if name not in _NOT_COPIED and not name.startswith("LOG.") and not is_old_manifest:
                opened = _open(file, f"{path}/{name}")
                if name == before[0]:
                    opened = opened._replace(n_bytes=before[1])
                captured.append(opened)
        if _manifest_of(folder) != before:
            raise _Gone
    except BaseException as error:
        for opened in captured:
            os.close(opened.descriptor)
        if isinstance(error, FileNotFoundError):
            raise _Gone from error
        raise
    return captured


def _manifest_of(folder: Path) -> tuple[str, int]:
    """Return the name and the size of the current manifest."""
    if not (folder / "CURRENT").exists():
        raise BackupError(f"{folder} holds no data")
    name = (folder / "CURRENT").read_text().strip()
    return name, (folder / name).stat().st_size


def _open(file: Path, path: str) -> CapturedFile:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    return CapturedFile(path, descriptor, os.fstat(descriptor).st_size)


@contextmanager
def _close_at_end() -> Iterator[list[CapturedFile]]:
    captured: list[CapturedFile] = []
    try:
        yield captured
    finally:
        for file in captured:
            os.close(file.descriptor)


def _raise(error: OSError) -> None:
    raise error
