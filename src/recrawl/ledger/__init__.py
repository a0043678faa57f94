"""The durable log of events and the snapshots beside it; knows nothing of what events mean."""

from recrawl.ledger.contract import Ledger, Log, Record, Span
from recrawl.ledger.rocks import RocksLog
from recrawl.ledger.snapshots import SavedSnapshot, SnapshotDraft, SnapshotFolder

__all__ = [
    "Ledger",
    "Log",
    "Record",
    "RocksLog",
    "SavedSnapshot",
    "SnapshotDraft",
    "SnapshotFolder",
    "Span",
]
