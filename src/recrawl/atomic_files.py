"""Write a file completely or not at all: readers see the old content or the new, never a part.

The content goes to a draft beside the file, which then takes the file's place.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["replace_file", "sync_to_disk"]


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
