"""One process uses a folder at a time, and another one is told which; the lock ends with it."""

import errno
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recrawl.errors import FolderInUse, StorageError
from recrawl.folder_lock import (
    IN_USE_FILE,
    FolderLock,
    address_of_user,
    check_folder_is_free,
    note_address,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")

HOLD = """
import os, sys, time
from pathlib import Path
from recrawl.folder_lock import FolderLock
lock = FolderLock.take(Path(sys.argv[1]))
child = os.fork() if sys.argv[2] == "fork" else -1
if child:
    print(child, flush=True)
time.sleep(600)
"""

TAKE_OVER = """
import os, sys, time
from pathlib import Path
from recrawl.folder_lock import FolderLock
lock, parent = FolderLock.take(Path(sys.argv[1])), os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == parent:
    time.sleep(0.01)
lock = FolderLock.take(Path(sys.argv[1]))
print(os.getpid(), flush=True)
time.sleep(600)
"""


@contextmanager
def other_process(folder: Path, mode: str = "") -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a process that holds the lock; yield it and the id of its child, -1 without."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), mode], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            yield process, child
        finally:
            process.kill()
            if child > 0:
                os.kill(child, signal.SIGKILL)


def test_another_process_is_named_until_it_is_killed(tmp_path: Path) -> None:
    with other_process(tmp_path) as (process, _):
        for _attempt in range(2):  # a refused attempt does not take the lock away
            with pytest.raises(FolderInUse) as refused:
                FolderLock.take(tmp_path)
            assert str(refused.value) == f"{tmp_path} is in use by process {process.pid}"
        with pytest.raises(FolderInUse):
            check_folder_is_free(tmp_path)
        process.kill()
        process.wait()
        check_folder_is_free(tmp_path)


def test_a_child_does_not_keep_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    with other_process(tmp_path, "fork") as (process, child):
        process.kill()
        process.wait()
        os.kill(child, 0)  # it still runs
        FolderLock.take(tmp_path).release()


def test_a_child_that_takes_the_lock_after_its_parent_keeps_it(tmp_path: Path) -> None:
    """It still has the descriptor of its parent, and gives up the lock if it closes that later."""
    command = [sys.executable, "-c", TAKE_OVER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            with pytest.raises(FolderInUse, match=f"by process {child}$"):
                FolderLock.take(tmp_path)
        finally:
            os.kill(child, signal.SIGKILL)


def test_this_process_locks_a_folder_once(tmp_path: Path) -> None:
    lock = FolderLock.take(tmp_path)
    with pytest.raises(FolderInUse, match="by this process"):
        FolderLock.take(tmp_path)
    lock.release()
    lock.release()
    again = FolderLock.take(tmp_path)
    lock.release()  # not the lock of the other one
    with pytest.raises(FolderInUse):
        FolderLock.take(tmp_path)
    del again
    gc.collect()
    check_folder_is_free(tmp_path)


def test_who_is_refused_learns_the_address(tmp_path: Path) -> None:
    address = "http://127.0.0.1:8377/v1/corpora/news"
    assert address_of_user(tmp_path) is None
    note_address(tmp_path, address)  # without the lock, it tells nobody
    lock = FolderLock.take(tmp_path)
    note_address(tmp_path, address)
    assert address_of_user(tmp_path) is None  # this process
    asks = "import sys; from pathlib import Path; from recrawl.folder_lock import address_of_user"
    ask = [
        sys.executable,
        "-c",
        f"{asks}; print(address_of_user(Path(sys.argv[1])))",
        str(tmp_path),
    ]
    for _ in range(2):
        assert subprocess.check_output(ask, text=True).strip() == address
    lock.release()
    assert subprocess.check_output(ask, text=True).strip() == "None"


def test_the_host_is_named_if_it_is_another_one(tmp_path: Path) -> None:
    with other_process(tmp_path):
        (tmp_path / IN_USE_FILE).write_text("12 elsewhere\n")
        with pytest.raises(FolderInUse, match=r"by process 12 on elsewhere$"):
            FolderLock.take(tmp_path)
        (tmp_path / IN_USE_FILE).write_text("")
        with pytest.raises(FolderInUse, match=r"by another process$"):
            FolderLock.take(tmp_path)


def test_a_file_system_that_does_not_lock_is_an_error_of_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("recrawl.folder_lock.fcntl.lockf", refuse)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"in-use.lock cannot be locked: No locks available"):
            FolderLock.take(tmp_path)
    assert address_of_user(tmp_path) is None  # who only reads needs no lock
    (tmp_path / IN_USE_FILE).unlink()
    (tmp_path / IN_USE_FILE).symlink_to("elsewhere")
    with pytest.raises(StorageError, match=r"in-use.lock cannot be locked: Too many levels"):
        FolderLock.take(tmp_path)
