"""Where the snapshots of one partition are kept: a folder each, whole or not there at all.

A snapshot is written into a folder with a name that does not count, brought to disk, and renamed;
the rename is the moment from which it exists.  Removing goes the other way round.  So whatever is
cut off where, the snapshots there are those of before or those of after.

::

    snapshots/0/00000000000000012345/columns         what `Snapshot` of the shard emits
                                     manifest.json   what it says of itself
                                     ...             whatever else was put into the draft
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recrawl.errors import LedgerError, SnapshotError

__all__ = ["SavedSnapshot", "SnapshotDraft", "SnapshotFolder"]

_COLUMNS = "columns"
_MANIFEST = "manifest.json"
_SYNC_BYTES = 16 << 20
# Twice at one position, the second counts: a snapshot that turned out broken can be replaced.
_NAME = re.compile(r"(?P<position>\d{20})(?:\.(?P<edition>[1-9]\d*))?")
_TEMPORARY = "temporary-"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSnapshot:
    """One whole snapshot.

    Parameters
    ----------
    position
        Of the log: the snapshot holds what all records before it led to.
    folder
        Where it is.
    """

    position: int
    folder: Path

    def manifest(self) -> str:
        """Return what was committed with it."""
        with self._readable():
            return (self.folder / _MANIFEST).read_text(encoding="utf-8")

    def columns(self) -> NDArray[np.uint8]:
        """Return its bytes, mapped: they may be written to, which the file never sees."""
        with self._readable():
            path = self.folder / _COLUMNS
            if path.stat().st_size == 0:
                return np.zeros(0, np.uint8)  # nothing cannot be mapped
            return np.asarray(np.memmap(path, np.uint8, mode="c").view(np.ndarray))

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, UnicodeDecodeError) as error:
            raise SnapshotError(f"{self.folder} cannot be read: {error}") from error


class SnapshotDraft:
    """A snapshot being written; `SnapshotFolder.begin` makes it.

    As a context manager it is abandoned unless it has been committed.
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
        """Where to put what belongs to the snapshot beside its columns."""
        return self._folder

    @property
    def is_open(self) -> bool:
        """Whether it was neither committed nor abandoned."""
        return self._file is not None

    def write(self, offset: int, data: NDArray[np.uint8] | bytes) -> None:
        """Write some bytes of the columns where they belong, in any order."""
        file = self._open_file()
        view = np.frombuffer(data, np.uint8).data if len(data) else memoryview(b"")
        with self._writable():
            while view:
                n = os.pwrite(file, view, offset)
                offset, view = offset + n, view[n:]
                self._n_unsynced += n
            if self._n_unsynced >= _SYNC_BYTES:
                # Little by little: a sync of all at the end would hold up those of the log.
                os.fdatasync(file)
                self._n_unsynced = 0

    def commit(self, manifest: str) -> SavedSnapshot:
        """Bring everything to disk, make it count, and remove snapshots beyond those to keep.

        Takes as long as the disk needs and holds no lock of the interpreter meanwhile.
        """
        file = self._open_file()
        with self._writable():
            (self._folder / _MANIFEST).write_text(manifest, encoding="utf-8")
            _sync_tree(self._folder)
            saved = self._owner._adopt(self._position, self._folder)
        os.close(file)
        self._file = None
        return saved

    def abandon(self) -> None:
        """Drop what was written; nothing if it was committed or abandoned before."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "SnapshotDraft":
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def _open_file(self) -> int:
        if self._file is None:
            raise LedgerError(f"the snapshot at {self._position} is committed or abandoned already")
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

    One writer at a time; anybody may read `saved` meanwhile.

    Parameters
    ----------
    folder
        Made by the first snapshot.
    keep
        How many to keep: the last but one is there for when the last turns out broken.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self._folder = folder
        self._keep = keep
        self._draft: SnapshotDraft | None = None

    @property
    def keep(self) -> int:
        """How many are kept."""
        return self._keep

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self._folder

    def begin(self, position: int) -> SnapshotDraft:
        """Return a new snapshot to write, and remove what earlier writers left half done.

        Parameters
        ----------
        position
            Of the log; not below that of the newest snapshot, which would win over this one.
        """
        if self._draft is not None and self._draft.is_open:
            raise LedgerError("another snapshot is being written: commit or abandon it first")
        newest = max((saved.position for saved in self.saved()), default=0)
        if position < newest:
            raise ValueError(f"position must be at least {newest}, got {position}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob(f"{_TEMPORARY}*"):
                shutil.rmtree(left, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=self._folder))
            self._draft = SnapshotDraft(self, position, folder)
        except OSError as error:
            raise LedgerError(f"no snapshot can be written in {self._folder}: {error}") from error
        return self._draft

    def saved(self) -> list[SavedSnapshot]:
        """Return the snapshots there are, newest first."""
        editions = self._editions()
        last = {position: folder for position, _, folder in editions}
        return [
            SavedSnapshot(position=position, folder=folder)
            for position, folder in sorted(last.items(), reverse=True)
        ]

    def discard(self, snapshot: SavedSnapshot) -> None:
        """Remove a snapshot that turned out broken, so that it does not count among those kept."""
        for position, _, folder in self._editions():
            if position == snapshot.position:
                self._remove(folder)

    def _editions(self) -> list[tuple[int, int, Path]]:
        """Return position, edition and folder of all that counts, in this order."""
        try:
            names = [(_NAME.fullmatch(path.name), path) for path in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LedgerError(f"no snapshots can be found in {self._folder}: {error}") from error
        return sorted(
            (int(name["position"]), int(name["edition"] or 0), path) for name, path in names if name
        )

    def _adopt(self, position: int, draft: Path) -> SavedSnapshot:
        editions = [edition for at, edition, _ in self._editions() if at == position]
        name = f"{position:020d}" + (f".{max(editions) + 1}" if editions else "")
        folder = self._folder / name
        draft.chmod(0o755)  # temporary folders are for their owner alone; backups are not
        draft.rename(folder)
        _sync(self._folder)
        self._prune()
        return SavedSnapshot(position=position, folder=folder)

    def _prune(self) -> None:
        kept = {saved.folder for saved in self.saved()[: self._keep]}
        for _, _, folder in self._editions():
            if folder not in kept:
                self._remove(folder)

    def _remove(self, folder: Path) -> None:
        """Remove a snapshot: first its name, for good, then its files."""
        aside = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=self._folder))
        folder.rename(aside)  # takes the place of an empty folder
        _sync(self._folder)
        shutil.rmtree(aside, ignore_errors=True)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _sync_tree(folder: Path) -> None:
    """Bring all files below a folder to disk, and then the folders that name them."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            _sync(Path(parent) / name)
        _sync(Path(parent))
