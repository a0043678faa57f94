"""Continue a corpus whose log has lost records, and keep the damaged files.

For each damaged partition the repair takes the newest state that is left: the newest snapshot, or
what the log still has if that goes further.  It builds a new log, store and snapshot from that
state in a draft folder, writes down what it is about to move, moves the damaged parts into a dated
folder inside the corpus, and puts the new ones in their places.  If it is killed before the list is
written, nothing has changed; if it is killed later, the next repair finishes the moves.

The old store is often newer than the state.  So at the end, pages that only the old store has are
added again, and pages that it no longer has are removed.

Positions of the new log begin after all old ones, and order numbers after all that may have been
given out: so no cursor and no late report of before is taken for another one.
"""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.atomic_files import create_folder, replace_json, sync_to_disk, sync_tree
from recrawl.corpus.doctor.check_results import CheckResult, bad, ok, warn
from recrawl.corpus.doctor.disk_checks import (
    Shape,
    access_problem,
    config_check,
    format_check,
    process_using,
)
from recrawl.corpus.opening import open_folder
from recrawl.errors import (
    EventError,
    LedgerError,
    LockedError,
    LogDamagedError,
    RecoveryError,
    StorageError,
)
from recrawl.folder_lock import IN_USE_FILE, FolderLock
from recrawl.ledger import Ledger, Log, RocksLog, SnapshotFolder, SnapshotOrigin
from recrawl.node.clock import Clock, SystemClock
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.corpus_format import CorpusFormat, read_format
from recrawl.node.durability.log_damage import (
    REPAIR_FILE,
    PartitionEnds,
    read_other_ends,
    read_partition_ends,
)
from recrawl.node.durability.log_opening.open_log import open_log
from recrawl.node.durability.recovery import (
    CHECKPOINT,
    identity_entry,
    initial_shard,
    restore_shard,
)
from recrawl.node.durability.shared_copies import SharedPartitions
from recrawl.node.durability.snapshotter import take_snapshot
from recrawl.node.node import Node, apply_entry
from recrawl.node.records import entry_of, record_of
from recrawl.node.shipped_due_table import shipped_due_table
from recrawl.shard import LeasesReleased, PagesRemoved, Shard, event_of
from recrawl.shard.events import page_of, slot_of_page
from recrawl.store import Store
from recrawl.units import count_text

__all__ = ["repair_corpus"]

_DRAFT = "repair-draft"
_ROWS_AT_ONCE = 16_384
# More orders than any partition can have given out since its newest snapshot.
_ORDERS_SKIPPED = 1 << 32
_LOST = (
    "Report outcomes and signals of that time again, by URL, and repeat settings that you changed. "
    "Orders of before are void; their pages are leased again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a repair moves, written to disk before anything moves."""

    aside: str
    """Folder inside the corpus for the damaged parts."""
    parts: tuple[str, ...]
    """Parts to move there, as paths inside the corpus."""
    positions: dict[str, int]
    """Position of the state from which each damaged partition continues."""
    results: tuple[tuple[str, str, str], ...]
    """What to report: the name, what was found, what to do."""
    is_moved: bool = False
    """Whether all parts are in their places."""


def repair_corpus(folder: Path, *, clock: Clock | None = None) -> Iterator[CheckResult]:
    """Repair a corpus whose log or snapshots are lost or damaged; yield what was kept and lost.

    Nothing is deleted: the damaged files are kept in a folder inside the corpus.  A corpus without
    such damage stays unchanged.

    Parameters
    ----------
    folder
        Folder of the corpus.
    clock
        Time source; the system clock by default.

    Raises
    ------
    LockedError
        If another process is using or repairing the corpus.
    RecoveryError
        If the log is on Kafka, and the topic and the snapshots are not enough to continue.
    """
    clock = clock or SystemClock()
    folder = folder.resolve()
    shape, findings = format_check(folder)
    if shape is None:
        yield from findings
        return
    config, findings = config_check(folder, shape)
    if config is None:
        yield from findings
        return
    problem = access_problem(folder)
    if problem is not None:
        # Files that cannot be read are not lost: a repair would put an intact log aside.
        todo = "Correct the permissions, or run this as their owner.  Nothing was changed."
        yield bad("repair", problem, todo)
        return
    with _repair_lock(folder):
        with _use_of_folder(folder, config):
            plan = _read_plan(folder)
            if plan is None:
                plan = _make_plan(folder, config, shape, clock)
                if plan is None:
                    what = "no log has lost records, so there is nothing to repair in the logs"
                    yield ok("repair", what)
                    return
                _write_plan(folder, plan)
            else:
                yield ok("repair", "finishing the repair that was interrupted")
            if not plan.is_moved:
                _move_parts(folder, plan)
                plan = replace(plan, is_moved=True)
                _write_plan(folder, plan)
            _remove_shared_ahead(config, shape, plan)
        for name, what, todo in plan.results:
            yield warn(name, what, todo) if todo else ok(name, what)
        yield from _restore_pages(folder, plan, clock)
        shutil.rmtree(folder / _DRAFT, ignore_errors=True)
        (folder / REPAIR_FILE).unlink()
        sync_to_disk(folder)
        kept = folder / plan.aside
        yield ok("damaged files", f"kept in {kept}; delete them when you no longer need them")


@contextmanager
def _repair_lock(folder: Path) -> Iterator[None]:
    """Keep other repairs away, and refuse a corpus that is in use."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LockedError(f"{folder} is being repaired by another process") from error
        own = folder / IN_USE_FILE, folder / "log" / "LOCK"
        for lock in (*own, *(folder / "store").glob("*/LOCK")):
            pid = process_using(lock)
            if pid is not None:
                raise LockedError(f"process {pid} is using {folder}; end it before the repair")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _use_of_folder(folder: Path, config: CorpusConfig) -> Iterator[None]:
    """Keep others from opening a corpus on Kafka until all can see that it is being repaired."""
    lock = FolderLock.take(folder) if config.ledger.kind == "kafka" else None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _read_plan(folder: Path) -> _Plan | None:
    path = folder / REPAIR_FILE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RecoveryError(f"{path} cannot be read: {error}") from error
    values["parts"] = tuple(values["parts"])
    values["results"] = tuple((name, what, todo) for name, what, todo in values["results"])
    return _Plan(**values)


def _write_plan(folder: Path, plan: _Plan) -> None:
    replace_json(folder / REPAIR_FILE, asdict(plan))


def _aside_name(folder: Path, clock: Clock) -> str:
    """Return the name of a new folder for damaged files, with the date."""
    at = datetime.fromtimestamp(clock.wall_ms() / 1000, UTC)
    name = f"damaged-{at:%Y-%m-%dT%H-%M-%SZ}"
    names = [name, *(f"{name}-{i}" for i in range(2, 1000))]
    return next(name for name in names if not (folder / name).exists())


def _make_plan(folder: Path, config: CorpusConfig, shape: Shape, clock: Clock) -> _Plan | None:
    """Find the damage, and build the new parts as a draft; None if nothing is damaged."""
    shutil.rmtree(folder / _DRAFT, ignore_errors=True)
    if config.ledger.kind == "kafka":
        return _plan_on_kafka(folder, config, shape, clock)
    about = read_format(folder)
    assert about is not None
    with ExitStack() as closing:
        log: Log | None = None
        try:
            ends = read_partition_ends(folder, config)
            log = closing.enter_context(
                RocksLog.open(
                    folder / "log",
                    config.corpus.partitions,
                    mode="reader",
                    corpus_id=shape.corpus_id,
                )
            )
        except LogDamagedError:
            ends = read_other_ends(folder, config)
        except StorageError as error:
            if type(error) is not StorageError:
                raise  # of a newer version, but not corrupt
            ends = read_other_ends(folder, config)
        damaged = [
            one
            for one in ends
            if log is None
            or one.has_lost_records
            or _has_gaps(log.partition(one.partition))
            or _has_no_start(folder, log.partition(one.partition), one.partition, about)
        ]
        if not damaged:
            return None
        return _build_draft(folder, config, clock, about, log, ends, damaged)


def _has_gaps(ledger: Ledger) -> bool:
    """Return whether some records of a log cannot be read."""
    position, end = ledger.first, ledger.end
    try:
        while position < end:
            position = ledger.read(position)[-1][0] + 1
    except (LedgerError, StorageError):
        return True
    return False


def _is_whole_log(ledger: Ledger, about: CorpusFormat) -> bool:
    """Return whether a log has everything: not if it begins with pages of other partitions."""
    return ledger.first == 0 and not about.logs_lack_pages


def _has_no_start(folder: Path, ledger: Ledger, i: int, about: CorpusFormat) -> bool:
    """Return whether a log does not have everything, and no snapshot leads up to it."""
    first, end = ledger.first, ledger.end
    return not _is_whole_log(ledger, about) and not any(
        first <= saved.position <= end and restore_shard(saved, is_reader=True) is not None
        for saved in SnapshotFolder(folder / "snapshots" / str(i)).list_saved()
    )


# ---------------------------------------------------------------------------- the new parts


def _build_draft(
    folder: Path,
    config: CorpusConfig,
    clock: Clock,
    about: CorpusFormat,
    log: Log | None,
    ends: list[PartitionEnds],
    damaged: list[PartitionEnds],
) -> _Plan:
    """Build a new log, and a new store and snapshot of each damaged partition."""
    draft = folder / _DRAFT
    create_folder(draft)
    results: list[tuple[str, str, str]] = []
    positions: dict[str, int] = {}
    parts = ["log"]
    numbers = [one.partition for one in damaged]
    with RocksLog.open(draft / "log", len(ends), corpus_id=about.corpus_id) as new_log:
        for one in ends:
            ledger = None if log is None else log.partition(one.partition)
            if one.partition not in numbers:
                assert ledger is not None
                _copy_records(ledger, new_log, one.partition)
                continue
            state = _newest_state(folder, config, about, ledger, one)
            end = _build_partition(folder, config, about, new_log, one, state)
            positions[str(one.partition)] = state.position
            parts += [f"store/{one.partition}", f"snapshots/{one.partition}"]
            results += _state_results(one, state, end)
    sync_tree(draft)
    return _Plan(
        aside=_aside_name(folder, clock),
        parts=tuple(parts),
        positions=positions,
        results=tuple(results),
    )


class _State(NamedTuple):
    """The newest state of a partition that is left, and where it comes from."""

    shard: Shard
    position: int
    source: str
    checkpoint: Path | None
    """Copy of the store in the snapshot that the state comes from."""


def _newest_state(
    folder: Path,
    config: CorpusConfig,
    about: CorpusFormat,
    ledger: Ledger | None,
    ends: PartitionEnds,
) -> _State:
    """Return the state of the newest usable snapshot, followed by the log as far as it goes."""
    first, end = (ledger.first, ledger.end) if ledger is not None else (0, 0)
    state = None
    for saved in SnapshotFolder(folder / "snapshots" / str(ends.partition)).list_saved():
        shard = restore_shard(saved, is_reader=False)
        if shard is not None:
            name = f"the snapshot at {saved.position:,}"
            state = _State(shard, saved.position, name, saved.folder / CHECKPOINT)
            break
    if ledger is None or (state is not None and not first <= state.position < end):
        empty = Shard(config.shard_settings(), due_table=shipped_due_table())
        return state or _State(empty, 0, "an empty state", None)
    if state is None:
        if not _is_whole_log(ledger, about):
            empty = Shard(config.shard_settings(), due_table=shipped_due_table())
            return _State(empty, 0, "an empty state", None)
        state = _State(initial_shard(ledger), 0, "the log", None)
    position = _replay_readable(ledger, state.shard, state.position)
    source = f"{state.source} and the log up to {position:,}"
    return state._replace(position=position, source=source.replace("the log and ", ""))


def _replay_readable(ledger: Ledger, shard: Shard, position: int) -> int:
    """Apply the records of a log as far as they can be read; return the position after them."""
    try:
        while found := ledger.read(position):
            for at, record in found:
                apply_entry(shard, entry_of(record))
                position = at + 1
    except (LedgerError, StorageError, EventError, ValueError):
        pass
    return position


def _copy_records(ledger: Ledger, new_log: RocksLog, i: int) -> None:
    """Copy the log of a partition that is not damaged."""
    new, position = new_log.partition(i), ledger.first
    if position > 0:
        new.begin_at(position)
    while found := ledger.read(position):
        new.append([record for _, record in found])
        position = found[-1][0] + 1


def _build_partition(
    folder: Path,
    config: CorpusConfig,
    about: CorpusFormat,
    new_log: RocksLog,
    ends: PartitionEnds,
    state: _State,
) -> int:
    """Build the new parts of a partition; return the position at which its log begins."""
    i, draft = ends.partition, folder / _DRAFT
    _void_orders(state.shard)
    new_store = draft / "store" / str(i)
    base = folder / "store" / str(i) if ends.store is not None else state.checkpoint
    if base is not None and base.exists():
        # Not the locks of a database: closing a copy of one would give up the original.
        shutil.copytree(base, new_store, ignore=shutil.ignore_patterns("LOCK", "LOG*"))
    with Store.open(
        new_store,
        changes_max=config.changes.kept_max,
        corpus_id=about.corpus_id,
        partition=i,
    ) as store:
        end = max(state.position, store.position, ends.newest, ends.end)
        _drop_unknown_pages(store, state.shard, end)
        ledger = new_log.partition(i)
        if end > 0:
            ledger.begin_at(end)
        node = Node(shard=state.shard, ledger=ledger, store=store, position=end, partition=i)
        origin = None if about.corpus_id is None else SnapshotOrigin(about.corpus_id, i)
        snapshots = SnapshotFolder(
            draft / "snapshots" / str(i), keep=config.snapshots.keep, origin=origin
        )
        take_snapshot(node, snapshots)
        if about.corpus_id is not None:
            ledger.append([record_of(identity_entry(about, i))])
    return end


def _void_orders(shard: Shard) -> None:
    """Release the leases in flight, and continue with order numbers that were never given out."""
    registers = shard.tables.registers
    first, end = int(registers.first_order[0]), int(registers.next_order[0])
    if end > first:
        shard.apply(event_of(LeasesReleased, order=np.arange(first, end)))
    registers.first_order[0] = registers.next_order[0] = end + _ORDERS_SKIPPED


def _drop_unknown_pages(store: Store, shard: Shard, position: int) -> None:
    """Remove pages from a store that the shard does not have, and move it to a position."""
    batch = store.batch()
    for page, _ in _stored_pages(store):
        batch.remove_pages(page[~_is_tracked(shard, page)])
    store.write(batch, position)


def _stored_pages(store: Store) -> "Iterator[tuple[NDArray[np.int64], pa.StringArray]]":
    """Yield the pages of a store and their names, in batches."""
    for first in range(0, store.n_slots, _ROWS_AT_ONCE):
        page, name = store.scan_names(first, _ROWS_AT_ONCE)
        if page.size:
            yield page, name


def _is_tracked(shard: Shard, page: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which pages a shard has."""
    pages, n_slots = shard.tables.pages, int(shard.tables.registers.n_slots[0])
    slot = np.minimum(slot_of_page(page), max(n_slots - 1, 0))
    is_known: NDArray[np.bool_] = (slot_of_page(page) < n_slots) & (pages.status[slot] > 0)
    is_known &= pages.generation[slot] == page >> 32
    return is_known


def _state_results(ends: PartitionEnds, state: _State, end: int) -> list[tuple[str, str, str]]:
    name = f"partition {ends.partition}"
    results = [(name, f"continues from {state.source}", "")]
    if end > state.position:
        what = f"what happened between the records {state.position:,} and {end:,} may be lost"
    else:
        what = f"what happened after the record {end:,} is lost, if there was anything"
    results.append((name, what, _LOST))
    return results


# ---------------------------------------------------------------------------- on Kafka


def _plan_on_kafka(folder: Path, config: CorpusConfig, shape: Shape, clock: Clock) -> _Plan | None:
    """Find partitions that are ahead of the topic, whose store and snapshots must go."""
    others = read_other_ends(folder, config)
    shared = SharedPartitions(config.snapshots)
    log = open_log(folder, config, mode="reader", corpus_id=shape.corpus_id)
    parts: list[str] = []
    results: list[tuple[str, str, str]] = []
    positions: dict[str, int] = {}
    try:
        for other in others:
            copies = _positions_in_storage(shared, shape.corpus_id, other.partition)
            newest = max((other.snapshot or 0, *copies))
            ledger = log.partition(other.partition)
            one = other._replace(first=ledger.first, end=ledger.end, snapshot=newest)
            if not one.has_lost_records:
                continue
            saved = SnapshotFolder(folder / "snapshots" / str(one.partition)).list_saved()
            starts = [*(s.position for s in saved), *copies]
            if one.first > 0 and not any(one.first <= start <= one.end for start in starts):
                raise RecoveryError(
                    f"partition {one.partition} cannot be repaired: the topic begins at "
                    f"{one.first:,}, and no snapshot is between that and its end {one.end:,}. "
                    "Restore the topic, or add the pages to a new corpus."
                )
            later = [s.folder.name for s in saved if s.position > one.end]
            parts += [f"snapshots/{one.partition}/{name}" for name in later]
            parts.append(f"store/{one.partition}")
            positions[str(one.partition)] = one.end
            name = f"partition {one.partition}"
            results.append((name, f"continues from what the topic has, up to {one.end:,}", ""))
            what = f"what happened between the records {one.end:,} and {one.newest:,} may be lost"
            results.append((name, what, _LOST))
            n_ahead = sum(position > one.end for position in copies)
            if n_ahead:
                what = f"{count_text(n_ahead, 'later snapshot')} removed from shared storage"
                results.append((name, what, ""))
    finally:
        log.close()
    if not parts:
        return None
    return _Plan(
        aside=_aside_name(folder, clock),
        parts=tuple(parts),
        positions=positions,
        results=tuple(results),
    )


def _positions_in_storage(
    shared: SharedPartitions, corpus_id: str | None, partition: int
) -> list[int]:
    copies = shared.of(corpus_id, partition)
    return [] if copies is None else [one.position for one in copies.list_complete()]


def _remove_shared_ahead(config: CorpusConfig, shape: Shape, plan: _Plan) -> None:
    """Remove snapshots from shared storage that are ahead of the topic; may be done again."""
    if config.ledger.kind != "kafka":
        return
    shared = SharedPartitions(config.snapshots)
    for number, end in plan.positions.items():
        copies = shared.of(shape.corpus_id, int(number))
        for one in copies.list_complete() if copies is not None else ():
            if one.position > end:
                assert copies is not None
                copies.remove(one)


# ---------------------------------------------------------------------------- moving


def _move_parts(folder: Path, plan: _Plan) -> None:
    """Move each damaged part aside and the new one into its place; may be done again."""
    draft = folder / _DRAFT
    for part in plan.parts:
        source, kept, new = folder / part, folder / plan.aside / part, draft / part
        is_replaced = part == "log" or re.fullmatch(r"(store|snapshots)/\d+", part) is not None
        is_done = is_replaced and draft.exists() and not new.exists()
        if not is_done and source.exists() and not kept.exists():
            create_folder(kept.parent)
            source.rename(kept)
            sync_to_disk(kept.parent)
            sync_to_disk(source.parent)
        if new.exists():
            create_folder(source.parent)
            new.rename(source)
            sync_to_disk(source.parent)


def _restore_pages(folder: Path, plan: _Plan, clock: Clock) -> Iterator[CheckResult]:
    """Add pages that only the old stores have, and remove pages that they no longer have."""
    n_added = n_removed = 0
    with open_folder(folder, None, clock=clock) as corpus:
        for number, position in plan.positions.items():
            node = corpus.nodes[int(number)]
            n_removed += _remove(node, _pages_without_url(node))
            try:
                old = Store.open(folder / plan.aside / "store" / number, mode="reader")
            except StorageError:
                continue
            with old:
                if old.position <= position:
                    continue
                for page, name in _stored_pages(node.store):
                    n_removed += _remove(node, page[old.pages_of(name) < 0])
                for page, _ in _stored_pages(old):
                    key, url = old.keys_and_urls_of(page)
                    doc_id, metadata = old.user_data_of(page)
                    n_added += corpus.add(
                        old.fetch_urls_of(page, url), key=key, doc_id=doc_id, metadata=metadata
                    ).n_added
        n_pages = corpus.stats().n_pages
    what = f"{n_pages:,} are tracked"
    if n_added or n_removed:
        what += f"; {n_added:,} were added again, without history, and {n_removed:,} removed"
        what += ", because the old store is newer than the state"
    yield ok("pages", what)


def _remove(node: Node, page: NDArray[np.int64]) -> int:
    if page.size:
        node.submit([event_of(PagesRemoved, page=page)])
    return int(page.size)


def _pages_without_url(node: Node) -> NDArray[np.int64]:
    """Return the pages of a shard that its store does not have."""
    n_slots = int(node.shard.tables.registers.n_slots[0])
    pages = node.shard.tables.pages
    is_missing = pages.status[:n_slots] > 0
    for page, _ in node.scan_urls():
        is_missing[slot_of_page(page)] = False
    slot = np.flatnonzero(is_missing)
    found: NDArray[np.int64] = page_of(slot, pages.generation[slot])
    return found
