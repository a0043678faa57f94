"""Recognise a log that has lost records: something else on disk is ahead of its end.

Under ``durability = "sync"`` a record is on disk before the store applies it and before a snapshot
contains it.  So a store or a snapshot that is ahead of the log means that the log was damaged: its
folder was deleted, it was copied without its newest files, or a file was truncated.

A store that was damaged in the same way is behind as well.  So a corpus also writes the ends of its
logs to a small file, whenever it is opened and closed.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from recrawl.atomic_files import replace_json
from recrawl.errors import LedgerError, LogDamagedError, RecoveryError, StorageError
from recrawl.ledger import RocksLog, SnapshotFolder
from recrawl.ledger.rocks import holds_log
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.corpus_format import parts_in
from recrawl.store import Store

__all__ = [
    "LOG_ENDS_FILE",
    "REPAIR_FILE",
    "LogEnds",
    "PartitionEnds",
    "check_log",
    "has_begun",
    "is_log_missing",
    "lost_records_error",
    "read_log_ends",
    "read_other_ends",
    "read_partition_ends",
    "refuse_unfinished_repair",
    "write_log_ends",
]

LOG_ENDS_FILE = "log-ends.json"
REPAIR_FILE = "repair.json"
"""File that exists while a repair is under way, and after one that was interrupted."""
_LAST_CONFIG_FILE = "last-config.json"


class LogEnds(NamedTuple):
    """The content of the file: where the logs of all partitions ended."""

    ends: tuple[int, ...]
    is_closed: bool
    """Whether a process wrote it as the last thing before it closed the corpus."""


def write_log_ends(folder: Path, ends: Sequence[int], *, is_closed: bool) -> None:
    """Record where the logs end, durably; the logs themselves must be on disk already."""
    # Without the file less damage is recognised, but nothing is lost: the disk may be full.
    with suppress(OSError):
        replace_json(folder / LOG_ENDS_FILE, {"ends": list(ends), "is_closed": is_closed})


def read_log_ends(folder: Path, n_partitions: int) -> LogEnds | None:
    """Return where the logs ended; None if that was not recorded or cannot be read."""
    try:
        content = json.loads((folder / LOG_ENDS_FILE).read_text(encoding="utf-8"))
        found = LogEnds(tuple(int(end) for end in content["ends"]), bool(content["is_closed"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if len(found.ends) == n_partitions else None


class PartitionEnds(NamedTuple):
    """The positions up to which the parts of one partition go."""

    partition: int
    first: int
    """Position of the first record in the log."""
    end: int
    """Position after the last record in the log."""
    store: int | None
    """Position of the store; None if it is absent or cannot be read."""
    snapshot: int | None
    """Position of the newest snapshot."""
    recorded: int | None
    """End of the log when the corpus was last opened or closed."""

    @property
    def newest(self) -> int:
        """The position that the log must reach at least."""
        return max(self.store or 0, self.snapshot or 0, self.recorded or 0)

    @property
    def has_lost_records(self) -> bool:
        """Whether something else on disk is ahead of the log."""
        return self.newest > self.end

    def __str__(self) -> str:
        found = []
        if (self.snapshot or 0) > self.end:
            found.append(f"a snapshot is at {self.snapshot:,}")
        if (self.store or 0) > self.end:
            found.append(f"the store is at {self.store:,}")
        if (self.recorded or 0) > self.end:
            found.append(f"the log went to {self.recorded:,} before")
        return f"the log of partition {self.partition} ends at {self.end:,}, but " + " and ".join(
            found
        )


def has_begun(folder: Path) -> bool:
    """Return whether a corpus has ever been opened, so that it must have a log."""
    files = (LOG_ENDS_FILE, _LAST_CONFIG_FILE)
    return any(part != "log" for part in parts_in(folder)) or any(
        (folder / name).exists() for name in files
    )


def is_log_missing(folder: Path) -> bool:
    """Return whether a corpus that must have a log in its folder has none."""
    return not (folder / "log" / "CURRENT").exists() and has_begun(folder)


def lost_records_error(folder: Path, what: str) -> LogDamagedError:
    """Return the error for a log in the folder that is damaged."""
    return LogDamagedError(
        f"{folder} is damaged: {what}. Nothing was changed. If you have a backup, restore the "
        f"whole folder. Otherwise run `recrawl doctor --repair -C {folder}`: it continues from the "
        "newest state that is left, and keeps the damaged files."
    )


def read_partition_ends(
    folder: Path, config: CorpusConfig, *, with_stores: bool = True
) -> list[PartitionEnds]:
    """Return the positions of all parts, without changing anything.

    Another process may write meanwhile: so everything else is read before the ends of the logs.

    Parameters
    ----------
    folder
        Folder of the corpus.
    config
        Configuration of the corpus.
    with_stores
        Whether to open the stores, too.

    Raises
    ------
    LogDamagedError
        If there is no log, or an empty one.
    StorageError, LedgerError
        If the log cannot be read.
    """
    others = read_other_ends(folder, config, with_stores=with_stores)
    if is_log_missing(folder):
        raise lost_records_error(folder, "its log is missing")
    try:
        log = RocksLog.open(folder / "log", len(others), mode="reader")
    except LedgerError:
        if has_begun(folder) and not holds_log(folder / "log"):
            raise lost_records_error(folder, "its log is empty") from None
        raise
    with log:
        return [
            other._replace(first=ledger.first, end=ledger.end)
            for other, ledger in zip(others, map(log.partition, range(len(others))), strict=True)
        ]


def read_other_ends(
    folder: Path, config: CorpusConfig, *, with_stores: bool = True
) -> list[PartitionEnds]:
    """Return the positions of all parts except the logs, which count as empty."""
    found = []
    recorded = read_log_ends(folder, config.corpus.partitions)
    for i in range(config.corpus.partitions):
        saved = SnapshotFolder(folder / "snapshots" / str(i)).list_saved()
        found.append(
            PartitionEnds(
                i,
                first=0,
                end=0,
                store=_store_position(folder / "store" / str(i)) if with_stores else None,
                snapshot=saved[0].position if saved else None,
                recorded=None if recorded is None else recorded.ends[i],
            )
        )
    return found


def refuse_unfinished_repair(folder: Path) -> None:
    """Raise `RecoveryError` if a repair of the corpus was interrupted."""
    if (folder / REPAIR_FILE).exists():
        raise RecoveryError(
            f"a repair of {folder} was interrupted, or is still under way. Run `recrawl doctor "
            f"--repair -C {folder}` to finish it."
        )


def _store_position(folder: Path) -> int | None:
    try:
        with Store.open(folder, mode="reader") as store:
            return store.position
    except StorageError:
        return None


def check_log(folder: Path, config: CorpusConfig) -> None:
    """Raise `LogDamagedError` if the log in the folder of a corpus has lost records.

    A writer calls this before it opens the log for writing, because that would remove files which
    could still be completed from a backup.
    """
    if config.ledger.kind != "rocksdb" or not has_begun(folder):
        return
    if is_log_missing(folder):
        raise lost_records_error(folder, "its log is missing")
    recorded = read_log_ends(folder, config.corpus.partitions)
    is_closed = recorded is not None and recorded.is_closed
    # A log that cannot be read at all is reported where it is opened.
    with suppress(StorageError, LedgerError, OSError):
        found = read_partition_ends(folder, config, with_stores=not is_closed)
        if recorded is not None and is_closed and recorded.ends != tuple(e.end for e in found):
            found = read_partition_ends(folder, config)
        if config.ledger.durability != "sync":
            # A power cut may take records that the store has applied, but not from a snapshot,
            # which waits until they are on disk.
            found = [one._replace(store=None, recorded=None) for one in found]
        if lost := [str(one) for one in found if one.has_lost_records]:
            raise lost_records_error(folder, "; ".join(lost))
