"""The durable log of opaque records, and the folder of snapshots beside it."""

from typing import TYPE_CHECKING

from recrawl.deprecated_names import find_moved_names
from recrawl.ledger.contract import (
    AppendedSpan,
    Ledger,
    Log,
    ParallelLedger,
    PendingAppend,
    Record,
    ReopenableLog,
)
from recrawl.ledger.rocks import RocksLog
from recrawl.ledger.snapshots import SavedSnapshot, SnapshotDraft, SnapshotFolder, SnapshotOrigin

__all__ = [
    "AppendedSpan",
    "Ledger",
    "Log",
    "ParallelLedger",
    "PendingAppend",
    "Record",
    "ReopenableLog",
    "RocksLog",
    "SavedSnapshot",
    "SnapshotDraft",
    "SnapshotFolder",
    "SnapshotOrigin",
]

# Names of recrawl 0.1.0.
_MOVED = {
    "Span": "recrawl.ledger.AppendedSpan",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
