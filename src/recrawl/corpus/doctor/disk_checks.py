"""Check the files of a corpus: format, lock, positions, checksums; or read everything."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recrawl.corpus.doctor.check_results import CheckResult, bad, ok, warn
from recrawl.corpus.past.replay import ReplayStart, shard_of, steps
from recrawl.errors import (
    CorpusError,
    EventError,
    FormatError,
    LedgerError,
    LogDamagedError,
    RecrawlError,
    SnapshotError,
    SnapshotFormatError,
    StorageError,
)
from recrawl.folder_lock import IN_USE_FILE
from recrawl.kv import KeyValues
from recrawl.ledger import Ledger, Log, SavedSnapshot, SnapshotFolder
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.corpus_format import logs_lack_pages, read_format
from recrawl.node.durability.log_damage import PartitionEnds, read_partition_ends
from recrawl.node.durability.log_opening.open_log import open_log
from recrawl.node.durability.log_opening.successor import in_present_layout
from recrawl.node.durability.recovery import CHECKPOINT, initial_shard
from recrawl.node.node import apply_entry
from recrawl.node.records import entry_of
from recrawl.shard import Shard
from recrawl.shard.state.snapshot import FORMAT as SNAPSHOT_FORMAT
from recrawl.shard.state.snapshot import format_of, restore_tables
from recrawl.store import Store
from recrawl.urls import CANON_VERSION

__all__ = [
    "Shape",
    "access_problem",
    "config_check",
    "count_pages_without_url",
    "deep_check",
    "format_check",
    "lock_check",
    "partition_check",
    "process_using",
]

# Errors that reading broken files raises; RocksDB's own are among `StorageError`.
_UNREADABLE = (StorageError, LedgerError, OSError, ValueError)
_RESTORE = "Restore the folder from a backup"
_NEWER = "Use the version of recrawl that wrote it, or a newer one."
_REPAIR = (
    "Restore the whole folder from a backup, or run `recrawl doctor --repair`: it continues from "
    "the newest state that is left, and keeps the damaged files."
)
_REBUILT = (
    "Nothing: the next command that changes the corpus rebuilds it from a snapshot and the log."
)
_LOCKS = Path("/proc/locks")


class Shape(NamedTuple):
    """The properties of a corpus that never change, as its FORMAT file has them."""

    partitions: int
    group_by: str
    ledger: str
    corpus_id: str | None


# ---------------------------------------------------------------------------- the folder


def format_check(folder: Path) -> tuple[Shape | None, list[CheckResult]]:
    """Read the FORMAT file; return its content, None if unusable, and the findings."""
    try:
        about = read_format(folder)
    except CorpusError as error:
        todo = _NEWER if "newer" in str(error) else f"{_RESTORE}, or the file FORMAT alone."
        return None, [bad("format", str(error), todo)]
    if about is None:
        what = f"{folder} is not a corpus: it has no file FORMAT"
        if not folder.exists():
            what = f"{folder} does not exist"
        todo = "Give the folder of a corpus with -C, or create one with `recrawl init`."
        return None, [bad("format", what, todo)]
    urls = about.canonical_urls
    shape = Shape(about.partitions, about.group_by, about.ledger, about.corpus_id)
    if urls > CANON_VERSION:
        what = f"canonical URLs {urls}: a newer version of recrawl wrote it"
        return None, [bad("format", what, _NEWER)]
    if urls != CANON_VERSION:
        what = (
            f"it has canonical URLs of version {urls}, and this recrawl has version {CANON_VERSION}"
        )
        return None, [bad("format", what, "Use the version of recrawl that created it.")]
    parts = "1 partition" if shape.partitions == 1 else f"{shape.partitions} partitions"
    name = "no id yet" if shape.corpus_id is None else f"corpus {shape.corpus_id}"
    return shape, [ok("format", f"{name}, {parts}, log in {shape.ledger}")]


def config_check(folder: Path, shape: Shape) -> tuple[CorpusConfig | None, list[CheckResult]]:
    """Read the configuration; return it, None if it cannot be used, and the findings."""
    toml, last = folder / "recrawl.toml", folder / "last-config.json"
    fixed = {"corpus": {"partitions": shape.partitions, "group_by": shape.group_by}}
    try:
        if toml.exists():
            config = CorpusConfig.from_toml(toml)
        else:
            config = CorpusConfig.from_dict(
                json.loads(last.read_text()) if last.exists() else fixed
            )
    except (RecrawlError, OSError, ValueError, TypeError, AttributeError) as error:
        if toml.exists():
            todo = "Correct it: `recrawl config explain KEY` shows the allowed values of a setting."
            what = str(error) if "recrawl.toml" in str(error) else f"recrawl.toml: {error}"
            return None, [bad("configuration", what, todo)]
        todo = "Nothing: the settings in the log are used.  A recrawl.toml would replace the file."
        finding = warn("configuration", f"last-config.json cannot be read: {error}", todo)
        return CorpusConfig.from_dict(fixed), [finding]
    about = read_format(folder)
    if about is not None:
        config = in_present_layout(config, about)
    wanted = (config.corpus.partitions, config.corpus.group_by, config.ledger.kind)
    if wanted != shape[:3]:
        names = ("corpus.partitions", "corpus.group_by", "ledger.kind")
        wrong = [
            f"{name} is {was!r} since the corpus was created, but {now!r} is configured"
            for name, was, now in zip(names, shape[:3], wanted, strict=True)
            if was != now
        ]
        return None, [
            bad("configuration", "; ".join(wrong), "Configure the values that it was created with.")
        ]
    source = "recrawl.toml" if toml.exists() else "the previous one (no recrawl.toml)"
    return config, [ok("configuration", source)]


def lock_check(folder: Path) -> Iterator[CheckResult]:
    """Find the process that writes.  Locks end with their process, so none is left over."""
    locks = folder / "log" / "LOCK", folder / IN_USE_FILE
    lock = next((one for one in locks if one.exists()), locks[0])
    if not lock.exists() or not _LOCKS.exists():
        yield ok("lock", "unknown on this system" if lock.exists() else "free")
        return
    pid = process_using(lock)
    if pid is None:
        yield ok("lock", "free: no process is using the corpus")
    else:
        yield ok("lock", f"process {pid}{_command_of(pid)} is using the corpus")


def access_problem(folder: Path) -> str | None:
    """Return which file of a corpus this user may not read or replace; None if there is none.

    Such files are not damaged, so nothing must be concluded from what cannot be read.
    """
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"{folder} is on a read-only file system"
    for path in (folder, *folder.rglob("*")):
        wanted = os.R_OK | (os.W_OK | os.X_OK if path.is_dir() else 0)
        if not path.is_symlink() and not os.access(path, wanted):
            return f"this user may not read {path}, or not write to it"
    return None


def process_using(lock: Path) -> str | None:
    """Return the id of the process that holds a lock file; None if it is free or not known."""
    try:
        inode = lock.stat().st_ino
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    holders = [line.split() for line in lines if f":{inode} " in line and " WRITE " in line]
    return next((line[4] for line in holders if len(line) > 4 and line[4].isdigit()), None)


def _command_of(pid: str) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    return f" ({command.strip()[:60]})" if command.strip() else ""


# ---------------------------------------------------------------------------- partitions


class _Bounds(NamedTuple):
    """The first and last position of a partition's log, and the position of its store."""

    first: int
    end: int
    store: int | None
    has_pages_before: bool
    """Whether the first snapshot has pages that the log never had."""


def partition_check(folder: Path, config: CorpusConfig) -> Iterator[CheckResult]:
    """Check that logs, stores and snapshots can be read and fit together."""
    lost: dict[int, PartitionEnds] = {}
    if config.ledger.kind == "rocksdb":
        try:
            lost = {
                ends.partition: ends
                for ends in read_partition_ends(folder, config)
                if ends.has_lost_records
            }
        except LogDamagedError:
            what = "it is missing or empty, although the corpus has been used"
            yield bad("log", what, _REPAIR)
            return
        except _UNREADABLE:
            pass  # reported below
    try:
        log = open_log(folder, config, mode="reader")
    except FormatError as error:
        yield bad("log", str(error), _NEWER)
        return
    except _UNREADABLE as error:
        problem = access_problem(folder)
        if problem is not None:
            yield bad("log", problem, "Correct the permissions, or run this as their owner.")
            return
        yield bad(
            "log",
            f"cannot be read: {error}",
            f"{_RESTORE}: the log cannot be recovered from anything else.",
        )
        return
    except ImportError as error:
        yield bad(
            "log",
            f"it is on Kafka, and the client is not installed: {error}",
            "Install recrawl[kafka].",
        )
        return
    with ExitStack() as closing:
        closing.callback(log.close)
        for i in range(config.corpus.partitions):
            yield from _one_partition(folder, config, log, i, lost.get(i))


def _name(check: str, config: CorpusConfig, i: int) -> str:
    return check if config.corpus.partitions == 1 else f"{check} {i}"


def _one_partition(
    folder: Path, config: CorpusConfig, log: Log, i: int, lost: PartitionEnds | None
) -> Iterator[CheckResult]:
    log_name, store_name = _name("log", config, i), _name("store", config, i)
    # Before the log, because another process may write meanwhile.
    store = _store_position(store_name, folder / "store" / str(i))
    try:
        ledger = log.partition(i)
        first, end = ledger.first, ledger.end
        if end > first:
            ledger.read(first, n_bytes_max=1)
            ledger.read(end - 1, n_bytes_max=1)
    except _UNREADABLE as error:
        yield bad(log_name, f"cannot be read: {error}", f"{_RESTORE}.")
        return
    is_unsynced = config.ledger.kind == "rocksdb" and config.ledger.durability != "sync"
    if lost is not None and not (is_unsynced and (lost.snapshot or 0) <= end):
        yield bad(log_name, f"it has lost records: {lost}", _REPAIR)
        return
    yield ok(log_name, f"{end - first:,} records, from {first:,} to {end:,}")
    if isinstance(store, CheckResult):
        yield store
        store_position = None
    else:
        store_position = store
        yield _store_finding(store_name, store, end)
    snapshots = SnapshotFolder(folder / "snapshots" / str(i), keep=config.snapshots.keep)
    # With a log on Kafka, there are snapshots in shared storage as well.
    has_pages_before = config.ledger.kind == "rocksdb" and logs_lack_pages(folder)
    bounds = _Bounds(first, end, store_position, has_pages_before=has_pages_before)
    yield from _snapshot_findings(_name("snapshots", config, i), snapshots, bounds)


def _store_position(name: str, folder: Path) -> int | CheckResult:
    """Return the position of a store, or the finding if it cannot be read."""
    try:
        with Store.open(folder, mode="reader") as store:
            return store.position
    except FormatError as error:
        return bad(name, str(error), _NEWER)
    except _UNREADABLE as error:
        return warn(
            name, f"cannot be read: {error}", f"{_REBUILT} Until then the corpus cannot be read."
        )


def _store_finding(name: str, position: int, end: int) -> CheckResult:
    if position > end:
        what = f"at {position:,}, ahead of its log, which ends at {end:,}: the log has lost records"
        return warn(name, what, f"{_REBUILT}  Find out why: a power cut, a copied folder?")
    behind = end - position
    return ok(name, "up to date" if not behind else f"{behind:,} records behind")


def _snapshot_findings(name: str, snapshots: SnapshotFolder, at: _Bounds) -> Iterator[CheckResult]:
    saved = snapshots.list_saved()
    whole: list[SavedSnapshot] = []
    for one in saved:
        problem = _problem_of(one)
        if isinstance(problem, SnapshotFormatError):
            yield bad(name, f"{one.folder.name}: {problem}", _NEWER)
        elif problem is not None:
            todo = "Nothing: the previous snapshot or the log is used instead."
            yield warn(name, f"{one.folder.name} is broken: {problem}", todo)
        elif one.position > at.end:
            what = f"{one.folder.name} is later than the log's end, {at.end:,}"
            yield bad(name, what, _REPAIR)
        else:
            whole.append(one)
    usable = [one for one in whole if one.position >= at.first]
    if at.first > 0 and not usable:
        what = f"none can be used, and the log begins at {at.first:,}: everything before is lost"
        yield bad(name, what, f"{_RESTORE}.")
        return
    if at.has_pages_before and not usable:
        what = (
            "none can be used, and the log does not have the pages from before the number of "
            "partitions was changed"
        )
        yield bad(name, what, _REPAIR)
        return
    if at.store is not None and usable and at.store < usable[-1].position:
        what = f"the store is at {at.store:,}, before every usable snapshot"
        yield warn(
            name, what, "Nothing: the next command that changes the corpus rebuilds the store."
        )
    if usable:
        n = f"{len(usable)} intact" if len(usable) == len(saved) else f"{len(usable)} can be used"
        yield ok(name, f"{n}; {at.end - usable[0].position:,} records since the newest")
    else:
        yield ok(name, f"{'none can be used' if saved else 'none yet'}; the log has everything")


def _problem_of(saved: SavedSnapshot) -> Exception | None:
    """Return what is wrong with a snapshot, including its checksums; None if nothing."""
    try:
        _, _, position = restore_tables(saved.manifest(), saved.columns())
        if int(position) != saved.position:
            raise SnapshotError(f"its manifest has position {position}")
    except (SnapshotError, LedgerError, OSError, ValueError, KeyError, TypeError) as error:
        return error
    return None


# ---------------------------------------------------------------------------- reading everything


def deep_check(folder: Path, config: CorpusConfig) -> Iterator[CheckResult]:
    """Read all records and stores, and replay the log to compare it with the snapshots."""
    with ExitStack() as closing:
        log = open_log(folder, config, mode="reader")
        closing.callback(log.close)
        has_pages_before = logs_lack_pages(folder)
        for i in range(config.corpus.partitions):
            ledger = log.partition(i)
            snapshots = SnapshotFolder(folder / "snapshots" / str(i), keep=config.snapshots.keep)
            yield from _records(_name("records", config, i), ledger)
            yield from _replay_findings(
                _name("replay", config, i), ledger, snapshots, has_pages_before=has_pages_before
            )
            yield from _checkpoints(_name("snapshots", config, i), snapshots)
            yield from _all_keys(_name("store files", config, i), folder / "store" / str(i))


def _records(name: str, ledger: Ledger) -> Iterator[CheckResult]:
    """Read and decode every record."""
    position, end = ledger.first, ledger.end
    n_records = n_bytes = 0
    wrong: list[int] = []
    try:
        while position < end:
            found = ledger.read(position)
            if not found:
                break
            for at, record in found:
                n_bytes += len(record.data)
                try:
                    entry_of(record)
                except (EventError, ValueError, KeyError) as error:
                    wrong.append(at)
                    if len(wrong) == 1:
                        yield bad(name, f"record {at:,} cannot be decoded: {error}", f"{_RESTORE}.")
            n_records += len(found)
            position = found[-1][0] + 1
    except _UNREADABLE as error:
        yield bad(name, f"after {n_records:,} records: {error}", f"{_RESTORE}.")
        return
    if not wrong:
        yield ok(name, f"all {n_records:,} can be read, {n_bytes:,} bytes")
    elif len(wrong) > 1:
        yield bad(name, f"{len(wrong):,} records cannot be decoded", f"{_RESTORE}.")


def _replay_findings(
    name: str, ledger: Ledger, snapshots: SnapshotFolder, *, has_pages_before: bool
) -> Iterator[CheckResult]:
    """Replay the log from its beginning or the oldest snapshot; compare with each later snapshot.

    Older versions of recrawl learned by other rules, so replay does not lead to snapshots of older
    formats: it starts with the newest of those.  Nor does it lead to pages that came from other
    partitions.
    """
    usable = [
        (one, shard)
        for one in reversed(snapshots.list_saved())
        if ledger.first <= one.position <= ledger.end and (shard := shard_of(one)) is not None
    ]
    n_older = sum(_is_older(one) for one, _ in usable)
    if ledger.first == 0 and n_older == 0 and not has_pages_before:
        past, later = ReplayStart(initial_shard(ledger), 0), usable
    elif usable:
        n_passed = max(n_older, 1)
        start, shard = usable[n_passed - 1]
        past, later = ReplayStart(shard, start.position), usable[n_passed:]
    else:
        yield bad(
            name, "there is no snapshot and no beginning of the log to start with", f"{_RESTORE}."
        )
        return
    for one, shard in later:
        for step in steps(ledger, past.position, past.shard, until=one.position):
            apply_entry(past.shard, step.happening)
        past = ReplayStart(past.shard, one.position)
        if past.shard.digest() != shard.digest():
            what = f"snapshot {one.folder.name} differs from what the log leads to"
            todo = (
                f"Move {one.folder} away, so that the previous one is used, and please report this."
            )
            yield bad(name, what, todo)
            return
    for step in steps(ledger, past.position, past.shard):
        apply_entry(past.shard, step.happening)
    n = f"{len(later)} snapshots agree" if len(later) != 1 else "1 snapshot agrees"
    yield ok(name, f"{n} with the log" if later else "the log can be replayed to its end")


def _is_older(saved: SavedSnapshot) -> bool:
    """Return whether a snapshot was written in an older format than this version's."""
    return format_of(saved.manifest()) < SNAPSHOT_FORMAT


def _checkpoints(name: str, snapshots: SnapshotFolder) -> Iterator[CheckResult]:
    """Check that the copies of the store in snapshots can be opened."""
    for saved in snapshots.list_saved():
        try:
            with Store.open(saved.folder / CHECKPOINT, mode="reader") as store:
                if store.position < saved.position:
                    raise StorageError(f"it is at {store.position}, before the snapshot")
        except _UNREADABLE as error:
            what = f"the copy of the store in {saved.folder.name} is broken: {error}"
            yield warn(name, what, "Nothing: recrawl needs it only if the store itself is lost.")


def _all_keys(name: str, folder: Path) -> Iterator[CheckResult]:
    """Read all keys of a store; RocksDB compares checksums on the way."""
    n_keys = 0
    try:
        with KeyValues.open(folder, mode="reader") as values:
            for _ in values.scan(b""):
                n_keys += 1
    except _UNREADABLE as error:
        todo = "Move the store's folder away: recrawl rebuilds it from a snapshot and the log."
        yield bad(name, f"after {n_keys:,} entries: {error}", todo)
        return
    yield ok(name, f"all {n_keys:,} entries can be read")


def count_pages_without_url(shard: Shard, store: Store, *, n_at_once: int = 65_536) -> int:
    """Return the number of pages of a shard that have no URL in the store."""
    n_missing, n_slots = 0, int(shard.tables.registers.n_slots[0])
    for first in range(0, n_slots, n_at_once):
        page, _ = store.scan_urls(first, n_at_once)
        last = min(first + n_at_once, n_slots)
        is_kept = shard.tables.pages.status[first:last] > 0
        is_named = np.zeros(last - first, np.bool_)
        slots: Any = (page & 0xFFFFFFFF) - first
        is_named[slots[(slots >= 0) & (slots < last - first)]] = True
        n_missing += int(np.count_nonzero(is_kept & ~is_named))
    return n_missing
