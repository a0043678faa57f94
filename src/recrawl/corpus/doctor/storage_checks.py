"""Check the snapshots of a corpus in shared storage."""

from collections.abc import Iterator
from pathlib import Path

from recrawl.corpus.doctor.check_results import CheckResult, bad, ok, warn
from recrawl.errors import LedgerError, SnapshotError
from recrawl.node.clock import Clock
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.corpus_format import CorpusFormat
from recrawl.node.durability.log_opening.open_log import open_log
from recrawl.node.durability.shared_copies import SharedPartitions
from recrawl.units import count_text, seconds_text

__all__ = ["shared_snapshots_check"]

_CHECK = "shared snapshots"
# A copy is late after so many times the interval between snapshots, and at least this time.
_LATE_INTERVALS = 4.0
_LATE_SECONDS_MIN = 3600.0


def shared_snapshots_check(
    folder: Path, config: CorpusConfig, shape: CorpusFormat, clock: Clock
) -> Iterator[CheckResult]:
    """Check that shared storage can be read, and has recent snapshots of all partitions."""
    if config.snapshots.shared is None or shape.corpus_id is None:
        return
    shared = SharedPartitions(config.snapshots)
    log = open_log(folder, config, mode="reader", corpus_id=shape.corpus_id)
    n_behind = n_copies = 0
    oldest_seconds = 0.0
    try:
        for i in range(shape.partitions):
            copies = shared.of(shape.corpus_id, i)
            assert copies is not None
            listed, end = copies.list_complete(), log.partition(i).end
            n_copies += len(listed)
            if listed and listed[0].position >= end:
                continue
            seconds = (clock.wall_ms() - copies.time_of(listed[0])) / 1000 if listed else 0.0
            late_seconds = max(_LATE_INTERVALS * config.snapshots.every, _LATE_SECONDS_MIN)
            if seconds > late_seconds or (not listed and end >= config.snapshots.every_records):
                n_behind += 1
                oldest_seconds = max(oldest_seconds, seconds)
    except (LedgerError, SnapshotError) as error:
        todo = "Correct snapshots.shared, or wait for the storage; the log grows meanwhile."
        yield bad(_CHECK, str(error), todo)
        return
    finally:
        log.close()
    if n_behind:
        age = f"up to {seconds_text(oldest_seconds)} old" if oldest_seconds else "missing"
        what = f"the newest one of {count_text(n_behind, 'partition')} is {age}"
        todo = "Look for warnings in the logs of the workers; the log of these partitions grows."
        yield warn(_CHECK, what, todo)
    else:
        yield ok(_CHECK, f"{n_copies:,} of {count_text(shape.partitions, 'partition')}")
