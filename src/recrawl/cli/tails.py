"""How much of a corpus's log a reader has to go through, told before anything heavy is loaded.

A reader begins with the newest snapshot and applies what was logged since.  If that is little, it
is done by interpreted kernels before a compiler is loaded (`recrawl.kernel_mode`); if it is much,
compiled ones are worth their second.  Nothing here imports a kernel, so that there is still a
choice.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

from recrawl.errors import RecrawlError
from recrawl.ledger import RocksLog, SnapshotFolder

__all__ = ["SHORT_BYTES_MAX", "SHORT_RECORDS_MAX", "LogTail", "is_soon_read", "tail_of"]

# Interpreted, a record takes a third of a millisecond and a row of it 15 to 30 microseconds; rows
# have 7 bytes and more.  So these are half a second at most.
SHORT_RECORDS_MAX = 500
SHORT_BYTES_MAX = 96 << 10


class LogTail(NamedTuple):
    """What was logged since the newest snapshots of all partitions."""

    n_records: int
    n_bytes: int
    is_whole: bool
    """Whether it was looked at to its end."""


def tail_of(
    folder: str | os.PathLike[str],
    *,
    n_records_max: int = SHORT_RECORDS_MAX,
    n_bytes_max: int = SHORT_BYTES_MAX,
) -> LogTail | None:
    """Return how much was logged since the newest snapshots; None if that cannot be told here.

    It is not for a log on Kafka, nor where something is broken: opening the corpus says what.

    Parameters
    ----------
    folder
        Of the corpus.
    n_records_max, n_bytes_max
        Beyond which it is not looked any further.
    """
    root = Path(folder)
    try:
        shape = json.loads((root / "FORMAT").read_text())
        if shape["ledger"] != "rocksdb":
            return None
        n_records = n_bytes = 0
        with RocksLog.open(root / "log", mode="reader") as log:
            for i in range(int(shape["partitions"])):
                saved = SnapshotFolder(root / "snapshots" / str(i)).saved()
                ledger = log.partition(i)
                position = max(saved[0].position if saved else 0, ledger.first)
                n_records += ledger.end - position
                if n_records > n_records_max:
                    return LogTail(n_records, n_bytes, False)
                left = max(n_bytes_max - n_bytes, 0)
                found = ledger.read(position, n_bytes_max=left + 1)
                n_bytes += sum(len(record.data) for _, record in found)
                if n_bytes > n_bytes_max or position + len(found) < ledger.end:
                    return LogTail(n_records, n_bytes, False)
    except (RecrawlError, OSError, ValueError, KeyError, TypeError):
        return None
    return LogTail(n_records, n_bytes, True)


def is_soon_read(folder: str | os.PathLike[str]) -> bool:
    """Return whether interpreted kernels bring a reader to the end of the log in a moment."""
    tail = tail_of(folder)
    return tail is not None and tail.is_whole
