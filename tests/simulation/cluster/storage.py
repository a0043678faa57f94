"""Shared storage in a folder, whose writes fail or store other bytes without saying so."""

import hashlib
import json
import secrets
from enum import Enum
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from pyarrow import fs

from recrawl.ledger import SnapshotOrigin
from recrawl.ledger.shared_snapshots import SharedSnapshot, SharedSnapshots
from tests.simulation.cluster.world import World

__all__ = ["FaultyStorage", "intact_positions"]

_FAULT_PROBABILITY: Final = 0.1


class _StorageFault(Enum):
    NO_CHUNKS = 1
    NO_MANIFEST = 2
    DAMAGED = 3


class FaultyStorage(SharedSnapshots):
    """Snapshots in shared storage that misbehaves.

    Parameters
    ----------
    folder
        Folder that all workers reach.
    origin
        Corpus and partition.
    world
        Time and chance.
    """

    def __init__(self, folder: Path, origin: SnapshotOrigin, world: World) -> None:
        super().__init__(fs.LocalFileSystem(), str(folder), origin)
        self._world = world
        self._fault: _StorageFault | None = None

    def publish(self, *args: Any, **kwargs: Any) -> SharedSnapshot:
        # Drawn once: how many files a store has depends on threads of the storage engine.
        self._fault = next(
            (fault for fault in _StorageFault if self._world.fault(_FAULT_PROBABILITY)), None
        )
        # Copies of one position are listed by the random part of their names.
        self._world.n_names += 1
        name = f"{self._world.n_names:016x}"
        try:
            with patch.object(secrets, "token_hex", lambda _: name):
                return super().publish(*args, **kwargs)
        finally:
            self._fault = None

    def _write(self, path: str, data: bytes) -> None:
        is_manifest = path.endswith(".json")
        if self._fault is _StorageFault.NO_MANIFEST and is_manifest:
            raise OSError("the storage is away")
        if self._fault is _StorageFault.NO_CHUNKS and not is_manifest:
            raise OSError("the storage is away")
        if self._fault is _StorageFault.DAMAGED and not is_manifest and not Path(path).exists():
            # Only the first file, which no later snapshot shares: how long others are shared
            # depends on threads of the storage engine.
            self._fault = None
            data = bytes([data[0] ^ 1]) + data[1:]
        super()._write(path, data)


def intact_positions(folder: Path, origin: SnapshotOrigin) -> list[int]:
    """Return the positions of the snapshots in shared storage whose bytes are right, in order."""
    corpus = folder / origin.corpus_id
    return sorted(
        int(path.name.partition("-")[0])
        for path in (corpus / str(origin.partition)).glob("*.json")
        if _is_intact(path, corpus)
    )


def _is_intact(path: Path, corpus: Path) -> bool:
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
        for file in manifest["files"]:
            for name in file["chunks"]:
                data = (corpus / "chunks" / name[:2] / name).read_bytes()
                if hashlib.blake2b(data, digest_size=32).hexdigest() != name:
                    return False
    except (OSError, ValueError, KeyError):
        return False
    return True
