"""The snapshots of one partition: a folder each, complete or absent.

A snapshot is written into a folder with a temporary name, synced to disk, and renamed; from the
rename on it exists.  A removal renames first and then deletes.  So a crash at any moment leaves
either the snapshots from before or those from after.

::

    snapshots/0/00000000000000012345/columns         the columns of the shard
                                     manifest.json   the description of the columns
                                     corpus.json     the id of the corpus, and the partition
                                     ...             any other files of the draft
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.atomic_files import create_folder, sync_to_disk, sync_tree
from recrawl.errors import LedgerError, SnapshotError

if TYPE_CHECKING:
    from recrawl.ledger.shared_snapshots import SharedSnapshots

__all__ = ["SavedSnapshot", "SnapshotDraft", "SnapshotFolder", "SnapshotOrigin"]

_COLUMNS = "columns"
_MANIFEST = "manifest.json"
_CORPUS = "corpus.json"
_SYNC_BYTES = 4 << 20
# A second snapshot of one position replaces the first, which may have turned out corrupt.
_NAME = re.compile(r"(?P<position>\d{20})(?:\.(?P<edition>[1-9]\d*))?")
_TEMPORARY = "temporary-"


class SnapshotOrigin(NamedTuple):
    """The corpus and the partition that a snapshot was taken of."""

    corpus_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSnapshot:
    """One complete snapshot.

    Parameters
    ----------
    position
        Position of the log: the snapshot is the state after all records before it.
    folder
        Folder of the snapshot's files.
    """

    position: int
    folder: Path

    def manifest(self) -> str:
        """Return the manifest that was committed with the snapshot."""
        with self._readable():
            return (self.folder / _MANIFEST).read_text(encoding="utf-8")

    def origin(self) -> SnapshotOrigin | None:
        """Return what the snapshot was taken of; None if 0.1.0 wrote it."""
        try:
            about = json.loads((self.folder / _CORPUS).read_text(encoding="utf-8"))
            return SnapshotOrigin(str(about["id"]), int(about["partition"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SnapshotError(f"{self.folder / _CORPUS} cannot be read: {error}") from error

    def columns(self) -> NDArray[np.uint8]:
        """Return the columns, memory-mapped; writing to them does not change the file."""
        with self._readable():
            path = self.folder / _COLUMNS
            if path.stat().st_size == 0:
                return np.zeros(0, np.uint8)  # an empty file cannot be mapped
            return np.asarray(np.memmap(path, np.uint8, mode="c").view(np.ndarray))

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, UnicodeDecodeError) as error:
            raise SnapshotError(f"{self.folder} cannot be read: {error}") from error


class SnapshotDraft:
    """A snapshot being written; `SnapshotFolder.begin` creates it.

    Used as a context manager, it is abandoned at the end unless it has been committed.
    """

    def __init__(self, owner: "SnapshotFolder", position: int, folder: Path) -> None:
        self._owner = owner
        self._position = position
        self._folder = folder
        self._n_unsynced = 0
        self._file: int | None = os.open(
            folder / _COLUMNS, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644
        )

    @property
    def folder(self) -> Path:
        """Folder for further files of the snapshot."""
        return self._folder

    @property
    def is_open(self) -> bool:
        """Whether the draft has been neither committed nor abandoned."""
        return self._file is not None

    def write(self, offset: int, data: NDArray[np.uint8] | bytes) -> None:
        """Write bytes of the columns at an offset; pieces may come in any order."""
        file = self._require_open()
        view = np.frombuffer(data, np.uint8).data if len(data) else memoryview(b"")
        with self._writable():
            while view:
                n = os.pwrite(file, view, offset)
                offset, view = offset + n, view[n:]
                self._n_unsynced += n
            if self._n_unsynced >= _SYNC_BYTES:
                # Sync in small steps: one large sync at the end would delay the log's syncs.
                os.fdatasync(file)
                self._n_unsynced = 0

    def commit(self, manifest: str) -> SavedSnapshot:
        """Sync all files, publish the snapshot, and remove the oldest snapshots beyond the limit.

        It waits for the disk, and does not hold the interpreter's lock meanwhile.
        """
        file = self._require_open()
        with self._writable():
            (self._folder / _MANIFEST).write_text(manifest, encoding="utf-8")
            if self._owner.origin is not None:
                corpus_id, partition = self._owner.origin
                about = json.dumps({"id": corpus_id, "partition": partition})
                (self._folder / _CORPUS).write_text(about, encoding="utf-8")
            sync_tree(self._folder)
            saved = self._owner._publish(self._position, self._folder)
        os.close(file)
        self._file = None
        return saved

    def abandon(self) -> None:
        """Delete the draft; does nothing if it has been committed or abandoned."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "SnapshotDraft":
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def _require_open(self) -> int:
        if self._file is None:
            raise LedgerError(f"the snapshot at {self._position} is already committed or abandoned")
        return self._file

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.abandon()
            raise LedgerError(
                f"the snapshot at {self._position} cannot be written: {error}"
            ) from error


class SnapshotFolder:
    """The snapshots of one partition.

    One writer at a time; other processes may call `list_saved` meanwhile.

    Parameters
    ----------
    folder
        Folder of all snapshots; the first snapshot creates it.
    keep
        Number of snapshots to keep; an older one is the fallback if the newest is corrupt.
    origin
        Corpus and partition to record in new snapshots; None to record nothing.
    shared
        Snapshots of the same partition in storage that other machines reach; None if there are
        none.
    """

    def __init__(
        self,
        folder: Path,
        keep: int = 2,
        *,
        origin: SnapshotOrigin | None = None,
        shared: "SharedSnapshots | None" = None,
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self._folder = folder
        self._keep = keep
        self._origin = origin
        self.shared = shared
        self._draft: SnapshotDraft | None = None

    @property
    def keep(self) -> int:
        """Number of snapshots that are kept."""
        return self._keep

    @property
    def origin(self) -> SnapshotOrigin | None:
        """Corpus and partition that new snapshots record."""
        return self._origin

    @property
    def folder(self) -> Path:
        """Folder of all snapshots."""
        return self._folder

    def begin(self, position: int) -> SnapshotDraft:
        """Start a new snapshot, and remove incomplete ones of earlier writers.

        Parameters
        ----------
        position
            Position of the log, at least that of the newest snapshot, which would hide this one.
        """
        if self._draft is not None and self._draft.is_open:
            raise LedgerError("another snapshot is being written; commit or abandon it first")
        newest = max((saved.position for saved in self.list_saved()), default=0)
        if position < newest:
            raise ValueError(f"position must be at least {newest}, got {position}")
        try:
            # All snapshots of a partition must not vanish with the entry of their folder.
            create_folder(self._folder)
            for incomplete in self._folder.glob(f"{_TEMPORARY}*"):
                shutil.rmtree(incomplete, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=self._folder))
            self._draft = SnapshotDraft(self, position, folder)
        except OSError as error:
            raise LedgerError(f"no snapshot can be written in {self._folder}: {error}") from error
        return self._draft

    def list_saved(self) -> list[SavedSnapshot]:
        """Return the complete snapshots, newest first."""
        editions = self._editions()
        last = {position: folder for position, _, folder in editions}
        return [
            SavedSnapshot(position=position, folder=folder)
            for position, folder in sorted(last.items(), reverse=True)
        ]

    def discard(self, snapshot: SavedSnapshot) -> None:
        """Remove a corrupt snapshot, so that it does not count among the snapshots to keep."""
        for position, _, folder in self._editions():
            if position == snapshot.position:
                self._remove(folder)

    def _editions(self) -> list[tuple[int, int, Path]]:
        """Return position, edition and folder of every snapshot, sorted."""
        try:
            names = [(_NAME.fullmatch(path.name), path) for path in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LedgerError(f"no snapshots can be found in {self._folder}: {error}") from error
        return sorted(
            (int(name["position"]), int(name["edition"] or 0), path) for name, path in names if name
        )

    def _adopt(self, position: int, draft: Path) -> Path:
        """Add the complete, synced folder of a snapshot, and remove none; return where it is."""
        editions = [edition for at, edition, _ in self._editions() if at == position]
        name = f"{position:020d}" + (f".{max(editions) + 1}" if editions else "")
        folder = self._folder / name
        draft.chmod(0o755)  # mkdtemp allows only the owner; a backup may run as another user
        draft.rename(folder)
        sync_to_disk(self._folder)
        return folder

    def copy_in(self, position: int, write_files: Callable[[Path], None]) -> Path:
        """Add a snapshot that is stored elsewhere, and remove none; return where it is.

        After an error the folder is as it was.

        Parameters
        ----------
        position
            Position of the log, as of the snapshot.
        write_files
            Function that writes the files of the snapshot into the folder it is given.
        """
        create_folder(self._folder)
        draft = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=self._folder))
        try:
            write_files(draft)
            sync_tree(draft)
            return self._adopt(position, draft)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def _publish(self, position: int, draft: Path) -> SavedSnapshot:
        folder = self._adopt(position, draft)
        self._prune()
        return SavedSnapshot(position=position, folder=folder)

    def _prune(self) -> None:
        kept = {saved.folder for saved in self.list_saved()[: self._keep]}
        for _, _, folder in self._editions():
            if folder not in kept:
                self._remove(folder)

    def _remove(self, folder: Path) -> None:
        """Remove a snapshot: rename it durably, then delete its files."""
        aside = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=self._folder))
        folder.rename(aside)  # replaces the empty folder
        sync_to_disk(self._folder)
        shutil.rmtree(aside, ignore_errors=True)
