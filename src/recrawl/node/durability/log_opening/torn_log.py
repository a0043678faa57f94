"""Open a log that a power cut has torn.

A power cut may keep any part of what was written since the last sync: the second half of a write
without the first, or a later write without an earlier one.  The engine then finds a wrong checksum
before the end of its write-ahead log and refuses to open, as it does if an old part is damaged.

Nothing since the last sync was acknowledged, and nothing else on disk depends on it: a store, a
snapshot or a recorded end is never ahead of what is synced.  So the log may be cut at the wrong
checksum if it still reaches everything else afterwards.  This is tried on a copy first; a log that
has lost more is left as it is.
"""

import logging
import os
import shutil
import tempfile
from pathlib import Path

from recrawl.errors import LockedError, StorageError
from recrawl.ledger import RocksLog
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.log_damage import read_other_ends

__all__ = ["open_rocks_log"]

logger = logging.getLogger(__name__)

_COPY = ".log-copy-"
# Files of the engine that never change: a link is as good as a copy.
_UNCHANGING = ".sst"


def open_rocks_log(folder: Path, config: CorpusConfig, corpus_id: str | None) -> RocksLog:
    """Open the log in the folder of a corpus for writing; drop what a power cut has torn.

    Raises
    ------
    StorageError
        If the log is damaged where a power cut cannot have damaged it.
    """
    n_partitions, durability = config.corpus.partitions, config.ledger.durability
    log = folder / "log"
    try:
        return RocksLog.open(log, n_partitions, durability=durability, corpus_id=corpus_id)
    except LockedError:
        raise
    except StorageError as error:
        if "Corruption" not in str(error) or not _is_only_torn(folder, config):
            raise
        logger.info("the end of %s is dropped, which no call had returned for: %s", log, error)
    return RocksLog.open(
        log, n_partitions, durability=durability, corpus_id=corpus_id, torn_log="keep_prefix"
    )


def _is_only_torn(folder: Path, config: CorpusConfig) -> bool:
    """Return whether the log up to the wrong checksum reaches everything else on disk."""
    for abandoned in folder.glob(f"{_COPY}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    copy = Path(tempfile.mkdtemp(prefix=_COPY, dir=folder))
    try:
        _copy_log(folder / "log", copy)
        with RocksLog.open(copy, config.corpus.partitions, torn_log="keep_prefix") as log:
            ends = [log.partition(i).end for i in range(log.n_partitions)]
    except StorageError:
        return False
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    others = read_other_ends(folder, config)
    if config.ledger.durability != "sync":
        # Only a snapshot waits until the log is on disk.
        others = [other._replace(store=None, recorded=None) for other in others]
    return all(other.newest <= end for other, end in zip(others, ends, strict=True))


def _copy_log(log: Path, copy: Path) -> None:
    for path in log.iterdir():
        if path.suffix == _UNCHANGING:
            try:
                os.link(path, copy / path.name)
                continue
            except OSError:
                pass  # a file system without links
        if path.is_file() and path.name != "LOCK":
            shutil.copyfile(path, copy / path.name)
