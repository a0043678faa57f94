"""Append records to files of limited size, and find out after a crash where the last one ends.

A position is a number of bytes since the beginning of the first file ever written.  The name of a
file is the position of its first byte.  A record is its length, a checksum, its kind and its data.
"""

import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from recrawl.atomic_files import create_folder, open_new_file, sync_to_disk
from recrawl.errors import StorageError

__all__ = ["Segments", "StoredRecord"]

_HEAD = struct.Struct(">IIB")
_ENDING = ".spool"


class StoredRecord(NamedTuple):
    """A record, or only its kind and place if the data was not asked for."""

    position: int
    end: int
    kind: int
    data: bytes


class Segments:
    """Records in files of a folder, each file written once from its beginning to its end.

    Parameters
    ----------
    folder
        Folder of the files.
    file_bytes_max
        Size after which the next record begins a new file.
    first_record
        Function that returns the kind and data of the first record of a new file.
    """

    def __init__(
        self, folder: Path, file_bytes_max: int, first_record: Callable[[], tuple[int, bytes]]
    ) -> None:
        create_folder(folder)
        self._folder = folder
        self._file_bytes_max = file_bytes_max
        self._first_record = first_record
        self._starts = sorted(
            int(path.stem)
            for path in folder.iterdir()
            if path.suffix == _ENDING and path.stem.isdecimal()
        )
        self._file: BinaryIO | None = None
        self._end = 0
        self._synced = 0
        # After a failed sync the system may have dropped data that it had accepted.
        self._has_failed = False
        self._lock = threading.RLock()
        self._sync_lock = threading.Lock()

    @property
    def end(self) -> int:
        """Position after the last record."""
        return self._end

    @property
    def n_bytes(self) -> int:
        """Size of all files."""
        return self._end - self._starts[0] if self._starts else 0

    def recover(self, kinds: frozenset[int]) -> Iterator[StoredRecord]:
        """Yield all records; then cut off a last record that is not whole, and open for appending.

        Parameters
        ----------
        kinds
            Kinds of records whose data is yielded; that of the others is empty.

        Raises
        ------
        StorageError
            If a record is damaged that is not the last one.
        """
        for i, start in enumerate(self._starts):
            path = self._path(start)
            is_last = i + 1 == len(self._starts)
            end = start
            with path.open("rb") as file:
                n_bytes = os.fstat(file.fileno()).st_size
                while (
                    found := _next_record(file, end, start + n_bytes, kinds, is_last)
                ) is not None:
                    end = found.end
                    yield found
            if not is_last and end != self._starts[i + 1]:
                raise StorageError(
                    f"{path} is damaged at byte {end - start}. Move the folder away to go on "
                    "without the versions in it"
                )
            self._end = end
        if self._starts:
            self._file = self._path(self._starts[-1]).open("r+b")
            self._file.truncate(self._end - self._starts[-1])
            self._file.seek(0, os.SEEK_END)
            os.fsync(self._file.fileno())
        if not self._starts or self._end == self._starts[-1]:
            self._begin_file()
        self._synced = self._end

    def append(self, kind: int, data: bytes) -> int:
        """Add a record; return its position.  `sync` makes it durable."""
        with self._lock:
            assert self._file is not None
            if self._end - self._starts[-1] >= self._file_bytes_max:
                self._begin_file()
            return self._write(kind, data)

    def _write(self, kind: int, data: bytes) -> int:
        assert self._file is not None
        position = self._end
        start = self._starts[-1]
        if self._has_failed:
            raise StorageError(f"an earlier write to {self._folder} failed; open the spool again")
        try:
            self._file.write(_HEAD.pack(len(data), zlib.crc32(data, kind), kind))
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            # Half a record would hide those behind it.
            try:
                self._file.seek(position - start)
                self._file.truncate()
            except OSError:
                self._has_failed = True
            raise StorageError(f"cannot write to {self._path(start)}: {error}") from error
        self._end = position + _HEAD.size + len(data)
        return position

    def _begin_file(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
            self._synced = self._end
        if not self._starts or self._starts[-1] != self._end:
            path = self._path(self._end)
            self._file = open_new_file(path)
            self._starts.append(self._end)
            sync_to_disk(self._folder)
        else:
            self._file = self._path(self._end).open("r+b")
        self._write(*self._first_record())

    def sync(self) -> None:
        """Wait until all records so far are on disk; threads that wait share one sync."""
        with self._lock:
            end = self._end
        with self._sync_lock:
            if self._synced >= end:
                return
            with self._lock:
                assert self._file is not None
                end, descriptor = self._end, os.dup(self._file.fileno())
            try:
                os.fsync(descriptor)
            except OSError as error:
                self._has_failed = True
                raise StorageError(f"cannot write to {self._folder}: {error}") from error
            finally:
                os.close(descriptor)
            self._synced = max(self._synced, end)

    def read(self, position: int) -> bytes | None:
        """Return the data of the record at a position; None if it is damaged or was deleted."""
        with self._lock:
            start = max((one for one in self._starts if one <= position), default=None)
        if start is None:
            return None
        try:
            with self._path(start).open("rb") as file:
                file.seek(position - start)
                head = file.read(_HEAD.size)
                if len(head) < _HEAD.size:
                    return None
                n_bytes, checksum, kind = _HEAD.unpack(head)
                data = file.read(n_bytes)
        except FileNotFoundError:
            return None
        return data if len(data) == n_bytes and zlib.crc32(data, kind) == checksum else None

    def delete_before(self, position: int) -> None:
        """Delete the files whose records are all before a position, except the newest file."""
        with self._lock:
            while len(self._starts) > 1 and self._starts[1] <= position:
                self._path(self._starts[0]).unlink(missing_ok=True)
                del self._starts[0]

    def close(self) -> None:
        """Close the file that is being written."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _path(self, start: int) -> Path:
        return self._folder / f"{start:020}{_ENDING}"


def _next_record(
    file: BinaryIO, position: int, end_max: int, kinds: frozenset[int], is_checked: bool
) -> StoredRecord | None:
    """Return the next record of a file; None if there is none that is whole."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    n_bytes, checksum, kind = _HEAD.unpack(head)
    end = position + _HEAD.size + n_bytes
    if end > end_max:
        return None
    if kind not in kinds and not is_checked:
        file.seek(n_bytes, os.SEEK_CUR)
        return StoredRecord(position, end, kind, b"")
    data = file.read(n_bytes)
    if len(data) < n_bytes or zlib.crc32(data, kind) != checksum:
        return None
    return StoredRecord(position, end, kind, data if kind in kinds else b"")
