"""The durable log of opaque records, and the folder of snapshots beside it."""

from recrawl.ledger.contract import AppendedSpan, Ledger, Log, Record
from recrawl.ledger.rocks import RocksLog
from recrawl.ledger.snapshots import SavedSnapshot, SnapshotDraft, SnapshotFolder

__all__ = [
    "AppendedSpan",
    "Ledger",
    "Log",
    "Record",
    "RocksLog",
    "SavedSnapshot",
    "SnapshotDraft",
    "SnapshotFolder",
]
