"""Replace the partitions of a corpus in its folder by others that were made beside them.

The new partitions are in ``next-layout``, complete once that folder has a FORMAT file: from then on
the change is decided, and whoever opens the corpus for writing finishes it.  Each part is moved
by renaming, and the FORMAT file of the corpus changes last; so the switch can be interrupted at any
moment, and begun again.
"""

import shutil
from pathlib import Path
from typing import Final

from recrawl.atomic_files import create_folder, hold_lock, sync_to_disk
from recrawl.errors import CorpusError
from recrawl.node.durability.corpus_format import FORMAT_FILE, read_format, write_format
from recrawl.node.durability.log_damage import LOG_ENDS_FILE

__all__ = ["NEXT_LAYOUT", "finish_switch", "has_next_layout"]

NEXT_LAYOUT: Final = "next-layout"
"""Folder of partitions that are being made."""
_LAST_LAYOUT: Final = "last-layout"
_LOCK: Final = "next-layout.lock"
_PARTS: Final = ("log", "store", "snapshots", "old-handles.npy")


def has_next_layout(folder: Path) -> bool:
    """Return whether a corpus has new partitions that are complete."""
    return (folder / NEXT_LAYOUT / FORMAT_FILE).exists()


def finish_switch(folder: Path) -> bool:
    """Put complete new partitions into the place of the old ones; return whether there were any.

    Parameters
    ----------
    folder
        Folder of the corpus, whose log no process has open.
    """
    if not has_next_layout(folder):
        return False
    with hold_lock(folder / _LOCK):
        if not has_next_layout(folder):
            return True  # another process was faster
        new, last = folder / NEXT_LAYOUT, folder / _LAST_LAYOUT
        format = read_format(new)
        if format is None:
            raise CorpusError(f"{new / FORMAT_FILE} cannot be read")
        create_folder(last)
        for name in _PARTS:
            if not (new / name).exists():
                continue  # it was moved before
            if (folder / name).exists():
                (folder / name).rename(last / name)
            (new / name).rename(folder / name)
            sync_to_disk(folder)
        (folder / LOG_ENDS_FILE).unlink(missing_ok=True)
        write_format(folder, format)
        shutil.rmtree(last, ignore_errors=True)
        (new / FORMAT_FILE).unlink()
        shutil.rmtree(new, ignore_errors=True)
    return True
