"""Estimate how much work a corpus in a folder is, from the sizes of its files.

Commands ask this before they decide how kernels run, so nothing here imports kernels or numba.
"""

import contextlib
import json
from pathlib import Path

from recrawl.node.durability.corpus_format import FORMAT_FILE, parts_in

__all__ = [
    "bytes_to_replay",
    "data_bytes",
    "has_parts_of_corpus",
    "is_corpus_folder",
    "is_log_remote",
]

# Files of RocksDB that hold data.
_DATA_SUFFIXES = (".sst", ".log", ".blob")
# No more of the log is read than this, as more takes long in any case.
_BYTES_READ_MAX = 10_000_000


def is_corpus_folder(folder: Path) -> bool:
    """Return whether a folder holds a corpus."""
    return (folder / FORMAT_FILE).is_file()


def has_parts_of_corpus(folder: Path) -> bool:
    """Return whether a folder has a log, a store or snapshots, also without a FORMAT file."""
    return bool(parts_in(folder))


def is_log_remote(folder: Path) -> bool:
    """Return whether the log of a corpus is outside its folder, on Kafka.

    False where there is no corpus, or its FORMAT file cannot be read: opening it says so.
    """
    try:
        shape = json.loads((folder / FORMAT_FILE).read_text())
        return bool(shape["ledger"] != "rocksdb")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def data_bytes(folder: Path) -> int:
    """Return the total size of the RocksDB data below a folder, in bytes."""
    return sum(_size(path) for path in folder.rglob("*") if path.suffix in _DATA_SUFFIXES)


def _size(path: Path) -> int:
    """Return a file's size; 0 if another process has just deleted it."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def bytes_to_replay(folder: Path) -> float:
    """Return the size of the log beyond each partition's newest snapshot, in bytes.

    At most about ten million per partition are counted.  Infinite where the corpus cannot be
    read; opening it says why.
    """
    from recrawl.errors import RecrawlError  # noqa: PLC0415
    from recrawl.ledger import RocksLog  # noqa: PLC0415

    n_bytes = 0
    try:
        n_partitions = int(json.loads((folder / FORMAT_FILE).read_text())["partitions"])
        with contextlib.closing(RocksLog.open(folder / "log", n_partitions, mode="reader")) as log:
            for i in range(n_partitions):
                saved = (folder / "snapshots" / str(i)).glob("*/manifest.json")
                position = max((int(path.parent.name) for path in saved), default=0)
                records = log.partition(i).read(position, n_bytes_max=_BYTES_READ_MAX)
                n_bytes += sum(len(record.data) for _, record in records)
    except (OSError, ValueError, KeyError, TypeError, RecrawlError):
        return float("inf")
    return n_bytes
