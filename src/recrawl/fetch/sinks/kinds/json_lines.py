"""Files with one line of JSON for each version."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from recrawl.atomic_files import create_folder, open_new_file, sync_to_disk
from recrawl.errors import SinkError
from recrawl.fetch.sinks.contract import DEFAULT_BATCH, BatchSettings, check_sink_name
from recrawl.fetch.sinks.version import PageVersion

__all__ = ["JsonLinesSink", "check_content"]

_ENDING = ".jsonl"
_PREFIX = "versions-"
_FORMS = ("markdown", "text", "body")
_TAIL_BYTES = 1 << 16


class JsonLinesSink:
    """Appends each version as a line of JSON, and begins a new file when one is large.

    Lines have the fields of `PageVersion.as_json`.  After a crash a line that was not whole is cut
    off, and some versions may be there twice, with the same ``id``.

    Parameters
    ----------
    folder
        Folder for the files ``versions-00000001.jsonl`` and so on, which is created.
    name
        Name of the sink.
    content
        Forms of the content in each line: ``"markdown"``, ``"text"`` and ``"body"``.
    file_bytes_max
        Size after which the next version begins a new file.
    batch
        Number of versions per call.

    Raises
    ------
    SinkError
        If the folder cannot be created or read.
    """

    wants_unchanged = False

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str = "json-lines",
        content: Sequence[str] = ("markdown",),
        file_bytes_max: int = 256 << 20,
        batch: BatchSettings = DEFAULT_BATCH,
    ) -> None:
        self.name = check_sink_name(name)
        self.batch = batch
        self._content = check_content(content)
        self._folder = Path(folder)
        self._file_bytes_max = file_bytes_max
        self._file: BinaryIO | None = None
        self._number = 0
        try:
            create_folder(self._folder)
            self._open_last()
        except OSError as error:
            raise SinkError(f"cannot write to {self._folder}: {error}") from error

    def _open_last(self) -> None:
        """Open the newest file, without a last line that is not whole."""
        numbers = [
            int(path.stem.removeprefix(_PREFIX))
            for path in self._folder.glob(f"{_PREFIX}*{_ENDING}")
            if path.stem.removeprefix(_PREFIX).isdecimal()
        ]
        if numbers:
            self._number = max(numbers)
            self._file = self._path().open("r+b")
            _cut_last_line(self._file)

    def _path(self) -> Path:
        return self._folder / f"{_PREFIX}{self._number:08}{_ENDING}"

    def write(self, versions: Sequence[PageVersion]) -> None:
        """Append versions and sync them to disk; see `Sink.write`."""
        try:
            for version in versions:
                line = json.dumps(version.as_json(self._content)).encode() + b"\n"
                self._writable_file().write(line)
            if self._file is not None:
                _sync(self._file)
        except OSError as error:
            self._reopen()
            raise SinkError(f"cannot write to {self._folder}: {error}") from error

    def _writable_file(self) -> BinaryIO:
        if self._file is not None and self._file.tell() >= self._file_bytes_max:
            _sync(self._file)
            self._file.close()
            self._file = None
        if self._file is None:
            self._number += 1
            self._file = open_new_file(self._path())
            sync_to_disk(self._folder)
        return self._file

    def _reopen(self) -> None:
        """Forget what a failed write has left in the buffer and at the end of the file."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None
        try:
            self._open_last()
        except OSError:
            self._file = None  # the next call begins another file

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def check_content(content: Sequence[str]) -> tuple[str, ...]:
    """Return forms of content, if all are known.

    Raises
    ------
    ValueError
        If one is not known.
    """
    found = (content,) if isinstance(content, str) else tuple(content)
    if not set(found) <= set(_FORMS):
        raise ValueError(f"content must be some of {', '.join(_FORMS)}, got {list(found)}")
    return found


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _cut_last_line(file: BinaryIO) -> None:
    """Cut off what follows the last line feed of a file, and go to its end."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(end - _TAIL_BYTES, 0)
        file.seek(start)
        feed = file.read(end - start).rfind(b"\n")
        if feed >= 0:
            end = start + feed + 1
            break
        end = start
    file.truncate(end)
    file.seek(end)
