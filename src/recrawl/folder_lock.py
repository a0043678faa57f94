"""The lock of a folder that one process may use at a time; it ends with the process.

It is a lock of the operating system on a file, so nothing is left over if the process is killed,
and a forked child does not inherit it.  The file says which process has it.
"""

import os
import socket
import sys
import threading
import weakref
from pathlib import Path
from typing import Final, NamedTuple, Self

from recrawl.errors import FolderInUse, StorageError

if sys.platform != "win32":
    import fcntl

__all__ = ["IN_USE_FILE", "FolderLock", "address_of_user", "check_folder_is_free", "note_address"]

IN_USE_FILE: Final = "in-use.lock"
"""Name of the file that is locked; it stays when the lock is released."""
_TEXT_BYTES_MAX: Final = 512

# The system does not keep a process from locking a file twice, and gives up the lock as soon as the
# process closes any descriptor of the file: so this process must not even open it again.
_HELD: "weakref.WeakValueDictionary[tuple[int, int], FolderLock]" = weakref.WeakValueDictionary()
_HELD_LOCK = threading.Lock()


class FolderLock:
    """The lock of a folder; get it with `take`, and release it when the folder is no longer used.

    Parameters
    ----------
    descriptor
        Open and locked file.
    """

    def __init__(self, descriptor: int) -> None:
        self._process = os.getpid()
        self._descriptor = descriptor
        self._finalizer = weakref.finalize(self, os.close, descriptor)
        self._finalizer.atexit = False  # the end of the process releases it

    @classmethod
    def take(cls, folder: Path) -> Self:
        """Lock a folder that exists.

        Parameters
        ----------
        folder
            Folder that only this process may use from now on.

        Raises
        ------
        FolderInUse
            If another process uses it, or this one does already.
        StorageError
            If the file of the lock cannot be written, or its file system has no locks.
        """
        path = folder / IN_USE_FILE
        with _HELD_LOCK:
            held = _HELD.get(_identity(path))
            if held is not None and held.is_held:
                raise FolderInUse(f"{folder} is in use by this process, {os.getpid()}")
            if held is not None:
                held._finalizer()  # of a parent: to close it later would release the new lock
            try:
                lock = cls(_open_locked(path))
            except OSError as error:
                raise StorageError(f"{path} cannot be locked: {error.strerror}") from error
            _HELD[_identity(path)] = lock
        return lock

    @property
    def is_held(self) -> bool:
        """Whether this process has the lock; a forked child of the one that took it has not."""
        return self._finalizer.alive and self._process == os.getpid()

    def release(self) -> None:
        """Let others use the folder; a second call does nothing."""
        if self._process == os.getpid():
            self._finalizer()


def note_address(folder: Path, address: str) -> None:
    """Tell whoever wants to use a folder where this process answers, if it has the lock.

    Parameters
    ----------
    folder
        Folder of a corpus.
    address
        URL of the corpus on a server in this process.
    """
    with _HELD_LOCK:
        held = _HELD.get(_identity(folder / IN_USE_FILE))
        if held is not None and held.is_held:
            _describe(held._descriptor, address)


def address_of_user(folder: Path) -> str | None:
    """Return the URL at which another process that uses a folder answers; None if it has none.

    Parameters
    ----------
    folder
        Folder of a corpus.
    """
    path = folder / IN_USE_FILE
    if sys.platform == "win32":
        return None
    with _HELD_LOCK:
        held = _HELD.get(_identity(path))
        if held is not None and held.is_held:
            return None
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return _user(descriptor).address
        except OSError:
            return None  # the file system has no locks
        finally:
            os.close(descriptor)
    return None


def check_folder_is_free(folder: Path) -> None:
    """Raise `FolderInUse` if a process uses a folder, before work that takes long.

    Parameters
    ----------
    folder
        Folder that exists.
    """
    FolderLock.take(folder).release()


def _identity(path: Path) -> tuple[int, int]:
    """Return what tells a file from all others; zeros if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _open_locked(path: Path) -> int:
    """Return a descriptor of the file of a lock, which is locked and says who has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        _lock(descriptor, path.parent)
        _describe(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int, folder: Path) -> None:
    """Lock an open file, or say which process has locked it."""
    if sys.platform == "win32":
        return  # the locks of the databases in the folder have to do there
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        user = _user(descriptor)
        raise FolderInUse(f"{folder} is in use by {user.name}", user.address) from error


class _User(NamedTuple):
    name: str
    address: str | None


def _describe(descriptor: int, address: str = "") -> None:
    """Write into the file of a lock who has it."""
    os.ftruncate(descriptor, 0)
    text = f"{os.getpid()} {socket.gethostname()} {address}".strip()
    os.pwrite(descriptor, f"{text}\n".encode(), 0)


def _user(descriptor: int) -> _User:
    """Return who has a lock, as its file says."""
    text = os.pread(descriptor, _TEXT_BYTES_MAX, 0).decode("utf-8", "replace")
    process, host, address = [*text.split(), "", "", ""][:3]
    if not process.isdigit():
        return _User("another process", None)
    where = "" if host in ("", socket.gethostname()) else f" on {host}"
    return _User(f"process {process}{where}", address or None)
