"""The interface of every ledger, which lets a node write to any of them.

A *log* has partitions; the *ledger* of a partition holds its records in order, each at a position.
Positions are integers that grow by one per record and are never used twice.  A ledger does not
interpret its records.

`recrawl.testing.LEDGER_CHECKS` checks the interface; any other implementation can run these checks.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

__all__ = [
    "N_PARTITIONS_MAX",
    "READ_BYTES_MAX",
    "RECORD_BYTES_MAX",
    "SCHEMA_MAX",
    "AppendedSpan",
    "Ledger",
    "Log",
    "ParallelLedger",
    "PendingAppend",
    "Record",
    "ReopenableLog",
    "check_partition",
    "check_records",
]

SCHEMA_MAX = 0xFFFF
"""The highest schema number, which takes two bytes."""
RECORD_BYTES_MAX = 7 << 20
"""The longest record: it fits a broker's limit of 8 MiB per message, with room for headers."""
READ_BYTES_MAX = 16 << 20
"""Default limit of the bytes that one `Ledger.read` returns."""
N_PARTITIONS_MAX = 0xFFFF
"""The highest number of partitions of a log."""


class Record(NamedTuple):
    """A record of the log: opaque bytes and the number of their schema."""

    schema: int
    data: bytes


class AppendedSpan(NamedTuple):
    """The positions of the records of one append."""

    first: int
    """Position of the first record."""
    end: int
    """Position after the last record."""
    is_whole: bool
    """Whether the records are at first, first + 1, …, without records of other writers between."""
    scattered: tuple[int, ...] = ()
    """Position of each record, where they are not adjacent."""

    @property
    def positions(self) -> Sequence[int]:
        """The position of each record."""
        return range(self.first, self.end) if self.is_whole else self.scattered


@runtime_checkable
class Ledger(Protocol):
    """The log of one partition.

    Its methods may be called from several threads; appends happen one after the other.
    """

    @property
    def first(self) -> int:
        """Position of the earliest record that the log still holds; `end` if it holds none."""
        ...

    @property
    def end(self) -> int:
        """Position after the last record of any writer; a ledger with a broker asks the broker.

        It never decreases, not even when all records have been removed.
        """
        ...

    def append(self, records: Sequence[Record]) -> AppendedSpan:
        """Write records after the last one, in their order, and return their positions.

        All of them are durable when it returns.  Appending no records writes nothing.

        Raises
        ------
        LedgerError
            All, some or none of the records may be in the log then, or appear in it later.  The
            ledger refuses further appends until the log is opened again.
        ValueError
            A record is longer than `RECORD_BYTES_MAX`, or its schema is out of range; nothing has
            been written, and the ledger stays usable.
        """
        ...

    def read(self, position: int, *, n_bytes_max: int = READ_BYTES_MAX) -> list[tuple[int, Record]]:
        """Return records with their positions, from a position up to the current end, in order.

        It returns fewer records only if all together would be longer than ``n_bytes_max``, but at
        least one.  At the end it returns none.

        Raises
        ------
        PositionLost
            The position is below `first` or beyond `end`: it comes from another log, or the log
            has lost its end.
        LedgerError
            The log cannot be read.
        """
        ...

    def sync(self) -> None:
        """Wait until everything appended is on disk.

        It returns at once if `append` waits for that already.

        Raises
        ------
        LedgerError
            The records cannot be made durable.
        """
        ...

    def truncate(self, position: int) -> None:
        """Remove the records below a position, which becomes `first`; never moves `first` back.

        Raises
        ------
        ValueError
            The position is beyond `end`.
        """
        ...


class PendingAppend(Protocol):
    """An append whose records are on their way."""

    def wait(self, seconds_max: float) -> bool:
        """Wait until `finish` would return or raise at once; return whether it would.

        Parameters
        ----------
        seconds_max
            Longest time since the append was begun; 0 only looks.
        """
        ...

    def finish(self) -> AppendedSpan:
        """Wait until the records are durable; return their positions, as `Ledger.append` does."""
        ...


@runtime_checkable
class ParallelLedger(Protocol):
    """A ledger whose appends can be under way together with those of other partitions."""

    def begin_append(self, records: Sequence[Record]) -> PendingAppend:
        """Send records without waiting for them; the caller must `finish` the append.

        Begin no other append of this partition before that.  Errors are those of `Ledger.append`.
        """
        ...


@runtime_checkable
class Log(Protocol):
    """The ledgers of all partitions, opened together."""

    @property
    def n_partitions(self) -> int:
        """Number of partitions of the log."""
        ...

    @property
    def corpus_id(self) -> str | None:
        """Id of the corpus whose log this is, 32 hexadecimal digits; None if it has none yet."""
        ...

    def identify(self, corpus_id: str) -> None:
        """Record the id of the corpus in a log that has none yet.

        Raises
        ------
        IdentityError
            The log belongs to another corpus.
        """
        ...

    def partition(self, i: int) -> Ledger:
        """Return the ledger of partition ``i``; every call returns the same object."""
        ...

    def close(self) -> None:
        """Release files, connections and threads; the log's ledgers are unusable afterwards."""
        ...


@runtime_checkable
class ReopenableLog(Protocol):
    """A log of which one partition can be opened again, while the others are used."""

    def reopen_partition(self, i: int) -> Ledger:
        """Return a new ledger of partition ``i``, after an append of the former one has failed.

        Raises
        ------
        IdentityError
            Another log has taken the place of this one meanwhile.
        """
        ...


def check_records(records: Sequence[Record]) -> None:
    """Raise `ValueError` for records that no ledger accepts."""
    for schema, data in records:
        if not 0 <= schema <= SCHEMA_MAX:
            raise ValueError(f"schema must be 0 to {SCHEMA_MAX}, got {schema}")
        if len(data) > RECORD_BYTES_MAX:
            raise ValueError(
                f"a record must have at most {RECORD_BYTES_MAX} bytes, got {len(data)}"
            )


def check_partition(i: int, n_partitions: int) -> None:
    """Raise `ValueError` for a partition that the log does not have."""
    if not 0 <= i < n_partitions:
        raise ValueError(f"partition must be 0 to {n_partitions - 1}, got {i}")
