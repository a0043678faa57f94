"""Checks of what is on disk: the format, who writes, positions, checksums; or everything, read."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recrawl.corpus.doctor.findings import Finding, bad, ok, warn
from recrawl.corpus.opening import FORMAT
from recrawl.corpus.past.replay import Past, applied, shard_of, steps
from recrawl.errors import (
    EventError,
    FormatError,
    LedgerError,
    RecrawlError,
    SnapshotError,
    SnapshotFormatError,
    StorageError,
)
from recrawl.kv import KeyValues
from recrawl.ledger import Ledger, Log, SavedSnapshot, SnapshotFolder
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.open_log import open_log
from recrawl.node.durability.recovery import CHECKPOINT, _from_the_beginning
from recrawl.node.records import happening_of
from recrawl.shard import Shard
from recrawl.shard.state.snapshot import FORMAT as SNAPSHOT_FORMAT
from recrawl.shard.state.snapshot import format_of, restored
from recrawl.store import Store
from recrawl.urls import CANON_VERSION

__all__ = [
    "Shape",
    "config_check",
    "deep_check",
    "format_check",
    "lock_check",
    "partition_check",
    "unnamed_pages",
]

# What reading broken files raises; the engine's own errors are ours by then.
_UNREADABLE = (StorageError, LedgerError, OSError, ValueError)
_RESTORE = "Restore the folder from a backup"
_NEWER = "Use the version of recrawl that wrote it, or a newer one."
_LOCKS = Path("/proc/locks")


class Shape(NamedTuple):
    """What a corpus says of itself."""

    partitions: int
    group_by: str
    ledger: str


# ---------------------------------------------------------------------------- the folder


def format_check(folder: Path) -> tuple[Shape | None, list[Finding]]:
    """Return what a corpus says of itself, None if that is nothing, and what was found."""
    path = folder / "FORMAT"
    try:
        about = json.loads(path.read_text())
        version, urls = int(about["format"]), int(about["canonical_urls"])
        shape = Shape(int(about["partitions"]), str(about["group_by"]), str(about["ledger"]))
    except FileNotFoundError:
        what = f"{folder} is no corpus: there is no file FORMAT"
        return None, [bad("format", what, "Say which folder it is, or make one: recrawl init.")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        todo = f"{_RESTORE}; FORMAT alone will do if nothing else is wrong."
        return None, [bad("format", f"FORMAT cannot be read: {error}", todo)]
    if version > FORMAT or urls > CANON_VERSION:
        what = f"format {version}, canonical URLs {urls}: a newer version of recrawl wrote it"
        return None, [bad("format", what, _NEWER)]
    if urls != CANON_VERSION:
        what = f"its URLs are canonical by version {urls}, this recrawl's by {CANON_VERSION}"
        return None, [bad("format", what, "Use the version of recrawl that made it.")]
    if not 1 <= shape.partitions <= 0xFFFF or shape.ledger not in ("rocksdb", "kafka"):
        return None, [bad("format", f"FORMAT says what cannot be: {about}", f"{_RESTORE}.")]
    parts = "1 partition" if shape.partitions == 1 else f"{shape.partitions} partitions"
    return shape, [ok("format", f"format {version}, {parts}, log in {shape.ledger}")]


def config_check(folder: Path, shape: Shape) -> tuple[CorpusConfig | None, list[Finding]]:
    """Return the configuration, None if it cannot be used, and what was found."""
    toml, last = folder / "recrawl.toml", folder / "last-config.json"
    told = {"corpus": {"partitions": shape.partitions, "group_by": shape.group_by}}
    try:
        if toml.exists():
            config = CorpusConfig.from_toml(toml)
        else:
            config = CorpusConfig.from_dict(json.loads(last.read_text()) if last.exists() else told)
    except (RecrawlError, OSError, ValueError, TypeError, AttributeError) as error:
        if toml.exists():
            todo = "Put it right: `recrawl config explain KEY` says what a setting may be."
            return None, [bad("configuration", f"recrawl.toml: {error}", todo)]
        todo = "Nothing: without it, what was set holds.  A recrawl.toml takes its place."
        finding = warn("configuration", f"last-config.json cannot be read: {error}", todo)
        return CorpusConfig.from_dict(told), [finding]
    wanted = Shape(config.corpus.partitions, config.corpus.group_by, config.ledger.kind)
    if wanted != shape:
        names = ("corpus.partitions", "corpus.group_by", "ledger.kind")
        wrong = [
            f"{name} is {was!r} since the corpus was made, and {now!r} is configured"
            for name, was, now in zip(names, shape, wanted, strict=True)
            if was != now
        ]
        return None, [bad("configuration", "; ".join(wrong), "Configure what it was made with.")]
    source = "recrawl.toml" if toml.exists() else "that of the last time"
    return config, [ok("configuration", source)]


def lock_check(folder: Path) -> Iterator[Finding]:
    """Yield which process writes, if any.  Locks end with their process, so none is left over."""
    lock = folder / "log" / "LOCK"
    if not lock.exists() or not _LOCKS.exists():
        yield ok("lock", "not known here" if lock.exists() else "free")
        return
    inode = lock.stat().st_ino
    holders = [
        line.split()
        for line in _LOCKS.read_text().splitlines()
        if f":{inode} " in line and " WRITE " in line
    ]
    pid = next((line[4] for line in holders if len(line) > 4 and line[4].isdigit()), None)
    if pid is None:
        yield ok("lock", "free: no process works with it")
    else:
        yield ok("lock", f"process {pid}{_command_of(pid)} works with it")


def _command_of(pid: str) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    return f" ({command.strip()[:60]})" if command.strip() else ""


# ---------------------------------------------------------------------------- partitions


class _Bounds(NamedTuple):
    """Positions of one partition."""

    first: int
    end: int
    store: int | None


def partition_check(folder: Path, config: CorpusConfig) -> Iterator[Finding]:
    """Yield whether logs, stores and snapshots can be read and fit together."""
    try:
        log = open_log(folder, config, mode="reader")
    except FormatError as error:
        yield bad("log", str(error), _NEWER)
        return
    except _UNREADABLE as error:
        yield bad("log", f"cannot be read: {error}", f"{_RESTORE}: nothing else holds the log.")
        return
    except ImportError as error:
        yield bad("log", f"on Kafka, and its client is missing: {error}", "Install recrawl[kafka].")
        return
    with ExitStack() as closing:
        closing.callback(log.close)
        for i in range(config.corpus.partitions):
            yield from _one_partition(folder, config, log, i)


def _name(check: str, config: CorpusConfig, i: int) -> str:
    return check if config.corpus.partitions == 1 else f"{check} {i}"


def _one_partition(folder: Path, config: CorpusConfig, log: Log, i: int) -> Iterator[Finding]:
    log_name, store_name = _name("log", config, i), _name("store", config, i)
    try:
        ledger = log.partition(i)
        first, end = ledger.first, ledger.end
        if end > first:
            ledger.read(first, n_bytes_max=1)
            ledger.read(end - 1, n_bytes_max=1)
    except _UNREADABLE as error:
        yield bad(log_name, f"cannot be read: {error}", f"{_RESTORE}.")
        return
    yield ok(log_name, f"{end - first:,} records, from {first:,} to {end:,}")
    store_position, finding = _store_finding(store_name, folder / "store" / str(i), end)
    yield finding
    snapshots = SnapshotFolder(folder / "snapshots" / str(i), keep=config.snapshots.keep)
    yield from _snapshot_findings(
        _name("snapshots", config, i), snapshots, _Bounds(first, end, store_position)
    )


def _store_finding(name: str, folder: Path, end: int) -> tuple[int | None, Finding]:
    anew = "Nothing: it is made anew from a snapshot and the log when the corpus is opened next."
    try:
        with Store.open(folder, mode="reader") as store:
            position = store.position
    except FormatError as error:
        return None, bad(name, str(error), _NEWER)
    except _UNREADABLE as error:
        return None, warn(name, f"cannot be read: {error}", f"{anew} Until then nothing is read.")
    if position > end:
        what = f"at {position:,}, ahead of its log, which ends at {end:,}: the log has lost records"
        return position, warn(name, what, f"{anew} Look into why: a power cut, a copied folder?")
    behind = end - position
    return position, ok(name, "as far as its log" if not behind else f"{behind:,} records behind")


def _snapshot_findings(name: str, snapshots: SnapshotFolder, at: _Bounds) -> Iterator[Finding]:
    saved = snapshots.saved()
    whole: list[SavedSnapshot] = []
    for one in saved:
        problem = _problem_of(one)
        if isinstance(problem, SnapshotFormatError):
            yield bad(name, f"{one.folder.name}: {problem}", _NEWER)
        elif problem is not None:
            todo = "Nothing: the one before, or the log, takes its place when it is opened next."
            yield warn(name, f"{one.folder.name} is broken: {problem}", todo)
        elif one.position > at.end:
            what = f"{one.folder.name} is of a position beyond the log's end, {at.end:,}"
            yield warn(name, what, "Nothing: it is removed when the corpus is opened next.")
        else:
            whole.append(one)
    usable = [one for one in whole if one.position >= at.first]
    if at.first > 0 and not usable:
        what = f"none can be used, and the log begins at {at.first:,}: what was before is lost"
        yield bad(name, what, f"{_RESTORE}.")
        return
    if at.store is not None and usable and at.store < usable[-1].position:
        what = f"the store is at {at.store:,}, before every snapshot that can be used"
        yield warn(name, what, "Nothing: the store is made anew when the corpus is opened next.")
    if usable:
        n = f"{len(usable)} whole" if len(usable) == len(saved) else f"{len(usable)} can be used"
        yield ok(name, f"{n}; the newest is {at.end - usable[0].position:,} records old")
    else:
        yield ok(name, f"{'none can be used' if saved else 'none yet'}: the log has everything")


def _problem_of(saved: SavedSnapshot) -> Exception | None:
    """Return what is wrong with a snapshot, its checksums included."""
    try:
        _, _, position = restored(saved.manifest(), saved.columns())
        if int(position) != saved.position:
            raise SnapshotError(f"it says that it is of position {position}")
    except (SnapshotError, LedgerError, OSError, ValueError, KeyError, TypeError) as error:
        return error
    return None


# ---------------------------------------------------------------------------- reading everything


def deep_check(folder: Path, config: CorpusConfig) -> Iterator[Finding]:
    """Yield what reading all there is finds: records, stores, and whether replay leads to them."""
    with ExitStack() as closing:
        log = open_log(folder, config, mode="reader")
        closing.callback(log.close)
        for i in range(config.corpus.partitions):
            ledger = log.partition(i)
            snapshots = SnapshotFolder(folder / "snapshots" / str(i), keep=config.snapshots.keep)
            yield from _records(_name("records", config, i), ledger)
            yield from _replayed(_name("replay", config, i), ledger, snapshots)
            yield from _checkpoints(_name("snapshots", config, i), snapshots)
            yield from _all_keys(_name("store files", config, i), folder / "store" / str(i))


def _records(name: str, ledger: Ledger) -> Iterator[Finding]:
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
                    happening_of(record)
                except (EventError, ValueError, KeyError) as error:
                    wrong.append(at)
                    if len(wrong) == 1:
                        yield bad(name, f"record {at:,} is not one: {error}", f"{_RESTORE}.")
            n_records += len(found)
            position = found[-1][0] + 1
    except _UNREADABLE as error:
        yield bad(name, f"after {n_records:,} records: {error}", f"{_RESTORE}.")
        return
    if not wrong:
        yield ok(name, f"all {n_records:,} can be read, {n_bytes:,} bytes")
    elif len(wrong) > 1:
        yield bad(name, f"{len(wrong):,} records are not ones", f"{_RESTORE}.")


def _replayed(name: str, ledger: Ledger, snapshots: SnapshotFolder) -> Iterator[Finding]:
    """Go through the log from the oldest snapshot, or the beginning, and compare on the way.

    Those of older formats were learned by other rules, and are no more what the log leads to: it
    begins with the newest of them.
    """
    usable = [
        (one, shard)
        for one in reversed(snapshots.saved())
        if ledger.first <= one.position <= ledger.end and (shard := shard_of(one)) is not None
    ]
    n_older = sum(_is_older(one) for one, _ in usable)
    if ledger.first == 0 and n_older == 0:
        past, later = Past(_from_the_beginning(ledger), 0), usable
    elif usable:
        n_passed = max(n_older, 1)
        begun, shard = usable[n_passed - 1]
        past, later = Past(shard, begun.position), usable[n_passed:]
    else:
        yield bad(name, "there is nothing to begin with", f"{_RESTORE}.")
        return
    for one, shard in later:
        for step in steps(ledger, past.position, past.shard, until=one.position):
            applied(past.shard, step.happening)
        past = Past(past.shard, one.position)
        if past.shard.digest() != shard.digest():
            what = f"snapshot {one.folder.name} is not what the log leads to"
            todo = f"Move {one.folder} away, so that the one before is used; and please report it."
            yield bad(name, what, todo)
            return
    for step in steps(ledger, past.position, past.shard):
        applied(past.shard, step.happening)
    n = f"{len(later)} snapshots are" if len(later) != 1 else "1 snapshot is"
    yield ok(name, f"{n} what the log leads to" if later else "the log can be replayed to its end")


def _is_older(saved: SavedSnapshot) -> bool:
    """Return whether a snapshot was written in an older format than this version's."""
    return format_of(saved.manifest()) < SNAPSHOT_FORMAT


def _checkpoints(name: str, snapshots: SnapshotFolder) -> Iterator[Finding]:
    """Yield copies of the store that could not take its place."""
    for saved in snapshots.saved():
        try:
            with Store.open(saved.folder / CHECKPOINT, mode="reader") as store:
                if store.position < saved.position:
                    raise StorageError(f"it is at {store.position}, before the snapshot")
        except _UNREADABLE as error:
            what = f"the copy of the store in {saved.folder.name} is broken: {error}"
            yield warn(name, what, "Nothing: it is needed only if the store itself is lost.")


def _all_keys(name: str, folder: Path) -> Iterator[Finding]:
    """Read a store from its first key to its last: the engine compares checksums on the way."""
    n_keys = 0
    try:
        with KeyValues.open(folder, mode="reader") as values:
            for _ in values.scan(b""):
                n_keys += 1
    except _UNREADABLE as error:
        todo = "Move the store's folder away: it is made anew from a snapshot and the log."
        yield bad(name, f"after {n_keys:,} entries: {error}", todo)
        return
    yield ok(name, f"all {n_keys:,} entries can be read")


def unnamed_pages(shard: Shard, store: Store, *, n_at_once: int = 65_536) -> int:
    """Return how many pages of a shard have no URL in the store."""
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
