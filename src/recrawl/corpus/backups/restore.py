"""Restore a corpus from a backup into an empty folder."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from recrawl.atomic_files import create_folder, drop_cached_pages, open_new_file, sync_to_disk
from recrawl.corpus.backups.backup_folder import BackedUpFile, BackupFolder, BackupList
from recrawl.errors import BackupError

__all__ = ["Restored", "check_is_empty", "remove_contents", "restore_corpus"]


class Restored(NamedTuple):
    """A corpus that was restored."""

    name: str
    """Name of the backup."""
    made_at_ms: int
    n_files: int
    n_bytes: int
    log_in: str
    """Where the log is: "rocksdb" if it was restored, "kafka" if it is in the topic."""


def restore_corpus(
    source: str | os.PathLike[str], folder: str | os.PathLike[str], *, name: str | None = None
) -> Restored:
    """Copy a backup into an empty folder, after checking all its files.

    Parameters
    ----------
    source
        Folder of the backups.
    folder
        Folder of the restored corpus; it must be empty or not exist.
    name
        Name of the backup; the newest by default.

    Raises
    ------
    BackupError
        If the folder is not empty, or a file of the backup is damaged; nothing is restored then.
    """
    backups, target = BackupFolder(Path(source).resolve()), Path(folder).resolve()
    backups.check_format()
    check_is_empty(target)
    listed = backups.read_list(_number_of(backups, name))
    for file in listed.files:
        problem = backups.problem_of(file)
        if problem is not None:
            raise BackupError(
                f"backup {listed.name} is damaged, so nothing was restored: {problem} "
                f"({file.path}). `recrawl backup --check {backups.folder}` lists the backups that "
                "are intact."
            )
    is_new = not target.exists()
    try:
        _install(backups, listed, target)
    except BaseException as error:
        remove_contents(target, is_new=is_new)
        if isinstance(error, OSError):
            raise BackupError(f"{target} cannot be written: {error}") from error
        raise
    return Restored(
        listed.name, listed.made_at_ms, len(listed.files), listed.n_bytes, listed.log_in
    )


def check_is_empty(target: Path) -> None:
    """Raise `BackupError` if a folder to restore into has files."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupError(
            f"{target} is not empty. Give an empty folder, or one that does not exist."
        )


def _number_of(backups: BackupFolder, name: str | None) -> int:
    if name is not None:
        if not (name.isascii() and name.isdecimal()):
            raise BackupError(f"name must be the number of a backup, such as 000012, got {name!r}")
        return int(name)
    numbers = backups.numbers()
    if not numbers:
        raise BackupError(f"{backups.folder} holds no backup yet")
    return numbers[0]


def _install(backups: BackupFolder, listed: BackupList, target: Path) -> None:
    """Copy all files; FORMAT comes last, because a folder without it is not a corpus."""
    create_folder(target)
    folders = {target}
    for path, file in sorted(_places(listed), key=lambda place: place[0] == "FORMAT"):
        copy = target / path
        if path == "FORMAT":
            _sync_folders(folders)
        copy.parent.mkdir(parents=True, exist_ok=True)
        folders.update(parent for parent in copy.parents if parent.is_relative_to(target))
        with backups.path_of(file).open("rb") as content, open_new_file(copy) as out:
            shutil.copyfileobj(content, out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())
            drop_cached_pages(out.fileno())
        problem = _problem_of_copy(copy, file)
        if problem is not None:
            raise BackupError(f"{copy} differs from the backup after copying: {problem}")
    _sync_folders(folders)
    sync_to_disk(target.parent)


def _places(listed: BackupList) -> list[tuple[str, BackedUpFile]]:
    """Return the path of each copy to make.

    If the backup has no store of a partition, the copy in its snapshot takes its place.
    """
    places = [(file.path, file) for file in listed.files]
    stores = {file.path.split("/")[1] for file in listed.files if file.path.startswith("store/")}
    for file in listed.files:
        parts = file.path.split("/")
        is_copy = len(parts) > 4 and parts[0] == "snapshots" and parts[3] == "store"
        if is_copy and parts[1] not in stores:
            places.append(("/".join(["store", parts[1], *parts[4:]]), file))
    return places


def _problem_of_copy(copy: Path, file: BackedUpFile) -> str | None:
    with copy.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return None if digest == file.sha256 else "the checksums do not match"


def _sync_folders(folders: set[Path]) -> None:
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        sync_to_disk(folder)


def remove_contents(target: Path, *, is_new: bool) -> None:
    """Remove what was restored so far, and the folder if it is new."""
    if is_new:
        shutil.rmtree(target, ignore_errors=True)
        return
    for path in target.iterdir() if target.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
