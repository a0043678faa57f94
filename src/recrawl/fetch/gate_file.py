"""The delays of hosts in a file, so that a restart keeps them."""

import os
from pathlib import Path
from typing import Final

from recrawl.atomic_files import replace_file
from recrawl.fetch.fetch_time import FetchTime
from recrawl.fetch.host_gate import HostGate
from recrawl.fetch.settings import FetchSettings

__all__ = ["GATE_FILE_BYTES_MIN", "GateFile"]

GATE_FILE_BYTES_MIN: Final = 1 << 20
"""Size below which the file is never written anew."""

_GROWTH_FACTOR: Final = 4


class GateFile:
    """Appends a line to a file for each change of a host's delay.

    Each line is written before its request is sent, so that it survives the end of the process at
    any moment.  It is not synced to the disk: after a power cut the last seconds may be missing.

    Parameters
    ----------
    path
        File to write; created if it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._gate: HostGate | None = None
        self._file = -1
        self._n_bytes = 0
        self._n_bytes_max = GATE_FILE_BYTES_MIN

    def open_gate(self, settings: FetchSettings, time: FetchTime) -> HostGate:
        """Return a gate with the delays of the file, which appends its changes to it.

        Parameters
        ----------
        settings
            Delays and limits.
        time
            Clock, and how to wait.
        """
        gate = HostGate(settings, time, self)
        if self._path.exists():
            gate.restore(self._path.read_bytes())
        self._gate = gate
        self._write_anew()
        return gate

    def append(self, line: bytes) -> None:
        """Write one line; now and then the whole file anew, without lines that no longer count."""
        if self._file < 0:
            return
        os.write(self._file, line)
        self._n_bytes += len(line)
        if self._n_bytes > self._n_bytes_max:
            self._write_anew()

    def close(self) -> None:
        """Close the file; lines are ignored from now on."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write_anew(self) -> None:
        self.close()
        lines = b"" if self._gate is None else self._gate.save()
        with replace_file(self._path) as file:
            file.write(lines)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._n_bytes = len(lines)
        self._n_bytes_max = max(GATE_FILE_BYTES_MIN, _GROWTH_FACTOR * len(lines))
