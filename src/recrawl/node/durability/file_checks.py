"""Compare the checksums of files at rest: databases of RocksDB, and the columns of snapshots.

Nothing here interprets what it reads, so it loads no kernels, and reads every format.
"""

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from recrawl.atomic_files import drop_cached_pages
from recrawl.errors import SnapshotError, StorageError
from recrawl.kv import KeyValues, KvOptions
from recrawl.ledger import SavedSnapshot

__all__ = ["check_database", "check_snapshot"]

_PIECE_BYTES = 1 << 20
_ATTEMPTS_MAX = 3
# Without a cache every block is read from its file.
_OPTIONS = KvOptions(block_cache_bytes=0)


def check_database(folder: Path) -> Iterator[int]:
    """Read all blocks of a RocksDB database; yield how many bytes were read since.

    Another process, or this one, may have the database open for writing.

    Raises
    ------
    StorageError
        If a checksum does not match, or the database does not open.
    """
    _drop_from_memory(folder)
    start = b""
    for attempt in range(_ATTEMPTS_MAX):
        try:
            with KeyValues.open(folder, mode="reader", options=_OPTIONS) as values:
                for key, n_bytes in values.check_blocks(start):
                    start = key  # to continue there after an error
                    yield n_bytes
            return
        except StorageError:
            # A writer may have replaced files while they were opened; damage is found again.
            if attempt == _ATTEMPTS_MAX - 1:
                raise


def _drop_from_memory(folder: Path) -> None:
    """Ask the system to forget its copy of the sorted files, so that the disk is read."""
    for path in folder.glob("*.sst"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # merged into another file meanwhile
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error}") from error
        try:
            drop_cached_pages(descriptor)
        finally:
            os.close(descriptor)


def check_snapshot(saved: SavedSnapshot) -> Iterator[int]:
    """Compare the checksums of a snapshot's columns; yield how many bytes were read since.

    Raises
    ------
    SnapshotError
        If a checksum does not match, or a file cannot be read.
    """
    try:
        outer = json.loads(saved.manifest())
        text = outer["body"]
        if zlib.crc32(text.encode()) != outer["crc32"]:
            raise SnapshotError(f"the checksum of the manifest of {saved.folder} does not match")
        body = json.loads(text)
        columns = saved.columns()
        if columns.size < body["n_bytes"]:
            raise SnapshotError(
                f"{saved.folder} has {columns.size} bytes of columns instead of {body['n_bytes']}"
            )
        for table, places in body["tables"].items():
            for column, place in places.items():
                n_bytes = place["rows"] * np.dtype(place["type"]).itemsize
                crc = 0
                for first in range(place["offset"], place["offset"] + n_bytes, _PIECE_BYTES):
                    piece = columns[first : min(first + _PIECE_BYTES, place["offset"] + n_bytes)]
                    crc = zlib.crc32(piece.data, crc)
                    yield piece.size
                if crc != place["crc32"]:
                    raise SnapshotError(
                        f"the checksum of column {table}.{column} in {saved.folder} does not match"
                    )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotError(f"{saved.folder} cannot be read: {error}") from error
