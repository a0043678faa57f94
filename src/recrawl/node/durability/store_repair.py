"""Rebuild a store with damaged blocks from a snapshot's copy that is intact, or from the log.

The copies in snapshots are hard links to the files of the store, so the same block may be bad in
all of them: each is read completely before it is used.
"""

import logging
import shutil
from pathlib import Path

from recrawl.atomic_files import sync_to_disk, sync_tree
from recrawl.errors import RecoveryError, SnapshotError, StorageError
from recrawl.kv import damage_mark, unmark_damaged
from recrawl.ledger import Ledger, SavedSnapshot, SnapshotFolder
from recrawl.node.durability.file_checks import check_database, check_snapshot

__all__ = ["CHECKPOINT", "is_intact", "rebuild_damaged_store", "replace_store"]

logger = logging.getLogger(__name__)

CHECKPOINT = "store"
"""Name of the copy of the store in the folder of a snapshot."""


def rebuild_damaged_store(
    store_folder: Path,
    ledger: Ledger,
    snapshots: SnapshotFolder,
    *,
    begins_with_snapshot: bool = False,
) -> bool:
    """Replace a store that is marked as damaged; keep its files as ``.broken``.

    Recovery then replays the log from the position of the replacement on.

    Parameters
    ----------
    store_folder
        Folder of the store.
    ledger, snapshots
        Log and snapshots of the same partition.
    begins_with_snapshot
        Whether the log alone is not the whole partition: its pages came from other partitions.

    Returns
    -------
    bool
        Whether the store was replaced.

    Raises
    ------
    RecoveryError
        If no copy is intact, and the log does not have everything.
    """
    what = damage_mark(store_folder)
    if what is None:
        return False
    first, end = ledger.first, ledger.end
    for saved in snapshots.list_saved():
        if first <= saved.position <= end and is_intact(saved):
            logger.warning(
                "store %s is damaged (%s): rebuilding it from %s", store_folder, what, saved.folder
            )
            replace_store(store_folder, saved.folder / CHECKPOINT)
            return True
    if first > 0 or begins_with_snapshot:
        lacks = f"begins at {first} instead of 0"
        if first == 0:
            lacks = "does not have the pages from before the number of partitions was changed"
        raise RecoveryError(
            f"the store {store_folder} is damaged ({what}), the copies of it in snapshots too, and "
            f"the log {lacks}. Run `recrawl doctor --repair --backup DEST` "
            "with the folder of your backups, or `recrawl restore`."
        )
    logger.warning("store %s is damaged (%s): rebuilding it from the whole log", store_folder, what)
    replace_store(store_folder, None)
    return True


def is_intact(saved: SavedSnapshot) -> bool:
    """Return whether all checksums of a snapshot, and of its copy of the store, are right."""
    try:
        for _ in check_snapshot(saved):
            pass
        for _ in check_database(saved.folder / CHECKPOINT):
            pass
    except (SnapshotError, StorageError) as error:
        logger.warning("snapshot %s is not used for a repair: %s", saved.folder, error)
        return False
    return True


def replace_store(store_folder: Path, copy: Path | None, *, keeps_old: bool = True) -> None:
    """Put a copy, or nothing, in the place of a store; keep the old files as ``.broken``.

    Parameters
    ----------
    store_folder
        Folder of the store.
    copy
        Folder with the files of the replacement; None for a store that will be created anew.
    keeps_old
        Whether to keep the old files.
    """
    draft = store_folder.with_name(store_folder.name + ".draft")
    shutil.rmtree(draft, ignore_errors=True)
    if copy is not None:
        # A copy that a power cut tears must not be taken for a store: it gets its name last.
        shutil.copytree(copy, draft)
        sync_tree(draft)
    if store_folder.exists():
        aside = store_folder.with_name(store_folder.name + ".broken")
        shutil.rmtree(aside, ignore_errors=True)
        store_folder.rename(aside)
    if copy is not None:
        draft.rename(store_folder)
    if store_folder.parent.exists():
        sync_to_disk(store_folder.parent)
    if not keeps_old:
        shutil.rmtree(store_folder.with_name(store_folder.name + ".broken"), ignore_errors=True)
    unmark_damaged(store_folder)
