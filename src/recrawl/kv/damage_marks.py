"""Marks beside folders whose files have a wrong checksum, so that the next opening can act on it.

The mark of the folder ``store/0`` is the file ``store/0.damaged``, which describes the damage.
"""

import logging
from pathlib import Path

from recrawl.atomic_files import replace_file, sync_to_disk

__all__ = ["damage_mark", "is_damage", "mark_damaged", "unmark_damaged"]

logger = logging.getLogger(__name__)

_SUFFIX = ".damaged"
# What the engine says of a wrong checksum, and the system of a block that the disk cannot read.
_SIGNS = ("Corruption:", "Input/output error")


def is_damage(message: str) -> bool:
    """Return whether a message of the engine is about damaged files."""
    return any(sign in message for sign in _SIGNS)


def mark_damaged(folder: Path, what: str) -> None:
    """Mark a folder as damaged.  Best effort: the caller reports the damage in any case."""
    if damage_mark(folder) is not None:
        return
    logger.error("%s is damaged: %s", folder, what)
    try:
        with replace_file(_mark_of(folder), is_durable=True) as file:
            file.write(what.encode())
    except OSError as error:
        logger.warning("the damage of %s cannot be noted: %s", folder, error)


def damage_mark(folder: Path) -> str | None:
    """Return the description in the mark of a folder, None if it has none."""
    try:
        return _mark_of(folder).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def unmark_damaged(folder: Path) -> None:
    """Remove the mark of a folder, durably."""
    mark = _mark_of(folder)
    if mark.exists():
        mark.unlink()
        sync_to_disk(mark.parent)


def _mark_of(folder: Path) -> Path:
    return folder.with_name(folder.name + _SUFFIX)
