"""Write a file completely or not at all: readers see the old content or the new, never a part.

The content goes to a draft beside the file, which then takes the file's place.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["create_folder", "replace_file", "sync_to_disk", "sync_tree"]


@contextmanager
def replace_file(path: Path, *, is_durable: bool = False) -> Iterator[BinaryIO]:
    """Open a draft for writing; at the end of the ``with`` block it replaces the file.

    After an exception the draft is removed and the file is as it was.  A file that exists keeps
    its permissions; a symbolic link stays one, and the file that it points to is replaced.

    Parameters
    ----------
    path
        File to write.
    is_durable
        Whether the new content has reached the disk when the block ends, so that it survives a
        power cut.

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
    draft = path.with_name(f".{path.name}.{threading.get_native_id()}.part")
    try:
        with draft.open("wb") as file:
            yield file
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        if path.exists():
            draft.chmod(path.stat().st_mode)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if is_durable:
        sync_to_disk(path.parent)


def sync_to_disk(path: Path) -> None:
    """Wait until a file, or the entries of a folder, have reached the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
