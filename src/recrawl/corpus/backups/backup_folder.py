"""The folder of backups: each file stored once by its content, and one list of files per backup.

::

    RECRAWL-BACKUP           marks the folder, and has its format
    files/ab/abcd…           a file, named by the SHA-256 of its content
    backups/000012.json      the files of one backup: path, size and SHA-256 of each
    lock                     locked by the process that changes the folder

A file is written under a temporary name, synced, read back and renamed.  The list of files is
written after all of them are on disk, and from then on the backup exists.  So an interruption at
any moment leaves the earlier backups as they were.  Files are removed only after the lists that
named them.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from recrawl.atomic_files import (
    create_folder,
    drop_cached_pages,
    open_new_file,
    replace_json,
    sync_to_disk,
)
from recrawl.errors import BackupError, LockedError

__all__ = ["BackedUpFile", "BackupFolder", "BackupList"]

FORMAT = 1
_MARK = "RECRAWL-BACKUP"
_FILES = "files"
_LISTS = "backups"
_LOCK = "lock"
_TEMPORARY = "temporary-"
_LIST_NAME = re.compile(r"(\d{6,})\.json")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_READ_BYTES = 1 << 20


class BackedUpFile(NamedTuple):
    """One file of a backup."""

    path: str
    """Path in the folder of the corpus, with slashes."""
    n_bytes: int
    sha256: str


class BackupList(NamedTuple):
    """One backup: its number, and the files that it consists of."""

    number: int
    made_at_ms: int
    corpus: str | None
    """Id of the corpus; None for a corpus that has none."""
    log_in: str
    """Where the log is: "rocksdb" if it is in the backup, "kafka" if it is in a topic."""
    positions: Sequence[int]
    """Position of the newest snapshot of each partition, 0 without a snapshot."""
    files: Sequence[BackedUpFile]

    @property
    def name(self) -> str:
        """Name of the backup."""
        return f"{self.number:06d}"

    @property
    def n_bytes(self) -> int:
        """Total size of the files."""
        return sum(file.n_bytes for file in self.files)


class BackupFolder:
    """A folder with the backups of one corpus.

    Parameters
    ----------
    folder
        Folder of the backups, outside the folder of the corpus.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self) -> None:
        """Create the folder, or check that an existing one is empty or holds backups."""
        mark = self.folder / _MARK
        if not mark.exists():
            if self.folder.is_dir() and any(self.folder.iterdir()):
                raise BackupError(
                    f"{self.folder} is not empty and holds no backups. Give an empty folder, or "
                    "one that does not exist yet."
                )
            create_folder(self.folder)
            replace_json(mark, {"format": FORMAT})
        self.check_format()
        for name in (_FILES, _LISTS):
            create_folder(self.folder / name)

    def check_format(self) -> None:
        """Raise `BackupError` unless the folder holds backups that this version can read."""
        try:
            version = int(json.loads((self.folder / _MARK).read_bytes())["format"])
        except FileNotFoundError as error:
            raise BackupError(f"{self.folder} holds no backups of recrawl") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BackupError(f"{self.folder / _MARK} cannot be read: {error}") from error
        if version > FORMAT:
            raise BackupError(
                f"{self.folder} has format {version}, and this version reads up to {FORMAT}; "
                "update recrawl"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from changing the folder; remove what interrupted ones left."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.folder / _LOCK, flags, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise LockedError(f"another backup to {self.folder} is running") from error
            for left in self.folder.glob(f"{_TEMPORARY}*"):
                shutil.rmtree(left, ignore_errors=True)
            yield
        finally:
            os.close(descriptor)  # also ends the lock

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Return a folder on the same disk that is removed at the end."""
        folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    # ------------------------------------------------------------------ files

    def path_of(self, file: BackedUpFile) -> Path:
        """Return where the content of a file is stored."""
        return self.folder / _FILES / file.sha256[:2] / file.sha256

    def add_file(
        self, path: str, descriptor: int, n_bytes: int, scratch: Path
    ) -> tuple[BackedUpFile, bool]:
        """Copy the first bytes of an open file, unless an intact copy exists.

        Parameters
        ----------
        path
            Path of the file in the corpus.
        descriptor
            Open file to read.
        n_bytes
            Number of bytes to read; the file may be longer.
        scratch
            Folder for the copy while it is written.

        Returns
        -------
        file
            Entry of the file for the list of the backup.
        is_new
            Whether the file was copied.
        """
        file = BackedUpFile(path, n_bytes, _digest_of(descriptor, n_bytes))
        target = self.path_of(file)
        if self.problem_of(file) is None:
            return file, False
        copy = scratch / file.sha256
        with open_new_file(copy) as out:
            offset = 0
            while offset < n_bytes:
                data = os.pread(descriptor, min(_READ_BYTES, n_bytes - offset), offset)
                if not data:
                    break
                out.write(data)
                offset += len(data)
            out.flush()
            os.fsync(out.fileno())
            # Otherwise the comparison below would read the memory that was just written.
            drop_cached_pages(out.fileno())
        if _digest_at(copy, n_bytes) != file.sha256:
            raise BackupError(
                f"the copy of {path} in {self.folder} differs from the file: one of the two disks "
                "or the memory is faulty"
            )
        target.parent.mkdir(exist_ok=True)
        copy.replace(target)
        sync_to_disk(target.parent)
        sync_to_disk(target.parent.parent)
        return file, True

    def problem_of(self, file: BackedUpFile) -> str | None:
        """Return what is wrong with the stored content of a file, None if it is intact."""
        path = self.path_of(file)
        try:
            n_bytes = path.stat().st_size
            if n_bytes != file.n_bytes:
                return f"{path} has {n_bytes} bytes instead of {file.n_bytes}"
            if _digest_at(path, n_bytes) != file.sha256:
                return f"the checksum of {path} does not match"
        except FileNotFoundError:
            return f"{path} is missing"
        except OSError as error:
            return f"{path} cannot be read: {error}"
        return None

    # ------------------------------------------------------------------ lists

    def numbers(self) -> list[int]:
        """Return the numbers of all backups, newest first."""
        try:
            names = [_LIST_NAME.fullmatch(path.name) for path in (self.folder / _LISTS).iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BackupError(
                f"the lists of the backups in {self.folder} cannot be read: {error}"
            ) from error
        return sorted((int(name[1]) for name in names if name), reverse=True)

    def read_list(self, number: int) -> BackupList:
        """Read the list of one backup.

        Raises
        ------
        BackupError
            If there is no such backup, or its list is damaged.
        """
        path = self._list_path(number)
        try:
            outer = json.loads(path.read_bytes())
            text = outer["body"]
            if hashlib.sha256(text.encode()).hexdigest() != outer["sha256"]:
                raise BackupError(
                    f"{path}, the list of files of backup {number:06d}, is damaged: its checksum "
                    "does not match. Other backups in the folder do not need it."
                )
            body = json.loads(text)
            files = [
                BackedUpFile(*(file[key] for key in BackedUpFile._fields))
                for file in body.pop("files")
            ]
            found = BackupList(**body, files=files)
        except FileNotFoundError as error:
            raise BackupError(f"{self.folder} has no backup {number:06d}") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackupError(
                f"{path}, the list of files of backup {number:06d}, cannot be read: {error}. "
                "Other backups in the folder do not need it."
            ) from error
        for file in found.files:
            _check_entry(path, file)
        return found

    def write_list(self, backup: BackupList) -> None:
        """Publish a backup whose files are all stored."""
        body: dict[str, Any] = {**backup._asdict(), "files": [f._asdict() for f in backup.files]}
        text = json.dumps(body, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()
        replace_json(self._list_path(backup.number), {"sha256": digest, "body": text})

    def prune(self, keep: int) -> int:
        """Remove all but the newest backups, and files that none of the others needs.

        Returns the number of backups removed.  No file is removed while the list of a backup that
        is kept cannot be read.
        """
        numbers = self.numbers()
        for number in numbers[keep:]:
            self._list_path(number).unlink()
        sync_to_disk(self.folder / _LISTS)
        try:
            needed = {file.sha256 for n in numbers[:keep] for file in self.read_list(n).files}
        except BackupError:
            return len(numbers[keep:])
        for path in (self.folder / _FILES).glob("*/*"):
            if path.name not in needed:
                path.unlink()
        return len(numbers[keep:])

    def _list_path(self, number: int) -> Path:
        return self.folder / _LISTS / f"{number:06d}.json"


def _check_entry(path: Path, file: BackedUpFile) -> None:
    """Raise unless an entry of a list is a path inside a corpus, and the name of a content."""
    parts = PurePosixPath(file.path).parts
    is_inside = parts and ".." not in parts and not file.path.startswith("/")
    if not is_inside or not _SHA256.fullmatch(file.sha256):
        raise BackupError(f"{path} has an invalid entry: {file.path!r}")


def _digest_of(descriptor: int, n_bytes: int) -> str:
    """Return the SHA-256 of the first bytes of an open file."""
    digest = hashlib.sha256()
    offset = 0
    while offset < n_bytes:
        data = os.pread(descriptor, min(_READ_BYTES, n_bytes - offset), offset)
        if not data:
            raise BackupError(f"a file ended after {offset} bytes instead of {n_bytes}")
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()


def _digest_at(path: Path, n_bytes: int) -> str:
    with path.open("rb", buffering=0) as file:
        return _digest_of(file.fileno(), n_bytes)
