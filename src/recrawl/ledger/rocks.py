"""The log of a node that needs no broker: one folder, one process, RocksDB.

A record's key is its partition (2 bytes) and its position (8 bytes), big-endian, so that keys are
in the order of records; its value is the schema number (2 bytes, big-endian) and the data.  What
the log says of itself stands behind the last partition: its format, and where each partition
begins.
"""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self, TypeAlias, get_args

from recrawl.errors import LedgerError, PositionLost, StorageError
from recrawl.kv import KeyValues, KvOptions, Mode
from recrawl.ledger.contract import (
    N_PARTITIONS_MAX,
    READ_BYTES_MAX,
    Record,
    Span,
    check_partition,
    check_records,
)

__all__ = ["FORMAT", "Durability", "RocksLedger", "RocksLog"]

Durability: TypeAlias = Literal["sync", "os"]

FORMAT = 1
_ABOUT = N_PARTITIONS_MAX.to_bytes(2, "big")
_FORMAT_KEY = _ABOUT + b"format"
_FIRST_KEY = _ABOUT + b"first"
# The engine keeps the interpreter's lock while it writes: about a millisecond per MB.
_WRITE_BYTES_MAX = 4 << 20
_WRITE_RECORDS_MAX = 10_000
# A log is written once and read in order, seldom: filters and a cache would be for nothing.  Its
# last write may be torn, which nobody was told of; anything else that is broken is not passed over.
_OPTIONS = KvOptions(
    write_buffer_bytes=32 << 20,
    block_cache_bytes=4 << 20,
    bloom_bits=0,
    block_bytes=64 << 10,
    torn_log="refuse",
)


class RocksLog:
    """The log of all partitions in one folder.

    Raises `LedgerError` where the engine or the disk fails.  `open` makes it.
    """

    def __init__(self, values: KeyValues, n_partitions: int, durability: Durability) -> None:
        self._values = values
        self._n_partitions = n_partitions
        self._syncs = _SharedSync(values) if durability == "sync" else None
        self._failure: str | None = None
        self._ledgers: dict[int, RocksLedger] = {}
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        folder: Path,
        n_partitions: int | None = None,
        *,
        durability: Durability = "sync",
        mode: Mode = "writer",
    ) -> Self:
        """Open the log in a folder; a writer makes it if there is none.

        Parameters
        ----------
        folder
            Of this log alone.
        n_partitions
            Fixed when the log is made, and checked later; None for however many there are.
        durability
            ``"sync"``: what is acknowledged survives a power cut.  ``"os"``: it survives a crash
            of this process, and the last seconds before a power cut may be lost.
        mode
            One process writes; ``"reader"`` reads beside it, and may see records some moments
            before they are acknowledged.

        Raises
        ------
        LockedError
            Another process writes.
        StorageError
            The folder cannot be read or written, or holds no log to read.
        LedgerError
            The log is of a newer format, or has another number of partitions.
        """
        if durability not in get_args(Durability):
            raise ValueError(
                f"durability must be one of {get_args(Durability)}, got {durability!r}"
            )
        if n_partitions is not None and not 1 <= n_partitions <= N_PARTITIONS_MAX:
            raise ValueError(f"n_partitions must be 1 to {N_PARTITIONS_MAX}, got {n_partitions}")
        values = KeyValues.open(folder, mode=mode, options=_OPTIONS)
        try:
            return cls(values, _agreed_partitions(values, n_partitions), durability)
        except BaseException:
            values.close()
            raise

    @property
    def n_partitions(self) -> int:
        """How many partitions the log has."""
        return self._n_partitions

    def partition(self, i: int) -> "RocksLedger":
        """Return the ledger of partition ``i``, the same one at every call."""
        check_partition(i, self._n_partitions)
        with self._lock:
            if i not in self._ledgers:
                self._ledgers[i] = RocksLedger(self, i)
            return self._ledgers[i]

    def close(self) -> None:
        """Close the folder; again does nothing."""
        self._values.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RocksLedger:
    """The log of one partition; `RocksLog.partition` makes it."""

    def __init__(self, log: RocksLog, i: int) -> None:
        self._log = log
        self._values = log._values
        self._prefix = i.to_bytes(2, "big")
        self._first_key = _FIRST_KEY + self._prefix
        self._lock = threading.RLock()
        self._first, self._end = self._found_bounds()

    @property
    def first(self) -> int:
        """Position of the earliest record that is kept; `end` where there is none."""
        with self._lock:
            self._look_again()
            return self._first

    @property
    def end(self) -> int:
        """Position after the last record."""
        with self._lock:
            self._look_again()
            return self._end

    def append(self, records: Sequence[Record]) -> Span:
        """Write records after the last one; see `Ledger.append`.

        Appends to several partitions from several threads share the waiting for the disk.
        """
        check_records(records)
        with self._lock:
            self._refuse_unless_writable()
            first = self._end
            if not records:
                return Span(first, first, True)
            try:
                for start, stop in _pieces(records):
                    keys = [self._key(first + i) for i in range(start, stop)]
                    values = [
                        schema.to_bytes(2, "big") + data for schema, data in records[start:stop]
                    ]
                    self._values.write(keys, values)
                if self._log._syncs is not None:
                    self._log._syncs.sync()
            except BaseException as error:  # also one that ends the process, should it go on
                self._log._failure = str(error) or type(error).__name__
                if isinstance(error, StorageError):
                    raise LedgerError(f"an append failed: {error}") from error
                raise
            self._end = first + len(records)
            return Span(first, self._end, True)

    def read(self, position: int, *, n_bytes_max: int = READ_BYTES_MAX) -> list[tuple[int, Record]]:
        """Return records from a position up to the end; see `Ledger.read`."""
        with self._lock:
            self._look_again()
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
                    f"records after position {position} are missing: the log is broken"
                )
            return records

    def sync(self) -> None:
        """Return when everything appended is on disk; see `Ledger.sync`."""
        with self._lock:
            self._refuse_unless_writable()
            if self._log._syncs is None:
                try:
                    self._values.write((), (), sync=True)
                except StorageError as error:
                    self._log._failure = str(error)
                    raise LedgerError(f"the log cannot be synced: {error}") from error

    def truncate(self, position: int) -> None:
        """Forget the records below a position; see `Ledger.truncate`."""
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
                    sync=self._log._syncs is not None,
                )
            except StorageError as error:
                self._log._failure = str(error)
                raise LedgerError(f"the log cannot be written: {error}") from error
            self._first = position

    def _key(self, position: int) -> bytes:
        return self._prefix + position.to_bytes(8, "big")

    def _found_bounds(self) -> tuple[int, int]:
        """Return the first position and the end, as they are on disk."""
        try:
            first = int.from_bytes(self._values.get(self._first_key) or b"", "big")
            keys_end = (int.from_bytes(self._prefix, "big") + 1).to_bytes(2, "big")
            for key, _ in self._values.scan(self._key(first), keys_end, reverse=True):
                return first, int.from_bytes(key[2:], "big") + 1
        except StorageError as error:
            raise LedgerError(f"the log cannot be read: {error}") from error
        return first, first

    def _look_again(self) -> None:
        """See what the writer has done since, if that is another process."""
        if self._values.mode == "reader":
            try:
                self._values.catch_up()
            except StorageError as error:
                raise LedgerError(f"the log cannot be read: {error}") from error
            self._first, self._end = self._found_bounds()

    def _refuse_unless_writable(self) -> None:
        if self._values.mode == "reader":
            raise LedgerError("the log is open for reading only")
        if self._log._failure is not None:
            raise LedgerError(f"an earlier write failed ({self._log._failure}); open the log again")


class _SharedSync:
    """Waiting for the disk, together: one sync serves all who wrote before it began.

    Once it failed it fails for everybody, because the disk says so only once.
    """

    def __init__(self, values: KeyValues) -> None:
        self._values = values
        self._turn = threading.Condition()
        self._is_syncing = False
        self._n_asked = 0
        self._n_served = 0
        self._failure: str | None = None

    def sync(self) -> None:
        """Return when all that this thread wrote is on disk."""
        with self._turn:
            self._n_asked += 1
            number = self._n_asked
            while self._is_syncing and self._n_served < number:
                self._turn.wait()
            if self._failure is not None:
                raise StorageError(self._failure)
            if self._n_served >= number:
                return
            self._is_syncing = True
            asked = self._n_asked
        try:
            self._values.write((), (), sync=True)
        except BaseException as error:
            self._failure = str(error) or type(error).__name__
            raise
        finally:
            with self._turn:
                self._is_syncing = False
                if self._failure is None:
                    self._n_served = asked
                self._turn.notify_all()


def _pieces(records: Sequence[Record]) -> list[tuple[int, int]]:
    """Return ranges of records, each small enough for one write."""
    starts = [0]
    n_bytes = 0
    for i, (_, data) in enumerate(records):
        n_bytes += len(data)
        is_full = n_bytes > _WRITE_BYTES_MAX or i - starts[-1] >= _WRITE_RECORDS_MAX
        if is_full and i > starts[-1]:
            starts.append(i)
            n_bytes = len(data)
    return list(zip(starts, [*starts[1:], len(records)], strict=True))


def _agreed_partitions(values: KeyValues, n_partitions: int | None) -> int:
    """Return how many partitions the log has; write it down if the log is new."""
    found = values.get(_FORMAT_KEY)
    if found is None:
        if values.mode == "reader":
            raise LedgerError(f"{values.folder} holds no log")
        if n_partitions is None:
            raise LedgerError(f"{values.folder} holds no log yet: say how many partitions it has")
        about = json.dumps({"format": FORMAT, "n_partitions": n_partitions})
        values.write([_FORMAT_KEY], [about.encode()], sync=True)
        return n_partitions
    about = json.loads(found)
    if about["format"] > FORMAT:
        raise LedgerError(
            f"{values.folder} is of format {about['format']}, this version knows {FORMAT} at most"
        )
    if n_partitions not in (None, about["n_partitions"]):
        raise LedgerError(
            f"n_partitions must be {about['n_partitions']} for {values.folder}, got {n_partitions}"
        )
    return int(about["n_partitions"])
