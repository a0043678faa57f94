"""Rebuild a damaged store from a backup and the log, if nothing in the corpus itself suffices."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from recrawl.corpus.backups.backup_folder import BackedUpFile, BackupFolder, BackupList
from recrawl.corpus.doctor.check_results import CheckResult, ok
from recrawl.corpus.doctor.disk_checks import config_check, format_check
from recrawl.errors import BackupError, RecoveryError
from recrawl.kv import damage_mark
from recrawl.ledger import Ledger, SnapshotFolder
from recrawl.node.durability.corpus_format import logs_lack_pages
from recrawl.node.durability.log_opening.open_log import open_log
from recrawl.node.durability.store_repair import (
    CHECKPOINT,
    rebuild_damaged_store,
    replace_store,
)

__all__ = ["repair_from_backup"]


def repair_from_backup(folder: Path, backups: Path) -> Iterator[CheckResult]:
    """Rebuild every store that is marked as damaged; yield where each was rebuilt from.

    A copy in a snapshot of the corpus is used if one is intact.  Otherwise the newest snapshot in
    a backup from which the log continues is copied into the corpus.  No change is lost either way.
    The damaged files are kept.

    Parameters
    ----------
    folder
        Folder of the corpus.
    backups
        Folder of its backups.

    Raises
    ------
    LockedError
        If another process is using the corpus.
    BackupError
        If no backup can be used; nothing is changed then.
    """
    folder, source = folder.resolve(), BackupFolder(backups.resolve())
    source.check_format()
    shape, findings = format_check(folder)
    config = None
    if shape is not None:
        config, findings = config_check(folder, shape)
    if shape is None or config is None:
        yield from findings
        return
    stores = [folder / "store" / str(i) for i in range(shape.partitions)]
    if not any(damage_mark(store) for store in stores):
        yield ok("repair", "no store is known to be damaged; `recrawl doctor --scrub` looks for it")
        return
    begins_with_snapshot = logs_lack_pages(folder)
    with ExitStack() as closing:
        log = open_log(folder, config, corpus_id=shape.corpus_id)
        closing.callback(log.close)
        for i, store in enumerate(stores):
            if damage_mark(store) is None:
                continue
            snapshots = SnapshotFolder(folder / "snapshots" / str(i))
            ledger = log.partition(i)
            try:
                rebuild_damaged_store(
                    store, ledger, snapshots, begins_with_snapshot=begins_with_snapshot
                )
                yield ok(f"store {i}", "rebuilt from the corpus itself")
            except RecoveryError:
                listed = _usable_backup(source, shape.corpus_id, i, ledger)
                copied = _copy_snapshot(source, listed, i, snapshots)
                replace_store(store, copied / CHECKPOINT)
                yield ok(
                    f"store {i}",
                    f"rebuilt from backup {listed.name}; the damaged files are in {store}.broken",
                )


def _usable_backup(
    source: BackupFolder, corpus_id: str | None, i: int, ledger: Ledger
) -> BackupList:
    """Return the newest backup with an intact snapshot from which the log continues."""
    problems = []
    first, end = ledger.first, ledger.end
    for number in source.numbers():
        try:
            listed = source.read_list(number)
        except BackupError as error:
            problems.append(str(error))
            continue
        if None not in (listed.corpus, corpus_id) and listed.corpus != corpus_id:
            raise BackupError(f"{source.folder} holds backups of another corpus, {listed.corpus}")
        position = listed.positions[i] if i < len(listed.positions) else 0
        files = _files_of_snapshot(listed, i)
        if not files or not first <= position <= end:
            problems.append(f"backup {listed.name} is at {position}, the log has {first} to {end}")
            continue
        damaged = [problem for file in files if (problem := source.problem_of(file)) is not None]
        if not damaged:
            return listed
        problems += damaged
    raise BackupError(
        f"no backup in {source.folder} can be used to rebuild the store of partition {i}. "
        "`recrawl restore` restores the whole corpus, without what happened since. "
        + "; ".join(problems)
    )


def _files_of_snapshot(listed: BackupList, i: int) -> list[BackedUpFile]:
    return [file for file in listed.files if file.path.startswith(f"snapshots/{i}/")]


def _copy_snapshot(
    source: BackupFolder, listed: BackupList, i: int, snapshots: SnapshotFolder
) -> Path:
    """Copy the snapshot of a partition from a backup into the corpus; return its folder."""

    def copy_files(folder: Path) -> None:
        for file in _files_of_snapshot(listed, i):
            copy = folder.joinpath(*file.path.split("/")[3:])
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.path_of(file), copy)

    return snapshots.copy_in(listed.positions[i], copy_files)
