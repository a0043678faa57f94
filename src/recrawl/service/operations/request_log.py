"""The log of requests: one JSON object per line, written by a thread of its own."""

import json
import queue
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

__all__ = ["RequestLogFile"]

_LINES_MAX = 10_000
_STDERR = "-"


class RequestLogFile:
    """Writes a line for each request; if the disk cannot keep up, lines are left out.

    Parameters
    ----------
    path
        File to append to; ``-`` for standard error.
    """

    def __init__(self, path: str) -> None:
        # Line-buffered: a line is in the file as soon as it is written.
        self._file: TextIO = (
            sys.stderr if path == _STDERR else open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - closed by `close`
        )
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue(_LINES_MAX)
        self.n_left_out = 0
        """Number of lines that were not written."""
        self._thread = threading.Thread(target=self._run, name="recrawl-request-log", daemon=True)
        self._thread.start()

    def write(self, **fields: Any) -> None:
        """Write a line with the present time and some fields, without waiting."""
        try:
            self._lines.put_nowait(
                {"at": datetime.now(UTC).isoformat("T", "milliseconds")} | fields
            )
        except queue.Full:
            self.n_left_out += 1

    def _run(self) -> None:
        while (fields := self._lines.get()) is not None:
            try:
                self._file.write(json.dumps(fields, ensure_ascii=False) + "\n")
            except (OSError, ValueError):
                self.n_left_out += 1  # the disk is full, or standard error is closed

    def close(self) -> None:
        """Write the lines that wait, and close the file."""
        self._lines.put(None)
        self._thread.join()
        if self._file is not sys.stderr:
            with suppress(OSError):  # of a line that could not be written
                self._file.close()
