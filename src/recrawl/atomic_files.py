"""Write a file completely or not at all: readers see the old content or the new, never a part.

The content goes to a draft beside the file, which then takes the file's place.  Others may be able
to write to that folder, as to /tmp: so the name of a draft cannot be guessed, and a draft is opened
only if its name is free and never through a symbolic link.
"""

import json
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

__all__ = [
    "create_folder",
    "drop_cached_pages",
    "hold_lock",
    "open_new_file",
    "replace_file",
    "replace_json",
    "sync_to_disk",
    "sync_tree",
]

# Windows has no such links, and no other flag for them.
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | os.O_CLOEXEC
_NAMES_TRIED_MAX = 100
_ABANDONED_SECONDS = 3600.0
"""Age after which a draft belongs to a process that was killed."""


@contextmanager
def replace_file(
    path: Path, *, is_durable: bool = False, mode: int | None = None
) -> Iterator[BinaryIO]:
    """Open a draft for writing; at the end of the ``with`` block it replaces the file.

    After an exception the draft is removed and the file is as it was.  A file that exists keeps
    its permissions, unless others are given; a symbolic link stays one, and the file that it
    points to is replaced.

    Parameters
    ----------
    path
        File to write.
    is_durable
        Whether the new content has reached the disk when the block ends, so that it survives a
        power cut.
    mode
        Permissions of the new file, which its draft has from the beginning, such as 0o600.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "settings.json"
    >>> with replace_file(path) as file:
    ...     n_bytes = file.write(b"{}")
    >>> path.read_text()
    '{}'
    >>> folder.cleanup()
    """
    path = path.resolve() if path.is_symlink() else path
    _remove_abandoned_drafts(path)
    if mode is None and path.exists():
        mode = stat.S_IMODE(path.stat().st_mode)
    draft, file = _open_draft(path, mode)
    try:
        with file:
            yield file
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if is_durable:
        sync_to_disk(path.parent)


def replace_json(path: Path, content: Mapping[str, Any], *, mode: int | None = None) -> None:
    """Replace a file by a JSON object; the new content survives a power cut.

    Parameters
    ----------
    path
        File to write.
    content
        New content.
    mode
        Permissions of the new file; those of the old one unless given.
    """
    with replace_file(path, is_durable=True, mode=mode) as file:
        file.write(json.dumps(content).encode())


def _open_draft(path: Path, mode: int | None) -> tuple[Path, BinaryIO]:
    """Create a draft of a file, with the permissions that the file will have."""
    for _ in range(_NAMES_TRIED_MAX):
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        try:
            file = open_new_file(draft, mode=0o666 if mode is None else mode)
        except FileExistsError:
            continue
        if mode is not None:
            os.chmod(file.fileno() if os.chmod in os.supports_fd else draft, mode)
        return draft, file
    raise FileExistsError(f"no free name for a draft of {path}")


def _remove_abandoned_drafts(path: Path) -> None:
    """Remove the drafts of a file that killed processes have left behind."""
    before = time.time() - _ABANDONED_SECONDS
    prefix, suffix = f".{path.name}.", ".part"
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name.endswith(suffix):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < before:
                        os.unlink(entry.path)


def open_new_file(path: Path, *, mode: int = 0o666) -> BinaryIO:
    """Create a file for writing; raise `FileExistsError` if its name is taken, also by a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS
    return open(os.open(path, flags, mode), "wb")


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a lock file; wait for other processes and threads that hold it.

    Parameters
    ----------
    path
        Lock file, which is created and stays; never a symbolic link.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINKS, 0o666)
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415

            msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        else:
            import fcntl  # noqa: PLC0415

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # also ends the lock


def sync_to_disk(path: Path) -> None:
    """Wait until a file, or the entries of a folder, have reached the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def drop_cached_pages(descriptor: int) -> None:
    """Ask the system to forget its copy of a file in memory, so that the disk is read next time."""
    if hasattr(os, "posix_fadvise"):  # macOS does not have it
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def sync_tree(folder: Path) -> None:
    """Wait until all files below a folder, and the folders that contain them, are on disk."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync_to_disk(Path(parent) / name)
        sync_to_disk(Path(parent))


def create_folder(folder: Path) -> None:
    """Create a folder and its missing parents, and wait until their entries are on disk.

    Without that wait a power cut could remove the whole folder later, also with files in it that
    were synced.  A folder that exists is synced too: an earlier process may have died before.
    """
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        with suppress(PermissionError):  # a parent that may not be read cannot be synced
            sync_to_disk(path.parent)
