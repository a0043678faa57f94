"""The table that shards find due times in, kept on disk: building it takes seconds.

It depends on nothing but the mathematics, so a file is good for as long as those sources are the
same.  It is a cache: if it cannot be read or written, the table is built.
"""

import contextlib
import hashlib
import logging
import os
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import recrawl.core
from recrawl.core.price.due_table import DueTable
from recrawl.shard.shard import built_due_table

__all__ = ["cache_folder", "kept_due_table"]

logger = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return where things are kept that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recrawl"


def _digest_of_the_mathematics() -> str:
    digest = hashlib.sha256(np.__version__.encode())
    for source in sorted(Path(recrawl.core.__path__[0]).rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:24]


def _read(path: Path) -> DueTable | None:
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            columns: dict[str, Any] = {name: arrays[name] for name in DueTable._fields}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        logger.warning("%s is not used: %s", path, error)
        return None
    for name in ("log2_target_min", "log2_target_step"):
        columns[name] = float(columns[name])
    return DueTable(**columns)


def _write(path: Path, table: DueTable) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as draft:
        try:
            parts: dict[str, Any] = table._asdict()
            np.savez(draft, **parts)
            draft.close()
            Path(draft.name).rename(path)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise


@cache
def kept_due_table() -> DueTable:
    """Return the table, from disk if it is there."""
    path = cache_folder() / f"due-table-{_digest_of_the_mathematics()}.npz"
    table = _read(path)
    if table is None:
        table = built_due_table()
        with contextlib.suppress(OSError):
            _write(path, table)
    return table
