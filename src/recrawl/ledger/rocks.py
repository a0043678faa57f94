"""The log of an embedded corpus: a folder that one process writes, in RocksDB.

A record's key is its partition (2 bytes) and its position (8 bytes), big-endian, so that keys are
in the order of records; its value is the schema number (2 bytes, big-endian) and the data.  After
the keys of the last partition come the metadata: the format of the log with the id of its corpus,
and the first position of each partition.
"""

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

from recrawl.errors import IdentityError, LedgerError, PositionLost, StorageError
from recrawl.kv import KeyValues, KvOptions, Mode, TornLog
from recrawl.ledger.contract import (
    N_PARTITIONS_MAX,
    READ_BYTES_MAX,
    AppendedSpan,
    Record,
    check_partition,
    check_records,
)
from recrawl.one_process import ProcessLock

__all__ = ["FORMAT", "Durability", "RocksLedger", "RocksLog", "holds_log"]

Durability: TypeAlias = Literal["sync", "os"]

FORMAT = 1
_METADATA_PREFIX = N_PARTITIONS_MAX.to_bytes(2, "big")
_FORMAT_KEY = _METADATA_PREFIX + b"format"
_FIRST_KEY = _METADATA_PREFIX + b"first"
# The engine holds the interpreter's lock while it writes: about a millisecond per MB.
_WRITE_BYTES_MAX = 4 << 20
_WRITE_RECORDS_MAX = 10_000
# A log is written once and seldom read, in order, so filters and a cache would not help.  Its last
# write may be incomplete, as it was not acknowledged; any other corruption is an error.
_OPTIONS = KvOptions(
    write_buffer_bytes=32 << 20,
    block_cache_bytes=4 << 20,
    bloom_bits=0,
    block_bytes=64 << 10,
    torn_log="refuse",
)


class RocksLog:
    """The log of all partitions in one folder.

    Create it with `open`.  Its methods raise `LedgerError` if the engine or the disk fails.
    """

    def __init__(self, values: KeyValues, about: dict[str, Any], durability: Durability) -> None:
        self._values = values
        self._about = about
        self._n_partitions = int(about["n_partitions"])
        self._syncs = _SharedSync(values) if durability == "sync" else None
        self._failure: str | None = None
        self._ledgers: dict[int, RocksLedger] = {}
        self._lock = ProcessLock(threading.Lock())

    @classmethod
    def open(
        cls,
        folder: Path,
        n_partitions: int | None = None,
        *,
        durability: Durability = "sync",
        mode: Mode = "writer",
        corpus_id: str | None = None,
        torn_log: TornLog = "refuse",
    ) -> Self:
        """Open the log in a folder; a writer creates it if it does not exist.

        Parameters
        ----------
        folder
            Folder of the log, which must hold nothing else.
        n_partitions
            Number of partitions: fixed when the log is created, checked later; None to accept any.
        durability
            ``"sync"``: acknowledged records survive a power cut.  ``"os"``: they survive a crash
            of this process, but a power cut may lose the last seconds.
        mode
            ``"writer"`` for one process; ``"reader"`` for others, which may see records some
            moments before they are acknowledged.
        corpus_id
            Id of the corpus, which must be that of the log; a writer records it in a log that has
            none.  None to accept any.
        torn_log
            Behaviour if a record before the end is damaged: ``"refuse"`` to open, or
            ``"keep_prefix"`` to drop it and everything after it.

        Raises
        ------
        LockedError
            Another process has the log open for writing.
        StorageError
            The folder cannot be read or written, or holds no log.
        LedgerError
            The log has a newer format or another number of partitions.
        IdentityError
            The log belongs to another corpus.
        """
        if durability not in get_args(Durability):
            raise ValueError(
                f"durability must be one of {get_args(Durability)}, got {durability!r}"
            )
        if n_partitions is not None and not 1 <= n_partitions <= N_PARTITIONS_MAX:
            raise ValueError(f"n_partitions must be 1 to {N_PARTITIONS_MAX}, got {n_partitions}")
        options = replace(_OPTIONS, torn_log=torn_log)
        values = KeyValues.open(folder, mode=mode, options=options, marks_damage=mode == "writer")
        try:
            log = cls(values, _read_or_write_format(values, n_partitions), durability)
            if corpus_id is not None:
                log.identify(corpus_id)
            return log
        except BaseException:
            values.close()
            raise

    @property
    def n_partitions(self) -> int:
        """Number of partitions of the log."""
        return self._n_partitions

    @property
    def corpus_id(self) -> str | None:
        """Id of the corpus whose log this is; None in a log of 0.1.0."""
        found = self._about.get("corpus_id")
        return None if found is None else str(found)

    def identify(self, corpus_id: str) -> None:
        """Check the id of the corpus; a writer records it in a log that has none."""
        if self.corpus_id not in (None, corpus_id):
            raise IdentityError(
                f"{self._values.folder} is the log of corpus {self.corpus_id}, but its folder "
                f"belongs to corpus {corpus_id}. Nothing was changed. Put back the log of this "
                "corpus."
            )
        if self.corpus_id is None and self._values.mode == "writer":
            self._about = {**self._about, "corpus_id": corpus_id}
            self._values.write([_FORMAT_KEY], [json.dumps(self._about).encode()], sync=True)

    def partition(self, i: int) -> "RocksLedger":
        """Return the ledger of partition ``i``; every call returns the same object."""
        check_partition(i, self._n_partitions)
        with self._lock:
            if i not in self._ledgers:
                self._ledgers[i] = RocksLedger(self, i)
            return self._ledgers[i]

    def compact(self) -> None:
        """Rewrite all files, so that truncated records are in none of them."""
        text = self._values.get(_FORMAT_KEY)
        assert text is not None
        # Written again, so that there is something to flush: then the write-ahead log ends, too.
        self._values.write([_FORMAT_KEY], [text])
        self._values.compact()

    def close(self) -> None:
        """Close the folder; a second call does nothing."""
        self._values.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RocksLedger:
    """The log of one partition; `RocksLog.partition` creates it."""

    def __init__(self, log: RocksLog, i: int) -> None:
        self._log = log
        self._values = log._values
        self._prefix = i.to_bytes(2, "big")
        self._first_key = _FIRST_KEY + self._prefix
        self._lock = ProcessLock(threading.RLock())
        self._first, self._end = self._read_bounds()

    @property
    def first(self) -> int:
        """Position of the earliest record that the log still holds; `end` if it holds none."""
        with self._lock:
            self._catch_up()
            return self._first

    @property
    def end(self) -> int:
        """Position after the last record."""
        with self._lock:
            self._catch_up()
            return self._end

    def append(self, records: Sequence[Record]) -> AppendedSpan:
        """Write records after the last one; see `Ledger.append`.

        Appends to several partitions from several threads share one sync of the disk.
        """
        check_records(records)
        with self._lock:
            self._refuse_unless_writable()
            first = self._end
            if not records:
                return AppendedSpan(first, first, True)
            try:
                for start, stop in _write_ranges(records):
                    self._values.write(
                        [self._key(first + i) for i in range(start, stop)],
                        [schema.to_bytes(2, "big") + data for schema, data in records[start:stop]],
                    )
                if self._log._syncs is not None:
                    self._log._syncs.sync()
            except BaseException as error:  # BaseException too: the process may continue after it
                self._log._failure = str(error) or type(error).__name__
                if isinstance(error, StorageError):
                    raise LedgerError(f"an append failed: {error}") from error
                raise
            self._end = first + len(records)
            return AppendedSpan(first, self._end, True)

    def read(self, position: int, *, n_bytes_max: int = READ_BYTES_MAX) -> list[tuple[int, Record]]:
        """Return records from a position up to the end; see `Ledger.read`."""
        with self._lock:
            self._catch_up()
            if not self._first <= position <= self._end:
                raise PositionLost(f"position must be {self._first} to {self._end}, got {position}")
            records: list[tuple[int, Record]] = []
            n_bytes = 0
            try:
                for key, value in self._values.scan(self._key(position), self._key(self._end)):
                    n_bytes += len(value) - 2
                    if records and n_bytes > n_bytes_max:
                        break
                    record = Record(int.from_bytes(value[:2], "big"), value[2:])
                    records.append((int.from_bytes(key[2:], "big"), record))
            except StorageError as error:
                raise LedgerError(f"the log cannot be read: {error}") from error
            if position + len(records) != (records[-1][0] + 1 if records else self._end):
                raise LedgerError(
                    f"records after position {position} are missing: the log is corrupt"
                )
            return records

    def sync(self) -> None:
        """Wait until everything appended is on disk; see `Ledger.sync`."""
        with self._lock:
            self._refuse_unless_writable()
        if self._log._syncs is None:
            # Without the lock, so that appends do not wait for the disk.
            try:
                self._values.sync()
            except StorageError as error:
                self._log._failure = str(error)
                raise LedgerError(f"the log cannot be synced: {error}") from error

    def begin_at(self, position: int) -> None:
        """Give the first record of an empty ledger a position other than 0.

        Raises
        ------
        ValueError
            The ledger has had records.
        """
        with self._lock:
            self._refuse_unless_writable()
            if self._end != 0:
                raise ValueError(f"the ledger must never have had records, got an end {self._end}")
            self._values.write([self._first_key], [position.to_bytes(8, "big")], sync=True)
            self._first = self._end = position

    def truncate(self, position: int) -> None:
        """Remove the records below a position; see `Ledger.truncate`."""
        with self._lock:
            self._refuse_unless_writable()
            if position > self._end:
                raise ValueError(f"position must be at most {self._end}, got {position}")
            if position <= self._first:
                return
            try:
                self._values.write(
                    [self._first_key],
                    [position.to_bytes(8, "big")],
                    delete_range=(self._key(self._first), self._key(position)),
                )
            except StorageError as error:
                self._log._failure = str(error)
                raise LedgerError(f"the log cannot be written: {error}") from error
            self._first = position
        if self._log._syncs is not None:
            # Without the lock, so that appends do not wait for the disk.
            try:
                self._log._syncs.sync()
            except StorageError as error:
                self._log._failure = str(error)
                raise LedgerError(f"the log cannot be synced: {error}") from error

    def _key(self, position: int) -> bytes:
        return self._prefix + position.to_bytes(8, "big")

    def _read_bounds(self) -> tuple[int, int]:
        """Read the first position and the end from disk."""
        try:
            first = int.from_bytes(self._values.get(self._first_key) or b"", "big")
            keys_end = (int.from_bytes(self._prefix, "big") + 1).to_bytes(2, "big")
            for key, _ in self._values.scan(self._key(first), keys_end, reverse=True):
                return first, int.from_bytes(key[2:], "big") + 1
        except StorageError as error:
            raise LedgerError(f"the log cannot be read: {error}") from error
        return first, first

    def _catch_up(self) -> None:
        """Read the current bounds if another process writes the log."""
        if self._values.mode == "reader":
            try:
                self._values.catch_up()
            except StorageError as error:
                raise LedgerError(f"the log cannot be read: {error}") from error
            self._first, self._end = self._read_bounds()

    def _refuse_unless_writable(self) -> None:
        if self._values.mode == "reader":
            raise LedgerError("the log is open for reading only")
        if self._log._failure is not None:
            raise LedgerError(f"an earlier write failed ({self._log._failure}); open the log again")


class _SharedSync:
    """A sync shared by threads: one sync serves all threads that wrote before it began.

    After a failure every later call fails too, because the disk reports an error only once.
    """

    def __init__(self, values: KeyValues) -> None:
        self._values = values
        self._lock = threading.Lock()
        self._turn = threading.Condition(self._lock)
        self._n_waiting = 0
        self._is_syncing = False
        self._n_requested = 0
        self._n_served = 0
        self._failure: str | None = None

    def sync(self) -> None:
        """Wait until everything that this thread wrote is on disk."""
        has_turn = False
        n_requested = 0
        try:
            with self._lock:
                self._n_requested += 1
                number = self._n_requested
                self._n_waiting += 1
                while self._is_syncing and self._n_served < number:
                    self._turn.wait()
                self._n_waiting -= 1
                if self._failure is not None:
                    raise StorageError(self._failure)
                if self._n_served >= number:
                    return
                n_requested = self._n_requested
                has_turn = self._is_syncing = True
            self._values.sync()
        except BaseException as error:
            # Also an interruption by the user: others must not wait for this thread.
            if has_turn:
                self._failure = str(error) or type(error).__name__
            raise
        finally:
            if has_turn:
                with self._lock:
                    self._is_syncing = False
                    if self._failure is None:
                        self._n_served = n_requested
                    if self._n_waiting:
                        self._turn.notify_all()


def _write_ranges(records: Sequence[Record]) -> list[tuple[int, int]]:
    """Return ranges of rows, each small enough for one write to the engine."""
    if len(records) == 1:
        return [(0, 1)]
    starts = [0]
    n_bytes = 0
    for i, (_, data) in enumerate(records):
        n_bytes += len(data)
        is_full = n_bytes > _WRITE_BYTES_MAX or i - starts[-1] >= _WRITE_RECORDS_MAX
        if is_full and i > starts[-1]:
            starts.append(i)
            n_bytes = len(data)
    return list(zip(starts, [*starts[1:], len(records)], strict=True))


def holds_log(folder: Path) -> bool:
    """Return whether a folder of the engine holds a log: one that was created completely."""
    with KeyValues.open(folder, mode="reader", options=_OPTIONS) as values:
        return values.get(_FORMAT_KEY) is not None


def _read_or_write_format(values: KeyValues, n_partitions: int | None) -> dict[str, Any]:
    """Check the format of a log, or write that of a new log; return its metadata."""
    text = values.get(_FORMAT_KEY)
    if text is None:
        if values.mode == "reader":
            raise LedgerError(f"{values.folder} holds no log")
        if n_partitions is None:
            raise LedgerError(f"{values.folder} holds no log yet; give n_partitions to create it")
        new = {"format": FORMAT, "n_partitions": n_partitions}
        values.write([_FORMAT_KEY], [json.dumps(new).encode()], sync=True)
        return new
    about: dict[str, Any] = json.loads(text)
    if about["format"] > FORMAT:
        raise LedgerError(
            f"{values.folder} has format {about['format']}, and this version reads up to {FORMAT}; "
            "update recrawl"
        )
    if n_partitions not in (None, about["n_partitions"]):
        raise LedgerError(
            f"n_partitions must be {about['n_partitions']} for {values.folder}, got {n_partitions}"
        )
    return about
