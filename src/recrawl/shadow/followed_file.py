"""Read a log file that grows, and continue where an earlier process stopped.

The file may be rotated: renamed and replaced by a new one, or copied and truncated.  The rest of
the old file is then read first, if it is still beside the new one under a name with a number or a
date (``crawl.jsonl.1``, ``crawl.jsonl-20260101``) and not compressed.
"""

import hashlib
import io
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from recrawl.errors import ReadError
from recrawl.readers.lines import LINE_BYTES_MAX

__all__ = ["FollowedFile", "LogChunk"]

HEAD_BYTES = 1_024
"""Bytes at the beginning of a file by which it is recognised later."""
ROTATED_FILES_MAX = 1_000
"""Largest number of files beside the log that are looked at after a rotation."""
_ROTATED = re.compile(r"[.\-_]?\d[\d.\-_T]*")


class LogChunk(NamedTuple):
    """New bytes of a log."""

    data: bytes
    """Whole lines."""
    is_start: bool
    """Whether these are the first lines of a file, which may be a header."""


class FollowedFile:
    """A log file that another program appends to.

    Parameters
    ----------
    path
        Path of the file.
    place
        Place to continue from, as `place` returned it; None for the beginning.

    Raises
    ------
    recrawl.errors.ReadError
        If the file cannot be read, or is compressed.
    """

    def __init__(self, path: Path, place: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.n_long_lines = 0
        """Lines that were skipped because they are too long."""
        self.n_rests_lost = 0
        """Rotations after which the unread rest of the old file was not found."""
        self._file: io.FileIO | None = None
        self._offset = 0
        self._is_skipping = False
        self._head = b""
        if place is not None:
            self._resume(place)

    @property
    def name(self) -> str:
        """Name of the log."""
        return str(self.path)

    def place(self) -> dict[str, Any]:
        """Return the place up to which the log was read, as a JSON object."""
        if self._file is None:
            return {}
        of = os.fstat(self._file.fileno())
        n_head = len(self._head)
        return {
            "device": of.st_dev,
            "inode": of.st_ino,
            "offset": self._offset,
            "is_skipping": self._is_skipping,
            "n_head": n_head,
            "head": _digest(self._head[:n_head]),
        }

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self, n_bytes_max: int) -> LogChunk:
        """Return the next whole lines, at most about ``n_bytes_max`` bytes; none at the end.

        A last line without a line end is not returned, because its rest may still be written.
        """
        while True:
            if self._file is None:
                try:
                    self._start(self.path)
                except FileNotFoundError:
                    return LogChunk(b"", False)  # between the two steps of a rotation
                except OSError as error:
                    raise ReadError(f"{self.path} cannot be read: {error.strerror}") from error
            self._restart_if_truncated()
            chunk = self._read_lines(n_bytes_max)
            if chunk.data or not self._is_replaced():
                return chunk
            rest = self._take_unfinished_line()
            self._start(self._next_file())
            if rest:
                return LogChunk(rest, False)

    def _start(self, path: Path, offset: int = 0) -> None:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 (stays open)
        self.close()
        self._offset, self._is_skipping = offset, False
        self._head = _bytes_at(file, min(offset, HEAD_BYTES), 0)
        self._file = file
        if _bytes_at(file, 4, 0).startswith((b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd")):
            self.close()
            raise ReadError(f"{path} is compressed; name the file that the crawler writes to")

    def _resume(self, place: Mapping[str, Any]) -> None:
        offset = place.get("offset")
        if not isinstance(offset, int) or offset <= 0:
            return
        found = self._find(place)
        if found is None:
            self.n_rests_lost += 1
            return
        self._start(found, offset)
        self._is_skipping = bool(place.get("is_skipping"))

    def _find(self, place: Mapping[str, Any]) -> Path | None:
        """Return the file that a place is in: the log itself, or one of its older files."""
        for path in (self.path, *self._rotated_files()):
            try:
                with open(path, "rb", buffering=0) as file:
                    n_bytes = os.fstat(file.fileno()).st_size
                    head = _bytes_at(file, place["n_head"], 0)
            except (OSError, KeyError, TypeError):
                continue
            if n_bytes >= place["offset"] and _digest(head) == place["head"]:
                return path
        return None

    def _rotated_files(self) -> list[Path]:
        """Return older files of the log, the oldest first."""
        found: list[tuple[int, str]] = []
        name = self.path.name
        try:
            with os.scandir(self.path.parent) as entries:
                for entry in entries:
                    if not entry.name.startswith(name) or len(found) >= ROTATED_FILES_MAX:
                        continue
                    if _ROTATED.fullmatch(entry.name[len(name) :]):
                        of = entry.stat()
                        if stat.S_ISREG(of.st_mode):
                            found.append((of.st_mtime_ns, entry.path))
        except OSError:
            return []
        return [Path(path) for _, path in sorted(found)]

    def _restart_if_truncated(self) -> None:
        """Go back to the beginning of a file that was truncated; read its copy first."""
        assert self._file is not None
        if self._offset == 0:
            return
        n_head = min(self._offset, HEAD_BYTES)
        # The beginning of a file does not change unless it is truncated.
        is_same = _bytes_at(self._file, n_head, 0) == self._head[:n_head]
        if is_same and os.fstat(self._file.fileno()).st_size >= self._offset:
            return
        place = {
            "offset": self._offset,
            "n_head": n_head,
            "head": _digest(self._head[:n_head]),
        }
        copy = self._find(place)
        if copy is None:
            self.n_rests_lost += 1
            self._offset, self._is_skipping, self._head = 0, False, b""
        else:
            is_skipping = self._is_skipping
            self._start(copy, self._offset)
            self._is_skipping = is_skipping

    def _read_lines(self, n_bytes_max: int) -> LogChunk:
        assert self._file is not None
        is_start = self._offset == 0
        while True:
            data = _bytes_at(self._file, max(n_bytes_max, LINE_BYTES_MAX + 1), self._offset)
            if self._is_skipping:
                end = data.find(b"\n") + 1
                self._advance(data[: end or len(data)])
                if not data:
                    return LogChunk(b"", False)
                self._is_skipping = not end
                continue
            end = data.rfind(b"\n") + 1
            if end:
                self._advance(data[:end])
                return LogChunk(data[:end], is_start)
            if len(data) <= LINE_BYTES_MAX:
                return LogChunk(b"", False)
            self.n_long_lines += 1
            self._is_skipping = True

    def _advance(self, data: bytes) -> None:
        self._offset += len(data)
        if len(self._head) < HEAD_BYTES:
            self._head += data[: HEAD_BYTES - len(self._head)]

    def _is_replaced(self) -> bool:
        """Whether the path names another file by now that has some content."""
        assert self._file is not None
        own = os.fstat(self._file.fileno())
        try:
            now = os.stat(self.path)
        except OSError:
            return False
        return (now.st_dev, now.st_ino) != (own.st_dev, own.st_ino) and now.st_size > 0

    def _next_file(self) -> Path:
        """Return the oldest file that is newer than the one that was read to its end."""
        assert self._file is not None
        own = os.fstat(self._file.fileno())
        for path in self._rotated_files():
            of = path.stat()
            is_own = (of.st_dev, of.st_ino) == (own.st_dev, own.st_ino)
            # The copy of a truncated file is older than the truncated file, which follows it.
            if not is_own and of.st_mtime_ns > own.st_mtime_ns:
                return path
        return self.path

    def _take_unfinished_line(self) -> bytes:
        """Return the last line of a file that nobody writes to any more, with a line end."""
        assert self._file is not None
        if self._is_skipping:
            return b""
        data = _bytes_at(self._file, LINE_BYTES_MAX + 1, self._offset)
        self._advance(data)
        return data + b"\n" if data else b""


def _bytes_at(file: io.FileIO, n_bytes: int, offset: int) -> bytes:
    file.seek(offset)
    return file.read(n_bytes) or b""


def _digest(head: bytes) -> str:
    return hashlib.blake2b(head, digest_size=16).hexdigest()
