"""Mistakes that a test of power cuts must find; the traced program makes one of them on request."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recrawl import atomic_files
from recrawl.kv import KeyValues
from recrawl.ledger import snapshots

__all__ = ["MUTANTS"]


def _sync_of_the_log_does_nothing() -> None:
    write = KeyValues.write

    def write_without_sync(self: KeyValues, *rows: Any, sync: bool = False, **rest: Any) -> None:
        write(self, *rows, **rest)

    KeyValues.write = write_without_sync  # type: ignore[method-assign]


def _no_sync_of_folders() -> None:
    """Leave out the sync of a folder after a rename in it, or after a new entry."""
    fsync = os.fsync

    def fsync_files_only(file: Any) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        if not Path(f"/proc/self/fd/{descriptor}").is_dir():
            fsync(descriptor)

    atomic_files.os.fsync = fsync_files_only  # type: ignore[attr-defined]


def _manifest_before_its_data() -> None:
    """Publish a snapshot, with its manifest, before its data is synced."""
    delayed: list[Path] = []

    def sync_later(folder: Path) -> None:
        delayed.append(folder)
        for path in (folder / "manifest.json", folder):
            atomic_files.sync_to_disk(path)

    publish = snapshots.SnapshotFolder._publish

    def publish_then_sync(self: Any, position: int, draft: Path) -> Any:
        saved = publish(self, position, draft)
        atomic_files.sync_tree(saved.folder)
        return saved

    snapshots.sync_tree = sync_later  # type: ignore[attr-defined]
    snapshots.SnapshotFolder._publish = publish_then_sync  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    "sync as a no-op": _sync_of_the_log_does_nothing,
    "rename without syncing the folder": _no_sync_of_folders,
    "manifest written before its data": _manifest_before_its_data,
}
