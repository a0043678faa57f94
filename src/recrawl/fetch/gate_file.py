"""The delays of hosts in a file, so that a restart keeps them."""

import json
import os
from pathlib import Path
from typing import Final

from recrawl.atomic_files import replace_file
from recrawl.fetch.fetch_time import FetchTime
from recrawl.fetch.host_gate import HostGate
from recrawl.fetch.settings import FetchSettings

__all__ = ["GATE_FILE_BYTES_MIN", "SYNCED_DELAY_MS", "GateFile"]

GATE_FILE_BYTES_MIN: Final = 1 << 20
"""Size below which the file is never written anew."""

SYNCED_DELAY_MS: Final = 60_000
"""Delay from which on a line is synced to the disk: what a host asked for outlives a power cut."""

_GROWTH_FACTOR: Final = 4
_SYNC_EVERY_MS: Final = 1_000
# macOS has only the other one.
_sync = getattr(os, "fdatasync", os.fsync)


class GateFile:
    """Appends a line to a file for each change of a host's delay.

    Each line is written before its request is sent, so that it survives the end of the process at
    any moment.  A power cut can lose the last seconds.  Short delays pass while the machine starts
    again, so only those of more than a minute are synced to the disk, at most once a second.

    Parameters
    ----------
    path
        File to write; created if it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._gate: HostGate | None = None
        self._time: FetchTime | None = None
        self._synced_at_ms = 0
        self._file = -1
        self._n_bytes = 0
        self._n_bytes_max = GATE_FILE_BYTES_MIN

    def open_gate(
        self, settings: FetchSettings, time: FetchTime, *, open_seconds: float = 0.0
    ) -> HostGate:
        """Return a gate with the delays of the file, which appends its changes to it.

        Parameters
        ----------
        settings
            Delays and limits.
        time
            Clock, and how to wait.
        open_seconds
            Time for which a request that had not ended may still be under way.
        """
        gate = HostGate(settings, time, self)
        if self._path.exists():
            gate.restore(self._path.read_bytes(), open_seconds=open_seconds)
        self._gate = gate
        self._time = time
        self._write_anew()
        return gate

    def append(self, line: bytes) -> None:
        """Write one line; now and then the whole file anew, without lines that no longer count."""
        if self._file < 0:
            return
        os.write(self._file, line)
        self._n_bytes += len(line)
        self._sync_long_delay(line)
        if self._n_bytes > self._n_bytes_max:
            self._write_anew()

    def close(self) -> None:
        """Close the file; lines are ignored from now on."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _sync_long_delay(self, line: bytes) -> None:
        assert self._time is not None
        now_ms = self._time.now_ms()
        if now_ms - self._synced_at_ms < _SYNC_EVERY_MS:
            return
        if json.loads(line)[1] - now_ms > SYNCED_DELAY_MS:
            _sync(self._file)
            self._synced_at_ms = now_ms

    def _write_anew(self) -> None:
        self.close()
        lines = b"" if self._gate is None else self._gate.save()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            with replace_file(self._path) as file:
                file.write(lines)
        except OSError:
            # The disk is full: go on with the old file, which has the same delays.
            self._file = os.open(self._path, flags, 0o666)
            self._n_bytes_max = max(GATE_FILE_BYTES_MIN, 2 * self._n_bytes)
            return
        self._file = os.open(self._path, flags, 0o666)
        self._n_bytes = len(lines)
        self._n_bytes_max = max(GATE_FILE_BYTES_MIN, _GROWTH_FACTOR * len(lines))
